"""Metrics that are not the package's own: every engine proves what brute force finds, or the metric is refused."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import attainable_totals
from problems import METRICS, Plain, random_lists
from searches import FRACTIONS, RATIOS

import lpmert
from lpmert import MetricError, NBest, Status, core
from lpmert.errors import FloatArray
from lpmert.metrics.base import BLEU, CHRF, FRACTION
from lpmert.metrics.ratio import Bleu, LinearFraction, f_beta

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
