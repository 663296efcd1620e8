"""Long searches over cones go on in units: any number of threads gives the same search and the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from long_searches import counted, long_searches, noise_of, problem_of, same
from oracle import best_loss
from problems import random_lists

import lpmert
from lpmert import Status
from lpmert.methods.cells import cells, units
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.cells.nodes import faces
from lpmert.methods.cells.units import NodeSearch
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent
from lpmert.system.memory import Allowance

UNCHANGED = {name: getattr(cells, name) for name in ("_SLICE", "_ALONE", "_UNIT", "_ANSWERS", "_SHORT")}
"""What long searches of tests cut short."""


@pytest.fixture(autouse=True)
def _units_at_once() -> Iterator[None]:
    with long_searches():
        yield


@pytest.mark.parametrize("shape", ["simplices", "boxes"])
def test_no_search_takes_more_room_once_the_memory_is_spent(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(7, 400)
    whole = lpmert.minimize(nbest, method=Cells(shape=shape))
    monkeypatch.setattr(units, "_ROOM", 1)
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
    assert cut.lower_bound is not None
    assert cut.lower_bound < whole.loss <= cut.loss
    assert lpmert.evaluate(nbest, cut.weights).loss == cut.loss


@pytest.mark.parametrize(
    ("metric", "shape"), [("loss", "simplices"), ("loss", "boxes"), ("bleu", "simplices"), ("bleu", "boxes")]
)
def test_a_long_search_keeps_all_units_out(metric: str, shape: str) -> None:
    problem = Problem(problem_of(1, 200) if metric == "loss" else counted(1, metric), metric)
    most = (
        int(problem.canonical.costs.max()) * problem.canonical.n_lists + 1
        if problem.canonical.additive
        else problem.canonical.cost_of_loss(1.0)
    )
    start = Incumbent(most, np.ones(problem.canonical.n_features), "")
    search = CellsSearch(Cells(shape=shape, units=3), problem.canonical, start)
    out = set()
    while not search.finished:
        search.advance()
        out.add(len(search._queue._out))
    assert max(out) == 3
    assert search.lower_bound == search.incumbent.cost


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken unit")

    monkeypatch.setattr(NodeSearch, "explore", broken)
    with pytest.raises(RuntimeError, match="broken unit"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)


def test_searches_that_begin_with_little_room_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(4, 120)
    expected = lpmert.minimize(nbest, method="cells")
    monkeypatch.setattr(units, "_ROOM", 1)
    assert same(expected, lpmert.minimize(nbest, method="cells", jobs=2))
    for kind in ("ulps", "opposite"):  # cones closed in exact arithmetic too
        lists = random_lists(kind, 3, most_lists=6, most_features=4)
        result = lpmert.minimize(lists.nbest, method=Cells(leaf_lists=1, stalled_splits=1), jobs=2)
        assert result.loss >= float(best_loss(lists)) - 1e-9 * float(np.abs(lists.losses).sum())


def test_a_cone_that_better_weights_have_ruled_out_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(problem_of(1))
    search = CellsSearch(Cells(), problem.canonical, Incumbent(1 << 40, np.ones(problem.canonical.n_features), ""))
    nodes = search._nodes
    nodes.load_root(next(faces(problem.canonical.n_features)))
    nodes.prune_root(search.incumbent.cost)
    nodes.hard = True
    search.incumbent.cost = nodes.top_bound
    monkeypatch.setattr(search, "_start_closing", lambda: pytest.fail("closed for nothing"))
    search.advance()
    assert nodes.n_nodes == 0


def test_most_of_a_long_search_is_for_workers_in_pieces_that_nobody_waits_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work is counted, as hypotheses of boxes that were split, not timed."""
    for name, work in UNCHANGED.items():
        monkeypatch.setattr(cells, name, work)
    explored: list[int] = []

    def counting(*arguments: Any) -> units.Explored:
        answer = units.explore(*arguments)
        explored.append(answer.counts.looked_at)
        return answer

    monkeypatch.setattr(cells, "explore", counting)
    problem = Problem(noise_of(1, 130))
    start = Incumbent(problem.canonical.dearest + 1, CanonicalWeights(np.ones(5)), "")
    search = CellsSearch(Cells(), problem.canonical, start)
    answers = []
    while not search.finished:
        before = len(explored)
        search.advance()
        answers.append(len(explored) - before)
    everything = search._count.looked_at
    assert sum(explored) > 0.75 * everything
    assert max(explored) < 0.12 * everything
    assert max(answers) == 4  # a turn beside other searches
