"""The objective and the solvers of most benchmarks: a loss on N-best lists, and lpmert's methods."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Judgement, Objective, Solver
from lpmert.api import evaluated
from lpmert.errors import FloatArray, MethodError
from lpmert.methods.direct_search import Och
from lpmert.metrics.contract import metric_by_name
from lpmert.model.lattice_problem import AnyProblem
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.result import Limits, Result
from lpmert.search.driver import solve
from lpmert.search.method import Method

_TOY_SECONDS = 0.5
_TRACE_POINTS = 400


def loss(metric: str = "loss", region: Region | None = None, label: str = "") -> Objective:
    """Return the loss of weights on N-best lists under a metric, within a region; label: the region's name."""
    name = metric_by_name(metric).name + (f", {label}" if label else "")
    return of_problem(name, lambda data: Problem(data, metric, region=region))


def of_problem(name: str, problem: Callable[[Any], AnyProblem]) -> Objective:
    """Return the loss that a problem made of the data has; weights outside of its region have none."""

    def judge(data: Any, answer: Answer) -> Judgement:
        found = evaluated(problem(data), answer.weights)
        if not found.inside:
            return Judgement(details={"outside": True})
        details = {"tied_lists": found.tied_lists} if found.tied_lists else {}
        return Judgement(found.loss, found.score, details)

    return Objective(name, judge, problem)


@cache
def line_search_weights(data: NBest) -> FloatArray:
    """Return the weights [D] that line searches from 20 starts find."""
    return solve(Och(), Problem(data)).weights


def by_method(method: Method, label: str = "") -> Solver:
    """Return a method of lpmert; the canonical form and the first weights are part of its time.

    label: its name in rows; by default the settings that differ from their defaults.
    """
    return Solver(label or method.settings(), partial(solved, method), partial(warm_up, method))


def solved(method: Method, data: Any, objective: Objective, seed: int, time_limit: float) -> Answer:
    """Solve with the clock running."""
    started = time.perf_counter()
    limits = Limits(time_limit=time_limit)
    return answer_of(solve(method, objective.problem(data), limits, seed=seed, started=started))


def answer_of(result: Result) -> Answer:
    """Return the answer of a search, with the seconds of its parts and its trace."""
    return Answer(
        weights=result.weights,
        status=result.status.name.lower(),
        lower_bound=result.lower_bound,
        counters=dict(result.counters),
        details={"parts": dict(result.seconds), "trace": thinned(result.trace)},
    )


def thinned(trace: Sequence[tuple[float, float | None, float]]) -> list[tuple[float, float | None, float]]:
    """Return as many points (seconds, bound, loss) as a figure can show, with the first and the last."""
    if len(trace) <= _TRACE_POINTS:
        return list(trace)
    return [trace[k] for k in np.linspace(0, len(trace) - 1, _TRACE_POINTS).round().astype(int).tolist()]


@cache
def warm_up(method: Method) -> None:
    """Let a method solve toy lists, once a process: with 2 to 9 features, sums and ratios, limits and a cosine."""
    rng = np.random.default_rng(0)
    for n_features, n_lists in ((2, 5), (3, 20), (5, 40), (9, 13)):
        features = rng.normal(size=(8 * n_lists, n_features))
        counts = rng.integers(0, 5, (len(features), 3)) + np.array([0, 5, 5])
        offsets = np.arange(0, len(features) + 1, 8)
        around = {f"feature{number}": 1.0 for number in range(1, n_features + 1)}
        for statistics, metric, region in (
            (counts[:, 0], "loss", None),
            (counts, "f1", None),
            (counts[:, 0], "loss", Region(nonnegative=True)),
            (counts[:, 0], "loss", Region(cosine=0.9, around=around)),
        ):
            nbest = NBest(features, offsets, statistics)
            try:
                solve(method, Problem(nbest, metric, region=region), Limits(time_limit=_TOY_SECONDS))
            except MethodError:
                continue  # the method does not take such problems, and loads nothing for them
