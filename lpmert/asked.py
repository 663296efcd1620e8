"""What callers pass, checked: the problem, the method, its limits and its checkpoint, and what weights cost.

Nothing heavy is imported before it is needed, so that the command line starts at once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lpmert.findings import ALL_ZERO
from lpmert.quoting import WARNINGS, listed
from lpmert.registry import METHODS

if TYPE_CHECKING:
    from pathlib import Path

    from lpmert.model.evaluation import Evaluation
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.nbest import NBest
    from lpmert.model.problem import Problem
    from lpmert.model.region import Region
    from lpmert.result import Limits
    from lpmert.search.checkpoint import Keeping
    from lpmert.search.method import Method
    from lpmert.values import Weights

logger = logging.getLogger(__name__)


def told(problem: Problem | LatticeProblem, weights: Weights) -> Evaluation:
    """Return what weights cost, whether they lie in the region, and the loss as rates."""
    given = problem.checked_weights(weights)
    if not given.any():
        logging.getLogger(WARNINGS).warning("warning: %s", ALL_ZERO.message)
    return replace(found := problem.evaluate(given), inside=problem.inside(given), rates=problem.rates(found.loss))


def problem_of(data: NBest | WordGraphs, metric: Any, ties: str, region: Region | None) -> Problem | LatticeProblem:
    """Return the problem on lists or lattices, with all arguments checked."""
    from lpmert.model.graphs import WordGraphs

    if isinstance(data, WordGraphs):
        from lpmert.methods.lattice.door import lattice_problem

        return lattice_problem(data, metric or "loss", ties, _checked(region))
    return _problem(data, metric, ties, region)


def _problem(nbest: NBest, metric: Any, ties: str, region: Region | None) -> Problem:
    from lpmert.errors import DataError
    from lpmert.model.nbest import NBest
    from lpmert.model.problem import Problem

    if not isinstance(nbest, NBest):
        raise DataError(
            f"the first argument must be an NBest, not {type(nbest).__name__}; build one with lpmert.NBest(...)"
        )
    return Problem(nbest, metric, ties=ties, region=_checked(region))


def _checked(region: Region | None) -> Region | None:
    if region is None:
        return None
    from lpmert.formats.weights import checked_region

    return checked_region(region)


def settings_of(
    method: str | Method,
    time_limit: float | None,
    node_limit: int | None,
    gap: float | None,
    target: float | None,
    memory_limit: int | None,
    jobs: int,
    seed: int,
    backend: str = "threads",
) -> tuple[Method, Limits, int]:
    from lpmert.values import checked_limits, whole_number
    from lpmert.workers import checked_backend

    jobs = whole_number(jobs, "jobs", 1)
    checked_backend(backend)
    solver = method_of(method)
    if jobs > 1 and not solver.parallel:
        logger.warning("jobs=%d: method %r hands no work out, and searches in one thread", jobs, solver.name)
    limits = checked_limits(time_limit, node_limit, gap, target, memory_limit)
    return solver, limits, whole_number(seed, "seed", 0)


def method_of(method: str | Method) -> Method:
    from lpmert.errors import MethodError
    from lpmert.quoting import quoted
    from lpmert.search.method import Method

    found = METHODS.build(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        names = f"one of {listed(METHODS.names())}, or an object of a class derived from lpmert.methods.Method"
        raise MethodError(f"a method must be {names}; got {quoted(method)}")
    return found


def keeping_of(checkpoint: str | Path | None, resume: bool) -> Keeping | None:
    from lpmert.errors import MethodError
    from lpmert.search.checkpoint import Keeping

    if checkpoint is None and resume:
        raise MethodError("resume needs the file of a checkpoint")
    return None if checkpoint is None else Keeping(checkpoint, resume)
