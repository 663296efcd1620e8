"""The problem: N-best lists, a metric and a region, what given weights cost on them, and their canonical form."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.findings import Diagnostic, Unit
from lpmert.metrics.base import AdditiveMetric, Metric, exact_loss
from lpmert.metrics.contract import check_metric, check_statistics, metric_of
from lpmert.metrics.ratio import rates_of, unit_of
from lpmert.model.canonical import CallerWeights, Canonical, CanonicalWeights, Coordinates, Totals, UnmergedWeights
from lpmert.model.data_warnings import data_warnings
from lpmert.model.evaluation import Evaluation, Evaluator, least_lead, ranges_of_weights
from lpmert.model.graphs import WordGraphs
from lpmert.model.nbest import NBest
from lpmert.model.presolve import Hypotheses, canonicalise, fixed_point
from lpmert.model.reduction import reduce
from lpmert.model.region import Region, limits_of
from lpmert.numeric.lists import blocks_of_lists, take_rows
from lpmert.numeric.rounding import decimals_of
from lpmert.quoting import quoted
from lpmert.system.mapped import MANY, released
from lpmert.system.memory import give_back, keep_little, room_for
from lpmert.values import weights_array

TIES = ("first", "best", "worst")

_TIMES = 4
"""How many times as much memory as features, statistics and a number for each hypothesis take all that needs no search.
2.4 to 3.7 times were measured, with 1 to 30 features, lists of 2 to 1,000 hypotheses, sums and ratios.
"""

_TIE_EXPONENTS = np.array([-10, -20, -30, -40])
"""Powers of two by which weights are moved off ties of lists that cancel each other, relative to the largest."""


class Distinct(NamedTuple):
    """Hypotheses of lists, one for those with identical features.

    features [m, D]; offsets [s + 1]; statistics [m, K].
    """

    features: FloatArray
    offsets: IntArray
    statistics: FloatArray


class BaseProblem(ABC):
    """What problems on lists and on lattices share: the region, and the way from weights of the caller and back.

    names [D]: of the features. canonical: what a search takes; coordinates: from its weights to those of the caller.
    """

    metric: Metric
    canonical: Canonical
    coordinates: Coordinates[CanonicalWeights]

    def __init__(self, data: NBest | WordGraphs, region: Region | None) -> None:
        self._data, self.names = data, data.names
        self.region = None if region is None else region.of(data.names)
        self._reduction = reduce(limits_of(self.region or Region(), data.names))

    @property
    def fingerprint(self) -> str:
        """That of the lists or lattices."""
        return self._data.fingerprint

    @property
    def signature(self) -> str:
        """Every setting of the problem that changes the number."""
        region = "" if self.region is None else f"|{self.region.signature}"
        return f"{self.metric.signature}|{self._setting}{region}"

    @property
    @abstractmethod
    def _setting(self) -> str:
        """What the signature says of the kind of problem."""

    @property
    def inexact(self) -> bool:
        """Whether a cap and equations leave features that no doubles hold."""
        return self._reduction.off is not None

    def to_caller(self, weights: CanonicalWeights) -> CallerWeights:
        """Return canonical weights [d] as weights [D] for the features as given, exactly unless equations round."""
        return self.coordinates.to_caller(weights)

    def to_canonical(self, weights: CallerWeights) -> CanonicalWeights:
        """Return weights [D] of the caller as canonical weights [d], see `Coordinates.from_caller`."""
        return self.coordinates.from_caller(weights)

    def checked_weights(self, weights: object) -> CallerWeights:
        """Return weights by name or in order as an array [D]; raises `DataError` unless each feature has a number."""
        return CallerWeights(weights_array(weights, self.names))

    def inside(self, weights: CallerWeights, *, strictly: bool = False) -> bool:
        """Whether weights [D] of the caller lie in the region, see `Reduction.inside`."""
        return self.region is None or self._reduction.inside(weights, strictly=strictly)

    def distances(self, weights: CallerWeights) -> dict[str, float]:
        """Return how far weights [D] of the caller lie inside each limit of the region, see `Reduction.distances`."""
        return self._reduction.distances(weights)


class Problem(BaseProblem):
    """N-best lists, a metric and a region, with weights as the caller gives them: one for each feature.

    `ties` names which hypothesis represents those with identical features. `canonical` is what methods take, `unmerged`
    the same lists before parallel ones were merged, `losses` [M] those of the hypotheses, `None` for a metric that is
    not additive. reduced: of many hypotheses, the canonical form has only those that may win for some weights. Raises
    `DataError`, `MetricError`, `MethodError`, `RegionError`.
    """

    def __init__(
        self, nbest: NBest, metric: str | Metric | None = None, *, ties: str = "first", region: Region | None = None
    ) -> None:
        if ties not in TIES:
            raise MethodError(f"ties={quoted(ties)} is none of {', '.join(TIES)}")
        self.nbest = nbest
        self.metric = metric_of(metric, nbest.statistic_names)
        check_statistics(self.metric, nbest.statistics, nbest.offsets)
        check_metric(self.metric, nbest.statistics, nbest.offsets)
        self.ties = ties
        self.losses: FloatArray | None = None
        if isinstance(self.metric, AdditiveMetric):
            self.losses = np.asarray(self.metric.losses(nbest.statistics), dtype=np.float64)
        elif ties != "first":
            raise MethodError(
                f"ties={quoted(ties)} needs a loss for each hypothesis, which {quoted(self.metric.name)} has not"
            )
        super().__init__(nbest, region)
        given = nbest.features
        self._decimals = decimals_of(given if isinstance(given, np.ndarray) else given.data)  # zeros mean nothing else
        self._unit = self._decimals.unit
        self.reduced = nbest.n_hypotheses >= MANY and self._reduction.columns is not None
        if self.reduced:
            keep_little()
        self._hypotheses = Hypotheses(nbest, self._decimals, self._reduction, self.losses, ties)
        chosen = self._hypotheses.winners() if self.reduced else self._hypotheses.distinct()
        dense, features, statistics, self._rows, rounding = chosen
        numbers = dense.nbytes + statistics.nbytes + self._rows.nbytes
        room_for(_TIMES * numbers, "the canonical form, first weights and a report")
        offsets = take_rows(nbest.offsets, self._rows)
        losses, self._costs = None, None
        limits = self._reduction.rows, self._reduction.given.labels, self._reduction.cap
        if self.losses is None:
            totals = Totals(self.metric, statistics, np.zeros(statistics.shape[1]), self._attained_loss)
            form = Canonical(features, offsets, totals, *limits, totals.unit, rounded=True, rounding=rounding)
        else:
            losses = self.losses[self._rows]
            released(nbest.statistics)
            costs = self._costs = fixed_point(losses, offsets, len(self._reduction.rows))
            scale = costs.unit, costs.constant, costs.rounded
            form = Canonical(features, offsets, costs.costs, *limits, *scale, rounding=rounding)
        # Losses, not costs: a tie between those that are one in fixed point matters to where weights are put.
        self._evaluator = Evaluator(dense, offsets, statistics, losses)
        # Weights in doubles need not fulfil equations of several exactly; those nearby that do have to do as well.
        self._on_equations = None
        if self._reduction.columns is None and not self.inexact:
            self._on_equations = Evaluator(features, offsets, statistics, losses, rounding)
        self.canonical, self.coordinates, self.unmerged = canonicalise(form, self._reduction, self._unit)
        released(dense)
        if self.reduced:
            give_back()

    @property
    def free(self) -> tuple[str, ...]:
        """Features that the canonical form dropped: their weight is 0, and no other would serve better."""
        if self._reduction.columns is None:
            return ()
        kept = self._reduction.columns[self.coordinates.columns]
        dropped = np.setdiff1d(np.arange(self.nbest.n_features), kept)
        fixed = () if self.region is None else self.region.fixed
        return tuple(self.nbest.names[d] for d in dropped if self.nbest.names[d] not in fixed)

    def blocks(self) -> Iterator[Distinct]:
        """Yield all hypotheses, one for those with identical features, as given times one factor: some lists after the
        other, cut where the size of the lists says so. None is merged with another.
        """
        if self.reduced:
            for begin, offsets, dense, rows in self._hypotheses.distinct_blocks():
                yield Distinct(dense[rows], take_rows(offsets, rows), self.nbest.statistics[begin + rows])
            return
        features, offsets, statistics = self.as_given()
        for lists, _, _ in blocks_of_lists(self.nbest.offsets):
            own = offsets[lists.start : lists.stop + 1]
            some = slice(own[0], own[-1])
            yield Distinct(features[some], own - own[0], statistics[some])

    def as_given(self) -> Distinct:
        """Return all lists with the features of what may win, as given times one factor; none is merged."""
        return Distinct(self._evaluator.features, self._evaluator.offsets, self._evaluator.statistics)

    def scaled(self, lists: Distinct) -> Distinct:
        features, offsets, statistics = lists
        reduced, _ = self._reduction.features(features, offsets)
        columns = np.ascontiguousarray(reduced[:, self.coordinates.columns] * self.coordinates.scales)
        return Distinct(columns, offsets, statistics)

    @property
    def _setting(self) -> str:
        return f"ties:{self.ties}"

    @cached_property
    def data_warnings(self) -> tuple[Diagnostic, ...]:
        """What is odd about the lists and their losses."""
        return data_warnings(self.nbest, self.metric, self.losses, self.canonical.n_lists)

    def unseen(self, loss: float) -> float:
        """What a selection may cost less than this loss without a difference in fixed point."""
        losses = self._evaluator.losses
        if losses is None or not self.canonical.rounded:
            return 0.0
        oracle = math.fsum(np.minimum.reduceat(losses, self._evaluator.offsets[:-1]).tolist())
        return min(self.nbest.n_lists * self.canonical.unit, max(0.0, loss - oracle))

    @property
    def dearest(self) -> int:
        """What no selection within the limits costs more than in canonical form; all others do. Without a cap.

        Lists of limits do not tell: they may be merged with lists that are parallel.
        """
        if self._costs is None:
            raise MethodError(f"metric {quoted(self.metric.name)} is not additive; only sums have a dearest selection")
        most = np.maximum.reduceat(self._costs.costs, self._evaluator.offsets[:-1]).sum()
        return int(most) + self._costs.constant - self.canonical.constant

    def rates(self, loss: float) -> Mapping[str, float]:
        """Return a loss as shares, where it is known what to divide it by, and not in doubt that less is better."""
        found = rates_of(self.metric, self.nbest.statistics, self.nbest.offsets, loss)
        doubtful = found and any(doubt.code == "orientation" for doubt in self.data_warnings)
        return {} if doubtful else found

    @property
    def unit(self) -> Unit:
        """The unit in which users know the loss."""
        return unit_of(self.metric, self.nbest.statistic_names, self.rates(1.0), self.nbest.n_lists)

    def evaluate(self, weights: object) -> Evaluation:
        """Return the cost of weights, by name or in order, with ties found and broken in exact arithmetic.

        Raises `DataError` if the weights do not fit the features.
        """
        given = self.checked_weights(weights)
        evaluator, rows = self._evaluator, self._rows
        if not self._reduction.holds(given):
            evaluator, rows = self._unreduced
        evaluation = evaluator.evaluate(given, self.metric)
        selection = rows[evaluation.selection] - self.nbest.offsets[:-1]
        margin = evaluation.margin
        if self.reduced and evaluator is self._evaluator:
            margin = least_lead(((own, dense) for _, own, dense in self._hypotheses.blocks()), selection, given)
        return replace(evaluation, selection=selection, margin=None if margin is None else margin * self._unit)

    @cached_property
    def _unreduced(self) -> tuple[Evaluator, IntArray]:
        """For weights that do not fulfil the equations: they tell hypotheses apart that are one within the region."""
        dense = self._decimals.of(self.nbest.dense_features())
        rows = self._hypotheses.representatives(dense, self.nbest.offsets)
        losses = None if self.losses is None else self.losses[rows]
        return Evaluator(dense[rows], take_rows(self.nbest.offsets, rows), self.nbest.statistics[rows], losses), rows

    def attains(self, weights: CallerWeights, cost: int) -> bool:
        """Whether weights [D] of the caller lie in the region and have this cost in exact arithmetic, and no tie that
        matters decides it.
        """
        if self._costs is None:
            loss = self.attained_loss(weights)
            return loss is not None and self.canonical.cost_of_loss(loss) <= cost
        selection = self._attained(weights)
        if selection is None:
            return False
        found = self._costs.constant + sum(self._costs.costs[selection].tolist())
        return bool(found == self.canonical.constant + cost)

    def far_from_rounding(self, weights: CallerWeights) -> bool:
        """Whether weights [D] choose alike whichever of them is moved so that equations hold exactly."""
        if self._on_equations is None:
            return True
        margin, offsets = self._evaluator.decode(weights).margin, self._evaluator.offsets[:-1]
        features, steps = self._evaluator.features, self._reduction.rounding(weights)
        spreads = np.maximum.reduceat(features, offsets) - np.minimum.reduceat(features, offsets)
        return margin > float((spreads * steps).max(initial=0.0))

    def attained_loss(self, weights: CallerWeights) -> float | Fraction | None:
        """Return the loss of weights [D] of the caller under a metric that is not additive, exact for a fraction.

        `None` outside the region, and where a tie that matters decides it.
        """
        selection = self._attained(weights)
        return None if selection is None else exact_loss(self.metric, self._evaluator.total(selection))

    def _attained_loss(self, weights: CanonicalWeights) -> float | Fraction | None:
        given = self.to_caller(weights)
        loss = self.attained_loss(given)
        if loss is not None:
            return loss
        # Lists that cancel each other are tied where their features have no weight; any little one will do.
        unmerged = self.unmerged.coordinates
        merged_away = ~np.isin(unmerged.columns, self.coordinates.columns)
        if not merged_away.any():
            return None
        draws = np.random.default_rng(0).normal(size=len(merged_away))
        step = unmerged.to_caller(UnmergedWeights(np.where(merged_away, draws, 0.0)))
        sizes = np.ldexp(np.abs(given).max(initial=0.0) or 1.0, _TIE_EXPONENTS)
        beside = (self.attained_loss(CallerWeights(given + size * step)) for size in sizes.tolist())
        return next((one for one in beside if one is not None), None)

    def _attained(self, weights: CallerWeights) -> IntArray | None:
        decoded = self._evaluator.decode(weights)
        if not decoded.strict or not self.inside(weights, strictly=True):
            return None
        if self._on_equations is not None:
            nearest = weights[self._reduction.free]
            moved = self._on_equations.decode(nearest)
            same = self._on_equations.alike(moved.selection, decoded.selection)
            if not (same and moved.strict and self._reduction.strictly_inside(nearest)):
                return None
        return decoded.selection

    def weight_ranges(self, weights: CallerWeights) -> FloatArray:
        """Return `ranges_of_weights` for the lists whose hypotheses do not all cost the same."""
        rows, offsets = self.unmerged.rows, self.unmerged.offsets
        offsets = offsets[offsets <= len(rows)]  # without the limits
        features = self._evaluator.features
        return ranges_of_weights(features if len(rows) == len(features) else features[rows], offsets, weights)
