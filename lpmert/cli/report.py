"""`lpmert report`: one page about results."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import click

from lpmert.cli.arguments import Scale, by_name, named, pair, scale, seconds
from lpmert.cli.options import argument, command, option
from lpmert.cli.progress import Stages
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.running import ExitCode, Quiet, naming, say
from lpmert.system.memory import Allowance


@dataclass(frozen=True)
class _Results:
    """What the page is about."""

    heading = "Output"

    results: tuple[str, ...] = argument("RESULT...", nargs=-1, type=click.Path())
    output: str = option("Where the page goes.", "-o", "--output", required=True, type=click.Path(), metavar="FILE")
    weights: tuple[tuple[str, str], ...] = option(
        "Further weights to set beside those of the results; same syntax as for `lpmert check`.",
        default=(), type=named(str, "WEIGHTS"), metavar="NAME=WEIGHTS",
    )  # fmt: skip
    surface: tuple[tuple[str, str], ...] = option(
        "Two weights over which to draw the loss; may be repeated. [default: pairs of the four that matter most]",
        default=(), type=pair, metavar="A,B",
    )  # fmt: skip
    time_limit: float | None = option(
        "Write the page with what there is after this time.", type=seconds, metavar="SECONDS"
    )
    scale: Scale | None = option("Show all weights scaled so that this one is W.", type=scale, metavar="NAME=W")


@dataclass(frozen=True)
class _Lists(Reading):
    """The lists of the results."""

    data: tuple[str, ...] = option(
        "The lists or lattices of the results; may be repeated.", default=(), type=click.Path(), metavar="FILE"
    )


@command("report result.json -o page.html --data dev.tsv --segment utterance --features am,lm --loss errors")
def report(about: _Results, lists: _Lists, out: Quiet) -> None:
    """Write one page (HTML) about what solve, check, tune or compare wrote with -o.

    The page holds all it needs and fetches nothing. It shows the verdict, the bound and the best loss over time, and
    tables of what the RESULTs say. With the lists (--data, and the options with which they were read) it also shows the
    exact loss over any two weights and along each, which lists change between two weight vectors, with their texts side
    by side, and the closest decisions. All RESULTs must be of the same lists. At --time-limit, and at Ctrl-C, the page
    is written with the parts that there are, and says which it lacks; the exit code is then 3, or that of the signal.
    """
    from lpmert.reporting.documents import documents
    from lpmert.reporting.page import drawing, page_of
    from lpmert.system.files import write_text, writing_later

    started = time.perf_counter()
    output, time_limit = about.output, about.time_limit
    weights = by_name(about.weights, "--weights")
    if not lists.data and (lists.flags or lists.format or about.surface):
        raise click.UsageError("options about lists need the lists: give --data.")
    with writing_later(output), naming(lists.name) if lists.data else nullcontext(), Allowance().kept():
        found = documents(about.results)
        factor = None if about.scale is None else (about.scale.name, about.scale.value)

        def read() -> tuple[Any, Any]:
            if not lists.data:
                return None, None
            data = lists.read_whole()
            summed = lists.summed_metric(data)
            if not out.quiet:
                say(f"{lists.name}: {sizes(data)}")
            return data, summed

        with drawing(time_limit, started) as stop:
            stages = None if out.quiet else Stages()
            made = page_of(found, read, weights, factor, about.surface or None, lists.name, stages)
        write_text(output, made.text)
    if made.missing:
        why = "interrupted" if stop.pressed else "the time is over"
        say(f"{output}: {why}; the page lacks {', '.join(made.missing)}")
    elif not out.quiet:
        say(f"{output}: {len(made.text.encode()) / 1e6:.1f} MB")
    if stop.pressed:
        raise click.exceptions.Exit(128 + stop.number)
    raise click.exceptions.Exit(ExitCode.STOPPED if made.missing else ExitCode.FINISHED)
