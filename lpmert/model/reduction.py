"""A region in fewer coordinates: equations on the weights lower their dimension; and a point inside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpmert.errors import FloatArray, IntArray, RegionError
from lpmert.model.region import RegionCone, Row, as_floats, scaled_row
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap, project
from lpmert.numeric.lists import with_half_spaces
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.rounding import Column, Rounding, sums_of_columns, whole_row

_ROUNDING = 1e-9
"""Relative to the size of the terms of an equation."""

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Reduction:
    """Weights w [D] = basis [D, d] u; limits rows [k, d] on u with labels, and the cap on u.

    exact_basis [d] and exact_rows [k][d]: what basis and rows are in exact arithmetic. Only with a cap beside equations
    on several weights, the basis is orthonormal instead, and within `off` of an exact one that no doubles hold.
    rows_off [k, d]: what rows are off at most.
    caller_rows [k, D], whole_rows [k] in whole numbers by weight, up to positive factors, and caller_cap are for w.

    columns [d]: the features themselves where equations do no more than leave out the others, else `None`; free [d]:
    the weights that are coordinates. equations [e, D] are those used up.
    referred: see `RegionCone`.
    """

    basis: FloatArray
    exact_basis: list[Column]
    columns: IntArray | None
    free: IntArray
    off: float | None
    rows: FloatArray
    rows_off: FloatArray
    exact_rows: list[Row]
    labels: tuple[str, ...]
    cap: Cap | None
    caller_rows: FloatArray
    whole_rows: list[dict[int, int]]
    caller_cap: Cap | None
    equations: FloatArray
    referred: bool

    def holds(self, weights: FloatArray) -> bool:
        """Whether weights [D] fulfil the equations, those on a single weight exactly, others but for rounding."""
        products = np.abs(self.equations @ weights)
        return bool((products <= _ROUNDING * (np.abs(self.equations) @ np.abs(weights))).all())

    def rounding(self, weights: FloatArray) -> FloatArray:
        """Return how far any of weights [D] alone may have to move so that an equation holds exactly."""
        sizes = np.abs(self.equations)
        off = len(weights) * _EPSILON * (sizes @ np.abs(weights))
        each = np.divide(off[:, None], sizes, out=np.zeros(sizes.shape), where=sizes > 0.0)
        return np.asarray(each.max(axis=0, initial=0.0))

    def inside(self, weights: FloatArray, *, strictly: bool = False) -> bool:
        """Whether weights [D] fulfil the limits and the cosine of the region, in exact arithmetic.

        Equations on more than one weight need to hold up to rounding only. strictly: not on the edge of a limit.
        """
        if not self.holds(weights) or not weights.any():
            return False
        (whole,) = rational.to_integers(weights[None])
        for k, row in enumerate(self.whole_rows):
            product = sum(whole[d] * value for d, value in row.items())
            if product < 0 or (product == 0 and (strictly or (k == 0 and self.referred))):
                return False
        return self.caller_cap is None or self.caller_cap.contains(weights)

    def strictly_inside(self, reduced: FloatArray) -> bool:
        """Whether weights u [d] are inside all limits and not on the edge of one, in exact arithmetic."""
        (whole,) = rational.to_integers(reduced[None])
        return all(sum(a * b for a, b in zip(whole, row, strict=True)) > 0 for row in self.exact_rows)

    def distances(self, weights: FloatArray) -> dict[str, float]:
        """Return how far weights [D] lie inside each limit of the region, and their cosine if it counts.

        Distances are Euclidean, in the scale of the weights given; negative outside.
        """
        inside = self.caller_rows @ weights / np.linalg.norm(self.caller_rows, axis=1)
        found, cap = dict(zip(self.labels, inside.tolist(), strict=True)), self.caller_cap
        return found if cap is None else {**found, f"cosine >= {cap.cosine:g}": cap.cosine_of(weights) - cap.cosine}

    def features(self, given: FloatArray, offsets: IntArray) -> tuple[FloatArray, Rounding | None]:
        """Return features [M, D] as features [M, d], and what is rounded of them or of the limits; `None` if nothing.

        offsets [S + 1]: of the lists. Raises `DataError` where sums overflow.
        """
        columns: list[Column] | None = self.exact_basis
        if self.columns is not None:
            features = codes = given[:, self.columns]
            spread = np.zeros(len(self.columns))
        else:
            sums = [sums_of_columns(given, offsets, column) for column in self.exact_basis]
            features, codes = (np.column_stack(parts) for parts in list(zip(*sums, strict=True))[:2])
            spread = np.array([off for _, _, off in sums])
        if self.off is not None:
            features, columns = np.ascontiguousarray(given @ self.basis), None
            spread = np.full(features.shape[1], self.off * np.abs(given).sum(axis=1).max(initial=0.0))
        if not spread.any() and not self.rows_off.any():
            return features, None
        return features, Rounding(spread, given, codes, columns, np.arange(len(given)), self.exact_rows)

    def weights(self, reduced: FloatArray) -> FloatArray:
        return np.asarray(self.basis @ reduced)

    def coordinates(self, weights: FloatArray) -> FloatArray:
        """Return the u [d] whose weights come nearest to weights [D], without rounding where these fulfil equations."""
        if self.columns is not None or (self.off is None and self.holds(weights)):
            return weights[self.free]
        return np.asarray(np.linalg.lstsq(self.basis, weights, rcond=None)[0])


def reduce(limits: RegionCone) -> Reduction:
    """Return a region with its equations used up; raises `RegionError` where they leave no weights but zero."""
    n_features = limits.n_features
    exact, free = _null_space(limits.exact_equations, n_features)
    columns = free if all(len(column) == 1 for column in exact) else None
    basis = np.zeros((n_features, len(exact)))
    try:
        for k, column in enumerate(exact):
            basis[list(column), k] = [float(value) for value in column.values()]
    except OverflowError:
        against = ", ".join(limits.equation_labels)
        raise RegionError(
            f"numbers in {against} are too far apart for double precision; rescale the features"
        ) from None
    reduced = limits.exact_rows
    if columns is not None:
        reduced = [tuple(row[d] for d in columns.tolist()) for row in reduced]
    else:
        reduced = [scaled_row(_products(row, exact)) for row in reduced]
    if not exact or (limits.referred and not any(reduced[0])):
        against = ", ".join([*limits.labels[: int(limits.referred)], *limits.equation_labels])
        raise RegionError(f"only zero weights fulfil {against}; omit one of them")
    cap, off = None, None
    rows = as_floats(reduced, len(exact))
    rows_off = _distances(reduced, rows)
    if limits.centre is not None and limits.cosine is not None:
        if columns is None:
            # A cap keeps its shape in orthonormal coordinates only.
            basis, off = _orthonormal(limits.equations)
            rows = limits.rows @ basis
            rows_off = np.tile(off * np.abs(limits.rows).sum(axis=1, keepdims=True), len(exact))
        unit = Cap(limits.centre, limits.cosine).unit
        share = float(np.linalg.norm(unit[columns] if columns is not None else unit @ basis))
        if share <= limits.cosine:
            against = ", ".join(limits.equation_labels)
            raise RegionError(
                f"no weights that fulfil {against} have a cosine of {limits.cosine:g} or more with the given ones; the "
                f"largest possible one is {share:.6g}"
            )
        centre = limits.centre[columns] if columns is not None else unit @ basis
        cap = Cap(centre, limits.cosine / share if share < 1.0 - 1e-12 else limits.cosine)
    kept = [k for k, row in enumerate(reduced) if any(row)]
    given = None if limits.centre is None or limits.cosine is None else Cap(limits.centre, limits.cosine)
    return Reduction(
        basis,
        exact,
        columns,
        free,
        off,
        rows[kept],
        rows_off[kept],
        [reduced[k] for k in kept],
        tuple(limits.labels[k] for k in kept),
        cap,
        limits.rows[kept],
        [{d: a for d, a in enumerate(whole_row(limits.exact_rows[k])) if a} for k in kept],
        given,
        limits.equations,
        limits.referred,
    )


def _distances(exact: Sequence[Row], near: FloatArray) -> FloatArray:
    """Return what doubles [k, d] are off the exact numbers [k][d] at most."""
    off = np.zeros_like(near)
    for k, row in enumerate(exact):
        for d, value in enumerate(row):
            if value and value != Fraction(near[k, d]):
                off[k, d] = math.nextafter(float(abs(value - Fraction(near[k, d]))), math.inf)
    return off


def _orthonormal(equations: FloatArray) -> tuple[FloatArray, float]:
    """Return an orthonormal basis [D, d] of the null space of equations [e, D], and a bound on what it is off."""
    from scipy.linalg import null_space, svdvals

    basis: FloatArray = null_space(equations)
    n_features, width = basis.shape
    least = svdvals(equations)[n_features - width - 1]
    rest = np.linalg.norm(equations @ basis) + n_features * _EPSILON * np.linalg.norm(equations)
    skew = np.linalg.norm(basis.T @ basis - np.eye(width))
    return basis, float(2.0 * (rest / least + skew) + 8.0 * n_features * _EPSILON)


def _products(row: Row, columns: Sequence[Column]) -> list[Fraction]:
    """Return the exact products of a row [D] with d columns."""
    return [sum((row[d] * value for d, value in column.items() if row[d]), Fraction(0)) for column in columns]


def _null_space(equations: Sequence[Row], width: int) -> tuple[list[Column], IntArray]:
    """Return a basis of the weights whose product with every equation [e][D] is 0, in exact arithmetic, and the weight
    [d] that is each column's alone, where it has a 1: each equation sets the last weight that it can.
    """
    table = [list(row) for row in equations]
    pivots: list[int] = []
    for column in range(width):
        # Later features are expressed by earlier ones, so that the reference, usually the first, keeps its column.
        column = width - 1 - column
        top = len(pivots)
        row = next((i for i in range(top, len(table)) if table[i][column]), None)
        if row is None:
            continue
        table[top], table[row] = table[row], table[top]
        head = [value / table[top][column] for value in table[top]]
        table[top] = head
        for i, other in enumerate(table):
            if i != top and other[column]:
                table[i] = [value - other[column] * pivot for value, pivot in zip(other, head, strict=True)]
        pivots.append(column)
    free = [d for d in range(width) if d not in pivots]
    basis: list[Column] = []
    for d in free:
        parts = {pivot: -table[i][d] for i, pivot in enumerate(pivots) if table[i][d]}
        basis.append({d: Fraction(1), **parts})
    return basis, np.array(free, dtype=np.int64)


_STEPS = 60


class NoInsideError(RegionError):
    """No open set of weights lies within the limits: exact arithmetic says so."""


def interior(
    rows: FloatArray, labels: Sequence[str], cap: Cap | None, rounding: Rounding | None = None
) -> FloatArray | None:
    """Return weights [d] with a positive product with every row [k, d], inside the cap; `None` without any limit.

    rounding: whose limits these rows come near to, if they are not exact. Without a cap they are in the middle. Raises
    `RegionError`, naming the limits that contradict each other, where there are none.
    """
    middle = None
    if len(rows):
        middle = _middle(rows, labels, rounding)
        if middle is None:  # where weights differ much in size, doubles do better with each in a unit of its own
            scales = _even_scales(rows)
            own = None if rounding is None else rounding.scaled(np.arange(len(scales)), scales)
            middle = _middle(rows * scales, labels, own)
            middle = None if middle is None else middle * scales
        if middle is None:
            raise RegionError("the region is too thin for double precision; widen a limit, or rescale its features")
    if cap is None:
        return middle
    if middle is None:
        return cap.unit
    nearest, multipliers = project(rows, cap.unit)
    reached = float(np.linalg.norm(nearest))  # its cosine too, but for rounding, which is all that is left of it near 0
    if reached <= cap.cosine:
        against = ", ".join(label for label, value in zip(labels, multipliers, strict=True) if value > 0)
        raise RegionError(
            f"the region is empty: within {against} the cosine reaches {reached:.6g} only; "
            f"ask for less than {cap.cosine:g} or drop a limit"
        )
    inward = middle / np.linalg.norm(middle)
    for k in range(_STEPS):
        weights = nearest / reached + 2.0**-k * inward
        if cap.contains(weights) and (rows @ weights > 0).all():
            return weights
    raise RegionError("the region is too thin for double precision; ask for a lower cosine or drop a limit")


def _even_scales(rows: FloatArray) -> FloatArray:
    """Return powers of two [d]: times these columns of rows [k, d] have numbers of about the same size in each row.

    In turn, rows and columns are divided by the geometric mean of their numbers other than 0.
    """
    there = rows != 0.0
    logs = np.log2(np.abs(rows), out=np.zeros(rows.shape), where=there)
    scales = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        of_rows = ((logs + scales) * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        scales = -((logs - of_rows[:, None]) * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.ldexp(1.0, np.clip(np.rint(scales), -500, 500).astype(np.int64))


def _middle(rows: FloatArray, labels: Sequence[str], rounding: Rounding | None) -> FloatArray | None:
    """Return weights in the middle, `None` where these are none that doubles hold."""
    features, offsets, _ = with_half_spaces(rows[:0], np.zeros(1, dtype=np.int64), np.empty(0), rows, 0.0)
    exact = None if rounding is None else rounding.take(np.empty(0, dtype=np.int64)).with_limits()
    optimizer = LinOptimizer(features, offsets, rounding=exact)
    chosen = np.arange(len(rows)), 2 * np.arange(len(rows))
    verdict = optimizer.solve(chosen)
    if not verdict.attainable:
        against = ", ".join(labels[s] for s, _, _ in verdict.core)
        raise NoInsideError(
            f"the region has no inside: {against} leave no weights, or none with room around them; "
            "drop or widen one of these limits, or fix a weight instead of squeezing it"
        )
    if verdict.weights is None:
        return None
    weights, _ = optimizer.centre(chosen, start=verdict.weights)
    return weights
