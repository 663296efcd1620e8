"""`lpmert report`: one page about results."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import click

from lpmert.cli.arguments import Scale, column_names, nonnegative, scale
from lpmert.cli.console import say
from lpmert.cli.delivery import ExitCode
from lpmert.cli.main import naming
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.reading_options import named, reading_options
from lpmert.cli.shared import metric_given, metric_option
from lpmert.cli.stages import Stages
from lpmert.system.memory import Allowance

_PAIR = 2


def _pair(text: str) -> tuple[str, str]:
    names = column_names(text)
    if len(names) != _PAIR:
        raise click.BadParameter(f"{text} is not two features, such as am,lm.")
    return names[0], names[1]


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(), metavar="RESULT...")
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE", help="Where the page goes.")
@click.option(
    "--data",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="The lists or lattices of the results; may be repeated.",
)
@reading_options
@metric_option
@click.option(
    "--weights",
    multiple=True,
    type=named(str, "WEIGHTS"),
    metavar="NAME=WEIGHTS",
    help="Further weights to set beside those of the results; same syntax as for `lpmert check`.",
)
@click.option(
    "--surface",
    "pairs",
    multiple=True,
    type=_pair,
    metavar="A,B",
    help="Two weights over which to draw the loss; may be repeated. [default: pairs of the four that matter most]",
)
@click.option(
    "--time-limit", type=nonnegative, metavar="SECONDS", help="Write the page with what there is after this time."
)
@click.option("--scale", type=scale, metavar="NAME=W", help="Show all weights scaled so that this one is W.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was read and written.")
def report(
    results: tuple[str, ...],
    output: str,
    data: tuple[str, ...],
    metric: str | None,
    weights: tuple[tuple[str, str], ...],
    pairs: tuple[tuple[str, str], ...],
    time_limit: float | None,
    scale: Scale | None,
    quiet: bool,
    **options: Any,
) -> None:
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
    reading = Reading.taken(data, options, metric)
    names = [name for name, _ in weights]
    if len(set(names)) < len(names):
        raise click.UsageError("--weights gives a name twice.")
    if not data and (reading.flags or reading.format or pairs):
        raise click.UsageError("options about lists need the lists: give --data.")
    with writing_later(output), naming(reading.name) if data else nullcontext(), Allowance().kept():
        found = documents(results)
        factor = None if scale is None else (scale.name, scale.value)

        def read() -> tuple[Any, Any]:
            lists = reading.read_whole() if data else None
            summed = None if lists is None else metric_given(metric, reading, lists)
            if lists is not None and not quiet:
                say(f"{reading.name}: {sizes(lists)}")
            return lists, summed

        with drawing(time_limit, started) as stop:
            stages = None if quiet else Stages()
            made = page_of(found, read, dict(weights), factor, pairs or None, reading.name, stages)
        write_text(output, made.text)
    if made.missing:
        why = "interrupted" if stop.pressed else "the time is over"
        say(f"{output}: {why}; the page lacks {', '.join(made.missing)}")
    elif not quiet:
        say(f"{output}: {len(made.text.encode()) / 1e6:.1f} MB")
    if stop.pressed:
        raise click.exceptions.Exit(128 + stop.number)
    raise click.exceptions.Exit(ExitCode.STOPPED if made.missing else ExitCode.FINISHED)
