"""What `tune` found: the optimum, the average, what either costs, and which of them to take."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from lpmert.errors import FloatArray
from lpmert.result import Result
from lpmert.unseen.average import AGREEMENT
from lpmert.unseen.estimate import FEW, Estimate

AVERAGED, OPTIMUM = "averaged", "optimum"


@dataclass(frozen=True, eq=False)
class Averaged:
    """Averaged weights [D], what they cost on the lists that they come from, and how they came about.

    unit: the mean difference in loss between two hypotheses of a list; temperature: that of the average, `None` if it
    is infinite; both are S times as much for a metric that is not additive. agreement: the least cosine of a chain's
    mean with the mean of all; `None` where nothing was averaged. quick: what unseen lists would cost by the variance
    along the chains, without refits, `None` where that is unknown. complete: whether all steps were taken.
    """

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    unit: float
    temperature: float | None
    agreement: float | None
    chains: int
    steps: int
    quick: float | None
    complete: bool


@dataclass(frozen=True, eq=False)
class Tuned:
    """Weights for lists that nobody has seen yet, beside those that are best on the lists given.

    weights [D]: those recommended, with absolute values that sum to 1; recommended: "averaged" or "optimum", whose
    weights these are. estimate: what is to be expected on as many unseen lists, `None` where it was not wanted or not
    possible; unestimated: why it was not possible; held_out: the same measured on lists kept apart. optimum: the result
    of the search for it.
    """

    weights: FloatArray
    names: tuple[str, ...]
    recommended: str
    optimum: Result
    averaged: Averaged
    estimate: Estimate | None
    held_out: Estimate | None
    n_lists: int
    seed: int
    signature: str
    seconds: dict[str, float] = field(default_factory=dict)
    unestimated: str = ""

    @property
    def by_name(self) -> dict[str, float]:
        """The recommended weights by the names of their features."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    @property
    def optimism(self) -> float | None:
        """The share of the expected loss of the optimum's kind that its loss on these lists leaves out."""
        if self.estimate is None or not self.estimate.optimum.value > 0.0:
            return None
        return 1.0 - self.optimum.loss / self.estimate.optimum.value

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
        found = []
        if not self.averaged.complete:
            found.append("the average is not complete: it was stopped")
        elif self.averaged.steps == 0:
            found.append("nothing to average: these lists leave no choice between directions of weights")
        elif self.averaged.agreement is not None and self.averaged.agreement < AGREEMENT:
            found.append(
                f"the chains agree to {self.averaged.agreement:.3f} only, less than {AGREEMENT:g}: "
                "other seeds will give other averages"
            )
        if self.unestimated:
            found.append(self.unestimated)
        if self.estimate is None and self.averaged.quick is not None and self.n_lists < FEW:
            found.append(f"fewer than {FEW} lists: the estimate is not worth much")
        for what, estimate in (("estimate", self.estimate), ("held-out comparison", self.held_out)):
            if estimate is not None and estimate.doubtful:
                few = "lists" if estimate.groups == estimate.n_lists else "groups of lists"
                found.append(f"fewer than {FEW} {few}: the {what} is not worth much")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries, ready for JSON."""
        own = self.averaged
        return {
            "weights": self.by_name,
            "recommended": self.recommended,
            "optimum": self.optimum.to_dict(),
            "averaged": {**vars(own), "weights": dict(zip(self.names, own.weights.tolist(), strict=True))},
            "estimate": None if self.estimate is None else self.estimate.to_dict(),
            "held_out": None if self.held_out is None else self.held_out.to_dict(),
            "optimism": self.optimism,
            "notes": self.notes,
            "n_lists": self.n_lists,
            "seed": self.seed,
            "signature": self.signature,
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    def __str__(self) -> str:
        """Return a short report."""
        lines = [f"{self.recommended} weights, loss {self.optimum.loss:.10g} at the optimum, {self.averaged.loss:.10g}"]
        width = max((len(name) for name in self.names), default=0)
        lines += [f"  {name:{width}}  {weight: .10g}" for name, weight in zip(self.names, self.weights, strict=True)]
        return "\n".join([*lines, *self.notes])
