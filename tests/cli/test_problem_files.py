"""A problem that is written once, in a file, is the problem that the options say."""

import json
import re
from collections.abc import Callable
from math import hypot, isclose
from pathlib import Path

import pytest
from commands import ended, json_of, loss_of, refusal, succeeded
from shared import ROOT
from written_lists import put

import lpmert

# weights with am > lm cost 3, those with lm > am cost 2
TABLE = "utt\tam\tlm\terrors\tright\thyp\na\t1\t0\t0\t1\tx y\na\t0\t1\t2\t0\tx\nb\t0\t1\t0\t1\tz\nb\t1\t0\t3\t0\ty y\n"
F1 = "list\tam\tlm\tmatch\tpredicted\tgold\na\t1\t0\t3\t9\t4\na\t0\t1\t2\t2\t4\nb\t1\t1\t1\t1\t1\n"
PROBLEM = 'data = "dev.tsv"\nsegment = "utt"\nfeatures = "am,lm"\nloss = "errors"\n'
TEXTS = 'data = ["dev.tsv"]\nsegment = "utt"\nfeatures = "am,lm"\ntext = "hyp"\nreferences = "dev.ref"\n'
SCORES = 'from = "scores"\ndata = ["am=am", "lm=lm"]\nlosses = "loss=errors"\n'
COLUMNS = "--segment utt --features am,lm"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with lists and references, which is not the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "set").mkdir()
    line = "a-1 {}\na-2 {}\nb-1 {}\nb-2 {}\n"
    scores = {"am": line.format(1, 0, 0, 1), "lm": line.format(0, 1, 1, 0), "errors": line.format(0, 2, 0, 3)}
    tables = {"dev.tsv": TABLE, "test.tsv": TABLE, "f1.tsv": F1, "dev.ref": "a x y\nb z\n"}
    return put(tmp_path / "set", {**tables, **scores})


def written(folder: Path, text: str) -> str:
    (folder / "lists.toml").write_text(text)
    return str(folder / "lists.toml")


SAME = [  # more of a file, the same options, and what holds of the weights within their limits
    ("", "", None),
    ('fix = "am=1"', "--fix am=1", lambda am, **_: am == 1),
    ('bounds = "am:0..,lm:-0.5..2"\nfix = "am=1"', "--bounds am:0..,lm:-0.5..2 --fix=am=1",
     lambda am, lm: am == 1 and -0.5 < lm < 2),
    ("nonnegative = true", "--nonnegative", lambda am, lm: am > 0 < lm),
    ("nonnegative = false", "", None),
    ('total = 1\nlinear = ["am=1,lm=-2:0..", "am=1:..0.9"]', "--total 1 --linear am=1,lm=-2:0.. --linear am=1:..0.9",
     lambda am, lm: 2 * lm < am < 0.9 and isclose(am + lm, 1)),
    ('around = "am=1,lm=3"\ncosine = 0.9', "--around am=1,lm=3 --cosine 0.9",
     lambda am, lm: (am + 3 * lm) / 10**0.5 / hypot(am, lm) >= 0.9),
    ('ties = "worst"', "--ties worst", None),
    (TEXTS + 'metric = "wer"', "--text hyp --references set/dev.ref", None),
    (SCORES, "am=set/am lm=set/lm --losses loss=set/errors", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "holds"), SAME)
def test_a_file_says_what_options_say(
    folder: Path, text: str, options: str, holds: Callable[[float, float], bool] | None
) -> None:
    path = written(folder, text if "data" in text else PROBLEM + text)
    lists = "" if text == SCORES else f"set/dev.tsv {COLUMNS} " + ("" if "data" in text else "--loss errors ")
    of_file, of_options = json_of("solve", path), json_of("solve", *f"{lists}{options}".split())
    for name in ("loss", "weights", "fingerprint", "region"):
        assert of_file[name] == of_options[name]
    assert text != SCORES or of_file["loss"] == 2
    assert holds is None or holds(**of_file["weights"])
    assert ("inside by" in succeeded("solve", path, "-v").stdout) is (holds is not None)


@pytest.mark.parametrize("beta", [0.25, 0.5, 1, 2, 4])
def test_the_metric_has_its_settings(folder: Path, beta: float) -> None:
    # of the two sums, (4, 10, 5) and (3, 3, 5), F_beta is (1 + b) match / (b gold + predicted), with b = beta squared
    b = beta**2
    expected = 1 - max((1 + b) * match / (b * 5 + predicted) for match, predicted in [(4, 10), (3, 3)])
    path = written(folder, f'data = "f1.tsv"\nmetric = "f1"\nset = "metric.beta={beta}"')
    assert loss_of("solve", path) == pytest.approx(expected)
    assert loss_of("solve", "set/f1.tsv", "--metric", "f1", "--set", f"metric.beta={beta}") == pytest.approx(expected)


def test_the_command_line_comes_before_the_file(folder: Path) -> None:
    path = written(folder, PROBLEM + "fix = 'am=1,lm=0.5'")
    assert loss_of("solve", path) == 3
    assert loss_of("solve", path, "--fix", "lm=1") == 2
    gain = ("--gain", "right", "--fix", "lm=1")
    assert loss_of("solve", path, *gain) == loss_of("solve", "set/dev.tsv", *COLUMNS.split(), *gain)


def test_every_command_that_reads_lists_takes_the_file(folder: Path) -> None:
    path = written(folder, PROBLEM + 'text = "hyp"\nmetric = "loss"\nfix = "lm=1"\nheld-out = "test.tsv"')
    succeeded("solve", path, "-q", "-o", "result.json", "--certificate", "proof.json.gz")
    assert json.loads(Path("result.json").read_text())["loss"] == 2
    assert loss_of("evaluate", path, "--weights", "1,0") == 3
    assert loss_of("check", path, "--weights", "0.5,1") == 2
    for call, said in (
        (("verify", "proof.json.gz", path), "certificate holds"),
        (("rerank", path, "--weights", "0,1", "-q"), "a\tx\nb\tz\n"),
        (("tune", path, "--quick", "-q", "--json"), '"held_out"'),
        (("compare", path, "--methods", "och", "--seeds", "1", "-q", "--json"), '"held_out_loss": {'),
        *(((command, path, "-q"), "errors") for command in ("train", "subsets", "ranges")),
    ):
        assert said in succeeded(*call).stdout
    succeeded("convert", path, "x.npz")
    assert lpmert.read("x.npz").names == ("am", "lm")


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
    # this command has no region: a wrong one is wrong in every command
    told = ended(1, "convert", path, "x.npz").stderr
    assert told.startswith(f"lpmert: error: {path}: ")
    assert re.search(WRONG[line], told)


def test_a_file_without_lists_or_with_other_lists_is_refused(folder: Path) -> None:
    assert "data is missing" in refusal("solve", written(folder, 'segment = "utt"\n'))
    assert "data: must not be empty" in refusal("solve", written(folder, PROBLEM.replace('"dev.tsv"', "[]")))
    path = written(folder, PROBLEM)
    assert "give no other DATA beside it" in refusal("solve", path, "set/dev.tsv", code=2)
    with pytest.raises(lpmert.DataError, match="a problem, which is more than lists"):
        lpmert.read(path)
    # held-out lists take no references of others
    path = written(folder, TEXTS + 'held-out = "dev.tsv"\nheld-out-references = "dev.ref"')
    succeeded("tune", path, "--quick", "-q")
    refused = refusal("tune", path, "--quick", "-q", "--held-out", "set/test.tsv", code=2)
    assert "--held-out needs --held-out-references" in refused


def test_the_file_that_the_page_shows_is_the_example() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    text = (ROOT / "examples" / "asr" / "lists.toml").read_text(encoding="utf-8")
    assert text == f"# lpmert solve examples/asr/lists.toml\n{shown}"
