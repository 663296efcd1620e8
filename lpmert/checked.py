"""What `check` returns: what given weights cost, beside the best there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lpmert.errors import FloatArray
from lpmert.findings import ALL_ZERO, LOSS, Diagnostic
from lpmert.result import SCHEMA, Result


@dataclass(frozen=True)
class Check:
    """What given weights cost, beside the best there are.

    weights [D] as given. `loss` is that of decoding with ties broken as asked; `loss_best_ties` and `loss_worst_ties`
    are those with the `tied_lists` at their best and worst. `inside`: whether the weights lie in the region. `optimum`
    is the result of the search, `rates` as there.
    """

    weights: FloatArray
    names: tuple[str, ...]
    loss: float
    score: float
    statistics: FloatArray
    tied_lists: int
    loss_best_ties: float | None
    loss_worst_ties: float | None
    margin: float | None
    inside: bool
    optimum: Result
    rates: Mapping[str, float]

    @property
    def excess(self) -> float:
        """Loss beyond the best found; never below 0."""
        return max(0.0, self.loss - self.optimum.loss)

    @property
    def wins_by_ties(self) -> bool:
        """Whether the loss is below the proved least one: only ties, broken by list order, can do that."""
        return self.inside and self.optimum.status.proved and self.loss < self.optimum.loss

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is odd about the weights and about the question."""
        return (*(() if self.weights.any() else (ALL_ZERO,)), *self.optimum.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {
            "schema": SCHEMA,
            "weights": dict(zip(self.names, self.weights.tolist(), strict=True)),
            "loss": self.loss,
            "score": self.score,
            "statistics": self.statistics.tolist(),
            "rates": dict(self.rates),
            **{name: getattr(self, name) for name in ("tied_lists", "loss_best_ties", "loss_worst_ties", "margin")},
            **{name: getattr(self, name) for name in ("excess", "wins_by_ties", "inside")},
            "optimum": self.optimum.to_dict(),
        }

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    def __str__(self) -> str:
        """Return a short report."""
        ties = f" ({self.tied_lists} lists tied)" if self.tied_lists else ""
        unit = self.optimum.unit or LOSS
        return f"{self.optimum}\nthe weights checked: {unit.name} {unit.text(self.loss)}{ties}"
