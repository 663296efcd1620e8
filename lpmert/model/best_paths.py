"""The paths of a lattice that win at given weights, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.model.word_graphs import Graph
from lpmert.numeric.rounding import EPSILON

MOST_TIED = 64
"""Tied paths of a lattice that are looked at."""


class Winners(NamedTuple):
    """The paths of a lattice that have the best score in exact arithmetic, as links from the last to the first.

    all: whether these are all such paths, or only the first ones.
    """

    ways: list[IntArray]
    all: bool


def best_paths(
    graph: Graph, units: FloatArray, weights: FloatArray, exact: Sequence[Fraction] | None = None
) -> Winners:
    """Return the paths with the best score at weights [d], in exact arithmetic, and those first that stand for others.

    units [d]: of which the features are whole multiples. exact [d]: what the weights are where doubles only come near,
    each to half a unit in its last place. Links that rounding surely rules out are left out first; those
    that are left make up whole paths.
    """
    share = 4.0 * (graph.most_links + len(weights) + 4) * EPSILON * graph.most_links
    through = graph.links().best_through(graph.features @ weights)
    largest = float((np.abs(graph.features) @ np.abs(weights)).max())
    links = np.flatnonzero(through >= through.max() - share * largest)
    targets = graph.targets[links]
    if (targets[1:] != targets[:-1]).all() and not graph.seconds.any():  # one way into each node, and so one path
        return Winners([links[::-1]], True)
    scores_of_links = exact_scores(graph.features[links] / units, weights if exact is None else exact, units)
    best: dict[int, int] = {0: 0}
    leading: dict[int, list[int]] = {}
    for link, own in zip(links.tolist(), scores_of_links, strict=True):
        target = int(graph.targets[link])
        score = best[int(graph.sources[link])] + best[int(graph.seconds[link])] + own
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


def exact_scores(multiples: FloatArray, weights: FloatArray | Sequence[Fraction], units: FloatArray) -> list[int]:
    """Return the scores of rows of whole multiples [n, d] of the units [d], times one common positive factor."""
    factors = [Fraction(weight) * Fraction(unit) for weight, unit in zip(weights, units.tolist(), strict=True)]
    common = lcm(*(factor.denominator for factor in factors))
    whole = [int(factor * common) for factor in factors]
    return [sum(value * factor for value, factor in zip(row, whole, strict=True)) for row in _integers(multiples)]


def _integers(values: FloatArray) -> list[list[int]]:
    rows: list[list[int]] = values.astype(np.int64).tolist()
    return rows
