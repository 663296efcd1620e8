"""Minimum error rate training by line searches: from several starts, and stabilised inside a loop with a decoder.

Sources: Och, ACL 2003; Cer, Jurafsky and Manning, Regularization and Search for Minimum Error Rate Training, WMT 2008
(the choice of directions, each line minimised globally); Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT
2009.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.lines.line_search import LatticeLineSearch, LineSearch
from lpmert.lines.local_search import DESCENTS, STOPPING, Clock, Restarts, local_optima
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.result import Result
from lpmert.search.incumbent import normalised
from lpmert.search.method import Comparator, Found, Method, Run, Search, Task
from lpmert.system.files import read_text, write_text
from lpmert.values import weights_array


@dataclass(frozen=True)
class Och(Comparator):
    """Line searches from the start (or equal weights) and from random weights; the best local optimum wins.

    On lattices the lines are searched over all paths (Macherey, Och, Thayer and Uszkoreit, EMNLP 2008). The baseline of
    Galley and Quirk (EMNLP 2011) is `directions="powell"`.
    """

    directions: str = option(
        "greedy",
        "greedy: the best of all coordinates; powell: a set of directions that adapts",
        choices=tuple(DESCENTS),
    )
    restarts: int = option(20, "random starts", least=0)
    stopping: str = option(
        "fixed", "foster-kuhn: as many starts as the best one so far needed, at least ten", choices=STOPPING
    )
    walk_share: float = option(0.9, "share of starts that step from the best weights so far", least=0, most=1)

    name: ClassVar[str] = "och"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        search = LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else LineSearch(problem.canonical)
        restarts = Restarts(DESCENTS[self.directions], self.restarts, self.stopping, self.walk_share)
        optima = local_optima(problem, search, restarts, start, seed, clock)
        return Found(min(optima, key=lambda item: item[0])[1], {"starts": len(optima), "line_searches": clock.steps})


BEST = 3
"""Local optima of an iteration from which later ones start."""

_PERTURBATIONS = 10
_VARIANCE = 1e-3
"""Of every weight, where the largest is 1."""


@dataclass(frozen=True)
class Iteration:
    """What an iteration left behind: the weights [D] to decode with next, and its best local optima [D], best first.

    Without optima: the weights of the first decoding, before any iteration.
    """

    weights: FloatArray
    optima: tuple[FloatArray, ...]


def _selection(text: str) -> tuple[float, float, int]:
    a, b, memory = text.split(",")
    return float(a), float(b), int(memory)


@dataclass(frozen=True)
class Stabilised(Method):
    """One iteration's line searches, given all earlier iterations; each switch is one of the paper's strategies.

    selection (a, b, m): of all local optima P take not the best, but the one with the most v * quality + (1 - v) *
    distance, each over its maximum in P, where v = 1 - a / (iteration + b), iterations count from 1, and the distance
    is the least Euclidean one to the weights of the last m iterations, all with absolute values that sum to 1.
    The weights of the first decoding are among them if they are given as initial weights. regularised: the quality is
    the mean over 10 perturbations of the caller's weights, by a variance of 0.001 where the largest weight is 1.
    Quality is 1 - loss, or 1 / loss where losses are sums over lists.
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
    directions: str = option("powell", "see och", choices=tuple(DESCENTS))
    stopping: str = option("foster-kuhn", "see och", choices=STOPPING)
    restarts: int = option(20, "see och", least=0)
    state: str | None = option(
        None,
        "file of what earlier iterations left behind, to which this one is added",
        signed=False,
    )
    earlier: list[Iteration] | None = field(default=None, compare=False, repr=False)
    """What earlier iterations left behind, oldest first, instead of a file; each run appends its own."""

    name: ClassVar[str] = "stabilised"
    proves = False
    minimises = False
    takes_ratios = True
    takes_caps = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.selection is not None:
            a, b, m = self.selection
            if not (0 <= a <= 1 + b and m >= 1):
                raise MethodError(f"selection=(a, b, m) needs 0 <= a <= 1 + b and m >= 1; got {self.selection}")

    @property
    def remembers(self) -> bool:
        return self.state is not None or self.earlier is not None

    def start(self, task: Task) -> Search:
        """Return the search of the iteration that follows the `earlier` ones, or those in the file `state`.

        Raises `DataError` where the file holds no iterations of these features.
        """
        earlier = self.earlier
        if earlier is None:
            earlier = [] if self.state is None else read_history(self.state, task.problem.names)
        return _Search(task, self, earlier)


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
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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


class _Search(Run):
    """The search of one iteration."""

    def __init__(self, task: Task, method: Stabilised, earlier: list[Iteration]) -> None:
        super().__init__(task, self._run)
        self._method, self._earlier = method, earlier
        self._optima: list[FloatArray] = []

    @property
    def conclude(self) -> Callable[[Result], Result]:
        return self._concluded

    def _concluded(self, result: Result) -> Result:
        """Append the iteration to the earlier ones, in their file if they are from one."""
        self._earlier.append(Iteration(result.weights, tuple(self._optima[:BEST]) or (result.weights,)))
        if self._method.state is not None:
            write_history(self._method.state, result.names, self._earlier)
        return replace(result, signature=f"{result.signature}|iteration:{self._iterations}")

    @property
    def _iterations(self) -> int:
        return sum(bool(one.optima) for one in self._earlier)

    def _run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the selected local optimum, and keep all of them [D], best first."""
        method, earlier = self._method, self._earlier
        if not earlier and start is not None:
            earlier.append(Iteration(normalised(problem.to_caller(CanonicalWeights(start))), ()))
        rng = np.random.default_rng([seed, len(earlier)] if method.reseed else seed)
        search = LineSearch(problem.canonical)
        iterations = earlier[::-1] if method.history else earlier[-1:]
        optima = [CallerWeights(weights) for iteration in iterations for weights in iteration.optima[:BEST]]
        given = [weights for weights in map(problem.to_canonical, optima) if weights.any()]
        given = [weights for weights in given if problem.canonical.loss_at(weights) < inf]
        given += [] if given else [CanonicalWeights(1.0 / search.spread if start is None else start)]
        starts = Restarts(DESCENTS[method.directions], method.restarts, method.stopping, walk_share=0.0)
        found = starts.run(search, given, rng, clock)
        found.sort(key=lambda item: item[0])
        self._optima = [normalised(problem.to_caller(CanonicalWeights(weights))) for _, weights in found]
        chosen = self._selected(problem, [weights for _, weights in found], rng)
        return Found(found[chosen][1], {"starts": len(found), "line_searches": clock.steps})

    def _selected(self, problem: Problem, optima: list[FloatArray], rng: np.random.Generator) -> int:
        """Return which of the local optima [d], best first, to decode with next."""
        method = self._method
        if method.selection is None and not method.regularised:
            return 0
        losses = np.array([self._loss(problem, CanonicalWeights(weights), rng) for weights in optima])
        with np.errstate(divide="ignore", invalid="ignore"):
            quality = losses.min() / losses if problem.canonical.additive else (1 - losses) / (1 - losses.min())
        quality = np.nan_to_num(quality, nan=1.0)
        if method.selection is None or not self._earlier:
            return int(np.argmax(quality))
        a, b, memory = method.selection
        recent = np.array([iteration.weights for iteration in self._earlier[-memory:]])
        distances = np.array([np.linalg.norm(recent - weights, axis=1).min() for weights in self._optima])
        share = 1 - a / (self._iterations + 1 + b)
        return int(np.argmax(share * quality + (1 - share) * distances / (distances.max() or 1.0)))

    def _loss(self, problem: Problem, weights: CanonicalWeights, rng: np.random.Generator) -> float:
        """Return the loss of an optimum [d], or its mean over perturbations."""
        if not self._method.regularised:
            return problem.canonical.loss_at(weights)
        own = problem.to_caller(weights)
        noise = np.abs(own).max() * np.sqrt(_VARIANCE) * rng.normal(size=(_PERTURBATIONS, len(own)))
        return float(np.mean([problem.evaluate(CallerWeights(own + step)).loss for step in noise]))
