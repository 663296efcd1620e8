"""A problem that is written once, in a file, is the problem that the options say."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import json_of, loss_of, refusal, run, succeeded
from shared import ROOT

import lpmert

# weights with am > lm cost 3, those with lm > am cost 2
TABLE = "utt\tam\tlm\terrors\tright\thyp\na\t1\t0\t0\t1\tx y\na\t0\t1\t2\t0\tx\nb\t0\t1\t0\t1\tz\nb\t1\t0\t3\t0\ty y\n"
PROBLEM = 'data = "dev.tsv"\nsegment = "utt"\nfeatures = "am,lm"\nloss = "errors"\n'
COLUMNS = ("--segment", "utt", "--features", "am,lm", "--loss", "errors")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with lists and references, which is not the current one."""
    found = tmp_path / "set"
    found.mkdir()
    (found / "dev.tsv").write_text(TABLE)
    (found / "dev.ref").write_text("a x y\nb z\n")
    return found


def written(folder: Path, text: str) -> str:
    (folder / "lists.toml").write_text(text)
    return str(folder / "lists.toml")


def solved(*arguments: object) -> dict[str, Any]:
    document = json_of("solve", *arguments)
    return {name: document[name] for name in ("loss", "weights", "fingerprint", "region")}


SAME = {
    "columns": ("", COLUMNS),
    "names and numbers": ('fix = "am=1"', (*COLUMNS, "--fix", "am=1")),
    "ranges": ('bounds = "am:0..,lm:..2"\nfix = "am=1"', (*COLUMNS, "--bounds", "am:0..,lm:..2", "--fix=am=1")),
    "flag": ("nonnegative = true", (*COLUMNS, "--nonnegative")),
    "flag that is not set": ("nonnegative = false", COLUMNS),
    "sums": (
        'total = 1\nlinear = ["am=1,lm=-2:0..", "am=1:..0.9"]',
        (*COLUMNS, "--total", "1", "--linear", "am=1,lm=-2:0..", "--linear", "am=1:..0.9"),
    ),
    "angle": ('around = "am=1,lm=3"\ncosine = 0.9', (*COLUMNS, "--around", "am=1,lm=3", "--cosine", "0.9")),
    "ties": ('ties = "worst"', (*COLUMNS, "--ties", "worst")),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_a_file_says_what_options_say(folder: Path, name: str) -> None:
    more, options = SAME[name]
    assert solved(written(folder, PROBLEM + more)) == solved(folder / "dev.tsv", *options)


def test_texts_and_references_of_a_file_are_beside_it(folder: Path) -> None:
    text = (
        'data = ["dev.tsv"]\nsegment = "utt"\nfeatures = "am,lm"\ntext = "hyp"\nreferences = "dev.ref"\nmetric = "wer"'
    )
    options = ("--segment", "utt", "--features", "am,lm", "--text", "hyp", "--references", folder / "dev.ref")
    assert solved(written(folder, text)) == solved(folder / "dev.tsv", *options)


def test_the_metric_has_its_settings(folder: Path) -> None:
    (folder / "dev.tsv").write_text(
        "list\tam\tlm\tmatch\tpredicted\tgold\na\t1\t0\t3\t9\t4\na\t0\t1\t2\t2\t4\nb\t1\t1\t1\t1\t1\n"
    )
    losses = [
        solved(written(folder, f'data = "dev.tsv"\nmetric = "f1"\nset = "metric.beta={beta}"'))["loss"]
        for beta in (0.25, 4)
    ]
    # of the two sums, (4, 10, 5) and (3, 3, 5), F_beta is (1 + b) match / (b gold + predicted), with b = beta squared
    expected = [1 - max((1 + b) * m / (b * g + p) for m, p, g in [(4, 10, 5), (3, 3, 5)]) for b in (1 / 16, 16)]
    assert losses == pytest.approx(expected)


def test_names_with_files_are_beside_it(folder: Path) -> None:
    for name, column in {"am": (1, 0, 0, 1), "lm": (0, 1, 1, 0), "errors": (0, 2, 0, 3)}.items():
        rows = zip(("a-1", "a-2", "b-1", "b-2"), column, strict=True)
        (folder / name).write_text("".join(f"{key} {value}\n" for key, value in rows))
    text = 'from = "scores"\ndata = ["am=am", "lm=lm"]\nlosses = "loss=errors"'
    assert solved(written(folder, text))["loss"] == 2


def test_the_command_line_comes_before_the_file(folder: Path) -> None:
    path = written(folder, PROBLEM + "fix = 'am=1,lm=0.5'")
    assert solved(path)["loss"] == 3
    assert solved(path, "--fix", "lm=1")["loss"] == 2
    gain = (folder / "dev.tsv", *COLUMNS[:4], "--gain", "right", "--fix", "lm=1")
    assert solved(path, "--gain", "right", "--fix", "lm=1") == solved(*gain)


def test_every_command_that_reads_lists_takes_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PROBLEM + 'text = "hyp"\nmetric = "loss"\nfix = "lm=1"\nheld-out = "test.tsv"'
    shutil.copy(folder / "dev.tsv", folder / "test.tsv")
    path = written(folder, text)
    monkeypatch.chdir(folder.parent)

    def ran(*arguments: object) -> str:
        return succeeded(*arguments).stdout

    result, proof = folder / "result.json", folder / "proof.json.gz"
    ran("solve", path, "-q", "-o", result, "--certificate", proof)
    assert json.loads(result.read_text())["loss"] == 2
    assert "certificate holds" in ran("verify", proof, path)
    assert loss_of("evaluate", path, "--weights", "1,0") == 3
    assert loss_of("check", path, "--weights", "0.5,1") == 2
    assert ran("rerank", path, "--weights", "0,1", "-q") == "a\tx\nb\tz\n"
    assert '"held_out"' in ran("tune", path, "--quick", "-q", "--json")
    assert '"held_out_loss": {' in ran("compare", path, "--methods", "och", "--seeds", "1", "-q", "--json")
    assert ran("train", path, "-q")
    assert ran("ranges", path, "-q")
    assert ran("subsets", path, "-q")
    ran("convert", path, folder / "x.npz")
    assert lpmert.read(folder / "x.npz").names == ("am", "lm")


WRONG = {
    'featrues = "am"\n': r"no key 'featrues'; there are data, .*features, .*held-out",
    "time-limit = 5\n": "no key 'time-limit'",  # is the search's, not the problem's
    "fix = { am = 1 }\n": r"fix: must be a text as on the command line, or a number, not \{'am': 1\}",
    "fix = 'am=x'\n": r"fix: 'am=x' is not a name with a number",
    "losses = [['a']]\n": "losses: must be a text .*; several of them are an array",
    "nonnegative = 1\n": "nonnegative: must be true or false, not 1",
    "bounds = 'am:1'\n": r"bounds: 'am:1' is not a feature with its limits",
    "metric = 'nosuch'\n": "metric: ",
    "ties = 'none'\n": "ties: 'none' is not one of",
    "gain = 'right'\n": "gain: loss is there, too; give one of",
    'text-file = "a\\u0000b"\n': "text-file: embedded null",
    "set = 'restarts=3'\n": r"set: 'restarts=3' is not an option of the metric",
    "fix = \n": r"not TOML: .*line 5",
}


@pytest.mark.parametrize("line", WRONG)
def test_an_error_names_the_file_and_the_key(folder: Path, line: str) -> None:
    path = written(folder, PROBLEM + line)
    outcome = run("convert", path, folder / "x.npz")  # which has no region: a wrong one is wrong in every command
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith(f"lpmert: error: {path}: ")
    assert re.search(WRONG[line], outcome.stderr)


def test_a_file_without_lists_or_with_other_lists_is_refused(folder: Path) -> None:
    assert "data is missing" in refusal("solve", written(folder, 'segment = "utt"\n'))
    assert "data: must not be empty" in refusal("solve", written(folder, PROBLEM.replace('"dev.tsv"', "[]")))
    assert "give no other DATA beside it" in refusal("solve", written(folder, PROBLEM), folder / "dev.tsv", code=2)


def test_python_reads_lists_and_no_problems(folder: Path) -> None:
    with pytest.raises(lpmert.DataError, match="a problem, which is more than lists"):
        lpmert.read(written(folder, PROBLEM))


def test_held_out_lists_take_no_references_of_others(folder: Path) -> None:
    text = 'data = "dev.tsv"\nsegment = "utt"\nfeatures = "am,lm"\ntext = "hyp"\nreferences = "dev.ref"\n'
    path = written(folder, text + 'held-out = "dev.tsv"\nheld-out-references = "dev.ref"')
    shutil.copy(folder / "dev.tsv", folder / "test.tsv")
    succeeded("tune", path, "--quick", "-q")
    assert "--held-out needs --held-out-references" in refusal(
        "tune", path, "--quick", "-q", "--held-out", folder / "test.tsv", code=2
    )


def test_the_file_that_the_page_shows_is_the_example() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    text = (ROOT / "examples" / "asr" / "lists.toml").read_text(encoding="utf-8")
    assert text == f"# lpmert solve examples/asr/lists.toml\n{shown}"
