"""Names and keys that must not occur twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lpmert.quoting import quoted


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that an earlier one equals, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record
