"""Minimum error rate training by line searches: from several starts, and stabilised within a tuning loop.

Sources: Och, ACL 2003; Cer, Jurafsky and Manning, Regularization and Search for Minimum Error Rate Training, WMT 2008
(the choice of directions, each line minimised globally); Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT
2009.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.line_search import LatticeLineSearch, LineSearch
from lpmert.lines.local_search import DESCENTS, Clock, Restarts, local_optima, powell
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.result import Result
from lpmert.search.incumbent import normalised
from lpmert.search.method import Comparator, Found, Method, Run, Search, Task


@dataclass(frozen=True)
class Och(Comparator):
    """Line searches from the start (or equal weights) and from random weights; the best local optimum wins.

    On lattices, line searches are over all paths (Macherey, Och, Thayer and Uszkoreit, EMNLP 2008). The baseline of
    Galley and Quirk (EMNLP 2011) is `directions="powell"`.
    """

    directions: str = option(
        "greedy",
        "greedy: move along the best coordinate; powell: adapt a set of directions",
        choices=tuple(DESCENTS),
    )
    restarts: int = option(20, "random starts", least=0)

    name: ClassVar[str] = "och"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        search = LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else LineSearch(problem.canonical)
        restarts = Restarts(DESCENTS[self.directions], self.restarts)
        optima = local_optima(problem, search, restarts, start, seed, clock)
        return Found(min(optima, key=lambda item: item[0])[1], {"starts": len(optima), "line_searches": clock.steps})


BEST = 3  # local optima of an iteration from which later iterations start

_PERTURBATIONS = 10
_VARIANCE = 1e-3  # variance of the perturbation of every weight, for weights whose largest is 1


@dataclass(frozen=True)
class Iteration:
    """The outcome of an iteration: the weights [D] to decode with next, and its best local optima [D], best first.

    Without optima, it holds the weights of the first decoding, before any iteration.
    """

    weights: FloatArray
    optima: tuple[FloatArray, ...]


def _selection(text: str) -> tuple[float, float, int]:
    a, b, memory = text.split(",")
    return float(a), float(b), int(memory)


@dataclass(frozen=True)
class Stabilised(Method):
    """The line searches of one iteration after earlier iterations; each switch is one of the paper's strategies.

    Descents are Powell's, from at least ten starts; each new best asks for as many further ones as there were so far.
    selection (a, b, m): of all local optima P, choose the one with the largest v * quality + (1 - v) * distance, each
    divided by its maximum in P. Here v = 1 - a / (iteration + b), iterations count from 1, and the distance is the
    least Euclidean one to the weights of the last m iterations, all normalised so that absolute values sum to 1. The
    weights of the first decoding count as such weights if they are given as initial weights. Quality is 1 - loss, or 1
    / loss for additive losses. regularised: the quality uses the mean loss over 10 perturbations of the caller's
    weights, with variance 0.001 where the largest weight is 1.
    """

    reseed: bool = option(True, "draw other random starts in every iteration")
    history: bool = option(True, "start from the best optima of all earlier iterations, not only of the last one")
    selection: tuple[float, float, int] | None = option(
        (5.0, 9.0, 3),
        "how quality and distance from recent weights select a local optimum; none: quality alone",
        form="three numbers such as 5,9,3",
        parse=_selection,
    )
    regularised: bool = option(False, "measure quality by the mean loss of perturbed weights")
    earlier: list[Iteration] | None = field(default=None, compare=False, repr=False)
    """The earlier iterations, oldest first; each run appends its own. `lpmert.loop` passes them."""

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
        return self.earlier is not None

    def start(self, task: Task) -> Search:
        return _Search(task, self, [] if self.earlier is None else self.earlier)


class _Search(Run):
    def __init__(self, task: Task, method: Stabilised, earlier: list[Iteration]) -> None:
        super().__init__(task, self._run)
        self._method, self._earlier = method, earlier
        self._optima: list[FloatArray] = []

    @property
    def conclude(self) -> Callable[[Result], Result]:
        return self._concluded

    def _concluded(self, result: Result) -> Result:
        self._earlier.append(Iteration(result.weights, tuple(self._optima[:BEST]) or (result.weights,)))
        return replace(result, signature=f"{result.signature}|iteration:{self._iterations}")

    @property
    def _iterations(self) -> int:
        """Number of iterations so far; the first decoding is none."""
        return sum(bool(iteration.optima) for iteration in self._earlier)

    def _run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the selected local optimum, and store all of them [D], best first."""
        method, earlier, form = self._method, self._earlier, problem.canonical
        if not earlier and start is not None:
            earlier.append(Iteration(normalised(problem.to_caller(CanonicalWeights(start))), ()))
        rng = np.random.default_rng([seed, len(earlier)] if method.reseed else seed)
        search = LineSearch(form)
        iterations = earlier[::-1] if method.history else earlier[-1:]
        optima = (CallerWeights(weights) for iteration in iterations for weights in iteration.optima[:BEST])
        starts = [weights for weights in map(problem.to_canonical, optima) if weights.any()]
        starts = [weights for weights in starts if form.loss_at(weights) < inf]
        starts = starts or [CanonicalWeights(1.0 / search.spread if start is None else start)]
        local = Restarts(powell, count=None, walk_share=0.0).run(search, starts, rng, clock)
        found = [CanonicalWeights(weights) for _, weights in sorted(local, key=lambda item: item[0])]
        self._optima = [normalised(problem.to_caller(weights)) for weights in found]
        chosen = found[self._selected(problem, found, rng)]
        return Found(chosen, {"starts": len(local), "line_searches": clock.steps})

    def _selected(self, problem: Problem, optima: list[CanonicalWeights], rng: np.random.Generator) -> int:
        """Return the index of the local optimum [d] to decode with next; the optima come best first."""
        method = self._method
        if method.selection is None and not method.regularised:
            return 0
        losses = np.array([self._loss(problem, weights, rng) for weights in optima])
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
        """Return the loss of an optimum [d], or the mean loss of its perturbations if regularised."""
        if not self._method.regularised:
            return problem.canonical.loss_at(weights)
        centre = problem.to_caller(weights)
        noise = np.abs(centre).max() * np.sqrt(_VARIANCE) * rng.normal(size=(_PERTURBATIONS, len(centre)))
        return float(np.mean([problem.evaluate(CallerWeights(centre + step)).loss for step in noise]))
