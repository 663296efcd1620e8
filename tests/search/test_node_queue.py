"""Open nodes of searches in units: what may hold an improvement stays open, whatever memory and threads there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from long_searches import long_searches, problem_of, same

import lpmert
from lpmert import Status
from lpmert.methods.cells import nodes
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.cells.nodes import NodeSearch
from lpmert.methods.choices.choices import Choices, Common, search_batch
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Answer, Call, Divisible, OpenNode, ParallelSearch
from lpmert.system.memory import Allowance

WEIGHTS = CanonicalWeights(np.zeros(1))


class _Beginning(Divisible):
    """A search whose costs are multiples of 2, with one open node."""

    granularity = 2
    unsettled = None
    finished = False
    nodes = open_nodes = lps = lower_bound = 0

    def __init__(self) -> None:
        self.incumbent = Incumbent(10, WEIGHTS, "")

    def open_parts(self) -> list[OpenNode]:
        return [_node(0)]

    def advance(self) -> None: ...

    def counters(self) -> Mapping[str, int]:
        return {}


class _InUnits(ParallelSearch):
    lower_bound = 0
    _long = True

    def _common(self) -> object:
        return None

    def _call(self, nodes: list[OpenNode], work: int) -> Call[Answer]:  # noqa: ARG002
        return _divide, (nodes,)


def _node(bound: int) -> OpenNode:
    return OpenNode(bound, np.zeros(1))


def _divide(_: object, nodes: list[OpenNode]) -> Answer:
    """Leave nodes of all bounds up to the incumbent's cost."""
    bounds = range(11) if nodes[0].bound == 0 else ()
    return Answer([_node(bound) for bound in bounds], 10, WEIGHTS, "", None, {})


def test_nodes_that_an_improvement_fits_into_stay_open_and_no_others() -> None:
    search: Any = _InUnits(_Beginning(), places=1, batch=1, unit=1)
    search.advance()  # begins units
    search.advance()  # takes the answer to the first
    assert sorted(node.bound for node in search._queue.nodes()) == list(range(9))  # 8 is the next cost below 10


def test_a_unit_searches_a_node_whose_bound_is_the_next_lower_cost() -> None:
    lists = problem_of(1, 8, 3)
    form, whole = Problem(lists).canonical, lpmert.minimize(lists)
    assert whole.status is Status.OPTIMAL
    least = int(whole.loss / form.unit) - form.constant
    common = Common(Choices(), form)
    (node, *_) = common.search(Incumbent(form.dearest, CanonicalWeights(np.zeros(3)), "")).open_parts()
    known = least + form.granularity, np.zeros(3)
    found = search_batch(common, [node._replace(bound=least)], *known, 10**8)
    assert found.cost == least


def test_cones_that_wait_for_exact_arithmetic_count_in_the_bound() -> None:
    form = Problem(problem_of(1, 8, 3)).canonical
    search = CellsSearch(Cells(), form, Incumbent(form.dearest, CanonicalWeights(np.ones(3)), ""), roots=[])
    assert search.finished
    search._hard.append(_node(0))
    assert search.lower_bound == 0
    assert not search.finished


@pytest.fixture
def units_at_once() -> Iterator[None]:
    with long_searches():
        yield


@pytest.mark.usefixtures("units_at_once")
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


@pytest.mark.usefixtures("units_at_once")
def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken unit")

    monkeypatch.setattr(NodeSearch, "explore", broken)
    with pytest.raises(RuntimeError, match="broken unit"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)
