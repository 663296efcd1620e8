"""Where compiled kernels are kept, so that none is ever taken for another state of the sources.

numba's own cache looks at the file of a kernel alone: a kernel whose callee in another file has changed is taken
unchanged, and one whose argument's class has moved cannot even be read. Here the name of a file says everything that
its kernel was compiled from, each is written at once under its final name, and whatever goes wrong with them costs time
alone.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import pickle
import secrets
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, NullCache, UserWideCacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps as _dumps
from numba.core.sigutils import normalize_signature as _normalize

_numba_pickle: Any = _dumps
_normalize_signature: Any = _normalize
_PACKAGE = __name__.partition(".")[0]
_TAG = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
_DIGITS = 16
_CHECKSUM = hashlib.sha256().digest_size


class KernelCache(NullCache):
    """The compiled forms of one kernel, one file for each signature: a checksum, then the signature and the code.

    They lie where numba would put them: in NUMBA_CACHE_DIR, beside the source, or in the user's cache folder. Where
    nothing can be written, kernels live in memory, and the log says so once.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        _ = self.cache_path  # what numba is told of folders later, for kernels of others, changes nothing here

    @property
    def cache_path(self) -> str | None:
        """The folder, or `None` if none can be written."""
        try:
            return str(_implementation(self._function).locator.get_cache_path())
        except RuntimeError:
            return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, or `None` if it is to be compiled."""
        target_context.refresh()
        if self.cache_path is None:
            _warn()
            return None
        try:
            file = self._file(sig, target_context.codegen())
            data = _read(file, self._function.__code__.co_filename)
            if data[:_CHECKSUM] != _checksum(file, data[_CHECKSUM:]):
                return None
            stored, compiled = pickle.loads(data[_CHECKSUM:])  # noqa: S301 - what this user's own run wrote
            return _implementation(self._function).rebuild(target_context, compiled) if stored == sig else None
        except Exception as error:  # noqa: BLE001 - no file, no folder, or whatever numba makes of what it cannot use
            logging.getLogger(_PACKAGE).debug("%s is compiled: %r", self._function.__qualname__, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, and remove those of earlier states of the sources."""
        try:
            implementation = _implementation(self._function)
            if not implementation.check_cachable(data):
                return
            implementation.locator.ensure_cache_path()
            file = self._file(sig, data.codegen)
            content = _numba_pickle((sig, implementation.reduce(data)))
            _write(file, _checksum(file, content) + content)
            for other in file.parent.glob(f"{self._name()}.*.nbc"):
                if not other.name.startswith(f"{self._name()}.{self._state()}."):
                    with suppress(OSError):  # another user's, or in use where that keeps files
                        other.unlink()
        except Exception as error:  # noqa: BLE001 - no folder can be written, or not any more, or the disk is full
            logging.getLogger(_PACKAGE).debug("%s is not cached: %r", self._function.__qualname__, error)
            _warn()

    def _name(self) -> str:
        return f"{self._function.__module__}.{self._function.__qualname__}.{_TAG}"

    def _state(self) -> str:
        return state_of(self._function)[:_DIGITS]

    def _file(self, sig: Any, codegen: Any) -> Path:
        folder = _implementation(self._function).locator.get_cache_path()
        arguments, _ = _normalize_signature(sig)
        text = repr((arguments, list(_layouts(arguments)), codegen.magic_tuple()))
        signature = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
        return Path(folder, f"{self._name()}.{self._state()}.{signature}.nbc")


class _Implementation(CompileResultCacheImpl):
    """numba's choice of a folder, without one called ~ in the working folder for users who have no home."""

    _locator_classes = [  # noqa: RUF012 - as numba has it
        locator
        for locator in CompileResultCacheImpl._locator_classes
        if locator is not UserWideCacheLocator or os.path.isabs(os.path.expanduser("~"))
    ]


@cache
def _implementation(function: FunctionType) -> Any:
    """Return what finds the folder of a kernel; raises `RuntimeError` if none can be written."""
    return _Implementation(function)  # type: ignore[no-untyped-call]


@cache
def _warn() -> None:
    """Say once, and not again in every worker, that kernels are not kept."""
    if multiprocessing.parent_process() is None:
        logging.getLogger(_PACKAGE).warning(
            "kernels cannot be cached, and every run compiles them anew; set NUMBA_CACHE_DIR to a folder you can write"
        )


@cache
def state_of(function: FunctionType) -> str:
    """Return a hash of everything a kernel is compiled from but its arguments.

    That is numba, and for the kernel and all functions it calls, in whatever file, the contents of their files and the
    values of the globals and enclosing variables they name.
    """
    parts = {numba.__version__, np.__version__}
    seen: set[FunctionType] = set()
    waiting = [function]
    while waiting:
        own = waiting.pop()
        if own in seen:
            continue
        seen.add(own)
        parts.add(_contents(own.__code__.co_filename))
        parts.update(_instructions(own.__code__))  # the file may have changed since it was imported
        for name, value in _named_values(own):
            called = value.py_func if isinstance(value, Dispatcher) else value
            if isinstance(called, FunctionType):
                waiting.append(called)
            elif isinstance(called, type):
                parts.add(f"{name}: {_layout(called)}")
            elif isinstance(called, np.ndarray):
                parts.add(f"{name}: {called.dtype} {called.shape} {called.tobytes().hex()}")
            elif not isinstance(called, ModuleType):
                parts.add(f"{name}: {type(called).__name__} {called!r}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _named_values(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals and enclosing variables that a function's code names, also as parts of our own modules."""
    names = set(_names(function.__code__))
    spaces: list[dict[str, Any]] = [function.__globals__]
    for name in names & set(function.__globals__):
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == _PACKAGE:
            spaces.append(vars(value))
    for space in spaces:
        yield from ((name, space[name]) for name in sorted(names & set(space)))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _instructions(code: CodeType) -> Iterator[str]:
    """Yield what compiled Python code does, wherever and in whatever process it was made."""
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_cellvars} {code.co_freevars}"
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        else:
            yield f"{place}: {sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)}"


@cache
def _contents(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _layout(kind: type) -> tuple[str, str, tuple[str, ...]]:
    """Return what code that uses an object of this class rests on: for a named tuple, the order of its fields."""
    return kind.__module__, kind.__qualname__, getattr(kind, "_fields", ())


def _layouts(arguments: Any) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for kind in arguments:
        if isinstance(kind, types.BaseNamedTuple):
            yield _layout(kind.instance_class)  # type: ignore[attr-defined]
        if isinstance(kind, types.BaseTuple):
            yield from _layouts(kind)


def _checksum(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + content).digest()


def _read(path: Path, source: str) -> bytes:
    """Return what a file holds; raises `PermissionError` for one of a user who could not change the source either.

    In a folder that others can write, such as one in /tmp, they could leave code for us to run.
    """
    with path.open("rb") as stream:
        trusted = () if os.name != "posix" else (os.geteuid(), 0, os.stat(source).st_uid)
        if trusted and os.fstat(stream.fileno()).st_uid not in trusted:
            raise PermissionError(f"{path} belongs to another user")
        return stream.read()


def _write(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        scratch.write_bytes(data)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
