"""`lpmert verify`: check a certificate against the lists it is about."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

import lpmert
from lpmert.cli.arguments import WholeNumber, nonnegative, size
from lpmert.cli.console import put
from lpmert.cli.figures import column
from lpmert.cli.main import naming
from lpmert.cli.reading import Reading
from lpmert.cli.reading_options import reading_options
from lpmert.cli.shared import TIES, data_argument, metric_given, metric_option
from lpmert.cli.stages import Stages
from lpmert.cli.text_tables import side_by_side
from lpmert.errors import DataError
from lpmert.system.files import lines
from lpmert.system.memory import Allowance


@click.command()
@click.argument("certificate", type=click.Path())
@data_argument
@reading_options
@metric_option
@click.option(
    "--ties", type=click.Choice(TIES), default="first", help="Which of several hypotheses with equal features counts."
)
@click.option("--time-limit", type=nonnegative, metavar="SECONDS", help="Give up after this time.")
@click.option(
    "--memory-limit",
    type=size,
    metavar="SIZE",
    help="Most memory of all processes, such as 500MB.  [default: what they have and 0.9 of what is free]",
)
@click.option("--jobs", type=WholeNumber(min=1), default=1, metavar="N", help="Processes for a tree of cones.")
@click.option("-q", "--quiet", is_flag=True, help="Do not say how far the check is.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
def verify(
    certificate: str,
    data: tuple[str, ...],
    metric: str | None,
    ties: str,
    time_limit: float | None,
    memory_limit: int | None,
    jobs: int,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Check that CERTIFICATE, written by `lpmert solve --certificate`, proves its claim about DATA.

    DATA are lists or lattices. This runs no search and trusts no solver: every step is decided in exact arithmetic.
    Pass the same options as to `lpmert solve`. If the certificate does not hold, the exit code is 5 and the message
    says where it fails. If a limit ends the check before, the exit code is 3, and nothing is known of the claim.
    """
    reading = Reading.taken(data, options, metric)
    with naming(reading.name):
        with Allowance(memory_limit).kept():
            nbest = reading.read_whole()
        summed = metric_given(metric, reading, nbest)
        limits: dict[str, Any] = {"time_limit": time_limit, "memory_limit": memory_limit}
        on_line = (lambda _: None) if quiet else _told(certificate)
        found = lpmert.verify(certificate, nbest, metric=summed, ties=ties, jobs=jobs, on_line=on_line, **limits)
    if as_json:
        put(
            json.dumps(
                {
                    "loss": float(found.loss),
                    "lower_bound": float(found.bound),
                    "proved": found.proved,
                    "weights": found.weights,
                    "limits": found.limits,
                    "equations": [{name: float(value) for name, value in row.items()} for row in found.equations],
                    "metric": found.claim.metric,
                    "ties": found.claim.ties,
                    "found_by": found.claim.found_by,
                    "records": found.records,
                },
                indent=2,
            )
        )
        return
    put(str(found))
    for rows, sign in ((found.limits, ">"), (found.equations, "=")):
        for row in rows:
            terms = " ".join(f"{float(value):+g} {name}" for name, value in row.items() if value)
            put(f"  where {terms} {sign} 0")
    put(f"\n{side_by_side([['feature', *found.weights], column('weight', list(found.weights.values()))])}")


def _told(certificate: str) -> Callable[[int], object]:
    """Return what says from time to time which line is checked, of how many, if the file can be read twice."""
    stages, n_lines = Stages(), None
    if Path(certificate).is_file():
        with suppress(DataError):  # which is told where it is met again
            n_lines = sum(1 for _ in lines(certificate))
    return lambda line: None if n_lines is None else stages("lines checked", line, n_lines)
