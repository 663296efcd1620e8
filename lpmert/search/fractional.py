"""Losses that are fractions of sums, a.x / b.x (F_beta, precision, recall), solved by a sequence of additive searches.

Source: Dinkelbach, On nonlinear fractional programming, Management Science 1967. A loss t is optimal if and only if no
selection has a negative sum a.x - t b.x. Where t is a fraction of whole numbers, so are these costs after scaling, and
every exact method for additive losses decides the question exactly. A selection with b.x = 0 has loss 1, which these
sums do not show if t > 1; one more additive search, for the least b.x, then decides whether there is such a selection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.presolve import whole_fractions
from lpmert.numeric.lists import least_costs
from lpmert.search.incumbent import moved
from lpmert.search.method import Combined, Incumbent, Search

_PERTURBATIONS = 24
Start = Callable[[Canonical, Incumbent], Search]  # starts a search for the least sum of costs


class FractionSearch(Combined):
    """A resumable search for the least fraction by additive inner searches, each for a loss below the target.

    The incumbent's cost is its loss in the problem's fixed point, whose unit distinguishes any two losses; internally
    its loss is an exact fraction. Weights found by an inner search count with the loss of decoding them exactly.
    """

    checkpointed = ("_counted", "_unsettled", "_examined_cost", "_proved")

    def __init__(self, canonical: Canonical, incumbent: Incumbent, start: Start) -> None:
        totals = canonical.totals
        fraction: Any = totals.fraction
        super().__init__(incumbent)
        self._canonical = canonical
        self._start = start
        self._numerators, self._denominators, self._more_numerator, self._more_denominator = whole_fractions(
            totals.statistics,
            totals.constant,
            fraction.above.tolist(),
            fraction.below.tolist(),
            canonical.offsets,
            len(canonical.limits),
        )
        starts = canonical.offsets[:-1]
        self._least_denominator = self._more_denominator  # the least denominator within each list is 0
        self._inner: Search | None = None
        self._examined_cost = 0
        self._proved = False
        self._proves = True
        loss = totals.attained(incumbent.weights)
        if loss is None:  # the weights have ties: no loss exceeds the largest numerator over the least denominator
            largest = int(np.maximum.reduceat(self._numerators, starts).sum()) + self._more_numerator
            loss = max(1, -(-largest // max(1, self._least_denominator)))
        self._set_incumbent(Fraction(loss), incumbent.weights, incumbent.source)
        self._bound = canonical.cost_of_loss(self._oracle_bound())
        self._start_target()

    def _set_incumbent(self, loss: Fraction, weights: CanonicalWeights, source: str) -> None:
        self._incumbent_loss = loss
        self.incumbent.cost = self._canonical.cost_of_loss(loss)
        self.incumbent.weights, self.incumbent.source = weights, source

    def _oracle_bound(self) -> Fraction:
        """Return the least fraction of any selection, attainable or not, or the incumbent's loss if that is lower."""
        offsets, loss = self._canonical.offsets, self._incumbent_loss
        while True:
            p, q = loss.numerator, loss.denominator
            costs, least = least_costs(q * self._numerators - p * self._denominators, offsets)
            if least + q * self._more_numerator - p * self._more_denominator >= 0:
                # A selection with a denominator of 0 has loss 1.
                return min(loss, Fraction(1)) if self._least_denominator == 0 else loss
            free = np.flatnonzero(costs == 0)
            rows = free[np.searchsorted(free, offsets[:-1])]
            above, below = int(self._numerators[rows].sum()), int(self._denominators[rows].sum())
            loss = Fraction(above + self._more_numerator, below + self._more_denominator)

    def state(self) -> Mapping[str, Any]:
        return {
            **super().state(),
            "known": self._incumbent_loss.as_integer_ratio(),
            "loss": self._target.as_integer_ratio(),
            "zero_denominator": self._zero_denominator,
            "bound": self._bound,
            "inner": None if self._inner is None else self._inner.saved(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._set_incumbent(Fraction(*state["known"]), self.incumbent.weights, self.incumbent.source)
        self._target, self._zero_denominator = Fraction(*state["loss"]), state["zero_denominator"]
        self._inner = None
        inner = state["inner"]
        if inner is not None:
            search = self._start_inner(Incumbent.from_state(inner))
            if search is not None and inner["search"]:
                search.restore(inner["search"])
        self._bound = max(self._bound, state["bound"])
        super().restore(state)

    def _start_target(self) -> None:
        """Take the incumbent's loss as the target, and start the search for a lower one."""
        self._target = self._incumbent_loss
        self._zero_denominator = False
        self._start_inner()

    def _start_inner(self, first: Incumbent | None = None) -> Search | None:
        """Start the inner search for a selection with a sum below the goal, and return it; `None` if no lists are left.

        first: its first incumbent.
        """
        if self._inner is not None:
            self._retire(self._inner)
            self._inner = None
        if self._zero_denominator:
            raw, more, goal = self._denominators, self._more_denominator, 1
        else:  # a selection with the target loss has the sum 0, one with a lower loss a negative sum
            p, q = self._target.numerator, self._target.denominator
            raw, goal = q * self._numerators - p * self._denominators, 0
            more = q * self._more_numerator - p * self._more_denominator
        costs, least = least_costs(raw, self._canonical.offsets)
        self._goal_cost = goal - more - least
        section = self._canonical.with_costs(costs)
        if first is None:
            # Searches rely on the incumbent's cost being a multiple of the granularity, as those of selections are.
            cost = -(-self._goal_cost // section.granularity) * section.granularity
            first = Incumbent(cost, self.incumbent.weights, self.incumbent.source)
        self._examined_cost = first.cost
        self._counted["additive_searches"] += 1
        self._inner = self._start(section, first) if section.n_lists else None
        self._proves = self._proves and (self._inner is None or self._inner.lower_bound is not None)
        return self._inner

    @property
    def finished(self) -> bool:
        return self._proved or self._bound_now >= self.incumbent.cost

    @property
    def lower_bound(self) -> int | None:
        return self._bound_now if self._proves else None

    @property
    def _bound_now(self) -> int:
        if self._proved:
            return self._upper
        return min(self._upper, max(self._bound, self._cost_of(self._inner_bound())))

    def _inner_bound(self) -> int:
        return 0 if self._inner is None else self._inner.lower_bound or 0

    def _cost_of(self, cost: int) -> int:
        """Return a bound, in the problem's fixed point, on losses of selections with at least this additive cost."""
        excess = cost - self._goal_cost
        loss = self._target
        if excess < 0 and not self._zero_denominator:
            loss = max(Fraction(0), loss + Fraction(excess, loss.denominator * max(1, self._least_denominator)))
        if self._least_denominator == 0 and (excess < 0 or not self._zero_denominator):
            loss = min(loss, Fraction(1))  # the loss of a denominator of 0
        return self._canonical.cost_of_loss(loss)

    @property
    def _searches(self) -> list[Search]:
        return [] if self._inner is None else [self._inner]

    def advance(self) -> None:
        inner = self._inner
        if inner is not None and not inner.finished:
            try:
                inner.advance()
            finally:  # a deadline may stop it in the middle of its slice
                if inner.incumbent.cost < self._examined_cost:
                    self._examined_cost = inner.incumbent.cost
                    self._try_weights(inner.incumbent)
            if not inner.finished:
                return
        self._bound = self._bound_now
        found = 0 if inner is None else inner.incumbent.cost
        if found < self._goal_cost:
            if self._incumbent_loss == self._target:
                self._try_weights(self.incumbent if inner is None else inner.incumbent, _PERTURBATIONS)
            if self._incumbent_loss < self._target:
                self._start_target()
                return
            self._leave_unsettled(self._cost_of(self._inner_bound()))
        elif inner is not None and inner.unsettled is not None and inner.unsettled < self._goal_cost:
            self._leave_unsettled(self._cost_of(inner.unsettled))
        if self._target > 1 and self._least_denominator == 0 and not self._zero_denominator:
            self._zero_denominator = True
            self._start_inner()
        else:
            self._proved = True

    def _try_weights(self, found: Incumbent, tries: int = 1) -> None:
        """Make these weights, or weights close by, the incumbent if they attain a lower loss without a tie.

        Hypotheses that cost the same in the inner search, and may be tied there, can differ in their fractions.
        """
        rng = np.random.default_rng(0)
        sizes = [10.0 ** (k / 2 - 16) for k in range(1, tries)]
        beside = moved(found.weights, sizes, lambda: rng.normal(size=len(found.weights)))
        for weights in map(CanonicalWeights, chain([found.weights], beside)):
            loss = self._canonical.totals.attained(weights)
            if loss is not None and loss < self._incumbent_loss:
                self._set_incumbent(Fraction(loss), weights, found.source)
                return
