"""Weights used: what they pick from lists without losses, in every format, by single hypotheses and by votes."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import environment, run, succeeded
from shared import ROOT

import lpmert
from lpmert import DataError, NBest

LISTS = NBest(
    [[-1, 0.5], [-2, 0.75], [-1.5, 0.25], [-1, 0.5], [-1, 0.25]],
    [0, 3, 5],
    np.zeros(5),
    ["lm", "ver"],
    list_ids=["a", "b"],
    texts=["4", "5", "4", "x", "y"],
)
TABLE = "q\tanswer\tlm\tver\n" + "".join(
    f"{name}\t{text}\t{lm}\t{ver}\n"
    for name, text, (lm, ver) in zip("aaabb", LISTS.texts or (), LISTS.dense_features().tolist(), strict=True)
)
MOSES = "".join(
    f"{number} ||| {text} ||| lm= {lm} ver= {ver} ||| 0\n"
    for number, text, (lm, ver) in zip((0, 0, 0, 1, 1), LISTS.texts or (), LISTS.dense_features().tolist(), strict=True)
)
CANDIDATES = {"a": [("4", -1, 0.5), ("5", -2, 0.75), ("4", -1.5, 0.25)], "b": [("x", -1, 0.5), ("y", -1, 0.25)]}
SETS = "".join(
    json.dumps({"id": name, "candidates": [{"text": text, "scores": {"lm": lm, "ver": ver}} for text, lm, ver in own]})
    + "\n"
    for name, own in CANDIDATES.items()
)


@pytest.mark.parametrize("seed", range(20))
def test_it_picks_the_first_of_the_best_in_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(-3, 4, (40, 2)) / 8  # with many ties, and exact in doubles and as decimals
    weights = rng.integers(-3, 4, 2) / 7
    found = lpmert.rerank(NBest(features, np.arange(0, 41, 5), rng.random(40)), weights)
    scores = [sum(Fraction(x) * Fraction(w) for x, w in zip(row, weights, strict=True)) for row in features.tolist()]
    assert found.hypotheses.tolist() == [max(range(5), key=scores[k : k + 5].__getitem__) for k in range(0, 40, 5)]


def test_losses_play_no_part() -> None:
    bleu = [f"{what}_{n}" for n in range(1, 5) for what in ("match", "total")] + ["reference"]
    lists = NBest(LISTS.features, LISTS.offsets, np.ones((5, 9)), LISTS.names, LISTS.list_ids, bleu, LISTS.texts)
    assert (
        lpmert.rerank(lists, [1, 0]).hypotheses.tolist() == lpmert.rerank(LISTS, [1, 0]).hypotheses.tolist() == [0, 0]
    )


def test_ties_are_counted_and_the_first_is_picked() -> None:
    found = lpmert.rerank(LISTS, {"lm": 1, "ver": 0})
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

    def test_answers_may_stand_beside_the_texts(self) -> None:
        found = lpmert.rerank(LISTS, {"lm": -1, "ver": 0}, vote=["p", "q", "q", 1, 1])
        assert found.hypotheses.tolist() == [1, 0]  # q has 3.5, of which the first is number 1
        with pytest.raises(DataError, match="one entry for each of the 5 hypotheses, not 2"):
            lpmert.vote(LISTS, [1, 2])
        with pytest.raises(DataError, match="no texts that could be answers"):
            lpmert.vote(NBest([[1], [2]], [0, 2], [0, 1]))

    def test_a_count_makes_the_majority_win_and_weights_are_found_on_votes(self) -> None:
        counted = NBest(
            np.column_stack([LISTS.features, np.ones(5)]), LISTS.offsets, [0, 1, 0, 0, 1], [*LISTS.names, "votes"],
            LISTS.list_ids, texts=LISTS.texts,
        )  # fmt: skip
        assert lpmert.rerank(counted, [0, 0, 1], vote=True).texts == ("4", "x")
        found = lpmert.minimize(lpmert.vote(counted))
        assert (found.loss, lpmert.rerank(counted, found, vote=True).texts) == (0.0, ("4", "x"))

    def test_an_answer_costs_the_same_every_time(self) -> None:
        lists = NBest(LISTS.features, LISTS.offsets, [0, 1, 1, 0, 0], texts=LISTS.texts)
        with pytest.raises(DataError, match="'4' have different statistics"):
            lpmert.vote(lists)


class TestReading:
    @pytest.mark.parametrize(
        ("name", "text", "options", "weights", "ids"),
        [
            ("x.tsv", TABLE, ["--segment", "q", "--text", "answer"], "lm=0,ver=1", "ab"),
            ("x.csv", TABLE.replace("\t", ","), ["--segment", "q", "--text", "answer"], "lm=0,ver=1", "ab"),
            ("x.nbest", MOSES, [], "lm_0=0,ver_0=1", "01"),
            ("x.jsonl", SETS, [], "lm=0,ver=1", "ab"),
        ],
    )
    def test_lists_without_losses(
        self, tmp_path: Path, name: str, text: str, options: list[str], weights: str, ids: str
    ) -> None:
        (tmp_path / name).write_text(text)
        plain = succeeded("rerank", str(tmp_path / name), *options, "--weights", weights)
        assert plain.stdout == f"{ids[0]}\t5\n{ids[1]}\tx\n"
        assert "2 lists, 5 hypotheses" in plain.stderr
        out = tmp_path / "picks.json"
        assert run("rerank", str(tmp_path / name), *options, "--weights", weights, "-o", str(out), "-q").exit_code == 0
        picks = json.loads(out.read_text())["picks"]
        assert [(one["id"], one["hypothesis"], one["text"]) for one in picks] == [(ids[0], 1, "5"), (ids[1], 0, "x")]
        refused = run("solve", str(tmp_path / name), *options)
        assert refused.exit_code == 1, "a search needs losses"

    def test_lists_with_losses_and_arrays(self, tmp_path: Path) -> None:
        lpmert.write(LISTS, tmp_path / "x.npz")
        assert run("rerank", str(tmp_path / "x.npz"), "--weights", "0,1", "-q").stdout == "a\t5\nb\tx\n"

    def test_lattices_show_their_best_paths(self) -> None:
        folder = ROOT / "examples" / "speech"
        weights = {"acoustic": 1, "lm": 10, "words": 0}
        lattices = lpmert.load_lattices(folder / "lattices", folder / "text")
        best = lpmert.n_best(lattices, weights, n=1)
        plain = run("rerank", str(folder / "lattices"), "--weights", "acoustic=1,lm=10,words=0", "-q")
        assert plain.stdout == "".join(
            f"{name}\t{text}\n" for name, text in zip(best.list_ids, best.texts, strict=True)
        )

    def test_votes_on_the_command_line(self, tmp_path: Path) -> None:
        (tmp_path / "x.tsv").write_text(TABLE)
        table = [str(tmp_path / "x.tsv"), "--segment", "q", "--weights", "lm=-0.25,ver=1", "-q"]
        assert run("rerank", *table, "--vote", "answer").stdout == "a\t4\nb\tx\n"
        wrong = run("rerank", *table, "--vote", "answer", "--text", "q")
        assert (wrong.exit_code, "name different columns" in wrong.stderr) == (2, True)
        (tmp_path / "x.jsonl").write_text(SETS)
        sets = [str(tmp_path / "x.jsonl"), "--weights", "lm=-0.25,ver=1", "-q", "--vote"]
        assert run("rerank", *sets, "text").stdout == "a\t4\nb\tx\n"
        assert "--vote must be text" in run("rerank", *sets, "answer").stderr

    def test_weights_of_other_features_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.jsonl").write_text(SETS)
        wrong = run("rerank", str(tmp_path / "x.jsonl"), "--weights", "lm=1")
        assert wrong.exit_code != 0
        assert "ver" in wrong.stderr


def test_groups_keep_the_names_of_a_data_frame() -> None:
    pandas: Any = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"lm": [1, 2, 3], "ver": [0, 1, 0]})
    lists = lpmert.from_groups(frame, [0, 1, 1], ["a", "a", "b"])
    assert (lists.names, lists.list_ids, lists.offsets.tolist()) == (("lm", "ver"), ("a", "b"), [0, 2, 3])
    assert lpmert.from_groups(frame, [0, 1, 1], ["a", "a", "b"], names=["x", "y"]).names == ("x", "y")


def test_the_estimator_is_imported_without_scikit_learn() -> None:
    code = "import sys, lpmert; lpmert.Reranker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert not {"sklearn", "scipy", "pandas"} & {name.split(".")[0] for name in done.stdout.split()}
