"""The order in which lists are looked ahead in saves linear programs and changes nothing else."""

from __future__ import annotations

import pytest
from problems import gaussian_lists

from lpmert.methods.choices.choices import Choices, SumChoicesSearch
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent


def test_pauses_change_neither_the_optimum_nor_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of one unit of work ends after every node; the order of lists goes on from where it was."""
    for seed in range(3):
        problem = Problem(gaussian_lists(seed, lists=8, hypotheses=10, features=5).nbest)
        found = []
        for work in (4_000_000, 1):
            monkeypatch.setattr("lpmert.methods.choices.choices.SLICE", work)
            search = SumChoicesSearch(Choices(), problem.canonical, first_incumbent(problem, 0, None))
            slices = 0
            while not search.finished:
                search.advance()
                slices += 1
            found.append((search.incumbent.cost, search.nodes, search.lps, search.counters()["lp_rounds"]))
        assert found[0] == found[1]
        assert slices > found[0][1] // 2
