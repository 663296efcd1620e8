"""Long searches over cones go on in several lanes: any number of threads gives the same search and the same answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from strategies import KINDS, best_loss, random_lists, short_descent

import lpmert
from lpmert import Result, Status
from lpmert.methods.auto import Auto
from lpmert.methods.cells import cells
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

SLICE = 2000
COUNTED = ("nodes", "lps", "leaves", "cut_off", "exact_leaves")


@pytest.fixture(autouse=True)
def _lanes_at_once() -> Iterator[None]:
    """Small problems in all lanes, in short slices, from weights that leave much to be found."""
    with short_descent(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("lpmert.search.start._FEWEST", 1)
        patch.setattr("lpmert.search.start._MOST", 1)
        patch.setattr(cells, "_SLICE", SLICE)
        patch.setattr(cells, "_STAY", 2 * SLICE)
        patch.setattr(cells, "_ONE_LANE_WORK", 0)
        yield


def problem_of(seed: int, n_lists: int = 60, n_features: int = 4) -> lpmert.NBest:
    rng = np.random.default_rng(seed)
    n = 12 * n_lists
    features = rng.normal(size=(n, n_features))
    quality = features @ rng.normal(size=n_features) + rng.normal(size=n)
    return lpmert.NBest(features, np.arange(0, n + 1, 12), np.clip(np.rint(2 - quality), 0, None))


def counted(seed: int, metric: str) -> lpmert.NBest:
    """A problem with the statistics of a metric that is not additive."""
    lists = problem_of(seed, 40 if metric == "f1" else 12, 3)
    rng = np.random.default_rng(seed)
    n = len(lists.dense_features())
    if metric == "f1":
        predicted, gold = rng.integers(1, 6, n), np.repeat(rng.integers(1, 6, lists.n_lists), 12)
        statistics = np.stack([rng.binomial(np.minimum(predicted, gold), 0.5), predicted, gold], axis=1)
    else:  # totals of each order with their matches, and for chrF those of the reference between them
        totals = rng.integers(8, 14, (n, 1)) - np.arange(4 if metric == "bleu" else 6)
        matches = rng.binomial(totals, rng.random((n, 1)))
        reference = np.repeat(rng.integers(8, 14, lists.n_lists), 12)[:, None]
        of_reference = np.maximum(matches, reference - np.arange(totals.shape[1]))
        of_order = (matches, totals) if metric == "bleu" else (totals, of_reference, matches)
        statistics = np.stack(of_order, axis=2).reshape(n, -1)
        statistics = np.hstack([statistics, reference]) if metric == "bleu" else statistics
    return lpmert.NBest(lists.dense_features(), lists.offsets, statistics.astype(float))


def same(first: Result, second: Result) -> bool:
    """Whether two searches went the same way, bit for bit."""
    return (
        first.weights.tobytes() == second.weights.tobytes()
        and [point[1:] for point in first.trace] == [point[1:] for point in second.trace]
        and all(first.counters[name] == second.counters[name] for name in COUNTED)
        and first.signature == second.signature
    )


@pytest.mark.parametrize(
    "method", ["cells", "auto", Cells(shape="simplices"), Cells(shape="simplices", cuts=0, leaf_lists=3)], ids=str
)
@pytest.mark.parametrize("seed", range(3))
def test_any_number_of_threads_gives_the_same_search(method: str | Cells, seed: int) -> None:
    nbest = problem_of(seed)
    results = [lpmert.minimize(nbest, method=method, jobs=jobs) for jobs in (1, 2, 3, 16)]
    assert results[0].status is Status.OPTIMAL
    assert results[0].counters["nodes"] > 100
    assert all(same(results[0], other) for other in results[1:])


@pytest.mark.parametrize("metric", ["bleu", "chrf", "f1"])
def test_any_number_of_threads_gives_the_same_search_for_ratios(metric: str) -> None:
    nbest = counted(1, metric)
    results = [lpmert.minimize(nbest, metric=metric, method="cells", jobs=jobs) for jobs in (1, 2, 4)]
    assert results[0].status is Status.OPTIMAL
    assert results[0].counters["nodes"] > 100
    assert all(same(results[0], other) for other in results[1:])
    selections = lpmert.minimize(nbest, metric=metric, method="choices")
    assert selections.status is Status.OPTIMAL
    assert results[0].loss == selections.loss


@pytest.mark.parametrize(("metric", "limit"), [("loss", 400), ("bleu", 100)])
def test_a_search_that_a_limit_ends_is_the_same_too(metric: str, limit: int) -> None:
    nbest = problem_of(5, 200) if metric == "loss" else counted(2, metric)
    results = [lpmert.minimize(nbest, metric=metric, method="cells", node_limit=limit, jobs=jobs) for jobs in (1, 2, 4)]
    assert results[0].status is Status.NODE_LIMIT
    assert results[0].lower_bound is not None
    assert results[0].lower_bound < results[0].loss
    assert same(results[0], results[1])
    assert same(results[0], results[2])


def test_lanes_find_what_one_lane_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(7)
    many = lpmert.minimize(nbest, method="cells", jobs=2)
    monkeypatch.setattr(cells, "_ONE_LANE_WORK", 1 << 60)
    one = lpmert.minimize(nbest, method="cells")
    assert many.loss == one.loss == many.lower_bound == one.lower_bound


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_lanes_hold_to_brute_force(kind: str, seed: int) -> None:
    lists = random_lists(kind, seed, most_lists=5, most_features=4)
    least = float(best_loss(lists))
    for method in (Cells(), Cells(leaf_lists=1, stalled_splits=1)):
        result = lpmert.minimize(lists.nbest, method=method, jobs=2)
        assert result.lower_bound is not None
        slack = 1e-12 * float(np.abs(lists.losses).sum())
        assert result.lower_bound - slack <= least <= result.loss + slack
        assert result.status.finished


@pytest.mark.parametrize(("metric", "shape"), [("loss", "simplices"), ("loss", "boxes"), ("bleu", "auto")])
def test_a_long_search_opens_lanes_and_all_of_them_work(
    metric: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: set[int] = set()
    explore = AnyLane.explore

    def noted(lane: AnyLane[Any], cost: int, budget: int) -> None:
        worked.add(id(lane))
        explore(lane, cost, budget)

    monkeypatch.setattr(AnyLane, "explore", noted)
    problem = Problem(problem_of(1, 200) if metric == "loss" else counted(1, metric), metric)
    most = (
        int(problem.canonical.costs.max()) * problem.canonical.n_lists + 1
        if problem.canonical.additive
        else problem.canonical.cost_of_loss(1.0)
    )
    start = Incumbent(most, np.ones(problem.canonical.n_features), "")
    search = CellsSearch(Cells(shape=shape), problem.canonical, start)
    while not search.finished:
        search.advance()
    assert len(worked) == cells._LANES
    assert search.lower_bound == search.incumbent.cost


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken lane")

    monkeypatch.setattr(AnyLane, "explore", broken)
    with pytest.raises(RuntimeError, match="broken lane"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)


def test_lanes_that_begin_small_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(4, 120)
    expected = lpmert.minimize(nbest, method="cells")
    monkeypatch.setattr(cells, "_LANE_ROWS", 5)
    assert same(expected, lpmert.minimize(nbest, method="cells", jobs=2))
    for kind in ("ulps", "opposite"):  # cones closed in exact arithmetic, from small lanes too
        lists = random_lists(kind, 3, most_lists=6, most_features=4)
        result = lpmert.minimize(lists.nbest, method=Cells(leaf_lists=1, stalled_splits=1), jobs=2)
        assert result.loss >= float(best_loss(lists)) - 1e-9 * float(np.abs(lists.losses).sum())


def test_lanes_need_little_more_memory_than_one() -> None:
    search = CellsSearch(Cells(), Problem(problem_of(1, 3000)).canonical, Incumbent(1 << 40, np.ones(4), ""))
    one = search.memory
    search._widen()
    assert search.memory < 2 * one


def test_a_cone_that_better_weights_have_ruled_out_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(problem_of(1))
    search = CellsSearch(Cells(), problem.canonical, Incumbent(1 << 40, np.ones(problem.canonical.n_features), ""))
    search._fill_lanes()
    (lane,) = search._lanes
    lane.closing = True
    search.incumbent.cost = lane.top().bound
    monkeypatch.setattr(search, "_start_closing", lambda _: pytest.fail("closed for nothing"))
    search.advance()
    assert lane.n_parts == 0


def test_jobs_are_no_part_of_what_a_method_is() -> None:
    assert Cells(jobs=4) == Cells()
    assert "jobs" not in Cells(jobs=4, cuts=2).settings()
    assert Auto().with_jobs(3).cells.jobs == 3
    assert Auto().with_jobs(3).settings() == "auto"
    assert replace(Auto(), cells=Cells(cuts=2)).with_jobs(3).cells.cuts == 2
