"""Rows, one for each solver on each dataset, and the JSON Lines files that hold them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lpmert.files import write_text
from lpmert.result import relative_gap

_PROOFS = ("optimal", "optimal_to_tolerance")  # statuses that claim a proof
_HELD_UP, _HELD_UP_SECONDS = 1.5, 0.5  # factor and seconds by which wall-clock time may exceed processor time
Key = tuple[str, str, str, int]  # dataset, objective, solver and seed, which identify a row of a benchmark


@dataclass(frozen=True)
class Row:
    """What one solver did on one dataset.

    loss and score: as the harness evaluates the weights. seconds: of the wall clock; processor_seconds: of all threads
    of the process, and of the processes that it started and that have ended; peak_bytes: memory beyond what the process
    held before; load: the load average just before. details: what only some benchmarks measure. Unknown values are
    `None`.
    """

    dataset: str
    objective: str
    solver: str
    seed: int
    time_limit: float
    status: str
    seconds: float
    processor_seconds: float
    loss: float | None = None
    score: float | None = None
    lower_bound: float | None = None
    peak_bytes: int | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    cores: int = 0
    processor: str = ""
    load: float | None = None
    date: str = ""

    @property
    def key(self) -> Key:
        """What identifies the row within its benchmark."""
        return self.dataset, self.objective, self.solver, self.seed

    @property
    def gap(self) -> float | None:
        """The relative gap between loss and bound."""
        return None if self.loss is None or self.lower_bound is None else relative_gap(self.loss, self.lower_bound)

    @property
    def proved(self) -> bool:
        """Whether the solver claims a proof that the loss is the least."""
        return self.status in _PROOFS

    @property
    def cut_short(self) -> bool:
        """Whether a limit ended the run, or the run failed."""
        return self.status in ("time_limit", "memory_limit", "node_limit", "killed", "failed")

    @property
    def held_up(self) -> bool:
        """Whether the process waited so long for a processor that its time says little."""
        measured = self.status not in ("killed", "failed")
        return measured and self.seconds > _HELD_UP * self.processor_seconds + _HELD_UP_SECONDS

    def to_json(self) -> str:
        """Return the row as one line of JSON; infinite numbers become null."""
        return json.dumps({name: _finite(value) for name, value in asdict(self).items()}, allow_nan=False)


def read_rows(path: Path) -> dict[Key, Row]:
    """Return the rows of a file by key, none if there is no file."""
    if not path.exists():
        return {}
    known = {one.name for one in fields(Row)}
    contents = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    rows = [Row(**{name: value for name, value in content.items() if name in known}) for content in contents]
    return {row.key: row for row in rows}


def keep_row(path: Path, row: Row) -> None:
    """Write a row into a file, replacing the row with its key if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {**read_rows(path), row.key: row}
    write_text(path, "".join(one.to_json() + "\n" for one in rows.values()))


def forget_row(path: Path, key: Key) -> None:
    """Remove the row with this key from a file, if there is one."""
    rows = read_rows(path)
    if rows.pop(key, None) is not None:
        write_text(path, "".join(one.to_json() + "\n" for one in rows.values()))


def find(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows whose fields have these values."""
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
