"""Checkpoints: what is open in a search, or done of a longer call, kept in a file from time to time, so that it can go
on after its process dies.

A file of numpy's .npz form, without pickled objects: `header`, JSON in UTF-8, and one array for each type of number,
which holds all arrays of this type one after the other. The header names data and settings, which a search that goes on
must have, too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, MethodError
from lpmert.quoting import quoted
from lpmert.result import Result, Status
from lpmert.system.scratch import owned, scratch_file
from lpmert.version import __version__

logger = logging.getLogger("lpmert")

FORM = "lpmert checkpoint 1"

_EVERY = 60.0
"""Seconds between two checkpoints."""

_SHARE = 0.02
"""Share of the time that they may take."""

_ARRAY = "array"

State = Mapping[str, Any]
"""What a search needs to go on: numbers, texts, `None`, arrays, and lists, tuples and mappings of these by name."""


class Keeping(NamedTuple):
    """Where checkpoints are kept, and whether what is there goes on."""

    path: str | Path
    resume: bool = False


@dataclass
class Checkpoint:
    """The file of a search. asked: the settings by name that tell one search from another; resume: whether a search
    that is in the file goes on; every: least seconds between two checkpoints, a minute by default.
    """

    path: Path
    asked: Mapping[str, str]
    resume: bool
    every: float | None = None
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        """Let the first one come in due time."""
        self._due = time.monotonic() + self._pause

    def begin(self) -> State | None:
        """Return the state to go on from, `None` if there is none.

        Raises `DataError` if the file is of another search or damaged, or if it is there and nobody asked for it.
        """
        if not self.path.exists():
            return None
        if not self.path.is_file():
            raise DataError("is no regular file; keep checkpoints in another place", path=self.path)
        if not self.resume:
            raise DataError("holds a search already: go on with it (resume), or remove the file", path=self.path)
        header, state = _read(self.path)
        for name, value in self.asked.items():
            if header.get(name) != value:
                raise DataError(
                    f"is of another search ({name}: {quoted(str(header.get(name)))} there, {quoted(value)} here); name "
                    "another file, or search as that one did",
                    path=self.path,
                )
        return state

    def keep(self, state: Callable[[], State], *, now: bool = False) -> None:
        """Write the state if it is time for it."""
        began = time.monotonic()
        if now or began >= self._due:
            _write(self.path, self.asked, state())
            ended = time.monotonic()
            self._due = ended + max(self._pause, (ended - began) / _SHARE)

    @property
    def _pause(self) -> float:
        return _EVERY if self.every is None else self.every


@contextmanager
def opened(
    keeping: Keeping | None, asked: Callable[[], Mapping[str, str]], every: float | None = None
) -> Iterator[tuple[Checkpoint | None, State | None]]:
    """Own the file of a search while the block runs; yield its checkpoint, and the state to go on from, if any.

    Raises `DataError` as `Checkpoint.begin`, and where another search has the file; `MethodError` for no path.
    """
    if keeping is None:
        yield None, None
        return
    if not isinstance(keeping.path, str | Path):
        raise MethodError(f"checkpoint must be a path, or None; got {quoted(keeping.path)}")
    path = Path(keeping.path)
    with owned(path.resolve(), path):
        checkpoint = Checkpoint(path, asked(), keeping.resume, every)
        state = checkpoint.begin()
        if state is None and keeping.resume:
            logger.warning("%s: there is no checkpoint yet; the search begins anew", path)
        yield checkpoint, state


class Finished:
    """Parts of a call that are done, by name: they are not done again. Without a checkpoint all of them are done anew.

    A part is written as soon as it is done, unless that would take more than its share of the time.
    """

    def __init__(self, checkpoint: Checkpoint | None = None, state: State | None = None) -> None:
        self._checkpoint = checkpoint
        self._parts: dict[str, Any] = dict(state or {})

    def get(self, name: str) -> Any:
        """Return a part, `None` where it is not done."""
        return self._parts.get(name)

    def add(self, name: str, part: Any) -> None:
        """Keep a part that is done."""
        if self._checkpoint is not None:
            self._parts[name] = part
            self._checkpoint.keep(lambda: self._parts)

    def save(self) -> None:
        """Write all parts now."""
        if self._checkpoint is not None and self._parts:
            self._checkpoint.keep(lambda: self._parts, now=True)


@contextmanager
def finished_parts(keeping: Keeping | None, asked: Callable[[], Mapping[str, str]]) -> Iterator[Finished]:
    """Yield the parts of a call that are done; however the block ends, all are written. Raises as `opened`."""
    with opened(keeping, asked, every=0.0) as (checkpoint, state):
        finished = Finished(checkpoint, state)
        try:
            yield finished
        finally:
            finished.save()


def asked_for(fingerprint: str, signature: str, method: str, seed: int, initial: Any) -> dict[str, str]:
    """Return what tells one search from another, by names that a message can use."""
    start = "none" if initial is None else hashlib.sha256(np.asarray(initial, dtype=float).tobytes()).hexdigest()
    named = {"data": fingerprint, "metric or region": signature, "method": method, "seed": str(seed)}
    return {**named, "initial weights": start, "version of lpmert": __version__}


def told_apart(value: Any) -> str:
    """Return a short text that differs where the texts of values do."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def optimum_found(finished: Finished, search: Callable[[], Result]) -> Result:
    """Return the result of a search that is a part of a call, if it is known already; one that was interrupted, or had
    too little memory, is not kept.
    """
    kept = finished.get("optimum")
    if kept is not None:
        return Result.from_dict(json.loads(kept))
    found = search()
    if found.status not in (Status.INTERRUPTED, Status.MEMORY_LIMIT):
        finished.add("optimum", found.to_json())
    return found


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
        raise DataError("is no checkpoint, or a damaged one; remove it, or name another", path=path) from error
