"""Whose turn it is where two searches go side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lpmert.methods.auto import Portfolio
from lpmert.model.canonical import CanonicalWeights
from lpmert.search.method import Incumbent, Search


class Counting(Search):
    """A search that notes its turns, and is finished after so many."""

    lower_bound = nodes = open_nodes = lps = memory = 0
    phase = "counting"
    unsettled = None

    def __init__(self, name: str, turns: list[str], needed: int) -> None:
        self._name, self._turns, self._left = name, turns, needed

    @property
    def finished(self) -> bool:
        return self._left <= 0

    def advance(self) -> None:
        self._turns.append(self._name)
        self._left -= 1

    def counters(self) -> dict[str, int]:
        return {}


def turns(trial: tuple[int, int, int] | None, needed: tuple[int, int], share: int = 3, most: int = 2000) -> str:
    noted: list[str] = []
    first: Any = Counting("a", noted, needed[0])
    incumbent = Incumbent(1, CanonicalWeights(np.ones(1)), "")
    portfolio = Portfolio(first, lambda: Counting("b", noted, needed[1]), incumbent, share, trial=trial)  # type: ignore[arg-type, return-value]
    while not portfolio.finished and len(noted) < most:
        portfolio.advance()
    return "".join(noted)


def test_without_a_trial_the_second_search_waits_for_long() -> None:
    assert turns(None, (10_000, 10_000), share=3, most=400) == 80 * "a" + 80 * "aaab"


@pytest.mark.parametrize("trial", [(20, 1, 1), (8, 1, 3), (5, 2, 1)])
def test_in_a_trial_rounds_follow_a_short_head_start(trial: tuple[int, int, int]) -> None:
    noted = turns(trial, (10_000, 10_000), most=1000)
    rounds = (trial[1] * "a" + trial[2] * "b") * 64
    assert noted.startswith(trial[0] * "a" + rounds)
    after = noted[trial[0] + len(rounds) :]
    assert 0.24 < after.count("b") / len(after) < 0.26


def test_a_second_search_that_would_end_soon_ends_soon() -> None:
    assert len(turns((20, 1, 3), (10_000, 100))) < 20 + 100 + 100 // 3 + 4
    assert len(turns(None, (10_000, 100))) > 400
    assert len(turns((20, 1, 3), (15, 100))) == 15  # and a first one sooner
