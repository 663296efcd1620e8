"""Line searches over all paths of lattices, held to brute force over the paths."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from graph_problems import DrawnHypergraphs, all_paths, edits, random_links

import lpmert
from lpmert import Lattices, Region, core
from lpmert.lines.line_search import LatticeLineSearch
from lpmert.lines.local_search import DESCENTS
from lpmert.methods import Och
from lpmert.model.converters import measure_texts
from lpmert.model.graphs import Graph
from lpmert.model.lattice_problem import LatticeProblem

WORDS = ("a", "b", "c", None)


def drawn(seed: int, n_lattices: int, width: int, *, whole: bool) -> Lattices:
    """Random lattices of at most seven nodes, with parallel links and silent ones."""
    rng = np.random.default_rng(seed)
    offsets, sources, targets = random_links(rng, n_lattices, (2, 8), (0, 9))
    shape = len(sources), width
    features = rng.integers(-3, 4, size=shape).astype(float) if whole else rng.normal(size=shape)
    words = [WORDS[int(rng.integers(4))] for _ in sources]
    references = [" ".join(rng.choice(["a", "b", "c"], rng.integers(0, 4)).tolist()) for _ in range(n_lattices)]
    return Lattices(features, offsets, sources, targets, words, references)


def envelope_of(graph: Graph, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Intercepts, slopes and links of the lines of the envelope; intercepts and slopes of links given."""
    intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), a, b)
    assert starts[0] == -np.inf
    assert (np.diff(starts) >= 0).all()
    return intercepts, slopes, np.split(links, ends[1:-1])


class Paths:
    """Every path of all lattices: exact features, and word edits."""

    def __init__(self, lattices: Lattices) -> None:
        self.rows: list[list[tuple[list[Fraction], int]]] = []
        for number in range(lattices.n_lists):
            graph = lattices.graph(number)
            reference = lattices.references[number][0].split()
            own = []
            for path in all_paths(graph):
                said = [lattices.vocabulary[word] for word in graph.words[path].tolist() if word >= 0]
                exact = [[Fraction(value) for value in row] for row in graph.features[path].tolist()]
                own.append(([sum(column, Fraction(0)) for column in zip(*exact, strict=True)], edits(said, reference)))
            self.rows.append(own)

    def lines(self, weights: list[Fraction], direction: list[Fraction]) -> list[list[tuple[Fraction, Fraction, int]]]:
        def dot(one: list[Fraction], other: list[Fraction]) -> Fraction:
            return sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))

        return [[(dot(row, weights), dot(row, direction), cost) for row, cost in own] for own in self.rows]

    def best_on_line(self, weights: np.ndarray, direction: np.ndarray) -> int:
        """The least loss in an open interval of the line, by all crossings of all pairs of paths."""
        lines = self.lines([*map(Fraction, weights.tolist())], [*map(Fraction, direction.tolist())])
        crossings = sorted({(a[0] - b[0]) / (b[1] - a[1]) for own in lines for a in own for b in own if a[1] != b[1]})
        ends = [crossings[0] - 1, *crossings, crossings[-1] + 1] if crossings else [Fraction(-1), Fraction(1)]
        middles = [(a + b) / 2 for a, b in pairwise(ends)]
        return min(self.loss_at(lines, t) for t in middles)

    @staticmethod
    def loss_at(lines: list[list[tuple[Fraction, Fraction, int]]], t: Fraction) -> int:
        return sum(max(own, key=lambda line: (line[0] + t * line[1], -line[2]))[2] for own in lines)


def derivations(graph: Graph) -> list[list[int]]:
    """All derivations of the last node, each as its links in the order of a walk from the root."""
    links = list(zip(graph.sources.tolist(), graph.seconds.tolist(), graph.targets.tolist(), strict=True))

    def of(node: int) -> list[list[int]]:
        if node == 0:
            return [[]]
        return [
            [k, *first, *second]
            for k, (u, v, target) in enumerate(links)
            if target == node
            for first in of(u)
            for second in of(v)
        ]

    return of(graph.n_nodes - 1)


@pytest.mark.parametrize("drawing", ["lattices", "hypergraphs"])
def test_the_envelope_of_a_graph_is_that_of_all_its_derivations(drawing: str) -> None:
    for seed in range(40):
        lattices = drawing == "lattices"
        graphs = drawn(seed, 1, 2, whole=seed % 2 == 0) if lattices else DrawnHypergraphs(seed, 1, 2, 400).graphs()
        graph = graphs.graph(0)
        a, b = graph.features[:, 0].copy(), graph.features[:, 1].copy()
        intercepts, slopes, found_ways = envelope_of(graph, a, b)
        ways = derivations(graph)
        assert (np.diff(slopes) > 0).all()
        for way, intercept, slope in zip(found_ways, intercepts, slopes, strict=True):
            assert way.tolist() in ways
            assert intercept == pytest.approx(a[way].sum(), abs=1e-12)
            assert slope == pytest.approx(b[way].sum(), abs=1e-12)
        rows = [(sum(map(Fraction, a[way].tolist())), sum(map(Fraction, b[way].tolist()))) for way in ways]
        for t in np.concatenate([[-1e6, 1e6], np.linspace(-5, 5, 41)]).tolist():
            most = max(float(x + Fraction(t) * y) for x, y in rows)
            assert max(intercepts + t * slopes) == pytest.approx(most, rel=1e-12, abs=1e-9)


def test_a_line_search_finds_the_least_loss_of_all_paths_on_the_line() -> None:
    for seed in range(40):
        lattices = drawn(seed, 4, 3, whole=False)
        problem, paths = LatticeProblem(lattices), Paths(lattices)
        search = LatticeLineSearch(problem)
        rng = np.random.default_rng(seed)
        weights, direction = rng.normal(size=3), rng.normal(size=3)
        # the search works on features times powers of two, which its coordinates undo
        given = [problem.to_caller(one) for one in (weights, direction)]
        step = search.along(weights, direction)
        assert step.level == paths.best_on_line(*given)
        reached = weights + step.t * direction
        assert search.at(reached) == step.level == lpmert.evaluate(lattices, problem.to_caller(reached)).loss
        assert search.at(weights) == lpmert.evaluate(lattices, given[0]).loss


def test_a_line_keeps_to_its_ends_and_to_the_region() -> None:
    lattices = drawn(3, 5, 3, whole=False)
    problem = LatticeProblem(lattices, region=Region(nonnegative=True))
    search = LatticeLineSearch(problem)
    weights, direction = np.ones(3), np.array([1.0, -1.0, 0.25])
    assert 0.0 <= search.along(weights, direction, low=0.0, high=0.125).t <= 0.125
    free = search.along(weights, direction)
    assert (problem.to_caller(weights + free.t * direction) >= 0).all()


def test_och_on_lattices_is_och_on_the_lists_of_all_paths() -> None:
    lattices = drawn(11, 6, 3, whole=False)
    paths = Paths(lattices)
    rows = [row for own in paths.rows for row, _ in own]
    offsets = np.cumsum([0, *map(len, paths.rows)])
    lists = lpmert.NBest(
        np.array([[float(x) for x in row] for row in rows]), offsets, [[c] for own in paths.rows for _, c in own]
    )
    start = [1.0, -0.5, 0.25]
    for directions in DESCENTS:
        method = Och(restarts=0, directions=directions)
        on_graphs = lpmert.minimize(lattices, method=method, initial_weights=start)
        on_lists = lpmert.minimize(lists, method=method, initial_weights=start)
        assert on_graphs.loss == on_lists.loss


@pytest.mark.parametrize(
    ("sources", "targets"), [([0, 1], [2, 1]), ([0, 2], [1, 2]), ([0, 1], [1, 3]), ([-1, 1], [1, 2])]
)
def test_links_that_are_not_in_order_are_refused(sources: list[int], targets: list[int]) -> None:
    one, other = np.array(sources, dtype=np.int32), np.array(targets, dtype=np.int32)
    with pytest.raises(ValueError, match="targets must be sorted, and each link must lead to a larger node"):
        core.Links(one, np.zeros(2, dtype=np.int32), other, 3)


def test_a_line_through_hypergraphs_is_that_of_the_lists_of_all_derivations() -> None:
    for seed in range(12):
        for metric in ["wer", "bleu"]:
            forests = DrawnHypergraphs(seed, 3, 3, 60).graphs()
            every = [derivations(forests.graph(number)) for number in range(3)]
            problem = LatticeProblem(forests, metric)
            rows = [problem.features(number, np.array(way)) for number, own in enumerate(every) for way in own]
            texts = [problem.text(number, np.array(way)) for number, own in enumerate(every) for way in own]
            offsets = np.cumsum([0, *map(len, every)])
            plain = lpmert.NBest(np.array(rows), offsets, np.zeros(len(rows)), texts=texts)
            lists, summed = measure_texts(plain, forests.references, metric)
            rng = np.random.default_rng(seed)
            weights, direction = rng.normal(size=3), rng.normal(size=3)
            step = LatticeLineSearch(problem).along(problem.to_canonical(weights), problem.to_canonical(direction))
            scores, slopes = np.array(rows) @ weights, np.array(rows) @ direction
            crossings = [
                (scores[i] - scores[j]) / (slopes[j] - slopes[i])
                for begin, end in pairwise(offsets.tolist())
                for i in range(begin, end)
                for j in range(begin, i)
                if abs(slopes[j] - slopes[i]) > 1e-12
            ]
            ends = np.unique([*crossings, 0.0])
            middles = [ends[0] - 1, *((ends[1:] + ends[:-1]) / 2), ends[-1] + 1]
            problem_of_lists = lpmert.Problem(lists, summed)
            losses = [
                problem_of_lists.evaluate(weights + t * direction).loss for t in middles[:: max(1, len(middles) // 300)]
            ]
            assert step.level <= min(losses) + 1e-12
            reached = problem.to_caller(problem.to_canonical(weights) + step.t * problem.to_canonical(direction))
            assert lpmert.evaluate(forests, reached, metric=metric).loss == pytest.approx(step.level, abs=1e-12)
