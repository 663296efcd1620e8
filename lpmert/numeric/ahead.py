"""Compiles kernels beforehand: what `entries.json` lists, into one extension module.

`lpmert compile` does this for users.

It needs numba and a C compiler. The module is for this version of Python, and for the processor that NUMBA_CPU_NAME
says, "generic" for any of the architecture. tests/doors.py writes the list.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numba.core import types as _types
from numba.core.compiler import Flags

from lpmert.numeric.built import MODULE, read_entries, state_of_sources, symbol
from lpmert.numeric.entry_types import NUMBERS, signature_of

types: Any = _types


class _WithoutLock(Flags):
    """Flags of compiled kernels that let go of the interpreter's lock, for which numba's builder has no option."""

    def __init__(self, *source: Any) -> None:
        super().__init__(*source)  # type: ignore[no-untyped-call]
        if not source:
            self.__setattr__("release_gil", True)


def build(folder: Path, told: Callable[[int, int], object] = lambda *_: None) -> Path:
    """Build the extension module in a folder; return its path.

    told: gets the number of kernels compiled, and of all, after each. Raises `RuntimeError` without a C compiler.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its announcement that there may be another one some day
        pycc: Any = import_module("numba.pycc")
    import_module("numba.pycc.platform").Toolchain()  # raises the error before anything is compiled
    table = read_entries()
    import_module("lpmert")
    import_module("lpmert.numeric.helpers").start(range(len(table["entries"])), callees=True)
    builder = pycc.CC(MODULE, source_module="lpmert")
    builder.target_cpu = None  # any
    for number, (module, name, *_) in enumerate(table["entries"]):
        told(number, len(table["entries"]))
        kernel = getattr(import_module(module), name)
        signature = signature_of(number)
        handed = kernel.as_callee(signature)
        kernel.callee.compile(handed)
        result = kernel.callee.overloads[handed].signature.return_type
        builder.export(symbol(number), result(*signature))(_calling(kernel, len(signature)))
    builder.export(state_of_sources(), types.int64())(lambda: 0)
    builder.output_dir = str(folder)
    with mock.patch("numba.pycc.compiler.Flags", _WithoutLock):
        builder.compile()
    return folder / str(builder.output_file)


def _calling(kernel: Any, n_arguments: int) -> Any:
    """Return a function that calls a kernel, which is compiled with its own options."""
    names = ", ".join(f"a{number}" for number in range(n_arguments))
    return eval(f"lambda {names}: kernel({names})", {"kernel": kernel})


def entries(compiled: Iterable[tuple[str, str, tuple[Any, ...]]]) -> dict[str, Any]:
    """Return the table of entries for kernels compiled, by module, name and types of the arguments.

    Entries for arrays of any layout come after those for a certain one.
    """
    tuples: dict[str, list[str]] = {}
    found = {
        (module, name, *(_described(kind, tuples) for kind in signature))
        for module, name, signature in sorted(compiled, key=str)
        if all(_buildable(kind) for kind in signature)
    }
    order = sorted(found, key=lambda entry: (entry[:2], sum(kind.endswith(("A", "Ar")) for kind in entry[2:]), entry))
    return {"tuples": dict(sorted(tuples.items())), "entries": [list(entry) for entry in order]}


def _buildable(kind: Any) -> bool:
    if isinstance(kind, types.BaseNamedTuple):
        return all(_buildable(field) for field in kind.types)
    if isinstance(kind, types.UniTuple):
        return _buildable(kind.dtype)
    if isinstance(kind, types.Array):
        return bool(kind.aligned)
    return kind in NUMBERS.values()


def _described(kind: Any, tuples: dict[str, list[str]]) -> str:
    if isinstance(kind, types.BaseNamedTuple):
        own = kind.instance_class
        fields = [own.__module__, *(_described(field, tuples) for field in kind.types)]
        number = 1
        while True:
            name = own.__name__ if number == 1 else f"{own.__name__}/{number}"
            if tuples.setdefault(name, fields) == fields:
                return name
            number += 1
    if isinstance(kind, types.UniTuple):
        return f"{_described(kind.dtype, tuples)}*{kind.count}"
    if isinstance(kind, types.Array):
        return f"{np.dtype(str(kind.dtype)).str[1:]}:{kind.ndim}{kind.layout}{'' if kind.mutable else 'r'}"
    return next(name for name, own in NUMBERS.items() if own == kind)
