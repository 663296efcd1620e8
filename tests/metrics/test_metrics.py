"""Metrics on summed statistics: figures of other tools, zeros, signatures, and what is refused."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lpmert
from lpmert.errors import FloatArray, MetricError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric, SumOfLosses, ZeroOne
from lpmert.metrics.contract import metric_by_name
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, f_beta, precision, recall
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.registry import METRICS
from lpmert.result import Status

RATIOS = [
    Bleu(),
    Chrf(),
    Chrf(char_order=2, word_order=1, beta=1.0),
    f_beta(),
    f_beta(0.5),
    precision(),
    recall(),
]
RATIO_IDS = ["bleu", "chrf", "chrf++", "f1", "f0.5", "precision", "recall"]


def n_columns(metric: Any) -> int:
    return len(metric.columns)


def bleu_total(matches: str, totals: str, reference: int) -> FloatArray:
    """Return the nine statistics from matches and totals by order."""
    pairs = zip(matches.split(), totals.split(), strict=True)
    return np.array([*(float(value) for pair in pairs for value in pair), reference])


@pytest.mark.parametrize(
    ("matches", "totals", "reference", "score", "digits"),
    [
        ("6 4 2 1", "6 5 4 3", 7, 0.5115, 4),  # Moses, BleuScorerTest
        ("6 5 3 2", "6 6 5 4", 7, 0.5985, 4),  # the same with 1 added from order 2 on
        ("14 8 5 3", "27 26 25 24", 23, 0.2513, 4),  # Joshua, BLEUTest
        ("53 32 18 11", "65 63 61 59", 72, 0.348854, 6),  # cdec, scorer_test
    ],
)
def test_bleu_of_statistics_is_that_of_other_tools(
    matches: str, totals: str, reference: int, score: float, digits: int
) -> None:
    found = Bleu().score(bleu_total(matches, totals, reference)) / 100
    assert found == pytest.approx(score, abs=10.0**-digits)


@pytest.mark.parametrize(
    ("beta", "match", "predicted", "gold", "score"),
    [(1.0, 1, 2, 4, 1 / 3), (2.0, 1, 2, 4, 5 / 18), (0.5, 1, 2, 4, 5 / 12), (0.0, 1, 2, 4, 1 / 2), (1.0, 3, 3, 3, 1)],
)
def test_f_beta_is_the_weighted_harmonic_mean(beta: float, match: int, predicted: int, gold: int, score: float) -> None:
    assert f_beta(beta).score(np.array([match, predicted, gold], dtype=float)) == pytest.approx(score, abs=1e-15)


def test_precision_and_recall_are_shares() -> None:
    total = np.array([3.0, 4.0, 8.0])
    assert (precision().score(total), recall().score(total)) == (0.75, 0.375)
    assert (precision().loss(total), recall().loss(total)) == (0.25, 0.625)


def test_an_error_rate_scores_itself_and_may_exceed_one() -> None:
    rate = LinearFraction("wer", ("errors", "words"), (1, 0), (0, 1), higher_is_better=False)
    assert rate.score(np.array([3.0, 2.0])) == rate.loss(np.array([3.0, 2.0])) == 1.5
    opposite = LinearFraction("wer", ("errors", "words"), (1, 0), (0, 1))
    assert opposite.score(np.array([3.0, 2.0])) == -0.5
    assert rate.signature != opposite.signature


@pytest.mark.parametrize("metric", RATIOS, ids=RATIO_IDS)
def test_nothing_at_all_has_the_loss_one_and_the_score_zero(metric: Any) -> None:
    nothing = np.zeros(n_columns(metric))
    metric.check(nothing[None])
    assert (metric.loss(nothing), metric.score(nothing)) == (1.0, 0.0)


@pytest.mark.parametrize("name", METRICS.own)
def test_every_name_builds_a_metric_that_is_called_so(name: str) -> None:
    metric = metric_by_name(name)
    assert isinstance(metric, Metric)
    assert metric.name == name
    assert metric.signature.startswith(f"metric:{name}|columns:")
    assert metric_by_name(metric) is metric
    assert isinstance(metric, AdditiveMetric) != isinstance(metric, RatioMetric)


@pytest.mark.parametrize(("given", "message"), [("blue", "loss, zero-one, bleu"), ("", "no metric ''"), (7, "got 7")])
def test_what_is_no_metric_is_refused(given: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        metric_by_name(given)


def test_a_class_in_place_of_a_metric_is_refused_with_the_remedy() -> None:
    with pytest.raises(MetricError, match=r"Bleu\(\)"):
        metric_by_name(Bleu)


def test_signatures_differ_wherever_the_number_can() -> None:
    metrics: list[Any] = [
        SumOfLosses(),
        SumOfLosses("ter"),
        ZeroOne(),
        Bleu(),
        Bleu("tok:none"),
        Bleu("tok:13a"),
        Chrf(),
        Chrf(char_order=5),
        Chrf(word_order=2),
        Chrf(beta=3.0),
        Chrf(beta=2.0000001),
        Chrf(source="case:lc"),
        *(f_beta(beta) for beta in (0.0, 0.5, 1.0, 2.0)),
        precision(),
        recall(),
    ]
    signatures = [metric.signature for metric in metrics]
    assert all(first != second for first, second in pairwise(sorted(signatures)))


GOOD = {
    "bleu": [2, 3, 1, 2, 0, 1, 0, 0, 4],
    "chrf": [4, 5, 3] * 6,
    "f1": [1, 2, 3],
    "zero-one": [1],
    "loss": [-2.5],
    "wer": [3, 2],
    "cer": [0, 0],
    "error-rate": [3, 2],
}


@pytest.mark.parametrize("name", GOOD)
def test_statistics_as_described_are_taken(name: str) -> None:
    metric, statistics = metric_by_name(name), np.array([GOOD[name]], dtype=float)
    metric.check(statistics)
    assert math.isfinite(metric.loss(statistics[0]))


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("bleu", 0, 4, "4 matches among 3 n-grams of order 1.*reference_length"),
        ("bleu", 6, 1, "hypothesis 1 .from 0. has 1 matches among 0 n-grams of order 4"),
        ("bleu", 8, -1, "'reference_length' has -1"),
        ("bleu", 8, 4.5, "'reference_length' has 4.5, which is not a whole number"),
        ("bleu", 8, 2.0**53, "divide them"),
        ("bleu", 8, math.nan, "has nan"),
        ("chrf", 2, 5, "5 matches among 4 n-grams.*hypothesis, reference, match"),
        ("chrf", 17, 0.5, "'match_char_6' has 0.5"),
        ("f1", 0, 3, "numerator of the loss is -1 for hypothesis 1"),
        ("f1", 1, -1, "'predicted' has -1"),
        ("wer", 0, 0.5, "'errors' has 0.5, which is not a whole number"),
        ("cer", 1, -1, "'length' has -1"),
        ("zero-one", 0, 2, "hypothesis 1 .from 0. has 2: for other losses choose metric 'loss'"),
    ],
)
def test_statistics_that_cannot_be_are_refused_with_their_place(
    name: str, column: int, value: float, message: str
) -> None:
    statistics = np.array([GOOD[name], GOOD[name]], dtype=float)
    statistics[1, column] = value
    with pytest.raises(MetricError, match=message):
        metric_by_name(name).check(statistics)


@pytest.mark.parametrize("name", GOOD)
def test_the_wrong_number_of_columns_is_refused_with_both_numbers(name: str) -> None:
    statistics = np.ones((2, len(GOOD[name]) + 1))
    with pytest.raises(MetricError, match=rf"(one|{len(GOOD[name])}) .*{len(GOOD[name]) + 1}"):
        metric_by_name(name).check(statistics)


def word_errors(words: Sequence[int]) -> NBest:
    """Two lists, of 3 and 5 words: 0 + 4 errors where `am` counts more, 2 + 1 where `lm` does."""
    counts = np.column_stack([[0, 2, 4, 1], words])
    return NBest([[1, 0], [0, 1], [1, 0], [0, 1]], [0, 2, 4], counts, names=["am", "lm"])


@pytest.mark.parametrize("metric", ["wer", "cer"])
def test_errors_and_lengths_are_an_error_rate_whose_loss_is_the_errors(metric: str) -> None:
    nbest = word_errors([3, 3, 5, 5])
    result = lpmert.minimize(nbest, metric=metric)
    assert (result.status, result.loss, result.score, result.rates) == (Status.OPTIMAL, 3, 3 / 8, {"error_rate": 3 / 8})
    assert (result.unit.name, result.unit.text(result.loss)) == (metric.upper(), "37.50% (3 errors)")
    assert lpmert.evaluate(nbest, [1, 0], metric=metric).score == 4 / 8


@pytest.mark.parametrize("seed", range(10))
def test_the_least_errors_are_the_least_ratio_where_lengths_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.repeat(rng.integers(0, 9, 5), 4)
    counts = np.column_stack([rng.integers(0, 9, 20), lengths])
    nbest = NBest(rng.integers(-9, 9, (20, 2)), np.arange(0, 21, 4), counts)
    ratio = lpmert.minimize(nbest, metric="error-rate")
    assert ratio.status is Status.OPTIMAL
    assert lpmert.minimize(nbest, metric="wer").loss / lengths[::4].sum() == pytest.approx(ratio.loss, abs=1e-15)


@pytest.mark.parametrize("words", [[3, 4, 5, 5], [3, 3, 5, 6], [4, 3, 6, 5]])
def test_lengths_that_differ_within_a_list_are_refused_with_the_remedy(words: list[int]) -> None:
    with pytest.raises(MetricError, match=r"list [01] .*one hypothesis.*choose metric 'error-rate'"):
        lpmert.minimize(word_errors(words), metric="wer")
    with pytest.raises(MetricError, match="choose metric 'error-rate'"):
        lpmert.methods.Perceptron().train(word_errors(words), metric="wer", seed=0)
    # 3 or 4 errors, each over its own words
    least = min(4 / sum(words[::2]), 3 / sum(words[1::2]))
    assert lpmert.minimize(word_errors(words), metric="error-rate").loss == least


def test_references_without_words_have_errors_and_no_rate() -> None:
    result = lpmert.minimize(word_errors([0, 0, 0, 0]), metric="wer")
    assert (result.loss, result.score, result.rates) == (3, 1, {})
    assert result.unit.text(3.0) == "3"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: f_beta(-1.0), "at least 0; got -1"),
        (lambda: f_beta(math.nan), "got nan"),
        (lambda: f_beta(True), "got True"),
        (lambda: f_beta(0.123456789), "too many digits"),
        (lambda: Chrf(char_order=0), "needs an order"),
        (lambda: Chrf(char_order=-1, word_order=3), "needs an order"),
        (lambda: Chrf(beta=math.inf), "got inf"),
        (lambda: LinearFraction("f", ("a", "b"), (1,), (1, 1)), "one number for each of a, b"),
        (lambda: LinearFraction("f", ("a", "b"), (1, 1), (1, 10**7)), "at most 1000000"),
        (lambda: LinearFraction("f", ("a",), (0.5,), (1,)), "whole numbers"),
    ],
)
def test_settings_without_a_meaning_are_refused(build: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        build()


@dataclass(frozen=True)
class MeanOfJudge:
    """A metric of a caller: the mean of a judge's marks, 0 to 10, over some prompts."""

    prompts: int

    @property
    def name(self) -> str:
        return "judge"

    @property
    def signature(self) -> str:
        return f"metric:judge|columns:2|prompts:{self.prompts}"

    def check(self, statistics: FloatArray) -> None:
        if statistics.shape[1] != 2:
            raise MetricError("metric 'judge' takes correct and judge")

    def losses(self, statistics: FloatArray) -> FloatArray:
        return 10.0 - statistics[:, 1]

    def loss(self, total: FloatArray) -> float:
        return 10.0 * self.prompts - float(total[1])

    def score(self, total: FloatArray) -> float:
        return float(total[1]) / self.prompts


def test_a_metric_of_the_callers_own_is_evaluated_and_minimised() -> None:
    import lpmert

    nbest = NBest(
        features=[[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 1.0]],
        offsets=[0, 2, 4],
        statistics=[[1, 4], [0, 9], [1, 5], [0, 2]],
        statistic_names=["correct", "judge"],
    )
    metric = MeanOfJudge(nbest.n_lists)
    evaluation = Problem(nbest, metric).evaluate([1.0, 0.0])
    assert (evaluation.loss, evaluation.score, evaluation.statistics.tolist()) == (11.0, 4.5, [2.0, 9.0])
    result = lpmert.minimize(nbest, metric=metric)
    assert (result.loss, result.lower_bound, result.score) == (6.0, 6.0, 7.0)
    assert result.statistics.tolist() == [1.0, 14.0]
    assert metric.signature in result.signature
