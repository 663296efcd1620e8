"""Leave-one-out: against all selections that weights attain, in exact arithmetic."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import oracle
import pytest

import lpmert
from lpmert import LimitError, MethodError, MetricError, NBest, Region, Status
from lpmert.search.driver import Below, search_below


def _lists(seed: int, n_features: int, n_lists: int = 5, *, coarse: bool = False) -> NBest:
    rng = np.random.default_rng([seed, n_features])
    sizes = rng.integers(2, 5, n_lists)
    shape = (int(sizes.sum()), n_features)
    features = rng.integers(-1, 2, shape).astype(float) if coarse else rng.normal(size=shape).round(2)
    losses = rng.integers(0, 5, shape[0]).astype(float)
    return NBest(features, [0, *np.cumsum(sizes)], losses, names=["a", "b", "c"][:n_features])


def _exact(lists: NBest, limits: Any = ()) -> tuple[list[float], list[float]]:
    """The largest loss of each list at the optima of all others, and the loss of each selection."""
    losses = lists.statistics.ravel()
    attained = oracle.attainable(lists.dense_features().tolist(), lists.offsets.tolist(), limits)
    every = [losses[list(rows)] for rows in attained]
    left_out = []
    for place in range(lists.n_lists):
        least = min(one.sum() - one[place] for one in every)
        left_out.append(max(one[place] for one in every if one.sum() - one[place] == least))
    return left_out, [one.sum() for one in every]


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_each_list_costs_what_the_dearest_optimum_of_the_others_does(seed: int, n_features: int, coarse: bool) -> None:
    lists = _lists(seed, n_features, coarse=coarse)
    found = lpmert.leave_one_out(lists)
    left_out, losses = _exact(lists)
    assert found.complete
    assert found.most.tolist() == found.least.tolist() == left_out
    assert found.loss == sum(left_out)
    assert found.optimum.loss == found.fitted.sum() == min(losses)
    assert found.n_changed == sum(a > b for a, b in zip(left_out, found.fitted.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_weights_stay_in_the_region_and_losses_may_be_quarters(seed: int) -> None:
    lists = _lists(seed, 3)
    quarters = NBest(lists.features, lists.offsets, lists.statistics / 4.0 - 1.0, names=lists.names)
    found = lpmert.leave_one_out(quarters, region=Region(nonnegative=True))
    limits = [tuple(Fraction(int(k == d)) for k in range(3)) for d in range(3)]
    assert found.most.tolist() == _exact(quarters, limits)[0]


def test_methods_agree_and_lists_whose_hypotheses_all_cost_the_same_cost_that() -> None:
    lists = _lists(3, 3)
    wanted = _exact(lists)[0]
    for method in ("cells", "choices", "lp-mert", "mip"):
        assert lpmert.leave_one_out(lists, method=method).most.tolist() == wanted
    found = lpmert.leave_one_out(NBest([[1.0], [2.0], [3.0]], [0, 2, 3], [2.0, 2.0, 5.0]))
    assert (found.complete, found.most.tolist()) == (True, [2.0, 5.0])


def test_identical_hypotheses_count_as_the_ties_say() -> None:
    """As if the hypotheses that do not represent them were not there."""
    lists = _lists(1, 2)
    twice, losses = np.repeat(np.arange(len(lists.features)), 2), lists.statistics.ravel()
    more = np.where(np.arange(len(twice)) % 2 == 1, losses[twice] + np.arange(len(twice)) % 3, losses[twice])
    both = NBest(lists.features[twice], lists.offsets * 2, more, names=lists.names)
    alone = NBest(lists.features, lists.offsets, np.maximum(more[::2], more[1::2]), names=lists.names)
    assert lpmert.leave_one_out(both).most.tolist() == _exact(lists)[0]
    assert lpmert.leave_one_out(both, ties="worst").most.tolist() == _exact(alone)[0]


def test_invalid_problems_are_refused_by_leave_one_out() -> None:
    """Losses that are rounded away beside larger ones would make the others' optima wrong."""
    lists = _lists(0, 2)
    thirds = NBest(lists.features, lists.offsets, lists.statistics / 3.0)
    pairs = NBest(lists.features, lists.offsets, np.column_stack([lists.statistics, lists.statistics + 1.0]))
    rounded = NBest([[0.0], [1.0], [0.0], [1.0]], [0, 2, 4], [[0.0], [2.0**62], [0.0], [0.4]], names=["a"])
    for data, settings, error, said in (
        (lists, {"method": "och"}, MethodError, "proves nothing"),
        (_lists(0, 3, 6), {"time_limit": 0.0}, LimitError, "the optimum of all lists is not proved"),
        (thirds, {}, MetricError, "make them counts"),
        (pairs, {"metric": "error-rate"}, MetricError, "a sum over lists"),
        (rounded, {}, MetricError, "losses have so many digits"),
    ):
        with pytest.raises(error, match=said):
            lpmert.leave_one_out(data, **settings)


def test_after_a_stop_the_other_lists_stay_open() -> None:
    lists, seen = _lists(0, 3), []
    stopped = lpmert.leave_one_out(lists, on_stage=lambda _, done, parts: not seen.append((done, parts)))
    assert (len(seen), seen[0][1], stopped.complete, stopped.loss) == (1, 5, False, None)


def unfinished(found: Below, _: float) -> Below:
    return replace(found, result=None, status=Status.TIME_LIMIT)


def to_tolerance(found: Below, cutoff: float) -> Below:
    """Without a bound, or with one that weights may undercut."""
    if found.result is None:
        return replace(found, bound=cutoff - 1.0)
    return replace(found, result=replace(found.result, status=Status.OPTIMAL_TO_TOLERANCE))


@pytest.mark.parametrize("ending", [unfinished, to_tolerance])
def test_lists_whose_search_proves_nothing_lie_between_bounds(ending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = _lists(1, 2)
    whole, dearest = lpmert.leave_one_out(lists), np.maximum.reduceat(lists.statistics.ravel(), lists.offsets[:-1])
    unclear = whole.fitted < dearest
    assert {*(whole.most > whole.fitted)[unclear].tolist()} == {False, True}
    below = "lpmert.api.search_below"
    monkeypatch.setattr(below, lambda *given: ending(search_below(*given), given[1]))
    found = lpmert.leave_one_out(lists)
    assert not found.complete
    assert found.least.tolist() == found.fitted.tolist() == whole.fitted.tolist()
    assert found.most.tolist() == np.where(unclear, dearest, whole.fitted).tolist()
