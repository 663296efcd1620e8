"""Discrete-event simulations of more workers than there are, driven by what units of work were recorded to cost.

`in_order` does what lpmert does: so many hands are out at once, and their answers are taken in the order in which they
went out. `stealing` is what it does not do: every worker keeps the parts that its units leave, those with the least
bound first; whoever has none takes the best one of the worker that has the best, and weights that are found are told to
all. Neither knows of memory that is shared, clocks that slow down, or machines that fail.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from benchmarks.recording import Piece, Record


@dataclass(frozen=True)
class Network:
    """latency: seconds that a message takes; bandwidth: bytes a second; far: whether workers are other processes, so
    that whoever hands out does the first units alone, and has to make bytes of what is sent.
    """

    latency: float = 0.0
    bandwidth: float = inf
    far: bool = True

    def seconds(self, n_bytes: int) -> float:
        """Return what a message of so many bytes takes."""
        return self.latency + n_bytes / self.bandwidth


THREADS = Network(far=False)


class Outcome(NamedTuple):
    """seconds: to the end; busy: of all workers, at units; sent: bytes of all messages; units: that were done;
    steals: parts that moved.
    """

    seconds: float
    busy: float
    sent: int
    units: int
    steals: int = 0


def in_order(record: Record, workers: int, network: Network = THREADS) -> Outcome:
    """Return what the recorded search takes with so many workers beside the one who hands out; with one worker that is
    the same. Workers take what has been handed out in its order.
    """
    units = len(record.pieces)
    if workers == 1:
        return Outcome(record.done_alone + record.done_in_units, record.done_in_units, 0, units)
    now, sent = 0.0, 0
    free = [0.0] * workers
    answered: dict[int, float] = {}
    waiting: deque[int] = deque()
    left = record.at_home if network.far else 0  # that are done before any is sent
    for event in record.events:
        now += event.seconds
        if not 0 <= event.unit < units:  # the end, or one that was handed out in vain
            continue
        if not event.taken:
            waiting.append(event.unit)
        elif left:
            now += record.pieces[waiting.popleft()].seconds
            left -= 1
        else:
            now = max(now, answered[event.unit])
        while waiting and not left:
            unit = waiting.popleft()
            piece = record.pieces[unit]
            now += piece.packing if network.far else 0.0
            begin = max(heapq.heappop(free), now + network.seconds(piece.sent))
            heapq.heappush(free, begin + piece.seconds)
            answered[unit] = begin + piece.seconds + network.seconds(piece.received)
            sent += piece.sent + piece.received
    return Outcome(now, record.done_in_units, sent, units)


def stealing(
    pieces: Sequence[Piece], workers: int, network: Network = THREADS, *, first: float = inf, granularity: int = 1
) -> Outcome:
    """Return what units of one part each take that workers steal from each other, beginning with all that have no
    parent at one of them.

    A unit is left out if what its worker knows of rules it out; first: what the best weights cost at the beginning. Its
    cost is the recorded one, whatever is known. A thief asks once, and waits for two messages, the second one with the
    part; if nobody has one to spare, it asks when somebody has.
    """
    children: dict[int, list[int]] = {}
    for number, piece in enumerate(pieces):
        children.setdefault(piece.parents[0] if piece.parents else -1, []).append(number)
    stacks: list[list[tuple[int, int]]] = [[] for _ in range(workers)]
    news: list[tuple[float, int, int]] = []  # when, cost, whose
    idle = set(range(workers))
    events: list[tuple[float, int, int]] = []  # when a worker has done or received a unit; who, which
    working: dict[int, int] = {}
    now, busy, sent, steals, done = 0.0, 0.0, 0, 0, 0

    def known(worker: int, when: float) -> float:
        heard = (cost for then, cost, by in news if then + (by != worker) * network.latency <= when)
        return min(heard, default=first)

    def open_parts(worker: int, when: float) -> list[tuple[int, int]]:
        """Return what a worker has, without what it rules out by now; the least bound first."""
        stack = stacks[worker]
        while stack and stack[0][0] > known(worker, when) - granularity:
            heapq.heappop(stack)
        return stack

    def begin(worker: int, unit: int) -> None:
        nonlocal busy, done
        working[worker] = unit
        done += 1
        busy += pieces[unit].seconds
        heapq.heappush(events, (now + pieces[unit].seconds, worker, unit))

    for unit in children.get(-1, []):
        heapq.heappush(stacks[0], (pieces[unit].bound, unit))
    while True:
        for worker in sorted(idle):
            if open_parts(worker, now):
                idle.discard(worker)
                begin(worker, heapq.heappop(stacks[worker])[1])
        for worker in sorted(idle):
            victims = [(stacks[other][0], other) for other in range(workers) if open_parts(other, now)]
            if not victims:
                break
            (_, unit), victim = min(victims)
            heapq.heappop(stacks[victim])
            idle.discard(worker)
            steals += 1
            sent += pieces[unit].sent
            arrives = now + network.latency + network.seconds(pieces[unit].sent)
            heapq.heappush(events, (arrives, worker, unit))
        if not events:
            return Outcome(now, busy, sent, done, steals)
        now, worker, unit = heapq.heappop(events)
        if working.pop(worker, -1) == unit:
            found = pieces[unit].found
            if found is not None and found < known(worker, now):
                news.append((now, found, worker))
            for child in children.get(unit, []):
                heapq.heappush(stacks[worker], (pieces[child].bound, child))
        else:
            heapq.heappush(stacks[worker], (pieces[unit].bound, unit))
        idle.add(worker)
