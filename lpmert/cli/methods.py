"""`lpmert methods` and `schema`: what methods there are, what can be set of each, and what the JSON holds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.arguments import METRIC, Registered
from lpmert.cli.options import argument, command, option
from lpmert.cli.running import put
from lpmert.quoting import quoted
from lpmert.registry import METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.configurable import Option


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

    if what.method is not None and what.metric is not None:
        raise click.UsageError("Name a method, or a metric with --metric, not both.")
    content: dict[str, Any]
    formatter = click.HelpFormatter(max_width=100)
    if what.metric is not None:
        content = _metric(what.metric)
        _write(formatter, what.metric, content)
        if "texts" in content:
            formatter.write("\n")
            _write(formatter, what.metric, content["texts"])
    elif what.method is not None:
        chosen = method_of(what.method)
        content = _described("method", chosen.name, chosen, chosen.options())
        _write(formatter, what.method, content)
    else:
        known = {name: _description(method_of(name)).partition("\n\n")[0] for name in METHODS.names()}
        content = {name: " ".join(text.split()) for name, text in known.items()}
        formatter.write_dl(list(content.items()))
    put(json.dumps(content, indent=2) if what.as_json else formatter.getvalue().rstrip())


def _metric(name: str) -> dict[str, Any]:
    """Return what a name stands for: a metric of counts, of texts, or the first and as `texts` the second."""
    from lpmert.configurable import parameters
    from lpmert.metrics.text import TEXT_METRICS

    made = [METRICS.find(name)] if name in METRICS.own or name not in TEXT_METRICS else []
    made += [TEXT_METRICS[name]] if name in TEXT_METRICS else []
    first, *others = (_described("metric", name, one, parameters(one)) for one in made)
    return {**first, "texts": others[0]} if others else first


def _described(kind: str, name: str, of: Any, options: Iterable[Option]) -> dict[str, Any]:
    made = of if inspect.isclass(of) or inspect.isroutine(of) else type(of)
    stated = {
        one.name: {"default": one.default, "value": one.allowed, "choices": list(one.choices), "help": one.help}
        for one in options
    }
    place = f"{made.__module__}:{made.__qualname__}"
    return {kind: name, "class": place, "description": _description(of), "options": stated}


def _write(formatter: click.HelpFormatter, name: str, content: dict[str, Any]) -> None:
    formatter.write(f"{name} ({content['class']})\n\n{content['description']}\n\n")
    rows = [
        (f"{option}={_text(one['default'])}", f"{one['help']} ({one['value']})" if one["help"] else one["value"])
        for option, one in content["options"].items()
    ]
    if rows:
        formatter.write_dl(rows)


def _description(of: Any) -> str:
    return (inspect.getdoc(of) or "").partition("\n\nParameters\n")[0].rstrip()


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
    """Print the JSON Schema of a result (`solve`, `Result.save`), check, evaluation, comparison, tuning or ranking."""
    from lpmert.result_schema import schema_of

    put(json.dumps(schema_of(document.kind), indent=2))
