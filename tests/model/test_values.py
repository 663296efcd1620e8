"""Numbers and weights as callers give them, and questions that nobody meant to ask."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import json_of, refusal, run
from refusals import refused
from shared import SETS, load, needs_shared

import lpmert
from lpmert import DataError, Linear, MethodError, NBest, Problem, Region, RegionError, Result
from lpmert.formats.columns import losses_of_gains

ROWS = [[1, 0], [0, 1], [2, 1], [1, 3], [0, 0], [1, -1]]
LISTS = NBest(ROWS, [0, 2, 4, 6], [0, 1, 1, 0, 2, 1], names=["am", "lm"])
WEIGHTS = {"lm": -2.0, "am": 0.5}
IN_ORDER = [0.5, -2.0]
NUMPY = {
    "seed": np.int64(3), "jobs": np.int32(1), "node_limit": np.uint8(200), "memory_limit": np.int64(1 << 20),
    "time_limit": np.float32(60), "gap": np.float64(0.0), "target": np.int64(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMPY)
def test_a_number_of_numpy_is_that_of_python_and_none_is_no_limit(name: str) -> None:
    given = NUMPY[name]
    result, same = (lpmert.minimize(LISTS, **{name: number}) for number in (given, given.item()))
    assert (result.loss, result.signature, type(result.seed)) == (same.loss, same.signature, int)
    assert lpmert.check(LISTS, IN_ORDER, **{name: given}).optimum.loss == result.loss
    assert result.to_json()
    assert name in ("seed", "jobs") or lpmert.minimize(LISTS, **{name: None}).status.proved


WRONG: dict[str, list[Any]] = {
    "target": [float("nan")], "gap": [1j, -0.1], "time_limit": ["1", -1, float("nan")], "node_limit": [1.5, -1],
    "memory_limit": [0], "jobs": [0], "seed": [1.0, -1],
}  # fmt: skip
test_what_is_no_such_number_is_named = refused(
    (MethodError, f"{name} must be a", partial(lpmert.minimize, LISTS, **{name: value}))
    for name, values in WRONG.items()
    for value in (*values, True, np.True_)
)


def test_a_comparison_takes_numbers_of_numpy() -> None:
    numbers = {"seeds": np.int64(2), "seed": np.int8(1), "jobs": np.int64(1)}
    found, same = (
        lpmert.compare(LISTS, ["random"], **given) for given in (numbers, {"seeds": 2, "seed": 1, "jobs": 1})
    )
    assert found.signature == same.signature
    assert [run.loss for run in found["random"].runs] == [run.loss for run in same["random"].runs]
    for name in numbers:
        with pytest.raises(MethodError, match=name):
            lpmert.compare(LISTS, ["random"], **{name: True})


def compared(name: str, *methods: str, **given: Any) -> list[float]:
    """The weights of this name in a comparison."""
    return lpmert.compare(LISTS, methods, **given)[name].best.weights.tolist()


TAKING_WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "check": lambda weights: lpmert.check(LISTS, weights).weights.tolist(),
    "minimize": lambda weights: lpmert.minimize(LISTS, initial_weights=weights).weights.tolist(),
    "evaluate": lambda weights: lpmert.Problem(LISTS).evaluate(weights).margin,
    "compare": lambda weights: compared("x", weights={"x": weights}),
    "callable": lambda weights: compared("x", callables={"x": lambda *_: weights}),
    "start of a comparison": lambda weights: compared("och", "och", initial_weights=weights),
    "around": lambda weights: lpmert.minimize(LISTS, region=Region(cosine=0.9, around=weights)).signature,
}
"""What takes weights, and what of the answer hangs on them."""


@pytest.mark.parametrize("name", TAKING_WEIGHTS)
def test_weights_are_taken_by_name_in_order_and_from_a_result(name: str) -> None:
    call = TAKING_WEIGHTS[name]
    expected = call(WEIGHTS)
    result = lpmert.minimize(LISTS)
    assert result.by_name == dict(zip(LISTS.names, result.weights.tolist(), strict=True))
    for given in (IN_ORDER, tuple(IN_ORDER), np.array(IN_ORDER), np.array(IN_ORDER, np.float32), [np.float64(0.5), -2]):
        assert call(given) == expected
    assert call(result) == call(result.by_name) == call(result.weights)


UNFIT: list[tuple[Any, str]] = [
    ({"am": 1.0}, "none for lm"),
    ({"am": 1.0, "lm": 1.0, "xx": 2.0}, "unknown features: xx"),
    ({"am": 1.0, "lm": "1"}, "'lm' has '1'"),
    ([1.0, True], "'lm' has True"),
    (np.array([True, False]), "'am' has"),
    ([1.0, float("nan")], "'lm' has nan"),
    ([1.0, 10**400], "'lm' has 1000"),
    ([1.0, 2.0, 3.0], "got shape"),
    (np.ones((2, 2)), "got shape"),
    (b"12", "by name; got b'12'"),
    (1.0, "by name; got 1.0"),
]


@pytest.mark.parametrize("name", TAKING_WEIGHTS)
def test_weights_that_do_not_fit_are_refused_with_what_is_wrong(name: str, subtests: pytest.Subtests) -> None:
    for weights, words in UNFIT:
        with subtests.test(words):
            with pytest.raises(RegionError if name == "around" else DataError, match="weights") as error:
                TAKING_WEIGHTS[name](weights)
            assert words in str(error.value)


def test_signatures_of_regions_tell_numbers_apart_but_not_their_types() -> None:
    def signature(**settings: Any) -> str:
        return lpmert.Problem(LISTS, region=Region(**settings)).signature

    (same,) = {
        signature(bounds={"am": (kind(0), kind(4))}, fixed={"lm": kind(2)}, linear=[Linear({"am": kind(1)}, kind(-8))])
        for kind in (int, float, np.float64, np.int32)
    }
    assert "numpy" not in same and "np." not in same  # noqa: PT018
    first, second = (signature(cosine=0.9, around=[one, 1.0]) for one in (0.1, np.nextafter(0.1, 1)))
    assert first != second


def codes(found: NBest | Result) -> list[str]:
    return [one.code for one in (Problem(found).data_warnings if isinstance(found, NBest) else found.warnings)]


def best_of_n(seed: int = 0, *, n_lists: int = 40, size: int = 6) -> NBest:
    """Right and wrong answers, one score that tells them apart and two that do not: the statistic is 1 for right."""
    rng = np.random.default_rng(seed)
    right = (rng.random(n_lists * size) < 0.5).astype(float)
    features = rng.normal(size=(len(right), 3))
    features[:, 0] += 2 * right
    offsets = np.arange(0, len(right) + 1, size)
    return NBest(features, offsets, right, names=["a", "b", "c"], statistic_names=["correct"])


@needs_shared
@pytest.mark.parametrize("name", SETS)
def test_no_real_data_set_gives_a_false_alarm(name: str) -> None:
    nbest = load(name)
    assert codes(nbest) == []
    losses, mean = Problem(nbest).losses, Problem(nbest).evaluate(np.ones(nbest.n_features))
    assert lpmert.model.data_warnings.too_good(nbest, losses, mean.selection) is None


@needs_shared
@pytest.mark.parametrize(
    ("name", "most"),
    [
        *((name, 30) for name in ("librispeech dev_other", "librispeech dev_clean", "pocketsphinx", "ime-kkc")),
        *((name, 1) for name in ("travel modes", "heating", "heating and cooling")),  # columns of choices
    ],
)
def test_lists_tell_that_a_gain_was_taken_for_a_loss(name: str, most: int) -> None:
    nbest = load(name)
    assert codes(replace(nbest, statistics=most - nbest.statistics, statistic_names=["y"])) == ["orientation"]


def test_a_best_of_n_solved_for_the_wrong_answers_warns_and_is_solved_as_a_gain() -> None:
    nbest = best_of_n()
    wrong, right = (lpmert.minimize(one, time_limit=20) for one in (nbest, losses_of_gains(nbest)))
    assert max(wrong.loss, right.loss) < nbest.n_lists / 4  # the wrong one hardly ever chooses a right answer
    assert (codes(wrong), codes(right)) == (["orientation"], [])
    assert "--gain" in wrong.warnings[0].message
    assert "warning: the loss 'correct'" in str(wrong)


def test_without_a_name_lists_that_are_all_won_are_too_good_but_not_classes_that_can_be_told_apart() -> None:
    unnamed = replace(best_of_n(), statistic_names=["y"])
    rows = unnamed.dense_features().copy()
    rows[:, 0] = 5 * unnamed.statistics[:, 0] + rows[:, 1]
    assert codes(lpmert.minimize(unnamed, time_limit=20)) == []
    assert codes(lpmert.minimize(replace(unnamed, features=rows), time_limit=20)) == ["too-good"]
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 50)
    points = np.eye(3)[labels] + rng.normal(0, 0.05, (50, 3))
    features = [np.kron(np.eye(3)[one], point) for point in points for one in range(3)]
    nbest = NBest(features, np.arange(0, 151, 3), np.repeat(labels, 3) != np.tile(range(3), 50))
    result = lpmert.minimize(nbest, time_limit=20)
    assert (result.loss, result.warnings) == (0, ())


ONE, PAIRS, SAME = [[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6], [7, 9]], [[1, 2], [1, 2], [5, 6], [5, 6]]
CHOICES: list[tuple[list[list[int]], list[int], Any, str]] = [
    (ONE, [0, 1, 2, 3], [1, 2, 3], "every list has one hypothesis only"),
    (PAIRS, [0, 2, 4], [1, 1, 2, 2], "all hypotheses have the same loss"),
    (SAME, [0, 2, 4], [1, 2, 3, 4], "all hypotheses have the same features"),
    ([*SAME[:2], *PAIRS[2:]], [0, 2, 4], [1, 2, 3, 3], "either the same loss or the same features"),
    (PAIRS[:2], [0, 2], [[1, 2, 3], [1, 2, 3]], "all hypotheses have the same loss"),
    (PAIRS, [0, 1, 2, 4], [1, 2, 3, 4], ""),
]


@pytest.mark.parametrize(("features", "offsets", "losses", "words"), CHOICES)
def test_having_no_choice_is_said(features: Any, offsets: list[int], losses: Any, words: str) -> None:
    metric = "loss" if np.ndim(losses) == 1 else "f1"
    result = lpmert.minimize(NBest(features, offsets, losses), metric=metric)
    assert codes(result) == (["nothing-to-choose"] if words else [])
    assert all(words in one.message for one in result.warnings)


@pytest.mark.parametrize("leak", ["loss", "minus", "rate", "rounded", "alike"])
def test_a_feature_made_of_the_loss_is_a_leak(leak: str) -> None:
    rng = np.random.default_rng(2)
    errors = rng.integers(0, 9, 200).astype(float)
    words = np.repeat(rng.integers(5, 30, 20), 10).astype(float)
    features = rng.normal(size=(200, 3))
    features[:, 1] = {
        "loss": errors,
        "minus": -errors,
        "rate": 0.1 + errors / words,
        "rounded": errors + rng.choice([0, 0.01], 200),
        "alike": errors + rng.normal(size=200),
    }[leak]
    nbest = NBest(features, np.arange(0, 201, 10), errors, names=["lm", "x", "am"])
    found = Problem(nbest).data_warnings
    assert [one.code for one in found] == ([] if leak in ("rounded", "alike") else ["leak"])
    assert all("feature 'x'" in one.message for one in found)


GAINS = ["correct", "isCorrect", "is_correct", "BLEU", "sentence-bleu", "reward", "acc@1", "score", "1 - wer", "-wer"]
LOSSES = ["errors", "1 - correct", "1-bleu", "-reward", "minus_acc", "neg_reward", "bleu_loss", "loss", "wer"]


@pytest.mark.parametrize("name", [*GAINS, *LOSSES])
def test_a_gain_is_noticed_by_its_name(name: str) -> None:
    nbest = NBest([[1, 2], [3, 4]], [0, 2], [0.5, 0.25], statistic_names=[name])
    assert codes(nbest) == (["orientation"] if name in GAINS else [])


@pytest.fixture
def answers(tmp_path: Path) -> list[str]:
    path = tmp_path / "best.tsv"
    lpmert.write(best_of_n(), path)
    text = path.read_text().replace("statistic:correct", "correct")
    path.write_text(text.replace("\t1\n", "\ttrue\n").replace("\t0\n", "\tfalse\n"))
    return [str(path), "--segment", "list", "--features", "a,b,c"]


def test_true_and_false_are_a_gain_and_no_loss(answers: list[str]) -> None:
    found = json_of("solve", *answers, "--gain", "correct")
    chosen = best_of_n().statistics[np.arange(0, 240, 6) + found["selection"], 0]
    assert found["loss"] == 40 - chosen.sum() < 10
    assert found["warnings"] == []
    said = refusal("solve", *answers, "--loss", "correct")
    assert "best.tsv:2: column 'correct' is '" in said
    assert "read the column as gain (--gain)" in said
    assert run("solve", *answers, "--gain", "correct", "--loss", "correct").exit_code == 2
    assert "loss (what a hypothesis costs" in refusal("solve", *answers)


def test_a_gain_as_loss_is_warned_of_on_screen_and_in_the_file(answers: list[str], tmp_path: Path) -> None:
    path = Path(answers[0])
    path.write_text(path.read_text().replace("true", "1").replace("false", "0"))
    for saving in ((), ("-o", tmp_path / "r.json")):
        assert "warning: the loss 'correct'" in run("solve", *answers, "--loss", "correct", *saving).stderr
    assert codes(Result.load(tmp_path / "r.json")) == ["orientation"]


def test_a_gain_beyond_shares_is_turned_round_exactly() -> None:
    gains = [0.1, -3.0, 7.25, 1e-300]
    found = losses_of_gains(NBest(np.eye(4), [0, 4], gains, statistic_names=["mark"]))
    assert found.statistics[:, 0].tolist() == [-gain for gain in gains]
    assert found.statistic_names == ("-mark",)


def test_few_lists_of_two_and_features_and_losses_of_any_size_are_no_evidence_of_a_leak_and_overflow_nothing() -> None:
    assert codes(NBest([[1, 5], [0, 3], [2, 1], [1, 1]], [0, 2, 4], [0, 1, 0, 1])) == []
    rng = np.random.default_rng(3)
    for exponents in ((300, -1000), (-1000, 300), (-1000, -1000), (300, 0)):
        losses = np.ldexp(rng.random(40), exponents[1])
        features = np.ldexp(rng.normal(size=(40, 2)), exponents[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "leak" not in codes(NBest(features, np.arange(0, 41, 4), losses))
