"""What a proof looks like on disk: a header and a tree of records, written and read as a stream.

One JSON document with one record a line, so that neither side holds the tree in memory: see proofs/certificates.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from lpmert.errors import CertificateError, DataError
from lpmert.formats.text import unique_keys
from lpmert.quoting import LONGEST_REFUSAL, listed, shortened
from lpmert.system.deadline import checkpoint, limited
from lpmert.system.files import lines

SCHEMA = 2
BOXES = "boxes"

Record = dict[str, Any]
Kind = TypeVar("Kind")
Node = TypeVar("Node")

_PARSED = 25
"""Bytes that a character of JSON takes at most when it is read, such as one of empty arrays."""

SCHEMA_KEY = "lpmert certificate"
OPTIONAL = ("equations", "sums", "at_most", "budget")
TREE = ', "tree": ['
END = "]}"


@dataclass(frozen=True)
class Header:
    """What a certificate claims, and what its tree refers to.

    fingerprint of the lists; metric: its signature; ties: which of several hypotheses with identical features counts;
    found_by: the run that found the weights, for information. loss: what the weights lose; bound: what no weights
    undercut; both exact. weights: one for each feature. limits [R, D]: weights count if every limit has a positive
    product with them. exponents: for the features that boxes span, the powers of two by which they are multiplied
    first; all others depend on these. equations [E, D]: weights count if their product with each is 0; not in the file
    if there are none. sums: for a metric that is no sum over lists, those at which it is the bound; else empty, and not
    in the file. at_most: how many weights may be other than 0, if that is limited. budget: for the name of a second
    sum, what it is at most.
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
    equations: list[list[Fraction]] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    at_most: int = 0
    budget: dict[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class RankingHeader:
    """What a certificate about rankings claims.

    ranking: the metric, such as ndcg@10. fingerprint of the documents. score: the weights reach at least this; bound:
    no weights reach more, or none without a negative one where nonnegative. weights: one for each feature. exponents:
    the powers of two by which features are divided before cones span their weights.
    """

    ranking: str
    fingerprint: str
    score: Fraction
    bound: Fraction
    nonnegative: bool
    weights: dict[str, float]
    exponents: dict[str, int]


class CertificateReader:
    """The header of a certificate, then its records one at a time; `line` is where the reading stands.

    on_line: told each such number. Raises `CertificateError` for what is no certificate of this schema, and `DataError`
    if there is no such file.
    """

    def __init__(self, path: str | Path, on_line: Callable[[int], object] = lambda _: None) -> None:
        self.line = 0
        self.path = path
        self._on_line = on_line
        self._lines = lines(path)

    @contextmanager
    def checking(self, time_limit: float | None, memory_limit: int | None) -> Iterator[None]:
        """Hold the limits of a check; its errors name the file, and the line where there is one.

        Raises `MethodError` for what are no limits.
        """
        if time_limit is not None or memory_limit is not None:
            from lpmert.values import checked_limits

            checked_limits(time_limit, None, None, None, memory_limit)

        def placed(message: str) -> str:
            return f"{self.path}{f':{self.line}' if self.line else ''}: {message}"

        try:
            with limited(time_limit, memory_limit, lambda why: placed(f"not checked further: {why}")):
                yield
        except CertificateError as error:
            raise CertificateError(placed(shortened(str(error), LONGEST_REFUSAL))) from error

    def header(self, kind: type[Any] = Header) -> Any:
        if not Path(self.path).exists() or Path(self.path).is_dir():
            raise DataError("there is no such file, or it is a folder", path=self.path)
        text = self._next()
        found = _object(text.removesuffix(TREE) + "}")
        schema = typed(found.pop(SCHEMA_KEY, None), int)
        if schema == SCHEMA and ("ranking" in found) != (kind is RankingHeader):
            other = "N-best lists: check it with lpmert verify" if kind is RankingHeader else "lpmert rank --verify"
            raise CertificateError(f"this is a certificate for {other}")
        kinds = get_type_hints(kind)
        names = [name for name in kinds if name not in OPTIONAL or found.get(name)]
        if schema != SCHEMA or not text.endswith(TREE) or list(found) != names:
            raise CertificateError(f"schema {SCHEMA} needs a header with {listed(names)}; this one has schema {schema}")
        return kind(**{name: _value(kinds[name], value) for name, value in found.items()})

    def record(self) -> Record:
        text = self._next()
        if text == END:
            raise CertificateError("the tree ends while parts of it are open")
        return _object(text.removesuffix(","))

    def end(self) -> None:
        """Raise `CertificateError` unless the tree and the file end here."""
        if self._next() != END or next(self._lines, None) is not None:
            raise CertificateError("the tree is closed, but something follows")

    def _next(self) -> str:
        try:
            self.line, text = next(self._lines)
        except StopIteration:
            raise CertificateError("the file is cut short") from None
        except DataError as error:
            self.line = error.line or self.line
            raise CertificateError(error.reason) from error
        self._on_line(self.line)
        checkpoint(_PARSED * len(text))
        return text


def depth_first(roots: Iterator[Node], visit: Callable[[Node], Iterator[Node]]) -> None:
    """Visit nodes and, after each, those that the visit leaves open, each made when it is its turn."""
    waiting = [roots]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
        else:
            waiting.append(visit(node))


def agreeing(*claims: tuple[str, object, object]) -> None:
    """Raise `CertificateError` unless what a certificate states, by name, is what the caller has."""
    for what, stated, own in claims:
        if stated != own:
            raise CertificateError(f"{what}: {stated} in the certificate, {own} here")


def typed(value: object, kind: type[Kind]) -> Kind:
    """Return a JSON value of exactly this type, or raise `CertificateError`."""
    if type(value) is not kind:
        raise CertificateError(f"{kind.__name__} expected, not {value!r:.40}")
    return value


def integers(value: object, length: int) -> list[int]:
    """Return a JSON array of so many whole numbers, or raise `CertificateError`."""
    found = typed(value, list)
    if len(found) != length or not {*map(type, found)} <= {int}:
        raise CertificateError(f"{length} whole numbers expected, not {value!r:.40}")
    return found


def _object(text: str) -> Record:
    try:
        return typed(json.loads(text, object_pairs_hook=unique_keys), dict)
    except (ValueError, RecursionError) as error:
        what = f"{error.msg}, character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
        raise CertificateError(f"no record in the layout of a certificate: {what}") from error


def _value(kind: Any, value: object) -> Any:
    """Return a value of a header as the type that its annotation names."""
    if get_origin(kind) is list:
        return [_value(get_args(kind)[0], entry) for entry in typed(value, list)]
    if get_origin(kind) is dict:
        return {name: _value(get_args(kind)[1], entry) for name, entry in typed(value, dict).items()}
    return {float: _float, Fraction: _fraction}.get(kind, lambda own: typed(own, kind))(value)


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
