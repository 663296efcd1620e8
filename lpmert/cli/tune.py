"""`lpmert tune`: weights for lists that nobody has seen yet, beside the optimum, with what either will cost."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from lpmert.cli.arguments import WholeNumber
from lpmert.cli.delivery import delivering, exit_code
from lpmert.cli.figures import column, number
from lpmert.cli.held_out import held_out_options, read_with_held_out
from lpmert.cli.main import _logging_to_stderr, naming, say_outcome
from lpmert.cli.progress import ProgressLog
from lpmert.cli.reports import warned
from lpmert.cli.shared import Shared, shared_options
from lpmert.cli.stages import Stages
from lpmert.cli.text_tables import labelled, side_by_side
from lpmert.cli.unseen import source_option, sources_of
from lpmert.cli.weights_out import BesideOutcome
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    import re

    from lpmert.cli.reading import Data
    from lpmert.formats.weights import Keeps
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.estimate import Estimate
    from lpmert.unseen.tune import Tuned


@click.command()
@shared_options
@held_out_options
@source_option
@click.option("--folds", type=WholeNumber(min=2), default=5, metavar="N", help="Parts for cross-validation.")
@click.option("--quick", is_flag=True, help="Estimate without cross-validation.")
@click.option("--weights-out", type=click.Path(), metavar="FILE", help="Write the recommended weights.")
@click.option(
    "--weights-like", type=click.Path(), metavar="FILE", help="Write them as in this file: its form, order and scale."
)
def tune(
    held_out: str | None,
    held_out_references: tuple[str, ...],
    source: re.Pattern[str] | None,
    folds: int,
    quick: bool,
    weights_out: str | None,
    weights_like: str | None,
    **options: Any,
) -> None:
    """Find weights for lists that nobody has seen yet, from the lists or lattices in DATA.

    Weights that are best on the lists at hand have been fitted to their noise, too. This averages weights instead,
    estimates by cross-validation what both cost on unseen lists, and recommends one of them: the average, unless the
    optimum is clearly better. --method looks for the optimum, for a minute or until --time-limit, which is the limit of
    everything. --set NAME=VALUE is for that method, --set average.NAME=VALUE for the average: see `lpmert methods
    average`.

    The exit code is 3 if a limit stopped the search for the optimum. DATA is as for `lpmert solve`.
    """
    shared = Shared.of(**options)
    averaging, shared = shared.for_method("average")
    beside = BesideOutcome.of(weights_out, weights_like)
    from lpmert.unseen.tune import tune as tune_weights

    with _logging_to_stderr(shared), delivering(shared, weights_out) as deliver:
        nbest, others = read_with_held_out(shared, held_out, held_out_references)
        with naming(shared.reading.name):
            shared = shared.on(nbest)
        arguments = shared.search_arguments()
        groups = sources_of(nbest, source)
        with Interrupts() as stop:
            progress = nullcontext() if shared.quiet else ProgressLog(time_limit=shared.time_limit)
            with naming(shared.reading.name), progress as callback:
                tuned = tune_weights(
                    nbest,
                    held_out=others,
                    groups=groups,
                    folds=folds,
                    quick=quick,
                    averaging=cast("Averaging", averaging),
                    callback=callback,
                    on_stage=None if shared.quiet else Stages(),
                    **arguments,
                )
            if not shared.quiet:
                say_outcome(tuned.optimum, shown=not shared.as_json and shared.output is None)
            deliver(tuned.to_json, partial(tuned_report, tuned))
            beside.write(nbest.names, tuned.weights, partial(_keeps, tuned, nbest, arguments), scaled=True)
    raise click.exceptions.Exit(exit_code(tuned.optimum.status, stop))


def _keeps(tuned: Tuned, nbest: Data, arguments: dict[str, Any]) -> Keeps:
    from lpmert.asked import problem_of
    from lpmert.formats.weights import keeps_loss

    problem = problem_of(nbest, arguments["metric"], arguments["ties"], arguments["region"])
    return keeps_loss(problem, tuned.weights)


def tuned_report(tuned: Tuned) -> str:
    """Return what `tune` found as text."""
    from lpmert.unseen.tune import AVERAGED

    which = "the averaged weights" if tuned.recommended == AVERAGED else "the optimum"
    optimum, averaged = tuned.optimum, tuned.averaged
    rows = [["", "optimum", "averaged", ""], ["on these lists", number(optimum.loss), number(averaged.loss), ""]]
    if optimum.score != optimum.loss:
        rows.append(["score on these lists", _short(optimum.score), _short(averaged.score), ""])
    if tuned.estimate is not None:
        rows += _compared("expected on unseen lists", tuned.estimate)
    elif averaged.quick is not None:
        rows.append(["expected on unseen lists", "-", _short(averaged.quick), ""])
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
        [label, _short(estimate.optimum.value), _short(averaged.value), width],
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


def _short(value: float) -> str:
    return f"{value:.7g}"
