"""What a comparison has to do: runs of methods and their judgement, units of work of the workers of the call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lpmert.comparing.comparison import Difference
from lpmert.comparing.foreign import Source
from lpmert.comparing.run import Run
from lpmert.comparing.significance import bootstrap_interval, permutation_test
from lpmert.errors import FloatArray
from lpmert.metrics.base import Metric
from lpmert.model.canonical import CallerWeights
from lpmert.result import Limits, Status
from lpmert.system.deadline import Deadline
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance
from lpmert.system.threads import one_thread
from lpmert.unseen.material import AnyProblem, chosen_statistics
from lpmert.workers import SERIAL, Pending, current_workers

logger = logging.getLogger("lpmert")


Ground = TypeVar("Ground", contravariant=True)


class Work(Protocol[Ground]):
    """A part of a comparison; foreign: whether functions of the caller take part."""

    @property
    def foreign(self) -> bool: ...

    def run(self, ground: Ground) -> list[tuple[str, Run]]:
        """Return runs by the names of what made them. ground: what all parts share."""


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
    limits: Limits
    initial: CallerWeights | None

    @property
    def foreign(self) -> bool:
        """Whether it is a function of the caller."""
        return self.source.foreign

    def run(self, judge: Judge) -> list[tuple[str, Run]]:
        """Return the run."""
        with one_thread():
            return [(self.source.name, judge.run(self.source, self.seed, self.limits, self.initial))]


def _done(ground: Any, task: Work[Any]) -> list[tuple[str, Run]]:
    """Do a part of a comparison; the unit of work."""
    return task.run(ground)


def collect(
    ground: Ground,
    tasks: Sequence[Work[Ground]],
    runs: dict[str, list[Run]],
    told: Callable[[list[tuple[str, Run]]], object],
    interrupts: Interrupts,
    memory: Allowance | None = None,
) -> bool:
    """Have all tasks done and gather their runs by name, in order; return whether all were done.

    ground: what they share. told: sees the named runs of each task, and stops by a true answer. memory: what this
    process and its workers may hold; where it is spent, no more is done.
    """
    workers, over = current_workers(), False
    pending: list[Pending[list[tuple[str, Run]]]] = []
    with Deadline(stop=lambda: over or interrupts.pressed, memory=memory).running() as deadline:
        try:
            shared = workers.share(ground)
            pending = [workers.submit(_done, shared, task) for task in tasks]
            for task, one in zip(tasks, pending, strict=True):
                # methods heed Ctrl-C on their own; functions that the caller has to wait for do not
                with interrupts.raising() if workers is SERIAL and task.foreign else nullcontext():
                    in_time = one.in_time()
                    if deadline.out_of_memory:  # which may have cut this run short, too
                        logger.warning("the memory limit is near; the runs so far are compared")
                        return False
                    if not in_time:
                        return False
                    found = one.answer()
                if interrupts.pressed and workers is not SERIAL:
                    return False  # a run that heeded it would look like one that a limit has stopped
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
        finally:
            over = True  # threads that are still at work heed it
            for one in pending:
                one.give_up()
    return True
