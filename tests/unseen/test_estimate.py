"""Estimates for unseen lists: nothing of a fold leaks into its fit, sources stay together, intervals are the usual."""

import numpy as np
import pytest
from late import Late
from problems import changed_in, noise
from slow_reference import random_lists

import lpmert
from lpmert.errors import DataError
from lpmert.metrics.contract import metric_by_name
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.system.deadline import Deadline
from lpmert.unseen import estimate as estimates
from lpmert.unseen.estimate import Setting, Split, cross_validated, estimate_of, fit, folds_of, groups_of

stats = Late("scipy.stats")


def setting():
    return Setting(0, Deadline())


def half_width(interval):
    return (interval.high - interval.low) / 2


def fits_of(nbest, monkeypatch, **settings):
    """The weights of every fold, in order."""
    found = []

    def kept(problem, *arguments, **more):
        one = fit(problem, *arguments, **more)
        found.append((one.found, one.averaged))
        return one

    monkeypatch.setattr(estimates, "fit", kept)
    cross_validated(lpmert.Problem(nbest), setting(), Split.of(None, nbest.n_lists, 4, 0), **settings)
    return found


def test_lists_held_out_change_nothing_in_their_fold(monkeypatch):
    nbest = noise(1, lists=32, dimension=3)
    fold = folds_of(groups_of(None, 32), 4, 0)
    before = fits_of(nbest, monkeypatch)
    for number in range(4):
        after = fits_of(changed_in(nbest, fold == number), monkeypatch)
        assert np.array_equal(before[number][0], after[number][0])
        assert np.array_equal(before[number][1], after[number][1])
        assert any(not np.array_equal(before[k][1], after[k][1]) for k in range(4) if k != number)


def test_noise_is_expected_to_cost_half_of_the_lists():
    costs, fitted = [], []
    for seed in range(6):
        nbest = noise(seed, lists=60, dimension=6)
        problem = lpmert.Problem(nbest)
        found = cross_validated(problem, setting(), Split.of(None, 60, 5, 0))
        costs += [found.optimum.value, found.averaged.value]
        fitted.append(problem.evaluate(fit(problem, setting()).found).loss)
    deviation = np.sqrt(60 / 4)  # of a sum of 60 fair coins
    assert abs(np.mean(costs) - 30) < 3 * deviation / np.sqrt(6)
    assert np.mean(fitted) < 30 - 3 * deviation / np.sqrt(6)  # there is something to leak


def test_lists_of_a_source_stay_together():
    group = groups_of(["a", "b", "a", "c", "b", "d"], 6)
    assert group.tolist() == [0, 1, 0, 2, 1, 3]
    fold = folds_of(group, 3, 5)
    assert fold[0] == fold[2]
    assert fold[1] == fold[4]
    assert set(fold.tolist()) == {0, 1, 2}


def test_folds_are_of_equal_size():
    sizes = np.bincount(folds_of(np.arange(52), 5, 3))
    assert sorted(sizes.tolist()) == [10, 10, 10, 11, 11]


def test_groups_must_be_one_a_list():
    with pytest.raises(DataError, match="one entry for each of the 3 lists; got 2"):
        groups_of([1, 2], 3)


def test_the_interval_of_a_sum_is_that_of_student():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, (2, 40, 1)).astype(float)
    found = estimate_of(metric_by_name("loss"), first, second, np.arange(40))
    for interval, values in ((found.optimum, first), (found.averaged, second), (found.difference, second - first)):
        low, high = stats.t.interval(0.95, 39, values.mean(), stats.sem(values[:, 0]))
        assert (interval.low, interval.high) == pytest.approx((40 * low, 40 * high))
        assert interval.value == values.sum()


def test_the_interval_of_a_difference_is_wider_where_the_folds_share_what_they_are_fitted_to():
    first, second = np.random.default_rng(0).integers(0, 9, (2, 40, 1)).astype(float)
    apart, folds = (estimate_of(metric_by_name("loss"), first, second, np.arange(40), count) for count in (0, 5))
    assert folds.difference.value == apart.difference.value
    # Nadeau and Bengio: the variance of 5 folds' mean is 1 / 5 + 1 / 4 of theirs, not 1 / 5
    assert half_width(folds.difference) == pytest.approx(
        np.sqrt((1 / 5 + 1 / 4) / (1 / 5)) * half_width(apart.difference)
    )
    assert half_width(folds.averaged) == half_width(apart.averaged)


def test_lists_of_a_group_count_once_in_the_interval():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 9, (20, 1)).astype(float)
    twice = np.repeat(first, 2, axis=0)
    group = np.repeat(np.arange(20), 2)
    single = estimate_of(metric_by_name("loss"), first, first, np.arange(20))
    double = estimate_of(metric_by_name("loss"), twice, twice, group)
    assert half_width(double.optimum) == pytest.approx(2 * half_width(single.optimum))
    assert double.difference.value == 0.0


def test_a_ratio_is_estimated_from_all_lists_together():
    features, offsets, statistics = random_lists(1, kind="bleu", lists=40)
    nbest = NBest(features, offsets, statistics)
    found = cross_validated(lpmert.Problem(nbest, "bleu"), setting(), Split.of(None, 40, 4, 0))
    fold = folds_of(np.arange(40), 4, 0)
    total = np.zeros(9)
    for number in range(4):
        weights = fit(lpmert.Problem(nbest.restrict(fold != number), "bleu"), setting(), 1).averaged
        aside = nbest.restrict(fold == number)
        total += lpmert.Problem(aside, "bleu").evaluate(CallerWeights(weights)).statistics
    assert found.averaged.value == metric_by_name("bleu").loss(total)
    assert found.averaged.low < found.averaged.value < found.averaged.high


def test_no_time_no_estimate():
    with Deadline(0.0).running() as deadline:
        late = setting()._replace(deadline=deadline)
        problem = lpmert.Problem(noise(0, lists=60, dimension=6))
        assert cross_validated(problem, late, Split.of(None, 60, 5, 0)) is None
