"""The average of weights under a Gibbs distribution, where good weights count more.

Sources: Catoni, PAC-Bayesian Supervised Classification, 2007 (Gibbs posteriors); Zhang, Information-theoretic upper and
lower bounds for statistical estimation, IEEE Transactions on Information Theory 2006. The temperature was chosen by
measurement, see `docs/unseen.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isinf
from typing import ClassVar, NamedTuple

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines.line_search import LossInCore, loss_of_form
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.och import Och
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.catalogue import Catalogue
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem, Verdict
from lpmert.model.problem import Problem
from lpmert.numeric.lists import centred, correlations, mean_difference
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.incumbent import first_on_lattices
from lpmert.search.method import Comparator, Found
from lpmert.system.deadline import out_of_time, time_left
from lpmert.workers import Pending, PerThread, Workers, workers_for

TEMPERATURE = 3.0
"""In units of the mean difference in loss between two hypotheses of a list."""

RIDGE = 0.1
"""Added to the eigenvalues of the features' correlations before they are made alike."""

CHAINS = 3
"""Random walks, whose means are averaged: with two that disagree, neither can be trusted."""

AGREEMENT = 0.95
"""Least cosine of a chain's mean with the mean of all at which chains end."""

MOST_ROUNDS = 16
"""Chains that disagree are extended by the first number of steps this many times, at most."""

STATES = 40
"""States of each chain that are kept."""

_PIECE = 1_000_000
"""Hypotheses times steps between two looks at the clock."""

_PIECES = 4
"""Of a unit of work."""

_STEP_SECONDS = 1e-8
"""What a step takes for each hypothesis, about."""

OnSteps = Callable[[int, int], object]
"""Told how many steps are done, and how many there will be at least; a true answer stops them."""


@dataclass(frozen=True, eq=False)
class Average:
    """Averaged weights [d] in canonical coordinates, and how they came about.

    unit: mean difference in loss between two hypotheses of a list, S times that of all lists for a metric that is no
    sum; temperature: in the same units. agreement: least cosine of a chain's mean with the mean of all, `None` for a
    single chain. complete: whether all steps were taken. states: some weights [d] of the chains.
    """

    weights: CanonicalWeights
    unit: float
    temperature: float
    agreement: float | None
    chains: int
    steps: int
    complete: bool
    states: tuple[CanonicalWeights, ...] = ()


class _Chain(NamedTuple):
    """A chain: its weights [d], of length 1, the sum of the means [d] of its circles, how many these are [1], and where
    it draws from.
    """

    weights: FloatArray
    total: FloatArray
    circles: FloatArray
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Sphere:
    """The sphere on which chains walk. features [m, d] are those of the canonical form in the sphere's coordinates."""

    features: FloatArray
    offsets: IntArray
    loss: LossInCore
    where: core.SphereRegion
    _searches: PerThread[core.LineSearch] = field(default_factory=PerThread, repr=False)

    @property
    def search(self) -> core.LineSearch:
        """The line search of this thread."""
        return self._searches.get(
            lambda: core.line_search(np.ascontiguousarray(self.features.T), self.offsets, self.loss)
        )


class _Context(NamedTuple):
    """What all chains share.

    law: temperature and `highest` of a density in proportion to exp(-level / temperature) where the level is at most
    that, and 0 elsewhere; a circle all of which is higher counts where it is least. piece: steps between two looks at
    the clock, for which numbers are drawn together.
    """

    sphere: _Sphere
    law: tuple[float, float]
    piece: int


def average_weights(
    problem: Problem,
    start: CanonicalWeights,
    unit: float | None = None,
    *,
    temperature: float = TEMPERATURE,
    within: float = inf,
    seed: int = 0,
    chains: int = CHAINS,
    effort: float = 1.0,
    on_steps: OnSteps = lambda *_: None,
) -> Average:
    """Return the mean of the weights under exp(-loss / temperature) on the sphere within the region.

    start: weights [d] of the region, not all 0, from which the chains go. unit: the mean difference in loss between two
    hypotheses of a list, where it is not that of these lists. temperature: in such units. within: only weights count
    that cost at most so many units for each dimension of the sphere more than `start`. effort: a factor on all numbers
    of steps. The chains are walked in units of work, by the workers of the call. Raises `MethodError` for a metric
    whose formula is not known.
    """
    form = problem.canonical
    unit = loss_unit(problem, start) if unit is None else unit
    temperature *= unit
    if form.n_features < 2 or form.n_lists == 0 or unit == 0.0:
        return Average(start, unit, temperature, None, 0, 0, complete=True)
    basis = _whitening(problem)
    sphere = _sphere(problem, basis)
    # what a level of the core is worth: it has costs in fixed point, or the loss of all lists
    scale = form.unit if form.additive else float(problem.nbest.n_lists)
    first = np.asarray(np.linalg.solve(basis, start), dtype=np.float64)
    most = sphere.search.at(first / np.linalg.norm(first)) + within * unit * (form.n_features - 1) / scale
    burn_in, steps = (max(1, round(effort * count)) for count in (40 + 8 * form.n_features, 100 + 15 * form.n_features))
    workers = workers_for(_STEP_SECONDS * chains * (burn_in + steps) * len(form.features))
    rngs = [np.random.default_rng([seed, number]) for number in range(chains)]
    context = _Context(sphere, (temperature / scale, most), max(1, _PIECE // len(form.features)))
    walks = _Walks(workers, context, first, rngs, burn_in)
    rounds = 1
    complete = walks.walk(burn_in + steps, on_steps)
    while complete and _agreement(walks.means) < AGREEMENT and rounds < MOST_ROUNDS:
        rounds += 1
        complete = walks.walk(steps, on_steps)
    means = walks.means
    if not means:
        return Average(start, unit, temperature, None, 0, 0, complete=False)  # stopped before anything counted
    mean = np.mean(means, axis=0)
    answer = CanonicalWeights(_scaled(basis @ mean)) if mean.any() else start
    states = tuple(CanonicalWeights(basis @ state) for state in walks.states())
    agreement = _agreement(means) if len(means) > 1 else None
    return Average(answer, unit, temperature, agreement, chains, walks.steps, complete, states)


def loss_unit(problem: Problem, weights: CanonicalWeights) -> float:
    """Return the mean |loss difference| of two hypotheses of a list; weights [d] choose those of the other lists."""
    lists = problem.scaled(problem.as_given())
    own = lists.statistics[core.decode(lists.features, lists.offsets, weights)]
    mean, first = 0.0, 0
    for _, offsets, statistics in problem.blocks():
        count = len(offsets) - 1
        values = switched(problem.metric, statistics, offsets, own, first)
        first += count
        mean += (mean_difference(values, offsets) - mean) * (count / first)
    return mean


def switched(metric: Metric, statistics: FloatArray, offsets: IntArray, own: FloatArray, first: int = 0) -> FloatArray:
    """Return what each hypothesis [m] costs where its list alone switches to it from what all lists have chosen.

    In units in which all lists together cost a sum: losses of a sum over lists are its own, and of another metric S
    times the loss of all lists. statistics [m, K], offsets [s + 1]: of some lists; own [S, K]: what all have chosen,
    these from the list `first` on.
    """
    if isinstance(metric, AdditiveMetric):
        return np.asarray(metric.losses(statistics), dtype=np.float64)
    sizes = np.diff(offsets)
    others = np.repeat(own.sum(axis=0) - own[first : first + len(sizes)], sizes, axis=0)
    return len(own) * losses_of_totals(metric, others + statistics)


def _walked(context: _Context, before: _Chain, steps: int, counted: bool) -> tuple[_Chain, FloatArray]:
    """Go so many steps on with a chain, or fewer if the time ends; return where that leads, and the path [n, d]."""
    sphere, chain = context.sphere, deepcopy(before)
    path = np.empty((steps, len(chain.weights)))
    done = 0
    while done < steps and not (done and out_of_time()):
        part = path[done : done + context.piece]
        directions, draws = chain.rng.normal(size=part.shape), chain.rng.random(len(part))
        core.walk(sphere.search, sphere.where, context.law, chain[:3], directions, draws, counted, part)
        done += len(part)
    return chain, path[:done]


class _Walks:
    """Chains from the same weights [d] of the sphere, one for each of `rngs`, walked side by side in units of work.

    burn_in: steps of each that do not count.
    """

    def __init__(
        self, workers: Workers, context: _Context, first: FloatArray, rngs: Sequence[np.random.Generator], burn_in: int
    ) -> None:
        self._workers, self._shared, self._burn_in = workers, workers.share(context), burn_in
        self._unit = _PIECES * context.piece
        begin = first / np.linalg.norm(first)
        self._chains = [_Chain(begin, np.zeros(len(begin)), np.zeros(1), rng) for rng in rngs]
        self._paths: list[list[FloatArray]] = [[] for _ in rngs]
        self._taken = [0 for _ in rngs]

    @property
    def steps(self) -> int:
        return sum(self._taken)

    @property
    def means(self) -> list[FloatArray]:
        """The directions [d] of the means of those chains that have one."""
        totals = [(chain.total, float(np.linalg.norm(chain.total))) for chain in self._chains]
        return [total / length for total, length in totals if length > 0.0]

    def states(self) -> Iterator[FloatArray]:
        """Yield `STATES` weights [d] of each chain, evenly along the way."""
        for parts in self._paths:
            path = np.concatenate(parts) if parts else np.empty((0, 0))
            for number in np.unique(np.linspace(0, len(path) - 1, min(STATES, len(path))).round().astype(int)):
                yield path[number]

    def walk(self, count: int, on_steps: OnSteps) -> bool:
        """Take so many steps in each chain; return false where the time ends or `on_steps` stops them."""
        aim = [taken + count for taken in self._taken]
        out = [self._submit(number, end) for number, end in enumerate(aim)]
        stopped = False
        while self._taken != aim:
            for number in [number for number, end in enumerate(aim) if self._taken[number] < end]:
                if stopped or not out[number].in_time():
                    for pending in out:
                        pending.give_up()
                    return False
                self._chains[number], path = out[number].answer()
                if self._taken[number] >= self._burn_in:
                    self._paths[number].append(path)
                self._taken[number] += len(path)
                if self._taken[number] < aim[number]:
                    out[number] = self._submit(number, aim[number])
                stopped = bool(on_steps(self.steps, sum(aim)))
        return not stopped

    def _submit(self, number: int, aim: int) -> Pending[tuple[_Chain, FloatArray]]:
        taken = self._taken[number]
        counted = taken >= self._burn_in
        left = (aim if counted else self._burn_in) - taken
        return self._workers.submit(_walked, self._shared, self._chains[number], min(left, self._unit), counted)


def _agreement(means: list[FloatArray]) -> float:
    """Return the least cosine of a mean [d] with the mean of all, 1 for a single one."""
    if len(means) < 2:
        return 1.0
    mean = np.mean(means, axis=0)
    length = float(np.linalg.norm(mean))
    return min(float(one @ mean) / length for one in means) if length > 0.0 else 0.0


def _sphere(problem: Problem, basis: FloatArray) -> _Sphere:
    """Return the sphere; basis [d, d] leads from its coordinates to those of the canonical form."""
    form = problem.canonical
    # centred first: features that are large and nearly alike lose fewer digits so
    features = np.ascontiguousarray(centred(form.features, form.offsets) @ basis)
    unit, cosine = (np.empty(0), 0.0) if form.cap is None else (form.cap.unit, form.cap.cosine)
    where = np.ascontiguousarray(form.limits @ basis), basis, unit, cosine
    return _Sphere(features, form.offsets, loss_of_form(form), where)


def _whitening(problem: Problem) -> FloatArray:
    """Return [d, d] such that features times it vary alike within lists in all directions, but for `RIDGE`."""
    alike, spread = correlations(lambda: (problem.scaled(block)[:2] for block in problem.blocks()))
    values, vectors = np.linalg.eigh(alike)
    return np.ascontiguousarray((vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)) @ vectors.T / spread[:, None])


def _scaled(weights: FloatArray) -> FloatArray:
    """Return weights [d] with the largest entry about 1."""
    return np.asarray(np.ldexp(weights, -int(np.frexp(np.abs(weights).max())[1])))


DRAWN = 50
"""Random weights near the start whose winners are in the first lists."""

NEAR = 0.5
"""Share of the lattices that choose other paths than at the start, at most, where weights are near it; one may."""

_HALVINGS = 60
"""How often a random point is moved half the way to where the average starts, until it is near, and in the region."""

MOST_CATALOGUES = 10
"""Averages at most, each on the lists that those before have led to."""

ENOUGH = 0.1
"""By how much, in temperatures, lists may be wrong about the loss where a chain went, on average."""


def average_over_paths(
    problem: LatticeProblem,
    start: CanonicalWeights,
    seed: int,
    average: Callable[[Problem, CanonicalWeights, float], Average],
) -> Average:
    """Return what `average` makes of lists of paths, once these hold what wins where its chains went.

    The unit of temperature is that of the paths that win near the start: others that win where chains go by mistake
    would let them go further. It is not complete if lists are still wrong after `MOST_CATALOGUES`.
    """
    pool, rng = Catalogue(problem), np.random.default_rng([seed, len(start)])
    caller = problem.to_caller(start)
    for verdict in _near(problem, start, rng):
        pool.add_winners(verdict)
    lists = pool.as_lists()
    unit = loss_unit(lists, lists.to_canonical(caller))
    for _ in range(MOST_CATALOGUES):
        found = average(lists, lists.to_canonical(caller), unit)
        settled = found.steps == 0 or not found.complete
        wrong = [_wrong(problem, lists, pool, state) for state in found.states if not (settled or out_of_time())]
        if len(wrong) == len(found.states) and not settled:
            settled = bool(np.mean(wrong) <= ENOUGH * found.temperature)
        if settled or out_of_time():
            break
        lists = pool.as_lists()
    weights = problem.to_canonical(lists.to_caller(found.weights))
    return replace(found, weights=weights, complete=found.complete and settled, states=())


def _near(problem: LatticeProblem, start: CanonicalWeights, rng: np.random.Generator) -> Iterator[Verdict]:
    """Yield what wins at the start and at random weights [d] near it: far away, other hypotheses win.

    How near depends on the features: every direction begins a little further away than the one before has ended.
    """
    size = float(np.linalg.norm(start))
    first = problem.decode(problem.to_caller(start))
    yield first
    most = max(1, int(NEAR * len(first.winners)))
    halvings = 0
    for direction in rng.normal(size=(DRAWN, len(start))):
        far = direction * (size / float(np.linalg.norm(direction)))
        for halvings in range(max(0, halvings - 1), _HALVINGS):  # noqa: B020 - where the last one ended
            if out_of_time():
                return
            weights = problem.to_caller(CanonicalWeights(start + 2.0**-halvings * (far - start)))
            if problem.inside(weights) and _others(verdict := problem.decode(weights), first) <= most:
                yield verdict
                break


def _others(verdict: Verdict, first: Verdict) -> int:
    """Return how many lattices choose another path than in the first verdict."""
    pairs = zip(verdict.winners, first.winners, strict=True)
    return sum(not np.array_equal(one.ways[0], other.ways[0]) for one, other in pairs)


def _wrong(problem: LatticeProblem, lists: Problem, pool: Catalogue, state: CanonicalWeights) -> float:
    """Return how far lists are from the loss of decoding lattices at weights [d], and let its winners join them."""
    weights = lists.to_caller(state)
    verdict = problem.decode(weights)
    known = lists.evaluate(weights).loss
    pool.add_winners(verdict)
    return abs(problem.canonical.loss_of(verdict.loss) - known)


def found_by_lines(
    problem: AnyProblem, limits: Limits, seed: int, initial_weights: CallerWeights | None = None
) -> CallerWeights:
    """Return the best weights that line searches find, on lattices those on the paths that win."""
    if isinstance(problem, LatticeProblem):
        initial = None if initial_weights is None else problem.to_canonical(initial_weights)
        return problem.to_caller(first_on_lattices(problem, seed, initial).weights)
    return CallerWeights(solve(Och(), problem, limits, seed=seed, initial_weights=initial_weights).weights)


@dataclass(frozen=True)
class Averaging(Comparator):
    """The mean of weights in proportion to exp(-loss / T), from where line searches end.

    T is `temperature` times u, the mean difference in loss between two hypotheses of a list. With `within`, weights
    count only if they cost at most within * u * (D - 1) more than the best that line searches find; then the
    temperature can be infinite, so that all of these count alike. `docs/unseen.md` has the mathematics.
    """

    temperature: float = option(3.0, "in units of u; inf only with within", above=0)
    within: float | None = option(None, "units of u for each feature but one that weights may cost more", above=0)

    name: ClassVar[str] = "average"
    takes_lattices: ClassVar[bool] = True
    takes_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinf(self.temperature) and self.within is None:
            raise MethodError("an infinite temperature averages all weights, good and bad: set within, too")

    def average(
        self,
        problem: Problem | LatticeProblem,
        start: CanonicalWeights,
        *,
        seed: int,
        chains: int = CHAINS,
        on_steps: OnSteps = lambda *_: None,
    ) -> Average:
        """Return the average of weights around start [d]; see `average_weights`, `average_over_paths`."""
        on_lists = partial(
            average_weights,
            temperature=self.temperature,
            within=inf if self.within is None else self.within,
            seed=seed,
            chains=chains,
            on_steps=on_steps,
        )
        if isinstance(problem, LatticeProblem):
            return average_over_paths(problem, start, seed, on_lists)
        return on_lists(problem, start)

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the average; the line searches start from given weights, too."""
        given = None if start is None else problem.to_caller(CanonicalWeights(start))
        found = problem.to_canonical(found_by_lines(problem, Limits(time_limit=time_left()), seed, given))
        clock.keep(found)
        done = 0

        def stop(steps: int, _: int) -> bool:
            nonlocal done
            new, done = steps - done, steps
            return clock.expired(new)

        average = self.average(problem, found, seed=seed, on_steps=stop)
        return Found(average.weights, {"chains": average.chains, "circles": average.steps})
