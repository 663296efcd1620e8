"""Commands that find, judge and use weights: `solve`, `tune`, `train`, `check`, `evaluate`, `compare` and `rerank`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli import options
from lpmert.cli.options import flag, given_weights, option, seed, time_limit, weights_of
from lpmert.cli.reports import Page, check_report, compared_report, evaluation_report, result_report, tuned_report
from lpmert.cli.running import ExitCode, Output, WeightsOutput, naming, say
from lpmert.cli.search import (
    OneSearch,
    Question,
    Reading,
    ReadingWithTies,
    RegionOptions,
    ScaledSearch,
    Unseen,
    asking,
    command,
    configured,
    sizes,
)
from lpmert.comparing import DEFAULT_METHODS, DEFAULT_ON_LATTICES, OPTIMUM_SECONDS, REPETITIONS, SEEDS
from lpmert.limits import Allowance, Deadline, OutOfTime, heeding
from lpmert.quoting import Unit, counted, duration, visible
from lpmert.registry import METHODS
from lpmert.reporting.tables import compared_verdict

if TYPE_CHECKING:
    from lpmert.comparing.comparison import Run


@command("solve dev.tsv --segment utterance --features am,lm --loss errors --scale am=1")
def solve(
    search: ScaledSearch,
    page: Page,
    out: WeightsOutput,
    at_most: int | None = option(
        "K", "At most K weights other than 0; see `lpmert subsets`.", rare=True, group=RegionOptions.heading
    ),
    budget: tuple[str, float] | None = option(
        "COLUMN=MOST", "Limit on a second sum; see `lpmert pareto`.", rare=True, group=RegionOptions.heading
    ),
    initial_weights: str | None = options.initial_weights(),
    certificate: str | None = option("FILE", "Write a proof for `lpmert verify`."),
    checkpoint: str | None = option("FILE", "Save the state of the search every minute and at the end.", rare=True),
    resume: bool = option("", "Continue from --checkpoint FILE, if it exists.", default=False, rare=True),
) -> ExitCode:
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

    --write chooses the form of the weights; docs/formats.md describes them. Weights have six decimals, or more if six
    would change the loss. They go to --weights-out; without it, to stdout instead of the report.
    """
    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint.")
    if at_most is not None and budget is not None:
        raise click.UsageError("--at-most and --budget cannot be combined; give one of them.")
    if at_most is not None and certificate is not None and search.ties == "best":
        raise click.UsageError("--certificate with --at-most counts ties at their worst; leave out --ties best.")
    if at_most is not None or budget is not None:
        of_one_search = {"checkpoint": checkpoint, "initial_weights": initial_weights, **search.stops}
        for name, value in of_one_search.items():
            if value is not None:
                other = "--budget" if at_most is None else "--at-most"
                raise click.UsageError(f"{flag(name)} is for a single search, without {other}.")
    if search.cosine and certificate is not None:
        raise click.UsageError("--certificate covers no --cosine; use --bounds or --linear, or write no certificate.")

    from lpmert.result import warned

    files = certificate, checkpoint, page.report
    with asking(search, out, *files, renews=[initial_weights]) as question:
        claim: dict[str, Any] = {}
        if at_most is not None:
            claim = {"at_most": at_most, "ties": search.counted_ties or "worst"}
            found = warned(_best_with(question, at_most, search.counted_ties))
        elif budget is not None:
            column, most = budget
            sums = search.second_sum(question.data, column)
            claim = {"budget": {column: most}, "second": None if isinstance(sums, str) else sums}
            found = warned(question.ask(lpmert.within_budget, sums, most, name=column))
        else:
            initial = weights_of(initial_weights, "--initial-weights")
            found = question.ask(lpmert.minimize, initial_weights=initial, checkpoint=checkpoint, resume=resume)
            found = replace(found, whole=_whole(question, found))
        found = _as_shown(question, search, found)
        report = partial(result_report, found, verbose=out.verbose > 0)
        question.deliver(found, report, f"{found.message} ({found.cost})")
        if certificate is not None:
            _certify(question, certificate, claim)
        page.write(question)
    return question.exit_code


def _best_with(question: Question, at_most: int, ties: str | None) -> lpmert.Result:
    """Return the best weights with at most so many features; raises `LimitError` if no search ended in time."""
    found = question.ask(lpmert.best_subsets, at_most=at_most, ties=ties)
    if not found.subsets:
        raise lpmert.LimitError("no weights found: no set of features was searched to the end; allow more time")
    best: lpmert.Result = found.subsets[-1].result
    unused = float(at_most - sum(weight != 0.0 for weight in best.weights.tolist()))
    return replace(best, region={**best.region, f"at most {at_most} features": unused})


_MOST_NUMBERS = 10_000_000  # hypotheses times features above which whole weights would take seconds, and are left out


def _whole(question: Question, result: lpmert.Result) -> dict[str, int]:
    """Return whole weights that choose as well as proved ones; none for large lists or if the limits leave no room."""
    data = question.data
    if result.status.proved and isinstance(data, lpmert.NBest) and data.n_hypotheses * data.n_features <= _MOST_NUMBERS:
        limits = Deadline(_seconds_left(question, result), memory=Allowance(question.search.memory_limit))
        with suppress(OutOfTime), limits.running(), heeding():
            return question.ask(lpmert.whole_weights, result) or {}
    return {}


def _seconds_left(question: Question, result: lpmert.Result) -> float | None:
    return None if question.seconds_left is None else max(0.0, question.seconds_left - result.seconds["total"])


def _certify(question: Question, path: str, claim: Mapping[str, Any]) -> None:
    """Write the proof of a delivered optimum in the time that is left; Ctrl-C stops only this."""
    result, stop = question.answer, question.stop
    with stop, Deadline(stop=lambda: stop.pressed).running(), heeding():
        if not stop.pressed and result.status not in (lpmert.Status.OPTIMAL, lpmert.Status.OPTIMAL_TO_TOLERANCE):
            say(f"no certificate written: {result.message}")
            return
        with suppress(OutOfTime):
            if not stop.pressed:
                question.ask(lpmert.certify, result, path, time_limit=_seconds_left(question, result), **claim)
                return
        say("no certificate written: interrupted")


def _as_shown(
    question: Question, search: ScaledSearch, result: lpmert.Result, checked: lpmert.Check | None = None
) -> lpmert.Result:
    """Return a result with unit and rates, scaled as asked or as the checked weights unless that changes its loss."""
    result = replace(
        result,
        seconds={"read": question.read_seconds, **result.seconds},
        rates={**result.rates, **search.rates(question.unit, result.loss)},
        unit=question.unit,
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
    found = question.ask(lpmert.evaluate, scaled.weights)
    return scaled if (found.loss, found.tied_lists) == (result.loss, result.tied_lists) else result


_UNSEEN = "Unseen lists"


@dataclass(frozen=True)
class _SearchForOptimum(OneSearch):
    time_limit: float | None = time_limit(f"{OPTIMUM_SECONDS:g} for the optimum")


@command("tune lists.toml --held-out test.tsv --weights-out weights.txt", heading=_UNSEEN)
def tune(
    search: _SearchForOptimum,
    unseen: Unseen,
    page: Page,
    out: WeightsOutput,
    cv: int = option("N", "Number of folds of cross-validation.", options.PARTS, default=5),
    quick: bool = option("", "Average without cross-validation.", default=False),
) -> ExitCode:
    """Find weights for unseen lists from the lists or lattices in DATA.

    The best weights for these lists also fit their noise. So tune also averages good weights, estimates by
    cross-validation what both cost on unseen lists, and recommends one: the average, unless the optimum is clearly
    better. --method searches for the optimum for a minute; --time-limit covers everything.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """

    with asking(search, out, page.report, unseen=unseen) as question:
        groups = unseen.sources(question.data)
        found = question.ask(lpmert.tune, held_out=question.held_out, groups=groups, folds=cv, quick=quick)
        optimum = replace(found.optimum, unit=question.unit)
        found = replace(found, optimum=optimum, held_out_unit=question.held_out_unit)
        report = partial(tuned_report, found, verbose=out.verbose > 0)
        question.deliver(found, report, f"{optimum.message} ({optimum.cost})")
        page.write(question)
    return question.exit_code


_TRAINERS = "perceptron, boosting or msr"


@dataclass(frozen=True)
class _Training(Reading):
    heading = "Search"

    method: str = option(
        "NAME", f"{_TRAINERS}; see `lpmert methods`.", options.Registered(METHODS), default="perceptron"
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
    with naming(lists.name), Allowance().enforced(), out.opened() as deliver:
        data = lists.read()
        found = trainer.train(data, metric=lists.summed_metric(data), seed=lists.seed)
        unit = lists.unit(data)
        with_base = f"{unit.text(found.loss_before)} with the base feature alone"
        costs = f"{unit.name} {unit.text(found.loss)}, {with_base}"
        out.say(f"{lists.name}: {sizes(data)}, {data.n_features:,} features")
        origin = {"method": settings, "seed": lists.seed, "fingerprint": data.fingerprint}
        document = {**plain(found, data.names), **origin}
        deliver(partial(json.dumps, document, allow_nan=False, indent=2), lambda: costs, costs)


@command("check dev.tsv --segment utterance --features am,lm --loss errors --weights am=1,lm=9.5")
def check(search: ScaledSearch, page: Page, out: Output, weights: str = given_weights()) -> ExitCode:
    """Show how far given weights are from the least loss on the lists or lattices in DATA.

    WEIGHTS are numbers in the order of --features (--weights=-1,2), pairs (--weights am=1,lm=0.6), or a file: the
    output of `lpmert solve -o`, other JSON, lines NAME VALUE, or weights of Moses. DATA is as for `lpmert solve`.
    """
    with asking(search, out, page.report) as question:
        found = question.ask(lpmert.check, weights_of(weights))
        best = _as_shown(question, search, found.optimum, found)
        found = replace(found, optimum=best, rates={**found.rates, **search.rates(question.unit, found.loss)})
        report = partial(check_report, found, verbose=out.verbose > 0)
        question.deliver(found, report, f"{best.message} ({best.cost})")
        page.write(question)
    return question.exit_code


@command("evaluate dev.tsv --segment utterance --features am,lm --loss errors --weights am=1,lm=9.5")
def evaluate(lists: ReadingWithTies, out: Output, weights: str = given_weights()) -> None:
    """Show what given weights cost on the lists or lattices in DATA, without a search.

    DATA is as for `lpmert solve`, WEIGHTS as for `lpmert check`. The JSON has the number of the hypothesis chosen from
    each list, counted from 0; for lattices, it has the best path.
    """
    from lpmert.api import evaluated, problem_of
    from lpmert.result import SCHEMA, plain

    with naming(lists.name), Allowance().enforced(), out.opened() as deliver:
        data = lists.read_whole()
        out.say(f"{lists.name}: {sizes(data)}")
        given = weights_of(weights).of_features(data.names).tolist()
        problem = problem_of(data, lists.summed_metric(data), lists.ties, None)
        found = evaluated(problem, given)
        unit = lists.unit(data)
        found = replace(found, rates={**found.rates, **lists.rates(unit, found.loss)})
        document = {
            "schema": SCHEMA,
            "weights": dict(zip(data.names, given, strict=True)),
            **plain(found),
            "list_ids": data.list_ids,
            "signature": f"lpmert:{lpmert.__version__}|{problem.signature}",
            "fingerprint": data.fingerprint,
        }
        deliver(
            partial(json.dumps, document, allow_nan=False, indent=2),
            partial(evaluation_report, found, data.names, given, unit),
        )


@command("compare lists.toml --methods och,grid --seeds 5", heading="What to compare")
def compare(
    search: _SearchForOptimum,
    unseen: Unseen,
    page: Page,
    out: Output,
    methods: tuple[str, ...] | None = option(
        "A,B,C",
        f"Methods.  [default: {','.join(DEFAULT_METHODS)}; for whole lattices {','.join(DEFAULT_ON_LATTICES)}]",
        options.method_names,
    ),
    weights: Mapping[str, str] = option("NAME=WEIGHTS", "Weights from another tool.", default=()),
    initial_weights: str | None = options.initial_weights(),
    seeds: int = option("N", "Runs of each random method.", default=SEEDS),
    run_time_limit: float | None = option("SECONDS", "Stop each run after this time.", rare=True),
    cv: int | None = option("N", "Use N-fold cross-validation.", options.PARTS, group=_UNSEEN),
    repeat: int = option(
        "N", "Repeat --cv this often, with other folds.", default=REPETITIONS, rare=True, group=_UNSEEN
    ),
) -> ExitCode:
    """Compare methods, and weights that other tools found, on the lists in DATA.

    Every method runs on the same lists, with each of --seeds seeds if it is random, and is judged only by decoding.
    Then --method searches for the optimum, from the best weights found, until --time-limit. --set NAME=VALUE is for
    that method, --set METHOD.NAME=VALUE for one of those compared. WEIGHTS are as for `lpmert check`: numbers, pairs,
    or a file of this or another tool.

    The first table is about these lists; with --cv, a second one compares losses on unseen lists. docs/comparators.md
    and docs/unseen.md explain their columns; those without figures are left out. The searches for the optimum of --cv
    share --time-limit.

    The exit code is 3 if a limit stopped the search for the optimum, or the memory limit stopped the comparison. DATA
    is as for `lpmert solve`. Lattices are used with all their paths; most methods need lists, which --n-best extracts.
    """
    if unseen.source is not None and cv is None:
        raise click.UsageError("--source needs --cv.")
    compared: dict[str, lpmert.methods.Method] = {}
    for name in dict.fromkeys(methods or (DEFAULT_ON_LATTICES if search.whole else DEFAULT_METHODS)):
        compared[name], search = search.for_method(name)
    if search.time_limit is None:
        search = replace(search, time_limit=OPTIMUM_SECONDS)

    with asking(search, out, page.report, unseen=unseen) as question:
        names, unit, held_out_unit = question.data.names, question.unit, question.held_out_unit
        found = question.ask(
            lpmert.compare,
            list(compared.values()),
            seeds=seeds,
            held_out=question.held_out,
            weights={name: weights_of(text).of_features(names) for name, text in weights.items()},
            initial_weights=weights_of(initial_weights, "--initial-weights"),
            optimum=configured(search.method, search.method_settings),
            optimum_limits=lpmert.Limits(search.time_limit, **search.stops),
            time_limit=run_time_limit,
            cv=cv,
            repeat=repeat,
            groups=unseen.sources(question.data),
            on_run=partial(_print_run, out, unit, held_out_unit),
        )
        if not found.methods:
            raise lpmert.LimitError("nothing to compare: it was stopped before the first run ended")
        found = replace(found, unit=unit, held_out_unit=held_out_unit)
        question.deliver(found, partial(compared_report, found), compared_verdict(found))
        page.write(question)
    return question.exit_code


def _print_run(out: Output, unit: Unit, held_out_unit: Unit | None, name: str, run: Run) -> None:
    seed = "" if run.seed is None else f", seed {run.seed}"
    held_out = ""
    if run.held_out_loss is not None and held_out_unit is not None:
        held_out = f", held out {held_out_unit.short(run.held_out_loss)}"
    out.say(f"{visible(name)}{seed}: {unit.name} {unit.text(run.loss)}{held_out}, {duration(run.seconds)}")


@dataclass(frozen=True)
class _Reranking(Reading):
    heading = "Data"

    weights: str = given_weights()
    vote: str | None = option(
        "COLUMN", "Sum the features of hypotheses with the same answer in this column, or in text."
    )

    def for_format(self) -> dict[str, Any]:
        """Return options for the reader; by default, features are those of the weights, and statistics need not be."""
        flags, takes = super().for_format(), self.in_format.reader_options
        if not any(flags.get(name) for name in ("references", "statistics_file", "last_field", "losses")):
            flags["references"] = False
        if "features" in takes and "features" not in flags:
            names = weights_of(self.weights).names
            if names:
                flags["features"] = ",".join(names)
        if self.vote is not None:
            if flags.get("text", self.vote) != self.vote:
                raise click.UsageError("--text and --vote name different columns; answers are the texts.")
            if "text" in takes:
                flags["text"] = self.vote
            elif self.vote != "text":
                raise click.UsageError(f"--vote must be text: {self.kind} has no columns, and texts are the answers.")
        return flags


@command("rerank test.tsv --segment utterance --weights weights.json")
def rerank(lists: _Reranking, out: Output) -> None:
    """Print the best hypothesis of each list in DATA as a line `ID<tab>TEXT`; DATA needs no losses.

    Without texts, it prints the number of the hypothesis in its list, counted from 0, as in the JSON.

    DATA is as for `lpmert solve`. In tables, the features are those that the weights name, unless --features is given.
    For lattices, it prints the best paths.

    --vote merges the hypotheses of a list that give the same answer, and sums their features. With a feature that is 1
    everywhere, this is weighted self-consistency. For formats without columns the answer is `text`.
    """
    with out.opened() as deliver:
        data: Any = lists.read_whole()
        if lists.vote is not None and lists.whole:
            raise click.UsageError("--vote needs N-best lists, not whole lattices; ask for some with --n-best.")
        out.say(f"{lists.name}: {sizes(data)}")
        given = weights_of(lists.weights)
        if lists.whole:
            data = lpmert.n_best(data, given, n=1)
        found = lpmert.rerank(data, given, vote=lists.vote is not None)
        if found.tied:
            lists_are = counted(found.tied, "list is", "lists are")
            out.say(f"{lists_are} tied: the first of the best hypotheses is picked.")
        deliver(found.to_json, lambda: str(found))
