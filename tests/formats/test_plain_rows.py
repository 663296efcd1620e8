"""Rows that the core splits are those that Python splits: the same bits, the same words on what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpmert
from lpmert import DataError
from lpmert.core import read_rows
from lpmert.formats import rows
from lpmert.system import files

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000, max_value=1000, places=4).map(str),
    st.integers(-9, 9).map(str),
    st.sampled_from(["-0.0", "1e-320", "4.9e-324", "1.", ".5", "+1", "1E5", "0.1000000000000000055511151231257827"]),
)
ODD = [
    "",
    " 1 ",
    "1 2",
    *["nan", "inf", "-Infinity", "1e400", "1e101", "1_0", "0x1p3", "١", "true", "-", "1e"],
    "1\r",
    '"1"',
    "1\t2",
    "1\n2",
    "\0",
]
"""Some are numbers to Python; most are none."""

Found = tuple[object, ...]


def lines(cells: list[tuple[str, str]], text: str = "x") -> bytes:
    rows = (f"u{number // 3}\t{first}\t{second}\t{text}\n" for number, (first, second) in enumerate(cells))
    return "".join(rows).encode()


def read(path: Path, quick: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> Found:
    """What comes of a table, read in small blocks."""
    with monkeypatch.context() as context:
        context.setattr(files, "_BLOCK_BYTES", 64)
        context.setattr(rows, "read_rows", quick)
        try:
            found = lpmert.read_table(path, segment="list", features="a", loss="errors", text="text")
        except DataError as error:
            return (str(error),)
    return (found.features.tobytes(), found.statistics.tobytes(), *found.list_ids, *(found.texts or ()))


def check_same(cells: list[tuple[str, str]], text: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Compare the two ways; return for each block whether the quick one took it."""
    content = b"list\ta\terrors\ttext\n" + lines(cells, text)
    path.write_bytes(content.replace(b"\t", b",") if path.suffix == ".csv" else content)
    taken: list[bool] = []

    def counted(*arguments: object) -> object:
        found = read_rows(*arguments)  # type: ignore[arg-type]
        taken.append(found is not None)
        return found

    expected = read(path, lambda *_: None, monkeypatch)
    assert read(path, counted, monkeypatch) == expected
    return taken


TEXTS = st.sampled_from(["x", "", '"', "a b", "\u0101 'b", "nan"])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=30, max_size=40), TEXTS)
@settings(deadline=None)
def test_the_same_bits(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]], text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for kind in ("tsv", "csv"):
            check_same(cells, text, tmp_path_factory.mktemp("tables") / f"t.{kind}", monkeypatch)


@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_plain_numbers_are_read_quickly(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [(f"{number / 7:.4f}", str(number % 5)) for number in range(100)]
    taken = check_same(cells, "some words", tmp_path / f"t.{kind}", monkeypatch)
    assert len(taken) > 20
    assert all(taken)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [25, 59])
@pytest.mark.parametrize("kind", ["tsv", "csv"])
def test_what_is_odd_is_read_or_refused_as_ever(
    odd: str, place: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [("0.25", "1")] * 60
    cells[place] = (odd, "1")
    taken = check_same(cells, "x", tmp_path / f"t.{kind}", monkeypatch)
    assert taken.count(False) <= 2


def test_bytes_that_are_no_text_and_rows_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, body = tmp_path / "t.tsv", b"list\ta\terrors\ttext\n" + lines([("0.25", "1")] * 60)
    for content in (body[:-1], body[:-3], body + b"u99\t1\t2\t\xff\n", body + b"\n", body + b"u0\t1\t2\tx\n"):
        path.write_bytes(content)
        assert read(path, read_rows, monkeypatch) == read(path, lambda *_: None, monkeypatch)


def test_rows_are_filled_in_and_ids_are_told_once() -> None:
    data, slots = b"u\t2.5\tsome\r\nu\t-35e-1\t\nv\t+.5\t\xc4\x81", np.array([-1, 0, -1], dtype=np.int32)
    numbers = np.zeros((3, 1))
    assert read_rows(data, "\t", 0, 2, slots, numbers) == (["u", "v"], [2, 1], ["some", "", "\u0101"])
    np.testing.assert_array_equal(numbers, [[2.5], [-3.5], [0.5]])
    assert read_rows(data, "\t", 0, 2, slots[:2], numbers) is None
    assert read_rows(data, "\t", 0, 2, slots, np.zeros((2, 1))) is None
    assert read_rows(data, "\t", 0, 2, slots, np.zeros((4, 1))) is None


@pytest.mark.parametrize(
    "word",
    [
        *["9007199254740991", "-9007199254740991", "0.1", "1e15", "1e-22", "123456789.123456789", "1e-23", "2.5e-324"],
        *["9007199254740991.5e-1", "0." + "0" * 30 + "1", "72057594037927945e-1", "4503599627370497.5", "1e-300"],
    ],
)
def test_numbers_are_the_nearest_doubles(word: str) -> None:
    numbers = np.zeros((1, 1))
    assert read_rows(f"u\t{word}\n".encode(), "\t", 0, -1, np.array([-1, 0], dtype=np.int32), numbers)
    assert numbers[0, 0] == float(Fraction(word))


@pytest.mark.parametrize(
    "word", ["9007199254740992", "-9007199254740993", "1e16", "1e400", "1e", "e1", ".", "+", "--1"]
)
def test_numbers_that_are_none_or_might_be_rounded_are_left_to_python(word: str) -> None:
    numbers, slots = np.zeros((1, 1)), np.array([-1, 0], dtype=np.int32)
    assert read_rows(f"u\t{word}\n".encode(), "\t", 0, -1, slots, numbers) is None


@pytest.mark.parametrize(("segment", "text"), [("a", "text"), ("list", "a"), ("a", "a")])
def test_a_column_that_is_words_too_stays_as_it_is_written(
    segment: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(b"list\ta\terrors\ttext\n" + lines([(f"00{number // 3}", "1") for number in range(60)]))
    monkeypatch.setattr(files, "_BLOCK_BYTES", 64)
    found = lpmert.read_table(path, segment=segment, features="a", loss="errors", text=text)
    assert found.features[:, 0].tolist() == [number // 3 for number in range(60)]
    assert list(found.list_ids) == [f"{'u' if segment == 'list' else '00'}{number}" for number in range(20)]
    assert found.texts is not None
    assert list(found.texts) == [f"00{number // 3}" if text == "a" else "x" for number in range(60)]
