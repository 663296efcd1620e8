"""Certificates of rankings hold where exact arithmetic says so, and no edited one proves what is false."""

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from certificates import Document, assert_refused, layout, rewrite
from rankings import METRICS, Bound, Exact, assert_bounds_hold, no_multiples, random_lists, twenty_queries, value
from test_certificate_fuzz import CHANGES

from lpmert import CertificateError, DataError, LimitError, Status
from lpmert.certificates.rankings import Cone, Cones, Measure, least_lead
from lpmert.ranking import Judged, RankingMetric, certify, evaluate, maximize, verify


def written(path: Path, lists: Judged, metric: str, **settings: Any) -> Path:
    certify(maximize(lists, metric, **settings), path)
    return path


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_optimum_is_certified(path: Path, metric: str, dimensions: int) -> None:
    for seed in range(3):
        lists = random_lists(seed, dimensions, decimals=seed % 2 == 1)
        lists = no_multiples(lists) if seed == 2 else lists
        result = maximize(lists, metric, nonnegative=seed != 1)
        certify(result, path)
        found = verify(path, lists, metric)
        assert (found.proved, found.nonnegative) == (True, seed != 1)
        assert float(found.score) == pytest.approx(result.score, abs=1e-14)
        assert str(found).startswith(f"certificate holds: {metric} {float(found.score):.10g} is the largest")


def test_cones_that_are_cut_in_whole_numbers_are_certified(path: Path) -> None:
    ties = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        lists = Judged(random.integers(0, 4, size=(36, 3)), np.arange(0, 37, 6), random.random(36) < 0.4)
        lists = no_multiples(lists)
        assert verify(written(path, lists, "ndcg@3", nonnegative=False), lists).proved
        ties += path.read_text().count("tie")
    assert ties > 30


@pytest.mark.parametrize(("features", "grades", "elsewhere", "metric", "best"), [
    ([[1, 2], [2, 1], [3, 3]], [0, 0, 0], ([1.0],), "recall@2", 0),  # in no run
    ([[1, 2], [2, 1], [3, 3]], [0, 1, 0], ([1.0],), "recall@2", 0.5),
    ([[1], [1], [1]], [1, 2, 0], (), "ndcg@3", value("ndcg@3", [0, 1, 2])),  # twins come in order of rising gain
    ([[3], [2], [1]], [2, 1, 0], (), "ndcg@3", 1),
])  # fmt: skip
def test_documents_that_no_weights_reach_or_tell_apart_are_certified(path, features, grades, elsewhere, metric, best):
    lists = Judged(features, [0, 3], grades, unretrieved=elsewhere)
    claim = verify(written(path, lists, metric), lists)
    assert float(claim.score) == pytest.approx(best, abs=1e-15)
    assert claim.score <= claim.bound <= min(1, claim.score + Fraction(1, 10**11))
    whole = Cones(lists, Measure(lists, RankingMetric.of(metric)), [2] * len(lists.names)).whole_cone
    assert whole((1,) * len(lists.names)).total / 2**160 >= best - 1e-15


def test_a_score_that_is_understated_is_shown_as_the_weights_reach_it(path: Path) -> None:
    lists = Judged([[3], [2], [1]], [0, 3], [2, 1, 0])
    written(path, lists, "ndcg@3")
    rewrite(path, score="-5")
    found = verify(path, lists)
    assert found.score == pytest.approx(1.0, abs=1e-20)
    assert "ndcg@3 1 is the largest" in str(found)


def test_a_stopped_search_certifies_its_bound(path: Path) -> None:
    lists = twenty_queries()
    best = maximize(lists, "ndcg@5")
    result = maximize(lists, "ndcg@5", time_limit=0.0)
    certify(result, path)
    found = verify(path, lists)
    assert (result.status, found.proved) == (Status.TIME_LIMIT, False)
    assert found.score <= best.score <= found.bound
    assert float(found.bound) == pytest.approx(result.bound, abs=1e-14)
    assert "below the largest of weights that are not negative" in str(found)


def edited(rng: Random, found: Document) -> bytes:
    """A certificate with values, text or records changed, or with another claim."""
    if rng.random() < 0.7:
        return rng.choice(CHANGES)(rng, found)
    score, bound, names = Fraction(found["score"]), Fraction(found["bound"]), list(found["weights"])
    one, step = rng.choice(names), rng.choice((-1, 1, 5000))
    claims: tuple[dict[str, Any], ...] = (
        {"lpmert certificate": rng.choice((1, 3))},
        {"score": str(score * rng.choice((2, Fraction(1 << 50, (1 << 50) - 1))))},
        {"bound": str(bound * rng.choice((Fraction(9, 10), 1 - Fraction(1, 10**9))))},
        {"weights": {key: (1.0 if key == one else 0.5).hex() for key in names}},
        {"exponents": {key: n + step for key, n in found["exponents"].items()}},
        {"nonnegative": not found["nonnegative"]},
        {"ranking": rng.choice(("mrr@3", "recall-l2@3", "ndcg@0", "bpref@2"))},
        {"fingerprint": found["fingerprint"][::-1]},
    )
    return layout({**found, **rng.choice(claims)}).encode()


def test_no_edited_certificate_proves_what_is_false(path: Path) -> None:
    refused = held = 0
    for seed, dimensions in ((0, 2), (1, 2), (2, 3), (3, 2)):
        lists = random_lists(seed, dimensions, decimals=seed == 1, sizes=(5, 4))
        lists = no_multiples(lists) if seed >= 2 else lists
        exact = cache(Exact(lists).best)
        text = written(path, lists, "ndcg@3", nonnegative=seed != 3).read_text()
        for number in range(150):
            path.write_bytes(edited(Random(f"{seed} {number}"), json.loads(text)))
            try:
                claim = verify(path, lists)
            except CertificateError:
                refused += 1
                continue
            held += 1  # a cone may be cut elsewhere, or once more
            assert claim.bound >= exact(claim.ranking, nonnegative=claim.nonnegative) - 1e-12
            weights = tuple(Fraction(claim.weights[name]) for name in lists.names)
            assert claim.score <= Exact(lists).worst(claim.ranking, weights) + 1e-12
            assert not claim.nonnegative or min(weights) >= 0
    assert min(refused, held) > 30


@pytest.mark.parametrize(("change", "said"), [
    ({"score": "1"}, "the weights reach "),
    ({"bound": "1/2"}, "by the tree, weights may reach "),
    *(({key: "9" * 301}, "a fraction such as 7/2, of at most 1e300") for key in ("score", "bound")),
    ({"ranking": "bpref@3"}, "the metric must be one of ndcg, ndcg-exp"),
    ({"fingerprint": "0"}, "fingerprint of the documents: 0 in the certificate"),
    ({"weights": {"1": (-0.5).hex(), "2": (0.5).hex()}}, "a weight is negative"),
    ({"weights": {"a": (0.5).hex(), "2": (0.5).hex()}}, r"features: \['a', '2'\] in the certificate"),
    ({"exponents": {"1": -9, "2": 1}}, "the exponents bring features beyond 2"),
    ({"exponents": {"1": 1100, "2": 1}}, "to where doubles do not hold them"),
    ({"nonnegative": 1}, "bool expected, not 1"),
    *(({"tree": [{"split": [0, q, 1, 1]}]}, "no edge of this cone is split") for q in (0, 2)),
    ({"tree": [{"split": [0, 1, 1, 0]}]}, "a new ray must be between two of the cone"),
    ({"tree": [{"split": [0, 1, 1]}]}, "4 whole numbers expected"),
    ({"tree": [{"tie": [0, 1, 0, 99]}]}, "there is no such document"),
    ({"tree": [{"tie": [0, 1, 0, 0]}]}, "a new ray must be between two of the cone"),
    ({"tree": [{"corners": [1]}]}, "no cone is divided by {'corners'"),
    ({"tree": [{"split": [0, 1, 1, 1 << 14000]}] * 3}, "a ray has too many digits"),
    ({"tree": [{}]}, "by the tree, weights may reach"),
    ({"tree": [{}, {}]}, "the tree is closed, but something follows"),
    ({"tree": [{"split": [0, 1, 1, 1]}, {}]}, "the tree ends while parts of it are open"),
])  # fmt: skip
def test_what_is_wrong_is_said(path: Path, change: dict[str, Any], said: str) -> None:
    lists = random_lists(0, 2, decimals=False, sizes=(9, 8, 7))
    rewrite(written(path, lists, "ndcg@3"), **change)
    assert_refused(path, lists, said)


def test_other_documents_and_metrics_are_refused(path: Path) -> None:
    lists = random_lists(0, 2, decimals=False)
    written(path, lists, "ndcg@3")
    assert_refused(path, lists, "metric: ndcg@3 in the certificate, mrr@3 here", metric="mrr@3")
    for changed in (
        Judged(lists.features + np.eye(1, 2), lists.offsets, lists.relevance),
        Judged(lists.features, lists.offsets, lists.relevance + (np.arange(10) == 9)),
        Judged(lists.features, [0, 4, 10], lists.relevance),
        Judged(lists.features, lists.offsets, lists.relevance, unretrieved=([1.0], [], [])),
        Judged(lists.features, lists.offsets, lists.relevance, unretrieved=([], [1.0], [])),
    ):
        assert_refused(path, changed, "fingerprint of the documents")
    with pytest.raises(LimitError, match="not checked further"):
        verify(path, lists, time_limit=0.0)
    with pytest.raises(DataError, match="no such file"):
        verify(path.with_name("none.json"), lists)


def bound_of_checker(lists: Judged, metric: RankingMetric) -> tuple[Any, Bound]:
    cones = Cones(lists, Measure(lists, metric), [2])
    return cones.rows, lambda ahead: Fraction(cones._filled(0, ahead.tolist()), 1 << 160)


@pytest.mark.parametrize("metric", METRICS)
def test_the_checker_bounds_every_order_and_reaches_decided_ones(metric: str) -> None:
    assert_bounds_hold(metric, bound_of_checker, above=1e-14, below=1e-15)


def test_what_weights_reach_is_enclosed_from_below() -> None:
    for metric in METRICS:
        for seed in range(4):
            lists = random_lists(seed, 3, decimals=seed % 2 == 1)
            weights = np.random.default_rng(seed).integers(-2, 3, size=3) / 4
            reached = Measure(lists, RankingMetric.of(metric)).reached(dict(zip("abc", weights.tolist(), strict=True)))
            assert reached == pytest.approx(evaluate(lists, weights, metric), abs=1e-14)
    # exact: one half; the sum of two logarithms' inverses is below its double
    half = Judged([[1.0], [2.0]], [0, 2], [1, 0])
    assert Measure(half, RankingMetric.of("mrr@2")).reached({"a": 1.0}) == Fraction(1, 2)
    assert Measure(half, RankingMetric.of("recall@1")).reached({"a": 1.0}) == 0
    low, high = Measure(half, RankingMetric.of("ndcg@3")).places
    assert low[1] < high[1]  # 1 / log2(3) is no fraction
    # the first is ahead by a half, which sums in doubles turn into 2 behind
    rounded = Judged([[2.0**53, 1, 1], [2.0**53 + 2, -0.5, 0]], [0, 2], [0, 1])
    assert Measure(rounded, RankingMetric.of("mrr@1")).reached(dict.fromkeys("abc", 1.0)) == 0


@pytest.mark.parametrize(("features", "unit", "inverse"), [
    ([[0, 2], [3, 0], [0, 3], [1, 1]], 0.5, 24),  # differences of 0 to 3: 2 sqrt(1) 3^2 (1/3 + 1/3) = 12, in halves
    ([[0, 0, 0], [1, 1, 1], [2, 3, 1]], 0.5, 132),  # of up to 2, 3 and 1: 3 sqrt(2)^2 2 3 1 (1/2 + 1/3 + 1) = 66
    ([[0, 0, 0, 0], [1, 1, 1, 1]], 1.0, 96),  # sqrt(27), of 3^3, is at most 6: 4 6 (1 + 1 + 1 + 1)
    ([[0], [0.1]], 1.0, None),  # no multiple of 2^-52
])  # fmt: skip
def test_the_least_lead_in_a_cell_is_that_of_the_lemma(features: Any, unit: float, inverse: int | None) -> None:
    assert least_lead(np.array(features) * unit) == (Fraction(1, inverse) if inverse else 0)


def test_signs_of_leads_are_those_of_fractions() -> None:
    random = np.random.default_rng(3)
    for step in (0.0, 2.0**-50, 2.0**-52):
        features = np.round(64 * random.normal(size=(12, 3))) / 64
        features[1:6] = features[0] + np.outer(random.choice([-1, 0, 1], size=5), [1.0, 1.0, -2.0 + step])
        features[6:9] = features[0] + [[7, -3, 0], [11, 0, -3], [0, 11, -7]]  # ties that rounding hides
        features[9:] = features[0] + [[17, -13, 0], [29, 0, -13], [0, 29, -17]]
        lists = Judged(features, [0, 12], np.arange(12) % 2)
        cones = Cones(lists, Measure(lists, RankingMetric.of("ndcg@5")), [6, 6, 6])
        rows, rivals = (np.ravel(some) for some in np.meshgrid(np.arange(len(cones.rows)), np.arange(12)))
        close = [(2**n + 1, 2**n, 2**n) for n in (30, 70)]
        for ray in ((1, 1, 1), (3, 7, 11), (13, 17, 29), (3, 2**60, 2**60 - 1), *close):
            cone = Cone((ray,), rows, rivals, np.zeros((len(rows), 1)), np.zeros(len(cones.rows)), {}, 0)
            for i, sign in enumerate(cones._signs(cone, ray).tolist()):
                a, b = cones.features[cones.rows[rows[i]]].tolist(), cones.features[rivals[i]].tolist()
                lead = sum(v * (Fraction(y) - Fraction(x)) for v, x, y in zip(ray, a, b, strict=True)) / sum(ray)
                assert sign == (0 if abs(lead) < cones.least else (lead > 0) - (lead < 0))
