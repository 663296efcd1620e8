"""Exact arithmetic on float64 vectors: small linear systems, and strict feasibility with a certificate.

Every float stands for the rational number that it is. Only the functions that bring exact weights back to floats round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import FloatArray
from lpmert.system.deadline import checked, checkpoint

Rows = Sequence[Sequence[int]]

EPSILON = float(np.finfo(np.float64).eps)
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
MANTISSA_BITS = 53
EXACT_INTEGERS = 2**MANTISSA_BITS  # up to here, float64 holds all integers
_FINE_BITS = 900  # of the integers that stand for weights in `rounded_inside`: within the range of float64


@dataclass(frozen=True)
class Feasible:
    """Integer weights [D] that make every row's dot product strictly positive; empty when there were no rows."""

    weights: list[int]


@dataclass(frozen=True)
class Infeasible:
    """Non-negative integer multipliers [R], not all zero, that add the rows up to exactly zero."""

    multipliers: list[int]


def to_integers(matrix: ArrayLike) -> list[list[int]]:
    """Return a float matrix [R, D] times one common power of two, as exact integers.

    Raises `ValueError` for entries that are not finite.
    """
    mantissas, exponents = _split(np.asarray(matrix, dtype=np.float64))
    width = len(mantissas[0]) if mantissas else 0
    flat = _shifted([m for row in mantissas for m in row], [e for row in exponents for e in row])
    bits = 0
    for entry in checked(flat, 1 << 16):
        bits |= entry
    zeros = (bits & -bits).bit_length() - 1 if bits else 0
    flat = [entry >> zeros for entry in checked(flat, 1 << 16)]
    return [flat[start : start + width] for start in range(0, width * len(mantissas), width)] if width else mantissas


def difference_rows(chosen: ArrayLike, other: ArrayLike) -> list[list[int]]:
    """Return the exact rows chosen - other for float matrices [R, D], each up to a positive factor.

    Each row is divided by its greatest common divisor. Raises `ValueError` for entries that are not finite or unequal
    shapes.
    """
    first = np.asarray(chosen, dtype=np.float64)
    second = np.asarray(other, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"chosen has shape {first.shape}, other {second.shape}; they must agree")
    mantissas, exponents = _split(np.concatenate([first, second], axis=1))
    width = first.shape[1]
    rows = []
    for row, shifts in zip(mantissas, exponents, strict=True):
        integers = _shifted(row, shifts)
        rows.append(reduced([a - b for a, b in zip(integers[:width], integers[width:], strict=True)]))
    return rows


def round_to_floats(weights: Sequence[int]) -> FloatArray:
    """Return the integers [D] divided by a power of two that brings the largest below 1, each rounded to float64."""
    bits = max((abs(weight).bit_length() for weight in weights), default=0)
    return np.array([weight / (1 << bits) for weight in weights], dtype=np.float64)


def below_one(weights: FloatArray) -> tuple[FloatArray, int]:
    """Return weights [D] divided by a power of two, so that all are below 1, and its exponent; no choice changes."""
    exponent = int(np.frexp(np.abs(weights).max(initial=0.0))[1])
    return np.ldexp(weights, -exponent), exponent


def farkas(rows: Rows) -> list[int] | None:
    """Return non-negative integers [R], not all zero, that add the rows up to exactly zero.

    `None` where the rows have no null vector, more than one, or one of mixed signs.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    pivots, determinant = eliminate(columns, len(rows))
    free = [i for i in range(len(rows)) if i not in pivots]
    if len(free) != 1:
        return None
    vector = [0] * len(rows)
    vector[free[0]] = determinant
    for row, column in enumerate(pivots):
        vector[column] = -columns[row][free[0]]
    multipliers = reduced(vector if determinant > 0 else [-entry for entry in vector])
    return multipliers if adds_up_to_zero(rows, multipliers) else None


def adds_up_to_zero(rows: Rows, multipliers: Sequence[int]) -> bool:
    """Whether the multipliers [R] are non-negative, not all zero, and add the rows up to exactly zero."""
    if len(multipliers) != len(rows) or min(multipliers, default=-1) < 0 or not any(multipliers):
        return False
    return all(dot(column, multipliers) == 0 for column in zip(*rows, strict=True))


def all_positive(rows: Rows, weights: Sequence[int]) -> bool:
    """Whether every row has a strictly positive dot product with the integer weights."""
    return all(dot(row, weights) > 0 for row in rows)


def decide(rows: Rows) -> Feasible | Infeasible:
    """Decide exactly whether some w has a strictly positive dot product with every integer row.

    Either answer carries its certificate, checked before it is returned. The support of the multipliers has at most D+1
    rows. Raises `ArithmeticError` if a certificate fails its check, which would be a defect of this function.
    """
    if not rows:
        return Feasible([])
    for index, row in enumerate(rows):
        if not any(row):
            return Infeasible([int(i == index) for i in range(len(rows))])
    answer = _Dictionary(rows).solve()
    if isinstance(answer, Feasible):
        sound = all_positive(rows, answer.weights)
    else:
        sound = adds_up_to_zero(rows, answer.multipliers)
    if not sound:
        raise ArithmeticError("the exact simplex returned a certificate that does not hold")
    return answer


def rounded_inside(rows: Rows, weights: Sequence[int]) -> FloatArray:
    """Round integer weights [D] to float64, of size at most 1, trying to keep dot products with the rows positive.

    The entries are rounded one at a time, the largest first. Before each, the entries that are left move to the middle
    of what the rows allow. So the walls of a narrow cone are as far away as possible when the last entry is rounded,
    which is the smallest and has the finest grid.
    """
    more = _FINE_BITS - max(abs(weight).bit_length() for weight in weights)
    point = [weight << more if more > 0 else weight >> -more for weight in weights]
    margins = [dot(row, point) for row in rows]
    columns = [list(column) for column in zip(*rows, strict=True)]

    def move(d: int, step: int) -> None:
        point[d] += step
        margins[:] = [margin + a * step for margin, a in zip(margins, columns[d], strict=True)]

    unrounded = sorted(range(len(point)), key=lambda d: abs(weights[d]))
    while unrounded:
        for d in unrounded:
            # margin + a step > 0
            least = max(
                (-margin // a + 1 for margin, a in zip(margins, columns[d], strict=True) if a > 0), default=None
            )
            most = min(
                (-(-margin // -a) - 1 for margin, a in zip(margins, columns[d], strict=True) if a < 0), default=None
            )
            if least is not None and most is not None and least <= most:
                move(d, (least + most) // 2)
        d = unrounded.pop()
        fine = max(0, abs(point[d]).bit_length() - MANTISSA_BITS)  # the integers may be beyond the range of doubles
        move(d, (round(Fraction(point[d], 1 << fine)) << fine) - point[d])
    return round_to_floats(point)


def solve_integers(matrix: Rows, target: Sequence[int]) -> list[Fraction] | None:
    """Return an exact x [C] with matrix x = target for integers [R, C] and [R], or `None` if there is none.

    The system may be square, overdetermined or rank deficient; undetermined entries of x are zero. Needs one pass over
    the rows for each independent row that the current x violates, so tall systems are quick.
    """
    width = len(matrix[0]) if matrix else 0
    held: list[list[int]] = []
    numerators, denominator = [0] * width, 1
    while True:
        checkpoint()
        for row, value in zip(matrix, target, strict=True):
            if dot(row, numerators) != value * denominator:
                held.append([*row, value])
                break
        else:
            return [Fraction(numerator, denominator) for numerator in numerators]
        work = [list(row) for row in held]
        pivots, denominator = eliminate(work, width)
        if len(pivots) < len(work):
            return None
        numerators = [0] * width
        for index, column in enumerate(pivots):
            numerators[column] = work[index][width]


class _Dictionary:
    """A simplex dictionary in integers over a common denominator for: minimise x, slack_i = row_i.w - b_i + x >= 0.

    The right sides b_i may be any positive numbers, since w may be scaled; different ones keep the vertices apart. Free
    w enter first and never leave. Pivots take the largest coefficient; after a degenerate pivot they follow Bland's
    rule until the objective falls again, so that the method terminates.
    """

    def __init__(self, rows: Rows) -> None:
        self.count = len(rows)
        self.width = len(rows[0])
        # Variables: 0..R-1 slacks, R..R+D-1 weights, R+D the objective x. Columns: D weights, x, constant.
        self.objective = self.count + self.width
        # Knuth's multiplicative hash: fixed numbers between 256 and 511 without a pattern.
        self.right = [256 + (((i + 1) * 2654435761 >> 16) & 255) for i in range(self.count)]
        self.basic = list(range(self.count))
        self.nonbasic = list(range(self.count, self.objective + 1))
        self.table = [[*row, 1, -b] for row, b in zip(rows, self.right, strict=True)]
        self.denominator = 1

    def solve(self) -> Feasible | Infeasible:
        """Pivot until the weights are strictly feasible or x is proved positive at its least."""
        self._pivot(max(range(self.count), key=self.right.__getitem__), self.width)
        degenerate = False
        while True:
            checkpoint()
            place = self.basic.index(self.objective) if self.objective in self.basic else None
            if place is None or self._strict(place):
                return Feasible(self._weights())
            entering = self._entering(self.table[place], bland=degenerate)
            if entering is None:
                return Infeasible(self._multipliers(self.table[place]))
            leaving = self._leaving(entering, place)
            degenerate = self.table[leaving][-1] == 0
            self._pivot(leaving, entering)

    def _strict(self, place: int) -> bool:
        x = self.table[place][-1]
        values = [0] * self.count
        for variable, row in zip(self.basic, self.table, strict=True):
            if variable < self.count:
                values[variable] = row[-1]
        return all(value + self.denominator * b > x for value, b in zip(values, self.right, strict=True))

    def _entering(self, costs: list[int], *, bland: bool) -> int | None:
        best: int | None = None
        for column, variable in enumerate(self.nonbasic):
            cost = costs[column]
            if variable >= self.count and cost:
                return column
            if cost < 0 and (best is None or (variable < self.nonbasic[best] if bland else cost < costs[best])):
                best = column
        return best

    def _leaving(self, entering: int, place: int) -> int:
        # The objective's own row always blocks, so the search never runs out of rows.
        direction = 1 if self.table[place][entering] < 0 else -1
        best, top, bottom = place, self.table[place][-1], -direction * self.table[place][entering]
        for index, (variable, row) in enumerate(zip(self.basic, self.table, strict=True)):
            slope = -direction * row[entering]
            if variable < self.count and slope > 0:
                order = row[-1] * bottom - top * slope
                if order < 0 or (order == 0 and best != place and variable < self.basic[best]):
                    best, top, bottom = index, row[-1], slope
        return best

    def _pivot(self, leaving: int, entering: int) -> None:
        pivot_row = self.table[leaving]
        pivot, old = pivot_row[entering], self.denominator
        sign = 1 if pivot > 0 else -1
        size = abs(pivot)
        signed = [sign * entry for entry in pivot_row]
        for index, row in enumerate(self.table):
            if index == leaving:
                continue
            factor = row[entering]
            if factor:
                updated = [(a * size - factor * b) // old for a, b in zip(row, signed, strict=True)]
                updated[entering] = sign * factor
            else:
                updated = [a * size // old for a in row]
            self.table[index] = updated
        replaced = [-entry for entry in signed]
        replaced[entering] = sign * old
        self.table[leaving] = replaced
        self.denominator = size
        self.basic[leaving], self.nonbasic[entering] = self.nonbasic[entering], self.basic[leaving]

    def _weights(self) -> list[int]:
        weights = [0] * self.width
        for variable, row in zip(self.basic, self.table, strict=True):
            if self.count <= variable < self.objective:
                weights[variable - self.count] = row[-1]
        return reduced(weights)

    def _multipliers(self, costs: list[int]) -> list[int]:
        multipliers = [0] * self.count
        for column, variable in enumerate(self.nonbasic):
            if variable < self.count:
                multipliers[variable] = costs[column]
        return reduced(multipliers)


def eliminate(table: list[list[int]], width: int) -> tuple[list[int], int]:
    """Bring the first `width` columns of an integer table into diagonal form by Bareiss' fraction-free elimination.

    Returns the pivot columns, in order of their rows, and the common pivot; the table is changed in place.
    """
    pivots: list[int] = []
    previous = 1
    for column in range(width):
        top = len(pivots)
        if top == len(table):
            break
        checkpoint()
        found = next((i for i in range(top, len(table)) if table[i][column]), None)
        if found is None:
            continue
        table[top], table[found] = table[found], table[top]
        pivot_row = table[top]
        pivot = pivot_row[column]
        for index, row in enumerate(table):
            if index != top:
                factor = row[column]
                table[index] = [(pivot * a - factor * b) // previous for a, b in zip(row, pivot_row, strict=True)]
        previous = pivot
        pivots.append(column)
    return pivots, previous


def _split(matrix: FloatArray) -> tuple[list[list[int]], list[list[int]]]:
    if not np.isfinite(matrix).all():
        raise ValueError("exact arithmetic needs finite numbers")
    fractions, exponents = np.frexp(matrix)
    mantissas = np.ldexp(fractions, MANTISSA_BITS).astype(np.int64)
    return mantissas.tolist(), exponents.tolist()


def _shifted(mantissas: list[int], exponents: list[int]) -> list[int]:
    least = min((e for m, e in zip(mantissas, exponents, strict=True) if m), default=0)
    return [m << (e - least) if m else 0 for m, e in zip(mantissas, exponents, strict=True)]


def reduced(row: list[int]) -> list[int]:
    """Return whole numbers divided by their greatest common divisor."""
    divisor = gcd(*row)
    return [entry // divisor for entry in row] if divisor > 1 else row


def clear_denominators(fractions: Sequence[Fraction]) -> list[int]:
    """Return fractions times their least common denominator."""
    common = lcm(*(value.denominator for value in fractions))
    return [int(value * common) if value else 0 for value in fractions]


def dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Return the dot product of two vectors [D] of integers or fractions."""
    return sum(a * b for a, b in zip(x, y, strict=True))
