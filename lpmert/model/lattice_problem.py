"""The problem on lattices: metric and region, the losses of hypotheses, and the paths that win at given weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray, MetricError, RegionError
from lpmert.limits import room_for
from lpmert.metrics.base import SumOfLosses, exact_loss
from lpmert.metrics.contract import ERROR_RATE, unit_of
from lpmert.metrics.text import EditTexts, TextCounter, TextMetric, reference_length, source_of, text_metric, text_unit
from lpmert.model.canonical import LOSS_UNIT, CallerWeights, Canonical, CanonicalWeights, Coordinates, Totals
from lpmert.model.graphs import SILENT, Graph, Lattices, WordGraphs
from lpmert.model.nbest import NBest
from lpmert.model.presolve import column_scales, group_identical, scaled_limits, times
from lpmert.model.problem import BaseProblem, Problem
from lpmert.model.region import Region
from lpmert.numeric import rational
from lpmert.numeric.lists import relative_to_first
from lpmert.numeric.rational import Rounding
from lpmert.quoting import Unit, quoted
from lpmert.result import Evaluation
from lpmert.workers import current_workers

MOST_TIED = 64  # most tied paths of a lattice that are listed


class Winners(NamedTuple):
    """The paths of a lattice with the best score in exact arithmetic, each as its links from the last to the first.

    all: whether these are all such paths, or only the first ones.
    """

    ways: list[IntArray]
    all: bool


def best_paths(
    graph: Graph, units: FloatArray, weights: FloatArray, exact: Sequence[Fraction] | None = None
) -> Winners:
    """Return the paths with the best score at weights [d] in exact arithmetic, in order of their links.

    units [d]: features are whole multiples of these. exact [d]: the exact weights, if `weights` are these rounded to
    nearest. Links that cannot be on a best path, even with rounding, are left out first, but rounding may keep some of
    the links of another path.
    """
    through, slack = best_through(graph, weights)
    links = np.flatnonzero(~(through < through.max() - slack))
    if (graph.sources[links[1:]] == graph.targets[links[:-1]]).all() and not graph.seconds.any():  # one path
        return Winners([links[::-1]], True)
    scores_of_links = exact_scores(graph.features[links] / units, weights if exact is None else exact, units)
    best: dict[int, int] = {0: 0}
    leading: dict[int, list[int]] = {}
    for link, score_of_link in zip(links.tolist(), scores_of_links, strict=True):
        source, second, target = (int(nodes[link]) for nodes in (graph.sources, graph.seconds, graph.targets))
        if source not in best or second not in best:
            continue
        score = best[source] + best[second] + score_of_link
        if target not in best or score > best[target]:
            best[target], leading[target] = score, [link]
        elif score == best[target]:
            leading[target].append(link)
    ways: list[IntArray] = []
    waiting: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((graph.n_nodes - 1,), ())]
    while waiting and len(ways) < MOST_TIED:
        nodes_left, way = waiting.pop()
        if not nodes_left:
            ways.append(np.array(way, dtype=np.int64))
            continue
        *others, node = nodes_left
        for link in reversed(leading[node]):
            below = [n for n in (int(graph.seconds[link]), int(graph.sources[link])) if n > 0]
            waiting.append(((*others, *below), (*way, link)))
    return Winners(ways, not waiting)


def best_through(graph: Graph, weights: FloatArray) -> tuple[FloatArray, float]:
    """Return the best score [L] of a path through each link, and more than rounding takes off a difference of two."""
    largest = max(float((np.abs(graph.features) @ np.abs(weights)).max()), rational.SMALLEST_NORMAL)
    slack = 4.0 * (graph.most_links + len(weights) + 4) * rational.EPSILON * graph.most_links * largest
    return graph.links().best_through(graph.features @ weights), slack


def exact_scores(multiples: FloatArray, weights: FloatArray | Sequence[Fraction], units: FloatArray) -> list[int]:
    """Return the scores of rows of whole multiples [n, d] of the units [d], times one common positive factor."""
    pairs = zip(weights, units.tolist(), strict=True)
    factors = rational.whole_row([Fraction(weight) * Fraction(unit) for weight, unit in pairs])
    return [rational.dot(row, factors) for row in multiples.astype(np.int64).tolist()]


_LARGEST_LOSS = 2**40

_TIMES = 3  # peak memory of the canonical form, a search and its report, relative to that of the features
_REMEMBERED = 4  # number of weights whose verdicts are cached: searches and reports ask about the last ones again
_LINKS_OF_UNIT = 200_000  # links that a unit of work decodes, which takes some milliseconds


class SumOfLinks(TextMetric):
    """Losses of links, summed along paths, in place of the settings of a metric on texts."""

    signature = "links"

    def counter(self, references: Sequence[str]) -> TextCounter:  # noqa: ARG002
        raise MetricError("losses of links are not counted from words")


class Verdict(NamedTuple):
    """The loss of weights on all lattices, as a cost, the summed statistics [K], and the winners [S] of each lattice.

    nearby: the winners at the nearest weights that fulfil the equations of the region exactly, empty if these are the
    same weights. strict: whether no tie between unequal statistics, of paths with different features, decides the loss,
    and the nearby weights are strictly in the region and have the same statistics without such a tie.
    """

    loss: int
    total: FloatArray
    winners: list[Winners]
    strict: bool
    nearby: list[Winners]

    def ways(self, number: int) -> list[IntArray]:
        """Return the paths of lattice `number` that win, at these weights or nearby."""
        return [way for winners in (self.winners, self.nearby) if winners for way in winners[number].ways]


class LatticeProblem(BaseProblem):
    """Lattices, a metric on texts, and a region.

    graphs [S]: the lattices with features [L, d] in the coordinates of a search. canonical: the limits of the region in
    these coordinates, without lists; costs are losses if these are additive, otherwise losses in fixed point.
    exact_graphs [S]: the lattices with features [L, e] whose sums are exact: those of `graphs`, or the features as
    given if equations make doubles round them. Raises `MetricError` for a metric that is neither a ratio metric nor a
    sum of whole numbers.
    """

    def __init__(self, lattices: WordGraphs, metric: str | TextMetric = "wer", region: Region | None = None) -> None:
        self.lattices = lattices
        self.given_metric = metric
        self.settings: TextMetric = SumOfLinks() if metric == "loss" else text_metric(metric)
        if metric == "loss" and lattices.losses is None:
            raise MetricError("metric 'loss' sums the losses of links, and these have none; give them, or use wer")
        if metric != "loss" and not all(lattices.references):
            raise MetricError(f"metric {quoted(metric)} needs references, and there are none; give them, or use loss")
        self.metric = self.settings.metric(source_of(self.settings, lattices.references))
        self.additive = isinstance(self.metric, SumOfLosses)
        super().__init__(lattices, region)
        room_for(_TIMES * lattices.features.nbytes, "the canonical form, a search and its report")
        reduction = self._reduction
        limits, labels, cap = reduction.rows, reduction.given.labels, reduction.cap
        rounded = np.flatnonzero(reduction.rows_off.any(axis=1))
        if len(rounded):
            trouble = f"the limit {labels[rounded[0]]} has digits that double precision does not hold"
            remedy = "which lattices cannot take; use a limit with fewer digits, such as 0.125"
            raise RegionError(f"relative to the reference, {trouble}, {remedy}")
        features, off = reduction.features(lattices.features, lattices.offsets)
        rounded_features = off is not None
        if reduction.columns is None:
            sums, (features, _) = features, lattices.exact_sums(features)
            rounded_features = rounded_features or not np.array_equal(features, sums)
        n_features = features.shape[1]
        scales = np.ones(n_features) if cap is not None else column_scales(features, lattices.offsets)
        self.coordinates = Coordinates(np.arange(n_features), scales, reduction)
        empty = np.empty((0, n_features)), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
        self.canonical = Canonical(*empty, scaled_limits(limits, scales)[0], labels, cap)
        if not self.additive:
            width = len(self.settings.columns)
            totals = Totals(self.metric, np.empty((0, width)), np.zeros(width), self._attained)
            self.canonical = replace(self.canonical, losses=totals, unit=LOSS_UNIT, rounded=True)
        scaled = times(features, scales)
        unscaled = [lattices.graph(s) for s in range(lattices.n_lists)]
        bounds = pairwise(lattices.offsets.tolist())
        self.graphs = [graph._replace(features=scaled[a:b]) for graph, (a, b) in zip(unscaled, bounds, strict=True)]
        self.exact_graphs = unscaled if rounded_features else self.graphs
        self._counters: list[Callable[[NDArray[np.int32]], Sequence[float]] | None] = [None] * lattices.n_lists
        self._counted: list[dict[bytes, FloatArray]] = [{} for _ in self.graphs]
        self._numbered = self._word_numbers()
        self._decoded: dict[bytes, Verdict] = {}

    def _exact_weights(self, free: Iterable[Fraction]) -> list[Fraction]:
        """Return the weights [D] of the caller that fulfil the equations exactly, from the free ones."""
        exact = [Fraction(0)] * self.lattices.n_features
        for value, column in zip(free, self._reduction.exact_basis, strict=True):
            for d, factor in column.items():
                exact[d] += factor * value
        return exact

    def at_rays(self, rays: FloatArray) -> FloatArray:
        """Return rays [n, d] of a search as weights [n, e] for features of `exact_graphs`, each number rounded once."""
        if self.exact_graphs is self.graphs:
            return rays
        basis = self._reduction.basis[self._reduction.free] * self.coordinates.scales
        rows, exact = ([[Fraction(value) for value in row] for row in matrix.tolist()] for matrix in (basis, rays))
        free = ((sum(map(mul, row, ray), Fraction(0)) for row in rows) for ray in exact)
        return np.array([[float(weight) for weight in self._exact_weights(weights)] for weights in free])

    def as_lists(self, rows: FloatArray, offsets: IntArray) -> tuple[IntArray, FloatArray, Rounding | None]:
        """Return the first of each group of hypotheses that no weights of the region distinguish, and their features.

        rows [n, e]: sums of features of `exact_graphs`, in lists with offsets [s + 1]. Returns the numbers [m] of rows,
        features [m, d] for weights of a search, and their rounding.
        """
        if self.exact_graphs is self.graphs:
            return np.arange(len(rows)), np.ascontiguousarray(relative_to_first(rows, offsets)), None
        scales = self.coordinates.scales
        features, rounding = self._reduction.features(rows, offsets)
        leader = group_identical(features if rounding is None else rounding.codes, offsets)
        first = np.flatnonzero(leader == np.arange(len(leader)))
        if rounding is not None:
            rounding = rounding.take(first).scaled(scales)
        return first, times(features[first], scales), rounding

    def __getstate__(self) -> dict[str, Any]:
        """Leave out caches and the functions that count statistics, which are made again when needed."""
        emptied = {"_counters": [None] * len(self.graphs), "_counted": [{} for _ in self.graphs], "_decoded": {}}
        return {**self.__dict__, **emptied}

    setting = "lattices"

    def rates(self, loss: float) -> Mapping[str, float]:
        length = reference_length(self.settings, self.lattices.references)
        return {} if length is None else {ERROR_RATE: loss / length}

    @property
    def unit(self) -> Unit:
        if not self.additive:
            return unit_of(self.metric, self.settings.columns, {}, self.lattices.n_lists)
        return text_unit(self.settings, self.lattices.n_lists, self.rates(1.0).get(ERROR_RATE))

    def text(self, number: int, way: NDArray[np.integer]) -> str:
        return self.lattices.text(self.lattices.words_of(number, way).tolist())

    def statistics(self, number: int, way: NDArray[np.integer]) -> FloatArray:
        """Return the statistics [K] of a path of lattice `number`.

        Raises `MetricError` if the metric is additive and the loss is no whole number.
        """
        settings = self.settings
        if isinstance(settings, SumOfLinks):
            return np.asarray(self._lost(number, way).sum(keepdims=True))
        words = self.lattices.words_of(number, way)
        counted, key = self._counted[number], words.tobytes()
        if key not in counted:
            counter = self._counters[number] = self._counters[number] or self._counter(number)
            values = np.array(counter(words), dtype=np.float64)
            if self.additive and not (values == np.rint(values)).all() & (0 <= values[0] < _LARGEST_LOSS):
                remedy = "must be whole numbers: use wer, cer, ter, bleu or chrf, and none per sentence"
                which = f"a hypothesis of lattice {quoted(self.lattices.list_ids[number])} loses {values[0]}"
                raise MetricError(f"{which}; on lattices losses that add up {remedy}")
            counted[key] = values
        return counted[key]

    def _counter(self, number: int) -> Callable[[NDArray[np.int32]], Sequence[float]]:
        settings = self.settings
        if isinstance(settings, EditTexts) and self._numbered:
            numbers, references = self._numbered
            edits = settings.unit_counter([reference.tolist() for reference in references[number]])
            return lambda words: edits(numbers[words].tolist())
        count = settings.counter(self.lattices.references[number])
        return lambda words: count(self.lattices.text(words.tolist()))

    def loss(self, number: int, way: NDArray[np.integer]) -> int:
        return int(self.statistics(number, way)[0])

    def cost(self, total: FloatArray) -> int:
        return int(total[0]) if self.additive else self.canonical.cost_of_loss(exact_loss(self.metric, total))

    def features_of(self, paths: Sequence[tuple[int, NDArray[np.integer]]]) -> FloatArray:
        """Return the features as given [P, D] of paths, each with the number of its lattice; the sums are exact."""
        links = np.concatenate([self.lattices.offsets[number] + way for number, way in paths])
        begins = np.cumsum([0, *(len(way) for _, way in paths)])[:-1]
        return np.asarray(np.add.reduceat(self.lattices.features[links], begins))

    def least_loss(self, number: int, links: NDArray[np.integer] | None = None) -> int:
        """Return a lower bound on the losses of paths of lattice `number` through only these links, by default any."""
        graph = self.graphs[number]
        if isinstance(self.settings, SumOfLinks):
            lost = self._lost(number, np.arange(len(graph.sources)) if links is None else links)
            return -int(graph.links(links).largest_sums(-lost[:, None])[0])
        if not self._numbered:
            return 0
        numbers, references = self._numbered
        words = numbers[graph.words if links is None else graph.words[links]]
        chosen = graph.links(links)
        return min(_LARGEST_LOSS, *(chosen.least_edits(words, reference) for reference in references[number]))

    def _lost(self, number: int, links: NDArray[np.integer]) -> FloatArray:
        return np.asarray(np.asarray(self.lattices.losses)[int(self.lattices.offsets[number]) + links])

    @property
    def most_loss(self) -> int:
        """An upper bound on the cost of all lattices together."""
        return _LARGEST_LOSS * len(self.graphs) if self.additive else self.canonical.cost_of_loss(1.0)

    def decode(self, weights: CallerWeights) -> Verdict:
        """Return the best paths at weights [D] of the caller, in exact arithmetic."""
        key = weights.tobytes()
        if key not in self._decoded:
            recent = list(self._decoded.items())[1 - _REMEMBERED :]
            self._decoded = {**dict(recent), key: self._verdict(weights)}
        return self._decoded[key]

    def _winners(self, weights: CallerWeights, exact: Sequence[Fraction] | None = None) -> list[Winners]:
        workers, lattices = current_workers(), self.lattices
        units = 1 if workers.remote else min(workers.jobs, 1 + lattices.n_links // _LINKS_OF_UNIT)
        if units == 1:
            return _best_of_lattices(lattices, 0, lattices.n_lists, weights, exact)
        shares = np.searchsorted(lattices.offsets, np.linspace(0, lattices.n_links, units + 1)).tolist()
        parts = [(begin, end, weights, exact) for begin, end in pairwise(shares)]
        found = workers.map(_best_of_lattices, workers.share(lattices), parts)
        return [winners for part in found for winners in part]

    def _verdict(self, weights: CallerWeights) -> Verdict:
        winners, nearby = self._winners(weights), []
        total, strict = self._total(winners)
        reduction = self._reduction
        if reduction.columns is None:
            # Weights in doubles may miss equations on several weights; the nearest that fulfil them must do as well.
            nearest = weights[reduction.free]
            exact = self._exact_weights(map(Fraction, nearest.tolist()))
            if any(value != weight for value, weight in zip(exact, weights.tolist(), strict=True)):
                nearby = self._winners(CallerWeights(np.array([float(value) for value in exact])), exact)
                there, clear = self._total(nearby)
                strict = strict and clear and np.array_equal(there, total)
            strict = strict and reduction.strictly_inside(nearest)
        return Verdict(self.cost(total), total, winners, strict, nearby)

    def _total(self, winners: list[Winners]) -> tuple[FloatArray, bool]:
        """Return the summed statistics [K] of the first winner of each lattice, and whether no tie decides them."""
        total, strict = np.zeros(len(self.settings.columns)), True
        for number, found in enumerate(winners):
            first = found.ways[0]
            statistics = self.statistics(number, first)
            total += statistics
            if len(found.ways) > 1 or not found.all:
                # Of paths that no weights of the region distinguish, the first counts.
                same = all(
                    np.array_equal(self.statistics(number, way), statistics) or self._alike(number, way, first)
                    for way in found.ways[1:]
                )
                strict = strict and same and found.all
        return total, strict

    def _alike(self, number: int, way: NDArray[np.integer], other: NDArray[np.integer]) -> bool:
        """Whether no weights of the region distinguish two paths of lattice `number`."""
        links = self.exact_graphs[number].features
        rows = np.stack([links[path].sum(axis=0) for path in (way, other)])
        return len(self.as_lists(rows, np.array([0, 2]))[0]) == 1 or np.array_equal(*rows)

    def attains(self, weights: CallerWeights, cost: int) -> bool:
        """Whether weights [D] lie in the region and have this cost, and no tie decides it."""
        verdict = self.decode(weights)
        return verdict.strict and verdict.loss == cost and self.inside(weights, strictly=True)

    def _attained(self, weights: CanonicalWeights) -> float | Fraction | None:
        full = self.to_caller(weights)
        verdict = self.decode(full)
        if not (verdict.strict and self.inside(full, strictly=True)):
            return None
        return exact_loss(self.metric, verdict.total)

    def evaluate(self, weights: object) -> Evaluation:
        """Return the evaluation of weights, with selection [S] 0, the best path of each lattice, and no margin.

        `loss_best_ties` and `loss_worst_ties` are `None` if more than `MOST_TIED` paths of a lattice tie.
        """
        checked = self.checked_weights(weights)
        verdict = self.decode(checked)
        tied = 0
        for number, winners in enumerate(verdict.winners):
            rows = {self.features_of([(number, way)]).tobytes() for way in winners.ways}
            tied += len(rows) > 1 or not winners.all
        best = worst = None
        if self.additive and all(winners.all for winners in verdict.winners):
            losses = [[self.loss(s, way) for way in winners.ways] for s, winners in enumerate(verdict.winners)]
            best, worst = float(sum(map(min, losses))), float(sum(map(max, losses)))
        return Evaluation(
            loss=self.metric.loss(verdict.total),
            score=self.metric.score(verdict.total),
            statistics=verdict.total.copy(),
            selection=np.zeros(len(verdict.winners), dtype=np.int64),
            tied_lists=tied,
            loss_best_ties=best,
            loss_worst_ties=worst,
            margin=None,
            inside=self.inside(checked),
        )

    def _word_numbers(self) -> tuple[NDArray[np.int32], list[list[NDArray[np.int32]]]] | None:
        """Return common numbers for the words of the vocabulary and of the references [S] of each lattice.

        `None` unless the metric counts word edits, and if words hold white space and so count as several.
        """
        settings, lattices = self.settings, self.lattices
        if not (isinstance(settings, EditTexts) and isinstance(lattices, Lattices)) or settings.per_sentence:
            return None
        cased: Callable[[str], str] = str.lower if settings.lowercase else str
        vocabulary = [cased(word) for word in lattices.vocabulary]
        if settings.unit != "word" or any(word.split() != [word] for word in vocabulary):
            return None
        number_of: dict[str, int] = {}

        def numbered(words: list[str]) -> list[int]:
            return [number_of.setdefault(word, len(number_of)) for word in words]

        numbers = np.array([*numbered(vocabulary), SILENT], dtype=np.int32)  # index -1 is the silent word
        references = [
            [np.array(numbered(cased(text).split()), dtype=np.int32) for text in texts] for texts in lattices.references
        ]
        return numbers, references


AnyProblem = Problem | LatticeProblem  # a problem on N-best lists or on lattices


def _best_of_lattices(
    lattices: WordGraphs, begin: int, end: int, weights: FloatArray, exact: Sequence[Fraction] | None
) -> list[Winners]:
    return [best_paths(lattices.graph(s), lattices.units, weights, exact) for s in range(begin, end)]


Way = NDArray[np.int32]  # the links of a path


class Catalogue:
    """Hypotheses of all lattices, by permanent numbers: features [n, e], statistics [n, K], and `ways`, their links.

    numbers: the lattice of each hypothesis. Of the hypotheses of a lattice with the same features, the first link by
    link represents all.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        self._problem = problem
        self._ids: list[dict[bytes, int]] = [{} for _ in problem.graphs]
        self.features = np.empty((256, problem.exact_graphs[0].features.shape[1]))
        self.statistics = np.empty((256, len(problem.settings.columns)))
        self.ways: list[Way] = []
        self.numbers: list[int] = []

    def add(self, number: int, way: NDArray[np.integer], row: FloatArray | None = None) -> int:
        """Return the number of a hypothesis of lattice `number`, added if new; row [e]: its features, if known."""
        links: Way = way.astype(np.int32, copy=False)
        row = self._problem.exact_graphs[number].features[way].sum(axis=0) + 0.0 if row is None else row
        known = self._ids[number].get(row.tobytes())
        if known is not None:
            earlier = self.ways[known]
            if earlier.tobytes() == links.tobytes() or earlier.tolist() <= links.tolist():
                return known
        new = len(self.ways)
        if new == len(self.features):
            self.features = np.concatenate([self.features, np.empty_like(self.features)])
            self.statistics = np.concatenate([self.statistics, np.empty_like(self.statistics)])
        self.features[new], self.statistics[new] = row, self._problem.statistics(number, links)
        self.ways.append(links)
        self.numbers.append(number)
        self._ids[number][row.tobytes()] = new
        return new

    def add_winners(self, verdict: Verdict) -> bool:
        """Add the winners of a verdict, and return whether one of them is new."""
        before = len(self)
        for number in range(len(verdict.winners)):
            for way in verdict.ways(number):
                self.add(number, way)
        return len(self) > before

    def as_lists(self) -> Problem:
        """Return the problem on N-best lists of all hypotheses, ordered link by link."""
        problem, lattices = self._problem, self._problem.lattices
        ids = self._sorted(own.values() for own in self._ids)
        features = problem.features_of([(self.numbers[known], self.ways[known]) for known in ids.tolist()])
        offsets, columns = np.cumsum([0, *map(len, self._ids)]), problem.settings.columns
        nbest = NBest(features, offsets, self.statistics[ids], lattices.names, lattices.list_ids, columns)
        return Problem(nbest, problem.metric, region=problem.region)

    def _sorted(self, lists: Iterable[Iterable[int]]) -> IntArray:
        ordered = (sorted(ids, key=lambda known: self.ways[known].tolist()) for ids in lists)
        return np.array([known for ids in ordered for known in ids], dtype=np.int64)

    def in_order(self, lists: Lists) -> Lists:
        bounds = pairwise(lists.ends.tolist())
        return lists._replace(ids=self._sorted(lists.ids[a:b].tolist() for a, b in bounds))

    def losses(self, ids: IntArray) -> IntArray:
        return np.asarray(self.statistics[ids, 0].astype(np.int64) if self._problem.additive else np.zeros_like(ids))

    def __len__(self) -> int:
        """Return the number of hypotheses, counting those with the same features once."""
        return sum(map(len, self._ids))


class Lists(NamedTuple):
    """List a holds the hypotheses ids[ends[a]] .. ids[ends[a + 1] - 1] of a catalogue, all of lattice numbers[a]."""

    numbers: IntArray
    ends: IntArray
    ids: IntArray

    def joined(self, others: dict[int, IntArray]) -> Lists:
        lengths = [len(ids) for ids in others.values()]
        return Lists(
            np.concatenate([self.numbers, np.array(list(others), dtype=np.int64)]),
            np.concatenate([self.ends, self.ends[-1] + np.cumsum(lengths, dtype=np.int64)]),
            np.concatenate([self.ids, *others.values()]),
        )

    def split(self) -> dict[int, IntArray]:
        ids = [self.ids[begin:end] for begin, end in pairwise(self.ends.tolist())]
        by_lattice = dict(zip(self.numbers.tolist(), ids, strict=True))
        return dict(sorted(by_lattice.items()))


def no_lists() -> Lists:
    return Lists(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))
