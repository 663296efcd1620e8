"""Where weights may lie: signs, boxes, fixed weights, linear limits, a fixed sum, and a cone around given weights.

A positive factor of the weights changes no choice, so every region is a cone: limits other than signs are relative to a
reference, which is a fixed weight other than 0 or a fixed sum. Equations on the weights reduce the dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray, RegionError
from lpmert.numeric import rational
from lpmert.numeric.lists import Cap
from lpmert.numeric.rational import EPSILON, Column, Rounding, sums_of_columns, whole_row
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
    """Return a region as a cone over these features; raises `RegionError`, as for limits without a reference."""
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
            if (low is not None and fixed[name] < low) or (high is not None and fixed[name] > high):
                limits = f"{'' if low is None else repr(low)}..{'' if high is None else repr(high)}"
                raise RegionError(f"{name} is fixed to {fixed[name]:g}, outside its limits {limits}")
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
    exact, of_equations = zip(*equations, strict=True) if equations else ((), ())
    return RegionCone(list(rows), tuple(rows.values()), [*exact], of_equations, len(names), cap, reference is not None)


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


def _end(value: float | None, none: float, what: str) -> float | None:
    return None if value is None or value == none else _number(value, f"the limit of {what}")


_number = partial(finite_number, error=RegionError)


def _exact_range(low: float | None, high: float | None) -> str:
    return "..".join("" if end is None or math.isinf(end) else repr(float(end)) for end in (low, high))


def _exact_sum(coefficients: Mapping[Any, float]) -> str:
    return ",".join(f"{name}={float(value)!r}" for name, value in coefficients.items())


_ROUNDING = 1e-9  # error allowed in an equation, relative to the size of its terms


@dataclass(frozen=True)
class Reduction:
    """Weights w [D] that fulfil the equations, as w = basis [D, d] @ u; limits rows [k, d] and the cap are on u.

    exact_basis [d] and exact_rows [k][d]: basis and rows in exact arithmetic. Only if there are a cap and equations on
    several weights, the basis is orthonormal instead, and within `off` of an exact basis that doubles cannot hold.
    rows_off [k, d]: bounds on the rounding of rows.

    columns [d]: if equations only fix weights to 0, the other features, and the basis is empty; else `None`. free [d]:
    the weights that are coordinates. given: the region on w, without limits that its equations make trivial.
    """

    basis: FloatArray
    exact_basis: list[Column]
    columns: IntArray | None
    free: IntArray
    off: float | None
    rows: FloatArray
    rows_off: FloatArray
    exact_rows: list[Row]
    cap: Cap | None
    given: RegionCone

    @cached_property
    def _whole_rows(self) -> list[dict[int, int]]:
        return [{d: a for d, a in enumerate(whole_row(row)) if a} for row in self.given.exact_rows]

    def holds(self, weights: FloatArray) -> bool:
        """Whether weights [D] fulfil the equations: those on a single weight exactly, others up to rounding."""
        equations = self.given.equations
        return bool((np.abs(equations @ weights) <= _ROUNDING * (np.abs(equations) @ np.abs(weights))).all())

    def rounding(self, weights: FloatArray) -> FloatArray:
        """Return for each weight [D] a bound on how far it alone has to move for an equation to hold exactly."""
        sizes = np.abs(self.given.equations)
        off = len(weights) * EPSILON * (sizes @ np.abs(weights))
        each = np.divide(off[:, None], sizes, out=np.zeros(sizes.shape), where=sizes > 0.0)
        return np.asarray(each.max(axis=0, initial=0.0))

    def inside(self, weights: FloatArray, *, strictly: bool = False) -> bool:
        """Whether weights [D] fulfil the limits and the cosine of the region, in exact arithmetic.

        Equations on more than one weight only need to hold up to rounding. strictly: not on the edge of a limit.
        """
        if not self.holds(weights) or not weights.any():
            return False
        (whole,) = rational.to_integers(weights[None])
        for k, row in enumerate(self._whole_rows):
            product = sum(whole[d] * value for d, value in row.items())
            if product < 0 or (product == 0 and (strictly or (k == 0 and self.given.referred))):
                return False
        return self.given.cap is None or self.given.cap.contains(weights)

    def strictly_inside(self, reduced: FloatArray) -> bool:
        """Whether weights u [d] are inside all limits, and on the edge of none, in exact arithmetic."""
        (whole,) = rational.to_integers(reduced[None])
        return all(rational.dot(whole, row) > 0 for row in self.exact_rows)

    def distances(self, weights: FloatArray) -> dict[str, float]:
        """Return how far weights [D] lie inside each limit, Euclidean, and above the cosine; negative outside."""
        rows, cap = self.given.rows, self.given.cap
        inside = rows @ weights / np.linalg.norm(rows, axis=1)
        found = dict(zip(self.given.labels, inside.tolist(), strict=True))
        return found if cap is None else {**found, f"cosine >= {cap.cosine:g}": cap.cosine_of(weights) - cap.cosine}

    def features(self, full: FloatArray, offsets: IntArray) -> tuple[FloatArray, Rounding | None]:
        """Return full features [M, D] in reduced coordinates [M, d], and their rounding and that of limits.

        offsets [S + 1]: of the lists. The rounding is `None` if all are exact. Features are not copied if all stay.
        Raises `DataError` where sums overflow.
        """
        columns: list[Column] | None = self.exact_basis
        if self.columns is not None:
            all_stay = len(self.columns) == full.shape[1]
            features = codes = full if all_stay else np.ascontiguousarray(full[:, self.columns])
            spread = np.zeros(len(self.columns))
        else:
            sums = [sums_of_columns(full, offsets, column) for column in self.exact_basis]
            features, codes = (np.column_stack(parts) for parts in list(zip(*sums, strict=True))[:2])
            spread = np.array([off for _, _, off in sums])
        if self.off is not None:
            features, columns = np.ascontiguousarray(full @ self.basis), None
            spread = np.full(features.shape[1], self.off * np.abs(full).sum(axis=1).max(initial=0.0))
        if not spread.any() and not self.rows_off.any():
            return features, None
        return features, Rounding(spread, full, codes, columns, np.arange(len(full)), self.exact_rows)

    def weights(self, reduced: FloatArray) -> FloatArray:
        if self.columns is None:
            return np.asarray(self.basis @ reduced)
        full = np.zeros(self.given.n_features)
        full[self.columns] = reduced
        return full

    def coordinates(self, weights: FloatArray) -> FloatArray:
        """Return the u [d] of weights [D] that fulfil the equations, or of the nearest weights that do."""
        if self.columns is not None or (self.off is None and self.holds(weights)):
            return weights[self.free]
        return np.asarray(np.linalg.lstsq(self.basis, weights, rcond=None)[0])


def reduce(limits: RegionCone) -> Reduction:
    """Return a region without its equations; raises `RegionError` if they leave no weights but zero."""
    n_features = limits.n_features
    exact, free = _null_space(limits.exact_equations, n_features)
    columns = free if all(len(column) == 1 for column in exact) else None
    basis = np.zeros((n_features, len(exact) if columns is None else 0))
    reduced = []
    for row in limits.exact_rows:
        terms = ([row[d] * value for d, value in column.items() if row[d]] for column in exact)
        products = tuple(sum(own, _ZERO) for own in terms)
        reduced.append(products if columns is not None else scaled_row(products))
    if columns is None:
        try:
            for k, column in enumerate(exact):
                basis[list(column), k] = [float(value) for value in column.values()]
        except OverflowError:
            against = ", ".join(limits.equation_labels)
            apart = f"numbers in {against} are too far apart for double precision"
            raise RegionError(f"{apart}; rescale the features") from None
    if not exact or (limits.referred and not any(reduced[0])):
        against = ", ".join([*limits.labels[: limits.referred], *limits.equation_labels])
        raise RegionError(f"only zero weights fulfil {against}; omit one of them")
    cap, off = None, None
    rows = as_floats(reduced, len(exact))
    rows_off = _distances(reduced, rows)
    if limits.cap is not None:
        unit, cosine = limits.cap.unit, limits.cap.cosine
        if columns is None:
            # A cap keeps its shape in orthonormal coordinates only.
            basis, off = _orthonormal(limits.equations)
            rows = limits.rows @ basis
            rows_off = np.tile(off * np.abs(limits.rows).sum(axis=1, keepdims=True), len(exact))
        share = float(np.linalg.norm(unit[columns] if columns is not None else unit @ basis))
        share = share if share < 1.0 - 1e-12 else 1.0  # rounded
        if share <= cosine:
            against = ", ".join(limits.equation_labels)
            none = f"no weights that fulfil {against} have a cosine of {cosine:g} or more with the given ones"
            raise RegionError(f"{none}; the largest possible one is {share:.6g}")
        centre = limits.cap.centre[columns] if columns is not None else unit @ basis
        cap = Cap(centre, cosine / share)
    kept = [k for k, row in enumerate(reduced) if any(row)]
    labels = tuple(limits.labels[k] for k in kept)
    given = replace(limits, exact_rows=[limits.exact_rows[k] for k in kept], labels=labels)
    exact_rows = [reduced[k] for k in kept]
    return Reduction(basis, exact, columns, free, off, rows[kept], rows_off[kept], exact_rows, cap, given)


def _distances(exact: Sequence[Row], near: FloatArray) -> FloatArray:
    """Return bounds [k, d] on how far doubles [k, d] are from the exact numbers [k][d]."""
    off = np.zeros_like(near)
    for k, row in enumerate(exact):
        for d, value in enumerate(row):
            if value and value != Fraction(near[k, d]):
                off[k, d] = math.nextafter(float(abs(value - Fraction(near[k, d]))), math.inf)
    return off


def _orthonormal(equations: FloatArray) -> tuple[FloatArray, float]:
    """Return an orthonormal basis [D, d] of the null space of equations [e, D], and a bound on its error."""
    from scipy.linalg import null_space, svdvals

    basis: FloatArray = null_space(equations)
    n_features, width = basis.shape
    least = svdvals(equations)[n_features - width - 1]
    rest = np.linalg.norm(equations @ basis) + n_features * EPSILON * np.linalg.norm(equations)
    skew = np.linalg.norm(basis.T @ basis - np.eye(width))
    return basis, float(2.0 * (rest / least + skew) + 8.0 * n_features * EPSILON)


def _null_space(equations: Sequence[Row], width: int) -> tuple[list[Column], IntArray]:
    """Return an exact basis of the null space of equations [e][D], and the free weight [d] of each column.

    A column has 1 at its free weight, where all others have 0. Each equation determines the first weight that it can.
    """
    table = [whole_row(row) for row in equations]
    pivots, common = rational.eliminate(table, width)
    free = [d for d in range(width) if d not in pivots]
    basis: list[Column] = []
    for d in free:
        others = {pivot: Fraction(-table[i][d], common) for i, pivot in enumerate(pivots) if table[i][d]}
        basis.append({d: Fraction(1), **others})
    return basis, np.array(free, dtype=np.int64)
