"""What commands have written, told apart by its content: results, checks, tunings and comparisons of the same lists."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lpmert.errors import DataError
from lpmert.model.given import MAGNITUDE_LIMIT
from lpmert.quoting import quoted
from lpmert.result import Result
from lpmert.result_schema import fault
from lpmert.system.files import read_text

_MARKS: Mapping[str, frozenset[str]] = {
    "tuning": frozenset({"recommended", "averaged", "optimum"}),
    "comparison": frozenset({"methods", "complete", "optimum"}),
    "check": frozenset({"excess", "optimum"}),
    "result": frozenset({"status", "trace"}),
}
"""Keys that tell what a document is."""

_COMMANDS = {"tuning": "tune", "comparison": "compare", "check": "check", "result": "solve"}
"""What writes it."""


@runtime_checkable
class Told(Protocol):
    """What can tell all that it holds as plain numbers: results, checks, tunings, comparisons."""

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""


Source = Told | str | Path
"""An outcome, or the file that it was written to."""


@dataclass(frozen=True)
class Document:
    """One outcome: the name it goes by, its kind, all that it holds, and its result, if one was found."""

    name: str
    kind: str
    content: dict[str, Any]
    result: Result | None

    @property
    def fingerprint(self) -> str:
        """Of the lists."""
        return str(self.content["fingerprint"] if self.result is None else self.result.fingerprint)


@dataclass(frozen=True)
class Documents:
    """All outcomes, of the same lists; main: the result that the page is about."""

    all: tuple[Document, ...]

    @property
    def main(self) -> Document:
        """The first outcome that has a result, one of its own rather than that of a comparison."""
        found = [one for one in self.all if one.result is not None]
        return next((one for one in found if one.kind != "comparison"), found[0])

    @property
    def result(self) -> Result:
        """The result that the page is about."""
        result = self.main.result
        if result is None:
            raise DataError("no result among these")
        return result

    def of_kind(self, kind: str) -> Sequence[Document]:
        """Return the outcomes of one kind."""
        return [one for one in self.all if one.kind == kind]


def documents(sources: Iterable[Source]) -> Documents:
    """Return outcomes, read from files where they are such.

    Raises `DataError` for a file that holds none, where there is no result among them, and for outcomes of other lists
    than the first one.
    """
    found = [_read(source, place) for place, source in enumerate(sources, 1)]
    if not any(one.result is not None for one in found):
        trouble = "a report needs a result; write one with `lpmert solve ... -o result.json`"
        raise DataError(trouble, path=found[0].name if found else None)
    for one in found[1:]:
        if one.fingerprint != found[0].fingerprint:
            raise DataError(f"is about other lists than {found[0].name}: report them apart", path=one.name)
        first, own = found[0].result, one.result
        if first is not None and own is not None and first.names != own.names:
            raise DataError(f"has other features than {found[0].name}", path=one.name)
    return Documents(tuple(found))


def _read(source: Source, place: int) -> Document:
    if not isinstance(source, str | os.PathLike):
        return _told(source.to_dict(), f"number {place}")
    try:
        content = json.loads(read_text(source))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error}); pass what `lpmert solve -o` writes", path=source) from error
    if not isinstance(content, dict):
        raise DataError("not an outcome of lpmert; pass what `lpmert solve -o` writes", path=source)
    return _told(content, os.fspath(source))


def _told(content: dict[str, Any], name: str) -> Document:
    kind = next((kind for kind, keys in _MARKS.items() if keys <= content.keys()), None)
    if kind is None:
        raise DataError(
            "neither a result nor a check, a tuning or a comparison; pass what solve, check, tune or compare write "
            "with -o",
            path=name,
        )
    try:
        wrong = fault(content, kind)
        if wrong is not None:
            raise ValueError(wrong)
        own = content if kind == "result" else content["optimum"]
        result = None if own is None else Result.from_dict(own)
        for what, weights in _weights(content, kind):
            if result is not None and weights.keys() != set(result.names):
                raise ValueError(f"{quoted(what)} has other features than the optimum")
            if any(abs(weight) > MAGNITUDE_LIMIT for weight in weights.values()):
                raise ValueError(f"{quoted(what)} has a weight beyond {MAGNITUDE_LIMIT:g}")
        return Document(name, kind, content, result)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        again = f"write it again with `lpmert {_COMMANDS[kind]} -o`"
        raise DataError(f"not a {kind} of this version of lpmert ({error}); {again}", path=name) from error


def _weights(content: dict[str, Any], kind: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield all weights of a document beside those of its optimum, and where they are."""
    yield "weights", content.get("weights", content["optimum"]["weights"] if content.get("optimum") else {})
    if kind == "tuning":
        yield "averaged.weights", content["averaged"]["weights"]
    for entry in content["methods"] if kind == "comparison" else ():
        for run in entry["runs"]:
            yield f"the weights of {entry['name']}", run["weights"]
