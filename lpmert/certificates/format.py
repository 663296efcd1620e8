"""The file format of certificates, read and written: a header, then a tree of records, one JSON record a line.

Writer and checker stream it, so that neither holds the tree in memory. proofs/certificates.md specifies the format.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from lpmert.errors import CertificateError, DataError
from lpmert.files import atomic_writer, lines, unique_keys
from lpmert.limits import checkpoint, limited
from lpmert.quoting import LONGEST_REFUSAL, listed, shortened

SCHEMA = 2
BOXES = "boxes"

Record = dict[str, Any]
Kind = TypeVar("Kind")
Node = TypeVar("Node")

_LARGEST = 10**300  # fractions are no larger, so that doubles can show them

_PARSED_BYTES = 25
"""Memory that a character of JSON takes at most when it is parsed; arrays of empty arrays take the most."""

SCHEMA_KEY = "lpmert certificate"
OPTIONAL = ("equations", "sums", "at_most", "budget")
TREE = ', "tree": ['
END = "]}"


@dataclass(frozen=True)
class Header:
    """What a certificate claims, and the numbers that its tree refers to.

    fingerprint of the lists; metric: its signature; ties: which of several hypotheses with identical features counts;
    found_by: the run that found the weights, for information. loss: the exact loss of the weights; bound: the exact
    lower bound on the loss of all weights. weights: one for each feature. limits [R, D]: the claim is about weights
    whose product with every limit is positive. exponents: for each feature that the boxes span, the power of two by
    which it is multiplied first; all other features depend linearly on these. equations [E, D]: the claim is about
    weights whose product with every equation is 0. sums: for a ratio of sums, the sums whose loss is the bound.
    at_most: how many weights may be other than 0; 0 if that is not limited. budget: the name of a second sum, and the
    most that it may be. The last four are not in the file where they are empty or 0.
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
    no weights reach more. nonnegative: whether the bound is about weights without negative entries only. weights: one
    for each feature. exponents: the powers of two by which the features are divided; cones are of weights for the
    divided features.
    """

    ranking: str
    fingerprint: str
    score: Fraction
    bound: Fraction
    nonnegative: bool
    weights: dict[str, float]
    exponents: dict[str, int]


class CertificateReader:
    """Reads the header of a certificate, then its records one at a time.

    line: the number of the line read last. on_line: called with the number of each line. Raises `CertificateError` if
    the file is no certificate of this schema, and `DataError` if there is no such file.
    """

    def __init__(self, path: str | Path, on_line: Callable[[int], object] = lambda _: None) -> None:
        self.line = 0
        self.path = path
        self._on_line = on_line
        self._lines = lines(path)

    @contextmanager
    def checking(self, time_limit: float | None, memory_limit: int | None) -> Iterator[None]:
        """Apply limits to a check, and put the file and the line in front of the messages of its errors."""
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

    def header(self, header_type: type[Any] = Header) -> Any:
        if not Path(self.path).exists() or Path(self.path).is_dir():
            raise DataError("there is no such file, or it is a folder", path=self.path)
        text = self._next()
        content = _object(text.removesuffix(TREE) + "}")
        schema = typed(content.pop(SCHEMA_KEY, None), int)
        rankings = header_type is RankingHeader
        if schema == SCHEMA and ("ranking" in content) != rankings:
            other = "N-best lists: check it with lpmert verify" if rankings else "lpmert rank --verify"
            raise CertificateError(f"this is a certificate for {other}")
        types = get_type_hints(header_type)
        names = [name for name in types if name not in OPTIONAL or content.get(name)]
        if schema != SCHEMA or not text.endswith(TREE) or list(content) != names:
            raise CertificateError(f"schema {SCHEMA} needs a header with {listed(names)}; this one has schema {schema}")
        return header_type(**{name: _value(types[name], value) for name, value in content.items()})

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
        checkpoint(_PARSED_BYTES * len(text))
        return text


@contextmanager
def certificate_writer(
    path: str | Path, header: Header | RankingHeader, on_record: Callable[[int, None], object] = lambda *_: None
) -> Iterator[Callable[[Record], None]]:
    """Open a certificate for writing and yield the function that adds a record to its tree.

    The file appears when the block ends, and not at all if the block raises. It is compressed if its name ends in .gz
    or .xz. The same records always give the same bytes. on_record: called with the number of records so far.
    Raises `DataError` if the file cannot be written.
    """
    with atomic_writer(path) as file:
        claims = {key: _plain(value) for key, value in asdict(header).items() if value or key not in OPTIONAL}
        file.write(json.dumps({SCHEMA_KEY: SCHEMA, **claims})[:-1] + TREE)
        count = 0

        def add(record: Record) -> None:
            nonlocal count
            file.write((",\n" if count else "\n") + json.dumps(record, separators=(",", ":")))
            count += 1
            on_record(count, None)

        yield add
        file.write(f"\n{END}\n")


def _plain(value: Any) -> Any:
    """Return nested values as certificates hold them: fractions and hexadecimal floats as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, Fraction):
        return str(value)
    return value.hex() if isinstance(value, float) else value


def depth_first(roots: Iterator[Node], visit: Callable[[Node], Iterator[Node]]) -> None:
    """Visit nodes depth first; `visit` returns the open children of a node, each created only when its turn comes."""
    stack = [roots]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        else:
            stack.append(visit(node))


def agreeing(*claims: tuple[str, object, object]) -> None:
    """Raise `CertificateError` unless claims, each a name, the certificate's value and the one here, all agree."""
    for name, stated, here in claims:
        if stated != here:
            raise CertificateError(f"{name}: {stated} in the certificate, {here} here")


def typed(value: object, kind: type[Kind]) -> Kind:
    """Return a JSON value of exactly this type, or raise `CertificateError`."""
    if type(value) is not kind:
        raise CertificateError(f"{kind.__name__} expected, not {value!r:.40}")
    return value


def integers(value: object, length: int) -> list[int]:
    """Return a JSON array of `length` integers, or raise `CertificateError`."""
    array = typed(value, list)
    if len(array) != length or not {*map(type, array)} <= {int}:
        raise CertificateError(f"{length} whole numbers expected, not {value!r:.40}")
    return array


def _object(text: str) -> Record:
    try:
        return typed(json.loads(text, object_pairs_hook=unique_keys), dict)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg}, character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
        raise CertificateError(f"no record in the layout of a certificate: {reason}") from error


def _value(kind: Any, value: object) -> Any:
    """Return a JSON value of a header as the type that its annotation names."""
    if get_origin(kind) is list:
        return [_value(get_args(kind)[0], entry) for entry in typed(value, list)]
    if get_origin(kind) is dict:
        return {name: _value(get_args(kind)[1], entry) for name, entry in typed(value, dict).items()}
    return {float: _float, Fraction: _fraction}.get(kind, lambda entry: typed(entry, kind))(value)


def _float(value: object) -> float:
    try:
        number = float.fromhex(typed(value, str))
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise CertificateError(f"a hexadecimal floating-point number expected, not {value!r:.40}")
    return number


def _fraction(value: object) -> Fraction:
    digits = re.fullmatch(r"-?[0-9]{1,1000}(/[1-9][0-9]{0,1000})?", typed(value, str))
    if digits is None or abs(number := Fraction(digits.group())) > _LARGEST:
        raise CertificateError(f"a fraction such as 7/2, of at most 1e300, expected, not {value!r:.40}")
    return number
