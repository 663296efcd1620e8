"""A problem that is written once, in a file, is the problem that the options say."""

import json
import re
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
    columns = {"am": (1, 0, 0, 1), "lm": (0, 1, 1, 0), "errors": (0, 2, 0, 3)}
    lines = {name: zip(("a-1", "a-2", "b-1", "b-2"), own, strict=True) for name, own in columns.items()}
    scores = {name: "".join(f"{key} {value}\n" for key, value in own) for name, own in lines.items()}
    tables = {"dev.tsv": TABLE, "test.tsv": TABLE, "f1.tsv": F1, "dev.ref": "a x y\nb z\n"}
    return put(tmp_path / "set", {**tables, **scores})


def written(folder: Path, text: str) -> str:
    (folder / "lists.toml").write_text(text)
    return str(folder / "lists.toml")


SAME = [
    (PROBLEM, "dev.tsv --loss errors"),
    (PROBLEM + 'fix = "am=1"', "dev.tsv --loss errors --fix am=1"),
    (PROBLEM + 'bounds = "am:0..,lm:..2"\nfix = "am=1"', "dev.tsv --loss errors --bounds am:0..,lm:..2 --fix=am=1"),
    (PROBLEM + "nonnegative = true", "dev.tsv --loss errors --nonnegative"),
    (PROBLEM + "nonnegative = false", "dev.tsv --loss errors"),
    (
        PROBLEM + 'total = 1\nlinear = ["am=1,lm=-2:0..", "am=1:..0.9"]',
        "dev.tsv --loss errors --total 1 --linear am=1,lm=-2:0.. --linear am=1:..0.9",
    ),
    (PROBLEM + 'around = "am=1,lm=3"\ncosine = 0.9', "dev.tsv --loss errors --around am=1,lm=3 --cosine 0.9"),
    (PROBLEM + 'ties = "worst"', "dev.tsv --loss errors --ties worst"),
    (TEXTS + 'metric = "wer"', "dev.tsv --text hyp --references set/dev.ref"),
    (SCORES, "am=set/am lm=set/lm --from scores --losses loss=set/errors"),
]


@pytest.mark.parametrize(("text", "options"), SAME)
def test_a_file_says_what_options_say(folder: Path, text: str, options: str) -> None:
    data, *rest = options.split()
    columns = [] if text == SCORES else COLUMNS.split()
    data = data if text == SCORES else f"set/{data}"
    of_file, of_options = json_of("solve", written(folder, text)), json_of("solve", data, *rest, *columns)
    for name in ("loss", "weights", "fingerprint", "region"):
        assert of_file[name] == of_options[name]


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


def test_held_out_lists_take_no_references_of_others(folder: Path) -> None:
    path = written(folder, TEXTS + 'held-out = "dev.tsv"\nheld-out-references = "dev.ref"')
    succeeded("tune", path, "--quick", "-q")
    refused = refusal("tune", path, "--quick", "-q", "--held-out", "set/test.tsv", code=2)
    assert "--held-out needs --held-out-references" in refused


def test_the_file_that_the_page_shows_is_the_example() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    text = (ROOT / "examples" / "asr" / "lists.toml").read_text(encoding="utf-8")
    assert text == f"# lpmert solve examples/asr/lists.toml\n{shown}"
