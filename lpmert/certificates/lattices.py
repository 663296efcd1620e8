"""Lattices and hypergraphs as N-best lists of all paths that may win, found in exact arithmetic without search code.

A proof for these lists is a proof for all paths: L1 and L3 in proofs/lattices.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import gcd, isfinite, lcm
from operator import eq, ge, itemgetter, mul
from typing import NamedTuple

import numpy as np

from lpmert.certificates.format import Header, agreeing
from lpmert.certificates.lists import Equations, Whole, basis_of
from lpmert.errors import CertificateError, DataError, FloatArray, IntArray
from lpmert.limits import checked, checkpoint
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TextMetric
from lpmert.model.graphs import Graph, WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted

_MOST_LABELS = 400  # a cone is halved where a node has more partial paths
_MOST_CONES = 2000  # a lattice with more cones is too large for exact arithmetic
_NEAR = Fraction(1, 10**9)  # the most by which the loss of a ratio in doubles may differ from the exact one
Way = tuple[int, ...]  # the links of a path from the last to the first
Scores = tuple[int, ...]
Label = tuple[Scores, Way]  # a partial path: its scores, such as those at the rays of a cone, and its links


def lists_of(
    graphs: WordGraphs,
    metric: str | TextMetric,
    limits: Sequence[Sequence[float]],
    equations: Equations = (),
    on_links: Callable[[int, int], object] = lambda *_: None,
) -> NBest:
    """Return for each lattice the list of all paths that may be strictly best at weights of the region.

    These fulfil equations [e, D] and have positive products with limits [k, D]. Of paths that they cannot tell apart,
    the first is listed. on_links: called with the number of links in the lattices done, and in all.

    Raises `CertificateError` if paths are too many, and `MetricError` for a metric that paths do not have.
    """
    problem, coordinates = LatticeProblem(graphs, metric), Coordinates.of(graphs, equations)
    features, statistics, texts, offsets = [], [], [], [0]
    sizes = [len(graphs.graph(number).targets) for number in range(graphs.n_lists)]
    if 1 << len(coordinates.free) > _MOST_CONES:
        raise _too_large(f"a number of {len(coordinates.free)} features")
    for number in range(graphs.n_lists):
        done = partial(on_links, sum(sizes[:number]), sum(sizes))
        ways = sorted(_ways(graphs, number, limits, coordinates, done))
        if not ways:
            raise CertificateError("the limits and equations leave no weights")
        for way in ways:
            links = np.array(way, dtype=np.int64)
            features.append(problem.features_of([(number, links)])[0])
            statistics.append(problem.statistics(number, links))
            texts.append(problem.text(number, links))
        offsets.append(len(features))
    columns = problem.settings.columns
    return NBest(np.array(features), offsets, np.array(statistics), graphs.names, graphs.list_ids, columns, texts)


def claimed_lists(graphs: WordGraphs, metric: str | TextMetric | None, header: Header) -> tuple[NBest, Metric]:
    """Return the lists and the metric of a certificate about lattices, checking its loss on all paths.

    Raises `CertificateError` unless its weights have this loss without ties, and `DataError` if `graphs` are no
    lattices.
    """
    if not isinstance(graphs, WordGraphs):
        raise DataError(f"the second argument must be an NBest, Lattices or Hypergraphs, not {type(graphs).__name__}")
    if header.ties != "first":  # of paths with the same features, the lists have the first only
        raise CertificateError(
            f"rule for ties: {quoted(header.ties)} in the certificate, but on lattices the first counts"
        )
    problem = LatticeProblem(graphs, "wer" if metric in (None, "loss") and graphs.losses is None else metric or "loss")
    agreeing(("features", list(header.weights), list(graphs.names)))
    if any(len(row) != len(graphs.names) or not any(row) for row in header.limits):
        raise CertificateError(f"every limit must have {len(graphs.names)} numbers, not all 0")
    lost = lost_on_paths(problem, header.equations, list(header.weights.values()))
    if not isfinite(lost) or abs(Fraction(lost) - header.loss) > (0 if problem.additive else _NEAR):
        raise CertificateError(f"on all paths the weights lose {lost:g}, not {header.loss}")
    return lists_of(graphs, problem.given_metric, header.limits, header.equations), problem.metric


def lost_on_paths(problem: LatticeProblem, equations: Equations, weights: Sequence[float]) -> float:
    """Return the loss of the best paths at weights [D]; that of a ratio is rounded.

    Raises `CertificateError` if paths that differ in features and statistics tie.
    """
    coordinates, exact = Coordinates.of(problem.lattices, equations), [Fraction(weight) for weight in weights]
    total = sum(_statistics_at(problem, number, coordinates, exact) for number in range(problem.lattices.n_lists))
    return float(problem.metric.loss(np.asarray(total)))


class Coordinates(NamedTuple):
    """Coordinates of the weights that fulfil equations, in which none of them restricts the weights.

    basis [D, d]: spans these weights; free [d]: the features of the coordinates. whole [D, d]: turns features, as
    multiples of the lattices' units, into integer features of the coordinates; factors [d]: how much larger these are
    than the features times the basis.
    """

    basis: Whole
    whole: Whole
    factors: Whole
    free: list[int]

    @classmethod
    def of(cls, graphs: WordGraphs, equations: Equations) -> Coordinates:
        """Return the coordinates for lattices; without equations, one for each feature."""
        basis, free = basis_of(equations, len(graphs.names))
        if not free:
            raise CertificateError("the equations leave no weights")
        exact = basis * np.array([[Fraction(unit)] for unit in graphs.units.tolist()], dtype=object)
        nonzeros = [[value for value in column if value] for column in exact.T.tolist()]
        factors = [Fraction(lcm(*(x.denominator for x in xs)), gcd(*(x.numerator for x in xs))) for xs in nonzeros]
        return cls(basis, exact * factors // 1, np.array(factors, dtype=object), free)

    def rows(self, graph: Graph, units: FloatArray) -> list[list[int]]:
        """Return the integer features [L, d] of the links of a lattice in these coordinates."""
        rows: list[list[int]] = ((graph.features / units).astype(np.int64).astype(object) @ self.whole).tolist()
        return rows


def _statistics_at(
    problem: LatticeProblem, number: int, coordinates: Coordinates, weights: list[Fraction]
) -> FloatArray:
    """Return the statistics [K] of the best path of a lattice at weights [D]; those that equations set do not matter.

    Raises `CertificateError` if paths that differ in features and statistics tie.
    """
    graph, name = problem.lattices.graph(number), quoted(problem.lattices.list_ids[number])
    free = [weights[d] / factor for d, factor in zip(coordinates.free, coordinates.factors, strict=True)]
    whole = [int(weight * lcm(*(x.denominator for x in free))) for weight in free]
    rows = coordinates.rows(graph, problem.lattices.units)
    links = _links_of_best_paths(graph, [sum(map(mul, row, whole)) for row in rows])
    part = graph._replace(sources=graph.sources[links], seconds=graph.seconds[links], targets=graph.targets[links])
    best = _labels(part, [rows[k] for k in links.tolist()], eq)
    if best is None:
        raise _too_large(name)
    first, *tied = (problem.statistics(number, links[list(way)]) for _, way in best)
    if any((own != first).any() for own in tied):
        raise CertificateError(f"at the weights, paths of {name} tie")
    return first


def _links_of_best_paths(graph: Graph, scores: list[int]) -> IntArray:
    """Return the links, in order, of all paths with the best score; scores [L]: of the links."""
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), scores, strict=True))
    best, totals = {0: 0}, []  # the best score of each node, and of each link with what leads to it
    for source, second, target, score in links:
        totals.append(best[source] + best[second] + score)
        best[target] = max(totals[-1], best.get(target, totals[-1]))
    reached, found = {graph.n_nodes - 1}, []
    for k, (source, second, target, _) in reversed(list(enumerate(links))):
        if target in reached and totals[k] == best[target]:
            found.append(k)
            reached |= {source, second}
    return np.array(found[::-1], dtype=np.int64)


def _ways(
    graphs: WordGraphs,
    number: int,
    limits: Sequence[Sequence[float]],
    coordinates: Coordinates,
    on_cone: Callable[[], object],
) -> set[Way]:
    """Return the paths of a lattice that may win: in cones that cover the region, all that no other path beats (L1)."""
    graph, width = graphs.graph(number), len(coordinates.free)
    rows = np.array(coordinates.rows(graph, graphs.units), dtype=object)
    sizes = [max(1, size).bit_length() for size in np.abs(rows).sum(axis=0).tolist()]
    scales = [1 << (max(sizes) - size) for size in sizes]  # make scores at the rays of orthants about equally large
    exact = np.array([list(map(Fraction, row)) for row in limits], dtype=object).reshape(-1, len(graphs.names))
    inside = (exact @ coordinates.basis * coordinates.factors * scales).tolist()
    found: set[Way] = set()
    stack = list(orthants(width))
    for _ in range(_MOST_CONES):
        if not stack:
            return found
        on_cone()
        rays = stack.pop()
        if any(all(sum(a * b for a, b in zip(row, ray, strict=True)) <= 0 for ray in rays) for row in inside):
            continue
        labels = _labels(graph, (rows @ (rays * scales).T).tolist(), lambda one, other: all(map(ge, one, other)))
        if labels is not None:
            found.update(way for _, way in labels)
            continue
        p, q = _longest(rays)
        middle = midpoint(rays[p], rays[q])
        stack += [np.array([*rays[:k], middle, *rays[k + 1 :]]) for k in (p, q)]
    raise _too_large(quoted(graphs.list_ids[number]))


def _too_large(what: str) -> CertificateError:
    return CertificateError(f"{what} is too large for a certificate in exact arithmetic")


def orthants(n_features: int) -> Iterator[Whole]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield np.diag(np.array(signs, dtype=object))


def midpoint(first: Whole, second: Whole) -> Whole:
    """Return the sum of two rays after both are scaled to the same sum of absolute values: K2."""
    ray = np.abs(second).sum() * first + np.abs(first).sum() * second
    return np.asarray(ray // gcd(*ray))


def _longest(rays: Whole) -> tuple[int, int]:
    """Return the two rays of a cone that are farthest apart, each scaled to a sum of absolute values of 1."""
    if len(rays) == 1:
        raise CertificateError("a lattice with one feature has too many paths that tie")
    unit = [[Fraction(value, sum(map(abs, ray))) for value in ray] for ray in rays]
    edges = [(p, q) for p in range(len(rays)) for q in range(p)]
    return max(edges, key=lambda edge: sum(abs(a - b) for a, b in zip(unit[edge[0]], unit[edge[1]], strict=True)))


def _labels(graph: Graph, scores: list[list[int]], beats: Callable[[Scores, Scores], bool]) -> list[Label] | None:
    """Return the paths that no other beats, or equals and precedes, or `None` if a node has too many (L1 a to c).

    scores [L, n]: of the links. What beats another score must be larger or equal, compared number by number.
    """
    at: list[list[Label]] = [[((0,) * len(scores[0]), ())], *([] for _ in range(graph.n_nodes - 1))]
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), scores, strict=True))
    k = 0
    for node in range(1, graph.n_nodes):
        new: list[Label] = []
        while k < len(links) and links[k][2] == node:
            checkpoint()
            source, second, _, own = links[k]
            for (first_scores, first_way), (second_scores, second_way) in product(at[source], at[second]):
                total = tuple(a + b + c for a, b, c in zip(own, first_scores, second_scores, strict=True))
                new.append((total, (k, *first_way, *second_way)))
            k += 1
        new.sort(key=itemgetter(1))
        new.sort(key=itemgetter(0), reverse=True)  # of equal scores, the first path stays the first
        unbeaten: list[Label] = []
        for label in checked(new, 100):
            if not any(beats(other[0], label[0]) for other in unbeaten):
                unbeaten.append(label)
                if len(unbeaten) > _MOST_LABELS:
                    return None
        at[node] = unbeaten
    return at[-1]
