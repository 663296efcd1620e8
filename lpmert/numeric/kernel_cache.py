"""Where compiled kernels are kept, so that none is ever taken for another state of the sources.

numba's own cache looks at the file of a kernel alone: a kernel whose callee in another file has changed is taken
unchanged, and one whose argument's class has moved cannot even be read. Here one folder holds the kernels of one numba,
numpy, Python and processor, and the name of a file in it says everything else that its kernel was compiled from. A hash
of all kernels' sources in the name of the folder would do as well, but every change to one kernel would then compile
all of them anew, and kernels of other packages, which metrics may bring along, would not be seen. Each file is written
at once under its final name, and whatever goes wrong with them costs time alone.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import pickle
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import llvmlite.binding as _binding
import numba
import numpy as np
from numba.core import config as _config
from numba.core import types as _types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys as _rtsys
from numba.core.serialize import dumps as _dumps
from numba.core.sigutils import normalize_signature as _normalize

from lpmert.numeric.claims import claim, release, wait_for, writing
from lpmert.system.caches import check_owner, user_cache_folder
from lpmert.system.compilation import compilation
from lpmert.system.memory import loading

config: Any = _config
types: Any = _types
_numba_pickle: Any = _dumps
_normalize_signature: Any = _normalize
_compile_result: Any = CompileResult
_runtime: Any = _rtsys
_llvm: Any = _binding
_PACKAGE = __name__.partition(".")[0]
_FOLDER = "kernels-"
_DIGITS = 16
_CHECKSUM = hashlib.sha256().digest_size
_DAY = 86_400.0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_COMPILER = [
    Path(__file__).with_name(f"{name}.py").read_bytes() for name in ("handed", "kernels", "stores", "unlinked")
]
"""The sources that say how numba compiles; what another state of them made may not fit together with theirs."""

_OTHER_STATES = 3
"""States of the sources for which a kernel is kept beside the present one: other versions may take turns with it."""

_BEGUN = time.time()

_UNUSED = 90 * _DAY
"""A folder for another numba, numpy, Python or processor is removed after this time without use."""


class KernelCache(NullCache):
    """The compiled forms of one kernel, one file for each signature: a checksum, then the signature and the code.

    Where nothing can be written, kernels live in memory, and the log says so once.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    @property
    def cache_path(self) -> str | None:
        """The folder, or `None` if there can be none."""
        place = folder()
        return None if place is None else str(place)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, or `None` if it is to be compiled; wait for a process that does so."""
        with loading():
            _runtime.initialize(target_context)  # all else that compiled code needs; `refresh` takes half a second
            kernel = self._loaded(sig, target_context)
        if kernel is None and self._other_had_it(sig):
            kernel = self._loaded(sig, target_context)
        if kernel is not None:
            compilation().found(self._name())
        return kernel

    def wanted(self, sig: Any) -> bool:
        """Whether a kernel is not in the cache, and nobody is about to change that."""
        file = self._file(sig)
        _make_folder(file.parent)
        wanted = not file.exists() and claim(file)
        release(file)
        return wanted

    def size(self, sig: Any) -> int:
        """Return the number of kernels that one consists of, by which they can be ordered before they are compiled."""
        return len(_with_callees(self._kernel, sig))

    def _other_had_it(self, sig: Any) -> bool:
        """Take a kernel in hand, or wait while another process has it; return whether that may have come to an end.

        For the first of several that are needed together, helpers begin with the others.
        """
        first = not compilation().running
        if first:
            release()  # what was given up by an error
        names = _with_callees(self._kernel, sig)
        compilation().need(names)
        try:
            file = self._file(sig)
            _make_folder(file.parent)
            mine = claim(file)
            if first and not self._kernel.options.get("no_cpython_wrapper"):
                from lpmert.numeric.helpers import begin_with

                begin_with(self._kernel.__module__, self._kernel.__name__, _normalize_signature(sig)[0])
        except Exception as error:  # noqa: BLE001 - nothing can be kept, or started: it is compiled here
            logging.getLogger(_PACKAGE).debug("no other process compiles kernels: %r", error)
            return False
        if mine:
            return file.exists()
        with compilation().waiting(self._name()):
            wait_for(file, lambda: compilation().compiled_elsewhere(_new_in(file.parent)))
            if file.exists():
                compilation().compiled_elsewhere(names)
        return True

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        try:
            file = self._file(sig)
            data = _read(file, self._kernel.py_func.__code__.co_filename)
            if data[:_CHECKSUM] != _checksum(file, data[_CHECKSUM:]):
                raise ValueError("damaged")
            stored, compiled = pickle.loads(data[_CHECKSUM:])  # noqa: S301 - what this user's own run wrote
            if stored != sig:
                raise ValueError("for another signature")
            return _compile_result._rebuild(target_context, *compiled)
        except Exception as error:  # noqa: BLE001 - no file, no folder, or whatever numba makes of what it cannot use
            logging.getLogger(_PACKAGE).debug("%s is compiled: %r", self._name(), error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel, and remove those of all but a few other states of the sources."""
        try:
            file = self._file(sig)
            if data.lifted or data.library.has_dynamic_globals:
                release(file)  # it holds addresses of this process
                return
            _make_folder(file.parent)
            library, *others = data._reduce()
            if not self._kernel.options.get("no_cpython_wrapper"):
                library = _unlinkable(library, data.fndesc.llvm_cpython_wrapper_name)
            content = _numba_pickle((sig, (library, *others)))
            try:
                with writing:
                    _write(file, _checksum(file, content) + content)
            finally:
                release(file)
        except Exception as error:  # noqa: BLE001 - no folder can be written, or not any more, or the disk is full
            logging.getLogger(_PACKAGE).debug("%s is not cached: %r", self._name(), error)
            _warn()
            return
        self._tidy(file.parent)

    def _tidy(self, place: Path) -> None:
        """Remove what was compiled from states of the sources that have been unused for longest."""
        used: dict[str, float] = {}
        name = self._name()
        files = [file for file in place.glob(f"{name}.*.nbc") if file.name.count(".") == name.count(".") + 3]
        for file in files:
            with suppress(OSError):
                state = file.name.split(".")[-3]
                used[state] = max(used.get(state, 0.0), file.stat().st_mtime)
        used.pop(self._state(), None)
        stale = sorted(used, key=lambda state: -used[state])[_OTHER_STATES:]
        for file in files:
            if file.name.split(".")[-3] in stale:
                with suppress(OSError):  # another user's, or in use where that keeps files
                    file.unlink()

    def _name(self) -> str:
        return _name(self._kernel)

    def _state(self) -> str:
        return state_of(self._kernel)[:_DIGITS]

    def _file(self, sig: Any) -> Path:
        place = folder()
        if place is None:
            raise FileNotFoundError("no folder for compiled kernels")
        arguments, _ = _normalize_signature(sig)
        text = repr((arguments, [_layout(kind) for kind in _classes(arguments)]))
        signature = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
        return place / f"{self._name()}.{self._state()}.{signature}.nbc"


def _unlinkable(library: tuple[Any, ...], entry: str) -> tuple[Any, ...]:
    """Return a library as numba writes it, of which others can see no more than the name of its entry from Python.

    No kernel calls this one, but by its other form, and reading the code that could be linked takes long.
    """
    name, kind, (machine_code, _) = library
    seen = _llvm.parse_assembly(f'define void @"{entry}"() {{ unreachable }}')
    return name, kind, (machine_code, seen.as_bitcode())


def _new_in(place: Path) -> set[str]:
    """Return the names of kernels that have come into a folder since this process first compiled."""
    found = set()
    for file in place.glob("*.nbc"):
        with suppress(OSError):
            if file.stat().st_mtime >= _BEGUN:
                found.add(file.name.rsplit(".", 3)[0])
    return found


@cache
def folder() -> Path | None:
    """Return the folder of kernels for this numba, numpy, Python and processor; `None` for users without a home.

    It lies in NUMBA_CACHE_DIR, if that is set, or else in the user's folder for caches.
    """
    processor = cpu_target.target_context.codegen().magic_tuple()
    parts = (numba.__version__, llvmlite.__version__, np.__version__, sys.version, processor, _COMPILER)
    state = hashlib.sha256(repr(parts).encode()).hexdigest()[:_DIGITS]
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else user_cache_folder()
    return None if base is None else base / f"{_FOLDER}{state}"


def _make_folder(place: Path) -> None:
    """Make the folder, and where it is new, remove those that have not been used for long."""
    if place.is_dir():
        return
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in place.parent.glob(f"{_FOLDER}{'[0-9a-f]' * _DIGITS}"):
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - _UNUSED:
                shutil.rmtree(other, ignore_errors=True)


@cache
def _warn() -> None:
    """Say once, and not again in every worker, that kernels are not kept."""
    if multiprocessing.parent_process() is None:
        logging.getLogger(_PACKAGE).warning(
            "kernels cannot be cached, and every run compiles them anew; set NUMBA_CACHE_DIR to a folder you can write"
        )


@cache
def state_of(kernel: Any) -> str:
    """Return a hash of everything a kernel is compiled from but its arguments, numba and the processor.

    That is, for the kernel and all functions it calls, in whatever file, their instructions, the options of kernels,
    and the values of the globals and enclosing variables they name. Comments and other functions do not count.
    """
    parts = {f"options: {_options(kernel)}"}
    seen: set[FunctionType] = set()
    waiting = [kernel.py_func]
    while waiting:
        own = waiting.pop()
        if own in seen:
            continue
        seen.add(own)
        parts.add(f"{own.__module__}.{own.__qualname__}: {own.__defaults__} {_options(own)}")
        parts.update(_instructions(own.__code__))
        for name, value in _named_values(own):
            called = getattr(value, "py_func", value)  # of our kernels, or of numba's
            if called is not value:
                parts.add(f"{name}: {_options(value)}")
            if isinstance(called, FunctionType):
                waiting.append(called)
            elif isinstance(called, type):
                parts.add(f"{name}: {_layout(called)}")
            elif isinstance(called, np.ndarray):
                parts.add(f"{name}: {called.dtype} {called.shape} {called.tobytes().hex()}")
            elif not isinstance(called, ModuleType):
                parts.add(f"{name}: {type(called).__name__} {called!r}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _options(kernel: Any) -> list[tuple[str, Any]]:
    """Return the options that numba compiles a kernel with, ours or another's, or an operation of either ledger."""
    options: dict[str, Any] = getattr(kernel, "options", None) or getattr(kernel, "targetoptions", None) or {}
    return sorted(options.items())


def _with_callees(kernel: Any, sig: Any) -> set[str]:
    """Return the names of a kernel and of all that it calls for these arguments, as far as can be told beforehand."""
    arguments, _ = _normalize_signature(sig)
    classes = set(_classes(arguments))
    names: set[str] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [kernel]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        function = getattr(one, "py_func", one)
        if function is not one:
            names.add(_name(one))
        either = getattr(function, "of_either_ledger", None)
        if either is not None:
            waiting.append(either[2] if classes.isdisjoint(either[0]) else either[1])
        elif isinstance(function, FunctionType):
            waiting.extend(value for _, value in _named_values(function) if callable(value))
    return names


def _name(kernel: Any) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"


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
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_exceptiontable.hex()}"
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, CodeType):
            yield from _instructions(constant)
        else:
            yield f"{place}: {sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)}"


def _layout(kind: type) -> tuple[str, str, tuple[str, ...]]:
    """Return what code that uses an object of this class rests on: for a named tuple, the order of its fields."""
    return kind.__module__, kind.__qualname__, getattr(kind, "_fields", ())


def _classes(arguments: Any) -> Iterator[type]:
    """Yield the classes of named tuples among types of arguments."""
    for kind in arguments:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind)


def _checksum(path: Path, content: bytes) -> bytes:
    return hashlib.sha256(path.name.encode() + content).digest()


def _read(path: Path, source: str) -> bytes:
    """Return what a file holds; raises `PermissionError` as `check_owner` does, and where others can write to it."""
    with path.open("rb") as stream:
        state = os.fstat(stream.fileno())
        check_owner(state, path, source)
        if os.name == "posix" and state.st_mode & _BY_OTHERS:
            raise PermissionError(f"others can write to {path}")
        if state.st_mtime < time.time() - _DAY:
            with suppress(OSError):  # a folder that is only read
                os.utime(path)
                os.utime(path.parent)
        return stream.read()


def _write(path: Path, data: bytes) -> None:
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        scratch.write_bytes(data)
        scratch.chmod(scratch.stat().st_mode & ~_BY_OTHERS)  # with a umask of 002 the group could write
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
