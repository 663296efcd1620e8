"""`lpmert convert` and `rerank`: lists in another format, lists of lattices, and what weights pick from lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

import lpmert
from lpmert.cli import values
from lpmert.cli.options import argument, given_weights, option
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.running import Quiet, Short, delivering
from lpmert.cli.search import command, stated
from lpmert.quoting import listed
from lpmert.registry import FORMATS

_OF_BOTH = ("segment", "text")
"""Flags that readers and writers take."""


@dataclass(frozen=True)
class _Source(Reading):
    heading = "Data"

    data: tuple[str, ...] = argument("IN...", nargs=-1)


@command("convert nbest.moses lists.tsv --references dev.en")
def convert(
    source: _Source,
    out: Quiet,
    target: str = argument("OUT"),
    to: str | None = option("NAME", "Format of OUT.  [default: chosen by its ending]", values.Registered(FORMATS)),
) -> None:
    """Convert the N-best lists in IN to another format, exactly: reading OUT gives the same numbers.

    Lattices become lists of their N best hypotheses (--n-best N --scales am=1,lm=12) with different words; the best of
    all paths with the same words gives the scores. Sums and comparisons are exact.

    Several IN are pooled by list. Files with one score each (--from scores) are NAME=FILE, one for each feature. The
    help of an option names its formats. docs/formats.md describes all of them.
    """
    from lpmert.formats.detect import format_by_name, format_of_target, writer_of
    from lpmert.system.files import writing_later

    for name, called in (("metric", "--metric"), ("options", "--set")):
        if stated(name) and not source.references:
            raise click.UsageError(f"{called} applies to texts, with --references.")
    kind = to or format_of_target(target)
    format = format_by_name(kind)
    writer_of(format, kind)
    writing = {name: source.flags[name] for name in _OF_BOTH if name in source.flags and name in format.writer_options}
    with writing_later(target):
        nbest = source.read(unused=writing)
    lpmert.write(nbest, target, kind, **writing)
    out.say(f"{target}: {sizes(nbest)}; features {listed(nbest.names)}; statistics {listed(nbest.statistic_names)}")


_MEASURED = ("references", "statistics_file", "last_field", "losses")
"""Options that say where statistics come from; without them there need be none."""


@dataclass(frozen=True)
class _Lists(Reading):
    """Lists that need no losses, and what picks from them."""

    weights: str = given_weights()
    vote: str | None = option(
        "COLUMN", "Sum the features of hypotheses with the same answer in this column, or in text."
    )

    def for_format(self) -> dict[str, Any]:
        """Return the flags; in tables, features are by default those that the weights name, and texts the answers."""
        from lpmert.formats.weights import given_weights

        flags, takes = super().for_format(), self.in_format.reader_options
        if not any(flags.get(name) for name in _MEASURED):
            flags["references"] = False
        if "features" in takes and "features" not in flags:
            names = getattr(given_weights(self.weights, "--weights"), "names", None)
            if names:
                flags["features"] = ",".join(names)
        if self.vote is not None:
            if flags.get("text", self.vote) != self.vote:
                raise click.UsageError("--text and --vote name different columns; answers are the texts.")
            if "text" in takes:
                flags["text"] = self.vote
            elif self.vote != "text":
                raise click.UsageError(f"--vote must be text: {self.kind} has no columns, and texts are the answers.")
        return flags


@command("rerank test.tsv --segment utterance --weights weights.json")
def rerank(lists: _Lists, out: Short) -> None:
    """Print the best hypothesis of each list in DATA, one line `ID<tab>TEXT` each; DATA needs no losses.

    Without texts, it prints the number of the hypothesis in its list, counted from 0, as in the JSON.

    DATA is as for `lpmert solve`. In tables, the features are the names of the weights unless --features are given. For
    lattices, it prints the best paths.

    --vote merges the hypotheses of a list that give the same answer, and sums their features. With a feature that is 1
    everywhere, this is weighted self-consistency. For formats without columns the answer is `text`.
    """
    with delivering(out, warnings=True) as deliver:
        data: Any = lists.read_whole()
        if lists.vote is not None and lists.whole:
            raise click.UsageError("--vote needs N-best lists, not whole lattices; ask for some with --n-best.")
        out.say(f"{lists.name}: {sizes(data)}")
        given = values.parse_weights(lists.weights, data.names, "--weights")
        if lists.whole:
            data = lpmert.n_best(data, given, n=1)
        found = lpmert.rerank(data, given, vote=lists.vote is not None)
        if found.tied:
            lists_are = "1 list is" if found.tied == 1 else f"{found.tied:,} lists are"
            out.say(f"{lists_are} tied: the first of the best hypotheses is picked.")
        deliver(found.to_json, lambda: str(found))
