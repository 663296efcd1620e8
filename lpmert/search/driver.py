"""The one driver of all methods: first incumbent, limits, progress, interrupts, checkpoints, and the result.

A checkpoint is the state of a search, from which it is resumed after its process has died. Its file consists of a line
that names the format, a line of JSON, the bytes of all arrays, and the SHA-256 of everything before it. The JSON
identifies the data and the settings; only a search with the same data and settings can resume.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, LpmertError, MethodError, reason_of
from lpmert.files import owned, scratch_file
from lpmert.limits import Allowance, Interrupts, OutOfTime, heeding, unheeded, within
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.canonical import CallerWeights, Canonical, CanonicalWeights
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.problem import Problem
from lpmert.quoting import listed, quoted
from lpmert.registry import METHODS
from lpmert.result import Callback, Limits, Progress, Result, Status, relative_gap
from lpmert.search.combined import FractionSearch
from lpmert.search.incumbent import any_incumbent, first_incumbent
from lpmert.search.method import Enumeration, Incumbent, Method, Search, Task, Watch
from lpmert.search.report import RESOLUTION, Ending, bound_on_loss, result_of
from lpmert.version import __version__

logger = logging.getLogger("lpmert")

FORM = "lpmert checkpoint 3"

_EVERY = 60.0  # seconds between two checkpoints
_SHARE = 0.02  # largest share of the time that writing checkpoints may take

_ARRAY = "array"

_STATE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RuntimeError)

_NO_SUCH = "holds no state of such a search, whatever its checksum says"

State = Mapping[str, Any]
"""What a search needs to resume: numbers, texts, `None`, arrays, and lists, tuples and mappings of these by name."""


class CheckpointFile(NamedTuple):
    """Where checkpoints are written, and whether to resume the search that is already there."""

    path: str | Path
    resume: bool = False


@dataclass
class Checkpoint:
    """The checkpoint file of a search; without a path, nothing is written.

    identity: what must be equal for a search to resume, by name. state: the state to resume from, if any. of_callback:
    an error for which the state is not to blame.
    """

    path: Path | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    state: State | None = None
    of_callback: BaseException | None = None
    _due: float = field(default_factory=lambda: time.monotonic() + _EVERY, init=False)

    def keep(self, state: Callable[[], State], *, now: bool = False) -> None:
        """Write the state if a checkpoint is due, or at the end of the search (`now`). Failures are only logged."""
        began = time.monotonic()
        if self.path is not None and (now or began >= self._due):
            try:
                _write_checkpoint(self.path, self.identity, state())
            except DataError as error:
                then = "no checkpoint was written at the end" if now else "the search continues, and tries again later"
                logger.log(logging.ERROR if now else logging.WARNING, "%s; %s", error, then)
            ended = time.monotonic()
            self._due = ended + max(_EVERY, (ended - began) / _SHARE)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Turn errors in the block into a `DataError` that blames the state, which reading does not check in full."""
        try:
            yield
        except LpmertError:
            raise
        except _STATE_ERRORS as error:
            if self.path is None or self.state is None or error is self.of_callback:
                raise
            raise _refused(f"{_NO_SUCH} ({type(error).__name__}: {quoted(str(error))})", self.path) from error


@contextmanager
def opened(file: CheckpointFile | None, identity: Callable[[], Mapping[str, str]]) -> Iterator[Checkpoint]:
    """Yield the checkpoint of a search with its file locked; raises `DataError` as `state_in`, `MethodError`."""
    if file is None:
        yield Checkpoint()
        return
    if not isinstance(file.path, str | Path):
        raise MethodError(f"checkpoint must be a path, or None; got {quoted(file.path)}")
    path = Path(file.path)
    with owned(path.resolve(), path):
        known = identity()
        yield Checkpoint(path, known, state_in(path, known, resume=file.resume))


def state_in(path: Path, identity: Mapping[str, str], *, resume: bool) -> State | None:
    """Return the state to resume from, if any; raises `DataError` for files of other searches or damaged ones."""
    if not path.exists():
        if resume:
            logger.warning("%s: there is no checkpoint yet; the search begins anew", path)
        return None
    if not path.is_file():
        raise DataError("is no regular file; keep checkpoints in another place", path=path)
    if not resume:
        raise DataError("holds a search already: continue it (resume), or remove the file", path=path)
    header, state = _read_checkpoint(path)
    for name, value in identity.items():
        if (there := header.get(name)) != value:
            change = f"{name}: {quoted(str(there))} there, {quoted(value)} here"
            raise DataError(f"is of another search ({change}); name another file, or use its settings", path=path)
    return state


def _write_checkpoint(path: Path, identity: Mapping[str, str], state: State) -> None:
    arrays = [np.empty(0, dtype=np.uint8)]
    end = 0

    def packed(value: Any) -> Any:
        nonlocal end
        if isinstance(value, np.ndarray):
            begin, end = end, end + value.nbytes
            arrays.append(value.ravel().view(np.uint8))
            return {_ARRAY: [value.dtype.str, begin, *value.shape]}
        if isinstance(value, Mapping):
            return {name: packed(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [packed(entry) for entry in value]
        return value.item() if isinstance(value, np.generic) else value

    header = f"{FORM}\n{json.dumps({**identity, 'state': packed(state)})}\n".encode()
    numbers: Any = np.concatenate(arrays)
    digest = hashlib.sha256(header)
    digest.update(numbers)
    with scratch_file(path.resolve(), path) as sink:
        for part in (header, numbers, digest.digest()):
            sink.write(part)


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], State]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {reason_of(error)}", path=path) from error
    if not data.startswith(f"{FORM}\n".encode()):
        raise _refused("is no checkpoint of this version", path)
    end = max(len(data) - hashlib.sha256().digest_size, 0)
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise _refused("is a damaged checkpoint, or was changed after it was written: its checksum is wrong", path)
    try:
        begin = data.index(b"\n", len(FORM) + 1) + 1
        header = json.loads(data[len(FORM) : begin])

        def unpacked(value: Any) -> Any:
            if isinstance(value, dict):
                if value.keys() == {_ARRAY}:
                    kind, first, *shape = value[_ARRAY]
                    numbers = np.frombuffer(data, kind, math.prod(shape), begin + first)
                    return numbers.reshape(shape).copy()
                return {name: unpacked(entry) for name, entry in value.items()}
            return [unpacked(entry) for entry in value] if isinstance(value, list) else value

        return header, unpacked(header["state"])
    except _STATE_ERRORS as error:
        raise _refused(_NO_SUCH, path) from error


def _refused(trouble: str, path: Path) -> DataError:
    return DataError(f"{trouble}; remove it, or name another", path=path)


REPORT_SECONDS = 0.5  # beyond the time limit, in which the report may move the weights to the centre of their cell
_TRACE = 1000  # most points of a trace: when there are more, every second point is dropped
_PAUSE = 0.1  # least seconds between two calls of the callback within one slice


def solve(
    method: Method,
    problem: AnyProblem,
    limits: Limits | None = None,
    callback: Callback | None = None,
    seed: int = 0,
    initial_weights: CallerWeights | None = None,
    started: float | None = None,
    checkpoint: CheckpointFile | None = None,
) -> Result:
    """Find the least loss on lists or lattices, and prove it if the method does, as far as the limits allow.

    initial_weights: the caller's weights [D] to start from, if they lie in the region. started: the
    `time.perf_counter()` from which the time limit counts. Ctrl-C before the first incumbent ends the search with any
    weights of the region. Raises `MethodError` if the method cannot take the problem or writes no checkpoints,
    `RegionError` for an empty region, `DataError` for a checkpoint of another search.
    """
    if checkpoint is not None and not method.proves:
        trouble = "keeps no checkpoints; those that prove an optimum do: use auto"
        raise MethodError(f"method {quoted(method.name)} {trouble}")

    def identity() -> Mapping[str, str]:
        """Return what must be equal for a search to resume, by names that messages quote."""
        start = "none" if initial_weights is None else hashlib.sha256(initial_weights.tobytes()).hexdigest()
        data = {"data": problem.fingerprint, "metric or region": problem.signature, "method": method.settings()}
        return {**data, "seed": str(seed), "initial weights": start, "version of lpmert": __version__}

    check_fits(method, problem)
    with opened(checkpoint, identity) as saved:
        driver = Driver(method, problem, seed, limits or Limits(), started, callback, saved)
        deadline = driver.deadline
        with driver.interrupts, deadline.running(), saved.restoring():
            prepared = deadline.seconds
            ending = driver.run(initial_weights)
            searched = deadline.seconds
            problem.canonical.drop_cached()
            problem.give_back()
            result = driver.report(ending, initial_weights)
            seconds = {
                **result.seconds,
                "prepare": prepared,
                "incumbent": driver.incumbent_seconds,
                "search": searched - prepared - driver.incumbent_seconds,
                "report": deadline.seconds - searched,
                "total": deadline.seconds,
            }
            return replace(result, resumed=saved.state is not None, seconds=seconds)


def check_fits(method: Method, problem: AnyProblem) -> None:
    """Raise `MethodError` if the method cannot take lattices, or this metric or region."""
    form, who = problem.canonical, f"method {quoted(method.name)}"
    if isinstance(problem, LatticeProblem):
        if not method.takes_lattices:
            capable = listed([name for name in METHODS.own if METHODS.build(name).takes_lattices])
            remedy = f"make them with --n-best or lpmert.n_best; all paths of lattices are searched by {capable}"
            raise MethodError(f"{who} needs N-best lists: {remedy}")
        return
    if not (form.additive or method.takes_ratios or (form.totals.fraction and method.takes_fractions)):
        trouble = f"needs an additive loss, and metric {quoted(problem.metric.name)} is not additive"
        raise MethodError(f"{who} {trouble}; use auto, cells or choices")
    if not (form.cap is None or method.takes_caps):
        raise MethodError(f"{who} cannot keep to a cosine; use auto, choices, cells or lp-mert")


def _start_search(method: Method, task: Task) -> Search:
    """Start the search of a task: the method's, a `FractionSearch` around it, or one that finishes at once."""
    form = task.canonical
    if isinstance(task.problem, LatticeProblem):
        return method.start(task)
    if form.n_features == 0 or form.n_lists == 0:
        return Enumeration(task.incumbent, [None], proves=method.proves)
    if not form.additive and form.totals.fraction and method.takes_fractions:

        def start(lists: Canonical, first: Incumbent) -> Search:
            return method.start(replace(task, canonical=lists, find_incumbent=lambda: first))

        return FractionSearch(form, task.incumbent, start)
    return method.start(task)


@dataclass(eq=False)
class Driver(Watch):
    """Advances a search slice by slice and records its trace; cutoff_cost: only lower costs count."""

    method: Method
    problem: AnyProblem
    seed: int
    limits: Limits
    started: float | None = None
    callback: Callback | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    cutoff_cost: float = inf
    status: Status | None = None
    first_loss: float = inf
    incumbent_seconds: float = 0.0
    _trace: list[tuple[float, float | None, float]] = field(default_factory=list)
    _last_call: float = -inf
    _last_cost: int | None = None

    def __post_init__(self) -> None:
        self.interrupts = Interrupts()
        # As much memory as the features is kept for the report, beyond what the search frees before it.
        memory = Allowance(self.limits.memory_limit, self.problem.canonical.features.nbytes)
        self.deadline = within(self.limits.time_limit, self.started, lambda: self.interrupts.pressed, memory)

    def run(self, initial_weights: CallerWeights | None = None) -> Ending:
        """Start the search of the method, or resume it from the checkpoint, and run it; its memory is freed then."""
        problem, state = self.problem, self.checkpoint.state
        initial = None if initial_weights is None else problem.to_canonical(initial_weights)
        initial = initial if initial is not None and initial.any() else None

        def find_incumbent() -> Incumbent:
            return self._first_weights(initial) if state is None else self._restored_incumbent(state)

        search = _start_search(self.method, Task(problem, problem.canonical, find_incumbent, self, self.seed, initial))
        if state is not None:
            search.restore(state["search"])
            if not state["search"]:
                logger.warning("the checkpoint holds only the best weights of this search: the proof begins anew")
        problem.give_back()
        return self._drive(search)

    def report(self, ending: Ending, initial_weights: CallerWeights | None = None) -> Result:
        with self.deadline.later(REPORT_SECONDS).running():
            return result_of(self.problem, ending, initial_weights)

    def _first_weights(self, initial: CanonicalWeights | None) -> Incumbent:
        problem, began = self.problem, self.deadline.seconds
        try:
            found = first_incumbent(problem, self.seed, initial)
        except KeyboardInterrupt:
            self.interrupts.pressed = True
            found = any_incumbent(problem)
        self.incumbent_seconds = self.deadline.seconds - began
        self.first_loss = problem.canonical.loss_of(found.cost)
        return replace(found, cost=int(min(found.cost, self.cutoff_cost)))

    def _restored_incumbent(self, state: State) -> Incumbent:
        """Return the incumbent of a checkpoint, whose checksum may be right although no search has written it."""
        form = self.problem.canonical
        found = Incumbent.from_state(state)
        if found.weights.shape != (form.n_features,) or not (np.abs(found.weights) <= MAGNITUDE_LIMIT).all():
            raise ValueError(f"weights {found.weights}")
        if isinstance(self.problem, Problem) and form.additive:
            attained = form.attained_cost(found.weights)
            if attained is not None and attained > found.cost:
                raise ValueError(f"weights that cost {attained}, not {found.cost}")
        return found

    def _drive(self, search: Search) -> Ending:
        """Run a search until it has finished, a limit is reached, the callback returns true, or Ctrl-C is pressed.

        Incumbent and bound are valid in every case. A slice that is abandoned in the middle may have improved the
        incumbent; the bound is then the one before that slice.
        """
        bound = search.lower_bound
        try:
            while (status := self._check_limits(search, bound)) is None:
                with self.deadline.running(), heeding():
                    search.advance()
                bound = search.lower_bound
                self.checkpoint.keep(search.saved)
        except OutOfTime:
            status = Status.cut_short(self.deadline, interrupted=self.interrupts.pressed)
        except KeyboardInterrupt:
            logger.info("interrupted; the last incumbent and bound are returned")
            status = Status.INTERRUPTED
        self.checkpoint.keep(search.saved, now=True)
        incumbent = search.incumbent
        bound = None if bound is None else min(bound, incumbent.cost)
        self.note(search, bound)
        return Ending(
            self.method, self.seed, status, incumbent.cost, incumbent.weights, bound, tuple(self._trace),
            search.strict, search.counters(), search.conclude, search.catalogue,
        )  # fmt: skip

    def note(self, search: Search, bound: int | None = None) -> None:
        """Add a point to the trace if bound or loss have changed."""
        if search.known:
            point = self._bound_and_loss(search, bound)
            if not self._trace or point != self._trace[-1][1:]:
                self._trace.append((self.deadline.seconds, *point))
                if len(self._trace) > _TRACE:
                    del self._trace[1:-1:2]

    def poll(self, search: Search) -> bool:
        if self.status is None:
            self.status = self._status_of(search, None)
        if self.status is None and self.deadline.seconds >= self._last_call + _PAUSE:
            self._report_progress(search, None)
        return self.status is not None

    def _check_limits(self, search: Search, bound: int | None) -> Status | None:
        self.note(search, bound)
        if self.status is None:
            self.status = self._status_of(search, bound)
            self._report_progress(search, bound)
        return self.status

    def _bound_and_loss(self, search: Search, bound: int | None) -> tuple[float | None, float]:
        loss_of = self.problem.canonical.loss_of
        return None if bound is None else loss_of(bound), loss_of(search.incumbent.cost)

    def _report_progress(self, search: Search, bound: int | None) -> None:
        if self.callback is None or not search.known:
            return
        lower, loss = self._bound_and_loss(search, bound)
        incumbent = search.incumbent
        source = incumbent.source if self._last_cost is None or incumbent.cost < self._last_cost else ""
        self._last_call, self._last_cost = self.deadline.seconds, incumbent.cost
        point = Progress(
            self._last_call, search.nodes, search.open_nodes, lower, loss, relative_gap(loss, lower), search.lps,
            source, self.problem.to_caller(incumbent.weights), search.phase,
        )  # fmt: skip
        try:
            with unheeded():
                stop = self.callback(point)
        except BaseException as error:
            self.checkpoint.of_callback = error
            raise
        if stop and self.status is None:
            self.status = Status.CALLBACK

    def _status_of(self, search: Search, bound: int | None) -> Status | None:
        if self.interrupts.pressed:
            return Status.INTERRUPTED
        if search.finished:
            if bound is None:
                return Status.HEURISTIC
            return Status.OPTIMAL if search.settled else Status.OPTIMAL_TO_TOLERANCE
        limits = self.limits
        if search.known:
            lower, loss = self._bound_and_loss(search, bound)
            gap = relative_gap(loss, lower)
            if limits.gap is not None and gap is not None and gap <= limits.gap:
                return Status.GAP
            if limits.target is not None and loss <= limits.target:
                return Status.TARGET
        if self.deadline.expired:
            return Status.cut_short(self.deadline, interrupted=self.interrupts.pressed)
        if limits.node_limit is not None and search.nodes >= limits.node_limit:
            return Status.NODE_LIMIT
        return None


@dataclass(frozen=True)
class Below:
    """The outcome of a search below a cut-off.

    result: the best weights found below the cut-off, or `None`. bound: a lower bound on the loss of all weights, -inf
    if none is known. status: how the search ended. least_met: the least loss that it met, even if above the cut-off.
    """

    result: Result | None
    bound: float
    status: Status
    least_met: float


def search_below(problem: Problem, cutoff: float, method: Method, limits: Limits | None = None, seed: int = 0) -> Below:
    """Search lists for a loss below a cut-off, `inf` for any; raises the same errors as `lpmert.minimize`."""
    check_fits(method, problem)
    cutoff_cost, form = inf, problem.canonical
    if cutoff != inf:  # the least cost whose loss is not below; costs are multiples of the granularity
        cost = Fraction(cutoff) / Fraction(form.unit) - form.constant
        cutoff_cost = -(-cost // form.granularity) * form.granularity
    driver = Driver(method, problem, seed, limits or Limits(), cutoff_cost=cutoff_cost)
    with driver.interrupts, driver.deadline.running():
        ending = driver.run()
        if ending.cost >= cutoff_cost:
            return Below(None, _bound_of(problem, cutoff, ending), ending.status, driver.first_loss)
        result = driver.report(ending)
    bound = -inf if result.lower_bound is None else result.lower_bound
    return Below(result if result.loss < cutoff else None, bound, ending.status, result.loss)


def _bound_of(problem: Problem, cutoff: float, ending: Ending) -> float:
    """Return the bound on the loss of all weights after a search that found none below the cut-off."""
    unseen = problem.unseen(cutoff)
    if ending.status is Status.OPTIMAL and not problem.inexact and unseen <= RESOLUTION * abs(cutoff):
        return cutoff
    return -inf if ending.lower_bound is None else bound_on_loss(problem.canonical, ending.lower_bound, unseen)
