"""Lattices on the command line: the same commands as for lists, and what is refused there."""

import json
from pathlib import Path

import pytest
from commands import json_of, loss_of, refusal, run, succeeded
from shared import ROOT

import lpmert
from lpmert import Region

LATTICES, TEXT = ROOT / "examples/speech/lattices", ROOT / "examples/speech/text"
ON_LATTICES = (LATTICES, "--references", TEXT)
REGION = ("--fix", "acoustic=1", "--bounds", "lm:1..30,words:-20..20")
INSIDE = Region(fixed={"acoustic": 1.0}, bounds={"lm": (1.0, 30.0), "words": (-20.0, 20.0)})
WEIGHTS = {"acoustic": 1.0, "lm": 9.5, "words": 0.0}


def test_solve_proves_the_least_loss_of_all_paths_and_says_how_many_there_are() -> None:
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    best = lpmert.minimize(lattices, region=INSIDE)
    files = sorted(LATTICES.iterdir())
    outcome = succeeded("solve", *files, "--references", TEXT, *REGION, "--json")
    found = json.loads(outcome.stdout)
    assert found["loss"] == found["lower_bound"] == best.loss
    assert found["fingerprint"] == lattices.fingerprint
    assert found["rates"]["error_rate"] == pytest.approx(best.loss / 86)  # words in the references
    digits = round(float(lattices.log10_paths.max()))
    assert f"u01.slf.gz and 11 more files: 12 lattices, 5,227 links, up to 10^{digits} paths each" in outcome.stderr
    shown = succeeded("solve", *ON_LATTICES, *REGION, "-v").stdout
    assert f"paths         5,227 links, up to 10^{digits} paths each; {best.counters['survivors']} may win" in shown


def test_n_best_makes_lists_of_lattices() -> None:
    options = ("--n-best", "20", "--scales", "lm=9.5,words=0")
    found = json_of("solve", *ON_LATTICES, *options, *REGION)
    lists = lpmert.read(LATTICES, references=TEXT, n_best=20, scales={"lm": 9.5, "words": 0.0})
    assert found["fingerprint"] == lists.fingerprint
    assert "may win in a cone" not in succeeded("solve", *ON_LATTICES, *options, *REGION).stdout


def test_check_and_evaluate_take_all_paths() -> None:
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    loss = lpmert.evaluate(lattices, WEIGHTS).loss
    found = json_of("check", *ON_LATTICES, *REGION, "--weights", "1,9.5,0")
    assert (found["loss"], found["excess"]) == (loss, loss - found["optimum"]["loss"])
    found = json_of("evaluate", *ON_LATTICES, "--weights", "1,9.5,0")
    assert (found["loss"], found["fingerprint"]) == (loss, lattices.fingerprint)
    characters = json_of("evaluate", *ON_LATTICES, "--metric", "cer", "--weights", "1,9.5,0")
    assert characters["loss"] == lpmert.evaluate(lattices, WEIGHTS, metric="cer").loss > loss


@pytest.mark.parametrize("given", ["pairs", "file"])
def test_convert_writes_the_best_hypotheses_which_solve_opens(tmp_path: Path, given: str) -> None:
    path, scales = tmp_path / "best.tsv", "lm=9.5,acoustic=1,words=0"
    if given == "file":
        (tmp_path / "scales").write_text(scales.replace(",", "\n").replace("=", " "))
        scales = str(tmp_path / "scales")
    outcome = succeeded("convert", LATTICES, path, "--references", TEXT, "--scales", scales, "--n-best", "7")
    assert outcome.stdout == ""
    assert f"{path}: 12 lists, 84 hypotheses; features acoustic, lm, words; statistics loss" in outcome.stderr
    lists = lpmert.read(LATTICES, references=TEXT, n_best=7, scales={"lm": 9.5, "words": 0.0})
    assert lpmert.read(path).texts == lists.texts
    assert loss_of("solve", path, *REGION) == lpmert.minimize(lists, region=INSIDE).loss
    every = lpmert.load_lattices(LATTICES, TEXT)
    assert loss_of("evaluate", path, "--weights", "1,9.5,0") == lpmert.evaluate(every, WEIGHTS).loss


def test_words_are_counted_left_out_and_unified(tmp_path: Path) -> None:
    content = "N=4 L=4\nI=0\nI=1 W=<sil>\nI=2 W=the(2)\nI=3 W=um\n"
    content += "J=0 S=0 E=1 a=-1\nJ=1 S=1 E=2 a=-2\nJ=2 S=2 E=3 a=-3\nJ=3 S=0 E=2 a=-5\n"
    (tmp_path / "x.slf").write_text(content)
    (tmp_path / "text").write_text("x the\n")
    options = ("--references", tmp_path / "text", "--variants", "--silent", "um", "--counts", "silences=<sil>")
    out = tmp_path / "x.tsv"
    succeeded("convert", tmp_path / "x.slf", out, *options, "--scales", "acoustic=1,words=0", "--n-best", "3")
    lists = lpmert.read(out)
    assert (lists.names, lists.texts) == (("acoustic", "words", "silences"), ("the",))
    assert lists.dense_features().tolist() == [[-6.0, 1.0, 1.0]]
    found = json_of("solve", tmp_path / "x.slf", *options, "--features", "acoustic,words")
    assert list(found["weights"]) == ["acoustic", "words"]


def test_certificates_of_lattices_are_written_and_verified(tmp_path: Path) -> None:
    (tmp_path / "x.fst").write_text("0 1 the 1\n0 1 a 0.5\n1 2 cat 2\n1 2 cut 1.5\n2\n")
    (tmp_path / "y.fst").write_text("0 1 so 1\n0 2 no 2\n1 2 <eps> 0.25\n2\n")
    (tmp_path / "text").write_text("x the cut\ny no\n")
    files = (tmp_path / "x.fst", tmp_path / "y.fst", "--references", tmp_path / "text")
    proof = tmp_path / "proof.json"
    found = json_of("solve", *files, "--certificate", proof)
    verified = json_of("verify", proof, *files)
    assert verified["proved"]
    assert verified["lower_bound"] == found["loss"]
    (tmp_path / "text").write_text("x the cat\ny no\n")
    assert run("verify", proof, *files).exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--scales", "lm=2"), 2, "--scales does not apply to whole lattices"),
        (("--loss", "errors"), 2, "--loss does not apply to whole lattices"),
        (("--deduplicate",), 2, "--deduplicate does not apply to whole lattices"),
        (("--segment", "utt"), 2, "--segment does not apply"),
        (("--scale", "am=1"), 2, "no feature 'am'"),
        (("--features", "am"), 1, "no feature 'am'"),
    ],
)
def test_what_whole_lattices_cannot_take_is_refused(arguments: tuple[str, ...], code: int, message: str) -> None:
    assert message in refusal("solve", *ON_LATTICES, *arguments, code=code)


def test_missing_references_and_wrong_data_are_told(tmp_path: Path) -> None:
    assert "--references is needed for reading slf" in refusal("solve", LATTICES, code=2)
    table = tmp_path / "lists.tsv"
    table.write_text("utt\tam\terrors\na\t1\t0\na\t2\t1\n")
    assert "--n-best does not apply to reading tsv" in refusal(
        "convert", table, tmp_path / "out.npz", "--segment", "utterance", "--loss", "errors", "--n-best", "3", code=2
    )
    mine = tmp_path / "x.slf"
    mine.write_bytes((LATTICES / "u01.slf.gz").read_bytes())
    outcome = run("convert", mine, mine, "--to", "moses", "--references", TEXT, "--partial", "--n-best", "3")
    assert outcome.exit_code != 0


def test_compare_takes_all_paths_and_says_which_methods_can() -> None:
    options = ("--methods", "random", "--set", "random.draws=5", "--seeds", "1", *REGION)
    found = json_of("compare", *ON_LATTICES, *options, "--weights", "mine=1,9.5,0")
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    assert found["fingerprint"] == lattices.fingerprint
    assert [entry["name"] for entry in found["methods"]] == ["random(draws=5)", "mine"]
    assert found["methods"][1]["loss"]["best"] == lpmert.evaluate(lattices, WEIGHTS).loss
    assert found["optimum"]["loss"] == json_of("solve", *ON_LATTICES, *REGION)["loss"]
    refused = refusal("compare", *ON_LATTICES, "--methods", "och,grid")
    assert "'grid' needs N-best lists: make them with --n-best" in refused
