"""`lpmert train`: weights for features that are too many to be held dense."""

from __future__ import annotations

import json

import click

from lpmert.cli.arguments import assignment
from lpmert.cli.console import put, say
from lpmert.cli.shared import Registered, configured, line_length_option
from lpmert.registry import FORMATS, METHODS, METRICS


@click.command()
@click.argument("data", type=click.Path())
@click.option(
    "--method", type=Registered(METHODS), default="perceptron", help="Method that can train on sparse features."
)
@click.option("--set", "options", type=assignment, multiple=True, metavar="NAME=VALUE", help="Option of the method.")
@click.option("--metric", type=Registered(METRICS), default="loss", help="Turns summed statistics into a loss.")
@click.option("--from", "format", type=Registered(FORMATS), help="Format of DATA. [default: told by its content]")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed for everything random.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE rather than to stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was found.")
@line_length_option
def train(
    data: str,
    method: str,
    options: tuple[tuple[str, str], ...],
    metric: str,
    format: str | None,
    seed: int,
    output: str | None,
    quiet: bool,
) -> None:
    """Train weights on the lists in DATA on top of a base feature, whose weight stays 1.

    Features are kept sparse, so that there may be a hundred thousand. perceptron, boosting and msr train so; `lpmert
    methods` describes them. DATA is npz, best-of-n or any format that is read without further options; `lpmert convert`
    makes npz of all others. The JSON has the weights by name: `lpmert check --weights` reads them.
    """
    from lpmert._doors import _method
    from lpmert.formats.detect import read
    from lpmert.methods.heuristic.sparse import Trainer
    from lpmert.system.files import write_text

    trainer = _method(configured(method, options))
    settings = trainer.settings()
    if not isinstance(trainer, Trainer):
        raise click.BadParameter(f"{method} does not train on sparse features; msr, perceptron and boosting do.")
    nbest = read(data, format)
    found = trainer.train(nbest, metric=metric, seed=seed)
    if not quiet:
        say(
            f"{data}: {nbest.n_lists:,} lists, {nbest.n_hypotheses:,} hypotheses, {nbest.n_features:,} features; "
            f"loss {found.loss:.10g}, {found.loss_before:.10g} with the base feature alone"
        )
    text = json.dumps(
        {
            "weights": dict(zip(nbest.names, found.weights.tolist(), strict=True)),
            "loss": found.loss,
            "loss_before": found.loss_before,
            "counters": found.counters,
            "method": settings,
            "seed": seed,
            "fingerprint": nbest.fingerprint,
        },
        allow_nan=False,
        indent=2,
    )
    if output is None:
        put(text)
    else:
        write_text(output, text + "\n")
