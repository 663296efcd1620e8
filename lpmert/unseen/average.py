"""The average of weights under a Gibbs distribution: good weights count more, and none of them alone.

Sources: Catoni, PAC-Bayesian Supervised Classification, 2007 (Gibbs posteriors); Zhang, Information-theoretic upper and
lower bounds for statistical estimation, IEEE Transactions on Information Theory 2006. The temperature was chosen by
measurement, see `docs/unseen.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import repeat
from math import inf

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.circle import new_circle
from lpmert.lines.envelope import combine, new_workspace
from lpmert.lines.line_search import loss_of_form
from lpmert.lines.line_search_kernels import Loss, level_at, new_buffers
from lpmert.model.canonical import centred, mean_difference, standardised
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.problem import Distinct, Problem
from lpmert.numeric.kernels import decode
from lpmert.system.deadline import out_of_time
from lpmert.unseen.energy import switched
from lpmert.unseen.walk import Law, State, Where, new_state, walk

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


@dataclass(frozen=True, eq=False)
class _Sphere:
    """The sphere on which chains walk. basis [d, d]: from its coordinates to those of the canonical form.

    features [m, d] are those of the canonical form in the sphere's coordinates; distinct: all hypotheses.
    """

    basis: FloatArray
    features: FloatArray
    offsets: IntArray
    loss: Loss
    where: Where
    distinct: Distinct


def average_weights(
    problem: Problem,
    start: CanonicalWeights,
    *,
    temperature: float = TEMPERATURE,
    within: float = inf,
    seed: int = 0,
    chains: int = CHAINS,
    jobs: int = 1,
    effort: float = 1.0,
    tell: Tell = lambda *_: None,
) -> Average:
    """Return the mean of the weights under exp(-loss / temperature) on the sphere within the region.

    start: weights [d] of the region, not all 0, from which the chains go. temperature: in units of the mean difference
    in loss between two hypotheses of a list. within: only weights count that cost at most so many units for each
    dimension of the sphere more than `start`. effort: a factor on all numbers of steps. jobs: threads, one a chain at
    most; they change nothing but the time. Raises `MethodError` for a metric that kernels cannot compute.
    """
    form = problem.canonical
    distinct = problem.distinct()
    unit = loss_unit(problem, distinct, start)
    temperature *= unit
    if form.n_features < 2 or form.n_lists == 0 or unit == 0.0:
        return Average(start, unit, temperature, None, 0.0, 0, 0, complete=True)
    sphere = _sphere(problem, distinct)
    # what a level of the kernels is worth: they have costs in fixed point, or the loss of all lists
    scale = form.unit if form.additive else float(problem.nbest.n_lists)
    most = within * unit * (form.n_features - 1) / scale
    walks = [
        _Chain(sphere, start, temperature / scale, most, np.random.default_rng([seed, number]))
        for number in range(chains)
    ]
    burn_in, steps = round(effort * (40 + 8 * form.n_features)), round(effort * (100 + 15 * form.n_features))
    done, rounds, stopped = 0, 1, False
    with ThreadPoolExecutor(min(jobs, chains)) as pool:

        def advance(count: int, *, counted: bool) -> None:
            nonlocal done, stopped
            left = count
            while left and not (stopped or out_of_time()):
                part = min(left, max(1, _PIECE // len(form.features)))
                contexts = [copy_context() for _ in walks]
                list(pool.map(_walk_within, contexts, walks, repeat(part), repeat(counted)))
                left, done = left - part, done + part
                stopped = bool(tell(chains * done, chains * (burn_in + rounds * steps)))

        advance(max(1, burn_in), counted=False)
        advance(max(1, steps), counted=True)
        while not _agree(walks) and rounds < MOST_ROUNDS and not (stopped or out_of_time()):
            rounds += 1
            advance(max(1, steps), counted=True)
    complete = done >= max(1, burn_in) + rounds * max(1, steps)
    means = [one.mean for one in walks if one.mean is not None]
    if not means:
        return Average(start, unit, temperature, None, 0.0, 0, 0, complete=False)  # stopped before anything counted
    mean = np.mean(means, axis=0)
    answer = CanonicalWeights(_scaled(sphere.basis @ mean)) if mean.any() else start
    states = tuple(CanonicalWeights(state) for one in walks for state in one.kept())
    variance = _variance(problem, sphere, answer, states)
    return Average(answer, unit, temperature, _agreement(means), variance, chains, chains * done, complete, states)


def loss_unit(problem: Problem, distinct: Distinct, weights: CanonicalWeights) -> float:
    """Return the mean |loss difference| of two hypotheses of a list; weights [d] choose those of the other lists."""
    chosen = _decoded(distinct, weights)
    values = switched(problem.metric, distinct.statistics, distinct.offsets, chosen)
    return mean_difference(values, distinct.offsets)


class _Chain:
    """One chain with work space of its own."""

    def __init__(
        self, sphere: _Sphere, start: CanonicalWeights, temperature: float, most: float, rng: np.random.Generator
    ) -> None:
        self._sphere, self._rng = sphere, rng
        self._state: State = new_state(np.asarray(np.linalg.solve(sphere.basis, start), dtype=np.float64))
        self._work = new_workspace(sphere.features, sphere.offsets)
        self._buffers = new_buffers(sphere.offsets, len(sphere.loss.constant))
        self._circle = new_circle(sphere.offsets)
        combine(self._work.transposed, self._state.weights, self._work.intercepts)
        level = float(level_at(self._work.intercepts, sphere.offsets, sphere.loss, self._buffers.total))
        self._law = Law(temperature, level + most)
        self._paths: list[FloatArray] = []

    def walk(self, steps: int, counted: bool) -> None:
        """Take so many steps."""
        dimension = len(self._state.weights)
        path = np.empty((steps, dimension))
        walk(
            self._sphere.offsets,
            self._sphere.loss,
            self._sphere.where,
            self._law,
            self._state,
            self._rng.normal(size=(steps, dimension)),
            self._rng.random(steps),
            counted,
            self._work,
            self._buffers,
            self._circle,
            path,
        )
        if counted:
            self._paths.append(path)

    @property
    def mean(self) -> FloatArray | None:
        """The direction [d] of the mean, `None` where it has none."""
        length = float(np.linalg.norm(self._state.total))
        return self._state.total / length if length > 0.0 else None

    def kept(self) -> Iterator[FloatArray]:
        """Yield `KEPT` weights [d] in canonical coordinates, evenly along the way."""
        path = np.concatenate(self._paths) if self._paths else np.empty((0, 0))
        for number in np.unique(np.linspace(0, len(path) - 1, min(KEPT, len(path))).round().astype(int)):
            yield self._sphere.basis @ path[number]


def _walk_within(context: Context, chain: _Chain, steps: int, counted: bool) -> None:
    context.run(chain.walk, steps, counted)


def _agreement(means: list[FloatArray]) -> float | None:
    """Return the least cosine of a mean [d] with the mean of all, `None` for a single one."""
    if len(means) < 2:
        return None
    mean = np.mean(means, axis=0)
    length = float(np.linalg.norm(mean))
    return min(float(one @ mean) / length for one in means) if length > 0.0 else 0.0


def _agree(chains: list[_Chain]) -> bool:
    agreement = _agreement([one.mean for one in chains if one.mean is not None])
    return agreement is None or agreement >= AGREEMENT


def _sphere(problem: Problem, distinct: Distinct) -> _Sphere:
    form = problem.canonical
    basis = _whitening(distinct)
    # centred first: features that are large and nearly alike lose fewer digits so
    features = np.ascontiguousarray(centred(form.features, form.offsets) @ basis)
    unit, cosine = (np.empty(0), 0.0) if form.cap is None else (form.cap.unit, form.cap.cosine)
    where = Where(np.ascontiguousarray(form.limits @ basis), basis, unit, cosine)
    return _Sphere(basis, features, form.offsets, loss_of_form(form), where, distinct)


def _whitening(distinct: Distinct) -> FloatArray:
    """Return [d, d] such that features times it vary alike within lists in all directions, but for `RIDGE`."""
    alike, spread = standardised(distinct.features, distinct.offsets)
    values, vectors = np.linalg.eigh(alike.T @ alike / len(alike))
    return np.ascontiguousarray((vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)) @ vectors.T / spread[:, None])


def _decoded(distinct: Distinct, weights: FloatArray) -> IntArray:
    """Return the row chosen in each list [S]."""
    selection = np.empty(len(distinct.offsets) - 1, dtype=np.int64)
    decode(distinct.features, distinct.offsets, weights, selection)
    return selection


def _variance(problem: Problem, sphere: _Sphere, weights: FloatArray, states: Sequence[FloatArray]) -> float:
    """Return the sum over lists of the variance, over states [d], of what each costs beside the others' choices."""
    distinct = sphere.distinct
    values = switched(problem.metric, distinct.statistics, distinct.offsets, _decoded(distinct, weights))
    costs = np.array([values[_decoded(distinct, state)] for state in states])
    return float(costs.var(axis=0).sum()) if len(costs) else 0.0


def _scaled(weights: FloatArray) -> FloatArray:
    """Return weights [d] with the largest entry about 1."""
    return np.asarray(np.ldexp(weights, -int(np.frexp(np.abs(weights).max())[1])))
