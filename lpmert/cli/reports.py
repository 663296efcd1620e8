"""Reports of outcomes: aligned text with the verdict last, pages and pictures.

Tables fit the width of a terminal; in files and pipes they are written in full.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli.options import option
from lpmert.cli.running import UNLIMITED, width_of, wrapped
from lpmert.quoting import LOSS, SHOWN_DECIMALS, Unit, number, visible
from lpmert.reporting import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.cli.search import Question
    from lpmert.errors import FloatArray
    from lpmert.ranking import VerifiedRanking


Facts = Sequence[tuple[str, str]]


def column(heading: str, values: Sequence[float], decimals: int = SHOWN_DECIMALS) -> list[str]:
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    form = "f" if not sizes or min(sizes) >= 10.0**-decimals else "e"
    return [heading, *(f"{value + 0.0:.{decimals}{form}}" for value in values)]


def side_by_side(columns: Sequence[Sequence[str]]) -> str:
    """Return columns next to each other, the first one left-aligned, the others right-aligned; no cell is cut.

    Columns that do not fit the terminal follow below, with the first column repeated.
    """
    from rich.cells import cell_len

    fitting, width = len(columns), width_of(sys.stdout)
    while fitting > 2 and max(map(cell_len, _aligned(columns[:fitting]).splitlines())) > width:
        fitting -= 1
    if fitting == len(columns):
        return _aligned(columns, width)
    return f"{_aligned(columns[:fitting], width)}\n\n{side_by_side([columns[0], *columns[fitting:]])}"


def _aligned(columns: Sequence[Sequence[str]], width: int = UNLIMITED) -> str:
    fold: dict[str, Any] = {"overflow": "fold"}
    return _grid(zip(*columns, strict=True), width, 2, fold, *[fold | {"justify": "right"}] * (len(columns) - 1))


def _grid(rows: Iterable[Sequence[str]], width: int, padding: int, *columns: Mapping[str, Any]) -> str:
    """Return rows as lines of at most `width`, with so many blanks between columns, which rich lays out."""
    from rich.console import Console
    from rich.table import Table as Grid

    table, file = Grid.grid(padding=(0, padding)), io.StringIO()
    for one in columns:
        table.add_column(**one)
    for row in rows:
        table.add_row(*map(visible, row))
    Console(file=file, width=width, color_system=None, markup=False, emoji=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def weights_table(names: Iterable[str], weights: Mapping[str, Sequence[float]], decimals: int) -> str:
    return side_by_side([["feature", *names], *(column(heading, own, decimals) for heading, own in weights.items())])


def grid(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return side_by_side(list(zip(heading, *rows, strict=True)))


def joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def labelled(rows: Facts) -> str:
    shown = [row for row in rows if row[1]]
    return _grid(shown, width_of(sys.stdout), 1, {"min_width": 13, "no_wrap": True}, {"overflow": "fold"})


_FEWEST, _USUAL = 4, 6
"""Decimals of weights: the minimum, and the number if their ranges are unknown, which is that in decoders' files."""


def result_report(result: lpmert.Result, *, verbose: bool = False) -> str:
    """Return a result as text: weights, loss, bound, verdict; verbose: also times, counters, settings."""
    unit = result.unit or LOSS
    good = result.status.proved and not result.warnings
    weights = _weights({"weight": result}, result, verbose)
    return joined(weights, labelled(tables.costs(result, unit)), verdict_line(result.message, good))


def check_report(check: lpmert.Check, *, verbose: bool = False) -> str:
    """Return a check as text: both weights, both losses or the bound, the verdict; verbose: as in `result_report`."""
    best = check.optimum
    unit = best.unit or LOSS
    facts = [*tables.figures(check, unit), ("optimum" if best.status.proved else "best found", unit.text(best.loss))]
    facts += [] if best.status.proved else tables.bound(best, unit)
    facts += [("worse by", _excess(check, unit) if check.loss > best.loss else ""), ("search", best.message)]
    weights: dict[str, lpmert.Result | lpmert.Check] = {"these weights": check}
    weights["better weights" if check.excess > 0 else "weights found"] = best
    good = check.excess == 0 and best.status.proved and check.inside and not (check.wins_by_ties or check.warnings)
    verdict = verdict_line(tables.check_verdict(check, unit), good)
    return joined(_weights(weights, best, verbose), labelled(facts), verdict)


def evaluation_report(found: lpmert.Evaluation, names: Sequence[str], weights: Sequence[float], unit: Unit) -> str:
    facts = [*tables.figures(found, unit), ("margin", "" if found.margin is None else f"{found.margin:.4g}")]
    return joined(weights_table(names, {"weight": weights}, _USUAL), labelled(facts))


def compared_report(comparison: lpmert.Comparison) -> str:
    shown = [grid(table.heading, table.rows) for table in tables.compared_tables(comparison)]
    notes = "\n".join(map(visible, tables.compared_notes(comparison)))
    return joined(*shown, notes, verdict_line(tables.compared_verdict(comparison), comparison.proved))


def tuned_report(tuned: lpmert.Tuned, *, verbose: bool = False) -> str:
    optimum, costs = tuned.optimum, tables.tuned_table(tuned)
    both = {costs.heading[1]: optimum.weights.tolist(), tables.AVERAGED: tuned.averaged.weights.tolist()}
    weights = weights_table(tuned.names, both, _USUAL)
    facts = [("search", optimum.message)]
    if verbose:
        facts += [("seed", str(tuned.seed)), ("signature", tuned.signature), ("seconds", _seconds(tuned.seconds))]
    parts = [grid(costs.heading, costs.rows), "\n".join(tables.tuned_notes(tuned)), labelled(facts)]
    return joined(weights, *parts, verdict_line(tables.tuned_verdict(tuned), True))


def looped_report(looped: lpmert.Looped) -> str:
    first, best = looped.iterations[0], looped.iterations[looped.best - 1]
    rows = [[best.unit.name, *(best.unit.text(one.loss) for one in (first, best))]]
    if (unit := best.held_out_unit) is not None:
        rows.append([f"held-out {unit.name}", *(unit.text(one.held_out_loss) for one in (first, best))])
    both = {"first": [*first.weights.values()], "best": looped.weights.tolist()}
    facts = [("end", looped.reason), ("seed", str(looped.seed))]
    costs = grid(["", "first", f"iteration {best.number}"], rows)
    last = f"best weights: iteration {best.number} of {len(looped.iterations)}"
    weights = weights_table(looped.names, both, _USUAL)
    return joined(weights, costs, labelled(facts), verdict_line(last, True))


def verified_json(found: lpmert.Verified | VerifiedRanking) -> str:
    """Return what a certificate proves as JSON; exact numbers are rounded to the nearest doubles."""
    return json.dumps({**asdict(found), "proved": found.proved}, default=float, indent=2)


def decimals_of(result: lpmert.Result) -> int:
    """Return the decimals that show its weights: two more than the narrowest range of a weight needs."""
    if any(one.code == "digits" for one in result.warnings):
        return SHOWN_DECIMALS
    if result.cell is None:
        return _USUAL
    ends: FloatArray = result.cell.ranges
    width = min((high - low for low, high in ends.tolist() if high > low), default=math.inf)
    needed = 0 if math.isinf(width) else math.ceil(-math.log10(width)) + 2
    return min(SHOWN_DECIMALS, max(_FEWEST, needed))


def verdict_line(text: str, good: bool) -> str:
    return click.style(wrapped(visible(text, "\n"), sys.stdout), fg="green" if good else "yellow", bold=True)


def _excess(check: lpmert.Check, unit: Unit) -> str:
    """Return by how much the checked weights are worse than the best ones found; unknown ones may be better still."""
    best, excess = check.optimum, check.excess
    text = unit.counted(excess) if unit.counts else unit.difference(excess).lstrip("-")
    share = f" ({100 * excess / abs(best.loss):.2f}%)" if best.loss and unit.offset == 0.0 else ""
    return f"{text}{share}" if best.status.proved else f"at least {text}{share}"


def _weights(shown: Mapping[str, lpmert.Result | lpmert.Check], best: lpmert.Result, verbose: bool) -> str:
    """Return a table of weights by heading, and facts on the best ones; verbose: also how they were found."""
    columns = {heading: outcome.weights.tolist() for heading, outcome in shown.items()}
    if best.cell is not None:
        columns |= dict(zip(("may fall to", "may rise to"), best.cell.ranges.T.tolist(), strict=True))
    names = [f"{name} (free)" if name in best.free else name for name in best.names]
    return joined(weights_table(names, columns, decimals_of(best)), labelled(_facts(best, verbose)))


def _seconds(by_phase: Mapping[str, float]) -> str:
    return ", ".join(f"{phase} {seconds:.3f}" for phase, seconds in by_phase.items())


def _facts(result: lpmert.Result, verbose: bool) -> Facts:
    facts = []
    if result.limiting:
        facts.append(("limited by", f"{', '.join(result.limiting)}: the best choices go on beyond"))
    if result.free:
        facts.append(("free", "the other weights can make up for any weight of a free feature"))
    if result.whole:
        whole = ", ".join(f"{visible(name)} {value}" for name, value in result.whole.items())
        facts.append(("in whole numbers", f"{whole}: the choices are as good"))
    if verbose:
        facts += [
            ("inside by", ", ".join(f"{label}: {number(distance)}" for label, distance in result.region.items())),
            ("loss", number(result.loss)),
            ("lower bound", number(result.lower_bound)),
            ("margin", number(result.margin)),
            ("method", f"{result.method}, seed {result.seed}"),
            ("signature", result.signature),
            ("seconds", _seconds(result.seconds)),
            ("work", ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in result.counters.items())),
        ]
    return facts


@dataclass(frozen=True)
class Page:
    report: str | None = option("FILE", "Write an HTML page about the outcome.")

    def __post_init__(self) -> None:
        if self.report is not None:
            from lpmert.reporting.pictures import check_installed

            check_installed("jinja2", "matplotlib")

    def write(self, question: Question) -> None:
        if self.report is not None:
            data = question.data
            lpmert.report(question.answer, self.report, data=data, metric=question.search.summed_metric(data))
            question.out.say(f"{self.report}: {os.path.getsize(self.report) / 1e6:.1f} MB")


@dataclass(frozen=True)
class Picture:
    picture: str | None = option("FILE", "Draw the result to FILE.png, FILE.svg or FILE.pdf.")

    def __post_init__(self) -> None:
        if self.picture is not None:
            from lpmert.reporting.pictures import check_picture

            check_picture(self.picture)

    def write(self, draw: Callable[[Any], Figure]) -> None:
        """Write the figure that `draw` makes; it gets the module of all pictures."""
        if self.picture is not None:
            from lpmert.reporting import pictures

            pictures.write_picture(draw(pictures), self.picture)
