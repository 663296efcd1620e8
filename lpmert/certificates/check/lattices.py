"""Lattices and hypergraphs as the N-best lists of all paths that may win, in exact arithmetic and by no search's code.

A proof for these lists is one for all paths: see L1 and L3 in `proofs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import ge

import numpy as np

from lpmert.certificates.check.shapes import Whole, midpoint, orthants
from lpmert.certificates.format import Header
from lpmert.errors import CertificateError, DataError
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TextMetric
from lpmert.model.coordinates import CallerWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.word_graphs import Graph, WordGraphs
from lpmert.quoting import quoted

_MOST_LABELS = 400
"""Partial paths of a node beyond which a cone is halved."""

_MOST_CONES = 2000
"""Of one lattice, beyond which it is too large for exact arithmetic."""

_NEAR = 1e-9
"""By how much a ratio may differ from the exact one."""

Way = tuple[int, ...]
Label = tuple[tuple[int, ...], Way]
"""A partial path: its scores at the rays, and its links from the last to the first."""


def lists_of(graphs: WordGraphs, metric: str | TextMetric, limits: Sequence[Sequence[float]]) -> NBest:
    """Return for each lattice all paths that may be strictly best at weights with positive products with limits [k, D].

    Raises `CertificateError` where these are too many, and `MetricError` for a metric that paths have none of.
    """
    problem = LatticeProblem(graphs, metric)
    features, statistics, texts, offsets = [], [], [], [0]
    for number in range(graphs.n_lists):
        ways = sorted(_ways(graphs, number, limits))
        for way in ways:
            links = np.array(way, dtype=np.int64)
            features.append(problem.features(number, links))
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
    problem = LatticeProblem(graphs, "wer" if metric in (None, "loss") and graphs.losses is None else metric or "loss")
    if header.equations:
        raise CertificateError("certificates of lattices and hypergraphs have no equations")
    if list(header.weights) != list(graphs.names):
        raise CertificateError(f"features: {list(header.weights)} in the certificate, {list(graphs.names)} here")
    verdict = problem.decode(CallerWeights(np.array(list(header.weights.values()))))
    lost = problem.metric.loss(verdict.total)  # what is no sum is compared exactly on the lists, where these paths are
    if not verdict.strict or abs(lost - header.loss) > (0 if problem.additive else _NEAR):
        raise CertificateError(f"on all paths the weights lose {lost:g}, not {header.loss}, or by a tie only")
    return lists_of(graphs, problem.given_metric, header.limits), problem.metric


def _ways(graphs: WordGraphs, number: int, limits: Sequence[Sequence[float]]) -> set[Way]:
    """Return the paths of a lattice that no other equals or beats at all rays of some of the cones of a cover."""
    graph = graphs.graph(number)
    units = [Fraction(unit) for unit in graphs.units.tolist()]
    rows = (graph.features / graphs.units).astype(np.int64).tolist()
    sizes = [max(1, sum(abs(row[d]) for row in rows)).bit_length() for d in range(len(units))]
    scales = [1 << (max(sizes) - size) for size in sizes]  # at the rays of orthants scores are of about the same size
    inside = [[Fraction(limit) * s / u for limit, s, u in zip(row, scales, units, strict=True)] for row in limits]
    found: set[Way] = set()
    waiting = list(orthants(len(units)))
    for _ in range(_MOST_CONES):
        if not waiting:
            return found
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
    raise CertificateError(f"{quoted(graphs.list_ids[number])} is too large for a certificate in exact arithmetic")


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
        for label in new:
            if not any(all(map(ge, other[0], label[0])) for other in kept):
                kept.append(label)
                if len(kept) > _MOST_LABELS:
                    return None
        at[node] = kept
    return at[-1]
