"""`lpmert solve`, `check` and `train`: the best weights, the excess loss of given weights, and trained weights."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import values
from lpmert.cli.options import given_weights, option, seed
from lpmert.cli.reading import Reading, flag, sizes
from lpmert.cli.reports import Page, check_report, result_report
from lpmert.cli.running import Output, Text, delivering, naming, say
from lpmert.cli.search import RegionOptions, ScaledSearch, StartOptions, WeightsOut, answer, command, configured
from lpmert.cli.sensitivity import best_with, counted_ties, numbers_of
from lpmert.limits import Allowance, Deadline, Interrupts, OutOfTime, heeding
from lpmert.quoting import LOSS
from lpmert.registry import METHODS

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.quoting import Unit


@command("solve dev.tsv --segment utterance --features am,lm --loss errors --scale am=1")
def solve(
    search: ScaledSearch,
    start: StartOptions,
    weights: WeightsOut,
    page: Page,
    out: Output,
    at_most: int | None = option(
        "K", "At most K weights other than 0; see `lpmert subsets`.", rare=True, group=RegionOptions.heading
    ),
    budget: tuple[str, float] | None = option(
        "COLUMN=MOST", "Limit on a second sum; see `lpmert pareto`.", rare=True, group=RegionOptions.heading
    ),
    certificate: str | None = option("FILE", "Write a proof for `lpmert verify`."),
    checkpoint: str | None = option("FILE", "Save the state of the search every minute and at the end.", rare=True),
    resume: bool = option("", "Continue from --checkpoint FILE, if it exists.", default=False, rare=True),
) -> int:
    """Find the weights with the least loss on the lists or lattices in DATA, and prove it.

    DATA are files or folders in any format that `lpmert convert` reads or writes, plain or compressed. Several are
    pooled by list; - is stdin. Options say what a file does not, such as which columns are features; see the help of
    `lpmert convert` and docs/formats.md. DATA can also be one TOML file with these options and those of the region, by
    their long names; options on the command line override it. Lattices are searched with all their paths, or with the
    best ones if --n-best is given.

    There is no time limit by default: the search ends with a proof. Ctrl-C stops it at any moment and keeps the best
    weights and their bound; the progress shows how it stands.

    A letter in the progress tells what found the best weights: I given weights, L line searches, C a cell of the
    weight space, S a selection, X exact arithmetic, W the sweep, E full enumeration, G parts solved separately, D and B
    combinations of LP-MERT and of its beam, M the mixed-integer program.

    For weights to use on unseen lists, see `lpmert tune`.

    --write chooses the form of the weights: `names` (lines NAME VALUE), `numbers` (as in Moses' weights.txt), `json`
    (names and all digits), `update` (replaces the weights in moses.ini), or the settings of a speech toolkit
    (docs/speech.md). Weights have six decimals, or more if six would change the loss. They go to --weights-out; without
    it, to stdout instead of the report.
    """
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint.")
    if at_most is not None and budget is not None:
        raise click.UsageError("--at-most and --budget cannot be combined; give one of them.")
    if at_most is not None and certificate is not None and search.ties == "best":
        raise click.UsageError("--certificate with --at-most counts ties at their worst; leave out --ties best.")
    if at_most is not None or budget is not None:
        of_one_search = {"checkpoint": checkpoint, "initial_weights": start.initial_weights, **search.stops}
        for name, value in of_one_search.items():
            if value is not None:
                other = "--budget" if at_most is None else "--at-most"
                raise click.UsageError(f"{flag(name)} is for a single search, without {other}.")
    if search.cosine and certificate is not None:
        raise click.UsageError("--certificate covers no --cosine; use --bounds or --linear, or write no certificate.")

    def find(ask: Any, data: Data, unit: Unit, *_: None) -> tuple[lpmert.Result, Text, str]:
        from lpmert.result import warned

        if at_most is not None:
            found = warned(best_with(ask, data, at_most, search))
        elif budget is not None:
            column, most = budget
            found = warned(ask(lpmert.within_budget, data, numbers_of(data, column, search), most, name=column))
        else:
            initial = start.weights(data.names)
            found = ask(lpmert.minimize, data, initial_weights=initial, checkpoint=checkpoint, resume=resume)
            found = replace(found, whole=_whole(ask, data, found, search))
        found = _as_shown(found, search, data, unit)
        return found, partial(result_report, found, verbose=out.verbose > 0), f"{found.message} ({found.cost})"

    return answer(
        search,
        out,
        find,
        *(certificate, checkpoint, page.report),
        weights=weights,
        renews=[start.initial_weights],
        draw=partial(page.write, search, out),
        finish=partial(_certify, certificate, at_most, budget, search, out),
    )


_MOST_NUMBERS = 10_000_000  # hypotheses times features above which whole weights would take seconds, and are left out


def _whole(ask: Any, data: Data, result: lpmert.Result, search: ScaledSearch) -> dict[str, int]:
    """Return whole weights that choose as well as proved ones; none for large lists or if the limits leave no room."""
    if result.status.proved and isinstance(data, lpmert.NBest) and data.n_hypotheses * data.n_features <= _MOST_NUMBERS:
        limits = Deadline(_seconds_left(search, result), memory=Allowance(search.memory_limit))
        with suppress(OutOfTime), limits.running(), heeding():
            return ask(lpmert.whole_weights, data, result) or {}
    return {}


def _seconds_left(search: ScaledSearch, result: lpmert.Result) -> float | None:
    return None if search.seconds_left is None else max(0.0, search.seconds_left - result.seconds["total"])


def _certify(
    path: str | None,
    at_most: int | None,
    budget: tuple[str, float] | None,
    search: ScaledSearch,
    out: Output,
    result: lpmert.Result,
    data: Data,
    stop: Interrupts,
) -> None:
    """Write the proof of a delivered optimum, if asked, in the time that is left; Ctrl-C stops only this."""
    if path is None:
        return
    with stop, Deadline(stop=lambda: stop.pressed).running(), heeding():
        if not stop.pressed and result.status not in (lpmert.Status.OPTIMAL, lpmert.Status.OPTIMAL_TO_TOLERANCE):
            say(f"no certificate written: {result.message}")
            return
        settings: dict[str, Any] = {"time_limit": _seconds_left(search, result)}
        if at_most is not None:
            settings |= {"at_most": at_most, "ties": counted_ties(search.ties) or "worst"}
        if budget is not None:
            column, most = budget
            numbers = numbers_of(data, column, search)
            settings |= {"budget": {column: most}, "second": None if isinstance(numbers, str) else numbers}
        with suppress(OutOfTime):
            if not stop.pressed:
                search.ask(out, result.unit or LOSS, lpmert.certify, data, result, path, **settings)
                return
        say("no certificate written: interrupted")


@command("check dev.tsv --segment utterance --features am,lm --loss errors --weights am=1,lm=9.5")
def check(search: ScaledSearch, page: Page, out: Output, weights: str = given_weights()) -> int:
    """Show how far given weights are from the least loss on the lists or lattices in DATA.

    WEIGHTS are numbers in the order of --features (--weights=-1,2), pairs (--weights am=1,lm=0.6), or a file: the
    output of `lpmert solve -o`, other JSON, lines NAME VALUE, or weights of Moses. DATA is as for `lpmert solve`.
    """

    def find(ask: Any, data: Data, unit: Unit, *_: None) -> tuple[lpmert.Check, Text, str]:
        found = ask(lpmert.check, data, values.parse_weights(weights, data.names, "--weights"))
        best = _as_shown(found.optimum, search, data, unit, found)
        found = replace(found, optimum=best, rates={**found.rates, **search.rates(unit, found.loss)})
        return found, partial(check_report, found, verbose=out.verbose > 0), f"{best.message} ({best.cost})"

    return answer(search, out, find, page.report, draw=partial(page.write, search, out))


def _as_shown(
    result: lpmert.Result, search: ScaledSearch, data: Data, unit: Unit, checked: lpmert.Check | None = None
) -> lpmert.Result:
    """Return a result with unit and rates, scaled as asked or as the checked weights unless that changes its loss."""
    result = replace(
        result,
        seconds={"read": search.read_seconds, **result.seconds},
        rates={**result.rates, **search.rates(unit, result.loss)},
        unit=unit,
    )
    factor = 1.0
    if search.scale is not None:
        try:
            factor = result.factor_to(*search.scale)
        except ValueError:
            say(f"not scaled: no positive factor brings {search.scale[0]} to {search.scale[1]:g}")
    elif checked is not None and not (search.fix or search.total):
        both = checked.weights.tolist(), result.weights.tolist()
        ones = [new for given, new in zip(*both, strict=True) if given == 1.0 and new > 0.0]
        norms = [math.fsum(map(abs, weights)) for weights in both]
        factor = 1.0 / ones[0] if ones else norms[0] / norms[1] if all(norms) else 1.0
    if factor == 1.0:
        return result
    scaled = result.times(factor)
    found = lpmert.evaluate(data, scaled.weights, metric=search.summed_metric(data), ties=search.ties)
    return scaled if (found.loss, found.tied_lists) == (result.loss, result.tied_lists) else result


_TRAINERS = "perceptron, boosting or msr"


@dataclass(frozen=True)
class _Training(Reading):
    heading = "Search"

    method: str = option(
        "NAME", f"{_TRAINERS}; see `lpmert methods`.", values.Registered(METHODS), default="perceptron"
    )
    seed: int = seed()


@command("train dev.tsv --segment utterance --features all --loss errors -o weights.json")
def train(lists: _Training, out: Output) -> None:
    """Train weights for huge numbers of features on the lists in DATA.

    A base feature keeps the weight 1. Features stay sparse, so there may be a hundred thousand. DATA is as for `lpmert
    solve`. The JSON has the weights by name; `lpmert check --weights` reads it.
    """
    from lpmert.methods.sparse import Trainer
    from lpmert.result import plain

    trainer = configured(lists.method, lists.method_settings)
    settings = trainer.settings()
    if not isinstance(trainer, Trainer):
        trouble = f"{lists.method} does not train on sparse features; give {_TRAINERS}."
        raise click.BadParameter(trouble, param_hint="--method")
    with naming(lists.name), Allowance().enforced(), delivering(out) as deliver:
        data = lists.read()
        found = trainer.train(data, metric=lists.summed_metric(data), seed=lists.seed)
        unit = lists.unit(data)
        with_base = f"{unit.text(found.loss_before)} with the base feature alone"
        costs = f"{unit.name} {unit.text(found.loss)}, {with_base}"
        out.say(f"{lists.name}: {sizes(data)}, {data.n_features:,} features")
        origin = {"method": settings, "seed": lists.seed, "fingerprint": data.fingerprint}
        document = {**plain(found, data.names), **origin}
        deliver(partial(json.dumps, document, allow_nan=False, indent=2), lambda: costs, costs)
