"""Every input may be a pipe with a name, as shells make of <(command): it is looked at often, and read once."""

import gzip
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Thread

import pytest
from commands import finished, loss_of
from shared import ROOT

import lpmert
from lpmert import DataError
from lpmert.system.files import read_text
from lpmert.system.streams import buffered_pipes

LATTICES, TEXT = ROOT / "examples/speech/lattices", ROOT / "examples/speech/text"
CANDIDATES = ROOT / "examples/best_of_n/candidates.jsonl"


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
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file in LATTICES.iterdir():
            tar.add(file, file.name)
    return packed.getvalue()


def evaluated(data: object = LATTICES, references: object = TEXT, weights: str = "1,9.5,0", *more: str) -> float:
    return loss_of("evaluate", data, "--references", references, "--weights", weights, *more)


PIPED = {
    "data": archive,
    "references": TEXT.read_bytes,
    "weights": lambda: b"acoustic 1\nlm 9.5\nwords 0\n",
}


@pytest.mark.parametrize("what", PIPED)
def test_whatever_a_command_reads_comes_through_a_pipe(what: str) -> None:
    with piped(PIPED[what]()) as pipe:
        assert evaluated(**{what: pipe}) == evaluated()


def test_references_come_through_standard_input_and_to_functions() -> None:
    call = ["evaluate", LATTICES, "--references", "-", "--weights", "1,9.5,0", "--json"]
    code, out, log = finished(*call, stdin=TEXT.open())
    assert code == 0, log
    assert json.loads(out)["loss"] == evaluated()
    with piped(TEXT.read_bytes()) as pipe:
        assert lpmert.evaluate(lpmert.load_lattices(LATTICES, pipe), [1, 9.5, 0]).loss == evaluated()
    with piped(TEXT.read_bytes()) as pipe:
        lists = lpmert.read(LATTICES, references=pipe, n_best=1, scales={"lm": 9.5, "words": 0.0})
    assert lpmert.evaluate(lists, [1, 9.5, 0]).loss == evaluated()


def test_a_single_lattice_is_called_like_its_pipe(tmp_path: Path) -> None:
    one, text = LATTICES / "u03.slf.gz", tmp_path / "text"
    expected = evaluated(one, TEXT, "1,9.5,0", "--partial")
    for content in (one.read_bytes(), gzip.decompress(one.read_bytes())):
        with piped(content) as pipe:
            text.write_text(TEXT.read_text().replace("u03 ", f"{Path(pipe).name} "))  # the file has no name of its own
            assert evaluated(pipe, text, "1,9.5,0", "--partial") == expected


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "moses", "parquet", "npz", "tsv.gz", "jsonl.zst"])
def test_lists_of_every_kind_come_through_a_pipe(ending: str, tmp_path: Path) -> None:
    lists = lpmert.read(CANDIDATES, loss="correct")
    file = tmp_path / f"lists.{ending}"
    lpmert.write(lists, file, "moses" if ending == "moses" else None)
    weights = ("--weights", ",".join("1" for _ in lists.names))
    expected = loss_of("evaluate", file, *weights)
    with piped(file.read_bytes()) as pipe:
        kind = {"csv": "csv", "tsv": "tsv", "tsv.gz": "tsv"}.get(ending)
        assert loss_of("evaluate", pipe, *(() if kind is None else ("--from", kind)), *weights) == expected


def test_a_pipe_is_kept_only_as_long_as_one_call(tmp_path: Path) -> None:
    named = tmp_path / "named"
    os.mkfifo(named)
    for content in ("one", "two"):
        writer = Thread(target=named.write_text, args=(content,))
        with buffered_pipes():
            writer.start()
            assert [read_text(named) for _ in range(3)] == [content] * 3
        writer.join()


def test_what_is_long_comes_in_parts_and_an_error_says_where() -> None:
    lines = [f"a{number} x" for number in range(100_000)] + ["a7 y"]
    trouble = "/dev/fd/[0-9]+:100001: 'a7' comes twice, first on line 8"
    with piped("\n".join(lines).encode()) as pipe, pytest.raises(DataError, match=trouble):
        lpmert.load_lattices(LATTICES, pipe)
