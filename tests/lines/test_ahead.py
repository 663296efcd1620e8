"""Descents that workers begin ahead: the outcome is that of one descent after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from long_searches import counted, lattices_of, problem_of, same, with_workers

import lpmert
from lpmert import Result, Status
from lpmert.methods.heuristic.derivative_free import NelderMead
from lpmert.methods.heuristic.och import Och, Stabilised
from lpmert.workers import Pending, Processes, Shared, Threads, Unit, Workers


class Watched(Threads):
    """Threads that count what they are given, and what is given up."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.handed_out = 0

    def submit(self, unit: Unit[Any], shared: Shared, *arguments: object) -> Pending[Any]:
        self.handed_out += 1
        return super().submit(unit, shared, *arguments)


@pytest.fixture(autouse=True)
def _sent_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.workers._WORTH_SHARING", 0.0)
    monkeypatch.setattr("lpmert.workers._WORTH_STARTING", 0.0)


def found_by(hands: Workers, nbest: Any, **settings: Any) -> Result:
    with with_workers(hands):
        return lpmert.minimize(nbest, jobs=2, **settings)


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize(
    "method",
    [
        Och(),
        Och(directions="cyclic", stopping="foster-kuhn"),
        Och(directions="powell", walk_share=0.5, restarts=9),
        Stabilised(earlier=[]),
        NelderMead(restarts=4, evaluations=100),
    ],
    ids=lambda method: method.settings(),
)
def test_threads_end_where_one_would(method: Any, jobs: int) -> None:
    for seed in range(4):
        if isinstance(method, Stabilised):
            method.earlier.clear()
        alone = lpmert.minimize(problem_of(seed), method=method, seed=seed)
        hands = Watched(jobs)
        if isinstance(method, Stabilised):
            method.earlier.clear()
        assert same(alone, found_by(hands, problem_of(seed), method=method, seed=seed))
        starts = 5 if isinstance(method, NelderMead) else alone.counters["starts"]
        assert hands.handed_out >= starts - 1


@pytest.mark.parametrize("kind", ["bleu", "f1", "lattices"])
def test_so_they_do_for_ratios_and_lattices(kind: str) -> None:
    data = lattices_of(1) if kind == "lattices" else counted(1, kind)
    metric = None if kind == "lattices" else kind
    for method, counter in ((Och(restarts=5), "starts"), (NelderMead(restarts=5, evaluations=30), "evaluations")):
        alone = lpmert.minimize(data, metric=metric, method=method)
        assert alone.counters[counter] >= 6
        assert same(alone, found_by(Threads(3), data, metric=metric, method=method))


@pytest.mark.parametrize("method", ["och", "nelder-mead"])
def test_so_do_processes(method: str, processes: Processes) -> None:
    alone = lpmert.minimize(problem_of(2), method=method)
    assert same(alone, found_by(processes, problem_of(2), method=method))


@pytest.mark.parametrize("method", ["och", "nelder-mead"])
def test_a_limit_of_steps_ends_all_at_the_same_step(method: str) -> None:
    nbest = problem_of(3, n_lists=20)
    for limit in range(1, 120, 7):
        alone = lpmert.minimize(nbest, method=method, node_limit=limit)
        assert alone.status is Status.NODE_LIMIT
        assert same(alone, found_by(Threads(3), nbest, method=method, node_limit=limit))


def test_descents_that_draw_at_random_are_done_one_after_the_other() -> None:
    hands, method = Watched(2), Och(directions="random", restarts=4)
    assert same(lpmert.minimize(problem_of(1), method=method), found_by(hands, problem_of(1), method=method))
    assert hands.handed_out == 0


@pytest.mark.serial
def test_the_time_limit_holds_while_workers_descend() -> None:
    rng = np.random.default_rng(1)
    nbest = lpmert.NBest(rng.normal(size=(40_000, 6)), np.arange(0, 40_001, 40), rng.integers(0, 9, 40_000))
    lpmert.minimize(nbest, method=Och(restarts=0))  # modules are loaded before
    found = found_by(Threads(2), nbest, method=Och(restarts=10_000), time_limit=0.5)
    assert found.status is Status.TIME_LIMIT
    assert found.seconds["total"] < 3.0
    assert found.counters["starts"] > 1
