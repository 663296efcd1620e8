"""Branch and bound over the weight space: cones of weights, and in each the hypotheses that may still win.

Best first over a frontier of coarse cones, depth first inside each. The bound of a cone is the sum of every list's
cheapest survivor. Small or stalled cones go to the search over selections, restricted to the cone; where rounding leaves
that undecided, exact arithmetic closes the cone.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.exact import cells_kernels as kernel
from lpmert.exact.choices import Choices, ChoicesSearch
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.geometry.cone import covering_cones, outer_normals
from lpmert.problem import Problem
from lpmert.result import FloatArray, IntArray

_SLICE = 1_000_000
_SLICES_A_CONE = 20


@dataclass(frozen=True)
class Cells(ExactMethod):
    """Settings of the search over the weight space; none changes the optimum.

    leaf_lists: cones with at most so many open lists go to the search over selections. stalled_splits: splits in a row, times
    the number of features, without a tenth of the lists settled, after which a larger cone goes there too.
    """

    leaf_lists: int = 10
    cuts: int = 4
    cut_rows: int = 2000
    stalled_splits: int = 4
    selections: Choices = field(default_factory=Choices)

    name = "cells"

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search over the whole weight space that begins with this incumbent."""
        return CellsSearch(self, problem, incumbent)


class _Cone(NamedTuple):
    """One cone off the stack: see `cells_kernels.Stack`. rows index the problem; ends starts with 0."""

    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    least: int
    bound: int
    stalled: int
    rays: FloatArray
    errors: FloatArray
    point: FloatArray

    @property
    def nbytes(self) -> int:
        return self.scores.nbytes + self.ids.nbytes + self.costs.nbytes + self.ends.nbytes + self.rays.nbytes + 200


class CellsSearch:
    """A resumable search over the weight space of a problem in canonical form."""

    def __init__(self, settings: Cells, problem: Problem, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self._settings = settings
        numbers = np.repeat(np.arange(problem.n_lists), np.diff(problem.offsets))
        order = np.lexsort((np.arange(len(numbers)), problem.costs, numbers))
        self._features = np.ascontiguousarray(problem.features[order])
        self._costs = problem.costs[order]
        self._offsets = problem.offsets
        self._granularity = problem.granularity
        n_rows, n_features = self._features.shape
        self._stack = _new_stack(2 * n_rows + 1000, 2 * problem.n_lists + 1000, 64, n_features)
        self._stack.best_weights[:] = incumbent.weights
        self._children = (_new_child(n_rows, problem.n_lists, n_features), _new_child(n_rows, problem.n_lists, n_features))
        self._work = kernel.Work(
            np.empty(n_rows),
            np.empty(n_features, dtype=np.int64),
            np.zeros((n_features, n_features)),
            np.empty(n_features),
            np.empty(n_features),
            np.empty((settings.cuts, n_features)),
            np.empty((settings.cuts + 1, n_features + settings.cuts + 1)),
            np.empty(settings.cuts, dtype=np.int64),
            np.empty(n_features),
        )
        self._largest_sum = float(np.abs(self._features).sum(axis=1).max(initial=0.0))
        self._sums_are_exact = _sums_are_exact(self._features, self._largest_sum)
        choice = settings.selections
        self._kernel_settings = kernel.Settings(
            np.int64(self._granularity),
            settings.leaf_lists,
            1_000_000,
            2_500,
            settings.cut_rows,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features,
            self._largest_sum,
            kernel.SelectionSettings(
                np.int64(self._granularity),
                choice.sharpness,
                choice.core_preference,
                choice.look_ahead,
                choice.use_cores,
                choice.use_witnesses,
            ),
        )
        self._roots = covering_cones(n_features)
        self._heap: list[tuple[int, int, _Cone | int]] = [(0, k, k) for k in range(len(self._roots))]
        self._pushed = len(self._roots)
        self._slices = 0
        self._held = 0
        self._exact_leaves = 0
        self._exact_nodes = 0
        self._exact_lps = 0

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or (not self._heap and self._stack.numbers[kernel.TOP] < 0)

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's cost where none is open."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        open_bounds = [upper]
        if self._heap:
            open_bounds.append(self._heap[0][0])
        top = int(self._stack.numbers[kernel.TOP])
        if top >= 0:
            open_bounds.append(int(self._stack.bound[: top + 1].min()))
        least = min(open_bounds)
        return upper if least > upper - self._granularity else least

    @property
    def nodes(self) -> int:
        return int(self._stack.numbers[kernel.NODES]) + self._exact_nodes

    @property
    def open_nodes(self) -> int:
        return len(self._heap) + int(self._stack.numbers[kernel.TOP]) + 1

    @property
    def lps(self) -> int:
        return int(self._stack.numbers[kernel.LEAF_LPS]) + self._exact_lps

    @property
    def memory(self) -> int:
        return self._held + sum(array.nbytes for array in self._stack)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "cut_off": int(self._stack.numbers[kernel.CUT_OFF]),
            "leaves": int(self._stack.numbers[kernel.LEAVES]),
            "lps": self.lps,
            "exact_leaves": self._exact_leaves,
        }

    def advance(self) -> None:
        """Search on for one slice of work."""
        numbers = self._stack.numbers
        numbers[kernel.UPPER_COST] = self.incumbent.cost
        if numbers[kernel.TOP] < 0:
            self._take_cone()
        state = kernel.explore(
            self._features, self._stack, self._children, self._work, self._kernel_settings, _SLICE
        )
        if numbers[kernel.UPPER_COST] < self.incumbent.cost:
            self.incumbent.improve(int(numbers[kernel.UPPER_COST]), self._stack.best_weights, "C")
        if state == kernel.FULL:
            self._stack = _larger(self._stack)
        elif state == kernel.HARD:
            self._close_exactly(_cone_at(self._stack, int(numbers[kernel.TOP])))
            numbers[kernel.TOP] -= 1
        elif state == kernel.PAUSED:
            self._slices += 1
            if self._slices >= _SLICES_A_CONE:
                self._put_back()

    def _take_cone(self) -> None:
        """Load the cone with the least bound onto the empty stack."""
        self._slices = 0
        if not self._heap:
            return
        _, _, cone = heapq.heappop(self._heap)
        root = isinstance(cone, int)
        if isinstance(cone, int):
            cone = self._root(cone)
        else:
            self._held -= cone.nbytes
        while len(cone.ids) + 1 > len(self._stack.ids) or len(cone.ends) > len(self._stack.ends):
            self._stack = _larger(self._stack)
        _put_cone(self._stack, cone)
        if root:
            limit = self.incumbent.cost - self._granularity
            kernel.prune_root(self._stack, self._children[0], self._work, self._kernel_settings, limit)

    def _put_back(self) -> None:
        """Move the stack's cones to the frontier, so that the least bound of all comes next."""
        self._slices = 0
        numbers = self._stack.numbers
        for t in range(int(numbers[kernel.TOP]) + 1):
            cone = _cone_at(self._stack, t)
            if cone.bound <= self.incumbent.cost - self._granularity:
                heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
                self._pushed += 1
                self._held += cone.nbytes
        numbers[kernel.TOP] = -1

    def _root(self, k: int) -> _Cone:
        """Return a cone of the starting cover with all hypotheses."""
        rays = self._roots[k]
        n_rows, n_features = self._features.shape
        scores = np.ascontiguousarray(self._features @ rays.T)
        exact = (np.count_nonzero(rays, axis=1) == 1) | self._sums_are_exact
        errors = np.where(exact, 0.0, n_features * np.finfo(np.float64).eps * self._largest_sum)
        ids = np.arange(n_rows, dtype=np.int32)
        point = np.full(n_features, 1 / n_features)
        return _Cone(scores, ids, self._costs, self._offsets, 0, 0, 0, 0, rays.copy(), errors, point)

    def _close_exactly(self, cone: _Cone) -> None:
        """Search a cone's selections to the end, with exact answers where rounding hides them."""
        self._exact_leaves += 1
        normals, certain = outer_normals(np.ascontiguousarray(cone.rays))
        upper = Incumbent(self.incumbent.cost - cone.fixed, cone.rays.sum(axis=0), "")
        search = ChoicesSearch(
            self._settings.selections,
            np.ascontiguousarray(self._features[cone.ids]),
            cone.ends.copy(),
            cone.costs,
            self._granularity,
            upper,
            normals if certain else None,
        )
        while not search.finished:
            search.advance()
        self._exact_nodes += search.nodes
        self._exact_lps += search.lps
        if upper.cost + cone.fixed < self.incumbent.cost:
            self.incumbent.improve(upper.cost + cone.fixed, upper.weights, "X")
        if search.unsettled is not None:
            unsettled = search.unsettled + cone.fixed
            self.unsettled = unsettled if self.unsettled is None else min(self.unsettled, unsettled)


def _sums_are_exact(features: FloatArray, largest: float) -> bool:
    """Whether all features are multiples of one power of two so large that sums over a row, up to `largest`, are exact."""
    for exponent in (0, 10, 20, 30, 40):
        scaled = np.ldexp(features, exponent)
        if np.all(scaled == np.rint(scaled)):
            return bool(np.ldexp(largest, exponent) < 2.0**52)
    return False


def _new_stack(n_rows: int, n_ends: int, n_cones: int, n_features: int) -> kernel.Stack:
    numbers = np.zeros(7, dtype=np.int64)
    numbers[kernel.TOP] = -1
    whole = [np.zeros(n_cones, dtype=np.int64) for _ in range(8)]
    return kernel.Stack(
        numbers,
        np.empty((n_rows, n_features)),
        np.empty(n_rows, dtype=np.int32),
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_ends, dtype=np.int64),
        *whole,
        np.empty((n_cones, n_features, n_features)),
        np.empty((n_cones, n_features)),
        np.empty((n_cones, n_features)),
        np.zeros(n_features),
    )


def _new_child(n_rows: int, n_lists: int, n_features: int) -> kernel.Child:
    return kernel.Child(
        np.zeros(4, dtype=np.int64),
        np.empty((n_rows, n_features)),
        np.empty(n_rows, dtype=np.int32),
        np.empty(n_rows, dtype=np.int64),
        np.empty(n_lists + 1, dtype=np.int64),
        np.empty((n_features, n_features)),
        np.empty(n_features),
    )


def _larger(stack: kernel.Stack) -> kernel.Stack:
    """Return the stack with twice the room."""
    keep = (stack.numbers, stack.best_weights)
    return kernel.Stack(*(a if any(a is k for k in keep) else np.concatenate([a, np.empty_like(a)]) for a in stack))


def _cone_at(stack: kernel.Stack, t: int) -> _Cone:
    rows = slice(stack.first_row[t], stack.first_row[t] + stack.n_rows[t])
    ends = slice(stack.first_end[t], stack.first_end[t] + stack.n_lists[t] + 1)
    return _Cone(
        stack.scores[rows].copy(),
        stack.ids[rows].copy(),
        stack.costs[rows].copy(),
        stack.ends[ends].copy(),
        int(stack.fixed[t]),
        int(stack.least[t]),
        int(stack.bound[t]),
        int(stack.stalled[t]),
        stack.rays[t].copy(),
        stack.errors[t].copy(),
        stack.points[t].copy(),
    )


def _put_cone(stack: kernel.Stack, cone: _Cone) -> None:
    """Make this cone the only one on the stack."""
    n_rows, n_ends = len(cone.ids), len(cone.ends)
    stack.scores[:n_rows], stack.ids[:n_rows], stack.costs[:n_rows] = cone.scores, cone.ids, cone.costs
    stack.ends[:n_ends] = cone.ends
    stack.first_row[0], stack.n_rows[0] = 0, n_rows
    stack.first_end[0], stack.n_lists[0] = 0, n_ends - 1
    stack.fixed[0], stack.least[0], stack.bound[0] = cone.fixed, cone.least, cone.bound
    stack.stalled[0] = cone.stalled
    stack.rays[0], stack.errors[0], stack.points[0] = cone.rays, cone.errors, cone.point
    stack.numbers[kernel.TOP] = 0
