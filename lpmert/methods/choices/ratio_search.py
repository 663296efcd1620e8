"""Search over selections for metrics that are ratios of sums: corpus BLEU, corpus chrF.

The search is that of search.py. The bound of a node is that of a linear minorant of the metric on the box
of what the sums can still be, with every undecided list at its cheapest hypothesis that goes together with the decided
ones.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from lpmert.errors import IntArray
from lpmert.methods.choices import kernels as kernel
from lpmert.methods.choices import tree as layout
from lpmert.methods.choices.close_oracle import close_oracle_height
from lpmert.methods.choices.ledger_of_ratios import Heights, new_heights
from lpmert.methods.choices.open_selections import UNDECIDED, OpenSelections, put_open, take_open
from lpmert.methods.choices.oracle_bound import oracle_height
from lpmert.methods.choices.ratio_lists import TANGENTS, Ratio, cost_of_height, decode_total, height_limit, ratio_lists
from lpmert.methods.choices.search import ChoicesSearch, Options
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.model.form import Canonical
from lpmert.numeric.leastnorm import SortedLists
from lpmert.numeric.rounding import Rounding
from lpmert.search.method import Incumbent


class Prepared(NamedTuple):
    """What all searches over the same lists begin with; rounding: with the limits.

    least: a cost that nothing undercuts, where somebody knows it.
    """

    lists: SortedLists
    ratio: Ratio
    rounding: Rounding | None
    least: int | None = None


def prepare(canonical: Canonical) -> Prepared:
    """Prepare lists with a ratio metric; raises `MethodError` for a metric that kernels do not know."""
    lists, ratio = ratio_lists(canonical)
    return Prepared(lists, ratio, None if canonical.rounding is None else canonical.rounding.with_limits())


class RatioChoicesSearch(ChoicesSearch):
    """A resumable search over the selections of lists with a ratio metric, within their limits.

    closely: whether the bound that it begins with comes near that of the oracle; not worth it for a short search.
    prepared: what somebody has prepared of these lists. least: as there.
    """

    _ledger: Heights

    def __init__(
        self,
        options: Options,
        canonical: Canonical,
        incumbent: Incumbent,
        closely: bool = True,
        prepared: Prepared | None = None,
        least: int | None = None,
    ) -> None:
        self._canonical, self._closely = canonical, closely
        self._prepared = prepared = prepare(canonical) if prepared is None else prepared
        lists, ratio = prepared.lists, prepared.ratio
        switches = options.switches(1, cores=False)
        super().__init__(options, switches, lists, len(canonical.limits), incumbent, canonical.cap, prepared.rounding)
        self._ledger = new_heights(ratio, len(self._tree.bound), len(self._scratch.scores))
        self._aim()
        self._first_weights = incumbent.weights
        decode_total(lists, ratio, incumbent.weights, self._tree.selection, self._scratch.scores, self._ledger.target)
        self._ledger.bound.at[:] = self._ledger.target
        least = prepared.least if least is None else least
        if least is not None:
            self.least = least

    @cached_property
    def least(self) -> int:
        """A cost that nothing undercuts, of which nobody else need know: it is looked for when it is needed."""
        lists, ratio = self._lists, self._ledger.ratio
        height, bound = oracle_height(lists, ratio, self._first_weights, tangents=TANGENTS if self._closely else 1)
        if self._closely:
            height = close_oracle_height(lists, ratio, height, bound)
        return cost_of_height(self._canonical, ratio.kind, height)

    @property
    def prepared(self) -> Prepared:
        """What searches over the same lists may begin with."""
        return self._prepared._replace(least=self.least)

    @property
    def memory(self) -> int:
        return super().memory + self._ledger.order.nbytes + self._ledger.bounds.nbytes

    def open_parts(self) -> list[OpenSelections]:
        """Return what is open, the coarsest first."""
        tree, ledger = self._tree, self._ledger
        out = ledger.out.copy()
        depth = int(tree.numbers[layout.DEPTH])
        found = []
        for part in reversed(take_open(tree, self._corrals, self._next_bound)):
            above = len(part.lists)
            undone = slice(tree.trail_end[above], tree.trail_end[depth])
            out[self._offsets[tree.trail_list[undone]] + tree.trail_old[undone]] = False
            depth = above
            children = np.zeros((2, 0), dtype=np.int64)
            if part.branch != UNDECIDED:
                rest = slice(part.following, ledger.counts[above])
                children = np.stack([ledger.order[above, rest], ledger.bounds[above, rest]])
            bits = np.packbits(out)
            found.append(
                part._replace(following=0, bound=self._cost_of_bound(part.bound), ruled_out=bits, children=children)
            )
        return found[::-1]

    def go_on_with(self, part: OpenSelections) -> None:
        """Search a part next, and nothing else of what was open."""
        put_open(self._tree, self._corrals, self._lists, part)
        ledger, depth = self._ledger, len(part.lists)
        ledger.out[:] = np.unpackbits(part.ruled_out, count=len(ledger.out))
        ledger.counts[:depth] = self._tree.branch_next[:depth]  # nothing else is open above
        rows = self._offsets[part.lists] + part.choices
        for above, row in enumerate(rows):
            ledger.totals[above + 1] = ledger.totals[above] + ledger.ratio.statistics[row]
        ledger.tries[depth] = 0
        n_children = part.children.shape[1]
        ledger.order[depth, :n_children], ledger.bounds[depth, :n_children] = part.children
        ledger.counts[depth] = n_children
        self._state = kernel.WORKING

    def _aim(self) -> None:
        ledger = self._ledger
        ledger.loss[0] = min(ledger.loss[0], self._canonical.loss_of(self.incumbent.cost))
        self._known = ledger.loss[0]
        self._tree.numbers[layout.UPPER] = height_limit(ledger.ratio.kind, ledger.loss[0])

    def _take_found(self) -> None:
        loss = float(self._ledger.loss[0])
        if loss < self._known:
            self.incumbent.improve(self._canonical.cost_of_loss(loss), self._tree.best_weights, "S")

    def _cost_of_bound(self, bound: int) -> int:
        return max(self.least, cost_of_height(self._canonical, self._ledger.ratio.kind, bound))

    def _cost_of_rows(self, rows: IntArray) -> int:
        ratio = self._ledger.ratio
        total = ratio.constant + ratio.statistics[rows].sum(axis=0)
        return self._canonical.cost_of_loss(float(loss_of_total(ratio.kind, ratio.parameters, total)))

    def _next_bound(self, depth: int) -> int | None:
        q = self._tree.branch_next[depth]
        return int(self._ledger.bounds[depth, q]) if q < self._ledger.counts[depth] else None
