"""`lpmert train`: weights for features that are too many to be held dense."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import click

from lpmert.cli.arguments import Registered, WholeNumber, assignment
from lpmert.cli.console import say
from lpmert.cli.delivery import Place, delivering
from lpmert.cli.main import naming
from lpmert.cli.reading import Reading, sizes
from lpmert.cli.reading_options import reading_options
from lpmert.cli.shared import configured, data_argument, metric_for, metric_option
from lpmert.registry import METHODS
from lpmert.system.memory import Allowance


@click.command()
@data_argument
@reading_options
@click.option(
    "--method", type=Registered(METHODS), default="perceptron", help="Method that can train on sparse features."
)
@click.option("--set", "options", type=assignment, multiple=True, metavar="NAME=VALUE", help="Option of the method.")
@metric_option
@click.option("--seed", type=WholeNumber(min=0), default=0, metavar="N", help="Seed for everything random.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE rather than to stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was found.")
def train(
    data: tuple[str, ...],
    method: str,
    options: tuple[tuple[str, str], ...],
    metric: str | None,
    seed: int,
    output: str | None,
    quiet: bool,
    **flags: Any,
) -> None:
    """Train weights on the lists in DATA on top of a base feature, whose weight stays 1.

    Features are kept sparse, so that there may be a hundred thousand. perceptron, boosting and msr train so; `lpmert
    methods` describes them. DATA is as for `lpmert solve`. The JSON has the weights by name: `lpmert check --weights`
    reads them.
    """
    from lpmert.asked import method_of
    from lpmert.methods.heuristic.sparse import Trainer

    trainer = method_of(configured(method, options))
    settings = trainer.settings()
    if not isinstance(trainer, Trainer):
        remedy = f"{method} does not train on sparse features; give msr, perceptron or boosting."
        raise click.BadParameter(remedy, param_hint="--method")
    reading = Reading.taken(data, flags, metric)
    with naming(reading.name), Allowance().kept(), delivering(Place(True, output, quiet)) as deliver:
        nbest = reading.read()
        summed = metric_for(nbest) if metric is None or "references" in reading.flags else metric
        found = trainer.train(nbest, metric=summed, seed=seed)
        if not quiet:
            say(
                f"{', '.join(data)}: {sizes(nbest)}, {nbest.n_features:,} features; loss {found.loss:.10g}, "
                f"{found.loss_before:.10g} with the base feature alone"
            )
        document = {
            "weights": dict(zip(nbest.names, found.weights.tolist(), strict=True)),
            "loss": found.loss,
            "loss_before": found.loss_before,
            "counters": found.counters,
            "method": settings,
            "seed": seed,
            "fingerprint": nbest.fingerprint,
        }
        deliver(*2 * (partial(json.dumps, document, allow_nan=False, indent=2),))
