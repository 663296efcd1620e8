"""`lpmert compare`: methods of this package, and weights that other tools found, on the same lists."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.arguments import Registered, WholeNumber, column_names, nonnegative
from lpmert.cli.console import say
from lpmert.cli.delivery import ExitCode, delivering, exit_code
from lpmert.cli.figures import duration, number
from lpmert.cli.held_out import held_out_options, read_with_held_out
from lpmert.cli.main import _logging_to_stderr, naming
from lpmert.cli.progress import ProgressLog
from lpmert.cli.shared import Shared, shared_options
from lpmert.cli.stages import Stages
from lpmert.cli.text_tables import side_by_side
from lpmert.cli.unseen import Asked, source_option, sources_of
from lpmert.comparing.compare import (
    DEFAULT_METHODS,
    DEFAULT_ON_LATTICES,
    OPTIMUM_SECONDS,
    REPETITIONS,
    REPLICATIONS,
    SEEDS,
)
from lpmert.comparing.comparison import summary
from lpmert.quoting import quoted, visible
from lpmert.registry import METHODS
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    import re

    from lpmert.comparing.comparison import Comparison, CrossValidation, Run
    from lpmert.result import Result
    from lpmert.search.method import Method


_BEST_OF = (1, 2, 5, 10)
_ON_LATTICES = ",".join(DEFAULT_ON_LATTICES)


def _methods(text: str) -> tuple[str, ...]:
    """Return names of methods; raises `click.BadParameter` for others."""
    return tuple(Registered(METHODS).convert(name, None, None) for name in column_names(text))


def _weights_by_name(text: str) -> tuple[str, str]:
    """Return a name and its weights as they were given; raises `click.BadParameter` for anything else."""
    name, equals, weights = text.partition("=")
    if not name.strip() or not equals or not weights:
        raise click.BadParameter(f"{quoted(text)} is not of the form NAME=WEIGHTS, such as moses=weights.txt.")
    return name.strip(), weights


@click.command()
@shared_options
@click.option(
    "--methods",
    type=_methods,
    metavar="A,B,C",
    help=f"Methods to compare; see --method.  [default: {','.join(DEFAULT_METHODS)}; of lattices {_ON_LATTICES}]",
)
@click.option(
    "--seeds", type=WholeNumber(min=1), default=SEEDS, metavar="N", help="Runs of each method that is random."
)
@held_out_options
@click.option(
    "--weights",
    type=_weights_by_name,
    multiple=True,
    metavar="NAME=WEIGHTS",
    help="Weights from another tool; may be repeated.",
)
@click.option(
    "--initial-weights", metavar="WEIGHTS", help="Where methods start; same syntax as `lpmert check --weights`."
)
@click.option(
    "--optimum", type=click.Path(), metavar="FILE", help="File written by `lpmert solve -o` for DATA; skips the search."
)
@click.option("--run-time-limit", type=nonnegative, metavar="SECONDS", help="Stop each run after this time.")
@click.option(
    "--replications",
    type=WholeNumber(min=1),
    default=REPLICATIONS,
    metavar="N",
    help="Replications of the permutation test.",
)
@click.option("--cv", type=WholeNumber(min=2), metavar="N", help="Cross-validate everything, in N parts.")
@click.option(
    "--repeat", type=WholeNumber(min=1), default=REPETITIONS, metavar="N", help="Draw the parts so often for --cv."
)
@source_option
@click.option("--picture", type=click.Path(), metavar="FILE", help="Draw what --cv finds: .png, .svg, .pdf.")
def compare(
    methods: tuple[str, ...] | None,
    seeds: int,
    held_out: str | None,
    held_out_references: tuple[str, ...],
    weights: tuple[tuple[str, str], ...],
    initial_weights: str | None,
    optimum: str | None,
    run_time_limit: float | None,
    replications: int,
    cv: int | None,
    repeat: int,
    source: re.Pattern[str] | None,
    picture: str | None,
    **options: Any,
) -> None:
    """Compare methods, and weights that other tools found, on the lists in DATA.

    Every method runs on the same lists, with each of --seeds seeds if it is random, and is judged only by decoding.
    Then --method looks for the optimum, starting from the best weights found, for --time-limit seconds (60 by default).
    --set NAME=VALUE is for that method, --set METHOD.NAME=VALUE for one of those compared. WEIGHTS are as for `lpmert
    check`: numbers, pairs, or a file of this or another tool.

    The table has, for each method: the mean loss of its runs, the best one, Delta (greatest minus least) and S
    (standard deviation); how far the best run is above the optimum, or above its bound; its score if different from the
    loss; the mean loss on held-out lists; p, the p-value of the difference between the best run and that of the first
    method (on held-out lists if there are any); the median time of a run. Below the table: what to expect from the best
    of several runs.

    --cv N fits every method again N times --repeat times, each time to all lists but one part of N, and decodes that
    part; and the optimum likewise, for which --time-limit is shared out. A further table has the loss on these lists,
    the cross-validated one, the share of it that the former leaves out (optimism), and the difference from the first
    method, with intervals of 95 % and p-values that allow for parts that overlap.

    The exit code is 3 if a limit stopped the search for the optimum, or the memory limit the comparison. DATA is as for
    `lpmert solve`; of lattices all paths count unless --n-best asks for lists, which most methods need.
    """
    from lpmert.comparing.compare import compare as compare_methods
    from lpmert.reporting.pictures import check_picture, cross_validation, write_picture
    from lpmert.result import Limits, Result

    shared = Shared.of(**options)
    Asked(cv, source)
    if picture is not None:
        if cv is None:
            raise click.UsageError("--picture needs --cv.")
        check_picture(picture)
    if shared.scale is not None:
        raise click.UsageError(
            "--scale does not apply here: the report shows no weights; the JSON output has them all."
        )
    chosen: dict[str, Method] = {}
    if methods is None:
        methods = DEFAULT_ON_LATTICES if shared.reading.whole else DEFAULT_METHODS
    for name in dict.fromkeys(methods):
        chosen[name], shared = shared.for_method(name)
    limits = Limits(
        OPTIMUM_SECONDS if shared.time_limit is None else shared.time_limit,
        *(getattr(shared, name) for name in ("node_limit", "gap", "target")),
    )
    names = [name for name, _ in weights]
    if len(set(names)) < len(names):
        raise click.UsageError("--weights gives a name twice.")

    with _logging_to_stderr(shared), delivering(shared, picture) as deliver:
        known = None if optimum is None else Result.load(optimum)
        data, others = read_with_held_out(shared, held_out, held_out_references)
        with naming(shared.reading.name):
            shared = shared.on(data)
        arguments = shared.search_arguments()
        start = None if initial_weights is None else shared.weights(initial_weights, "--initial-weights")
        given = {name: shared.weights(text, "--weights") for name, text in weights}
        with Interrupts() as stop:
            progress = nullcontext() if shared.quiet else ProgressLog(time_limit=limits.time_limit)
            with naming(shared.reading.name), progress as callback:
                comparison = compare_methods(
                    data,
                    list(chosen.values()),
                    seeds=seeds,
                    held_out=others,
                    weights=given,
                    initial_weights=start,
                    optimum=arguments["method"] if known is None else known,
                    optimum_limits=limits,
                    time_limit=run_time_limit,
                    memory_limit=shared.memory_limit,
                    replications=replications,
                    cv=cv,
                    repeat=repeat,
                    groups=sources_of(data, source),
                    on_stage=None if shared.quiet else Stages(),
                    on_run=None if shared.quiet else _say_run,
                    callback=callback,
                    backend=shared.backend or "processes",
                    **{name: arguments[name] for name in ("metric", "ties", "region", "jobs", "seed")},
                )
            searched = None if known is not None or comparison.optimum is None else comparison.optimum.status
            stopped = not comparison.complete and not stop.pressed
            code = ExitCode.STOPPED if stopped else exit_code(searched, stop)
            if not comparison.entries:
                say("stopped before the first run ended; nothing to compare")
                raise click.exceptions.Exit(code)
            if not shared.quiet and shared.output is None and not shared.as_json:
                say("")
            deliver(comparison.to_json, partial(comparison_report, comparison))
            if picture is not None and comparison.unseen is not None:
                write_picture(cross_validation(comparison.unseen.to_dict()), picture)
    raise click.exceptions.Exit(code)


def _say_run(name: str, run: Run) -> None:
    seed = "" if run.seed is None else f", seed {run.seed}"
    there = "" if run.held_out_loss is None else f", held out {number(run.held_out_loss)}"
    say(f"{visible(name)}{seed}: loss {number(run.loss)}{there}, {duration(run.seconds)}")


def comparison_report(comparison: Comparison) -> str:
    """Return a comparison as text: the optimum, a line for each entry, and what several runs are worth."""
    parts = [_optimum(comparison.optimum)]
    tables = [_rows(comparison), _stability(comparison)]
    if comparison.unseen is not None:
        tables.append(_unseen(comparison.unseen))
    parts += [side_by_side(list(zip(*rows, strict=True))) for rows in tables if len(rows) > 1]
    return "\n\n".join([*parts, *(["\n".join(map(visible, notes))] if (notes := _notes(comparison)) else [])])


def _optimum(optimum: Result | None) -> str:
    if optimum is None or optimum.lower_bound is None:
        return click.style("no bound on the least loss is known", fg="yellow", bold=True)
    if optimum.status.proved:
        return click.style(f"the least loss is {number(optimum.loss)}, proved", fg="green", bold=True)
    found = f"the least loss lies between {number(optimum.lower_bound)} and {number(optimum.loss)}"
    return click.style(f"{found} ({optimum.message})", fg="yellow", bold=True)


def _rows(comparison: Comparison) -> list[list[str]]:
    """Return the cells of the table, its heading first."""
    held_out = any(entry.held_out_losses for entry in comparison.entries)
    distance = "to optimum" if comparison.proved else "to bound"
    scores = any(entry.best.score != entry.best.loss for entry in comparison.entries)
    heading = ["method", "runs", "mean", "best", "Delta", "S", distance]
    rows = [[*heading, *(["score"] if scores else []), *(["held out"] if held_out else []), "p", "time"]]
    for entry in comparison.entries:
        loss = summary(entry.losses)
        difference = entry.training if entry.held_out is None else entry.held_out
        figures = [*(loss[name] for name in ("mean", "best", "delta", "deviation")), comparison.excess(entry.best)]
        figures += [entry.best.score] if scores else []
        figures += [summary(entry.held_out_losses)["mean"]] if held_out else []
        p_value = "-" if difference is None else f"{difference.p_value:.3f}"
        rows.append([entry.name, str(len(entry.runs)), *map(_short, figures), p_value, duration(entry.seconds)])
    return rows


def _notes(comparison: Comparison) -> list[str]:
    """Return what is odd about single entries, a line each."""
    notes = [] if comparison.complete else ["not all runs were made"]
    for entry in comparison.entries:
        best = entry.best
        if not best.inside:
            notes.append(f"{entry.name}: these weights lie outside the region")
        elif comparison.wins_by_ties(best):
            notes.append(f"{entry.name}: below the optimum only by ties, in {best.tied_lists:,} lists")
        elif best.tied_lists:
            notes.append(f"{entry.name}: {best.tied_lists:,} lists are tied at its best weights")
    if comparison.unseen is not None:
        drawn = f"{comparison.unseen.folds}-fold cross-validation, {comparison.unseen.repetitions} times"
        notes += [f"{drawn}: intervals of 95 % for lists from the same source", *comparison.unseen.notes]
    return notes


def _unseen(found: CrossValidation) -> list[list[str]]:
    """Return the cells of the table of cross-validation, its heading first."""
    held_out = any(entry.held_out is not None for entry in found.entries)
    heading = ["method", "on these", "on unseen", "+-", "optimism", *(["held out"] if held_out else [])]
    rows = [[*heading, "difference", "95 %", "p"]]
    for entry in found.entries:
        width, optimism = entry.loss.half_width, entry.optimism
        figures = [_short(entry.here), _short(entry.loss.value), "-" if width is None else f"{width:.3g}"]
        figures.append("-" if optimism is None else f"{100 * optimism:.1f} %")
        figures += [_short(entry.held_out)] if held_out else []
        compared = ["-", "", "-"]
        if entry.difference is not None and entry.p_value is not None:
            ends = f"[{entry.difference.low:+.4g}, {entry.difference.high:+.4g}]"
            compared = [f"{entry.difference.value:+.4g}", ends, f"{entry.p_value:.3f}"]
        rows.append([entry.name, *figures, *compared])
    return rows


def _stability(comparison: Comparison) -> list[list[str]]:
    """Return the cells of the table of what several runs are worth; empty if no method made several."""
    several = [entry for entry in comparison.entries if len(entry.runs) > 1]
    held_out = any(entry.held_out_losses for entry in several)
    rows = [["best of runs", *map(str, _BEST_OF), *(["Pearson", "Spearman"] if held_out else [])]]
    for entry in several:
        curve = {point.runs: point for point in entry.best_of()}
        correlations = [_short(entry.pearson), _short(entry.spearman)] if held_out else []
        rows.append([entry.name, *(_short(curve[n].loss) for n in _BEST_OF), *correlations])
        if held_out:
            rows.append(
                ["  held out", *(_short(curve[n].held_out_loss) for n in _BEST_OF), *("" for _ in correlations)]
            )
    return rows if several else []


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"
