"""`lpmert tune`: weights for lists that nobody has seen yet, beside the optimum, with what either will cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from lpmert.cli.arguments import PARTS
from lpmert.cli.options import command, option
from lpmert.cli.progress import Stages
from lpmert.cli.report import Page
from lpmert.cli.reports import warned
from lpmert.cli.running import Output, delivering, exit_code, logging_to_stderr, naming
from lpmert.cli.search import HeldOut, Search, Sources, progress_of
from lpmert.cli.solve import say_outcome
from lpmert.cli.text import column, interval, labelled, side_by_side
from lpmert.cli.weights_out import WeightsOut
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.findings import Unit
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.estimate import Estimate
    from lpmert.unseen.tune import Tuned


_DECIMALS = 6
"""Of weights in the report: those that a decoder gets."""


@dataclass(frozen=True)
class _Estimated(Sources):
    """How losses on unseen lists are estimated."""

    heading = "Unseen lists"

    cv: int = option("N", "Parts for cross-validation.", PARTS, default=5)
    quick: bool = option("", "Estimate without cross-validation.", default=False)


@command(
    "tune dev.tsv --segment utterance --features am,lm --loss errors --held-out test.tsv --weights-out weights.txt"
)
def tune(
    search: Search, estimated: _Estimated, held_out: HeldOut, weights: WeightsOut, page: Page, out: Output
) -> None:
    """Find weights for lists that nobody has seen yet, from the lists or lattices in DATA.

    Weights that are best on the lists at hand have been fitted to their noise, too. This averages weights instead,
    estimates by cross-validation what both cost on unseen lists, and recommends one of them: the average, unless the
    optimum is clearly better. --method looks for the optimum, for a minute or until --time-limit, which is the limit of
    everything. --set NAME=VALUE is for that method, --set average.NAME=VALUE for the average: see `lpmert methods
    average`.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """
    weights.beside(out)
    page.check()
    averaging, search = search.for_method("average")
    from lpmert.unseen.tune import tune as tune_weights

    files = (out, weights.weights_out, page.report)
    with logging_to_stderr(out), delivering(*files, renews=[weights.updated]) as deliver:
        data, others, there = held_out.read(search, out)
        arguments = search.arguments(data)
        weights.check(data.names)
        with Interrupts() as stop:
            with naming(search.name), progress_of(out, search.time_limit, "averages") as callback:
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
            text = partial(_weights_text, weights, tuned, data, arguments)
            report = partial(tuned_report, tuned, search.unit(data), there, verbose=out.verbose > 0)
            deliver(tuned.to_json, weights.report(text, report))
            weights.save(text, out)
        drawn = page.write(tuned, data, arguments["metric"], search, out)
    raise click.exceptions.Exit(drawn or exit_code(tuned.optimum.status, stop))


def _weights_text(weights: WeightsOut, tuned: Tuned, data: Data, arguments: dict[str, Any]) -> str:
    from lpmert.api import problem_of
    from lpmert.formats.weights import keeps_loss

    problem = problem_of(data, arguments["metric"], arguments["ties"], arguments["region"])
    return weights.text(tuned.names, tuned.weights, keeps_loss(problem, tuned.weights))


def tuned_report(tuned: Tuned, unit: Unit, held_out: Unit | None, *, verbose: bool = False) -> str:
    """Return what `tune` found as text, in the units of the lists and of those held out."""
    from lpmert.unseen.tune import AVERAGED

    which = "the averaged weights" if tuned.recommended == AVERAGED else "the best weights on these lists"
    optimum, averaged = tuned.optimum, tuned.averaged
    best = "optimum" if optimum.status.proved else "best found"
    rows = [[unit.name, best, "averaged", ""]]
    rows.append(["on these lists", unit.short(optimum.loss), unit.short(averaged.loss), ""])
    if optimum.lower_bound is not None and not optimum.status.proved:
        rows.append([f"  {unit.bound}", unit.short(optimum.lower_bound, bound=True), "", ""])
    if tuned.estimate is not None:
        rows += _compared("expected on unseen lists", tuned.estimate, unit)
    elif averaged.quick is not None:
        rows.append(["expected on unseen lists", "-", unit.short(averaged.quick), ""])
    if tuned.held_out is not None:
        rows += _compared("on held-out lists", tuned.held_out, held_out or unit)
    weights = [
        ["feature", *tuned.names],
        column(best, optimum.weights.tolist(), _DECIMALS),
        column("averaged", averaged.weights.tolist(), _DECIMALS),
    ]
    facts: list[tuple[str, str | dict[str, str]]] = [
        ("seed", str(tuned.seed)),
        ("signature", tuned.signature),
        ("seconds", {stage: f"{seconds:.3f}" for stage, seconds in tuned.seconds.items()}),
    ]
    head = click.style(f"recommended for unseen lists: {which}", fg="green", bold=True)
    tables = [side_by_side(weights), side_by_side(list(zip(*rows, strict=True))), "\n".join(_remarks(tuned))]
    told = labelled([("search", optimum.message), *(facts if verbose else [])])
    return "\n\n".join([*tables, told, *warned(tuned.optimum), head])


def _compared(label: str, estimate: Estimate, unit: Unit) -> list[list[str]]:
    """Return the cells of two rows: losses with the interval of the average's, and their difference with its own."""
    averaged, difference = estimate.averaged, estimate.difference
    width = "" if averaged.half_width is None else f"+- {unit.difference(averaged.half_width).lstrip('-')}"
    change = unit.difference(difference.value, sign=True)
    return [
        [label, unit.short(estimate.optimum.value), unit.short(averaged.value), width],
        ["  difference", "", change, interval(unit, difference)],
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
