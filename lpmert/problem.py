"""The problem: N-best lists and a metric in canonical form, and what given weights cost on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from lpmert import canonical, rational
from lpmert.kernels import decode
from lpmert.metrics.base import AdditiveMetric, Metric, metric_by_name
from lpmert.nbest import NBest
from lpmert.result import DataError, FloatArray, IntArray, MethodError

TIES = ("first", "best", "worst")


@dataclass(frozen=True)
class Evaluation:
    """What weights cost: decoding with ties broken as the problem says, and the same with ties at their best and worst.

    `tied_lists` counts lists in which hypotheses with other features come within rounding of the best score; `margin`
    is the least lead of a winner over hypotheses with other features, `None` where no list has two. selection [S]
    counts hypotheses from 0 within their list.
    """

    loss: float
    score: float
    statistics: FloatArray
    selection: IntArray
    tied_lists: int
    loss_best_ties: float
    loss_worst_ties: float
    margin: float | None

    def to_dict(self) -> Mapping[str, Any]:
        """Return the figures as plain numbers and lists."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}


class Unmerged(NamedTuple):
    """The lists of a problem before parallel lists of two were merged: features [m, d], offsets [s + 1].

    columns [d] are those of the caller's features, scales [d] the powers of two they were multiplied by.
    """

    features: FloatArray
    offsets: IntArray
    columns: IntArray
    scales: FloatArray


class Problem:
    """N-best lists and a metric in the canonical form of every method.

    features [m, d] float64, offsets [s + 1], costs [m] int64: identical vectors collapsed (`ties` names which
    hypothesis stands for them), columns that are constant or exactly collinear within lists dropped, columns scaled by
    powers of two, lists that cost the same whatever the weights folded into `constant`, parallel lists of two merged.
    Loss = unit * (constant + sum of costs), exact unless `rounded`. Raises `DataError`, `MetricError`, `MethodError`.
    """

    def __init__(self, nbest: NBest, metric: str | Metric = "loss", *, ties: str = "first") -> None:
        if ties not in TIES:
            raise MethodError(f"ties={ties!r} is none of {', '.join(TIES)}")
        self.nbest = nbest
        self.metric = metric_by_name(metric)
        self.metric.check(nbest.statistics)
        self.ties = ties
        if not isinstance(self.metric, AdditiveMetric):
            raise MethodError(f"metric {self.metric.name!r} is no sum over lists; the exact methods need one that is")
        losses = self._all_losses = np.asarray(self.metric.losses(nbest.statistics), dtype=np.float64)
        dense = nbest.dense_features()
        leader = canonical.group_identical(dense, nbest.offsets)
        self._rows = canonical.representatives(leader, losses, ties)
        self._offsets = canonical.take_rows(nbest.offsets, self._rows)
        self._dense = dense
        costs = canonical.fixed_point(losses[self._rows], self._offsets)
        self._all_costs, self._all_constant = costs.costs, costs.constant
        rows, offsets = canonical.rows_of_lists(self._offsets, canonical.informative_lists(costs.costs, self._offsets))
        self._informative = self._rows[rows], offsets
        features = dense[self._rows[rows]]
        costs = canonical.Costs(costs.costs[rows], costs.constant, costs.unit, costs.rounded)
        columns = canonical.varying_columns(features, offsets)
        columns = columns[canonical.independent_columns(features[:, columns], offsets)]
        scales = canonical.column_scales(features[:, columns], offsets)
        unscaled = features[:, columns]
        features = np.ascontiguousarray(unscaled * scales)
        if not np.array_equal(features / scales, unscaled):
            raise DataError("a feature spans so many orders of magnitude that it cannot be scaled; rescale it")
        self.unmerged = Unmerged(features, offsets, columns, scales)
        features, self.offsets, costs = canonical.merge_parallel_pairs(features, offsets, costs)
        left = canonical.varying_columns(features, self.offsets)  # merging can drop a feature's last list
        self.features = np.ascontiguousarray(features[:, left])
        self.columns, self.scales = columns[left], scales[left]
        self.costs, self.constant, self.unit, self.rounded = costs.costs, costs.constant, costs.unit, costs.rounded

    @property
    def n_lists(self) -> int:
        """Number of lists on which the weights matter, after merging."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of independent features."""
        return int(self.features.shape[1])

    @cached_property
    def granularity(self) -> int:
        """Greatest common divisor of all costs: two selections differ by a multiple of it."""
        return max(1, int(np.gcd.reduce(self.costs))) if len(self.costs) else 1

    @property
    def free(self) -> tuple[str, ...]:
        """Features that the canonical form dropped: their weight is 0, and no other would serve better."""
        return tuple(name for d, name in enumerate(self.nbest.names) if d not in set(self.columns.tolist()))

    @property
    def signature(self) -> str:
        """Every setting of the problem that changes the number."""
        return f"{self.metric.signature}|ties:{self.ties}"

    def loss_of(self, cost: int) -> float:
        """Return the loss of a total cost, correctly rounded where the unit is exact."""
        return (self.constant + cost) * self.unit

    def rounding_bound(self, weights: FloatArray) -> float:
        """Return a bound on the rounding error of the difference of two scores at canonical weights [d]."""
        return float(2 * (self.n_features + 3) * np.finfo(np.float64).eps * (np.abs(weights) @ self._reach))

    @cached_property
    def _reach(self) -> FloatArray:
        return np.asarray(np.abs(self.features).max(axis=0, initial=0.0))

    def to_caller(self, weights: FloatArray) -> FloatArray:
        """Return canonical weights [d] as weights [D] for the features as given, exactly."""
        full = np.zeros(self.nbest.n_features)
        full[self.columns] = weights * self.scales
        return full

    def to_canonical(self, weights: FloatArray) -> FloatArray:
        """Return weights [D] of the caller as canonical weights [d] with the largest entry about 1.

        Weight on a dropped collinear feature is not carried over, so that this is a starting point, not an equal.
        """
        part = np.asarray(weights, dtype=np.float64)[self.columns] / self.scales
        largest = np.abs(part).max(initial=0.0)
        return np.asarray(part / largest) if largest > 0 else part

    def checked_weights(self, weights: object) -> FloatArray:
        """Return weights as an array [D]; raises `DataError` unless there is one finite number for each feature."""
        array = np.asarray(weights, dtype=np.float64)
        if array.shape != (self.nbest.n_features,):
            raise DataError(
                f"weights need one number for each of the {self.nbest.n_features} features "
                f"({', '.join(self.nbest.names)}); got shape {array.shape}"
            )
        if not np.all(np.isfinite(array)):
            raise DataError(f"weights must be finite; got {array.tolist()}")
        return array

    def evaluate(self, weights: object) -> Evaluation:
        """Return the cost of weights [D] of the caller, with ties found and broken in exact arithmetic.

        Raises `DataError` if the weights do not fit the features.
        """
        decoded = self._decode(self.checked_weights(weights))
        total = self._total(decoded.selection)
        return Evaluation(
            loss=self.metric.loss(total),
            score=self.metric.score(total),
            statistics=total,
            selection=self._rows[decoded.selection] - self.nbest.offsets[:-1],
            tied_lists=decoded.tied_lists,
            loss_best_ties=self.metric.loss(self._total(decoded.low)),
            loss_worst_ties=self.metric.loss(self._total(decoded.high)),
            margin=decoded.margin,
        )

    def attains(self, weights: FloatArray, cost: int) -> bool:
        """Whether weights [D] of the caller have this cost in exact arithmetic, and no tie between costs decides it."""
        decoded = self._decode(weights)
        found = self._all_constant + sum(self._all_costs[decoded.selection].tolist())
        return decoded.strict and found == self.constant + cost

    def _decode(self, given: FloatArray) -> _Decoded:
        w = given
        largest = np.abs(w).max(initial=0.0)
        exponent = int(np.frexp(largest)[1])
        w = np.ldexp(w, -exponent)  # decoding does not see the factor; products cannot overflow
        features = self._dense[self._rows]
        offsets = self._offsets
        sizes = np.diff(offsets)
        lists = canonical.list_numbers(offsets)
        scores = features @ w
        error = (
            2
            * (len(w) + 3)
            * np.finfo(np.float64).eps
            * np.maximum.reduceat(np.abs(features) @ np.abs(w), offsets[:-1])
        )
        best = np.maximum.reduceat(scores, offsets[:-1])
        close = scores >= (best - error)[lists]
        tied = np.add.reduceat(close.astype(np.int64), offsets[:-1]) > 1
        chosen = np.flatnonzero(close & ~tied[lists])
        selection = np.empty(len(sizes), dtype=np.int64)
        selection[lists[chosen]] = chosen
        losses = self._all_losses[self._rows]
        low, high = selection.copy(), selection.copy()
        strict = True
        for s in np.flatnonzero(tied):
            rows = offsets[s] + np.flatnonzero(close[offsets[s] : offsets[s + 1]])
            winners = rows[_best(given, features[rows])]
            selection[s] = winners[0]
            strict = strict and bool((self._all_costs[winners] == self._all_costs[winners[0]]).all())
            low[s] = rows[np.argmin(losses[rows])]
            high[s] = rows[np.argmax(losses[rows])]
        second = np.where(np.arange(len(scores)) == selection[lists], -np.inf, scores)
        lead = scores[selection] - np.maximum.reduceat(second, offsets[:-1])
        margin = float(np.ldexp(max(0.0, lead.min()), exponent)) if np.isfinite(lead).any() else None
        return _Decoded(selection, low, high, int(tied.sum()), strict, margin)

    def weight_ranges(self, weights: FloatArray) -> FloatArray:
        """Return for each weight [D, 2] the open interval in which it alone may move without a list changing its
        choice.

        Lists whose hypotheses all cost the same do not count.
        """
        rows, offsets = self._informative
        features = self._dense[rows]
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

    def _total(self, selection: IntArray) -> FloatArray:
        chosen = self.nbest.statistics[self._rows[selection]]
        return np.array([fsum(column) for column in chosen.T.tolist()])


class _Decoded(NamedTuple):
    """Rows chosen [S] with ties broken as asked, at best and at worst; strict: no tie between unequal costs."""

    selection: IntArray
    low: IntArray
    high: IntArray
    tied_lists: int
    strict: bool
    margin: float | None


def _best(weights: FloatArray, features: FloatArray) -> IntArray:
    """Return the rows of features [n, D] with the largest score in exact arithmetic, the first one first."""
    if not weights.any():
        return np.arange(len(features))
    best = [0]
    for row in range(1, len(features)):
        sign = rational.compare_scores(weights, features[row], features[best[0]])
        if sign > 0:
            best = [row]
        elif sign == 0:
            best.append(row)
    return np.array(best)
