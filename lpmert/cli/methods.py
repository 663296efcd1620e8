"""`lpmert methods`: what methods there are, and what can be set of each."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import click

from lpmert.cli.console import put
from lpmert.cli.shared import Registered
from lpmert.registry import METHODS

if TYPE_CHECKING:
    from lpmert.configurable import Configurable, Option


@click.command()
@click.argument("method", required=False, type=Registered(METHODS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report.")
def methods(method: str | None, as_json: bool) -> None:
    """List all methods, or describe METHOD and its options.

    `--set NAME=VALUE` of other commands sets an option; in Python options are arguments of the method's class.
    """
    from lpmert._doors import _method

    formatter = click.HelpFormatter(max_width=100)
    if method is None:
        told: Any = {name: _summary(_method(name)) for name in METHODS.names()}
        formatter.write_dl(list(told.items()))
    else:
        chosen = _method(method)
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


def _description(method: Configurable) -> str:
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
