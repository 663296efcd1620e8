"""One table of formats: what is written is read back exactly, whatever it is called, packed, piped or converted to."""

import gzip
import io
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from commands import finished, json_of, loss_of, refusal, succeeded
from hypothesis import given, strategies as st
from mutations import examples
from scipy import sparse
from searches import peak_of
from shared import ROOT
from written_lists import DIALECTS, FILES, LISTS, PACKINGS, optimum, same, small

import lpmert
from lpmert import DataError, NBest, read, write
from lpmert.files import buffered_pipes, read_text
from lpmert.formats.detect import detect
from lpmert.formats.moses import load_mert_data, merge_sparse

finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.0, 0.1, 5e-324, -0.0])


def texts(without: str = "") -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters=without), max_size=6)


def labels(without: str = "") -> st.SearchStrategy[str]:
    return texts(without).filter(bool)


WHITE = " \t\n\r\v\f"
COLUMNS = ["list", "segment", "loss", "errors", "text", "match", "predicted", "gold", "reference_length"]
GROUPS = ["LM_0", "LM_1", "LM_2", "TM0_0", "a_b", "a=", "b:", "a_00", "=_0", "1", "a_1", "_0", "LM", "="]
likely, groups = st.sampled_from(COLUMNS), st.sampled_from(GROUPS)
field_text = texts("\n\r").filter(lambda text: "|||" not in text and text.strip(WHITE) == text)


@dataclass(frozen=True)
class Way:
    """What a file of a format can hold, and what else writing and reading take."""

    names: st.SearchStrategy[str] = field(default_factory=lambda: labels() | likely)
    ids: st.SearchStrategy[str] = field(default_factory=labels)
    texts: st.SearchStrategy[str] | None = field(default_factory=texts)
    statistics: tuple[str, ...] = ()
    clashes: bool = False  # whether names may be those of other columns or files, which is refused


KEPT = ("errors", "reference_length")
FORMATS = {
    "tsv": Way(labels("\t\n\r") | likely, labels("\t\n\r"), texts("\t\n\r"), clashes=True),
    "csv": Way(labels("\r") | likely, labels("\r"), texts("\r"), clashes=True),
    "jsonl": Way(clashes=True),
    "json": Way(clashes=True),
    "parquet": Way(clashes=True),
    "npz": Way(),
    "moses": Way(labels(WHITE + "|") | groups, field_text.filter(bool), field_text),
    "mert": Way(labels(WHITE) | groups, labels(WHITE), None, statistics=KEPT),
    "best-of-n": Way(),
}
WRITTEN = pytest.mark.parametrize("kind", FORMATS)


def of_kind(kind: str, **changes: Any) -> NBest:
    """Lists with statistics whose names every format keeps."""
    sums = [[2, 7], [0, 7], [1, 7], [3, 4], [1, 4], [0, 4]]
    return small(statistics=sums, statistic_names=KEPT, **({"texts": None} if kind == "mert" else {}), **changes)


def written(folder: Path, kind: str, nbest: NBest, packing: str = "") -> Path:
    path = folder / f"{FILES[kind]}{packing}"
    write(nbest, path, kind)
    return path


@WRITTEN
@examples(60)
@given(data=st.data())
def test_lists_are_read_back_exactly(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    way = FORMATS[kind]
    ids = data.draw(st.lists(way.ids, min_size=1, max_size=4, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in ids)])
    size, width = int(offsets[-1]), len(way.statistics) or data.draw(st.integers(1, 3))
    names = data.draw(st.lists(way.names, min_size=width + 1, max_size=width + 3, unique=True))

    def rows(columns: int) -> Any:
        return np.array([data.draw(st.lists(finite, min_size=columns, max_size=columns)) for _ in range(size)])

    features = rows(len(names) - width)
    words = None if way.texts is None else data.draw(st.none() | st.lists(way.texts, min_size=size, max_size=size))
    nbest = NBest(
        sparse.csr_array(features) if data.draw(st.booleans()) else features,
        offsets,
        rows(width),
        names[width:],
        ids,
        way.statistics or names[:width],
        words,
    )
    folder = tmp_path_factory.mktemp("lists")
    packing = data.draw(st.sampled_from([*PACKINGS])) if kind != "npz" else ""
    try:
        path = written(folder, kind, nbest, packing)
    except DataError:
        assert way.clashes
        assert {"list", *([] if words is None else ["text"])} & {*names}
        return
    again = read(path, kind)
    if kind == "moses" and not any(words or ()):
        again, nbest = again.changed(texts=None), nbest.changed(texts=None)
    assert same(again, nbest)
    if kind in ("tsv", "csv", "jsonl", "json", "best-of-n"):
        content = path.read_bytes()
        write(again, path, kind)
        assert path.read_bytes() == content


@WRITTEN
def test_every_command_opens_every_format(tmp_path: Path, kind: str) -> None:
    nbest = of_kind(kind)
    path = [written(tmp_path, kind, nbest), "--loss", "errors"]
    if kind in ("tsv", "csv", "jsonl", "json", "parquet"):
        path += ["--features", "am_0,lm_0"]
    result, certificate = tmp_path / "r.json", tmp_path / "c.json"
    succeeded("solve", *path, "-o", result, "--certificate", certificate)
    assert loss_of("evaluate", *path, "--weights", result) == optimum(nbest)
    assert json_of("check", *path, "--weights", result)["excess"] == 0
    json_of("compare", *path, "--methods", "och", "--seeds", "1")
    holds = f"certificate holds: loss {float(optimum(nbest)):g} is the least"
    assert succeeded("verify", certificate, *path).stdout.splitlines()[-1].startswith(holds)
    succeeded("train", *path, "-q")


@WRITTEN
def test_several_files_are_pooled(tmp_path: Path, kind: str) -> None:
    nbest = of_kind(kind)
    others = [nbest, nbest.changed(features=-nbest.dense_features()), nbest.changed(list_ids=["c", "a"])]
    files = []
    for number, one in enumerate(others):
        (tmp_path / str(number)).mkdir()
        files.append(written(tmp_path / str(number), kind, one))
    pooled = read([str(file) for file in files])
    assert pooled.list_ids == ("b", "a", "c")
    assert pooled.offsets.tolist() == [0, 6, 15, 18]
    assert same(pooled, others[0].merge(others[1]).merge(others[2]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_lists_in_other_words_are_the_same(tmp_path: Path, dialect: str) -> None:
    content, options = DIALECTS[dialect]
    path = tmp_path / "x"
    windows = b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode()
    half = len(windows) // 2
    joined = {packing: pack(windows[:half]) + pack(windows[half:]) for packing, pack in PACKINGS.items()}
    for data in (content.encode(), windows, *joined.values()):
        path.write_bytes(data)
        assert same(read(path, **options), LISTS, named=False)
    if dialect not in ("Moses", "Moses before 2013", "pairs in any order", "travatar"):  # which may be cut off
        path.write_bytes(content.rstrip("\n").encode())
        assert same(read(path, **options), LISTS, named=False)
    if content.startswith(("{", "[")) and options:
        for ending in (".json", ".jsonl"):  # whatever the ending says of the form
            (tmp_path / f"x{ending}").write_text(content)
            assert same(read(tmp_path / f"x{ending}", **options), LISTS, named=False)


@WRITTEN
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_format_is_told_by_content_whatever_the_file_is_called(tmp_path: Path, kind: str, packing: str) -> None:
    path = tmp_path / f"features{packing}"
    write(of_kind(kind), path, kind)
    assert detect(path) == detect([path, path]) == kind
    if kind != "mert":  # which takes two files
        with piped(path.read_bytes()) as pipe:
            assert same(read(pipe), of_kind(kind))


def test_stdin_is_read_and_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with written(tmp_path, "moses", of_kind("moses")).open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert same(read("-"), of_kind("moses"))
        assert not stream.closed


DOCUMENTED = {
    "moses": "0 ||| a b ||| TM0= 1 2 LM0= 3 WT_a~b= 0.5 lex=7 ||| 0 ||| statistics: loss=4\n",
    "tsv": "list\tTM0_0\tTM0_1\tLM0_0\tWT_a~b\tlex\tloss\ttext\n0\t1\t2\t3\t0.5\t7\t4\ta b\n",
    "jsonl": '{"list": "0", "TM0_0": 1.0, "TM0_1": 2.0, "LM0_0": 3.0, "WT_a~b": 0.5, "lex": 7.0, "loss": 4.0, '
    '"text": "a b"}\n',
    "best-of-n": '{"id": "0", "candidates": [{"text": "a b", "scores": {"TM0_0": 1.0, "TM0_1": 2.0, "LM0_0": 3.0, '
    '"WT_a~b": 0.5, "lex": 7.0}, "loss": 4.0}]}\n',
}


@pytest.mark.parametrize("kind", DOCUMENTED)
@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_files_are_written_as_documented(tmp_path: Path, kind: str, form: Any) -> None:
    names = ["TM0_0", "TM0_1", "LM0_0", "WT_a~b", "lex"]
    write(NBest(form([[1, 2, 3, 0.5, 7.0]]), [0, 1], [4], names, texts=["a b"]), tmp_path / "x", kind)
    assert read_text(tmp_path / "x") == DOCUMENTED[kind]


def test_half_of_a_surrogate_pair_in_a_text_is_kept_where_json_can(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(
        r'{"id": "g", "candidates": [{"text": "\ud83d", "scores": {"a": 1}, "loss": 0}]}' + "\n"
    )
    write(read(tmp_path / "x"), tmp_path / "again.jsonl", "best-of-n")
    assert read(tmp_path / "again.jsonl").texts == ("\ud83d",)
    said = refusal("rerank", tmp_path / "x", "--weights", "a=1")
    assert r"\ud83d\n' holds half of a surrogate pair, no character; replace it" in said


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "json", "parquet", "moses"])
def test_numbers_are_the_nearest_doubles_and_lines_are_counted_across_blocks(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64, size=(70_000, 2), dtype=np.uint64).view(np.float64)
    numbers[~(np.abs(numbers) < 1e150)] = 0.1
    nbest = NBest(numbers, np.arange(0, 70_001, 7), np.arange(70_000) % 5, names=["am_0", "lm_0"])
    path = written(tmp_path, kind, nbest)
    assert read(path, kind).fingerprint == nbest.fingerprint
    for packing in (".gz", ".xz") if kind == "tsv" else ():  # compressed in parts
        parts = np.array_split(np.frombuffer(path.read_bytes(), np.uint8), [7, 1 << 20, 2_000_001])
        (tmp_path / "x").write_bytes(b"".join(PACKINGS[packing](part.tobytes()) for part in parts))
        assert read(tmp_path / "x", kind).fingerprint == nbest.fingerprint
    if kind != "parquet":
        rest, last = path.read_text().rstrip("\n]").rsplit("\n", 1)
        broken = last.replace("loss", "less") if kind.startswith("json") else f"{last}x"
        path.write_text(f"{rest}\n{broken}\n" + "]" * (kind == "json"))
        with pytest.raises(DataError) as caught:
            read(path, kind)
        first = {"tsv": 1, "csv": 1, "json": 1}.get(kind, 0)
        assert caught.value.line == 70_000 + first


def test_many_sparse_features_are_written_and_read_without_a_table_of_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(2000, size=10_000), rng.integers(50_000, size=10_000)
    rows = sparse.csr_array((rng.normal(size=10_000), places), shape=(2000, 50_000))
    nbest = NBest(rows, np.arange(0, 2001, 10), np.zeros(2000))
    write(nbest, tmp_path / "x", "mert", scores=tmp_path / "y", score_type="X")
    again = load_mert_data(tmp_path / "x", tmp_path / "y")
    assert again.nbest.fingerprint == nbest.fingerprint
    merged = merge_sparse(again, dict.fromkeys(nbest.names, 2.0))
    assert merged.dense_features()[:, 0] == pytest.approx(2 * rows.sum(axis=1))


def test_a_parquet_file_is_read_within_twice_the_memory_of_its_arrays(tmp_path: Path) -> None:
    rows, width = 400_000, 6
    numbers = np.random.default_rng(0).normal(size=(width, rows))
    columns = {"list": [str(row // 100) for row in range(rows)], **dict(zip("abcde", numbers[:5], strict=True))}
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({**columns, "loss": numbers[5]}), content)
    (tmp_path / "x.parquet").write_bytes(content.getvalue())
    del columns, content
    read(tmp_path / "x.parquet")  # imports what it needs
    found: list[NBest] = []
    peak = peak_of(lambda: found.append(read(tmp_path / "x.parquet")))
    assert np.array_equal(found[0].dense_features(), numbers[:5].T)
    assert peak < 2 * 8 * rows * width


# Every input may be a pipe with a name, as shells make of <(command): it is looked at often, and read once


LATTICES, TEXT = ROOT / "examples/speech/lattices", ROOT / "examples/speech/text"


@contextmanager
def piped(content: bytes) -> Iterator[str]:
    """A pipe out of which this comes, once."""
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as stream:
            stream.write(content)

    writer = Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


def archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file in LATTICES.iterdir():
            tar.add(file, file.name)
    return packed.getvalue()


def evaluated(data: object = LATTICES, references: object = TEXT, weights: str = "1,9.5,0", *more: str) -> float:
    return loss_of("evaluate", data, "--references", references, "--weights", weights, *more)


def test_whatever_is_read_comes_through_a_pipe_or_standard_input() -> None:
    expected = evaluated()
    weights = b"acoustic 1\nlm 9.5\nwords 0\n"
    for what, content in (("data", archive()), ("references", TEXT.read_bytes()), ("weights", weights)):
        with piped(content) as pipe:
            assert evaluated(**{what: pipe}) == expected
    call = ["evaluate", LATTICES, "--references", "-", "--weights", "1,9.5,0", "--json"]
    code, out, log = finished(*call, stdin=TEXT.open())
    assert code == 0, log
    assert json.loads(out)["loss"] == expected
    with piped(TEXT.read_bytes()) as pipe:
        assert lpmert.evaluate(lpmert.load_lattices(LATTICES, pipe), [1, 9.5, 0]).loss == expected
    with piped(TEXT.read_bytes()) as pipe:
        lists = lpmert.read(LATTICES, references=pipe, n_best=1, scales={"lm": 9.5, "words": 0.0})
    assert lpmert.evaluate(lists, [1, 9.5, 0]).loss == expected
    # what is long comes in parts, and an error says where
    text = "\n".join([*(f"a{number} x" for number in range(100_000)), "a7 y"])
    trouble = "/dev/fd/[0-9]+:100001: 'a7' comes twice, first on line 8"
    with piped(text.encode()) as pipe, pytest.raises(DataError, match=trouble):
        lpmert.load_lattices(LATTICES, pipe)


def test_a_single_lattice_is_called_like_its_pipe(tmp_path: Path) -> None:
    one, text = LATTICES / "u03.slf.gz", tmp_path / "text"
    expected = evaluated(one, TEXT, "1,9.5,0", "--partial")
    for content in (one.read_bytes(), gzip.decompress(one.read_bytes())):
        with piped(content) as pipe:
            text.write_text(TEXT.read_text().replace("u03 ", f"{Path(pipe).name} "))  # the file has no name of its own
            assert evaluated(pipe, text, "1,9.5,0", "--partial") == expected


def test_a_pipe_is_kept_only_as_long_as_one_call(tmp_path: Path) -> None:
    named = tmp_path / "named"
    os.mkfifo(named)
    for content in ("one", "two"):
        writer = Thread(target=named.write_text, args=(content,))
        with buffered_pipes():
            writer.start()
            assert [read_text(named) for _ in range(3)] == [content] * 3
        writer.join()


def test_negative_zeros_and_single_precision_are_read_as_ever(tmp_path: Path) -> None:
    features = np.array([[-0.0, 1], [2, -0.0], [1, 5]], dtype=np.float32)
    np.savez(tmp_path / "lists.npz", features=features, offsets=[0, 2, 3], statistics=np.array([0.0, -0.0, 1.0]))
    assert read(tmp_path / "lists.npz").fingerprint == NBest(features, [0, 2, 3], [0.0, 0.0, 1.0]).fingerprint
