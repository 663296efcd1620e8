"""The problem: N-best lists, a metric and a region in canonical form, and what given weights cost on them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lpmert import canonical, rational
from lpmert.evaluation import Evaluation, Evaluator
from lpmert.kernels import INFINITE_COST, decode
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric, metric_by_name
from lpmert.metrics.door import check_metric
from lpmert.metrics.kinds import fraction_of, loss_by_formula
from lpmert.nbest import NBest
from lpmert.reduction import Cap, reduce
from lpmert.region import Region, limits_of
from lpmert.result import DataError, FloatArray, IntArray, MethodError
from lpmert.values import weights_array

TIES = ("first", "best", "worst")

_LOSS_UNIT = 2.0**-56
"""What a unit of cost is worth for a metric that is no sum over lists.

1 - score is a multiple of 2**-53 in floating point; fractions of sums have a unit that tells any two of them apart.
"""


class Unmerged(NamedTuple):
    """The lists of a problem before parallel lists of two were merged: features [m, d], offsets [s + 1].

    The last of them are the limits of the region. columns [d] are those of the reduced features, scales [d] the powers
    of two they were multiplied by.
    """

    features: FloatArray
    offsets: IntArray
    columns: IntArray
    scales: FloatArray


class Problem:
    """N-best lists, a metric and a region in the canonical form of every method.

    features [m, d] float64, offsets [s + 1]: identical vectors collapsed (`ties` names which hypothesis stands for
    them), columns that are constant or exactly collinear within lists dropped unless the region constrains them,
    columns scaled by powers of two, lists that cost the same whatever the weights folded away, parallel lists of two
    merged. statistics [m, K], constant_statistics [K]: what the metric sums; for an additive metric K = 1, its losses.

    With an additive metric: costs [m] int64; loss = unit * (constant + sum of costs), exact unless `rounded`; every
    limit a.w >= 0 of the region is a list of two, {a, 0}, whose second hypothesis costs more than all other lists
    together: methods that minimise the cost keep to the region. With another metric costs stand for losses in fixed
    point, and methods have to keep to `limits` [k, d] themselves; `fraction` is its loss where that is one of sums.
    A `cap` is for the methods that know it; without one it is `None`.

    Raises `DataError`, `MetricError`, `MethodError`, `RegionError`.
    """

    def __init__(
        self, nbest: NBest, metric: str | Metric = "loss", *, ties: str = "first", region: Region | None = None
    ) -> None:
        if ties not in TIES:
            raise MethodError(f"ties={ties!r} is none of {', '.join(TIES)}")
        self.nbest = nbest
        self.metric = metric_by_name(metric)
        self.metric.check(nbest.statistics)
        check_metric(self.metric, nbest.statistics, nbest.offsets)
        self.fraction = fraction_of(self.metric)
        self.ties = ties
        self.region = None if region is None else region.of(nbest.names)
        losses = _losses(self.metric, nbest.statistics)
        if losses is None and ties != "first":
            raise MethodError(f"ties={ties!r} needs a loss for each hypothesis, which {self.metric.name!r} has not")
        self._reduction = None if region is None else reduce(limits_of(region, nbest.names))
        dense = nbest.dense_features()
        features = dense if self._reduction is None else self._reduction.features(dense)
        self._rows = self._representatives(features, losses)
        offsets = canonical.take_rows(nbest.offsets, self._rows)
        if len(self._rows) < len(dense):
            dense, features = dense[self._rows], features[self._rows]
        statistics = nbest.statistics[self._rows]
        losses = None if losses is None else losses[self._rows]
        self._canonicalise(dense, features, offsets, statistics, losses)

    def _representatives(self, features: FloatArray, losses: FloatArray | None) -> IntArray:
        """Return the rows that stand for those with identical features [M, d]."""
        leader = canonical.group_identical(features, self.nbest.offsets)
        return canonical.representatives(leader, np.zeros(len(leader)) if losses is None else losses, self.ties)

    def _canonicalise(
        self,
        dense: FloatArray,
        features: FloatArray,
        offsets: IntArray,
        statistics: FloatArray,
        losses: FloatArray | None,
    ) -> None:
        """Bring lists without repeated vectors to canonical form: features [M, D] as given and [M, d] reduced,
        statistics [M, K], losses [M].
        """
        self.additive = losses is not None
        limits = np.empty((0, dense.shape[1])) if self._reduction is None else self._reduction.rows
        cap = None if self._reduction is None else self._reduction.cap
        costs = canonical.fixed_point(np.zeros(len(dense)) if losses is None else losses, offsets, len(limits))
        self._evaluator = Evaluator(dense, offsets, statistics, statistics if losses is None else costs.costs, losses)
        self._all_costs, self._all_constant = costs.costs, costs.constant
        rows = np.arange(len(dense))
        self.rounded_features = self._reduction is not None and (
            self._reduction.rounded or not self._reduction.exact(dense, features)
        )
        if cap is not None:
            rows = canonical.possible_winners(features, offsets, cap.unit, cap.cosine)
        summed = statistics if losses is None else losses[:, None]
        kept_offsets = canonical.take_rows(offsets, rows)
        prices, constant = canonical.least_costs(costs.costs[rows], kept_offsets)
        kept, offsets = canonical.rows_of_lists(
            kept_offsets, canonical.informative_lists(prices if self.additive else statistics[rows], kept_offsets)
        )
        folded = np.setdiff1d(kept_offsets[:-1], kept)
        constant_statistics = summed[rows[folded]].sum(axis=0)
        rows, prices = rows[kept], prices[kept]
        self._informative = rows, offsets
        features = features[rows]
        columns = np.arange(features.shape[1])
        scales = np.ones(len(columns))
        if cap is None:
            used = limits.any(axis=0)
            columns = np.flatnonzero(np.isin(columns, canonical.varying_columns(features, offsets)) | used)
            if not used.any():
                columns = columns[canonical.independent_columns(features[:, columns], offsets)]
            scales = canonical.column_scales(features[:, columns], offsets)
        features = _times(features[:, columns], scales)
        # A factor does not change a limit; as large as the features it is told from a tie as well as they are.
        limits = _times(limits[:, columns], scales)
        factors = np.ldexp(1.0, -np.frexp(np.abs(limits).max(axis=1, initial=0.0))[1])
        limits = _times(limits.T, factors).T
        if self.additive:
            features, offsets, prices = with_limits(features, offsets, prices, limits)
        self.unmerged = Unmerged(features, offsets, columns, scales)
        target = canonical.merge_parallel_pairs(features, offsets)
        own = target == np.arange(len(target))
        n_limit_rows = len(features) - len(rows)
        sums = np.vstack([summed[rows], np.zeros((n_limit_rows, summed.shape[1]))])
        sums, features = canonical.merged(sums, target), features[own]
        offsets = canonical.take_left(offsets, own)
        prices, more = canonical.least_costs(canonical.merged(prices, target), offsets)
        left_rows, self.offsets = canonical.rows_of_lists(
            offsets, canonical.informative_lists(prices if self.additive else sums, offsets)
        )
        folded = np.setdiff1d(offsets[:-1], left_rows)
        self.constant_statistics = constant_statistics + sums[folded].sum(axis=0)
        self.statistics = sums[left_rows]
        features = features[left_rows]
        left = np.arange(len(columns))
        if cap is None and not len(limits):
            left = canonical.varying_columns(features, self.offsets)  # merging can drop a feature's last list
        self.features = np.ascontiguousarray(features[:, left])
        self.columns, self.scales = columns[left], scales[left]
        self.limits = np.ascontiguousarray(limits[:, left])
        self.cap = None if cap is None else Cap(cap.centre[self.columns], cap.cosine)
        self._prices, self.constant = prices[left_rows], costs.constant + constant + more
        self.unit, self.rounded = (costs.unit, costs.rounded) if self.additive else (_LOSS_UNIT, True)
        if self.fraction is not None:
            self.unit = min(self.unit, self.fraction.unit(statistics))

    @property
    def n_lists(self) -> int:
        """Number of lists on which the weights matter, after merging, with those of the limits."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of independent features."""
        return int(self.features.shape[1])

    @property
    def costs(self) -> IntArray:
        """Costs [m] of the hypotheses, the least of every list 0.

        Raises `MethodError` for a metric that is no sum over lists.
        """
        if not self.additive:
            raise MethodError(f"metric {self.metric.name!r} is no sum over lists; this method needs one that is")
        return self._prices

    @cached_property
    def granularity(self) -> int:
        """Greatest common divisor of all costs: two selections differ by a multiple of it."""
        return max(1, int(np.gcd.reduce(self._prices))) if self.additive and len(self._prices) else 1

    @property
    def free(self) -> tuple[str, ...]:
        """Features that the canonical form dropped: their weight is 0, and no other would serve better."""
        if self._reduction is not None and self._reduction.columns is None:
            return ()
        kept = self.columns
        if self._reduction is not None and self._reduction.columns is not None:
            kept = self._reduction.columns[kept]
        dropped = np.setdiff1d(np.arange(self.nbest.n_features), kept)
        fixed = () if self.region is None else self.region.fixed
        return tuple(self.nbest.names[d] for d in dropped if self.nbest.names[d] not in fixed)

    @property
    def signature(self) -> str:
        """Every setting of the problem that changes the number."""
        region = "" if self.region is None else f"|{self.region.signature}"
        return f"{self.metric.signature}|ties:{self.ties}{region}"

    def loss_of(self, cost: int) -> float:
        """Return the loss of a total cost, correctly rounded where the unit is exact."""
        return (self.constant + cost) * self.unit

    def unseen(self, loss: float) -> float:
        """What a selection may cost less than this loss without a difference in fixed point."""
        losses = self._evaluator.losses
        if losses is None or not self.rounded:
            return 0.0
        oracle = math.fsum(np.minimum.reduceat(losses, self._evaluator.offsets[:-1]).tolist())
        return min(self.nbest.n_lists * self.unit, max(0.0, loss - oracle))

    def cost_of_loss(self, loss: float | Fraction) -> int:
        """Return a loss in fixed point, rounded down: what stands for a cost where the metric is no sum over lists."""
        return math.floor(Fraction(loss) / Fraction(self.unit)) - self.constant

    def rounding_bound(self, weights: FloatArray) -> float:
        """Return a bound on the rounding error of the difference of two scores at canonical weights [d]."""
        return float(2 * (self.n_features + 3) * np.finfo(np.float64).eps * (np.abs(weights) @ self._reach))

    @cached_property
    def _reach(self) -> FloatArray:
        return np.asarray(np.abs(self.features).max(axis=0, initial=0.0))

    @cached_property
    def interior(self) -> FloatArray | None:
        """Canonical weights [d] inside the region, `None` where there is no limit.

        Raises `RegionError`, naming the limits that contradict each other, if there are none.
        """
        from lpmert.geometry.interior import interior

        return None if self._reduction is None else interior(self.limits, self._reduction.labels, self.cap)

    def to_caller(self, weights: FloatArray, lists: Unmerged | None = None) -> FloatArray:
        """Return canonical weights [d] as weights [D] for the features as given, exactly unless equations round.

        lists: those whose columns the weights are for, if not the merged ones.
        """
        n_features = self.nbest.n_features if self._reduction is None else self._reduction.basis.shape[1]
        columns, scales = (self.columns, self.scales) if lists is None else (lists.columns, lists.scales)
        full = np.zeros(n_features)
        full[columns] = weights * scales
        if not len(columns):
            full[:] = 1.0  # all weights serve alike, but they are to fulfil the equations
        return full if self._reduction is None else self._reduction.weights(full)

    def to_canonical(self, weights: FloatArray, lists: Unmerged | None = None) -> FloatArray:
        """Return weights [D] of the caller as canonical weights [d] with the largest entry about 1.

        lists: those whose columns the weights are for, if not the merged ones. Weight on a dropped collinear feature is
        not carried over, so that this is a starting point, not an equal.
        """
        full = np.asarray(weights, dtype=np.float64)
        if self._reduction is not None:
            full = self._reduction.coordinates(full)
        columns, scales = (self.columns, self.scales) if lists is None else (lists.columns, lists.scales)
        part = full[columns] / scales
        largest = np.abs(part).max(initial=0.0)
        return np.asarray(part / largest) if largest > 0 else part

    def checked_weights(self, weights: object) -> FloatArray:
        """Return weights by name or in order as an array [D]; raises `DataError` unless each feature has a number."""
        return weights_array(weights, self.nbest.names)

    def evaluate(self, weights: object) -> Evaluation:
        """Return the cost of weights, by name or in order, with ties found and broken in exact arithmetic.

        Raises `DataError` if the weights do not fit the features.
        """
        given = self.checked_weights(weights)
        evaluator, rows = self._evaluator, self._rows
        if self._reduction is not None and not self._reduction.holds(given):
            evaluator, rows = self._unreduced
        evaluation = evaluator.evaluate(given, self.metric)
        return replace(evaluation, selection=rows[evaluation.selection] - self.nbest.offsets[:-1])

    @cached_property
    def _unreduced(self) -> tuple[Evaluator, IntArray]:
        """For weights that do not fulfil the equations: they tell hypotheses apart that are one within the region."""
        losses, statistics = _losses(self.metric, self.nbest.statistics), self.nbest.statistics
        dense = self.nbest.dense_features()
        rows = self._representatives(dense, losses)
        losses = None if losses is None else losses[rows]
        offsets = canonical.take_rows(self.nbest.offsets, rows)
        values = statistics[rows] if losses is None else canonical.fixed_point(losses, offsets).costs
        return Evaluator(dense[rows], offsets, statistics[rows], values, losses), rows

    def attains(self, weights: FloatArray, cost: int) -> bool:
        """Whether weights [D] of the caller lie in the region and have this cost in exact arithmetic, and no tie that
        matters decides it.
        """
        selection = self._attained(weights)
        if selection is None:
            return False
        if self.additive:
            found = self._all_constant + sum(self._all_costs[selection].tolist())
            return bool(found == self.constant + cost)
        return self.cost_of_loss(self._ratio_loss(selection)) <= cost

    def attained_loss(self, weights: FloatArray) -> float | Fraction | None:
        """Return the loss of weights [D] of the caller under a metric that is no sum over lists, exact for a fraction.

        `None` outside the region, and where a tie that matters decides it.
        """
        selection = self._attained(weights)
        return None if selection is None else self._ratio_loss(selection)

    def _attained(self, weights: FloatArray) -> IntArray | None:
        decoded = self._evaluator.decode(weights)
        return decoded.selection if decoded.strict and self.inside(weights, strictly=True) else None

    def _ratio_loss(self, selection: IntArray) -> float | Fraction:
        total = self._evaluator.total(selection)
        if self.fraction is not None:
            return self.fraction.loss(total)
        return loss_by_formula(self.metric, total) if isinstance(self.metric, RatioMetric) else self.metric.loss(total)

    def inside(self, weights: FloatArray, *, strictly: bool = False) -> bool:
        """Whether weights [D] of the caller fulfil the limits and the cosine of the region, in exact arithmetic.

        Equations on more than one weight need to hold up to rounding only. strictly: not on the edge of a limit.
        """
        if self._reduction is None:
            return True
        if not self._reduction.holds(weights) or not weights.any():
            return False
        zeros = np.zeros(len(weights))
        for k, row in enumerate(self._reduction.given_rows):
            sign = rational.compare_scores(weights, row, zeros)
            if sign < 0 or (sign == 0 and (strictly or (k == 0 and self._reduction.referred))):
                return False
        return self._reduction.given_cap is None or self._reduction.given_cap.contains(weights)

    def distances(self, weights: FloatArray) -> dict[str, float]:
        """Return how far weights [D] of the caller lie inside each limit of the region, and their cosine if it counts.

        Distances are Euclidean, in the scale of the weights given; negative outside.
        """
        if self._reduction is None:
            return {}
        rows, cap = self._reduction.given_rows, self._reduction.given_cap
        inside = rows @ weights / np.linalg.norm(rows, axis=1)
        found = dict(zip(self._reduction.labels, inside.tolist(), strict=True))
        return found if cap is None else {**found, f"cosine >= {cap.cosine:g}": cap.cosine_of(weights) - cap.cosine}

    @property
    def limit_labels(self) -> tuple[str, ...]:
        """Labels of `limits`; with an additive metric, those of the last lists of `unmerged` too."""
        return () if self._reduction is None else self._reduction.labels

    def weight_ranges(self, weights: FloatArray) -> FloatArray:
        """Return for each weight [D, 2] the open interval in which it alone may move without a list changing its
        choice.

        Lists whose hypotheses all cost the same do not count.
        """
        rows, offsets = self._informative
        features = self._evaluator.features[rows]
        chosen = np.empty(len(offsets) - 1, dtype=np.int64)
        decode(features, offsets, weights, chosen)
        other = np.ones(len(rows), dtype=bool)
        other[chosen] = False
        differences = (features[chosen][canonical.list_numbers(offsets)] - features)[other]
        margins = differences @ weights
        ranges = np.empty((len(weights), 2))
        for d, column in enumerate(differences.T):
            with np.errstate(divide="ignore", invalid="ignore"):
                steps = -margins / column
            ranges[d, 0] = weights[d] + np.max(steps, where=column > 0, initial=-np.inf)
            ranges[d, 1] = weights[d] + np.min(steps, where=column < 0, initial=np.inf)
        return ranges


def _losses(metric: Metric, statistics: FloatArray) -> FloatArray | None:
    """Return the loss [M] of each hypothesis, `None` for a metric that is no sum over lists."""
    if not isinstance(metric, AdditiveMetric):
        return None
    return np.asarray(metric.losses(statistics), dtype=np.float64)


def _times(values: FloatArray, factors: FloatArray) -> FloatArray:
    """Return values [n, d] times powers of two [d]; raises `DataError` where that is not exact."""
    product = np.ascontiguousarray(values * factors)
    if not np.array_equal(product / factors, values):
        raise DataError("a feature or limit spans so many orders of magnitude that it cannot be scaled; rescale it")
    return product


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
    pairs = np.zeros((2 * len(limits), features.shape[1]))
    pairs[::2] = limits
    prices = np.zeros(len(pairs), dtype=np.int64)
    prices[1::2] = most + unit
    ends = offsets[-1] + 2 * np.arange(1, len(limits) + 1)
    return np.vstack([features, pairs]), np.concatenate([offsets, ends]), np.concatenate([costs, prices])
