"""Features that doubles only come near: how far they are from the exact ones, and what these are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric import rational

EPSILON = float(np.finfo(np.float64).eps)

Column = Mapping[int, Fraction]


@dataclass(frozen=True, eq=False)
class Rounding:
    """What features [m, d] are exactly: products of vectors `given` [n, D] with d columns, of which only the numbers
    other than 0 are there, by their place.

    spread [d]: no feature, and no limit, is further from the exact one. columns: `None` where nobody knows them.
    codes [n, d]: equal where, in a column and a list, exact features are. rows [m]: the vector of each feature row, or
    -1 - k for row k of `others` [.][d]. limits [k][d]: normals of half-spaces to be appended, up to positive factors.
    """

    spread: FloatArray
    given: FloatArray
    codes: FloatArray
    columns: Sequence[Column] | None
    rows: IntArray
    limits: Sequence[Sequence[Fraction]] = ()
    others: Sequence[Sequence[int]] = ()

    @property
    def known(self) -> bool:
        """Whether exact features can be asked for."""
        return self.columns is not None

    def take(self, rows: NDArray[np.integer]) -> Rounding:
        """Return what some rows are."""
        return replace(self, rows=self.rows[rows])

    def scaled(self, columns: IntArray, scales: FloatArray) -> Rounding:
        """Return what these columns [d] are, multiplied by powers of two [d]."""
        factors = [Fraction(scale) for scale in scales.tolist()]

        def scale(vectors: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
            return [[row[d] * f for d, f in zip(columns.tolist(), factors, strict=True)] for row in vectors]

        bases = None
        if self.columns is not None:
            pairs = zip(columns.tolist(), factors, strict=True)
            bases = [{k: value * factor for k, value in self.columns[d].items()} for d, factor in pairs]
        return Rounding(
            self.spread[columns] * scales,
            self.given,
            self.codes[:, columns],
            bases,
            self.rows,
            scale(self.limits),
            [whole_row(row) for row in scale([[Fraction(value) for value in row] for row in self.others])],
        )

    def with_half_spaces(self, normals: FloatArray) -> Rounding:
        """Return what the rows are with {a, 0} after them for each row a of normals [k, d], which are exact."""
        return self._followed_by([[Fraction(value) for value in row] for row in normals.tolist()])

    def with_limits(self) -> Rounding:
        """Return what the rows are with {a, 0} after them for each limit."""
        return self._followed_by(self.limits)

    def behind(self, normals: FloatArray) -> Rounding:
        """Return it with exact rows a of normals [k, d] before the limits."""
        return replace(self, limits=[*([Fraction(v) for v in row] for row in normals.tolist()), *self.limits])

    def _followed_by(self, normals: Sequence[Sequence[Fraction]]) -> Rounding:
        first = -1 - len(self.others)
        others = [whole for row in normals for whole in (whole_row(row), [0] * len(row))]
        return replace(
            self,
            rows=np.concatenate([self.rows, first - np.arange(len(others))]).astype(np.int64),
            others=[*self.others, *others],
        )

    def varying(self, offsets: IntArray) -> IntArray:
        """Return the columns whose exact features differ within some of the lists [s + 1], which hold given vectors."""
        codes = self.codes[self.rows]
        first = codes[np.repeat(offsets[:-1], np.diff(offsets))]
        return np.flatnonzero((codes != first).any(axis=0))

    def differences(self, chosen: IntArray, other: IntArray) -> list[list[int]]:
        """Return the exact rows chosen - other for pairs of rows of one list each, up to positive factors."""
        first, second = self.rows[chosen], self.rows[other]
        given = first >= 0
        deltas = iter(rational.difference_rows(self.given[first[given]], self.given[second[given]]))
        found = []
        for a, b, own in zip(first.tolist(), second.tolist(), given.tolist(), strict=True):
            if own:
                delta = next(deltas)
                row = [sum(delta[k] * factor for k, factor in column) for column in self._whole_columns]
            else:
                row = [x - y for x, y in zip(self.others[-1 - a], self.others[-1 - b], strict=True)]
            found.append(_shortened(row))
        return found

    @cached_property
    def _whole_columns(self) -> list[list[tuple[int, int]]]:
        """The columns as places of numbers other than 0 with whole numbers, all times one factor."""
        if self.columns is None:
            raise ValueError("nobody knows what these features are exactly")
        common = lcm(*(value.denominator for column in self.columns for value in column.values()))
        return [[(k, int(value * common)) for k, value in column.items()] for column in self.columns]


def exact_differences(
    features: FloatArray, rounding: Rounding | None, chosen: IntArray, other: IntArray
) -> list[list[int]]:
    """Return the exact rows chosen - other for rows of features [M, D], each up to a positive factor."""
    if rounding is None:
        return rational.difference_rows(features[chosen], features[other])
    return rounding.differences(chosen, other)


def whole_row(row: Sequence[Fraction]) -> list[int]:
    """Return a row times the least positive factor that makes it whole."""
    common = lcm(*(value.denominator for value in row))
    return _shortened([int(value * common) if value else 0 for value in row])


def _shortened(row: list[int]) -> list[int]:
    divisor = gcd(*row)
    return [value // divisor for value in row] if divisor > 1 else row
