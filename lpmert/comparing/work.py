"""What a comparison has to do: runs of methods and their judgement, here or in several processes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

from lpmert.comparing.comparison import Difference
from lpmert.comparing.foreign import Source
from lpmert.comparing.run import Run
from lpmert.comparing.significance import bootstrap_interval, permutation_test
from lpmert.errors import FloatArray, MethodError
from lpmert.metrics.base import Metric
from lpmert.model.coordinates import CallerWeights
from lpmert.result import Limits, Status
from lpmert.search.checkpoint import Finished
from lpmert.system.deadline import Deadline
from lpmert.system.interrupts import Interrupts
from lpmert.system.threads import one_thread
from lpmert.unseen.material import AnyProblem, chosen_statistics

logger = logging.getLogger("lpmert")


class Work(Protocol):
    """A part of a comparison; foreign: whether functions of the caller take part."""

    @property
    def foreign(self) -> bool: ...

    def run(self) -> list[tuple[str, Run]]:
        """Return runs by the names of what made them."""


@dataclass(frozen=True)
class Judge:
    """Tells what weights cost, on the lists tuned on and on those held out."""

    problem: AnyProblem
    held_out: AnyProblem | None

    def run(self, source: Source, seed: int, limits: Limits, initial: CallerWeights | None) -> Run:
        """Return a run of a source, judged by decoding alone."""
        clock = Deadline()
        weights, status = source.find(self.problem, limits, initial, seed)
        seconds = clock.seconds
        here = self.problem.evaluate(weights)
        there = None if self.held_out is None else self.held_out.evaluate(weights)
        return Run(
            weights=weights,
            loss=here.loss,
            score=here.score,
            tied_lists=here.tied_lists,
            inside=self.problem.inside(weights),
            held_out_loss=None if there is None else there.loss,
            held_out_score=None if there is None else there.score,
            seconds=seconds,
            seed=seed if source.random else None,
            status=status,
            chosen=chosen_statistics(self.problem, weights, here),
            held_out_chosen=None if self.held_out is None else chosen_statistics(self.held_out, weights, there),
        )

    def differences(self, first: Run, other: Run, replications: int, seed: int) -> tuple[Difference, Difference | None]:
        """Return how two runs differ on the lists tuned on and on those held out."""
        metric = self.problem.metric
        here = _difference(metric, first.chosen, other.chosen, replications, seed)
        if first.held_out_chosen is None or other.held_out_chosen is None:
            return here, None
        return here, _difference(metric, first.held_out_chosen, other.held_out_chosen, replications, seed)


def _difference(metric: Metric, one: FloatArray, two: FloatArray, replications: int, seed: int) -> Difference:
    low, high = bootstrap_interval(metric, one, two, replications=replications, seed=seed)
    return Difference(
        loss=metric.loss(two.sum(axis=0)) - metric.loss(one.sum(axis=0)),
        p_value=permutation_test(metric, one, two, replications=replications, seed=seed),
        low=low,
        high=high,
    )


@dataclass(frozen=True)
class RunTask:
    """One run of one source on all lists."""

    source: Source
    seed: int
    judge: Judge
    limits: Limits
    initial: CallerWeights | None

    @property
    def foreign(self) -> bool:
        """Whether it is a function of the caller."""
        return self.source.foreign

    def run(self) -> list[tuple[str, Run]]:
        """Return the run."""
        with one_thread():
            return [(self.source.name, self.judge.run(self.source, self.seed, self.limits, self.initial))]


def collect(
    tasks: Sequence[Work],
    jobs: int,
    runs: dict[str, list[Run]],
    told: Callable[[list[tuple[str, Run]]], object],
    interrupts: Interrupts,
    finished: Finished,
    stage: str,
) -> bool:
    """Do all tasks in order and gather their runs by name; return whether all were done.

    told: sees the named runs of each task, and stops by a true answer. finished: what is done already is not done
    again; stage: what tells these tasks from others there.
    """
    kept = [finished.get(f"{stage} {number}") for number in range(len(tasks))]
    results = _results([task for task, done in zip(tasks, kept, strict=True) if done is None], jobs)
    try:
        for number, (task, done) in enumerate(zip(tasks, kept, strict=True)):
            if interrupts.pressed:
                return False
            if done is not None:
                found = [(name, Run.of(state)) for name, state in done]
            else:
                # methods heed Ctrl-C on their own; workers and functions do not
                with interrupts.raising() if jobs > 1 or task.foreign else nullcontext():
                    found = next(results)
                if not any(run.status is Status.INTERRUPTED for _, run in found):
                    finished.add(f"{stage} {number}", [(name, run.state()) for name, run in found])
            for name, run in found:
                if run.status is Status.INTERRUPTED:
                    runs.setdefault(name, [run])  # beside whole runs it would count as one
                    return False
            for name, run in found:
                runs.setdefault(name, []).append(run)
            if told(found):
                return False
    except KeyboardInterrupt:
        logger.info("interrupted; the runs so far are compared")
        return False
    except BrokenExecutor as error:
        raise MethodError(
            f"a worker process died, perhaps because it ran out of memory: {error}; use fewer jobs"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of the runs that are given up, which is what was asked for
            results.close()
    return True


def _results(tasks: Sequence[Work], jobs: int) -> Generator[list[tuple[str, Run]], None, None]:
    """Return what the tasks find, in their order."""
    if jobs == 1:
        return (task.run() for task in tasks)
    from multiprocessing.resource_tracker import ensure_running

    from joblib import Parallel, delayed

    from lpmert.system.interrupts import kept_from_children

    ensure_running()  # would be started with the workers, and lets all signals through again

    # max_nbytes: arrays mapped into memory are read-only, for which all kernels would be compiled anew
    parallel = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)
    with kept_from_children():
        found: Generator[list[tuple[str, Run]], None, None] = parallel(delayed(task.run)() for task in tasks)
    return found
