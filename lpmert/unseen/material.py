"""Lists and lattices alike: how they are searched, what weights choose, and what each list contributes to the loss."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar, cast

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.methods.heuristic.och import Och
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.canonical import CallerWeights
from lpmert.model.evaluation import Evaluation
from lpmert.model.graphs import Hypergraphs, Lattices, WordGraphs
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.nbest import NBest, aligned_with, checked_lists
from lpmert.quoting import listed
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.incumbent import first_on_lattices
from lpmert.system.mapped import released

Material = NBest | Lattices
AnyData = TypeVar("AnyData", bound=NBest | WordGraphs)


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread: with several, sums are rounded in an order that hangs on their number."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited


def found_by_lines(
    problem: AnyProblem, limits: Limits, seed: int, initial_weights: CallerWeights | None = None
) -> CallerWeights:
    """Return the best weights that line searches find, on lattices those on the paths that win."""
    if isinstance(problem, LatticeProblem):
        initial = None if initial_weights is None else problem.to_canonical(initial_weights)
        return problem.to_caller(first_on_lattices(problem, seed, initial).weights)
    return CallerWeights(solve(Och(), problem, limits, seed=seed, initial_weights=initial_weights).weights)


def chosen_statistics(problem: AnyProblem, weights: CallerWeights, known: Evaluation | None = None) -> FloatArray:
    """Return the statistics [S, K] of the hypotheses that weights [D] choose; known: what these cost."""
    if isinstance(problem, LatticeProblem):
        winners = problem.decode(weights).winners
        return np.array([problem.statistics(number, won.ways[0]) for number, won in enumerate(winners)])
    nbest = problem.nbest
    found = problem.evaluate(weights) if known is None else known
    chosen = np.asarray(nbest.statistics[nbest.offsets[:-1] + found.selection])
    released(nbest.statistics)
    return chosen


def data_of(problem: AnyProblem) -> Material:
    """Return the lists or lattices of a problem; raises `DataError` for hypergraphs."""
    return divisible(problem.lattices if isinstance(problem, LatticeProblem) else problem.nbest)


def divisible(data: NBest | WordGraphs) -> Material:
    """Return lists or lattices as they are; raises `DataError` for hypergraphs, and for what is none of these."""
    if isinstance(data, Hypergraphs):
        raise DataError(
            "hypergraphs are not divided; make N-best lists of them: lpmert convert --n-best, lpmert.n_best"
        )
    return data if isinstance(data, Lattices) else checked_lists(data)


def held_out_like(held_out: AnyData, data: NBest | WordGraphs) -> AnyData:
    """Return what is held out with the features in the order of the other; raises `DataError` where they differ."""
    if isinstance(held_out, NBest) and isinstance(data, NBest):
        return cast(AnyData, aligned_with(held_out, data))
    if type(held_out) is not type(data) or held_out.names != data.names:
        raise DataError(f"what is held out must be of the same kind, with the features {listed(data.names)} in order")
    return held_out


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


def shares(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return what each of G groups contributes to the loss of all, from summed statistics [G, K].

    The variance of the loss is G / (G - 1) times the sum of their squared deviations. A sum over lists adds up; of
    another metric these are the jackknife's values (Efron and Stein, Annals of Statistics 1981), which add up nearly.
    """
    if isinstance(metric, AdditiveMetric):
        return np.array([metric.loss(row) for row in statistics])
    count = len(statistics)
    total = statistics.sum(axis=0)
    without = losses_of_totals(metric, total - statistics)
    return np.asarray(metric.loss(total) / count + (without.mean() - without) * (count - 1) / count)
