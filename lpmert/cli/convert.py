"""`lpmert convert`: from one format of N-best lists to another."""

from __future__ import annotations

from typing import Any

import click

from lpmert.cli.arguments import Registered, WholeNumber, assignment
from lpmert.cli.console import say
from lpmert.cli.reading import Reading, flag, sizes
from lpmert.cli.reading_options import reading_options
from lpmert.formats.detect import format_by_name, format_of_target, write, writer_of
from lpmert.quoting import listed
from lpmert.registry import FORMATS
from lpmert.system.files import writing_later

_OF_WRITERS = {"scores_out": "scores", "score_type": "score_type", "form": "form"}
"""Flags that only writers take, and what they call them."""

_OF_BOTH = ("segment", "text", "separator")


@click.command()
@click.argument("source", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--to", "to_format", type=Registered(FORMATS), help="Format of OUT. [default: told by its ending]")
@reading_options
@click.option(
    "--metric",
    metavar="NAME",
    help="Texts: the metric: bleu, ter, wer, ... [default: bleu for moses, else wer]",
)
@click.option(
    "--set",
    "options",
    type=assignment,
    multiple=True,
    metavar="NAME=VALUE",
    help="Texts: option of the metric; may be repeated. `lpmert methods --metric NAME` lists them.",
)
@click.option("--scores-out", metavar="FILE", help="To mert: the file of scores; OUT has the features.")
@click.option("--score-type", metavar="TYPE", help="To mert: type of the scores, such as BLEU.")
@click.option("--form", type=WholeNumber(1, 3), help="To SRILM: form of the lists. [default: 3]")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was converted.")
def convert(
    source: tuple[str, ...],
    target: str,
    to_format: str | None,
    metric: str | None,
    options: tuple[tuple[str, str], ...],
    quiet: bool,
    **flags: Any,
) -> None:
    """Convert the N-best lists in IN to another format, exactly: reading OUT gives the same numbers.

    Several IN are pooled by list. Files with one score each (--from scores) are NAME=FILE, one for each feature. The
    help of a flag says to which formats it belongs. docs/formats.md describes all of them.
    """
    own = {name: value for name in _OF_WRITERS if (value := flags.pop(name)) is not None}
    if (metric is not None or options) and not flags["references"]:
        raise click.UsageError(f"{'--metric' if options == () else '--set'} applies to texts, with --references.")
    reading = Reading.taken(source, flags, metric, options)
    to_kind = to_format or format_of_target(target)
    format = format_by_name(to_kind)
    writer_of(format, to_kind)
    known = format.writer_options
    shared = {name: reading.flags[name] for name in _OF_BOTH if name in reading.flags and name in known}
    for name in own:
        if _OF_WRITERS[name] not in known:
            raise click.UsageError(f"{flag(name)} does not apply to writing {to_kind}.")
    writing = shared | {_OF_WRITERS[name]: value for name, value in own.items()}
    for name, needed in known.items():
        if needed and name not in writing:
            raise click.UsageError(f"{flag(name)} is needed for writing {to_kind}.")
    with writing_later(target, own.get("scores_out")):
        nbest = reading.read(unused=shared)
    write(nbest, target, to_kind, **writing)
    if not quiet:
        say(f"{target}: {sizes(nbest)}; features {listed(nbest.names)}; statistics {listed(nbest.statistic_names)}")
