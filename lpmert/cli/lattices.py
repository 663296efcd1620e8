"""`lpmert lattices`: the least loss over all paths of lattices, or how far given weights are from it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import lpmert
from lpmert.cli.arguments import bounds, finite, linear, nonnegative, pairs, parse_weights, scale, share, size
from lpmert.cli.console import ProgressLog, Scale, check_report, result_report, say, summary
from lpmert.cli.delivery import delivering, exit_code
from lpmert.cli.reading import line_length_option
from lpmert.quoting import quoted
from lpmert.system.interrupts import Interrupts

if TYPE_CHECKING:
    from lpmert.checked import Check
    from lpmert.model.lattices import Lattices
    from lpmert.result import Result

_METRICS = ("wer", "cer", "ter")


@dataclass(frozen=True)
class _Output:
    """Where the outcome goes, and in which form."""

    scale: Scale | None
    as_json: bool
    output: str | None
    quiet: bool


def _counts(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, list[str]]:
    """Return words by name from silence=<sil>,[NOISE]."""
    found: dict[str, list[str]] = {}
    for value in values:
        name, equals, words = value.partition("=")
        if not name or not equals or not words or name in found:
            raise click.BadParameter(f"{quoted(value)} should be NAME=WORD,WORD, each name once.")
        found[name] = words.split(",")
    return found


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--references", required=True, type=click.Path(), metavar="FILE", help="The words of each utterance.")
@click.option("--metric", type=click.Choice(_METRICS), default="wer", help="Edits of words, of characters, or of TER.")
@click.option("--weights", metavar="WEIGHTS", help="Show how far these are from the best; as for `lpmert check`.")
@click.option("--initial-weights", metavar="WEIGHTS", help="Weights to start from.")
@click.option(
    "--count",
    "counts",
    multiple=True,
    callback=_counts,
    metavar="NAME=WORD,...",
    help="Feature: how many of these words.",
)
@click.option("--silent", default="", metavar="WORD,...", help="More words that are not spoken.")
@click.option("--variants", is_flag=True, help="word(2) is another pronunciation of word.")
@click.option("--partial", "part", is_flag=True, help="Allow references without a lattice.")
@click.option("--bounds", "limits", type=bounds, metavar="A:0..,B:0..1", help="Limits on single weights.")
@click.option("--fix", type=pairs, metavar="A=1,B=0.5", help="Fixed weights.")
@click.option("--nonnegative", "positive", is_flag=True, help="No weight below 0.")
@click.option(
    "--linear", "sums", type=linear, multiple=True, metavar="A=1,B=-2:0..", help="Limits on a sum of weights."
)
@click.option("--time-limit", type=nonnegative, metavar="SECONDS", help="Stop after this time.")
@click.option("--node-limit", type=click.IntRange(min=0), metavar="N", help="Stop after this many search nodes.")
@click.option("--gap", type=share, metavar="SHARE", help="Stop at this relative gap, such as 0.01.")
@click.option("--target", type=finite, metavar="LOSS", help="Stop at this loss or a lower one.")
@click.option("--memory-limit", type=size, default="1GiB", metavar="SIZE", help="Memory for the open search nodes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed for everything random.")
@click.option("--scale", type=scale, metavar="NAME=W", help="Also show the weights scaled so that this one is W.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE; print no report.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@line_length_option
def lattices(
    files: tuple[str, ...],
    references: str,
    metric: str,
    weights: str | None,
    initial_weights: str | None,
    counts: dict[str, list[str]],
    silent: str,
    variants: bool,
    part: bool,
    limits: Any,
    fix: dict[str, float] | None,
    positive: bool,
    sums: tuple[Any, ...],
    scale: Scale | None,
    as_json: bool,
    output: str | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Find the weights with the least loss over all paths of the lattices in FILES, and prove it.

    FILES are lattices in HTK's format, one utterance each (.slf, .lat, .lattice, .htk, perhaps compressed), tar
    archives or folders of them. References are a Kaldi text file, a trn file, or a table with the header utterance,
    reference. Features are the scores of the lattices, words, and those of --count.
    """
    goes_to = _Output(scale, as_json, output, quiet)
    with delivering(goes_to) as deliver:
        start = time.perf_counter()
        graphs = lpmert.load_lattices(
            files, references, counts=counts, silent=filter(None, silent.split(",")), variants=variants, partial=part
        )
        seconds = time.perf_counter() - start
        if not quiet:
            say(_described(graphs, seconds))
        region = None
        if limits or fix or positive or sums:
            region = lpmert.Region(bounds=limits or {}, fixed=fix or {}, nonnegative=positive, linear=sums)
        given = None if weights is None else parse_weights(weights, graphs.names, "--weights")
        first = None if initial_weights is None else parse_weights(initial_weights, graphs.names, "--initial-weights")
        outcome: Result | Check
        with Interrupts() as stop:
            with nullcontext() if quiet else ProgressLog(time_limit=settings["time_limit"]) as callback:
                common = {**settings, "metric": metric, "region": region, "callback": callback}
                if given is None:
                    outcome = lpmert.minimize(graphs, initial_weights=first, **common)
                else:
                    outcome = lpmert.check(graphs, given, **common)
            result = outcome if isinstance(outcome, lpmert.Result) else outcome.optimum
            result = replace(result, seconds={"read": seconds, **result.seconds})
            outcome = result if isinstance(outcome, lpmert.Result) else replace(outcome, optimum=result)
            if not quiet:
                say(summary(result) if as_json or output is not None else "")
                say(_survivors(result))
            deliver(outcome.to_json, partial(_report, outcome, scale))
    raise click.exceptions.Exit(exit_code(result.status, stop))


def _described(graphs: Lattices, seconds: float) -> str:
    digits = float(graphs.log10_paths.max())
    return (
        f"{graphs.n_lists:,} lattices, {graphs.n_links:,} links, up to 10^{digits:.0f} paths each, "
        f"features {', '.join(graphs.names)}, read in {seconds:.2f}s"
    )


def _survivors(result: Result) -> str:
    return f"{result.counters['survivors']:,} hypotheses may win somewhere in the cones that had to be searched"


def _report(outcome: Result | Check, scale: Scale | None) -> str:
    return result_report(outcome, scale) if isinstance(outcome, lpmert.Result) else check_report(outcome, scale)
