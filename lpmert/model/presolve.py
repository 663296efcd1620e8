"""Presolve: from lists as given to canonical form; every step keeps the attainable selections and their losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.limits import out_of_time
from lpmert.model.canonical import Canonical, Coordinates
from lpmert.model.region import Reduction
from lpmert.numeric.lists import blocks_of_lists, columns_of, least_costs, list_numbers, take_rows
from lpmert.numeric.rational import EPSILON, exact_differences, sums_of_columns

_COST_BITS = 60
"""The costs of all selections, even outside the limits, stay below 2**60: searches add them in 64 bits, and
`INFINITE_COST` is larger.
"""

_SUSPICIOUS = 1e-10  # relative size of a pivot or eigenvalue below which columns may be linearly dependent

_LARGEST_DENOMINATOR, _FACTOR_ERROR = 1000, 1e-9
"""Of the coefficients of a linear combination of columns: the largest denominator tried, and the rounding allowed."""

_SAMPLED_ROWS = 40  # a sample of so many rows for each column mostly shows that the columns are independent

_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""For mixing bits: products with the odd number move them up, shifts by half the width down."""

_COSINE_ROUNDING = 1e-12
"""Searches leave open weights this close to the rim of a cap; near cosine 1 that is much of its angle."""


def group_identical(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return for every row [M] the first row of its list with the same feature vector."""
    lists = list_numbers(offsets)
    hashes = lists.astype(np.uint64)
    for column in columns_of(features):
        hashes ^= np.ascontiguousarray(column + 0.0).view(np.uint64)  # -0.0 equals 0.0
        hashes *= _ODD
        hashes ^= hashes >> _HALF
    ordered = np.sort(hashes)
    if (ordered[1:] != ordered[:-1]).all():  # which is faster to find
        return np.arange(len(hashes))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    leader = first[group]
    others = np.flatnonzero(leader != np.arange(len(leader)))
    if (lists[others] == lists[leader[others]]).all() and (features[others] == features[leader[others]]).all():
        return leader
    # Unequal rows have equal hashes; sorting the rows takes longer.
    rows = np.ascontiguousarray(np.column_stack([lists, features + 0.0]))  # for `view`
    keys = rows.view(np.dtype((np.void, rows.strides[0]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group]


def representatives(leader: IntArray, losses: FloatArray | None, ties: str) -> IntArray:
    """Return one row for every group of identical vectors, in order: its first, best or worst by loss."""
    if losses is None or ties == "first":
        return np.flatnonzero(leader == np.arange(len(leader)))
    order = np.lexsort((losses if ties == "best" else -losses, leader))
    return order[np.diff(leader[order], prepend=-1) > 0]


class Costs(NamedTuple):
    """Losses in fixed point: loss = unit * (constant + cost), exact unless `rounded`.

    costs [M] int64, the least of every list 0. If losses are no multiples of `unit`, the sum over S lists is off by at
    most S / 2 units, about S / 2**60 of the range of the loss.
    """

    costs: IntArray
    constant: int
    unit: float
    rounded: bool


def greatest_total(n_limits: int) -> int:
    """Return the most that a selection may cost if breaking each of so many limits adds at most twice as much."""
    return (1 << _COST_BITS) // (2 * n_limits + 1)


def fixed_point(losses: FloatArray, offsets: IntArray, n_limits: int = 0) -> Costs:
    """Return losses [M] as integers, with room for costs of limits; raises `DataError` if their sum overflows."""
    with np.errstate(over="ignore"):  # an infinite sum is refused below
        spread = np.maximum.reduceat(losses, offsets[:-1]) - np.minimum.reduceat(losses, offsets[:-1])
        reach = float(np.sum(spread)) + float(np.abs(losses).max(initial=0.0))
    if not np.isfinite(reach):
        raise DataError("the losses overflow when summed; divide them by a common factor")
    exponent = int(np.frexp(reach)[1]) - (greatest_total(n_limits).bit_length() - 1)
    # Whole losses are their own costs, which is easier to read.
    if exponent < 0 and np.all(losses == np.rint(losses)):
        exponent = 0
    exponent = max(exponent, -1074)
    scaled = np.ldexp(losses, -exponent) if exponent > -1000 else np.ldexp(np.ldexp(losses, 1000), -exponent - 1000)
    whole = np.rint(scaled)
    costs, constant = least_costs(whole.astype(np.int64), offsets)
    return Costs(costs, constant, float(np.ldexp(1.0, exponent)), bool((np.ldexp(whole, exponent) != losses).any()))


def whole_fractions(
    statistics: FloatArray,
    constant: FloatArray,
    numerator: Sequence[int],
    denominator: Sequence[int],
    offsets: IntArray,
    n_limits: int,
) -> tuple[IntArray, IntArray, int, int]:
    """Return fractions of sums of whole numbers, statistics [M, K] and constant [K], times these factors [K].

    The fractions are (more_above + sum of above) / (more_below + sum of below), without a common divisor: returns
    above, below [M] int64, the least of every list 0, more_above and more_below. For every fraction p / q that a
    selection may have, the costs q above - p below fit into 64 bits beside those of so many limits. Raises
    `MethodError` otherwise.
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
    # p and q are at most the greatest numerator and denominator; a denominator of 0 counts as the loss 1 / 1.
    p, q = max(1, more_above + spreads[0]), max(1, more_below + spreads[1])
    if max(p, q, q * spreads[0] + p * spreads[1]) > greatest_total(n_limits):
        remedy = "divide and round them" + (", or set fewer limits" if n_limits else "")
        raise MethodError(f"the counts are so large that fractions of them are not exact in 64 bits; {remedy}")
    return above.astype(np.int64), below.astype(np.int64), more_above, more_below


def possible_winners(
    features: FloatArray, offsets: IntArray, centre: FloatArray, cosine: float, spread: FloatArray | None = None
) -> IntArray:
    """Return the rows that no other row of their list beats everywhere on a cap.

    The cap holds the weights whose cosine with the unit vector centre [D] is at least `cosine`, or less by rounding.
    spread [D]: how far features may be from the exact ones. On the cap the least of d.w / |w| is
    |d| cos(angle(d, centre) + angle of the cap): it is positive exactly when d.centre > |d| sin(angle of the cap).
    Differences within rounding of that are not counted.
    """
    cosine -= _COSINE_ROUNDING
    sine = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    error = 8.0 * (features.shape[1] + 4) * EPSILON * len(centre)
    off = 0.0 if spread is None else 4.0 * float(np.abs(spread).sum())  # error of `lead` by rounded features
    kept = np.ones(len(features), dtype=bool)
    for begin, end in pairwise(offsets.tolist()):
        size = np.ldexp(1.0, np.frexp(np.abs(features[begin:end]).max())[1])
        block = features[begin:end] / size  # so that squares of differences do not vanish beside the error
        unbeaten = order = np.argsort(-(block @ centre), kind="stable")
        for best in order.tolist():
            if out_of_time():
                break  # the search can deal with the others
            if not kept[begin + best]:
                continue  # the row that beats it beats the same rows
            differences = block[best] - block[unbeaten]
            lead = differences @ centre - sine * np.sqrt(np.square(differences).sum(axis=1))
            beaten = lead > error + off / size
            kept[begin + unbeaten[beaten]] = False
            unbeaten = unbeaten[~beaten]
    return np.flatnonzero(kept)


def column_scales(features: FloatArray, offsets: IntArray, unit: float = 1.0) -> FloatArray:
    """Return powers of two [D] that bring the root mean square of each column's differences to the first hypothesis of
    their lists, times `unit`, to about 1.
    """
    sizes, spreads = np.diff(offsets), []
    for column in columns_of(features):
        # Halves, so that a difference of huge values does not overflow.
        deviation = np.abs(0.5 * column - np.repeat(0.5 * column[offsets[:-1]], sizes))
        largest = float(deviation.max(initial=0.0)) or 1.0
        spreads.append(2.0 * largest * float(np.sqrt(np.square(deviation / largest).sum() / max(1, len(column)))))
    exponents = np.frexp([unit * spread or 1.0 for spread in spreads])[1]
    with np.errstate(over="ignore"):  # `times` refuses infinite factors
        return np.ldexp(1.0, -exponents)


def scaled_limits(limits: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return limits [k, d] with columns times scales [d] and rows times powers of two [k], about 1, and these."""
    limits = times(limits, scales)
    factors = np.ldexp(1.0, -np.frexp(np.abs(limits).max(axis=1, initial=0.0))[1])
    return np.ascontiguousarray(times(limits.T, factors).T), factors


def independent_columns(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return columns that span all columns within lists; only exact linear combinations of others are dropped.

    Rank-revealing QR names the suspects and the coefficients of their combinations. If these are small fractions, exact
    arithmetic confirms the combination on every row; all other suspects stay, because dropping them only saves time.
    """
    n_columns = features.shape[1]
    first = np.repeat(offsets[:-1], np.diff(offsets))
    step = max(1, len(features) // (_SAMPLED_ROWS * n_columns + 1))
    # Columns that are independent on a sample of rows are so on all.
    for rows in (slice(None, None, step), slice(None)):
        if n_columns < 2 or out_of_time():
            return np.arange(n_columns)
        differences = features[rows] - features[first[rows]]
        largest = np.abs(differences).max(axis=0)
        largest = np.where(largest > 0, largest, 1.0)
        differences /= largest
        eigenvalues = np.linalg.eigvalsh(differences.T @ differences)
        if eigenvalues[0] > _SUSPICIOUS * eigenvalues[-1]:  # rounding does not matter
            return np.arange(n_columns)
    from scipy.linalg import qr, solve_triangular

    # Pivoting is slow on many rows; the columns of R have the same dependences.
    triangle, pivots = qr(np.linalg.qr(differences, mode="r"), mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > _SUSPICIOUS * diagonal[0]))
    factors: FloatArray = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    sizes, exponents = np.frexp(largest)
    factors = factors * (sizes[pivots[rank:]] / sizes[pivots[:rank], None])
    clear, suspects = np.split(pivots, [rank])
    guesses = [dict(zip(clear.tolist(), factors[:, k].tolist(), strict=True)) for k in range(len(suspects))]
    dropped = [
        suspect
        for suspect, guess in zip(suspects.tolist(), guesses, strict=True)
        if _is_combination(features, offsets, suspect, guess, exponents)
    ]
    return np.setdiff1d(np.arange(n_columns), dropped)


def _is_combination(
    features: FloatArray, offsets: IntArray, suspect: int, factors: Mapping[int, float], exponents: IntArray
) -> bool:
    """Whether a column is, within lists, exactly the combination that factors of columns / 2**exponents suggest."""
    column = {suspect: Fraction(-1) / Fraction(2) ** int(exponents[suspect])}
    for other, factor in factors.items():
        guess = Fraction(factor).limit_denominator(_LARGEST_DENOMINATOR)
        if abs(factor - guess) > _FACTOR_ERROR:
            return False
        if guess:
            column[other] = guess / Fraction(2) ** int(exponents[other])
    for _, rows, block_offsets in blocks_of_lists(offsets):
        if out_of_time():
            return False
        codes = sums_of_columns(features[rows], block_offsets, column)[1]
        if (codes != np.repeat(codes[block_offsets[:-1]], np.diff(block_offsets))).any():
            return False
    return True


def merge_parallel_pairs(form: Canonical) -> IntArray:
    """Return for every row [m] the row that represents it: itself, unless its list is merged with an earlier one.

    Lists of two whose difference vectors are parallel are decided by the same hyperplane. Candidates are found in
    floating point and confirmed exactly.
    """
    features, offsets, rounding = form.features, form.offsets, form.rounding
    target = np.arange(len(features))
    pairs = np.flatnonzero(np.diff(offsets) == 2)
    if rounding is not None:  # exact features may differ where doubles do not
        pairs = pairs[(features[offsets[pairs]] != features[offsets[pairs] + 1]).any(axis=1) & rounding.known]
    if len(pairs) < 2:
        return target
    direction = features[offsets[pairs]] - features[offsets[pairs] + 1]
    direction /= np.abs(direction).max(axis=1, keepdims=True)
    leading = np.take_along_axis(direction, (direction != 0).argmax(axis=1)[:, None], axis=1)
    rounded = np.round(direction * np.sign(leading), 9) + 0.0
    _, group, count = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    seen: dict[tuple[int, ...], tuple[int, bool]] = {}
    for k in np.flatnonzero(count[group] > 1):
        if out_of_time():
            break  # unmerged lists are right too, only slower
        first = offsets[pairs[k : k + 1]]
        (row,) = exact_differences(features, rounding, first, first + 1)
        positive = next(value for value in row if value) > 0
        key = tuple(row if positive else [-value for value in row])
        start = int(first[0])
        leader, leader_positive = seen.setdefault(key, (start, positive))
        target[start : start + 2] = (leader, leader + 1) if positive == leader_positive else (leader + 1, leader)
    return target


class Unmerged(NamedTuple):
    """Lists before parallel ones of two were merged: features [m, d], offsets [s + 1].

    rows: the kept hypotheses that they are, without those of limits. If costs add up, the last lists are the limits.
    """

    features: FloatArray
    offsets: IntArray
    rows: IntArray
    coordinates: Coordinates


def canonicalise(form: Canonical, reduction: Reduction, unit: float) -> tuple[Canonical, Coordinates, Unmerged]:
    """Bring reduced lists to canonical form; unit: the factor from these features to those given.

    Columns that are constant or exactly collinear within lists are dropped unless the region constrains them; columns
    are scaled by powers of two; lists of constant cost go into the constant; parallel lists of two are merged. If
    features are rounded, the exact ones decide, and collinear columns stay. Raises `DataError` if columns cannot be
    scaled, `MethodError` if 64 bits have no room for the costs of limits.
    """
    rows, cap, rounding = np.arange(len(form.features)), form.cap, form.rounding
    if cap is not None:
        spread = None if rounding is None else rounding.spread
        rows = possible_winners(form.features, form.offsets, cap.unit, cap.cosine, spread)
        form = form.take(rows, take_rows(form.offsets, rows))
    form, rows_kept = form.folded()
    rows = rows[rows_kept]
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
    elif len(form.varying):  # one factor keeps the cosine
        scales *= max(1.0, float(column_scales(form.features, form.offsets)[form.varying].min()))
    limits, factors = scaled_limits(form.limits, scales)
    rounding = form.rounding
    if rounding is not None:
        rounding = rounding.scaled(scales)
        off = reduction.rows_off[:, columns] * scales * factors[:, None]
        rounding = replace(rounding, spread=np.maximum(rounding.spread, off.max(axis=0, initial=0.0)))
    form = replace(form, features=times(form.features, scales), limits=limits, rounding=rounding)
    if form.additive:
        form = form.with_limits()
    unmerged = Unmerged(form.features, form.offsets, rows, Coordinates(columns, scales, reduction))
    target = merge_parallel_pairs(form)
    leaders = np.flatnonzero(target == np.arange(len(target)))
    summed = np.zeros_like(form.values)
    np.add.at(summed, target, form.values)
    form, _ = form.with_values(summed).take(leaders, take_rows(form.offsets, leaders)).folded()
    if cap is None and not len(limits):
        varying = form.varying  # merging can drop a feature's last list
        form, columns, scales = form.of_columns(varying), columns[varying], scales[varying]
    return form, Coordinates(columns, scales, reduction), unmerged


_MOST_SCALED = 1e250  # largest scaled feature: sums of products stay finite
_BLOCK = 1 << 10  # rows compared at a time, so that they fit into the processor's cache


def times(values: FloatArray, factors: FloatArray) -> FloatArray:
    """Return values [n, d] times powers of two [d]; raises `DataError` where that is not exact or too large."""
    with np.errstate(all="ignore"):
        product = np.multiply(values, factors, order="C")
        blocks = (slice(begin, begin + _BLOCK) for begin in range(0, len(values), _BLOCK))
        exact = all(np.array_equal(product[block] / factors, values[block]) for block in blocks)
        most = max(product.max(initial=0.0), -product.min(initial=0.0))
    if not exact or most > _MOST_SCALED:
        raise DataError("a feature or limit spans so many orders of magnitude that it cannot be scaled; rescale it")
    return product
