"""Evolution of weights (CMA-ES): draw weights from a normal distribution, and adapt it to the better half of them.

Source: N. Hansen, The CMA Evolution Strategy: A Tutorial, 2016, with its default settings. Weights are drawn along axes
along which the hypotheses of a list are uncorrelated; groups of nearly equal features, such as several counts of one
kind, would otherwise dominate nearly all draws. Evolution gives no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray
from lpmert.lines.descents import even_basis
from lpmert.lines.line_search import LatticeLineSearch, LineSearch, Space
from lpmert.lines.local_search import Clock, loss_at, random_weights
from lpmert.metrics.base import RatioMetric
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem

_STEP = 0.2  # standard deviation of the first draws, for a start of length 1
_STEP_BESIDE = 0.1  # the same for a run that starts near the best weights so far
_BESIDE = 0.3  # distance of such a start from the best weights, for weights of length 1
_PATIENCE = 120  # draws in a row without an improvement after which a run ends, times the number of features
_SMALLEST = 1e-7  # standard deviation, for weights of length 1, below which all draws are practically equal
_RIDGE = 1e-6  # share of the widest direction's variance below which a direction is not stretched further
_WITHIN = 1.0 - 1e-9  # where draws outside of the region are moved to, as a share of the way from inside to its border


class Evolution:
    """Runs of CMA-ES: the first from given weights [d], later ones in turn from near the best and from random weights.

    `best` [d] has the least `loss` so far, by decoding in floating point.
    """

    def __init__(self, problem: Problem | LatticeProblem, first: FloatArray | None, rng: np.random.Generator) -> None:
        self._space, self._axes, self._loss = _space_of(problem)
        self._rng = rng
        self._inside = problem.canonical.interior
        self.runs = 0
        start = self._inside if first is None else first
        self.best: FloatArray = 1.0 / self._space.spread if start is None else start
        self.loss = inf
        self._draws: Draws | None = None
        self._least, self._failed = inf, 0

    def run(self, clock: Clock) -> None:
        """Continue the current run until it ends or the clock has expired."""
        runs = self.runs
        while self.runs == runs:
            if clock.expired(self.step(clock)):
                return

    def step(self, clock: Clock) -> int:
        """Draw one generation, report its best weights to the clock, and return how many weights were drawn.

        A run ends when the draws are practically equal or have not improved for long.
        """
        draws = self._draws = self._draws or Draws(*self._start(), self._rng)
        drawn = draws.draw() @ self._axes.T
        if self._inside is not None:
            drawn = self._moved_inside(drawn, self._inside)
        losses = np.array([self._loss(row) for row in drawn])
        draws.learn(losses)
        best = int(losses.argmin())
        loss = float(losses[best])
        self._failed = 0 if loss < self._least else self._failed + draws.count
        self._least = min(self._least, loss)
        if loss < self.loss:
            self.best, self.loss = drawn[best], loss
        clock.keep(drawn[best], loss)
        if self._failed >= _PATIENCE * self._space.dimension or draws.widest <= _SMALLEST:
            self.runs += 1
            self._draws, self._least, self._failed = None, inf, 0
        return draws.count

    def _start(self) -> tuple[FloatArray, float]:
        """Return the first mean of a run, about 1 long along the axes, and the standard deviation of its draws."""
        if self.runs and self.runs % 2 == 0:
            if self._inside is None:
                return _unit(self._rng.normal(size=self._space.dimension)), _STEP
            return _unit(np.linalg.solve(self._axes, random_weights(self._space, self._rng))), _STEP
        best = _unit(np.linalg.solve(self._axes, self.best))
        if not self.runs:
            return best, _STEP
        step = self._rng.normal(size=len(best))
        return best + _BESIDE * step / sqrt(len(best)), _STEP_BESIDE

    def _moved_inside(self, weights: FloatArray, inside: FloatArray) -> FloatArray:
        """Return weights [n, d]; those outside of the region are moved inside, towards its interior point [d]."""
        lengths = np.linalg.norm(weights, axis=1) / np.linalg.norm(inside)
        begin = lengths[:, None] * inside
        direction = weights - begin
        form = self._space.form
        ends = np.full(len(weights), inf)
        if len(form.limits):
            height, slope = begin @ form.limits.T, direction @ form.limits.T
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.min(-height / slope, axis=1, where=slope < 0.0, initial=inf)
        if form.cap is not None:
            ends = np.minimum(ends, [self._space.range(*pair)[1] for pair in zip(begin, direction, strict=True)])
        moved = begin + (np.minimum(ends, 1.0) * _WITHIN)[:, None] * direction
        return np.where((ends > 1.0)[:, None], weights, moved)


class Draws:
    """A normal distribution that adapts to the ranks of its draws, with Hansen's update rules.

    mean [d], covariance = step^2 (axes * deviations) (axes * deviations)'.
    """

    def __init__(self, mean: FloatArray, step: float, rng: np.random.Generator) -> None:
        n = len(mean)
        self._mean, self._step, self._rng = mean, step, rng
        self.count = 4 + int(3 * log(n))
        better = self.count // 2
        shares = log(better + 0.5) - np.log(np.arange(1, better + 1))
        self._shares = shares / shares.sum()
        self._effective = effective = float(1.0 / (self._shares**2).sum())
        self._path_rate = (4 + effective / n) / (n + 4 + 2 * effective / n)
        self._step_rate = (effective + 2) / (n + effective + 5)
        self._rank_one = 2 / ((n + 1.3) ** 2 + effective)
        self._rank_many = min(1 - self._rank_one, 2 * (effective - 2 + 1 / effective) / ((n + 2) ** 2 + effective))
        self._damping = 1 + 2 * max(0.0, sqrt((effective - 1) / (n + 1)) - 1) + self._step_rate
        self._length = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._path, self._step_path = np.zeros(n), np.zeros(n)
        self._covariance, self._axes, self._deviations = np.eye(n), np.eye(n), np.ones(n)
        self._drawn = np.zeros((self.count, n))
        self._rounds = 0

    @property
    def widest(self) -> float:
        """The largest standard deviation, in units of the mean."""
        return self._step * float(self._deviations.max()) / max(float(np.linalg.norm(self._mean)), _SMALLEST)

    def draw(self) -> FloatArray:
        normal = self._rng.normal(size=self._drawn.shape)
        self._drawn = (normal * self._deviations) @ self._axes.T
        return np.asarray(self._mean + self._step * self._drawn)

    def learn(self, levels: FloatArray) -> None:
        """Adapt mean and covariance to the better half of the last draws; levels [count]: the losses of these draws."""
        n = len(self._mean)
        better = self._drawn[np.argsort(levels, kind="stable")[: len(self._shares)]]
        shift = self._shares @ better
        self._mean = self._mean + self._step * shift
        self._rounds += 1
        rate = self._step_rate
        even = self._axes @ ((shift @ self._axes) / self._deviations)
        self._step_path = (1 - rate) * self._step_path + sqrt(rate * (2 - rate) * self._effective) * even
        length = float(np.linalg.norm(self._step_path))
        moderate = length / sqrt(1 - (1 - rate) ** (2 * self._rounds)) < (1.4 + 2 / (n + 1)) * self._length
        rate = self._path_rate
        self._path = (1 - rate) * self._path + moderate * sqrt(rate * (2 - rate) * self._effective) * shift
        missing = 0.0 if moderate else self._rank_one * rate * (2 - rate)
        self._covariance = (
            (1 - self._rank_one - self._rank_many + missing) * self._covariance
            + self._rank_one * np.outer(self._path, self._path)
            + self._rank_many * (better.T * self._shares) @ better
        )
        self._step *= float(np.exp(self._step_rate / self._damping * (length / self._length - 1)))
        if self._rounds % max(1, n // 10) == 0:
            variances, self._axes = np.linalg.eigh(self._covariance)
            self._deviations = np.sqrt(np.maximum(variances, np.finfo(float).tiny))


def _space_of(problem: Problem | LatticeProblem) -> tuple[Space, FloatArray, Callable[[FloatArray], float]]:
    """Return the space of weights, uncorrelated axes [d, d] as columns, and the function from weights to their loss.

    Over lattices the axes are those of the features, scaled to the same spread.
    """
    if isinstance(problem, LatticeProblem):
        paths = LatticeLineSearch(problem)
        return paths, np.diag(1.0 / paths.spread), lambda weights: loss_at(problem, weights)
    form = problem.canonical
    axes = even_basis(form.features, form.offsets, _RIDGE)
    if not (form.additive or isinstance(problem.metric, RatioMetric)):
        return Space(form), axes, lambda weights: loss_at(problem, weights)
    lists = LineSearch(form)
    return lists, axes, lambda weights: lists.loss_of(lists.at(weights))


def _unit(weights: NDArray[np.floating]) -> FloatArray:
    return np.asarray(weights / (float(np.linalg.norm(weights)) or 1.0))
