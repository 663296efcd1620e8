"""Search over selections for metrics that are ratios of sums: corpus BLEU, corpus chrF.

The search is that of search.py. The bound of a node is that of a linear minorant of the metric on the box
of what the sums can still be, with every undecided list at its cheapest hypothesis that goes together with the decided
ones.
"""

from __future__ import annotations

from lpmert.errors import IntArray
from lpmert.methods.choices import tree as layout
from lpmert.methods.choices.close_oracle import close_oracle_height
from lpmert.methods.choices.ledger_of_ratios import Heights, new_heights
from lpmert.methods.choices.oracle_bound import oracle_height
from lpmert.methods.choices.ratio_lists import TANGENTS, cost_of_height, decode_total, height_limit, ratio_lists
from lpmert.methods.choices.search import ChoicesSearch, Options
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent


class RatioChoicesSearch(ChoicesSearch):
    """A resumable search over the selections of lists with a ratio metric, within their limits.

    closely: whether the bound that it begins with comes near that of the oracle; not worth it for a short search.
    """

    _ledger: Heights

    def __init__(self, options: Options, canonical: Canonical, incumbent: Incumbent, closely: bool = True) -> None:
        self._canonical = canonical
        lists, ratio = ratio_lists(canonical)
        switches = options.switches(1, cores=False)
        exact = None if canonical.rounding is None else canonical.rounding.with_limits()
        super().__init__(options, switches, lists, len(canonical.limits), incumbent, canonical.cap, exact)
        self._ledger = new_heights(ratio, len(self._tree.bound), len(self._scratch.scores))
        self._aim()
        decode_total(lists, ratio, incumbent.weights, self._tree.selection, self._scratch.scores, self._ledger.target)
        self._ledger.bound.at[:] = self._ledger.target
        height, bound = oracle_height(lists, ratio, incumbent.weights, tangents=TANGENTS if closely else 1)
        if closely:
            height = close_oracle_height(lists, ratio, height, bound)
        self._least = cost_of_height(canonical, ratio.kind, height)

    @property
    def memory(self) -> int:
        return super().memory + self._ledger.order.nbytes + self._ledger.bounds.nbytes

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
        return max(self._least, cost_of_height(self._canonical, self._ledger.ratio.kind, bound))

    def _cost_of_rows(self, rows: IntArray) -> int:
        ratio = self._ledger.ratio
        total = ratio.constant + ratio.statistics[rows].sum(axis=0)
        return self._canonical.cost_of_loss(float(loss_of_total(ratio.kind, ratio.parameters, total)))

    def _next_bound(self, depth: int) -> int | None:
        q = self._tree.branch_next[depth]
        return int(self._ledger.bounds[depth, q]) if q < self._ledger.counts[depth] else None
