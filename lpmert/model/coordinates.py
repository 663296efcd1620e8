"""Weights for the features as given and for those of a search: types that tell them apart, and the way between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NewType, TypeVar, cast

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.model.reduction import Reduction

CallerWeights = NewType("CallerWeights", FloatArray)
"""Weights [D] for the features as given."""

CanonicalWeights = NewType("CanonicalWeights", FloatArray)
"""Weights [d] for the features of a canonical form."""

UnmergedWeights = NewType("UnmergedWeights", FloatArray)
"""Weights [d] for the features of lists before parallel ones were merged."""

Own = TypeVar("Own", bound=FloatArray)


@dataclass(frozen=True, eq=False)
class Coordinates(Generic[Own]):
    """Columns [d] of the reduced features, and the powers of two [d] by which these were multiplied.

    reduction: from the n_features as given to the reduced ones, `None` where these are the same.
    """

    columns: IntArray
    scales: FloatArray
    n_features: int
    reduction: Reduction | None

    def to_caller(self, weights: Own) -> CallerWeights:
        """Return weights as weights for the features as given, exactly unless equations round."""
        full = np.zeros(self.n_features if self.reduction is None else self.reduction.basis.shape[1])
        full[self.columns] = weights * self.scales
        if not len(self.columns):
            full[:] = 1.0  # all weights serve alike, but they are to fulfil the equations
        return CallerWeights(full if self.reduction is None else self.reduction.weights(full))

    def from_caller(self, weights: CallerWeights) -> Own:
        """Return weights for the features as given in these coordinates, with the largest entry about 1.

        Weight on a dropped collinear feature is not carried over, so that this is a starting point, not an equal.
        """
        full = weights if self.reduction is None else self.reduction.coordinates(weights)
        part = full[self.columns] / self.scales
        largest = np.abs(part).max(initial=0.0)
        return cast("Own", part / largest if largest > 0 else part)
