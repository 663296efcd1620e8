"""A bound for a ratio metric where no search can finish: that of an additive problem below it.

A linear minorant of the metric on the box of all possible sums gives every hypothesis a cost. Whatever is proved of
these costs is proved of the metric; and what looks for weights that have them low finds good weights for the metric,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.close_oracle import close_oracle_height
from lpmert.methods.choices.oracle_bound import oracle_height
from lpmert.methods.choices.ratio_lists import cost_of_height, ratio_lists
from lpmert.methods.choices.shared import SharedChoices
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.search.combined import Combined
from lpmert.search.method import Incumbent, Search


class MinorantSearch(Combined):
    """A resumable search of the additive problem, then of the ratio itself by selections.

    start: begins the search of costs that add up.
    """

    phase = "groups of lists"

    def __init__(
        self,
        selections: Choices,
        canonical: Canonical,
        incumbent: Incumbent,
        start: Callable[[Canonical, Incumbent], Search],
    ) -> None:
        super().__init__(incumbent)
        self._selections, self._canonical, self._start = selections, canonical, start
        lists, ratio = ratio_lists(canonical)
        self._kind = ratio.kind
        self._height, bound = oracle_height(lists, ratio, incumbent.weights)
        self._costs = bound.costs[: len(canonical.features)].copy()
        self._least = cost_of_height(canonical, ratio.kind, close_oracle_height(lists, ratio, self._height, bound))
        self._whole: SharedChoices | None = None
        self._inner: Search | None = None
        relaxed = canonical.with_costs(self._costs)
        if relaxed.n_lists:
            below = Incumbent(relaxed.dearest, incumbent.weights, "")
            below.improve(relaxed.clear_cost(incumbent.weights)[0], incumbent.weights, "")
            self._inner = start(relaxed, below)

    @property
    def least(self) -> int:
        """A cost that nothing undercuts, known before the search; for others over the same lists."""
        return self._least

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or (self._whole is not None and self._whole.finished)

    @property
    def unsettled(self) -> int | None:
        """What the search of the ratio itself left unsettled; costs below the ratio are only a bound."""
        return None if self._whole is None else self._whole.unsettled

    @property
    def lower_bound(self) -> int:
        height = self._height + (0 if self._inner is None else self._inner.lower_bound or 0)
        bound = max(self._least, cost_of_height(self._canonical, self._kind, height))
        if self._whole is not None:
            bound = max(bound, self._whole.lower_bound)
        return min(bound, self.incumbent.cost)

    @property
    def slices(self) -> float:
        return 1 if self._inner is None or self._whole is not None else self._inner.slices

    @property
    def turns(self) -> float:
        return 1

    @property
    def _searches(self) -> list[Search]:
        return [search for search in (self._inner, self._whole) if search is not None]

    def state(self) -> Mapping[str, Any]:
        inner, best = self._inner, None if self._inner is None else self._inner.incumbent
        return {
            "height": self._height,
            "costs": self._costs,
            "least": self._least,
            "best": None if best is None else (best.cost, best.weights, best.source),
            "inner": None if inner is None else inner.state(),
            "whole": None if self._whole is None else self._whole.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the minorant of that search: what is proved there is proved of its costs."""
        self._height, self._costs, self._least = state["height"], state["costs"], state["least"]
        self._inner = None
        if state["inner"] is not None:
            cost, weights, source = state["best"]
            best = Incumbent(cost, CanonicalWeights(weights), source)
            self._inner = self._start(self._canonical.with_costs(self._costs), best)
            self._inner.restore(state["inner"])
        if state["whole"] is not None:
            self._whole = SharedChoices(self._selections, self._canonical, self.incumbent, self._least)
            self._whole.restore(state["whole"])

    def advance(self) -> None:
        """Search the additive problem, and when that is finished the ratio."""
        if self._inner is None or self._inner.finished:
            if self._whole is None:
                self._whole = SharedChoices(self._selections, self._canonical, self.incumbent, self._least)
            self._whole.advance()
            return
        before = self._inner.incumbent.weights
        self._inner.advance()
        found = self._inner.incumbent.weights
        if found is not before:
            loss = self._canonical.totals.attained(found)
            if loss is not None:
                self.incumbent.improve(self._canonical.cost_of_loss(loss), found, "L")
