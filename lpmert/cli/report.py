"""`lpmert report`: one page about results; and the page or picture that other commands make of theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.options import argument, option, scale, time_limit
from lpmert.cli.progress import Stages
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.running import ExitCode, Quiet, naming, say
from lpmert.cli.search import command
from lpmert.findings import Outcome
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.reporting.page import Page as MadePage


@dataclass(frozen=True)
class _Lists(Reading):
    heading = "Data"

    data: tuple[str, ...] = option("FILE", "The lists or lattices of the results.", default=())


@dataclass(frozen=True)
class Page:
    """The page that a command writes about its own outcome."""

    report: str | None = option("FILE", "Write one page (HTML), as `lpmert report` does.")

    def __post_init__(self) -> None:
        """Check that it can be drawn, before anything is searched."""
        if self.report is not None:
            from lpmert.reporting.pictures import check_installed

            check_installed("jinja2", "matplotlib")

    def write(self, outcome: Outcome, data: Any, metric: Any, lists: Reading, out: Quiet) -> int:
        """Write the page about an outcome and its lists, if there is a file for it; return the exit code of that."""
        if self.report is None:
            return ExitCode.FINISHED
        from lpmert.reporting.documents import documents
        from lpmert.reporting.page import drawing, page_of

        with naming(lists.name), drawing(None, 0.0) as stop:
            on_stage = Stages(out)
            made = page_of(documents([outcome]), lambda: (data, metric), {}, None, None, lists.name, on_stage)
        return _write(self.report, made, stop, out)


@dataclass(frozen=True)
class Picture:
    picture: str | None = option("FILE", "Draw the result: FILE.png, FILE.svg or FILE.pdf.")

    def __post_init__(self) -> None:
        """Check that it can be drawn there, before anything is searched."""
        if self.picture is not None:
            from lpmert.reporting.pictures import check_picture

            check_picture(self.picture)

    def write(self, draw: Callable[[], Figure]) -> None:
        """Draw it, if it is wanted."""
        if self.picture is not None:
            from lpmert.reporting.pictures import write_picture

            write_picture(draw(), self.picture)


@command("report result.json -o page.html --data dev.tsv --segment utterance --features am,lm --loss errors")
def report(
    lists: _Lists,
    out: Quiet,
    results: tuple[str, ...] = argument("RESULT...", nargs=-1),
    output: str = option("-o --output FILE", "Where the page goes.", required=True),
    weights: Mapping[str, str] = option(
        "NAME=WEIGHTS", "More weights to show beside those of the results.", default=()
    ),
    surface: tuple[tuple[str, str], ...] = option(
        "A,B", "Draw the loss over two weights.  [default: pairs of the four most important]", default=()
    ),
    time_limit: float | None = time_limit(),
    scale: tuple[str, float] | None = scale(),
) -> int:
    """Write one page (HTML) about what solve, check, tune or compare wrote with -o.

    The page holds all it needs and fetches nothing. It shows the verdict, the bound and the best loss over time, and
    tables of what the RESULTs say. With the lists (--data, and the options with which they were read) it also shows the
    exact loss over any two weights and along each, which lists change between two weight vectors, with their texts side
    by side, and the closest decisions. All RESULTs must be of the same lists. At --time-limit, and at Ctrl-C, the page
    is written with the parts that are ready, and says which are missing; the exit code is then 3, or that of the
    signal.
    """
    from lpmert.reporting.documents import documents
    from lpmert.reporting.page import drawing, page_of
    from lpmert.system.files import writing_later

    started = time.perf_counter()
    if not lists.data and (lists.flags or lists.format or surface):
        raise click.UsageError("options about lists need the lists: give --data.")
    with writing_later(output), naming(lists.name) if lists.data else nullcontext(), Allowance().enforced():
        found = documents(results)

        def read() -> tuple[Any, Any]:
            if not lists.data:
                return None, None
            data = lists.read_whole()
            summed = lists.summed_metric(data)
            out.say(f"{lists.name}: {sizes(data)}")
            return data, summed

        with drawing(time_limit, started) as stop:
            made = page_of(found, read, weights, scale, surface or None, lists.name, Stages(out))
        return _write(output, made, stop, out)


def _write(path: str, made: MadePage, stop: Interrupts, out: Quiet) -> int:
    """Write a page, say how large it is or what it lacks, and return the exit code."""
    from lpmert.system.files import write_text

    write_text(path, made.text)
    if made.missing:
        why = "interrupted" if stop.pressed else "the time is over"
        say(f"{path}: {why}; the page lacks {', '.join(made.missing)}")
    else:
        out.say(f"{path}: {len(made.text.encode()) / 1e6:.1f} MB")
    if stop.pressed:
        return 128 + stop.number
    return ExitCode.STOPPED if made.missing else ExitCode.FINISHED
