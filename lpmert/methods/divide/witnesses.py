"""A pool of witnesses: weights with the selection that they decode to, so that choices which some weights are already
known to make need no linear program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray

_FIRST_ROOM = 64


class Witnesses:
    """Weights [d] that decode to known selections [S], found again by their choices on some of the lists.

    sizes [S]: hypotheses of each list; most: witnesses kept at most.
    """

    def __init__(self, sizes: IntArray, most: int) -> None:
        self._sizes = sizes
        self._most = most
        self._weights: list[FloatArray] = []
        self._selections = np.empty((len(sizes), min(most, _FIRST_ROOM)), dtype=np.int64)
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, weights: FloatArray, selection: IntArray) -> None:
        """Keep weights that make the positions of the selection strictly best, unless that selection is known."""
        count = len(self._weights)
        whole = selection.tobytes()
        if count >= self._most or whole in self._known:
            return
        if count == self._selections.shape[1]:
            self._selections = np.concatenate([self._selections, np.empty_like(self._selections)], axis=1)
        self._known.add(whole)
        self._weights.append(weights.copy())
        self._selections[:, count] = selection

    def agreeing(self, lists: IntArray, positions: Sequence[int]) -> IntArray:
        """Return the numbers of the witnesses that make these choices, one position for each of the lists."""
        count = len(self._weights)
        if not len(lists):
            return np.arange(count)
        numbers = np.flatnonzero(self._selections[lists[0], :count] == positions[0])
        for s, position in zip(lists[1:].tolist(), positions[1:], strict=True):
            if not len(numbers):
                break
            numbers = numbers[self._selections[s, numbers] == position]
        return numbers

    def weights(self, number: int) -> FloatArray:
        """Return the weights [d] of a witness."""
        return self._weights[number]

    def attained(self, numbers: IntArray) -> NDArray[np.bool_]:
        """Return [S, longest list] whether any of these witnesses makes the choice."""
        made = np.zeros((len(self._sizes), int(self._sizes.max(initial=1))), dtype=np.bool_)
        made[np.arange(len(self._sizes))[:, None], self._selections[:, numbers]] = True
        return made

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        each = sum(weights.nbytes for weights in self._weights[:1]) + 8 * len(self._sizes)
        return self._selections.nbytes + each * len(self._weights)
