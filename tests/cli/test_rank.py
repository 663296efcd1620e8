"""`lpmert rank`: what it prints and writes is what the library finds, and wrong usage is told before the search."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from commands import ended, json_of, precede, press_ctrl_c, refusal, succeeded
from shared import ROOT

from lpmert import fusion, read_judged
from lpmert.fusion import fuse, rounded_up

FOLDER = ROOT / "examples" / "search"
RUNS = (str(FOLDER / "keyword.run"), str(FOLDER / "dense.run"))
QRELS = ("--qrels", str(FOLDER / "qrels.txt"))
ASKED = ("rank", *RUNS, *QRELS)


def test_the_report_has_weights_values_bound_and_verdict_in_a_few_lines() -> None:
    lists = read_judged(RUNS, qrels=QRELS[1], normalise="minmax")
    found = fuse(lists, "recall@5", folds=4, other=np.array([1.0, 3.0]))
    options = "--normalise minmax --metric recall@5 --cv 4 --weights 1,3 -q"
    text = succeeded(*ASKED, *options.split()).stdout
    lines = text.splitlines()
    assert len(lines) <= 15
    assert lines[0].split() == ["feature", "weight", "alone"]
    for line, name in zip(lines[1:], lists.names, strict=False):
        assert line.split() == [name, repr(found.result.by_name[name]), f"{found.alone[name]:.6f}"]
    best = found.result.score
    assert f"recall@5      {best:.6f}" in lines
    assert list(found.others) == ["these weights", "equal weights", "grid of 11"]
    for label, one in found.others.items():
        assert f"{label:13} {one.score:.6f} ({one.score - best:+.6f})" in text
    assert f"about {found.unseen.best:.4f}, equal weights {found.unseen.equal:.4f}" in text
    assert "missing scores: 180 of 820; zero takes their place" in text
    assert lines[-1] == f"proved: no nonnegative weights do better; {found.unseen.message}"


def test_the_json_is_written_and_its_weights_are_read_again(tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    assert succeeded(*ASKED, "-o", weights).stdout == ""
    plain, again = json.loads(weights.read_text()), json_of(*ASKED, "--weights", weights)
    assert again["others"].pop("these weights")["score"] == again["score"] == plain["score"]
    assert {**again, "seconds": 0} == {**plain, "seconds": 0}


def test_one_run_leaves_nothing_to_choose_and_one_query_with_one_document_is_singular(tmp_path: Path) -> None:
    told = succeeded("rank", RUNS[0], *QRELS).stderr
    assert "documents, 1 feature;" in told
    warning = "warning: one feature leaves nothing to choose"
    assert warning in told
    assert warning in succeeded("rank", RUNS[0], *QRELS, "-q").stderr
    assert warning not in succeeded(*ASKED).stderr
    judged, proof = tmp_path / "judged.txt", tmp_path / "proof.json"
    judged.write_text("1 qid:1 1:2 2:1\n")
    done = succeeded("rank", judged, "--certificate", proof)
    assert "judged.txt: 1 query, 1 document, 2 features; seed 0" in done.stderr
    assert "counted       1 query, 1 document\n" in done.stdout
    assert "(1 query, ties: worst order; " in succeeded("rank", judged, "--verify", proof).stdout


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    files = [tmp_path / name / "run.txt.gz" for name in "ab"]
    for file, path in zip(files, RUNS, strict=True):
        file.parent.mkdir()
        file.write_bytes(gzip.compress(Path(path).read_bytes()))
    assert "two runs are called 'run'; name them: NAME=FILE" in refusal("rank", *files, *QRELS)
    named = json_of("rank", f"bm25={files[0]}", f"dense={files[1]}", *QRELS)
    assert [*named["weights"].values()] == [*json_of(*ASKED)["weights"].values()]
    assert "two runs have the same name" in refusal("rank", f"bm25={files[0]}", f"bm25={files[1]}", *QRELS, code=2)


def test_settings_of_an_engine_take_the_place_of_the_report(tmp_path: Path) -> None:
    asked = [*ASKED, "--normalise", "minmax", "-q", "--write", "opensearch"]
    assert succeeded(*asked, "-o", tmp_path / "found.json").stdout == ""
    settings = json.loads(succeeded(*asked).stdout)["phase_results_processors"][0]["normalization-processor"]
    assert settings["normalization"] == {"technique": "min_max"}
    weights = json.loads((tmp_path / "found.json").read_text())["weights"]
    assert settings["combination"]["parameters"]["weights"] == list(weights.values())


def test_ctrl_c_ends_a_search_with_its_best_weights_and_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    with (tmp_path / "judged.txt").open("w") as file:
        for row in range(2000):
            scores = " ".join(f"{j}:{random.normal():.6f}" for j in range(1, 6))
            file.write(f"{int(random.random() < 0.1)} qid:{row // 20} {scores}\n")

    precede(monkeypatch, fusion, "maximize", press_ctrl_c)
    found = json.loads(ended(130, "rank", tmp_path / "judged.txt", "--json", "-q").stdout)
    assert found["status"] == "interrupted"
    assert found["message"] == f"interrupted: no nonnegative weights reach more than {rounded_up(found['bound'])}"
    assert 0 < found["score"] < found["bound"]


def test_a_proof_is_written_and_checked_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (*ASKED, "--normalise", "minmax", "-q")
    proof = tmp_path / "proof.json.gz"
    found = json_of(*asked, "--certificate", proof)
    monkeypatch.setattr(fusion, "maximize", None)
    said = f"certificate holds: ndcg@10 {found['score']:.10g} is the largest, to within 1e-11, of weights that are not"
    assert said in succeeded(*asked, "--verify", proof).stdout
    checked = json_of(*asked, "--verify", proof)
    assert (checked["weights"], checked["proved"]) == (found["weights"], True)
    assert checked["score"] == pytest.approx(found["score"], abs=1e-14)
    # each kind of certificate names the command that checks it
    example = ROOT / "examples" / "asr"
    lists = (example / "nbest.tsv.gz", "--segment", "utterance", "--features", "am,lm,words", "--loss", "errors")
    for call, code, message in (
        ((*asked, "--metric", "mrr@10", "--verify", proof), 5, "metric: ndcg@10 in the certificate, mrr@10 here"),
        ((*ASKED, "--verify", proof), 5, "fingerprint of the documents"),
        ((*asked, "--verify", proof, "--write", "ranx"), 2, "leave out --certificate and --write"),
        (("verify", proof, *lists), 5, "a certificate for lpmert rank --verify"),
        ((*asked, "--verify", example / "optimum.json.gz"), 5, "check it with lpmert verify"),
    ):
        assert message in refusal(*call, code=code)
