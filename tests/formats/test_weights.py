"""Weights mean the same in every form, command and tool; toolkits choose by them what the weights choose."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import json_of, loss_of, succeeded
from hypothesis import given, settings, strategies as st
from mutations import examples, read_or_refused

import lpmert
from lpmert import DataError, NBest, Region
from lpmert.errors import FloatArray
from lpmert.formats.weights import TOOLKITS, read_weights, settings_text, weights_text

NAMES = ("lm_0", "tm_pt_0", "tm_pt_1", "WordPenalty")
VALUES = [1.25, -2.5, 0.75, -0.5]  # what every file below says of these features

FORMS = {
    "result": json.dumps({"weights": dict(zip(NAMES, VALUES, strict=True)), "loss": 3, "seed": 0}),
    "object": json.dumps(dict(zip(reversed(NAMES), reversed(VALUES), strict=True))),
    "array": json.dumps(VALUES),
    "named array": json.dumps({"weights": VALUES}),
    "numbers": "1.25 -2.5 0.75 -0.5 \n",
    "a column": "1.25\n-2.5\n0.75\n-0.5\n",
    "init.opt": "1.25 -2.5 0.75 -0.5\n0 0 0 0\n1 1 1 1\n",
    "lines": "WordPenalty -0.5\nlm_0 1.25\ntm_pt_0 -2.5\ntm_pt_1 0.75\n",
    "cdec": "# Objective = 3\nWordPenalty -0.5\nlm_0 1.25\ntm_pt_0 -2.5\ntm_pt_1 0.75\n",
    "tabs": "WordPenalty\t-0.5\nlm_0\t1.25\ntm_pt_0\t-2.5\ntm_pt_1\t0.75\n",
    "pairs": "lm_0=1.25\ntm_pt_0=-2.5\ntm_pt_1=0.75\nWordPenalty=-0.5\n",
    "moses": "lm= 1.25\ntm_pt= -2.5 0.75\nWordPenalty=-0.5\n",
    "moses.ini": "# tuned by hand\n[feature]\nKENLM name=lm\n\n[weight]\nUnknown= 1\nlm= 1.25\n# of phrases\n"
    "tm_pt= -2.5 0.75\nWordPenalty=-0.5\n\n[threads]\n4\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_means_the_same_and_changes_only_where_its_weights_are(tmp_path: Path, form: str) -> None:
    (tmp_path / "w").write_text(FORMS[form])
    assert read_weights(tmp_path / "w").of_features(NAMES).tolist() == VALUES
    new = read_weights(tmp_path / "w").with_weights(NAMES, ["7.125", "8.5", "9.5", "6.5"])
    (tmp_path / "w").write_text(new)
    assert read_weights(tmp_path / "w").of_features(NAMES).tolist() == [7.125, 8.5, 9.5, 6.5]
    if form not in ("array", "named array", "object", "result"):  # JSON is laid out anew
        numbers = {"1.25", "-2.5", "0.75", "-0.5"}
        kept = [word for word in FORMS[form].replace("=", " ").split() if word not in numbers]
        assert [word for word in new.replace("=", " ").split() if word in kept] == kept


def test_weights_are_of_just_the_features(tmp_path: Path) -> None:
    path, ini, six = tmp_path / "w", FORMS["moses.ini"], r"w: 6 numbers for 2 features \(a, b\)"
    for content, names, expected in (
        ("1 2\n3 4\n5 6\n", "a b", [1, 2]),  # only a file of three lines is an init.opt
        (ini, "lm_0 tm_pt_0", VALUES[:2]),  # which may have weights of other features, but none missing
    ):
        path.write_text(content)
        assert read_weights(path).of_features(names.split()).tolist() == expected
    lacking = "w: the weights have none for glue; they are for .*; .* are lm_0, glue"
    for content, names, message in (
        ("1 2 3 4 5 6\n", "a b", six),
        ("[1, 2, 3, 4, 5, 6]", "a b", six),
        (ini, "lm_0 glue", lacking),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            read_weights(path).of_features(names.split())


LISTS = NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["am", "lm"])
PAIRS = "tm_pt_0=-2.5,lm_0=1.25, WordPenalty=-0.5 ,tm_pt_1=0.75"
TEXTS = ["0.25,2", " 0.25 , 2 ", "lm=2,am=0.25", '{"lm": 2, "am": 0.25}', "[0.25, 2]"]


@pytest.mark.parametrize("given", [*TEXTS, "weights.txt", Path("weights.txt")])
def test_python_takes_texts_files_mappings_and_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("weights.txt").write_text("lm 2\nam 0.25\n")
    expected = lpmert.check(LISTS, {"am": 0.25, "lm": 2})
    assert expected.weights.tolist() == [0.25, 2]
    assert lpmert.check(LISTS, given).weights.tolist() == [0.25, 2]
    assert lpmert.evaluate(LISTS, given).loss == expected.loss
    assert lpmert.minimize(LISTS, initial_weights=given).loss == 0
    around = lpmert.minimize(LISTS, region=Region(cosine=0.9, around=given))
    assert around.signature == lpmert.minimize(LISTS, region=Region(cosine=0.9, around=[0.25, 2])).signature
    compared = lpmert.compare(LISTS, ["och"], seeds=1, weights={"mine": given}, initial_weights=given)
    assert compared["mine"].best.loss == expected.loss


def table_of(folder: Path, names: str, *rows: str) -> list[str]:
    """The arguments of a command for a table with these features and `errors`."""
    path = folder / "dev.tsv"
    path.write_text("\n".join([f"utt {names} errors", *rows, ""]).replace(" ", "\t"))
    return [str(path), "--segment", "utt", "--features", names.replace(" ", ","), "--loss", "errors"]


@pytest.mark.parametrize("form", ["result", "moses.ini", "1.25,-2.5,.75,-.5", FORMS["object"], PAIRS])
def test_commands_take_files_and_texts(tmp_path: Path, form: str) -> None:
    table = table_of(tmp_path, " ".join(NAMES), "u1 1 0 2 0 0", "u1 0 1 0 1 1", "u2 2 1 1 1 1", "u2 1 3 0 0 0")
    (tmp_path / "w").write_text(FORMS.get(form, ""))
    weights = str(tmp_path / "w") if form in FORMS else form
    assert json_of("check", *table, "--weights", weights)["weights"] == dict(zip(NAMES, VALUES, strict=True))
    for more in (["--initial-weights", weights], ["--cosine", "0.5", "--around", weights]):
        succeeded("solve", *table, "--json", *more)
    compared = json_of("compare", *table, "--methods", "random", "--seeds", "1", "--weights", f"mine={weights}")
    (entry,) = (one for one in compared["methods"] if one["name"] == "mine")
    assert list(entry["runs"][0]["weights"].values()) == VALUES


# Files that are written and kept up to date.

WORDS = [
    *("a=", "b_0=", "a=1", "b:2", "c", "1", "-0.5", "1e400", "nan"),
    *("{", "}", "[weight]", "[x]", "#", "\n", "\r\n", "\0"),
]


def write_weights(path: Path, *given: Any, **options: Any) -> Any:
    text, written = weights_text(*given, path=path, **options)
    path.write_text(text)
    return written


def test_written_weights_keep_form_order_scale_and_the_rest_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not even 17 digits keep the loss"):
        write_weights(tmp_path / "weights.txt", ["a"], np.array([1.0]), lambda _: False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "moses.ini").write_text(FORMS["moses.ini"])
    like = read_weights(tmp_path / "moses.ini")
    names = ["tm_pt_0", "tm_pt_1", "lm_0", "WordPenalty"]
    written = np.array([2.0, 4, -8, 6])
    found = write_weights(tmp_path / "new.ini", names, written, lambda _: True, like=like, scaled=True)
    # the four weights sum to 5 in absolute value, as before
    assert found.tolist() == [0.5, 1.0, -2.0, 1.5]
    new = FORMS["moses.ini"].replace("lm= 1.25", "lm= -2.000000").replace("-2.5 0.75", "0.500000 1.000000")
    assert (tmp_path / "new.ini").read_text() == new.replace("Penalty=-0.5", "Penalty=1.500000")


@examples(200)
@given(content=st.lists(st.sampled_from(WORDS)))
def test_any_content_is_read_or_refused(tmp_path: Path, content: list[str]) -> None:
    path = tmp_path / "weights"
    path.write_bytes(" ".join(content).encode())
    found = read_or_refused(path, lambda: read_weights(path))
    if found is not None:
        assert np.isfinite(found.values).all()
        texts = [str(number) for number in range(len(found.values))]
        again = found.with_weights(found.names or texts, texts)
        path.write_text(again)
        assert read_weights(path).values.tolist() == list(range(len(found.values)))


@examples(100)
@given(weights=st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=4).filter(any))
def test_seventeen_digits_hold_every_weight(tmp_path: Path, weights: list[float]) -> None:
    exact = np.array(weights)
    names = [f"f{number}" for number in range(len(weights))]
    found = write_weights(tmp_path / "weights", names, exact, lambda given: bool((given == exact).all()))
    assert found.tolist() == weights
    assert json.dumps(found.tolist()) == json.dumps([weight + 0.0 for weight in weights])


# Settings of toolkits, by the formulas of the toolkits.

Score = Callable[[dict[str, float], dict[str, FloatArray]], FloatArray]


def kaldi_costs(flags: dict[str, float], cost: dict[str, FloatArray]) -> FloatArray:
    """What lattice-scale --inv-acoustic-scale | lattice-add-penalty | lattice-best-path minimises, negated."""
    graph = cost["lm"] + flags["--word-ins-penalty"] * cost["words"]
    return -(cost["acoustic"] / flags["--inv-acoustic-scale"] + graph)


def icefall(flags: dict[str, float], score: dict[str, FloatArray]) -> FloatArray:
    """The total score of rescoring with an attention decoder."""
    return score["acoustic"] + flags["ngram_lm_scale"] * score["lm"] + flags["attention_scale"] * score["attention"]


def espnet(flags: dict[str, float], score: dict[str, FloatArray]) -> FloatArray:
    """The weights that ESPnet's inference gives its beam search."""
    weights = {"decoder": 1 - flags["ctc_weight"], "ctc": flags["ctc_weight"], "lm": flags["lm_weight"]}
    return sum(weights[name] * score[name] for name in weights) + flags["penalty"] * score["tokens"]


# features, the signs that their weights must have, and the formula of each toolkit
CASES: dict[str, tuple[tuple[str, ...], tuple[int, ...], Score]] = {
    "kaldi": (("acoustic", "lm", "words"), (-1, -1, 0), kaldi_costs),
    "icefall": (("acoustic", "lm", "attention"), (1, 0, 0), icefall),
    "espnet": (("decoder", "ctc", "lm", "tokens"), (1, 1, 0, 0), espnet),
}


def parsed(text: str) -> dict[str, float]:
    lines = (line.replace("=", " ").replace(":", " ").split() for line in text.splitlines())
    return {name: float(value) for name, value in lines}


@pytest.mark.parametrize("toolkit", CASES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_toolkit_with_these_settings_chooses_what_the_weights_choose(toolkit: str, data: st.DataObject) -> None:
    names, signs, formula = CASES[toolkit]
    sizes = st.floats(0.05, 20)
    free = st.sampled_from([-1, 1])
    weights = np.array([data.draw(sizes) * (sign or data.draw(free)) for sign in signs])
    weights[-1] = np.clip(weights[-1], -5 * abs(weights[0]), 5 * abs(weights[0]))
    rows = np.array(data.draw(st.lists(st.tuples(*[st.integers(-50, 50)] * len(names)), min_size=2, max_size=9)))
    text = settings_text(toolkit, names, weights, lambda _: True, {})
    total = formula(parsed(text), dict(zip(names, rows.T.astype(float), strict=True)))
    scores = rows @ weights
    assert scores[np.argmax(total)] >= scores.max() - 1e-3 * np.abs(weights).sum()
    back = TOOLKITS[toolkit].weights({k.lstrip("-"): v for k, v in parsed(text).items()}, np.sign(weights[0]))
    direction = np.array([back[name] for name in names])
    assert direction / np.abs(direction).sum() == pytest.approx(weights / np.abs(weights).sum(), abs=1e-4)


def test_settings_have_roles_and_as_many_digits_as_it_takes() -> None:
    for names, weights, roles in (
        ("acoustic lm words", [-0.1, -1, -0.5], {}),
        ("acoustic lm words", [0.1, 1, -0.5], {}),  # scores as well as costs
        ("words ac_cost lm_cost", [-0.5, -0.1, -1], {"acoustic": "ac_cost", "lm": "lm_cost"}),
    ):
        text = settings_text("kaldi", names.split(), np.array(weights), lambda _: True, roles)
        assert text == "--inv-acoustic-scale=10\n--word-ins-penalty=0.5\n"
    exact = np.array([2.0, 2.246913578])
    text = settings_text("icefall", ["acoustic", "lm"], exact, lambda w: abs(w[1] / w[0] - 1.123456789) < 1e-9, {})
    assert text == "ngram_lm_scale=1.123456789\n"


def test_settings_and_files_of_weights_are_written_and_read_back(tmp_path: Path) -> None:
    rows = "u1 1 0 2 0", "u1 0 1 0 1", "u2 2 1 1 1", "u2 1 3 1 0", "u3 5 1 2 3", "u3 4 2 1 1"
    speech = [*table_of(tmp_path, "acoustic lm words", *rows), "--bounds", "acoustic:0..,lm:0.."]
    best = loss_of("solve", *speech)
    found = parsed(succeeded("solve", *speech, "--write", "kaldi").stdout)
    weights = TOOLKITS["kaldi"].weights({name.lstrip("-"): value for name, value in found.items()}, 1.0)
    assert loss_of("check", *speech, "--weights", json.dumps(weights)) == best
    for name, options in (("weights.txt", []), ("n", ["--write", "numbers"]), ("w", []), ("w.json", [])):
        succeeded("solve", *speech, "--weights-out", tmp_path / name, *options)
        assert loss_of("check", *speech, "--weights", tmp_path / name) == best
    words = (tmp_path / "weights.txt").read_text().split()
    assert [len(word.partition(".")[2]) for word in words] == [6, 6, 6]
    full = json_of("solve", *speech)["weights"]
    assert json.loads((tmp_path / "w.json").read_text()) == full, "named, and with all digits"
