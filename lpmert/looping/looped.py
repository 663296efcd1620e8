"""What the loop found: one iteration after the other, the best of them, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lpmert.errors import FloatArray
from lpmert.findings import Unit


@dataclass(frozen=True)
class Consistency:
    """How well pool and decoder agree, at the weights of one decoding.

    own_differs: lists in which the decoder shows other words than those of the pool's best hypothesis; search_errors:
    lists in which the pool has a better hypothesis than all that the decoder gave this time; pool_loss and own_loss: of
    the pool's best hypotheses, and of the decoder's own outputs for the same lists, which are `lists`. equal_words:
    words of a list that came with several features, of all the `words`; spread: the median difference between these in
    `feature`, where it is largest; 0 and empty where all are equal.
    """

    lists: int
    own_differs: int
    search_errors: int
    pool_loss: float
    own_loss: float
    words: int
    equal_words: int
    spread: float
    feature: str


@dataclass(frozen=True, eq=False)
class Iteration:
    """One decoding, and the search that followed.

    Parameters
    ----------
    number : int
        From 1.
    weights : mapping from name to float
        The decoder's weights.
    loss, score : float
        Of the decoder's own outputs.
    rate : float, optional
        The loss as a share of the references' length, where it is an error rate.
    unit : Unit
        The unit in which users know the losses.
    held_out_loss, held_out_unit : float and Unit, optional
        The same for held-out inputs.
    accepted : bool
        Whether the loss is at most that of the iteration that the step started from.
    hypotheses, new_hypotheses, new_words, grown_lists : int
        Contents of the pool after the decoding, what of it is new, and lists that grew.
    consistency : Consistency
        How well pool and decoder agree.
    seconds : mapping from str to float
        For decoding and for the search.
    pool_loss, lower_bound : float, optional
        Least loss found on the pool for the next decoding, within `angle` of the best weights, and its proven bound;
        `None` in the last iteration.
    angle : float, optional
        In degrees; `None` for no limit.
    """

    number: int
    weights: Mapping[str, float]
    loss: float
    score: float
    rate: float | None
    unit: Unit
    held_out_loss: float | None
    held_out_unit: Unit | None
    accepted: bool
    hypotheses: int
    new_hypotheses: int
    new_words: int
    grown_lists: int
    consistency: Consistency
    seconds: Mapping[str, float]
    pool_loss: float | None = None
    lower_bound: float | None = None
    angle: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers and dictionaries."""
        return {name: value for name, value in asdict(self).items() if name not in ("unit", "held_out_unit")}


@dataclass(frozen=True, eq=False)
class Looped:
    """The outcome of a loop: the first iteration whose decoder outputs cost least.

    Parameters
    ----------
    weights : array of shape [D]
        Of the best iteration, in the scale of the first weights.
    names : tuple of str
        The features.
    best : int
        The number of that iteration.
    iterations : tuple of Iteration
        All of them.
    reason : str
        Why the loop ended.
    finished : bool
        Whether it ended by itself, and not by a limit.
    warnings : tuple of str
        What to keep in mind, a sentence each.
    seed : int
        Seed for everything random.
    signature : str
        Every setting that changes the numbers.
    """

    weights: FloatArray
    names: tuple[str, ...]
    best: int
    iterations: tuple[Iteration, ...]
    reason: str
    finished: bool
    warnings: tuple[str, ...]
    seed: int
    signature: str

    @property
    def by_name(self) -> dict[str, float]:
        """The weights by the names of their features."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    @property
    def loss(self) -> float:
        """What the decoder's own outputs cost with these weights."""
        return self.iterations[self.best - 1].loss

    @property
    def held_out_loss(self) -> float | None:
        """The same for held-out inputs."""
        return self.iterations[self.best - 1].held_out_loss

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {
            "weights": self.by_name,
            "loss": self.loss,
            "held_out_loss": self.held_out_loss,
            "unit": asdict(self.iterations[self.best - 1].unit),
            "best": self.best,
            "reason": self.reason,
            "finished": self.finished,
            "warnings": list(self.warnings),
            "iterations": [one.to_dict() for one in self.iterations],
            "seed": self.seed,
            "signature": self.signature,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    def __str__(self) -> str:
        """Return a short report."""
        first, best = self.iterations[0], self.iterations[self.best - 1]
        width = max(map(len, self.names))
        lines = [
            f"{best.unit.name} {best.unit.text(best.loss)} in iteration {self.best} of {len(self.iterations)}, "
            f"{first.unit.text(first.loss)} at first"
        ]
        lines += [f"  {name:{width}}  {weight: .10g}" for name, weight in self.by_name.items()]
        return "\n".join([*lines, self.reason, *self.warnings])
