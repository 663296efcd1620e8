"""Metrics of others and fractions of sums: every engine proves what brute force finds, or the metric is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle import attainable_totals
from problems import METRICS, WER, Plain, fractions_loss, random_lists, random_nbest
from searches import FRACTIONS, RATIOS

import lpmert
from lpmert import MethodError, MetricError, NBest, Result, Status, core
from lpmert.errors import FloatArray
from lpmert.metrics.base import BLEU, CHRF, FRACTION
from lpmert.metrics.ratio import Bleu, LinearFraction, f_beta, precision
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.driver import Driver
from lpmert.search.fractional import FractionSearch
from lpmert.search.method import Incumbent, UnboundedSearch
from lpmert.system.deadline import Deadline, OutOfTime

pytestmark = pytest.mark.usefixtures("poorest_start")


class Sum(Plain):
    def __init__(self, loss: Callable[[list[float]], float], losses: Callable[[FloatArray], FloatArray]) -> None:
        super().__init__(loss)
        self.losses = losses


def rate(total: list[float]) -> float:
    """2 errors / (words + 3 insertions): several columns, losses below and above 1."""
    return 2 * total[0] / (total[1] + 3 * total[2]) if total[1] + 3 * total[2] else 1.0


def linear(numerator: tuple[int, ...] = (2, 0, 0), denominator: tuple[int, ...] = (0, 1, 3)) -> LinearFraction:
    return LinearFraction("rate", ("errors", "words", "insertions"), numerator, denominator)


def counts(seed: int, offsets: Any, name: str) -> FloatArray:
    rng = np.random.default_rng(seed)
    if name in METRICS:
        return METRICS[name][2](rng, offsets)
    shape = offsets[-1], 3
    return (rng.integers(0, 4, shape) * rng.integers(0, 2, shape)).astype(np.float64)


def problems(name: str, seeds: range) -> Any:
    for seed in seeds:
        kind = ("floats", "integers", "duplicates")[seed % 3]
        lists = random_lists(kind, seed, most_lists=4, most_hypotheses=4, most_features=3, most_selections=60)
        statistics = counts(seed, lists.offsets, name)
        yield lists, NBest(lists.features, lists.offsets, statistics), attainable_totals(lists, statistics)


FOREIGN: dict[str, tuple[Any, Callable[[list[float]], float], int]] = {
    "a sum": (Sum(lambda t: 2 * t[0] - t[1], lambda s: 2 * s[:, 0] - s[:, 1]), lambda t: 2 * t[0] - t[1], 12),
    "a fraction": (linear(), rate, 40),
}
"""Metrics, their losses, and how many problems."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_metric_is_proved_by_every_engine(name: str) -> None:
    metric, loss, seeds = FOREIGN[name]
    above_one = 0
    for _, nbest, totals in problems("counts", range(seeds)):
        least = min(map(loss, totals))
        above_one += least > 1
        for method in FRACTIONS:
            result = lpmert.minimize(nbest, metric=metric, method=method)
            assert result.status is Status.OPTIMAL
            assert result.lower_bound == result.loss == pytest.approx(least, abs=0, rel=0)
    assert name != "a fraction" or above_one >= 3


def nbest_of(name: str) -> NBest:
    offsets = [0, 6, 12]
    return NBest(np.eye(12)[:, :3] + np.arange(12)[:, None] % 2, offsets, counts(1, offsets, name))


WRONG: dict[str, tuple[str, Any, str]] = {
    "a numerator below 0": ("counts", linear((-2, 0, 0)), "numerator of the loss is -"),
    "matches beyond totals": ("counts9", Bleu(), "matches among"),
    "too few columns for BLEU": ("counts", Bleu(), "takes 9"),
    "losses that do not add up": ("counts", Sum(max, lambda s: s[:, 0]), "is not additive.*omit `losses`"),
    "losses that nearly add up": ("counts", Sum(lambda t: t[0] * (1 + 1e-6), lambda s: s[:, 0]), "is not additive"),
    "losses that are not finite": ("counts", Sum(sum, lambda s: s[:, 0] / 0.0), "one finite number"),
    "a single loss": ("counts", Sum(sum, lambda s: s[:1, 0]), "one finite number"),
    "an infinite loss": ("counts", Plain(lambda _: math.inf), "finite"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_metric_that_breaks_its_contract_is_refused_at_once(wrong: str) -> None:
    name, metric, message = WRONG[wrong]
    nbest = nbest_of(name[:6])
    if name == "counts9":
        nbest = NBest(nbest.features, nbest.offsets, np.tile([3.0, 2.0, 1.0], (12, 3)))
    for method in (*RATIOS, "och"):
        with pytest.raises(MetricError, match=message):
            lpmert.minimize(nbest, metric=metric, method=method)


def test_no_formula_takes_what_is_for_another() -> None:
    total = np.array([4.0, 5.0, 3.0])
    for kind, parameters in ((4, [4.0]), (3, [4.0]), (-1, [4.0]), (BLEU, []), (CHRF, []), (FRACTION, [1.0])):
        with pytest.raises(ValueError, match=r"kind is none|another number of statistics or parameters"):
            core.losses_of_totals(kind, np.array(parameters), total[None])
        with pytest.raises(ValueError, match=r"kind is none|another number of statistics or parameters"):
            core.lay_minorant(kind, np.array(parameters), total, total, total)
    # a fraction has a loss, but no bound
    constant, slopes = core.lay_minorant(FRACTION, f_beta().parameters, total, total, total)
    assert (constant, slopes.any()) == (0.0, False)


def test_a_loss_that_is_neither_a_sum_nor_a_formula_of_ours_is_for_heuristics() -> None:
    metric = Plain(lambda total: 1.0 / (1.0 + total[0]))
    nbest = nbest_of("counts")
    for method in RATIOS:
        with pytest.raises(lpmert.MethodError, match="only heuristics"):
            lpmert.minimize(nbest, metric=metric, method=method)
    result = lpmert.minimize(nbest, metric=metric, method="random")
    assert (result.status, result.lower_bound) == (Status.HEURISTIC, None)


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
    lists = random_lists("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
    rng = np.random.default_rng(seed)
    counts = np.column_stack([rng.integers(1, 9, len(lists.features)), rng.integers(0, 4, len(lists.features))])
    counts[rng.random(len(counts)) < 0.4, 1] = 0
    statistics = counts.astype(float)
    return NBest(lists.features, lists.offsets, statistics), attainable_totals(lists, statistics)


def test_fractions_closer_than_a_unit_are_ranked_exactly() -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        lists = random_lists("integers", seed, most_lists=3, most_hypotheses=5, most_features=4, most_selections=40)
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
        lists = random_lists("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
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
