"""Methods that only evaluate losses: a grid, random weights, Nelder-Mead, CMA-ES, and Optuna's sampler.

Sources: grids as speech recognition rescoring scans them; Zens, Hasan and Ney, EMNLP 2007 (the simplex on the loss).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.line_search import space_of
from lpmert.lines.local_search import Clock, loss_at, random_weights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.quoting import listed, quoted
from lpmert.search.evolution import Evolution
from lpmert.search.method import Comparator, Found

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


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
        space = space_of(problem)
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
        space = space_of(problem)
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
        while evolution.runs <= self.restarts and not clock.expired(0):
            evolution.run(clock)
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
        spread = space_of(problem).spread
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
