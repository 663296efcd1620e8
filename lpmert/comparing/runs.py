"""Runs of methods, of functions and of weights from elsewhere, as units of work whose results are decoded.

Also the significance test for two sets of chosen hypotheses, for any metric of summed statistics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtr

from lpmert.comparing import REPLICATIONS
from lpmert.comparing.comparison import Run
from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.formats.weights import given_weights
from lpmert.metrics.base import Metric, losses_of_totals
from lpmert.model.canonical import CallerWeights
from lpmert.model.lattice_problem import AnyProblem
from lpmert.quoting import quoted, repeated
from lpmert.result import Limits, Status
from lpmert.search.driver import solve
from lpmert.search.method import Method
from lpmert.system.deadline import Deadline
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance
from lpmert.unseen.estimate import Material, chosen_statistics, corrected_error, data_of, one_thread
from lpmert.values import Weights
from lpmert.workers import SERIAL, Pending, current_workers

logger = logging.getLogger("lpmert")

_BLOCK = 1_000_000  # random numbers that are drawn at a time


def permutation_test(
    metric: Metric, first: FloatArray, second: FloatArray, *, replications: int = REPLICATIONS, seed: int = 0
) -> float:
    """Return the p-value of the difference in loss between two sets of statistics [S, K], paired by list.

    Each replication swaps the two in random lists. The p-value is the share of replications whose absolute difference
    is at least the observed one, where the data count as one more replication. Raises `DataError` if the shapes differ.
    Source: approximate randomisation, Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989.
    """
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise DataError(f"pair statistics of the same lists, in shape [S, K]; got {first.shape} and {second.shape}")
    rng, size = np.random.default_rng(seed), max(1, _BLOCK // first.size)

    def differences(swapped: FloatArray) -> FloatArray:
        """Return the absolute differences in loss [n] after swapping the lists that are 1 in rows [n, S]."""
        moved = swapped @ (second - first)
        one = losses_of_totals(metric, first.sum(axis=0) + moved)
        return np.asarray(np.abs(one - losses_of_totals(metric, second.sum(axis=0) - moved)))

    least = float(differences(np.zeros((1, len(first))))[0])
    least -= 1e-12 * max(1.0, least)  # sums in another order differ by rounding
    extreme = 0
    for begin in range(0, replications, size):
        swapped = rng.random((min(size, replications - begin), len(first))) < 0.5
        extreme += int(np.count_nonzero(differences(swapped.astype(np.float64)) >= least))
    return (extreme + 1) / (replications + 1)


def corrected_test(values: FloatArray, ratio: float) -> float | None:
    """Return the p-value, by Student's t, of the mean of values [J] from overlapping splits being different from 0.

    1 if all values are 0, `None` if they are equal otherwise.
    """
    if not np.ptp(values):
        return None if values[0] else 1.0
    return float(2 * stdtr(len(values) - 1, -abs(np.mean(values)) / corrected_error(values, ratio)))


Given = tuple[CallerWeights, Status | None]


@dataclass(frozen=True)
class Source:
    """An entry of a comparison.

    find: returns weights [D] for a problem, limits, initial weights [D] and a seed, and how the run ended if a method
    ran. random: whether the seed matters. fixed: whether the weights are known before. remembers: whether they depend
    on earlier runs.
    """

    name: str
    settings: str
    random: bool
    find: Callable[[AnyProblem, Limits, CallerWeights | None, int], Given]
    fixed: bool = False
    remembers: bool = False


def sources(
    methods: Iterable[tuple[str | None, Method]],
    weights: Mapping[str, Weights | str | Path],
    functions: Mapping[str, Callable[[Material, int], Weights]],
    problem: AnyProblem,
) -> list[Source]:
    """Return the entries of a comparison, methods first; methods without a name get their own.

    Raises `MethodError` for names that occur twice, `DataError` for weights that do not fit.
    """
    found = [of_method(method, name) for name, method in methods]
    found += [of_weights(name, given, problem) for name, given in weights.items()]
    found += [of_function(name, function) for name, function in functions.items()]
    twice = repeated(source.name for source in found)
    if twice is not None:
        raise MethodError(f"{quoted(twice)} is compared twice; give each its own name")
    if not found:
        raise MethodError("nothing to compare; give at least one method")
    return found


def of_method(method: Method, name: str | None = None) -> Source:

    def find(problem: AnyProblem, limits: Limits, initial: CallerWeights | None, seed: int) -> Given:
        result = solve(method, problem, limits, None, seed, initial)
        return CallerWeights(result.weights), result.status

    return Source(name or method.settings(), method.settings(), method.random, find, remembers=method.remembers)


def of_weights(name: str, weights: Weights | str | Path, problem: AnyProblem) -> Source:
    """Return given weights as a source; raises `DataError` unless they fit."""
    try:
        given = problem.checked_weights(given_weights(weights, name))
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    return Source(name, "weights", False, lambda *_: (given, None), fixed=True)


def of_function(name: str, function: Callable[[Material, int], Weights]) -> Source:

    def find(problem: AnyProblem, _limits: Limits, _initial: CallerWeights | None, seed: int) -> Given:
        return problem.checked_weights(given_weights(function(data_of(problem), seed), name)), None

    return Source(name, "function", True, find)


Named = list[tuple[str, Run]]  # runs with the names of their sources


@dataclass(frozen=True)
class Judge:
    """Runs sources on a problem, and evaluates their weights on it and on held-out lists."""

    problem: AnyProblem
    held_out: AnyProblem | None

    def run(self, source: Source, seed: int, limits: Limits, initial: CallerWeights | None) -> Run:
        clock = Deadline()
        weights, status = source.find(self.problem, limits, initial, seed)
        seconds = clock.seconds
        training = self.problem.evaluate(weights)
        test = None if self.held_out is None else self.held_out.evaluate(weights)
        return Run(
            weights=weights,
            loss=training.loss,
            score=training.score,
            tied_lists=training.tied_lists,
            inside=self.problem.inside(weights),
            held_out_loss=None if test is None else test.loss,
            seconds=seconds,
            seed=seed if source.random else None,
            status=status,
            chosen=chosen_statistics(self.problem, weights, training),
            held_out_chosen=None if self.held_out is None else chosen_statistics(self.held_out, weights, test),
        )

    def p_value(self, first: Run, other: Run, seed: int) -> float:
        """Return the p-value of the difference between two runs, on the held-out lists if there are any."""
        chosen = [one.chosen if one.held_out_chosen is None else one.held_out_chosen for one in (first, other)]
        return permutation_test(self.problem.metric, *chosen, seed=seed)


def run_once(judge: Judge, task: tuple[Source, int, Limits, CallerWeights | None]) -> Named:
    with one_thread():
        return [(task[0].name, judge.run(*task))]


def collect(
    unit: Callable[[Any, Any], Named],
    context: object,
    tasks: Sequence[object],
    runs: dict[str, list[Run]],
    on_runs: Callable[[Named], object],
    interrupts: Interrupts,
    memory: Allowance | None = None,
) -> bool:
    """Run all tasks and collect their runs by name, in order; return whether all were done.

    unit: runs a task; context: the value that all units share. on_runs: called with the named runs of each task; a true
    return value stops. memory: allowance of this process; no more tasks run once it is spent.
    """
    workers, over = current_workers(), False
    pending: list[Pending[Named]] = []
    # set once for all: threads that each set and reset the limit would undo each other's
    with one_thread(), Deadline(stop=lambda: over or interrupts.pressed, memory=memory).running() as deadline:
        try:
            shared = workers.share(context)
            pending = [workers.submit(unit, shared, task) for task in tasks]
            for one in pending:
                in_time = one.in_time()
                if deadline.out_of_memory:  # this run may have been cut short
                    logger.warning("the memory limit is near; the runs so far are compared")
                    return False
                if not in_time:
                    return False
                found = one.answer()
                if interrupts.pressed and workers is not SERIAL:
                    return False  # an interrupted run would look like one that a limit stopped
                for name, run in found:
                    if run.status is Status.INTERRUPTED:
                        runs.setdefault(name, [run])  # only if it is the first: it must not count beside complete runs
                        return False
                for name, run in found:
                    runs.setdefault(name, []).append(run)
                if on_runs(found):
                    return False
        except KeyboardInterrupt:
            logger.info("interrupted; the runs so far are compared")
            return False
        finally:
            over = True  # stops threads that are still running
            for one in pending:
                one.give_up()
    return True
