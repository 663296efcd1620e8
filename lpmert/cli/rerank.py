"""`lpmert rerank`: what weights pick from lists, without knowing what hypotheses cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from lpmert.cli.arguments import parse_weights
from lpmert.cli.options import command, option
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.running import Short, delivering, logging_to_stderr, say

_MEASURED = ("references", "statistics_file", "last_field", "losses")
"""Options that say where statistics come from; without them there need be none."""


@dataclass(frozen=True)
class _Lists(Reading):
    """Lists that need no losses, and what picks from them."""

    heading = "Data"

    weights: str = option("WEIGHTS", "Numbers, pairs am=1,lm=0.6, or a file.", required=True)
    vote: str | None = option(
        "COLUMN", "Sum the features of hypotheses with the same answer, which is in this column; or text."
    )

    def for_format(self, kind: str) -> dict[str, Any]:
        """Return the flags; in tables, features are by default those that the weights name, and texts the answers."""
        from lpmert.formats.detect import format_by_name
        from lpmert.formats.weights import given_weights

        flags = super().for_format(kind)
        takes = format_by_name(kind).reader_options
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
                raise click.UsageError(f"--vote must be text: {kind} has no columns, and texts are the answers.")
        return flags


@command("rerank test.tsv --segment utterance --weights weights.json")
def rerank(lists: _Lists, out: Short) -> None:
    """Print the best hypothesis of each list in DATA, a line `ID<tab>TEXT` each; DATA need not have losses.

    Without texts, its number in the list stands for it, counted from 0, as in the JSON.

    DATA is as for `lpmert solve`. In tables, the features are the names of the weights unless --features are given.
    Of lattices, the best paths are printed.

    --vote makes one hypothesis of all that give the same answer. With a feature that is 1 everywhere, that is weighted
    self-consistency: its weight is that of a vote. For formats without columns the answer is `text`.
    """
    import lpmert

    with logging_to_stderr(out, warnings=True), delivering(out) as deliver:
        data: Any = lists.read_whole()
        if lists.vote is not None and lists.whole:
            raise click.UsageError("--vote needs N-best lists, not whole lattices; ask for some with --n-best.")
        if not out.quiet:
            say(f"{lists.name}: {sizes(data)}")
        given = parse_weights(lists.weights, data.names, "--weights")
        if lists.whole:
            data = lpmert.n_best(data, given, n=1)
        found = lpmert.rerank(data, given, vote=lists.vote is not None)
        if found.tied and not out.quiet:
            lists_are = "1 list is" if found.tied == 1 else f"{found.tied:,} lists are"
            say(f"{lists_are} tied: the first of the best hypotheses is picked.")
        deliver(found.to_json, lambda: str(found))
