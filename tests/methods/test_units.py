"""Long searches over cones go on in units: any number of threads gives the same search and the same answer."""

from collections.abc import Iterator

import pytest
from long_searches import long_searches, problem_of, same

import lpmert
from lpmert import Status
from lpmert.methods.cells import nodes
from lpmert.methods.cells.cells import Cells
from lpmert.methods.cells.nodes import NodeSearch
from lpmert.system.memory import Allowance


@pytest.fixture(autouse=True)
def _units_at_once() -> Iterator[None]:
    with long_searches():
        yield


@pytest.mark.parametrize("shape", ["simplices", "boxes"])
def test_no_search_takes_more_room_once_the_memory_is_spent(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(7, 400)
    whole = lpmert.minimize(nbest, method=Cells(shape=shape))
    monkeypatch.setattr(nodes, "_ROOM", 1)
    grown = lpmert.minimize(nbest, method=Cells(shape=shape))
    assert same(whole, grown)  # what there is room for in the beginning makes no difference
    asked = 0

    def spent(_: Allowance) -> bool:
        nonlocal asked
        asked += 1
        return asked > 20

    monkeypatch.setattr(Allowance, "spent", property(spent))
    cut = lpmert.minimize(nbest, method=Cells(shape=shape))
    assert cut.status is Status.MEMORY_LIMIT
    assert cut.lower_bound < whole.loss <= cut.loss
    assert lpmert.evaluate(nbest, cut.weights).loss == cut.loss


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken unit")

    monkeypatch.setattr(NodeSearch, "explore", broken)
    with pytest.raises(RuntimeError, match="broken unit"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)
