"""`lpmert rerank`: what weights pick from lists, without knowing what hypotheses cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from lpmert.cli.arguments import parse_weights
from lpmert.cli.console import say
from lpmert.cli.delivery import Place, delivering
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.reading_options import reading_options
from lpmert.cli.shared import data_argument

_MEASURED = ("references", "statistics_file", "last_field", "losses")
"""Options that say where statistics come from; without them there need be none."""


@click.command()
@data_argument
@reading_options
@click.option("--weights", required=True, metavar="WEIGHTS", help="The weights; same syntax as for `lpmert check`.")
@click.option(
    "--vote",
    metavar="COLUMN",
    help="Sum the features of hypotheses with the same answer, which is in this column; `text` for formats without "
    "columns.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE; print no lines.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was read.")
def rerank(
    data: tuple[str, ...],
    weights: str,
    vote: str | None,
    as_json: bool,
    output: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Print the best hypothesis of each list in DATA, a line `ID<tab>TEXT` each; DATA need not have losses.

    Without texts, its number in the list stands for it, counted from 0, as in the JSON.

    DATA is as for `lpmert solve`. In tables, the features are the names of the weights unless --features are given.
    Of lattices, the best paths are printed.

    --vote makes one hypothesis of all that give the same answer. With a feature that is 1 everywhere, that is weighted
    self-consistency: its weight is that of a vote.
    """
    import lpmert

    reading = _reading(data, options, weights, vote)
    with delivering(Place(as_json, output, quiet)) as deliver:
        lists: Any = reading.read_whole()
        if not quiet:
            say(f"{reading.name}: {sizes(lists)}")
        given = parse_weights(weights, lists.names, "--weights")
        if reading.whole:
            lists = lpmert.n_best(lists, given, n=1)
        found = lpmert.rerank(lists, given, vote=vote is not None)
        if found.tied and not quiet:
            lists_are = "1 list is" if found.tied == 1 else f"{found.tied:,} lists are"
            say(f"{lists_are} tied: the first of the best hypotheses is picked.")
        deliver(found.to_json, lambda: str(found))


def _reading(data: tuple[str, ...], options: dict[str, Any], weights: str, vote: str | None) -> Reading:
    """Return the reading that options ask for, of lists that need no losses."""
    from lpmert.formats.detect import format_by_name
    from lpmert.formats.weights import given_weights

    measured = any(options.get(name) for name in _MEASURED)
    reading = Reading.taken(data, options)
    flags = dict(reading.flags) if measured else {**reading.flags, "references": False}
    reading = replace(reading, flags=flags)
    takes = format_by_name(reading.plan[0]).reader_options
    if "features" in takes and "features" not in flags:
        names = getattr(given_weights(weights, "--weights"), "names", None)
        if names:
            flags["features"] = ",".join(names)
    if vote is not None:
        if reading.whole:
            raise click.UsageError("--vote needs N-best lists, not whole lattices; ask for some with --n-best.")
        if flags.get("text", vote) != vote:
            raise click.UsageError("--text and --vote name different columns; answers are the texts.")
        if "text" in takes:
            flags["text"] = vote
        elif vote != "text":
            raise click.UsageError(f"--vote must be text: {reading.plan[0]} has no columns, and texts are the answers.")
    return replace(reading, flags=flags)
