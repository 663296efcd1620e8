"""The search for weights that rank best.

The value depends on the order of a query's documents, not on the first one alone. With two features one sweep over the
directions where documents change places gives the whole curve; with more, cones of weights are searched by branch and
bound. Lemmas O1 to O4 of proofs/ranking.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import gcd, nextafter
from operator import mul, sub
from typing import TypeVar

import numpy as np

from lpmert import core
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.methods.sweep import critical_directions
from lpmert.model.judged import Judged
from lpmert.numeric.lp import MarginProgram
from lpmert.numeric.rounding import in_decimals
from lpmert.ranking.metrics import RankingMetric, summed
from lpmert.result import Status
from lpmert.system.deadline import within

_UNIT = 2.0**40
_TOLERANCE = 4
_SLICE = 64
_SAMPLES = 400
_Item = TypeVar("_Item")
_Pairs = list[tuple[int, int]]
"""Documents with rivals that they tie with on one plane, and the sides where these are before them."""


@dataclass(frozen=True)
class Curve:
    """The value along all directions of two weights: between begins[i] and begins[i + 1] it is values[i].

    Parameters
    ----------
    begins : array [C + 1, 2]
        Weights at which documents change places, in the order of their angle.
    middles : array [C, 2]
        Weights between two of these.
    values : array [C]
        To within 1e-11.
    """

    begins: FloatArray
    middles: FloatArray
    values: FloatArray

    @property
    def alpha(self) -> FloatArray:
        """The share of the second weight at each of `begins`, where no weight is negative."""
        share: FloatArray = self.begins[:, 1] / self.begins.sum(axis=1)
        return share


@dataclass(frozen=True)
class RankingResult:
    """The best weights found, and what no weights exceed.

    Parameters
    ----------
    weights : array [D]
        Absolute values sum to 1.
    names : tuple of str
        Of the features.
    score : float
        What exact arithmetic says of these weights as they are.
    bound : float
        No weights of the region reach more.
    status : Status
        `OPTIMAL` where score and bound differ by at most 1e-11, `OPTIMAL_TO_TOLERANCE` where what is between them needs
        weights that double precision cannot hold, else what ended the search.
    nodes, exact_nodes : int
        Cones searched, and those left to rational arithmetic.
    seconds : float
        Wall time.
    trace : tuple of (float, float)
        When each better score was found.
    curve : Curve or None
        With two features.
    """

    weights: FloatArray
    names: tuple[str, ...]
    score: float
    bound: float
    status: Status
    nodes: int
    exact_nodes: int
    seconds: float
    trace: tuple[tuple[float, float], ...]
    curve: Curve | None = field(default=None, repr=False)

    @property
    def by_name(self) -> dict[str, float]:
        """The weights by the names of their features."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))


def maximize(
    lists: Judged,
    metric: RankingMetric | str,
    *,
    nonnegative: bool = True,
    time_limit: float | None = None,
    seed: int = 0,
) -> RankingResult:
    """Return weights that rank best, with a bound that no weights exceed.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades.
    metric : RankingMetric or str
        Such as "ndcg@10", "ndcg-linear@10", "mrr@10", "recall@100", "precision@5".
    nonnegative : bool
        Whether no weight may be negative.
    time_limit : float or None
        Seconds of a search with three or more features; `None` means no limit.
    seed : int
        Of the random weights that the search begins with.

    Returns
    -------
    RankingResult
        A limit of time or Ctrl-C ends in its status; score and bound hold all the same.

    Raises
    ------
    DataError
        If no query has a relevant document, or a feature spans more than doubles can scale.

    Examples
    --------
    >>> lists = Judged([[3, 0], [2, 2], [0, 3], [1, 1], [0, 2]], [0, 3, 5], [0, 1, 0, 0, 1])
    >>> result = maximize(lists, "mrr@10")
    >>> result.score, result.bound - result.score < 1e-11
    (1.0, True)
    """
    return _Maximizing(lists, RankingMetric.of(metric), nonnegative, time_limit, seed).run()


class _Maximizing:
    """One search: the incumbent, the core's open cones, and what only exact arithmetic decides."""

    def __init__(
        self, lists: Judged, metric: RankingMetric, nonnegative: bool, time_limit: float | None, seed: int
    ) -> None:
        self.lists, self.nonnegative, self.seed = lists, nonnegative, seed
        self.deadline = within(time_limit)
        self.parts = metric.parts(lists)
        self.features = in_decimals(lists.features)
        largest = np.abs(self.features).max(axis=0)
        self.exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
        self.scaled = np.ascontiguousarray(np.ldexp(self.features, -self.exponents))
        if (np.ldexp(self.scaled, self.exponents) != self.features).any():
            raise DataError("a feature spans more orders of magnitude than doubles can scale")
        parts = self.parts
        self.core = core.Ranking(
            self.scaled, lists.offsets, parts.gains, parts.discounts, parts.scales, parts.first_only
        )
        self.closing = _TOLERANCE * parts.n_queries
        self.units = -1
        self.best = -1.0
        self.weights = np.zeros(lists.features.shape[1])
        self.trace: list[tuple[float, float]] = []
        self._planes: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        self.pending = self.unreached = self.settled = self.exact_nodes = 0

    def run(self) -> RankingResult:
        dimensions = self.lists.features.shape[1]
        curve, ended = None, None
        self._consider(np.ones(dimensions))
        if dimensions == 2:
            curve = self._sweep()
        else:
            ended = self._search(dimensions)
        bound = max(self.settled, self.unreached, self.pending, self.core.closed, self.core.open_bound, self.units)
        status = ended or (Status.OPTIMAL_TO_TOLERANCE if bound > self.units + self.closing else Status.OPTIMAL)
        n = self.parts.n_queries
        score = self.best / n
        return RankingResult(
            self.weights,
            self.lists.names,
            score,
            max(score, min(1.0, nextafter(bound / _UNIT / n, 2.0))),
            status,
            self.core.nodes,
            self.exact_nodes,
            self.deadline.seconds,
            tuple(self.trace),
            curve,
        )

    def _consider(self, scaled: FloatArray) -> None:
        """Take weights for the scaled features as the incumbent if exact arithmetic says that they are better."""
        scaled = np.maximum(scaled, 0.0) if self.nonnegative else scaled
        weights = np.ldexp(scaled / np.abs(scaled).max(), -self.exponents + self.exponents.min())
        weights = weights / np.abs(weights).sum()
        value = summed(self.features, self.lists.offsets, weights, self.parts)
        if value > self.best:
            self.best, self.weights = value, weights
            self.units = int(value * _UNIT)
            self.core.raise_to(self.units)
            self.trace.append((self.deadline.seconds, value / self.parts.n_queries))

    # Two features

    def _sweep(self) -> Curve:
        """Find the value of every interval of directions (O3), and weights in the best one."""
        rows = self.core.compared()
        n_pairs = len(rows) // 2
        axes = np.array([[0, 0], [0.5, 0], [0, 0], [0, 0.5]])
        points = np.concatenate([self.scaled[rows], axes])
        events = critical_directions(points, np.arange(0, len(points) + 1, 2))
        units = self.core.curve(events.start[:n_pairs], events.entering, events.ends)
        edges = points[events.entering[events.ends - 1]] - points[events.leaving[events.ends - 1]]
        begins = np.column_stack([edges[:, 1], -edges[:, 0]])
        cells = np.arange(len(units))
        if self.nonnegative:
            group = np.searchsorted(events.ends, np.arange(len(events.entering)), side="right")
            first = group[np.flatnonzero(events.entering == 2 * n_pairs + 3)[0]]  # the second weight turns positive
            last = group[np.flatnonzero(events.entering == 2 * n_pairs)[0]]  # the first one turns negative
            cells = np.arange(first, last)
        self.settled = int(units[cells].max())
        best = cells[units[cells] == self.settled]
        for cell in best[np.argsort(-events.widths[best], kind="stable")][:20]:
            self._consider(events.middles[cell])
            if self.units >= self.settled - self.closing:
                break
        rescaled = [
            np.ldexp(directions, self.exponents.min() - self.exponents)
            for directions in (begins[np.append(cells, (cells[-1] + 1) % len(begins))], events.middles[cells])
        ]
        return Curve(rescaled[0], rescaled[1], units[cells] / _UNIT / self.parts.n_queries)

    # Other numbers of features

    def _search(self, dimensions: int) -> Status | None:
        """Search all cones; return what ended the search early."""
        for signs in product((1.0, -1.0), repeat=dimensions):
            if not self.nonnegative or min(signs) > 0:
                self.core.open(np.array(signs))
        try:
            self._sample(dimensions)
            while self.core.open_nodes or self.core.needs_exact:
                if self.deadline.expired:
                    return Status.TIME_LIMIT
                found = self.core.advance(_SLICE)
                if len(found):
                    self._consider(found)
                if self.core.needs_exact:
                    self.pending = self.core.open_bound
                    if not self._settle(dimensions):
                        return Status.TIME_LIMIT
                    self.pending = 0
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return None

    def _sample(self, dimensions: int) -> None:
        """Begin with the best of random weights, then of smaller and smaller steps from it."""
        random = np.random.default_rng(self.seed)
        best, value = np.ones(dimensions), -1
        for step in range(2 * _SAMPLES):
            if self.deadline.expired:
                break
            drawn = random.normal(size=dimensions)
            if step >= _SAMPLES:
                drawn = best / np.abs(best).max() + drawn * 10.0 ** (-3 * (step % 100) / 100)
            drawn = np.abs(drawn) if self.nonnegative else drawn
            reached = self.core.value(drawn)
            if reached > value:
                best, value = drawn, reached
        self._consider(best)

    @cached_property
    def _whole(self) -> list[list[int]]:
        """All features times one power of 2 that makes them whole."""
        ratios = [[x.as_integer_ratio() for x in row] for row in self.scaled.tolist()]
        scale = max(whole for row in ratios for _, whole in row)
        return [[part * (scale // whole) for part, whole in row] for row in ratios]

    def _plane(self, document: int, rival: int) -> tuple[tuple[int, ...], int]:
        """Return the plane on which two documents tie, and the side where the rival is before the document."""
        found = self._planes.get((document, rival))
        if found is None:
            normal = tuple(map(sub, self._whole[rival], self._whole[document]))
            side = 1 if normal > (0,) * len(normal) else -1
            shared = side * gcd(*normal)
            found = self._planes[document, rival] = tuple(x // shared for x in normal), side
        return found

    def _settle(self, dimensions: int) -> bool:
        """Search a cone that doubles cannot decide in whole numbers (O4); false if time is over."""
        links, shares, own, undecided, ahead, rest, _ = self.core.take_leaf()
        rays = _exact_rays(links, shares, own, dimensions)
        queries = {query for query, _, _ in undecided.tolist()}
        planes: dict[tuple[int, ...], _Pairs] = {}
        for _, document, rival in undecided.tolist():
            normal, side = self._plane(document, rival)
            planes.setdefault(normal, []).append((document, side))
        stack = [(rays, [([_product(normal, ray) for ray in rays], pairs) for normal, pairs in planes.items()], ahead)]
        while stack:
            if self.deadline.expired:
                return False
            self.exact_nodes += 1
            rays, leading, known = stack.pop()
            known = known.copy()
            open_planes = []
            for leads, pairs in leading:
                decided = 1 if min(leads) >= 0 else -1 if max(leads) <= 0 else 0
                if not decided:
                    open_planes.append((leads, pairs))
                for document, side in pairs:
                    known[document] += side == decided
            total = rest + sum(self.core.worth(query, known) for query in queries)
            if total > self.units + self.closing and not open_planes:
                self._consider_inside(rays)
                if total > self.units + self.closing:
                    self.unreached = max(self.unreached, total)
                    continue
            if total <= self.units + self.closing:
                self.settled = max(self.settled, total)
                continue
            leads = open_planes[0][0]
            above, below = leads.index(max(leads)), leads.index(min(leads))
            up, down = leads[above], -leads[below]  # the ray where the documents tie is down * above + up * below
            tie = [down * a + up * b for a, b in zip(rays[above], rays[below], strict=True)]
            shared = gcd(*tie)
            tie = [x // shared for x in tie]
            for replaced in (above, below):
                parts = [
                    (_replaced(one, replaced, (down * one[above] + up * one[below]) // shared), pairs)
                    for one, pairs in open_planes
                ]
                stack.append((_replaced(rays, replaced, tie), parts, known))
        return True

    def _consider_inside(self, rays: list[list[int]]) -> None:
        """Consider weights that rank as those inside a cone do, as far as possible from where documents change places.

        The cone may be thinner than doubles can hold, while the cell around it is not.
        """
        middle = [sum(column) for column in zip(*rays, strict=True)]
        rows = self.core.compared()
        normals = self.scaled[rows[1::2]] - self.scaled[rows[::2]]
        planes = [self._plane(d, e) for d, e in rows.reshape(-1, 2).tolist()]
        sides = [side if _product(normal, middle) > 0 else -side for normal, side in planes]
        normals *= (np.array(sides) / np.linalg.norm(normals, axis=1))[:, None]
        if self.nonnegative:
            normals = np.vstack([normals, np.eye(normals.shape[1])])
        program = MarginProgram(normals.shape[1])
        program.clear()
        program.add(np.where(np.abs(normals) > 1e-9, normals, 0.0))
        solved = program.run()
        if solved is not None and solved[1] > 0:
            self._consider(solved[0])


def _exact_rays(links: IntArray, shares: FloatArray, own: IntArray, dimensions: int) -> list[list[int]]:
    """Return the rays of a cone, exactly and in whole numbers."""
    made: list[tuple[list[int], int]] = []  # whole numbers, to be divided by this power of 2
    for (first, second, axis), share in zip(links.tolist(), shares.tolist(), strict=True):
        if first < 0:
            signed = -1 if axis < 0 else 1
            made.append(([signed if j == (axis if axis >= 0 else -1 - axis) else 0 for j in range(dimensions)], 0))
            continue
        part, whole = share.as_integer_ratio()
        (a, p), (b, q) = made[first], made[second]
        common = max(p, q)
        mixed = [(part * x << common - p) + ((whole - part) * y << common - q) for x, y in zip(a, b, strict=True)]
        made.append((mixed, common + whole.bit_length() - 1))
    return [made[i][0] for i in own.tolist()]


def _replaced(items: list[_Item], place: int, item: _Item) -> list[_Item]:
    return [*items[:place], item, *items[place + 1 :]]


def _product(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(map(mul, a, b))
