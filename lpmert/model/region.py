"""Where weights may lie: signs, boxes, fixed weights, linear limits, a fixed sum, and a cone around given weights.

A positive factor of the weights changes no choice, so every region is a cone: limits other than signs are relative to a
reference, which is a fixed weight other than 0 or a fixed sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, RegionError
from lpmert.numeric.cone import Cap
from lpmert.quoting import listed, quoted
from lpmert.result import Result
from lpmert.values import Weights, finite_number, weights_array

Range = tuple[float | None, float | None]

Row = tuple[Fraction, ...]

_ZERO = Fraction(0)  # shared, because sparse rows hold many zeros


@dataclass(frozen=True)
class Linear:
    """A limit on a sum: lower <= sum of coefficients times weights <= upper.

    Parameters
    ----------
    coefficients : mapping from name to number
        By feature name.
    lower, upper : float, optional
        `None` for no limit; equal ends for an equation.

    Examples
    --------
    >>> import lpmert
    >>> region = lpmert.Region(linear=[lpmert.Linear({"lm": 1, "ctc": -2}, lower=0)])
    >>> region.signature
    'region:lm=1.0,ctc=-2.0:0.0..'
    """

    coefficients: Mapping[str, float]
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Region:
    """Limits on the weights of features, by name.

    Parameters
    ----------
    bounds : mapping from name to (least, most)
        Limits of single weights, `None` for no limit.
    fixed : mapping from name to number
        Fixed weights.
    nonnegative : bool
        Whether all weights are at least 0.
    linear : sequence of Linear
        Limits on sums of weights.
    total : float, optional
        Sum of all weights.
    cosine : float, optional
        Least cosine with the weights `around`, in the caller's own feature scaling, from 0 to below 1.
    around : mapping or sequence of numbers, Result, str or Path, optional
        Weights by name, in the order of the features, or in a file.

    Notes
    -----
    A positive factor of the weights changes no choice. Limits other than signs are therefore relative to a reference: a
    fixed weight other than 0, or a total. A contradictory region raises `RegionError` when it is applied to lists.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.minimize(lists, region=lpmert.Region(nonnegative=True)).loss
    0.0
    >>> lpmert.minimize(lists, region=lpmert.Region(bounds={"a": (None, 0)})).loss
    1.0
    """

    bounds: Mapping[str, Range] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    nonnegative: bool = False
    linear: Sequence[Linear] = ()
    total: float | None = None
    cosine: float | None = None
    around: Weights | str | Path | None = None

    @staticmethod
    def simplex() -> Region:
        """Return the region of weights of at least 0 that add up to 1."""
        return Region(nonnegative=True, total=1.0)

    def of(self, names: Sequence[str]) -> Region:
        """Return the region with the weights `around` by feature name; raises `RegionError`."""
        if self.around is None:
            return self
        return replace(self, around=dict(zip(names, _centre(self.around, names).tolist(), strict=True)))

    @property
    def signature(self) -> str:
        """Every limit, for the signature of a result."""
        parts = [f"{name}:{_exact_range(low, high)}" for name, (low, high) in self.bounds.items()]
        parts += [f"{name}={float(value)!r}" for name, value in self.fixed.items()]
        parts += ["nonnegative"] if self.nonnegative else []
        parts += [f"{_exact_sum(one.coefficients)}:{_exact_range(one.lower, one.upper)}" for one in self.linear]
        parts += [] if self.total is None else [f"total={float(self.total)!r}"]
        if self.cosine is not None and self.around is not None:
            weights: Any = self.around.by_name if isinstance(self.around, Result) else self.around
            around = _exact_sum(weights if isinstance(weights, Mapping) else dict(enumerate(weights, 1)))
            parts.append(f"cosine>={float(self.cosine)!r}~{around}")
        return "region:" + ";".join(parts)


@dataclass(frozen=True)
class RegionCone:
    """A region as a cone of weights w [D]: rows [k, D] @ w >= 0 and equations [e, D] @ w = 0.

    exact_rows [k][D], exact_equations [e][D]: the exact limits, which `rows` and `equations` round. referred: whether
    the first row is the reference, whose product must be positive.
    """

    exact_rows: list[Row]
    labels: tuple[str, ...]
    exact_equations: list[Row]
    equation_labels: tuple[str, ...]
    n_features: int
    cap: Cap | None
    referred: bool

    @cached_property
    def rows(self) -> FloatArray:
        return as_floats(self.exact_rows, self.n_features)

    @cached_property
    def equations(self) -> FloatArray:
        return as_floats(self.exact_equations, self.n_features)


def as_floats(rows: Sequence[Row], width: int) -> FloatArray:
    return np.array([[float(value) if value else 0.0 for value in row] for row in rows]).reshape(len(rows), width)


def scaled_row(exact: Sequence[Fraction]) -> Row:
    """Return a row times a power of two that brings its largest entry near 1."""
    largest = max((abs(value) for value in exact if value), default=_ZERO)
    factor = Fraction(2) ** (largest.denominator.bit_length() - largest.numerator.bit_length())
    return tuple(value * factor if value else _ZERO for value in exact)


Sum = tuple[FloatArray, float | None, float | None, str]
"""Coefficients [D] of weights, the least and the most that their sum may be, and its name in messages."""


def limits_of(region: Region, names: Sequence[str]) -> RegionCone:
    """Return a region as a cone over the features of these names.

    Raises `RegionError` for unknown features, obvious contradictions, and limits without a reference.
    """
    fixed = {name: _number(value, f"the fixed weight of {quoted(name)}") for name, value in region.fixed.items()}
    sums: list[Sum] = [(_vector({name: 1.0}, names, "fixed weights"), end, end, name) for name, end in fixed.items()]
    if region.total is not None:
        total = _number(region.total, "the fixed sum")
        sums.append((np.ones(len(names)), total, total, "sum"))
    reference = next((one for one in sums if one[1] != 0.0), None)
    sums = [one for one in sums if one is not reference]
    signs: list[tuple[str, Range]] = [(name, (0.0, None)) for name in names] if region.nonnegative else []
    for name, (low, high) in (*region.bounds.items(), *signs):
        row = _vector({name: 1.0}, names, "bounds")
        if name in fixed:
            _check_fixed(name, fixed[name], low, high)
        else:
            sums.append((row, _end(low, -math.inf, name), _end(high, math.inf, name), name))
    for limit in region.linear:
        what = ",".join(f"{name}={value:g}" for name, value in limit.coefficients.items())
        row = _vector(limit.coefficients, names, "linear limits")
        if not row.any():
            raise RegionError("a linear limit has no coefficient other than 0")
        sums.append((row, _end(limit.lower, -math.inf, what), _end(limit.upper, math.inf, what), what))
    cap = _cap(region, names)
    if cap is not None and cap.cosine == 0.0:  # a half-space is a linear limit, which all methods take
        sums.append((cap.centre, 0.0, None, "cosine"))
        cap = None
    rows: dict[Row, str] = {}
    equations: list[tuple[Row, str]] = []
    if reference is not None:
        row, value, _, what = reference
        rows[_homogeneous(math.copysign(1.0, value or 0.0) * row, 0.0, what, None)] = f"{what} = {value:g}"
    for row, low, high, what in sums:
        if low is not None and high is not None and low >= high:
            if low > high:
                raise RegionError(f"limits of {what}: the least, {low:g}, is above the most, {high:g}; swap them")
            label = f"{what} = {low:g}"
            equations.append((_homogeneous(row, low, label, reference), label))
            continue
        for sign, end, relation in ((1.0, low, ">="), (-1.0, high, "<=")):
            if end is not None:
                label = f"{what} {relation} {end:g}"
                homogeneous = _homogeneous(sign * row, sign * end, label, reference)
                if any(homogeneous):
                    rows.setdefault(homogeneous, label)
    exact, of_equations = [row for row, _ in equations], tuple(label for _, label in equations)
    return RegionCone(list(rows), tuple(rows.values()), exact, of_equations, len(names), cap, reference is not None)


def _vector(coefficients: Mapping[str, float], names: Sequence[str], what: str) -> FloatArray:
    row = np.zeros(len(names))
    for name, value in coefficients.items():
        if name not in names:
            raise RegionError(f"{what}: no feature {quoted(name)}; the features are {listed(names)}")
        row[names.index(name)] = _number(value, f"the limit of {quoted(name)}")
    return row


def _homogeneous(row: FloatArray, limit: float, label: str, reference: Sum | None) -> Row:
    """Return the row a for which a.w >= 0 is equivalent to row.w >= limit, at any scale of w."""
    exact = [Fraction(value) if value else _ZERO for value in row.tolist()]
    if limit != 0.0:
        if reference is None:
            remedy = "needs a reference; fix a weight to a value other than 0, or fix the sum of the weights"
            reason = "decoding does not depend on the scale of the weights"
            raise RegionError(f"{label}: {reason}, so a limit other than 0 {remedy}")
        value = Fraction(reference[1] or 0.0)
        signed = Fraction(limit) if value > 0 else -Fraction(limit)
        exact = [abs(value) * a - signed * Fraction(b) for a, b in zip(exact, reference[0].tolist(), strict=True)]
    return scaled_row(exact)


def _cap(region: Region, names: Sequence[str]) -> Cap | None:
    if (region.cosine is None) != (region.around is None):
        raise RegionError("cosine and around go together; give both")
    if region.cosine is None or region.around is None:
        return None
    cosine = _number(region.cosine, "the cosine")
    if not 0.0 <= cosine < 1.0:
        raise RegionError(f"the cosine must be at least 0, where the region is convex, and below 1; got {cosine:g}")
    centre = _centre(region.around, names)
    if not centre.any():
        raise RegionError("the weights given as around are all 0")
    return Cap(centre, cosine)


def _centre(around: Weights | str | Path, names: Sequence[str]) -> FloatArray:
    try:
        return weights_array(around, names, "the weights around which the cosine holds")
    except DataError as error:
        raise RegionError(str(error)) from error


def _check_fixed(name: str, value: float, low: float | None, high: float | None) -> None:
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"{'' if low is None else repr(low)}..{'' if high is None else repr(high)}"
        raise RegionError(f"{name} is fixed to {value:g}, outside its limits {limits}")


def _end(value: float | None, none: float, what: str) -> float | None:
    return None if value is None or value == none else _number(value, f"the limit of {what}")


def _number(value: object, what: str) -> float:
    return finite_number(value, what, RegionError)


def _exact_range(low: float | None, high: float | None) -> str:
    return "..".join("" if end is None or math.isinf(end) else repr(float(end)) for end in (low, high))


def _exact_sum(coefficients: Mapping[Any, float]) -> str:
    return ",".join(f"{name}={float(value)!r}" for name, value in coefficients.items())
