"""Weights that rank judged documents best: NDCG, MRR, average precision and recall at k, found and proved.

The value of a query depends on the order of its documents, not on the first one alone. With two features, one sweep
over the directions in which documents tie gives the value of all weights. With more, a best-first branch and bound
searches cones of weights. It rests on lemmas O1 to O6 of proofs/ranking.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise, product
from math import fsum, gcd, nextafter
from pathlib import Path
from typing import cast

import numpy as np

from lpmert import core
from lpmert.certificates.format import RankingHeader, Record, certificate_writer
from lpmert.certificates.rankings import (
    Measure,
    VerifiedRanking as VerifiedRanking,
    difference,
    least_lead,
    roots,
    scale_of,
    verify as verify,
)
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.limits import within
from lpmert.model.judgments import Judged as Judged, Parts, RankingMetric as RankingMetric, rows_by_query
from lpmert.numeric.cone import MarginProgram
from lpmert.numeric.rational import dot, in_decimals
from lpmert.quoting import listed, quoted
from lpmert.result import Status, Weighted
from lpmert.values import Weights, checked_limits, weights_array, whole_number

TIES = ("worst", "given")  # orders of documents with equal scores


def evaluate(lists: Judged, weights: Weights, metric: RankingMetric | str, *, ties: str = "worst") -> float:
    """Return the mean of a metric over the queries with a relevant document; documents are sorted in exact arithmetic.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades.
    weights : mapping or sequence of numbers
        One for each feature, by name or in order.
    metric : RankingMetric or str
        The metric, as for `maximize`.
    ties : {"worst", "given"}
        The order of documents with equal scores: the one with the worst value, or that of the lists. Lists of
        `read_judged` are in the order of trec_eval for runs: by decreasing name.

    Returns
    -------
    float
        The mean.

    Raises
    ------
    DataError, MetricError
        If there is not one finite weight for each feature, the metric or order is unknown, or no document is relevant.

    Examples
    --------
    >>> lists = Judged([[1.0], [1.0], [0.0]], [0, 3], [1, 0, 1])
    >>> evaluate(lists, [1.0], "mrr@3"), evaluate(lists, [-1.0], "mrr@3")
    (0.5, 1.0)
    """
    if ties not in TIES:
        raise DataError(f"ties must be one of {listed(TIES)}, not {quoted(ties)}")
    parts, own = RankingMetric.of(metric).parts(lists), weights_array(weights, lists.names)
    return summed(in_decimals(lists.features), lists.offsets, own, parts, ties) / parts.n_queries


@np.errstate(over="ignore", invalid="ignore")
def summed(features: FloatArray, offsets: IntArray, weights: FloatArray, parts: Parts, ties: str = "worst") -> float:
    """Return the sum of the values of all queries.

    Documents are sorted by rounded scores; pairs whose scores differ by less than the error bound are compared exactly.
    """
    if not weights.all():  # documents that differ only in features of weight 0 need no exact comparison
        features, weights = features[:, weights != 0.0], weights[weights != 0.0]
    precise = [*map(Fraction, weights.tolist())]
    terms = features * weights  # each operation is rounded by itself, so equal documents have equal scores
    scores, sizes = np.zeros(len(terms)), np.zeros(len(terms))
    for column in terms.T:
        scores = scores + column
        sizes = sizes + np.abs(column)
    later = np.arange(len(terms)) if ties == "given" else parts.gains
    errors = sizes * (len(weights) + 2) * 2.0**-52 + 1e-300
    values = []
    for q, own in enumerate(rows_by_query(offsets)):
        if parts.scales[q] == 0:
            continue
        k, reached, doubt = len(parts.discounts), scores[own], 2 * errors[own].max()
        lowest = np.partition(reached, -k)[-k] if k < len(reached) else -np.inf
        near = own.start + np.flatnonzero(~(reached < lowest - doubt))  # after an overflow, all documents
        order = near[np.lexsort((later[near], -scores[near]))]
        clear = scores[order[:-1]] - scores[order[1:]] > doubt
        doubtful = np.flatnonzero(~clear & (features[order[:-1]] != features[order[1:]]).any(axis=1))
        starts = np.concatenate([[0], 1 + np.flatnonzero(clear), [len(order)]])
        for run in np.unique(np.searchsorted(starts, doubtful, side="right")).tolist():
            own = slice(starts[run - 1], starts[run])  # no lead inside is clear; those before and after it are
            exact = {d: dot(precise, [*map(Fraction, features[d].tolist())]) for d in order[own].tolist()}
            order[own] = sorted(exact, key=lambda d: (-exact[d], later[d]))
        gains = parts.gains[order[:k]]
        places = np.flatnonzero(gains)
        worth = fsum(gains[places] * parts.discounts[places] * parts.merits[: len(places)])
        values.append(worth * float(parts.scales[q]))
    return fsum(values)


_UNIT = 2.0**40
_TOLERANCE = 4
_LEAST = 2.0**-440  # least nonzero absolute value of a scaled feature: products of differences cannot underflow
_SLICE = 1 << 20  # pairs of documents that are compared between two looks at the clock
_MOST_BYTES = 1 << 29
_SAMPLES = 200
_STARTS = 5
_NODES_A_START = 4000
"""Number of cones between two line searches from random weights, which take a tenth of the time of a long proof."""
_UNCLEAR = 1e-12  # leads below it are computed in exact arithmetic
_SHARES = (0.5, 0.382, 0.61)  # points between the ends of a cell at which weights are tried
OnProgress = Callable[[float, float, int], object]
_Pairs = list[tuple[int, int]]
"""Documents that tie with a rival on one plane, each with the side of the plane where the rival is ahead."""


@dataclass(frozen=True)
class Curve:
    """The value in all directions of two weights: it is values[i] between begins[i] and begins[i + 1].

    Parameters
    ----------
    begins : array [C + 1, 2]
        Weights at which the value changes, and the axes, in the order of their angle.
    values : array [C]
        The values, with an error of at most 1e-11.
    """

    begins: FloatArray
    values: FloatArray

    @property
    def alpha(self) -> FloatArray:
        """The share of the second weight at each of `begins`, for nonnegative weights."""
        share: FloatArray = self.begins[:, 1] / self.begins.sum(axis=1)
        return share


@dataclass(frozen=True)
class RankingResult(Weighted):
    """The best weights found, and an upper bound on the score of all weights.

    Parameters
    ----------
    weights : array [D]
        The weights; their absolute values sum to 1.
    names : tuple of str
        The features, in the order of the weights.
    score : float
        The score of these weights in exact arithmetic.
    bound : float
        The proven upper bound on the score of all weights.
    status : Status
        `OPTIMAL` if score and bound differ by at most 1e-11; `OPTIMAL_TO_TOLERANCE` if the search ended, but found no
        weights in double precision for a higher score that may exist; otherwise the limit that ended the search.
    nodes : int
        Number of cones searched.
    seconds : float
        Wall time.
    curve : Curve or None
        The value of all weights, if there are two features.
    search : Maximizing
        The search, of which `certify` writes a proof.
    """

    json_omits = ("curve", "search")

    weights: FloatArray
    names: tuple[str, ...]
    score: float
    bound: float
    status: Status
    nodes: int
    seconds: float
    curve: Curve | None = field(repr=False)
    search: Maximizing = field(repr=False)


def maximize(
    lists: Judged,
    metric: RankingMetric | str,
    *,
    nonnegative: bool = True,
    time_limit: float | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> RankingResult:
    """Find the weights that rank best, and prove an upper bound on the score of all weights.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades.
    metric : RankingMetric or str
        The metric: "ndcg@10", "ndcg-exp@10", "mrr@10", "map@100", "recall@100", "precision@5", "success@5" and the
        like; in "recall-l2@100" grades of at least 2 are relevant.
    nonnegative : bool
        Whether weights must not be negative.
    time_limit : float or None
        Seconds for a search with three or more features; `None` means no limit.
    seed : int
        Seed of the random weights from which line searches start.
    on_progress : callable, optional
        Called repeatedly with the best score so far, the bound, and the number of cones searched.

    Returns
    -------
    RankingResult
        The best weights, their score and the bound, which also hold after a time limit or Ctrl-C; see its status.

    Raises
    ------
    DataError, MetricError, MethodError
        If no query has a relevant document, the range of a feature is too large for doubles, or the metric, limit or
        seed is invalid.

    Examples
    --------
    >>> lists = Judged([[3, 0], [2, 2], [0, 3], [1, 1], [0, 2]], [0, 3, 5], [0, 1, 0, 0, 1])
    >>> result = maximize(lists, "mrr@10")
    >>> result.score, result.bound - result.score < 1e-11
    (1.0, True)
    """
    return Maximizing(lists, RankingMetric.of(metric), nonnegative, time_limit, seed, on_progress).run()


def certify(result: RankingResult, path: str | Path) -> None:
    """Write a certificate of a result, which `verify` checks without any search.

    Parameters
    ----------
    result : RankingResult
        The result. If its search was stopped, its bound is certified. With two features, cones are searched first.
    path : str or Path
        Where the certificate goes; compressed if the name ends in .gz or .xz.

    Raises
    ------
    DataError
        If the file cannot be written.
    MethodError
        If the first argument is no result of `maximize`.

    Examples
    --------
    >>> import tempfile
    >>> from lpmert.ranking import verify
    >>> lists = Judged([[3, 0], [2, 2], [0, 3], [1, 1], [0, 2]], [0, 3, 5], [0, 1, 0, 0, 1])
    >>> path = tempfile.mkdtemp() + "/proof.json.gz"
    >>> certify(maximize(lists, "mrr@10"), path)
    >>> verify(path, lists).proved
    True
    """
    if not isinstance(cast(object, result), RankingResult):
        raise MethodError(f"the first argument must be a result of maximize, not {type(result).__name__}")
    search = result.search
    if result.curve is not None:  # a sweep divides no cones
        search = replace(search)
        search.raise_to(result.score * search.parts.n_queries)
        search.divide()
    lists, name, exponents = search.lists, str(search.metric), search.exponents.tolist()
    score = Measure(lists, search.metric).reached(result.by_name)
    bound = max(Fraction(search.bound), score)
    named = dict(zip(result.names, exponents, strict=True))
    header = RankingHeader(name, lists.fingerprint, score, bound, search.nonnegative, result.by_name, named)
    with certificate_writer(path, header) as write:
        for record in search.records():
            write(record)


@dataclass
class Maximizing:
    """One search: the incumbent, the core's queue of open cones, and the cones that need exact arithmetic."""

    lists: Judged
    metric: RankingMetric
    nonnegative: bool = True
    time_limit: float | None = None
    seed: int = 0
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        lists = self.lists
        whole_number(self.seed, "seed", 0)
        self.deadline = within(checked_limits(self.time_limit, None, None, None, None).time_limit)
        self.parts = self.metric.parts(lists)
        self.features = in_decimals(lists.features)
        self._dimensions = lists.features.shape[1]
        largest = np.abs(self.features).max(axis=0)
        self.exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
        self.scaled = np.ascontiguousarray(np.ldexp(self.features, -self.exponents))
        if (np.abs(self.scaled[self.scaled != 0]) < _LEAST).any():
            raise DataError("a feature spans more than 132 orders of magnitude: set the tiny values to 0")
        parts = self.parts
        least = 0.99 * float(least_lead(self.scaled)) if self._dimensions != 2 else 0.0  # not needed by a sweep
        self.core = core.Ranking(
            self.scaled, lists.offsets, parts.gains, parts.discounts, parts.merits, parts.scales, least
        )
        self.closing = _TOLERANCE * parts.n_queries
        self.units = -1
        self.best = -1.0
        self.weights = np.zeros(self._dimensions)
        self._planes: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        self.pending = self.unreached = self.settled = self.exact_nodes = 0
        self.starts: Iterator[tuple[FloatArray, int]] = iter(())
        self.next_start = _NODES_A_START
        self.leaves: dict[int, list[Record]] = {}

    def run(self) -> RankingResult:
        curve, ended = None, None
        if self._dimensions == 2:
            curve = self._sweep()
        else:
            for weights in [*np.eye(self._dimensions), np.ones(self._dimensions)]:
                self._consider(weights)
            ended = self.divide()
        unproved = self._bound_units() > self.units + self.closing
        status = ended or (Status.OPTIMAL_TO_TOLERANCE if unproved else Status.OPTIMAL)
        score, bound = self._reached()
        nodes, seconds = self.core.nodes, self.deadline.seconds
        del self.core  # open cones take much memory
        return RankingResult(self.weights, self.lists.names, score, bound, status, nodes, seconds, curve, self)

    def records(self) -> Iterator[Record]:
        """Yield the records of the branch-and-bound tree in preorder."""
        rows = {row[0]: i for i, row in enumerate(self.splits.tolist())}
        waiting = list(range(len(roots(self._dimensions, self.nonnegative))))[::-1]
        while waiting:
            number = waiting.pop()
            if number not in rows:
                yield from self.leaves.get(number, [{}])
                continue
            _, first, above, below = self.splits[rows[number]].tolist()
            share, whole = float(self.shares[rows[number]]).as_integer_ratio()
            yield {"split": [above, below, share, whole - share]}
            waiting += [first + 1, first]

    def _bound_units(self) -> int:
        return max(self.settled, self.unreached, self.pending, self.core.closed, self.core.open_bound, self.units)

    def _reached(self) -> tuple[float, float]:
        score = self.best / self.parts.n_queries
        return score, max(score, min(1.0, nextafter(self._bound_units() / _UNIT / self.parts.n_queries, 2.0)))

    def _consider(self, scaled: FloatArray) -> None:
        """Make weights for the scaled features the incumbent if their value in exact arithmetic is higher."""
        scaled = np.maximum(scaled, 0.0) if self.nonnegative else scaled
        weights = np.ldexp(scaled / np.abs(scaled).max(), -self.exponents + self.exponents.min())
        weights = weights / np.abs(weights).sum()
        value = summed(self.features, self.lists.offsets, weights, self.parts)
        if value > self.best:
            self.weights = weights
            self.raise_to(value)

    def raise_to(self, value: float) -> None:
        """Set the cut-off: only weights with a larger sum over the queries are of interest."""
        self.best, self.units = value, int(value * _UNIT)
        self.core.raise_to(self.units)

    # Two features, and lines between two weights

    def arc(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, IntArray]:
        """Sweep from one vector of weights for the scaled features to another (O3).

        Returns the shares of both [C + 1, 2] in the mixtures at which the value changes, and the values between them
        [C], in units.
        """
        x, y = self.scaled @ first, self.scaled @ second
        ties, units = self.core.sweep(x, y)
        before, after = ties.T
        shares = np.column_stack([y[before] - y[after], x[after] - x[before]])
        shares /= shares.sum(axis=1)[:, None]
        return np.vstack([[1.0, 0.0], shares, [0.0, 1.0]]), units

    def _sweep(self) -> Curve:
        """Compute the value in all directions, and find weights with the best one."""
        axes = np.array([[1.0, 0.0], [0.0, 1.0]] if self.nonnegative else [[1, 0], [0, 1], [-1, 0], [0, -1], [1.0, 0]])
        arcs = [self.arc(*quadrant) for quadrant in pairwise(axes)]
        begins = np.vstack([shares[:-1] @ axes[i : i + 2] for i, (shares, _) in enumerate(arcs)] + [axes[-1]])
        units = np.concatenate([units for _, units in arcs])
        self.settled = int(units.max())
        best = np.flatnonzero(units == self.settled)
        widths = np.abs(begins[best, 0] * begins[best + 1, 1] - begins[best, 1] * begins[best + 1, 0])
        # several points are tried, because documents may tie inside a cell without changing the value on either side
        for cell, share in product(best[np.argsort(-widths, kind="stable")][:20], _SHARES):
            self._consider(share * begins[cell] + (1.0 - share) * begins[cell + 1])
            if self.units >= self.settled - self.closing:
                break
        begins = np.ldexp(begins, self.exponents.min() - self.exponents)
        return Curve(begins, units / _UNIT / self.parts.n_queries)

    # Other numbers of features

    def divide(self) -> Status | None:
        """Run the branch and bound; return the limit that ended it early, if any."""
        ended = self._search()
        self.bound = self._reached()[1]
        self.splits, self.shares = self.core.recorded()
        return ended

    def _search(self) -> Status | None:
        self.unreached = int(self.parts.n_queries * _UNIT)  # the trivial bound, until all cones are in the queue
        try:
            for signs in roots(self._dimensions, self.nonnegative):
                if self.core.open_nodes and self.deadline.expired:
                    return Status.TIME_LIMIT
                self.core.open(np.array(signs, dtype=np.float64))
            self.unreached = 0
            if self._dimensions != 2:  # with two features, the sweep has found the best weights
                self._start()
            while self.core.open_nodes or self.core.needs_exact:
                if self.deadline.expired:
                    return Status.TIME_LIMIT
                if self.on_progress is not None:
                    self.on_progress(*self._reached(), self.core.nodes)
                if self.core.nodes >= self.next_start:
                    self.next_start += _NODES_A_START
                    for start in islice(self.starts, 1):
                        self._consider(self.ascended(*start))
                found = self.core.advance(_SLICE, _MOST_BYTES)
                if len(found):
                    self._consider(found)
                if self.core.needs_exact:
                    self.pending = self.core.open_bound
                    if not self._settle():
                        return Status.TIME_LIMIT
                    self.pending = 0
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return None

    def _start(self) -> None:
        """Find a first incumbent by line searches from the best of random weights."""
        random = np.random.default_rng(self.seed)
        drawn = random.normal(size=(_SAMPLES, self._dimensions))
        drawn = np.abs(drawn) if self.nonnegative else drawn
        reached = list[int]()
        for weights in drawn:
            if self.deadline.expired:
                break
            reached.append(self.core.value(weights))
        self.starts = ((drawn[i], reached[i]) for i in np.argsort(reached)[::-1].tolist())
        for start in islice(self.starts, _STARTS):
            if self.deadline.expired:
                break
            self._consider(self.ascended(*start))

    def ascended(self, weights: FloatArray, value: int) -> FloatArray:
        """Run line searches along the coordinates until none finds a higher value; return the weights there."""
        axes = [sign * axis for axis in np.eye(len(weights)) for sign in ((1,) if self.nonnegative else (1, -1))]
        place, unchanged = 0, 0
        while unchanged < len(axes) and not self.deadline.expired:
            axis = axes[place]
            place, unchanged = (place + 1) % len(axes), unchanged + 1
            others = np.where(axis != 0, 0.0, weights)
            if not others.any():
                continue
            others /= np.abs(others).sum()
            shares, units = self.arc(others, axis)
            best = int(np.argmax(units))
            if units[best] > value:
                mixed = shares[best] + shares[best + 1]
                weights, value, unchanged = mixed[0] * others + mixed[1] * axis, int(units[best]), 0
        return weights

    @cached_property
    def scale(self) -> int:
        """The factor that makes scaled features integers."""
        return scale_of(self.scaled)

    def _plane(self, document: int, rival: int) -> tuple[tuple[int, ...], int]:
        """Return the plane on which two documents tie, and the side of it where the rival is ahead."""
        found = self._planes.get((document, rival))
        if found is None:
            normal = difference(self.scaled, document, rival, self.scale)
            side = 1 if normal > (0,) * len(normal) else -1
            shared = side * gcd(*normal)
            found = self._planes[document, rival] = tuple(x // shared for x in normal), side
        return found

    def _settle(self) -> bool:
        """Search a cone that doubles cannot decide, in exact arithmetic (O4); return false if time runs out."""
        root, path, path_shares, undecided, ahead, rest, number = self.core.take_leaf()
        records: list[Record] = []
        rays = _exact_rays(roots(self._dimensions, self.nonnegative)[root], path, path_shares)
        queries = {query for query, *_ in undecided.tolist()}
        planes: dict[tuple[int, ...], _Pairs] = {}
        tied: dict[tuple[int, ...], tuple[int, int]] = {}
        for _, ranked, document, rival in undecided.tolist():
            normal, side = self._plane(document, rival)
            planes.setdefault(normal, []).append((ranked, side))
            tied[normal] = (document, rival) if side > 0 else (rival, document)
        leading = [([dot(normal, ray) for ray in rays], normal) for normal in planes]
        stack = [(rays, leading, ahead)]
        while stack:
            if self.deadline.expired:
                return False
            self.exact_nodes += 1
            rays, leading, known = stack.pop()
            known = known.copy()
            open_planes = []
            for leads, normal in leading:
                decided = 1 if min(leads) >= 0 else -1 if max(leads) <= 0 else 0
                if not decided:
                    open_planes.append((leads, normal))
                for document, side in planes[normal]:
                    known[document] += side == decided
            total = rest + sum(self.core.worth(query, known) for query in queries)
            if total > self.units + self.closing and not open_planes:
                self._consider_inside(rays)
            closed = total <= self.units + self.closing
            if closed:
                self.settled = max(self.settled, total)
            elif not open_planes:
                self.unreached = max(self.unreached, total)
            if closed or not open_planes:
                records.append({})
                continue
            leads, normal = open_planes[0]
            above, below = leads.index(max(leads)), leads.index(min(leads))
            records.append({"tie": [above, below, *tied[normal]]})
            up, down = leads[above], -leads[below]  # the documents tie at the ray down * above + up * below
            tie = [down * a + up * b for a, b in zip(rays[above], rays[below], strict=True)]
            shared = gcd(*tie)
            tie = [x // shared for x in tie]
            for place in (above, below):
                parts = [
                    ([*one[:place], (down * one[above] + up * one[below]) // shared, *one[place + 1 :]], plane)
                    for one, plane in open_planes
                ]
                stack.append(([*rays[:place], tie, *rays[place + 1 :]], parts, known))
        self.leaves[number] = records
        return True

    def _consider_inside(self, rays: list[list[int]]) -> None:
        """Consider weights in the middle of the cell around a cone, which rank as those inside the cone do.

        The cone may be too thin for doubles even if the cell is not. For pairs that O6 decides, the largest lead tells
        which document is ahead.
        """
        rows = self.core.compared()
        normals = self.scaled[rows[:, 1]] - self.scaled[rows[:, 0]]
        leads = normals @ np.array([[x / sum(map(abs, ray)) for x in ray] for ray in rays]).T
        largest = np.take_along_axis(leads, np.abs(leads).argmax(axis=1)[:, None], axis=1)
        middle = [sum(column) for column in zip(*rays, strict=True)]
        for i in np.flatnonzero(np.abs(largest) < _UNCLEAR).tolist():
            normal, side = self._plane(*rows[i].tolist())
            largest[i] = side * (1 if dot(normal, middle) > 0 else -1)
        normals *= np.sign(largest) / np.linalg.norm(normals, axis=1)[:, None]
        if self.nonnegative:
            normals = np.vstack([normals, np.eye(normals.shape[1])])
        program = MarginProgram(normals.shape[1])
        program.clear()
        program.add(np.where(np.abs(normals) > 1e-9, normals, 0.0))
        solved = program.run()
        if solved is not None and solved[1] > 0:
            self._consider(solved[0])


def _exact_rays(signs: Sequence[int], path: IntArray, shares: FloatArray) -> list[list[int]]:
    """Return the rays, as integers, of the cone at the end of a path of splits, the last one first, from a root."""
    rays = [([sign * (i == j) for j in range(len(signs))], 0) for i, sign in enumerate(signs)]  # over powers of 2
    for (above, below, replaced), share in zip(path[::-1].tolist(), shares[::-1].tolist(), strict=True):
        part, whole = share.as_integer_ratio()
        (a, p), (b, q) = rays[above], rays[below]
        common = max(p, q)
        mixed = [(part * x << common - p) + ((whole - part) * y << common - q) for x, y in zip(a, b, strict=True)]
        rays[replaced] = mixed, common + whole.bit_length() - 1
    return [ray for ray, _ in rays]
