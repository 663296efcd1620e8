"""The state of the search over the weight space: open cones on a stack, and the children of the cone at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.dyadic import exact_products, single_products
from lpmert.numeric.kernels import copy_entries, copy_rows, internal
from lpmert.numeric.leastnorm import SortedLists
from lpmert.numeric.rows import sizes_of_rows

# Positions in Stack.numbers.
TOP, NODES, LEAVES, LEAF_LPS, UPPER_COST, DONE_WORK, CUT_OFF, CONFLICTING, LOOKED_AT, LEVEL = range(10)

# Positions in Child.numbers.
N_ROWS, N_LISTS, FIXED, BOUND, CENTRE, DONE_WITH, AGE = range(7)

OPEN, SETTLED, IMPOSSIBLE = range(3)
"""How a list stands in a cone: IMPOSSIBLE where none of its hypotheses may be chosen."""


class Stack(NamedTuple):
    """Open cones, the next one last. Survivors of cone t are rows first_row[t] .. + n_rows[t] of scores and ids.

    numbers: see the positions above. scores [R, D] at the rays, ids and costs [R] of the hypotheses, ends [E] of each
    list among the rows of its cone (n_lists[t] + 1 of them from first_end[t]). fixed: cost of the lists that are
    settled; bound: that and every open list's cheapest survivor; stalled: splits since a tenth of the lists was last
    settled. totals [T, K], age: for the ledger, see ledger.py. rays [T, D, D]; errors [T, D]: of the scores at
    each ray; points [T, D]: where in the simplex of the rays the cost is thought least.
    """

    numbers: IntArray
    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    first_row: IntArray
    n_rows: IntArray
    first_end: IntArray
    n_lists: IntArray
    fixed: IntArray
    bound: IntArray
    stalled: IntArray
    totals: FloatArray
    age: IntArray
    rays: FloatArray
    errors: FloatArray
    points: FloatArray
    best_weights: FloatArray


class Child(NamedTuple):
    """What pruning a child leaves: like one cone of a stack, with its total [K]. numbers: see the positions above.

    CENTRE: the cost at its centre, `INFINITE_COST` if that is forbidden; DONE_WITH: whether nothing is left to find in
    it, as far as the ledger can tell.
    """

    numbers: IntArray
    total: FloatArray
    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    rays: FloatArray
    errors: FloatArray


class Work(NamedTuple):
    """Work space: middle [R] scores at the midpoint; best [D]: winners at the rays; disagreement [D, D]; the rest for
    cuts.
    """

    middle: FloatArray
    best: IntArray
    disagreement: FloatArray
    gain: FloatArray
    ceiling: FloatArray
    cuts: FloatArray
    table: FloatArray
    basis: IntArray
    x: FloatArray
    inner: FloatArray


class Survivors(NamedTuple):
    """The hypotheses that may win in a part of the weight space, by lists; fixed, total [K]: of all other lists."""

    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    total: FloatArray


class OpenCone(NamedTuple):
    """One cone off the stack: see `Stack`. rows index the problem; ends starts with 0."""

    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    bound: int
    stalled: int
    total: FloatArray
    age: int
    rays: FloatArray
    errors: FloatArray
    point: FloatArray

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> OpenCone:
        """Return the cone of values by name."""
        return cls(**named)

    @property
    def nbytes(self) -> int:
        return self.scores.nbytes + self.ids.nbytes + self.costs.nbytes + self.ends.nbytes + self.rays.nbytes + 200


def new_stack(n_rows: int, n_ends: int, n_cones: int, n_features: int, n_columns: int) -> Stack:
    numbers = np.zeros(LEVEL + 1, dtype=np.int64)
    numbers[TOP] = -1

    def one_each() -> IntArray:
        return np.zeros(n_cones, dtype=np.int64)

    return Stack(
        numbers,
        scores=np.empty((n_rows, n_features)),
        ids=np.empty(n_rows, dtype=np.int32),
        costs=np.empty(n_rows, dtype=np.int64),
        ends=np.empty(n_ends, dtype=np.int64),
        first_row=one_each(),
        n_rows=one_each(),
        first_end=one_each(),
        n_lists=one_each(),
        fixed=one_each(),
        bound=one_each(),
        stalled=one_each(),
        totals=np.zeros((n_cones, n_columns)),
        age=one_each(),
        rays=np.empty((n_cones, n_features, n_features)),
        errors=np.empty((n_cones, n_features)),
        points=np.empty((n_cones, n_features)),
        best_weights=np.zeros(n_features),
    )


def new_child(n_rows: int, n_lists: int, n_features: int, n_columns: int) -> Child:
    return Child(
        np.zeros(7, dtype=np.int64),
        np.zeros(n_columns),
        np.empty((n_rows, n_features)),
        np.empty(n_rows, dtype=np.int32),
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_lists + 1, dtype=np.int64),
        np.empty((n_features, n_features)),
        np.empty(n_features),
    )


def new_work(n_rows: int, n_features: int, cuts: int) -> Work:
    """Return work space for cones of so many rows and so many cuts."""
    return Work(
        np.empty(n_rows),
        np.empty(n_features, dtype=np.int64),
        np.zeros((n_features, n_features)),
        np.empty(n_features),
        np.empty(n_features),
        np.empty((cuts, n_features)),
        np.empty((cuts + 1, n_features + cuts + 1)),
        np.empty(cuts, dtype=np.int64),
        np.empty(n_features),
        np.empty(n_features),
    )


def whole_cone(lists: SortedLists, rays: FloatArray, total: FloatArray) -> OpenCone:
    """Return the cone of these rays [D, D] with all hypotheses; total [K] of the lists settled for good."""
    n_rows, n_features = lists.rows.shape
    ids = np.arange(n_rows, dtype=np.int32)
    point = np.full(n_features, 1 / n_features)
    scores, errors = _scores_at(rays, lists.rows, lists.spread)
    return OpenCone(scores, ids, lists.costs, lists.offsets, 0, 0, 0, total, 0, rays, errors, point)


def _scores_at(rays: FloatArray, features: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores [M, K] of features [M, D] at rays [K, D], and what they are off at each of these at most."""
    n_features = features.shape[1]
    if (np.count_nonzero(rays, axis=1) == 1).all():  # an orthant: no products to add up
        axis = np.abs(rays).argmax(axis=1)
        scores = np.ascontiguousarray(features[:, axis] * rays[np.arange(len(rays)), axis])
    else:
        scores = np.ascontiguousarray(features @ rays.T)
    epsilon = np.finfo(np.float64).eps
    errors = (1.0 + 8.0 * n_features * epsilon) * (np.abs(rays) @ spread)
    rounded = ~single_products(rays)
    if rounded.any():
        largest = float(sizes_of_rows(features).max(initial=0.0))
        rounded[rounded] = ~exact_products(rays[rounded], features, largest)
        errors += np.where(rounded, n_features * epsilon * (np.abs(rays).max(initial=0.0) * largest), 0.0)
    return scores, errors


def cones_of(lists: SortedLists, cones: FloatArray, part: Survivors, bound: int) -> list[OpenCone]:
    """Return the cones [K, D, D] in a part of the weight space that holds them, with what may win there.

    bound: the sum of what its lists cost at least, without conflicts, which are charged in every cone anew.
    """
    n_features = cones.shape[2]
    rays, which = np.unique(cones.reshape(-1, n_features), axis=0, return_inverse=True)
    scores, errors = _scores_at(rays, lists.rows[part.ids], lists.spread)
    point = np.full(n_features, 1 / n_features)
    of_lists = part.ids, part.costs, part.ends, part.fixed
    return [
        OpenCone(
            np.ascontiguousarray(scores[:, own]), *of_lists, bound, 0, part.total, 0, cone, errors[own], point.copy()
        )
        for cone, own in zip(cones, which.reshape(len(cones), -1), strict=True)
    ]


def enlarge(arrays: dict[str, Any], rows: int = 0, ends: int = 0) -> None:
    """Give arrays of a stack, by name, twice the room for what fills more than half of their own, with so many more
    rows and ends.

    Nobody else holds them: each is let go as soon as it is copied. Only what is used is copied: the rest has no memory.
    """
    row, end = _first_free(Stack(**arrays))
    top = int(arrays["numbers"][TOP])
    sizes = {"scores": (row, rows), "ids": (row, rows), "costs": (row, rows), "ends": (end, ends)}
    for name in arrays:
        if name not in ("numbers", "best_weights"):
            arrays[name] = with_more_room(arrays[name], *sizes.get(name, (top + 1, 1)))


def with_more_room(array: Any, used: int, more: int, axis: int = 0) -> Any:
    """Return an array with twice the room along an axis, unless `used` and `more` fill half of it at most."""
    size = array.shape[axis]
    if 2 * (used + more) <= size:
        return array
    shape = list(array.shape)
    shape[axis] = 2 * size
    room = np.empty(shape, dtype=array.dtype)
    part = (slice(used),) if axis == 0 else (..., slice(used))
    room[part] = array[part]
    return room


def cone_at(stack: Stack, t: int) -> OpenCone:
    rows = slice(stack.first_row[t], stack.first_row[t] + stack.n_rows[t])
    ends = slice(stack.first_end[t], stack.first_end[t] + stack.n_lists[t] + 1)
    return OpenCone(
        stack.scores[rows].copy(),
        stack.ids[rows].copy(),
        stack.costs[rows].copy(),
        stack.ends[ends].copy(),
        int(stack.fixed[t]),
        int(stack.bound[t]),
        int(stack.stalled[t]),
        stack.totals[t].copy(),
        int(stack.age[t]),
        stack.rays[t].copy(),
        stack.errors[t].copy(),
        stack.points[t].copy(),
    )


def put_cone(stack: Stack, cone: OpenCone) -> None:
    """Put a cone on top of the stack, which has room for it."""
    top = int(stack.numbers[TOP]) + 1
    row, end = _first_free(stack)
    rows, ends = slice(row, row + len(cone.ids)), slice(end, end + len(cone.ends))
    stack.scores[rows], stack.ids[rows], stack.costs[rows] = cone.scores, cone.ids, cone.costs
    stack.ends[ends] = cone.ends
    stack.first_row[top], stack.n_rows[top] = row, len(cone.ids)
    stack.first_end[top], stack.n_lists[top] = end, len(cone.ends) - 1
    stack.fixed[top], stack.bound[top], stack.stalled[top] = cone.fixed, cone.bound, cone.stalled
    stack.totals[top], stack.age[top] = cone.total, cone.age
    stack.rays[top], stack.errors[top], stack.points[top] = cone.rays, cone.errors, cone.point
    stack.numbers[TOP] = top


def room_for(stack: Stack, cone: OpenCone) -> bool:
    """Whether a cone fits on top of the stack."""
    row, end = _first_free(stack)
    fits = row + len(cone.ids) < len(stack.ids) and end + len(cone.ends) <= len(stack.ends)
    return fits and int(stack.numbers[TOP]) + 1 < len(stack.bound)


def _first_free(stack: Stack) -> tuple[int, int]:
    """Return the first row and the first end beyond those of the cones."""
    t = int(stack.numbers[TOP])
    if t < 0:
        return 0, 0
    return int(stack.first_row[t] + stack.n_rows[t]), int(stack.first_end[t] + stack.n_lists[t]) + 1


@internal
def push(stack, child, stalled):
    """Put a child on top of the stack, which has room for it."""
    top = stack.numbers[TOP] + 1
    rows, ends = np.int64(0), np.int64(0)
    if top > 0:
        rows = stack.first_row[top - 1] + stack.n_rows[top - 1]
        ends = stack.first_end[top - 1] + stack.n_lists[top - 1] + 1
    n_rows, n_lists = child.numbers[N_ROWS], child.numbers[N_LISTS]
    stack.first_row[top], stack.n_rows[top] = rows, n_rows
    stack.first_end[top], stack.n_lists[top] = ends, n_lists
    stack.fixed[top], stack.bound[top], stack.stalled[top] = child.numbers[FIXED], child.numbers[BOUND], stalled
    stack.age[top] = child.numbers[AGE]
    for k in range(len(child.total)):
        stack.totals[top, k] = child.total[k]
    copy_rows(child.scores, stack.scores, rows, n_rows)
    copy_entries(child.ids, stack.ids, rows, n_rows)
    copy_entries(child.costs, stack.costs, rows, n_rows)
    copy_entries(child.ends, stack.ends, ends, n_lists + 1)
    copy_rows(child.rays, stack.rays[top], np.int64(0), len(child.rays))
    copy_entries(child.errors, stack.errors[top], np.int64(0), len(child.errors))
    stack.numbers[TOP] = top


@internal
def has_room(stack):
    """Whether two children of the top cone fit on the stack in its place."""
    top = stack.numbers[TOP]
    rows = stack.first_row[top] + 2 * stack.n_rows[top]
    ends = stack.first_end[top] + 2 * (stack.n_lists[top] + 1)
    return top + 2 < len(stack.bound) and rows <= len(stack.ids) and ends <= len(stack.ends)
