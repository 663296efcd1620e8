"""Line searches inside a loop of decoding and optimising, with what makes their outcome vary less.

Source: Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT 2009.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np

from lpmert.comparators.base import Clock, Comparator, Found, decoded_loss, l1_normalised
from lpmert.comparators.och import DESCENTS, DIRECTIONS, line_search_of, loss_of_level
from lpmert.comparators.restarts import STOPPING, Restarts
from lpmert.configurable import option
from lpmert.formats.files import read_text, write_text
from lpmert.problem import Problem
from lpmert.result import Callback, DataError, FloatArray, Limits, MethodError, Result
from lpmert.values import weights_array

BEST = 3
"""Local optima of an iteration from which later ones start."""

_PERTURBATIONS = 10
_VARIANCE = 1e-3
"""Of every weight, where the largest is 1."""


@dataclass(frozen=True)
class Iteration:
    """What an iteration left behind: the weights [D] to decode with next, and its best local optima [D], best first."""

    weights: FloatArray
    optima: tuple[FloatArray, ...]


def _selection(text: str) -> tuple[float, float, int]:
    a, b, memory = text.split(",")
    return float(a), float(b), int(memory)


@dataclass(frozen=True)
class Stabilised(Comparator):
    """One iteration's line searches, given all earlier iterations; each switch is one of the paper's strategies.

    selection (a, b, m): of all local optima P take not the best, but the one with the most v * quality + (1 - v) *
    distance, each over its maximum in P, where v = 1 - a / (iteration + b), iterations count from 1, and the distance
    is the least Euclidean one to the weights of the last m iterations, all with absolute values that sum to 1.
    regularised: the quality is the mean over 10 perturbations of the weights. Quality is 1 - loss, or 1 / loss where
    losses are sums over lists.
    """

    reseed: bool = option(True, "random starts differ from iteration to iteration")
    history: bool = option(True, "start from the best optima of every earlier iteration, not of the last one only")
    selection: tuple[float, float, int] | None = option(
        (5.0, 9.0, 3),
        "how quality and distance from recent weights choose among local optima; none: quality alone",
        form="three numbers such as 5,9,3",
        parse=_selection,
    )
    regularised: bool = option(False, "quality is the mean over perturbed weights")
    directions: str = option("powell", "see och", choices=DIRECTIONS)
    stopping: str = option("foster-kuhn", "see och", choices=STOPPING)
    restarts: int = option(20, "see och", least=0)
    state: str | None = option(
        None,
        "file of what earlier iterations left behind, to which this one is added",
        signed=False,
    )

    name: ClassVar[str] = "stabilised"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection is not None:
            a, b, m = self.selection
            if not (0 <= a <= 1 + b and m >= 1):
                raise MethodError(f"selection=(a, b, m) needs 0 <= a <= 1 + b and m >= 1; got {self.selection}")

    def starts(self) -> Restarts:
        """Return how starts follow each other: random ones are drawn afresh."""
        return Restarts(self.restarts, self.stopping, walk_share=0.0)

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return where a first iteration ends."""
        return _Iteration(self, ()).run(problem, start, seed, clock)

    def solve(
        self,
        problem: Problem,
        limits: Limits | None = None,
        callback: Callback | None = None,
        seed: int = 0,
        initial_weights: FloatArray | None = None,
        started: float | None = None,
    ) -> Result:
        """Return the result of the iteration that follows those in the file `state`, and add it to them.

        Raises `DataError` where the file holds no iterations of these features, or cannot be written.
        """
        history = [] if self.state is None else read_history(self.state, problem.nbest.names)
        result, iteration = self.optimise(problem, history, limits, callback, seed, started, initial_weights)
        if self.state is not None:
            write_history(self.state, problem.nbest.names, [*history, iteration])
        return result

    def optimise(
        self,
        problem: Problem,
        history: Sequence[Iteration],
        limits: Limits | None = None,
        callback: Callback | None = None,
        seed: int = 0,
        started: float | None = None,
        initial_weights: FloatArray | None = None,
    ) -> tuple[Result, Iteration]:
        """Return the result of this iteration and what to append to the history, oldest first, for the next."""
        iteration = _Iteration(self, tuple(history))
        result = iteration.solve(problem, limits, callback, seed, initial_weights, started)
        return result, Iteration(result.weights, tuple(iteration.optima[:BEST]) or (result.weights,))


def read_history(path: str, names: Sequence[str]) -> list[Iteration]:
    """Return the iterations of a file, oldest first, none if there is no file; raises `DataError` for other files."""
    if not Path(path).exists():
        return []
    try:
        held = json.loads(read_text(path))
        iterations = [
            Iteration(weights_array(one["weights"], names), tuple(weights_array(w, names) for w in one["optima"]))
            for one in held["iterations"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("contains no iterations of stabilised tuning; give another file", path=path) from error
    except DataError as error:
        raise DataError(f"holds iterations with other features: {error}", path=path) from error
    return iterations


def write_history(path: str, names: Sequence[str], history: Sequence[Iteration]) -> None:
    """Write the iterations, oldest first, with weights by name; the file appears whole or not at all."""

    def by_name(weights: FloatArray) -> dict[str, float]:
        return dict(zip(names, weights.tolist(), strict=True))

    iterations = [{"weights": by_name(one.weights), "optima": list(map(by_name, one.optima))} for one in history]
    write_text(path, json.dumps({"iterations": iterations}, allow_nan=False, indent=1) + "\n")


class _Iteration(Comparator):
    """The search of one iteration."""

    name = Stabilised.name

    def __init__(self, method: Stabilised, history: tuple[Iteration, ...]) -> None:
        self.method, self.history = method, history
        self.optima: list[FloatArray] = []

    def settings(self) -> str:
        """Return the method's settings and how many iterations went before."""
        return f"{self.method.settings()}|iteration:{len(self.history) + 1}"

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the selected local optimum; `optima` then holds all of them [D], best first."""
        method, history = self.method, self.history
        rng = np.random.default_rng([seed, len(history)] if method.reseed else seed)
        search = line_search_of(problem)
        earlier = history[::-1] if method.history else history[-1:]
        given = [problem.to_canonical(weights) for iteration in earlier for weights in iteration.optima[:BEST]]
        given = [weights for weights in given if decoded_loss(problem, weights) < inf and weights.any()]
        given += [] if given else [1.0 / search.spread if start is None else start]
        found = method.starts().run(
            search,
            DESCENTS[method.directions],
            given,
            problem.interior,
            rng,
            clock,
            lambda x: loss_of_level(problem, x),
        )
        found.sort(key=lambda item: item[0])
        self.optima = [l1_normalised(problem.to_caller(weights)) for _, weights in found]
        chosen = self._selected(problem, [weights for _, weights in found], rng)
        return Found(found[chosen][1], {"starts": len(found), "line_searches": clock.steps})

    def _selected(self, problem: Problem, optima: list[FloatArray], rng: np.random.Generator) -> int:
        """Return which of the local optima [d], best first, to decode with next."""
        method = self.method
        if method.selection is None and not method.regularised:
            return 0
        losses = np.array([self._loss(problem, weights, rng) for weights in optima])
        with np.errstate(divide="ignore", invalid="ignore"):
            quality = losses.min() / losses if problem.additive else (1 - losses) / (1 - losses.min())
        quality = np.nan_to_num(quality, nan=1.0)
        if method.selection is None or not self.history:
            return int(np.argmax(quality))
        a, b, memory = method.selection
        recent = np.array([iteration.weights for iteration in self.history[-memory:]])
        distances = np.array([np.linalg.norm(recent - weights, axis=1).min() for weights in self.optima])
        share = 1 - a / (len(self.history) + 1 + b)
        return int(np.argmax(share * quality + (1 - share) * distances / (distances.max() or 1.0)))

    def _loss(self, problem: Problem, weights: FloatArray, rng: np.random.Generator) -> float:
        """Return the loss of an optimum [d], or its mean over perturbations."""
        if not self.method.regularised:
            return decoded_loss(problem, weights)
        noise = np.abs(weights).max() * np.sqrt(_VARIANCE) * rng.normal(size=(_PERTURBATIONS, len(weights)))
        return float(np.mean([decoded_loss(problem, weights + step) for step in noise]))
