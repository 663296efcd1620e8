"""Whatever a user passes, messages stay short, and files are not overwritten by what is made of them."""

import os
import re
import shlex
from itertools import chain
from pathlib import Path

import click
import numpy as np
import pytest
from commands import ended, json_of, refusal, run, succeeded
from shared import ROOT
from written_lists import put, small

import lpmert
from lpmert.cli.main import main
from lpmert.quoting import LONGEST_MESSAGE

TABLE = "utt\tam\tlm\terrors\nu1\t1\t0\t0\nu1\t0\t1\t1\nu2\t2\t1\t1\nu2\t1\t3\t0\n"
HUGE = "x" * 200_000
SEARCH = ROOT / "examples" / "search"


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "dev.tsv").write_text(TABLE)
    return str(tmp_path / "dev.tsv")


TABLES = {
    "dev": TABLE,
    "other": TABLE,
    "zero": TABLE.replace("\t2\t1\t1\n", "\tzero\t1\t1\n"),
    "seven": TABLE.replace("\t2\t1\t1\n", "\t2\t1\t7\n"),
    "ab": "list a b loss\n0 1 2 0\n0 2 1 1\n".replace(" ", "\t"),
    "ac": "list a c loss\n0 1 2 0\n0 2 1 1\n".replace(" ", "\t"),
    "f1": "list a b match predicted gold\n1 1 0 3 9 4\n1 0 1 2 2 4\n2 2 1 1 1 5\n2 1 3 4 11 5\n".replace(" ", "\t"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that commands are given and must not change."""
    found = put(tmp_path_factory.mktemp("files"), {f"{name}.tsv": table for name, table in TABLES.items()})
    put(found, {"weights.txt": "1 0.5\n", "old.json": "before"})
    lists = lpmert.read(found / "dev.tsv", segment="utt", features="am,lm", loss="errors")
    lpmert.minimize(lists).save(found / "result.json")
    lpmert.write(small(), found / "x.npz")
    lpmert.write(small(statistics=np.ones((6, 2)), statistic_names=["x", "y"]), found / "counts.npz")
    return found


def columns(table: str) -> list[str]:
    return [table, "--segment", "utt", "--features", "am,lm", "--loss", "errors"]


# what commands take besides lists; those that read none have an entry in `ALONE`
NEEDED = {"check": ["--weights", "1,0"], "evaluate": ["--weights", "1,0"], "convert": [os.devnull]}
ALONE = {"mert": ["-d", "2"], "methods": [], "loop": [], "rank": [f"{SEARCH}/judged.txt"]}


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_a_huge_argument_is_not_echoed(table: str, command: str) -> None:
    known = main.get_command(click.Context(main), command)
    options = [one.opts[-1] for one in known.params if isinstance(one, click.Option) and not one.is_flag]
    needed = ALONE[command] if command in ALONE else [*columns(table), *NEEDED.get(command, [])]
    for huge in (HUGE, f"{HUGE}=1", f"1,{HUGE}", f"a={HUGE}"):
        for given in ([huge], *([*needed, option, huge] for option in [*options, "--unknown"])):
            outcome = run(command, *given)
            assert outcome.exit_code in (1, 2), (given[-2:-1], outcome.exception)
            assert len(outcome.stderr) < 3 * LONGEST_MESSAGE, given[-2:-1]
            assert len(outcome.stdout) < 3 * LONGEST_MESSAGE, given[-2:-1]


def test_a_huge_cell_is_not_echoed(table: str) -> None:
    for content in (
        TABLE.replace("errors", HUGE),
        TABLE.replace("u1", HUGE) + f"{HUGE}\t1\t1\t1\n",
        TABLE.replace("2\t1\t1", f"{HUGE}\t1\t1"),
        TABLE.replace("am\t", f"{HUGE}\t"),
        TABLE.replace("am\tlm", f"{HUGE}\t{HUGE}"),
    ):
        Path(table).write_text(content)
        outcome = ended(1, "solve", *columns(table))
        assert table in outcome.stderr
        assert len(outcome.output) < 2 * LONGEST_MESSAGE


def test_a_file_is_not_overwritten_by_what_is_made_of_it(table: str, tmp_path: Path) -> None:
    link, hard = f"{tmp_path}/link.tsv", f"{tmp_path}/hard.tsv"
    Path(link).symlink_to(table)
    Path(hard).hardlink_to(table)
    spelled = f"{tmp_path}/../{tmp_path.name}/./dev.tsv"
    for source, target in ((table, table), (table, spelled), (table, link), (table, hard), (link, table)):
        assert re.search("would overwrite .*give another name", refusal("convert", *columns(source), target))
        ended(1, "solve", *columns(source), "-o", target)
        assert Path(table).read_text() == TABLE


def test_copies_results_of_other_gaps_and_weights_to_start_from_are_renewed(table: str, tmp_path: Path) -> None:
    (tmp_path / "copy.tsv").write_text(TABLE)
    succeeded("convert", *columns(table), tmp_path / "copy.tsv")
    result, settings = tmp_path / "r.json", tmp_path / "moses.ini"
    settings.write_text("[weight]\nam=0.5\nlm=0.5\n")
    gaps = (["--gap", share] for share in ("0.05", "5%", "1", "100%", "0"))
    for more in ([], *gaps, ["--initial-weights", result]):
        succeeded("solve", *columns(table), *more, "-o", result)
    for _ in range(2):
        succeeded("solve", *columns(table), "--initial-weights", settings, "--weights-out", settings)
    assert settings.read_text().startswith("[weight]\nam=")
    nbest = lpmert.read(table, features="am,lm", segment="utt", loss="errors")
    assert lpmert.evaluate(nbest, settings).loss == lpmert.minimize(nbest).loss


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_named_with_a_command_that_helps(table: str, tmp_path: Path, encoding: str) -> None:
    Path(table).write_text(TABLE, encoding=encoding)
    name = encoding[:6].upper()
    told = ended(1, "solve", *columns(table)).stderr
    assert f"dev.tsv: is {name}" in told
    remedy = told.partition("convert it: ")[2].strip()
    assert remedy.startswith(f"iconv -f {name}")
    assert os.system(remedy.replace("utf8-file", str(tmp_path / "new.tsv"))) == 0
    succeeded("solve", *columns(str(tmp_path / "new.tsv")))


@pytest.mark.parametrize(("smoothing", "loss"), [("none", 1.0), ("add-k", 1 - np.exp(-1 / 3))])
def test_options_of_metrics_on_texts_are_set_in_a_search_too(tmp_path: Path, smoothing: str, loss: float) -> None:
    put(tmp_path, {"lists": "0 ||| a b c ||| f= 1 ||| 0\n0 ||| a b c ||| f= 2 ||| 0\n", "ref": "a b c d\n"})
    given = ["--references", tmp_path / "ref", "--metric", "sentence-bleu", "--set", "metric.tokenize=none"]
    found = json_of("solve", tmp_path / "lists", *given, "--set", f"metric.smoothing={smoothing}")
    assert found["loss"] == pytest.approx(loss)
    for wrong in ("smoothing=some", "none=1"):
        ended(2, "solve", tmp_path / "lists", *given, "--set", f"metric.{wrong}")


def test_options_of_metrics_are_listed_once() -> None:
    for metric, said in (
        *(("sentence-bleu", "smoothing=add-k"), ("chrf", "beta=2.0"), ("f1", "beta=1.0"), ("ter", "ter (")),
        *(("wer", "from two columns"), ("wer", "unit=word")),  # it is counted from columns or from texts
    ):
        assert run("methods", "--metric", metric).stdout.count(said) == 1


# fmt: off
NAMED = {
    "DATA": columns("dev.tsv"),
    "RUNS": [*(f"{SEARCH}/{name}.run" for name in ("keyword", "dense")), "--qrels", f"{SEARCH}/qrels.txt"],
}
REFUSED = [  # command lines, in which names stand for their words; exit codes, and what is said, or is all that is said
    ("solve none.tsv --loss errors", 1, "lpmert: error: none.tsv: cannot be read: No such file or directory"),
    ("solve none.tsv -o old.json", 1, "lpmert: error: none.tsv: cannot be read: No such file or directory"),
    ("solve none.tsv -o no/r.json", 1, "lpmert: error: no/r.json: cannot be written"),
    ("solve . --loss errors", 1, "lpmert: error: .: "),
    *((f"{command} dev.tsv {words}", 1, "lpmert: error: dev.tsv:1: say which columns to use: segment")
      for command, words in [("solve", ""), ("check", "--weights 1,0"), ("evaluate", "--weights 1,0")]),
    *((f"solve dev.tsv {option} {name}", 1, f"lpmert: error: dev.tsv:1: no column '{name}'; the columns are ")
      for option, name in [("--loss", "lss"), ("--segment", "nobody"), ("--text", "words")]),
    ("solve dev.tsv --segment utt --features am,xx --loss errors", 1, "lpmert: error: dev.tsv:1: no column 'xx'"),
    *((f"solve zero.tsv --segment utt --features am,lm --loss errors{more}", 1, "lpmert: error: zero.tsv:4")
      for more in ("", " -o new.json")),
    *((f"solve seven.tsv --segment utt --features am,lm {words}", 1, "error: seven.tsv:") for words in [
        "--loss errors --metric zero-one",
        "--statistics errors,lm --metric f1",
        "--statistics errors,lm",
        "--loss errors --text am2",
    ]),
    *((f"{command} counts.npz", 1, "error: counts.npz: the lists have the statistics x, y:") for command in (
        *("solve", "check --weights 1,0", "evaluate --weights 1,0", "train", "verify proof", "compare", "tune"),
    )),
    *((f"{command} ab.tsv --held-out ac.tsv", 1, "error: ac.tsv: no feature 'b'")
      for command in ("tune --quick", "compare --methods grid")),
    *((f"{line} {file}", 1, f"error: {file}: would overwrite '{file}', which is read; give another name")
      for line, file in [
        ("solve DATA --certificate", "dev.tsv"),
        ("solve DATA --checkpoint", "dev.tsv"),
        ("solve DATA --resume --checkpoint", "dev.tsv"),
        ("solve DATA --cosine 0.5 --around weights.txt -o", "weights.txt"),
        ("check DATA --weights weights.txt -o", "weights.txt"),
        ("evaluate DATA --weights 1,0 -o", "dev.tsv"),
        ("evaluate DATA --weights weights.txt -o", "weights.txt"),
        ("train DATA -o", "dev.tsv"),
        ("compare DATA --methods grid --held-out other.tsv -o", "other.tsv"),
        ("compare DATA --methods grid --weights m=weights.txt -o", "weights.txt"),
        ("tune DATA --quick -o", "dev.tsv"),
        ("tune DATA --quick --weights-out", "dev.tsv"),
        ("tune DATA --quick --held-out other.tsv --weights-out", "other.tsv"),
    ]),
    *((line, 1, "new: two outputs would go to this file") for line in [
        "solve DATA -o new --certificate new",
        "solve DATA -o new --checkpoint ./new",
        "tune DATA --quick -o new --weights-out ./new",
    ]),
    *((f"solve DATA {option} {place}", 1, f"lpmert: error: {place}: cannot be written: {why}")
      for option in ("--certificate", "--checkpoint")
      for place, why in [(".", "Is a directory"), ("nowhere/file", "No such file or directory")]),
    ("solve DATA --metric f1 -q", 1, "lpmert: error: dev.tsv: metric 'f1' takes 3 statistics columns"),
    ("check DATA --weights dev.tsv -q", 1, "lpmert: error: dev.tsv:"),
    *((f"solve DATA {words}", code, said) for words, code, said in [
        ("--bounds lm", 2, "lm:0.."),
        ("--bounds lm:0..,lm:..1", 2, "'--bounds': 'lm' is given twice"),
        ("--bounds lm:..", 2, "lm:0.."),
        ("--bounds am:3..1", 1, "limits of am: the least, 3, is above the most, 1; swap them"),
        ("--bounds lm:0..1", 1, "reference"),
        ("--bounds xx:0..", 1, "no feature 'xx'"),
        ("--fix lm", 2, "ac=1"),
        ("--fix am=1,am=2", 2, "'--fix': 'am' is given twice"),
        ("--fix am=1,c=2", 1, "fixed weights: no feature 'c'; the features are am, lm"),
        ("--fix am=1 --fix lm=2", 2, "--fix is given twice; name all at once, with commas."),
        ("--linear lm:0..", 2, "ac=1"),
        ("--linear lm=1", 2, "is not a limit on a sum"),
        ("--linear lm=1,lm=2:0..", 2, "'--linear': 'lm' is given twice"),
        ("--nonnegative --linear am=1,lm=1:..0", 1, "no inside"),
        ("--cosine 0.5", 2, "--around"),
        ("--cosine 0.5 --around 1,1 --certificate c.json", 2, "covers no --cosine; use --bounds"),
        ("--cosine -0.5 --around 1,1", 1, "at least 0"),
        ("--method guess", 2, "exhaustive"),
        ("--method beam --set beam=0", 2, "at least 1"),
        ("--time-limit -1", 2, "below 0"),
        ("--time-limit nan", 2, "finite"),
        ("--gap much", 2, "finite"),
        *((f"--gap {gap}", 2, "for 5 % give 0.05 or 5%") for gap in ("5", "150%")),
        ("--target inf", 2, "finite"),
        ("--memory-limit lots", 2, "2GiB"),
        ("--memory-limit 0", 2, "at least one byte"),
        ("--jobs 0", 2, "jobs"),
        ("--scale am", 2, "am=1"),
        ("--scale am=0", 2, "other than 0"),
        ("--scale xx=1", 2, "am, lm"),
        ("--statistics errors", 2, "--loss"),
        ("--features am,,lm", 2, "empty name"),
        ("--features am,lm,am", 2, "'am' is given twice"),
        ("--initial-weights 1,2,3", 2, "3 numbers for 2 features (am, lm)"),
        ("--metric tre", 2, "sentence-bleu, sentence-chrf, ter, sentence-ter"),
        ("--metric ter", 1, "metric 'ter' is counted from texts; give references (--references)"),
        ("--metric wer", 1, "2 statistics columns, errors and the length of the reference, or texts with"),
        ("--from csv", 1, r"one column only, 'utt\tam\tlm\terrors': give the format of all files (--from, format)"),
        ("--at-most 2 --gap 1%", 2, "--gap is for a single search, without --at-most."),
        ("--at-most 2 --checkpoint kept", 2, "--checkpoint is for a single search, without --at-most."),
        ("--at-most 1 --ties best --certificate proof.json", 2, "--ties best"),
        ("--budget am=3 --at-most 1", 2, "--at-most and --budget cannot be combined"),
        ("--budget am=3 --checkpoint state", 2, "--checkpoint is for a single search, without --budget"),
        ("--budget am=3 --ties worst", 2, "--ties is for one sum"),
        ("--write espnet", 1, "no setting for feature 'am'"),
        ("--weights-out moses.ini", 2, "does not exist, and `update` only changes files"),
        ("--write update", 2, "--write update needs --weights-out"),
        ("--write names --json", 2, "both go to stdout"),
        ("--roles lm=am,lm=lm", 2, "'--roles': 'lm' is given twice"),
        ("--roles acoustic=lm", 2, "--roles is for the settings of toolkits"),
    ]),
    *((f"solve f1.tsv --metric f1 --set metric.{option}", 2, said) for option, said in [
        ("gamma=1", "metric 'f1' has no option 'gamma'; its options are beta"),
        ("beta=much", "option beta of metric 'f1' must be a number; got 'much'"),
        ("beta=-1", "beta must be a number from 0 to 1e+100; got -1.0"),
    ]),
    ("subsets DATA --gap 1%", 2, "No such option"),
    ("ranges DATA --slack some", 1, "0 or more, or a share of the optimum such as 1%"),
    ("check DATA --weights '{\"am\": 1, \"lm\": \"x\"}'", 2, "error: --weights:1: the weight of 'lm' is 'x'"),
    ("evaluate DATA --weights 1,0 --set restarts=2", 2, "--set 'restarts': no method searches here"),
    ("train DATA --method cells", 2, "--method: cells does not train on sparse features; give perceptron"),
    ("methods celles", 2, "[METHOD]': no method 'celles'; choose one of auto, cells"),
    ("slove", 2, "No such command 'slove'"),
    ("compare DATA --methods och,simplex", 2, "no method 'simplex'"),
    ("compare DATA --weights weights.txt", 2, "is not NAME=WEIGHTS"),
    ("compare DATA --weights a=b --weights a=c", 2, "'--weights': 'a' is given twice"),
    ("compare DATA --source a", 2, "--source needs --cv"),
    ("compare DATA --cv 1", 2, "--cv"),
    *((f"{command} --source {words}", 2, said) for command in ("compare DATA --cv 5", "tune DATA") for words, said in [
        ("'no such id'", "does not match the list id"),
        ("(", "not a regular expression"),
    ]),
    ("tune DATA --write update", 2, "--write update needs --weights-out"),
    ("tune DATA --held-out-references r", 2, "--held-out-references needs --held-out"),
    ("tune DATA --held-out dev.tsv --held-out-references r", 2, "--held-out-references needs --references"),
    ("tune dev.tsv --statistics-file x --held-out dev.tsv", 2, "--statistics-file belongs to DATA alone"),
    *((f"tune {words}", 2, "Standard input (-) can be only one of the files") for words in (
        "- --references -",
        "dev.tsv --references - --held-out more.tsv --held-out-references -",
        "- --references r --held-out - --held-out-references r",
    )),
    *((f"rank RUNS {words}", code, said) for words, code, said in [
        ("--metric bpref@10", 2, "one of ndcg, ndcg-exp, mrr, map, recall, precision, success, not 'bpref'"),
        ("--metric ndcg", 2, "the metric must be like 'ndcg@10', not 'ndcg'"),
        ("--normalise l2", 2, "'l2' is not one of 'minmax', 'z', 'rank'"),
        ("--features keyword", 1, "give the runs that are wanted"),
        ("--weights 1,2,3", 2, "3 numbers for 2 features (keyword, dense)"),
        ("--cv 99", 1, "in 99 parts needs as many queries that count, not 37"),
        ("--write solr", 2, "'solr' is not one of 'opensearch', 'elasticsearch', 'weaviate', 'ranx'"),
        ("--write opensearch", 2, "opensearch normalises scores itself: search with --normalise minmax or z"),
        ("--write elasticsearch", 2, "a document that is not in a run: give --missing zero"),
        ("--write ranx --missing zero --signed", 2, "ranx takes no weights below 0: leave out --signed"),
        ("--write ranx --missing zero --json", 2, "both print to stdout"),
        ("--picture curve.txt", 1, "must end in one of .png, .svg, .pdf"),
    ]),
    (f"rank {SEARCH}/keyword.run {SEARCH}/dense.run", 2, "several DATA are runs, and need --qrels with the grades"),
    (f"rank {SEARCH}/keyword.run", 1, "is a run of TREC; give the file of its grades, too: --qrels"),
    (f"rank {SEARCH}/judged.txt --picture curve.png", 2, "--picture draws two features, and there are 3"),
    ("convert x.npz y --to best-of-n --segment x", 2, "x.npz: reading npz takes no option 'segment'; its options are"),
    ("convert x.npz y --to best-of-n --from srilm", 2, "x.npz: reading srilm needs the option 'references'"),
    *((f"convert x.npz y --to best-of-n {words}", 2, said) for words, said in [
        ("--set metric.tokenize=none", "--set applies to texts, with --references"),
        ("--metric wer", "--metric applies to texts, with --references"),
        ("--references r --metric wer --set metric.tokenize=none", "metric 'wer' has no option 'tokenize'"),
        ("--references r --metric x", "no metric 'x'; choose one of loss"),
        ("--losses a=x --losses a=y", "'--losses': 'a' is given twice"),
        ("--losses x", "'x' is not NAME=FILE"),
        ("--scales x=y", "'x=y' is neither a file that is there, nor finite numbers"),
    ]),
]
# fmt: on


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("line", "code", "said"), REFUSED)
def test_wrong_usage_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, code: int, said: str) -> None:
    monkeypatch.chdir(folder)
    before = files(folder)
    outcome = run(*chain(*(NAMED.get(word, [word]) for word in shlex.split(line))))
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    told = " ".join(outcome.stderr.split())
    assert said in told
    assert told.count("exhaustive") <= 1
    assert "nodes" not in told, "before the search"
    if code == 1 and "For example" not in told:
        assert outcome.stderr.splitlines()[-1].startswith("lpmert: error: ")
    if said.startswith("lpmert: error: "):
        assert told.startswith(said)
        assert len(outcome.stderr.splitlines()) == 1 + ("For example" in told)
    assert files(folder) == before


def test_weights_that_are_all_0_are_warned_of(table: str, caplog: pytest.LogCaptureFixture) -> None:
    warning = "warning: all weights are 0, so all hypotheses of a list tie"
    for more in ([], ["-q"], ["--json"]):
        assert succeeded("check", *columns(table), "--weights", "am=0,lm=0", *more).stderr.count(warning) == 1
        assert warning not in succeeded("check", *columns(table), "--weights", "am=0,lm=1", *more).output
    caplog.clear()
    nbest = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [0, 1])
    assert lpmert.evaluate(nbest, [0, 1]).tied_lists == 0
    assert not caplog.messages
    assert lpmert.evaluate(nbest, [0, 0]).tied_lists == 1
    assert [warning.code for warning in lpmert.check(nbest, [0, 0]).warnings] == ["all-zero"]
    assert sum("all weights are 0" in message for message in caplog.messages) == 2
