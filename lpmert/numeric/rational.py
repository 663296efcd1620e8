"""Exact arithmetic on float64 vectors: small linear systems, strict feasibility, and what doubles stand for.

These are the decimals that they print as, products without rounding, and features that they round.

Every float stands for the rational number that it is. Only the functions that bring exact weights back to floats round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm, log2, ulp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert.errors import BoolArray, DataError, FloatArray, IntArray
from lpmert.limits import checked, checkpoint

Rows = Sequence[Sequence[int]]

EPSILON = float(np.finfo(np.float64).eps)
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
MANTISSA_BITS = 53
EXACT_INTEGERS = 2**MANTISSA_BITS  # up to here, float64 holds all integers
_FINE_BITS = 900  # of the integers that stand for weights in `rounded_inside`: within the range of float64


def to_integers(matrix: ArrayLike) -> list[list[int]]:
    """Return a float matrix [R, D] times one power of two, as integers; raises `ValueError` unless it is finite."""
    numbers = np.asarray(matrix, dtype=np.float64)
    flat, bits = _whole(numbers), 0
    for entry in checked(flat, 1 << 16):
        bits |= entry
    zeros = (bits & -bits).bit_length() - 1 if bits else 0
    flat = [entry >> zeros for entry in checked(flat, 1 << 16)]
    width = numbers.shape[1] if numbers.size else 0
    return [flat[start : start + width] for start in range(0, len(flat), width)] if width else [[] for _ in numbers]


def difference_rows(chosen: FloatArray, other: FloatArray) -> list[list[int]]:
    """Return the exact rows chosen - other for float matrices [R, D], each divided by its greatest common divisor."""
    pairs = (_whole(np.array(pair)) for pair in zip(chosen, other, strict=True))
    halves = ((pair[: len(pair) // 2], pair[len(pair) // 2 :]) for pair in pairs)
    return [reduced([a - b for a, b in zip(*half, strict=True)]) for half in halves]


def _whole(numbers: FloatArray) -> list[int]:
    """Return numbers of any shape, in order, times one power of two that makes them integers."""
    if not np.isfinite(numbers).all():
        raise ValueError("exact arithmetic needs finite numbers")
    ratios = [number.as_integer_ratio() for number in checked(numbers.ravel().tolist(), 1 << 16)]
    bits = max((denominator.bit_length() for _, denominator in ratios), default=1)
    return [numerator << (bits - denominator.bit_length()) for numerator, denominator in ratios]


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
    return multipliers if _balanced(rows, multipliers) else None


def _balanced(rows: Rows, multipliers: Sequence[int]) -> bool:
    """Whether the multipliers [R] are not negative, not all zero, and add the rows up to exactly zero."""
    if min(multipliers) < 0 or not any(multipliers):
        return False
    return not any(dot(column, multipliers) for column in zip(*rows, strict=True))


def all_positive(rows: Rows, weights: Sequence[int]) -> bool:
    """Whether every row has a strictly positive dot product with the integer weights."""
    return all(dot(row, weights) > 0 for row in rows)


def decide(rows: Rows) -> tuple[list[int], list[int]]:
    """Decide exactly whether some w has a strictly positive dot product with every integer row.

    Return w, or else multipliers [R] that are not negative and add the rows up to zero; the other of them is empty. At
    most D+1 multipliers are not 0. Raises `ArithmeticError` if the answer fails its check: a defect of this function.
    """
    if not rows:
        return [], []
    zero = next((index for index, row in enumerate(rows) if not any(row)), None)
    if zero is not None:
        return [], [int(i == zero) for i in range(len(rows))]
    weights, multipliers = _Dictionary(rows).solve()
    if not (_balanced(rows, multipliers) if multipliers else all_positive(rows, weights)):
        raise ArithmeticError("the exact simplex returned an answer that does not hold")
    return weights, multipliers


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
            walls = list(zip(margins, columns[d], strict=True))  # margin + a step > 0
            least = max((-margin // a + 1 for margin, a in walls if a > 0), default=None)
            most = min((-(-margin // -a) - 1 for margin, a in walls if a < 0), default=None)
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

    def solve(self) -> tuple[list[int], list[int]]:
        """Pivot until the weights are strictly feasible or x is proved positive at its least."""
        self._pivot(max(range(self.count), key=self.right.__getitem__), self.width)
        degenerate = False
        while True:
            checkpoint()
            place = self.basic.index(self.objective) if self.objective in self.basic else None
            if place is None or self._strict(place):
                return self._weights(), []
            entering = self._entering(self.table[place], bland=degenerate)
            if entering is None:
                return [], self._multipliers(self.table[place])
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


def reduced(row: list[int]) -> list[int]:
    """Return whole numbers divided by their greatest common divisor."""
    divisor = gcd(*row)
    return [entry // divisor for entry in row] if divisor > 1 else row


def whole_row(row: Sequence[Fraction]) -> list[int]:
    """Return a row times the least positive factor that makes it whole."""
    common = lcm(*(value.denominator for value in row))
    return reduced([int(value * common) if value else 0 for value in row])


def dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Return the dot product of two vectors [D] of integers or fractions."""
    return sum(a * b for a, b in zip(x, y, strict=True))


_TRIED = (0, 10, 20, 30, 40)  # binary places to try: few, because there may be many values
_FINEST = 60  # most binary places of a ray whose products can be exact
_EXACT_BITS = 52  # sums below 2**52 units are exact


def binary_places(values: FloatArray) -> int | None:
    """Return the least p tried for which all values are multiples of 2^-p, `None` if there is none.

    A p is skipped if a value times 2^p overflows.
    """
    blocks = _blocks(values)
    largest = max(float(max(block.max(initial=0.0), -block.min(initial=0.0))) for block in blocks)
    if not np.isfinite(largest):
        return None
    for p in _TRIED:
        scaled = (block * 2.0**p for block in blocks)
        if largest * 2.0**p < np.inf and all(np.array_equal(np.rint(block), block) for block in scaled):
            return p
    return None


def _places(values: FloatArray) -> IntArray:
    """Return for each of the finite values the least p for which it is a multiple of 2^-p."""
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, MANTISSA_BITS).astype(np.int64)
    lowest = whole & -whole
    return np.where(whole == 0, 0, MANTISSA_BITS + 1 - exponents - np.frexp(lowest)[1])


def single_products(rays: FloatArray) -> BoolArray:
    """Return which rays [K, D] have one nonzero entry, a power of two of at least 1: their products are not rounded."""
    largest = np.abs(rays).max(axis=1, initial=0.0)
    return np.asarray((np.count_nonzero(rays, axis=1) == 1) & (np.frexp(largest)[0] == 0.5) & (largest >= 1.0))


def exact_products(rays: FloatArray, features: FloatArray, largest: float) -> BoolArray:
    """Return for which rays [K, D] products with features [M, D] are sums without any rounding, in any order.

    largest: the greatest sum of absolute values of a row of features. If features are multiples of 2^-p and a ray of
    2^-q, all partial sums are multiples of 2^-(p + q), and 53 bits hold them unless they are too large.
    """
    places = binary_places(features)
    if places is None or not np.isfinite(rays).all():
        return np.zeros(len(rays), dtype=bool)
    ray_places = _places(rays).max(axis=1, initial=0)
    sizes = largest * np.abs(rays).max(axis=1, initial=0.0)
    return np.asarray((ray_places <= _FINEST) & (sizes < np.ldexp(1.0, _EXACT_BITS - places - ray_places)))


_MOST_DIGITS = 15  # decimals of at most so many digits have different nearest doubles
_MOST_DECIMALS = 22  # doubles do not hold larger powers of ten
_FIRST_BLOCK = 1 << 10
_LATER_BLOCK = 1 << 14


class Decimals(NamedTuple):
    """What numbers stand for: decimals with so many places after the point; with `None`, the doubles as given.

    Doubles round most decimals. Differences of decimals that are equal, parallel or opposite are mostly not so when
    computed from doubles, and ties in print turn into tiny differences.
    """

    places: int | None

    @property
    def unit(self) -> float:
        """The factor that leads from the numbers of `of` back to those given."""
        if self.places is None:
            return 1.0
        return float(np.ldexp(10.0**-self.places, round(self.places * log2(10.0))))

    def of(self, features: FloatArray) -> FloatArray:
        """Return features [m, D] as the numbers they stand for, divided by `unit`."""
        if self.places is None:
            return features
        whole = features * 10.0**self.places
        np.rint(whole, out=whole)
        return np.asarray(np.ldexp(whole, -round(self.places * log2(10.0)), out=whole))


def decimals_of(features: FloatArray) -> Decimals:
    """Return what features [M, D] stand for: decimals, or else the doubles as given.

    They stand for decimals if each is the double nearest to one, 15 digits reach from the first digit of the largest to
    the last place of any, and doubles do not hold all of them exactly. Times a power of ten and one of two, these
    decimals are whole numbers times a power of two, and about as large as before. One factor for all columns changes
    neither choices nor weights.
    """
    as_given = Decimals(None)
    largest = max(-features.min(), features.max()) if features.size else 0.0
    places = 0
    for block in _blocks(features):
        while not np.array_equal(np.rint(block * 10.0**places) / 10.0**places, block):
            places += 1
            if places > _MOST_DECIMALS or largest * 10.0**places >= 10.0**_MOST_DIGITS:
                return as_given
    if not places:  # whole numbers of any size
        return as_given
    for block in _blocks(features):
        if (np.rint(block * 10.0**places).astype(np.int64) % 5**places).any():
            return Decimals(places)
    return as_given  # doubles hold all of them exactly


def in_decimals(features: FloatArray) -> FloatArray:
    """Return features [M, D] as the numbers they stand for, see `decimals_of`."""
    return decimals_of(features).of(features)


def _blocks(values: FloatArray) -> list[FloatArray]:
    """Return values in blocks; the first one is small, because most values that are no decimals show it there."""
    return np.split(values.reshape(-1), [_FIRST_BLOCK, *range(_LATER_BLOCK, values.size, _LATER_BLOCK)])


Column = Mapping[int, Fraction]  # a column: its entries other than 0, by row


@dataclass(frozen=True, eq=False)
class Rounding:
    """The exact features [m, d] that doubles round: products of `vectors` [n, D] with `columns` [d].

    spread [d]: how far a feature, or a limit, may be from the exact one. columns: `None` where they are unknown. codes
    [n, d]: equal where the exact features of a column and a list are equal. rows [m]: the vector of each feature row,
    or -1 - k for row k of `others` [.][d]. limits [k][d]: normals of half-spaces that `with_limits` appends, up to
    positive factors.
    """

    spread: FloatArray
    vectors: FloatArray
    codes: FloatArray
    columns: Sequence[Column] | None
    rows: IntArray
    limits: Sequence[Sequence[Fraction]] = ()
    others: Sequence[Sequence[Fraction]] = ()

    @property
    def known(self) -> bool:
        return self.columns is not None

    def off(self, weights: FloatArray) -> float:
        """Return a bound on how far differences of two scores at weights [d] are from the exact ones."""
        return 2.0 * (1.0 + 1e-9) * float(np.abs(weights) @ self.spread)

    def take(self, rows: NDArray[np.integer]) -> Rounding:
        return replace(self, rows=self.rows[rows])

    def scaled(self, scales: FloatArray, columns: IntArray | None = None) -> Rounding:
        """Return these columns [d], by default all, multiplied by powers of two [d]."""
        columns = np.arange(len(scales)) if columns is None else columns
        pairs = list(zip(columns.tolist(), map(Fraction, scales.tolist()), strict=True))

        def scale(rows: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
            return [[row[d] * factor for d, factor in pairs] for row in rows]

        return replace(
            self,
            spread=self.spread[columns] * scales,
            codes=self.codes[:, columns],
            columns=self.columns and [{k: v * factor for k, v in self.columns[d].items()} for d, factor in pairs],
            limits=scale(self.limits),
            others=scale(self.others),
        )

    def followed_by(self, normals: FloatArray | None = None) -> Rounding:
        """Append {a, 0} for each row a of normals [k, d], which are exact, or for each limit."""
        rows = self.limits if normals is None else _fractions(normals)
        others = [*self.others, *(row for a in rows for row in (a, [Fraction(0)] * len(a)))]
        added = -1 - np.arange(len(self.others), len(others))
        return replace(self, rows=np.concatenate([self.rows, added]), others=others)

    def behind(self, normals: FloatArray) -> Rounding:
        """Put normals [k, d], which are exact, before the limits."""
        return replace(self, limits=[*_fractions(normals), *self.limits])

    def varying(self, offsets: IntArray) -> IntArray:
        """Return the columns whose exact features differ within a list; offsets [s + 1]: of lists of `vectors`."""
        codes = self.codes[self.rows]
        first = codes[np.repeat(offsets[:-1], np.diff(offsets))]
        return np.flatnonzero((codes != first).any(axis=0))

    def differences(self, chosen: IntArray, other: IntArray) -> list[list[int]]:
        """Return the exact rows chosen - other, each of two rows of one list and up to a positive factor."""
        first, second = self.rows[chosen], self.rows[other]
        of_vectors = first >= 0
        deltas = iter(difference_rows(self.vectors[first[of_vectors]], self.vectors[second[of_vectors]]))
        found = []
        for a, b, is_vector in zip(first.tolist(), second.tolist(), of_vectors.tolist(), strict=True):
            if is_vector:
                delta = next(deltas)
                row = [sum(delta[k] * factor for k, factor in column) for column in self._whole_columns]
                found.append(reduced(row))
            else:
                found.append(whole_row([x - y for x, y in zip(self.others[-1 - a], self.others[-1 - b], strict=True)]))
        return found

    @cached_property
    def _whole_columns(self) -> list[list[tuple[int, int]]]:
        """The columns times one common factor: (row, whole number) for each entry other than 0."""
        if self.columns is None:
            raise ValueError("the exact features are not known")
        common = lcm(*(value.denominator for column in self.columns for value in column.values()))
        return [[(k, int(value * common)) for k, value in column.items()] for column in self.columns]


def exact_differences(
    features: FloatArray, rounding: Rounding | None, chosen: IntArray, other: IntArray
) -> list[list[int]]:
    """Return the exact rows chosen - other for rows of features [M, D], each up to a positive factor."""
    return rounding.differences(chosen, other) if rounding else difference_rows(features[chosen], features[other])


def _fractions(rows: FloatArray) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in rows.tolist()]


_SPLITTER = float((1 << 27) + 1)
_SAFE = 2.0**-400  # products of numbers above this do not underflow, nor do their errors


def sums_of_columns(features: FloatArray, offsets: IntArray, column: Column) -> tuple[FloatArray, FloatArray, float]:
    """Return the products [M] of features [M, D] with a column, codes [M] of the exact products, and the largest error.

    Codes differ within a list, offsets [S + 1], exactly where the exact products do. Products are summed with about
    twice the digits of doubles (Dekker, A floating-point technique for extending the available precision, 1971), then
    rounded. Raises `DataError` where they overflow.
    """
    used, factors = list(column), list(column.values())
    terms = features[:, used]
    if factors == [1]:
        return terms[:, 0], terms[:, 0], 0.0
    # Scaling by powers of two prevents overflow; the bits that underflow are negligible beside the largest number.
    exponents = np.frexp(np.abs(terms).max(axis=0, initial=0.0))[1]
    scaled = np.ldexp(terms, -exponents)
    factors = [factor * Fraction(2) ** int(exponent) for factor, exponent in zip(factors, exponents, strict=True)]
    top = max(abs(factor).numerator.bit_length() - factor.denominator.bit_length() for factor in factors) + 1
    exact = bool((np.ldexp(scaled, exponents) == terms).all() and (np.abs(scaled[scaled != 0.0]) > _SAFE).all())
    total, rest, size = np.zeros(len(terms)), np.zeros(len(terms)), np.zeros(len(terms))
    for x, factor in zip(scaled.T, factors, strict=True):
        factor /= Fraction(2) ** top
        high = float(factor)
        low = float(factor - Fraction(high))
        product, error = _product(x, high)
        total, carried = two_sum(total, product)
        exact = exact and factor == Fraction(high) and abs(high) > _SAFE and not (error.any() or carried.any())
        rest += carried + (error + x * low)
        size += np.abs(product)
    with np.errstate(over="ignore"):
        values = np.ldexp(total + rest, top)
    if not np.isfinite(values).all():
        raise DataError("a sum of features that an equation needs overflows; rescale these features")
    if exact and np.array_equal(np.ldexp(values, -top), total):
        return values, values, 0.0
    second_order = 16.0 * (len(used) + 2) ** 2 * EPSILON**2 * float(size.max(initial=0.0))
    off = float(np.ldexp(second_order + 2.0**-1060, top)) + ulp(0.0)
    off += EPSILON * float(np.abs(values).max(initial=0.0))
    return values, _codes(terms, offsets, list(column.values()), values, off), off


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums [M] and their rounding errors (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return products [M] and their rounding errors (Dekker), for numbers far from overflow."""
    product = a * b
    high = _SPLITTER * a - (_SPLITTER * a - a)
    other = _SPLITTER * b - (_SPLITTER * b - b)
    low, rest = a - high, b - other
    return product, ((high * other - product) + high * rest + low * other) + low * rest


def _codes(terms: FloatArray, offsets: IntArray, factors: list[Fraction], values: FloatArray, off: float) -> FloatArray:
    """Return codes [M] that differ within a list exactly where the exact sums do.

    values [M]: the sums of terms [M, n] times factors [n], each off by at most `off`; those that come near each other
    are compared in whole numbers.
    """
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((values, lists))
    near = (np.diff(values[order]) <= 2.0 * off) & (np.diff(lists[order]) == 0)
    close = np.union1d(order[1:][near], order[:-1][near])
    codes: FloatArray = -1.0 - np.arange(len(values), dtype=np.float64)
    different, places = np.unique(terms[close], axis=0, return_inverse=True)
    multiples = whole_row(factors)
    found: dict[int, int] = {}
    sums = (dot(row, multiples) for row in to_integers(different))
    numbers = np.array([found.setdefault(value, len(found)) for value in sums], dtype=np.float64)
    codes[close] = numbers[places.ravel()]
    return codes
