"""Line searches over all paths of lattices and derivations of hypergraphs, held to brute force over all of them."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from graph_problems import DrawnHypergraphs, all_ways, lists_of_all_ways, real_lattices

import lpmert
from lpmert import Hypergraphs, Lattices, Region, core
from lpmert.lines.line_search import LatticeLineSearch
from lpmert.lines.local_search import DESCENTS
from lpmert.methods import Och
from lpmert.model.lattice_problem import LatticeProblem


def drawn(drawing: str, seed: int, n_graphs: int, width: int, most: int = 60) -> Lattices | Hypergraphs:
    if drawing == "hypergraphs":
        return DrawnHypergraphs(seed, n_graphs, width, most).graphs()
    return real_lattices(seed, n_graphs, (2, 8), (0, 9), [1.0] * width)


@pytest.mark.parametrize("drawing", ["lattices", "hypergraphs"])
def test_the_envelope_of_a_graph_is_that_of_all_its_derivations(drawing: str) -> None:
    for seed in range(40):
        graph = drawn(drawing, seed, 1, 2, 400).graph(0)
        a, b = graph.features[:, 0].copy(), graph.features[:, 1].copy()
        intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), a, b)
        assert starts[0] == -np.inf
        assert (np.diff(starts) >= 0).all()
        assert (np.diff(slopes) > 0).all()
        ways = all_ways(graph)
        for way, intercept, slope in zip(np.split(links, ends[1:-1]), intercepts, slopes, strict=True):
            assert way.tolist() in ways
            assert intercept == pytest.approx(a[way].sum(), abs=1e-12)
            assert slope == pytest.approx(b[way].sum(), abs=1e-12)
        rows = [(sum(map(Fraction, a[way].tolist())), sum(map(Fraction, b[way].tolist()))) for way in ways]
        for t in np.concatenate([[-1e6, 1e6], np.linspace(-5, 5, 41)]).tolist():
            most = max(float(x + Fraction(t) * y) for x, y in rows)
            assert max(intercepts + t * slopes) == pytest.approx(most, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("metric", ["wer", "bleu"])
@pytest.mark.parametrize("drawing", ["lattices", "hypergraphs"])
def test_a_line_search_finds_the_least_loss_of_all_derivations_on_the_line(drawing: str, metric: str) -> None:
    for seed in range(20):
        graphs = drawn(drawing, seed, 3, 3)
        lists, summed = lists_of_all_ways(graphs, metric)
        problem, rng = LatticeProblem(graphs, metric), np.random.default_rng(seed)
        search = LatticeLineSearch(problem)
        weights, direction = rng.normal(size=3), rng.normal(size=3)
        # the search works on features times powers of two, which its coordinates undo
        begin, along = problem.to_canonical(weights), problem.to_canonical(direction)
        step = search.along(begin, along)
        scores, slopes = lists.dense_features() @ weights, lists.dense_features() @ direction
        crossings = [
            (scores[i] - scores[j]) / (slopes[j] - slopes[i])
            for first, end in pairwise(lists.offsets.tolist())
            for i, j in combinations(range(first, end), 2)
            if abs(slopes[j] - slopes[i]) > 1e-12
        ]
        ends = np.unique([*crossings, 0.0])
        middles = [ends[0] - 1, *((ends[1:] + ends[:-1]) / 2), ends[-1] + 1]
        plain = lpmert.Problem(lists, summed)
        losses = [plain.evaluate(weights + t * direction).loss for t in middles[:: max(1, len(middles) // 300)]]
        reached = begin + step.t * along
        loss = lpmert.evaluate(graphs, problem.to_caller(reached), metric=metric).loss
        assert loss == pytest.approx(step.level, abs=1e-12)
        assert search.at(reached) == step.level <= min(losses) + 1e-12
        assert search.at(begin) == pytest.approx(plain.evaluate(weights).loss, abs=1e-12)


def test_a_line_keeps_to_its_ends_and_to_the_region() -> None:
    problem = LatticeProblem(drawn("lattices", 3, 5, 3), region=Region(nonnegative=True))
    search = LatticeLineSearch(problem)
    weights, direction = np.ones(3), np.array([1.0, -1.0, 0.25])
    assert 0.0 <= search.along(weights, direction, low=0.0, high=0.125).t <= 0.125
    free = search.along(weights, direction)
    assert (problem.to_caller(weights + free.t * direction) >= 0).all()


def test_och_on_lattices_is_och_on_the_lists_of_all_paths() -> None:
    lattices = drawn("lattices", 11, 6, 3)
    lists, summed = lists_of_all_ways(lattices, "wer")
    for directions in DESCENTS:
        method = Och(restarts=0, directions=directions)
        on_graphs, on_lists = (
            lpmert.minimize(data, metric=metric, method=method, initial_weights=[1.0, -0.5, 0.25])
            for data, metric in ((lattices, "wer"), (lists, summed))
        )
        assert on_graphs.loss == on_lists.loss


@pytest.mark.parametrize(
    ("sources", "targets"), [([0, 1], [2, 1]), ([0, 2], [1, 2]), ([0, 1], [1, 3]), ([-1, 1], [1, 2])]
)
def test_links_that_are_not_in_order_are_refused(sources: list[int], targets: list[int]) -> None:
    one, other = np.array(sources, dtype=np.int32), np.array(targets, dtype=np.int32)
    with pytest.raises(ValueError, match="targets must be sorted, and each link must lead to a larger node"):
        core.Links(one, np.zeros(2, dtype=np.int32), other, 3)
