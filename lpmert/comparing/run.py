"""A run of a method, or weights that were given, and what decoding says about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lpmert.errors import FloatArray
from lpmert.result import Status


@dataclass(frozen=True)
class Run:
    """One run of a method, or weights that were given, judged by decoding.

    weights [D]; loss and score are what `Problem.evaluate` gives on the lists tuned on, with `tied_lists` tied; inside:
    whether the weights lie in the region. The held-out figures are `None` without held-out lists. seconds: of the
    search alone. status: how the run ended, `None` for given weights; seed likewise. chosen [S, K] and
    held_out_chosen: the statistics of the hypotheses chosen.
    """

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    inside: bool
    held_out_loss: float | None
    held_out_score: float | None
    seconds: float
    seed: int | None
    status: Status | None
    chosen: FloatArray
    held_out_chosen: FloatArray | None

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the run as plain numbers and strings, without what it chose."""
        return {
            "seed": self.seed,
            "loss": self.loss,
            "score": self.score,
            "tied_lists": self.tied_lists,
            "inside": self.inside,
            "held_out_loss": self.held_out_loss,
            "held_out_score": self.held_out_score,
            "seconds": self.seconds,
            "status": None if self.status is None else self.status.name.lower(),
            "weights": dict(zip(names, self.weights.tolist(), strict=True)),
        }
