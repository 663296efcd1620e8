"""What the units of work of one search cost, recorded while somebody does them: what simulations are made of."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple

from lpmert.workers import SERIAL, Pending, Shared, T, Unit, Workers


class Piece(NamedTuple):
    """A unit of work. seconds: of the processor, to do it; sent, received: bytes of what it is called with and of its
    answer; packing: seconds of whoever hands it out, to make bytes of the one and, about as long as making them, to
    read the other. bound: the least of its parts'; found: the cost of the weights that it met, `None` if it met none
    that were better. parents: the units that its parts are left of. worker: who did it; begin, end: when, in seconds
    of the wall clock since the search began.
    """

    seconds: float
    sent: int
    received: int
    packing: float
    bound: int
    found: int | None
    parents: tuple[int, ...]
    worker: int = 0
    begin: float = 0.0
    end: float = 0.0


class Event(NamedTuple):
    """What whoever hands out does: works for `seconds` of the processor, `wall` by the wall clock, then hands a unit
    out or waits for its answer; -1: ends.
    """

    seconds: float
    unit: int
    taken: bool
    wall: float = 0.0


@dataclass(frozen=True)
class Record:
    """All units of a search, and the order in which they were handed out and taken. first: what the best weights cost
    when the first unit went out; granularity: by how much costs differ at least; shared: bytes that each worker gets;
    at_home: so many units whoever hands out would do alone, before any goes to workers who are far.
    """

    pieces: tuple[Piece, ...]
    events: tuple[Event, ...]
    first: int
    granularity: int
    shared: int
    at_home: int = 0

    @property
    def done_alone(self) -> float:
        """Seconds of whoever hands out: before the first unit, between units, and after the last."""
        return sum(event.seconds for event in self.events)

    @property
    def done_in_units(self) -> float:
        """Seconds of all units."""
        return sum(piece.seconds for piece in self.pieces)

    @property
    def before_units(self) -> float:
        """Seconds before the first unit is handed out."""
        return self.events[0].seconds if self.events else 0.0

    @property
    def by_wall(self) -> Record:
        """The same search with what the wall clock showed, however often units and caller had to wait for a core."""
        return replace(
            self,
            pieces=tuple(piece._replace(seconds=piece.end - piece.begin) for piece in self.pieces),
            events=tuple(event._replace(seconds=event.wall) for event in self.events),
        )

    def to_json(self) -> list[Any]:
        """Return the record as lists."""
        return list(astuple(self))

    @classmethod
    def of(cls, kept: list[Any]) -> Record:
        """Return the record that `to_json` made such lists of."""
        pieces, events, *rest = kept
        return cls(
            tuple(Piece(*piece)._replace(parents=tuple(piece[6])) for piece in pieces),
            tuple(Event(*event) for event in events),
            *rest,
        )


class _Timed(NamedTuple):
    """An answer, the processor seconds of its unit, who did it, and when it began and ended: all processes of a machine
    have the same clock.
    """

    answer: Any
    seconds: float
    worker: tuple[int, int]
    begin: float
    end: float


def _timed(shared: Any, unit: Unit[Any], *arguments: object) -> _Timed:
    begin, before = time.perf_counter(), time.thread_time()
    answer = unit(shared, *arguments)
    seconds = time.thread_time() - before
    return _Timed(answer, seconds, (os.getpid(), threading.get_ident()), begin, time.perf_counter())


class Recorder(Workers):
    """Others, who do the units, and what each cost.

    Made for the units of `cells` and `choices`, which are called with parts, the cost to be undercut and more. Others,
    such as the descents that a search begins with, are not recorded: they count as the work of whoever hands out.
    packed: whether to find out, too, what messages would hold, and which unit parts are left of; this takes whoever
    hands out some time, which is not counted.
    """

    def __init__(self, workers: Workers = SERIAL, *, packed: bool = True) -> None:
        self.jobs, self.remote = workers.jobs, workers.remote
        self._workers, self._packed = workers, packed
        self._pieces: dict[int, Piece] = {}
        self._events: list[Event] = []
        self._makers: dict[int, tuple[object, int]] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._first: int | None = None
        self._out = self._shared = 0
        self._began = time.perf_counter()
        self._go_on()

    @property
    def pids(self) -> Sequence[int]:
        return self._workers.pids

    def share(self, value: object) -> Shared:
        if self._packed:
            self._shared = len(_packed(value)[0])
        return self._workers.share(value)

    def submit(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        if not _has_parts(arguments):
            return self._workers.submit(unit, shared, *arguments)
        number = self._out
        self._out += 1
        self._note(number, taken=False)
        parts: Any = arguments[0]
        cost: Any = arguments[1]
        if self._first is None:
            self._first = cost
        sent, packing = _packed(arguments) if self._packed else (b"", 0.0)
        makers = [self._makers[id(part)][1] for part in parts if id(part) in self._makers]
        known = Piece(0.0, len(sent), 0, packing, min(part.bound for part in parts), cost, tuple(sorted(set(makers))))
        self._go_on()
        return _Recorded(self, number, known, self._workers.submit(_timed, shared, unit, *arguments))

    def close(self) -> None:
        """Leave those who did the units to whoever hired them."""

    def record(self, granularity: int, at_home: int = 0) -> Record:
        """Return what was recorded, at the end of the search; granularity, at_home: as in `Record`."""
        self._note(-1, taken=True)
        pieces = tuple(self._pieces[number] for number in sorted(self._pieces))
        return Record(pieces, tuple(self._events), self._first or 0, granularity, self._shared, at_home)

    def asked(self, number: int) -> None:
        """Write down that somebody waits for the answer to a unit."""
        self._note(number, taken=True)

    def answered(self, number: int, known: Piece, timed: _Timed) -> None:
        """Write down what a unit cost; known: what was known of it before, with the cost to be undercut as `found`."""
        answer = timed.answer
        received, more = _packed(answer) if self._packed else (b"", 0.0)
        self._pieces[number] = known._replace(
            seconds=round(timed.seconds, 6),
            received=len(received),
            packing=round(known.packing + more, 6),
            found=answer.cost if known.found is None or answer.cost < known.found else None,
            worker=self._numbers.setdefault(timed.worker, len(self._numbers)),
            begin=round(timed.begin - self._began, 6),
            end=round(timed.end - self._began, 6),
        )
        if self._packed:  # the part is kept, so that no other gets its identity
            left = answer.nodes
            self._makers |= {id(part): (part, number) for part in left}
        self._go_on()

    def _note(self, unit: int, *, taken: bool) -> None:
        seconds, wall = time.thread_time() - self._since, time.perf_counter() - self._wall
        self._events.append(Event(round(seconds, 6), unit, taken, round(wall, 6)))

    def _go_on(self) -> None:
        self._since, self._wall = time.thread_time(), time.perf_counter()


class _Recorded(Pending[T]):
    """A unit that is written down when its answer is asked for, and when it is there."""

    def __init__(self, recorder: Recorder, number: int, known: Piece, pending: Pending[_Timed]) -> None:
        self._recorder, self._number, self._known, self._pending = recorder, number, known, pending
        self._asked = self._answered = False

    def done(self, seconds: float) -> bool:
        if not self._asked:
            self._asked = True
            self._recorder.asked(self._number)
        return self._pending.done(seconds)

    def answer(self) -> T:
        timed = self._pending.answer()
        if not self._answered:
            self._answered = True
            self._recorder.answered(self._number, self._known, timed)
        answer: T = timed.answer
        return answer

    def give_up(self) -> None:
        self._pending.give_up()


def _has_parts(arguments: Sequence[object]) -> bool:
    parts = arguments[0] if arguments else None
    return isinstance(parts, list) and bool(parts) and all(hasattr(part, "bound") for part in parts)


def _packed(value: object) -> tuple[bytes, float]:
    """Return the bytes that a value is sent as, and the seconds that it takes to make them."""
    begin = time.thread_time()
    content = pickle.dumps(value, protocol=5)
    return content, time.thread_time() - begin


def summary(record: Record) -> Mapping[str, float]:
    """Return how many units there were, their seconds, the longest, and the seconds of whoever handed them out."""
    return {
        "units": len(record.pieces),
        "in units": record.done_in_units,
        "longest": max((piece.seconds for piece in record.pieces), default=0.0),
        "alone": record.done_alone,
    }
