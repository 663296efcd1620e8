"""Search over selections for metrics that are ratios of sums: corpus BLEU, corpus chrF.

The search is that of search.py. The bound of a node is that of a linear minorant of the metric on the box
of what the sums can still be, with every undecided list at its cheapest hypothesis that goes together with the decided
ones.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from lpmert import core
from lpmert.errors import IntArray
from lpmert.methods.choices.close_oracle import close_oracle_height
from lpmert.methods.choices.oracle_bound import oracle_height
from lpmert.methods.choices.ratio_lists import TANGENTS, Ratio, cost_of_height, ratio_lists
from lpmert.methods.choices.search import ChoicesSearch, Options
from lpmert.model.canonical import Canonical
from lpmert.numeric.lists import SortedLists
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
    """Prepare lists with a ratio metric; raises `MethodError` for a metric whose formula is not known."""
    lists, ratio = ratio_lists(canonical)
    return Prepared(lists, ratio, None if canonical.rounding is None else canonical.rounding.with_limits())


class RatioChoicesSearch(ChoicesSearch):
    """A resumable search over the selections of lists with a ratio metric, within their limits.

    closely: whether the bound that it begins with comes near that of the oracle; not worth it for a short search.
    prepared: what somebody has prepared of these lists. least: as there.
    """

    _core: core.RatioChoices

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
        super().__init__(options, 1, False, lists, incumbent, canonical.cap, prepared.rounding)
        self._ratio, native = ratio, lists.native()
        self._first_weights = incumbent.weights
        total = core.decode_total(native, ratio, incumbent.weights)
        self._known = min(1.0, canonical.loss_of(incumbent.cost))
        first = len(canonical.limits), self._known, total, incumbent.weights
        self._core = core.RatioChoices(native, ratio, *first, self._settings)
        least = prepared.least if least is None else least
        if least is not None:
            self.least = least

    @cached_property
    def least(self) -> int:
        """A cost that nothing undercuts, of which nobody else need know: it is looked for when it is needed."""
        lists, ratio = self._lists, self._ratio
        height, bound = oracle_height(lists, ratio, self._first_weights, tangents=TANGENTS if self._closely else 1)
        if self._closely:
            height = close_oracle_height(lists, ratio, height, bound)
        return cost_of_height(self._canonical, ratio.kind, height)

    @property
    def prepared(self) -> Prepared:
        """What searches over the same lists may begin with."""
        return self._prepared._replace(least=self.least)

    def _aim(self) -> None:
        self._core.aim(self._canonical.loss_of(self.incumbent.cost))
        self._known = self._core.cost

    def _take_found(self) -> None:
        loss = self._core.cost
        if loss < self._known:
            self.incumbent.improve(self._canonical.cost_of_loss(loss), self._core.best_weights, "S")

    def _cost_of_bound(self, bound: int) -> int:
        return max(self.least, cost_of_height(self._canonical, self._ratio.kind, bound))

    def _cost_of_rows(self, rows: IntArray) -> int:
        ratio = self._ratio
        total = ratio.constant + ratio.statistics[rows].sum(axis=0)
        return self._canonical.cost_of_loss(core.loss_of_total(ratio.kind, ratio.parameters, total))
