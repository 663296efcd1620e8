"""The mean of weights under a Gibbs distribution, by Markov chains on the sphere.

Sources: Catoni, PAC-Bayesian Supervised Classification, 2007 (Gibbs posteriors); Zhang, Information-theoretic upper and
lower bounds for statistical estimation, IEEE Transactions on Information Theory 2006. The temperature was chosen by
measurement, see `docs/unseen.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.limits import out_of_time, time_left
from lpmert.lines import Clock, Losses, line_search, losses_of
from lpmert.methods.direct_search import Och
from lpmert.metrics.base import AdditiveMetric, losses_of_totals
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import AnyProblem, Catalogue, LatticeProblem, Verdict
from lpmert.model.problem import Problem
from lpmert.numeric.lists import centred, correlations, mean_difference
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.incumbent import first_on_lattices, halved
from lpmert.search.method import Comparator, Found
from lpmert.workers import Pending, PerThread, Workers, workers_for

TEMPERATURE = 3.0  # in units of the mean difference in loss between two hypotheses of a list
RIDGE = 0.1  # added to the eigenvalues of the features' correlations before whitening
CHAINS = 3  # number of Markov chains, whose means are averaged: of two that disagree, neither could be trusted
AGREEMENT = 0.95  # chains end once the mean of each has at least this cosine with the mean of all
MOST_ROUNDS = 16  # maximum number of rounds of steps; another round follows while the chains disagree
STATES = 40  # states that are kept of each chain
_PIECE = 1_000_000  # hypotheses times steps between two looks at the clock
_PIECES = 4  # such pieces in a unit of work
_STEP_SECONDS = 1e-8  # approximate time of a step per hypothesis

OnSteps = Callable[[int, int], object]
"""Called with the number of steps done, and the least number there will be; a true return value stops the chains."""


@dataclass(frozen=True, eq=False)
class Average:
    """Averaged weights [d] in canonical coordinates, and how they were found.

    unit: mean difference in loss between two hypotheses of a list; for a metric that is not additive, S times the
    difference in the loss of all lists. temperature: as a loss of the same kind. agreement: least cosine between the
    mean of a chain and the mean of all, `None` for a single chain. complete: whether no limit stopped the chains.
    states: a sample of weights [d] along the chains.
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
    """The state of a chain: weights [d] of length 1, and the sum [d] and number [1] of the means of its circles."""

    weights: FloatArray
    total: FloatArray
    circles: FloatArray
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class _Sphere:
    """The sphere on which chains walk, and what else they share.

    features [m, d]: of the canonical form, in whitened coordinates. temperature: in units of the core's levels. piece:
    steps for which random numbers are drawn at once.
    """

    features: FloatArray
    offsets: IntArray
    loss: Losses
    where: core.SphereRegion
    temperature: float
    piece: int
    _searches: PerThread[core.LineSearch] = field(default_factory=PerThread, repr=False)

    @property
    def search(self) -> core.LineSearch:
        return self._searches.get(lambda: line_search(self.features, self.offsets, self.loss))


def average_weights(
    problem: Problem,
    start: CanonicalWeights,
    unit: float | None = None,
    *,
    temperature: float = TEMPERATURE,
    seed: int = 0,
    chains: int = CHAINS,
    effort: float = 1.0,
    on_steps: OnSteps = lambda *_: None,
) -> Average:
    """Return the mean of weights with density exp(-loss / temperature) on the sphere, inside the region.

    start: weights [d] of the region, not all 0, from which the chains start. unit: the mean difference in loss between
    two hypotheses of a list; by default that of these lists. temperature: in these units. effort: a factor on all
    numbers of steps. The workers of the call run the chains. Raises `MethodError` for a metric whose formula is not
    known.
    """
    form = problem.canonical
    unit = loss_unit(problem, start) if unit is None else unit
    temperature *= unit
    if form.n_features < 2 or form.n_lists == 0 or unit == 0.0:
        return Average(start, unit, temperature, None, 0, 0, complete=True)
    basis = _whitening(problem)
    # centred first, which loses fewer digits if features are large and nearly the same
    features = np.ascontiguousarray(centred(form.features, form.offsets) @ basis)
    cap = (np.empty(0), 0.0) if form.cap is None else (form.cap.unit, form.cap.cosine)
    where = (np.ascontiguousarray(form.limits @ basis), basis, *cap)
    # the core's levels are costs in fixed point, or the loss of all lists
    level_unit = form.unit if form.additive else float(problem.nbest.n_lists)
    piece = max(1, _PIECE // len(features))
    sphere = _Sphere(features, form.offsets, losses_of(form), where, temperature / level_unit, piece)
    first = np.asarray(np.linalg.solve(basis, start), dtype=np.float64)
    burn_in, steps = (max(1, round(effort * count)) for count in (40 + 8 * form.n_features, 100 + 15 * form.n_features))
    workers = workers_for(_STEP_SECONDS * chains * (burn_in + steps) * len(form.features))
    rngs = [np.random.default_rng([seed, number]) for number in range(chains)]
    walks = _Walks(workers, sphere, first, rngs, burn_in)
    rounds = 1
    complete = walks.walk(burn_in + steps, on_steps)
    while complete and _agreement(walks.means) < AGREEMENT and rounds < MOST_ROUNDS:
        rounds += 1
        complete = walks.walk(steps, on_steps)
    means = walks.means
    if not means:
        return Average(start, unit, temperature, None, 0, 0, complete=False)  # stopped during burn-in
    mean = np.mean(means, axis=0)
    answer = CanonicalWeights(halved(basis @ mean)) if mean.any() else start
    states = tuple(CanonicalWeights(basis @ state) for state in walks.states())
    agreement = _agreement(means) if len(means) > 1 else None
    return Average(answer, unit, temperature, agreement, chains, walks.steps, complete, states)


def loss_unit(problem: Problem, weights: CanonicalWeights) -> float:
    """Return the mean |loss difference| of two hypotheses of a list, while all other lists choose by weights [d].

    For a metric that is not additive it is S times the difference in the loss of all lists.
    """
    lists, metric = problem.scaled(problem.as_given()), problem.metric
    chosen = lists.statistics[core.decode(lists.features, lists.offsets, weights)]
    mean, first = 0.0, 0
    for _, offsets, statistics in problem.blocks():
        sizes = np.diff(offsets)
        if isinstance(metric, AdditiveMetric):
            values = np.asarray(metric.losses(statistics), dtype=np.float64)
        else:
            others = np.repeat(chosen.sum(axis=0) - chosen[first : first + len(sizes)], sizes, axis=0)
            values = len(chosen) * losses_of_totals(metric, others + statistics)
        first += len(sizes)
        mean += (mean_difference(values, offsets) - mean) * (len(sizes) / first)
    return mean


def _walked(sphere: _Sphere, before: _Chain, steps: int, counted: bool) -> tuple[_Chain, FloatArray]:
    """Walk a chain for so many steps, or fewer if time runs out; return its new state and the path [n, d]."""
    chain = deepcopy(before)
    path = np.empty((steps, len(chain.weights)))
    done = 0
    while done < steps and not (done and out_of_time()):
        part = path[done : done + sphere.piece]
        directions, draws = chain.rng.normal(size=part.shape), chain.rng.random(len(part))
        core.walk(sphere.search, sphere.where, sphere.temperature, *chain[:3], directions, draws, counted, part)
        done += len(part)
    return chain, path[:done]


class _Walks:
    """Chains with the same start [d] on the sphere, one for each of `rngs`, which workers walk in parallel.

    burn_in: steps of each chain that do not count.
    """

    def __init__(
        self, workers: Workers, sphere: _Sphere, first: FloatArray, rngs: Sequence[np.random.Generator], burn_in: int
    ) -> None:
        self._workers, self._shared, self._burn_in = workers, workers.share(sphere), burn_in
        self._unit = _PIECES * sphere.piece
        start = first / np.linalg.norm(first)
        self._chains = [_Chain(start, np.zeros(len(start)), np.zeros(1), rng) for rng in rngs]
        self._paths: list[list[FloatArray]] = [[] for _ in rngs]
        self._taken = [0 for _ in rngs]

    @property
    def steps(self) -> int:
        return sum(self._taken)

    @property
    def means(self) -> list[FloatArray]:
        """The directions [d] of the means of the chains that have one."""
        totals = [(chain.total, float(np.linalg.norm(chain.total))) for chain in self._chains]
        return [total / length for total, length in totals if length > 0.0]

    def states(self) -> Iterator[FloatArray]:
        """Yield up to `STATES` weights [d] of each chain, evenly spaced along its path."""
        for parts in self._paths:
            path = np.concatenate(parts) if parts else np.empty((0, 0))
            for number in np.unique(np.linspace(0, len(path) - 1, min(STATES, len(path))).round().astype(int)):
                yield path[number]

    def walk(self, count: int, on_steps: OnSteps) -> bool:
        """Take so many steps in each chain; return false if time runs out or `on_steps` stops the chains."""
        goal, stopped = self._taken[0] + count, False
        units = deque((number, self._submit(number, goal)) for number in range(len(self._chains)))
        while units and not stopped and units[0][1].in_time():
            number, unit = units.popleft()
            self._chains[number], path = unit.answer()
            if self._taken[number] >= self._burn_in:
                self._paths[number].append(path)
            self._taken[number] += len(path)
            if self._taken[number] < goal:
                units.append((number, self._submit(number, goal)))
            stopped = bool(on_steps(self.steps, goal * len(self._chains)))
        for _, unit in units:
            unit.give_up()
        return not (units or stopped)

    def _submit(self, number: int, goal: int) -> Pending[tuple[_Chain, FloatArray]]:
        taken = self._taken[number]
        counted = taken >= self._burn_in
        left = (goal if counted else self._burn_in) - taken
        return self._workers.submit(_walked, self._shared, self._chains[number], min(left, self._unit), counted)


def _agreement(means: list[FloatArray]) -> float:
    """Return the least cosine of a mean [d] with the mean of all; 1 for a single one."""
    if len(means) < 2:
        return 1.0
    mean = np.mean(means, axis=0)
    length = float(np.linalg.norm(mean))
    return min(float(one @ mean) / length for one in means) if length > 0.0 else 0.0


def _whitening(problem: Problem) -> FloatArray:
    """Return the matrix [d, d] that whitens the features within lists, up to `RIDGE`."""
    correlation, spread = correlations(lambda: (problem.scaled(block)[:2] for block in problem.blocks()))
    values, vectors = np.linalg.eigh(correlation)
    return np.ascontiguousarray((vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)) @ vectors.T / spread[:, None])


DRAWN = 50  # random weights near the start whose winning paths are in the first lists
NEAR = 0.5  # weights are near the start if at most this share of the lattices, or one of them, chooses another path
_HALVINGS = 60  # how often the distance of random weights from the start is halved, until they are near it and inside
MOST_CATALOGUES = 10  # maximum number of averages, each on lists extended by the one before
ENOUGH = 0.1  # mean error of losses along the chains, in temperatures, up to which the lists are good enough


def average_around(problem: AnyProblem, start: CanonicalWeights, *, seed: int, **settings: Any) -> Average:
    """Return the average of weights around `start` [d]; settings: of `average_weights`.

    Of lattices, it is that of lists of paths, which are extended by the paths that win along the chains until they
    suffice. The unit of temperature is that of the paths that win near the start. Paths from regions that chains visit
    by mistake would raise it, and let chains go even further. The result is not complete if the lists are still wrong
    after `MOST_CATALOGUES` rounds.
    """
    if isinstance(problem, Problem):
        return average_weights(problem, start, seed=seed, **settings)
    pool, rng = Catalogue(problem), np.random.default_rng([seed, len(start)])
    caller = problem.to_caller(start)
    for verdict in _near(problem, start, rng):
        pool.add_winners(verdict)
    lists = pool.as_lists()
    unit = loss_unit(lists, lists.to_canonical(caller))
    for _ in range(MOST_CATALOGUES):
        found = average_weights(lists, lists.to_canonical(caller), unit, seed=seed, **settings)
        settled = found.steps == 0 or not found.complete
        errors = [_error(problem, lists, pool, state) for state in found.states if not (settled or out_of_time())]
        if len(errors) == len(found.states) and not settled:
            settled = bool(np.mean(errors) <= ENOUGH * found.temperature)
        if settled or out_of_time():
            break
        lists = pool.as_lists()
    weights = problem.to_canonical(lists.to_caller(found.weights))
    return replace(found, weights=weights, complete=found.complete and settled, states=())


def _near(problem: LatticeProblem, start: CanonicalWeights, rng: np.random.Generator) -> Iterator[Verdict]:
    """Decode at the start and at random weights [d] near it.

    The right distance depends on the features: every direction begins a little further away than the last one ended.
    """
    size = float(np.linalg.norm(start))
    first = problem.decode(problem.to_caller(start))
    yield first
    most = max(1, int(NEAR * len(first.winners)))
    halvings = 0
    for direction in rng.normal(size=(DRAWN, len(start))):
        far = direction * (size / float(np.linalg.norm(direction)))
        for halvings in range(max(0, halvings - 1), _HALVINGS):  # noqa: B020 - where the last direction ended
            if out_of_time():
                return
            weights = problem.to_caller(CanonicalWeights(start + 2.0**-halvings * (far - start)))
            if problem.inside(weights):
                pairs = zip((verdict := problem.decode(weights)).winners, first.winners, strict=True)
                if sum(not np.array_equal(one.ways[0], other.ways[0]) for one, other in pairs) <= most:
                    yield verdict
                    break


def _error(problem: LatticeProblem, lists: Problem, pool: Catalogue, state: CanonicalWeights) -> float:
    """Return the error of the loss on lists at weights [d] of a chain, and add the paths that win there to the pool."""
    weights = lists.to_caller(state)
    verdict = problem.decode(weights)
    known = lists.evaluate(weights).loss
    pool.add_winners(verdict)
    return abs(problem.canonical.loss_of(verdict.loss) - known)


def found_by_lines(
    problem: AnyProblem, limits: Limits, seed: int, initial_weights: CallerWeights | None = None
) -> CallerWeights:
    if isinstance(problem, LatticeProblem):
        initial = None if initial_weights is None else problem.to_canonical(initial_weights)
        return problem.to_caller(first_on_lattices(problem, seed, initial).weights)
    return CallerWeights(solve(Och(), problem, limits, seed=seed, initial_weights=initial_weights).weights)


@dataclass(frozen=True)
class Averaging(Comparator):
    """The mean of weights with density proportional to exp(-loss / T), by chains that start where line searches end.

    T is three times the mean difference in loss between two hypotheses of a list. `docs/unseen.md` has the mathematics.
    """

    name: ClassVar[str] = "average"
    minimises: ClassVar[bool] = False
    takes_lattices: ClassVar[bool] = True
    takes_jobs: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the average; start [d]: further weights from which line searches start."""
        initial = None if start is None else problem.to_caller(CanonicalWeights(start))
        found = problem.to_canonical(found_by_lines(problem, Limits(time_limit=time_left()), seed, initial))
        clock.keep(found)
        done = 0

        def stop(steps: int, _: int) -> bool:
            nonlocal done
            new, done = steps - done, steps
            return clock.expired(new)

        average = average_around(problem, found, seed=seed, on_steps=stop)
        return Found(average.weights, {"chains": average.chains, "circles": average.steps})
