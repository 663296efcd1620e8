"""Losses that are fractions of sums, a.x / b.x (F_beta, precision, recall), by searches that need a sum over lists.

Source: Dinkelbach, On nonlinear fractional programming, Management Science 1967. A loss t is the least one exactly when
no selection makes the sum of a.x - t b.x negative. With t a fraction of whole numbers these costs are whole numbers, so
that every method for additive losses decides it exactly. Selections with b.x = 0, whose loss is
1, escape such sums where t > 1: then one more additive search, for the least b.x, tells whether there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from lpmert.errors import MethodError
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.presolve import whole_fractions
from lpmert.numeric.lists import least_costs
from lpmert.quoting import quoted
from lpmert.search.incumbent import moved
from lpmert.search.method import Combined, Incumbent, Search

_PERTURBATIONS = 24

Start = Callable[[Canonical, Incumbent], Search]
"""Begins a search for the least sum of costs."""


class FractionSearch(Combined):
    """A resumable search for the least fraction: additive searches one after another, each for a lower loss.

    The incumbent's cost is its loss in the problem's fixed point, whose unit tells any two losses apart; in between the
    loss is an exact fraction. What an additive search has found counts by its loss when decoded in exact arithmetic.
    """

    checkpointed = ("_counted", "_unsettled", "_looked_at", "_proved")

    def __init__(self, canonical: Canonical, incumbent: Incumbent, start: Start) -> None:
        totals = canonical.totals
        fraction = totals.fraction
        if fraction is None:
            raise MethodError(f"metric {quoted(totals.metric.name)} is no fraction of sums")
        super().__init__(incumbent)
        self._canonical = canonical
        self._start = start
        self._above, self._below, self._more_above, self._more_below = whole_fractions(
            totals.statistics,
            totals.constant,
            fraction.above.tolist(),
            fraction.below.tolist(),
            canonical.offsets,
            len(canonical.limits),
        )
        starts = canonical.offsets[:-1]
        self._least_below = self._more_below  # the least of every list is 0
        self._inner: Search | None = None
        self._looked_at = 0
        self._proved = False
        self._proves = True
        loss = totals.attained(incumbent.weights)
        if loss is None:  # only ties are known: no loss is above that of the largest numerator and least denominator
            most = int(np.maximum.reduceat(self._above, starts).sum()) + self._more_above
            loss = max(1, -(-most // max(1, self._least_below)))
        self._take(Fraction(loss), incumbent.weights, incumbent.source)
        self._bound = canonical.cost_of_loss(self._of_oracle())
        self._begin()

    def _take(self, loss: Fraction, weights: CanonicalWeights, source: str) -> None:
        self._known = loss
        self.incumbent.cost = self._canonical.cost_of_loss(loss)
        self.incumbent.weights, self.incumbent.source = weights, source

    def _of_oracle(self) -> Fraction:
        """Return the least fraction of a selection, attainable or not, or the loss known if that is lower."""
        offsets, loss = self._canonical.offsets, self._known
        while True:
            p, q = loss.numerator, loss.denominator
            costs, least = least_costs(q * self._above - p * self._below, offsets)
            if least + q * self._more_above - p * self._more_below >= 0:
                return min(loss, Fraction(1)) if self._least_below == 0 else loss  # a denominator of 0 counts as 1
            free = np.flatnonzero(costs == 0)
            rows = free[np.searchsorted(free, offsets[:-1])]
            above, below = int(self._above[rows].sum()), int(self._below[rows].sum())
            loss = Fraction(above + self._more_above, below + self._more_below)

    def state(self) -> Mapping[str, Any]:
        return {
            **super().state(),
            "known": self._known.as_integer_ratio(),
            "loss": self._loss.as_integer_ratio(),
            "for_zero": self._for_zero,
            "bound": self._bound,
            "inner": None if self._inner is None else self._inner.saved(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._take(Fraction(*state["known"]), self.incumbent.weights, self.incumbent.source)
        self._loss, self._for_zero = Fraction(*state["loss"]), state["for_zero"]
        self._inner = None
        inner = state["inner"]
        if inner is not None:
            search = self._search(Incumbent.of(inner))
            if search is not None and inner["search"]:
                search.restore(inner["search"])
        self._bound = max(self._bound, state["bound"])
        super().restore(state)

    def _begin(self) -> None:
        """Start the search for a lower loss than that of the incumbent."""
        self._loss = self._known
        self._for_zero = False
        self._search()

    def _search(self, known: Incumbent | None = None) -> Search | None:
        """Start the search for a selection whose numbers add up to less than the goal, and return it; `None` where no
        lists are left. known: what it begins with.
        """
        if self._inner is not None:
            self._put_away(self._inner)
            self._inner = None
        if self._for_zero:
            raw, more, goal = self._below, self._more_below, 1
        else:  # a selection of this loss has the sum 0, and a lower one a negative sum
            p, q = self._loss.numerator, self._loss.denominator
            raw, more, goal = q * self._above - p * self._below, q * self._more_above - p * self._more_below, 0
        costs, least = least_costs(raw, self._canonical.offsets)
        self._goal = goal - more - least
        section = self._canonical.with_costs(costs)
        if known is None:
            # Searches take the incumbent's cost for one that a selection has: all are multiples of the granularity.
            cost = -(-self._goal // section.granularity) * section.granularity
            known = Incumbent(cost, self.incumbent.weights, self.incumbent.source)
        self._looked_at = known.cost
        self._counted["additive_searches"] += 1
        self._inner = self._start(section, known) if section.n_lists else None
        self._proves = self._proves and (self._inner is None or self._inner.lower_bound is not None)
        return self._inner

    @property
    def finished(self) -> bool:
        return self._proved or self._least >= self.incumbent.cost

    @property
    def lower_bound(self) -> int | None:
        return self._least if self._proves else None

    @property
    def _least(self) -> int:
        if self._proved:
            return self._upper
        return min(self._upper, max(self._bound, self._cost_of(self._inner_bound())))

    def _inner_bound(self) -> int:
        return 0 if self._inner is None else self._inner.lower_bound or 0

    def _cost_of(self, cost: int) -> int:
        """Return a loss, in the problem's fixed point, that no selection of at least this additive cost undercuts."""
        excess = cost - self._goal
        loss = self._loss
        if excess < 0 and not self._for_zero:
            loss = max(Fraction(0), loss + Fraction(excess, loss.denominator * max(1, self._least_below)))
        if self._least_below == 0 and (excess < 0 or not self._for_zero):
            loss = min(loss, Fraction(1))  # that of a denominator of 0
        return self._canonical.cost_of_loss(loss)

    @property
    def _searches(self) -> list[Search]:
        return [] if self._inner is None else [self._inner]

    def advance(self) -> None:
        inner = self._inner
        if inner is not None and not inner.finished:
            try:
                inner.advance()
            finally:  # it may be stopped before it ends
                if inner.incumbent.cost < self._looked_at:
                    self._looked_at = inner.incumbent.cost
                    self._look_at(inner.incumbent)
            if not inner.finished:
                return
        self._bound = self._least
        found = 0 if inner is None else inner.incumbent.cost
        if found < self._goal:
            if self._known == self._loss:
                self._look_at(self.incumbent if inner is None else inner.incumbent, _PERTURBATIONS)
            if self._known < self._loss:
                self._begin()
                return
            self._leave_unsettled(self._cost_of(self._inner_bound()))
        elif inner is not None and inner.unsettled is not None and inner.unsettled < self._goal:
            self._leave_unsettled(self._cost_of(inner.unsettled))
        if self._loss > 1 and self._least_below == 0 and not self._for_zero:
            self._for_zero = True
            self._search()
        else:
            self._proved = True

    def _look_at(self, found: Incumbent, tries: int = 1) -> None:
        """Take weights where they, or some close by, attain a lower loss than the incumbent's without a tie.

        Hypotheses that cost the same in the additive search, and may be tied there, are of different fractions.
        """
        rng = np.random.default_rng(0)
        sizes = [10.0 ** (k / 2 - 16) for k in range(1, tries)]
        beside = moved(found.weights, sizes, lambda: rng.normal(size=len(found.weights)))
        for weights in map(CanonicalWeights, chain([found.weights], beside)):
            loss = self._canonical.totals.attained(weights)
            if loss is not None and loss < self._known:
                self._take(Fraction(loss), weights, found.source)
                return
