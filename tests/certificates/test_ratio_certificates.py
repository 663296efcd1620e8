"""Certificates of ratio metrics: what they prove is the least loss, and nothing that was changed is accepted."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from certificates import base
from problems import METRICS, Given, Plain, problem
from searches import many_more

import lpmert
from lpmert import CertificateError, MethodError, verify
from lpmert.certificates.check.ratio import Ratio
from lpmert.certificates.write.certify import write_certificate
from lpmert.metrics.base import RatioMetric

TREES = ("boxes", "selections")


def ratio(worth: str) -> tuple[Ratio, Any]:
    """The checker's formula of a metric, and that of the oracle."""
    metric, loss, _ = METRICS[worth]
    assert isinstance(metric, RatioMetric)
    return Ratio(metric), loss


def check_least(given: Given, found: lpmert.Verified) -> None:
    """Hold a proof to the enumeration of all selections in fractions."""
    least = given.least
    assert least is not None
    if given.exact:
        assert found.bound == least
    else:
        assert float(found.bound) == pytest.approx(float(least), abs=1e-14)


class TestProves:
    @pytest.mark.parametrize("tree", TREES)
    @pytest.mark.parametrize("worth", ["small", "f1", "bleu", "chrf", "per"])
    def test_a_wrong_claim_of_an_engine_ends_in_a_certificate_that_tells_the_gap(
        self, path: Path, worth: str, tree: str
    ) -> None:
        told = 0
        for seed in range(40, 46):
            given = problem("floats", worth, seed)
            honest = lpmert.minimize(given.nbest, metric=given.metric)
            rng = np.random.default_rng(seed)
            for weights in rng.normal(size=(20, given.nbest.n_features)):
                if lpmert.evaluate(given.nbest, weights, metric=given.metric).loss <= honest.loss + 1e-6:
                    continue
                write_certificate(path, given.nbest, replace(honest, weights=weights), metric=given.metric, kind=tree)
                found = verify(path, given.nbest, metric=given.metric)
                assert not found.proved
                assert found.loss > found.bound
                assert "above the least" in str(found)
                check_least(given, found)
                told += 1
                break
        assert told > 2

    def test_a_formula_without_a_lemma_has_none(self) -> None:
        unknown = SimpleNamespace(name="new", kind=99, parameters=np.empty(0))
        with pytest.raises(CertificateError, match="no proof is known for the formula of 'new'"):
            Ratio(cast("Any", unknown))

    def test_a_metric_of_another_form_has_none(self, path: Path) -> None:
        nbest, _ = base("f1")
        with pytest.raises(MethodError, match="'theirs' is neither"):
            write_certificate(path, nbest, lpmert.minimize(nbest), metric=Plain(lambda total: total[0] ** 2))


class TestFormulas:
    """The exact formulas of the checker, against those of the papers in double precision and against enumeration."""

    @pytest.mark.parametrize("worth", ["bleu", "chrf", "f1", "wer", "per"])
    def test_losses_are_those_of_the_papers(self, worth: str) -> None:
        formula, loss = ratio(worth)
        for seed in range(20):
            for row in problem("integers", worth, seed).statistics.astype(int).tolist():
                assert float(formula.loss(row)) == pytest.approx(float(loss(row)), abs=1e-12)

    @pytest.mark.parametrize("worth", ["bleu", "chrf", "per"])
    def test_comparisons_agree_where_doubles_can_tell(self, worth: str) -> None:
        formula, loss = ratio(worth)
        rows = [row for seed in range(8) for row in problem("integers", worth, seed).statistics.astype(int).tolist()]
        signs = set()
        for first, second in product(rows[:25], repeat=2):
            difference = loss(first) - loss(second)
            sign = formula.compared(first, second)
            signs.add(sign)
            if abs(difference) > 1e-9:
                assert sign == math.copysign(1, difference)
            assert formula.compared(second, first) == -sign
        assert signs == {-1, 0, 1}

    def test_bleu_is_compared_where_doubles_cannot_tell(self) -> None:
        formula, _ = ratio("bleu")
        large = 10**15
        long = [large, large + 1, 3, 4, 2, 3, 1, 2, large // 2]
        longer = [large, large + 2, 3, 4, 2, 3, 1, 2, large // 2]
        assert formula.compared(longer, long) == 1  # one n-gram more without a match
        assert formula.compared(long, [large, large + 1, 2, 3, 3, 4, 1, 2, large // 2]) == 0
        short = [5, 7, 3, 6, 2, 5, 1, 4, 9]
        assert formula.compared(short, [10, 14, 6, 12, 4, 10, 2, 8, 18]) == 0  # the same shares and brevity
        assert formula.compared(short, [5, 7, 3, 6, 2, 5, 1, 4, 10]) == -1

    @pytest.mark.parametrize("worth", ["bleu", "chrf", "per"])
    @pytest.mark.parametrize("seeds", [range(12), many_more(range(12, 200))])
    def test_nothing_in_a_box_undercuts_its_best_corner_or_costs_its_price(self, worth: str, seeds: range) -> None:
        formula, _ = ratio(worth)
        priced = 0
        for seed in seeds:
            rng = np.random.default_rng(seed)
            rows = problem("integers", worth, seed % 7).statistics.astype(int)
            low = rows[rng.integers(len(rows))] * int(rng.integers(1, 4))
            high = low + rng.integers(0, 4, len(low))
            inside = [list(map(int, x)) for x in rng.integers(low, high + 1, size=(60, len(low)))]
            inside = [x for x in inside if formula.possible(x)]
            best = formula.best(low.tolist(), high.tolist())
            assert best is None or all(formula.compared(x, best) >= 0 for x in inside)
            at = [max(1, int(value)) for value in rng.integers(low, high + 1)]
            for target in [x for x in inside if formula.loss(x) < 1][:6]:
                try:
                    price = formula.price(low.tolist(), high.tolist(), at, target)
                except CertificateError:
                    assert (worth, best) == ("chrf", None)
                    break
                priced += 1
                for x in inside:
                    assert formula.compared(x, target) >= 0 or price.of(x) < price.target
                    assert price.of(x) + price.forbidden >= price.target
        assert priced > 20

    def test_prices_tell_apart_what_differs_enough(self) -> None:
        formula, _ = ratio("bleu")
        low, high = [90, 100, 70, 90, 50, 80, 30, 70, 100], [91, 100, 71, 90, 51, 80, 31, 70, 100]
        price = formula.price(low, high, high, high)
        worse = [88, 100, 68, 90, 48, 80, 28, 70, 100]
        price = formula.price(worse, high, high, [80, 100, 60, 90, 40, 80, 20, 70, 100])
        assert price.of(worse) < price.target <= price.of([*worse[:8], 100]) + price.forbidden
        assert price.of(high) < price.target
