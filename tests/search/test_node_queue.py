"""Open nodes of searches in units: what may hold an improvement stays open, whatever memory and threads there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from long_searches import long_searches, problem_of, same

import lpmert
from lpmert import Status
from lpmert.methods.cells import nodes
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.cells.nodes import NodeSearch
from lpmert.methods.choices import choices
from lpmert.methods.choices.choices import Choices, Common, SharedChoices, search_batch
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Answer, OpenNode
from lpmert.system.memory import Allowance


def _node(bound: int) -> OpenNode:
    return OpenNode(bound, np.zeros(1))


def test_nodes_that_an_improvement_fits_into_stay_open_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    form = replace(Problem(problem_of(1, 8, 3)).canonical, step=2)
    assert form.granularity == 2
    weights = CanonicalWeights(np.ones(3))

    def divide(_: object, nodes: list[OpenNode], *known: object) -> Answer:  # noqa: ARG001
        """Leave nodes of all bounds up to the incumbent's cost."""
        bounds = range(11) if nodes[0].bound == 0 else ()
        return Answer([_node(bound) for bound in bounds], 10, weights, "", None, {})

    monkeypatch.setattr(choices, "search_batch", divide)
    search = SharedChoices(Choices(units=1), form, Incumbent(10, weights, ""))
    search.go_on_from(Answer([_node(0)], 10, weights, "", None, {}))
    search.advance()
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
