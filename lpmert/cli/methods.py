"""`lpmert methods`: what methods there are, and what can be set of each."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.arguments import Registered
from lpmert.cli.console import put
from lpmert.registry import METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.configurable import Configurable, Option


class Metrics(Registered):
    """The name of a metric, on statistics or on texts."""

    def __init__(self) -> None:
        super().__init__(METRICS)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if there is such a metric."""
        from lpmert.metrics.text import TEXT_METRICS

        return value if value in TEXT_METRICS else super().convert(value, param, ctx)


@click.command()
@click.argument("method", required=False, type=Registered(METHODS), metavar="[METHOD]")
@click.option("--metric", type=Metrics(), help="Describe a metric and its options instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
def methods(method: str | None, metric: str | None, as_json: bool) -> None:
    """List all methods, or describe METHOD and its options.

    `--set NAME=VALUE` of other commands sets an option, `--set metric.NAME=VALUE` one of the metric; in Python options
    are arguments of the class.
    """
    from lpmert.asked import method_of

    formatter = click.HelpFormatter(max_width=100)
    if metric is not None:
        if method is not None:
            raise click.UsageError("Name a method, or a metric with --metric, not both.")
        told: Any = _metric(metric)
        formatter.write(f"{metric} ({told['class']})\n\n{told['description']}\n\n")
        if told["options"]:
            formatter.write_dl(
                [(f"{name}={_text(one['default'])}", one["value"]) for name, one in told["options"].items()]
            )
    elif method is None:
        told = {name: _summary(method_of(name)) for name in METHODS.names()}
        formatter.write_dl(list(told.items()))
    else:
        chosen = method_of(method)
        options = chosen.options()
        place = f"{type(chosen).__module__}:{type(chosen).__qualname__}"
        told = {
            "method": chosen.name,
            "class": place,
            "description": _description(chosen),
            "options": {one.name: _plain(one) for one in options},
        }
        formatter.write(f"{method} ({place})\n\n{told['description']}\n\n")
        if options:
            formatter.write_dl([(f"{one.name}={_text(one.default)}", f"{one.help} ({one.allowed})") for one in options])
    put(json.dumps(told, indent=2) if as_json else formatter.getvalue().rstrip())


def _metric(name: str) -> dict[str, Any]:
    from lpmert.configurable import parameters
    from lpmert.metrics.text import TEXT_METRICS

    made = METRICS.find(name) if name in METRICS.own or ":" in name else TEXT_METRICS.get(name) or METRICS.find(name)
    what = made if callable(made) else type(made)
    return {
        "metric": name,
        "class": f"{what.__module__}:{what.__qualname__}",
        "description": _description(made),
        "options": {one.name: _plain(one) for one in parameters(made)},
    }


def _description(method: Any) -> str:
    return (inspect.getdoc(method) or "").partition("\n\nParameters\n")[0].rstrip()


def _summary(method: Configurable) -> str:
    return " ".join(_description(method).partition("\n\n")[0].split())


def _plain(one: Option) -> dict[str, Any]:
    return {"default": one.default, "value": one.allowed, "choices": list(one.choices), "help": one.help}


def _text(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default is None or default == ():
        return "none"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
