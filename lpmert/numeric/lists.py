"""Lists as arrays: rows one list after the other, and offsets, where each list begins and the last one ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.rational import EPSILON
from lpmert.numeric.rounding import Rounding, two_sum
from lpmert.system.mapped import released

if TYPE_CHECKING:
    from lpmert import core
    from lpmert.numeric.cone import Cap

Array = TypeVar("Array", FloatArray, IntArray)


_TALL = 64
"""Rows for each column from which on columns are taken one by one: numpy is slow on many short rows."""


def largest_of_rows(values: FloatArray) -> FloatArray:
    """Return the largest magnitude [n] in each row of values [n, d], 0 where rows are empty."""
    if _is_tall(values):
        return _over_columns(np.maximum, values, np.abs)
    return np.asarray(np.abs(values).max(axis=1, initial=0.0))


def sizes_of_rows(values: FloatArray) -> FloatArray:
    """Return the sum of magnitudes [n] of each row of values [n, d]."""
    return _over_columns(np.add, values, np.abs) if _is_tall(values) else np.asarray(np.abs(values).sum(axis=1))


def lengths_of_rows(values: FloatArray) -> FloatArray:
    """Return the Euclidean norm [n] of each row of values [n, d]."""
    if _is_tall(values):
        return np.asarray(np.sqrt(_over_columns(np.add, values, np.square)))
    return np.asarray(np.linalg.norm(values, axis=1))


def _is_tall(values: FloatArray) -> bool:
    n_rows, n_columns = values.shape
    return bool(n_columns > 0 and n_rows >= _TALL * n_columns)


def _over_columns(combine: Any, values: FloatArray, figure: Callable[[FloatArray], FloatArray]) -> FloatArray:
    columns = (figure(column) for column in values.T)
    return reduce(lambda sofar, column: combine(sofar, column, out=sofar), columns)


_LINE = 8
"""Numbers that memory is read by: 64 bytes."""


def columns_of(features: FloatArray) -> Iterator[FloatArray]:
    """Yield the columns [M] of features [M, D]; of many, some are copied together, as memory is read by lines."""
    for begin in range(0, features.shape[1], _LINE):
        some = features[:, begin : begin + _LINE].T
        yield from some if features.shape[1] <= _LINE else np.ascontiguousarray(some)


def from_sizes(sizes: IntArray) -> IntArray:
    """Return the offsets [S + 1] of lists of these sizes [S]."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def list_numbers(offsets: IntArray) -> IntArray:
    """Return the list number [M] of every row."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def first_best(scores: FloatArray, starts: IntArray) -> IntArray:
    """Return the row [S] of the best of the scores [M] of each list, the first of equals; starts [S] of the lists."""
    sizes = np.diff(starts, append=len(scores))
    best = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, starts), sizes))
    return np.asarray(best[np.searchsorted(best, starts)])


def centred(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return features [M, D] minus their means within the lists."""
    means = np.add.reduceat(features, offsets[:-1], axis=0) / np.diff(offsets)[:, None]
    return np.asarray(features - means[list_numbers(offsets)])


def relative_to_first(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return features [M, D] less those of the first hypothesis of each list [S + 1], which choose alike: every column
    of a list of which doubles hold all these differences exactly. What all have in common costs digits of scores.
    """
    owner = list_numbers(offsets)
    differences, off = two_sum(features, -features[offsets[owner]])
    exact = np.logical_and.reduceat(off == 0.0, offsets[:-1], axis=0)
    return np.where(exact[owner], differences, features)


def mean_difference(values: FloatArray, offsets: IntArray) -> float:
    """Return the mean over lists, offsets [S + 1], of |a - b| for two values [m] of a list drawn with replacement."""
    lists = list_numbers(offsets)
    ordered = values[np.lexsort((values, lists))]
    sizes = np.diff(offsets)[lists]
    rank = np.arange(len(values)) - offsets[:-1][lists]
    # of all n^2 pairs a value counts positively in twice as many as are below it, negatively in those above
    return float(np.sum(2.0 * (2 * rank + 1 - sizes) * ordered / sizes**2.0) / (len(offsets) - 1))


def take_rows(offsets: IntArray, rows: IntArray) -> IntArray:
    """Return the offsets after keeping these ascending rows; lists of which none is left vanish."""
    counts = np.bincount(list_numbers(offsets)[rows])
    return from_sizes(counts[counts > 0])


def informative_rows(values: FloatArray | IntArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the lists whose hypotheses differ in values [M] or [M, K], and their new offsets.

    The other lists add a constant whatever the weights.
    """
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
    """Return costs [M] with the least of every list 0, and what all selections cost beyond."""
    least = np.minimum.reduceat(costs, offsets[:-1])
    return costs - least[list_numbers(offsets)], sum(least.tolist())


_BLOCK = 1 << 17
"""Hypotheses of a block, about."""


def blocks_of_lists(offsets: IntArray) -> Iterator[tuple[slice, slice, IntArray]]:
    """Yield blocks of about `_BLOCK` rows and at least one list: the lists, their rows, and their offsets from 0."""
    first, n_lists = 0, len(offsets) - 1
    while first < n_lists:
        begin = int(offsets[first])
        end = int(np.searchsorted(offsets, begin + _BLOCK, side="right")) - 1
        end = min(max(end, first + 1), n_lists)
        yield slice(first, end), slice(begin, int(offsets[end])), offsets[first : end + 1] - begin
        first = end


def of_lists(figure: Callable[[Array, IntArray], Array], values: Array, offsets: IntArray) -> Array:
    """Return what a figure makes of the values [m] of some lists and their offsets, for all lists [S] of values [M]."""
    parts = []
    for _, rows, own in blocks_of_lists(offsets):
        parts.append(np.asarray(figure(values[rows], own)))
        released(values)
    return joined(parts)


def least_and_most(values: Array, offsets: IntArray) -> tuple[Array, Array]:
    """Return the least and the greatest of the values [M] of each list [S]."""
    ends = of_lists(
        lambda some, own: np.stack([reach.reduceat(some, own[:-1]) for reach in (np.minimum, np.maximum)], axis=1),
        values,
        offsets,
    )
    return ends[:, 0], ends[:, 1]


def joined(parts: list[Array]) -> Array:
    """Return rows of parts one after the other; the parts are forgotten one by one."""
    sizes = [len(part) for part in parts]
    rows: Array = np.empty((sum(sizes), *parts[0].shape[1:]), dtype=parts[0].dtype)
    end = len(rows)
    while parts:
        part = parts.pop()
        rows[end - len(part) : end] = part
        end -= len(part)
    return rows


Block = tuple[FloatArray, IntArray]
"""Features [m, d] of some lists, and their offsets."""


def units(blocks: Iterable[Block]) -> FloatArray:
    """Return the standard deviation [d] of features within lists; that of a feature that does not vary is 1."""
    total, count = np.zeros(()), 0
    for features, offsets in blocks:
        alike = centred(features, offsets)
        total = total + np.einsum("ij,ij->j", alike, alike)  # their means are 0
        count += len(alike)
    deviation = np.sqrt(total / count)
    return np.where(deviation > 0.0, deviation, 1.0)


def correlations(blocks: Callable[[], Iterable[Block]]) -> tuple[FloatArray, FloatArray]:
    """Return the correlations [d, d] of features within lists, and their units [d]; blocks: anew with each call."""
    spread = units(blocks())
    total, count = np.zeros(()), 0
    for features, offsets in blocks():
        alike = centred(features, offsets) / spread
        total = total + alike.T @ alike
        count += len(alike)
    return total / count, spread


INFEASIBLE, FEASIBLE, UNDECIDED = range(3)
"""The verdicts of `core.LeastNorm`, on whether choices from lists can be made together."""


class SortedLists(NamedTuple):
    """Lists with hypotheses in order of cost.

    rows [M, D]; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from the exact one.
    cap: empty, or a unit vector [D] and the least cosine with it. rounding: what rows are exactly, if doubles only come
    near.
    """

    rows: FloatArray
    offsets: IntArray
    costs: IntArray
    reach: FloatArray
    spread: FloatArray
    cap: FloatArray
    rounding: Rounding | None

    def native(self) -> core.Lists:
        from lpmert import core  # here: the checker of certificates reads lists and loads no core

        return core.Lists(*self[:-1])


def sorted_lists(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    cap: Cap | None = None,
    rounding: Rounding | None = None,
) -> SortedLists:
    """Return lists in order of cost (stable); rounding: what features are exactly, if doubles only come near."""
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
    # as a segment of its own: numpy is slow on many short rows otherwise
    most, least = (end.reduceat(rows, [0], axis=0)[0] for end in (np.maximum, np.minimum))
    return np.asarray(np.maximum(np.abs(most), np.abs(least)))


def rounding_bound(weights: FloatArray, reach: FloatArray, spread: FloatArray | None = None) -> float:
    """Bound the error of a difference of two scores, of features up to reach [D]: by rounding, and by that of features,
    of spread [D].
    """
    sizes = np.abs(weights)
    off = 0.0 if spread is None else 2.0 * (sizes @ spread)
    return float(2.0 * (len(weights) + 3) * EPSILON * (sizes @ reach) + off)
