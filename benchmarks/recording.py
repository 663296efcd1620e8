"""What the units of work of one search cost, recorded while one thread does them: what simulations are made of."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

from lpmert.parallel.workers import Pending, Serial, Shared, T, Unit


class Piece(NamedTuple):
    """A unit of work. seconds: of the processor, to do it; sent, received: bytes of what it is called with and of its
    answer; packing: seconds of whoever hands it out, to make bytes of the one and, about as long as making them, to
    read the other. bound: the least of its parts'; found: the cost of the weights that it met, `None` if it met none
    that were better. parents: the units that its parts are left of.
    """

    seconds: float
    sent: int
    received: int
    packing: float
    bound: int
    found: int | None
    parents: tuple[int, ...]


class Event(NamedTuple):
    """What whoever hands out does: works for `seconds`, then hands a unit out or waits for its answer; -1: ends."""

    seconds: float
    unit: int
    taken: bool


@dataclass(frozen=True)
class Record:
    """All units of a search, and the order in which they were handed out and taken. first: what the best weights cost
    when the first unit went out; granularity: by how much costs differ at least; shared: bytes that each worker gets.
    """

    pieces: tuple[Piece, ...]
    events: tuple[Event, ...]
    first: int
    granularity: int
    shared: int

    @property
    def done_alone(self) -> float:
        """Seconds of whoever hands out: before the first unit, between units, and after the last."""
        return sum(event.seconds for event in self.events)

    @property
    def done_in_units(self) -> float:
        """Seconds of all units."""
        return sum(piece.seconds for piece in self.pieces)

    def to_json(self) -> list[Any]:
        """Return the record as lists."""
        return list(astuple(self))

    @classmethod
    def of(cls, kept: list[Any]) -> Record:
        """Return the record that `to_json` made such lists of."""
        pieces, events, first, granularity, shared = kept
        return cls(
            tuple(Piece(*[*piece[:-1], tuple(piece[-1])]) for piece in pieces),
            tuple(Event(*event) for event in events),
            first,
            granularity,
            shared,
        )


class Recorder(Serial):
    """The caller, who does each unit when its answer is asked for and writes down what it cost.

    Made for the units of `cells`, which are called with parts, the cost to be undercut, its weights and a budget.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, Piece] = {}
        self._events: list[Event] = []
        self._makers: dict[int, tuple[object, int]] = {}
        self._first: int | None = None
        self._granularity = 1
        self._shared = 0
        self._since = time.process_time()

    def share(self, value: Any) -> Shared:
        self._granularity = value.settings.granularity
        self._shared = len(_packed(value)[0])
        return super().share(value)

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        number = sum(not event.taken for event in self._events)
        self._note(number, taken=False)
        parts: Any = arguments[0]
        cost: Any = arguments[1]
        if self._first is None:
            self._first = cost
        pending: Pending[T] = _Recorded(
            self, number, unit, shared, arguments, [self._makers.get(id(part)) for part in parts]
        )
        self._since = time.process_time()
        return pending

    def record(self) -> Record:
        """Return what was recorded, at the end of the search."""
        self._note(-1, taken=True)
        pieces = tuple(self._pieces[number] for number in sorted(self._pieces))
        return Record(pieces, tuple(self._events), self._first or 0, self._granularity, self._shared)

    def _note(self, unit: int, *, taken: bool) -> None:
        self._events.append(Event(round(time.process_time() - self._since, 6), unit, taken))

    def do(self, number: int, work: Any, shared: Any, arguments: Any, makers: list[tuple[object, int] | None]) -> Any:
        """Do a unit and write it down."""
        self._note(number, taken=True)
        parts, cost = arguments[0], arguments[1]
        sent, packing = _packed(arguments)
        begin = time.thread_time()
        answer = work(shared.value, *arguments)
        seconds = time.thread_time() - begin
        received, more = _packed(answer)
        self._pieces[number] = Piece(
            round(seconds, 6),
            len(sent),
            len(received),
            round(packing + more, 6),
            min(part.bound for part in parts),
            answer.cost if answer.cost < cost else None,
            tuple(sorted({maker[1] for maker in makers if maker is not None})),
        )
        # the part is kept, so that no other gets its identity
        self._makers |= {id(part): (part, number) for part in answer.parts}
        self._since = time.process_time()
        return answer


class _Recorded(Pending[T]):
    """A unit that is done, and written down, when its answer is asked for."""

    def __init__(self, recorder: Recorder, *unit: Any) -> None:
        self._recorder, self._unit = recorder, unit
        self._answer: list[Any] = []

    def done(self, seconds: float) -> bool:  # noqa: ARG002
        if not self._answer:
            self._answer.append(self._recorder.do(*self._unit))
        return True

    def answer(self) -> T:
        answer: T = self._answer[0]
        return answer


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
