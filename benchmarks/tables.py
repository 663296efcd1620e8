"""The parts of reports: tables and figures, each with a title and a note."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class Table:
    """A table of texts, the first `left` columns aligned to the left; note: what it shows, and whose numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    left: int = 1

    def markdown(self) -> str:
        """Return the table in Markdown."""
        marks = ["---" if column < self.left else "---:" for column in range(len(self.headings))]
        lines = [self.headings, marks, *self.rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")


def table_of(title: str, rows: Sequence[Mapping[str, str]], note: str = "", left: int = 1) -> Table:
    """Return a table of rows that map headings to texts, all of them the same headings."""
    return Table(title, [*(rows[0] if rows else ())], [[*row.values()] for row in rows], note, left)


@dataclass(frozen=True)
class Figure:
    """A figure. name: of its file; draw: draws it on an empty figure of matplotlib; size: in inches."""

    name: str
    title: str
    draw: Callable[[matplotlib.figure.Figure], None]
    note: str = ""
    size: tuple[float, float] = field(default=(7.0, 4.2))


def number(value: float | None, digits: int = 6) -> str:
    """Return a number with this many significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.{digits}g}"


def seconds(value: float | None) -> str:
    """Return seconds with three significant digits, or a dash."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def mebibytes(value: int | None) -> str:
    """Return bytes as MiB, or a dash."""
    return "-" if value is None else f"{value / 2**20:,.1f}"
