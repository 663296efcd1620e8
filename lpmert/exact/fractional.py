"""Losses that are fractions of sums, a.x / b.x (F_beta, precision, recall), by searches that need a sum over lists.

Source: Dinkelbach, On nonlinear fractional programming, Management Science 1967. A loss t is the least one exactly when
no selection makes the sum of a.x - t b.x negative. With t a fraction of whole numbers these costs are whole numbers, so
that every method for additive losses decides it, as exactly as it does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from lpmert import canonical
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.section import Section
from lpmert.kernels import decode
from lpmert.metrics.ratio import LinearFraction
from lpmert.problem import Problem, with_limits
from lpmert.result import FloatArray

Start = Callable[[Problem, Incumbent], Search]
"""Begins a search of an additive problem."""


class FractionSearch:
    """A resumable search for the least fraction: additive searches one after another, each for a lower loss.

    The incumbent's cost is its loss in the problem's fixed point; in between the loss is an exact fraction.
    """

    def __init__(self, problem: Problem, metric: LinearFraction, incumbent: Incumbent, start: Start) -> None:
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self._problem = problem
        self._start = start
        self._above, self._below, self._more_above, self._more_below = canonical.whole_fractions(
            problem.statistics,
            problem.constant_statistics,
            (metric.numerator, 0),
            (metric.denominator, 0),
            problem.offsets,
            len(problem.limits),
        )
        self._least_below = self._more_below  # the least of every list is 0
        self._loss = Fraction(1)
        self._shift = 0
        self._factor = 1
        self._proved = False
        self._counted: dict[str, int] = {"additive_searches": 0}
        self._nodes = self._lps = 0
        self._bound = 0
        loss = self._loss_at(incumbent.weights)
        self._begin(loss if problem.cost_of_loss(float(loss)) == incumbent.cost else Fraction(1))

    def _loss_at(self, weights: FloatArray) -> Fraction:
        rows = np.empty(self._problem.n_lists, dtype=np.int64)
        decode(self._problem.features, self._problem.offsets, weights, rows)
        below = int(self._below[rows].sum()) + self._more_below
        return Fraction(int(self._above[rows].sum()) + self._more_above, below) if below else Fraction(1)

    def _begin(self, loss: Fraction) -> None:
        """Start the search for a loss below this one, which the incumbent has."""
        problem = self._problem
        self._loss = loss
        p, q = loss.numerator, loss.denominator
        raw = q * self._above - p * self._below
        costs, shift = canonical.least_costs(raw, problem.offsets)
        self._shift = shift + q * self._more_above - p * self._more_below
        self._factor = q
        features, offsets, costs = with_limits(problem.features, problem.offsets, costs, problem.limits)
        rows, offsets = canonical.rows_of_lists(offsets, canonical.informative_lists(costs, offsets))
        section = Section(np.ascontiguousarray(features[rows]), offsets, costs[rows], problem.cap)
        # A selection of this loss has the sum 0; the incumbent is one.
        inner = Incumbent(-self._shift, self.incumbent.weights, self.incumbent.source)
        self._counted["additive_searches"] += 1
        self._inner = self._start(section, inner) if section.n_lists else None

    @property
    def finished(self) -> bool:
        return self._proved or self.lower_bound >= self.incumbent.cost

    @property
    def lower_bound(self) -> int:
        if self._proved:
            return self.incumbent.cost if self.unsettled is None else min(self.unsettled, self.incumbent.cost)
        return max(self._bound, min(self.incumbent.cost, self._cost_of(self._inner_bound())))

    def _inner_bound(self) -> int:
        return 0 if self._inner is None else self._inner.lower_bound

    def _cost_of(self, cost: int) -> int:
        """Return a loss, in the problem's fixed point, that no selection of at least this additive cost undercuts."""
        excess = cost + self._shift
        if excess >= 0:
            return self._problem.cost_of_loss(float(self._loss))
        if self._least_below <= 0:
            return self._problem.cost_of_loss(0)
        return self._problem.cost_of_loss(
            max(Fraction(0), self._loss + Fraction(excess, self._factor * self._least_below))
        )

    @property
    def nodes(self) -> int:
        return self._nodes + (0 if self._inner is None else self._inner.nodes)

    @property
    def open_nodes(self) -> int:
        return 0 if self._inner is None else self._inner.open_nodes

    @property
    def lps(self) -> int:
        return self._lps + (0 if self._inner is None else self._inner.lps)

    @property
    def memory(self) -> int:
        return 0 if self._inner is None else self._inner.memory

    def counters(self) -> Mapping[str, int]:
        """Return what all additive searches counted together."""
        total = dict(self._counted)
        for name, count in ({} if self._inner is None else self._inner.counters()).items():
            total[name] = total.get(name, 0) + count
        return total

    def advance(self) -> None:
        """Search on for a slice of work; where the additive search has ended, take what it found and start the next."""
        inner = self._inner
        if inner is None:
            self._proved = True
            return
        if not inner.finished:
            inner.advance()
        if not inner.finished:
            return
        self._bound = max(self._bound, self._cost_of(inner.lower_bound))
        loss = self._loss_at(inner.incumbent.weights)
        if loss >= self._loss:
            if inner.unsettled is not None and inner.unsettled < inner.incumbent.cost:
                self.unsettled = self._cost_of(inner.unsettled)
            self._proved = True
            return
        self.incumbent.improve(self._problem.cost_of_loss(float(loss)), inner.incumbent.weights, inner.incumbent.source)
        self._nodes, self._lps, self._counted = self.nodes, self.lps, dict(self.counters())
        self._begin(loss)
