"""Lines: no file takes more memory than its reader allows, no message quotes more of it than can be read, and the core
reads at once what Python reads one by one: the same bits, the same words on faults.
"""

import gzip
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from mutations import damaged, examples
from test_malformed import KINDS
from written_lists import DIALECTS, PACKINGS, content_of, put

import lpmert
from lpmert import CertificateError, DataError, NBest, files
from lpmert.core import read_alike
from lpmert.files import lines, read_text
from lpmert.formats import format as reading
from lpmert.formats.weights import read_weights
from lpmert.quoting import MOST, listed, quoted

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=4).map(str),
    st.integers(-9, 9).map(str),
    st.sampled_from(["-0.0", "1e-320", "4.9e-324", "1.", ".5", "+1", "1E5", "0.1000000000000000055511151231257827"]),
)
# some are numbers to Python; most are none, or hard to round
ODD = ["", " 1 ", "1 2", "nan", "inf", "-Infinity", "1e400", "1e101", "1_0", "0x1p3", "١", "true", "null", "-", "1e"]
ODD += ["1\r", '"1"', "1\t2", "1\n2", "\0", "01", "-01", "1.", ".5", "+1", "1.e5", "[1]", "{}", "1, 2", "|||", "b=1"]
ODD += ["9007199254740991", "-9007199254740991", "0.1", "1e15", "1e-22", "123456789.123456789", "1e-23", "2.5e-324"]
ODD += ["1e-300", "1e16", "0." + "0" * 30 + "1", "e1", ".", "+", "--1"]
ODD += ["9007199254740991.5e-1", "72057594037927945e-1", "4503599627370497.5", "9007199254740992", "-9007199254740993"]

Found = tuple[object, ...]
ROWS = {  # what a file begins with, and a line of it, by list, feature, loss and text
    "tsv": ("list\tmore\ta\terrors\ttext\n", "u{0}\t\t{1}\t{2}\t{3}\n"),
    "csv": ("list,more,a,errors,text\n", "u{0},,{1},{2},{3}\n"),
    "moses": ("", "u{0} ||| {3} ||| b= 1.5 a= {1} ||| -1 ||| statistics: errors={2}\n"),
}
IN_ROWS = pytest.mark.parametrize("kind", ROWS)


def content(kind: str, cells: list[tuple[str, str]], text: str) -> bytes:
    head, line = ROWS[kind]
    rows = (line.format(number // 3, first, second, text) for number, (first, second) in enumerate(cells))
    return (head + "".join(rows)).encode()


def read(path: Path, quick: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> Found:
    """What comes of a file, read in small blocks."""
    options = {"features": ["a_0"] if path.suffix == ".moses" else ["a"]}
    options |= {} if path.suffix == ".moses" else {"segment": "list", "loss": "errors", "text": "text"}
    with monkeypatch.context() as context:
        context.setattr(files, "BLOCK_BYTES", 256)
        context.setattr(reading, "read_alike", quick)
        try:
            found = lpmert.read(path, path.suffix[1:], **options)
        except DataError as error:
            return (str(error),)
    dense = found.dense_features()
    return (dense.tobytes(), found.statistics.tobytes(), *found.list_ids, *found.offsets, *(found.texts or ()))


def check_same(path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Compare the two ways; return for each block whether the quick one took it."""
    path.write_bytes(data)
    taken: list[bool] = []

    def counted(*arguments: object) -> object:
        found = read_alike(*arguments)
        taken.append(found is not None)
        return found

    expected = read(path, lambda *_: None, monkeypatch)
    assert read(path, counted, monkeypatch) == expected
    return taken


@IN_ROWS
@given(
    cells=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=30, max_size=40),
    text=st.sampled_from(["x", "", '"', "a b", "\u0101 'b", "nan", "a |||| b", " a ", "a\tb"]),
)
@settings(deadline=None, max_examples=60)
def test_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, kind: str, cells: list[tuple[str, str]], text: str
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        check_same(tmp_path_factory.mktemp("lists") / f"t.{kind}", content(kind, cells, text), monkeypatch)


@IN_ROWS
def test_plain_lines_are_read_quickly_and_odd_ones_as_ever(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"t.{kind}"
    cells = [(f"{number / 7:.4f}", str(number % 5)) for number in range(100)]
    taken = check_same(path, content(kind, cells, "some words"), monkeypatch)
    assert len(taken) >= 10
    assert all(taken)
    for odd, place in product(ODD, (0, 59)):
        cells = [("0.25", "1")] * 60
        cells[place] = (odd, "1")
        check_same(path, content(kind, cells, "x"), monkeypatch)
    body = content(kind, [("0.25", "1")] * 60, "x")
    for data in (body[:-1], body[:-3], body + b"\xff\n", body + b"\n", body.replace(b"\n", b"\r\n"), body + body[-40:]):
        check_same(path, data, monkeypatch)


PIECES = [b"", b"  ", *(bytes([one]) for one in b' \t\n"\\{}[,:|=1e-\xff')]


@IN_ROWS
@examples(150)
@given(data=st.data())
def test_damaged_files_end_alike(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    whole = content(kind, [("0.25", "1"), ("-3e-2", "0"), ("7", "2")] * 3, "a b")
    with pytest.MonkeyPatch.context() as monkeypatch:
        path = tmp_path_factory.mktemp("lists") / f"t.{kind}"
        check_same(path, damaged(data, whole, PIECES, most=2, longest=2, cut=True), monkeypatch)


def test_arrays_that_do_not_fit_are_refused() -> None:
    for literals, cell, width in ((["", ""], 0, 2), ([""], 0, 1), (["", ""], 5, 0), (["", ""], -1, 0)):
        with pytest.raises((ValueError, TypeError)):
            read_alike(b"1\n", literals, [cell], False, "", np.zeros((1, width)))
    assert read_alike(b"1\n", ["", ""], [0], False, "", np.zeros((2, 1))) is None
    assert read_alike(b"1\n2\n", ["", ""], [0], False, "", np.zeros((1, 1))) is None


@pytest.mark.parametrize(("segment", "text"), [("a", "text"), ("list", "a"), ("a", "a")])
def test_words_stay_as_written(segment: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content("tsv", [(f"00{number // 3}", "1") for number in range(60)], "x"))
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    found = lpmert.read(path, segment=segment, features="a", loss="errors", text=text)
    assert found.features[:, 0].tolist() == [number // 3 for number in range(60)]
    assert list(found.list_ids) == [f"{'u' if segment == 'list' else '00'}{number}" for number in range(20)]
    assert list(found.texts) == [f"00{number // 3}" if text == "a" else "x" for number in range(60)]


# Limits of lines and of quotes.

LONG = "1 " * 600
# kinds of files that are read by lines
OF_LINES = [kind for kind in KINDS if kind not in (*DIALECTS, "json", "parquet", "npz", "slf", "weights")]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.files.LONGEST_LINE", 1000)
    monkeypatch.setattr("lpmert.files.LONGEST_FILE", 1000)


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
from lpmert.files import lines
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


def test_quotes_are_short_and_take_one_line() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    huge = ["a" * 10**6, b"\0" * 10**6, 10**4000, 10**6000, [["a" * 500] * 500] * 500, "\n" * 500, {1: "b" * 999}]
    for value in (*huge, deep):
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
