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
from lpmert.exact.cells_stack import Cone, cone_at, larger, new_child, new_stack, new_work, put_cone, whole_cone
from lpmert.exact.choices import Choices, ChoicesSearch
from lpmert.exact.choices_tree import Settings as SelectionSettings
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.geometry.cone import cone_around, covering_cones, outer_normals, wider_rays
from lpmert.geometry.leastnorm import rounding_bound, sorted_lists
from lpmert.kernels import INFINITE_COST, clear_cost
from lpmert.problem import Problem

_SLICE = 4_000_000
_SLICES_A_CONE = 5
_FRONTIER_BYTES = 1 << 28
"""Beyond so much memory the frontier takes no more cones: the one at hand is searched depth first to its end."""


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
    takes_ratios = True
    takes_fractions = True
    takes_caps = True

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search over the whole weight space that begins with this incumbent."""
        if not problem.additive:
            from lpmert.exact.ratio_cells import RatioCellsSearch

            return RatioCellsSearch(self, problem, incumbent)
        return CellsSearch(self, problem, incumbent)


class CellsSearch:
    """A resumable search over the weight space of a problem in canonical form."""

    def __init__(self, settings: Cells, problem: Problem, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self._settings = settings
        self._cap = problem.cap
        self._lists = sorted_lists(problem.features, problem.offsets, problem.costs, problem.cap)
        self._granularity = problem.granularity
        n_rows, n_features = self._lists.rows.shape
        self._stack = new_stack(2 * n_rows + 1000, 2 * problem.n_lists + 1000, 64, n_features)
        self._stack.best_weights[:] = incumbent.weights
        self._children = (
            new_child(n_rows, problem.n_lists, n_features),
            new_child(n_rows, problem.n_lists, n_features),
        )
        self._work = new_work(n_rows, n_features, settings.cuts)
        self._largest_sum = float(np.abs(self._lists.rows).sum(axis=1).max(initial=0.0))
        choice = settings.selections
        self._kernel_settings = kernel.Settings(
            self._granularity,
            settings.leaf_lists,
            1_000_000,
            2_500,
            settings.cut_rows,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features,
            2.0 * self._largest_sum,
            SelectionSettings(
                self._granularity,
                choice.sharpness,
                choice.core_preference,
                choice.look_ahead,
                choice.use_cores,
                choice.use_witnesses,
            ),
        )
        around = None if problem.cap is None else cone_around(problem.cap)
        self._roots = covering_cones(n_features) if around is None else around[None, :, :]
        self._heap: list[tuple[int, int, Cone | int]] = [(0, k, k) for k in range(len(self._roots))]
        self._pushed = len(self._roots)
        self._slices = 0
        self._held = 0
        self._closing: tuple[ChoicesSearch, int] | None = None
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
        if self._closing is not None:
            self._close()
            return
        numbers = self._stack.numbers
        numbers[layout.UPPER_COST] = self.incumbent.cost
        if numbers[layout.TOP] < 0:
            self._take_cone()
        state = kernel.explore(self._lists, self._stack, self._children, self._work, self._kernel_settings, _SLICE)
        if numbers[layout.UPPER_COST] < self.incumbent.cost:
            self.incumbent.improve(int(numbers[layout.UPPER_COST]), self._stack.best_weights, "C")
        if state == kernel.FULL:
            self._stack = larger(self._stack)
        elif state == kernel.HARD:
            self._start_closing(cone_at(self._stack, int(numbers[layout.TOP])))
        elif state == kernel.PAUSED:
            self._slices += 1
            if self._slices >= _SLICES_A_CONE and self._held < _FRONTIER_BYTES:
                self._put_back()

    def _take_cone(self) -> None:
        """Load the cone with the least bound onto the empty stack."""
        self._slices = 0
        if not self._heap:
            return
        _, _, cone = heapq.heappop(self._heap)
        root = isinstance(cone, int)
        if isinstance(cone, int):
            cone = whole_cone(self._lists, self._roots[cone].copy())
        else:
            self._held -= cone.nbytes
        while len(cone.ids) + 1 > len(self._stack.ids) or len(cone.ends) > len(self._stack.ends):
            self._stack = larger(self._stack)
        put_cone(self._stack, cone)
        if root:
            limit = self.incumbent.cost - self._granularity
            kernel.prune_root(self._lists, self._stack, self._children[0], self._work, self._kernel_settings, limit)

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

    def _start_closing(self, cone: Cone) -> None:
        """Prepare the search of a cone's selections with exact answers, over a slightly wider cone.

        The hypotheses that may win in the wider cone are found anew among all. Where the cone is too thin for that,
        the whole weight space is searched.
        """
        self._exact_leaves += 1
        normals, certain = outer_normals(np.ascontiguousarray(cone.rays))
        wider = wider_rays(cone.rays) if certain else None
        incumbent = Incumbent(self.incumbent.cost, self.incumbent.weights, "")
        everything = self._lists.rows, self._lists.offsets, self._lists.costs
        fixed = 0
        if wider is not None:
            stack = new_stack(len(self._lists.costs) + 1, len(self._lists.offsets) + 1, 4, len(wider))
            put_cone(stack, whole_cone(self._lists, wider))
            kernel.prune_root(self._lists, stack, self._children[0], self._work, self._kernel_settings, INFINITE_COST)
            kept = cone_at(stack, 0)
            fixed = kept.fixed
            everything = np.ascontiguousarray(self._lists.rows[kept.ids]), kept.ends, kept.costs
        incumbent.cost -= fixed
        search = ChoicesSearch(
            self._settings.selections,
            *everything,
            self._granularity,
            incumbent,
            normals if wider is not None else None,
            self._cap,
        )
        self._closing = search, fixed

    def _close(self) -> None:
        """Go on with the cone on top of the stack in exact arithmetic, and take it off when it is done."""
        if self._closing is None:
            return
        search, fixed = self._closing
        if not search.finished:
            search.advance()
        if search.incumbent.cost + fixed < self.incumbent.cost:
            found = search.incumbent.weights
            cost, clear = clear_cost(
                self._lists.rows, self._lists.offsets, self._lists.costs, found, rounding_bound(self._lists, found)
            )
            if clear:
                self.incumbent.improve(int(cost), found, "X")
            else:
                self._leave_unsettled(search.incumbent.cost + fixed)
        if search.finished:
            if search.unsettled is not None:
                self._leave_unsettled(search.unsettled + fixed)
            self._exact_nodes += search.nodes
            self._exact_lps += search.lps
            self._closing = None
            self._stack.numbers[layout.TOP] -= 1

    def _leave_unsettled(self, cost: int) -> None:
        self.unsettled = cost if self.unsettled is None else min(self.unsettled, cost)
