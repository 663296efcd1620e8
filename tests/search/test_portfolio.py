"""Two searches in turns: effort goes where the bound rises, the other keeps a share, and nothing is timed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from benchmarks import datasets
from lpmert.methods.auto import _HEAD_START, _LEAST, Auto, Engine, Portfolio
from lpmert.methods.choices.choices import Choices
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent
from lpmert.search.method import Incumbent, Search, Task

COST = 8000


class Rising(Search):
    """A search whose bound rises by so much for each unit of effort, from that of its root on."""

    root = 0

    def __init__(self, incumbent: Incumbent, rise: float) -> None:
        self.incumbent, self._rise, self._done = incumbent, rise, 0.0

    @property
    def effort(self) -> float:
        return self._done

    @property
    def lower_bound(self) -> int:
        return min(COST, self.root + int(self._rise * self._done))

    @property
    def finished(self) -> bool:
        return self.lower_bound >= COST

    def advance(self) -> None:
        self._done += 1.0


def portfolio_of(first: Search, second: Search) -> Portfolio:
    return Portfolio(cast(Engine, first), lambda: cast(Engine, second), first.incumbent)


def in_turns(first: float, second: float, most_turns: int = 20_000) -> tuple[Portfolio, float, float]:
    """Let searches with these paces work until one is finished; return the portfolio, and what each has done."""
    incumbent = Incumbent(COST, CanonicalWeights(np.ones(1)), "L")
    searches = [Rising(incumbent, pace) for pace in (first, second)]
    portfolio = portfolio_of(*searches)
    for _ in range(most_turns):
        if portfolio.finished:
            break
        portfolio.advance()
    return portfolio, searches[0].effort, searches[1].effort


@pytest.mark.parametrize("paces", [(0.5, 4.0), (4.0, 0.5)])
def test_most_effort_goes_to_the_search_whose_bound_will_soon_meet_the_cost(paces: tuple[float, float]) -> None:
    portfolio, *done = in_turns(*paces)
    assert portfolio.finished
    quicker = int(paces[1] > paces[0])
    assert done[quicker] == pytest.approx(COST / 4.0, abs=1)
    assert done[1 - quicker] < 0.5 * done[quicker]


def test_a_search_whose_bound_never_rises_costs_the_second_as_much_again_and_the_first_a_seventh() -> None:
    _, risen, still = in_turns(1.0, 0.0)
    assert risen == COST
    assert _LEAST * COST < still <= COST / 7 + 1
    _, still, risen = in_turns(0.0, 1.0)
    assert risen == COST
    assert _LEAST * COST < still <= 1.1 * COST + _HEAD_START


def test_where_neither_bound_rises_half_of_the_effort_goes_to_the_higher_one() -> None:
    """The second search leads by its root, and its pace counts only after its own head start."""
    incumbent = Incumbent(COST, CanonicalWeights(np.ones(1)), "L")
    for leads, share in ((False, _LEAST), (True, 0.5)):
        first, second = Rising(incumbent, 0.0), Rising(incumbent, 0.0)
        second.root = COST // 2 if leads else 0
        portfolio = portfolio_of(first, second)
        while second.effort < _HEAD_START - 1:
            portfolio.advance()
        assert second.effort / (first.effort - _HEAD_START) == pytest.approx(share / (1.0 - share), rel=0.1)


def test_a_search_that_ends_within_its_head_start_stays_alone() -> None:
    assert in_turns(2.0 * COST / _HEAD_START, 1.0)[2] == 0.0


def test_a_portfolio_goes_on_as_it_would_have() -> None:
    kept: dict[str, Any] = dict(in_turns(1.0, 2.0, 60)[0].state())
    incumbent = Incumbent(COST, CanonicalWeights(np.ones(1)), "L")
    searches = [Rising(incumbent, pace) for pace in (1.0, 2.0)]
    again = portfolio_of(*searches)
    again.restore(kept)
    assert again.state() == kept


def test_auto_soon_has_the_bound_of_choices_at_its_root() -> None:
    problem = Problem(datasets.generated(400, 20, 7).load())
    task = Task(problem, problem.canonical, lambda: first_incumbent(problem, 0, None))
    alone = Choices().start(task)
    while alone.nodes <= 1:
        alone.advance()
    root = alone.lower_bound
    auto, cones = Auto(improving=0.0).start(task), Auto().cells.on_lists(task)
    while auto.effort < _HEAD_START / 2:
        auto.advance()
    while cones.effort < _HEAD_START:
        cones.advance()
    assert auto.lower_bound >= root > cones.lower_bound
