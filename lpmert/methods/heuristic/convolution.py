"""The exact expectation of a function of sums over lists, by convolving the lists' probability masses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lpmert.errors import FloatArray, MethodError
from lpmert.methods.heuristic.softmax import AllHypotheses

MEMORY_LIMIT = 1 << 26
"""Most numbers that the masses of all partial sums may hold together: half a gibibyte."""


class Convolution:
    """E[f(sums)] of one or more columns [M] of whole numbers, one row drawn from every list.

    function: takes the sums as arrays that broadcast against each other and returns f on their grid. Columns may be
    off whole numbers by an amount that is constant within each list. The slopes come from the same chain backwards:
    the derivative by a probability is the expectation with that row chosen. Raises `MethodError` if a column has
    other numbers, or the grids of the partial sums need more than `MEMORY_LIMIT` numbers.
    """

    def __init__(
        self,
        lists: AllHypotheses,
        columns: Sequence[FloatArray],
        function: Callable[[Sequence[FloatArray]], FloatArray],
    ) -> None:
        values = np.stack(columns, axis=1)
        least = np.minimum.reduceat(values, lists.offsets[:-1], axis=0)
        steps = values - least[lists.numbers]
        if not np.array_equal(steps, np.rint(steps)):
            raise MethodError("the exact law needs statistics that are whole numbers; choose law='taylor'")
        whole = steps.astype(np.int64)
        self._inverse = np.empty(len(values), dtype=np.int64)
        self._steps: list[list[tuple[int, ...]]] = []
        self._begins = [0]
        for begin, end in zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True):
            distinct, inverse = np.unique(whole[begin:end], axis=0, return_inverse=True)
            self._inverse[begin:end] = self._begins[-1] + inverse.ravel()
            self._steps.append([tuple(step) for step in distinct.tolist()])
            self._begins.append(self._begins[-1] + len(distinct))
        reach = np.maximum.reduceat(whole, lists.offsets[:-1], axis=0)
        shapes = np.cumsum(np.vstack([np.ones(len(columns), dtype=np.int64), reach]), axis=0)
        self._shapes = [tuple(shape) for shape in shapes.tolist()]
        needed = float(np.prod(shapes, axis=1, dtype=np.float64).sum())
        if needed > MEMORY_LIMIT:
            raise MethodError(
                f"the exact law would need masses of {needed:.3g} numbers, more than {MEMORY_LIMIT}; "
                "choose law='taylor' or 'normal'"
            )
        axes = [base + np.arange(size) for base, size in zip(least.sum(axis=0), self._shapes[-1], strict=True)]
        self._values = function(np.meshgrid(*axes, indexing="ij", sparse=True))

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expectation and its slopes [M] at probabilities [M]."""
        masses = np.bincount(self._inverse, probabilities, self._begins[-1])
        partial = [np.ones(self._shapes[0])]
        for number, steps in enumerate(self._steps):
            total = np.zeros(self._shapes[number + 1])
            for step, mass in zip(steps, masses[self._begins[number] :], strict=False):
                total[_window(step, self._shapes[number])] += mass * partial[-1]
            partial.append(total)
        value = float((partial[-1] * self._values).sum())
        slopes = np.empty(len(masses))
        ahead = self._values
        for number in range(len(self._steps) - 1, -1, -1):
            shape, begin = self._shapes[number], self._begins[number]
            before = np.zeros(shape)
            for place, step in enumerate(self._steps[number], begin):
                part = ahead[_window(step, shape)]
                slopes[place] = (partial[number] * part).sum()
                before += masses[place] * part
            ahead = before
        return value, slopes[self._inverse]


def _window(step: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + size) for begin, size in zip(step, shape, strict=True))
