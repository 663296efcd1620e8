"""Searches over lattices, from first weights to the result, for `minimize` and `check`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from lpmert.errors import FloatArray, MethodError, MetricError
from lpmert.methods.auto import Auto
from lpmert.methods.cells.cells import Cells
from lpmert.methods.lattice.cones import cones_of_region
from lpmert.methods.lattice.hypotheses import Catalogue
from lpmert.methods.lattice.search import LatticeSearch, LatticeSettings
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import listed, quoted
from lpmert.registry import METHODS
from lpmert.result import Callback, Limits, Result, Status
from lpmert.search.checkpoint import Keeping
from lpmert.search.driver import Solver
from lpmert.search.incumbent import first_incumbent, moved, normalised
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.search.report import Ended, Outcome, bound_on_loss, result_of, scaled_evaluation
from lpmert.system.deadline import OutOfTime, heeding, out_of_time
from lpmert.version import __version__

_PERTURBATIONS = 24

_FIRST_CONES = 16
"""Cones in whose middle first weights are looked for."""

_MOST_ROUNDS = 30
"""How often weights are placed anew because paths win there that no cone has shown before."""

_STALLS = 3
"""Searches from other starts, one after the other, that may find weights where no new path wins before these do."""


def solve_lattices(
    problem: LatticeProblem,
    method: Method,
    limits: Limits | None = None,
    callback: Callback | None = None,
    seed: int = 0,
    initial_weights: CallerWeights | None = None,
    started: float | None = None,
    settings: LatticeSettings | None = None,
    keeping: Keeping | None = None,
) -> Result:
    """Find the weights with the least loss over all paths of lattices, as far as the limits allow; see `Solver`.

    method: `cells`, `auto`, which is the same here, or one that takes lattices by itself. Raises `MethodError` for
    others, `RegionError` for an empty region, `DataError` for a file of checkpoints that does not fit.
    """
    solver = LatticeSolver(method, problem, limits, callback, seed, initial_weights, started, keeping)
    solver.settings = settings or solver.settings
    return solver.solve()


class LatticeSolver(Solver[LatticeProblem]):
    """A problem on lattices."""

    settings = LatticeSettings()

    def _check(self) -> None:
        self._cells = method_on_lattices(self._method)
        if self._keeping is not None and not isinstance(self._cells, Cells):
            raise MethodError(f"method {quoted(self._method.name)} keeps no checkpoints of lattices; use auto or cells")

    def _first_weights(self) -> Incumbent:
        if not isinstance(self._cells, Cells):
            return self._any_weights()
        return first_weights(self._problem, self._seed, self._initial)

    def _any_weights(self) -> Incumbent:
        return any_weights(self._problem)

    def _start(self, task: Task) -> Search:
        if not isinstance(self._cells, Cells):
            return self._method.start(task)
        return LatticeSearch(self._problem, task.incumbent, self.settings, self._cells)

    def _let_go(self, search: Search) -> None:
        self._search = search  # whose hypotheses the report takes

    def _report(self, outcome: Outcome) -> Result:
        result = _reported(self._problem, self._method, self._search, outcome, self._seed)
        return replace(result, initial=self._initial)


def method_on_lattices(method: Method) -> Method:
    """Return the method itself, or the `cells` of `auto`; raises `MethodError` for one that needs N-best lists."""
    found = method.cells if isinstance(method, Auto) else method
    if isinstance(found, Cells) or method.takes_lattices:
        return found
    able = [name for name in METHODS.own if name in ("auto", "cells") or METHODS.build(name).takes_lattices]
    raise MethodError(
        f"method {quoted(method.name)} needs N-best lists: make them with --n-best, lpmert nbest or lpmert.n_best; all "
        f"paths of lattices are searched by {listed(able)}"
    )


def first_weights(problem: LatticeProblem, seed: int, given: CallerWeights | None) -> Incumbent:
    """Return good weights of the region whose loss does not hang on ties, or those given where these are better.

    Line searches on lists of the paths that have won so far, which the winners at the weights found then join, as
    decoders are tuned; the first ones are those in the middle of cones that cover the region.
    """
    inside = problem.canonical.interior
    start = CanonicalWeights(np.ones(problem.canonical.n_features)) if inside is None else inside
    own = None if given is None or not given.any() else problem.to_canonical(given)
    rng = np.random.default_rng(seed)
    sizes = [0.0, *(10.0 ** (-8 + k / 3) for k in range(_PERTURBATIONS))]
    pool = Catalogue(problem)
    best = any_weights(problem)

    def look(weights: FloatArray, source: str) -> bool:
        """Take weights [d] if they are better, or others beside them; return whether other paths win at these."""
        new = False
        for candidate in moved(weights, sizes, lambda: rng.normal(size=len(start))):
            verdict = problem.decode(problem.to_caller(CanonicalWeights(candidate)))
            new = add(pool, verdict) or new
            if verdict.strict and problem.inside(problem.to_caller(CanonicalWeights(candidate)), strictly=True):
                best.improve(verdict.loss, candidate, source)
                break
            if out_of_time():
                break
        return new

    look(start, "L")
    if own is not None:
        look(own, "I")
    middles = []
    with heeding(), suppress(OutOfTime):
        for rays in islice(cones_of_region(problem.canonical.limits, problem.canonical.cap), _FIRST_CONES):
            middles.append(rays.sum(axis=0))
    for middle in middles:
        if out_of_time():
            return best
        look(middle, "L")
    stalled = 0
    for number in range(_MOST_ROUNDS):
        lists = problem_of(problem, pool)
        if stalled == _STALLS or out_of_time() or not lists.canonical.n_lists:
            break
        found = first_incumbent(lists, seed + number, None)
        stalled = 0 if look(problem.to_canonical(lists.to_caller(found.weights)), "L") else stalled + 1
    return best


def any_weights(problem: LatticeProblem) -> Incumbent:
    """Return any weights of the region, with a loss that no path of any lattice exceeds."""
    inside = problem.canonical.interior
    weights = CanonicalWeights(np.ones(problem.canonical.n_features)) if inside is None else inside
    return Incumbent(problem.most_loss, weights, "L")


def _reported(problem: LatticeProblem, method: Method, search: Search, outcome: Outcome, seed: int) -> Result:
    """Return the result on the lists of all hypotheses that may win in some cone, once these hold all winners there."""
    lattices = problem.lattices
    pool = search.catalogue if isinstance(search, LatticeSearch) else Catalogue(problem)
    found = problem.to_caller(outcome.weights)
    ahead = [normalised(found), CallerWeights(np.ldexp(found, -int(np.frexp(np.abs(found).sum())[1])))]
    for weights in ahead:
        add(pool, problem.decode(weights))
    for _ in range(_MOST_ROUNDS):
        lists = problem_of(problem, pool)
        shift = lists.canonical.constant
        bound = None if outcome.lower_bound is None else outcome.lower_bound - shift
        own = replace(outcome, cost=outcome.cost - shift, weights=lists.to_canonical(found), lower_bound=bound)
        result = result_of(method, lists, Ended.of(search), own, seed)
        placed = CallerWeights(result.weights)
        if not add(pool, problem.decode(placed)) or out_of_time():
            break
    holding = [weights for weights in (placed, *ahead) if _holds(problem, weights, outcome.cost)]
    weights = holding[0] if holding else ahead[0]
    weights, evaluation = scaled_evaluation(problem, lattices.names, weights)
    status, loss = outcome.status, evaluation.loss
    if status is Status.OPTIMAL and (problem.turned or not holding):
        status = Status.OPTIMAL_TO_TOLERANCE
    lower = None if outcome.lower_bound is None else min(loss, bound_on_loss(problem.canonical, outcome.lower_bound))
    return Result(
        weights=weights,
        names=lattices.names,
        loss=loss,
        score=evaluation.score,
        lower_bound=loss if status is Status.OPTIMAL else lower,
        status=status,
        method=method.name,
        statistics=evaluation.statistics,
        selection=np.zeros(lattices.n_lists, dtype=np.int64),
        margin=None,
        signature=f"lpmert:{__version__}|{problem.signature}|method:{method.settings()}|seed:{seed}",
        fingerprint=lattices.fingerprint,
        seed=seed,
        tied_lists=evaluation.tied_lists,
        loss_best_ties=evaluation.loss_best_ties,
        loss_worst_ties=evaluation.loss_worst_ties,
        region=problem.distances(weights),
        counters={**_sizes(problem), **search.counters()},
        trace=outcome.trace,
        unit=problem.unit,
    )


def _holds(problem: LatticeProblem, weights: CallerWeights, loss: int) -> bool:
    """Whether weights [D] of the caller lie in the region and lose this much, and no tie that matters decides it."""
    verdict = problem.decode(weights)
    return verdict.strict and verdict.loss == loss and problem.inside(weights, strictly=True)


def add(pool: Catalogue, verdict: Verdict) -> bool:
    """Add the winners of a verdict to the hypotheses; return whether one of them is new."""
    before = len(pool)
    for number in range(len(verdict.winners)):
        for way in verdict.ways(number):
            pool.add(number, way)
    return len(pool) > before


def problem_of(problem: LatticeProblem, pool: Catalogue) -> Problem:
    """Return the problem on N-best lists of these paths, in the order in which they stand for each other."""
    lattices = problem.lattices
    own = [pool.of_lattice(s) for s in range(lattices.n_lists)]
    ids = np.array([known for some in own for known in some], dtype=np.int64)
    nbest = NBest(
        problem.features_of([(pool.numbers[known], pool.ways[known]) for known in ids.tolist()]),
        np.cumsum([0, *map(len, own)]),
        pool.statistics[ids],
        lattices.names,
        lattices.list_ids,
        problem.settings.columns,
    )
    return Problem(nbest, problem.metric, region=problem.region)


def _sizes(problem: LatticeProblem) -> Mapping[str, int]:
    lattices = problem.lattices
    return {
        "lists": lattices.n_lists,
        "links": lattices.n_links,
        "features": lattices.n_features,
        "log10_paths": int(sum(lattices.log10_paths)),
    }


def lattice_problem(lattices: WordGraphs, metric: Any, ties: str, region: Region | None) -> LatticeProblem:
    """Return the problem; raises `MetricError`, `MethodError` and `RegionError` for what lattices cannot take.

    metric: "loss", the default of callers, stands for "wer" where links have no losses.
    """
    if not isinstance(metric, str) and not hasattr(metric, "counter"):
        raise MetricError(f"for lattices the metric is one on texts, wer, cer or ter, not {quoted(metric)}")
    if ties != "first":
        raise MethodError(
            f"ties={quoted(ties)} is for N-best lists; of paths that no weights tell apart the first one counts"
        )
    return LatticeProblem(lattices, "wer" if metric == "loss" and lattices.losses is None else metric, region)
