"""Checks of numbers, weights and limits from callers: numbers of Python and numpy are valid, booleans are not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from operator import index
from typing import TypeAlias, TypeVar

import numpy as np

from lpmert.errors import DataError, FloatArray, LpmertError, MethodError
from lpmert.quoting import listed, quoted
from lpmert.result import Limits, Result

Number = TypeVar("Number")


Weights: TypeAlias = Mapping[str, float] | Sequence[float] | FloatArray | Result
"""One number per feature: by name, in the order of the features, or from a result."""


def whole_number(value: object, what: str, least: int, error: type[LpmertError] = MethodError) -> int:
    """Return an integer of Python or numpy as an `int`; raises `error` for anything else or less than `least`."""
    if not isinstance(value, bool) and isinstance(value, Integral) and index(value) >= least:
        return index(value)
    raise error(f"{what} must be a whole number of at least {least}; got {quoted(value)}")


def real_number(value: object) -> float | None:
    """Return a number of Python or numpy as a `float`; `None` for anything else, or a number too large for a double."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer too large for a double
        return None


def finite_number(value: object, what: str, error: type[LpmertError] = DataError) -> float:
    """Return a finite number of Python or numpy as a `float`; raises `error` for anything else."""
    number = real_number(value)
    if number is None or not math.isfinite(number):
        raise error(f"{what} must be a finite number; got {quoted(value)}")
    return number


def are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in values)


def are_texts_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and are_texts(value) and are_texts(value.values())


def named_weights(weights: object, what: str = "weights") -> dict[str, float]:
    """Return weights that have names as a dictionary; raises `DataError` unless all are finite numbers by name."""
    weights = getattr(weights, "by_name", weights)  # of results, and of files of weights
    if not isinstance(weights, Mapping) or not weights:
        raise DataError(f"{what} must be numbers by the names of the features; got {quoted(weights)}")
    names = [str(name) for name in weights]
    return dict(zip(names, weights_array(weights, names, what).tolist(), strict=True))


def weights_array(weights: object, names: Sequence[str], what: str = "weights") -> FloatArray:
    """Return weights [D] in the order of the features; raises `DataError` unless each has exactly one finite number."""
    if hasattr(weights, "of_features"):  # a file of weights
        return np.asarray(weights.of_features(names))
    weights = getattr(weights, "by_name", weights)
    if isinstance(weights, Mapping):
        weights = in_order(weights, names, what)
    if isinstance(weights, str | bytes) or not isinstance(weights, Sequence | np.ndarray):
        raise DataError(f"{what} must be numbers in the order of the features, or by name; got {quoted(weights)}")
    shape = weights.shape if isinstance(weights, np.ndarray) else (len(weights),)
    if shape != (len(names),):
        raise DataError(
            f"{what} need one number for each of the {len(names)} features ({listed(names)}); got shape {shape}"
        )
    if type(weights) is np.ndarray and weights.dtype.kind in "iuf":
        array = weights.astype(np.float64)
    else:
        numbers = [real_number(value) for value in weights]
        array = np.array([math.nan if number is None else number for number in numbers], dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(array))
    if len(wrong):
        d = int(wrong[0])
        raise DataError(f"{what} must be finite numbers; {quoted(names[d])} has {quoted(weights[d])}")
    return array


def in_order(weights: Mapping[str, Number], names: Sequence[str], what: str, *, more: bool = False) -> list[Number]:
    """Return values in the order of `names`; raises `DataError` for missing names, and others unless `more`."""
    known = set(names)
    missing = [name for name in names if name not in weights]
    unknown = [] if more else [str(name) for name in weights if name not in known]
    faults = [
        f"{fault} {listed(features)}"
        for fault, features in (("have none for", missing), ("name unknown features:", unknown))
        if features
    ]
    if faults:
        present = listed([str(name) for name in weights])
        remedy = "" if unknown else "; give 0 where one is not to count"
        raise DataError(
            f"{what} {' and '.join(faults)}; they are for {present}; the features are {listed(names)}{remedy}"
        )
    return [weights[name] for name in names]


def checked_limits(time_limit: object, node_limit: object, gap: object, target: object, memory_limit: object) -> Limits:
    """Check the numbers of a caller, `None` for no limit, and return them as limits; raises `MethodError`."""

    def number(value: object, name: str, least: float) -> float | None:
        found = real_number(value)
        if value is None or (found is not None and found >= least):
            return found
        bound = "" if math.isinf(least) else f" of at least {least:g}"
        raise MethodError(f"{name} must be a number{bound}, or None; got {quoted(value)}")

    share = number(gap, "gap", 0.0)
    if share is not None and share > 1:
        raise MethodError(f"gap must be a share from 0 to 1; got {quoted(gap)}: for 5 % give 0.05")
    return Limits(
        time_limit=number(time_limit, "time_limit", 0.0),
        node_limit=None if node_limit is None else whole_number(node_limit, "node_limit", 0),
        gap=share,
        target=number(target, "target", -math.inf),
        memory_limit=None if memory_limit is None else whole_number(memory_limit, "memory_limit", 1),
    )
