"""Certificates of rankings hold where exact arithmetic says so, and no edited one proves what is false."""

import json
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import assert_refused, rewrite
from rankings import METRICS, Exact, no_multiples, random_lists, value

from lpmert import CertificateError, DataError, LimitError, Status
from lpmert.certificates.check.ranking import Cone, Cones, Measure, least_lead
from lpmert.ranking import Judged, RankingMetric, certify, evaluate, maximize, verify


def written(path: Path, lists: Judged, metric: str, **settings: Any) -> Path:
    certify(maximize(lists, metric, **settings), path)
    return path


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_every_optimum_is_certified(tmp_path: Path, metric: str, dimensions: int) -> None:
    for seed in range(3):
        lists = random_lists(seed, dimensions, decimals=seed % 2 == 1)
        lists = no_multiples(lists) if seed == 2 else lists
        result = maximize(lists, metric, nonnegative=seed != 1)
        path = tmp_path / f"{seed}.json"
        certify(result, path)
        found = verify(path, lists, metric)
        assert found.proved
        assert float(found.score) == pytest.approx(result.score, abs=1e-14)
        assert found.nonnegative == (seed != 1)
        assert str(found).startswith(f"certificate holds: {metric} {float(found.score):.10g} is the largest")


def test_cones_that_are_cut_in_whole_numbers_are_certified(tmp_path: Path) -> None:
    ties = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        lists = Judged(random.integers(0, 4, size=(36, 3)), np.arange(0, 37, 6), random.random(36) < 0.4)
        lists = no_multiples(lists)
        path = written(tmp_path / "proof.json", lists, "ndcg@3", nonnegative=False)
        assert verify(path, lists).proved
        ties += path.read_text().count("tie")
    assert ties > 30


def test_relevant_documents_that_no_weights_reach_are_certified(tmp_path: Path) -> None:
    for relevance, best in (([0, 0, 0], 0), ([0, 1, 0], Fraction(1, 2))):
        lists = Judged([[1, 2], [2, 1], [3, 3]], [0, 3], relevance, unretrieved=([1.0],))
        claim = verify(written(tmp_path / "proof.json", lists, "recall@2"), lists)
        assert 0 <= best - claim.score < 1e-20
        assert 0 <= claim.bound - best < 1e-11


def test_twins_count_in_the_order_of_rising_gain(tmp_path: Path) -> None:
    lists = Judged([[1], [1], [1]], [0, 3], [1, 2, 0])
    claim = verify(written(tmp_path / "proof.json", lists, "ndcg@3"), lists)
    best = value("ndcg@3", [0, 1, 2])
    assert float(claim.score) == pytest.approx(best, abs=1e-15)
    assert 0 <= claim.bound - claim.score < 1e-11
    cones = Cones(lists, Measure(lists, RankingMetric.of("ndcg@3")), [1])
    assert cones.whole_cone((1,)).total / 2**160 == pytest.approx(best, abs=1e-15)


def test_no_ranking_is_worth_more_than_the_best(tmp_path: Path) -> None:
    lists = Judged([[3], [2], [1]], [0, 3], [2, 1, 0])
    claim = verify(written(tmp_path / "proof.json", lists, "ndcg@3"), lists)
    assert claim.bound == 1


def test_a_score_that_is_understated_is_shown_as_the_weights_reach_it(tmp_path: Path) -> None:
    lists = Judged([[3], [2], [1]], [0, 3], [2, 1, 0])
    path = written(tmp_path / "proof.json", lists, "ndcg@3")
    rewrite(path, score="-5")
    found = verify(path, lists)
    assert found.score == pytest.approx(1.0, abs=1e-20)
    assert "ndcg@3 1 is the largest" in str(found)


def test_a_stopped_search_certifies_its_bound(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    lists = Judged(random.normal(size=(200, 3)), np.arange(0, 201, 10), random.random(200) < 0.2)
    best = maximize(lists, "ndcg@5")
    result = maximize(lists, "ndcg@5", time_limit=0.0)
    assert result.status is Status.TIME_LIMIT
    certify(result, tmp_path / "proof.json.gz")
    found = verify(tmp_path / "proof.json.gz", lists)
    assert not found.proved
    assert found.score <= best.score <= found.bound
    assert float(found.bound) == pytest.approx(result.bound, abs=1e-14)
    assert "below the largest of weights that are not negative" in str(found)


# Edited certificates


def edits(lines: list[str], random: np.random.Generator) -> Iterator[list[str]]:
    """Certificates with a record taken out, doubled, closed, opened or changed in a number, or with another claim."""
    count = len(lines) - 2
    for _ in range(16):
        i = 1 + int(random.integers(count))
        record = json.loads(lines[i].rstrip(","))
        comma = "," if lines[i].endswith(",") else ""
        for kind, entry in record.items():
            place = int(random.integers(4))
            changed = [*entry]
            changed[place] = int(entry[place] * random.choice([0, 0.5, 2])) + int(random.choice([-1, 0, 1]))
            yield [*lines[:i], json.dumps({kind: changed}) + comma, *lines[i + 1 :]]
            swapped = [entry[1], entry[0], *entry[2:]]
            yield [*lines[:i], json.dumps({kind: swapped}) + comma, *lines[i + 1 :]]
        yield [*lines[:i], *lines[i + 1 :]]
        yield [*lines[:i], lines[i].rstrip(",") + ",", *lines[i:]]
        yield [*lines[:i], "{}" + comma, *lines[i + 1 :]]
        yield [*lines[:i], '{"split":[0,1,1,1]},', "{},", *lines[i:]]
        end = 1 + int(random.integers(count))
        yield [*lines[: min(i, end)], "{}" + comma, *lines[max(i, end) + 1 :]]
    header = json.loads(lines[0].removesuffix(', "tree": [') + "}")
    score, bound, names = Fraction(header["score"]), Fraction(header["bound"]), list(header["weights"])
    changes: dict[str, list[Any]] = {
        "lpmert certificate": [1, 3],
        "score": [str(score * factor) for factor in (2, Fraction(1 << 50, (1 << 50) - 1))],
        "bound": [str(bound * factor) for factor in (Fraction(9, 10), 1 - Fraction(1, 10**9))],
        "weights": [{key: (1.0 if key == one else 0.5).hex() for key in names} for one in names],
        "exponents": [{key: n + step for key, n in header["exponents"].items()} for step in (-1, 1, 5000)],
        "nonnegative": [not header["nonnegative"]],
        "ranking": ["mrr@3", "recall-l2@3", "ndcg@0", "bpref@2"],
        "fingerprint": [header["fingerprint"][::-1]],
    }
    for name, others in changes.items():
        for changed in others:
            yield [json.dumps({**header, name: changed})[:-1] + ', "tree": [', *lines[1:]]


def test_no_edited_certificate_proves_what_is_false(tmp_path: Path) -> None:
    refused = held = 0
    for seed, dimensions in ((0, 2), (1, 2), (2, 3), (3, 2)):
        lists = random_lists(seed, dimensions, decimals=seed == 1, sizes=(5, 4))
        lists = no_multiples(lists) if seed >= 2 else lists
        path, exact = tmp_path / "proof.json", Exact(lists)
        metrics = "ndcg@3", "mrr@3", "recall-l2@3"
        signs = True, False
        best = {(metric, sign): exact.best(metric, nonnegative=sign) for metric, sign in product(metrics, signs)}
        lines = written(path, lists, "ndcg@3", nonnegative=seed != 3).read_text().splitlines()
        for edited in edits(lines, np.random.default_rng(seed)):
            path.write_text("\n".join(edited) + "\n")
            try:
                claim = verify(path, lists)
            except CertificateError:
                refused += 1
                continue
            held += 1  # a cone may be cut elsewhere, or once more
            assert claim.bound >= best[claim.ranking, claim.nonnegative] - 1e-12
            weights = tuple(Fraction(claim.weights[name]) for name in lists.names)
            assert claim.score <= exact.worst(claim.ranking, weights) + 1e-12
            assert not claim.nonnegative or min(weights) >= 0
    assert min(refused, held) > 30


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "1"}, "the weights reach "),
        ({"bound": "1/2"}, "by the tree, weights may reach "),
        *(({key: "9" * 301}, "a fraction such as 7/2, of at most 1e300") for key in ("score", "bound")),
        ({"ranking": "bpref@3"}, "the metric must be one of ndcg, ndcg-exp"),
        ({"fingerprint": "0"}, "fingerprint of the documents: 0 in the certificate"),
        ({"weights": {"1": (-0.5).hex(), "2": (0.5).hex()}}, "a weight is negative"),
        ({"weights": {"a": (0.5).hex(), "2": (0.5).hex()}}, "features: ['a', '2'] in the certificate"),
        ({"exponents": {"1": -9, "2": 1}}, "the exponents bring features beyond 2"),
        ({"exponents": {"1": 1100, "2": 1}}, "to where doubles do not hold them"),
        ({"nonnegative": 1}, "bool expected, not 1"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    lists = random_lists(0, 2, decimals=False)
    path = written(tmp_path / "proof.json", lists, "ndcg@3")
    rewrite(path, **change)
    assert said in assert_refused(path, lists)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (['{"split":[0,0,1,1]}'], "no edge of this cone is split"),
        (['{"split":[0,2,1,1]}'], "no edge of this cone is split"),
        (['{"split":[0,1,1,0]}'], "a new ray must be between two of the cone"),
        (['{"split":[0,1,1]}'], "4 whole numbers expected"),
        (['{"tie":[0,1,0,99]}'], "there is no such document"),
        (['{"tie":[0,1,0,0]}'], "a new ray must be between two of the cone"),
        (['{"corners":[1]}'], "no cone is divided by {'corners'"),
        ([f'{{"split":[0,1,1,{"9" * 5000}]}}'], "no record in the layout of a certificate"),
        ([f'{{"split":[0,1,1,{1 << 14000}]}}'] * 3, "a ray has too many digits"),
        (["{}"], "by the tree, weights may reach"),
        (["{}", "{}"], "the tree is closed, but something follows"),
        (['{"split":[0,1,1,1]}', "{}"], "the tree ends while parts of it are open"),
    ],
)
def test_trees_that_prove_nothing_are_refused(tmp_path: Path, records: list[str], said: str) -> None:
    lists = random_lists(0, 2, decimals=False, sizes=(9, 8, 7))
    path = written(tmp_path / "proof.json", lists, "ndcg@3")
    head = path.read_text().splitlines()[0]
    content = "\n".join([head, ",\n".join(records), "]}"]) + "\n"
    assert said in assert_refused(path, lists, content=content)


def test_other_documents_and_metrics_are_refused(tmp_path: Path) -> None:
    lists = random_lists(0, 2, decimals=False)
    path = written(tmp_path / "proof.json", lists, "ndcg@3")
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
        verify(tmp_path / "none.json", lists)


# The checker's own arithmetic


@pytest.mark.parametrize("metric", METRICS)
def test_the_checker_bounds_every_order_and_reaches_decided_ones(metric: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(10):
        grades = random.integers(0, 3, size=5).astype(float)
        grades[0] = 2
        lists = Judged(random.normal(size=(5, 1)), [0, 5], grades)
        measure = Measure(lists, RankingMetric.of(metric))
        cones = Cones(lists, measure, [2])
        least = random.integers(0, 3, size=5)
        reached = Fraction(-1)
        for order in permutations(range(5)):
            gains = [measure.parts.exact_gains[level] for level in measure.parts.levels[list(order)]]
            before = np.zeros(5, dtype=np.int64)
            for place, d in enumerate(order):
                before[d] = sum(gain != gains[place] for gain in gains[:place])
            own = Fraction(value(metric, [grades[d] for d in order]) or 0.0)
            found = Fraction(cones._filled(0, before[cones.rows].tolist()), 1 << 160)
            assert abs(found - own) < 1e-14
            if all(before[d] >= least[d] for d in range(5) if measure.parts.levels[d]):
                reached = max(reached, own)
        assert Fraction(cones._filled(0, least[cones.rows].tolist()), 1 << 160) > reached - Fraction(1, 10**15)


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


@pytest.mark.parametrize(
    ("features", "unit", "inverse"),
    [
        ([[0, 2], [3, 0], [0, 3], [1, 1]], 0.5, 24),  # differences of 0 to 3: 2 sqrt(1) 3^2 (1/3 + 1/3) = 12, in halves
        ([[0, 0, 0], [1, 1, 1], [2, 3, 1]], 0.5, 132),  # of up to 2, 3 and 1: 3 sqrt(2)^2 2 3 1 (1/2 + 1/3 + 1) = 66
        ([[0, 0, 0, 0], [1, 1, 1, 1]], 1.0, 96),  # sqrt(27), of 3^3, is at most 6: 4 6 (1 + 1 + 1 + 1)
        ([[0], [0.1]], 1.0, None),  # no multiple of 2^-52
    ],
)
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
        for ray in (
            (1, 1, 1),
            (3, 7, 11),
            (13, 17, 29),
            (3, 2**60, 2**60 - 1),
            *((2**n + 1, 2**n, 2**n) for n in (30, 70)),
        ):
            cone = Cone((ray,), rows, rivals, np.zeros((len(rows), 1)), np.zeros(len(cones.rows)), {}, 0)
            for i, sign in enumerate(cones._signs(cone, ray).tolist()):
                a, b = cones.features[cones.rows[rows[i]]].tolist(), cones.features[rivals[i]].tolist()
                lead = sum(v * (Fraction(y) - Fraction(x)) for v, x, y in zip(ray, a, b, strict=True)) / sum(ray)
                assert sign == (0 if abs(lead) < cones.least else (lead > 0) - (lead < 0))
