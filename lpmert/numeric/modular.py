"""Which columns are exact linear combinations of others: elimination modulo primes, and a proof over the rationals.

Columns that are independent modulo a prime are independent. The coefficients of dependent ones are put together from
several primes (Chinese remainders, rational reconstruction after Wang 1981), and confirmed: a whole number is 0 if it
is 0 modulo primes whose product exceeds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.system.deadline import out_of_time

_MANTISSA_BITS = 53
_PRIME_BITS = 31
_HALF = 1 << 16
_SLACK_BITS = 20
"""By so many bits fewer than a random remainder has coefficients must be, to be taken for the true ones."""

_SPARE_ROWS = 16
_MOST_ROUNDS = 20
_MOST_PRIMES = 32
_MOST_WORK = 150_000_000
"""Entries changed by elimination; beyond that what is not confirmed counts as independent. A second or two."""


def combinations(features: FloatArray, first: IntArray, order: IntArray, n_clear: int) -> IntArray:
    """Return those of the columns order[n_clear:] that are exact linear combinations of columns before them in order.

    Of features [M, n], the differences to the rows first [M] count. All columns returned may be dropped together: what
    is left spans them. Where an answer would take too long, its column is left out.
    """
    matrix = _Matrix(features[:, order], first)
    found = _eliminated(matrix, n_clear)
    if found is None:
        return np.empty(0, dtype=np.int64)
    rows, pivots, dependent = found
    if len(pivots) == matrix.n_rows:
        return order[dependent]  # as many independent columns as there are rows span everything
    return order[_confirmed(matrix, rows, pivots, dependent)]


class _Matrix:
    """The rows of features [M, n] minus other rows of theirs, as whole numbers times a power of two."""

    def __init__(self, features: FloatArray, first: IntArray) -> None:
        own = np.flatnonzero((features != features[first]).any(axis=1))
        self.n_rows, self.n_columns = len(own), features.shape[1]
        fractions, exponents = np.frexp(np.stack([features[own], features[first[own]]]))
        used = exponents[fractions != 0]
        lowest, highest = int(used.min(initial=0)), int(used.max(initial=0))
        self.bits = _MANTISSA_BITS + 1 + highest - lowest
        self._whole = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64)
        self._shifts = np.where(fractions != 0, exponents - lowest, 0)
        self._most = highest - lowest

    def modulo(self, p: int, rows: IntArray | slice = slice(None), columns: IntArray | slice = slice(None)) -> IntArray:
        whole, shifts = self._whole[:, rows][:, :, columns] % p, self._shifts[:, rows][:, :, columns]
        if self._most:
            whole = whole * np.array([pow(2, k, p) for k in range(self._most + 1)], dtype=np.int64)[shifts] % p
        return np.asarray((whole[0] - whole[1]) % p)


def _eliminated(matrix: _Matrix, n_clear: int) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return rows and columns of a largest square that is regular modulo a prime, and the later columns it spans there.

    The columns are the first possible; of the others those from n_clear on are returned. `None` where it takes too
    long.
    """
    p = next(_primes())
    whole = matrix.modulo(p)
    rows = _spread(np.arange(matrix.n_rows), matrix.n_columns + _SPARE_ROWS)
    work = 0
    for _ in range(_MOST_ROUNDS):
        work += len(rows) * matrix.n_columns * min(len(rows), matrix.n_columns)
        if work > _MOST_WORK or out_of_time():
            return None
        table, pivots, places = _reduce(whole[rows], matrix.n_columns, p)
        others = np.setdiff1d(np.arange(n_clear, matrix.n_columns), pivots)
        rest = whole[:, others] - _product(whole[:, pivots], table[: len(pivots), others], p)
        wrong = np.flatnonzero((rest % p).any(axis=1))
        if not len(wrong):
            return rows[places], pivots, others
        rows = np.concatenate([rows[places], _spread(wrong, matrix.n_columns)])
    return None


def _confirmed(matrix: _Matrix, rows: IntArray, pivots: IntArray, dependent: IntArray) -> IntArray:
    """Return those of the dependent columns that are combinations of the pivots on all rows, beyond doubt."""
    left, confirmed = dependent, []
    modulus, combined = 1, np.zeros((len(pivots), len(dependent)), dtype=object)
    work = 0
    for number, p in enumerate(islice(_primes(), _MOST_PRIMES), 1):
        work += len(pivots) ** 2 * (len(pivots) + len(left))
        if not len(left) or work > _MOST_WORK or out_of_time():
            break
        square = matrix.modulo(p, rows, np.concatenate([pivots, left]))
        table, found, _ = _reduce(square, len(pivots), p)
        if len(found) < len(pivots):
            continue  # one of the few primes that divide the determinant
        step = (table[:, len(pivots) :] - (combined % p).astype(np.int64)) * pow(modulus, -1, p) % p
        combined = combined + modulus * step.astype(object)
        modulus *= p
        if number & (number - 1):
            continue
        guesses = [_fractions(combined[:, k].tolist(), modulus) for k in range(len(left))]
        plausible = np.array([k for k, guess in enumerate(guesses) if guess is not None], dtype=np.int64)
        held = plausible[_hold(matrix, pivots, left[plausible], [guess for guess in guesses if guess is not None])]
        confirmed += left[held].tolist()
        left, combined = np.delete(left, held), np.delete(combined, held, axis=1)
    return np.array(confirmed, dtype=np.int64)


def _hold(
    matrix: _Matrix, pivots: IntArray, columns: IntArray, guesses: list[tuple[list[int], int]]
) -> NDArray[np.bool_]:
    """Return for which of the columns the denominator times the column is the sum of the numerators times the pivots,
    exactly and on all rows.
    """
    holds = np.ones(len(columns), dtype=np.bool_)
    largest = max((sum(map(abs, numerators)) + denominator for numerators, denominator in guesses), default=0)
    for p in islice(_primes(), (matrix.bits + 1 + largest.bit_length()) // (_PRIME_BITS - 1) + 1):  # all above 2**30
        if not holds.any() or out_of_time():
            return holds & False
        numerators = np.array([[value % p for value in guess[0]] for guess in guesses], dtype=np.int64).T
        denominators = np.array([guess[1] % p for guess in guesses], dtype=np.int64)
        sums = _product(matrix.modulo(p, columns=pivots), numerators, p)
        holds &= ((matrix.modulo(p, columns=columns) * denominators - sums) % p == 0).all(axis=0)
    return holds


def _fractions(remainders: list[int], modulus: int) -> tuple[list[int], int] | None:
    """Return numerators over one denominator with these remainders, if there are any with far fewer digits."""
    most = modulus >> _SLACK_BITS
    denominator = 1
    for remainder in remainders:
        high, low, cofactor, before = modulus, remainder * denominator % modulus, 1, 0
        if 2 * low > modulus:
            low -= modulus
        if abs(low) * denominator <= most:
            continue
        low %= modulus
        while low * low > modulus:
            quotient = high // low
            high, low, cofactor, before = low, high - quotient * low, before - quotient * cofactor, cofactor
        denominator *= abs(cofactor)
        if low * denominator > most:
            return None
    numerators = [remainder * denominator % modulus for remainder in remainders]
    return [value - modulus if 2 * value > modulus else value for value in numerators], denominator


def _reduce(table: IntArray, width: int, p: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the table [R, C] with its first `width` columns in reduced echelon form modulo p, the pivots' columns, and
    from which rows they came.
    """
    table = table.copy()
    origin = np.arange(len(table))
    pivots: list[int] = []
    for column in range(width):
        top = len(pivots)
        below = np.flatnonzero(table[top:, column])
        if not len(below):
            continue
        found = top + int(below[0])
        table[[top, found]], origin[[top, found]] = table[[found, top]], origin[[found, top]]
        table[top] = table[top] * pow(int(table[top, column]), -1, p) % p
        factors = table[:, column].copy()
        factors[top] = 0
        rows = np.flatnonzero(factors)
        table[rows, column:] = (table[rows, column:] - factors[rows, None] * table[top, column:] % p) % p
        pivots.append(column)
        if len(pivots) == len(table):
            break
    return table, np.array(pivots, dtype=np.int64), origin[: len(pivots)]


def _product(a: IntArray, b: IntArray, p: int) -> IntArray:
    """Return the matrix product modulo p < 2**31 by products of halves, whose sums double precision holds exactly."""
    a1, a0 = (half.astype(np.float64) for half in np.divmod(a, _HALF))
    b1, b0 = (half.astype(np.float64) for half in np.divmod(b, _HALF))
    low, middle, high = (part.astype(np.int64) % p for part in (a0 @ b0, a1 @ b0 + a0 @ b1, a1 @ b1))
    return np.asarray((low + middle * _HALF % p + high * (_HALF * _HALF % p)) % p)


def _spread(rows: IntArray, count: int) -> IntArray:
    """Return so many of the rows, evenly spread."""
    return rows if len(rows) <= count else rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]


def _primes() -> Iterator[int]:
    """Yield the primes below 2**31 from the largest down."""
    return map(_prime, count())


@cache
def _prime(k: int) -> int:
    candidate = (1 << _PRIME_BITS) - 1 if k == 0 else _prime(k - 1) - 2
    divisors = np.arange(3, isqrt(candidate) + 1, 2)
    while not (candidate % divisors).all():
        candidate -= 2
    return candidate
