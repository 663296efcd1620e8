"""Lists of rows in flat arrays: list s holds the rows offsets[s] to offsets[s + 1] - 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.rational import EPSILON, SMALLEST_NORMAL, Rounding, dot, two_sum

if TYPE_CHECKING:
    from lpmert import core

Array = TypeVar("Array", FloatArray, IntArray)


def sizes_of_rows(values: FloatArray) -> FloatArray:
    """Return the sum of magnitudes [n] of each row of values [n, d]."""
    return np.asarray(np.abs(values) @ np.ones(values.shape[1]))


_LINE = 8  # numbers in a cache line of 64 bytes


def columns_of(features: FloatArray) -> Iterator[FloatArray]:
    """Yield the columns [M] of features [M, D]; if there are many, a cache line of them is copied at a time."""
    for begin in range(0, features.shape[1], _LINE):
        columns = features[:, begin : begin + _LINE].T
        yield from columns if features.shape[1] <= _LINE else np.ascontiguousarray(columns)


def from_sizes(sizes: IntArray) -> IntArray:
    """Return the offsets [S + 1] of lists of these sizes [S]."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def list_numbers(offsets: IntArray) -> IntArray:
    """Return the list number [M] of every row."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def first_best(scores: FloatArray, starts: IntArray) -> IntArray:
    """Return the row [S] of the best score of each list, the first of equals; scores [M]; starts [S]: first rows."""
    sizes = np.diff(starts, append=len(scores))
    best = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, starts), sizes))
    return np.asarray(best[np.searchsorted(best, starts)])


def centred(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return features [M, D] minus their means within the lists."""
    means = np.add.reduceat(features, offsets[:-1], axis=0) / np.diff(offsets)[:, None]
    return np.asarray(features - means[list_numbers(offsets)])


def relative_to_first(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return features [M, D] minus those of the first hypothesis of their list, which changes no choice.

    Only columns of a list whose differences doubles hold exactly are shifted. What all hypotheses of a list have in
    common would cost digits of their scores.
    """
    owner = list_numbers(offsets)
    differences, off = two_sum(features, -features[offsets[owner]])
    exact = np.logical_and.reduceat(off == 0.0, offsets[:-1], axis=0)
    return np.where(exact[owner], differences, features)


def mean_difference(values: FloatArray, offsets: IntArray) -> float:
    """Return the mean over lists of |a - b| for two values drawn with replacement; values [M], offsets [S + 1]."""
    lists = list_numbers(offsets)
    ordered = values[np.lexsort((values, lists))]
    sizes = np.diff(offsets)[lists]
    rank = np.arange(len(values)) - offsets[:-1][lists]
    # over all n^2 ordered pairs of a list, |a - b| adds up to the sum of 2 (2 rank + 1 - n) value
    return float(np.sum(2.0 * (2 * rank + 1 - sizes) * ordered / sizes**2.0) / (len(offsets) - 1))


def take_rows(offsets: IntArray, rows: IntArray) -> IntArray:
    """Return the offsets of lists cut down to these ascending rows; lists that lose all rows vanish."""
    counts = np.bincount(list_numbers(offsets)[rows])
    return from_sizes(counts[counts > 0])


def informative_rows(values: FloatArray | IntArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the lists whose hypotheses differ in values [M] or [M, K], and their new offsets."""
    differs = np.maximum.reduceat(values, offsets[:-1]) != np.minimum.reduceat(values, offsets[:-1])
    return rows_of_lists(offsets, np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1)))


def rows_of_lists(offsets: IntArray, lists: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of these lists and their new offsets."""
    sizes = np.diff(offsets)[lists]
    new = from_sizes(sizes)
    rows = np.repeat(offsets[lists] - new[:-1], sizes) + np.arange(new[-1])
    return rows, new


def varying_columns(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return the columns that differ within some list; only these matter to decoding."""
    sizes = np.diff(offsets)
    varies = [bool((column != np.repeat(column[offsets[:-1]], sizes)).any()) for column in columns_of(features)]
    return np.flatnonzero(varies)


def least_costs(costs: IntArray, offsets: IntArray) -> tuple[IntArray, int]:
    """Return costs [M] minus the least of their list, and the sum of these least costs, which every selection pays."""
    least = np.minimum.reduceat(costs, offsets[:-1])
    return costs - least[list_numbers(offsets)], sum(least.tolist())


_BLOCK = 1 << 17  # about how many rows a block has


def blocks_of_lists(offsets: IntArray) -> Iterator[tuple[slice, slice, IntArray]]:
    """Yield blocks of about `_BLOCK` rows and at least one list: the lists, their rows, and their offsets from 0."""
    first, n_lists = 0, len(offsets) - 1
    while first < n_lists:
        begin = int(offsets[first])
        end = int(np.searchsorted(offsets, begin + _BLOCK, side="right")) - 1
        end = min(max(end, first + 1), n_lists)
        yield slice(first, end), slice(begin, int(offsets[end])), offsets[first : end + 1] - begin
        first = end


def blocks_of_rows(rows: Array) -> Iterator[tuple[int, Array]]:
    """Yield blocks of rows [M, ...], each after the number of its first row."""
    for begin in range(0, len(rows), _BLOCK):
        yield begin, rows[begin : begin + _BLOCK]


def least_and_most(values: Array, offsets: IntArray) -> tuple[Array, Array]:
    """Return the least and the greatest of the values [M] of each list [S]."""
    return np.minimum.reduceat(values, offsets[:-1]), np.maximum.reduceat(values, offsets[:-1])


def joined(parts: list[Array]) -> Array:
    """Concatenate parts [m, ...]; this empties their list, so that each part is freed once it is copied."""
    end = sum(map(len, parts))
    rows: Array = np.empty((end, *parts[0].shape[1:]), dtype=parts[0].dtype)
    while parts:
        part = parts.pop()
        rows[end - len(part) : end] = part
        end -= len(part)
    return rows


Block = tuple[FloatArray, IntArray]  # features [m, d] of a block of lists, and their offsets


def units(blocks: Iterable[Block]) -> FloatArray:
    """Return the standard deviation [d] of features within lists, 1 for a feature that does not vary."""
    total, count = np.zeros(()), 0
    for features, offsets in blocks:
        deviations = centred(features, offsets)
        total = total + np.einsum("ij,ij->j", deviations, deviations)
        count += len(deviations)
    spread = np.sqrt(total / count)
    return np.where(spread > 0.0, spread, 1.0)


def correlations(blocks: Callable[[], Iterable[Block]]) -> tuple[FloatArray, FloatArray]:
    """Return the correlations [d, d] of features within lists, and their `units` [d]; blocks() is called twice."""
    spread = units(blocks())
    total, count = np.zeros(()), 0
    for features, offsets in blocks():
        deviations = centred(features, offsets) / spread
        total = total + deviations.T @ deviations
        count += len(deviations)
    return total / count, spread


@dataclass(frozen=True)
class Cap:
    """Weights whose cosine with `centre` [d] is at least `cosine`."""

    centre: FloatArray
    cosine: float

    @cached_property
    def unit(self) -> FloatArray:
        centre = self.centre / np.abs(self.centre).max()  # squares of numbers of any size neither overflow nor vanish
        return np.asarray(centre / np.linalg.norm(centre))

    def cosine_of(self, weights: FloatArray) -> float:
        """Return the cosine of weights [d] with the centre; -1 for weights that are all 0."""
        norm = float(np.linalg.norm(weights))
        return float(self.unit @ weights) / norm if norm > 0 else -1.0

    def contains(self, weights: FloatArray | Sequence[Fraction]) -> bool:
        """Whether weights [d] lie in the cap, in exact arithmetic on its numbers."""
        w, c = ([Fraction(value) for value in vector] for vector in (weights, self.centre.tolist()))
        product = dot(w, c)
        excess = product * product - Fraction(self.cosine) ** 2 * dot(w, w) * dot(c, c)
        return bool(product > 0 and excess >= 0)


INFEASIBLE, FEASIBLE, UNDECIDED = range(3)
"""The verdicts of `core.LeastNorm`, on whether choices from lists can be made together."""


class SortedLists(NamedTuple):
    """Lists whose hypotheses are in order of cost.

    rows [M, D]; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from the exact one.
    cap: empty, or a unit vector [D] and the least cosine with it. rounding: the exact rows, `None` where doubles hold
    them.
    """

    rows: FloatArray
    offsets: IntArray
    costs: IntArray
    reach: FloatArray
    spread: FloatArray
    cap: FloatArray
    rounding: Rounding | None

    def native(self) -> core.Lists:
        from lpmert import core  # imported here: the certificate checker reads lists without loading the core

        return core.Lists(*self[:-1])


def sorted_lists(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    cap: Cap | None = None,
    rounding: Rounding | None = None,
) -> SortedLists:
    """Return lists with hypotheses in order of cost (stable); rounding: the exact features where doubles round them."""
    order = np.lexsort((costs, list_numbers(offsets)))
    rows = np.ascontiguousarray(features[order])
    limit = np.empty(0) if cap is None else np.append(cap.unit, cap.cosine)
    off = np.zeros(rows.shape[1]) if rounding is None else rounding.spread
    exact = None if rounding is None else rounding.take(order)
    return SortedLists(rows, offsets, costs[order], reach_of(rows), off, limit, exact)


def reach_of(rows: FloatArray) -> FloatArray:
    """Return the largest magnitude [D] in each column of rows [M, D], 0 where columns are empty."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    # reduceat over one segment: max(axis=0) is slow on many short rows
    return np.asarray(np.maximum(np.maximum.reduceat(rows, [0])[0], -np.minimum.reduceat(rows, [0])[0]))


def rounding_bound(weights: FloatArray, reach: FloatArray, spread: FloatArray | None = None) -> float:
    """Return a bound on the error of a difference of two scores at weights [D].

    reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from the exact one.
    """
    sizes = np.abs(weights)
    off = 0.0 if spread is None else 2.0 * (sizes @ spread)
    return float(2.0 * (len(weights) + 3) * (EPSILON * (sizes @ reach) + SMALLEST_NORMAL) + off)
