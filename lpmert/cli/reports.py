"""Reports of outcomes: aligned text with the verdict last, pages (`lpmert report`) and pictures.

Tables fit the width of a terminal; in files and pipes they are written in full.
"""

from __future__ import annotations

import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli.options import argument, option, scale, time_limit
from lpmert.cli.progress import Stages
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.running import UNLIMITED, ExitCode, Quiet, exit_code, naming, say, width_of, wrapped
from lpmert.cli.search import command
from lpmert.findings import LOSS, Outcome, Unit
from lpmert.quoting import SHOWN_DECIMALS, number, visible
from lpmert.reporting.tables import (
    AVERAGED,
    Compared,
    bound,
    check_verdict,
    costs,
    figures,
    tuned_notes,
    tuned_table,
    tuned_verdict,
)
from lpmert.system.memory import Allowance

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, RenderableType
    from rich.table import Table as Grid

    from lpmert.errors import FloatArray
    from lpmert.reporting.documents import Material


_LABEL_WIDTH = 13


def column(heading: str, values: Sequence[float], decimals: int = SHOWN_DECIMALS) -> list[str]:
    """Return a heading and numbers below it, with aligned decimal points."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    form = "f" if not sizes or min(sizes) >= 10.0**-decimals else "e"
    return [heading, *(f"{value + 0.0:.{decimals}{form}}" for value in values)]


def side_by_side(columns: Sequence[Sequence[str]]) -> str:
    """Return columns next to each other, the first one left-aligned, the others right-aligned; no cell is cut.

    Columns that do not fit the terminal follow below, with the first column repeated.
    """
    console, first, others = _console(), columns[0], list(columns[1:])
    parts: list[str] = []
    while others or not parts:
        fitting = len(others)
        while fitting > 1 and _width(console, _aligned([first, *others[:fitting]])) > console.width:
            fitting -= 1
        parts.append(_text(console, _aligned([first, *others[:fitting]])))
        others = others[fitting:]
    return "\n\n".join(parts)


def weights_table(names: Iterable[str], weights: Mapping[str, Sequence[float]], decimals: int) -> str:
    """Return a table of weights by the headings of their columns; names: of the features."""
    return side_by_side([["feature", *names], *(column(heading, own, decimals) for heading, own in weights.items())])


def grid(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of rows under a heading, laid out by `side_by_side`."""
    return side_by_side(list(zip(heading, *rows, strict=True)))


def joined(*parts: str) -> str:
    """Return the parts of a report that are not empty, with blank lines between them."""
    return "\n\n".join(part for part in parts if part)


def labelled(rows: Sequence[tuple[str, str | Mapping[str, str]]]) -> str:
    """Return values next to their labels; a mapping becomes a nested table, and empty values are left out."""
    from rich.table import Table as Grid

    table = Grid.grid(padding=(0, 1))
    table.add_column(min_width=_LABEL_WIDTH, no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        if value:
            nested = None if isinstance(value, str) else _aligned([list(value), list(value.values())])
            table.add_row(visible(label), visible(str(value)) if nested is None else nested)
    return _text(_console(), table)


def _aligned(columns: Sequence[Sequence[str]]) -> Grid:
    from rich.table import Table as Grid

    table = Grid.grid(padding=(0, 2))
    for place in range(len(columns)):
        table.add_column(justify="right" if place else "left", overflow="fold")
    for row in zip(*columns, strict=True):
        table.add_row(*map(visible, row))
    return table


def _console() -> Console:
    from rich.console import Console

    return Console(
        file=io.StringIO(), width=width_of(sys.stdout), color_system=None, markup=False, emoji=False, highlight=False
    )


def _width(console: Console, table: RenderableType) -> int:
    return console.measure(table, options=console.options.update(max_width=UNLIMITED)).maximum


def _text(console: Console, table: RenderableType) -> str:
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


_FEWEST, _USUAL = 4, 6
"""Decimals of weights: the minimum, and the number if their ranges are unknown, which is that in decoders' files."""
_OF_RANGE = 2
"""Decimals of weights beyond those that resolve the narrowest range of a weight."""

Facts = list[tuple[str, str | Mapping[str, str]]]


def result_report(result: lpmert.Result, *, verbose: bool = False) -> str:
    """Return a result as text: weights, loss, bound, verdict; verbose: also times, counters, settings."""
    unit = result.unit or LOSS
    good = result.status.proved and not result.warnings
    weights = _weights({"weight": result}, result, verbose)
    return joined(weights, labelled(costs(result, unit)), verdict_line(result.message, good))


def check_report(check: lpmert.Check, *, verbose: bool = False) -> str:
    """Return a check as text: both weights, both losses or the bound, the verdict; verbose: as in `result_report`."""
    best = check.optimum
    unit = best.unit or LOSS
    facts: Facts = [*figures(check, unit), ("optimum" if best.status.proved else "best found", unit.text(best.loss))]
    facts += [] if best.status.proved else bound(best, unit)
    facts += [
        ("worse by", _excess(check, unit) if check.loss > best.loss else ""),
        ("search", best.message),
    ]
    weights: dict[str, lpmert.Result | lpmert.Check] = {"these weights": check}
    weights["better weights" if check.excess > 0 else "weights found"] = best
    good = check.excess == 0 and best.status.proved and check.inside and not (check.wins_by_ties or check.warnings)
    verdict = verdict_line(check_verdict(check.to_dict(), unit), good)
    return joined(_weights(weights, best, verbose), labelled(facts), verdict)


def evaluation_report(found: lpmert.Evaluation, names: Sequence[str], weights: Sequence[float], unit: Unit) -> str:
    """Return the loss of given weights as text."""
    facts = [*figures(found, unit), ("margin", "" if found.margin is None else f"{found.margin:.4g}")]
    return joined(weights_table(names, {"weight": weights}, _USUAL), labelled(facts))


def compared_report(content: Mapping[str, Any]) -> str:
    """Return a comparison as text: tables, notes, verdict; content: the comparison as JSON."""
    found = Compared(content)
    tables = [grid(table.heading, table.rows) for table in found.tables]
    return joined(*tables, "\n".join(map(visible, found.notes)), verdict_line(found.verdict, content["proved"]))


def tuned_report(tuned: lpmert.Tuned, *, verbose: bool = False) -> str:
    content, optimum = tuned.to_dict(), tuned.optimum
    costs = tuned_table(content)
    both = {costs.heading[1]: optimum.weights.tolist(), AVERAGED: tuned.averaged.weights.tolist()}
    weights = weights_table(tuned.names, both, _USUAL)
    facts: Facts = [("search", optimum.message)]
    if verbose:
        facts += [("seed", str(tuned.seed)), ("signature", tuned.signature), ("seconds", _seconds(tuned.seconds))]
    parts = [grid(costs.heading, costs.rows), "\n".join(tuned_notes(content)), labelled(facts)]
    return joined(weights, *parts, verdict_line(tuned_verdict(content), True))


def looped_report(looped: lpmert.Looped) -> str:
    first, best = looped.iterations[0], looped.iterations[looped.best - 1]
    rows = [[best.unit.name, *(best.unit.text(one.loss) for one in (first, best))]]
    if (unit := best.held_out_unit) is not None:
        rows.append([f"held-out {unit.name}", *(unit.text(one.held_out_loss) for one in (first, best))])
    both = {"first": [*first.weights.values()], "best": looped.weights.tolist()}
    facts: Facts = [("end", looped.reason), ("seed", str(looped.seed))]
    costs = grid(["", "first", f"iteration {best.number}"], rows)
    last = f"best weights: iteration {best.number} of {len(looped.iterations)}"
    weights = weights_table(looped.names, both, _USUAL)
    return joined(weights, costs, labelled(facts), verdict_line(last, True))


def decimals_of(result: lpmert.Result) -> int:
    """Return the decimals that show its weights: some more than the narrowest range of a weight needs."""
    if any(one.code == "digits" for one in result.warnings):
        return SHOWN_DECIMALS
    if result.cell is None:
        return _USUAL
    ends: FloatArray = result.cell.ranges
    width = min((high - low for low, high in ends.tolist() if high > low), default=math.inf)
    needed = _FEWEST if math.isinf(width) else math.ceil(-math.log10(width)) + _OF_RANGE
    return min(SHOWN_DECIMALS, max(_FEWEST, needed))


def verdict_line(text: str, good: bool) -> str:
    """Return the last line of a report, green if `good`, else yellow."""
    return click.style(wrapped(visible(text, "\n"), sys.stdout), fg="green" if good else "yellow", bold=True)


def _excess(check: lpmert.Check, unit: Unit) -> str:
    best = check.optimum
    least = _more(check.excess, best.loss, unit)
    if best.lower_bound is None or best.lower_bound >= best.loss:
        return least
    most = max(check.excess, check.loss - best.lower_bound)
    return f"at least {least}, at most {_more(most, best.lower_bound, unit)}"


def _more(losses: float, whole: float, unit: Unit) -> str:
    text = unit.counted(losses) if unit.counts else unit.difference(losses).lstrip("-")
    return f"{text} ({100 * losses / abs(whole):.2f}%)" if whole and unit.offset == 0.0 else text


def _weights(shown: Mapping[str, lpmert.Result | lpmert.Check], best: lpmert.Result, verbose: bool) -> str:
    """Return a table of weights by their headings, with the ranges of the best ones, and facts on these.

    verbose: also how they were found.
    """
    columns = {heading: outcome.weights.tolist() for heading, outcome in shown.items()}
    if best.cell is not None:
        columns |= dict(zip(("may fall to", "may rise to"), best.cell.ranges.T.tolist(), strict=True))
    names = [f"{name} (free)" if name in best.free else name for name in best.names]
    return joined(weights_table(names, columns, decimals_of(best)), labelled(_facts(best, verbose)))


def _seconds(by_phase: Mapping[str, float]) -> dict[str, str]:
    return {phase: f"{seconds:.3f}" for phase, seconds in by_phase.items()}


def _facts(result: lpmert.Result, verbose: bool) -> Facts:
    facts: Facts = []
    if result.limiting:
        facts.append(("limited by", f"{', '.join(result.limiting)}: the best choices go on beyond"))
    if result.free:
        facts.append(("free", "the other weights can make up for any weight of a free feature"))
    if result.whole:
        whole = ", ".join(f"{visible(name)} {value}" for name, value in result.whole.items())
        facts.append(("in whole numbers", f"{whole}: the choices are as good"))
    if verbose:
        facts += [
            ("inside by", {label: number(distance) for label, distance in result.region.items()}),
            ("loss", number(result.loss)),
            ("lower bound", number(result.lower_bound)),
            ("margin", number(result.margin)),
            ("method", f"{result.method}, seed {result.seed}"),
            ("signature", result.signature),
            ("seconds", _seconds(result.seconds)),
            ("work", {name.replace("_", " "): f"{count:,}" for name, count in result.counters.items()}),
        ]
    return facts


@dataclass(frozen=True)
class _Lists(Reading):
    heading = "Data"

    data: tuple[str, ...] = option("FILE", "The lists or lattices of the results.", default=())


@dataclass(frozen=True)
class Page:
    """The page that a command writes about its outcome."""

    report: str | None = option("FILE", "Write an HTML page, as `lpmert report` does.")

    def __post_init__(self) -> None:
        """Check before the search that the page can be drawn."""
        if self.report is not None:
            from lpmert.reporting.pictures import check_installed

            check_installed("jinja2", "matplotlib")

    def write(self, outcome: Outcome, data: Any, metric: Any, lists: Reading, out: Quiet) -> int:
        """Write the page about an outcome and its lists if --report is given; return the exit code of doing so."""
        if self.report is None:
            return ExitCode.FINISHED
        from lpmert.reporting.documents import Material, documents

        with naming(lists.name):
            found = documents([outcome])
            with_lists = partial(Material.of, found, data, metric, {}, None)
            return _write_page(self.report, out, Material.of(found, None, None, {}, None), with_lists)


def _write_page(
    path: str,
    out: Quiet,
    outcomes: Material,
    with_lists: Callable[[], Material],
    pairs: Sequence[tuple[str, str]] | None = None,
    time_limit: float | None = None,
    started: float | None = None,
) -> int:
    """Do as `write_page`, log the size of the page or the parts that it lacks, and return the exit code."""
    from lpmert.reporting.page import write_page

    missing, stop = write_page(path, outcomes, with_lists, pairs, time_limit, started, Stages(out))
    if missing:
        why = "interrupted" if stop.pressed else "time limit reached"
        say(f"{path}: {why}; the page lacks {', '.join(missing)}")
    else:
        out.say(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB")
    return exit_code(None, stop, not missing)


@dataclass(frozen=True)
class Picture:
    picture: str | None = option("FILE", "Draw the result to FILE.png, FILE.svg or FILE.pdf.")

    def __post_init__(self) -> None:
        """Check before the search that the picture can be drawn to this file."""
        if self.picture is not None:
            from lpmert.reporting.pictures import check_picture

            check_picture(self.picture)

    def write(self, draw: Callable[[], Figure]) -> None:
        """Draw the picture if --picture is given."""
        if self.picture is not None:
            from lpmert.reporting.pictures import write_picture

            write_picture(draw(), self.picture)


@command("report result.json -o page.html --data dev.tsv --segment utterance --features am,lm --loss errors")
def report(
    lists: _Lists,
    out: Quiet,
    results: tuple[str, ...] = argument("RESULT...", nargs=-1),
    output: str = option("-o --output FILE", "Write the page to FILE.", required=True),
    weights: Mapping[str, str] = option(
        "NAME=WEIGHTS", "More weights to compare with those of the results.", default=()
    ),
    surface: tuple[tuple[str, str], ...] = option(
        "A,B", "Draw the loss over two weights.  [default: pairs of the four most important]", default=()
    ),
    time_limit: float | None = time_limit(),
    scale: tuple[str, float] | None = scale(),
) -> int:
    """Write an HTML page about what solve, check, tune or compare wrote with -o.

    The page is one file and fetches nothing. It shows the verdict, the bound and the best loss over time, and tables of
    the RESULTs. With the lists (--data, and the options with which they were read) it also shows the exact loss over
    two weights and along each weight, the lists that change between two weight vectors, with their texts side by side,
    and the closest decisions. All RESULTs must be of the same lists. At --time-limit or Ctrl-C, the page is written
    with the parts that are ready, and says which are missing; the exit code is then 3, or that of the signal.
    """
    from lpmert.reporting.documents import Material, documents
    from lpmert.reporting.pictures import check_installed
    from lpmert.system.files import writing_later

    started = time.perf_counter()
    need_lists = (lists.flags, lists.format, lists.metric, lists.options, lists.deduplicate, weights, surface)
    if not lists.data and any(need_lists):
        raise click.UsageError("options about lists, and more weights, need the lists: give --data.")
    check_installed("jinja2", "matplotlib")
    with writing_later(output), naming(lists.name or results[0]), Allowance().enforced():
        found = documents(results)
        outcomes = Material.of(found, None, None, weights, scale)

        def with_lists() -> Material:
            if not lists.data:
                return outcomes
            data = lists.read_whole()
            out.say(f"{lists.name}: {sizes(data)}")
            return Material.of(found, data, lists.summed_metric(data), weights, scale)

        return _write_page(output, out, outcomes, with_lists, surface or None, time_limit, started)
