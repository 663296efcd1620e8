"""A pool of witnesses: weights with the selection that they decode to, so that choices which some weights are already
known to make need no linear program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.result import FloatArray, IntArray


class Witnesses:
    """Weights that decode to known selections, looked up by the choices on a registered part of the lists."""

    def __init__(self, most: int) -> None:
        """Keep at most so many witnesses."""
        self._most = most
        self._weights: list[FloatArray] = []
        self._selections: list[IntArray] = []
        self._known: set[bytes] = set()
        self._parts: dict[tuple[int, ...], dict[bytes, int]] = {}
        self._columns: dict[tuple[int, ...], IntArray] = {}

    def __len__(self) -> int:
        return len(self._weights)

    def register(self, part: Sequence[int]) -> None:
        """Make lookups by the choices on these lists possible."""
        key = tuple(part)
        if key in self._parts:
            return
        columns = self._columns[key] = np.array(key, dtype=np.int64)
        found = self._parts[key] = {}
        for number, selection in enumerate(self._selections):
            found.setdefault(selection[columns].tobytes(), number)

    def forget(self, part: Sequence[int]) -> None:
        """Drop a registered part."""
        self._parts.pop(tuple(part), None)
        self._columns.pop(tuple(part), None)

    def add(self, weights: FloatArray, selection: IntArray) -> None:
        """Keep weights [D] that make the positions selection [S] strictly best, unless that selection is known."""
        if len(self._weights) >= self._most:
            return
        whole = selection.tobytes()
        if whole in self._known:
            return
        self._known.add(whole)
        number = len(self._weights)
        self._weights.append(weights.copy())
        self._selections.append(selection.copy())
        for key, found in self._parts.items():
            found.setdefault(selection[self._columns[key]].tobytes(), number)

    def find(self, part: Sequence[int], positions: IntArray) -> FloatArray | None:
        """Return weights [D] that make these choices on a registered part, if any are known."""
        number = self._parts[tuple(part)].get(positions.tobytes())
        return None if number is None else self._weights[number]

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        each = sum(64 + 8 * len(key) for key in self._parts)
        return sum(len(weights) * 8 + len(self._selections[0]) * 16 + each for weights in self._weights[:1]) * len(self)
