"""From lists without repeated vectors to canonical form: folded, scaled and merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model import canonical
from lpmert.model.canonical import Costs
from lpmert.model.coordinates import CanonicalWeights, Coordinates, UnmergedWeights
from lpmert.model.form import Canonical, Totals
from lpmert.model.reduction import Reduction
from lpmert.numeric.cap import Cap
from lpmert.numeric.rounding import Rounding

LOSS_UNIT = 2.0**-56
"""What a unit of cost is worth for a metric that is not additive.

1 - score is a multiple of 2**-53 in floating point; fractions of sums have a unit that tells any two of them apart.
"""

_BLOCK = 1 << 10
"""Rows that are looked at together, and do not leave the processor's cache."""


class Unmerged(NamedTuple):
    """Lists before parallel ones of two were merged: features [m, d], offsets [s + 1].

    rows: which hypotheses they are of those given. The last lists, if costs add up, are the limits of the region.
    """

    features: FloatArray
    offsets: IntArray
    rows: IntArray
    coordinates: Coordinates[UnmergedWeights]


def canonicalise(
    features: FloatArray,
    offsets: IntArray,
    losses: Costs | Totals,
    n_features: int,
    reduction: Reduction | None,
    rounding: Rounding | None = None,
    unit: float = 1.0,
) -> tuple[Canonical, Coordinates[CanonicalWeights], Unmerged]:
    """Bring lists to canonical form: features [M, d] that the reduction left of n_features, offsets [S + 1].

    unit: what one of the features is in those given.

    Columns that are constant or exactly collinear within lists are dropped unless the region constrains them, columns
    scaled by powers of two, lists that cost the same whatever the weights folded away, parallel lists of two merged.
    All of this is asked of the exact features where these are rounded; then collinear columns stay.
    Raises `DataError` where columns cannot be scaled, `MethodError` where there is no room for the costs of limits.
    """
    limits = np.empty((0, features.shape[1])) if reduction is None else reduction.rows
    cap = None if reduction is None else reduction.cap
    values: Any = losses.costs if isinstance(losses, Costs) else losses.statistics
    rows = np.arange(len(features))
    if cap is not None:
        spread = None if rounding is None else rounding.spread
        rows = canonical.possible_winners(features, offsets, cap.unit, cap.cosine, spread)
        offsets = canonical.take_rows(offsets, rows)
    kept, offsets, values, folded = _fold(values[rows], offsets)
    rows = rows[kept]
    features = _taken(features, rows)
    rounding = None if rounding is None else rounding.take(rows)
    columns = np.arange(features.shape[1])
    scales = np.ones(len(columns))
    if cap is None:
        used = limits.any(axis=0)
        columns = np.flatnonzero(np.isin(columns, _varying(features, offsets, rounding)) | used)
        if rounding is None and not used.any():
            columns = columns[canonical.independent_columns(_columns(features, columns), offsets)]
        features = _columns(features, columns)
        scales = canonical.column_scales(features, offsets, unit)
    features = times(features, scales)
    # A factor does not change a limit; as large as the features it is told from a tie as well as they are.
    limits = times(limits[:, columns], scales)
    factors = np.ldexp(1.0, -np.frexp(np.abs(limits).max(axis=1, initial=0.0))[1])
    limits = times(limits.T, factors).T
    if rounding is not None and reduction is not None:
        rounding = rounding.scaled(columns, scales)
        off = reduction.rows_off[:, columns] * scales * factors[:, None]
        rounding = replace(rounding, spread=np.maximum(rounding.spread, off.max(axis=0, initial=0.0)))
    if isinstance(losses, Costs):
        features, offsets, values = canonical.with_limits(features, offsets, values, limits)
        rounding = None if rounding is None else rounding.with_limits()
    unmerged = Unmerged(features, offsets, rows, Coordinates(columns, scales, n_features, reduction))
    target = canonical.merge_parallel_pairs(features, offsets, rounding)
    own = np.flatnonzero(target == np.arange(len(target)))
    kept, offsets, values, more = _fold(canonical.merged(values, target), canonical.take_rows(offsets, own))
    features = _taken(features, own[kept])
    rounding = None if rounding is None else rounding.take(own[kept])
    left = np.arange(len(columns))
    if cap is None and not len(limits):
        left = _varying(features, offsets, rounding)  # merging can drop a feature's last list
    form = Canonical(
        _columns(features, left),
        offsets,
        values,
        np.ascontiguousarray(limits[:, left]),
        () if reduction is None else reduction.labels,
        None if cap is None else Cap(cap.centre[columns[left]], cap.cosine),
        rounding=None if rounding is None else rounding.scaled(left, np.ones(len(left))),
    )
    if isinstance(losses, Costs):
        constant = losses.constant + folded + more
        form = replace(form, unit=losses.unit, constant=constant, rounded=losses.rounded)
    else:
        unit = LOSS_UNIT if losses.fraction is None else min(LOSS_UNIT, losses.fraction.unit(losses.statistics))
        totals = replace(losses, statistics=values, constant=losses.constant + (folded + more))
        form = replace(form, losses=totals, unit=unit, rounded=True)
    return form, Coordinates(columns[left], scales[left], n_features, reduction), unmerged


def _varying(features: FloatArray, offsets: IntArray, rounding: Rounding | None) -> IntArray:
    """Return the columns of features [M, d] that differ within some list, those that are rounded by what they are."""
    return canonical.varying_columns(features, offsets) if rounding is None else rounding.varying(offsets)


def _taken(features: FloatArray, rows: IntArray) -> FloatArray:
    """Return these ascending rows, without a copy where they are all."""
    return features if len(rows) == len(features) else features[rows]


def _columns(features: FloatArray, columns: IntArray) -> FloatArray:
    """Return these ascending columns, without a copy where they are all."""
    return features if len(columns) == features.shape[1] else np.ascontiguousarray(features[:, columns])


def _fold(values: Any, offsets: IntArray) -> tuple[IntArray, IntArray, Any, Any]:
    """Return the rows [m] of the lists on which weights matter, their offsets and values, and what the others add.

    values [M] are costs, of which the least of every list is added too, or statistics [M, K].
    """
    more = 0
    if values.ndim == 1:
        values, more = canonical.least_costs(values, offsets)
    rows, left = canonical.informative_rows(values, offsets)
    if values.ndim == 2:
        more = values[np.setdiff1d(offsets[:-1], rows)].sum(axis=0)
    return rows, left, values[rows], more


def times(values: FloatArray, factors: FloatArray) -> FloatArray:
    """Return values [n, d] times powers of two [d]; raises `DataError` where that is not exact."""
    with np.errstate(all="ignore"):
        product = np.multiply(values, factors, order="C")
        blocks = (slice(begin, begin + _BLOCK) for begin in range(0, len(values), _BLOCK))
        exact = all(np.array_equal(product[some] / factors, values[some]) for some in blocks)
    if not exact:
        raise DataError("a feature or limit spans so many orders of magnitude that it cannot be scaled; rescale it")
    return product
