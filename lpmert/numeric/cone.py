"""Cones of weights: those in which choices win, the cap around given weights, projections, and simplicial covers of the
weight space or of a region, cut along its limits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, permutations
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from lpmert.core import outer_normals
from lpmert.errors import FloatArray, IntArray, LpmertError
from lpmert.limits import checked, checkpoint, time_left
from lpmert.numeric import rational
from lpmert.numeric.lists import Cap, list_numbers, rows_of_lists
from lpmert.numeric.rational import EPSILON, Rounding, exact_differences

_TOLERANCE = 1e-12  # gap between the largest cosine and that of a cap below which `reach_cap` leaves the answer open
_STEPS = 50  # halvings of the step inwards that `reach_cap` tries


def project(rows: FloatArray, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the point p [d] nearest to `centre` [d] with rows [k, d] p >= 0, and multipliers [k] >= 0.

    p = centre + multipliers rows. For every w with rows w >= 0, centre.w <= (centre + multipliers rows).w <=
    |centre + multipliers rows| |w|, whatever the multipliers >= 0: the length bounds the cosine. Non-negative least
    squares (Lawson and Hanson 1974, chapter 23), to rounding.
    """
    from scipy.optimize import nnls

    norms = np.linalg.norm(rows, axis=1)
    scaled = rows / np.where(norms > 0, norms, 1.0)[:, None]
    multipliers, _ = nnls(scaled.T, -centre, maxiter=10 * (len(rows) + 10))
    return centre + multipliers @ scaled, multipliers / np.where(norms > 0, norms, 1.0)


def reach_cap(rows: FloatArray, cap: Cap, inside: FloatArray) -> tuple[FloatArray | None, NDArray[np.bool_] | None]:
    """Return (weights [d], None) in the cap with a positive product with every row [k, d], or (None, core [k]).

    inside [d] has a positive product with every row. core marks rows with which no weights of the cap have one, beyond
    rounding. Where rounding hides the answer both are `None`.
    """
    nearest, multipliers = project(rows, cap.unit)
    norms = np.linalg.norm(rows, axis=1)
    length = float(np.linalg.norm(nearest))
    mass = 1.0 + float(multipliers @ norms)
    if length < cap.cosine - _TOLERANCE - 16 * len(cap.unit) * EPSILON * mass:
        return None, multipliers > 0
    error = (len(cap.unit) + 2) * EPSILON
    toward = inside / np.linalg.norm(inside)
    for k in range(_STEPS):
        weights = nearest / length + 2.0**-k * toward if length > 0 else toward
        if (rows @ weights > error * (np.abs(rows) @ np.abs(weights))).all() and cap.contains(weights):
            return weights, None
    return None, None


_WIDER = 1e-5  # see `enclosing_cone`
_WORST_CONDITION = 1e8
_MOST_ORTHANT_FEATURES = 7
_RAY_BITS = 12
_ROOM = 1.02  # factor by which a simplex around a round cone is larger than needed
_LEAST_COSINE = 0.1  # least cosine of a ray with the axis of a round cone
_LEAST_TANGENT = 1e-5  # least opening of a round cone: a narrower one would be as flat as that which it encloses


def number_of_cones(n_features: int) -> int:
    """Return how many cones cover the weight space.

    The 2^D orthants while these are few, because their shape is better; otherwise the D + 1 cones over the facets of a
    simplex around the origin.
    """
    return 1 << n_features if n_features <= _MOST_ORTHANT_FEATURES else n_features + 1


def covering_cone(n_features: int, number: int) -> FloatArray:
    """Return one of the cones [D, D] that cover the weight space; rays are rows, and exact.

    The vertices of the simplex are the unit vectors and -(1, ..., 1).
    """
    if n_features <= _MOST_ORTHANT_FEATURES:
        return np.diag([1.0 - 2.0 * (number >> (n_features - 1 - d) & 1) for d in range(n_features)])
    vertices = np.vstack([np.eye(n_features), -np.ones(n_features)])
    return np.delete(vertices, number, axis=0)


def covering_cones(n_features: int) -> Iterator[FloatArray]:
    """Yield the cones [D, D] that cover the weight space, one at a time to bound memory."""
    return (covering_cone(n_features, number) for number in range(number_of_cones(n_features)))


def cones_of_box(centre: FloatArray, side: FloatArray) -> FloatArray:
    """Return cones [(D - 1)!, D, D] that cover the cone over a box on a face of the cube; their rays are its corners.

    centre [D]; side [D]: half the sides of the box, of either sign. The rays of each cone lead from the corner
    centre - side to the corner centre + side, one axis at a time (Kuhn's triangulation), so that all cones share this
    diagonal.
    """
    axes = np.flatnonzero(side)
    orders = np.array(list(permutations(axes.tolist())), dtype=np.int64)
    steps = np.eye(len(centre))[orders] * (2.0 * side)
    first = np.broadcast_to(centre - side, (len(orders), 1, len(centre)))
    return np.concatenate([first, first + np.cumsum(steps, axis=1)], axis=1)


def cone_around(cap: Cap) -> FloatArray | None:
    """Return the rays [D, D] of a cone that contains the cap, or `None` where rounding makes that unsure.

    The rays lead from the origin to the corners of a regular simplex around the cap. They are rounded to few bits, so
    that midpoints stay exact.
    """
    if len(cap.unit) < 2:
        return None
    tangent = np.sqrt(1.0 / cap.cosine**2 - 1.0)
    rays = _regular_rays(cap.unit, tangent)
    bits = _RAY_BITS - np.frexp(np.abs(rays).max())[1] - min(0, int(np.frexp(tangent)[1]))
    rays = np.ldexp(np.rint(np.ldexp(rays, bits)), -bits)
    if np.linalg.cond(rays) > _WORST_CONDITION:
        return None
    normals = np.linalg.inv(rays).T
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    sine = np.sqrt((1.0 - cap.cosine) * (1.0 + cap.cosine))
    return rays if (normals @ cap.unit > sine * (1.0 + 1e-6) + 1e-7).all() else None


def _regular_rays(unit: FloatArray, tangent: float) -> FloatArray:
    """Return rays [D, D] to the corners of a regular simplex around the circular cone of this axis and opening."""
    n = len(unit)
    # Columns: the corners of a regular simplex around the origin, in the n - 1 directions across the axis.
    across = np.linalg.svd(unit[None, :])[2][1:]
    corners = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    return np.asarray(unit + (n - 1) * _ROOM * tangent * corners @ across)


def enclosing_cone(rays: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return normals [D, D] of a cone that surely contains these rays [D, D], and the rays of a still wider cone.

    In coordinates x along the rays, the cone of `outer_normals` is x_k >= -1e-7 sum(x); the wider one allows 1e-5. If
    the rays are so flat that rounding leaves it unsure, a round cone about them is tried; `None` if that is unsure too.
    """
    for candidate in (rays, _round_rays(rays)):
        if candidate is None or np.linalg.cond(candidate) > _WORST_CONDITION:
            continue
        normals, certain = outer_normals(np.ascontiguousarray(candidate))
        bound = (len(rays) + 2) * EPSILON * (np.abs(rays) @ np.abs(normals).T)
        if certain and (rays @ normals.T > bound).all():
            return normals, (1.0 + _WIDER) * candidate - _WIDER * candidate.sum(axis=0)
    return None


def _round_rays(rays: FloatArray) -> FloatArray | None:
    """Return rays [D, D] around a circular cone that contains these rays, `None` if they are too far apart for one."""
    lengths = np.linalg.norm(rays, axis=1, keepdims=True)
    if len(rays) < 2 or not (lengths > 0).all():
        return None
    unit = (rays / lengths).mean(axis=0)
    length = float(np.linalg.norm(unit))
    along = rays @ unit
    if not (along > _LEAST_COSINE * lengths[:, 0]).all():
        return None
    unit = unit / length
    tangent = float(np.linalg.norm(rays * (length / along)[:, None] - unit, axis=1).max())
    return _regular_rays(unit, max(tangent, _LEAST_TANGENT))


_MOST_CONES, _MOST_NUMBERS = 256, 1 << 23  # of cones into which limits split a cover, and of numbers in their rays
_CUTS = 4  # most cuts for each cone allowed: most parts of a cut cone may lie outside another limit
_FACTOR_BITS = (10, 6, 3)  # of the factors that mix two rays: the first number keeps midpoints of rays exact
_CUT_BITS = 40


class Ray(NamedTuple):
    """A ray [D], and its products [k] with the limits; both exact."""

    entries: tuple[Fraction, ...]
    products: tuple[Fraction, ...]


def cones_of_region(limits: FloatArray, cap: Cap | None = None) -> Iterator[FloatArray]:
    """Yield cones [D, D] that cover all weights of a cap with limits [k, D] @ w >= 0; rays are rows, and exact.

    A cone that a limit cuts is split on an edge, in exact arithmetic, until each part lies on one side; the first cones
    are yielded before later ones are cut. If the point of the cut needs too many bits, a little of the outside is kept;
    if there would be too many cones or cuts, the last cones stay uncut. Nothing is yielded if only faces of the cones
    lie inside. May raise `OutOfTime`.
    """
    around = None if cap is None else cone_around(cap)
    if around is None and not len(limits):
        for rays in covering_cones(limits.shape[1]):
            checkpoint()
            yield rays
        return
    normals = [[(d, Fraction(value)) for d, value in enumerate(row) if value] for row in limits.tolist()]

    @cache
    def exact(numbers: tuple[float, ...]) -> Ray:
        entries = tuple(map(Fraction, numbers))
        return Ray(entries, tuple(sum((x * entries[d] for d, x in row), Fraction(0)) for row in normals))

    whole = covering_cones(limits.shape[1]) if around is None else [around]
    cones = [[exact(tuple(ray)) for ray in checked(cone.tolist(), 1)] for cone in whole]
    places = range(len(limits))
    # drop a cone if at most a face of it is inside some limit
    cones = [cone for cone in cones if all(any(ray.products[k] > 0 for ray in cone) for k in checked(places, 1))]
    most = min(_MOST_CONES, _MOST_NUMBERS // max(1, limits.shape[1]) ** 2)
    waiting, done, cuts = [(cone, 0) for cone in reversed(cones)], 0, 0
    while waiting:
        checkpoint()
        cone, k = waiting.pop()
        if k == len(limits):
            done += 1
            yield np.array([[float(value) for value in ray.entries] for ray in cone])
            continue
        products = [ray.products[k] for ray in cone]
        p = max(range(len(cone)), key=products.__getitem__)
        q = min(range(len(cone)), key=products.__getitem__)
        if products[p] <= 0:
            continue
        split = products[q] < 0 and done + len(waiting) + 1 < most and cuts < _CUTS * most
        cuts += split
        middle = _cut(cone[p], cone[q], k) if split else None
        if middle is None:
            waiting.append((cone, k + 1))
        else:
            waiting += [([*cone[:moved], middle, *cone[moved + 1 :]], k) for moved in (p, q)]


def _cut(inner: Ray, outer: Ray, k: int) -> Ray | None:
    """Return a ray between two, on limit k or slightly outside; `None` where it needs too many bits.

    The product of limit k with `inner` is positive, that with `outer` negative.
    """
    share = -outer.products[k] / inner.products[k]  # inner rays for each outer ray
    for bits in _FACTOR_BITS:
        first, second = share.numerator, share.denominator
        if max(first, second) >= 1 << bits:
            unit = min(share, Fraction(1)) / (1 << bits)
            first, second = int(share / unit), -int(-1 // unit)
        mixed = [first * a + second * b for a, b in zip(inner.entries, outer.entries, strict=True)]
        largest = max(abs(value) for value in mixed)
        scale = Fraction(2) ** (largest.denominator.bit_length() - largest.numerator.bit_length())
        scaled = tuple(value * scale for value in mixed)
        if all((value * (1 << _CUT_BITS)).denominator == 1 for value in scaled):
            products = [(first * a + second * b) * scale for a, b in zip(inner.products, outer.products, strict=True)]
            products[k] = Fraction(0)  # a ray slightly outside is not cut again
            return Ray(scaled, tuple(products))
    return None


def _greet_in_silence() -> None:
    """Create the first HiGHS object of the process with standard output redirected to nowhere.

    HiGHS 1.16 prints a notice on creation, before any option can be set; it would precede the JSON that a command
    writes. This runs on import: once in a process, and in no thread of a search.
    """
    try:
        stdout = os.dup(1)
    except OSError:  # standard output is closed: nothing can be printed
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        highspy.Highs()  # type: ignore[no-untyped-call]
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


_greet_in_silence()


TOLERANCE = 1e-10  # feasibility tolerance of the linear programs
_HIGHS_SECONDS = 0.1  # seconds that a program may take beyond the limit; most take a hundredth of that


class MarginProgram:
    """The program "maximise t with normal.w >= t for all held normals, w in [-1, 1]^D" inside one HiGHS object."""

    def __init__(self, width: int) -> None:
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        tolerances = {f"{kind}_feasibility_tolerance": TOLERANCE for kind in ("primal", "dual")}
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "presolve": "off", **tolerances}
        for name, value in options.items():
            _expect_ok(self._highs.setOptionValue(name, value), f"the option {name}")
        self._columns = np.arange(width + 1, dtype=np.int32)
        self._cost = np.append(np.zeros(width), -1.0)
        self._upper = np.append(np.ones(width), highspy.kHighsInf)

    def clear(self) -> None:
        layout, sense = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMinimize)
        columns = (self._cost, -self._upper, self._upper)
        empty, index = np.empty(0), np.empty(0, dtype=np.int32)
        matrix = (empty, empty, np.zeros(1, dtype=np.int32), index, empty, np.zeros_like(self._columns))
        status = self._highs.passModel(len(self._cost), 0, 0, layout, sense, 0.0, *columns, *matrix)
        _expect_ok(status, "the empty model")

    def add(self, normals: FloatArray) -> None:
        """Add rows normal.w - t >= 0 for normals [R, D]; the basis of the last run is kept."""
        count = len(normals)
        filled = np.hstack([normals, np.full((count, 1), -1.0)])
        present = filled != 0
        starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))[:-1]]).astype(np.int32)
        indices = np.broadcast_to(self._columns, filled.shape)[present]
        lower, upper = np.zeros(count), np.full(count, highspy.kHighsInf)
        status = self._highs.addRows(count, lower, upper, len(indices), starts, indices, filled[present])
        _expect_ok(status, "the rows")

    def run(self) -> tuple[FloatArray, float, FloatArray] | None:
        """Return the optimal weights [D], margin and row duals [R]; `None` if HiGHS ends without them."""
        left = time_left()
        if left is not None:
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left + _HIGHS_SECONDS)
        status = self._highs.run()
        if status != highspy.HighsStatus.kOk or self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        values = np.array(solution.col_value)
        return values[:-1], float(values[-1]), np.array(solution.row_dual)


def _expect_ok(status: highspy.HighsStatus, what: str) -> None:
    if status != highspy.HighsStatus.kOk:
        raise LpmertError(f"HiGHS did not accept {what} without complaint ({status.name})")


Chosen = tuple[IntArray, IntArray]  # lists [L], and the chosen row of the features for each [L]

# HiGHS drops matrix entries of at most 1e-9. They are set to zero here instead; the exact checks notice if they matter.
_SMALLEST_COEFFICIENT = 1e-9
_UNDECIDED_MARGIN = 1e-8
_ROUNDINGS = 64

_FEW = 64  # comparisons checked exactly at a time
_NO_ROWS: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Verdict:
    """Whether the chosen hypotheses are attainable; the proof of it was checked exactly.

    Attainable: `weights` [D], of size at most 1, make every chosen hypothesis strictly best in exact arithmetic; `None`
    if exact weights exist, but no float64 ones were found.

    Unattainable: `core` holds at most D+1 triples (list, chosen row, other row), and no weights, or none of the cap,
    make each chosen row better than its other row.

    rows: the other hypotheses (rows of the features) that the linear program held; a similar one can start with them.
    """

    attainable: bool
    rows: IntArray
    weights: FloatArray | None = None
    core: tuple[tuple[int, int, int], ...] = ()


class LinOptimizer:
    """Decides which hypotheses of which lists can be strictly best together, for features [M, D] and offsets [S+1].

    After Galley and Quirk (EMNLP 2011), with the margin as objective, so that a tie never passes. With a cap only
    weights inside it count. If features are rounded, answers are about the exact ones; if these are unknown and only
    they could rule a selection out, it counts as attainable, but by no doubles. Raises `ValueError` for features that
    are not finite or too large to subtract.
    """

    def __init__(
        self, features: FloatArray, offsets: IntArray, cap: Cap | None = None, rounding: Rounding | None = None
    ) -> None:
        self.cap, self.rounding = cap, rounding
        self.features = np.ascontiguousarray(features, dtype=np.float64)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        largest = max(-self.features.min(initial=0.0), self.features.max(initial=0.0))
        if not largest <= np.finfo(np.float64).max / 4:
            raise ValueError("features must be finite, and so must their differences; scale the columns down")
        self.model = MarginProgram(self.features.shape[1])

    def solve(self, chosen: Chosen, *, start: FloatArray | None = None, rows: IntArray | None = None) -> Verdict:
        """Decide whether the chosen hypotheses are attainable together.

        start [D]: weights to try first. rows: other hypotheses to compare with first, such as `Verdict.rows` of a
        similar choice; rows of other lists are ignored. Raises `ValueError` for a chosen row outside its list.
        """
        decision = Decision(self, chosen)
        verdict = decision.decide(start, rows)
        return verdict if self.cap is None else decision.reach(self.cap, verdict)

    def centre(self, chosen: Chosen, *, start: FloatArray | None = None) -> tuple[FloatArray, float | None]:
        """Return the weights [D] in the box [-1, 1]^D with the largest least margin, and that margin.

        Margins are those of comparisons normalised to length 1, to HiGHS' tolerance. If the weights do not make every
        chosen hypothesis strictly best, but `start` does, `start` and its margin are returned. The margin is `None` if
        no list has two hypotheses.
        """
        return Decision(self, chosen).centre(start)


class Decision:
    """One decision by cutting planes: linear programs over a growing set of held comparisons, then exact arithmetic.

    There is a comparison features[chosen] - features[other] for every other hypothesis of the chosen lists. chosen,
    other [R]: rows of the features, in order; normals [R, D]: the differences normalised to length 1. complete: whether
    the selection covers all lists. Only then is it worth effort to round exact weights to doubles.
    """

    def __init__(self, optimizer: LinOptimizer, chosen: Chosen) -> None:
        features, offsets, rounding = optimizer.features, optimizer.offsets, optimizer.rounding
        order = np.argsort(chosen[0], kind="stable")
        lists, own = chosen[0][order], chosen[1][order]
        outside = np.flatnonzero((own < offsets[lists]) | (own >= offsets[lists + 1]))
        if len(outside):
            raise ValueError(f"list {lists[outside[0]]} has no row {own[outside[0]]}")
        rows, ends = rows_of_lists(offsets, lists)
        owners = list_numbers(ends)
        kept = np.flatnonzero(rows != own[owners])
        self.other, owners = rows[kept], owners[kept]
        self.chosen, self._lists = own[owners], lists[owners]
        self._groups = np.flatnonzero(np.diff(owners, prepend=-1))
        self._features, self._rounding, self._known = features, rounding, rounding is None or rounding.known
        self.normals = features[self.chosen]
        self.normals -= features[self.other]
        # at most the length; one column after the other, as numpy is slow on many short rows
        self._size = np.abs(np.ascontiguousarray(self.normals.T)).max(axis=0, initial=0.0)
        self.normals /= np.where(self._size > 0, self._size, 1.0)[:, None]
        self.normals /= np.where(self._size > 0, np.linalg.norm(self.normals, axis=1), 1.0)[:, None]
        self._last: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self._model = optimizer.model
        self._complete = len(lists) == len(offsets) - 1
        self._held = _NO_ROWS
        self._round_size = 4 * features.shape[1] + 16

    def decide(self, start: FloatArray | None, rows: IntArray | None) -> Verdict:
        weights = self._first_weights(start)
        if self.confirmed(weights):
            return self._attainable(weights)
        first = _NO_ROWS if rows is None else np.flatnonzero(np.isin(self.other, rows))
        new = np.union1d(first, self._unclear(weights))
        while len(new):
            optimum = self._maximise(new)
            if optimum is None:
                break
            weights, margin, duals = optimum
            if self.confirmed(weights):
                return self._attainable(weights)
            if margin < _UNDECIDED_MARGIN:
                verdict = self._unattainable(self._held[duals > 0]) if self._known else None
                if verdict is not None:
                    return verdict
                break
            new = self._unclear(weights)
        return self._decide_exactly() if self._known else self._attainable(None)

    def reach(self, cap: Cap, verdict: Verdict) -> Verdict:
        """Return an attainable verdict restricted to weights of the cap."""
        if verdict.weights is None or cap.contains(verdict.weights):
            return verdict
        weights, support = reach_cap(self.normals, cap, verdict.weights)
        if support is not None and self._known:
            return Verdict(False, verdict.rows, core=self._core(np.flatnonzero(support)))
        if weights is not None:
            weights, _ = rational.below_one(weights)
        if weights is not None and self.confirmed(weights):
            return self._attainable(weights)
        return Verdict(True, verdict.rows)

    def centre(self, start: FloatArray | None) -> tuple[FloatArray, float | None]:
        checkpoint()
        first = weights = self._first_weights(start)
        if len(self.normals) == 0:
            return weights, None
        margins, least = self.margins(weights)[0], np.inf
        while len(new := self._worst(margins, margins < least)):
            optimum = self._maximise(new)
            if optimum is None:
                break
            weights, least = optimum[0], optimum[1] - TOLERANCE
            margins = self.margins(weights)[0]
        if start is not None and not self.confirmed(weights) and self.confirmed(first):
            weights = first
        return weights, float(self.margins(weights)[0].min())

    def margins(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return normals.weights [R] in floating point and a bound [R] on the error, for weights of size at most 1.

        A normal carries three roundings, the weights may carry one, the dot product D (Higham, Accuracy and Stability
        of Numerical Algorithms, section 3.1); twice the unit roundoff leaves room for roundings of the bound itself.
        """
        last = self._last
        if last is not None and np.array_equal(weights, last[0]):
            return last[1:]  # callers ask several times about the same weights
        self._last = None
        spread = EPSILON * (np.abs(self.normals) @ np.abs(weights)) + rational.SMALLEST_NORMAL
        bound = (len(weights) + 6) * spread
        if self._rounding is not None:
            unbounded = np.full(len(bound), np.inf)
            bound += np.divide(self._rounding.off(weights), self._size, out=unbounded, where=self._size > 0.0)
        products = self.normals @ weights
        self._last = weights.copy(), products, bound
        return products, bound

    def confirmed(self, weights: FloatArray) -> bool:
        """Whether all comparisons are strictly positive at weights [D] of size at most 1, exactly."""
        margins, bound = self.margins(weights)
        if (margins < -bound).any():
            return False
        close = np.flatnonzero(margins <= bound)
        if not len(close):
            return True
        (whole,) = rational.to_integers(weights[None])
        parts = np.array_split(close, range(_FEW, len(close), _FEW))  # the first part mostly decides
        return self._known and all(rational.all_positive(self._exact_rows(part), whole) for part in parts)

    def _exact_rows(self, indices: IntArray) -> list[list[int]]:
        """Return the differences of comparisons [n] in integers, each up to its own positive factor."""
        return exact_differences(self._features, self._rounding, self.chosen[indices], self.other[indices])

    def _first_weights(self, start: FloatArray | None) -> FloatArray:
        weights = self.normals.sum(axis=0) if start is None else np.asarray(start, dtype=np.float64)
        if not np.isfinite(weights).all():
            raise ValueError("start must be finite")
        return rational.below_one(weights)[0] if weights.any() else np.ones(len(weights))

    def _unclear(self, weights: FloatArray) -> IntArray:
        margins, bound = self.margins(weights)
        return self._worst(margins, margins <= bound)

    def _worst(self, margins: FloatArray, eligible: NDArray[np.bool_]) -> IntArray:
        """Return the eligible comparison that is not held of least margin of each list, for the worst lists."""
        eligible[self._held] = False
        values = np.where(eligible, margins, np.inf)
        least = np.minimum.reduceat(values, self._groups)
        reached = np.flatnonzero(eligible & (values == np.repeat(least, np.diff(self._groups, append=len(values)))))
        first = reached[np.flatnonzero(np.diff(self._lists[reached], prepend=-1))]
        most = self._round_size
        return first if len(first) <= most else first[np.argpartition(values[first], most)[:most]]

    def _maximise(self, new: IntArray) -> tuple[FloatArray, float, FloatArray] | None:
        """Hold more comparisons, and return the optimal weights [D], margin and duals [R]; `None` if HiGHS fails."""
        if len(self._held) == 0:
            self._model.clear()
        normals = self.normals[new]
        normals[np.abs(normals) <= _SMALLEST_COEFFICIENT] = 0.0
        self._model.add(normals)
        self._held = np.concatenate([self._held, new])
        checkpoint()
        return self._model.run()

    def _decide_exactly(self) -> Verdict:
        while True:
            weights, multipliers = rational.decide(self._exact_rows(self._held))
            if multipliers:
                verdict = self._unattainable(self._held[np.array(multipliers, dtype=object) > 0])
                if verdict is None:
                    raise ArithmeticError("rows with checked Farkas multipliers have none")
                return verdict
            margins, bound = self.margins(rational.round_to_floats(weights))
            violated = margins < -bound
            close = np.flatnonzero(np.abs(margins) <= bound)
            for i, row in zip(close, self._exact_rows(close), strict=True):
                violated[i] = not rational.all_positive([row], weights)
            if not violated.any():
                return self._attainable_exactly(weights)
            self._held = np.concatenate([self._held, self._worst(margins, violated)])

    def _attainable(self, weights: FloatArray | None) -> Verdict:
        return Verdict(True, self.other[self._held], weights)

    def _attainable_exactly(self, exact: Sequence[int]) -> Verdict:
        # Multiples of the weights round differently, which helps where the cell is a few ulps wide.
        multiples = [[factor * weight for weight in exact] for factor in range(1, _ROUNDINGS + 1)]
        tried: Iterable[FloatArray] = map(rational.round_to_floats, multiples)
        if self._complete:
            rows = self._exact_rows(self._held)
            tried = chain(tried, (rational.rounded_inside(rows, multiple) for multiple in multiples))
        return self._attainable(next((weights for weights in checked(tried, 1) if self.confirmed(weights)), None))

    def _unattainable(self, support: IntArray) -> Verdict | None:
        """Return the verdict if these comparisons have Farkas multipliers in exact arithmetic, else `None`."""
        multipliers = rational.farkas(self._exact_rows(support))
        if multipliers is None:
            return None
        return Verdict(False, self.other[self._held], core=self._core(support[np.array(multipliers, dtype=object) > 0]))

    def _core(self, indices: IntArray) -> tuple[tuple[int, int, int], ...]:
        columns = (values[indices].tolist() for values in (self._lists, self.chosen, self.other))
        return tuple(zip(*columns, strict=True))
