"""Presolve: from the lists as given to canonical form; each step keeps the attainable selections and their losses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lpmert.core import possible_winners as possible_winners_anywhere
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.model.canonical import Canonical, CanonicalWeights, Coordinates, UnmergedWeights
from lpmert.model.nbest import NBest
from lpmert.model.reduction import Reduction
from lpmert.numeric.lists import (
    blocks_of_lists,
    columns_of,
    joined,
    least_costs,
    list_numbers,
    take_rows,
)
from lpmert.numeric.rational import EPSILON
from lpmert.numeric.rounding import Decimals, Rounding, exact_differences, sums_of_columns
from lpmert.system.deadline import out_of_time
from lpmert.system.mapped import Spool, released
from lpmert.system.memory import room_for

_COST_BITS = 60
"""Searches add up costs in 64 bits, beside `INFINITE_COST`: all selections, even outside the limits, stay below it."""

_SUSPICIOUS = 1e-10

_LARGEST_DENOMINATOR, _FACTOR_ERROR = 1000, 1e-9
"""Of the coefficients of columns that are combinations of others, and what these may be off in floating point."""

_SAMPLED_ROWS = 40
"""Rows for each column that mostly show already that no column is a combination of others."""

_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""What mixes the bits of a number: products with this one move them up, shifts by so many down."""

_MOST_PLACE_BITS = 32
"""Of 64 bits, those that may say which row it is; the others tell its features from those of nearly all other rows."""

_MOST_WINNERS = 0.75
"""Share of many hypotheses that may win from which on it does not pay to look for the others, as with five features."""

_COSINE_ROUNDING = 1e-12
"""Searches leave open what comes nearer to the rim of a cap; near the cosine 1 that is much at its angle."""


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
    rows = np.ascontiguousarray(np.column_stack([list_numbers(offsets), plain]))  # columns that are together stay so
    keys = rows.view(np.dtype((np.void, rows.strides[0]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group]


def representatives(leader: IntArray, losses: FloatArray | None, ties: str) -> IntArray:
    """Return, in row order, one row for every group of identical vectors: its first, best or worst by loss."""
    if losses is None or ties == "first":
        return np.flatnonzero(leader == np.arange(len(leader)))
    key = losses if ties == "best" else -losses
    order = np.lexsort((np.arange(len(leader)), key, leader))
    first = np.ones(len(order), dtype=bool)
    first[1:] = leader[order[1:]] != leader[order[:-1]]
    rows = order[first]
    return rows[np.argsort(leader[rows], kind="stable")]


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


def greatest_total(n_limits: int) -> int:
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
    exponent = int(np.frexp(reach)[1]) - (greatest_total(n_limits).bit_length() - 1)
    # Counts are whole numbers: a coarser unit keeps the integers small, which changes nothing but reads better.
    if exponent < 0 and np.all(losses == np.rint(losses)):
        exponent = 0
    exponent = max(exponent, -1074)
    scaled = np.ldexp(losses, -exponent) if exponent > -1000 else np.ldexp(np.ldexp(losses, 1000), -exponent - 1000)
    whole = np.rint(scaled)
    costs, constant = least_costs(whole.astype(np.int64), offsets)
    return Costs(costs, constant, float(np.ldexp(1.0, exponent)), bool(np.any(whole != scaled)))


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
    numerator: Sequence[int],
    denominator: Sequence[int],
    offsets: IntArray,
    n_limits: int,
) -> Fractions:
    """Return the fractions of sums of whole numbers, statistics [M, K] and constant [K], times these factors [K].

    For every fraction p / q that a selection may have, the costs q above - p below have room beside those of so many
    limits. Raises `MethodError` where they have not.
    """
    terms: list[IntArray] = []
    more: list[int] = []
    for factors in (numerator, denominator):
        small = float(statistics.max(initial=0.0)) * sum(map(abs, factors)) < 2.0**62
        whole = np.rint(statistics).astype(np.int64).astype(np.int64 if small else object)
        values, constant_of_lists = least_costs(whole @ np.array(factors, dtype=whole.dtype), offsets)
        terms.append(values)
        more.append(constant_of_lists + sum(f * int(c) for f, c in zip(factors, constant.tolist(), strict=True)))
    divisor = math.gcd(*more, *(int(np.gcd.reduce(values)) for values in terms)) or 1
    above, below = (values // divisor for values in terms)
    more_above, more_below = (value // divisor for value in more)
    spreads = [sum(np.maximum.reduceat(values, offsets[:-1]).tolist()) for values in (above, below)]
    # p is at most all that is above, q all that is below; a fraction whose denominator is 0 counts as one over 1.
    p, q = max(1, more_above + spreads[0]), max(1, more_below + spreads[1])
    if max(p, q, q * spreads[0] + p * spreads[1]) > greatest_total(n_limits):
        limits = f" with {n_limits} limits" if n_limits else ""
        raise MethodError(
            f"the counts are so large that fractions of them{limits} are not exact in 64 bits; divide and round them"
            + (", or set fewer limits" if limits else "")
        )
    return Fractions(above.astype(np.int64), below.astype(np.int64), more_above, more_below)


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
    error = 8.0 * (features.shape[1] + 4) * EPSILON
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


def column_scales(features: FloatArray, offsets: IntArray, unit: float = 1.0) -> FloatArray:
    """Return a power of two for each column [D] that brings its spread within lists to about 1, in units of `unit`."""
    sizes = np.diff(offsets)
    spreads = [_spread(column, np.repeat(column[offsets[:-1]], sizes)) for column in columns_of(features)]
    exponents = np.frexp([unit * spread if spread > 0.0 else 1.0 for spread in spreads])[1]
    with np.errstate(over="ignore"):  # of numbers too small to scale; `times` refuses what is infinite then
        return np.ldexp(1.0, -exponents)


def scaled_limits(limits: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits [k, d] in columns times scales [d], each times a factor [k], and these; all are powers of two.

    A factor does not change a limit; as large as the features it is told from a tie as well as they are.
    """
    limits = times(limits, scales)
    factors = np.ldexp(1.0, -np.frexp(np.abs(limits).max(axis=1, initial=0.0))[1])
    return np.ascontiguousarray(times(limits.T, factors).T), factors


def _spread(column: FloatArray, first: FloatArray) -> float:
    """Return the root mean square of a column [M] minus other values [M]; columns one by one need little room."""
    # Half of each first, so that a difference of huge values does not overflow.
    deviation = np.abs(0.5 * column - 0.5 * first)
    largest = float(deviation.max(initial=0.0))
    return 2.0 * largest * float(np.sqrt(np.square(deviation / largest).sum() / len(column))) if largest else 0.0


def independent_columns(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return columns that span all columns within lists, dropping only exact linear combinations of others.

    Rank-revealing QR names the suspects, and of which others each is a combination. Where the coefficients are small
    fractions, exact arithmetic confirms that on every row; all other suspects stay: dropping them would only save time.
    """
    n_columns = features.shape[1]
    first = np.repeat(offsets[:-1], np.diff(offsets))
    rows = np.arange(len(features))
    sample = rows[:: max(1, len(rows) // (_SAMPLED_ROWS * n_columns + 1))]
    # Columns that are independent on some rows are so on all.
    if n_columns < 2 or out_of_time() or any(_clearly_independent(features, first, few) for few in (sample, rows)):
        return np.arange(n_columns)
    from scipy.linalg import qr, solve_triangular

    differences, largest = _scaled_differences(features, first, rows)
    # Pivoting is slow on many rows; the columns of R are in the same position to each other.
    triangle, pivots = qr(np.linalg.qr(differences, mode="r"), mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > _SUSPICIOUS * diagonal[0]))
    factors: FloatArray = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    sizes, exponents = np.frexp(largest)
    factors = factors * (sizes[pivots[rank:]] / sizes[pivots[:rank], None])
    clear, suspects = np.split(pivots, [rank])
    dropped = [
        suspect
        for k, suspect in enumerate(suspects.tolist())
        if _is_combination(
            features, offsets, suspect, dict(zip(clear.tolist(), factors[:, k].tolist(), strict=True)), exponents
        )
    ]
    return np.setdiff1d(np.arange(n_columns), dropped)


def _is_combination(
    features: FloatArray, offsets: IntArray, suspect: int, factors: Mapping[int, float], exponents: IntArray
) -> bool:
    """Whether a column is exactly the combination of others, within lists, that rounded factors suggest.

    factors: of columns divided by two to the power of their exponents.
    """
    column = {suspect: Fraction(-1) / Fraction(2) ** int(exponents[suspect])}
    for other, factor in factors.items():
        guess = Fraction(factor).limit_denominator(_LARGEST_DENOMINATOR)
        if abs(factor - guess) > _FACTOR_ERROR:
            return False
        if guess:
            column[other] = guess / Fraction(2) ** int(exponents[other])
    for _, rows, own in blocks_of_lists(offsets):
        if out_of_time():
            return False
        codes = sums_of_columns(features[rows], own, column)[1]
        if (codes != np.repeat(codes[own[:-1]], np.diff(own))).any():
            return False
    return True


def _scaled_differences(features: FloatArray, first: IntArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what these rows of features [M, D] differ by from the rows `first` [M], in columns of largest entry 1, and
    these entries [D] before.
    """
    differences = features[rows] - features[first[rows]]
    largest = np.abs(differences).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    return differences / largest, largest


def _clearly_independent(features: FloatArray, first: IntArray, rows: IntArray) -> bool:
    """Whether the columns of these rows are so far from dependent that rounding cannot make the difference."""
    differences, _ = _scaled_differences(features, first, rows)
    eigenvalues = np.linalg.eigvalsh(differences.T @ differences)
    return bool(eigenvalues[0] > _SUSPICIOUS * eigenvalues[-1])


def merge_parallel_pairs(form: Canonical) -> IntArray:
    """Return for every row [m] the row that stands for it, itself unless its list is merged with an earlier one.

    Lists of two whose difference vectors are parallel are decided by the same hyperplane. Candidates are found in
    floating point, parallels confirmed exactly.
    """
    features, offsets, rounding = form.features, form.offsets, form.rounding
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


_BLOCK = 1 << 10
"""Rows that are looked at together, and do not leave the processor's cache."""


TIMES = 7
"""How many times as much memory as their features lists take that are looked at for what may win, at least."""


Some = tuple[FloatArray, FloatArray, FloatArray, IntArray, Rounding | None]
"""Hypotheses: features [m, D] in decimals, features [m, d] of the region, statistics [m, K], numbers [m], and what is
rounded.
"""


class Hypotheses:
    """The hypotheses that presolve keeps: of those with identical features one, which `ties` names, and of many lists
    only those that may win for some weights.

    losses [M]: `None` for a metric that is not additive.
    """

    def __init__(
        self, nbest: NBest, decimals: Decimals, reduction: Reduction, losses: FloatArray | None, ties: str
    ) -> None:
        self._nbest, self._decimals, self._reduction = nbest, decimals, reduction
        self._losses, self._ties = losses, ties

    def distinct(self) -> Some:
        """Return one hypothesis for each group of identical ones."""
        dense, offsets = self._decimals.of(self._nbest.dense_features()), self._nbest.offsets
        features, rounding = self._reduction.features(dense, offsets)
        rows = self.representatives(features if rounding is None else rounding.codes, offsets)
        if len(rows) < len(dense):
            dense, features = dense[rows], features[rows]
            rounding = None if rounding is None else rounding.take(rows)
        return dense, features, self._nbest.statistics[rows], rows, rounding

    def winners(self) -> Some:
        """Return of these the ones that may win for some weights, found a block of lists at a time.

        Where nearly all may win in the first blocks, all are kept in the others.
        """
        every = Spool()  # asked for weights now and then, and by blocks
        worth, numbers = [], []
        looked_at = kept = 0
        for begin, offsets, dense, rows in self.distinct_blocks():
            if kept <= _MOST_WINNERS * looked_at:
                room_for(TIMES * dense.nbytes, "finding what may win")
                own = take_rows(offsets, rows)
                left, _ = self._reduction.features(dense[rows], own)
                looked_at += len(rows)
                rows = rows[possible_winners_anywhere(left * column_scales(left, own), own)]
                kept += len(rows)
            every.add(dense[rows])
            worth.append(self._nbest.statistics[begin + rows])
            numbers.append(begin + rows)
        dense, statistics, found = every.array(self._nbest.n_features), joined(worth), joined(numbers)
        features, _ = self._reduction.features(dense, take_rows(self._nbest.offsets, found))
        return dense, features, statistics, found, None

    def distinct_blocks(self) -> Iterator[tuple[int, IntArray, FloatArray, IntArray]]:
        """Yield of each block what `blocks` does, and the rows that stand for those with identical features."""
        for begin, offsets, dense in self.blocks():
            features, _ = self._reduction.features(dense, offsets)
            yield begin, offsets, dense, self.representatives(features, offsets, begin)
            released(self._nbest.statistics)

    def blocks(self) -> Iterator[tuple[int, IntArray, FloatArray]]:
        """Yield blocks of lists: the number of the first hypothesis, offsets from 0, and features in decimals."""
        begin = 0
        for features, offsets in self._nbest.blocks():
            yield begin, offsets, self._decimals.of(features)
            begin += len(features)

    def representatives(self, features: FloatArray, offsets: IntArray, begin: int = 0) -> IntArray:
        """Return the rows that stand for those with identical features [m, d]; begin: which hypothesis is the first."""
        found, losses = [], None if self._losses is None else self._losses[begin:]
        for _, some, own in blocks_of_lists(offsets):
            leader = group_identical(features[some], own)
            found.append(some.start + representatives(leader, None if losses is None else losses[some], self._ties))
        return joined(found)


class Unmerged(NamedTuple):
    """Lists before parallel ones of two were merged: features [m, d], offsets [s + 1].

    rows: which hypotheses they are of those given. The last lists, if costs add up, are the limits of the region.
    """

    features: FloatArray
    offsets: IntArray
    rows: IntArray
    coordinates: Coordinates[UnmergedWeights]


def canonicalise(
    form: Canonical, reduction: Reduction, unit: float
) -> tuple[Canonical, Coordinates[CanonicalWeights], Unmerged]:
    """Bring lists that the reduction left to canonical form; unit: what one of the features is in those given.

    Columns that are constant or exactly collinear within lists are dropped unless the region constrains them, columns
    scaled by powers of two, lists that cost the same whatever the weights folded away, parallel lists of two merged.
    All of this is asked of the exact features where these are rounded; then collinear columns stay.
    Raises `DataError` where columns cannot be scaled, `MethodError` where there is no room for the costs of limits.
    """
    rows, cap, rounding = np.arange(len(form.features)), form.cap, form.rounding
    if cap is not None:
        spread = None if rounding is None else rounding.spread
        rows = possible_winners(form.features, form.offsets, cap.unit, cap.cosine, spread)
        form = form.take(rows, take_rows(form.offsets, rows))
    form, kept = form.folded()
    rows = rows[kept]
    columns = np.arange(form.n_features)
    scales = np.ones(len(columns))
    if cap is None:
        used = form.limits.any(axis=0)
        columns = np.flatnonzero(np.isin(columns, form.varying) | used)
        form = form.of_columns(columns)
        if rounding is None and not used.any():
            independent = independent_columns(form.features, form.offsets)
            columns, form = columns[independent], form.of_columns(independent)
        scales = column_scales(form.features, form.offsets, unit)
    limits, factors = scaled_limits(form.limits, scales)
    rounding = form.rounding
    if rounding is not None:
        rounding = rounding.scaled(np.arange(len(scales)), scales)
        off = reduction.rows_off[:, columns] * scales * factors[:, None]
        rounding = replace(rounding, spread=np.maximum(rounding.spread, off.max(axis=0, initial=0.0)))
    form = replace(form, features=times(form.features, scales), limits=limits, rounding=rounding)
    if form.additive:
        form = form.with_limits()
    unmerged = Unmerged(form.features, form.offsets, rows, Coordinates(columns, scales, reduction))
    target = merge_parallel_pairs(form)
    own = np.flatnonzero(target == np.arange(len(target)))
    summed = np.zeros_like(form.values)
    np.add.at(summed, target, form.values)  # to each row that is left, those of the rows it stands for
    form, _ = form.with_values(summed).take(own, take_rows(form.offsets, own)).folded()
    if cap is None and not len(limits):
        left = form.varying  # merging can drop a feature's last list
        form, columns, scales = form.of_columns(left), columns[left], scales[left]
    return form, Coordinates(columns, scales, reduction), unmerged


def times(values: FloatArray, factors: FloatArray) -> FloatArray:
    """Return values [n, d] times powers of two [d]; raises `DataError` where that is not exact."""
    with np.errstate(all="ignore"):
        product = np.multiply(values, factors, order="C")
        blocks = (slice(begin, begin + _BLOCK) for begin in range(0, len(values), _BLOCK))
        exact = all(np.array_equal(product[some] / factors, values[some]) for some in blocks)
    if not exact:
        raise DataError("a feature or limit spans so many orders of magnitude that it cannot be scaled; rescale it")
    return product
