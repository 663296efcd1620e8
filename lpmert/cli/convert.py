"""`lpmert convert`: from one format of N-best lists to another, and from lattices to lists."""

from __future__ import annotations

from dataclasses import dataclass

import click

from lpmert.cli.arguments import PATH, Registered
from lpmert.cli.options import argument, command, option
from lpmert.cli.reading import Reading, flag, sizes
from lpmert.cli.running import Quiet, say
from lpmert.quoting import listed
from lpmert.registry import FORMATS
from lpmert.system.files import writing_later

_OF_WRITERS = {"scores_out": "scores", "score_type": "score_type"}
"""Flags that only writers take, and what they call them."""

_OF_BOTH = ("segment", "text")


@dataclass(frozen=True)
class _Source(Reading):
    """What is converted."""

    heading = "Data"

    data: tuple[str, ...] = argument("IN...", nargs=-1)


@dataclass(frozen=True)
class _Target:
    """Where it goes, and how."""

    heading = "Output"

    target: str = argument("OUT", PATH)
    to: str | None = option("NAME", "Format of OUT.  [default: told by its ending]", Registered(FORMATS))
    scores_out: str | None = option("FILE", "To mert: the file of scores; OUT has the features.", rare=True)
    score_type: str | None = option("TYPE", "To mert: type of the scores, such as BLEU.", rare=True)


@command("convert nbest.moses lists.tsv --references dev.en")
def convert(source: _Source, to: _Target, out: Quiet) -> None:
    """Convert the N-best lists in IN to another format, exactly: reading OUT gives the same numbers.

    Of lattices the N best hypotheses of each are written (--n-best N --scales am=1,lm=12), with different words; of all
    paths with the same words the best one gives the scores. Sums and comparisons are exact.

    Several IN are pooled by list. Files with one score each (--from scores) are NAME=FILE, one for each feature. The
    help of a flag says to which formats it belongs. docs/formats.md describes all of them.
    """
    from lpmert.formats.detect import format_by_name, format_of_target, write, writer_of

    own = {name: value for name in _OF_WRITERS if (value := getattr(to, name)) is not None}
    if (source.metric is not None or source.options) and not source.references:
        raise click.UsageError(
            f"{'--metric' if source.options == () else '--set'} applies to texts, with --references."
        )
    kind = to.to or format_of_target(to.target)
    format = format_by_name(kind)
    writer_of(format, kind)
    known = format.writer_options
    shared = {name: source.flags[name] for name in _OF_BOTH if name in source.flags and name in known}
    for name in own:
        if _OF_WRITERS[name] not in known:
            raise click.UsageError(f"{flag(name)} does not apply to writing {kind}.")
    writing = shared | {_OF_WRITERS[name]: value for name, value in own.items()}
    for name, needed in known.items():
        if needed and name not in writing:
            raise click.UsageError(f"{flag(name)} is needed for writing {kind}.")
    with writing_later(to.target, own.get("scores_out")):
        nbest = source.read(unused=shared)
    write(nbest, to.target, kind, **writing)
    if not out.quiet:
        say(f"{to.target}: {sizes(nbest)}; features {listed(nbest.names)}; statistics {listed(nbest.statistic_names)}")
