"""Random small lattices as they are given, and all their paths one by one, by code that shares none."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import oracle

from lpmert import NBest, Region
from lpmert.errors import FloatArray
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TEXT_METRICS
from lpmert.model.graphs import Graph, Lattices

Path = tuple[int, ...]
WORDS = ("a", "b", "c", None)


def edits(first: list[str], second: list[str]) -> int:
    row = list(range(len(second) + 1))
    for i, x in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def random_pairs(rng: np.random.Generator, n: int, more: int) -> list[tuple[int, ...]]:
    """Links of a lattice of n nodes: from each node to the next, and `more` that lead forward, too."""
    return [(i, i + 1) for i in range(n - 1)] + [
        tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(more)
    ]


def random_links(
    rng: np.random.Generator, n_lattices: int, nodes: tuple[int, int], more: int | tuple[int, int]
) -> tuple[list[int], list[int], list[int]]:
    """Offsets, sources and targets of random lattices with parallel links.

    nodes: of a lattice, from the first number to below the second; more: links beyond those to the next node, likewise.
    """
    sources, targets, offsets = [], [], [0]
    for _ in range(n_lattices):
        n = int(rng.integers(*nodes))
        pairs = random_pairs(rng, n, more if isinstance(more, int) else int(rng.integers(*more)))
        sources += [i for i, _ in pairs]
        targets += [j for _, j in pairs]
        offsets.append(len(sources))
    return offsets, sources, targets


def all_paths(graph: Graph) -> list[list[int]]:
    """All paths of a lattice, as links within it, from the start on."""
    links = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))

    def onwards(node: int) -> list[list[int]]:
        if node == graph.n_nodes - 1:
            return [[]]
        return [[k, *rest] for k, (u, v) in enumerate(links) if u == node for rest in onwards(v)]

    return onwards(0)


def decoded_loss(
    features: Sequence[Sequence[Fraction]], offsets: Sequence[int], losses: Sequence[int], weights: FloatArray
) -> int:
    """What the first hypotheses with the highest scores lose at these weights, in exact arithmetic."""
    exact = [Fraction(weight) for weight in weights.tolist()]
    total = 0
    for start, end in pairwise(offsets):
        scores = [sum(w * x for w, x in zip(exact, row, strict=True)) for row in features[start:end]]
        total += losses[start + scores.index(max(scores))]
    return total


class Drawn:
    """Random small lattices as they are given, and all their paths in the order in which they stand for each other."""

    def __init__(self, seed: int, kind: str, n_lattices: int, width: int) -> None:
        rng = np.random.default_rng(seed)
        self.sources: list[int] = []
        self.targets: list[int] = []
        self.words: list[str | None] = []
        self.offsets, self.references, self.starts, self.ends = [0], [], [], []
        for _ in range(n_lattices):
            n = int(rng.integers(2, 7))
            numbers = rng.permutation(n)  # nodes need not be numbered along the links
            links = random_pairs(rng, n, int(rng.integers(0, 8)))
            for place in rng.permutation(len(links)).tolist():
                i, j = links[place]
                self.sources.append(int(numbers[i]))
                self.targets.append(int(numbers[j]))
                self.words.append(WORDS[int(rng.integers(len(WORDS)))])
            self.offsets.append(len(self.sources))
            self.starts.append(int(numbers[0]))
            self.ends.append(int(numbers[int(rng.integers(1, n))]))  # what lies beyond are dead ends
            self.references.append(" ".join(rng.choice(["a", "b", "c"], rng.integers(0, 4)).tolist()))
        shape = len(self.sources), width
        self.features = {
            "integers": lambda: rng.integers(-3, 4, size=shape).astype(float),
            "ternary": lambda: rng.integers(-1, 2, size=shape).astype(float),
            "dyadic": lambda: rng.integers(-50, 51, size=shape) / 16.0,
            "large": lambda: rng.integers(-(10**9), 10**9, size=shape).astype(float),
            "steep": lambda: rng.integers(-3, 4, size=shape) * 2.0 ** np.arange(0, 30 * width, 30),
        }[kind]()

    def lattices(self) -> Lattices:
        return Lattices(
            self.features,
            self.offsets,
            self.sources,
            self.targets,
            self.words,
            self.references,
            starts=self.starts,
            ends=self.ends,
        )

    def paths(self, number: int) -> list[Path]:
        """All paths of a lattice, those first that come first link by link from the end."""
        first, last = self.offsets[number], self.offsets[number + 1]
        found: list[Path] = []

        def walk(node: int, way: Path) -> None:
            if node == self.starts[number]:
                found.append(way)
            for link in range(first, last):
                if self.targets[link] == node:
                    walk(self.sources[link], (*way, link))

        walk(self.ends[number], ())
        return found

    def listed(self) -> tuple[list[list[Fraction]], list[int], list[int]]:
        """Features, offsets and losses of all paths of all lattices."""
        features, offsets, losses = [], [0], []
        for number, reference in enumerate(self.references):
            for way in self.paths(number):
                rows = [[Fraction(value) for value in self.features[link].tolist()] for link in way]
                features.append([sum(column, Fraction(0)) for column in zip(*rows, strict=True)])
                said = [word for link in reversed(way) if (word := self.words[link]) is not None]
                losses.append(edits(said, reference.split()))
            offsets.append(len(features))
        return features, offsets, losses


def limits_of(seed: int, width: int) -> tuple[Region | None, list[list[int]]]:
    """A region, and its limits as rows with a positive product."""
    unit = np.eye(width, dtype=int).tolist()
    names = [f"feature{d + 1}" for d in range(width)]
    kinds: list[tuple[Region | None, list[list[int]]]] = [
        (None, []),
        (Region(nonnegative=True), unit),
        (Region(bounds={names[0]: (0, None)}), unit[:1]),
    ]
    if width > 1:
        least, most = [-2, 1] + [0] * (width - 2), [3, -1] + [0] * (width - 2)
        box = Region(fixed={names[0]: 1.0}, bounds={names[1]: (2.0, 3.0)})
        kinds.append((box, [unit[0], least, most]))
    return kinds[seed % len(kinds)]


def least_loss(drawn: Drawn, limits: list[list[int]]) -> int | None:
    features, offsets, losses = drawn.listed()
    found = oracle.attainable(features, offsets, limits)
    return min((sum(losses[row] for row in rows) for rows in found), default=None)


def texts_of(drawn: Drawn) -> list[str]:
    ways = [way for number in range(len(drawn.references)) for way in drawn.paths(number)]
    return [" ".join(word for link in reversed(way) if (word := drawn.words[link]) is not None) for way in ways]


def listed_paths(drawn: Drawn, metric: str) -> tuple[NBest, Metric]:
    """N-best lists of all paths, and the metric that sums their statistics."""
    features, offsets, _ = drawn.listed()
    texts, settings = texts_of(drawn), TEXT_METRICS[metric]
    statistics = [
        settings.counter([reference])(text)
        for reference, (start, end) in zip(drawn.references, pairwise(offsets), strict=True)
        for text in texts[start:end]
    ]
    return NBest(np.array(features, dtype=float), offsets, np.array(statistics, dtype=float)), settings.metric("")
