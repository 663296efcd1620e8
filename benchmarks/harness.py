"""Objective, dataset and solver, as in benchopt: the harness times the solver and judges its answer itself.

A benchmark is a list of tasks: one solver on one dataset under one objective. Solvers are warmed up before the clock
starts, as their first call loads modules and may compile.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any, NamedTuple

import lpmert
from benchmarks import machine
from benchmarks.machine import limit_memory
from benchmarks.rows import Key, Row
from benchmarks.tables import Figure, Table

Data = Any  # what a dataset holds: N-best lists for most objectives
_MEMORY = 8 << 30  # bytes that the separate process of a task may hold; if it needs more, the row says that it failed

_GRACE_SECONDS = 180.0
"""The separate process of a task is ended so long after its time limit: it also loads, warms up and reports."""

_LOADED: dict[str, Data] = {}  # data that are loaded, by the names of their datasets


@dataclass(frozen=True)
class Dataset:
    """Data by name. make: makes them; skip: why they are missing, or `None`."""

    name: str
    make: Callable[[], Data]
    skip: Callable[[], str | None] = lambda: None

    def load(self) -> Data:
        """Return the data, the same object every time."""
        if self.name not in _LOADED:
            _LOADED[self.name] = self.make()
        return _LOADED[self.name]

    def then(self, name: str, change: Callable[[Data], Data]) -> Dataset:
        """Return the data that a function makes of these."""
        return Dataset(name, lambda: change(self.load()), self.skip)


@dataclass(frozen=True)
class Answer:
    """What a solver returns: weights [D], or whatever the objective judges; the solver claims its status and bound."""

    weights: Any
    status: str
    lower_bound: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


class Judgement(NamedTuple):
    """Loss and score of an answer, computed by the harness; `None` where there is nothing to judge."""

    loss: float | None = None
    score: float | None = None
    details: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    judge: computes loss and score of an answer that has weights, from the data alone. problem: makes the problem that
    most solvers solve. prepare: does what belongs to the question rather than to the answer, before the clock starts.
    """

    name: str
    judge: Callable[[Data, Answer], Judgement] = lambda *_: Judgement()
    problem: Callable[[Data], Any] = lambda data: data
    prepare: Callable[[Data], object] = lambda _: None


@dataclass(frozen=True)
class Solver:
    """One way to minimise.

    solve: returns the answer for data, objective, seed and time limit; this alone is timed. warm_up: does once whatever
    takes longer the first time. skip: why the solver cannot or should not try data and objective, or `None`.
    """

    name: str
    solve: Callable[[Data, Objective, int, float], Answer]
    warm_up: Callable[[], object] = lambda: None
    skip: Callable[[Data, Objective], str | None] = lambda *_: None


@dataclass(frozen=True)
class Task:
    """One solver on one dataset. optimum: the proved optimum, if known; proof: whether the solver must prove it.

    easier: the key of a task that needs less time; if that task was cut short, this one is not tried.
    """

    dataset: Dataset
    objective: Objective
    solver: Solver
    seed: int = 0
    time_limit: float = 60.0
    optimum: float | None = None
    proof: bool = False
    easier: Key | None = None

    @property
    def key(self) -> Key:
        """What identifies the task within its benchmark."""
        return self.dataset.name, self.objective.name, self.solver.name, self.seed

    def done_by(self, row: Row) -> bool:
        """Whether a row of this key settles the task: it was not cut short, or had at least as much time."""
        return not row.cut_short or row.time_limit >= self.time_limit


@dataclass(frozen=True)
class Benchmark:
    """Tasks, and how their rows are shown.

    source: the paper and its table or figure, or an empty string. apart: whether every task has a separate process,
    which is ended when it overruns its time. resumes: whether tasks that have a row are done. tolerance: by how much a
    proved loss may differ from the known optimum, relatively.
    """

    name: str
    title: str
    tasks: Callable[[], Iterable[Task]]
    render: Callable[[list[Row]], Iterable[Table | Figure]]
    source: str = ""
    apart: bool = False
    resumes: bool = True
    tolerance: float = 1e-9


def measure(task: Task) -> Row:
    """Warm up, solve with the clock running, and judge; raises `MethodError` if the solver cannot take the task."""
    data = task.dataset.load()
    task.objective.prepare(data)
    task.solver.warm_up()
    gc.collect()
    load, date = machine.load(), datetime.now(UTC)
    memory = machine.PeakMemory()
    processor_begin, begin = machine.processor_seconds(), time.perf_counter()
    answer = task.solver.solve(data, task.objective, task.seed, task.time_limit)
    seconds, processor_seconds = time.perf_counter() - begin, machine.processor_seconds() - processor_begin
    peak = memory.bytes()
    judgement = Judgement() if answer.weights is None else task.objective.judge(data, answer)
    return _row_of(
        task,
        status=answer.status,
        loss=judgement.loss,
        score=judgement.score,
        lower_bound=answer.lower_bound,
        seconds=seconds,
        processor_seconds=processor_seconds,
        peak_bytes=peak,
        counters=dict(answer.counters),
        details={**answer.details, **judgement.details},
        load=load,
        date=date.isoformat(timespec="seconds"),
    )


def measure_apart(task: Task, again: Callable[[Key], Task]) -> Row:
    """Measure in a separate process, where `again` finds the task by its key; a row says so if it is ended or fails."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    load, date = machine.load(), datetime.now(UTC)
    process = context.Process(target=_work, args=(again, task.key, task.time_limit, sender))
    process.start()
    sender.close()
    try:
        if receiver.poll(task.time_limit + _GRACE_SECONDS):
            row: Row = receiver.recv()
            return row
        status = "killed"
    except EOFError:
        status = "failed"
    finally:
        process.kill()
        process.join()
    spent = {"seconds": task.time_limit, "processor_seconds": task.time_limit}
    return _row_of(task, status=status, **spent, load=load, date=date.isoformat(timespec="seconds"))


def _work(again: Callable[[Key], Task], key: Key, time_limit: float, sender: Connection) -> None:
    limit_memory(_MEMORY)
    sender.send(measure(replace(again(key), time_limit=time_limit)))


def present_version() -> str:
    """Return version and commit of the measured package."""
    return f"{lpmert.__version__} {machine.revision()}".strip()


def _row_of(task: Task, **measured: Any) -> Row:
    processor = machine.processor()
    return Row(
        *task.key, task.time_limit, version=present_version(), cores=machine.cores(), processor=processor, **measured
    )


def ladder(tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield tasks that need more and more time: once one is cut short, those after it are not tried."""
    easier = None
    for task in tasks:
        yield replace(task, easier=easier)
        easier = task.key


def contradictions(row: Row, task: Task, tolerance: float) -> Iterator[str]:
    """Yield how a row contradicts the known optimum, or itself."""
    optimum = task.optimum
    if row.proved and row.details.get("outside"):
        yield "the weights called optimal lie outside of the region"
    slack = tolerance * max(1.0, abs(optimum or row.loss or 0.0))
    if row.loss is not None and row.lower_bound is not None and row.lower_bound > row.loss + slack:
        yield f"the bound {row.lower_bound!r} is above the loss {row.loss!r} that its weights give"
    if task.proof and not row.proved:
        yield f"no proof within {row.time_limit:g} seconds: {row.status}"
    if optimum is None:
        return
    if row.proved and (row.loss is None or abs(row.loss - optimum) > slack):
        yield f"{row.loss!r} is called optimal, the known optimum is {optimum!r}"
    elif row.loss is not None and row.loss < optimum - slack:
        yield f"the loss {row.loss!r} is below the known optimum {optimum!r}"
    if row.lower_bound is not None and row.lower_bound > optimum + slack:
        yield f"the bound {row.lower_bound!r} is above the known optimum {optimum!r}"


def disagreements(rows: Iterable[Row], tolerance: float) -> Iterator[str]:
    """Yield how rows of the same question contradict a proof: by a smaller loss, a greater bound or another proof."""
    questions: dict[tuple[str, str], list[tuple[float, Row]]] = {}
    for row in rows:
        if row.loss is not None:
            questions.setdefault((row.dataset, row.objective), []).append((row.loss, row))
    for (dataset, objective), answers in questions.items():
        proof = next((answer for answer in answers if answer[1].proved), None)
        if proof is None:
            continue
        optimum, prover = proof
        slack = tolerance * max(1.0, abs(optimum))
        for loss, row in answers:
            smaller = loss < optimum - slack
            another = row.proved and loss > optimum + slack
            above = row.lower_bound is not None and row.lower_bound > optimum + slack
            if smaller or another or above:
                yield (
                    f"{dataset} ({objective}): {row.solver} has loss {loss!r} and bound {row.lower_bound!r}, "
                    f"{prover.solver} proves {optimum!r}"
                )
