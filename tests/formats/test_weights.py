"""Weights mean the same whatever form they come in: in every command, in Python, and in the files of other tools."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import json_of, refusal, succeeded

import lpmert
from lpmert import DataError, NBest, Region
from lpmert.formats.weights import given_weights, read_weights

NAMES = ("lm_0", "tm_pt_0", "tm_pt_1", "WordPenalty")
VALUES = [1.25, -2.5, 0.75, -0.5]
"""What every file below says of these features."""

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
    "moses.ini": "[feature]\nKENLM name=lm\n\n[weight]\nUnknown= 1\nlm= 1.25\ntm_pt= -2.5 0.75\nWordPenalty=-0.5\n\n"
    "[threads]\n4\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_means_the_same(tmp_path: Path, form: str) -> None:
    (tmp_path / "w").write_text(FORMS[form])
    assert read_weights(tmp_path / "w").of_features(NAMES).tolist() == VALUES


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("object", "result")])
def test_a_file_changes_only_where_its_weights_are(tmp_path: Path, form: str) -> None:
    (tmp_path / "w").write_text(FORMS[form])
    new = read_weights(tmp_path / "w").with_weights(NAMES, ["7.125", "8.5", "9.5", "6.5"])
    (tmp_path / "w").write_text(new)
    assert read_weights(tmp_path / "w").of_features(NAMES).tolist() == [7.125, 8.5, 9.5, 6.5]
    if form not in ("array", "named array"):  # JSON is laid out anew
        numbers = {"1.25", "-2.5", "0.75", "-0.5"}
        kept = [word for word in FORMS[form].replace("=", " ").split() if word not in numbers]
        assert [word for word in new.replace("=", " ").split() if word in kept] == kept


@pytest.mark.parametrize("text", ["1,2,3,4,5,6", "[1, 2, 3, 4, 5, 6]"])
def test_only_a_file_of_three_lines_is_an_init_opt(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"6 numbers for 2 features \(a, b\)"):
        given_weights(text).of_features(["a", "b"])
    lpmert.write(NBest([[1, 0], [0, 1]], [0, 2], [0, 1], names=["a", "b"]), tmp_path / "x.tsv")
    assert "6 numbers for 2 features (a, b)" in refusal("evaluate", tmp_path / "x.tsv", "--weights", text, code=2)
    (tmp_path / "w").write_text("1 2 3 4 5 6\n")
    with pytest.raises(DataError, match=r"w: 6 numbers for 2 features"):
        read_weights(tmp_path / "w").of_features(["a", "b"])
    (tmp_path / "w").write_text("1 2\n3 4\n5 6\n")
    assert read_weights(tmp_path / "w").of_features(["a", "b"]).tolist() == [1, 2]


def test_moses_ini_may_have_weights_of_other_features_but_none_missing(tmp_path: Path) -> None:
    (tmp_path / "w").write_text(FORMS["moses.ini"])
    found = read_weights(tmp_path / "w")
    assert found.of_features(NAMES[:2]).tolist() == VALUES[:2]
    with pytest.raises(
        DataError, match=r"w: the weights have none for glue; they are for .*; the features are lm_0, glue"
    ):
        found.of_features(["lm_0", "glue"])


LISTS = NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["am", "lm"])
TEXTS = {
    "numbers": "0.25,2",
    "spaced": " 0.25 , 2 ",
    "pairs": "lm=2,am=0.25",
    "object": '{"lm": 2, "am": 0.25}',
    "array": "[0.25, 2]",
}


@pytest.mark.parametrize("form", [*TEXTS, "file", "path"])
def test_python_takes_texts_files_mappings_and_sequences(tmp_path: Path, form: str) -> None:
    path = tmp_path / "weights.txt"
    path.write_text("lm 2\nam 0.25\n")
    given = {"file": str(path), "path": path}.get(form) or TEXTS[form]
    expected = lpmert.check(LISTS, {"am": 0.25, "lm": 2})
    assert expected.weights.tolist() == [0.25, 2]
    assert lpmert.check(LISTS, given).weights.tolist() == [0.25, 2]
    assert lpmert.evaluate(LISTS, given).loss == expected.loss
    assert lpmert.minimize(LISTS, initial_weights=given).loss == 0
    around = lpmert.minimize(LISTS, region=Region(cosine=0.9, around=given))
    assert around.signature == lpmert.minimize(LISTS, region=Region(cosine=0.9, around=[0.25, 2])).signature
    compared = lpmert.compare(LISTS, ["och"], seeds=1, weights={"mine": given}, initial_weights=given)
    assert compared["mine"].best.loss == expected.loss


@pytest.fixture
def table(tmp_path: Path) -> list[str]:
    path = tmp_path / "dev.tsv"
    rows = ["u1 1 0 2 0 0", "u1 0 1 0 1 1", "u2 2 1 1 1 1", "u2 1 3 0 0 0"]
    path.write_text("\n".join(["utt " + " ".join(NAMES) + " errors", *rows, ""]).replace(" ", "\t"))
    return [str(path), "--segment", "utt", "--features", ",".join(NAMES), "--loss", "errors"]


@pytest.mark.parametrize("form", ["result", "moses.ini", "words", "pairs", "JSON"])
def test_commands_take_files_and_texts(tmp_path: Path, table: list[str], form: str) -> None:
    (tmp_path / "w").write_text(FORMS.get(form, ""))
    texts = {"words": "1.25,-2.5,.75,-.5", "JSON": FORMS["object"]}
    texts["pairs"] = "tm_pt_0=-2.5,lm_0=1.25, WordPenalty=-0.5 ,tm_pt_1=0.75"
    weights = texts.get(form) or str(tmp_path / "w")
    assert json_of("check", *table, "--weights", weights)["weights"] == dict(zip(NAMES, VALUES, strict=True))
    for more in (["--initial-weights", weights], ["--cosine", "0.5", "--around", weights]):
        succeeded("solve", *table, "--json", *more)
    compared = json_of("compare", *table, "--methods", "random", "--seeds", "1", "--weights", f"mine={weights}")
    (entry,) = (one for one in compared["methods"] if one["name"] == "mine")
    assert list(entry["runs"][0]["weights"].values()) == VALUES


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("1,2,3", r"weights: 3 numbers for 2 features \(am, lm\)"),
        ("am=1", "weights: the weights have none for lm; they are for am; the features are am, lm"),
        ("am=1,xx=2", "have none for lm and name unknown features: xx; they are for am, xx; the features are am, lm"),
        ("am=1,am=2", "a second weight for 'am'"),
        ("am=one", "neither a file that is there, nor finite numbers"),
        ("nowhere.json", "nowhere.json: cannot be read"),
        ('{"am": 1', "weights: not JSON"),
        ({"am": 1}, "weights have none for lm; they are for am; the features are am, lm"),
        ([1], r"one number for each of the 2 features \(am, lm\)"),
    ],
)
def test_weights_that_do_not_fit_say_what_there_is(given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        lpmert.check(LISTS, given)


def test_what_is_no_text_stays_as_it_is() -> None:
    given = np.array([1.0, 2.0])
    assert given_weights(given) is given
