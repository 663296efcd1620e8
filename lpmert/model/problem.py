"""The problem: N-best lists, a metric and a region; the cost of weights, and the canonical form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lpmert.core import possible_winners
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import give_back, room_for
from lpmert.metrics.base import AdditiveMetric, Metric, exact_loss
from lpmert.metrics.contract import check_metric, check_statistics, metric_of, rates_of, unit_of
from lpmert.model.canonical import (
    CallerWeights,
    Canonical,
    CanonicalWeights,
    Coordinates,
    Evaluator,
    Totals,
    ranges_of_weights,
)
from lpmert.model.data_warnings import data_warnings
from lpmert.model.graphs import WordGraphs
from lpmert.model.nbest import NBest
from lpmert.model.presolve import canonicalise, column_scales, fixed_point, group_identical, representatives
from lpmert.model.region import Region, limits_of, reduce
from lpmert.numeric.lists import blocks_of_lists, joined, take_rows
from lpmert.numeric.rational import decimals_of
from lpmert.quoting import Unit, quoted
from lpmert.result import Diagnostic, Evaluation
from lpmert.values import weights_array

TIES = ("first", "best", "worst")

_TIMES = 4
"""Memory of everything but the search, relative to that of features, statistics and a number for each hypothesis.
2.4 to 3.7 were measured, with 1 to 30 features, lists of 2 to 1,000 hypotheses, sums and ratios.
"""

MANY = 1 << 20  # hypotheses from which on only those that may win are kept

_MOST_WINNERS = 0.75
"""If a larger share of the hypotheses may win, as with five features, looking for the others does not pay."""

TIMES = 7  # least memory for finding possible winners, relative to that of the features

_TIE_EXPONENTS = np.array([-10, -20, -30, -40])
"""Powers of two, relative to the largest weight, by which weights are moved off ties of lists that cancel out."""


class Distinct(NamedTuple):
    """Hypotheses of lists, one for each group with identical features [m, D]; offsets [s + 1]; statistics [m, K]."""

    features: FloatArray
    offsets: IntArray
    statistics: FloatArray


class BaseProblem:
    """The common part of problems on lists and lattices: region, canonical form, coordinates of its weights."""

    setting: str
    metric: Metric
    canonical: Canonical
    coordinates: Coordinates
    reduced = False

    def __init__(self, data: NBest | WordGraphs, region: Region | None) -> None:
        self._data, self.names = data, data.names
        self.region = None if region is None else region.of(data.names)
        self._reduction = reduce(limits_of(self.region or Region(), data.names))

    @property
    def fingerprint(self) -> str:
        return self._data.fingerprint

    @property
    def signature(self) -> str:
        """Every setting of the problem that changes the loss."""
        region = "" if self.region is None else f"|{self.region.signature}"
        return f"{self.metric.signature}|{self.setting}{region}"

    @property
    def inexact(self) -> bool:
        """Whether a cap and equations together make features that doubles cannot hold."""
        return self._reduction.off is not None

    def give_back(self) -> None:
        """Give freed memory back to the system if there was much of it."""
        if self.reduced:
            give_back()

    def to_caller(self, weights: CanonicalWeights) -> CallerWeights:
        return self.coordinates.to_caller(weights)

    def to_canonical(self, weights: CallerWeights) -> CanonicalWeights:
        return self.coordinates.from_caller(weights)

    def checked_weights(self, weights: object) -> CallerWeights:
        """Return weights, by name or in order, as an array [D]; raises `DataError` unless each feature has a number."""
        return CallerWeights(weights_array(weights, self.names))

    def inside(self, weights: CallerWeights, *, strictly: bool = False) -> bool:
        return self.region is None or self._reduction.inside(weights, strictly=strictly)

    def distances(self, weights: CallerWeights) -> dict[str, float]:
        return self._reduction.distances(weights)


class Problem(BaseProblem):
    """N-best lists, a metric and a region; weights are the caller's, one for each feature.

    ties: which hypothesis represents those with identical features, "first", "best" or "worst". canonical: the input of
    methods; unmerged: the same lists before parallel ones were merged; losses [M]: of the hypotheses, `None` for a
    metric that is not additive; reduced: whether hypotheses that cannot win for any weights were dropped, which is done
    if there are very many. Raises `DataError`, `MetricError`, `MethodError`, `RegionError`.
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
        self.ties, self.setting = ties, f"ties:{ties}"
        self.losses: FloatArray | None = None
        if isinstance(self.metric, AdditiveMetric):
            self.losses = np.asarray(self.metric.losses(nbest.statistics), dtype=np.float64)
        elif ties != "first":
            needs = f"needs a loss for each hypothesis, which {quoted(self.metric.name)} does not have"
            raise MethodError(f"ties={quoted(ties)} {needs}")
        super().__init__(nbest, region)
        features = nbest.features
        self._decimals = decimals_of(features if isinstance(features, np.ndarray) else features.data)
        self.reduced = nbest.n_hypotheses >= MANY and self._reduction.columns is not None
        if self.reduced:
            self._rows = joined(list(self._winners()))
            offsets = take_rows(nbest.offsets, self._rows)
            dense = self._decimals.of(nbest.dense_features(self._rows))
            reduced, rounding = self._reduction.features(dense, offsets)
        else:
            dense = self._decimals.of(nbest.dense_features())
            reduced, rounding = self._reduction.features(dense, nbest.offsets)
            self._rows = self._representatives(reduced if rounding is None else rounding.codes, nbest.offsets, 0)
            offsets = take_rows(nbest.offsets, self._rows)
            if len(self._rows) < len(dense):
                dense, reduced = dense[self._rows], reduced[self._rows]
                rounding = None if rounding is None else rounding.take(self._rows)
        statistics = nbest.statistics[self._rows]
        size = dense.nbytes + statistics.nbytes + self._rows.nbytes
        room_for(_TIMES * size, "the canonical form, first weights and a report")
        losses, self._costs = None, None
        limits = self._reduction.rows, self._reduction.given.labels, self._reduction.cap
        if self.losses is None:
            totals = Totals(self.metric, statistics, np.zeros(statistics.shape[1]), self._attained_loss)
            form = Canonical(reduced, offsets, totals, *limits, totals.unit, rounded=True, rounding=rounding)
        else:
            losses = self.losses[self._rows]
            costs = self._costs = fixed_point(losses, offsets, len(self._reduction.rows))
            scale = costs.unit, costs.constant, costs.rounded
            form = Canonical(reduced, offsets, costs.costs, *limits, *scale, rounding=rounding)
        # Losses, not costs: a tie matters even between losses that are equal in fixed point.
        self._evaluator = Evaluator(dense, offsets, statistics, losses)
        # Weights in doubles may miss equations on several weights; the nearest that fulfil them must do as well.
        self._on_equations = None
        if self._reduction.columns is None and not self.inexact:
            self._on_equations = Evaluator(reduced, offsets, statistics, losses, rounding)
        self.canonical, self.coordinates, self.unmerged = canonicalise(form, self._reduction, self._decimals.unit)
        self.give_back()

    def _winners(self) -> Iterator[IntArray]:
        """Yield the rows that may win for some weights, by blocks; all rows once nearly all of the first blocks may."""
        examined = kept = 0
        for begin, offsets, dense, rows in self._distinct_blocks():
            if kept <= _MOST_WINNERS * examined:
                room_for(TIMES * dense.nbytes, "finding what may win")
                offsets = take_rows(offsets, rows)
                features, _ = self._reduction.features(dense[rows], offsets)
                examined += len(rows)
                rows = rows[possible_winners(features * column_scales(features, offsets), offsets)]
                kept += len(rows)
            yield begin + rows

    def _distinct_blocks(self) -> Iterator[tuple[int, IntArray, FloatArray, IntArray]]:
        """Yield blocks of lists: the first row, offsets from 0, features [m, D] in decimals, and what represents groups
        with identical features within the region.
        """
        begin = 0
        for features, offsets in self.nbest.blocks():
            dense = self._decimals.of(features)
            reduced, rounding = self._reduction.features(dense, offsets)
            codes = reduced if rounding is None else rounding.codes
            yield begin, offsets, dense, self._representatives(codes, offsets, begin)
            begin += len(features)

    def _representatives(self, features: FloatArray, offsets: IntArray, begin: int) -> IntArray:
        """Return the rows that represent groups with identical features [m, d]; begin: the first of these rows."""
        found, losses = [], None if self.losses is None else self.losses[begin:]
        for _, rows, block_offsets in blocks_of_lists(offsets):
            leader = group_identical(features[rows], block_offsets)
            found.append(rows.start + representatives(leader, None if losses is None else losses[rows], self.ties))
        return joined(found)

    @property
    def free(self) -> tuple[str, ...]:
        """Features that the canonical form dropped: no other weight of theirs is better."""
        if self._reduction.columns is None:
            return ()
        kept = {self.names[d] for d in self._reduction.columns[self.coordinates.columns]}
        return tuple(
            name for name in self.names if name not in kept and not (self.region and name in self.region.fixed)
        )

    def blocks(self) -> Iterator[Distinct]:
        """Yield the distinct hypotheses of one block of lists after another, with features as given times one factor.

        Blocks depend only on the sizes of the lists as given. No lists are merged, and no hypotheses dropped.
        """
        if self.reduced:
            for begin, offsets, dense, rows in self._distinct_blocks():
                yield Distinct(dense[rows], take_rows(offsets, rows), self.nbest.statistics[begin + rows])
            return
        features, offsets, statistics = self.as_given()
        for lists, _, _ in blocks_of_lists(self.nbest.offsets):
            block = offsets[lists.start : lists.stop + 1]
            rows_of_block = slice(block[0], block[-1])
            yield Distinct(features[rows_of_block], block - block[0], statistics[rows_of_block])

    def as_given(self) -> Distinct:
        """Return the distinct hypotheses, if `reduced` those that may win; features as given, times one factor."""
        return Distinct(self._evaluator.features, self._evaluator.offsets, self._evaluator.statistics)

    def scaled(self, lists: Distinct) -> Distinct:
        """Return lists of `blocks` or `as_given` with the features of the canonical form."""
        features, offsets, statistics = lists
        reduced, _ = self._reduction.features(features, offsets)
        columns = np.ascontiguousarray(reduced[:, self.coordinates.columns] * self.coordinates.scales)
        return Distinct(columns, offsets, statistics)

    @cached_property
    def data_warnings(self) -> tuple[Diagnostic, ...]:
        return data_warnings(self.nbest, self.metric, self.losses, self.canonical.n_lists)

    def unseen(self, loss: float) -> float:
        """Return by how much a selection may undercut this loss without a difference in fixed point."""
        losses = self._evaluator.losses
        if losses is None or not self.canonical.rounded:
            return 0.0
        oracle = math.fsum(np.minimum.reduceat(losses, self._evaluator.offsets[:-1]).tolist())
        return min(self.nbest.n_lists * self.canonical.unit, max(0.0, loss - oracle))

    @property
    def dearest(self) -> int:
        """The greatest cost, in canonical form, of a selection within the limits; not for problems with a cap."""
        if self._costs is None:
            raise MethodError(f"metric {quoted(self.metric.name)} is not additive; only sums have a dearest selection")
        most = np.maximum.reduceat(self._costs.costs, self._evaluator.offsets[:-1]).sum()
        return int(most) + self._costs.constant - self.canonical.constant

    def rates(self, loss: float) -> Mapping[str, float]:
        """Return `rates_of` a loss; empty if there is doubt that less is better."""
        found = rates_of(self.metric, self.nbest.statistics, self.nbest.offsets, loss)
        doubtful = found and any(doubt.code == "orientation" for doubt in self.data_warnings)
        return {} if doubtful else found

    @property
    def unit(self) -> Unit:
        return unit_of(self.metric, self.nbest.statistic_names, self.rates(1.0), self.nbest.n_lists)

    def evaluate(self, weights: object) -> Evaluation:
        """Return the evaluation of weights, by name or in order, with ties in exact arithmetic; raises `DataError`."""
        checked = self.checked_weights(weights)
        evaluator, rows = self._evaluator, self._rows
        if not self._reduction.holds(checked):
            evaluator, rows = self._unreduced
        decoded = evaluator.decode(checked)
        total = evaluator.total(decoded.selection)
        loss = self.metric.loss(total)
        best = worst = None if decoded.tied_lists else loss
        if decoded.tied_lists and self.losses is not None:
            best, worst = (self.metric.loss(evaluator.total(end)) for end in (decoded.low, decoded.high))
        # Of very many hypotheses, the evaluator has only those that may win; others may come nearer to a winner.
        known = np.isfinite(decoded.margin) and not (self.reduced and evaluator is self._evaluator)
        return Evaluation(
            loss=loss,
            score=self.metric.score(total),
            statistics=total,
            selection=rows[decoded.selection] - self.nbest.offsets[:-1],
            tied_lists=decoded.tied_lists,
            loss_best_ties=best,
            loss_worst_ties=worst,
            margin=decoded.margin * self._decimals.unit if known else None,
        )

    @cached_property
    def _unreduced(self) -> tuple[Evaluator, IntArray]:
        """The evaluator, and its rows, of weights that break equations and so distinguish more hypotheses."""
        dense = self._decimals.of(self.nbest.dense_features())
        rows = self._representatives(dense, self.nbest.offsets, 0)
        losses = None if self.losses is None else self.losses[rows]
        return Evaluator(dense[rows], take_rows(self.nbest.offsets, rows), self.nbest.statistics[rows], losses), rows

    def attains(self, weights: CallerWeights, cost: int) -> bool:
        """Whether weights [D] lie in the region and have this cost in exact arithmetic, without a tie that matters."""
        if self._costs is None:
            loss = self.attained_loss(weights)
            return loss is not None and self.canonical.cost_of_loss(loss) <= cost
        selection = self._attained(weights)
        if selection is None:
            return False
        found = self._costs.constant + sum(self._costs.costs[selection].tolist())
        return bool(found == self.canonical.constant + cost)

    def far_from_rounding(self, weights: CallerWeights) -> bool:
        """Whether weights [D] keep their choices whichever weight is moved to make the equations hold exactly."""
        if self._on_equations is None:
            return True
        margin, offsets = self._evaluator.decode(weights).margin, self._evaluator.offsets[:-1]
        features, steps = self._evaluator.features, self._reduction.rounding(weights)
        spreads = np.maximum.reduceat(features, offsets) - np.minimum.reduceat(features, offsets)
        return margin > float((spreads * steps).max(initial=0.0))

    def attained_loss(self, weights: CallerWeights) -> float | Fraction | None:
        """Return the loss, exact for a fraction, of weights [D]; `None` outside the region, and if a tie decides it."""
        selection = self._attained(weights)
        return None if selection is None else exact_loss(self.metric, self._evaluator.total(selection))

    def _attained_loss(self, weights: CanonicalWeights) -> float | Fraction | None:
        full = self.to_caller(weights)
        loss = self.attained_loss(full)
        if loss is not None:
            return loss
        # Lists that cancel each other in the merge are tied if their features have weight 0; any tiny weight will do.
        unmerged = self.unmerged.coordinates
        merged_away = ~np.isin(unmerged.columns, self.coordinates.columns)
        if not merged_away.any():
            return None
        draws = np.random.default_rng(0).normal(size=len(merged_away))
        step = unmerged.to_caller(np.where(merged_away, draws, 0.0))
        sizes = np.ldexp(np.abs(full).max(initial=0.0) or 1.0, _TIE_EXPONENTS)
        beside = (self.attained_loss(CallerWeights(full + size * step)) for size in sizes.tolist())
        return next((loss for loss in beside if loss is not None), None)

    def _attained(self, weights: CallerWeights) -> IntArray | None:
        """Return the rows [S] that weights [D] of the region choose, `None` if a tie that matters decides."""
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
        rows, offsets = self.unmerged.rows, self.unmerged.offsets
        offsets = offsets[offsets <= len(rows)]  # without the limits
        features = self._evaluator.features
        return ranges_of_weights(features if len(rows) == len(features) else features[rows], offsets, weights)
