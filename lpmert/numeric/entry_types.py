"""The types of arguments for which kernels are compiled beforehand, from `entries.json`, as numba has them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numba import from_dtype
from numba.core import types as _types

from lpmert.numeric.built import read_entries

types: Any = _types
NUMBERS = {"i8": types.int64, "f8": types.float64, "b1": types.boolean}
"""The types of numbers by their names."""


def signature_of(number: int) -> tuple[Any, ...]:
    """Return the types of the arguments of an entry."""
    table = read_entries()
    _, _, *arguments = table["entries"][number]
    return tuple(_type(argument, table["tuples"]) for argument in arguments)


def _type(argument: str, tuples: dict[str, list[str]]) -> Any:
    if argument in NUMBERS:
        return NUMBERS[argument]
    if "*" in argument:
        each, _, number = argument.rpartition("*")
        return types.UniTuple(_type(each, tuples), int(number))
    if argument in tuples:
        module, *fields = tuples[argument]
        kind = getattr(import_module(module), argument.partition("/")[0])
        return types.BaseTuple.from_types([_type(field, tuples) for field in fields], kind)
    element, _, shape = argument.partition(":")
    return types.Array(from_dtype(np.dtype(element)), int(shape[0]), shape[1], readonly=shape.endswith("r"))
