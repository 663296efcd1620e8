"""Fused scores have the values of trec_eval and ranx, and the best weights are compared with usual ones."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import fsum
from pathlib import Path

import numpy as np
import pytest
from rankings import twenty_queries, value

from lpmert import DataError, Status, fusion, read_judged
from lpmert.formats.weights import ENGINES, engine_text
from lpmert.fusion import Unseen, fuse, rounded_up
from lpmert.limits import Deadline
from lpmert.model.judgments import Judged
from lpmert.ranking import evaluate, maximize
from lpmert.reporting import pictures

Scores = dict[str, dict[str, float]]
WEIGHTS = (0.31, 0.42, 0.27)
METRICS = ("ndcg@5", "ndcg@50", "mrr@7", "recall@4", "precision@6", "map@9", "success@2", "map-l2@30", "recall-l2@4")
OF_PYTREC_EVAL = {"ndcg": "ndcg_cut", "recall": "recall", "precision": "P", "map": "map_cut", "success": "success"}
OF_RANX = {"ndcg-exp": "ndcg_burges", "success": "hit_rate"}  # the names that differ


def collection(seed: int, *, queries: int = 25) -> tuple[dict[str, Scores], Scores]:
    """Three runs that return different documents of 40 a query, and grades for some of them, and for others."""
    random = np.random.default_rng(seed)
    runs: dict[str, Scores] = {"bm25": {}, "dense": {}, "sparse": {}}
    qrels: Scores = {}
    for q in range(queries):
        documents = [f"d{n}" for n in random.permutation(40)]
        for own in runs.values():
            own[f"q{q}"] = {d: float(random.normal()) for d in random.permutation(documents)[:20]}
        qrels[f"q{q}"] = {d: float(random.integers(0, 4)) for d in documents[:8]} | {"elsewhere": 1.0}
    return runs, qrels


def fused_by_hand(runs: dict[str, Scores], how: str | None, weights: tuple[float, ...] = WEIGHTS) -> Scores:
    """The weighted sum over the runs that return a document, without the package; other runs add 0."""
    found: Scores = {}
    for weight, run in zip(weights, runs.values(), strict=True):
        for q, scores in run.items():
            low, high = min(scores.values()), max(scores.values())
            mean = fsum(scores.values()) / len(scores)
            deviation = (fsum((s - mean) ** 2 for s in scores.values()) / len(scores)) ** 0.5
            for d, score in scores.items():
                value = {None: score, "minmax": (score - low) / (high - low), "z": (score - mean) / deviation}[how]
                found.setdefault(q, {}).setdefault(d, 0.0)
                found[q][d] += weight * value
    return found


def trec_eval(run: Scores, qrels: Scores, metric: str, *, by_name: bool = False) -> float:
    """The mean over the queries as trec_eval counts, without the package; ties in the worst order, or by name."""
    values = []
    for q, grades in qrels.items():
        named = sorted(run[q], reverse=True)
        order = sorted(named, key=lambda d: (-run[q][d], 0.0 if by_name else grades.get(d, 0.0)))
        beyond = [grade for d, grade in grades.items() if d not in run[q]]
        values.append(value(metric, [*(grades.get(d, 0.0) for d in order), *[0.0] * 50, *beyond]))
    return fsum(counted := [one for one in values if one is not None]) / len(counted)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("how", [None, "minmax", "z"])
def test_scores_are_those_of_trec_eval(metric: str, how: str | None) -> None:
    for seed in range(4):
        runs, qrels = collection(seed)
        lists = read_judged(runs, qrels=qrels, normalise=how, missing="zero")
        expected = trec_eval(fused_by_hand(runs, how), qrels, metric)
        assert evaluate(lists, WEIGHTS, metric) == pytest.approx(expected, abs=1e-12)


def test_ties_are_ordered_as_by_trec_eval() -> None:
    runs, qrels = collection(3)
    coarse = {name: {q: {d: round(s) for d, s in own.items()} for q, own in run.items()} for name, run in runs.items()}
    weights, lists = (0.5, 0.25, 0.25), read_judged(coarse, qrels=qrels, missing="zero")
    combined = fused_by_hand(coarse, None, weights)
    for metric in METRICS:
        found = [evaluate(lists, weights, metric, ties=ties) for ties in ("worst", "given")]
        expected = [trec_eval(combined, qrels, metric, by_name=by_name) for by_name in (False, True)]
        assert found == pytest.approx(expected, abs=1e-12)
        assert found == sorted(found)
    fused = fuse(lists, "ndcg@5", time_limit=0.0, other=np.array(weights))
    notes = [note for note in fused.notes if note.startswith("documents with equal scores count in the worst order")]
    given = evaluate(lists, fused.result.weights, "ndcg@5", ties="given")
    assert notes == [f"documents with equal scores count in the worst order; as they come {given:.6f}"]


@pytest.mark.parametrize("metric", [metric for metric in METRICS if not metric.startswith("mrr")])
def test_scores_are_those_of_pytrec_eval(metric: str) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    runs, qrels = collection(7)
    name, _, k = metric.partition("@")
    name, _, least = name.partition("-l")
    measure = OF_PYTREC_EVAL[name]
    whole = {q: {d: int(g) for d, g in own.items()} for q, own in qrels.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(whole, {f"{measure}.{k}"}, int(least or 1))
    found = evaluator.evaluate(fused_by_hand(runs, "z"))
    values = [found[q][f"{measure}_{k}"] for q, own in whole.items() if max(own.values()) >= int(least or 1)]
    lists = read_judged(runs, qrels=qrels, normalise="z", missing="zero")
    assert evaluate(lists, WEIGHTS, metric) == pytest.approx(sum(values) / len(values), abs=1e-6)


@pytest.mark.slow  # ranx compiles for minutes
@pytest.mark.parametrize("metric", [*METRICS, "ndcg-exp@10"])
@pytest.mark.parametrize("how", [None, "minmax", "z"])
def test_scores_are_those_of_ranx_for_its_own_fusion(metric: str, how: str | None) -> None:
    ranx = pytest.importorskip("ranx")
    runs, qrels = collection(8)
    name, at = metric.partition("@")[::2]
    given = ranx.Qrels({q: {d: int(g) for d, g in own.items()} for q, own in qrels.items()})
    own = {name: ranx.Run(run, name=name) for name, run in runs.items()}
    combined = eval(engine_text("ranx", tuple(runs), np.array(WEIGHTS), how), {"fuse": ranx.fuse, **own})
    lists = read_judged(runs, qrels=qrels, normalise=how, missing="zero")
    found = ranx.evaluate(given, combined, f"{OF_RANX.get(name, name)}@{at}")
    assert evaluate(lists, WEIGHTS, metric) == pytest.approx(float(found), abs=1e-6)


def lists_of(seed: int, dimensions: int, queries: int = 12) -> Judged:
    random = np.random.default_rng(seed)
    n = 8 * queries
    return Judged(random.normal(size=(n, dimensions)), np.arange(0, n + 1, 8), random.integers(0, 3, size=n))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_best_weights_stand_beside_usual_ones(dimensions: int, nonnegative: bool) -> None:
    lists = lists_of(dimensions, dimensions)
    found = fuse(lists, "ndcg-exp@5", nonnegative=nonnegative, other=np.arange(1.0, dimensions + 1))
    best = maximize(lists, "ndcg-exp@5", nonnegative=nonnegative)
    grid = [w for w in product(range(11), repeat=dimensions) if sum(w) == 10]
    others = {name: one.score for name, one in found.others.items()}
    assert others == {
        "these weights": evaluate(lists, list(range(1, dimensions + 1)), "ndcg-exp@5"),
        "equal weights": evaluate(lists, [1.0] * dimensions, "ndcg-exp@5"),
        f"grid of {len(grid)}": max(evaluate(lists, [x / 10 for x in w], "ndcg-exp@5") for w in grid),
    }
    assert list(found.alone.values()) == [evaluate(lists, one, "ndcg-exp@5") for one in np.eye(dimensions)]
    assert found.result.score == evaluate(lists, found.result.weights, "ndcg-exp@5") >= best.score
    assert found.result.score <= found.result.bound
    assert found.result.score >= max(*others.values(), *found.alone.values()) - 1e-12
    assert found.message == f"proved: {'no nonnegative' if nonnegative else 'no'} weights do better"


def test_the_message_says_what_is_proved_and_of_which_weights() -> None:
    """The least of the scores is that of the relevant document."""
    lists = Judged([[1], [2], [3]], [0, 3], [1, 0, 0])
    found = fuse(lists, "mrr@10", other=[-1.0])
    assert (found.result.score, found.others["these weights"].score) == (1 / 3, 1.0)
    assert found.message == "proved: no nonnegative weights do better"
    signed = fuse(lists, "mrr@10", nonnegative=False)
    assert (signed.result.score, signed.message) == (1.0, "proved: no weights do better")
    nearly = replace(found, result=replace(found.result, bound=0.6, status=Status.OPTIMAL_TO_TOLERANCE))
    said = "optimal to tolerance: no nonnegative weights with a higher score were found; none exceed 0.600000"
    assert nearly.message == said


def test_the_progress_of_fusion_is_reported() -> None:
    told: list[tuple[str, int, int | None]] = []
    found = fuse(lists_of(3, 3), "map@5", folds=2, on_stage=lambda *stage: told.append(stage))
    of_search = [(stage.split(), done) for stage, done, parts in told if parts is None]
    assert len(of_search) < len(told)  # the parts of cross-validation are told of, too
    assert all(words[0] == "map@5" and words[-1] == "cones" for words, _ in of_search)
    scores = [float(words[1].rstrip(",")) for words, _ in of_search]
    bounds = [float(words[4].rstrip(";")) for words, _ in of_search]
    assert max(scores) <= found.result.score + 5e-7
    assert min(bounds) >= found.result.score
    assert max(done for _, done in of_search) <= found.result.nodes


def test_weights_have_the_fewest_digits_that_keep_their_score() -> None:
    for seed in range(6):
        lists = lists_of(seed, 2 + seed % 2)
        result = fuse(lists, "ndcg-exp@5").result
        digits = max(len(repr(w).partition(".")[2]) for w in result.weights.tolist())
        assert (digits < 8, fsum(result.weights.tolist())) == (True, 1.0)
        assert evaluate(lists, result.weights, "ndcg-exp@5") >= maximize(lists, "ndcg-exp@5").score


def test_only_queries_with_a_relevant_document_count() -> None:
    lists = Judged([[1], [2], [3], [4]], [0, 1, 2, 4], [0, 0, 0, 1], unretrieved=([], [1], []))
    found = fuse(lists, "mrr@1")
    assert (found.queries, found.documents, found.result.score) == (2, 3, 0.5)


def test_cross_validation_judges_weights_on_queries_that_they_were_not_fitted_to() -> None:
    lists = lists_of(4, 2, queries=20)
    found = fuse(lists, "mrr@3", folds=4, seed=5).unseen
    counted = [q for q in range(20) if lists.relevance[8 * q : 8 * q + 8].any()]
    values = []
    for part in np.array_split(np.random.default_rng(5).permutation(counted), 4):
        weights = maximize(lists.of_queries([q for q in counted if q not in part]), "mrr@3", seed=5).weights
        held_out = [lists.of_queries([q]) for q in part]
        values += [(evaluate(one, weights, "mrr@3"), evaluate(one, [1, 1], "mrr@3")) for one in held_out]
    best, equal = np.mean(values, axis=0)
    assert (found.best, found.equal, found.folds) == (pytest.approx(best), pytest.approx(equal), 4)
    noise = twenty_queries(0, 2)
    known = fuse(noise, "ndcg-exp@5", folds=5).unseen
    assert known.message == "on unseen queries equal weights may be as good"
    with pytest.raises(DataError, match="in 21 parts needs as many queries that count, not 16"):
        fuse(noise, "ndcg-exp@5", folds=21)


def test_a_feature_that_equal_weights_drown_is_found_on_unseen_queries() -> None:
    random = np.random.default_rng(1)
    relevance = (random.random(600) < 0.2).astype(float)
    features = np.column_stack([relevance + random.normal(size=600) / 10, 10 * random.normal(size=600)])
    found = fuse(Judged(features, np.arange(0, 601, 10), relevance), "ndcg-exp@5", folds=5).unseen
    assert found.message == "on unseen queries they beat equal weights"
    assert Unseen(0.5, 0.7, 0.1, 5).message == "on unseen queries equal weights are better"


def test_a_stopped_search_reports_its_upper_bound_and_the_best_of_all_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = lists_of(2, 3)
    best = fuse(lists, "ndcg@5").result
    known = maximize(lists, "ndcg@5", time_limit=0.0)
    assert known.score >= max(evaluate(lists, axis, "ndcg@5") for axis in np.eye(3))
    stopped = fuse(lists, "ndcg@5", time_limit=0.0)
    assert stopped.result.status is Status.TIME_LIMIT
    reached = f"no nonnegative weights reach more than {rounded_up(stopped.result.bound)}"
    assert stopped.message == f"stopped at the time limit: {reached}"
    others = [one.score for one in stopped.others.values()]
    assert max(*others, *stopped.alone.values()) - 1e-12 <= stopped.result.score <= best.score <= stopped.result.bound
    given = fuse(lists, "ndcg@5", time_limit=0.0, other=4 * best.weights).result
    assert (given.score, given.status) == (pytest.approx(best.score, abs=1e-12), Status.TIME_LIMIT)
    assert given.score <= given.bound
    signed = fuse(lists, "ndcg@5", time_limit=0.0, other=np.array([1.0, -1.0, 1.0]))
    assert min(signed.result.weights) >= 0
    monkeypatch.setattr(fusion, "_GRID_SECONDS", 0.0)
    assert fuse(lists, "ndcg@5").others["grid of 1"].score == evaluate(lists, [0, 0, 1], "ndcg@5")
    # what reaches the bound is proved, however it was found
    monkeypatch.setattr(fusion, "maximize", lambda *_, **__: replace(known, bound=best.score))
    assert fuse(lists, "ndcg@5", other=best.weights).result.status is Status.OPTIMAL


def test_weights_that_were_found_when_the_stop_came_are_not_shortened() -> None:
    """Each number of digits takes an evaluation of all documents."""
    lists = lists_of(2, 3)
    long = maximize(lists, "ndcg-exp@5").weights * [1.0, 1.0 + 2.0**-50, 1.0]
    few = fuse(lists, "ndcg-exp@5", other=long).result.weights
    assert few.tolist() == few.round(6).tolist()
    with Deadline(stop=lambda: True).running():
        stopped = fuse(lists, "ndcg-exp@5", other=long)
    assert stopped.result.weights.tolist() == (long / long.sum()).tolist()
    assert stopped.result.weights.tolist() != stopped.result.weights.round(6).tolist()
    assert "grid of 1" in stopped.others


def test_a_shown_bound_is_rounded_up() -> None:
    random = np.random.default_rng(0)
    for bound in [0.1234561, 0.5, 1.0, 0.1, float(np.nextafter(0.5, 1)), *random.random(100).tolist()]:
        shown = rounded_up(bound)
        assert Fraction(bound) <= Fraction(shown) < Fraction(bound) + Fraction(1, 10**6)
        assert len(shown) == 8


def test_json_is_complete() -> None:
    found = fuse(lists_of(3, 2), "ndcg-exp@5", folds=3)
    plain, result = json.loads(found.to_json()), found.result
    known = {"weights": result.by_name, "score": result.score, "bound": result.bound, "alone": found.alone}
    assert plain == plain | known | {"status": "optimal"}
    grid = found.others["grid of 11"]
    assert plain["others"]["grid of 11"] == {"weights": grid.weights, "score": grid.score}
    assert plain["unseen"]["best"] == found.unseen.best


@pytest.mark.parametrize("nonnegative", [True, False])
def test_the_picture_of_two_features_shows_the_curve_and_the_best_weights(tmp_path: Path, nonnegative: bool) -> None:
    found = fuse(lists_of(5, 2), "ndcg-exp@5", nonnegative=nonnegative)
    figure = pictures.fusion(found)
    (axes,) = figure.axes
    assert axes.get_xlabel().startswith("weight of 2, out of 1" if nonnegative else "angle of the weights, from 1")
    (steps,), (mark, *_) = axes.patches, axes.lines
    values, edges, _ = steps.get_data()
    place = int(np.searchsorted(edges, mark.get_xdata()[0])) - 1
    assert values[place] == pytest.approx(found.result.score, abs=1e-10)
    assert (np.diff(edges) > 0).all()
    pictures.write_picture(figure, tmp_path / "curve.svg")
    assert f"best: {found.result.score:.4f}" in (tmp_path / "curve.svg").read_text()
    with pytest.raises(DataError, match="two features"):
        pictures.fusion(fuse(lists_of(5, 3), "ndcg-exp@5"))


@pytest.mark.parametrize(("engine", "how"), [(engine, how) for engine, known in ENGINES.items() for how in known])
def test_settings_of_engines_hold_the_weights(engine: str, how: str | None) -> None:
    text = engine_text(engine, ("bm25", "dense"), np.array([0.3, 0.7]), how)
    if engine == "ranx":
        norm = {None: None, "minmax": "min-max", "z": "zmuv"}[how]
        assert text == f"fuse(runs=[bm25, dense], norm={norm!r}, method='wsum', params={{'weights': (0.3, 0.7)}})"
        return
    numbers: list[float] = []
    json.loads(text, parse_float=lambda number: numbers.append(float(number)))
    assert numbers == ([0.7] if engine == "weaviate" else [0.3, 0.7])
    assert f'"{ENGINES[engine][how]}"' in text
    with pytest.raises(DataError, match="no weights below 0"):
        engine_text(engine, ("bm25", "dense"), np.array([1.3, -0.3]), how)
    if engine == "weaviate":
        with pytest.raises(DataError, match="fuses two scores, keywords and vectors, not 3"):
            engine_text(engine, ("a", "b", "c"), np.array([0.2, 0.3, 0.5]), how)
