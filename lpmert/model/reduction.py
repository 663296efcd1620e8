"""A region in fewer coordinates: equations on the weights reduce the dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from lpmert.errors import FloatArray, IntArray, RegionError
from lpmert.model.region import RegionCone, Row, as_floats, scaled_row
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap
from lpmert.numeric.rational import EPSILON
from lpmert.numeric.rounding import Column, Rounding, sums_of_columns, whole_row

_ROUNDING = 1e-9  # error allowed in an equation, relative to the size of its terms


@dataclass(frozen=True)
class Reduction:
    """Weights w [D] that fulfil the equations, as w = basis [D, d] @ u; limits rows [k, d] and the cap are on u.

    exact_basis [d] and exact_rows [k][d]: basis and rows in exact arithmetic. Only if there are a cap and equations on
    several weights, the basis is orthonormal instead, and within `off` of an exact basis that doubles cannot hold.
    rows_off [k, d]: bounds on the rounding of rows.

    columns [d]: if equations only fix weights to 0, the other features, and the basis is empty; else `None`. free [d]:
    the weights that are coordinates. given: the region on w, without limits that its equations make trivial.
    """

    basis: FloatArray
    exact_basis: list[Column]
    columns: IntArray | None
    free: IntArray
    off: float | None
    rows: FloatArray
    rows_off: FloatArray
    exact_rows: list[Row]
    cap: Cap | None
    given: RegionCone

    @cached_property
    def _whole_rows(self) -> list[dict[int, int]]:
        return [{d: a for d, a in enumerate(whole_row(row)) if a} for row in self.given.exact_rows]

    def holds(self, weights: FloatArray) -> bool:
        """Whether weights [D] fulfil the equations: those on a single weight exactly, others up to rounding."""
        equations = self.given.equations
        return bool((np.abs(equations @ weights) <= _ROUNDING * (np.abs(equations) @ np.abs(weights))).all())

    def rounding(self, weights: FloatArray) -> FloatArray:
        """Return for each weight [D] a bound on how far it alone has to move for an equation to hold exactly."""
        sizes = np.abs(self.given.equations)
        off = len(weights) * EPSILON * (sizes @ np.abs(weights))
        each = np.divide(off[:, None], sizes, out=np.zeros(sizes.shape), where=sizes > 0.0)
        return np.asarray(each.max(axis=0, initial=0.0))

    def inside(self, weights: FloatArray, *, strictly: bool = False) -> bool:
        """Whether weights [D] fulfil the limits and the cosine of the region, in exact arithmetic.

        Equations on more than one weight only need to hold up to rounding. strictly: not on the edge of a limit.
        """
        if not self.holds(weights) or not weights.any():
            return False
        (whole,) = rational.to_integers(weights[None])
        for k, row in enumerate(self._whole_rows):
            product = sum(whole[d] * value for d, value in row.items())
            if product < 0 or (product == 0 and (strictly or (k == 0 and self.given.referred))):
                return False
        return self.given.cap is None or self.given.cap.contains(weights)

    def strictly_inside(self, reduced: FloatArray) -> bool:
        """Whether weights u [d] are inside all limits, and on the edge of none, in exact arithmetic."""
        (whole,) = rational.to_integers(reduced[None])
        return all(rational.dot(whole, row) > 0 for row in self.exact_rows)

    def distances(self, weights: FloatArray) -> dict[str, float]:
        """Return how far weights [D] lie inside each limit of the region, and above its cosine, if any.

        Distances are Euclidean, in the scale of the weights given; negative outside.
        """
        rows, cap = self.given.rows, self.given.cap
        inside = rows @ weights / np.linalg.norm(rows, axis=1)
        found = dict(zip(self.given.labels, inside.tolist(), strict=True))
        return found if cap is None else {**found, f"cosine >= {cap.cosine:g}": cap.cosine_of(weights) - cap.cosine}

    def features(self, full: FloatArray, offsets: IntArray) -> tuple[FloatArray, Rounding | None]:
        """Return full features [M, D] in reduced coordinates [M, d], and their rounding and that of limits.

        offsets [S + 1]: of the lists. The rounding is `None` if all are exact. Features are not copied if all stay.
        Raises `DataError` where sums overflow.
        """
        columns: list[Column] | None = self.exact_basis
        if self.columns is not None:
            all_stay = len(self.columns) == full.shape[1]
            features = codes = full if all_stay else np.ascontiguousarray(full[:, self.columns])
            spread = np.zeros(len(self.columns))
        else:
            sums = [sums_of_columns(full, offsets, column) for column in self.exact_basis]
            features, codes = (np.column_stack(parts) for parts in list(zip(*sums, strict=True))[:2])
            spread = np.array([off for _, _, off in sums])
        if self.off is not None:
            features, columns = np.ascontiguousarray(full @ self.basis), None
            spread = np.full(features.shape[1], self.off * np.abs(full).sum(axis=1).max(initial=0.0))
        if not spread.any() and not self.rows_off.any():
            return features, None
        return features, Rounding(spread, full, codes, columns, np.arange(len(full)), self.exact_rows)

    def weights(self, reduced: FloatArray) -> FloatArray:
        if self.columns is None:
            return np.asarray(self.basis @ reduced)
        full = np.zeros(self.given.n_features)
        full[self.columns] = reduced
        return full

    def coordinates(self, weights: FloatArray) -> FloatArray:
        """Return the u [d] of weights [D] that fulfil the equations, or of the nearest weights that do."""
        if self.columns is not None or (self.off is None and self.holds(weights)):
            return weights[self.free]
        return np.asarray(np.linalg.lstsq(self.basis, weights, rcond=None)[0])


def reduce(limits: RegionCone) -> Reduction:
    """Return a region without its equations; raises `RegionError` if they leave no weights but zero."""
    n_features = limits.n_features
    exact, free = _null_space(limits.exact_equations, n_features)
    columns = free if all(len(column) == 1 for column in exact) else None
    basis = np.zeros((n_features, len(exact) if columns is None else 0))
    if columns is not None:
        reduced = [tuple(row[d] for d in columns.tolist()) for row in limits.exact_rows]
    else:
        reduced = []
        for row in limits.exact_rows:
            terms = ([row[d] * value for d, value in column.items() if row[d]] for column in exact)
            reduced.append(scaled_row([sum(own, Fraction(0)) for own in terms]))
        try:
            for k, column in enumerate(exact):
                basis[list(column), k] = [float(value) for value in column.values()]
        except OverflowError:
            against = ", ".join(limits.equation_labels)
            apart = f"numbers in {against} are too far apart for double precision"
            raise RegionError(f"{apart}; rescale the features") from None
    if not exact or (limits.referred and not any(reduced[0])):
        against = ", ".join([*limits.labels[: int(limits.referred)], *limits.equation_labels])
        raise RegionError(f"only zero weights fulfil {against}; omit one of them")
    cap, off = None, None
    rows = as_floats(reduced, len(exact))
    rows_off = _distances(reduced, rows)
    if limits.cap is not None:
        unit, cosine = limits.cap.unit, limits.cap.cosine
        if columns is None:
            # A cap keeps its shape in orthonormal coordinates only.
            basis, off = _orthonormal(limits.equations)
            rows = limits.rows @ basis
            rows_off = np.tile(off * np.abs(limits.rows).sum(axis=1, keepdims=True), len(exact))
        share = float(np.linalg.norm(unit[columns] if columns is not None else unit @ basis))
        share = share if share < 1.0 - 1e-12 else 1.0  # rounded
        if share <= cosine:
            against = ", ".join(limits.equation_labels)
            none = f"no weights that fulfil {against} have a cosine of {cosine:g} or more with the given ones"
            raise RegionError(f"{none}; the largest possible one is {share:.6g}")
        centre = limits.cap.centre[columns] if columns is not None else unit @ basis
        cap = Cap(centre, cosine / share)
    kept = [k for k, row in enumerate(reduced) if any(row)]
    labels = tuple(limits.labels[k] for k in kept)
    given = replace(limits, exact_rows=[limits.exact_rows[k] for k in kept], labels=labels)
    exact_rows = [reduced[k] for k in kept]
    return Reduction(basis, exact, columns, free, off, rows[kept], rows_off[kept], exact_rows, cap, given)


def _distances(exact: Sequence[Row], near: FloatArray) -> FloatArray:
    """Return bounds [k, d] on how far doubles [k, d] are from the exact numbers [k][d]."""
    off = np.zeros_like(near)
    for k, row in enumerate(exact):
        for d, value in enumerate(row):
            if value and value != Fraction(near[k, d]):
                off[k, d] = math.nextafter(float(abs(value - Fraction(near[k, d]))), math.inf)
    return off


def _orthonormal(equations: FloatArray) -> tuple[FloatArray, float]:
    """Return an orthonormal basis [D, d] of the null space of equations [e, D], and a bound on its error."""
    from scipy.linalg import null_space, svdvals

    basis: FloatArray = null_space(equations)
    n_features, width = basis.shape
    least = svdvals(equations)[n_features - width - 1]
    rest = np.linalg.norm(equations @ basis) + n_features * EPSILON * np.linalg.norm(equations)
    skew = np.linalg.norm(basis.T @ basis - np.eye(width))
    return basis, float(2.0 * (rest / least + skew) + 8.0 * n_features * EPSILON)


def _null_space(equations: Sequence[Row], width: int) -> tuple[list[Column], IntArray]:
    """Return an exact basis of the null space of equations [e][D], and the free weight [d] of each column.

    A column has 1 at its free weight, where all others have 0. Each equation determines the first weight that it can.
    """
    table = [whole_row(row) for row in equations]
    pivots, common = rational.eliminate(table, width)
    free = [d for d in range(width) if d not in pivots]
    basis: list[Column] = []
    for d in free:
        others = {pivot: Fraction(-table[i][d], common) for i, pivot in enumerate(pivots) if table[i][d]}
        basis.append({d: Fraction(1), **others})
    return basis, np.array(free, dtype=np.int64)
