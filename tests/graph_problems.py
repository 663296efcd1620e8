"""Random small lattices and hypergraphs, all their paths one by one, and the least loss of these in exact arithmetic.

The twin of `problems.py` for graphs: what links weigh comes from the same kinds of features, limits and equations from
the same kinds of regions, and `fuzz.py` says what must hold of the results.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from oracle import identical
from problems import FEATURES, THIN, Case, bleu_loss, chrf_loss, feature_names, region

from lpmert import Hypergraphs, Lattices, NBest, Region
from lpmert.metrics import Metric, measure_texts
from lpmert.model.graphs import Graph
from lpmert.model.lattice_problem import LatticeProblem

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
    more_links = [tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(more)]
    return [(i, i + 1) for i in range(n - 1)] + more_links


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


def real_lattices(seed: int, n_lattices: int, nodes: tuple[int, int], more: Any, scales: list[float]) -> Lattices:
    """Lattices without ties; nodes, more: of `random_links`; scales: of the features."""
    rng = np.random.default_rng(seed)
    offsets, sources, targets = random_links(rng, n_lattices, nodes, more)
    features = rng.normal(size=(len(sources), len(scales))) * scales
    words = [WORDS[int(rng.integers(len(WORDS)))] for _ in sources]
    references = [" ".join(rng.choice(["a", "b", "c"], rng.integers(1, 4)).tolist()) for _ in range(n_lattices)]
    return Lattices(features, offsets, sources, targets, words, references)


def all_ways(graph: Graph) -> list[list[int]]:
    """All paths of a lattice or derivations of a hypergraph, as links in the order of a walk from the end."""
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), strict=True))

    def of(node: int) -> list[list[int]]:
        if node == 0:
            return [[]]
        into = [(k, u, v) for k, (u, v, target) in enumerate(links) if target == node]
        return [[k, *first, *second] for k, u, v in into for first in of(u) for second in of(v)]

    return of(graph.n_nodes - 1)


def lists_of_all_ways(graphs: Lattices | Hypergraphs, metric: str) -> tuple[NBest, Metric]:
    """N-best lists of all ways through graphs, and the metric that sums their statistics."""
    problem = LatticeProblem(graphs, metric)
    ways = [[np.array(way) for way in all_ways(graph)] for graph in problem.graphs]
    rows = problem.features_of([(number, way) for number, own in enumerate(ways) for way in own])
    texts = [problem.text(number, way) for number, own in enumerate(ways) for way in own]
    offsets = np.cumsum([0, *map(len, ways)])
    plain = NBest(np.array(rows), offsets, np.zeros(len(rows)), texts=texts)
    return measure_texts(plain, graphs.references, metric)


Derivation = tuple[tuple[int, ...], list[str]]
"""Edges from the goal on, first tails first, or the links of a path from its end on; and the words."""


class DrawnGraphs:
    """Random small graphs as they are given: the edges with their heads, tails and outputs, a goal for each graph."""

    heads: list[int]
    tails: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[str | int, ...]]
    goals: list[int]
    starts: Sequence[int] = ()
    """The node of each graph that nothing has to derive, if there is one."""
    offsets: list[int]
    features: Any
    references: list[str]

    def derivations(self, number: int, node: int | None = None) -> list[Derivation]:
        """All derivations of a node, or the goal, in the order in which they stand for each other: edge by edge."""
        node = self.goals[number] if node is None else node
        found: list[Derivation] = [((), [])] if self.starts and node == self.starts[number] else []
        for edge in range(self.offsets[number], self.offsets[number + 1]):
            if self.heads[edge] != node:
                continue
            output = self.outputs[edge]
            for below in product(*(self.derivations(number, tail) for tail in self.tails[edge])):
                words: list[str] = []
                for word in output:
                    words += [word] if isinstance(word, str) else below[word][1]
                found.append(((edge, *(one for edges, _ in below for one in edges)), words))
        return found

    def sums(self, edges: Sequence[int]) -> list[Fraction]:
        rows = [[Fraction(value) for value in self.features[edge].tolist()] for edge in edges]
        return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]


class Drawn(DrawnGraphs):
    """Lattices: each link is an edge with one tail."""

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
        reach, parts = {"integers": (3, 1.0), "ternary": (1, 1.0), "dyadic": (50, 16.0)}[kind]
        self.features = rng.integers(-reach, reach + 1, (len(self.sources), width)) / parts
        self.heads, self.tails, self.goals = self.targets, [(source,) for source in self.sources], self.ends

    @property
    def outputs(self) -> list[tuple[str | int, ...]]:
        return [(0,) if word is None else (0, word) for word in self.words]

    def lattices(self, **more: Any) -> Lattices:
        links = self.features, self.offsets, self.sources, self.targets, self.words
        return Lattices(*links, self.references, starts=self.starts, ends=self.ends, **more)

    def paths(self, number: int) -> list[tuple[int, ...]]:
        return [path for path, _ in self.derivations(number)]

    @property
    def searchable(self) -> bool:
        """Whether every lattice has a path, and none only one without links, which is refused."""
        return all(any(self.paths(number)) for number in range(len(self.references)))

    def listed(self) -> tuple[list[list[Fraction]], list[int], list[int]]:
        """Features, offsets and losses of all paths of all lattices."""
        features, offsets, losses = [], [0], []
        for number, reference in enumerate(self.references):
            for path, words in self.derivations(number):
                features.append(self.sums(path))
                losses.append(edits(words, reference.split()))
            offsets.append(len(features))
        return features, offsets, losses


def listed_paths(drawn: Drawn, metric: str) -> tuple[NBest, Metric]:
    """N-best lists of all paths, and the metric that sums their statistics."""
    features, offsets, losses = drawn.listed()
    paths = [path for number in range(len(drawn.references)) for path in drawn.derivations(number)]
    texts = [" ".join(words) for _, words in paths]
    plain = NBest(np.array(features, dtype=float), offsets, losses, texts=texts)
    return measure_texts(plain, drawn.references, metric)


class DrawnHypergraphs(DrawnGraphs):
    """Hypergraphs whose edges have up to three tails, with unused nodes and edges that cannot be derived.

    most: derivations of each; words: letters to draw from.
    """

    def __init__(self, seed: int, n_graphs: int, width: int, most: int, words: str = "abc") -> None:
        rng = np.random.default_rng(seed)
        self.heads, self.tails, self.outputs = [], [], []
        self.offsets, self.references, self.goals = [0], [], []
        while len(self.goals) < n_graphs:
            n = int(rng.integers(1, 5))
            numbers = rng.permutation(n + 1).tolist()  # the last one is derived by nothing
            first = len(self.heads)
            for rank in range(n):
                for _ in range(int(rng.integers(1, 4))):
                    below = [] if rank == 0 else rng.integers(0, rank, size=rng.integers(0, 4)).tolist()
                    below = [n if rng.random() < 0.05 else node for node in below]
                    output: list[str | int] = [str(word) for word in rng.choice(list(words), rng.integers(0, 3))]
                    output += range(len(below))
                    self.heads.append(numbers[rank])
                    self.tails.append(tuple(numbers[node] for node in below))
                    self.outputs.append(tuple(output[k] for k in rng.permutation(len(output)).tolist()))
            goal = numbers[int(rng.integers(0, n))]
            if not 1 <= self.count(goal, first) <= most:
                del self.heads[first:], self.tails[first:], self.outputs[first:]
                continue
            self.offsets.append(len(self.heads))
            self.goals.append(goal)
            self.references.append(" ".join(rng.choice(list(words), rng.integers(1, 6)).tolist()))
        shape = len(self.heads), width
        self.features = rng.integers(-3, 4, size=shape) / rng.choice([1.0, 4.0])
        self.losses = rng.integers(0, 4, size=len(self.heads))

    def graphs(self, **more: Any) -> Hypergraphs:
        edges = self.features, self.offsets, self.heads, self.tails, self.outputs
        return Hypergraphs(*edges, self.references, goals=self.goals, **{"losses": self.losses, **more})

    def count(self, node: int, first: int) -> int:
        """How many derivations of a node the edges from the first on have."""
        edges = [edge for edge in range(first, len(self.heads)) if self.heads[edge] == node]
        return sum(prod(self.count(tail, first) for tail in self.tails[edge]) for edge in edges)


METRICS = ("wer", "cer", "loss", "bleu", "chrf")


@dataclass(frozen=True)
class GraphCase(Case):
    """Lattices or hypergraphs as the lists of all their paths; sums, texts: the exact features of the paths, and what
    they say.
    """

    sums: list[list[Fraction]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @cached_property
    def _meant(self) -> list[list[Fraction]]:
        return self.sums


def graph_problem(features: str, metric: str, seed: int, *, in_region: bool = False, kind: str = "") -> GraphCase:
    """Lattices, or for every third seed hypergraphs, whose links have features of this kind; kind: of region."""
    in_region = in_region or bool(kind)
    drawn, paths, width, rng = _drawn(features, metric, seed, in_region=in_region)
    kind, settings, half_spaces, equations = region(rng, width, kind) if in_region else ("", {}, [], [])
    names = feature_names(width)
    losses = rng.integers(0, 5, len(drawn.features)).astype(float)
    drawn.features = np.asarray(FEATURES[features](rng, drawn.offsets, drawn.features.shape), dtype=np.float64)
    graphs = (drawn.lattices if isinstance(drawn, Drawn) else drawn.graphs)(losses=losses, names=names)
    links = rounded(graphs, drawn.features)
    sums, texts, values, offsets = [], [], [], [0]
    for own, reference in zip(paths, drawn.references, strict=True):
        for way, words in own:
            sums.append([sum((links[link][d] for link in way), Fraction(0)) for d in range(width)])
            texts.append(" ".join(words))
            values.append((*map(Fraction, _value(metric, way, words, reference.split(), losses)),))
        offsets.append(len(sums))
    loss = {"bleu": bleu_loss, "chrf": chrf_loss}.get(metric)
    name = f"{type(graphs).__name__}, {features}, {metric}, {seed}" + (f", {kind}" if kind else "")
    rows, statistics = np.array(sums, dtype=float), np.array(values, dtype=float)
    limits = Region(**settings) if in_region else None, half_spaces, equations
    known = {"exact": loss is None, "thin": features in THIN or kind == "many", "sums": sums, "texts": texts}
    return GraphCase(name, rows, offsets, statistics, values, metric, loss, *limits, given=graphs, **known)


def _drawn(
    features: str, metric: str, seed: int, *, in_region: bool
) -> tuple[Drawn | DrawnHypergraphs, list[list[Derivation]], int, np.random.Generator]:
    """Graphs with few derivations, all of which are known; where n-grams count, most words are the same."""
    rng = np.random.default_rng([seed, *features.encode(), *metric.encode(), int(in_region), 11])
    letters = "aaab" if metric in ("bleu", "chrf") else "abc"
    while True:
        width, count = int(rng.choice([1, 2, 2, 3, 3, 4, 5])), int(rng.integers(1, 4))
        number = int(rng.integers(2**31))
        if seed % 3 == 2:
            drawn: Drawn | DrawnHypergraphs = DrawnHypergraphs(number, count, width, 12, letters)
        else:
            drawn = Drawn(number, "integers", count, width)
            if letters != "abc":
                drawn.words = [None if word is None else letters[k % 4] for k, word in enumerate(drawn.words)]
        paths = [drawn.derivations(s) for s in range(count)]
        # A lattice whose only path has no links is refused.
        whole = all(own and all(way for way, _ in own) for own in paths)
        if whole and 1 < prod(len(own) for own in paths) <= 400:
            if letters != "abc":
                drawn.references = [" ".join(rng.choice(list(letters), rng.integers(4, 8)).tolist()) for _ in paths]
            return drawn, paths, width, rng


def rounded(graphs: Lattices | Hypergraphs, given: np.ndarray) -> list[list[Fraction]]:
    """The features of the links [L, D] rounded to multiples of the graphs' units, which docs/lattices.md promises.

    Every link that the graphs hold must have such features; those between the several tails of an edge have none.
    """
    units = [Fraction(unit) for unit in graphs.units.tolist()]
    found = [
        [round(Fraction(value) / unit) * unit for value, unit in zip(row, units, strict=True)] for row in given.tolist()
    ]
    held = {tuple(map(Fraction, row)) for row in graphs.features.tolist()}
    assert held <= {(Fraction(0),) * len(units), *map(tuple, found)}, "links have other features than those given"
    return found


def _value(metric: str, way: Sequence[int], words: list[str], reference: list[str], losses: Any) -> list[int]:
    if metric == "loss":
        return [int(losses[[*way]].sum())]
    if metric == "wer":
        return [edits(words, reference)]
    if metric == "cer":
        return [edits(list(" ".join(words)), list(" ".join(reference)))]
    if metric == "chrf":
        return chrf_counts("".join(words), "".join(reference))
    return [*bleu_counts(words, reference), len(reference)]


def bleu_counts(words: list[str], reference: list[str]) -> list[int]:
    """Papineni et al. 2002: clipped matches and totals of the orders 1 to 4."""
    counts = []
    for n in range(1, 5):
        own, other = (Counter(tuple(text[k : k + n]) for k in range(len(text) - n + 1)) for text in (words, reference))
        counts += [(own & other).total(), own.total()]
    return counts


def chrf_counts(text: str, reference: str) -> list[int]:
    """Popović 2015: n-grams of characters of both, and the matches among them, of the orders 1 to 6.

    As in sacrebleu, n-grams of an order that the reference is too short for do not count.
    """
    counts = []
    for n in range(1, 7):
        own, other = (Counter(one[k : k + n] for k in range(len(one) - n + 1)) for one in (text, reference))
        counts += [own.total() if other else 0, other.total(), (own & other).total()]
    return counts


def with_ties(case: Case, ties: str) -> Case:
    """The problem whose identical hypotheses all have the least, or the most, of their losses: what `ties` promises."""
    values = list(case.values)
    pick = min if ties == "best" else max
    for begin, end in pairwise(case.offsets):
        for group in identical(case.left[begin:end]):
            worth = pick(case.values[begin + k] for k in group)
            for k in group:
                values[begin + k] = worth
    return replace(case, name=f"{case.name}, ties {ties}", values=values)
