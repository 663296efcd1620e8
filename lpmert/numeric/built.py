"""Kernels that were compiled beforehand, in one extension module that `lpmert compile` makes.

The module needs neither numba nor a compiler. It checks nothing of its arguments, so that it gets only what it was
built for; numba compiles for all else. `entries.json` says what that is, for each entry:

    module, kernel, argument, argument, ...

An argument is f8, i8 or b1; an array such as f8:2C with its element, dimensions and layout (C, F, or A for any), and r
at the end if it may be read-only; or the name of a named tuple, whose module and fields stand in `tuples`. Child*2 is a
tuple of two of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lpmert.system.caches import cache_folder, check_not_shared, check_owner
from lpmert.system.memory import loading

MODULE = "_kernels"
OWN = "built-"
"""What the folders of modules that users made begin with."""

_PACKAGE = Path(__file__).resolve().parent.parent
_ENTRIES = Path(__file__).with_name("entries.json")
_SCALARS = {"i8": (int, np.int64), "f8": (float, np.float64), "b1": (bool, np.bool_)}
_LAYOUTS: dict[str, Callable[[Any], object]] = {
    "C": attrgetter("carray"),
    "F": attrgetter("farray"),
    "A": attrgetter("behaved"),
    "Cr": lambda flags: flags.c_contiguous and flags.aligned,
    "Fr": lambda flags: flags.f_contiguous and flags.aligned,
    "Ar": attrgetter("aligned"),
}
"""What flags of an array say of its layout; all arrays are aligned, and writable unless they may be read-only."""

Kind = tuple[Any, ...]
"""What an argument must be: (classes of a number,), (class, kinds of the fields), or (dtype, dimensions, layout)."""


def built_kernel(module: str, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return what runs a kernel as it was built, and `otherwise` where its arguments do not fit; `None` if none was."""
    extension = _extension()
    if extension is None:
        with loading(), suppress(ImportError):
            import_module("numba")  # now, as it will be needed: what it takes is no sign of what the call will take
        return None
    tuples = read_entries()["tuples"]
    variants = [
        (_kinds(arguments, tuples), getattr(extension, symbol(number)))
        for number, arguments in _variants().get((module, name), [])
    ]
    if not variants:
        return None

    def run(*arguments: Any) -> Any:
        for kinds, entry in variants:
            if len(arguments) == len(kinds) and _fit(arguments, kinds):
                return entry(*arguments)
        return otherwise(*arguments)

    return run


def symbol(number: int) -> str:
    """Return the name of an entry in the extension module."""
    return f"entry_{number}"


@cache
def read_entries() -> dict[str, Any]:
    """Return the table of entries."""
    table: dict[str, Any] = json.loads(_ENTRIES.read_text())
    return table


@cache
def _variants() -> dict[tuple[str, str], list[tuple[int, list[str]]]]:
    """Return, by module and name of a kernel, the numbers of its entries and their arguments."""
    found: dict[tuple[str, str], list[tuple[int, list[str]]]] = {}
    for number, (module, name, *arguments) in enumerate(read_entries()["entries"]):
        found.setdefault((module, name), []).append((number, arguments))
    return found


@cache
def state_of_sources() -> str:
    """Return a name for the state of all sources of the package: the extension module is for one of them."""
    digest = hashlib.sha256(_ENTRIES.read_bytes())
    for name, path in _sources(_PACKAGE, ""):
        with open(path, "rb", buffering=0) as file:
            source = file.read()
        digest.update(b"%s %d " % (name.encode(), len(source)))
        digest.update(source)
    return f"state_{digest.hexdigest()[:16]}"


def _sources(folder: str | Path, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the names within the package and the paths of all sources; every start waits for this."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name.endswith(".py"):
                yield prefix + entry.name, entry.path
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _sources(entry.path, f"{prefix}{entry.name}/")


@cache
def _extension() -> ModuleType | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return None
    for find in (_of_the_package, _of_the_user):
        try:
            with loading():
                extension = find()
        except (ImportError, OSError) as error:
            logging.getLogger("lpmert").debug("no kernels were compiled beforehand: %s", error)
            continue
        if hasattr(extension, state_of_sources()):
            return extension
        logging.getLogger("lpmert").debug("%s is of other sources, and is not used", extension.__file__)
    return None


def ready_made() -> str | None:
    """Return where the module is that is used, if there is one."""
    extension = _extension()
    return None if extension is None else extension.__file__


def _of_the_package() -> ModuleType:
    return import_module(f"{__name__.partition('.')[0]}.{MODULE}")


def own_module() -> Path | None:
    """Return where users keep the module for these sources, this Python and this numpy; `None` for want of a folder."""
    base = cache_folder()
    if base is None:
        return None
    state = hashlib.sha256(repr((state_of_sources(), sys.version, np.__version__)).encode()).hexdigest()[:16]
    return base / f"{OWN}{state}" / f"{MODULE}{EXTENSION_SUFFIXES[0]}"


def _of_the_user() -> ModuleType:
    base = cache_folder()
    path = None if base is None or not any(base.glob(f"{OWN}*")) else own_module()
    if path is None:
        raise FileNotFoundError("nor by `lpmert compile`")
    check_not_shared(path.parent, __file__)
    check_owner(path.stat(), path, __file__)
    spec = spec_from_file_location(f"{__name__.partition('.')[0]}.{MODULE}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _kinds(arguments: Sequence[str], tuples: dict[str, list[str]]) -> tuple[Kind, ...]:
    return tuple(_kind(argument, tuples) for argument in arguments)


def _kind(argument: str, tuples: dict[str, list[str]]) -> Kind:
    if argument in _SCALARS:
        return (_SCALARS[argument],)
    if "*" in argument:
        each, _, number = argument.rpartition("*")
        return tuple, (_kind(each, tuples),) * int(number)
    if argument in tuples:
        module, *fields = tuples[argument]
        return getattr(import_module(module), argument.partition("/")[0]), _kinds(fields, tuples)
    element, _, shape = argument.partition(":")
    return np.dtype(element), int(shape[0]), _LAYOUTS[shape[1:]]


def _fit(values: Sequence[Any], kinds: Sequence[Kind]) -> bool:
    """Whether values are exactly of these kinds."""
    for value, kind in zip(values, kinds, strict=True):
        if len(kind) == 3:
            if value.__class__ is not np.ndarray or value.dtype != kind[0] or value.ndim != kind[1]:
                return False
            if not kind[2](value.flags):
                return False
        elif len(kind) == 2:
            if value.__class__ is not kind[0] or len(value) != len(kind[1]) or not _fit(value, kind[1]):
                return False
        elif value.__class__ not in kind[0]:
            return False
    return True
