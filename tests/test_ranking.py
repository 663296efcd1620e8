"""Weights that rank best are those that exact arithmetic finds among all orders of the documents."""

from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from late import Late
from oracle import dot, primitive
from rankings import METRICS, Bound, Exact, assert_bounds_hold, no_multiples, random_lists, twenty_queries, value
from refusals import refused
from scipy.optimize import linprog
from shared import lambdarank, needs_shared

import lpmert
from lpmert import DataError, MethodError, MetricError, Status, core, ranking
from lpmert.certificates.rankings import least_lead
from lpmert.fusion import fuse
from lpmert.limits import Deadline
from lpmert.ranking import Curve, Judged, RankingMetric, certify, evaluate, maximize

SMALL = no_multiples(random_lists(0, 3, decimals=False))
TURNED = Judged([[1], [2], [3]], [0, 3], [1, 0, 0])  # documents that are ranked best by weights below 0
TWENTY = twenty_queries()
ONE, TWO = Judged([[1.0]], [0, 1], [1]), [[1.0], [2.0]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_no_order_of_the_documents_is_better(metric: str, nonnegative: bool, dimensions: int) -> None:
    for seed in range(6 if dimensions == 2 else 3):
        lists = random_lists(seed, dimensions, decimals=seed % 2 == 1)
        result = maximize(no_multiples(lists) if seed == 2 else lists, metric, nonnegative=nonnegative)
        exact = Exact(lists)
        assert result.status is Status.OPTIMAL
        assert result.score == pytest.approx(exact.best(metric, nonnegative=nonnegative), abs=1e-12)
        assert result.score <= result.bound <= result.score + 1e-11
        weights = tuple(Fraction(w) for w in result.weights.tolist())
        assert result.score == pytest.approx(exact.worst(metric, weights), abs=1e-12)
        assert not nonnegative or min(weights) >= 0


@pytest.mark.parametrize(("lists", "nonnegative", "score"), [
    (TURNED, True, 1 / 3),
    (TURNED, False, 1.0),
    # the third document is second for all weights but equal ones, with which all three tie
    (Judged([[1, -1], [-1, 1], [0, 0]], [0, 3], [0, 0, 1]), True, 0.5),
])  # fmt: skip
def test_the_best_score_of_a_few_documents(lists: Judged, nonnegative: bool, score: float) -> None:
    result = maximize(lists, "mrr@3", nonnegative=nonnegative)
    assert (result.score, result.status) == (pytest.approx(score), Status.OPTIMAL)


def assert_curve_holds(curve: Curve, exact: Exact, metric: str) -> None:
    """Assert that the values are those of weights between the ones at which they change."""
    middles = (curve.begins[:-1] + curve.begins[1:]).tolist()
    values = [exact.worst(metric, tuple(map(Fraction, weights))) for weights in middles]
    assert curve.values.tolist() == pytest.approx(values, abs=1e-11)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_curve_has_the_value_of_every_cell(nonnegative: bool) -> None:
    for seed in (3, 4):
        lists = random_lists(seed, 2, decimals=seed % 2 == 1, sizes=(6, 5))
        curve, exact = maximize(lists, "ndcg-exp@4", nonnegative=nonnegative).curve, Exact(lists)
        assert_curve_holds(curve, exact, "ndcg-exp@4")
        inside = {exact.worst("ndcg-exp@4", w) for w in exact.points() if not nonnegative or min(w) > 0}
        assert {round(v, 9) for v in inside} == {round(v, 9) for v in curve.values.tolist()}
        if nonnegative:
            assert (curve.alpha[0], curve.alpha[-1], min(np.diff(curve.alpha)) > 0) == (0, 1, True)


def test_long_lists_have_the_value_of_every_cell() -> None:
    # most documents are out of reach of the first three in most directions
    random = np.random.default_rng(12)
    features = np.round(random.normal(size=(90, 2)), 1)
    lists = Judged(features, np.array([0, 60, 90]), np.arange(90) % 4 * (random.random(90) < 0.3))
    curve, exact = maximize(lists, "ndcg-exp@3").curve, Exact(lists)
    assert_curve_holds(curve, exact, "ndcg-exp@3")
    # the axes and the directions of all ties are in order, as are the values between any two of them
    ties = {primitive((abs(n[1]), abs(n[0]))) for n in exact.normals() if n[0] * n[1] <= 0}
    ordered = sorted(ties, key=lambda w: Fraction(w[1], w[0] + w[1]))
    values = [exact.worst("ndcg-exp@3", (a[0] + b[0], a[1] + b[1])) for a, b in pairwise(ordered)]
    steps = [v for i, v in enumerate(values) if i == 0 or abs(v - values[i - 1]) > 1e-9]
    assert steps == pytest.approx(curve.values.tolist(), abs=1e-11)


def test_directions_that_rounding_cannot_tell_apart_are_told_apart() -> None:
    # the first query is right below a share of 1/2, the second one above it, or from the same place on
    for step, best, cells in ((2.0**-51, 0.75, 3), (0.0, 0.75, 1), (-(2.0**-51), 1.0, 3)):
        features = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0 + step, 0.0]]
        lists = Judged([*features, [1 / 3, 1 / 7]], [0, 2, 4, 5], [1, 0, 1, 0, 0])
        curve = maximize(lists, "mrr@2").curve
        assert curve.values.max() == pytest.approx(best, abs=1e-11)
        assert len(curve.values) == cells


def test_every_cell_of_whole_numbers_holds_weights_with_clear_leads() -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        lists = Judged(random.integers(0, 4, size=(5, 3)) * [1.0, 0.5, 2.0] / 8, [0, 5], [1, 0, 0, 1, 0])
        least, exact = least_lead(lists.features), Exact(lists)
        normals = np.array(exact.normals()[3:], dtype=float) / exact.scale
        assert 0 < least < 1
        for point in exact.points():
            if min(point) <= 0:
                continue
            # the largest lead that some weights of the cell, which sum to 1, have in all pairs
            sides = normals * np.sign(normals @ np.array(point, dtype=float))[:, None]
            leads, zeros = np.column_stack([-sides, np.ones(len(sides))]), np.zeros(len(sides))
            found = linprog([0, 0, 0, -1], leads, zeros, [[1, 1, 1, 0]], [1], bounds=[(0, None)] * 4)
            assert -found.fun >= float(least) * (1 - 1e-12)
    assert least_lead(np.array([[1 / 3, 0.1, 0.2]])) == 0


@pytest.mark.parametrize("name", ["ndcg@1", "mrr@1"])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_first_place_alone_is_the_choice_that_minimize_makes(name: str, dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    features, offsets = random.normal(size=(60, dimensions)), np.arange(0, 61, 6)
    relevant = random.random(60) < 0.3
    relevant[::6] = True
    chosen = lpmert.minimize(lpmert.NBest(features, offsets, 1.0 - relevant[:, None]), metric="zero-one")
    ranked = maximize(Judged(features, offsets, relevant), name, nonnegative=False)
    assert ranked.status is chosen.status is Status.OPTIMAL
    assert ranked.score * 10 == pytest.approx(10 - chosen.loss)


def bound_of_core(lists: Judged, metric: RankingMetric) -> tuple[Any, Bound]:
    parts = metric.parts(lists)
    bounds = core.Ranking(lists.features, lists.offsets, parts.gains, parts.discounts, parts.merits, parts.scales, 0.0)
    return bounds.relevant, lambda ahead: Fraction(bounds.worth(0, ahead), 1 << 40)


@pytest.mark.parametrize("metric", METRICS)
def test_the_bound_holds_for_every_order_and_is_reached_by_decided_ones(metric: str) -> None:
    assert_bounds_hold(metric, bound_of_core, above=1e-11, below=0.0)


@pytest.mark.parametrize(("lists", "name", "limit"), [
    (TWENTY, "ndcg-exp@5", 0.0),
    (TWENTY, "ndcg-exp@5", 0.02),
    (TURNED, "mrr@3", 0.0),  # whose cones are not open yet
])  # fmt: skip
def test_a_search_that_is_cut_short_has_a_valid_bound(lists: Judged, name: str, limit: float) -> None:
    best = maximize(lists, name, nonnegative=lists is TWENTY)
    short = maximize(lists, name, nonnegative=lists is TWENTY, time_limit=limit)
    assert best.status is Status.OPTIMAL
    assert short.score <= best.score <= short.bound
    assert short.status is Status.TIME_LIMIT or (limit and short.status is Status.OPTIMAL)


def interrupted(*_: object) -> bool:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("lists", "name", "functions"), [
    (SMALL, "ndcg-exp@3", {"Maximizing._settle": interrupted}),
    (SMALL, "ndcg-exp@3", {"Maximizing._start": interrupted}),
    # one cone is all there is, no weights close it, and the interrupt comes when the core has handed it over
    (TURNED, "mrr@3", {"Maximizing._consider": lambda *_: None, "_exact_rays": interrupted}),
])  # fmt: skip
def test_an_interrupted_search_has_a_valid_bound(lists, name, functions, monkeypatch):
    best = maximize(lists, name).score
    for patched, function in functions.items():
        monkeypatch.setattr(f"lpmert.ranking.{patched}", function)
    result = maximize(lists, name)
    assert result.status is Status.INTERRUPTED
    assert result.score <= best <= result.bound


def test_the_clock_is_looked_at_before_each_random_weights_and_each_large_cone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cone with half a million documents has millions of pairs, and random weights compare as many."""
    looks, told = [], []
    monkeypatch.setattr(Deadline, "expired", property(lambda _: bool(looks.append(1))))
    monkeypatch.setattr(ranking, "_SLICE", 1)
    best = maximize(SMALL, "ndcg-exp@3", on_progress=lambda *at: told.append(at[2]))
    assert best.status is Status.OPTIMAL
    assert len(looks) > ranking._SAMPLES + len(told)
    assert all(after - before <= 2 for before, after in pairwise([*told, best.nodes]))  # the parts of one cone


def test_documents_that_doubles_cannot_tell_apart_are_put_in_exact_order() -> None:
    random = np.random.default_rng(5)
    weights = [1.0, 2.0**-30, 2.0**-60]
    near = 0
    for _ in range(60):
        rows = random.integers(0, 3, size=(12, 3)) * [1.0, 2.0**-20, 1.0]
        gains = random.integers(0, 2, size=12)
        gains[0] = 1
        exact = [dot(weights, row) for row in rows.tolist()]
        order = sorted(range(12), key=lambda d: (-exact[d], gains[d]))
        near += len(set(exact)) > len(set((rows @ weights).tolist()))
        first = next(place for place, d in enumerate(order) if gains[d])
        for name, worth in (("mrr@12", 1 / (first + 1)), ("recall@4", sum(gains[order[:4]]) / sum(gains))):
            assert evaluate(Judged(rows, [0, 12], gains), weights, name) == pytest.approx(worth, abs=1e-15)
    assert near > 30


def test_a_cone_closed_within_the_tolerance_counts_in_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking.Maximizing, "_consider", lambda *_: None)
    monkeypatch.setattr(ranking, "_TOLERANCE", 2**40)  # all is within it
    result = maximize(TURNED, "mrr@3")
    assert result.search.exact_nodes == 1
    assert result.bound >= 1 / 3


def test_a_search_with_little_memory_proves_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    best = maximize(TWENTY, "ndcg-exp@5")
    monkeypatch.setattr(ranking, "_MOST_BYTES", 0)
    little = maximize(TWENTY, "ndcg-exp@5")
    assert (little.status, little.score) == (best.status, best.score) == (Status.OPTIMAL, best.score)
    assert little.nodes != best.nodes  # the order of nodes was another one


def test_ties_of_coarse_features_are_decided_in_whole_numbers_and_leave_nothing_to_tolerance() -> None:
    # many documents tie on each of few planes: cones around them end in exact arithmetic, and cells are wide
    random = np.random.default_rng(2)
    fine = no_multiples(Judged(random.integers(0, 3, size=(36, 3)), np.arange(0, 37, 6), random.random(36) < 0.4))
    random = np.random.default_rng(15)
    features = random.integers(0, 5, size=(18, 3))
    relevance = random.integers(0, 3, size=18) * (random.random(18) < 0.5) + (np.arange(18) == 0)
    for lists, metric in ((fine, "ndcg-exp@3"), (Judged(features, [0, 6, 12, 18], relevance), "recall@3")):
        result = maximize(lists, metric, nonnegative=False)
        assert result.search.exact_nodes > 0 or lists is not fine
        assert result.status is Status.OPTIMAL
        assert result.score == pytest.approx(Exact(lists).best(metric, nonnegative=False), abs=1e-12)


def test_what_no_weights_were_found_for_counts_in_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    best = 0
    for seed in range(6):
        lists = random_lists(seed, 3, decimals=False)
        proved = maximize(lists, "mrr@3", nonnegative=False)
        with monkeypatch.context() as patch:
            patch.setattr(ranking.Maximizing, "_consider_inside", lambda *_: None)
            patch.setattr(ranking.Maximizing, "_start", lambda *_: None)
            found = maximize(lists, "mrr@3", nonnegative=False)
        assert found.bound >= proved.score - 1e-12
        best += found.score < proved.score - 1e-9
    assert best


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neither_order_nor_scale_nor_copies_nor_documents_out_of_reach_change_the_optimum(dimensions: int) -> None:
    random = np.random.default_rng(9)
    for seed in (4, 6):
        lists = random_lists(seed, dimensions, decimals=True, sizes=(7, 6, 5))
        features, offsets, grades = lists.features, lists.offsets, lists.relevance
        best = maximize(lists, "ndcg-exp@3").score
        shuffled = np.concatenate([random.permutation(np.arange(a, b)) for a, b in ((13, 18), (0, 7), (7, 13))])
        # a document that all others of its query lead is out of reach of the first three
        last, places = [features[a:b].min(axis=0) - 1 for a, b in pairwise(offsets)], offsets[1:]
        for changed in (
            Judged(features[shuffled], [0, 5, 12, 18], grades[shuffled]),
            Judged(np.round(features * 10.0 ** np.arange(dimensions), 6), offsets, grades),
            Judged(np.round(features * 3, 6), offsets, grades),
            Judged(features[:, ::-1], offsets, grades),
            Judged(np.column_stack([features, features[:, 0]]), offsets, grades),
            Judged(np.column_stack([features, np.zeros(18)]), offsets, grades),
            Judged(np.vstack([features] * 2), [*offsets, *(offsets[1:] + 18)], np.tile(grades, 2)),
            Judged(np.insert(features, places, last, axis=0), [0, 8, 15, 21], np.insert(grades, places, 0)),
        ):
            assert maximize(changed, "ndcg-exp@3").score == pytest.approx(best, abs=1e-12)


def test_a_twin_that_is_not_relevant_comes_first() -> None:
    lists = random_lists(1, 2, decimals=False)
    grades = np.column_stack([lists.relevance, np.zeros(len(lists.relevance))]).ravel()
    twice = Judged(np.repeat(lists.features, 2, axis=0), 2 * lists.offsets, grades)
    assert maximize(twice, "mrr@1").score == maximize(twice, "precision@1", nonnegative=False).score == 0.0
    assert maximize(twice, "mrr@2").score == maximize(lists, "mrr@1").score / 2


def test_the_given_order_of_ties_is_worth_more_than_the_worst_one() -> None:
    random = np.random.default_rng(7)
    for metric, _ in product(METRICS, range(10)):
        features = random.integers(0, 2, size=(6, 2)) / 10
        grades = random.integers(0, 3, size=6).astype(float)
        grades[0] = 2
        scores = [Fraction(repr(a)) + Fraction(repr(b)) for a, b in features.tolist()]
        orders = [p for p in permutations(range(6)) if all(scores[a] >= scores[b] for a, b in pairwise(p))]
        worth = {order: value(metric, [grades[d] for d in order]) or 0.0 for order in orders}
        lists = Judged(features, [0, 6], grades)
        given, worst = (evaluate(lists, [1.0, 1.0], metric, ties=ties) for ties in ("given", "worst"))
        assert (given, worst) == pytest.approx((worth[min(orders)], min(worth.values())), abs=1e-14)
        assert evaluate(lists, [1.0, 1.0], metric) == worst
    # two queries that no weights rank right, but for those with which all documents tie
    lists = Judged([[1, 0], [0, 1], [0, 1], [1, 0]], [0, 2, 4], [1, 0, 1, 0])
    assert maximize(lists, "mrr@2").bound < 0.75 + 1e-11
    assert evaluate(lists, [0.5, 0.5], "mrr@2", ties="given") == 1.0


def test_scores_are_compared_as_decimals_and_beyond_doubles() -> None:
    lists = Judged([[0.1, 0.2], [0.3, 0.0]], [0, 2], [1, 0])  # as doubles, 0.1 + 0.2 is more than 0.3
    assert evaluate(lists, [1.0, 1.0], "mrr@2") == 0.5
    assert evaluate(lists, [1.0, 1.0 + 2**-52], "mrr@2") == 1.0
    lists = Judged([[1e308, 1e308], [1.5e308, 1e308], [1e308, 0.0]], [0, 3], [1, 0, 0])
    assert evaluate(lists, [1.0, 1.0], "mrr@3") == 0.5
    assert evaluate(lists, [-1.0, 1.0], "mrr@3") == 1.0


def test_many_queries_that_do_not_count_widen_no_tolerance() -> None:
    # of 3000 queries the first one alone counts
    features = np.random.default_rng(3).normal(size=(3009, 3))
    result = maximize(Judged(features, [0, *range(10, 3010)], np.arange(3009) < 4), "ndcg-exp@3")
    assert (result.status, result.bound - result.score < 1e-11) == (Status.OPTIMAL, True)


def test_a_metric_is_written_as_it_is_read() -> None:
    for text in (*METRICS, "recall-l3@100"):
        metric = RankingMetric.of(text)
        assert (str(metric), RankingMetric.of(metric)) == (text, metric)


def test_the_progress_of_the_search_is_reported() -> None:
    told: list[tuple[float, float, int]] = []
    best = maximize(TWENTY, "map@5", on_progress=lambda *told_now: told.append(told_now))
    assert (best.status, len(told) > 1) == (Status.OPTIMAL, True)
    scores, bounds, nodes = map(list, zip(*told, strict=True))
    assert (scores, bounds, nodes) == (sorted(scores), sorted(bounds, reverse=True), sorted(nodes))
    assert max(scores) <= best.score <= min(bounds)


test_what_cannot_be_ranked_is_refused = refused([
    *((MetricError, "must be", partial(maximize, ONE, metric)) for metric in [
        "ndcg-exp", "ndcg-exp@0", "ndcg-exp@x", "bpref@3", "mrr@5000", "recall-l@3", f"mrr@{'9' * 5000}", None, b"mrr@3"
    ]),
    *((MetricError, "k must be a whole number", partial(RankingMetric, "ndcg", k)) for k in (2.5, True, "10")),
    (MetricError, "ndcg takes grades as they are; leave out -l2", lambda: RankingMetric.of("ndcg-l2@10")),
    *((MethodError, f"{name} must be a", partial(maximize, ONE, "mrr@1", **{name: value})) for name, value in [
        ("time_limit", "1"), ("time_limit", float("nan")), ("time_limit", -1), ("seed", -1),
    ]),
    *((DataError, f"no query has .*, with a grade of {least}; check the grades",
       partial(evaluate, Judged([[1.0]], [0, 1], [grade]), [1.0], metric))
      for grade, metric, least in ((0, "ndcg-exp@2", "more than 0"), (1, "recall-l2@2", "2 or more"))),
    *((DataError, f"{what} has 'a' twice; all must differ",
       partial(Judged, np.eye(3), [0, 1, 3], [1, 0, 0], **{what: names}))
      for what, names in (("names", ("a", "b", "a")), ("queries", ("a", "a")))),
    *((DataError, said, partial(Judged, features, offsets, grades)) for features, offsets, grades, said in [
        ([[1.0], [np.nan]], [0, 2], [1, 0], "must be finite; replace missing scores"),
        (TWO, [0, 1], [1, 0], "offsets must run from 0 to 2, the number of documents"),
        (TWO, [0, 2], [1, -1], "relevance must be finite and not negative"),
        (TWO, [0, 2], [1], "one grade for each of 2 documents"),
        ([1.0, 2.0], [0, 2], [1, 0], "documents x features"),
        ([[1.0], ["x"]], [0, 2], [1, 0], "features must be real numbers"),
        ([["1"], ["2"]], [0, 2], [1, 0], "features must be real numbers"),
        ([[1.0], [2.0, 3.0]], [0, 2], [1, 0], "features must be a rectangular array of numbers"),
        ([[2**53 + 1], [2**53]], [0, 2], [1, 0], "features has integers beyond"),
        (np.ma.array(TWO, mask=[[0], [1]]), [0, 2], [1, 0], "features has masked entries"),
        (TWO, [], [1, 0], "offsets must be one-dimensional, with at least two integers"),
        (TWO, [0, 0.5, 2], [1, 0], "offsets must be one-dimensional, with at least two integers"),
        (TWO, [0, 2], [1e101, 0], "relevance must be 0, or from 1e-100 to 1e"),
        (TWO, [0, 2], [1e-320, 0], "relevance must be 0, or from 1e-100 to 1e"),
    ]),
    (DataError, "must be Judged documents, not list", partial(maximize, [[1.0]], "mrr@1")),
    (DataError, "must be Judged documents, not NoneType", partial(evaluate, None, [1], "mrr@1")),
    (DataError, "ties must be one of worst, given, not 'name'", partial(evaluate, ONE, [1], "mrr@2", ties="name")),
    (MethodError, "must be a result of maximize, not str", partial(certify, "x", "proof.json")),
    (DataError, "weights have none for 1", partial(evaluate, ONE, {}, "mrr@1")),
    (DataError, "one number for each of the 1 features", partial(evaluate, ONE, [1, 2], "mrr@1")),
    (MethodError, "folds must be a whole number of at least 2", partial(fuse, ONE, "mrr@1", folds=2.0)),
    (DataError, "'1' has nan", partial(fuse, ONE, "mrr@1", other=[np.nan])),
])  # fmt: skip


def test_documents_are_a_copy_and_may_be_a_data_frame() -> None:
    features = np.array([[1.0, 0.0], [0.0, 1.0]])
    lists = Judged(features, [0, 2], [1, 0])
    frame = Late("pandas").DataFrame(features, columns=["bm25", "dense"])
    features[0, 0] = 9.0
    assert lists.features[0, 0] == 1.0
    named = Judged(frame, [0, 2], [1, 0])
    assert named.names == ("bm25", "dense")
    found = maximize(named, "mrr@1")
    assert evaluate(named, found.by_name, "mrr@1") == evaluate(named, {"dense": 0, "bm25": 1}, "mrr@1") == 1.0


@cache
def judged(*columns: int) -> Judged:
    """Web search with these features, and of documents with equal features in a query the first one."""
    features, ends, every = lambdarank()
    rows, offsets, grades = [], [0], []
    for begin, end in pairwise(ends):
        own: dict[tuple[float, ...], float] = {}
        for row, grade in zip(features[begin:end, columns].tolist(), every[begin:end].tolist(), strict=True):
            own.setdefault(tuple(row), grade)
        rows += list(own)
        grades += list(own.values())
        offsets.append(len(grades))
    return Judged(np.array(rows), offsets, grades)


@needs_shared
@pytest.mark.parametrize(("columns", "metric", "optimum"), [
    # proved by a search of its own in double precision, which breaks ties by order
    *(((91, 253), "ndcg-exp@10", 0.759222), ((91, 241), "ndcg-exp@10", 0.721211)),
    *(((91, 253, 241), "ndcg-exp@10", 0.752727), ((91, 241, 248), "ndcg-exp@10", 0.736366)),
    *(((91, 241, 248, 240), "ndcg-exp@10", 0.736593), ((91, 253, 241), "mrr@10", 0.914983)),
])  # fmt: skip
def test_web_search_is_ranked_as_another_program_proved(columns: tuple[int, ...], metric: str, optimum: float) -> None:
    lists = judged(*columns)
    result = maximize(lists, metric)
    assert (result.status, result.score) == (Status.OPTIMAL, pytest.approx(optimum, abs=5e-7))
    for i in range(11 if result.curve else 0):
        assert evaluate(lists, [1 - i / 10, i / 10], metric) <= result.score
