"""Parts that wait and hands that are out: what goes out first, how much work each unit is for, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.parallel.workers import SERIAL, Pending, Shared
from lpmert.search.frontier import Frontier


@dataclass(frozen=True)
class Part:
    bound: int
    nbytes: int = 10


def _answer(_: object, parts: list[Part]) -> list[Part]:
    return parts


class Sent:
    """Hands parts out, and remembers each unit's parts and work."""

    def __init__(self) -> None:
        self.units: list[tuple[list[int], int]] = []

    def __call__(self, parts: list[Part], work: int) -> Pending[list[Part]]:
        self.units.append(([part.bound for part in parts], work))
        return SERIAL.hand_out(_answer, Shared(None), parts)


def test_units_grow_with_those_that_went_out_while_many_parts_wait() -> None:
    frontier: Frontier[Part, list[Part]] = Frontier(4, 2, 100)
    frontier.push(Part(k) for k in range(600))
    sent = Sent()
    for taken in range(300):
        frontier.send(sent)
        frontier.take()
        assert frontier.size * 100 == sent.units[taken][1]
    assert not len(frontier)
    assert [bound for bounds, _ in sent.units for bound in bounds] == list(range(600))
    work = [work for _, work in sent.units]
    assert work[:16] == [100] * 16  # short searches end as soon as ever
    assert work[16:24] == [200] * 8
    most = work.index(800)
    assert work[:most] == sorted(work[:most])
    assert max(work) == 800  # nobody waits for ever longer ones


def test_a_unit_is_for_no_more_than_parts_wait_for_each_place() -> None:
    frontier: Frontier[Part, list[Part]] = Frontier(4, 2, 100)
    sent = Sent()
    frontier.push(Part(k) for k in range(600))
    for _ in range(300):
        frontier.send(sent)
        frontier.take()
    assert [work for _, work in sent.units[-20:]] == [
        *(800, 800, 800, 800),  # 38, 36, 34, 32 wait
        *(700, 700, 600, 600),
        *(500, 500, 400, 400),
        *(300, 300, 200, 200),
        *(100, 100, 50, 50),  # 6, 4, 2, none
    ]


def test_few_parts_that_places_share_are_looked_at_again_soon() -> None:
    frontier: Frontier[Part, list[Part]] = Frontier(4, 8, 100)
    sent = Sent()
    for _ in range(100):  # four parts wait, as at the end of a search: one for each place
        frontier.push([Part(1), Part(2), Part(3), Part(4)])
        frontier.send(sent)
        for _ in range(4):
            frontier.take()
    assert [bounds for bounds, _ in sent.units[-4:]] == [[1], [2], [3], [4]]
    assert {work for _, work in sent.units} == {50}


def test_every_unit_is_for_some_work() -> None:
    frontier: Frontier[Part, list[Part]] = Frontier(1, 1, 1)
    frontier.push([Part(1)])
    sent = Sent()
    frontier.send(sent)
    assert sent.units == [([1], 1)]


def test_what_is_out_is_counted_until_its_answer_is_taken() -> None:
    frontier: Frontier[Part, list[Part]] = Frontier(2, 2, 100)
    frontier.push(Part(k) for k in (3, 1, 2, 5, 4))
    sent = Sent()
    frontier.send(sent)
    assert [bounds for bounds, _ in sent.units] == [[1, 2], [3, 4]]
    assert (len(frontier), frontier.least_bound, frontier.nbytes) == (5, 1, 50)
    assert [part.bound for part in frontier.take()] == [1, 2]
    assert (len(frontier), frontier.least_bound, frontier.nbytes) == (3, 3, 30)
