"""Checkpoints: what is open in a search, kept in a file from time to time, so that it can go on after its process dies.

A file of numpy's .npz form, without pickled objects: `header`, JSON in UTF-8, and one array for each type of number,
which holds all arrays of this type one after the other. The header names data and settings, which a search that goes on
must have, too.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.errors import DataError
from lpmert.quoting import quoted
from lpmert.system.scratch import scratch_file
from lpmert.version import __version__

FORM = "lpmert checkpoint 1"

_EVERY = 60.0
"""Seconds between two checkpoints."""

_SHARE = 0.02
"""Share of the time that they may take."""

_ARRAY = "array"

State = Mapping[str, Any]
"""What a search needs to go on: numbers, texts, `None`, arrays, and lists, tuples and mappings of these by name."""


@dataclass
class Checkpoint:
    """The file of a search. asked: the settings by name that tell one search from another; resume: whether a search
    that is in the file goes on.
    """

    path: Path
    asked: Mapping[str, str]
    resume: bool
    _due: float = field(default_factory=lambda: time.monotonic() + _EVERY)

    def begin(self) -> State | None:
        """Return the state to go on from, `None` if there is none.

        Raises `DataError` if the file is of another search or damaged, or if it is there and nobody asked for it.
        """
        if not self.path.exists():
            return None
        if not self.resume:
            raise DataError("holds a search already: go on with it (resume), or remove the file", path=self.path)
        header, state = _read(self.path)
        for name, value in self.asked.items():
            if header.get(name) != value:
                raise DataError(
                    f"is of a search with another {name}: {quoted(str(header.get(name)))}, not {quoted(value)}",
                    path=self.path,
                )
        return state

    def keep(self, state: Callable[[], State], *, now: bool = False) -> None:
        """Write the state if it is time for it."""
        began = time.monotonic()
        if now or began >= self._due:
            _write(self.path, self.asked, state())
            ended = time.monotonic()
            self._due = ended + max(_EVERY, (ended - began) / _SHARE)


def asked_for(fingerprint: str, signature: str, method: str, seed: int, initial: Any) -> dict[str, str]:
    """Return what tells one search from another, by names that a message can use."""
    start = "none" if initial is None else hashlib.sha256(np.asarray(initial, dtype=float).tobytes()).hexdigest()
    named = {"data": fingerprint, "metric or region": signature, "method": method, "seed": str(seed)}
    return {**named, "initial weights": start, "version of lpmert": __version__}


def plain(value: Any) -> Any:
    """Return a value of named tuples and arrays as a state has it."""
    if hasattr(value, "_asdict"):
        return {name: plain(one) for name, one in value._asdict().items()}
    return value


def _write(path: Path, asked: Mapping[str, str], state: State) -> None:
    arrays: dict[str, list[np.ndarray[Any, Any]]] = {}
    lengths: dict[str, int] = {}

    def packed(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            kind = value.dtype.str.lstrip("<>|=")
            arrays.setdefault(kind, []).append(value.ravel())
            begin = lengths.get(kind, 0)
            lengths[kind] = begin + value.size
            return {_ARRAY: [kind, begin, *value.shape]}
        if isinstance(value, Mapping):
            return {name: packed(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [packed(one) for one in value]
        return value.item() if isinstance(value, np.generic) else value

    header = {"form": FORM, **asked, "state": packed(state)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    joined = {kind: np.concatenate(parts) for kind, parts in arrays.items()}
    target = path.resolve()
    with scratch_file(target, path) as sink:
        np.savez(sink, allow_pickle=False, header=text, **joined)


def _read(path: Path) -> tuple[dict[str, Any], State]:
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            if header.get("form") != FORM:
                raise DataError(f"is no checkpoint of this version: {quoted(str(header.get('form')))}", path=path)
            arrays = {kind: file[kind] for kind in file.files if kind != "header"}

        def unpacked(value: Any) -> Any:
            if isinstance(value, dict):
                if value.keys() == {_ARRAY}:
                    kind, begin, *shape = value[_ARRAY]
                    size = int(np.prod(shape, dtype=np.int64))
                    return arrays[kind][begin : begin + size].reshape(shape).copy()
                return {name: unpacked(one) for name, one in value.items()}
            return [unpacked(one) for one in value] if isinstance(value, list) else value

        return header, unpacked(header["state"])
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError("is no checkpoint, or a damaged one", path=path) from error
