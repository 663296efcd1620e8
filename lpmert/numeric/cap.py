"""Weights within a cosine of given ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from lpmert.errors import FloatArray


@dataclass(frozen=True)
class Cap:
    """Weights whose cosine with `centre` [d] is at least `cosine`."""

    centre: FloatArray
    cosine: float

    @cached_property
    def unit(self) -> FloatArray:
        """The centre, of length 1."""
        centre = self.centre / np.abs(self.centre).max()  # squares of numbers of any size neither overflow nor vanish
        return np.asarray(centre / np.linalg.norm(centre))

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
