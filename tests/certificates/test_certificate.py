"""Certificates on disk: what is written is read again, and what is no certificate is refused."""

import json
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest
from certificates import base, document, layout
from searches import peak_of

import lpmert
from lpmert import CertificateError
from lpmert.certificates.format import CertificateReader, Header, Record
from lpmert.certificates.write.certify import certificate_writer, write_certificate

HEADER = Header(
    fingerprint="0" * 64,
    metric="metric:loss|columns:1",
    ties="first",
    found_by="nobody",
    loss=Fraction(7, 2),
    bound=Fraction(-3),
    weights={"am": 0.1, "lm": -(2.0**-40)},
    limits=[[1.0, 0.3]],
    exponents={"lm": -3},
)
RECORDS: list[Record] = [{"split": [0, 1]}, {}, {"out": [[0, 1, 0, 2, 255]], "branch": 3}]


def write(path: Path, header: Header = HEADER, records: list[Record] = RECORDS) -> Path:
    with certificate_writer(path, header) as add:
        for record in records:
            add(record)
    return path


@pytest.mark.parametrize("name", ["c.json", "c.json.gz", "c.json.xz"])
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], []])
def test_what_is_written_is_read_again(tmp_path: Path, name: str, records: list[Record]) -> None:
    reader = CertificateReader(write(tmp_path / name, records=records))
    assert reader.header() == HEADER
    assert [reader.record() for _ in records] == records
    reader.end()
    assert reader.line == len(records) + 2


def test_a_certificate_is_one_json_document_whose_numbers_can_be_read(tmp_path: Path) -> None:
    found = json.loads(write(tmp_path / "c.json").read_text())
    assert found["tree"] == RECORDS
    assert (found["loss"], found["bound"]) == ("7/2", "-3")
    assert {name: float.fromhex(text) for name, text in found["weights"].items()} == HEADER.weights


def test_a_second_run_writes_the_same_bytes(tmp_path: Path) -> None:
    nbest, _ = base("selections")
    for name in ("first.json.gz", "second.json.gz"):
        write_certificate(tmp_path / name, nbest, lpmert.minimize(nbest), kind="selections")
    assert (tmp_path / "first.json.gz").read_bytes() == (tmp_path / "second.json.gz").read_bytes()


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write(tmp_path / "c.json", records=[{}, {"branch": object()}])
    assert not list(tmp_path.iterdir())


def test_neither_writing_nor_reading_holds_the_tree_in_memory(tmp_path: Path) -> None:
    count = 24_000
    record: Record = {"out": [[0, 1, 0, 2, 10**500]]}

    def write_and_read() -> None:
        reader = CertificateReader(write(tmp_path / "c.json", records=[record] * count))
        reader.header()
        for _ in range(count):
            reader.record()
        reader.end()

    assert peak_of(write_and_read) < 7_000_000  # lines are read by the megabyte
    assert (tmp_path / "c.json").stat().st_size > 12_000_000


def all_read(path: Path) -> list[object]:
    reader = CertificateReader(path)
    read = [reader.header(), *(reader.record() for _ in RECORDS)]
    reader.end()
    return read


def test_a_compressed_file_that_is_cut_short_or_has_a_wrong_byte_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json.gz")
    data = path.read_bytes()
    half = len(data) // 2
    changed = bytearray(data)
    changed[half] ^= 0x10
    for content in (changed, *(data[:end] for end in (5, 40, half, -9, -1))):
        path.write_bytes(content)
        with pytest.raises(CertificateError):
            all_read(path)


KEYS = ["lpmert certificate", *(field.name for field in fields(Header))]
VALUES = [None, True, -1, 2.5, "7/0", "1e9", "nan", [], {}, ["1"], {"am": 1}, {"am": "inf"}]
MAY_BE = {"found_by": [value for value in VALUES if isinstance(value, str)], "limits": [[]], "equations": [[]]}


@pytest.mark.parametrize("key", KEYS)
def test_a_header_with_a_value_of_another_type_is_refused(tmp_path: Path, key: str) -> None:
    for value in VALUES:
        if value in MAY_BE.get(key, []):
            continue
        (tmp_path / "c.json").write_text(layout(document("few boxes") | {key: value}))
        with pytest.raises(CertificateError):
            lpmert.verify(tmp_path / "c.json", base("few boxes")[0])
