"""The order in which lists are looked ahead in saves linear programs and changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import gaussian_lists

import lpmert
from lpmert import NBest, Status
from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.search import SumChoicesSearch
from lpmert.model.problem import Problem
from lpmert.search.start import first_incumbent


def test_lists_that_gain_most_come_first_and_save_programs() -> None:
    """Here they are the last ones, whose losses are the largest."""
    lps = [0, 0]
    for seed in range(6):
        lists = gaussian_lists(seed, lists=9, hypotheses=12, features=6)
        nbest = NBest(lists.features, lists.offsets, lists.losses * np.repeat(np.arange(1, 10) ** 2, 12))
        results = [lpmert.minimize(nbest, method=Choices(by_gain=by_gain)) for by_gain in (False, True)]
        assert [result.status for result in results] == [Status.OPTIMAL] * 2
        assert results[0].loss == results[1].loss
        for k, result in enumerate(results):
            lps[k] += result.counters["lps"]
    assert lps[1] < 0.9 * lps[0]


@pytest.mark.parametrize("by_gain", [False, True])
def test_pauses_change_neither_the_optimum_nor_the_order(by_gain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of one unit of work ends after every node; the order of lists goes on from where it was."""
    for seed in range(3):
        problem = Problem(gaussian_lists(seed, lists=8, hypotheses=10, features=5).nbest)
        found = []
        for work in (4_000_000, 1):
            monkeypatch.setattr("lpmert.methods.choices.search.SLICE", work)
            search = SumChoicesSearch(Choices(by_gain=by_gain), problem.canonical, first_incumbent(problem, 0, None))
            slices = 0
            while not search.finished:
                search.advance()
                slices += 1
            found.append((search.incumbent.cost, search.nodes, search.lps, search.counters()["lp_rounds"]))
        assert found[0] == found[1]
        assert slices > found[0][1] // 2
