"""The average of weights under a Gibbs distribution: good weights count more, and none of them alone.

Sources: Catoni, PAC-Bayesian Supervised Classification, 2007 (Gibbs posteriors); Zhang, Information-theoretic upper and
lower bounds for statistical estimation, IEEE Transactions on Information Theory 2006. The temperature was chosen by
measurement, see `docs/unseen.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import Loss, loss_of_form
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Distinct, Problem
from lpmert.numeric.lists import centred, correlations, mean_difference
from lpmert.system.deadline import out_of_time
from lpmert.unseen.energy import switched
from lpmert.workers import Pending, PerThread, Workers, workers_for

TEMPERATURE = 3.0
"""In units of the mean difference in loss between two hypotheses of a list."""

RIDGE = 0.1
"""Added to the eigenvalues of the features' correlations before they are made alike."""

CHAINS = 3
AGREEMENT = 0.95
"""Least cosine of a chain's mean with the mean of all at which chains end."""

MOST_ROUNDS = 16
"""As often do chains that do not agree go on for as many steps as at first."""

KEPT = 40
"""States of each chain that are kept."""

_PIECE = 1_000_000
"""Hypotheses times steps between two looks at the clock."""

_PIECES = 4
"""Of a unit of work."""

_STEP_SECONDS = 1e-8
"""What a step takes for each hypothesis, about."""

Tell = Callable[[int, int], object]
"""Told how many steps are done, and how many there will be at least; a true answer stops them."""


@dataclass(frozen=True, eq=False)
class Average:
    """Averaged weights [d] in canonical coordinates, and how they came about.

    unit: mean difference in loss between two hypotheses of a list, S times that of all lists for a metric that is no
    sum; temperature: in the same units. agreement: least cosine of a chain's mean with the mean of all, `None` for a
    single chain. variance: the sum over lists of the variance of what they cost, over the kept states [d]. complete:
    whether all steps were taken.
    """

    weights: CanonicalWeights
    unit: float
    temperature: float
    agreement: float | None
    variance: float
    chains: int
    steps: int
    complete: bool
    states: tuple[CanonicalWeights, ...] = ()


class _Where(NamedTuple):
    """Where a chain may go: limits [k, d] in its own coordinates, and a cap in those of basis [d, d].

    unit [d] is the middle of the cap, empty where there is none.
    """

    limits: FloatArray
    basis: FloatArray
    unit: FloatArray
    cosine: float


class _Law(NamedTuple):
    """A density in proportion to exp(-level / temperature) where the level is at most `highest`, and 0 elsewhere.

    A circle all of which is higher counts where it is least.
    """

    temperature: float
    highest: float


class _State(NamedTuple):
    """A chain: its weights [d], of length 1, the sum of the means [d] of its circles, and how many these are [1]."""

    weights: FloatArray
    total: FloatArray
    circles: FloatArray


def _new_state(weights: FloatArray) -> _State:
    """Return a chain at weights [d]."""
    return _State(weights / np.linalg.norm(weights), np.zeros(len(weights)), np.zeros(1))


@dataclass(frozen=True, eq=False)
class _Sphere:
    """The sphere on which chains walk. features [m, d] are those of the canonical form in the sphere's coordinates."""

    features: FloatArray
    offsets: IntArray
    loss: Loss
    where: _Where
    _searches: PerThread[core.LineSearch] = field(default_factory=PerThread, repr=False)

    @property
    def search(self) -> core.LineSearch:
        """The line search of this thread."""
        return self._searches.get(
            lambda: core.LineSearch(np.ascontiguousarray(self.features.T), self.offsets, *self.loss)
        )


class _Ground(NamedTuple):
    """What all chains share. piece: steps between two looks at the clock, for which numbers are drawn together."""

    sphere: _Sphere
    law: _Law
    piece: int


class _Place(NamedTuple):
    """Where a chain has come to, and where it draws from."""

    state: _State
    rng: np.random.Generator


def average_weights(
    problem: Problem,
    start: CanonicalWeights,
    *,
    temperature: float = TEMPERATURE,
    within: float = inf,
    seed: int = 0,
    chains: int = CHAINS,
    effort: float = 1.0,
    tell: Tell = lambda *_: None,
) -> Average:
    """Return the mean of the weights under exp(-loss / temperature) on the sphere within the region.

    start: weights [d] of the region, not all 0, from which the chains go. temperature: in units of the mean difference
    in loss between two hypotheses of a list. within: only weights count that cost at most so many units for each
    dimension of the sphere more than `start`. effort: a factor on all numbers of steps. The chains are walked in units
    of work, by the workers of the call. Raises `MethodError` for a metric whose formula is not known.
    """
    form = problem.canonical
    lists = problem.scaled(problem.as_given())
    unit = loss_unit(problem, start)
    temperature *= unit
    if form.n_features < 2 or form.n_lists == 0 or unit == 0.0:
        return Average(start, unit, temperature, None, 0.0, 0, 0, complete=True)
    basis = _whitening(problem)
    sphere = _sphere(problem, basis)
    # what a level of the core is worth: it has costs in fixed point, or the loss of all lists
    scale = form.unit if form.additive else float(problem.nbest.n_lists)
    first = np.asarray(np.linalg.solve(basis, start), dtype=np.float64)
    most = sphere.search.at(_new_state(first).weights) + within * unit * (form.n_features - 1) / scale
    burn_in, steps = (max(1, round(effort * count)) for count in (40 + 8 * form.n_features, 100 + 15 * form.n_features))
    workers = workers_for(_STEP_SECONDS * chains * (burn_in + steps) * len(form.features))
    rngs = [np.random.default_rng([seed, number]) for number in range(chains)]
    ground = _Ground(sphere, _Law(temperature / scale, most), max(1, _PIECE // len(form.features)))
    walks = _Walks(workers, ground, first, rngs, burn_in)
    rounds = 1
    complete = walks.go_on(burn_in + steps, tell)
    while complete and not _agree(walks.means) and rounds < MOST_ROUNDS:
        rounds += 1
        complete = walks.go_on(steps, tell)
    means = walks.means
    if not means:
        return Average(start, unit, temperature, None, 0.0, 0, 0, complete=False)  # stopped before anything counted
    mean = np.mean(means, axis=0)
    answer = CanonicalWeights(_scaled(basis @ mean)) if mean.any() else start
    states = tuple(CanonicalWeights(basis @ state) for state in walks.kept())
    variance = _variance(problem, lists, answer, states)
    return Average(answer, unit, temperature, _agreement(means), variance, chains, walks.steps, complete, states)


def loss_unit(problem: Problem, weights: CanonicalWeights) -> float:
    """Return the mean |loss difference| of two hypotheses of a list; weights [d] choose those of the other lists."""
    lists = problem.scaled(problem.as_given())
    own = lists.statistics[_decoded(lists, weights)]
    mean, first = 0.0, 0
    for _, offsets, statistics in problem.blocks():
        count = len(offsets) - 1
        values = switched(problem.metric, statistics, offsets, own, first)
        first += count
        mean += (mean_difference(values, offsets) - mean) * (count / first)
    return mean


def _walked(ground: _Ground, place: _Place, steps: int, counted: bool) -> tuple[_Place, FloatArray]:
    """Go so many steps on from a place, or fewer if the time ends; return where that leads, and the path [n, d]."""
    sphere, (state, rng) = ground.sphere, deepcopy(place)
    path = np.empty((steps, len(state.weights)))
    done = 0
    while done < steps and not (done and out_of_time()):
        part = path[done : done + ground.piece]
        directions, draws = rng.normal(size=part.shape), rng.random(len(part))
        core.walk(sphere.search, *sphere.where, *ground.law, *state, directions, draws, counted, part)
        done += len(part)
    return _Place(state, rng), path[:done]


class _Walks:
    """Chains from the same weights [d] of the sphere, one for each of `rngs`, walked side by side in units of work.

    burn_in: steps of each that do not count.
    """

    def __init__(
        self, workers: Workers, ground: _Ground, first: FloatArray, rngs: Sequence[np.random.Generator], burn_in: int
    ) -> None:
        self._workers, self._shared, self._burn_in = workers, workers.share(ground), burn_in
        self._unit = _PIECES * ground.piece
        self._places = [_Place(_new_state(first), rng) for rng in rngs]
        self._paths: list[list[FloatArray]] = [[] for _ in rngs]
        self._taken = [0 for _ in rngs]

    @property
    def steps(self) -> int:
        """How many steps all chains have taken."""
        return sum(self._taken)

    @property
    def means(self) -> list[FloatArray]:
        """The directions [d] of the means of those chains that have one."""
        lengths = [float(np.linalg.norm(place.state.total)) for place in self._places]
        return [place.state.total / length for place, length in zip(self._places, lengths, strict=True) if length > 0.0]

    def kept(self) -> Iterator[FloatArray]:
        """Yield `KEPT` weights [d] of each chain, evenly along the way."""
        for parts in self._paths:
            path = np.concatenate(parts) if parts else np.empty((0, 0))
            for number in np.unique(np.linspace(0, len(path) - 1, min(KEPT, len(path))).round().astype(int)):
                yield path[number]

    def go_on(self, count: int, tell: Tell) -> bool:
        """Take so many steps in each chain; return false where the time ends or `tell` stops them."""
        aim = [taken + count for taken in self._taken]
        out = [self._submit(number, end) for number, end in enumerate(aim)]
        stopped = False
        while self._taken != aim:
            for number in [number for number, end in enumerate(aim) if self._taken[number] < end]:
                if stopped or not out[number].in_time():
                    for pending in out:
                        pending.give_up()
                    return False
                self._places[number], path = out[number].answer()
                if self._taken[number] >= self._burn_in:
                    self._paths[number].append(path)
                self._taken[number] += len(path)
                if self._taken[number] < aim[number]:
                    out[number] = self._submit(number, aim[number])
                stopped = bool(tell(self.steps, sum(aim)))
        return not stopped

    def _submit(self, number: int, aim: int) -> Pending[tuple[_Place, FloatArray]]:
        taken = self._taken[number]
        counted = taken >= self._burn_in
        left = (aim if counted else self._burn_in) - taken
        return self._workers.submit(_walked, self._shared, self._places[number], min(left, self._unit), counted)


def _agreement(means: list[FloatArray]) -> float | None:
    """Return the least cosine of a mean [d] with the mean of all, `None` for a single one."""
    if len(means) < 2:
        return None
    mean = np.mean(means, axis=0)
    length = float(np.linalg.norm(mean))
    return min(float(one @ mean) / length for one in means) if length > 0.0 else 0.0


def _agree(means: list[FloatArray]) -> bool:
    agreement = _agreement(means)
    return agreement is None or agreement >= AGREEMENT


def _sphere(problem: Problem, basis: FloatArray) -> _Sphere:
    """Return the sphere; basis [d, d] leads from its coordinates to those of the canonical form."""
    form = problem.canonical
    # centred first: features that are large and nearly alike lose fewer digits so
    features = np.ascontiguousarray(centred(form.features, form.offsets) @ basis)
    unit, cosine = (np.empty(0), 0.0) if form.cap is None else (form.cap.unit, form.cap.cosine)
    where = _Where(np.ascontiguousarray(form.limits @ basis), basis, unit, cosine)
    return _Sphere(features, form.offsets, loss_of_form(form), where)


def _whitening(problem: Problem) -> FloatArray:
    """Return [d, d] such that features times it vary alike within lists in all directions, but for `RIDGE`."""
    alike, spread = correlations(lambda: (problem.scaled(block)[:2] for block in problem.blocks()))
    values, vectors = np.linalg.eigh(alike)
    return np.ascontiguousarray((vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)) @ vectors.T / spread[:, None])


def _decoded(lists: Distinct, weights: FloatArray) -> IntArray:
    """Return the row chosen in each list [S]."""
    return core.decode(lists.features, lists.offsets, weights)


def _variance(problem: Problem, lists: Distinct, weights: FloatArray, states: Sequence[FloatArray]) -> float:
    """Return the sum over lists of the variance, over states [d], of what each costs beside the others' choices."""
    own = lists.statistics[_decoded(lists, weights)]
    values = switched(problem.metric, lists.statistics, lists.offsets, own)
    costs = np.array([values[_decoded(lists, state)] for state in states])
    return float(costs.var(axis=0).sum()) if len(costs) else 0.0


def _scaled(weights: FloatArray) -> FloatArray:
    """Return weights [d] with the largest entry about 1."""
    return np.asarray(np.ldexp(weights, -int(np.frexp(np.abs(weights).max())[1])))
