"""`lpmert tune`: weights for lists that nobody has seen yet, beside the optimum, with what either will cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from lpmert.cli.arguments import WholeNumber
from lpmert.cli.options import command, option
from lpmert.cli.progress import Stages
from lpmert.cli.reports import warned
from lpmert.cli.running import Output, delivering, exit_code, logging_to_stderr, naming
from lpmert.cli.search import HeldOut, Search, Sources, progress_of
from lpmert.cli.solve import say_outcome
from lpmert.cli.text import column, labelled, short, side_by_side
from lpmert.cli.weights_out import BesideOutcome, WeightsOut
from lpmert.quoting import number
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.formats.weights import Keeps
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.estimate import Estimate
    from lpmert.unseen.tuned import Tuned


@dataclass(frozen=True)
class _Estimated(Sources):
    """How losses on unseen lists are estimated."""

    cv: int = option("Parts for cross-validation.", default=5, type=WholeNumber(min=2), metavar="N")
    quick: bool = option("Estimate without cross-validation.", default=False)


@command(
    "tune dev.tsv --segment utterance --features am,lm --loss errors --held-out test.tsv --weights-out weights.txt"
)
def tune(search: Search, estimated: _Estimated, held_out: HeldOut, weights: WeightsOut, out: Output) -> None:
    """Find weights for lists that nobody has seen yet, from the lists or lattices in DATA.

    Weights that are best on the lists at hand have been fitted to their noise, too. This averages weights instead,
    estimates by cross-validation what both cost on unseen lists, and recommends one of them: the average, unless the
    optimum is clearly better. --method looks for the optimum, for a minute or until --time-limit, which is the limit of
    everything. --set NAME=VALUE is for that method, --set average.NAME=VALUE for the average: see `lpmert methods
    average`.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """
    averaging, search = search.for_method("average")
    beside = BesideOutcome.of(weights)
    from lpmert.unseen.tune import tune as tune_weights

    with logging_to_stderr(out), delivering(out, weights.weights_out) as deliver:
        data, others = held_out.read(search, out)
        arguments = search.arguments(data)
        with Interrupts() as stop:
            with naming(search.name), progress_of(out, search.time_limit) as callback:
                tuned = tune_weights(
                    data,
                    held_out=others,
                    groups=estimated.of(data),
                    folds=estimated.cv,
                    quick=estimated.quick,
                    averaging=cast("Averaging", averaging),
                    callback=callback,
                    on_stage=None if out.quiet else Stages(),
                    **arguments,
                )
            if not out.quiet:
                say_outcome(tuned.optimum, shown=not out.as_json and out.output is None)
            deliver(tuned.to_json, partial(tuned_report, tuned))
            beside.write(data.names, tuned.weights, partial(_keeps, tuned, data, arguments), scaled=True)
    raise click.exceptions.Exit(exit_code(tuned.optimum.status, stop))


def _keeps(tuned: Tuned, nbest: Data, arguments: dict[str, Any]) -> Keeps:
    from lpmert.asked import problem_of
    from lpmert.formats.weights import keeps_loss

    problem = problem_of(nbest, arguments["metric"], arguments["ties"], arguments["region"])
    return keeps_loss(problem, tuned.weights)


def tuned_report(tuned: Tuned) -> str:
    """Return what `tune` found as text."""
    from lpmert.unseen.tuned import AVERAGED

    which = "the averaged weights" if tuned.recommended == AVERAGED else "the optimum"
    optimum, averaged = tuned.optimum, tuned.averaged
    rows = [["", "optimum", "averaged", ""], ["on these lists", number(optimum.loss), number(averaged.loss), ""]]
    if optimum.score != optimum.loss:
        rows.append(["score on these lists", short(optimum.score), short(averaged.score), ""])
    if tuned.estimate is not None:
        rows += _compared("expected on unseen lists", tuned.estimate)
    elif averaged.quick is not None:
        rows.append(["expected on unseen lists", "-", short(averaged.quick), ""])
    if tuned.held_out is not None:
        rows += _compared("on held-out lists", tuned.held_out)
    weights = [
        ["feature", *tuned.names],
        column("optimum", optimum.weights.tolist()),
        column("averaged", averaged.weights.tolist()),
    ]
    facts: list[tuple[str, str | dict[str, str]]] = [
        ("search", optimum.message),
        ("lower bound", number(optimum.lower_bound)),
        ("seed", str(tuned.seed)),
        ("signature", tuned.signature),
        ("seconds", {stage: f"{seconds:.3f}" for stage, seconds in tuned.seconds.items()}),
    ]
    head = click.style(f"recommended for unseen lists: {which}", fg="green", bold=True)
    tables = [side_by_side(list(zip(*rows, strict=True))), "\n".join(_remarks(tuned)), side_by_side(weights)]
    return "\n\n".join([head, *warned(tuned.optimum), *tables, labelled(facts)])


def _compared(label: str, estimate: Estimate) -> list[list[str]]:
    """Return the cells of two rows: losses with the interval of the average's, and their difference with its own."""
    averaged, difference = estimate.averaged, estimate.difference
    width = "" if averaged.half_width is None else f"+- {averaged.half_width:.3g}"
    ends = "" if difference.low is None else f"[{difference.low:+.4g}, {difference.high:+.4g}]"
    return [
        [label, short(estimate.optimum.value), short(averaged.value), width],
        ["  difference", "", f"{difference.value:+.4g}", ends],
    ]


def _remarks(tuned: Tuned) -> list[str]:
    """Return how the figures came about, a line each."""
    found, averaged = [], tuned.averaged
    if tuned.estimate is not None:
        groups = "" if tuned.estimate.groups == tuned.n_lists else f", {tuned.estimate.groups:,} sources kept together"
        found.append(
            f"intervals of 95 %, {tuned.estimate.folds}-fold cross-validation of lists from the same source{groups}"
        )
    elif averaged.quick is not None:
        found.append("no cross-validation: expected by the variance along the chains")
    if tuned.optimism is not None:
        found.append(f"{100 * tuned.optimism:.1f} % of what the optimum will cost is hidden by optimism")
    if averaged.agreement is not None:
        found.append(f"{averaged.chains} chains of averages agree to {averaged.agreement:.3f}")
    return [*found, *tuned.notes]
