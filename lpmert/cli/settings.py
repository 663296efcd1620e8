"""Options in TOML files: keys are the long names of options, and values mean what they mean on the command line.

A list stands for values with commas between them, a table for names with values. Paths count from the file's folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import click

import lpmert
from lpmert.quoting import quoted

_FILES = ("FILE", "DATA...", "NAME=FILE")
"""What stands for values that are files."""
_PERHAPS_FILES = ("scores", "scales", "around")
"""Keys whose values are names or numbers where there is no such file."""


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the document in a file; raises `DataError`."""
    import tomllib

    from lpmert.system.files import read_text

    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # also of numbers and tables that Python cannot hold
        raise lpmert.DataError(f"not TOML: {error}", path=path) from error


def check_keys(table: Any, known: Collection[str], path: str | Path, where: str = "") -> None:
    """Raise `DataError` for what is no table, and for keys other than these; where: the table, with a dot."""
    if not isinstance(table, dict):
        raise lpmert.DataError(f"{where.removesuffix('.')} must be a table, not {quoted(table)}", path=path)
    for key in table:
        if key not in known:
            there = ", ".join(known)
            raise lpmert.DataError(f"no key {quoted(where + key)}; there are {there}", path=path)


def values_of(
    table: Mapping[str, Any], known: Mapping[str, click.Parameter], path: str | Path, where: str = ""
) -> dict[str, Any]:
    """Return the values of options by parameter; known: the options by key.

    Raises `DataError`, which names file and key, for a key that is unknown and a value that an option cannot have.
    """
    check_keys(table, known, path, where)
    found = dict[str, Any]()
    ctx = cast(click.Context, click.get_current_context(silent=True))  # for messages only
    for key, value in table.items():
        one = known[key]
        try:
            found[one.name or ""] = one.process_value(ctx, _given(key, value, one, Path(path).parent))
        except (click.UsageError, lpmert.LpmertError, ValueError) as error:  # no path holds a null character
            reason = error.message if isinstance(error, click.UsageError) else str(error)
            raise lpmert.DataError(f"{where}{key}: {reason}", path=path) from error
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
