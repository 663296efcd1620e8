"""Budgets and fronts: against all attainable selections, enumerated in fractions."""

from fractions import Fraction
from math import ceil, inf
from pathlib import Path

import numpy as np
import pytest
from long_searches import noise_of
from oracle import attainable_totals
from problems import at_odds
from refusals import refused

import lpmert
from lpmert import DataError, LimitError, MethodError, MetricError, NBest, Region, RegionError, Status

SIGNS = Region(bounds={"feature1": (0.0, None), "feature2": (0.0, None)})


def _front(totals: list[list[float]]) -> list[tuple[float, float]]:
    """The Pareto-optimal pairs of both sums, from the least loss on."""
    pairs = sorted({*map(tuple, totals)})
    return [pair for k, pair in enumerate(pairs) if all(pair[1] < before for _, before in pairs[:k])]


def _pairs(front: lpmert.Front) -> list[tuple[float, float]]:
    return [(one.loss, one.sums[front.second]) for one in front.points]


@pytest.mark.parametrize(("n_features", "region"), [*((n, None) for n in (1, 2, 3, 4)), (3, SIGNS)])
@pytest.mark.parametrize("seed", range(6))
def test_a_front_has_all_best_pairs_of_attainable_selections_and_no_others(seed, n_features, region):
    lists, nbest, second = at_odds(seed, n_features)
    limits = [] if region is None else [tuple(map(Fraction, row)) for row in ((1, 0, 0), (0, 1, 0))]
    wanted = _front(attainable_totals(lists, np.column_stack([lists.losses, second]), limits))
    for method in ("auto", "cells", "choices"):
        found = lpmert.pareto(nbest, second, method=method, region=region)
        assert (found.complete, _pairs(found)) == (True, wanted)
        for one in found.points:
            assert (one.status, one.lower_bound) == (Status.OPTIMAL, one.loss)
            at = lpmert.evaluate(nbest, one.weights)
            rows = lists.offsets[:-1] + at.selection
            assert (at.loss, second[rows].sum()) == (one.loss, one.sums["second"])


@pytest.mark.parametrize("feature", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_least_loss_within_a_budget_is_that_of_all_attainable_selections(seed: int, feature: bool) -> None:
    """Also for a feature whose least sum only leaves the cheapest hypotheses."""
    lists, nbest, second = at_odds(seed, 2 + seed % 3)
    name, second = ("feature1", lists.features[:, 0]) if feature else ("second", second)
    totals = attainable_totals(lists, np.column_stack([lists.losses, second]))
    least, largest = (int(end(b for _, b in totals)) for end in (min, max))
    for most in range(least - 1, largest + 2):
        inside = [loss for loss, b in totals if b <= most]
        budget = nbest, name if feature else second, most
        if not inside:
            with pytest.raises(RegionError, match=f"the least sum of any is {least}$"):
                lpmert.within_budget(*budget)
            continue
        found = lpmert.within_budget(*budget)
        assert (found.loss, found.lower_bound, found.status) == (min(inside), min(inside), Status.OPTIMAL)
        (left,) = found.region.values()
        assert 0 <= left == most - found.sums[name]
        assert found.sums[name] == second[lists.offsets[:-1] + found.selection].sum()


@pytest.mark.parametrize("seed", range(4))
def test_sums_may_be_decimals_binary_fractions_or_negative(seed: int) -> None:
    lists, nbest, second = at_odds(seed, 2)
    wanted = lpmert.pareto(nbest, second)
    for scale, shift, more in ((0.1, -0.7, 0.3), (0.25, -3.0, -100.0)):
        losses, others = lists.losses * scale + shift, second * scale + more
        if scale == 0.1:
            losses, others = np.round(losses, 1), np.round(others, 1)
        found = lpmert.pareto(NBest(lists.features, lists.offsets, losses), others)
        pairs = [(loss * scale + shift * lists.n_lists, b * scale + more * lists.n_lists) for loss, b in _pairs(wanted)]
        assert found.complete
        assert np.allclose(_pairs(found), pairs, rtol=0.0, atol=1e-9)


def test_a_budget_is_the_decimal_that_it_prints_as() -> None:
    """As decimals, 0.1 + 0.2 is 0.3; as doubles, it is above the double nearest to 0.3."""
    lists = NBest([[1.0], [2.0]] * 2, [0, 2, 4], [0, 1, 0, 1])
    assert [lpmert.within_budget(lists, [0.1, 0.0, 0.2, 0.0], most).loss for most in (0.3, 0.29)] == [0.0, 2.0]


@pytest.mark.parametrize("seed", range(4))
def test_a_number_of_points_gives_the_best_for_budgets_at_even_steps(seed: int) -> None:
    _, nbest, second = at_odds(seed, 3, 5)
    every = _pairs(lpmert.pareto(nbest, second))
    for points in (1, 2, 3, 5):
        found = lpmert.pareto(nbest, second, points=points)
        assert found.complete
        first, least = every[0][1], every[-1][1]
        wanted = every[:1]
        while len(wanted) < points:
            budget = min(wanted[-1][1] - 1, first - ceil((first - least) * len(wanted) / points))
            if budget <= least:
                break
            wanted.append(next(pair for pair in every if pair[1] <= budget))
        assert (_pairs(found), found.least) == (wanted, least)


def test_the_second_sum_may_be_a_feature_or_a_statistic() -> None:
    lists, nbest, _ = at_odds(1, 3)
    found = lpmert.pareto(nbest, "feature2")
    totals = attainable_totals(lists, np.column_stack([lists.losses, lists.features[:, 1]]))
    assert (found.second, _pairs(found)) == ("feature2", _front(totals))
    assert _pairs(lpmert.pareto(nbest, "loss")) == [_pairs(found)[0][:1] * 2]


def test_a_time_limit_leaves_valid_points_and_an_incomplete_front() -> None:
    rng = np.random.default_rng(0)
    features, losses = rng.normal(size=(3000, 6)), rng.integers(0, 9, 3000)
    nbest, second = NBest(features, list(range(0, 3001, 10)), losses), 20 - losses + rng.integers(0, 9, 3000)
    found = lpmert.pareto(nbest, second, time_limit=0.5)
    assert not found.complete
    assert found.seconds < 5.0
    assert all(one.lower_bound <= one.loss for one in found.points)
    with pytest.raises(LimitError, match=r"before the search ended, the least sum was \d+;"):
        lpmert.within_budget(nbest, second, 3000, time_limit=0.3)
    stopped = lpmert.pareto(at_odds(2, 3)[1], at_odds(2, 3)[2], on_point=lambda _: True)
    assert (len(stopped.points), stopped.complete) == (1, False)


def test_progress_and_trace_are_in_losses() -> None:
    _, nbest, second = at_odds(3, 3)
    seen = []
    found = lpmert.within_budget(nbest, second, 30, callback=seen.append)
    assert all(one.loss in (inf, one.loss // 1) for one in seen)
    assert found.trace[-1][1:] == (found.loss, found.loss)
    assert lpmert.minimize(nbest).signature == found.signature.replace("|budget:second<=30.0|", "|")
    assert found.to_dict()["region"] == found.region


def test_a_page_about_a_budget_shows_nothing_of_all_weights(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, nbest, second = at_odds(3, 3)
    found = lpmert.within_budget(nbest, second, 30)
    for data in (None, nbest):
        lpmert.report(found, tmp_path / "page.html", data=data)
        page = (tmp_path / "page.html").read_text()
        assert f"<dt>second</dt><dd>{found.sums['second']:g}</dd>" in page
        assert f"no weights with second within budget do better than loss {found.loss:g}" in page
        assert "Error surface" not in page
    with pytest.raises(DataError, match="holds within a budget only"):
        lpmert.plots.surface(found, nbest)


_, LISTS, SECOND = at_odds(0, 2)
_STEPS = np.arange(len(SECOND)) % 7 + 1.0
FAR, FINE = (np.where(_STEPS < 3, 1, _STEPS * size) for size in (2.0**35, 2.0**20))
DIGITS, MASKED = np.random.default_rng(0).normal(size=len(SECOND)), np.ma.masked_equal(SECOND, SECOND[0])
FINER, COUNTS = (NBest(LISTS.features, LISTS.offsets, own) for own in (FINE, np.ones((len(SECOND), 3))))
test_invalid_budgets_are_refused = refused([
    (DataError, "no feature or statistic 'words'", lambda: lpmert.within_budget(LISTS, "words", 3)),
    (DataError, "second must be one finite number for each of the", lambda: lpmert.pareto(LISTS, SECOND[1:])),
    (DataError, "second has masked entries", lambda: lpmert.pareto(LISTS, MASKED)),
    (DataError, "a budget must be a finite number; got inf", lambda: lpmert.within_budget(LISTS, SECOND, inf)),
    (MethodError, "points must be", lambda: lpmert.pareto(LISTS, SECOND, points=0)),
    (MethodError, "proves nothing", lambda: lpmert.pareto(LISTS, SECOND, method="och")),
    (MetricError, "too many digits", lambda: lpmert.pareto(LISTS, DIGITS)),
    (MetricError, r"differ by at most 2\*\*34", lambda: lpmert.within_budget(LISTS, FAR, 5)),
    (MetricError, "for a front multiplied with each other", lambda: lpmert.pareto(FINER, FINE)),
    (MetricError, "a sum over lists, which metric 'f1' is", lambda: lpmert.pareto(COUNTS, "feature1", metric="f1")),
])  # fmt: skip


def test_a_stopped_search_within_a_budget_has_a_bound_below_its_loss_and_decimals_are_rounded_down() -> None:
    lists = noise_of(3, 10)
    second = np.random.default_rng(3).integers(0, 9, lists.n_hypotheses)
    budget = float(second.reshape(10, 12).min(axis=1).sum() + 30)
    whole = lpmert.within_budget(lists, second, budget)
    stopped = lpmert.within_budget(lists, second, budget, callback=lambda point: point.loss < inf)
    assert (whole.status, stopped.status) == (Status.OPTIMAL, Status.CALLBACK)
    assert stopped.lower_bound <= whole.loss <= stopped.loss != stopped.lower_bound
    tenths = NBest(lists.features, lists.offsets, lists.statistics / 10.0)
    bounds: set[float] = set()
    lpmert.within_budget(tenths, second, 60.0, callback=lambda point: bounds.add(point.lower_bound or 0.0))
    assert len(bounds) > 1
    assert all(Fraction(round(10 * bound), 10) >= Fraction(bound) for bound in bounds)


def test_a_front_of_points_that_are_optimal_to_tolerance_is_not_complete() -> None:
    """A cosine and an equation on two weights need coordinates that doubles only approximate."""
    rng = np.random.default_rng(0)
    lists = NBest(rng.integers(-9, 10, (24, 3)), np.arange(0, 25, 4), rng.integers(0, 5, 24), names=["a", "b", "c"])
    linear = [lpmert.Linear({"b": 1.0, "c": -1.0}, 0.0, 0.0)]
    region = Region(cosine=0.8, around={"a": 2.0, "b": 1.0, "c": 1.0}, linear=linear)
    front = lpmert.pareto(lists, rng.integers(0, 9, 24), region=region)
    assert [point.status for point in front.points] == [Status.OPTIMAL_TO_TOLERANCE]
    assert (front.complete, front.least) == (False, None)


def test_the_far_end_of_a_front_with_four_features_is_proved() -> None:
    rng = np.random.default_rng(4)
    features = np.column_stack([rng.integers(1, 9, 600), rng.normal(size=(600, 3)).round(2)])
    nbest = NBest(features, range(0, 601, 10), rng.integers(0, 9, 600), names=["words", "a", "b", "c"])
    least = float(np.minimum.reduceat(features[:, 0], nbest.offsets[:-1]).sum())
    found = lpmert.within_budget(nbest, "words", least, time_limit=60)
    assert (found.status, found.sums["words"]) == (Status.OPTIMAL, least)
    assert found.lower_bound == found.loss == lpmert.evaluate(nbest, found.weights).loss


def test_weights_near_a_tie_are_proved_without_any_target() -> None:
    """The second hypothesis wins for half of all weights; a search ends where doubles no longer tell that it does."""
    rows = [[4.765451367960428, -1.287480148677657], [-7.14817705194519, 1.931220223017395]]
    nbest = NBest(rows, [0, 2], [2.33, 4.91])
    for region in (None, Region(nonnegative=True)):
        found = lpmert.within_budget(nbest, [0.5, -0.5], 0.0, region=region)
        assert (found.loss, found.sums["second"], found.status) == (4.91, -0.5, Status.OPTIMAL)
