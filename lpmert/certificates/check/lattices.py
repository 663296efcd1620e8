"""Lattices and hypergraphs as the N-best lists of all paths that may win, in exact arithmetic and by no search's code.

A proof for these lists is one for all paths: see L1 and L3 in `proofs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import gcd, isfinite, lcm
from operator import ge, mul
from typing import NamedTuple

import numpy as np

from lpmert.certificates.check.regions import Equations, Whole, basis_of
from lpmert.certificates.format import Header, agreeing
from lpmert.errors import CertificateError, DataError, FloatArray
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TextMetric
from lpmert.model.graphs import Graph, WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted
from lpmert.system.deadline import Pace, checked, checkpoint

_MOST_LABELS = 400
"""Partial paths of a node beyond which a cone is halved."""

_MOST_CONES = 2000
"""Of one lattice, beyond which it is too large for exact arithmetic."""

_NEAR = Fraction(1, 10**9)
"""By how much a ratio may differ from the exact one."""

_MOST_TIED = 100
"""Paths of a lattice that may have the best score."""

Way = tuple[int, ...]
Label = tuple[tuple[int, ...], Way]
"""A partial path: its scores at the rays, and its links from the last to the first."""


def lists_of(
    graphs: WordGraphs,
    metric: str | TextMetric,
    limits: Sequence[Sequence[float]],
    equations: Equations = (),
    on_links: Callable[[int, int], object] = lambda *_: None,
) -> NBest:
    """Return for each lattice all paths that may be strictly best at weights with positive products with limits [k, D]
    that fulfil equations [e, D]; the first of those that such weights do not tell apart. on_links: gets the number of
    links that were looked through, and of all; small lattices come first, so that the pace mostly falls.

    Raises `CertificateError` where these are too many, and `MetricError` for a metric that paths have none of.
    """
    problem, turned = LatticeProblem(graphs, metric), Turned.of(graphs, equations)
    features, statistics, texts, offsets = [], [], [], [0]
    sizes = [len(graphs.graph(number).targets) for number in range(graphs.n_lists)]
    if 1 << len(turned.free) > _MOST_CONES:
        raise _too_large(f"a number of {len(turned.free)} features")
    found: dict[int, list[Way]] = {}
    done, pace = 0, Pace(sum(sizes), "finding the paths that may win, in exact arithmetic,")
    for number in sorted(range(graphs.n_lists), key=sizes.__getitem__):
        found[number] = sorted(_ways(graphs, number, limits, turned, partial(on_links, done, sum(sizes))))
        if not found[number]:
            raise CertificateError("the limits and equations leave no weights")
        done += sizes[number]
        pace.check(done)
    for number in range(graphs.n_lists):
        for way in found[number]:
            links = np.array(way, dtype=np.int64)
            features.append(problem.features_of([(number, links)])[0])
            statistics.append(problem.statistics(number, links))
            texts.append(problem.text(number, links))
        offsets.append(len(features))
    columns = problem.settings.columns
    return NBest(np.array(features), offsets, np.array(statistics), graphs.names, graphs.list_ids, columns, texts)


def claimed_lists(graphs: WordGraphs, metric: str | TextMetric | None, header: Header) -> tuple[NBest, Metric]:
    """Return the lists of the lattices that a certificate is about, and the metric.

    Raises `CertificateError` unless its weights lose on all paths what it says, without ties, and `DataError` for what
    are no lattices.
    """
    if not isinstance(graphs, WordGraphs):
        raise DataError(f"the second argument must be an NBest, Lattices or Hypergraphs, not {type(graphs).__name__}")
    if header.ties != "first":  # the lists have no more than the first of the paths with the same features
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
    """Return the loss of the best paths at weights [D]: of ratios, which are compared exactly on the lists, rounded.

    Raises `CertificateError` where paths tie that differ in features and statistics.
    """
    turned, exact = Turned.of(problem.lattices, equations), [Fraction(weight) for weight in weights]
    total = sum(_lost(problem, number, turned, exact) for number in range(problem.lattices.n_lists))
    return float(problem.metric.loss(np.asarray(total)))


class Turned(NamedTuple):
    """Coordinates in which weights that fulfil equations are free.

    basis [D, d]: spans these weights; whole [D, d]: makes whole numbers of features, as multiples of the units;
    factors [d]: by which these are larger; free: the features of the coordinates.
    """

    basis: Whole
    whole: Whole
    factors: Whole
    free: list[int]

    @classmethod
    def of(cls, graphs: WordGraphs, equations: Equations) -> Turned:
        """Return the coordinates for lattices; without equations, the features as multiples of their units."""
        basis, free = basis_of(equations, len(graphs.names))
        if not free:
            raise CertificateError("the equations leave no weights")
        exact = basis * np.array([[Fraction(unit)] for unit in graphs.units.tolist()], dtype=object)
        shares = [[value for value in column if value] for column in exact.T.tolist()]
        factors = [Fraction(lcm(*(x.denominator for x in own)), gcd(*(x.numerator for x in own))) for own in shares]
        return cls(basis, exact * factors // 1, np.array(factors, dtype=object), free)

    def rows(self, graph: Graph, units: FloatArray) -> list[list[int]]:
        """Return the coordinates [L, d] of the links of a lattice."""
        rows: list[list[int]] = ((graph.features / units).astype(np.int64).astype(object) @ self.whole).tolist()
        return rows


def _lost(problem: LatticeProblem, number: int, turned: Turned, weights: list[Fraction]) -> FloatArray:
    """Return the statistics [K] of what is best in a lattice at weights [D], without those that equations set.

    Raises `CertificateError` where paths tie that differ in features and statistics.
    """
    graph = problem.lattices.graph(number)
    rows = turned.rows(graph, problem.lattices.units)
    free = [weights[d] / factor for d, factor in zip(turned.free, turned.factors, strict=True)]
    whole = [int(weight * lcm(*(own.denominator for own in free))) for weight in free]
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), strict=True))
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}  # of each node the best score, and the links it comes by
    for k, (source, second, target) in enumerate(links):
        score = best[source][0] + best[second][0] + sum(map(mul, rows[k], whole))
        if target not in best or score > best[target][0]:
            best[target] = score, []
        if score == best[target][0]:
            best[target][1].append(k)
    ways: list[Way] = []
    waiting: list[tuple[tuple[int, ...], Way]] = [((graph.n_nodes - 1,), ())]
    while waiting and len(ways) <= _MOST_TIED:
        nodes, way = waiting.pop()
        if not nodes:
            ways.append(way)
            continue
        for k in best[nodes[-1]][1]:
            below = [node for node in (links[k][1], links[k][0]) if node]
            waiting.append(((*nodes[:-1], *below), (*way, k)))
    found = []
    for way in sorted(ways):
        same = tuple(sum(rows[k][d] for k in way) for d in range(len(whole)))
        found.append((problem.statistics(number, np.array(way, dtype=np.int64)), same))
    if waiting or any((own != found[0][0]).any() and same != found[0][1] for own, same in found):
        raise CertificateError(f"at the weights, paths of {quoted(problem.lattices.list_ids[number])} tie")
    return found[0][0]


def _ways(
    graphs: WordGraphs, number: int, limits: Sequence[Sequence[float]], turned: Turned, tell: Callable[[], object]
) -> set[Way]:
    """Return the paths of a lattice that no other equals or beats at all rays of some of the cones of a cover.

    tell: called for each cone.
    """
    graph, width = graphs.graph(number), len(turned.free)
    rows = turned.rows(graph, graphs.units)
    sizes = [max(1, sum(abs(row[d]) for row in rows)).bit_length() for d in range(width)]
    scales = [1 << (max(sizes) - size) for size in sizes]  # at the rays of orthants scores are of about the same size
    exact = np.array([list(map(Fraction, row)) for row in limits], dtype=object).reshape(-1, len(graphs.names))
    inside = (exact @ turned.basis * turned.factors * scales).tolist()
    found: set[Way] = set()
    waiting = list(orthants(width))
    for _ in range(_MOST_CONES):
        if not waiting:
            return found
        tell()
        rays = waiting.pop()
        if any(all(sum(a * b for a, b in zip(row, ray, strict=True)) <= 0 for ray in rays) for row in inside):
            continue
        weights = [[s * value for s, value in zip(scales, ray, strict=True)] for ray in rays]
        labels = _labels(graph, rows, weights)
        if labels is not None:
            found.update(way for _, way in labels)
            continue
        p, q = _longest(rays)
        middle = midpoint(rays[p], rays[q])
        waiting += [np.array([*rays[:k], middle, *rays[k + 1 :]]) for k in (p, q)]
    raise _too_large(quoted(graphs.list_ids[number]))


def _too_large(what: str) -> CertificateError:
    return CertificateError(f"{what} is too large for a certificate in exact arithmetic")


def orthants(n_features: int) -> Iterator[Whole]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield np.diag(np.array(signs, dtype=object))


def midpoint(first: Whole, second: Whole) -> Whole:
    """Return the sum of two rays, brought to equal sums of absolute values."""
    ray = np.abs(second).sum() * first + np.abs(first).sum() * second
    return np.asarray(ray // gcd(*ray))


def _longest(rays: Whole) -> tuple[int, int]:
    """Return the longest edge of a cone, its rays scaled to length 1."""
    if len(rays) == 1:
        raise CertificateError("a lattice with one feature has too many paths that tie")
    unit = [[Fraction(value, sum(map(abs, ray))) for value in ray] for ray in rays]
    edges = [(p, q) for p in range(len(rays)) for q in range(p)]
    return max(edges, key=lambda edge: sum(abs(a - b) for a, b in zip(unit[edge[0]], unit[edge[1]], strict=True)))


def _labels(graph: Graph, rows: list[list[int]], weights: list[list[int]]) -> list[Label] | None:
    """Return the paths that no other equals or beats at all rays, or `None` where a node has too many of them."""
    nothing: Label = ((0,) * len(weights), ())
    at: list[list[Label]] = [[nothing], *([] for _ in range(graph.n_nodes - 1))]
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), rows, strict=True))
    k = 0
    for node in range(1, graph.n_nodes):
        new: list[Label] = []
        while k < len(links) and links[k][2] == node:
            checkpoint()
            source, second, _, own = links[k]
            scores = tuple(sum(a * b for a, b in zip(own, ray, strict=True)) for ray in weights)
            for reached, way in at[source]:
                for more, beside in at[second]:
                    total = tuple(a + b + c for a, b, c in zip(scores, reached, more, strict=True))
                    new.append((total, (k, *way, *beside)))
            k += 1
        # What beats another one has a larger sum of scores, or the same features and comes first.
        new.sort(key=lambda label: (-sum(label[0]), label[1]))
        kept: list[Label] = []
        for label in checked(new, 100):
            if not any(all(map(ge, other[0], label[0])) for other in kept):
                kept.append(label)
                if len(kept) > _MOST_LABELS:
                    return None
        at[node] = kept
    return at[-1]
