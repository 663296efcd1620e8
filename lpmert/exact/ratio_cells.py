"""Branch and bound over the weight space for metrics that are ratios of sums: corpus BLEU, corpus chrF.

Best first over a frontier of coarse cones, depth first inside each, as in exact/cells.py. In a cone every summed
statistic lies in a known interval, on which a linear function of the sums bounds the loss from below; it is a sum over
lists, so its least value is a sum of minima. Small cones are searched selection by selection; stalled ones, and those
that rounding leaves undecided, go to the search over selections with exact answers, restricted to the cone.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lpmert.exact import cells_stack as layout
from lpmert.exact import ratio_cells_kernels as kernel
from lpmert.exact.cells_kernels import FULL, HARD, PAUSED
from lpmert.exact.cells_stack import Cone, cone_at, larger, new_child, new_stack, new_work, put_cone, whole_cone
from lpmert.exact.ratio_choices import Part, RatioChoicesSearch
from lpmert.exact.ratio_lists import UNIT, decode_total, height_limit, height_of_all, new_bound, ratio_lists
from lpmert.exact.search import Incumbent
from lpmert.geometry.cone import covering_cones, enclosing_cone
from lpmert.kernels import INFINITE_COST
from lpmert.metrics.ratio_kernels import loss_of_height
from lpmert.problem import Problem
from lpmert.result import FloatArray, MethodError

if TYPE_CHECKING:
    from lpmert.exact.cells import Cells

_SLICE = 4_000_000
_SLICES_A_CONE = 5
_FRONTIER_BYTES = 1 << 28
"""Beyond so much memory the frontier takes no more cones: the one at hand is searched depth first to its end."""

_LEAF_LISTS = 6
_LEAF_SELECTIONS = 4096
_REPRICED_EVERY = 3
"""Splits after which a cone's hypotheses are priced anew: the minorant changes less than the choice between them."""

_LEAF_ROWS = 2500

_Held = tuple[Cone, FloatArray]
"""A cone and the sums of its settled lists."""


class RatioCellsSearch:
    """A resumable search over the weight space of a problem with a ratio metric; bounds are heights in units.

    Raises `MethodError` for a region with a cosine.
    """

    def __init__(self, settings: Cells, problem: Problem, incumbent: Incumbent) -> None:
        if problem.cap is not None:
            raise MethodError(f"method 'cells' cannot keep to a cosine with {problem.metric.name!r}; use choices")
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self._settings = settings
        self._problem = problem
        lists = problem.features, problem.offsets, problem.statistics, problem.constant_statistics
        self._lists, self._ratio = ratio_lists(problem.metric, *lists, problem.limits)
        n_rows, n_features = self._lists.rows.shape
        n_lists, n_columns = len(self._lists.offsets) - 1, self._ratio.statistics.shape[1]
        self._stack = new_stack(2 * n_rows + 1000, 2 * n_lists + 1000, 64, n_features)
        self._stack.best_weights[:] = incumbent.weights
        self._totals = np.zeros((64, n_columns))
        self._children = new_child(n_rows, n_lists, n_features), new_child(n_rows, n_lists, n_features)
        self._child_totals = np.zeros((2, n_columns))
        self._work = new_work(n_rows, n_features, settings.cuts)
        self._bound = new_bound(n_rows, n_columns)
        self._state = kernel.State(
            np.ones(1),
            np.zeros(n_lists, dtype=np.int64),
            np.zeros(int(np.diff(self._lists.offsets).max(initial=1))),
            np.zeros(n_columns),
        )
        self._kernel_settings = kernel.Settings(
            min(_LEAF_LISTS, settings.leaf_lists),
            _LEAF_SELECTIONS,
            _LEAF_ROWS,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features,
            settings.cut_rows,
            _REPRICED_EVERY,
            2.0 * float(np.abs(self._lists.rows).sum(axis=1).max(initial=0.0)),
        )
        self._roots = covering_cones(n_features)
        self._heap: list[tuple[int, int, _Held | int]] = [(0, k, k) for k in range(len(self._roots))]
        state = self._state
        decode_total(self._lists, self._ratio, incumbent.weights, state.selection, state.scores, self._bound.at)
        self._least = self._cost_of_height(height_of_all(self._lists, self._ratio, self._bound))
        self._pushed = len(self._roots)
        self._slices = 0
        self._held = 0
        self._closing: RatioChoicesSearch | None = None
        self._exact_leaves = 0
        self._exact_nodes = 0
        self._exact_lps = 0
        self._take_loss()

    @property
    def finished(self) -> bool:
        open_cones = self._heap or self._stack.numbers[layout.TOP] >= 0
        return not open_cones or self.lower_bound >= self.incumbent.cost

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's cost where none is open."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        open_bounds = [self._heap[0][0]] if self._heap else []
        top = int(self._stack.numbers[layout.TOP])
        if top >= 0:
            open_bounds.append(int(self._stack.bound[: top + 1].min()))
        if not open_bounds:
            return upper
        return min(upper, max(self._least, self._cost_of_height(min(open_bounds))))

    def _cost_of_height(self, height: int) -> int:
        """Return a cost that nothing of at least this height undercuts."""
        return self._problem.cost_of_loss(min(1.0, loss_of_height(self._ratio.kind, height * UNIT)))

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
        return self._held + self._totals.nbytes + sum(array.nbytes for array in self._stack)

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
            self._close(self._closing)
            return
        self._take_loss()
        numbers = self._stack.numbers
        if numbers[layout.TOP] < 0:
            self._take_cone()
        state = kernel.explore(
            self._lists,
            self._ratio,
            self._stack,
            self._totals,
            self._children,
            self._child_totals,
            self._state,
            self._bound,
            self._work,
            self._kernel_settings,
            _SLICE,
        )
        self._give_loss(self._stack)
        if state == FULL:
            self._grow()
        elif state == HARD:
            self._closing = self._search_of(cone_at(self._stack, int(numbers[layout.TOP])))
            if self._closing is None:
                numbers[layout.TOP] -= 1
        elif state == PAUSED:
            self._slices += 1
            if self._slices >= _SLICES_A_CONE and self._held < _FRONTIER_BYTES:
                self._put_back()

    def _take_loss(self) -> None:
        """Look only for what is better than the incumbent, whoever found it."""
        self._state.loss[0] = min(self._state.loss[0], self._problem.loss_of(self.incumbent.cost))
        self._stack.numbers[layout.UPPER_COST] = height_limit(self._ratio.kind, self._state.loss[0])

    def _give_loss(self, stack: layout.Stack) -> None:
        """Take the weights that the stack's cones have led to, if they are the best."""
        cost = self._problem.cost_of_loss(float(self._state.loss[0]))
        self.incumbent.improve(cost, stack.best_weights, "C")

    def _grow(self) -> None:
        self._stack = larger(self._stack)
        self._totals = np.concatenate([self._totals, np.empty_like(self._totals)])

    def _take_cone(self) -> None:
        """Load the cone with the least bound onto the empty stack."""
        self._slices = 0
        if not self._heap:
            return
        _, _, held = heapq.heappop(self._heap)
        root = isinstance(held, int)
        if isinstance(held, int):
            cone, total = whole_cone(self._lists, self._roots[held].copy()), self._ratio.constant
        else:
            cone, total = held
            self._held -= cone.nbytes
        while len(cone.ids) + 1 > len(self._stack.ids) or len(cone.ends) > len(self._stack.ends):
            self._grow()
        put_cone(self._stack, cone)
        self._totals[0] = total
        if root:
            self._prune_root(self._stack, self._totals)
            self._give_loss(self._stack)

    def _prune_root(self, stack: layout.Stack, totals: FloatArray) -> None:
        kernel.prune_root(
            self._lists,
            self._ratio,
            stack,
            totals,
            self._children[0],
            self._child_totals[0],
            self._state,
            self._bound,
            self._work,
            self._kernel_settings,
        )

    def _put_back(self) -> None:
        """Move the stack's cones to the frontier, so that the least bound of all comes next."""
        self._slices = 0
        numbers = self._stack.numbers
        for t in range(int(numbers[layout.TOP]) + 1):
            cone = cone_at(self._stack, t)
            if cone.bound < numbers[layout.UPPER_COST]:
                heapq.heappush(self._heap, (cone.bound, self._pushed, (cone, self._totals[t].copy())))
                self._pushed += 1
                self._held += cone.nbytes
        numbers[layout.TOP] = -1

    def _search_of(self, cone: Cone) -> RatioChoicesSearch | None:
        """Return the search of a cone's selections with exact answers, over a slightly wider cone; `None` if it has
        none.

        The hypotheses that may win in the wider cone are found anew among all. Where the cone is too thin for that,
        the whole weight space is searched.
        """
        self._exact_leaves += 1
        incumbent = Incumbent(self.incumbent.cost, self.incumbent.weights, "")
        enclosing = enclosing_cone(cone.rays)
        if enclosing is None:
            return RatioChoicesSearch(self._settings.selections, self._problem, incumbent)
        normals, wider = enclosing
        n_rows, n_columns = self._ratio.statistics.shape
        stack = new_stack(n_rows + 1, len(self._lists.offsets) + 1, 4, len(wider))
        totals = np.zeros((4, n_columns))
        put_cone(stack, whole_cone(self._lists, wider))
        stack.numbers[layout.UPPER_COST] = INFINITE_COST
        self._prune_root(stack, totals)
        self._give_loss(stack)
        if stack.numbers[layout.TOP] < 0:
            return None
        kept = cone_at(stack, 0)
        n_own = int(np.searchsorted(kept.ids[kept.ends[:-1]], len(self._problem.features)))  # the limits come last
        ends = kept.ends[: n_own + 1]
        rows = kept.ids[: ends[-1]]
        part = Part(
            np.ascontiguousarray(self._lists.rows[rows]),
            ends,
            self._ratio.statistics[rows],
            totals[0],
            np.vstack([normals, self._problem.limits]),
        )
        return RatioChoicesSearch(self._settings.selections, self._problem, incumbent, part)

    def _close(self, search: RatioChoicesSearch) -> None:
        """Go on with the cone on top of the stack in exact arithmetic, and take it off when it is done."""
        if not search.finished:
            search.advance()
        if search.incumbent.cost < self.incumbent.cost:
            cost, found = search.incumbent.cost, search.incumbent.weights
            if self._problem.attains(self._problem.to_caller(found), cost):
                self.incumbent.improve(cost, found, "X")
            else:
                self._leave_unsettled(cost)
        if search.finished:
            if search.unsettled is not None:
                self._leave_unsettled(search.unsettled)
            self._exact_nodes += search.nodes
            self._exact_lps += search.lps
            self._closing = None
            self._stack.numbers[layout.TOP] -= 1

    def _leave_unsettled(self, cost: int) -> None:
        self.unsettled = cost if self.unsettled is None else min(self.unsettled, cost)
