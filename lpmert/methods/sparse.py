"""Training of many sparse features on top of a base score: perceptron, boosting, and minimum sample risk.

Minimum sample risk runs line searches on the loss itself, along features that each lower the loss, in different lists.

No array is ever made dense. A feature is left out of lists in which it is constant, as it cannot change their choices.

Sources: Collins, Discriminative Training Methods for Hidden Markov Models, EMNLP 2002 (the averaged perceptron; with a
base feature as in Gao et al., HLT/EMNLP 2005); Collins, Discriminative Reranking for Natural Language Parsing, ICML
2000, and Collins and Koo, Computational Linguistics 2005, with their efficient update (boosting); Gao, Yu, Yuan and Xu,
Minimum Sample Risk Methods for Language Modeling, HLT/EMNLP 2005.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines import Clock
from lpmert.methods.surrogate_losses import lists_of, own_losses
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.contract import check_statistics, metric_of
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.numeric.lists import first_best, list_numbers
from lpmert.quoting import listed, quoted
from lpmert.search.method import Comparator, Found

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array


_FARTHEST = 1e100  # larger thresholds are left out: sums with them would overflow


@dataclass(frozen=True)
class Trained:
    """The outcome of training: weights [D], with 1 for the base feature, and their loss.

    loss_before: the loss of the base feature alone. counters: all counts by name.
    """

    weights: FloatArray
    loss_before: float
    loss: float
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SparseLists:
    """Lists with sparse features.

    by_feature [M, D]: features by column, in the lists in which they vary; the column of the base feature is empty.
    visits [D]: the number of these lists. numbers [M]: the list of each hypothesis. base [M]: the fixed base score.
    statistics [M, K]: summed for the metric. losses [M]: the loss of each hypothesis by itself.
    """

    by_feature: csc_array
    visits: IntArray
    offsets: IntArray
    numbers: IntArray
    base: FloatArray
    statistics: FloatArray
    losses: FloatArray
    metric: Metric

    @property
    def n_features(self) -> int:
        return int(self.by_feature.shape[1])

    def least(self) -> FloatArray:
        """Return, for each hypothesis [M], the least loss in its list."""
        return np.asarray(np.minimum.reduceat(self.losses, self.offsets[:-1])[self.numbers])

    def decoded_loss(self, weights: FloatArray) -> float:
        """Return the loss of decoding with the base and weights [D], the first hypothesis on ties."""
        chosen = first_best(self.base + self.by_feature @ weights, self.offsets[:-1])
        return self.metric.loss(self.statistics[chosen].sum(axis=0))

    def entries(self, feature: int) -> tuple[IntArray, FloatArray]:
        """Return the rows, ascending, and values of a feature's entries."""
        begin, end = self.by_feature.indptr[feature : feature + 2]
        return self.by_feature.indices[begin:end].astype(np.int64, copy=False), self.by_feature.data[begin:end]


def sparse_lists(nbest: NBest, metric: str | Metric | None, base: str | None) -> tuple[SparseLists, int]:
    """Return lists for training on top of the base feature, by default the first one, and the number of that feature.

    Raises `MethodError` if there is no such feature, `MetricError` if the metric does not fit.
    """
    column = _place_of(base, nbest.names)
    rows: Any = nbest.features
    alone = rows[:, [column]]
    score = np.asarray(alone.todense() if hasattr(alone, "todense") else alone, dtype=np.float64).ravel()
    checked = metric_of(metric, nbest.statistic_names)
    check_statistics(checked, nbest.statistics, nbest.offsets)
    return _build(rows, nbest.offsets, nbest.statistics, checked, score, np.array([column])), column


def dense_lists(problem: Problem, start: FloatArray | None, base: str | None) -> tuple[SparseLists, FloatArray]:
    """Return the lists of a problem for training in canonical coordinates, and the fixed weights [d].

    The fixed weights are `start`, scaled so that the weight of the base feature is 1 or -1. Without a start, only the
    base feature has a weight: 1 or -1, whichever decodes better. The base feature itself is not trained.
    """
    axis = np.zeros(len(problem.nbest.names))
    axis[_place_of(base, problem.nbest.names)] = 1.0
    base_weights = problem.to_canonical(problem.checked_weights(axis))
    lists = lists_of(problem)
    if start is not None:
        fixed = start / (abs(float(start @ base_weights)) or 1.0)
    else:
        losses = [problem.metric.loss(lists.total(sign * base_weights)) for sign in (1.0, -1.0)]
        fixed = base_weights if losses[0] <= losses[1] else -base_weights
    score = lists.features @ fixed
    frozen = np.flatnonzero(base_weights)
    return _build(lists.features, lists.offsets, lists.statistics, problem.metric, score, frozen), fixed


def _place_of(base: str | None, names: Sequence[str]) -> int:
    if base is not None and base not in names:
        raise MethodError(f"no base feature {quoted(base)}; the first features are {listed(names[:10])}")
    return 0 if base is None else names.index(base)


def _build(
    features: Any, offsets: IntArray, statistics: FloatArray, metric: Metric, base: FloatArray, frozen: IntArray
) -> SparseLists:
    from scipy.sparse import csc_array

    columns = csc_array(features)
    columns.sort_indices()
    numbers = list_numbers(offsets)
    own, of = numbers[columns.indices], np.repeat(np.arange(columns.shape[1]), np.diff(columns.indptr))
    starts = np.flatnonzero(np.diff(own, prepend=-1) | np.diff(of, prepend=-1))  # of the entries of a feature in a list
    sizes, of, varies = np.diff(starts, append=columns.nnz), of[starts], np.zeros(len(starts), dtype=np.bool_)
    if columns.nnz:
        least, most = (bound.reduceat(columns.data, starts) for bound in (np.minimum, np.maximum))
        varies = ((least < most) | (sizes < np.diff(offsets)[own[starts]])) & ~np.isin(of, frozen)
    visits, kept = np.bincount(of[varies], minlength=columns.shape[1]), np.repeat(varies, sizes)
    ends = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[columns.indptr]
    by_feature = csc_array((columns.data[kept], columns.indices[kept], ends), shape=columns.shape)
    return SparseLists(by_feature, visits, offsets, numbers, base, statistics, own_losses(metric, statistics), metric)


def rows_of(matrix: csr_array | csc_array) -> core.SparseRows:
    """Return the rows of a csr matrix, or the columns of a csc matrix, for the compiled core."""
    n_columns = matrix.shape[1 if matrix.format == "csr" else 0]
    starts, places = (part.astype(np.int64, copy=False) for part in (matrix.indptr, matrix.indices))
    return core.SparseRows(starts, places, matrix.data, n_columns)


class Line(NamedTuple):
    """The loss along one feature's weight: thresholds [E], ascending, and the losses [E + 1] between them."""

    thresholds: FloatArray
    losses: FloatArray

    def smoothed(self, points: FloatArray, width: float) -> FloatArray:
        """Return the mean loss [n] within `width` on either side of points [n]."""
        first = np.searchsorted(self.thresholds, points - width, side="right")
        last = np.searchsorted(self.thresholds, points + width, side="right")
        # Losses count relative to the loss at one of the points, which keeps sums and their rounding errors small.
        level = self.losses[first[-1]]
        losses = self.losses - level
        steps = np.concatenate([[0.0], np.cumsum(losses[1:-1] * np.diff(self.thresholds))])
        left = losses[first] * (self.thresholds[np.minimum(first, len(steps) - 1)] - (points - width))
        right = losses[last] * (points + width - self.thresholds[np.maximum(last - 1, 0)])
        between = steps[np.maximum(last - 1, 0)] - steps[np.minimum(first, len(steps) - 1)]
        mean = np.where(first == last, losses[first], (left + between + right) / (2 * width))
        return np.asarray(level + mean)


class SparseLineSearch:
    """Weights [D] with their scores [M] and choices [S], and line searches along single features."""

    def __init__(self, lists: SparseLists) -> None:
        self.lists = lists
        self.weights = np.zeros(lists.n_features)
        additive = isinstance(lists.metric, AdditiveMetric)
        self._statistics = lists.losses[:, None] if additive else lists.statistics
        self._loss: Callable[[FloatArray], FloatArray] = (
            (lambda totals: totals[:, 0]) if additive else (lambda totals: losses_of_totals(lists.metric, totals))
        )
        self._lines = core.FeatureLines(lists.offsets)
        self.refresh()

    def refresh(self) -> None:
        """Recompute scores, choices and totals, so that rounding errors do not accumulate."""
        lists = self.lists
        self.scores = lists.base + lists.by_feature @ self.weights
        self.chosen = first_best(self.scores, lists.offsets[:-1])
        self._total = self._statistics[self.chosen].sum(axis=0)

    @property
    def loss(self) -> float:
        return float(self._loss(self._total[None])[0])

    def line(self, feature: int) -> Line | None:
        """Return the loss along the weight of a feature, `None` if weights up to 1e100 change no choice."""
        lists, first, thresholds, left, entered = self._lines.events(
            *self.lists.entries(feature), self.weights[feature], self.scores
        )
        if not len(thresholds):
            return None
        start = self._total_with(lists, first)
        order = np.argsort(thresholds, kind="stable")
        thresholds = thresholds[order]
        changes = np.cumsum(self._statistics[entered[order]] - self._statistics[left[order]], axis=0)
        totals = np.concatenate([start[None], start + changes])
        begin, end = np.searchsorted(thresholds, [-_FARTHEST, _FARTHEST])
        return Line(thresholds[begin:end], self._loss(totals[begin : end + 1])) if begin < end else None

    def best_weight(self, feature: int, smoothing: float) -> float:
        """Return the weight of a feature with the least smoothed loss: the middle of an interval, or the current
        weight.

        For the two unbounded intervals, the point at distance `smoothing` from their end takes the place of the middle.
        """
        line = self.line(feature)
        current = float(self.weights[feature])
        if line is None:
            return current
        ends = line.thresholds
        points = np.concatenate([[ends[0] - smoothing], (ends[1:] + ends[:-1]) / 2, [ends[-1] + smoothing, current]])
        risks = line.smoothed(points, smoothing)
        best = int(np.argmin(risks))
        gained = risks[-1] - risks[best]
        return float(points[best]) if gained > 1e-12 * abs(risks[-1]) else current

    def choices_at(self, feature: int, weight: float) -> tuple[IntArray, IntArray]:
        """Return the lists in which the feature varies, and the rows that they choose at this weight."""
        return self._lines.choices(*self.lists.entries(feature), weight - self.weights[feature], self.scores)

    def loss_with(self, visited: IntArray, rows: IntArray) -> float:
        return float(self._loss(self._total_with(visited, rows)[None])[0])

    def _total_with(self, visited: IntArray, rows: IntArray) -> FloatArray:
        change = self._statistics[rows] - self._statistics[self.chosen[visited]]
        return np.asarray(self._total + change.sum(axis=0))

    def move(self, feature: int, weight: float) -> None:
        visited, rows = self.choices_at(feature, weight)
        self._total = self._total_with(visited, rows)
        self.chosen[visited] = rows
        entries, values = self.lists.entries(feature)
        self.scores[entries] += (weight - self.weights[feature]) * values
        self.weights[feature] = weight


class Trainer(Comparator):
    """A method that keeps the base feature at weight 1 and trains the other, possibly sparse features."""

    base: str | None

    @abstractmethod
    def learn(self, lists: SparseLists, seed: int, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        """Return weights [D], 0 for the base feature, and counts; ends early once `expired(steps)` is true."""

    def train(self, nbest: NBest, *, metric: str | Metric | None = None, seed: int = 0) -> Trained:
        """Return trained weights for N-best lists; raises `MethodError` and `MetricError` as `sparse_lists`."""
        lists, base = sparse_lists(nbest, metric, self.base)
        weights, counters = self.learn(lists, seed, lambda *_: False)
        before, loss = lists.decoded_loss(np.zeros(len(weights))), lists.decoded_loss(weights)
        weights[base] = 1.0
        return Trained(weights, before, loss, counters)

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists, fixed = dense_lists(problem, start, self.base)
        clock.keep(fixed)
        weights, counters = self.learn(lists, seed, clock.expired)
        return Found(fixed + weights, counters)


@dataclass(frozen=True)
class Perceptron(Trainer):
    """Keep the base feature at weight 1; for each wrong list, add gold - chosen to the other weights.

    A list is wrong if its chosen hypothesis does not have the least loss of the list; gold is the hypothesis of least
    loss with the best current score. Each of the `passes` visits the lists in a new random order. The result is the
    mean of the weights after each visited list.
    """

    passes: int = option(20, "passes over the lists", least=1)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "perceptron"
    minimises = False

    def learn(self, lists: SparseLists, seed: int, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        rng = np.random.default_rng(seed)
        rows = rows_of(lists.by_feature.tocsr())
        gold = lists.losses == lists.least()
        weights, weighted = np.zeros(lists.n_features), np.zeros(lists.n_features)
        n_lists = len(lists.offsets) - 1
        visits, updates, passes = 0, 0, 0
        for _ in range(self.passes):
            order = rng.permutation(n_lists)
            wrong = core.perceptron_pass(rows, order, lists.offsets, lists.base, gold, weights, weighted, visits)
            visits, updates, passes = visits + n_lists, updates + wrong, passes + 1
            if expired(n_lists) or not wrong:
                break
        return weights - weighted / visits, {"passes": passes, "updates": updates}


_SLICE = 100  # rounds between two looks at the clock
_NOTHING = 1e-12  # boosting ends when the exponential loss is below this share of its first value
_TOLERANCE = 1e-6  # boosting ends when no step lowers its objective by more than about this share


@dataclass(frozen=True)
class Boosting(Trainer):
    """Keep the base feature at weight 1; in each of `rounds` rounds, move the weight that helps most.

    The objective is the sum over all hypotheses of (loss - least loss of the list) * exp(score - score of gold), where
    gold is the hypothesis of least loss with the best base score. `smoothing` is relative to the objective. A feature
    with values other than 0 and 1 takes a step that is safe for its largest difference.
    """

    rounds: int = option(2000, "most rounds", least=1)
    smoothing: float = option(0.001, "the paper's epsilon, which damps the steps of rare features", above=0)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "boosting"
    minimises = False
    random = False

    def learn(self, lists: SparseLists, seed: int, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        del seed
        pairs, importance = differences(lists)
        weights = np.zeros(lists.n_features)
        rounds, least = 0, _NOTHING * float(importance.sum())
        steps = core.Boosting(rows_of(pairs.tocsc()), rows_of(pairs), importance)
        while rounds < self.rounds:
            size = min(_SLICE, self.rounds - rounds)
            taken = steps.run(size, self.smoothing, _TOLERANCE, least, weights)
            rounds += taken
            if expired(taken) or taken < size:
                break
        return weights, {"rounds": rounds, "trained": int(np.count_nonzero(weights))}


def differences(lists: SparseLists) -> tuple[csr_array, FloatArray]:
    """Return gold minus worse features [P, D] of all pairs of gold with a worse hypothesis of its list, and weights.

    weights [P]: (loss - loss of gold) * exp(-margin of the base score), divided by the largest of the exponentials.
    """
    least = lists.least()
    gold = first_best(np.where(lists.losses == least, lists.base, -np.inf), lists.offsets[:-1])[lists.numbers]
    worse = np.flatnonzero(lists.losses > least)
    rows = lists.by_feature.tocsr()
    pairs = rows[gold[worse]] - rows[worse]
    pairs.eliminate_zeros()
    margins = lists.base[gold[worse]] - lists.base[worse]
    return pairs, (lists.losses - least)[worse] * np.exp(margins.min(initial=0.0) - margins)


def try_each(
    search: SparseLineSearch, features: IntArray, smoothing: float, expired: Callable[[], bool] = lambda: False
) -> tuple[FloatArray, csr_array]:
    """Search along each of n features from the current weights; until `expired` is true, only along the first ones.

    Returns gains [n], decreases of the loss with each at its best weight, and benefits [n, S]: 1 for each list whose
    own loss then decreases.
    """
    from scipy.sparse import csr_array

    losses = search.lists.losses
    gains, benefiting = [], []
    for feature in features.tolist():
        if expired():
            break
        weight = search.best_weight(feature, smoothing)
        visited, rows = search.choices_at(feature, weight)
        gains.append(search.loss - search.loss_with(visited, rows))
        benefiting.append(visited[losses[rows] < losses[search.chosen[visited]]])
    starts = np.cumsum([0, *map(len, benefiting)])
    columns = np.concatenate([*benefiting, np.empty(0, dtype=np.int64)])
    shape = len(gains), len(search.chosen)
    return np.array(gains), csr_array((np.ones(len(columns)), columns, starts), shape=shape)


_WINDOW = 1000  # candidates for each place of the selection, as in the paper: the best features left


def select(gains: FloatArray, benefits: csr_array, count: int, *, alpha: float = 0.8) -> IntArray:
    """Return the places of at most `count` features to keep, in the order of selection; see `try_each`.

    The k-th feature has the largest alpha * E - (1 - alpha^(k-1)) / (k-1) * sum of C. E is its gain over the largest
    gain, C the cosine of its benefits with those of each earlier feature. Only the `_WINDOW` features with the largest
    E among those left are considered; features without a gain are never selected.
    """
    order = np.argsort(-gains, kind="stable")
    order = order[gains[order] > 0]
    if not len(order):
        return order
    effect = gains[order] / gains[order[0]]
    benefits = benefits[order]
    norms = np.sqrt(np.maximum(np.diff(benefits.indptr), 1))
    correlation = np.zeros(len(order))
    left = np.ones(len(order), dtype=np.bool_)
    chosen = np.empty(min(count, len(order)), dtype=np.int64)
    for k in range(len(chosen)):
        penalty = (1 - alpha**k) / max(k, 1)
        near = np.flatnonzero(left)[:_WINDOW]
        best = near[np.argmax(alpha * effect[near] - penalty * correlation[near])]
        chosen[k] = best
        left[best] = False
        correlation += (benefits @ benefits[[best]].toarray()[0]) / (norms * norms[best])
    return order[chosen]


@dataclass(frozen=True)
class MinimumSampleRisk(Trainer):
    """Keep the base feature at weight 1, select further features, and search along them in turn.

    Each feature is first tried by itself, and the most useful ones are selected. Rounds of line searches along them
    follow, until a round does not lower the loss.
    """

    kept: int | None = option(None, "the paper's K: number of selected features; none for all", least=1)
    considered: int | None = option(None, "features tried: those that vary in the most lists; none for all", least=1)
    smoothing: float = option(0.06, "the paper's b: the loss is averaged so far on either side of a weight", above=0)
    alpha: float = option(0.8, "of the selection, see select in lpmert.methods.sparse", least=0, most=1)
    rounds: int = option(20, "most rounds over the features", least=1)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "msr"
    random = False

    def learn(self, lists: SparseLists, seed: int, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        del seed
        return self.descend(SparseLineSearch(lists), expired)

    def descend(self, search: SparseLineSearch, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        """Select features and search along them until `expired`, called before each search, is true."""
        lists = search.lists
        features = np.argsort(-lists.visits, kind="stable")[: np.count_nonzero(lists.visits)][: self.considered]
        if self.kept is not None:
            tried = try_each(search, features, self.smoothing, expired)
            features = features[select(*tried, self.kept, alpha=self.alpha)]
        best, best_weights = search.loss, search.weights.copy()
        searches = rounds = 0
        for _ in range(self.rounds):
            for feature in features.tolist():
                if expired():
                    break
                weight = search.best_weight(feature, self.smoothing)
                searches += 1
                if weight != search.weights[feature]:
                    search.move(feature, weight)
            rounds += 1
            search.refresh()
            if search.loss >= best:
                break
            best, best_weights = search.loss, search.weights.copy()
        trained = int(np.count_nonzero(best_weights))
        counted = {"selected": len(features), "trained": trained, "line_searches": searches, "rounds": rounds}
        return best_weights, counted
