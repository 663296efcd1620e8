"""Damaged files: each is read whole, or refused with an error that names it."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st

from lpmert import DataError

Read = TypeVar("Read")
SCALARS = (None, True, "x", "", -0.0, -1, 0.5, 10**400, 2**63, 1e300, float("inf"), "\x1b[31m")
WRONG = (*SCALARS, [], {}, [[1]], {"a": None})  # wrong values for any place of a JSON document


def examples(most: int) -> settings:
    """So many examples, however long they take, that share the folder of their test."""
    return settings(
        max_examples=most,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def damaged(
    data: st.DataObject,
    content: bytes,
    pieces: Sequence[bytes] | st.SearchStrategy[bytes],
    *,
    most: int = 3,
    longest: int = 9,
    cut: bool = False,
) -> bytes:
    """The content with up to `most` parts, none longer than `longest`, replaced by pieces; and perhaps cut short."""
    found, piece = bytearray(content), pieces if isinstance(pieces, st.SearchStrategy) else st.sampled_from(pieces)
    for _ in range(data.draw(st.integers(0, most))):
        place = data.draw(st.integers(0, len(found)))
        found[place : place + data.draw(st.integers(0, longest))] = data.draw(piece)
    if cut and data.draw(st.booleans()):
        del found[data.draw(st.integers(0, len(found))) :]
    return bytes(found)


def read_or_refused(path: Path, read: Callable[[], Read], *, unless: str | None = None) -> Read | None:
    """Return what is read, or `None` if it is refused; the error must name the path, or match `unless`."""
    try:
        return read()
    except DataError as error:
        message = str(error)
        if not message.startswith(str(path)) and (unless is None or not re.search(unless, message)):
            pytest.fail(f"no path in {message!r}")
        return None


def places(value: object, most: int = 2) -> list[tuple[str | int, ...]]:
    """All places in a JSON document, the first ones of each array."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))[:most]
    return [(), *((key, *rest) for key, own in inner for rest in places(own, most))]


def changed(value: Any, place: tuple[str | int, ...], change: Callable[[Any], Any]) -> Any:
    """A copy of a JSON document in which something else stands in one place."""
    if not place:
        return change(value)
    key, *rest = place
    copied = value.copy()
    copied[key] = changed(copied[key], tuple(rest), change)
    return copied


def without(value: Any, place: tuple[str | int, ...]) -> Any:
    """A copy of a JSON document that lacks what stands in one place, which is not the whole."""

    def less(inner: Any) -> Any:
        copied = inner.copy()
        del copied[place[-1]]
        return copied

    return changed(value, place[:-1], less)


def nested(value: Any, depth: int = 100_000) -> str:
    """JSON that is nested too deep for any reader."""
    return "[" * depth + json.dumps(value) + "]" * depth


def wrong_documents(document: Any, most: int = 2) -> Iterator[str]:
    """JSON like a document, with one value replaced by each of `WRONG`, or left out, or very deep."""
    for place in places(document, most):
        for value in WRONG:
            yield json.dumps(changed(document, place, lambda _, value=value: value))
        if place:
            yield json.dumps(without(document, place))
    yield nested(document)
    yield json.dumps(document)[:-1]
