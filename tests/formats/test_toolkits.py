"""Settings of toolkits choose what the weights choose, by the formulas of the toolkits; files are kept up to date."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import json_of, loss_of, succeeded
from hypothesis import given, settings
from hypothesis import strategies as st

from lpmert import DataError
from lpmert.errors import FloatArray
from lpmert.formats.weights import TOOLKITS, settings_text

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


def pocketsphinx(flags: dict[str, float], score: dict[str, FloatArray]) -> FloatArray:
    """Acoustic score, and for each word lw times the language model's and the logarithm of wip."""
    return score["acoustic"] + flags["-lw"] * score["lm"] + np.log(flags["-wip"]) * score["words"]


CASES: dict[str, tuple[tuple[str, ...], tuple[int, ...], Score]] = {
    "kaldi": (("acoustic", "lm", "words"), (-1, -1, 0), kaldi_costs),
    "icefall": (("acoustic", "lm", "attention"), (1, 0, 0), icefall),
    "espnet": (("decoder", "ctc", "lm", "tokens"), (1, 1, 0, 0), espnet),
    "pocketsphinx": (("acoustic", "lm", "words"), (1, 1, 0), pocketsphinx),
}
"""Features, the signs that their weights must have, and the formula of each toolkit."""


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


def test_kaldi_takes_scores_as_well_as_costs() -> None:
    cost = settings_text("kaldi", ("acoustic", "lm", "words"), np.array([-0.1, -1, -0.5]), lambda _: True, {})
    score = settings_text("kaldi", ("acoustic", "lm", "words"), np.array([0.1, 1, -0.5]), lambda _: True, {})
    assert cost == score == "--inv-acoustic-scale=10\n--word-ins-penalty=0.5\n"


def test_features_have_the_roles_they_are_given() -> None:
    names, roles = ("words", "ac_cost", "lm_cost"), {"acoustic": "ac_cost", "lm": "lm_cost"}
    text = settings_text("kaldi", names, np.array([-0.5, -0.1, -1]), lambda _: True, roles)
    assert text == "--inv-acoustic-scale=10\n--word-ins-penalty=0.5\n"


@pytest.mark.parametrize(
    ("toolkit", "names", "weights", "roles", "message"),
    [
        ("kaldi", ("acoustic", "lm"), (1, -1), {}, "kaldi has no settings for these weights: acoustic and lm must"),
        ("kaldi", ("acoustic", "lm"), (0, 1), {}, "of the same sign, neither of them 0"),
        ("icefall", ("acoustic", "lm"), (-1, 1), {}, "the weight of acoustic must be above 0"),
        ("espnet", ("decoder", "ctc"), (1, -1), {}, "decoder and ctc must be at least 0"),
        ("pocketsphinx", ("acoustic", "lm"), (1, 0), {}, "acoustic and lm must be above 0"),
        ("pocketsphinx", ("acoustic", "lm", "words"), (1e-9, 1, 1), {}, "too large for a probability"),
        ("kaldi", ("am", "lm"), (1, 1), {}, "no setting for feature 'am'; say which .*: --roles acoustic=FEATURE"),
        ("kaldi", ("lm",), (1,), {}, "no feature for acoustic"),
        ("kaldi", ("am", "lm"), (1, 1), {"sound": "am"}, "'sound' is no role or no feature"),
        ("kaldi", ("am", "lm"), (1, 1), {"acoustic": "xx"}, "'xx' is no role or no feature"),
    ],
)
def test_what_a_toolkit_cannot_do_is_said(
    toolkit: str, names: tuple[str, ...], weights: tuple[float, ...], roles: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        settings_text(toolkit, names, np.array(weights, dtype=float), lambda _: True, roles)


def test_settings_get_as_many_digits_as_it_takes() -> None:
    def keeps(weights: FloatArray) -> bool:
        return bool(abs(weights[1] / weights[0] - 1.123456789) < 1e-9)

    text = settings_text("icefall", ("acoustic", "lm"), np.array([2.0, 2.246913578]), keeps, {})
    assert text == "ngram_lm_scale=1.123456789\n"


class TestCommand:
    @pytest.fixture
    def table(self, tmp_path: Path) -> list[str]:
        rows = ["u1 1 0 2 0", "u1 0 1 0 1", "u2 2 1 1 1", "u2 1 3 1 0", "u3 5 1 2 3", "u3 4 2 1 1"]
        lines = ["utt acoustic lm words errors", *rows, ""]
        (tmp_path / "dev.tsv").write_text("\n".join(lines).replace(" ", "\t"))
        given = ["--segment", "utt", "--features", "acoustic,lm,words", "--loss", "errors"]
        return [str(tmp_path / "dev.tsv"), *given, "--bounds", "acoustic:0..,lm:0.."]

    @pytest.mark.parametrize("form", ["kaldi", "pocketsphinx"])
    def test_settings_are_written_to_stdout(self, table: list[str], form: str) -> None:
        outcome = succeeded("solve", *table, "--write", form)
        found = {name.lstrip("-"): value for name, value in parsed(outcome.stdout).items()}
        weights = TOOLKITS[form].weights(found, 1.0)
        assert loss_of("check", *table, "--weights", json.dumps(weights)) == loss_of("solve", *table)

    @pytest.mark.parametrize(
        ("name", "write"), [("weights.txt", None), ("w", "numbers"), ("w", None), ("w.json", None)]
    )
    def test_files_of_weights_are_read_back(
        self, table: list[str], tmp_path: Path, name: str, write: str | None
    ) -> None:
        path = tmp_path / name
        succeeded("solve", *table, "--weights-out", path, *([] if write is None else ["--write", write]))
        assert loss_of("check", *table, "--weights", str(path)) == loss_of("solve", *table)
        words = path.read_text().split()
        if name == "weights.txt":
            assert len(words) == 3
            assert all(len(word.partition(".")[2]) == 6 for word in words)
        if name == "w.json":
            full = json_of("solve", *table)["weights"]
            assert json.loads(path.read_text()) == full, "named, and with all digits"
