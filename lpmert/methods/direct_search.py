"""Direct search on the loss itself: line searches, a grid, random weights, Nelder-Mead, CMA-ES, and Optuna's sampler.

Sources: Och, ACL 2003; Cer, Jurafsky and Manning, Regularization and Search for Minimum Error Rate Training, WMT 2008
(the choice of directions, each line minimised globally); Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT
2009; grids as speech recognition rescoring scans them; Zens, Hasan and Ney, EMNLP 2007 (the simplex on the loss).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines import DESCENTS, Clock, LineSearch, Space, local_optima, loss_at, powell, random_weights, usual_starts
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.quoting import listed, quoted
from lpmert.result import Result
from lpmert.search.incumbent import Evolution, normalised
from lpmert.search.method import Comparator, Found, Method, Run, Search, Task

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


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
        search = LineSearch.of(problem)
        starts, rng = usual_starts(problem, search, start), np.random.default_rng(seed)
        optima = local_optima(search, DESCENTS[self.directions], starts, rng, clock, self.restarts)
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
        local = local_optima(search, powell, starts, rng, clock, None, walk_share=0.0)
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


EVALUATIONS = 576  # most points of a grid by default: 24 times 24 with three features

_MOST_POINTS = 1_000_000

_WIDEST = 2.0  # half the width of a range, for features scaled to the same spread within lists


def _ranges(text: str) -> tuple[tuple[str, float, float], ...]:
    found = []
    for part in text.split(","):
        name, _, ends = part.rpartition(":")
        low, dots, high = ends.partition("..")
        if not (name and dots):
            raise ValueError(text)
        found.append((name, float(low), float(high)))
    return tuple(found)


@dataclass(frozen=True)
class Grid(Comparator):
    """Decode at every point of a grid in which one feature has the weight 1, and keep the best.

    The grid includes the ends of all ranges; these are -2 and 2 for features scaled to the same spread within lists.
    """

    reference: str | None = option(None, "the feature whose weight is 1; none for the first that matters")
    negative: bool = option(False, "the weight of the reference is -1")
    points: int | None = option(
        None, "values for each other feature; none for as many as give at most 576 points in all", least=2
    )
    ranges: tuple[tuple[str, float, float], ...] = option(
        (),
        "features with ranges of their own, in the scale of the weights themselves",
        form="ranges such as lm:0..15,words:-3..3",
        parse=_ranges,
    )

    name: ClassVar[str] = "grid"
    random = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low, high in self.ranges:
            if not low < high:
                raise MethodError(f"{name}: the lower end must be below the upper one; got {low} and {high}")

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:  # noqa: ARG002
        """Return the best point of the grid; start and seed are not used."""
        axes = self._axes(problem)
        evaluations = 0
        for point in product(*axes.values()):
            if clock.expired():
                break
            weights = np.zeros(len(problem.nbest.names))
            weights[list(axes)] = point
            clock.keep(problem.to_canonical(problem.checked_weights(weights)))
            evaluations += 1
        best = np.ones(problem.canonical.n_features) if clock.best is None else clock.best
        return Found(best, {"evaluations": evaluations})

    def _axes(self, problem: Problem) -> dict[int, list[float]]:
        """Return the grid values of each feature that varies, by the number of the feature."""
        nbest = problem.nbest
        varying = [name for name in nbest.names if name not in problem.free]
        reference = varying[0] if self.reference is None else self.reference
        for name in (reference, *(name for name, _, _ in self.ranges)):
            if name not in varying:
                raise MethodError(f"grid: {quoted(name)} is not a feature that varies; those are {listed(varying)}")
        axes_left = max(1, len(varying) - 1)
        points = max(2, int(EVALUATIONS ** (1 / axes_left) + 1e-9)) if self.points is None else self.points
        if points**axes_left > _MOST_POINTS:
            raise MethodError(
                f"a grid of {points} values for each of {axes_left} features has more than {_MOST_POINTS:,} points; "
                "give fewer values, or use another method"
            )
        spread = units(nbest.blocks())
        unit = dict(zip(nbest.names, spread[nbest.names.index(reference)] / spread, strict=True))
        ranges = {name: (-_WIDEST * unit[name], _WIDEST * unit[name]) for name in varying}
        ranges |= {name: (low, high) for name, low, high in self.ranges}
        values = {name: np.linspace(*ranges[name], points).tolist() for name in varying}
        values[reference] = [-1.0 if self.negative else 1.0]
        return {nbest.names.index(name): values[name] for name in varying}


@dataclass(frozen=True)
class RandomSearch(Comparator):
    """Decode at the start, if there is one, and at `draws` random weights, and keep the best.

    Directions are uniform for features scaled to the same spread within lists.
    """

    draws: int = option(1000, "random weights", least=1)

    name: ClassVar[str] = "random"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        rng = np.random.default_rng(seed)
        space = Space.of(problem)
        best = random_weights(space, rng) if start is None else start
        clock.keep(best)
        for _ in range(self.draws):
            if clock.expired():
                break
            clock.keep(random_weights(space, rng))
        return Found(best if clock.best is None else clock.best)


_TOLERANCE = 1e-4  # size of the simplex at which a run stops, for weights of about 1
_EDGE = 0.5  # edge length of the first simplex, for weights whose largest is 1


@dataclass(frozen=True)
class NelderMead(Comparator):
    """SciPy's Nelder-Mead from the start (or equal weights) and from `restarts` random weights; the best vertex wins.

    Features are scaled to the same spread, and weights so that the largest is 1.
    """

    restarts: int = option(5, "random starts", least=0)
    evaluations: int | None = option(None, "most evaluations from a start; none for 200 for each feature", least=1)

    name: ClassVar[str] = "nelder-mead"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        rng = np.random.default_rng(seed)
        space = Space.of(problem)
        first = problem.canonical.interior if start is None else start
        starts = [1.0 / space.spread if first is None else first]
        starts += [random_weights(space, rng) for _ in range(self.restarts)]
        evaluations = 0
        for weights in starts:
            evaluations += self._descend(problem, space.spread, weights, clock)
            if clock.expired(0):
                break
        return Found(starts[-1] if clock.best is None else clock.best, {"evaluations": evaluations})

    def _descend(self, problem: Problem | LatticeProblem, spread: FloatArray, weights: FloatArray, clock: Clock) -> int:
        """Run Nelder-Mead from weights [d], for features of this spread [d]; return the number of evaluations."""
        from scipy.optimize import minimize

        least, evaluations = np.inf, 0

        def loss(scaled: FloatArray) -> float:
            nonlocal least, evaluations
            evaluations += 1
            if not scaled.any():
                return np.inf
            tried = scaled / spread
            level = loss_at(problem, tried)
            if level < least:
                least = clock.keep(tried, level)
            return level

        def watch(_: FloatArray) -> None:
            if clock.expired():
                raise StopIteration

        callback: Any = watch
        scaled = weights * spread / np.abs(weights * spread).max()
        simplex = np.vstack([scaled, scaled + _EDGE * np.eye(len(scaled))])
        options: Any = {"initial_simplex": simplex, "xatol": _TOLERANCE, "fatol": 0.0, "maxfev": self.evaluations}
        minimize(loss, scaled, method="Nelder-Mead", callback=callback, options=options)
        return evaluations


@dataclass(frozen=True)
class CmaEs(Comparator):
    """Hansen's CMA-ES from the start (or equal weights), then in turns from near the best and from random weights.

    Weights are drawn along axes along which the features are uncorrelated within lists; over lattices, along features
    scaled to the same spread.
    """

    restarts: int = option(20, "runs after the first", least=0)

    name: ClassVar[str] = "cma-es"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        evolution = Evolution(problem, start, np.random.default_rng(seed))
        clock.keep(evolution.best)
        while evolution.runs <= self.restarts and not clock.expired(evolution.step(clock)):
            pass
        return Found(evolution.best if clock.best is None else clock.best, {"runs": evolution.runs})


@dataclass(frozen=True)
class Tpe(Comparator):
    """`trials` suggestions of Optuna's sampler, each weight in -1..1 for features scaled to the same spread.

    The start, if there is one, is the first trial. Needs the extra `tpe`.
    """

    trials: int = option(300, "suggestions", least=1)

    name: ClassVar[str] = "tpe"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        try:
            import optuna
        except ImportError as error:
            raise MethodError("optuna is not installed; pip install 'lpmert[tpe]'") from error
        spread = Space.of(problem).spread
        names = [str(d) for d in range(len(spread))]

        def loss(trial: Trial) -> float:
            scaled = np.array([trial.suggest_float(name, -1.0, 1.0) for name in names])
            return clock.keep(scaled / spread)

        def watch(study: Study, _: FrozenTrial) -> None:
            if clock.expired():
                study.stop()

        shown = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
            if start is not None:
                scaled = start * spread / np.abs(start * spread).max()
                study.enqueue_trial(dict(zip(names, scaled.tolist(), strict=True)))
            study.optimize(loss, n_trials=self.trials, callbacks=[watch])
        finally:
            optuna.logging.set_verbosity(shown)
        return Found(1.0 / spread if clock.best is None else clock.best, {"trials": len(study.trials)})
