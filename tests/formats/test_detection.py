"""Which format a file has, which columns and options it takes, what it is compared with: told, or asked for once."""

import bz2
import csv
import json
import shlex
import subprocess
import tarfile
import zipfile
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from commands import ended, json_of, loss_of, refusal, run, succeeded
from written_lists import FILES, optimum, small

from lpmert import DataError, NBest, read, write
from lpmert.formats.columns import ColumnsNeeded
from lpmert.formats.detect import detect
from lpmert.registry import FORMATS as REGISTERED

convert = partial(run, "convert")


@pytest.mark.parametrize(
    ("names", "metric"),
    [
        ((*chain(*((f"match_{n}", f"total_{n}") for n in range(1, 5))), "reference_length"), "bleu"),
        (("match", "predicted", "gold"), "f1"),
        (("errors", "reference_length"), "error-rate"),
        (tuple(f"{what}_char_{n}" for n in (1, 2) for what in ("hypothesis", "reference", "match")), "chrf"),
    ],
)
@pytest.mark.parametrize("kind", ["tsv", "npz", "parquet", "moses"])
def test_names_of_statistics_tell_the_metric(tmp_path: Path, kind: str, names: tuple[str, ...], metric: str) -> None:
    rng = np.random.default_rng(1)
    numbers = np.sort(rng.integers(1, 9, size=(6, len(names))), axis=1)
    if metric == "chrf":
        numbers = numbers[:, [2, 1, 0, 5, 4, 3]]
    if metric == "error-rate":
        numbers[:, 1] = 9
    nbest = small(statistics=numbers, statistic_names=names)
    write(nbest, tmp_path / FILES[kind], kind)
    found = json_of("solve", tmp_path / FILES[kind])
    assert f"|metric:{metric}|" in found["signature"]
    assert found["status"] == "optimal"


def test_statistics_without_a_metric_ask_for_one(tmp_path: Path) -> None:
    for name in ("x.tsv", "x.npz"):
        write(small(statistics=np.ones((6, 2)), statistic_names=["judge", "length"]), tmp_path / name)
    said = refusal("solve", tmp_path / "x.tsv")
    assert "x.tsv: the lists have the statistics judge, length: name their --metric, such as wer, or choose" in said
    assert loss_of("solve", tmp_path / "x.tsv", "--loss", "length", "--features", "am_0,lm_0") == 2
    assert loss_of("solve", tmp_path / "x.npz", "--loss", "judge") == 2


FOREIGN = "utt\trank\tdecoder\tlm\terrors\tref_words\ttext\na\t1\t-1\t2\t0\t3\tx y\na\t2\t-2\t1\t4\t3\tz\n"


def test_one_message_says_all_that_is_needed_and_gives_a_command_that_works(tmp_path: Path) -> None:
    path = tmp_path / "dev set.tsv"
    path.write_text(FOREIGN)
    outcome = ended(1, "solve", path, "--quiet", "--json")
    for part in ("segment", "features", "loss", "utt, rank, decoder, lm, errors, ref_words, text"):
        assert part in outcome.stderr
    command = outcome.stderr.strip().splitlines()[-1]
    assert command.split()[0] == "lpmert"
    again = succeeded(*shlex.split(command)[1:])
    assert json.loads(again.stdout)["loss"] == 0
    assert set(json.loads(again.stdout)["weights"]) == {"decoder", "lm"}


def test_what_is_packed_otherwise_is_told_with_a_remedy(tmp_path: Path) -> None:
    table = tmp_path / "x.tsv"
    table.write_text("list\tf\terrors\n" + "a\t1\t0\n" * 9)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(table, "x.tsv")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as bundle:
        bundle.add(table, "x.tsv")
    (tmp_path / "x.bz2").write_bytes(bz2.compress(table.read_bytes()))
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd\x20\x01")
    for name, message in (
        ("x.zip", "a zip archive, but not of numpy arrays; unpack it, or save a spreadsheet as CSV"),
        ("x.tar.gz", "an archive, in which only lattices are read; unpack it"),
        ("x.zst", "is zstandard, which is not read; repack it: zstdcat "),
        ("x.bz2", "is bzip2, which is not read; repack it: "),
    ):
        with pytest.raises(DataError, match=message) as caught:
            read(tmp_path / name)
    subprocess.run(["sh", "-c", str(caught.value).partition("repack it: ")[2]], check=True)
    assert read(f"{tmp_path}/x.bz2.gz").fingerprint == read(table).fingerprint


def test_the_quotes_of_csv_in_a_file_with_tabs_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import pandas

    texts = ['say "hi" now', '" quoted "', '""', "plain"]
    frame = pandas.DataFrame({"list": list("abcd"), "f": 1, "errors": 0, "text": texts})
    for quoting, told in ((csv.QUOTE_MINIMAL, True), (csv.QUOTE_NONE, False)):
        caplog.clear()
        frame.to_csv(tmp_path / "x.tsv", sep="\t", index=False, quoting=quoting)
        (tmp_path / "refs").write_text(frame[["list", "text"]].to_csv(sep="\t", index=False, quoting=quoting))
        read(tmp_path / "x.tsv")
        assert ('x.tsv: the text \'"say ""hi"" now"\' has the quotes of CSV' in caplog.text) is told
        caplog.clear()
        read(frame, references=tmp_path / "refs", partial=True)
        assert ("has the quotes of CSV" in caplog.text) is told


def test_features_may_be_patterns_or_all_and_are_never_taken_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(FOREIGN)
    every = ("rank", "decoder", "lm", "ref_words")
    columns = {"segment": "utt", "loss": "errors"}
    for given, suggestion in ((columns, {"features": "decoder,lm"}), ({"features": "lm"}, {"segment": "utt"})):
        with pytest.raises(ColumnsNeeded) as caught:
            read(tmp_path / "x.tsv", **{"loss": "errors", **given})
        assert caught.value.suggestion == suggestion
    assert read(tmp_path / "x.tsv", features="all", text="text", **columns).names == every
    assert read(tmp_path / "x.tsv", features="all", **columns).names == every  # text is no feature by its name
    assert read(tmp_path / "x.tsv", features="lm,*r*", **columns).names == ("lm", "rank", "decoder", "ref_words")
    write(small(names=["LM_0", "TM_0"]), tmp_path / "x.npz")
    assert read(tmp_path / "x.npz", features="LM*").names == ("LM_0",)
    assert read(tmp_path / "x.npz", features=["all"]).names == ("LM_0", "TM_0")
    (tmp_path / "y.tsv").write_text("list\ta*\tab\tall\tloss\n0\t1\t2\t3\t4\n")  # columns called like patterns
    assert [read(tmp_path / "y.tsv", features=name).names for name in ("a*", "all")] == [("a*",), ("all",)]
    for name, features, message in (
        ("x.tsv", "LM*", r"no name matches 'LM\*'; the names are utt, rank"),
        ("x.npz", "x", "no feature 'x'; the features are LM_0, TM_0"),
    ):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name, features=features, **(columns if name == "x.tsv" else {}))


def numbered() -> NBest:
    """Lists 000, 001, 002, whose first hypotheses are what was said."""
    texts = [text for said in ("the cat", "a house", "one two") for text in (said, "x")]
    return small(offsets=[0, 2, 4, 6], list_ids=["000", "001", "002"], texts=texts)


# a cat, (nothing), the cat against "the cat"; x, y, das Tier against "das Tier": words that differ, by hand
BY_ID = [1, 2, 0, 2, 2, 0]


@pytest.mark.parametrize("kind", ["tsv", "npz", "moses"])
@pytest.mark.parametrize(
    ("lists", "references", "options", "edits"),
    [
        (small(), "a\tdas Tier\nb\tthe cat\n", {}, BY_ID),
        (small(), "a das Tier\nb the cat\n", {}, BY_ID),
        (small(), "the cat (b)\ndas Tier (a)\n", {}, BY_ID),
        (small(), "a das Tier\nb the cat\nc x\n", {"partial": True}, BY_ID),
        (small(list_ids=["0", "1"]), "the cat\ndas Tier\n", {}, BY_ID),
        (small(list_ids=["7", "3"]), "3\tdas Tier\n7\tthe cat\n", {}, BY_ID),
        (numbered(), "2 cats\n1 house\n0 x\n", {"by_position": True}, [2, 2, 1, 2, 2, 1]),
        (numbered(), "the cat\na house\n2 x\n", {}, [0, 2, 0, 2, 2, 1]),  # a few sentences may begin with numbers
    ],
)
def test_texts_are_compared_with_references_by_id_or_position(
    tmp_path: Path, kind: str, lists: NBest, references: str, options: dict[str, bool], edits: list[int]
) -> None:
    (tmp_path / "refs").write_text(references)
    write(lists, tmp_path / FILES[kind], kind)
    nbest = read(tmp_path / FILES[kind], references=tmp_path / "refs", metric="wer", **options)
    assert nbest.statistics[:, 0].tolist() == edits
    flags = [f"--{name.replace('_', '-')}" for name in options]
    measured = ["--references", tmp_path / "refs", "--metric", "wer", *flags]
    assert loss_of("solve", tmp_path / FILES[kind], *measured) == optimum(nbest)


def test_scores_may_be_given_as_names_and_files(tmp_path: Path) -> None:
    nbest, keys = small(), [f"{one}-{number}" for one in "ba" for number in range(3)]
    columns = {"am": nbest.features[:, 0], "lm": nbest.features[:, 1], "loss": nbest.statistics[:, 0]}
    for name, column in columns.items():
        rows = zip(keys, column.tolist(), strict=True)
        (tmp_path / name).write_text("".join(f"{key} {value}\n" for key, value in rows))
    files = [f"{name}={tmp_path}/{name}" for name in ("am", "lm")]
    for options in ((), ("--from", "scores")):
        assert loss_of("solve", *files, *options, "--losses", f"loss={tmp_path}/loss") == optimum(nbest)


def test_scores_of_mert_data_are_found_beside_the_features(tmp_path: Path) -> None:
    write(small(), tmp_path / "run1.features.dat", "mert", score_type="own")
    (tmp_path / "run1.scores.dat").rename(tmp_path / "run1.statscore.dat")
    assert read(tmp_path / "run1.features.dat").fingerprint == small().fingerprint
    (tmp_path / "run1.statscore.dat").unlink()
    with pytest.raises(DataError, match=r"there is no run1.scores.dat beside it.*--scores FILE"):
        read(tmp_path / "run1.features.dat")


@pytest.mark.parametrize("form", [form for form in FILES if form != "best-of-n"])
def test_in_every_format_a_statistic_can_be_a_gain(tmp_path: Path, form: str) -> None:
    gains = [0.25, 1.0, 0.0, 0.5, 0.75, 0.125]
    nbest = small(statistics=gains)
    path = tmp_path / FILES[form]
    more = {"scores": tmp_path / "scores"} if form == "mert" else {}
    write(nbest, path, form, **more, **({"score_type": "own"} if form == "mert" else {}))
    plain = read(path, **more)
    (name,) = plain.statistic_names
    found = read(path, gain=name, **more)
    assert found.statistics[:, 0].tolist() == [1 - gain for gain in plain.statistics[:, 0].tolist()]
    assert found.statistic_names == (f"1 - {name}",)
    with pytest.raises(DataError, match=r"gain takes the place of loss and statistics; give one of them"):
        read(path, gain=name, loss=name, **more)


def test_folders_are_told_by_their_first_file(tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "u1.nbest").write_text("-1.5 -2 2 a cat\n")
    assert detect(folder) == "srilm"
    assert detect(folder / "u1.nbest") == "srilm"
    (folder / "u1.nbest").write_text("# made by hand\nVERSION=1.0\nN=2 L=1\n")
    assert detect(folder) == "slf"
    (folder / "1best_recog").mkdir()
    assert detect(folder) == "espnet"
    assert detect({"am": "x"}) == "scores"


def test_runs_are_pooled_and_repeats_dropped(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("0 ||| a ||| L= 1 ||| 1\n")
    (tmp_path / "two").write_text("0 ||| a ||| L= 1 ||| 1\n0 ||| b ||| L= 1 ||| 1\n1 ||| b ||| L= 1 ||| 1\n")
    flags = [tmp_path / "one", tmp_path / "two", tmp_path / "y.npz", "--last-field"]
    assert "2 lists, 4 hypotheses; features L_0; statistics loss" in convert(*flags).stderr
    assert convert(*flags, "--deduplicate", "--quiet").output == ""
    assert read(tmp_path / "y.npz").texts == ("a", "b", "b")
    assert "y.npz: 1 list, 1 hypothesis; features" in convert(tmp_path / "one", *flags[2:]).stderr
    assert convert(*flags, "--deduplicate", "--drop-texts").exit_code == 0
    assert read(tmp_path / "y.npz").offsets.tolist() == [0, 1, 2]


def test_every_format_is_described_in_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text()
    assert [name for name in REGISTERED.own if f"`{name}`" not in text] == []
