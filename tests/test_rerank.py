"""Weights used: what they pick from lists without losses, in every format, by single hypotheses and by votes."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import refusal, run, succeeded
from late import Late
from oracle import dot
from shared import ROOT

import lpmert
from lpmert import DataError, NBest

pd, sklearn, exceptions = Late("pandas"), Late("sklearn"), Late("sklearn.exceptions")
selection = Late("sklearn.model_selection")
ROWS = [("a", "4", -1, 0.5), ("a", "5", -2, 0.75), ("a", "4", -1.5, 0.25), ("b", "x", -1, 0.5), ("b", "y", -1, 0.25)]
"""List, answer, lm and ver of each hypothesis."""
TEXTS = [text for _, text, *_ in ROWS]
LISTS = NBest([row[2:] for row in ROWS], [0, 3, 5], np.zeros(5), ["lm", "ver"], list_ids=["a", "b"], texts=TEXTS)
TABLE = "q\tanswer\tlm\tver\n" + "".join("\t".join(map(str, row)) + "\n" for row in ROWS)
MOSES = "".join(f"{'ab'.index(name)} ||| {text} ||| lm= {lm} ver= {ver} ||| 0\n" for name, text, lm, ver in ROWS)
CANDIDATES = {
    key: [{"text": text, "scores": {"lm": lm, "ver": ver}} for name, text, lm, ver in ROWS if name == key]
    for key in "ab"
}
SETS = "".join(json.dumps({"id": name, "candidates": own}) + "\n" for name, own in CANDIDATES.items())
Data = tuple[np.ndarray, np.ndarray, np.ndarray]
TIMES = np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[ns]")
BEYOND = [np.array([[2**53 + 1], [0]], dtype=dtype) for dtype in (np.int64, np.uint64, object)]


@pytest.mark.parametrize("seed", range(20))
def test_it_picks_the_first_of_the_best_in_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, (40, 2)) / 8  # with many ties, and exact in doubles and as decimals
    weights = rng.integers(-3, 4, 2) / 7
    found = lpmert.rerank(NBest(features, np.arange(0, 41, 5), rng.random(40)), weights)
    scores = [dot(row, weights) for row in features.tolist()]
    assert found.hypotheses.tolist() == [max(range(5), key=scores[k : k + 5].__getitem__) for k in range(0, 40, 5)]


def test_ties_are_counted_and_the_first_is_picked_whatever_the_losses() -> None:
    many = replace(LISTS, statistics=np.ones((5, 9)), statistic_names=[f"s{k}" for k in range(9)])
    for lists in (LISTS, many):
        found = lpmert.rerank(lists, {"lm": 1, "ver": 0})
        assert (found.hypotheses.tolist(), found.tied) == ([0, 0], 1)
    assert lpmert.rerank(LISTS, [0, 0]).hypotheses.tolist() == [0, 0]


class TestVotes:
    def test_the_same_answer_adds_up(self) -> None:
        # by hand: 4 has lm -2.5 and ver 0.75, as 5 has; with -1 for lm, 4 wins by 0.5
        votes = lpmert.vote(LISTS)
        assert votes.dense_features().tolist() == [[-2.5, 0.75], [-2, 0.75], [-1, 0.5], [-1, 0.25]]
        assert votes.texts == ("4", "5", "x", "y")
        assert str(lpmert.rerank(LISTS, [0, 1])) == "a\t5\nb\tx"
        assert str(lpmert.rerank(LISTS, {"lm": -0.25, "ver": 1}, vote=True)) == "a\t4\nb\tx"
        found = lpmert.rerank(LISTS, {"lm": -1, "ver": 0}, vote=["p", "q", "q", 1, 1])
        assert found.hypotheses.tolist() == [1, 0]  # q has 3.5, of which the first is number 1

    def test_a_count_makes_the_majority_win_and_weights_are_found_on_votes(self) -> None:
        features = np.column_stack([LISTS.features, np.ones(5)])
        counted = replace(LISTS, features=features, names=[*LISTS.names, "votes"], statistics=[0, 1, 0, 0, 1])
        assert lpmert.rerank(counted, [0, 0, 1], vote=True).texts == ("4", "x")
        found = lpmert.minimize(lpmert.vote(counted))
        assert (found.loss, lpmert.rerank(counted, found, vote=True).texts) == (0.0, ("4", "x"))

    @pytest.mark.parametrize(("lists", "answers", "message"), [
        (LISTS, [1, 2], "one entry for each of the 5 hypotheses, not 2"),
        *((LISTS, ["p", one, "q", 1, 1], "numbers or the like, none of them missing") for one in (None, np.nan, [1])),
        (NBest([[1], [2]], [0, 2], [0, 1]), None, "no texts that could be answers"),
        (replace(LISTS, statistics=[0, 1, 1, 0, 0]), None, "'4' have different statistics"),
    ])  # fmt: skip
    def test_what_are_no_answers_is_refused(self, lists: NBest, answers: Any, message: str) -> None:
        with pytest.raises(DataError, match=message):
            lpmert.vote(lists, answers)

    def test_missing_values_of_pandas_are_no_answers_and_no_groups(self) -> None:
        with pytest.raises(DataError, match="numbers or the like, none of them missing"):
            lpmert.vote(LISTS, ["p", pd.NA, "q", 1, 1])
        with pytest.raises(ValueError, match="groups has missing entries"):
            lpmert.Reranker().fit(np.ones((2, 1)), [0, 1], pd.Series(["a", pd.NA]))


class TestReading:
    @pytest.mark.parametrize(("name", "text", "options", "weights", "ids"), [
        ("x.tsv", TABLE, ["--segment", "q", "--text", "answer"], "lm=0,ver=1", "ab"),
        ("x.csv", TABLE.replace("\t", ","), ["--segment", "q", "--text", "answer"], "lm=0,ver=1", "ab"),
        ("x.nbest", MOSES, [], "lm_0=0,ver_0=1", "01"),
        ("x.jsonl", SETS, [], "lm=0,ver=1", "ab"),
    ])  # fmt: skip
    def test_lists_without_losses(self, tmp_path, name, text, options, weights, ids):
        (tmp_path / name).write_text(text)
        plain = succeeded("rerank", tmp_path / name, *options, "--weights", weights)
        assert plain.stdout == f"{ids[0]}\t5\n{ids[1]}\tx\n"
        assert "2 lists, 5 hypotheses" in plain.stderr
        out = tmp_path / "picks.json"
        succeeded("rerank", tmp_path / name, *options, "--weights", weights, "-o", out, "-q")
        wanted = {"list_ids": [*ids], "hypotheses": [1, 0], "texts": ["5", "x"], "tied": 0}
        assert json.loads(out.read_text()) == wanted
        refusal("solve", tmp_path / name, *options)  # a search needs losses

    def test_arrays_may_have_losses_and_lattices_show_their_best_paths(self, tmp_path: Path) -> None:
        lpmert.write(LISTS, tmp_path / "x.npz")
        assert run("rerank", tmp_path / "x.npz", "--weights", "0,1", "-q").stdout == "a\t5\nb\tx\n"
        folder = ROOT / "examples" / "speech"
        best = lpmert.n_best(lpmert.load_lattices(folder / "lattices", folder / "text"), [1, 10, 0], n=1)
        plain = run("rerank", folder / "lattices", "--weights", "acoustic=1,lm=10,words=0", "-q")
        assert plain.stdout.splitlines() == ["\t".join(pair) for pair in zip(best.list_ids, best.texts, strict=True)]

    def test_votes_on_the_command_line(self, tmp_path: Path) -> None:
        (tmp_path / "x.tsv").write_text(TABLE)
        (tmp_path / "x.jsonl").write_text(SETS)
        settings = ["--weights", "lm=-0.25,ver=1", "-q", "--vote"]
        table = ["rerank", tmp_path / "x.tsv", "--segment", "q", *settings]
        sets = ["rerank", tmp_path / "x.jsonl", *settings]
        assert run(*table, "answer").stdout == run(*sets, "text").stdout == "a\t4\nb\tx\n"
        assert "name different columns" in refusal(*table, "answer", "--text", "q", code=2)
        assert "--vote must be text" in refusal(*sets, "answer", code=2)
        assert "ver" in refusal("rerank", tmp_path / "x.jsonl", "--weights", "lm=1", code=2)


def test_groups_keep_the_names_of_a_data_frame() -> None:
    frame = pd.DataFrame({"lm": [1, 2, 3], "ver": [0, 1, 0]})
    lists = lpmert.from_groups(frame, [0, 1, 1], ["a", "a", "b"])
    assert (lists.names, lists.list_ids, lists.offsets.tolist()) == (("lm", "ver"), ("a", "b"), [0, 2, 3])
    assert lpmert.from_groups(frame, [0, 1, 1], ["a", "a", "b"], names=["x", "y"]).names == ("x", "y")


def data(seed: int = 0, n_groups: int = 20, size: int = 6) -> Data:
    """Return features, losses and groups whose rows lie apart."""
    rng = np.random.default_rng(seed)
    losses = rng.integers(0, 5, n_groups * size).astype(float)
    features = rng.normal(size=(len(losses), 3)) - np.outer(losses, [0.7, 0.2, 0.0])
    return features, losses, rng.permutation(np.repeat(np.arange(n_groups) * 7 - 20, size))


def picked(features: np.ndarray, groups: np.ndarray, weights: np.ndarray) -> list[int]:
    """Return the best row of each group, in the order in which groups come."""
    found = {}
    for row, group in enumerate(groups.tolist()):
        score = float(features[row] @ weights)
        if group not in found or score > found[group][0]:
            found[group] = (score, row)
    return [row for _, row in found.values()]


def test_it_finds_the_proved_optimum_and_scores_what_it_picks() -> None:
    features, losses, groups = data()
    model = lpmert.Reranker(method="auto").fit(features, losses, groups)
    order = np.argsort(groups, kind="stable")
    best = lpmert.minimize(lpmert.NBest(features[order], np.arange(0, 121, 6), losses[order]))
    assert best.status is lpmert.Status.OPTIMAL
    rows = picked(features, groups, model.coef_)
    assert model.choose(features, groups).tolist() == rows
    assert losses[rows].sum() == best.loss == model.result_.loss
    assert model.score(features, losses, groups) == -best.loss / 20
    assert model.predict(features) == pytest.approx(features @ model.coef_)
    assert np.array_equal(model.decision_function(features), model.predict(features))


def test_a_column_of_x_may_hold_the_groups_by_name_and_counted_from_either_end() -> None:
    features, losses, groups = data()
    expected = lpmert.Reranker(method="auto").fit(features, losses, groups)
    with_column = np.column_stack([features[:, 0], groups, features[:, 1:]])
    model = lpmert.Reranker(method="auto", group_column=1).fit(with_column, losses)
    assert (model.n_features_in_, model.coef_.tolist()) == (4, expected.coef_.tolist())
    assert model.score(with_column, losses) == expected.score(features, losses, groups)
    frame = pd.DataFrame(features, columns=["am", "lm", "words"]).assign(utterance=[f"u{group}" for group in groups])
    named = lpmert.Reranker(method="auto", group_column="utterance").fit(frame, losses)
    assert named.coef_.tolist() == expected.coef_.tolist()
    assert named.feature_names_in_.tolist() == ["am", "lm", "words", "utterance"]
    assert named.result_.names == ("am", "lm", "words")
    with pytest.raises(ValueError, match="no column 'utterance' in X"):
        lpmert.Reranker(group_column="utterance").fit(features, losses)
    last = frame[["am", "lm", "utterance"]]
    model = lpmert.Reranker(method="och", group_column=-1).fit(last, losses)
    assert model.result_.names == ("am", "lm")
    assert model.choose(last).tolist() == picked(features[:, :2], groups, model.coef_)
    with pytest.raises(ValueError, match="X has 3 features, so there is no column 3 of groups"):
        lpmert.Reranker(group_column=3).fit(last, losses)
    for wrong in (-4, True, 1.0):
        with pytest.raises(lpmert.MethodError, match="group_column must be a whole number of at least -3"):
            lpmert.Reranker(group_column=wrong).fit(last, losses)


def test_cross_validation_with_groups_by_routing_and_by_column() -> None:
    features, losses, groups = data()
    folds, expected = selection.GroupKFold(4), []
    for train, test in folds.split(features, losses, groups):
        model = lpmert.Reranker(method="auto").fit(features[train], losses[train], groups[train])
        rows = picked(features[test], groups[test], model.coef_)
        expected.append(-float(losses[test][rows].mean()))
    with sklearn.config_context(enable_metadata_routing=True):
        model = lpmert.Reranker(method="auto").set_fit_request(groups=True).set_score_request(groups=True)
        found = selection.cross_val_score(model, features, losses, cv=folds, params={"groups": groups})
    assert found.tolist() == expected
    with_column, model = np.column_stack([features, groups]), lpmert.Reranker(method="auto", group_column=3)
    assert selection.cross_val_score(model, with_column, losses, groups=groups, cv=folds).tolist() == expected
    search = selection.GridSearchCV(model, {"method": ["auto", "tune"]}, cv=folds)
    search.fit(with_column, losses, groups=groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.timeout(60)
def test_the_default_fit_searches_no_optimum_that_it_would_throw_away() -> None:
    """100 lists of 14 features take about a second; a proof would take minutes."""
    rng = np.random.default_rng(0)
    losses = rng.integers(0, 2, 2000).astype(float)
    features = rng.normal(size=(2000, 14)) - np.outer(losses, rng.normal(size=14) * 0.3)
    groups = np.repeat(np.arange(100), 20)
    model = lpmert.Reranker().fit(features, losses, groups)
    tuned = lpmert.tune(lpmert.from_groups(features, losses, groups), quick=True, method="och")
    assert model.coef_.tolist() == tuned.averaged.weights.tolist()


def test_without_groups_nothing_is_fitted_or_scored() -> None:
    features, losses, groups = data()
    model = lpmert.Reranker(method="och").fit(features, losses, groups)
    for call in (model.fit, model.score, lambda features, _: model.choose(features)):
        with pytest.raises(ValueError, match=r"needs groups.*group_column.*set_fit_request\(groups=True\)"):
            call(features, losses)
    assert model.predict(features).shape == (120,)  # the score of a row is the same in any group


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:Scoring failed")
def test_cross_validation_that_does_not_pass_groups_on_says_how() -> None:
    """Groups reach the splitter alone: by default, and with routing where nothing requests them."""
    features, losses, groups = data()
    model = lpmert.Reranker(method="och")
    validated = partial(selection.cross_val_score, model, features, losses, cv=selection.GroupKFold(4))
    with pytest.raises(ValueError, match=r"needs groups.*enable_metadata_routing=True"):
        validated(groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(exceptions.UnsetMetadataPassedError, match="set_fit_request"):
            validated(params={"groups": groups})
        model.set_fit_request(groups=False).set_score_request(groups=False)
        with pytest.raises(ValueError, match=r"needs groups.*set_score_request\(groups=True\)"):
            validated(params={"groups": groups})
        model.set_fit_request(groups=True)
        assert np.isnan(validated(params={"groups": groups})).all()


def test_columns_in_another_order_are_not_scored_and_a_second_fit_forgets_those_of_the_first() -> None:
    features, losses, groups = data()
    frame = pd.DataFrame(features, columns=["a", "b", "c"])
    model = lpmert.Reranker(method="och").fit(frame, losses, groups)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(frame[["b", "a", "c"]])
    model.fit(features, losses, groups)
    assert not hasattr(model, "feature_names_in_")
    assert model.result_.names == ("feature1", "feature2", "feature3")
    assert model.predict(pd.DataFrame(features)).shape == (120,)


@pytest.mark.parametrize(("features", "losses", "groups", "message"), [
    *(([[1.0], [2.0]], [0, 1], ["a", one], "groups has missing entries") for one in (np.nan, None)),
    ([[1.0], [2.0]], [0, 1], ["1", 1], "groups has both strings and numbers"),
    *((rounded, [0, 1], ["a", "a"], "^X has integers beyond") for rounded in BEYOND),
    *(([[1], [0]], rounded, ["a", "a"], "^y has integers beyond") for rounded in BEYOND),
    (np.ma.array([[1.0], [2.0]], mask=[[0], [1]]), [0, 1], ["a", "a"], "X has masked entries"),
    (TIMES, [0, 1], ["a", "a"], "X must be numbers, not dates"),
    ([[1], [2]], TIMES - TIMES[0], ["a", "a"], "y must be numbers, not dates"),
])  # fmt: skip
def test_nothing_is_guessed_or_rounded(features: Any, losses: Any, groups: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lpmert.Reranker().fit(features, losses, np.array(groups, dtype=object))


def test_checks_of_scikit_learn_pass() -> None:
    model = lpmert.Reranker(method="och", group_column=-1)
    found = Late("sklearn.utils.estimator_checks").check_estimator(model, on_fail=None)
    assert len(found) > 40
    assert [one["check_name"] for one in found if one["status"] == "failed"] == []


@pytest.mark.parametrize("kind", ["str", "category", "string[python]", "polars"])
def test_data_frames_may_name_groups_by_whatever_kind_of_text(kind: str) -> None:
    features, losses, groups = data()
    named = [f"q{group}" for group in groups]
    column = Late("polars").Series(named) if kind == "polars" else pd.Series(named).astype(kind)
    expected = lpmert.Reranker(method="och").fit(features, losses, groups)
    assert np.array_equal(lpmert.Reranker(method="och").fit(features, losses, column).coef_, expected.coef_)
    lists = lpmert.from_groups(pd.DataFrame(features, columns=["a", "b", "c"]), losses, column, gather=True)
    assert (lists.n_lists, lists.names) == (20, ("a", "b", "c"))
