"""`lpmert nbest`: the best hypotheses of lattices at given weights, as N-best lists."""

from __future__ import annotations

from typing import Any

import click

from lpmert.cli.arguments import Registered, WholeNumber, nonnegative, parse_weights, size
from lpmert.cli.console import say
from lpmert.cli.reading import Reading, described, sizes
from lpmert.cli.reading_options import reading_options
from lpmert.cli.shared import data_argument
from lpmert.formats.detect import format_of_target, write
from lpmert.registry import FORMATS
from lpmert.system.files import writing_later


@click.command()
@data_argument
@reading_options
@click.option("--metric", metavar="NAME", default="wer", help="What the lists count against --references.")
@click.option("--weights", required=True, metavar="WEIGHTS", help="What the order depends on; as for `lpmert check`.")
@click.option("-n", "n", type=WholeNumber(min=1), default=100, metavar="N", help="Most hypotheses of a list.")
@click.option("-o", "--output", required=True, type=click.Path(), metavar="FILE", help="Where the lists go.")
@click.option("--to", "to_format", type=Registered(FORMATS), help="Format of FILE. [default: told by its ending]")
@click.option("--time-limit", type=nonnegative, metavar="SECONDS", help="Give up after this time.")
@click.option("--memory-limit", type=size, metavar="SIZE", help="Most memory of the process, such as 500MB.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was read and written.")
def nbest(
    data: tuple[str, ...],
    metric: str,
    weights: str,
    n: int,
    output: str,
    to_format: str | None,
    time_limit: float | None,
    memory_limit: int | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Write the N best hypotheses of the lattices in DATA, with different words, which `lpmert solve` opens.

    Of all paths with the same words the best one gives the scores. Sums and comparisons are exact.
    """
    import lpmert

    reading = Reading.taken(data, options, metric)
    kind = to_format or format_of_target(output)
    if not reading.whole:
        raise click.UsageError(f"{reading.name} holds N-best lists already, or --n-best asks for some; here it is -n.")
    with writing_later(output):
        lattices: Any = reading.read_whole()
    if not quiet:
        say(f"{reading.name}: {sizes(lattices)}")
    given = parse_weights(weights, lattices.names, "--weights")
    limits: dict[str, Any] = {"time_limit": time_limit, "memory_limit": memory_limit}
    lists = lpmert.n_best(lattices, given, n=n, metric=reading.text_metric, **limits)
    write(lists, output, kind)
    if not quiet:
        say(f"{output}: {sizes(lists)}; {described(lists)}")
