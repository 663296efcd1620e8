"""Fractions of sums: every exact method finds and proves the least F_beta loss, precision and recall."""

from fractions import Fraction

import numpy as np
import pytest
from oracle import attainable_totals
from problems import WER, fractions_loss, random_nbest
from problems import random_lists as lists_of_kind
from searches import FRACTIONS

import lpmert
from lpmert import MethodError, MetricError, NBest, Result, Status
from lpmert.metrics.ratio import LinearFraction, f_beta, precision
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.driver import Driver
from lpmert.search.fractional import FractionSearch
from lpmert.search.method import Incumbent, UnboundedSearch
from lpmert.system.deadline import Deadline, OutOfTime

pytestmark = pytest.mark.usefixtures("poorest_start")


def larger(seed: int) -> NBest:
    return random_nbest(seed, lists=60, size=10, dimension=4, kind="f1")


def test_methods_that_need_a_sum_over_lists_say_so() -> None:
    for method in ("mip", "beam"):
        with pytest.raises(MethodError, match="additive"):
            lpmert.minimize(larger(0), metric="f1", method=method)
    with pytest.raises(MethodError, match="ties"):
        lpmert.minimize(larger(0), metric="f1", ties="best")


def exact_loss(metric: LinearFraction, total: list[float]) -> Fraction:
    return Fraction(fractions_loss(metric)([int(value) for value in total]))


def assert_least(result: Result, nbest: NBest, metric: LinearFraction, least: Fraction) -> bool:
    """No status claims what exact arithmetic denies; say whether the least loss is called proved."""
    total = nbest.statistics[nbest.offsets[:-1] + result.selection].sum(axis=0).tolist()
    own = exact_loss(metric, total)
    assert result.loss == float(own)
    if result.status is Status.OPTIMAL:
        assert own == least
        assert result.lower_bound == result.loss
        return True
    assert result.status is Status.OPTIMAL_TO_TOLERANCE
    assert result.lower_bound <= float(least) * (1 + 2.0**-52)
    return False


def zeros(seed: int) -> tuple[NBest, list[list[float]]]:
    """Lists whose words may be 0, and their attainable totals."""
    lists = lists_of_kind("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
    rng = np.random.default_rng(seed)
    counts = np.column_stack([rng.integers(1, 9, len(lists.features)), rng.integers(0, 4, len(lists.features))])
    counts[rng.random(len(counts)) < 0.4, 1] = 0
    statistics = counts.astype(float)
    return NBest(lists.features, lists.offsets, statistics), attainable_totals(lists, statistics)


def test_fractions_closer_than_a_unit_are_ranked_exactly() -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        lists = lists_of_kind("integers", seed, most_lists=3, most_hypotheses=5, most_features=4, most_selections=40)
        size = 10**13 - rng.integers(0, 10, len(lists.features))
        counts = np.column_stack([size - rng.integers(1, 4, len(size)), size, size])
        nbest = NBest(lists.features, lists.offsets, counts)
        least = min(exact_loss(precision(), total) for total in attainable_totals(lists, nbest.statistics))
        for method in FRACTIONS[1:4]:
            result = lpmert.minimize(nbest, metric=precision(), method=method)
            assert assert_least(result, nbest, precision(), least)


def test_losses_above_one_are_proved_from_a_start_that_attains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.search.incumbent._PERTURBATIONS", 0)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        lists = lists_of_kind("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
        words = 3 * rng.integers(1, 3, len(lists.features))
        nbest = NBest(lists.features, lists.offsets, np.column_stack([words + rng.integers(1, 9, len(words)), words]))
        least = min(exact_loss(WER, total) for total in attainable_totals(lists, nbest.statistics))
        assert least > 1
        for method in FRACTIONS:
            result = lpmert.minimize(nbest, metric=WER, method=method)
            assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, float(least), float(least))


def test_what_is_found_but_decoded_by_no_weights_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FractionSearch, "_look_at", lambda *_: None)
    open_ends = 0
    for seed in range(60):
        nbest, totals = zeros(seed)
        least = min(exact_loss(WER, total) for total in totals)
        for method in ("choices", "lp-mert"):
            open_ends += not assert_least(lpmert.minimize(nbest, metric=WER, method=method), nbest, WER, least)
    assert open_ends >= 10


class GivenUp(UnboundedSearch):
    """Finds given weights, and is stopped in the middle."""

    weights = np.zeros(0)

    def advance(self) -> None:
        self.incumbent.improve(self.incumbent.cost - 1, self.weights, "S")
        raise OutOfTime


def test_better_weights_of_a_search_that_is_given_up_are_kept() -> None:
    nbest = larger(0)
    best = lpmert.minimize(nbest, metric="f1")
    problem = Problem(nbest, "f1")
    form = problem.canonical
    GivenUp.weights = problem.to_canonical(best.weights)
    start = np.ones(4)
    loss = problem.attained_loss(problem.to_caller(start))
    assert loss > best.loss
    assert form.totals.fraction is not None
    incumbent = Incumbent(form.cost_of_loss(loss), start, "I")
    search = FractionSearch(form, incumbent, lambda _, inner: GivenUp(inner))
    outcome = Driver(problem, Limits(), None, Deadline(None)).drive(search)
    assert outcome.status is Status.TIME_LIMIT
    assert form.loss_of(outcome.cost) == pytest.approx(best.loss, rel=1e-15)
    assert problem.attains(problem.to_caller(outcome.weights), outcome.cost)
    assert form.loss_of(outcome.lower_bound) <= best.loss


def test_counts_whose_sums_are_not_exact_are_refused() -> None:
    nbest = NBest([[0.0], [1.0]], [0, 2], [[0, 2**40, 2**40], [1, 2**40, 2**40]])
    with pytest.raises(MetricError, match="numerator of the loss is not exact; divide them"):
        lpmert.minimize(nbest, metric=f_beta(0.37))
