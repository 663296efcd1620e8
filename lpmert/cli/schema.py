"""`lpmert schema`: the JSON Schema of what other commands write."""

from __future__ import annotations

import json

import click

from lpmert.cli.console import put
from lpmert.result_schema import KINDS, schema_of


@click.command()
@click.argument("kind", type=click.Choice(KINDS), default=KINDS[0])
def schema(kind: str) -> None:
    """Print the JSON Schema of a result (`solve`, `Result.save`), check, evaluation, comparison or tuning."""
    put(json.dumps(schema_of(kind), indent=2))
