"""No file takes more memory than its reader allows, and no message quotes more of it than can be read."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_malformed import KINDS
from written_lists import DIALECTS, PACKINGS, content_of, put

import lpmert
from lpmert import CertificateError, DataError, NBest
from lpmert.formats.weights import read_weights
from lpmert.quoting import MOST, listed, quoted
from lpmert.system.files import lines, read_text

LONG = "1 " * 600

OF_LINES = [kind for kind in KINDS if kind not in (*DIALECTS, "json", "parquet", "npz", "slf", "weights")]
"""Kinds of files that are read by lines."""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.system.files.LONGEST_LINE", 1000)
    monkeypatch.setattr("lpmert.system.files.LONGEST_FILE", 1000)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("kind", OF_LINES)
def test_every_reader_refuses_a_line_that_is_too_long(tmp_path: Path, kind: str) -> None:
    for name, content in KINDS[kind].files.items():
        first = content_of(content).decode().partition("\n")[0]
        put(tmp_path, {**KINDS[kind].files, name: f"{first}\n{LONG}\n"})
        with pytest.raises(DataError, match="a line of more than 1,000 bytes") as caught:
            KINDS[kind].read(tmp_path)
        assert (caught.value.path, caught.value.line) == (str(tmp_path / name), 2)
        assert str(caught.value).count("1 ") <= MOST // 2 + 2


@pytest.mark.usefixtures("short")
def test_just_the_limit_is_read_and_no_more(tmp_path: Path) -> None:
    path, weights = tmp_path / "f.txt", tmp_path / "weights.txt.gz"
    path.write_text("a" * 999 + "\n")
    assert list(lines(path)) == [(1, "a" * 999)]
    path.write_text("a" * 1000 + "\n")
    with pytest.raises(DataError, match=r"f\.txt:1: a line of more than"):
        list(lines(path))
    weights.write_bytes(gzip.compress(b"1 " * 500 + b"1"))
    for read in (read_text, read_weights, lpmert.Result.load):
        with pytest.raises(DataError, match="more than 1,000 bytes"):
            read(weights)
    path.write_text("{" + " " * 2000)
    with pytest.raises(CertificateError, match="more than 1,000 bytes"):
        lpmert.verify(path, NBest([[1.0], [0.0]], [0, 2], [0.0, 1.0]))


PROGRAM = """
import resource, sys
from lpmert.errors import DataError
from lpmert.system.files import lines
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(list(lines(sys.argv[1])))
except DataError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is measured as Linux tells it")
@pytest.mark.parametrize("packing", [".gz", ".xz"])
@pytest.mark.parametrize("pipe", [False, True])
def test_a_line_of_three_gigabytes_takes_little_memory(tmp_path: Path, packing: str, pipe: bool) -> None:
    path = tmp_path / f"bomb{packing}"
    path.write_bytes(PACKINGS[packing](b"a" * (16 << 20)) * 192)  # joined compressed files are one file in both formats
    with path.open("rb") as file:
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, "-" if pipe else str(path)],
            input=file.read() if pipe else None,
            capture_output=True,
            check=True,
            timeout=280,
        )
    error, megabytes = run.stdout.decode().splitlines()
    assert ":1: a line of more than 67,108,864 bytes" in error
    assert len(error) < 500 + len(str(path))
    assert int(megabytes) < 300


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_compressed_lines_are_read_whole(tmp_path: Path, packing: str) -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(33, 126, size))) for size in rng.integers(0, 5000, 300)]
    data = "".join(f"{text}\n" for text in texts).encode()
    cuts = sorted(rng.integers(0, len(data), 4).tolist())
    parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    (tmp_path / "f").write_bytes(b"".join(map(PACKINGS[packing], parts)))
    assert [text for _, text in lines(tmp_path / "f")] == texts


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def test_quotes_are_short_and_take_one_line() -> None:
    deep = nested(100_000)
    for value in (
        "a" * 10**6,
        b"\0" * 10**6,
        10**4000,
        10**6000,
        [["a" * 500] * 500] * 500,
        "\n" * 500,
        {1: "b" * 999},
        deep,
    ):
        assert len(quoted(value)) <= MOST
    for value in ("a" * 150, "", "'", 12, 1.5, None, [1, 2], ("x",)):
        assert quoted(value) == repr(value)
    assert quoted(np.eye(2)) == r"array([[1., 0.],\n       [0., 1.]])"
    assert [listed(["a", "b"]), listed([])] == ["a, b", ""]
    for names in (["a"] * 10**5, ["a" * 10**6], dict.fromkeys(map(str, range(1000)))):
        assert len(listed(names)) < MOST + 30
        assert f"({len(names):,} in all)" in listed(names)
    for kind in (lpmert.LpmertError, DataError, CertificateError, lpmert.MethodError):
        assert len(str(kind("y" * 10**6))) == 1999  # no error fills the screen
