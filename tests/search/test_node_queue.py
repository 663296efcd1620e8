"""Nodes that wait and batches that are out: what goes out first, how much work each unit is for, what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lpmert.search.node_queue import Call, NodeQueue
from lpmert.workers import Pending, Shared, T, Unit, Workers, using


@dataclass(frozen=True)
class Part:
    bound: int
    nbytes: int = 10


def _answer(_: object, parts: list[Part]) -> list[Part]:
    return parts


class Sent:
    """Calls for batches, and remembers each unit's nodes and work."""

    def __init__(self) -> None:
        self.units: list[tuple[list[int], int]] = []

    def __call__(self, parts: list[Part], work: int) -> Call[list[Part]]:
        self.units.append(([part.bound for part in parts], work))
        return _answer, (parts,)


def queue_of(places: int, batch: int, unit: int, local_units: int = 0) -> NodeQueue[Part, list[Part]]:
    queue: NodeQueue[Part, list[Part]] = NodeQueue(places, batch, unit, local_units)
    queue.share(None)
    return queue


def test_units_grow_with_those_that_went_out_while_many_parts_wait() -> None:
    queue = queue_of(4, 2, 100)
    queue.push(Part(k) for k in range(600))
    sent = Sent()
    for taken in range(300):
        queue.send(sent)
        queue.take(sent)
        assert queue.size * 100 == sent.units[taken][1]
    assert not len(queue)
    assert [bound for bounds, _ in sent.units for bound in bounds] == list(range(600))
    work = [work for _, work in sent.units]
    assert work[:16] == [100] * 16  # short searches end as soon as ever
    assert work[16:24] == [200] * 8
    most = work.index(800)
    assert work[:most] == sorted(work[:most])
    assert max(work) == 800  # nobody waits for ever longer ones


def test_a_unit_is_for_no_more_than_parts_wait_for_each_place() -> None:
    queue = queue_of(4, 2, 100)
    sent = Sent()
    queue.push(Part(k) for k in range(600))
    for _ in range(300):
        queue.send(sent)
        queue.take(sent)
    assert [work for _, work in sent.units[-20:]] == [
        *(800, 800, 800, 800),  # 38, 36, 34, 32 wait
        *(700, 700, 600, 600),
        *(500, 500, 400, 400),
        *(300, 300, 200, 200),
        *(100, 100, 50, 50),  # 6, 4, 2, none
    ]


def test_few_parts_that_places_share_are_looked_at_again_soon() -> None:
    queue = queue_of(4, 8, 100)
    sent = Sent()
    for _ in range(100):  # four parts wait, as at the end of a search: one for each place
        queue.push([Part(1), Part(2), Part(3), Part(4)])
        queue.send(sent)
        for _ in range(4):
            queue.take(sent)
    assert [bounds for bounds, _ in sent.units[-4:]] == [[1], [2], [3], [4]]
    assert {work for _, work in sent.units} == {50}


def test_every_unit_is_for_some_work() -> None:
    queue = queue_of(1, 1, 1)
    queue.push([Part(1)])
    sent = Sent()
    queue.send(sent)
    assert sent.units == [([1], 1)]


def test_what_is_out_is_counted_until_its_answer_is_taken() -> None:
    queue = queue_of(2, 2, 100)
    queue.push(Part(k) for k in (3, 1, 2, 5, 4))
    sent = Sent()
    queue.send(sent)
    assert [bounds for bounds, _ in sent.units] == [[1, 2], [3, 4]]
    assert (len(queue), queue.least_bound, queue.nbytes) == (5, 1, 50)
    assert [part.bound for part in queue.take(sent)] == [1, 2]
    assert (len(queue), queue.least_bound, queue.nbytes) == (3, 3, 30)


class Far(Workers):
    """Workers who take long to start, and write down what they get."""

    remote = True

    def __init__(self) -> None:
        self.got: list[Any] = []

    def share(self, value: object) -> Shared:
        self.got.append(value)
        return super().share(value)

    def submit(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        self.got.append([part.bound for part in arguments[0]])  # type: ignore[attr-defined]
        return super().submit(unit, shared, *arguments)


def test_what_has_not_begun_is_sent_away_when_the_caller_has_done_its_units() -> None:
    far, sent = Far(), Sent()
    with using(far):
        queue = queue_of(4, 1, 100, local_units=3)
        queue.push(Part(k) for k in range(9))
        assert [part.bound for _ in range(2) for part in queue.take(sent)] == [0, 1]
        assert far.got == []
        assert [part.bound for part in queue.take(sent)] == [2]
        assert far.got == [None, [3], [4], [5]]  # what is shared, and in their order those that were out
        assert [part.bound for _ in range(6) for part in queue.take(sent)] == [3, 4, 5, 6, 7, 8]
    assert far.got[4:] == [[6], [7], [8]]
    assert [bounds for bounds, _ in sent.units] == [[k] for k in range(9)]
