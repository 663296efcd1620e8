"""A region in fewer coordinates: equations on the weights lower their dimension, limits and the cap follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from lpmert import rational
from lpmert.region import Limits
from lpmert.result import FloatArray, IntArray, RegionError


@dataclass(frozen=True)
class Cap:
    """Weights whose cosine with `centre` [d] is at least `cosine`."""

    centre: FloatArray
    cosine: float

    @cached_property
    def unit(self) -> FloatArray:
        """The centre, of length 1."""
        return np.asarray(self.centre / np.linalg.norm(self.centre))

    def cosine_of(self, weights: FloatArray) -> float:
        """Return the cosine of weights [d] with the centre; -1 for weights that are all 0."""
        norm = float(np.linalg.norm(weights))
        return float(self.unit @ weights) / norm if norm > 0 else -1.0

    def contains(self, weights: FloatArray) -> bool:
        """Whether weights [d] lie in the cap, in exact arithmetic on its numbers."""
        w = [Fraction(value) for value in weights.tolist()]
        c = [Fraction(value) for value in self.centre.tolist()]
        product = sum((a * b for a, b in zip(w, c, strict=True)), Fraction(0))
        if product <= 0:
            return False
        squares = sum((a * a for a in w), Fraction(0)) * sum((a * a for a in c), Fraction(0))
        return product * product >= Fraction(self.cosine) ** 2 * squares


@dataclass(frozen=True)
class Reduction:
    """Weights w [D] = basis [D, d] u; limits rows [k, d] on u with labels, and the cap on u.

    given_rows [k, D] and given_cap are the same on w.

    columns [d]: the features themselves where equations do no more than leave out the others, else `None`; then
    features times the basis are rounded unless `exact` says that they are not.
    """

    basis: FloatArray
    columns: IntArray | None
    rows: FloatArray
    labels: tuple[str, ...]
    cap: Cap | None
    given_rows: FloatArray
    given_cap: Cap | None

    def features(self, features: FloatArray) -> FloatArray:
        """Return features [M, D] as features [M, d]."""
        return features[:, self.columns] if self.columns is not None else np.ascontiguousarray(features @ self.basis)

    def exact(self, features: FloatArray, reduced: FloatArray) -> bool:
        """Whether the reduced features are what exact arithmetic gives."""
        if self.columns is not None:
            return True
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


def reduce(limits: Limits) -> Reduction:
    """Return a region with its equations used up; raises `RegionError` where they leave no weights but zero."""
    n_features = limits.rows.shape[1]
    basis = np.eye(n_features)
    columns: IntArray | None = np.arange(n_features)
    if len(limits.equations):
        exact = _null_space(limits.equations)
        if not exact:
            raise RegionError(f"no weights but 0 fulfil {_listed(limits.equation_labels)}; leave one of them out")
        plain = all(sum(1 for value in column if value) == 1 for column in exact)
        if limits.centre is not None and not plain:
            # A cap keeps its shape in orthonormal coordinates only.
            from scipy.linalg import null_space

            basis = null_space(limits.equations)
        else:
            basis = np.array([[float(value) for value in column] for column in exact]).T
        columns = np.array([column.index(Fraction(1)) for column in exact]) if plain else None
    rows = limits.rows @ basis
    kept = np.asarray(rows.any(axis=1))
    cap = None
    if limits.centre is not None and limits.cosine is not None:
        centre = limits.centre @ basis
        share = float(np.linalg.norm(centre) / np.linalg.norm(limits.centre))
        if share <= limits.cosine:
            raise RegionError(
                f"no weights that fulfil {_listed(limits.equation_labels)} have a cosine of {limits.cosine:g} or more "
                f"with the given ones; {share:.6g} is the most"
            )
        cap = Cap(centre, limits.cosine / share if share < 1.0 - 1e-12 else limits.cosine)
    labels = tuple(label for label, keep in zip(limits.labels, kept, strict=True) if keep)
    given = None if limits.centre is None or limits.cosine is None else Cap(limits.centre, limits.cosine)
    return Reduction(basis, columns, rows[kept], labels, cap, limits.rows[kept], given)


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
