"""Lines that the core reads at once are those that Python reads one by one: the same bits, the same words on faults."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from mutations import damaged, examples

import lpmert
from lpmert import DataError
from lpmert.core import read_alike
from lpmert.formats import rows
from lpmert.system import files

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=4).map(str),
    st.integers(-9, 9).map(str),
    st.sampled_from(["-0.0", "1e-320", "4.9e-324", "1.", ".5", "+1", "1E5", "0.1000000000000000055511151231257827"]),
)
ODD = ["", " 1 ", "1 2", "nan", "inf", "-Infinity", "1e400", "1e101", "1_0", "0x1p3", "١", "true", "null", "-", "1e"]
ODD += ["1\r", '"1"', "1\t2", "1\n2", "\0", "01", "-01", "1.", ".5", "+1", "1.e5", "[1]", "{}", "1, 2", "|||", "b=1"]
ODD += ["9007199254740991", "-9007199254740991", "0.1", "1e15", "1e-22", "123456789.123456789", "1e-23", "2.5e-324"]
ODD += ["1e-300", "1e16", "0." + "0" * 30 + "1", "e1", ".", "+", "--1"]
ODD += ["9007199254740991.5e-1", "72057594037927945e-1", "4503599627370497.5", "9007199254740992", "-9007199254740993"]
"""Some are numbers to Python; most are none, or hard to round."""

Found = tuple[object, ...]
ROWS = {
    "tsv": ("list\tmore\ta\terrors\ttext\n", "u{0}\t\t{1}\t{2}\t{3}\n"),
    "csv": ("list,more,a,errors,text\n", "u{0},,{1},{2},{3}\n"),
    "moses": ("", "u{0} ||| {3} ||| b= 1.5 a= {1} ||| -1 ||| statistics: errors={2}\n"),
}
"""What a file begins with, and a line of it, by list, feature, loss and text."""
KINDS = pytest.mark.parametrize("kind", ROWS)


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
        context.setattr(rows, "read_alike", quick)
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


@KINDS
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


@KINDS
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


@KINDS
@examples(150)
@given(data=st.data())
def test_damaged_files_end_alike(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    whole = content(kind, [("0.25", "1"), ("-3e-2", "0"), ("7", "2")] * 3, "a b")
    with pytest.MonkeyPatch.context() as monkeypatch:
        path = tmp_path_factory.mktemp("lists") / f"t.{kind}"
        check_same(path, damaged(data, whole, PIECES, most=2, longest=2, cut=True), monkeypatch)


def test_arrays_that_do_not_fit_are_refused() -> None:
    for literals, cells, numbers in (
        (["", ""], [0], np.zeros((1, 2))),
        ([""], [0], np.zeros((1, 1))),
        (["", ""], [5], np.zeros((1, 0))),
        (["", ""], [-1], np.zeros((1, 0))),
    ):
        with pytest.raises((ValueError, TypeError)):
            read_alike(b"1\n", literals, cells, False, "", numbers)
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
