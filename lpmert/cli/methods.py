"""`lpmert methods` and `schema`: what methods there are, what can be set of each, and what the JSON holds."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.arguments import METRIC, Registered
from lpmert.cli.options import argument, command, option
from lpmert.cli.running import put
from lpmert.quoting import quoted
from lpmert.registry import METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.configurable import Configurable, Option


@dataclass(frozen=True)
class _What:
    """What to describe."""

    heading = "Output"

    method: str | None = argument("[METHOD]", Registered(METHODS), required=False)
    metric: str | None = option("NAME", "Describe a metric and its options instead.", METRIC)
    as_json: bool = option("--json", "Print JSON instead of the report.", default=False)


@command("methods cells")
def methods(what: _What) -> None:
    """List all methods, or describe METHOD and its options.

    `--set NAME=VALUE` of other commands sets an option, `--set metric.NAME=VALUE` one of the metric; in Python options
    are arguments of the class.
    """
    from lpmert.api import method_of

    formatter = click.HelpFormatter(max_width=100)
    method, metric = what.method, what.metric
    if metric is not None:
        if method is not None:
            raise click.UsageError("Name a method, or a metric with --metric, not both.")
        told: Any = _metric(metric)
        for use in (told, told["texts"]) if "texts" in told else (told,):
            formatter.write(f"{metric} ({use['class']})\n\n{use['description']}\n\n")
            if use["options"]:
                formatter.write_dl(
                    [(f"{name}={_text(one['default'])}", one["value"]) for name, one in use["options"].items()]
                )
                formatter.write("\n")
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
    put(json.dumps(told, indent=2) if what.as_json else formatter.getvalue().rstrip())


def _metric(name: str) -> dict[str, Any]:
    """Return what a name stands for: a metric of counts, of texts, or the first and as `texts` the second."""
    from lpmert.metrics.text import TEXT_METRICS

    of_texts = TEXT_METRICS.get(name)
    if of_texts is None:
        return _metric_described(name, METRICS.find(name))
    if name not in METRICS.own:
        return _metric_described(name, of_texts)
    return {**_metric_described(name, METRICS.find(name)), "texts": _metric_described(name, of_texts)}


def _metric_described(name: str, made: Any) -> dict[str, Any]:
    from lpmert.configurable import parameters

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


def _kind(text: str) -> str:
    """Return a kind of document; raises `click.BadParameter` for others."""
    from lpmert.result_schema import KINDS

    if text not in KINDS:
        raise click.BadParameter(f"{quoted(text)} is none of {', '.join(KINDS)}.")
    return text


@dataclass(frozen=True)
class _Document:
    """What to print."""

    kind: str = argument("[KIND]", _kind, default="result", required=False)


@command("schema check")
def schema(document: _Document) -> None:
    """Print the JSON Schema of a result (`solve`, `Result.save`), check, evaluation, comparison or tuning."""
    from lpmert.result_schema import schema_of

    put(json.dumps(schema_of(document.kind), indent=2))
