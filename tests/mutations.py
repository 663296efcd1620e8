"""Damaged files: each is read whole, or refused with an error that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lpmert.errors import DataError

Read = TypeVar("Read")


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
    """What is read, or `None` where it is refused by an error that names the path, or says `unless`."""
    try:
        return read()
    except DataError as error:
        message = str(error)
        if not message.startswith(str(path)) and (unless is None or unless not in message):
            pytest.fail(f"no path in {message!r}")
        return None
