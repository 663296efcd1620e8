"""What `lpmert convert` writes opens without an option, in every command; other files say what they need, once."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import shlex
import subprocess
import sys
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import zstandard
from commands import environment, run
from hypothesis import given
from hypothesis import strategies as st
from mutations import examples
from oracle import best_loss
from shared import SHARED_DATA, needs_shared

from lpmert import DataError, NBest, read, read_table, write
from lpmert.formats.columns import ColumnsNeeded

FORMATS = {
    "tsv": "lists.tsv",
    "csv": "lists.csv.gz",
    "jsonl": "lists.jsonl",
    "json": "lists.json",
    "parquet": "lists.parquet",
    "npz": "lists.npz",
    "moses": "lists.txt.xz",
    "mert": "run1.features.dat",
    "best-of-n": "candidates.jsonl",
    "scores": "folder",
}
"""Formats that keep features and statistics, and a file of each."""


def lists(**changes: Any) -> NBest:
    given: dict[str, Any] = {
        "features": [[1.0, 0.25], [-0.5, 2.0], [0.5, 1 / 3], [2.0, 1e-3], [-1.0, 3.5], [0.125, -7.0]],
        "offsets": [0, 3, 6],
        "statistics": [2, 0, 1, 3, 1, 0],
        "names": ["am_0", "lm_0"],
        "list_ids": ["b", "a"],
        "texts": ["a cat", "", "the cat", "x", "y", "das Tier"],
    }
    return NBest(**{**given, **changes})


def optimum(nbest: NBest) -> float:
    """The least loss by exact enumeration, which shares no code with the searches."""
    features, losses = nbest.dense_features().tolist(), nbest.statistics[:, 0].tolist()
    return best_loss(features, nbest.offsets.tolist(), losses)


def loss_of(*arguments: object) -> float:
    outcome = run(*arguments, "--json", "--quiet")
    assert outcome.exit_code == 0, outcome.output
    return float(json.loads(outcome.stdout)["loss"])


def texts_of(kind: str, nbest: NBest) -> Any:
    return None if kind == "mert" else nbest.texts


@pytest.mark.parametrize("name", ["loss", "errors", "word edits"])
@pytest.mark.parametrize("kind", FORMATS)
def test_what_was_written_is_read_without_options(tmp_path: Path, kind: str, name: str) -> None:
    if " " in name and kind in ("moses", "mert"):
        name = "edits"
    nbest = lists(statistic_names=[name])
    options = {"score_type": "own"} if kind == "mert" else {}
    write(nbest, tmp_path / FORMATS[kind], kind, **options)
    again = read(tmp_path / FORMATS[kind])
    if kind == "mert":  # which keeps no names of statistics but those of a type
        nbest = lists(statistic_names=["loss"])
    assert again.fingerprint == nbest.fingerprint
    assert again.texts == texts_of(kind, nbest)


@pytest.mark.parametrize(("first", "second"), list(permutations(FORMATS, 2)))
def test_converted_twice_and_solved_without_options_it_is_the_same_problem(
    tmp_path: Path, first: str, second: str
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    write(lists(), tmp_path / "start.npz")
    files = [tmp_path / "start.npz", tmp_path / "1" / FORMATS[first], tmp_path / "2" / FORMATS[second]]
    for source, target, kind in zip(files, files[1:], (first, second), strict=False):
        more = ["--score-type", "own"] if kind == "mert" else []
        outcome = run("convert", source, target, "--to", kind, *more)
        assert outcome.exit_code == 0, outcome.output
    assert read(files[2]).fingerprint == lists().fingerprint
    assert loss_of("solve", files[2]) == optimum(lists())


@pytest.mark.parametrize("kind", FORMATS)
def test_every_command_opens_every_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FORMATS[kind]
    write(lists(), path, kind, **({"score_type": "own"} if kind == "mert" else {}))
    assert run("solve", path, "-o", tmp_path / "r.json", "--certificate", tmp_path / "c.json").exit_code == 0
    assert loss_of("evaluate", path, "--weights", tmp_path / "r.json") == optimum(lists())
    checked = run("check", path, "--weights", tmp_path / "r.json", "--json", "-q")
    assert json.loads(checked.stdout)["excess"] == 0
    compared = run("compare", path, "--methods", "och", "--seeds", "1", "--held-out", path, "--json", "-q")
    assert compared.exit_code == 0, compared.output
    assert run("verify", tmp_path / "c.json", path).stdout.startswith(
        f"certificate holds: loss {float(optimum(lists())):g} is the least"
    )
    assert run("train", path, "-q").exit_code == 0


@pytest.mark.parametrize(
    ("names", "metric"),
    [
        ((*chain(*((f"match_{n}", f"total_{n}") for n in range(1, 5))), "reference_length"), "bleu"),
        (("match", "predicted", "gold"), "f1"),
        (("errors", "reference_length"), "error-rate"),
        (tuple(f"{what}_char_{n}" for n in (1, 2) for what in ("hypothesis", "reference", "match")), "chrf"),
    ],
)
@pytest.mark.parametrize("kind", ["tsv", "npz", "parquet", "moses", "jsonl", "scores"])
def test_names_of_statistics_tell_the_metric(tmp_path: Path, kind: str, names: tuple[str, ...], metric: str) -> None:
    rng = np.random.default_rng(1)
    numbers = np.sort(rng.integers(1, 9, size=(6, len(names))), axis=1)
    if metric == "chrf":
        numbers = numbers[:, [2, 1, 0, 5, 4, 3]]
    if metric == "error-rate":
        numbers[:, 1] = 9
    nbest = lists(statistics=numbers, statistic_names=names)
    write(nbest, tmp_path / FORMATS[kind], kind)
    found = json.loads(run("solve", tmp_path / FORMATS[kind], "--json", "-q").stdout)
    assert f"|metric:{metric}|" in found["signature"]
    assert found["success"]


def test_statistics_without_a_metric_ask_for_one(tmp_path: Path) -> None:
    write(lists(statistics=np.ones((6, 2)), statistic_names=["judge", "length"]), tmp_path / "x.tsv")
    outcome = run("solve", tmp_path / "x.tsv")
    assert outcome.exit_code == 1
    said = " ".join(outcome.stderr.split())
    assert "x.tsv: the lists have the statistics judge, length: choose one with --loss, or a --metric" in said
    assert loss_of("solve", tmp_path / "x.tsv", "--loss", "length", "--features", "am_0,lm_0") == 2
    write(lists(statistics=np.ones((6, 2)), statistic_names=["judge", "length"]), tmp_path / "x.npz")
    assert loss_of("solve", tmp_path / "x.npz", "--loss", "judge") == 2


plain = st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), min_size=1, max_size=9)
likely = st.sampled_from(
    ["list", "segment", "loss", "errors", "text", "reference_length", "match", "predicted", "gold"]
)


@examples(150)
@given(data=st.data())
def test_whatever_columns_are_called_their_roles_are_known_again(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(plain | likely, min_size=2, max_size=6, unique=True))
    split = data.draw(st.integers(1, len(names) - 1))
    has_texts = data.draw(st.booleans())
    numbers = np.arange(6.0 * len(names)).reshape(6, -1)
    nbest = lists(
        features=numbers[:, :split],
        statistics=numbers[:, split:],
        names=names[:split],
        statistic_names=names[split:],
        **({} if has_texts else {"texts": None}),
    )
    kind = data.draw(st.sampled_from(["tsv", "csv", "json", "jsonl", "parquet"]))
    try:
        write(nbest, tmp_path / "x", kind)
    except DataError:
        clash = {"list", *(["text"] if has_texts else [])} & {*names}
        assert clash
        return
    again = read(tmp_path / "x", kind)
    assert (again.fingerprint, again.texts) == (nbest.fingerprint, nbest.texts)


FOREIGN = "utt\trank\tdecoder\tlm\terrors\tref_words\ttext\na\t1\t-1\t2\t0\t3\tx y\na\t2\t-2\t1\t4\t3\tz\n"


def test_one_message_says_all_that_is_needed_and_gives_a_command_that_works(tmp_path: Path) -> None:
    path = tmp_path / "dev set.tsv"
    path.write_text(FOREIGN)
    outcome = run("solve", path, "--quiet", "--json")
    assert outcome.exit_code == 1
    for part in ("segment", "features", "loss", "utt, rank, decoder, lm, errors, ref_words, text"):
        assert part in outcome.stderr
    command = outcome.stderr.strip().splitlines()[-1]
    assert command.split()[0] == "lpmert"
    again = run(*shlex.split(command)[1:])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["loss"] == 0
    assert set(json.loads(again.stdout)["weights"]) == {"rank", "decoder", "lm", "ref_words"}


def test_a_foreign_table_takes_no_column_for_a_feature_by_itself(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(FOREIGN)
    with pytest.raises(ColumnsNeeded) as caught:
        read(tmp_path / "x.tsv", segment="utt", loss="errors")
    assert caught.value.suggestion == {"features": "rank,decoder,lm,ref_words"}
    with pytest.raises(ColumnsNeeded) as caught:
        read(tmp_path / "x.tsv", features="lm", loss="errors")
    assert caught.value.suggestion == {"segment": "utt"}


def test_features_may_be_patterns_or_all(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(FOREIGN)
    columns = {"segment": "utt", "loss": "errors", "text": "text"}
    assert read_table(tmp_path / "x.tsv", features="all", **columns).names == ("rank", "decoder", "lm", "ref_words")
    del columns["text"]  # which is no feature by its name
    assert read_table(tmp_path / "x.tsv", features="all", **columns).names == ("rank", "decoder", "lm", "ref_words")
    assert read_table(tmp_path / "x.tsv", features="lm,*r*", **columns).names == ("lm", "rank", "decoder", "ref_words")
    with pytest.raises(DataError, match=r"no name is like 'LM\*'; there are utt, rank"):
        read_table(tmp_path / "x.tsv", features="LM*", **columns)
    write(lists(names=["LM_0", "TM_0"]), tmp_path / "x.npz")
    assert read(tmp_path / "x.npz", features="LM*").names == ("LM_0",)
    assert read(tmp_path / "x.npz", features=["all"]).names == ("LM_0", "TM_0")
    with pytest.raises(DataError, match="no feature 'x'; the features are LM_0, TM_0"):
        read(tmp_path / "x.npz", features="x")


def test_a_column_called_like_a_pattern_is_that_column(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("list\ta*\tab\tall\tloss\n0\t1\t2\t3\t4\n")
    assert read_table(tmp_path / "x.tsv", features="a*").names == ("a*",)
    assert read_table(tmp_path / "x.tsv", features="all").names == ("all",)


@pytest.mark.parametrize("kind", FORMATS)
def test_several_files_are_pooled(tmp_path: Path, kind: str) -> None:
    ending = "".join(Path(FORMATS[kind]).suffixes)
    files = [tmp_path / f"{number}{'.features' if kind == 'mert' else ''}{ending}" for number in range(3)]
    options = {"score_type": "own"} if kind == "mert" else {}
    write(lists(), files[0], kind, **options)
    write(lists(features=-lists().dense_features()), files[1], kind, **options)
    write(lists(list_ids=["c", "a"]), files[2], kind, **options)
    pooled = read([str(file) for file in files])
    assert pooled.list_ids == ("b", "a", "c")
    assert pooled.offsets.tolist() == [0, 6, 15, 18]
    assert loss_of("solve", *files) == optimum(pooled)


def test_files_with_other_features_are_not_pooled(tmp_path: Path) -> None:
    write(lists(), tmp_path / "1.npz")
    write(lists(names=["a", "b"]), tmp_path / "2.npz")
    with pytest.raises(DataError, match=r"2.npz: cannot merge: feature names differ .*1.npz"):
        read([tmp_path / "1.npz", tmp_path / "2.npz"])


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "json", "parquet", "npz", "best-of-n", "moses", "scores"])
@pytest.mark.parametrize(
    ("ids", "references"),
    [
        (["b", "a"], "a\tdas Tier\nb\tthe cat\n"),
        (["b", "a"], "a das Tier\nb the cat\n"),
        (["b", "a"], "the cat (b)\ndas Tier (a)\n"),
        (["0", "1"], "the cat\ndas Tier\n"),
        (["7", "3"], "3\tdas Tier\n7\tthe cat\n"),
    ],
)
def test_texts_are_compared_with_references_by_id(tmp_path: Path, kind: str, ids: list[str], references: str) -> None:
    (tmp_path / "refs").write_text(references)
    write(lists(list_ids=ids), tmp_path / FORMATS[kind], kind)
    nbest = read(tmp_path / FORMATS[kind], references=tmp_path / "refs", metric="wer")
    # a cat, (nothing), the cat against "the cat"; x, y, das Tier against "das Tier": words that differ, by hand
    assert nbest.statistics[:, 0].tolist() == [1, 2, 0, 2, 2, 0]
    assert loss_of("solve", tmp_path / FORMATS[kind], "--references", tmp_path / "refs", "--metric", "wer") == optimum(
        nbest
    )


def test_references_must_fit_the_lists(tmp_path: Path) -> None:
    write(lists(), tmp_path / "x.tsv")
    (tmp_path / "refs").write_text("a das Tier\n")
    with pytest.raises(DataError, match="refs: no reference for utterance 'b'"):
        read(tmp_path / "x.tsv", references=tmp_path / "refs")
    (tmp_path / "refs").write_text("a das Tier\nb the cat\nc x\n")
    with pytest.raises(DataError, match=r"refs:3: no list for the reference of 'c'.*--partial"):
        read(tmp_path / "x.tsv", references=tmp_path / "refs")
    assert read(tmp_path / "x.tsv", references=tmp_path / "refs", partial=True).n_lists == 2
    write(lists(texts=None), tmp_path / "y.tsv")
    with pytest.raises(ColumnsNeeded, match="text "):
        read(tmp_path / "y.tsv", references=tmp_path / "refs")
    write(lists(texts=None), tmp_path / "y.npz")
    with pytest.raises(DataError, match="the lists have no texts"):
        read(tmp_path / "y.npz", references=tmp_path / "refs", partial=True)


def _numbered(folder: Path) -> None:
    """Write lists 000, 001, 002, whose first hypotheses are what was said, to x.tsv."""
    texts = [text for said in ("the cat", "a house", "one two") for text in (said, "x")]
    write(lists(offsets=[0, 2, 4, 6], list_ids=["000", "001", "002"], texts=texts), folder / "x.tsv")


@pytest.mark.parametrize(
    ("references", "line", "missing", "there"),
    [
        ("000\tthe cat\n001\ta house\n02\tone two\n", 3, "002", "02"),
        ("0\tthe cat\n1\ta house\n2\tone two\n", 1, "000", "0"),
        ("0 the cat\n1 a house\n2 one two\n", 1, "000", "0"),
        ("001\ta house\n002\tone two\n003\tthe cat\n", 3, "000", "003"),
        ("utt0 the cat\nutt1 a house\nutt2 one two\n", 1, "000", "utt0"),
        ("the cat (000)\na house (001)\none two (02)\n", 3, "002", "02"),
        ("x\tthe cat\nsaid\ta house\nlast\tone two\n", 1, "000", "x"),
    ],
)
def test_references_with_other_ids_are_never_matched_by_line_in_silence(
    tmp_path: Path, references: str, line: int, missing: str, there: str
) -> None:
    _numbered(tmp_path)
    (tmp_path / "refs").write_text(references)
    with pytest.raises(DataError) as caught:
        read(tmp_path / "x.tsv", references=tmp_path / "refs")
    said = rf"^\S*refs:{line}: no reference for utterance '{missing}', but one for '{there}'.*tab.*\(--by-position\)$"
    assert re.search(said, str(caught.value))
    assert "--by-position" in run("solve", tmp_path / "x.tsv", "--references", tmp_path / "refs").output


def test_sentences_that_begin_with_numbers_are_matched_by_line_where_that_is_said(tmp_path: Path) -> None:
    _numbered(tmp_path)
    (tmp_path / "refs").write_text("2 cats\n1 house\n0 x\n")
    with pytest.raises(DataError, match="by_position"):
        read(tmp_path / "x.tsv", references=tmp_path / "refs")
    arguments = ["convert", tmp_path / "x.tsv", tmp_path / "y.tsv", "--references", tmp_path / "refs"]
    assert run(*arguments).exit_code == 1
    assert run(*arguments, "--by-position").exit_code == 0
    # the cat | 2 cats, x | 2 cats, a house | 1 house, x | 1 house, one two | 0 x, x | 0 x: words that differ, by hand
    assert read(tmp_path / "y.tsv").statistics[:, 0].tolist() == [2, 2, 1, 2, 2, 1]


def test_a_few_sentences_may_begin_with_numbers(tmp_path: Path) -> None:
    _numbered(tmp_path)
    (tmp_path / "refs").write_text("the cat\na house\n2 x\n")
    found = read(tmp_path / "x.tsv", references=tmp_path / "refs")
    assert found.statistics[:, 0].tolist() == [0, 2, 0, 2, 2, 1]


def test_only_lists_whose_ids_are_numbers_are_matched_by_line(tmp_path: Path) -> None:
    write(lists(), tmp_path / "x.tsv")
    (tmp_path / "refs").write_text("a das Tier\nb the cat\n")
    with pytest.raises(DataError, match=r"refs: no line is number 'b'.*leave by_position out \(--by-position\)"):
        read(tmp_path / "x.tsv", references=tmp_path / "refs", by_position=True)


def test_scores_may_be_given_as_names_and_files(tmp_path: Path) -> None:
    write(lists(), tmp_path / "folder", "scores")
    (tmp_path / "folder" / "lists.json").unlink()
    files = [f"{name}={tmp_path}/folder/{name}" for name in ("am_0", "lm_0")]
    assert loss_of("solve", *files, "--losses", f"loss={tmp_path}/folder/loss") == optimum(lists())


def test_scores_of_mert_data_are_found_beside_the_features(tmp_path: Path) -> None:
    write(lists(), tmp_path / "run1.features.dat", "mert", score_type="own")
    assert (tmp_path / "run1.scores.dat").exists()
    (tmp_path / "run1.scores.dat").rename(tmp_path / "run1.statscore.dat")
    assert read(tmp_path / "run1.features.dat").fingerprint == lists().fingerprint
    (tmp_path / "run1.statscore.dat").rename(tmp_path / "other")
    with pytest.raises(DataError, match=r"there is no run1.scores.dat beside it.*--scores FILE"):
        read(tmp_path / "run1.features.dat")
    with pytest.raises(DataError, match=r"call this one like run1.features.dat"):
        write(lists(), tmp_path / "x.txt", "mert", score_type="own")


def test_roles_that_parquet_records_hold_as_long_as_the_columns_are_there(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = _npz(tmp_path, lists(statistic_names=["edits"]))
    assert run("convert", *table, path, "--segment", "utt", "--text", "words").exit_code == 0
    assert read(path).statistic_names == ("edits",)
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.drop_columns(["lm_0"]), path)
    with pytest.raises(ColumnsNeeded, match=r"segment .*features .*loss"):
        read(path)
    pyarrow.parquet.write_table(table.replace_schema_metadata({b"lpmert": b"[1"}), path)
    with pytest.raises(ColumnsNeeded):
        read(path)


def _npz(folder: Path, nbest: NBest) -> list[Path]:
    write(nbest, folder / "start.npz")
    return [folder / "start.npz"]


SHARED_TABLES = {
    "csmt-normalisation/nbest-pool.tsv.xz": (1014, 45149),
    "librispeech-asr-30best/dev_other.nbest.tsv.xz": (2864, 85920),
    "portage-hansard-100best/dev2.nbest.tsv.xz": None,
    "realsumm-cnndm/abs.tsv.xz": None,
    "unieval-topicalchat/topical_chat.tsv.xz": None,
}


@needs_shared
@pytest.mark.parametrize("name", SHARED_TABLES)
def test_real_tables_say_what_they_need(name: str) -> None:
    assert SHARED_DATA is not None
    with pytest.raises(ColumnsNeeded) as caught:
        read(SHARED_DATA / name)
    assert {"segment", "features"} <= set(caught.value.suggestion)
    sizes = SHARED_TABLES[name]
    if sizes is not None:
        nbest = read(SHARED_DATA / name, **caught.value.suggestion)  # type: ignore[arg-type]
        assert (nbest.n_lists, nbest.n_hypotheses) == sizes


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "json", "moses", "npz", "parquet", "best-of-n"])
@pytest.mark.parametrize("packing", ["", ".gz", ".xz", ".zst"])
def test_standard_input_is_told_by_content(tmp_path: Path, kind: str, packing: str) -> None:
    if packing and kind in ("npz", "parquet"):
        packing = ".gz"
    write(lists(), tmp_path / "x", kind)
    content = (tmp_path / "x").read_bytes()
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.ZstdCompressor().compress}[packing]
    command = [sys.executable, "-m", "lpmert", "evaluate", "-", "--weights", "1,0", "--json", "-q"]
    outcome = subprocess.run(command, input=pack(content), capture_output=True, env=environment(), timeout=300)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["fingerprint"] == lists().fingerprint


def test_names_of_metrics_on_texts_are_those_there_are() -> None:
    from lpmert.metrics.columns import TEXT_METRICS as NAMES
    from lpmert.metrics.text import TEXT_METRICS

    assert tuple(TEXT_METRICS) == NAMES


REAL = {
    "swahili-mert-100best/run7.nbest.txt.xz": {
        "references": "swahili-mert-100best/reference.txt.xz",
        "metric": "wer",
    },
    "asr-pocketsphinx/nbest.txt.gz": {"last_field": True},
    "ime-kkc/nbest.txt.gz": {"last_field": True, "features": "feature[1-4]"},
    "csmt-normalisation/nbest-pool.tsv.xz": {
        "segment": "sent",
        "features": "*0*,*1*",
        "statistics": "errors,ref_tokens",
        "text": "text",
    },
    "librispeech-asr-30best/dev_other.nbest.tsv.xz": {
        "segment": "utt",
        "features": "decoder,ctc,lm,n_*",
        "loss": "errors",
        "text": "text",
    },
    "realsumm-cnndm/abs.tsv.xz": {
        "segment": "doc",
        "features": "rouge*,js-2",
        "loss": "mover_score",
        "text": "summary",
    },
    "unieval-topicalchat/topical_chat.tsv.xz": {"segment": "context", "features": "pred_*", "loss": "human_overall"},
}


@needs_shared
@pytest.mark.parametrize("name", REAL)
def test_real_lists_written_in_any_format_are_read_without_options(tmp_path: Path, name: str) -> None:
    assert SHARED_DATA is not None
    options: dict[str, Any] = dict(REAL[name])
    if "references" in options:
        options["references"] = SHARED_DATA / options["references"]
    nbest = read(SHARED_DATA / name, **options).restrict(slice(30))
    for kind, file in FORMATS.items():
        types = {"score_type": "own"} if kind == "mert" else {}
        write(nbest, tmp_path / file, kind, **types)
        again = read(tmp_path / file)
        assert (again.offsets.tolist(), again.names) == (nbest.offsets.tolist(), nbest.names), kind
        assert np.array_equal(again.dense_features(), nbest.dense_features()), kind
        assert np.array_equal(again.statistics, nbest.statistics), kind
        assert again.texts == texts_of(kind, nbest), kind
        assert kind == "mert" or again.fingerprint == nbest.fingerprint, kind


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "best-of-n"])
def test_in_every_format_a_statistic_can_be_a_gain(tmp_path: Path, form: str) -> None:
    gains = [0.25, 1.0, 0.0, 0.5, 0.75, 0.125]
    nbest = lists(statistics=gains)
    path = tmp_path / FORMATS[form]
    more = {"scores": tmp_path / "scores"} if form == "mert" else {}
    write(nbest, path, form, **more, **({"score_type": "own"} if form == "mert" else {}))
    plain = read(path, **more)
    (name,) = plain.statistic_names
    found = read(path, gain=name, **more)
    assert found.statistics[:, 0].tolist() == [1 - gain for gain in plain.statistics[:, 0].tolist()]
    assert found.statistic_names == (f"1 - {name}",)
    with pytest.raises(DataError, match=r"gain takes the place of loss and statistics; give one of them"):
        read(path, gain=name, loss=name, **more)
