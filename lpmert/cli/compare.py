"""`lpmert compare`: methods of this package, and weights that other tools found, on the same lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from lpmert.cli.arguments import WholeNumber, by_name, method_names, named, parse_weights, seconds
from lpmert.cli.options import command, option
from lpmert.cli.progress import Stages
from lpmert.cli.running import ExitCode, Output, delivering, exit_code, logging_to_stderr, naming, say
from lpmert.cli.search import HeldOut, Search, Start, Unseen, progress_of
from lpmert.cli.text import short, side_by_side
from lpmert.comparing.compare import (
    DEFAULT_METHODS,
    DEFAULT_ON_LATTICES,
    OPTIMUM_SECONDS,
    REPETITIONS,
    SEEDS,
)
from lpmert.comparing.comparison import summary
from lpmert.quoting import duration, number, visible
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.comparing.comparison import Comparison
    from lpmert.comparing.expected import CrossValidation
    from lpmert.comparing.run import Run
    from lpmert.result import Result
    from lpmert.search.method import Method


_BEST_OF = (1, 2, 5, 10)


@dataclass(frozen=True)
class _Compared(Unseen):
    """What is compared, and how."""

    methods: tuple[str, ...] | None = option(
        f"Methods to compare; see --method.  [default: {','.join(DEFAULT_METHODS)}; of lattices "
        f"{','.join(DEFAULT_ON_LATTICES)}]",
        type=method_names, metavar="A,B,C", group="What to compare",
    )  # fmt: skip
    weights: tuple[tuple[str, str], ...] = option(
        "Weights from another tool; may be repeated.",
        default=(), type=named(str, "WEIGHTS"), metavar="NAME=WEIGHTS", group="What to compare",
    )  # fmt: skip
    seeds: int = option(
        "Runs of each method that is random.",
        default=SEEDS, type=WholeNumber(min=1), metavar="N", group="What to compare",
    )  # fmt: skip
    optimum: str | None = option(
        "File written by `lpmert solve -o` for DATA; skips the search.",
        type=click.Path(), metavar="FILE", group="What to compare", rare=True,
    )  # fmt: skip
    run_time_limit: float | None = option(
        "Stop each run after this time.", type=seconds, metavar="SECONDS", group="Search", rare=True
    )
    repeat: int = option(
        "Draw the parts so often for --cv.", default=REPETITIONS, type=WholeNumber(min=1), metavar="N", rare=True
    )
    picture: str | None = option(
        "Draw what --cv finds: .png, .svg, .pdf.", type=click.Path(), metavar="FILE", group="Output", rare=True
    )


@command("compare dev.tsv --segment utterance --features am,lm --loss errors --methods och,grid --seeds 5")
def compare(search: Search, compared: _Compared, start: Start, held_out: HeldOut, out: Output) -> None:
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

    picture = compared.picture
    if picture is not None:
        if compared.cv is None:
            raise click.UsageError("--picture needs --cv.")
        check_picture(picture)
    if search.scale is not None:
        raise click.UsageError(
            "--scale does not apply here: the report shows no weights; the JSON output has them all."
        )
    chosen: dict[str, Method] = {}
    for name in dict.fromkeys(compared.methods or (DEFAULT_ON_LATTICES if search.whole else DEFAULT_METHODS)):
        chosen[name], search = search.for_method(name)
    limits = Limits(
        OPTIMUM_SECONDS if search.time_limit is None else search.time_limit,
        *(getattr(search, name) for name in ("node_limit", "gap", "target")),
    )
    named_weights = by_name(compared.weights, "--weights")

    with logging_to_stderr(out), delivering(out, picture) as deliver:
        known = None if compared.optimum is None else Result.load(compared.optimum)
        data, others = held_out.read(search, out)
        arguments = search.arguments(data)
        given = {name: parse_weights(text, data.names, "--weights") for name, text in named_weights.items()}
        with Interrupts() as stop:
            with naming(search.name), progress_of(out, limits.time_limit) as callback:
                comparison = compare_methods(
                    data,
                    list(chosen.values()),
                    seeds=compared.seeds,
                    held_out=others,
                    weights=given,
                    initial_weights=start.weights(data.names),
                    optimum=arguments["method"] if known is None else known,
                    optimum_limits=limits,
                    time_limit=compared.run_time_limit,
                    memory_limit=search.memory_limit,
                    cv=compared.cv,
                    repeat=compared.repeat,
                    groups=compared.of(data),
                    on_stage=None if out.quiet else Stages(),
                    on_run=None if out.quiet else _say_run,
                    callback=callback,
                    backend=search.backend or "processes",
                    **{name: arguments[name] for name in ("metric", "ties", "region", "jobs", "seed")},
                )
            searched = None if known is not None or comparison.optimum is None else comparison.optimum.status
            stopped = not comparison.complete and not stop.pressed
            code = ExitCode.STOPPED if stopped else exit_code(searched, stop)
            if not comparison.entries:
                say("stopped before the first run ended; nothing to compare")
                raise click.exceptions.Exit(code)
            if not out.quiet and out.output is None and not out.as_json:
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
        rows.append([entry.name, str(len(entry.runs)), *map(short, figures), p_value, duration(entry.seconds)])
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
        figures = [short(entry.here), short(entry.loss.value), "-" if width is None else f"{width:.3g}"]
        figures.append("-" if optimism is None else f"{100 * optimism:.1f} %")
        figures += [short(entry.held_out)] if held_out else []
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
        correlations = [short(entry.pearson), short(entry.spearman)] if held_out else []
        rows.append([entry.name, *(short(curve[n].loss) for n in _BEST_OF), *correlations])
        if held_out:
            rows.append(["  held out", *(short(curve[n].held_out_loss) for n in _BEST_OF), *("" for _ in correlations)])
    return rows if several else []
