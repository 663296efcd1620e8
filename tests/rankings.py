"""Judged documents, and what rankings are worth in whole numbers, by code that shares nothing with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, permutations
from math import lcm, log2
from typing import Any

import numpy as np
from oracle import inner, primitive

from lpmert.ranking import Judged, RankingMetric

Vector = tuple[int, ...]
METRICS = (
    "ndcg-exp@3", "ndcg@2", "mrr@2", "mrr@9", "recall@2", "precision@3", "map@3", "map@9", "success@2", "map-l2@3"
)  # fmt: skip
Bound = Callable[[Any], Any]
"""Bounds the value of one query if so many documents of other gains lead each of the relevant ones."""


def value(metric: str, grades: list[float]) -> float | None:
    """What one query is worth with grades in the order of the ranking; `None` without a relevant document."""
    name, _, k = metric.partition("@")
    name, _, least = name.partition("-l")
    if least:
        grades = [g if g >= float(least) else 0.0 for g in grades]
    top = grades[: int(k)]
    if not any(grades):
        return None
    if name == "mrr":
        return max((1 / (r + 1) for r, g in enumerate(top) if g), default=0.0)
    if name == "success":
        return float(any(top))
    if name == "map":  # the precision at each relevant document
        precisions = [sum(map(bool, top[: r + 1])) / (r + 1) for r, g in enumerate(top) if g]
        return sum(precisions) / sum(map(bool, grades))
    hits = sum(g > 0 for g in top)
    if name in ("recall", "precision"):
        return hits / (sum(g > 0 for g in grades) if name == "recall" else int(k))

    def dcg(some: list[float]) -> float:
        return sum((g if name == "ndcg" else 2**g - 1) / log2(r + 2) for r, g in enumerate(some))

    return dcg(top) / dcg(sorted(grades, reverse=True)[: int(k)])


class Exact:
    """Lists whose features mean the decimals that are printed: times `scale` these are whole numbers."""

    def __init__(self, lists: Judged) -> None:
        meant = [[Fraction(repr(x)) for x in row] for row in lists.features.tolist()]
        self.scale = lcm(*(x.denominator for row in meant for x in row))
        rows = [tuple(int(x * self.scale) for x in row) for row in meant]
        self.queries = [(rows[a:b], lists.relevance[a:b].tolist()) for a, b in pairwise(lists.offsets.tolist())]
        self.dimensions = len(rows[0])

    def worst(self, metric: str, weights: Sequence[int | Fraction]) -> float:
        """The mean where the documents that tie come in the order of rising grades."""
        found = []
        for rows, grades in self.queries:
            order = sorted(range(len(rows)), key=lambda d: (-inner(weights, rows[d]), grades[d]))
            found.append(value(metric, [grades[d] for d in order]))
        counted = [one for one in found if one is not None]
        return sum(counted) / len(counted)

    def normals(self) -> list[Vector]:
        axes = [tuple(int(i == j) for i in range(self.dimensions)) for j in range(self.dimensions)]
        pairs = [pair for rows, _ in self.queries for pair in combinations(rows, 2)]
        differences = {tuple(x - y for x, y in zip(a, b, strict=True)) for a, b in pairs}
        return [*axes, *(n for n in differences if any(n))]

    def points(self) -> Iterator[Vector]:
        """Weights in every cell of the order, none of which ties different documents."""
        normals = {max(n, minus(n)) for n in map(primitive, self.normals())}
        if self.dimensions == 2:
            rays = [(s * n[1], -s * n[0]) for n in normals for s in (1, -1)]
            yield from generic(rays, normals)
            return
        corners = {primitive(cross(a, b)) for a, b in combinations(normals, 2)}
        for corner in corners | set(map(minus, corners)):
            through = [n for n in normals if not inner(n, corner)]
            rays = [primitive(cross(n, one)) for n in through for one in (corner, minus(corner))]
            least = min(abs(inner(corner, n)) for n in normals if inner(corner, n))
            for step in generic(rays, through):
                size = max(abs(inner(step, n)) for n in normals)
                yield tuple(int(2 * size * x + least * y) for x, y in zip(corner, step, strict=True))

    def best(self, metric: str, *, nonnegative: bool) -> float:
        """The largest mean of all cells of the region."""
        return max(self.worst(metric, w) for w in self.points() if not nonnegative or min(w) > 0)


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def minus(a: Vector) -> Vector:
    return tuple(-x for x in a)


def generic(rays: Sequence[Vector], normals: Iterable[Vector]) -> Iterator[Vector]:
    """Sums of two rays that lie on no normal's plane; those of neighbours are in every cell between rays."""
    for a, b in combinations(dict.fromkeys(rays), 2):
        middle = tuple(x + y for x, y in zip(a, b, strict=True))
        if all(inner(n, middle) for n in normals):
            yield middle


def assert_bounds_hold(
    metric: str, bound_of: Callable[[Judged, RankingMetric], tuple[Any, Bound]], *, above: float, below: float
) -> None:
    """Assert that the bound of an order of five documents is its value, to within errors, and that a bound on what
    leads them is no lower than the value of any such order; bound_of: returns the relevant documents and the bound.
    """
    random = np.random.default_rng(5)
    for _ in range(20):
        grades = random.integers(0, 3, size=5).astype(float)
        grades[0] = 2
        lists, measure = Judged(random.random(size=(5, 1)), [0, 5], grades), RankingMetric.of(metric)
        relevant, bound = bound_of(lists, measure)
        least, gains = random.integers(0, 3, size=5), measure.parts(lists).gains
        for order in permutations(range(5)):
            before = np.zeros(5, dtype=np.int64)
            for place, d in enumerate(order):
                before[d] = np.count_nonzero(gains[list(order[:place])] != gains[d])
            own = Fraction(value(metric, [grades[d] for d in order]) or 0.0)
            assert -below <= bound(before[relevant]) - own <= above
            if (before >= least)[gains > 0].all():
                assert bound(least[relevant]) >= own - Fraction(below)


def random_lists(seed: int, dimensions: int, *, decimals: bool, sizes: tuple[int, ...] = (4, 3, 3)) -> Judged:
    """Small lists with coinciding, parallel and opposite differences, and a document that comes twice."""
    random = np.random.default_rng(seed)
    n = sum(sizes)
    features = random.integers(-3, 4, size=(n, dimensions)).astype(float)
    if decimals:
        features = np.round(features / 10 + random.integers(0, 3, size=features.shape) / 100, 2)
    features[1] = features[0]
    grades = random.integers(0, 3, size=n) * (random.random(n) < 0.7)
    grades[0] = 2
    return Judged(features, np.cumsum([0, *sizes]), grades)


def no_multiples(lists: Judged) -> Judged:
    """The same lists and a query of one document, so that features are multiples of nothing."""
    features = np.vstack([lists.features, 1 / np.arange(3.0, 3 + lists.features.shape[1])])
    return Judged(features, [*lists.offsets, len(features)], [*lists.relevance, 0.0])


def twenty_queries(seed: int = 8, dimensions: int = 3) -> Judged:
    """Twenty queries of ten documents with Gaussian features."""
    random = np.random.default_rng(seed)
    return Judged(random.normal(size=(200, dimensions)), np.arange(0, 201, 10), random.random(200) < 0.2)
