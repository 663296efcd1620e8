"""What a writer of a certificate that is killed leaves behind: the records so far, from which the next one goes on.

A text file with a line for the claim and one for each record, each behind its checksum. What is on the way from the
root to where the tree goes on is worked out again; the rest is copied.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from math import factorial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lpmert.certificates.format import BOXES, Header, Record
from lpmert.errors import DataError
from lpmert.system.scratch import owned, writing_to

_RESTATED = ("bound", "sums", "facets")
"""What a writer learns of a claim while it looks for the proof."""


_FORM = re.compile(rb"[0-9a-f]{8} ")


class Way(NamedTuple):
    """Where a tree goes on: the records that divide the cones on the way there, each with how many of its parts are
    closed, then the nodes on the way inside the last part, if it is open.
    """

    cones: Sequence[tuple[str, int]] = ()
    nodes: Sequence[str] = ()


class Journal:
    """The records of one tree in a file; those of a tree for another claim are dropped."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._begin = 0

    def claim(self, header: Header, kind: str) -> Header:
        """Return the claim of the tree that is in the file, if it comes from this one; else begin one for this."""
        own = _claim(header, kind)
        self._file.seek(0)
        first = self._file.readline()
        if first and not _FORM.match(first):
            raise DataError("holds no proof that was begun; name another file", path=self._path)
        kept = json.loads(_text(first) or "null")
        if kept is not None and {**kept, **{name: own[name] for name in _RESTATED}} == own:
            self._begin = self._file.tell()
            more = {name: kept[name] for name in _RESTATED[1:]}
            return replace(header, bound=Fraction(kept["bound"]), **more)
        self.begin(header, kind)
        return header

    def begin(self, header: Header, kind: str) -> None:
        """Begin a tree for a claim; what is in the file is dropped."""
        with writing_to(self._path):
            self._file.seek(0)
            self._file.truncate()
        self.add(json.dumps(_claim(header, kind)))
        self._begin = self._file.tell()

    def way(self, n_features: int) -> Way:
        """Return the way to where the tree goes on, and drop a line that is half written."""
        cones: list[tuple[str, int, int]] = []  # with how many parts each has, and how many of them are closed
        nodes: list[tuple[str, Any]] = []  # inside the last of these parts, with the list in which each branches
        kept = self._begin
        for text, end in self._lines():
            kept, record = end, json.loads(text)
            count = _parts(record, n_features)
            if "take" in record:
                while nodes and nodes[-1][1] != record["take"][0]:
                    nodes.pop()
            elif nodes:
                _close_one(cones)
                nodes = []
            if count:
                cones.append((text, count, 0))
            elif "branch" in record or "take" in record or not cones:
                nodes.append((text, record.get("branch")))
            else:
                _close_one(cones)
        with writing_to(self._path):
            self._file.seek(kept)
            self._file.truncate()
        return Way([(text, done) for text, _, done in cones], [text for text, _ in nodes])

    def texts(self) -> Iterator[str]:
        """Yield the records in the file."""
        for text, _ in self._lines():
            yield text

    def drop(self) -> None:
        """Drop all records."""
        with writing_to(self._path):
            self._file.seek(self._begin)
            self._file.truncate()

    def add(self, text: str) -> None:
        """Add a line."""
        data = text.encode()
        with writing_to(self._path):
            self._file.seek(0, os.SEEK_END)
            self._file.write(b"%08x %s\n" % (zlib.crc32(data), data))
            self._file.flush()

    def _lines(self) -> Iterator[tuple[str, int]]:
        """Yield the records as text, with where they end; nothing may move the file meanwhile."""
        self._file.seek(self._begin)
        end = self._begin
        while text := _text(line := self._file.readline()):
            end += len(line)
            yield text, end


@contextmanager
def journal(path: str | Path | None, *, resume: bool) -> Iterator[Journal | None]:
    """Own the file of a writer while the block runs, which removes it at its end, but not if it raises.

    Raises `DataError` if the file is in use, or there and nobody asked to go on with it.
    """
    if path is None:
        yield None
        return
    place = Path(path)
    with owned(place.resolve(), place):
        if place.exists() and not (resume and place.is_file()):
            raise DataError("holds a proof already: go on with it (resume), or remove the file", path=path)
        with writing_to(path), open(os.open(place, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            yield Journal(file, place)
        place.unlink(missing_ok=True)


def _text(line: bytes) -> str:
    """Return what a line says, nothing if its checksum is wrong or its end is missing."""
    sum_of, _, data = line.removesuffix(b"\n").partition(b" ")
    return data.decode() if line.endswith(b"\n") and sum_of == b"%08x" % zlib.crc32(data) else ""


def _claim(header: Header, kind: str) -> dict[str, Any]:
    """Return what tells one tree from another, as JSON gives it back."""
    values: dict[str, Any] = json.loads(json.dumps({**vars(header), "kind": kind}, default=str))
    return values


def _parts(record: Record, n_features: int) -> int:
    """Return into how many parts a record divides a cone or box, or all weights; 0 for a node."""
    if "corners" in record:
        return factorial(len(record["corners"]))
    if "split" not in record:
        return 0
    if isinstance(record["split"], list):
        return 2
    return 2 * n_features if record["split"] == BOXES else 2**n_features


def _close_one(cones: list[tuple[str, int, int]]) -> None:
    """Count one more part as closed of the last record, which is done with, too, if that was its last part."""
    while True:
        text, count, done = cones.pop()
        if done + 1 < count or not cones:
            cones.append((text, count, done + 1))
            return
