"""A region in fewer coordinates: equations on the weights lower their dimension, limits and the cap follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpmert.errors import FloatArray, IntArray, RegionError
from lpmert.model.region import RegionCone, scaled_row
from lpmert.numeric import rational
from lpmert.numeric.cap import Cap

_ROUNDING = 1e-9
"""Relative to the size of the terms of an equation."""

_SAMPLED = 1000


@dataclass(frozen=True)
class Reduction:
    """Weights w [D] = basis [D, d] u; limits rows [k, d] on u with labels, and the cap on u.

    given_rows [k, D] and given_cap are the same on w.

    columns [d]: the features themselves where equations do no more than leave out the others, else `None`; then
    features times the basis are rounded unless `exact` says that they are not. rounded: whether basis or limits are.
    equations [e, D] are those used up.
    referred: see `RegionCone`.
    """

    basis: FloatArray
    columns: IntArray | None
    rows: FloatArray
    labels: tuple[str, ...]
    cap: Cap | None
    given_rows: FloatArray
    given_cap: Cap | None
    equations: FloatArray
    referred: bool
    rounded: bool

    def holds(self, weights: FloatArray) -> bool:
        """Whether weights [D] fulfil the equations, those on a single weight exactly, others but for rounding."""
        products = np.abs(self.equations @ weights)
        return bool((products <= _ROUNDING * (np.abs(self.equations) @ np.abs(weights))).all())

    def inside(self, weights: FloatArray, *, strictly: bool = False) -> bool:
        """Whether weights [D] fulfil the limits and the cosine of the region, in exact arithmetic.

        Equations on more than one weight need to hold up to rounding only. strictly: not on the edge of a limit.
        """
        if not self.holds(weights) or not weights.any():
            return False
        zeros = np.zeros(len(weights))
        for k, row in enumerate(self.given_rows):
            sign = rational.compare_scores(weights, row, zeros)
            if sign < 0 or (sign == 0 and (strictly or (k == 0 and self.referred))):
                return False
        return self.given_cap is None or self.given_cap.contains(weights)

    def distances(self, weights: FloatArray) -> dict[str, float]:
        """Return how far weights [D] lie inside each limit of the region, and their cosine if it counts.

        Distances are Euclidean, in the scale of the weights given; negative outside.
        """
        inside = self.given_rows @ weights / np.linalg.norm(self.given_rows, axis=1)
        found, cap = dict(zip(self.labels, inside.tolist(), strict=True)), self.given_cap
        return found if cap is None else {**found, f"cosine >= {cap.cosine:g}": cap.cosine_of(weights) - cap.cosine}

    def features(self, features: FloatArray) -> FloatArray:
        """Return features [M, D] as features [M, d]."""
        return features[:, self.columns] if self.columns is not None else np.ascontiguousarray(features @ self.basis)

    def exact(self, features: FloatArray, reduced: FloatArray) -> bool:
        """Whether the reduced features are what exact arithmetic gives."""
        if self.columns is not None:
            return True
        if len(features) > _SAMPLED and not self.exact(features[:_SAMPLED], reduced[:_SAMPLED]):
            return False  # real numbers mostly show it at once
        whole = np.array(rational.to_integers(np.hstack([features, reduced])), dtype=object)
        n = features.shape[1]
        basis = [[Fraction(value) for value in column] for column in self.basis.T.tolist()]
        return all(
            bool(
                np.all(
                    sum(
                        (
                            int(value.numerator) * whole[:, d] * (common // value.denominator)
                            for d, value in enumerate(column)
                            if value
                        ),
                        np.zeros(len(whole), dtype=object),
                    )
                    == common * whole[:, n + j]
                )
            )
            for j, column in enumerate(basis)
            for common in [max(value.denominator for value in column)]
        )

    def weights(self, reduced: FloatArray) -> FloatArray:
        """Return weights u [d] as weights [D]."""
        return np.asarray(self.basis @ reduced)

    def coordinates(self, weights: FloatArray) -> FloatArray:
        """Return the u [d] whose weights come nearest to weights [D]."""
        if self.columns is not None:
            return weights[self.columns]
        return np.asarray(np.linalg.lstsq(self.basis, weights, rcond=None)[0])


def reduce(limits: RegionCone) -> Reduction:
    """Return a region with its equations used up; raises `RegionError` where they leave no weights but zero."""
    n_features = limits.rows.shape[1]
    basis = np.eye(n_features)
    columns: IntArray | None = np.arange(n_features)
    rows, rounded = limits.rows, limits.rounded
    if len(limits.equations):
        exact = _null_space(limits.equations)
        plain = all(sum(1 for value in column if value) == 1 for column in exact)
        basis = np.array([[float(value) for value in column] for column in exact]).reshape(-1, n_features).T
        if plain:
            columns = np.array([column.index(Fraction(1)) for column in exact], dtype=np.int64)
            rows = limits.rows[:, columns]
        else:
            columns = None
            reduced = [scaled_row(_products(row, exact)) for row in limits.rows.tolist()]
            rows = np.array([row for row, _ in reduced]).reshape(len(reduced), len(exact))
            rounded = rounded or not all(kept for _, kept in reduced)
            rounded = rounded or any(Fraction(float(value)) != value for column in exact for value in column)
        if not exact or (limits.referred and not rows[0].any()):
            against = _listed([*limits.labels[: int(limits.referred)], *limits.equation_labels])
            raise RegionError(f"only zero weights fulfil {against}; omit one of them")
    kept = np.asarray(rows.any(axis=1))
    cap = None
    if limits.centre is not None and limits.cosine is not None:
        if columns is None:
            # A cap keeps its shape in orthonormal coordinates only.
            from scipy.linalg import null_space

            basis, rounded = null_space(limits.equations), True
            rows = limits.rows @ basis
        unit = Cap(limits.centre, limits.cosine).unit
        share = float(np.linalg.norm(unit[columns] if columns is not None else unit @ basis))
        if share <= limits.cosine:
            raise RegionError(
                f"no weights that fulfil {_listed(limits.equation_labels)} have a cosine of {limits.cosine:g} or more "
                f"with the given ones; the largest possible one is {share:.6g}"
            )
        centre = limits.centre[columns] if columns is not None else unit @ basis
        cap = Cap(centre, limits.cosine / share if share < 1.0 - 1e-12 else limits.cosine)
    labels = tuple(label for label, keep in zip(limits.labels, kept, strict=True) if keep)
    given = None if limits.centre is None or limits.cosine is None else Cap(limits.centre, limits.cosine)
    return Reduction(
        basis, columns, rows[kept], labels, cap, limits.rows[kept], given, limits.equations, limits.referred, rounded
    )


def _products(row: Sequence[float], columns: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """Return the exact products of a row [D] with columns [d][D]."""
    return [
        sum((Fraction(a) * b for a, b in zip(row, column, strict=True) if a and b), Fraction(0)) for column in columns
    ]


def _null_space(equations: FloatArray) -> list[list[Fraction]]:
    """Return a basis [d][D] of the weights whose product with every equation [e, D] is 0, in exact arithmetic."""
    table = [[Fraction(value) for value in row] for row in equations.tolist()]
    width = equations.shape[1]
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
    basis = []
    for free in range(width):
        if free not in pivots:
            vector = [Fraction(0)] * width
            vector[free] = Fraction(1)
            for i, pivot in enumerate(pivots):
                vector[pivot] = -table[i][free]
            basis.append(vector)
    return basis


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels)
