"""Certificates written to disk, record by record, so that nothing holds the tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

from lpmert.certificates.format import END, OPTIONAL, SCHEMA, SCHEMA_KEY, TREE, Header, Record
from lpmert.system.files import atomic_writer


@contextmanager
def certificate_writer(path: str | Path, header: Header) -> Iterator[Callable[[Record], None]]:
    """Open a certificate for writing and yield the function that adds a record to its tree.

    The file appears whole when the block ends, and not at all if it raises; compressed if its name ends in .gz, .xz or
    .zst. The same records always give the same bytes. Raises `DataError` if the place cannot be written.
    """
    with atomic_writer(path) as file:
        stated = {key: value for key, value in asdict(header).items() if value or key not in OPTIONAL}
        claims = _plain(stated)
        file.write(json.dumps({SCHEMA_KEY: SCHEMA, **claims})[:-1] + TREE)
        separator = "\n"

        def add(record: Record) -> None:
            nonlocal separator
            file.write(separator + compact(record))
            separator = ",\n"

        yield add
        file.write(f"\n{END}\n")


def compact(record: Record) -> str:
    """Return a record as it is written."""
    return json.dumps(record, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return nested values as JSON holds them here: exact fractions and hexadecimal floats as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, float) else value
