"""Branch and bound over the weight space: cones of weights, and in each the hypotheses that may still win.

Best first over a frontier of coarse cones, depth first inside each. The bound of a cone is the sum of every list's
cheapest survivor. Small or stalled cones go to the search over selections, restricted to the cone; where rounding
leaves that undecided, exact arithmetic closes the cone.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lpmert.exact import cells_kernels as kernel
from lpmert.exact import cells_stack as layout
from lpmert.exact.cells_stack import Cone, Work, cone_at, larger, new_child, new_stack, put_cone
from lpmert.exact.choices import Choices, ChoicesSearch
from lpmert.exact.choices_tree import Settings as SelectionSettings
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.geometry.cone import covering_cones, outer_normals
from lpmert.problem import Problem
from lpmert.result import FloatArray

_SLICE = 4_000_000
_SLICES_A_CONE = 5


@dataclass(frozen=True)
class Cells(ExactMethod):
    """Settings of the search over the weight space; none changes the optimum.

    leaf_lists: cones with at most so many open lists go to the search over selections. stalled_splits: splits in a row,
    times the number of features, without a tenth of the lists settled, after which a larger cone goes there too. cuts:
    how many cutting planes may raise the bound of a cone with at most cut_rows survivors; 0 turns them off.
    """

    leaf_lists: int = 10
    cuts: int = 8
    cut_rows: int = 2000
    stalled_splits: int = 4
    selections: Choices = field(default_factory=Choices)

    name = "cells"

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search over the whole weight space that begins with this incumbent."""
        return CellsSearch(self, problem, incumbent)


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
        self._stack = new_stack(2 * n_rows + 1000, 2 * problem.n_lists + 1000, 64, n_features)
        self._stack.best_weights[:] = incumbent.weights
        self._children = (
            new_child(n_rows, problem.n_lists, n_features),
            new_child(n_rows, problem.n_lists, n_features),
        )
        self._work = Work(
            np.empty(n_rows),
            np.empty(n_features, dtype=np.int64),
            np.zeros((n_features, n_features)),
            np.empty(n_features),
            np.empty(n_features),
            np.empty((settings.cuts, n_features)),
            np.empty((settings.cuts + 1, n_features + settings.cuts + 1)),
            np.empty(settings.cuts, dtype=np.int64),
            np.empty(n_features),
            np.empty(n_features),
        )
        self._largest_sum = float(np.abs(self._features).sum(axis=1).max(initial=0.0))
        self._sums_are_exact = _sums_are_exact(self._features, self._largest_sum)
        choice = settings.selections
        self._kernel_settings = kernel.Settings(
            self._granularity,
            settings.leaf_lists,
            1_000_000,
            2_500,
            settings.cut_rows,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features,
            self._largest_sum,
            SelectionSettings(
                self._granularity,
                choice.sharpness,
                choice.core_preference,
                choice.look_ahead,
                choice.use_cores,
                choice.use_witnesses,
            ),
        )
        self._roots = covering_cones(n_features)
        self._heap: list[tuple[int, int, Cone | int]] = [(0, k, k) for k in range(len(self._roots))]
        self._pushed = len(self._roots)
        self._slices = 0
        self._held = 0
        self._exact_leaves = 0
        self._exact_nodes = 0
        self._exact_lps = 0

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or (not self._heap and self._stack.numbers[layout.TOP] < 0)

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's cost where none is open."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        open_bounds = [upper]
        if self._heap:
            open_bounds.append(self._heap[0][0])
        top = int(self._stack.numbers[layout.TOP])
        if top >= 0:
            open_bounds.append(int(self._stack.bound[: top + 1].min()))
        least = min(open_bounds)
        return upper if least > upper - self._granularity else least

    @property
    def nodes(self) -> int:
        return int(self._stack.numbers[layout.NODES]) + self._exact_nodes

    @property
    def open_nodes(self) -> int:
        return len(self._heap) + int(self._stack.numbers[layout.TOP]) + 1

    @property
    def lps(self) -> int:
        return int(self._stack.numbers[layout.LEAF_LPS]) + self._exact_lps

    @property
    def memory(self) -> int:
        return self._held + sum(array.nbytes for array in self._stack)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "cut_off": int(self._stack.numbers[layout.CUT_OFF]),
            "leaves": int(self._stack.numbers[layout.LEAVES]),
            "lps": self.lps,
            "exact_leaves": self._exact_leaves,
        }

    def advance(self) -> None:
        """Search on for one slice of work."""
        numbers = self._stack.numbers
        numbers[layout.UPPER_COST] = self.incumbent.cost
        if numbers[layout.TOP] < 0:
            self._take_cone()
        state = kernel.explore(self._features, self._stack, self._children, self._work, self._kernel_settings, _SLICE)
        if numbers[layout.UPPER_COST] < self.incumbent.cost:
            self.incumbent.improve(int(numbers[layout.UPPER_COST]), self._stack.best_weights, "C")
        if state == kernel.FULL:
            self._stack = larger(self._stack)
        elif state == kernel.HARD:
            self._close_exactly(cone_at(self._stack, int(numbers[layout.TOP])))
            numbers[layout.TOP] -= 1
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
            self._stack = larger(self._stack)
        put_cone(self._stack, cone)
        if root:
            limit = self.incumbent.cost - self._granularity
            kernel.prune_root(self._stack, self._children[0], self._work, self._kernel_settings, limit)

    def _put_back(self) -> None:
        """Move the stack's cones to the frontier, so that the least bound of all comes next."""
        self._slices = 0
        numbers = self._stack.numbers
        for t in range(int(numbers[layout.TOP]) + 1):
            cone = cone_at(self._stack, t)
            if cone.bound <= self.incumbent.cost - self._granularity:
                heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
                self._pushed += 1
                self._held += cone.nbytes
        numbers[layout.TOP] = -1

    def _root(self, k: int) -> Cone:
        """Return a cone of the starting cover with all hypotheses."""
        rays = self._roots[k]
        n_rows, n_features = self._features.shape
        unit = np.count_nonzero(rays, axis=1) == 1
        if unit.all():  # an orthant: no products to add up
            axis = np.abs(rays).argmax(axis=1)
            scores = np.ascontiguousarray(self._features[:, axis] * rays[np.arange(n_features), axis])
        else:
            scores = np.ascontiguousarray(self._features @ rays.T)
        exact = unit | self._sums_are_exact
        errors = np.where(exact, 0.0, n_features * np.finfo(np.float64).eps * self._largest_sum)
        ids = np.arange(n_rows, dtype=np.int32)
        point = np.full(n_features, 1 / n_features)
        return Cone(scores, ids, self._costs, self._offsets, 0, 0, 0, 0, rays.copy(), errors, point)

    def _close_exactly(self, cone: Cone) -> None:
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
    """Whether the features are multiples of a power of two so large that sums of a row, up to `largest`, are exact."""
    for exponent in (0, 10, 20, 30, 40):
        scaled = np.ldexp(features, exponent)
        if np.all(scaled == np.rint(scaled)):
            return bool(np.ldexp(largest, exponent) < 2.0**52)
    return False
