"""Checkpoints: the state of a search, saved from time to time, so that it can be resumed after its process has died.

A file consists of a line that names the format, a line of JSON, the bytes of all arrays, and the SHA-256 of everything
before it. The JSON identifies the data and the settings; only a search with the same data and settings can resume.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, LpmertError, MethodError, reason_of
from lpmert.quoting import quoted
from lpmert.system.files import owned, scratch_file
from lpmert.version import __version__

logger = logging.getLogger("lpmert")

FORM = "lpmert checkpoint 3"

_EVERY = 60.0  # seconds between two checkpoints
_SHARE = 0.02  # largest share of the time that writing checkpoints may take

_ARRAY = "array"

_STATE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RuntimeError)

_NO_SUCH = "holds no state of such a search, whatever its checksum says"

State = Mapping[str, Any]
"""What a search needs to resume: numbers, texts, `None`, arrays, and lists, tuples and mappings of these by name."""


class CheckpointFile(NamedTuple):
    """Where checkpoints are written, and whether to resume the search that is already there."""

    path: str | Path
    resume: bool = False


@dataclass
class Checkpoint:
    """The checkpoint file of a search; without a path, nothing is written.

    identity: what must be equal for a search to resume, by name. state: the state to resume from, if any.
    """

    path: Path | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    state: State | None = None
    _due: float = field(default_factory=lambda: time.monotonic() + _EVERY, init=False)

    def keep(self, state: Callable[[], State], *, now: bool = False) -> None:
        """Write the state if a checkpoint is due, or at the end of the search (`now`). Failures are only logged."""
        began = time.monotonic()
        if self.path is not None and (now or began >= self._due):
            try:
                _write(self.path, self.identity, state())
            except DataError as error:
                then = "no checkpoint was written at the end" if now else "the search continues, and tries again later"
                logger.log(logging.ERROR if now else logging.WARNING, "%s; %s", error, then)
            ended = time.monotonic()
            self._due = ended + max(_EVERY, (ended - began) / _SHARE)

    @contextmanager
    def restoring(self, passing: Callable[[BaseException], bool] | None = None) -> Iterator[None]:
        """Turn errors within the block into a `DataError` that blames the state in the file.

        passing: tells which errors have another cause and are raised unchanged.
        """
        try:
            yield
        except LpmertError:
            raise
        except _STATE_ERRORS as error:
            if self.path is None or self.state is None or (passing is not None and passing(error)):
                raise
            raise _refused(f"{_NO_SUCH} ({type(error).__name__}: {quoted(str(error))})", self.path) from error


@contextmanager
def opened(file: CheckpointFile | None, identity: Callable[[], Mapping[str, str]]) -> Iterator[Checkpoint]:
    """Yield the checkpoint of a search, and keep its file locked while the block runs.

    Raises `DataError` as `state_in`, and if another search holds the file; `MethodError` if the path is none.
    """
    if file is None:
        yield Checkpoint()
        return
    if not isinstance(file.path, str | Path):
        raise MethodError(f"checkpoint must be a path, or None; got {quoted(file.path)}")
    path = Path(file.path)
    with owned(path.resolve(), path):
        known = identity()
        yield Checkpoint(path, known, state_in(path, known, resume=file.resume))


def state_in(path: Path, identity: Mapping[str, str], *, resume: bool) -> State | None:
    """Return the state to resume from, if there is one.

    Raises `DataError` if the file belongs to another search or is damaged, or if it exists but `resume` is unset.
    """
    if not path.exists():
        if resume:
            logger.warning("%s: there is no checkpoint yet; the search begins anew", path)
        return None
    if not path.is_file():
        raise DataError("is no regular file; keep checkpoints in another place", path=path)
    if not resume:
        raise DataError("holds a search already: continue it (resume), or remove the file", path=path)
    header, state = _read(path)
    for name, value in identity.items():
        if (there := header.get(name)) != value:
            change = f"{name}: {quoted(str(there))} there, {quoted(value)} here"
            raise DataError(f"is of another search ({change}); name another file, or use its settings", path=path)
    return state


def identity_of(fingerprint: str, signature: str, method: str, seed: int, initial: Any) -> dict[str, str]:
    """Return what must be equal for a search to resume, by names that messages quote."""
    start = "none" if initial is None else hashlib.sha256(np.asarray(initial, dtype=float).tobytes()).hexdigest()
    named = {"data": fingerprint, "metric or region": signature, "method": method, "seed": str(seed)}
    return {**named, "initial weights": start, "version of lpmert": __version__}


def _write(path: Path, identity: Mapping[str, str], state: State) -> None:
    arrays = [np.empty(0, dtype=np.uint8)]
    end = 0

    def packed(value: Any) -> Any:
        nonlocal end
        if isinstance(value, np.ndarray):
            begin, end = end, end + value.nbytes
            arrays.append(value.ravel().view(np.uint8))
            return {_ARRAY: [value.dtype.str, begin, *value.shape]}
        if isinstance(value, Mapping):
            return {name: packed(entry) for name, entry in value.items()}
        if isinstance(value, list | tuple):
            return [packed(entry) for entry in value]
        return value.item() if isinstance(value, np.generic) else value

    header = f"{FORM}\n{json.dumps({**identity, 'state': packed(state)})}\n".encode()
    numbers: Any = np.concatenate(arrays)
    digest = hashlib.sha256(header)
    digest.update(numbers)
    with scratch_file(path.resolve(), path) as sink:
        for part in (header, numbers, digest.digest()):
            sink.write(part)


def _read(path: Path) -> tuple[dict[str, Any], State]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {reason_of(error)}", path=path) from error
    if not data.startswith(f"{FORM}\n".encode()):
        raise _refused("is no checkpoint of this version", path)
    end = max(len(data) - hashlib.sha256().digest_size, 0)
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise _refused("is a damaged checkpoint, or was changed after it was written: its checksum is wrong", path)
    try:
        begin = data.index(b"\n", len(FORM) + 1) + 1
        header = json.loads(data[len(FORM) : begin])

        def unpacked(value: Any) -> Any:
            if isinstance(value, dict):
                if value.keys() == {_ARRAY}:
                    kind, first, *shape = value[_ARRAY]
                    numbers = np.frombuffer(data, kind, math.prod(shape), begin + first)
                    return numbers.reshape(shape).copy()
                return {name: unpacked(entry) for name, entry in value.items()}
            return [unpacked(entry) for entry in value] if isinstance(value, list) else value

        return header, unpacked(header["state"])
    except _STATE_ERRORS as error:
        raise _refused(_NO_SUCH, path) from error


def _refused(trouble: str, path: Path) -> DataError:
    return DataError(f"{trouble}; remove it, or name another", path=path)
