"""Numbers, and tables of them, as text: within the width of a terminal, in full in a file or a pipe."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, TextIO

from lpmert.quoting import SHOWN_DECIMALS, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_LABEL_WIDTH = 13
_UNLIMITED = 1_000_000


def short(value: float | None) -> str:
    """Return a number with up to seven digits; a dash where it is unknown."""
    return "-" if value is None else f"{value:.7g}"


def short_count(value: int) -> str:
    """Return a count in at most eight characters, up to a million millions."""
    return str(value) if value < 10_000_000 else f"{value / 1e6:.1f}M"


def column(heading: str, values: Sequence[float], decimals: int = SHOWN_DECIMALS) -> list[str]:
    """Return numbers with their decimal points below each other, under a heading."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    form = "f" if not sizes or min(sizes) >= 10.0**-decimals else "e"
    return [heading, *(f"{value + 0.0:.{decimals}{form}}" for value in values)]


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream is, a very large number for anything else."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _UNLIMITED if stream.isatty() else _UNLIMITED
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size().columns


def wrapped(text: str, stream: TextIO) -> str:
    """Return a text with its lines broken between words where a terminal would break them anywhere."""
    width = width_of(stream)
    return "\n".join(
        line if len(line) <= width else fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def side_by_side(columns: Sequence[Sequence[str]]) -> str:
    """Return columns next to each other, the first flush left, the others flush right, and no cell ever cut.

    Columns that do not fit the terminal follow below, next to the first one again.
    """
    columns = [[visible(cell) for cell in column] for column in columns]
    console, first, others = _console(), columns[0], list(columns[1:])
    parts: list[str] = []
    while others or not parts:
        fitting = len(others)
        while fitting > 1 and _width(console, _aligned([first, *others[:fitting]])) > console.width:
            fitting -= 1
        parts.append(_text(console, _aligned([first, *others[:fitting]])))
        others = others[fitting:]
    return "\n\n".join(parts)


def labelled(rows: Sequence[tuple[str, str | Mapping[str, str]]]) -> str:
    """Return values next to their labels; a mapping becomes a small table of its own, nothing if it is empty."""
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(min_width=_LABEL_WIDTH, no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        if value:
            table.add_row(label, value if isinstance(value, str) else _aligned([list(value), list(value.values())]))
    return _text(_console(), table)


def _aligned(columns: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for place in range(len(columns)):
        table.add_column(justify="right" if place else "left", overflow="fold")
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table


def _console() -> Console:
    from rich.console import Console

    return Console(
        file=io.StringIO(), width=width_of(sys.stdout), color_system=None, markup=False, emoji=False, highlight=False
    )


def _width(console: Console, table: RenderableType) -> int:
    return console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum


def _text(console: Console, table: RenderableType) -> str:
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
