"""The caller begins alone, and workers who are far get all that has not begun as soon as it has done enough."""

from __future__ import annotations

from lpmert.parallel.home import home_first
from lpmert.parallel.workers import SERIAL, Pending, Serial, Shared, T, Unit


class Far(Serial):
    """Workers who write down what they get."""

    far = True

    def __init__(self) -> None:
        self.shared: list[object] = []
        self.got: list[tuple[object, ...]] = []

    def share(self, value: object) -> Shared:
        self.shared.append(value)
        return super().share(value)

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        self.got.append(arguments)
        return super().hand_out(unit, shared, *arguments)


def added(shared: int, number: int) -> int:
    return shared + number


def test_what_has_not_begun_is_sent_away_when_the_caller_has_done_its_units() -> None:
    far = Far()
    hands = home_first(far, 3)
    shared = hands.share(100)
    pending = [hands.hand_out(added, shared, number) for number in range(8)]
    assert [one.wait() for one in pending[:2]] == [100, 101]
    assert (far.shared, far.got) == ([], [])
    assert pending[2].wait() == 102
    assert far.shared == [100]
    assert far.got == [(number,) for number in range(3, 8)]  # in their order, though nobody has asked for them
    pending.append(hands.hand_out(added, shared, 8))
    assert far.got[-1] == (8,)
    assert [one.wait() for one in pending] == list(range(100, 109))
    assert far.shared == [100]
    assert len(far.got) == 6


def test_those_who_are_near_get_everything() -> None:
    assert home_first(SERIAL, 3) is SERIAL
