"""`lpmert evaluate`: what given weights cost, without a search."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import click

from lpmert.cli.arguments import parse_weights
from lpmert.cli.console import say
from lpmert.cli.delivery import Place, delivering
from lpmert.cli.main import naming
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.reading_options import reading_options
from lpmert.cli.reports import evaluation_report
from lpmert.cli.shared import TIES, data_argument, metric_given, metric_option
from lpmert.system.memory import Allowance


@click.command()
@data_argument
@reading_options
@metric_option
@click.option("--weights", required=True, metavar="WEIGHTS", help="The weights; same syntax as for `lpmert check`.")
@click.option(
    "--ties", type=click.Choice(TIES), default="first", help="Which of several hypotheses with equal features counts."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE; print no report.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was read.")
def evaluate(
    data: tuple[str, ...],
    metric: str | None,
    weights: str,
    ties: str,
    as_json: bool,
    output: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Show what given weights cost on the lists or lattices in DATA; nothing is searched.

    DATA is as for `lpmert solve`.
    The JSON has the hypothesis that is chosen from each list, counted from 0; of lattices that is the best path.
    """
    import lpmert
    from lpmert.asked import problem_of, told
    from lpmert.result import SCHEMA

    reading = Reading.taken(data, options, metric)
    with naming(reading.name), Allowance().kept(), delivering(Place(as_json, output, quiet)) as deliver:
        nbest = reading.read_whole()
        if not quiet:
            say(f"{reading.name}: {sizes(nbest)}")
        summed = metric_given(metric, reading, nbest)
        given = parse_weights(weights, nbest.names, "--weights").of_features(nbest.names).tolist()
        problem = problem_of(nbest, summed, ties, None)
        found = told(problem, given)
        found = replace(found, rates={**found.rates, **reading.rates(nbest, found.loss)[0]})

        def document() -> str:
            told = {
                "schema": SCHEMA,
                "weights": dict(zip(nbest.names, given, strict=True)),
                **found.to_dict(),
                "list_ids": nbest.list_ids,
                "signature": f"lpmert:{lpmert.__version__}|{problem.signature}",
                "fingerprint": nbest.fingerprint,
            }
            return json.dumps(told, allow_nan=False, indent=2)

        deliver(document, partial(evaluation_report, found, nbest.names, given))
