"""`lpmert verify`: check a certificate against the lists it is about."""

from __future__ import annotations

import json

import click

import lpmert
from lpmert.cli.arguments import column_names
from lpmert.cli.console import column, put
from lpmert.cli.shared import TIES, Registered, line_length_option
from lpmert.cli.text_tables import side_by_side
from lpmert.registry import METRICS, TABLES


@click.command()
@click.argument("certificate", type=click.Path())
@click.argument("data", type=click.Path())
@click.option("--segment", required=True, metavar="COLUMN", help="Column that tells which list a row belongs to.")
@click.option("--features", required=True, type=column_names, metavar="A,B,C", help="Columns of the features.")
@click.option("--loss", metavar="COLUMN", help="Column of the loss of a hypothesis.")
@click.option("--statistics", type=column_names, metavar="A,B,C", help="Columns that the metric sums.")
@click.option("--metric", type=Registered(METRICS), default="loss", help="Turns summed statistics into a loss.")
@click.option("--format", type=click.Choice(TABLES), help="Format of DATA. [default: told by its ending or content]")
@click.option("--group", is_flag=True, help="Allow the rows of a list to lie apart in DATA.")
@click.option(
    "--ties", type=click.Choice(TIES), default="first", help="Which of several hypotheses with equal features counts."
)
@line_length_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
def verify(
    certificate: str,
    data: str,
    segment: str,
    features: tuple[str, ...],
    loss: str | None,
    statistics: tuple[str, ...] | None,
    metric: str,
    format: str | None,
    group: bool,
    ties: str,
    as_json: bool,
) -> None:
    """Check that CERTIFICATE, written by `lpmert solve --certificate`, proves its claim about the lists in DATA.

    This runs no search and trusts no solver: every step is decided in exact arithmetic. Pass the same options as to
    `lpmert solve`. If the certificate does not hold, the exit code is 5 and the message says where it fails.
    """
    if (loss is None) == (statistics is None):
        raise click.UsageError("Pass either --loss with one column, or --statistics with the columns of the metric.")
    nbest = lpmert.read_table(
        data, segment=segment, features=features, loss=loss, statistics=statistics, group=group, format=format
    )
    found = lpmert.verify(certificate, nbest, metric=metric, ties=ties)
    if as_json:
        put(
            json.dumps(
                {
                    "loss": float(found.loss),
                    "lower_bound": float(found.bound),
                    "proved": found.proved,
                    "weights": found.weights,
                    "limits": found.limits,
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
    for limit in found.limits:
        terms = " ".join(f"{value:+g} {name}" for name, value in limit.items() if value)
        put(f"  where {terms} > 0")
    put(f"\n{side_by_side([['feature', *found.weights], column('weight', list(found.weights.values()))])}")
