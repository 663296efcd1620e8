"""The canonical form of a problem: all that a search takes, and the way back to the weights of the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import compress
from math import inf
from typing import Generic, NewType, TypeVar, cast

import numpy as np

from lpmert.core import INFINITE_COST, decode, worst_cost
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import Metric, SumFraction, fraction_of
from lpmert.model.evaluation import Evaluator
from lpmert.model.reduction import Reduction
from lpmert.numeric.cone import Cap
from lpmert.numeric.lists import (
    SortedLists,
    informative_rows,
    reach_of,
    rounding_bound,
    rows_of_lists,
    sorted_lists,
    varying_columns,
    with_half_spaces,
)
from lpmert.numeric.rounding import Rounding
from lpmert.quoting import quoted

CallerWeights = NewType("CallerWeights", FloatArray)
"""Weights [D] for the features as given."""

CanonicalWeights = NewType("CanonicalWeights", FloatArray)
"""Weights [d] for the features of a canonical form."""

UnmergedWeights = NewType("UnmergedWeights", FloatArray)
"""Weights [d] for the features of lists before parallel ones were merged."""

Own = TypeVar("Own", bound=FloatArray)


@dataclass(frozen=True, eq=False)
class Coordinates(Generic[Own]):
    """Columns [d] of the reduced features, and the powers of two [d] by which these were multiplied.

    reduction: from the features as given to the reduced ones.
    """

    columns: IntArray
    scales: FloatArray
    reduction: Reduction

    def to_caller(self, weights: Own) -> CallerWeights:
        """Return weights as weights for the features as given, exactly unless equations round."""
        full = np.zeros(len(self.reduction.free))
        full[self.columns] = weights * self.scales
        if not len(self.columns):
            full[:] = 1.0  # all weights serve alike, but they are to fulfil the equations
        return CallerWeights(self.reduction.weights(full))

    def from_caller(self, weights: CallerWeights) -> Own:
        """Return weights for the features as given in these coordinates, with the largest entry about 1.

        Weight on a dropped collinear feature is not carried over, so that this is a starting point, not an equal.
        """
        part = self.reduction.coordinates(weights)[self.columns] / self.scales
        largest = np.abs(part).max(initial=0.0)
        return cast("Own", part / largest if largest > 0 else part)


def with_limits(
    features: FloatArray, offsets: IntArray, costs: IntArray, limits: FloatArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """Append a list {a, 0} for every limit a.w >= 0, whose second hypothesis costs more than all selections.

    Raises `MethodError` where searches could not add up all of these costs.
    """
    if not len(limits):
        return features, offsets, costs
    most = sum(np.maximum.reduceat(costs, offsets[:-1]).tolist()) if len(costs) else 0
    unit = max(1, int(np.gcd.reduce(costs))) if len(costs) else 1
    if most + len(limits) * (most + unit) >= INFINITE_COST:
        raise MethodError(f"the losses are so large that {len(limits)} limits leave no room in 64 bits; divide them")
    return with_half_spaces(features, offsets, costs, limits, most + unit)


@dataclass(frozen=True, eq=False)
class Totals:
    """What a metric that is not additive sums up: statistics [m, K], and the constant [K] of lists left out.

    attained: the one question to exact arithmetic, what loss weights have; `None` outside the region, and where a tie
    that matters decides it.
    """

    metric: Metric
    statistics: FloatArray
    constant: FloatArray
    attained: Callable[[CanonicalWeights], float | Fraction | None]

    @property
    def fraction(self) -> SumFraction | None:
        """The loss, if it is a fraction of sums."""
        return fraction_of(self.metric)


@dataclass(frozen=True, eq=False)
class Canonical:
    """Lists in canonical form: features [m, d], offsets [s + 1], and what the hypotheses lose.

    losses: costs [m] int64, the least of every list 0, or `Totals`. loss = unit * (constant + cost), exact unless
    `rounded`; with totals costs stand for losses in fixed point.

    limits [k, d] demand limits @ w >= 0, and `labels` name them. Where costs add up they are among the lists, {a, 0}
    for a.w >= 0, and to break one costs more than all other lists together: methods that minimise the cost keep to
    them. With totals methods have to keep to them themselves. A `cap` is only for methods that support it.

    step: what all costs, and that of any incumbent, are multiples of, where that is not told by these costs.

    rounding: what features and limits are exactly, if doubles only come near; bounds and proofs are about that.
    """

    features: FloatArray
    offsets: IntArray
    losses: IntArray | Totals
    limits: FloatArray
    labels: tuple[str, ...] = ()
    cap: Cap | None = None
    unit: float = 1.0
    constant: int = 0
    rounded: bool = False
    step: int | None = None
    rounding: Rounding | None = None

    @property
    def n_lists(self) -> int:
        """Number of lists on which the weights matter, with those of the limits."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def additive(self) -> bool:
        """Whether the loss is additive: a sum over lists."""
        return not isinstance(self.losses, Totals)

    @property
    def costs(self) -> IntArray:
        """Costs [m]; raises `MethodError` for a metric that is not additive."""
        if isinstance(self.losses, Totals):
            name = self.losses.metric.name
            raise MethodError(f"metric {quoted(name)} is not additive; this method needs one that is")
        return self.losses

    @property
    def totals(self) -> Totals:
        """What a metric that is not additive sums up; raises `MethodError` for others."""
        if not isinstance(self.losses, Totals):
            raise MethodError("the metric is additive; this search is for those that are not")
        return self.losses

    @property
    def lists(self) -> tuple[FloatArray, IntArray, IntArray]:
        return self.features, self.offsets, self.costs

    @cached_property
    def reach(self) -> FloatArray:
        """The largest magnitude [d] of each feature."""
        return reach_of(self.features)

    @cached_property
    def by_cost(self) -> SortedLists:
        """The lists in order of cost, for the core."""
        return sorted_lists(*self.lists, self.cap, self.rounding)

    @cached_property
    def granularity(self) -> int:
        """A number of which all costs are multiples: two selections differ by a multiple of it."""
        if self.step is not None or not self.additive:
            return self.step or 1
        return max(1, int(np.gcd.reduce(self.costs))) if len(self.costs) else 1

    def drop_cached(self) -> None:
        """Forget what is made again where it is needed."""
        self.__dict__.pop("by_cost", None)

    @property
    def dearest(self) -> int:
        return int(np.maximum.reduceat(self.costs, self.offsets[:-1]).sum())

    @cached_property
    def interior(self) -> CanonicalWeights | None:
        """Weights inside the limits and the cap, `None` where there are none to keep to.

        Raises `RegionError`, naming the limits that contradict each other, if no weights do.
        """
        from lpmert.model.reduction import interior

        exact = self.rounding if self.rounding is not None and self.rounding.known else None
        weights = interior(self.limits, self.labels, self.cap, exact)
        return None if weights is None else CanonicalWeights(weights)

    def loss_of(self, cost: int) -> float:
        """Return the loss of a total cost, correctly rounded where the unit is exact."""
        return (self.constant + cost) * self.unit

    def cost_of_loss(self, loss: float | Fraction) -> int:
        """Return a loss in fixed point, rounded down: what stands for a cost where the metric is not additive."""
        above, below = loss.as_integer_ratio()
        whole, part = self.unit.as_integer_ratio()
        return above * part // (below * whole) - self.constant

    def inside(self, weights: FloatArray) -> bool:
        """Whether weights [d] keep to the limits and the cap, in floating point."""
        within_cap = self.cap is None or self.cap.cosine_of(weights) >= self.cap.cosine
        return within_cap and not (self.limits @ weights < 0.0).any()

    def loss_at(self, weights: FloatArray) -> float:
        """Return the loss of decoding with weights [d] in floating point, the first hypothesis winning on ties;
        infinite outside of the region.
        """
        if not self.inside(weights):
            return inf
        selection = decode(self.features, self.offsets, weights)
        if isinstance(self.losses, Totals):
            return self.losses.metric.loss(self.losses.constant + self.losses.statistics[selection].sum(axis=0))
        return self.loss_of(int(self.losses[selection].sum()))

    def attained_cost(self, weights: CanonicalWeights) -> int | None:
        """Return the cost of weights [d] of the region, `None` where it hangs on ties.

        Sums that doubles cannot tell apart, as those of the same terms in another order, are told apart exactly.
        """
        if isinstance(self.losses, Totals):
            loss = self.losses.attained(weights)
            return None if loss is None else self.cost_of_loss(loss)
        if not (self.limits @ weights > 0).all() or not (self.cap is None or self.cap.contains(weights)):
            return None
        cost, clear = self.clear_cost(weights)
        return cost if clear else self.strict_cost(weights)

    def worst_cost(self, weights: CanonicalWeights) -> int:
        """Return a cost that weights beside these [d] attain: that of their ties at worst, for a ratio that of loss 1.

        No loss that is not a fraction of sums exceeds 1.
        """
        return self.clear_cost(weights)[0] if self.additive else self.cost_of_loss(1.0)

    def clear_cost(self, weights: CanonicalWeights) -> tuple[int, bool]:
        """Return what weights [d] cost, and whether that is clear of rounding; if not, their cost at worst."""
        spread = None if self.rounding is None else self.rounding.spread
        return worst_cost(*self.lists, weights, rounding_bound(weights, self.reach, spread))

    def strict_cost(self, weights: FloatArray) -> int | None:
        """Return what weights [d] cost in exact arithmetic; `None` where a tie between unequal costs decides it."""
        nothing = np.empty((len(self.costs), 0))
        decoded = Evaluator(self.features, self.offsets, nothing, self.costs, self.rounding).decode(weights)
        return int(self.costs[decoded.selection].sum()) if decoded.strict else None

    def bare(self) -> Canonical:
        """Return the form without lists: the scale of the loss is left."""
        none = np.empty((0, self.n_features))
        return Canonical(none, np.zeros(1, np.int64), np.empty(0, np.int64), none, (), None, self.unit, self.constant)

    def part(self, lists: IntArray) -> tuple[Canonical, IntArray]:
        """Return some of the lists, and the columns that vary within them, to which their features are cut down.

        The loss of a cost counts the other lists with nothing; limits on other columns too are left out. Where features
        are rounded all columns are kept.
        """
        rows, offsets = rows_of_lists(self.offsets, lists)
        features, exact = self.features[rows], self.rounding
        columns = varying_columns(features, offsets) if exact is None else np.arange(self.n_features)
        inside = np.asarray(~np.delete(self.limits, columns, axis=1).any(axis=1))
        part = replace(
            self,
            features=np.ascontiguousarray(features[:, columns]),
            offsets=offsets,
            losses=self.costs[rows],
            limits=self.limits[inside][:, columns],
            labels=tuple(compress(self.labels, inside.tolist())),
            rounding=None if exact is None else exact.take(rows),
        )
        return part, columns

    def within(self, normals: FloatArray) -> Canonical:
        """Return the lists with one {a, 0} after them for each row of normals [k, d], whose 0 may not win."""
        features, offsets, costs = with_half_spaces(*self.lists, normals, INFINITE_COST)
        exact = None if self.rounding is None else self.rounding.with_half_spaces(normals)
        return replace(self, features=features, offsets=offsets, losses=costs, step=self.granularity, rounding=exact)

    def with_costs(self, costs: IntArray) -> Canonical:
        """Return costs [m] in place of totals, the limits as lists, without lists that cost the same in any case."""
        features, offsets, costs = with_limits(self.features, self.offsets, costs, self.limits)
        rows, offsets = informative_rows(costs, offsets)
        features, costs = np.ascontiguousarray(features[rows]), costs[rows]
        form = replace(self, features=features, offsets=offsets, losses=costs, unit=1.0, constant=0, rounded=False)
        exact = None if self.rounding is None else self.rounding.with_limits().take(rows)
        return replace(form, rounding=exact)
