"""Certificates of ratio metrics: what they prove is the least loss, and nothing that was changed is accepted."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from certificates import Document, base, document, layout
from problems import METRICS, Given, problem

import lpmert
from lpmert import CertificateError, MethodError, verify
from lpmert.certificates.check.ratio import Ratio
from lpmert.certificates.write.certify import write_certificate
from lpmert.metrics.base import RatioMetric

WORTHS = ("f1", "f0.5", "precision", "recall", "wer", "bleu", "chrf", "per")
TREES = ("cones", "selections")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certificate.json"


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
    @pytest.mark.parametrize("worth", WORTHS)
    @pytest.mark.parametrize(
        ("features", "seed"), [("integers", 30), ("floats", 31), ("duplicates", 32), ("tenths", 33)]
    )
    def test_the_least_loss_of_all_selections(
        self, path: Path, features: str, worth: str, seed: int, tree: str
    ) -> None:
        given = problem(features, worth, seed)
        result = lpmert.minimize(given.nbest, metric=given.metric)
        write_certificate(path, given.nbest, result, metric=given.metric, kind=tree)
        found = verify(path, given.nbest, metric=given.metric)
        assert found.proved
        check_least(given, found)

    @pytest.mark.parametrize("worth", ["f1", "bleu", "chrf", "per"])
    def test_within_limits(self, path: Path, worth: str) -> None:
        checked = 0
        for seed in range(60):
            given = problem("integers", worth, seed, in_region=True)
            if given.equations or not given.rows or given.region is None or given.region.cosine is not None:
                continue
            if given.least is None:
                continue
            result = lpmert.minimize(given.nbest, metric=given.metric, region=given.region)
            for tree in TREES:
                write_certificate(path, given.nbest, result, metric=given.metric, region=given.region, kind=tree)
                found = verify(path, given.nbest, metric=given.metric)
                assert found.proved
                check_least(given, found)
            checked += 1
            if checked == 4:
                return
        raise AssertionError("too few problems with limits")

    @pytest.mark.parametrize("tree", TREES)
    @pytest.mark.parametrize("worth", ["f1", "bleu", "chrf", "per"])
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
                check_least(given, found)
                told += 1
                break
        assert told > 2

    def test_a_formula_without_a_lemma_has_none(self) -> None:
        unknown = SimpleNamespace(name="new", kind=99, parameters=np.empty(0))
        with pytest.raises(CertificateError, match="no proof is known for the formula of 'new'"):
            Ratio(cast("Any", unknown))

    def test_from_outside(self, path: Path) -> None:
        nbest, _ = base("bleu cones")
        lpmert.certify(nbest, lpmert.minimize(nbest), path)
        found = verify(path, nbest)
        assert found.proved
        assert float(found.loss) == pytest.approx(lpmert.evaluate(nbest, list(found.weights.values())).loss, abs=1e-14)

    def test_a_metric_of_another_form_has_none(self, path: Path) -> None:
        class Odd:
            name = "odd"
            signature = "metric:odd"

            def check(self, statistics: Any) -> None: ...

            def loss(self, total: Any) -> float:
                return float(total[0] ** 2)

            score = loss

        nbest, _ = base("f1")
        with pytest.raises(MethodError, match="'odd' is neither"):
            write_certificate(path, nbest, lpmert.minimize(nbest), metric=Odd())


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
    @pytest.mark.parametrize("seed", range(40))
    def test_nothing_in_a_box_undercuts_its_best_corner_or_costs_its_price(self, worth: str, seed: int) -> None:
        formula, _ = ratio(worth)
        rng = np.random.default_rng(seed)
        rows = problem("integers", worth, seed % 7).statistics.astype(int)
        low = rows[rng.integers(len(rows))] * int(rng.integers(1, 4))
        high = low + rng.integers(0, 4, len(low))
        inside = [list(map(int, x)) for x in rng.integers(low, high + 1, size=(60, len(low)))]
        inside = [x for x in inside if formula.possible(x)]
        assert inside
        best = formula.best(low.tolist(), high.tolist())
        for x in inside:
            if best is not None:
                assert formula.compared(x, best) >= 0
        at = [max(1, int(value)) for value in rng.integers(low, high + 1)]
        for target in [x for x in inside if formula.loss(x) < 1][:6]:
            try:
                price = formula.price(low.tolist(), high.tolist(), at, target)
            except CertificateError:
                assert worth == "chrf"
                assert best is None
                return
            for x in inside:
                if formula.compared(x, target) < 0:
                    assert price.of(x) < price.target
                assert price.of(x) + price.forbidden >= price.target

    def test_prices_tell_apart_what_differs_enough(self) -> None:
        formula, _ = ratio("bleu")
        low, high = [90, 100, 70, 90, 50, 80, 30, 70, 100], [91, 100, 71, 90, 51, 80, 31, 70, 100]
        price = formula.price(low, high, high, high)
        worse = [88, 100, 68, 90, 48, 80, 28, 70, 100]
        price = formula.price(worse, high, high, [80, 100, 60, 90, 40, 80, 20, 70, 100])
        assert price.of(worse) < price.target <= price.of([*worse[:8], 100]) + price.forbidden
        assert price.of(high) < price.target


CHANGES: dict[str, Any] = {}


def changed(apply: Any) -> Any:
    CHANGES[apply.__name__] = apply
    return apply


def first_at(found: Document) -> Document:
    return next(record for record in found["tree"] if "at" in record)


for _place in range(3):
    for _step in (-1, 1):

        def _moved(found: Document, place: int = _place, step: int = _step) -> None:
            found["sums"][place] += step

        CHANGES[f"sum {_place} {_step:+d}"] = _moved
for _sums in (None, [], "3", [1], [1, 2, 3], [-1] * 9, [0.5] * 9, [True] * 9, [10**30] * 9, [0] * 9, {}, [[1]] * 9):

    def _replaced(found: Document, sums: Any = _sums) -> None:
        found["sums"] = sums

    CHANGES[f"sums {str(_sums)[:20]}"] = _replaced
for _at in (None, [], "3", [1], [0] * 9, [-1] * 9, [0.5] * 9, [True] * 9, [10**30] * 9, {}, 7):

    def _taken(found: Document, at: Any = _at) -> None:
        first_at(found)["at"] = at

    CHANGES[f"at {str(_at)[:20]}"] = _taken


@changed
def sums_dropped(found: Document) -> None:
    del found["sums"]


@changed
def loss_and_bound_lower(found: Document) -> None:
    found["loss"] = found["bound"] = str(Fraction(found["bound"]) - Fraction(1, 1 << 60))


@changed
def bound_lower(found: Document) -> None:
    found["bound"] = str(Fraction(found["bound"]) - Fraction(1, 1 << 60))


@changed
def other_sums_and_their_loss(found: Document) -> None:
    """A better BLEU is claimed to be the bound."""
    sums = [*found["sums"]]
    sums[0] += 1
    found["sums"], found["bound"] = sums, str(ratio("bleu")[0].loss(sums))


@changed
def prices_far_away(found: Document) -> None:
    """Prices that are good elsewhere close nothing here."""
    for record in found["tree"]:
        if "at" in record:
            record["at"] = [1000, 1, 1, 1, 1000, 1, 1, 1000, 1]


@changed
def all_prices_dropped(found: Document) -> None:
    for record in found["tree"]:
        record.pop("at", None)


@changed
def last_record_dropped(found: Document) -> None:
    found["tree"].pop()


@changed
def last_record_doubled(found: Document) -> None:
    found["tree"].append(found["tree"][-1])


@changed
def first_branch_dropped(found: Document) -> None:
    del next(record for record in found["tree"] if "branch" in record)["branch"]


@changed
def first_branch_of_another_list(found: Document) -> None:
    next(record for record in found["tree"] if "branch" in record)["branch"] += 100


@changed
def last_part_branches(found: Document) -> None:
    found["tree"][-1]["branch"] = 0


@changed
def exclusion_without_its_core(found: Document) -> None:
    next(record for record in found["tree"] if "out" in record)["out"][0][2] = []


@changed
def exclusion_of_another(found: Document) -> None:
    entry = next(record for record in found["tree"] if "out" in record)["out"][0]
    entry[1] += 1


OF_FRACTIONS = ("sum", "loss", "bound", "last_record")


class TestRefuses:
    @pytest.mark.parametrize("name", ["bleu cones", "bleu selections", "f1"])
    def test_the_unchanged_certificates_hold(self, path: Path, name: str) -> None:
        nbest, text = base(name)
        path.write_text(text)
        assert verify(path, nbest).proved

    @pytest.mark.parametrize("name", ["bleu cones", "bleu selections"])
    @pytest.mark.parametrize("change", CHANGES)
    def test_a_changed_certificate_does_not_hold(self, path: Path, name: str, change: str) -> None:
        nbest, text = base(name)
        found = document(name)
        CHANGES[change](found)
        assert layout(found) != text
        path.write_text(layout(found))
        with pytest.raises(CertificateError, match=r"certificate\.json:[0-9]+: \w"):
            verify(path, nbest)

    @pytest.mark.parametrize(
        "change", [name for name in CHANGES if name.startswith(("sum", "loss", "bound", "last_record"))]
    )
    def test_a_changed_certificate_of_a_fraction_does_not_hold(self, path: Path, change: str) -> None:
        nbest, text = base("f1")
        found = document("f1")
        CHANGES[change](found)
        assert layout(found) != text
        path.write_text(layout(found))
        with pytest.raises(CertificateError, match=r"certificate\.json:[0-9]+: \w"):
            verify(path, nbest)

    @pytest.mark.parametrize("name", ["cones", "selections"])
    def test_sums_have_no_place_where_the_loss_is_a_sum(self, path: Path, name: str) -> None:
        nbest, _ = base(name)
        found = document(name)
        tree = found.pop("tree")
        path.write_text(layout({**found, "sums": [0], "tree": tree}))
        with pytest.raises(CertificateError, match="is not the loss of"):
            verify(path, nbest)

    @pytest.mark.parametrize("name", ["cones", "f1"])
    def test_prices_have_no_place_where_one_sum_tells(self, path: Path, name: str) -> None:
        nbest, _ = base(name)
        found = document(name)
        next(record for record in found["tree"] if not record)["at"] = [1]
        path.write_text(layout(found))
        with pytest.raises(CertificateError, match="no prices where one sum"):
            verify(path, nbest)

    @pytest.mark.parametrize("name", ["selections", "pairs"])
    def test_nor_in_selections(self, path: Path, name: str) -> None:
        nbest, _ = base(name)
        found = document(name)
        found["tree"][0]["at"] = [1]
        path.write_text(layout(found))
        with pytest.raises(CertificateError, match="no prices where one sum"):
            verify(path, nbest)

    @pytest.mark.parametrize("name", ["bleu cones", "bleu selections", "f1"])
    def test_a_forged_fingerprint_does_not_help(self, path: Path, name: str) -> None:
        nbest, _ = base(name)
        other = nbest.restrict(slice(1, None))
        found = document(name)
        found["fingerprint"] = other.fingerprint
        path.write_text(layout(found))
        with pytest.raises(CertificateError):
            verify(path, other)

    @pytest.mark.parametrize("ties", ["best", "worst"])
    def test_only_the_first_of_equal_hypotheses_counts(self, path: Path, ties: str) -> None:
        nbest, _ = base("bleu cones")
        found = document("bleu cones")
        found["ties"] = ties
        path.write_text(layout(found))
        with pytest.raises(CertificateError, match="ties"):
            verify(path, nbest, ties=ties)
