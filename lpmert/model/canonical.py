"""The canonical form of a problem, which is all that a search takes, the way back, and decoding with exact ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import compress
from math import fsum, inf
from typing import Any, NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from lpmert.core import INFINITE_COST, decode, decoded_cost
from lpmert.errors import FloatArray, IntArray, MethodError, RegionError
from lpmert.metrics.base import Metric, SumFraction, fraction_of
from lpmert.model.region import Reduction
from lpmert.numeric import rational
from lpmert.numeric.cone import LinOptimizer, project
from lpmert.numeric.lists import (
    Cap,
    SortedLists,
    blocks_of_lists,
    informative_rows,
    least_costs,
    list_numbers,
    reach_of,
    rounding_bound,
    rows_of_lists,
    sorted_lists,
    varying_columns,
)
from lpmert.numeric.rational import Rounding, exact_differences
from lpmert.quoting import quoted


class Decoded(NamedTuple):
    """Chosen rows [S]: selection with ties broken by the rule, low and high with ties at best and worst.

    strict: no tie between unequal values decides. margin: infinite if no list has other hypotheses.
    """

    selection: IntArray
    low: IntArray
    high: IntArray
    tied_lists: int
    strict: bool
    margin: float


class Evaluator:
    """Decodes lists without identical feature vectors: features [M, D], offsets [S + 1].

    statistics [M, K]: the metric sums them; losses [M]: `None` for a metric that is not additive. A tie matters unless
    the losses, or without them the statistics, are equal. rounding: the exact features where doubles round them; if
    they are unknown, ties that depend on them count as ties.
    """

    def __init__(
        self,
        features: FloatArray,
        offsets: IntArray,
        statistics: FloatArray,
        losses: FloatArray | IntArray | None,
        rounding: Rounding | None = None,
    ) -> None:
        self.features, self.offsets, self._rounding = features, offsets, rounding
        self.statistics, self.losses = statistics, losses
        self._values = statistics if losses is None else losses
        self._last: tuple[FloatArray, Decoded] | None = None

    def total(self, selection: IntArray) -> FloatArray:
        return np.array([fsum(column) for column in self.statistics[selection].T.tolist()])

    def alike(self, first: IntArray, second: IntArray) -> bool:
        return bool((self._values[first] == self._values[second]).all())

    def decode(self, weights: FloatArray) -> Decoded:
        """Return the winners at weights [D]; on exact ties the first one wins."""
        last = self._last  # read once: other threads may replace it
        if last is None or not np.array_equal(weights, last[0]):  # reports ask several times
            last = self._last = weights.copy(), self._decode(weights)
        return last[1]

    def _decode(self, weights: FloatArray) -> Decoded:
        w, exponent = rational.below_one(weights)  # so that products cannot overflow
        blocks = [block[1:] for block in blocks_of_lists(self.offsets)] or [(slice(0), self.offsets)]
        parts = [self._decode_block(weights, w, *block) for block in blocks]
        selection, low, high = (np.concatenate([part[k] for part in parts]) for k in range(3))
        margin = float(np.ldexp(max(0.0, min(part.margin for part in parts)), exponent))
        tied_lists, strict = sum(part.tied_lists for part in parts), all(part.strict for part in parts)
        return Decoded(selection, low, high, tied_lists, strict, margin)

    def _decode_block(self, weights: FloatArray, w: FloatArray, block: slice, offsets: IntArray) -> Decoded:
        """Return the winners of the lists of a block of rows, offsets from 0.

        weights [D]: for exact arithmetic; w [D]: these times a power of two, rounded if tiny, for doubles.
        """
        features, begin = self.features[block], block.start or 0
        lists = list_numbers(offsets)
        scores = features @ w
        tiny = rational.SMALLEST_NORMAL  # more than underflow takes from a weight or a product
        sizes = np.maximum.reduceat(np.abs(features) @ (np.abs(w) + tiny), offsets[:-1])
        error = 2 * (len(w) + 3) * (rational.EPSILON * sizes + tiny)
        if self._rounding is not None:
            error += self._rounding.off(w)
        best = np.maximum.reduceat(scores, offsets[:-1])
        close = scores >= (best - error)[lists]
        tied = np.add.reduceat(close.astype(np.int64), offsets[:-1]) > 1
        chosen = np.flatnonzero(close & ~tied[lists])
        selection = np.empty(len(offsets) - 1, dtype=np.int64)
        selection[lists[chosen]] = begin + chosen
        low, high = selection.copy(), selection.copy()
        strict = True
        for s in np.flatnonzero(tied):
            rows = begin + offsets[s] + np.flatnonzero(close[offsets[s] : offsets[s + 1]])
            winners = rows[_best(weights, self.features, rows, self._rounding)]
            selection[s] = low[s] = high[s] = winners[0]
            strict = strict and bool((self._values[winners] == self._values[winners[0]]).all())
            if self.losses is not None:
                low[s] = rows[np.argmin(self.losses[rows])]
                high[s] = rows[np.argmax(self.losses[rows])]
        winning = scores[selection - begin]
        scores[selection - begin] = -np.inf
        lead = winning - np.maximum.reduceat(scores, offsets[:-1])
        return Decoded(selection, low, high, int(tied.sum()), strict, float(lead.min(initial=np.inf)))


def ranges_of_weights(features: FloatArray, offsets: IntArray, weights: FloatArray) -> FloatArray:
    """Return the open interval [D, 2] in which each weight alone may move without changing a choice."""
    ranges = np.column_stack([np.full(len(weights), -np.inf), np.full(len(weights), np.inf)])
    for _, rows, block_offsets in blocks_of_lists(offsets):
        block = features[rows]
        chosen = np.repeat(decode(block, block_offsets, weights), np.diff(block_offsets))
        leads = np.empty((len(weights), len(block)))  # chosen minus other, feature by feature
        for lead, column in zip(leads, block.T, strict=True):
            np.subtract(column[chosen], column, out=lead)
        margins = weights @ leads
        for d, lead in enumerate(leads):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                steps = -margins / lead
            ranges[d, 0] = max(ranges[d, 0], weights[d] + np.where(lead > 0, steps, -np.inf).max(initial=-np.inf))
            ranges[d, 1] = min(ranges[d, 1], weights[d] + np.where(lead < 0, steps, np.inf).min(initial=np.inf))
    return ranges


def _best(weights: FloatArray, features: FloatArray, rows: IntArray, rounding: Rounding | None) -> IntArray:
    """Return which of these rows [n] have the largest score in exact arithmetic, in order; all if that is unknown."""
    if not weights.any() or not (rounding is None or rounding.known):
        return np.arange(len(rows))
    (whole,) = rational.to_integers(weights[None])
    best = [0]
    for place in range(1, len(rows)):
        (difference,) = exact_differences(features, rounding, rows[place : place + 1], rows[best[:1]])
        lead = rational.dot(difference, whole)
        if lead > 0:
            best = [place]
        elif lead == 0:
            best.append(place)
    return np.array(best)


CallerWeights = NewType("CallerWeights", FloatArray)  # weights [D] for the features as given
CanonicalWeights = NewType("CanonicalWeights", FloatArray)  # weights [d] for the features of a canonical form


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Between weights of a search and the caller's: columns [d] of the reduced features, times scales [d]."""

    columns: IntArray
    scales: FloatArray
    reduction: Reduction

    def to_caller(self, weights: FloatArray) -> CallerWeights:
        """Return weights for the features as given, without rounding unless equations need it."""
        full = np.zeros(len(self.reduction.free))
        full[self.columns] = weights * self.scales
        if not len(self.columns):
            full[:] = 1.0  # all weights choose alike, but they must fulfil the equations
        return CallerWeights(self.reduction.weights(full))

    def from_caller(self, weights: CallerWeights) -> CanonicalWeights:
        """Return weights [d], the largest about 1; the weight of a dropped collinear feature is lost."""
        part = self.reduction.coordinates(weights)[self.columns] / self.scales
        largest = np.abs(part).max(initial=0.0)
        return CanonicalWeights(part / largest if largest > 0 else part)


LOSS_UNIT = 2.0**-56
"""Largest loss that a unit of cost is worth for a metric that is not additive.

1 - score is a multiple of 2**-53 in floating point; fractions of sums have a unit that distinguishes any two of them.
"""


@dataclass(frozen=True, eq=False)
class Totals:
    """Statistics [m, K] of a metric that is not additive, the constant [K] of lists left out, and the exact loss."""

    metric: Metric
    statistics: FloatArray
    constant: FloatArray
    attained: Callable[[CanonicalWeights], float | Fraction | None]

    @property
    def fraction(self) -> SumFraction | None:
        return fraction_of(self.metric)

    @property
    def unit(self) -> float:
        fraction = self.fraction
        return LOSS_UNIT if fraction is None else min(LOSS_UNIT, fraction.unit(self.statistics))


@dataclass(frozen=True, eq=False)
class Canonical:
    """Lists in canonical form: features [m, d], offsets [s + 1], and the losses of hypotheses.

    losses: costs [m] int64, the least of every list 0, or `Totals`. loss = unit * (constant + cost), exact unless
    `rounded`; with totals, costs are losses in fixed point.

    limits [k, d] demand limits @ w >= 0, and `labels` name them. If costs add up, the lists include a list {a, 0} for
    each limit a.w >= 0, and breaking one costs more than all other lists together, so methods that minimise the cost
    keep the limits. With totals, methods must keep them themselves. A `cap` is only for methods that support it.

    step: a number of which the costs of all selections and any incumbent are multiples; `None` if `costs` show it.

    rounding: the exact features and limits where doubles round them; bounds and proofs are about these.
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
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def additive(self) -> bool:
        return not isinstance(self.losses, Totals)

    @property
    def costs(self) -> IntArray:
        if isinstance(self.losses, Totals):
            name = self.losses.metric.name
            raise MethodError(f"metric {quoted(name)} is not additive; this method needs one that is")
        return self.losses

    @property
    def totals(self) -> Totals:
        if not isinstance(self.losses, Totals):
            raise MethodError("the metric is additive; this search is for those that are not")
        return self.losses

    @property
    def lists(self) -> tuple[FloatArray, IntArray, IntArray]:
        return self.features, self.offsets, self.costs

    @cached_property
    def reach(self) -> FloatArray:
        return reach_of(self.features)

    @cached_property
    def by_cost(self) -> SortedLists:
        return sorted_lists(*self.lists, self.cap, self.rounding)

    @cached_property
    def granularity(self) -> int:
        """A number of which all costs are multiples, and so the differences of selections."""
        if self.step is not None or not self.additive:
            return self.step or 1
        return max(1, int(np.gcd.reduce(self.costs))) if len(self.costs) else 1

    def drop_cached(self) -> None:
        self.__dict__.pop("by_cost", None)

    @property
    def dearest(self) -> int:
        return sum(np.maximum.reduceat(self.costs, self.offsets[:-1]).tolist()) if len(self.costs) else 0

    @cached_property
    def interior(self) -> CanonicalWeights | None:
        """Weights inside the limits and the cap, in the middle of the limits if there is no cap; `None` without either.

        Raises `RegionError`, naming the limits that contradict each other, if there are no such weights.
        """
        middle = None
        if len(self.limits):
            middle = _middle(self)
            if middle is None:  # weights of very different sizes need units of their own in doubles
                scales = _even_scales(self.limits)
                exact = None if self.rounding is None else self.rounding.scaled(scales)
                middle = _middle(replace(self, limits=self.limits * scales, rounding=exact))
                middle = None if middle is None else middle * scales
            if middle is None:
                raise RegionError("the region is too thin for double precision; widen a limit, or rescale its features")
        if self.cap is not None:
            middle = self.cap.unit if middle is None else _in_cap(self.cap, self.limits, self.labels, middle)
        return None if middle is None else CanonicalWeights(middle)

    def loss_of(self, cost: int) -> float:
        return (self.constant + cost) * self.unit

    def cost_of_loss(self, loss: float | Fraction) -> int:
        """Return a loss in fixed point, rounded down: the cost of weights if the metric is not additive."""
        above, below = loss.as_integer_ratio()
        unit_above, unit_below = self.unit.as_integer_ratio()
        return above * unit_below // (below * unit_above) - self.constant

    def inside(self, weights: FloatArray) -> bool:
        """Whether weights [d] lie within limits and cap, in floating point."""
        within_cap = self.cap is None or self.cap.cosine_of(weights) >= self.cap.cosine
        return within_cap and not (self.limits @ weights < 0.0).any()

    def loss_at(self, weights: FloatArray) -> float:
        """Return the loss of decoding weights [d] in floating point; infinite outside the region, first on ties."""
        if not self.inside(weights):
            return inf
        selection = decode(self.features, self.offsets, weights)
        if isinstance(self.losses, Totals):
            return self.losses.metric.loss(self.losses.constant + self.losses.statistics[selection].sum(axis=0))
        return self.loss_of(int(self.losses[selection].sum()))

    def attained_cost(self, weights: CanonicalWeights) -> int | None:
        """Return the exact cost of weights [d]; `None` outside the region, or if a tie of unequal costs decides."""
        if isinstance(self.losses, Totals):
            loss = self.losses.attained(weights)
            return None if loss is None else self.cost_of_loss(loss)
        if not (self.limits @ weights > 0).all() or not (self.cap is None or self.cap.contains(weights)):
            return None
        cost, clear = self.clear_cost(weights)
        return cost if clear else self.strict_cost(weights)

    def clear_cost(self, weights: CanonicalWeights) -> tuple[int, bool]:
        """Return the cost of weights [d] and True, or their cost at worst and False if rounding leaves it open."""
        spread = None if self.rounding is None else self.rounding.spread
        _, worst, clear = decoded_cost(*self.lists, weights, rounding_bound(weights, self.reach, spread))
        return worst, clear

    def strict_cost(self, weights: FloatArray) -> int | None:
        """Return the cost of weights [d] in exact arithmetic; `None` if a tie between unequal costs decides it."""
        none = np.empty((len(self.costs), 0))
        decoded = Evaluator(self.features, self.offsets, none, self.costs, self.rounding).decode(weights)
        return int(self.costs[decoded.selection].sum()) if decoded.strict else None

    def bare(self) -> Canonical:
        """Return a form without lists or limits that keeps the scale of the loss."""
        none = np.empty((0, self.n_features))
        return Canonical(none, np.zeros(1, np.int64), np.empty(0, np.int64), none, (), None, self.unit, self.constant)

    @property
    def values(self) -> Any:
        return self.losses.statistics if isinstance(self.losses, Totals) else self.losses

    def with_values(self, values: Any, more: Any = 0) -> Canonical:
        """Return the lists with other costs [m] or statistics [m, K]; more: what is added to every selection."""
        if isinstance(self.losses, Totals):
            constant = self.losses.constant + more
            return replace(self, losses=replace(self.losses, statistics=values, constant=constant))
        return replace(self, losses=values, constant=self.constant + more)

    @property
    def varying(self) -> IntArray:
        """The columns whose exact features differ within a list; with rounding, only before limits are lists."""
        exact = self.rounding
        return varying_columns(self.features, self.offsets) if exact is None else exact.varying(self.offsets)

    def take(self, rows: NDArray[np.integer], offsets: IntArray) -> Canonical:
        """Return these rows in lists with these offsets; features are not copied if the rows are all, in order."""
        unchanged = len(rows) == len(self.features) and bool((rows[1:] > rows[:-1]).all())
        features = self.features if unchanged else self.features[rows]
        exact = None if self.rounding is None else self.rounding.take(rows)
        return replace(self.with_values(self.values[rows]), features=features, offsets=offsets, rounding=exact)

    def of_columns(self, columns: IntArray) -> Canonical:
        """Return the form with only these ascending columns of features and limits; a cap stays as it is."""
        if len(columns) == self.n_features:
            return self
        features, limits = (np.ascontiguousarray(rows[:, columns]) for rows in (self.features, self.limits))
        exact = None if self.rounding is None else self.rounding.scaled(np.ones(len(columns)), columns)
        return replace(self, features=features, limits=limits, rounding=exact)

    def folded(self) -> tuple[Canonical, IntArray]:
        """Return the lists on which weights matter, and their rows; the others become part of the constant."""
        values, more = self.values, 0
        if self.additive:
            values, more = least_costs(values, self.offsets)
        rows, offsets = informative_rows(values, self.offsets)
        if not self.additive:
            more = values[np.setdiff1d(self.offsets[:-1], rows)].sum(axis=0)
        return self.with_values(values, more).take(rows, offsets), rows

    def part(self, lists: IntArray) -> tuple[Canonical, IntArray]:
        """Return some lists, with their varying columns, all if rounded, and limits on these; and these columns."""
        part = self.take(*rows_of_lists(self.offsets, lists))
        columns = part.varying if self.rounding is None else np.arange(self.n_features)
        inside = np.asarray(~np.delete(self.limits, columns, axis=1).any(axis=1))
        part = replace(part, limits=self.limits[inside], labels=tuple(compress(self.labels, inside.tolist())))
        return part.of_columns(columns), columns

    def within(self, normals: FloatArray) -> Canonical:
        """Return the lists followed by a list {a, 0} for each row a of normals [k, d], whose 0 may not win."""
        return replace(self._followed_by(normals, INFINITE_COST, normals), step=self.granularity)

    def with_limits(self) -> Canonical:
        """Return the lists followed by a list {a, 0} for every limit a.w >= 0, whose 0 costs more than any selection.

        If costs do not add up, both have statistics 0. Raises `MethodError` if the costs need more than 64 bits.
        """
        if not len(self.limits):
            return self
        most = self.dearest if self.additive else 0
        beyond = most + self.granularity if self.additive else 0
        if most + len(self.limits) * beyond >= INFINITE_COST:
            room = f"{len(self.limits)} limits leave no room in 64 bits"
            raise MethodError(f"the losses are so large that {room}; divide them")
        return self._followed_by(self.limits, beyond, None)

    def _followed_by(self, normals: FloatArray, beyond: int, exact: FloatArray | None) -> Canonical:
        """Append {a, 0} for every normal a [k, d], with values 0 and `beyond`; exact: if rounding has others."""
        pairs = np.zeros((2 * len(normals), self.n_features))
        pairs[::2] = normals
        pair_values = np.zeros((len(pairs), *self.values.shape[1:]), dtype=self.values.dtype)
        pair_values[1::2] = beyond
        ends = self.offsets[-1] + 2 * np.arange(1, len(normals) + 1)
        features, offsets = np.concatenate([self.features, pairs]), np.concatenate([self.offsets, ends])
        form = self.with_values(np.concatenate([self.values, pair_values]))
        rounding = None if self.rounding is None else self.rounding.followed_by(exact)
        return replace(form, features=features, offsets=offsets, rounding=rounding)

    def with_costs(self, costs: IntArray) -> Canonical:
        """Return a form with costs [m] instead of totals, and limits as lists; lists of constant cost are left out."""
        form = replace(self, losses=costs, unit=1.0, constant=0, rounded=False).with_limits()
        return form.take(*informative_rows(form.costs, form.offsets))


def _middle(form: Canonical) -> FloatArray | None:
    """Return weights in the middle of the limits, `None` if doubles hold none; raises `RegionError` without any."""
    exact = form.rounding if form.rounding is not None and form.rounding.known else None
    none = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    alone = replace(form, rounding=exact, step=None).take(*none).with_limits()
    optimizer = LinOptimizer(alone.features, alone.offsets, rounding=alone.rounding)
    chosen = np.arange(alone.n_lists), alone.offsets[:-1]
    verdict = optimizer.solve(chosen)
    if not verdict.attainable:
        against = ", ".join(form.labels[s] for s, _, _ in verdict.core)
        remedy = "drop or widen one of these limits, or fix a weight instead of squeezing it"
        raise RegionError(f"the region has no inside: {against} leave no weights, or none with room; {remedy}")
    if verdict.weights is None:
        return None
    weights, _ = optimizer.centre(chosen, start=verdict.weights)
    return weights


def _even_scales(rows: FloatArray) -> FloatArray:
    """Return powers of two [d], by geometric means, for columns that bring rows [k, d] to about one size."""
    nonzero = rows != 0.0
    logs = np.log2(np.abs(rows), out=np.zeros(rows.shape), where=nonzero)
    scales = np.zeros(rows.shape[1])
    for _ in range(60):
        of_rows = ((logs + scales) * nonzero).sum(axis=1) / np.maximum(nonzero.sum(axis=1), 1)
        scales = -((logs - of_rows[:, None]) * nonzero).sum(axis=0) / np.maximum(nonzero.sum(axis=0), 1)
    return np.ldexp(1.0, np.clip(np.rint(scales), -500, 500).astype(np.int64))


def _in_cap(cap: Cap, limits: FloatArray, labels: Sequence[str], inside: FloatArray) -> FloatArray:
    """Return weights [d] inside the cap and the limits [k, d], `inside` [d] inside the limits; raises `RegionError`."""
    nearest, multipliers = project(limits, cap.unit)
    reached = float(np.linalg.norm(nearest))  # the largest cosine; near 0 only rounding is left of it
    if reached <= cap.cosine:
        against = ", ".join(label for label, value in zip(labels, multipliers, strict=True) if value > 0)
        empty = f"the region is empty: within {against} the cosine reaches {reached:.6g} only"
        raise RegionError(f"{empty}; ask for less than {cap.cosine:g} or drop a limit")
    inward = inside / np.linalg.norm(inside)
    for k in range(60):
        weights = nearest / reached + 2.0**-k * inward
        if cap.contains(weights) and (limits @ weights > 0).all():
            return weights
    raise RegionError("the region is too thin for double precision; ask for a lower cosine or drop a limit")
