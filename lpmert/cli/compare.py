"""`lpmert compare`: methods of this package, and weights that other tools found, on the same lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from lpmert.cli.arguments import PATH, POSITIVE, by_name, method_names, named, parse_weights, seconds
from lpmert.cli.options import command, option
from lpmert.cli.progress import Stages
from lpmert.cli.running import ExitCode, Output, delivering, exit_code, logging_to_stderr, naming, say
from lpmert.cli.search import HeldOut, Search, Start, Unseen, progress_of
from lpmert.cli.text import interval, side_by_side
from lpmert.comparing.compare import (
    DEFAULT_METHODS,
    DEFAULT_ON_LATTICES,
    OPTIMUM_SECONDS,
    REPETITIONS,
    SEEDS,
)
from lpmert.comparing.comparison import summary
from lpmert.quoting import duration, visible
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.comparing.comparison import Comparison, Run
    from lpmert.findings import Unit
    from lpmert.search.method import Method


_BEST_OF = (1, 2, 5, 10)
_DEFAULT = f"{','.join(DEFAULT_METHODS)}; of lattices {','.join(DEFAULT_ON_LATTICES)}"


@dataclass(frozen=True)
class _Methods:
    """What is compared."""

    heading = "What to compare"

    methods: tuple[str, ...] | None = option("A,B,C", f"Methods.  [default: {_DEFAULT}]", method_names)
    weights: tuple[tuple[str, str], ...] = option(
        "NAME=WEIGHTS", "Weights from another tool.", named(str, "WEIGHTS"), default=()
    )
    seeds: int = option("N", "Runs of each method that is random.", POSITIVE, default=SEEDS)
    optimum: str | None = option("FILE", "What `lpmert solve -o` wrote of DATA; skips the search.", PATH, rare=True)
    run_time_limit: float | None = option("SECONDS", "Stop each run after this time.", seconds, rare=True)


@dataclass(frozen=True)
class _Compared(Unseen, _Methods):
    """What is compared, and how."""

    heading = "Unseen lists"

    repeat: int = option("N", "Draw the parts so often for --cv.", POSITIVE, default=REPETITIONS, rare=True)
    picture: str | None = option("FILE", "Draw what --cv finds: .png, .svg, .pdf.", PATH, rare=True)


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
        data, others, there = held_out.read(search, out)
        arguments = search.arguments(data)
        unit = search.unit(data)
        given = {name: parse_weights(text, data.names, "--weights") for name, text in named_weights.items()}
        with Interrupts() as stop:
            with naming(search.name), progress_of(out, limits.time_limit, "runs of the methods") as callback:
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
                    on_run=None if out.quiet else partial(_say_run, unit, there),
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
            deliver(comparison.to_json, lambda: str(Tables(comparison, unit, there)))
            if picture is not None and comparison.unseen is not None:
                write_picture(cross_validation(comparison.unseen.to_dict()), picture)
    raise click.exceptions.Exit(code)


def _say_run(unit: Unit, held_out: Unit | None, name: str, run: Run) -> None:
    seed = "" if run.seed is None else f", seed {run.seed}"
    there = "" if run.held_out_loss is None or held_out is None else f", held out {held_out.short(run.held_out_loss)}"
    say(f"{visible(name)}{seed}: {unit.name} {unit.text(run.loss)}{there}, {duration(run.seconds)}")


@dataclass(frozen=True)
class Tables:
    """A comparison as text, in the units of its lists and of those held out."""

    of: Comparison
    unit: Unit
    held_out: Unit | None

    def __str__(self) -> str:
        """Return tables, notes and the verdict: what is best."""
        tables = [self._rows(), self._stability(), self._unseen()]
        parts = [side_by_side(list(zip(*rows, strict=True))) for rows in tables if len(rows) > 1]
        return "\n\n".join(part for part in (*parts, "\n".join(map(visible, self._notes())), self._best()) if part)

    def _best(self) -> str:
        optimum, unit = self.of.optimum, self.unit
        if optimum is None or optimum.lower_bound is None:
            return click.style(f"no bound on {unit.name} is known", fg="yellow", bold=True)
        if optimum.status.proved:
            return click.style(f"optimum: {unit.name} {unit.text(optimum.loss)}, proved", fg="green", bold=True)
        bound = f"{unit.bound} {unit.short(optimum.lower_bound, bound=True)}"
        found = f"best found: {unit.name} {unit.text(optimum.loss)}, {bound} ({optimum.message})"
        return click.style(found, fg="yellow", bold=True)

    def _of(self, losses: float | None, *, held_out: bool = False) -> str:
        unit = self.held_out if held_out else self.unit
        return "-" if losses is None or unit is None else unit.short(losses)

    def _by(self, losses: float | None) -> str:
        """Return a spread or an excess."""
        return "-" if losses is None else self.unit.difference(abs(losses)).lstrip("-")

    def _rows(self) -> list[list[str]]:
        """Return the cells of the table, its heading first."""
        held_out = any(entry.held_out_losses for entry in self.of.entries)
        distance = "to optimum" if self.of.proved else "to bound"
        heading = [self.unit.name, "runs", "mean", "best", "Delta", "S", distance]
        rows = [[*heading, *(["held out"] if held_out else []), "p", "time"]]
        for entry in self.of.entries:
            loss = summary(entry.losses)
            difference = entry.training if entry.held_out is None else entry.held_out
            figures = [*(self._of(loss[name]) for name in ("mean", "best"))]
            figures += [self._by(one) for one in (loss["delta"], loss["deviation"], self.of.excess(entry.best))]
            figures += [self._of(summary(entry.held_out_losses)["mean"], held_out=True)] if held_out else []
            p_value = "-" if difference is None else f"{difference.p_value:.3f}"
            rows.append([entry.name, str(len(entry.runs)), *figures, p_value, duration(entry.seconds)])
        return rows

    def _notes(self) -> list[str]:
        """Return what is odd about single entries, a line each."""
        notes = [] if self.of.complete else ["not all runs were made"]
        for entry in self.of.entries:
            best = entry.best
            if not best.inside:
                notes.append(f"{entry.name}: these weights lie outside the region")
            elif self.of.wins_by_ties(best):
                notes.append(f"{entry.name}: below the optimum only by ties, in {best.tied_lists:,} lists")
            elif best.tied_lists:
                notes.append(f"{entry.name}: {best.tied_lists:,} lists are tied at its best weights")
        if self.of.unseen is not None:
            drawn = f"{self.of.unseen.folds}-fold cross-validation, {self.of.unseen.repetitions} times"
            notes += [f"{drawn}: intervals of 95 % for lists from the same source", *self.of.unseen.notes]
        return notes

    def _unseen(self) -> list[list[str]]:
        """Return the cells of the table of cross-validation, its heading first; empty without one."""
        if self.of.unseen is None:
            return []
        unit, entries = self.unit, self.of.unseen.entries
        held_out = any(entry.held_out is not None for entry in entries)
        heading = [unit.name, "on these", "on unseen", "+-", "optimism", *(["held out"] if held_out else [])]
        rows = [[*heading, "difference", "95 %", "p"]]
        for entry in entries:
            optimism = "-" if entry.optimism is None else f"{100 * entry.optimism:.1f} %"
            figures = [self._of(entry.here), self._of(entry.loss.value), self._by(entry.loss.half_width), optimism]
            figures += [self._of(entry.held_out, held_out=True)] if held_out else []
            compared = ["-", "", "-"]
            if entry.difference is not None and entry.p_value is not None:
                compared = [unit.difference(entry.difference.value, sign=True), interval(unit, entry.difference)]
                compared.append(f"{entry.p_value:.3f}")
            rows.append([entry.name, *figures, *compared])
        return rows

    def _stability(self) -> list[list[str]]:
        """Return the cells of the table of what several runs are worth; empty if no method made several."""
        several = [entry for entry in self.of.entries if len(entry.runs) > 1]
        held_out = any(entry.held_out_losses for entry in several)
        rows = [["best of runs", *map(str, _BEST_OF), *(["Pearson", "Spearman"] if held_out else [])]]
        for entry in several:
            curve = {point.runs: point for point in entry.best_of()}
            correlations = [_short(entry.pearson), _short(entry.spearman)] if held_out else []
            rows.append([entry.name, *(self._of(curve[n].loss) for n in _BEST_OF), *correlations])
            if held_out:
                there = (self._of(curve[n].held_out_loss, held_out=True) for n in _BEST_OF)
                rows.append(["  held out", *there, *("" for _ in correlations)])
        return rows if several else []


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
