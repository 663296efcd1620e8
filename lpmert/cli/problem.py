"""A problem written once: a TOML file as DATA, whose keys are the names of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lpmert.cli import options
from lpmert.cli.reading import COUNTED, Question
from lpmert.cli.search import HeldOut, Where
from lpmert.quoting import listed, quoted
from lpmert.registry import PROBLEM

if TYPE_CHECKING:
    Known = Mapping[str, click.Parameter]

_FILES = ("FILE", "DATA...", "NAME=FILE")
"""What stands for values that are files."""
_PERHAPS_FILES = ("scores", "scales", "around")
"""Keys whose values are names or numbers where there is no such file."""
_TOGETHER = ({*COUNTED}, {"held_out", "held_out_references"})
"""Where the command line has one of these, the file's others do not go with it."""


class _Command(options.Command):
    """A command whose DATA may be a file that says more than where lists are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line, and what a problem's file says besides."""
        rest = super().parse_args(ctx, args)
        data = ctx.params.get("data") or ()
        written = [file for file in data if file.endswith(PROBLEM)]
        if written and not ctx.resilient_parsing:
            if len(data) > 1:
                raise click.UsageError(f"{quoted(written[0])} says what to read; give no other DATA beside it.", ctx)
            given = {name for name in ctx.params if stated(name, ctx)}
            for together in _TOGETHER:
                given |= together if given & together else set()
            given.remove("data")
            found = _read(written[0], ctx)
            ctx.params |= {name: found[name] for name in ctx.params.keys() & found.keys() - given}
        return rest


command: Callable[..., Callable[[Callable[..., Any]], options.Command]] = partial(options.command, cls=_Command)
"""As `options.command`, for commands that read lists."""


def stated(name: str, ctx: click.Context | None = None) -> bool:
    """Whether the command line itself has a value for a parameter."""
    return (ctx or click.get_current_context()).get_parameter_source(name) is ParameterSource.COMMANDLINE


@cache
def _known() -> Known:
    """Return what a file may say by its key, which is the long name of the option."""
    every = [one for of in (Question, Where, HeldOut) for one in options.parameters(of)]
    return {one.opts[-1].removeprefix("--"): one for one in every}


def _read(path: str, ctx: click.Context) -> dict[str, Any]:
    """Return what a file says, by parameter; raises `DataError`, which names file and key, for what cannot be so."""
    import tomllib

    from lpmert.errors import DataError, LpmertError
    from lpmert.system.files import read_text

    try:
        document = tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # also of numbers and tables that Python cannot hold
        raise DataError(f"not TOML: {error}", path=path) from error
    known, found = _known(), dict[str, Any]()
    if "data" not in document:
        raise DataError('data is missing; name the files of the lists, data = "lists.tsv"', path=path)
    for key, value in document.items():
        if key not in known:
            names = ", ".join(known)
            raise DataError(f"no option is called {quoted(key)}; there are {names}", path=path)
        one = known[key]
        try:
            found[one.name or ""] = one.type_cast_value(ctx, _given(key, value, one, Path(path).parent))
        except (click.UsageError, LpmertError) as error:
            reason = error.message if isinstance(error, click.UsageError) else str(error)
            raise DataError(f"{key}: {reason}", path=path) from error
    both = [name for name in COUNTED if name in document]
    if len(both) > 1:
        raise DataError(f"{both[1]}: {both[0]} is there, too; give one of {listed(COUNTED)}", path=path)
    return found


def _given(key: str, value: Any, one: click.Parameter, folder: Path) -> Any:
    """Return a value of the file as the command line has it: as text, or several; a flag as it is."""
    if isinstance(one, click.Option) and one.is_flag:
        if not isinstance(value, bool):
            raise click.UsageError(f"must be true or false, not {quoted(value)}")
        return value
    metavar = one.metavar or ""
    if not (one.multiple or one.nargs < 0):
        mark = ":" if ":" in metavar else "="
        return _of_file(key, metavar, _text(value, mark), folder)
    if isinstance(value, dict):
        several = [f"{name}={_of_file(key, metavar, text, folder)}" for name, text in _pairs(value)]
    else:
        each = value if isinstance(value, list) else [value]
        several = [_of_file(key, metavar, _text(item, ""), folder) for item in each]
    searching = [text for text in several if key == "set" and not text.startswith("metric.")]
    if searching:
        raise click.UsageError(f"{quoted(searching[0])} is none of the metric's; give it to the command (--set)")
    return several


def _pairs(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values; a table within a table stands for names with dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", text) for inner, text in _pairs(value))
        else:
            yield name, _text(value, "")


def _text(value: Any, mark: str) -> str:
    """Return a value as the command line has it; mark: what stands between names and values there."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    parts: list[str] = []
    if isinstance(value, list):
        parts = [_text(one, "") for one in value]
    elif isinstance(value, dict) and mark:
        parts = [f"{name}{mark}{_text(one, '')}" for name, one in value.items()]
    torn = [part for part in parts if "," in part]
    if not parts or torn:
        raise click.UsageError(f"cannot be {quoted(value)}" + (f": a comma parts names, as in {torn}" if torn else ""))
    return ",".join(parts)


def _of_file(key: str, metavar: str, text: str, folder: Path) -> str:
    """Return the value, if it is a file as it is called from here: paths are relative to the problem's file."""
    beside = os.fspath(folder / text)
    if text == "-" or not (metavar in _FILES or key in _PERHAPS_FILES):
        return text
    return beside if os.path.exists(beside) or key not in _PERHAPS_FILES else text
