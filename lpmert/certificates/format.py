"""What a proof looks like on disk: a header and a tree of records, written and read as a stream.

One JSON document with one record a line, so that neither side holds the tree in memory: see docs/certificates.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from lpmert.errors import CertificateError, DataError
from lpmert.formats.unique import unique_keys
from lpmert.quoting import listed
from lpmert.system.files import atomic_writer, lines

SCHEMA = 1
CONES, SELECTIONS = "cones", "selections"

Record = dict[str, Any]
Kind = TypeVar("Kind")

_SCHEMA_KEY = "lpmert certificate"
_TREE = ', "tree": ['
_END = "]}"


@dataclass(frozen=True)
class Header:
    """What a certificate claims, and what its tree refers to.

    fingerprint of the lists; metric: its signature; ties: which of several hypotheses with identical features counts;
    found_by: the run that found the weights, for information. loss: what the weights lose; bound: what no weights
    undercut; both exact. weights: one for each feature. limits [R, D]: weights count if every limit has a positive
    product with them. kind: CONES or SELECTIONS, what the tree's root divides. exponents: for the features that cones
    span, the powers of two by which they are multiplied first; all others depend on these. sums: for a metric that is
    no sum over lists, those at which it is the bound; else empty, and not in the file.
    """

    fingerprint: str
    metric: str
    ties: str
    found_by: str
    loss: Fraction
    bound: Fraction
    weights: dict[str, float]
    limits: list[list[float]]
    exponents: dict[str, int]
    kind: str
    sums: list[int] = field(default_factory=list)


@contextmanager
def certificate_writer(path: str | Path, header: Header) -> Iterator[Callable[[Record], None]]:
    """Open a certificate for writing and yield the function that adds a record to its tree.

    The file appears whole when the block ends, and not at all if it raises; compressed if its name ends in .gz, .xz or
    .zst. The same records always give the same bytes. Raises `DataError` if the place cannot be written.
    """
    with atomic_writer(path) as file:
        claims = _plain(asdict(header))
        if not header.sums:
            del claims["sums"]
        file.write(json.dumps({_SCHEMA_KEY: SCHEMA, **claims})[:-1] + _TREE)
        separator = "\n"

        def add(record: Record) -> None:
            nonlocal separator
            file.write(separator + json.dumps(record, separators=(",", ":")))
            separator = ",\n"

        yield add
        file.write(f"\n{_END}\n")


class CertificateReader:
    """The header of a certificate, then its records one at a time; `line` is where the reading stands.

    Raises `CertificateError` for what is no certificate of this schema, and `DataError` if there is no such file.
    """

    def __init__(self, path: str | Path) -> None:
        self.line = 0
        self._path = path
        self._lines = lines(path)

    def header(self) -> Header:
        """Return the header, which comes first."""
        if not Path(self._path).exists():
            raise DataError("there is no such file", path=self._path)
        text = self._next()
        found = _object(text.removesuffix(_TREE) + "}")
        schema = typed(found.pop(_SCHEMA_KEY, None), int)
        names = [entry.name for entry in fields(Header) if entry.name != "sums" or "sums" in found]
        if schema != SCHEMA or not text.endswith(_TREE) or list(found) != names:
            raise CertificateError(f"schema {SCHEMA} needs a header with {listed(names)}; this one has schema {schema}")
        return Header(
            fingerprint=typed(found["fingerprint"], str),
            metric=typed(found["metric"], str),
            ties=typed(found["ties"], str),
            found_by=typed(found["found_by"], str),
            loss=_fraction(found["loss"]),
            bound=_fraction(found["bound"]),
            weights={name: _float(text) for name, text in typed(found["weights"], dict).items()},
            limits=[[_float(text) for text in typed(row, list)] for row in typed(found["limits"], list)],
            exponents={name: typed(value, int) for name, value in typed(found["exponents"], dict).items()},
            kind=typed(found["kind"], str),
            sums=_counts(found["sums"]) if "sums" in found else [],
        )

    def record(self) -> Record:
        """Return the next record."""
        text = self._next()
        if text == _END:
            raise CertificateError("the tree ends while parts of it are open")
        return _object(text.removesuffix(","))

    def records(self) -> Iterator[Record]:
        """Yield all records that are left, to the end of the tree and the file."""
        while (text := self._next()) != _END:
            yield _object(text.removesuffix(","))
        self._nothing_left()

    def end(self) -> None:
        """Raise `CertificateError` unless the tree and the file end here."""
        if self._next() != _END:
            raise CertificateError("the tree is closed, but something follows")
        self._nothing_left()

    def _nothing_left(self) -> None:
        if next(self._lines, None) is not None:
            raise CertificateError("the tree is closed, but something follows")

    def _next(self) -> str:
        try:
            self.line, text = next(self._lines)
        except StopIteration:
            raise CertificateError("the file is cut short") from None
        except DataError as error:
            raise CertificateError(str(error)) from error
        return text


def typed(value: object, kind: type[Kind]) -> Kind:
    """Return a JSON value of exactly this type, or raise `CertificateError`."""
    if type(value) is not kind:
        raise CertificateError(f"{kind.__name__} expected, not {value!r:.40}")
    return value


def integers(value: object, length: int) -> list[int]:
    """Return a JSON array of so many whole numbers, or raise `CertificateError`."""
    if len(typed(value, list)) != length:
        raise CertificateError(f"{length} numbers expected, not {value!r:.40}")
    return [typed(entry, int) for entry in typed(value, list)]


def _counts(value: object) -> list[int]:
    """Return a JSON array of whole numbers of at least 0."""
    counts = integers(value, len(typed(value, list)))
    if not counts or min(counts) < 0 or max(counts) >> 63:
        raise CertificateError(f"sums of counts expected, not {value!r:.40}")
    return counts


def _object(text: str) -> Record:
    try:
        return typed(json.loads(text, object_pairs_hook=unique_keys), dict)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"no record in the layout of a certificate: {error}") from error


def _plain(value: Any) -> Any:
    """Return nested values as JSON holds them here: exact fractions and hexadecimal floats as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, float) else value


def _float(value: object) -> float:
    try:
        number = float.fromhex(typed(value, str))
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise CertificateError(f"a hexadecimal floating-point number expected, not {value!r:.40}")
    return number


def _fraction(value: object) -> Fraction:
    if not re.fullmatch(r"-?[0-9]{1,1000}(/[1-9][0-9]{0,1000})?", typed(value, str)):
        raise CertificateError(f"a fraction such as 7/2 expected, not {value!r:.40}")
    return Fraction(typed(value, str))
