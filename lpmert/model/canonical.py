"""Steps that bring lists to canonical form; each keeps the attainable selections and their losses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.numeric import modular
from lpmert.numeric.half_spaces import Array, with_half_spaces
from lpmert.numeric.rounding import Rounding, exact_differences
from lpmert.system.deadline import out_of_time

_COST_BITS = 60
"""Searches add up costs in 64 bits, beside `INFINITE_COST`: all selections, even outside the limits, stay below it."""

_SUSPICIOUS = 1e-10
_LINE = 8
"""Numbers that memory is read by: 64 bytes."""

_SAMPLED_ROWS = 40
"""Rows for each column that mostly show already that no column is a combination of others."""

_LARGEST_QR = 1_000_000_000
"""Rows times squared columns from which on QR with pivoting is too slow to be the first step."""

_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""What mixes the bits of a number: products with this one move them up, shifts by so many down."""

_MOST_PLACE_BITS = 32
"""Of 64 bits, those that may say which row it is; the others tell its features from those of nearly all other rows."""

_COSINE_ROUNDING = 1e-12
"""Searches leave open what comes nearer to the rim of a cap; near the cosine 1 that is much at its angle."""


def columns_of(features: FloatArray) -> Iterator[FloatArray]:
    """Yield the columns [M] of features [M, D]; of many, some are copied together, as memory is read by lines."""
    for begin in range(0, features.shape[1], _LINE):
        some = features[:, begin : begin + _LINE].T
        yield from some if features.shape[1] <= _LINE else np.ascontiguousarray(some)


def list_numbers(offsets: IntArray) -> IntArray:
    """Return the list number [M] of every row."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def centred(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return features [M, D] minus their means within the lists."""
    means = np.add.reduceat(features, offsets[:-1], axis=0) / np.diff(offsets)[:, None]
    return np.asarray(features - means[list_numbers(offsets)])


def standardised(features: FloatArray, offsets: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return centred features [M, D] in units of their standard deviation within the lists, and these units [D].

    The unit of a feature that does not vary is 1.
    """
    alike = centred(features, offsets)
    deviation = np.sqrt(np.einsum("ij,ij->j", alike, alike) / len(alike))  # their means are 0
    spread = np.where(deviation > 0.0, deviation, 1.0)
    return alike / spread, spread


def mean_difference(values: FloatArray, offsets: IntArray) -> float:
    """Return the mean over lists, offsets [S + 1], of |a - b| for two values [m] of a list drawn with replacement."""
    lists = list_numbers(offsets)
    ordered = values[np.lexsort((values, lists))]
    sizes = np.diff(offsets)[lists]
    rank = np.arange(len(values)) - offsets[:-1][lists]
    # of all n^2 pairs a value counts positively in twice as many as are below it, negatively in those above
    return float(np.sum(2.0 * (2 * rank + 1 - sizes) * ordered / sizes**2.0) / (len(offsets) - 1))


def group_identical(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return for every row [M] the first row of its list with the same feature vector."""
    leader = _leaders_by_key(features, offsets)
    return _leaders_in_order(features + 0.0, offsets) if leader is None else leader  # -0.0 equals 0.0


def _leaders_by_key(features: FloatArray, offsets: IntArray) -> IntArray | None:
    """Return what `group_identical` does, `None` where rows that are unequal have the same key.

    Sorting one number for each row, of its list, its features mixed, and its place, is quicker than sorting the rows.
    """
    sizes = np.diff(offsets)
    place_bits = int(sizes.max(initial=1) - 1).bit_length()
    list_bits = len(sizes).bit_length()
    if list_bits + place_bits > _MOST_PLACE_BITS:
        return None
    mixed = np.zeros(len(features), dtype=np.uint64)
    for column in columns_of(features):
        mixed ^= np.ascontiguousarray(column + 0.0).view(np.uint64)
        mixed *= _ODD
        mixed ^= mixed >> _HALF
    first_of_list, low = np.repeat(offsets[:-1], sizes), np.uint64(place_bits)
    mixed >>= np.uint64(list_bits + place_bits)
    mixed |= np.repeat(np.arange(len(sizes), dtype=np.uint64) << np.uint64(64 - list_bits - place_bits), sizes)
    rows = np.arange(len(features))
    keys = (mixed << low) | (rows - first_of_list).astype(np.uint64)
    keys.sort()
    groups = keys >> low
    again = 1 + np.flatnonzero(groups[1:] == groups[:-1])
    if not len(again):
        return rows
    places = (keys & ((np.uint64(1) << low) - np.uint64(1))).astype(np.int64)
    order = first_of_list + places  # lists keep their places
    new = np.ones(len(order), dtype=bool)
    new[again] = False
    leaders = order[np.flatnonzero(new)[np.cumsum(new)[again] - 1]]  # sorted, the first of a run is the first row
    if (features[order[again]] != features[leaders]).any():
        return None
    rows[order[again]] = leaders
    return rows


def _leaders_in_order(plain: FloatArray, offsets: IntArray) -> IntArray:
    """Return what `group_identical` does."""
    lists = list_numbers(offsets)
    order = np.lexsort((*plain.T[::-1], lists))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (plain[order[1:]] != plain[order[:-1]]).any(axis=1) | (lists[order[1:]] != lists[order[:-1]])
    leader = np.empty(len(order), dtype=np.int64)
    leader[order] = order[np.flatnonzero(new)][
        np.cumsum(new) - 1
    ]  # lexsort is stable: the first of a run is the first row
    return leader


def representatives(leader: IntArray, losses: FloatArray, ties: str) -> IntArray:
    """Return, in row order, one row for every group of identical vectors: its first, best or worst by loss."""
    if ties == "first":
        return np.flatnonzero(leader == np.arange(len(leader)))
    key = losses if ties == "best" else -losses
    order = np.lexsort((np.arange(len(leader)), key, leader))
    first = np.ones(len(order), dtype=bool)
    first[1:] = leader[order[1:]] != leader[order[:-1]]
    rows = order[first]
    return rows[np.argsort(leader[rows], kind="stable")]


def take_rows(offsets: IntArray, rows: IntArray) -> IntArray:
    """Return the offsets after keeping these ascending rows; lists of which none is left vanish."""
    counts = np.bincount(list_numbers(offsets)[rows])
    return np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64)


@dataclass(frozen=True)
class Costs:
    """Losses in fixed point: loss = unit * (constant + cost), exact unless `rounded`.

    costs [M] int64, the least of every list 0. Where losses are no multiples of `unit`, the sum over S lists is off by
    at most S / 2 units, about S / 2**60 of the range of the loss.
    """

    costs: IntArray
    constant: int
    unit: float
    rounded: bool


def room_for_costs(n_limits: int) -> int:
    """Return what the dearest selection may cost where so many limits each cost at most twice as much in addition."""
    return (1 << _COST_BITS) // (2 * n_limits + 1)


def fixed_point(losses: FloatArray, offsets: IntArray, n_limits: int = 0) -> Costs:
    """Return losses [M] as integers, so that sums are exact and do not depend on their order.

    There is room for the costs of so many limits. Raises `DataError` if the sum of the losses overflows.
    """
    with np.errstate(over="ignore"):  # an overflow is infinite, and refused below
        spread = np.maximum.reduceat(losses, offsets[:-1]) - np.minimum.reduceat(losses, offsets[:-1])
        reach = float(np.sum(spread)) + float(np.abs(losses).max(initial=0.0))
    if not np.isfinite(reach):
        raise DataError("the losses overflow when summed; divide them by a common factor")
    exponent = int(np.frexp(reach)[1]) - (room_for_costs(n_limits).bit_length() - 1)
    # Counts are whole numbers: a coarser unit keeps the integers small, which changes nothing but reads better.
    if exponent < 0 and np.all(losses == np.rint(losses)):
        exponent = 0
    exponent = max(exponent, -1074)
    scaled = np.ldexp(losses, -exponent) if exponent > -1000 else np.ldexp(np.ldexp(losses, 1000), -exponent - 1000)
    whole = np.rint(scaled)
    costs, constant = least_costs(whole.astype(np.int64), offsets)
    return Costs(costs, constant, float(np.ldexp(1.0, exponent)), bool(np.any(whole != scaled)))


def with_limits(
    features: FloatArray, offsets: IntArray, costs: IntArray, limits: FloatArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Append a list {a, 0} for every limit a.w >= 0, whose second hypothesis costs more than all selections.

    Raises `MethodError` where searches could not add up all of these costs.
    """
    if not len(limits):
        return features, offsets, costs
    most = sum(np.maximum.reduceat(costs, offsets[:-1]).tolist()) if len(costs) else 0
    unit = max(1, int(np.gcd.reduce(costs))) if len(costs) else 1
    if most + len(limits) * (most + unit) >= INFINITE_COST:
        raise MethodError(f"the losses are so large that {len(limits)} limits leave no room in 64 bits; divide them")
    return with_half_spaces(features, offsets, costs, limits, most + unit)


class Fractions(NamedTuple):
    """Fractions (more_above + sum of above) / (more_below + sum of below) of whole numbers without a common divisor.

    above, below [M] int64, the least of every list 0.
    """

    above: IntArray
    below: IntArray
    more_above: int
    more_below: int


def whole_fractions(
    statistics: FloatArray,
    constant: FloatArray,
    numerator: tuple[Sequence[int], int],
    denominator: tuple[Sequence[int], int],
    offsets: IntArray,
    n_limits: int,
) -> Fractions:
    """Return the fractions of sums of whole numbers, statistics [M, K] and constant [K].

    numerator, denominator: factors [K] and a constant.

    For every fraction p / q that a selection may have, the costs q above - p below have room beside those of so many
    limits. Raises `MethodError` where they have not.
    """
    terms: list[IntArray] = []
    more: list[int] = []
    for factors, own in (numerator, denominator):
        small = float(statistics.max(initial=0.0)) * sum(map(abs, factors)) < 2.0**62
        whole = np.rint(statistics).astype(np.int64).astype(np.int64 if small else object)
        values, constant_of_lists = least_costs(whole @ np.array(factors, dtype=whole.dtype), offsets)
        terms.append(values)
        more.append(own + constant_of_lists + sum(f * int(c) for f, c in zip(factors, constant.tolist(), strict=True)))
    divisor = math.gcd(*more, *(int(np.gcd.reduce(values)) for values in terms)) or 1
    above, below = (values // divisor for values in terms)
    more_above, more_below = (value // divisor for value in more)
    spreads = [sum(np.maximum.reduceat(values, offsets[:-1]).tolist()) for values in (above, below)]
    # p is at most all that is above, q all that is below; a fraction whose denominator is 0 counts as one over 1.
    p, q = max(1, more_above + spreads[0]), max(1, more_below + spreads[1])
    if max(p, q, q * spreads[0] + p * spreads[1]) > room_for_costs(n_limits):
        limits = f" with {n_limits} limits" if n_limits else ""
        raise MethodError(
            f"the counts are so large that fractions of them{limits} are not exact in 64 bits; divide and round them"
            + (", or set fewer limits" if limits else "")
        )
    return Fractions(above.astype(np.int64), below.astype(np.int64), more_above, more_below)


def informative_rows(values: FloatArray | IntArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the lists whose hypotheses differ in values [M] or [M, K], and their new offsets.

    The other lists add a constant whatever the weights.
    """
    differs = np.maximum.reduceat(values, offsets[:-1]) != np.minimum.reduceat(values, offsets[:-1])
    return rows_of_lists(offsets, np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1)))


def possible_winners(
    features: FloatArray, offsets: IntArray, centre: FloatArray, cosine: float, spread: FloatArray | None = None
) -> IntArray:
    """Return the rows that no other row of their list beats wherever the cosine with the unit vector centre [D] is at
    least `cosine`, or less by rounding. spread [D]: what features may be off.

    On this cap the least of d.w / |w| is |d| cos(angle(d, centre) + angle of the cap): it is positive exactly when
    d.centre > |d| sin(angle of the cap). Differences within rounding of that are not counted.
    """
    cosine -= _COSINE_ROUNDING
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    error = 8.0 * (features.shape[1] + 4) * np.finfo(np.float64).eps
    off = 0.0 if spread is None else 4.0 * float(np.abs(spread).sum())  # of a difference, along the centre and across
    kept = np.ones(len(features), dtype=bool)
    scores = features @ centre
    for begin, end in pairwise(offsets.tolist()):
        block, order = features[begin:end], np.argsort(-scores[begin:end], kind="stable")
        reach = np.abs(block).max(initial=0.0) * len(centre)
        left = order
        for best in order.tolist():
            if out_of_time():
                break  # the others stay, and are dealt with by the search
            if not kept[begin + best]:
                continue  # what beats it beats all that it beats
            differences = block[best] - block[left]
            lead = differences @ centre - sine * np.sqrt(np.square(differences).sum(axis=1))
            beaten = lead > error * reach + off
            kept[begin + left[beaten]] = False
            left = left[~beaten]
    return np.flatnonzero(kept)


def rows_of_lists(offsets: IntArray, lists: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of these lists and their new offsets."""
    sizes = np.diff(offsets)[lists]
    new = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.repeat(offsets[lists] - new[:-1], sizes) + np.arange(new[-1])
    return rows, new


def varying_columns(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return the columns that differ within some list; only these matter to decoding."""
    sizes = np.diff(offsets)
    varies = [bool((column != np.repeat(column[offsets[:-1]], sizes)).any()) for column in columns_of(features)]
    return np.flatnonzero(varies)


def column_scales(features: FloatArray, offsets: IntArray, unit: float = 1.0) -> FloatArray:
    """Return a power of two for each column [D] that brings its spread within lists to about 1, in units of `unit`."""
    sizes = np.diff(offsets)
    spreads = [_spread(column, np.repeat(column[offsets[:-1]], sizes)) for column in columns_of(features)]
    exponents = np.frexp([unit * spread if spread > 0.0 else 1.0 for spread in spreads])[1]
    with np.errstate(over="ignore"):  # of numbers too small to scale; `times` refuses what is infinite then
        return np.ldexp(1.0, -exponents)


def _spread(column: FloatArray, first: FloatArray) -> float:
    """Return the root mean square of a column [M] minus other values [M]; columns one by one need little room."""
    # Half of each first, so that a difference of huge values does not overflow.
    deviation = np.abs(0.5 * column - 0.5 * first)
    largest = float(deviation.max(initial=0.0))
    return 2.0 * largest * float(np.sqrt(np.square(deviation / largest).sum() / len(column))) if largest else 0.0


def independent_columns(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return columns that span all columns within lists, dropping only exact linear combinations of others.

    Rank-revealing QR names the suspects; exact arithmetic confirms each on every row before it is dropped. A suspect
    whose case takes too long stays: dropping it would only save time.
    """
    n_columns = features.shape[1]
    first = np.repeat(offsets[:-1], np.diff(offsets))
    rows = np.arange(len(features))
    sample = rows[:: max(1, len(rows) // (_SAMPLED_ROWS * n_columns + 1))]
    # Columns that are independent on some rows are so on all.
    if n_columns < 2 or out_of_time() or any(_clearly_independent(features, first, few) for few in (sample, rows)):
        return np.arange(n_columns)
    from scipy.linalg import qr

    differences = _scaled_differences(features, first, rows)
    if differences.size * n_columns > _LARGEST_QR:  # the columns of R are in the same position to each other
        differences = np.asarray(np.linalg.qr(differences, mode="r"))
    triangle, pivots = qr(differences, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > _SUSPICIOUS * diagonal[0]))
    suspects = np.sort(pivots[rank:])
    clear = np.setdiff1d(np.arange(n_columns), suspects)
    dropped = modular.combinations(features, first, np.concatenate([clear, suspects]), len(clear))
    return np.setdiff1d(np.arange(n_columns), dropped)


def _scaled_differences(features: FloatArray, first: IntArray, rows: IntArray) -> FloatArray:
    """Return what these rows of features [M, D] differ by from the rows `first` [M], in columns of largest entry 1."""
    differences = features[rows] - features[first[rows]]
    largest = np.abs(differences).max(axis=0)
    return np.asarray(differences / np.where(largest > 0, largest, 1.0))


def _clearly_independent(features: FloatArray, first: IntArray, rows: IntArray) -> bool:
    """Whether the columns of these rows are so far from dependent that rounding cannot make the difference."""
    differences = _scaled_differences(features, first, rows)
    eigenvalues = np.linalg.eigvalsh(differences.T @ differences)
    return bool(eigenvalues[0] > _SUSPICIOUS * eigenvalues[-1])


def merge_parallel_pairs(features: FloatArray, offsets: IntArray, rounding: Rounding | None = None) -> IntArray:
    """Return for every row [M] the row that stands for it, itself unless its list is merged with an earlier one.

    Lists of two whose difference vectors are parallel are decided by the same hyperplane. Candidates are found in
    floating point, parallels confirmed exactly.
    """
    target = np.arange(len(features))
    pairs = np.flatnonzero(np.diff(offsets) == 2)
    if rounding is not None:  # some may differ by less than doubles show
        pairs = pairs[(features[offsets[pairs]] != features[offsets[pairs] + 1]).any(axis=1) & rounding.known]
    if len(pairs) < 2:
        return target
    direction = features[offsets[pairs]] - features[offsets[pairs] + 1]
    direction /= np.abs(direction).max(axis=1, keepdims=True)
    leading = np.take_along_axis(direction, (direction != 0).argmax(axis=1)[:, None], axis=1)
    rounded = np.round(direction * np.sign(leading), 9) + 0.0
    _, group, count = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    seen: dict[tuple[int, ...], int] = {}
    for k in np.flatnonzero(count[group] > 1):
        if out_of_time():
            break  # to leave lists apart is as right, only slower
        first = offsets[pairs[k : k + 1]]
        (row,) = exact_differences(features, rounding, first, first + 1)
        sign = 1 if next(value for value in row if value) > 0 else -1
        key = tuple(sign * value for value in row)
        start = offsets[pairs[k]]
        if key not in seen:
            seen[key] = sign * (start + 1)  # never 0, so that the sign is kept
            continue
        leader = abs(seen[key]) - 1
        same = (seen[key] > 0) == (sign > 0)
        target[start] = leader + (0 if same else 1)
        target[start + 1] = leader + (1 if same else 0)
    return target


def merged(values: Array, target: IntArray) -> Array:
    """Return values [M] or [M, K] of the rows that are left, each with those of the rows it stands for added."""
    summed = np.zeros_like(values)
    np.add.at(summed, target, values)
    kept: Array = summed[target == np.arange(len(target))]
    return kept


def least_costs(costs: IntArray, offsets: IntArray) -> tuple[IntArray, int]:
    """Return costs [M] with the least of every list 0, and what all selections cost beyond."""
    least = np.minimum.reduceat(costs, offsets[:-1])
    return costs - least[list_numbers(offsets)], sum(least.tolist())
