"""Primal heuristics: the first incumbent of a search, and better incumbents while it runs.

The first incumbent comes from descents for additive losses, and from line searches or evolution for a ratio or within a
cap. While a search runs, evolution takes turns with descents near the incumbent; for metrics that are not additive and
within regions, it runs alone.

Evolution (CMA-ES) draws weights from a normal distribution, and adapts it to the better half of them. Source:
N. Hansen, The CMA Evolution Strategy: A Tutorial, 2016, with its default settings. Weights are drawn along axes along
which the hypotheses of a list are uncorrelated; groups of nearly equal features would otherwise dominate the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray
from lpmert.limits import OutOfTime, checkpoint, heeding, out_of_time
from lpmert.lines import (
    DEFAULT_BUDGET,
    Clock,
    Descents,
    LineSearch,
    Space,
    descend,
    even_basis,
    greedy,
    local_optima,
    loss_at,
    random_weights,
    start_weights,
    usual_starts,
)
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import CallerWeights, Canonical, CanonicalWeights
from lpmert.model.lattice_problem import AnyProblem, Catalogue, LatticeProblem
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.numeric.cone import cones_of_region
from lpmert.search.method import Incumbent, Task

_STEP = 0.2  # standard deviation of the first draws, for a start of length 1
_STEP_BESIDE = 0.1  # the same for a run that starts near the best weights so far
_DISTANCE = 0.3  # distance of such a start from the best weights, for weights of length 1
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

    def step(self, clock: Clock) -> int:
        """Draw a generation, and return its size; a run ends when draws are equal, or long without success."""
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
        return best + _DISTANCE * self._rng.normal(size=len(best)) / sqrt(len(best)), _STEP_BESIDE

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
    """A normal distribution, covariance step^2 (axes * deviations) (axes * deviations)', that adapts to its draws."""

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
    """Return the space of weights, axes [d, d] as columns, uncorrelated on lists, and the loss of weights."""
    if isinstance(problem, LatticeProblem):
        paths = Space.of(problem)
        return paths, np.diag(1.0 / paths.spread), lambda weights: loss_at(problem, weights)
    form = problem.canonical
    axes = even_basis(form.features, form.offsets, _RIDGE)
    if not (form.additive or isinstance(problem.metric, RatioMetric)):
        return Space(form), axes, lambda weights: loss_at(problem, weights)
    lists = LineSearch(form)
    return lists, axes, lambda weights: lists.loss_of(lists.at(weights))


def _unit(weights: NDArray[np.floating]) -> FloatArray:
    return np.asarray(weights / (float(np.linalg.norm(weights)) or 1.0))


_LEAST_SCALED = 1e-100  # no weights are scaled below this or above its inverse: sums could overflow or underflow


def normalised(weights: FloatArray) -> CallerWeights:
    """Return weights [D] scaled so that their absolute values sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return CallerWeights(np.full(len(weights), 1.0 / max(1, len(weights))))
    scaled = weights / largest
    return CallerWeights(scaled / np.abs(scaled).sum())


def halved(weights: FloatArray) -> CallerWeights:
    """Return weights [D] times the power of two that brings the sum of their absolute values into [1/2, 1)."""
    return CallerWeights(np.ldexp(weights, -int(np.frexp(np.abs(weights).sum())[1])))


def in_scale_of(region: Region | None, names: Sequence[str], weights: CallerWeights) -> CallerWeights:
    """Return weights [D] in the scale that a region sets by a fixed weight other than 0 or by a total."""
    fixed = {} if region is None else {names.index(name): value for name, value in region.fixed.items()}
    reference = next((place for place, value in fixed.items() if value), None)
    with np.errstate(over="ignore", under="ignore"):  # a region may ask for a scale that doubles cannot hold
        if reference is not None and weights[reference] * np.sign(fixed[reference]) > 0.0:
            scaled = weights / weights[reference] * fixed[reference]
        elif reference is None and region is not None and region.total and weights.sum() * np.sign(region.total) > 0.0:
            scaled = weights / weights.sum() * region.total
        else:
            return weights
    sizes = np.abs(scaled[scaled != 0.0])
    usual = sizes.min() >= _LEAST_SCALED and sizes.max() <= 1.0 / _LEAST_SCALED
    if not (usual and len(sizes) == np.count_nonzero(weights)):
        return weights
    scaled[list(fixed)] = list(fixed.values())
    return CallerWeights(scaled)


def moved(
    weights: FloatArray, sizes: Iterable[float], draw: Callable[[], FloatArray], *, alike: bool = False
) -> Iterator[FloatArray]:
    """Yield weights [D] moved by random steps of these sizes, relative to the largest weight.

    draw: returns a step [D]. alike: every step is first scaled so that its largest entry is 1.
    """
    largest = np.abs(weights).max(initial=0.0) or 1.0
    for size in sizes:
        step = draw()
        scaled = largest * size * step
        yield weights + (scaled / (np.abs(step).max(initial=0.0) or 1.0) if alike else scaled)


_USUAL_FEATURES = 6  # with fewer, searches are shorter and find fewer good weights: descents get a smaller budget
_CAP_BUDGET, _RATIO_BUDGET = (3_000_000, 20, 400), (30_000_000, 200, 3000)
"""Budgets of line searches within a cap and on a ratio: hypotheses times searches, fewest and most searches."""

_EVALUATIONS = 4  # decodings that take the time of one line search
_PERTURBATIONS = 24


def first_incumbent(problem: AnyProblem, seed: int, initial: CanonicalWeights | None) -> Incumbent:
    """Return the best of searches from several starts, or the initial weights [d]; if possible, free of ties."""
    if isinstance(problem, LatticeProblem):
        return first_on_lattices(problem, seed, initial)
    canonical = problem.canonical
    n = canonical.n_features
    if canonical.additive and n == 0:
        return Incumbent(0, CanonicalWeights(np.zeros(0)), "")
    inside = canonical.interior
    rng = np.random.default_rng(seed)
    descends = canonical.additive and canonical.cap is None
    weights = _descended(canonical, seed, initial) if descends else _searched(problem, seed, initial)
    candidates = [start for start in (weights, initial, inside) if start is not None]
    sizes = [10.0 ** (-8 + k / 3) for k in range(_PERTURBATIONS)]
    nearby = [moved(start, sizes, lambda: rng.normal(size=n)) for start in (weights, inside) if start is not None]
    for k in range(_PERTURBATIONS):
        if k:
            if out_of_time():
                break
            candidates = [CanonicalWeights(next(steps)) for steps in nearby]
        found = [(cost, row) for row in candidates if (cost := canonical.attained_cost(row)) is not None]
        if found:
            cost, best = min(found, key=lambda pair: pair[0])
            return Incumbent(cost, best, "I" if best is initial else "L")
    return any_incumbent(problem, None if canonical.additive else weights)


_FIRST_CONES = 16  # cones whose middles are tried as first weights on lattices
_MOST_ROUNDS = 30  # most rounds of line searches: each follows from new winning paths at the weights before
_STALLS = 3  # rounds in a row without a new winning path after which the search ends; each round has other starts


def first_on_lattices(problem: LatticeProblem, seed: int, initial: CanonicalWeights | None) -> Incumbent:
    """Return good weights of the region whose loss depends on no tie, or the initial weights [d] if these are better.

    As in tuning with a decoder, line searches run on lists of the paths that have won so far, and the winners at the
    weights found join the lists. The first lists hold the winners in the middle of cones that cover the region.
    """
    form = problem.canonical
    rng = np.random.default_rng(seed)
    sizes = [0.0, *(10.0 ** (-8 + k / 3) for k in range(_PERTURBATIONS))]
    pool = Catalogue(problem)
    best = any_incumbent(problem)

    def try_weights(weights: FloatArray, source: str) -> bool:
        """Improve the incumbent by weights [d], or by weights close by; return whether new paths win there."""
        new = False
        for candidate in moved(weights, sizes, lambda: rng.normal(size=form.n_features)):
            of_caller = problem.to_caller(CanonicalWeights(candidate))
            verdict = problem.decode(of_caller)
            new = pool.add_winners(verdict) or new
            if verdict.strict and problem.inside(of_caller, strictly=True):
                best.improve(verdict.loss, candidate, source)
                break
            if out_of_time():
                break
        return new

    try_weights(start_weights(form, None), "L")
    if initial is not None:
        try_weights(initial, "I")
    middles: list[FloatArray] = []
    with heeding(), suppress(OutOfTime):
        middles += (rays.sum(axis=0) for rays in islice(cones_of_region(form.limits, form.cap), _FIRST_CONES))
    for middle in middles:
        if out_of_time():
            return best
        try_weights(middle, "L")
    stalled = 0
    for number in range(_MOST_ROUNDS):
        lists = pool.as_lists()
        if stalled == _STALLS or out_of_time() or not lists.canonical.n_lists:
            break
        found = first_incumbent(lists, seed + number, None)
        weights = problem.to_canonical(lists.to_caller(found.weights))
        stalled = 0 if try_weights(weights, "L") else stalled + 1
    return best


def any_incumbent(problem: AnyProblem, weights: CanonicalWeights | None = None) -> Incumbent:
    """Return these weights [d], or any of the region, with a cost that weights close by do not exceed."""
    form = problem.canonical
    weights = start_weights(form, weights)
    if isinstance(problem, LatticeProblem):
        return Incumbent(problem.most_loss, weights, "L")
    # No loss but that of a fraction of sums exceeds 1.
    return Incumbent(form.clear_cost(weights)[0] if form.additive else form.cost_of_loss(1.0), weights, "L")


def _descended(canonical: Canonical, seed: int, initial: CanonicalWeights | None) -> CanonicalWeights:
    share = min(1.0, canonical.n_features / _USUAL_FEATURES)
    budget = max(1, int(DEFAULT_BUDGET * share**3))
    with heeding(), suppress(OutOfTime):  # preparing line searches for many features can take longer than allowed
        checkpoint()
        return CanonicalWeights(descend(*canonical.lists, seed=seed, initial=initial, budget=budget)[1])
    return CanonicalWeights(np.ones(canonical.n_features))


def _searched(problem: Problem, seed: int, initial: CanonicalWeights | None) -> CanonicalWeights:
    canonical = problem.canonical
    known = canonical.additive or isinstance(problem.metric, RatioMetric)
    if not known or not canonical.n_lists or out_of_time():
        return start_weights(canonical, None)
    budget, fewest, most = _CAP_BUDGET if canonical.additive else _RATIO_BUDGET
    searches = int(np.clip(budget // len(canonical.features), fewest, most))
    if canonical.n_features >= _USUAL_FEATURES and not canonical.additive:
        clock = Clock(problem, _EVALUATIONS * searches)
        evolution = Evolution(problem, initial, np.random.default_rng(seed))
        while not clock.expired(evolution.step(clock)):
            pass
        return CanonicalWeights(evolution.best)
    clock = Clock(problem, searches)
    search = LineSearch(canonical)
    starts = usual_starts(problem, search, initial)
    optima = local_optima(search, greedy, starts, np.random.default_rng(seed), clock)
    return CanonicalWeights(min(optima, key=lambda item: item[0])[1])


_EFFORT = 2_000_000  # hypotheses times line searches that take about as long as a unit of effort, 25 milliseconds
_FEWEST_FEATURES = 6  # with fewer features, a search finds good weights as soon without help
_ROUNDS = 20  # generations of evolution in a turn
_DRAW, _DECODED = 500, 60  # work of a generation besides decoding; feature values that are decoded in a unit of work
_EAGER_RUNS, _EAGER = 2, 4.0  # runs that come first, and the factor on their budget: they find most improvements
_FIRST_EFFORT = 2.0  # effort of a search before heuristics start: shorter searches do not need them
_LEAST_SHARE = 0.25  # least growth rate of the budget, else the share of the effort before the last improvement
_BESIDE = (1e-8, 1e-6, 1e-4)  # distances from weights with ties at which weights without ties are tried


class Improver:
    """Evolution and descents beside a search, whose work is a given share of the effort of the search.

    The budget grows with the effort of the search and is spent at once; work that improves the incumbent is free. The
    heuristics are prepared on first use, so short searches never pay for them. Random numbers come from the seed, and
    work is counted rather than timed: the outcome does not depend on the machine.
    """

    def __init__(self, task: Task, share: float) -> None:
        self._problem, self._form, self._incumbent = task.problem, task.canonical, task.incumbent
        self._rng = np.random.default_rng([task.seed, 1])
        self._allowance = share * _EFFORT
        self._effort = self._budget = self._evolved = self._descended = 0.0
        self._improved, self._runs, form = _FIRST_EFFORT, 0, self._form
        self._descends = form.additive and form.cap is None and not len(form.limits)

    def run(self, effort: float) -> None:
        """Improve the incumbent within the budget that this much more effort of the search adds."""
        if self._form.n_features < _FEWEST_FEATURES:
            return
        self._effort += effort
        eager = self._runs < _EAGER_RUNS
        fading = _EAGER if eager else max(_LEAST_SHARE, self._improved / self._effort)
        self._budget += effort * self._allowance * fading
        if self._effort < _FIRST_EFFORT:
            return
        while self._budget > 0.0 and not out_of_time():
            before = self._incumbent.cost
            if not self._descends or self._evolved <= self._descended:  # the turn of what has worked less so far
                work = self._evolve()
                self._evolved += work
            else:
                work = self._descend()
                self._descended += work
            if self._incumbent.cost == before:
                self._budget -= work
            else:
                self._improved = self._effort

    @cached_property
    def _evolution(self) -> Evolution:
        return Evolution(self._problem, self._incumbent.weights, np.random.default_rng(self._rng.integers(1 << 32)))

    @cached_property
    def _descents(self) -> Descents:
        return Descents(*self._form.lists, seed=int(self._rng.integers(1 << 32)), initial=self._incumbent.weights)

    def _evolve(self) -> float:
        evolution, clock = self._evolution, Clock(self._problem)
        for _ in range(_ROUNDS):
            if clock.expired(evolution.step(clock)):
                break
        self._runs = evolution.runs
        form, weights = self._form, clock.best
        if weights is not None and form.cost_of_loss(clock.loss) < self._incumbent.cost:
            self._take(weights)
        return clock.steps * (form.features.size / _DECODED + _DRAW)

    def _descend(self) -> float:
        self._descents.offer(self._incumbent.weights)
        work = self._descents.turn()
        cost, weights = self._descents.best
        if cost < self._incumbent.cost:
            self._take(weights)
        return work

    def _take(self, weights: FloatArray) -> None:
        """Make weights [d], or weights close by if there are ties, the incumbent if they cost less."""
        nearby = moved(weights, _BESIDE, lambda: self._rng.normal(size=len(weights)))
        for candidate in (weights, *nearby):
            cost = self._form.attained_cost(CanonicalWeights(np.asarray(candidate)))
            if cost is not None:
                self._incumbent.improve(cost, candidate, "L")
                return
