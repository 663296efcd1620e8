"""Lattices and hypergraphs as arrays, sums along paths, memory, and their best hypotheses in exact order.

The optimum over all paths is that over lists of all paths; no label that wins in a cone is lost.
"""

import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import chain, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pytest
from fuzz import check_n_best
from graph_problems import Drawn, listed_paths
from problems import FEATURES, WORTHS
from refusals import refused
from searches import many_more, peak_of
from shared import needs_shared, shared

import lpmert
from lpmert import Hypergraphs, Lattices, Linear, NBest, Region, Status, evaluate, minimize
from lpmert.errors import DataError, MethodError, MetricError, RegionError
from lpmert.formats import lattices as files
from lpmert.limits import Allowance, limited, resident
from lpmert.methods import Choices
from lpmert.methods.lattices import Cone, Expander, LatticeSearch, Leaf, all_mixes
from lpmert.metrics.text import EditTexts
from lpmert.model import lattice_problem
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem, no_lists
from lpmert.search.method import Incumbent
from lpmert.workers import using_workers

SAUSAGE: dict[str, Any] = {
    "features": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.25]], "offsets": [0, 3], "sources": [0, 0, 1], "targets": [1, 1, 2],
    "words": ["a", "b", None], "references": ["a"],
}  # fmt: skip
"""Two paths, a and b; the last link is silent."""


def built(**changes: Any) -> Lattices:
    return Lattices(**{**SAUSAGE, **changes})


def test_links_that_lead_nowhere_are_left_out_nodes_may_be_numbered_in_any_order_and_paths_are_counted() -> None:
    rows, sources, targets = [[1.0], [2.0], [4.0], [8.0], [16.0]], [5, 3, 5, 9, 3], [3, 9, 9, 7, 2]
    lattices = Lattices(rows, [0, 5], sources, targets, list("abcde"), ["a b"], starts=[5], ends=[9])
    graph = lattices.graph(0)
    assert (graph.n_nodes, lattices.n_links) == (3, 3)
    links = zip(graph.sources.tolist(), graph.targets.tolist(), graph.features[:, 0].tolist(), strict=True)
    assert set(links) == {(0, 1, 1.0), (1, 2, 2.0), (0, 2, 4.0)}
    assert 10 ** float(lattices.log10_paths[0]) == pytest.approx(2)
    nodes = np.repeat(np.arange(2000), 3)
    chain = Lattices(np.ones((6000, 1)), [0, 6000], nodes, nodes + 1, [None] * 6000, [""])
    assert float(chain.log10_paths[0]) == pytest.approx(2000 * np.log10(3))


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20, 1e100, 1e-300, 1e-310])
def test_sums_along_paths_are_exact(scale: float) -> None:
    rng = np.random.default_rng(0)
    n = 400
    values = rng.normal(size=(n, 2)) * scale * np.array([1.0, 1e6])
    lattices = Lattices(values, [0, n], np.arange(n), np.arange(1, n + 1), [None] * n, [""])
    moved = np.abs(lattices.features - values)
    assert (moved <= 2.0**-49 * np.abs(values).sum(axis=0)).all()
    for sums in (lattices.features.sum(axis=0), lattices.features[::-1].sum(axis=0)):
        exact = [sum(map(Fraction, column), Fraction(0)) for column in lattices.features.T.tolist()]
        assert [Fraction(value) for value in sums.tolist()] == exact


def test_fingerprints_tell_lattices_apart() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"features": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]}, {"words": ["a", "c", None]}, {"words": ["a", "b", "a"]},
        {"references": ["b"]}, {"names": ["x", "y"]}, {"list_ids": ["one"]}, {"targets": [1, 2, 2]},
    ]  # fmt: skip
    assert built().fingerprint == built().fingerprint
    assert len({built(**one).fingerprint for one in changes}) == len(changes)


def test_of_paths_that_no_weights_tell_apart_the_first_counts() -> None:
    alike = {"features": [[1.0, 0.0], [1.0, 0.0], [0.5, 0.25]]}
    assert minimize(built(**alike)).loss == 0
    assert minimize(built(**alike, words=["b", "a", None])).loss == 1
    found = evaluate(built(), [1, 1])  # ties
    assert (found.loss, found.tied_lists, found.loss_best_ties, found.loss_worst_ties) == (0.0, 1, 0.0, 1.0)
    clear = evaluate(built(), {"feature1": 1.0, "feature2": 1.5})
    assert (clear.loss, clear.tied_lists) == (1.0, 0)
    assert not evaluate(built(), [-1, 1], region=Region(nonnegative=True)).inside


BEHIND = [
    (1.2488745204840754,
     [20280355686758, 18998358313081, 22937340349510, 18657476151855, 19511285201679, 18678139102915],
     [27985661327752, 29190864495683, 31594178523942, 30272985693675, 34154250430025, -34134985665281]),
    (0.5240063051043075,
     [22945451624489, 23742268661759, 22629201882121, 32595521290044, 18812942433761, 29104814509748],
     [20598275958726, 33576306344936, 25405026149414, 26533979044190, 30273181646724, 13443431257930]),
]  # fmt: skip


@pytest.mark.parametrize(("weight", "best", "second"), BEHIND)
def test_a_path_that_is_behind_by_about_the_rounding_error_is_not_the_best(
    weight: float, best: list[int], second: list[int]
) -> None:
    assert sum(best) - sum(second) == 2
    sources, targets = [0, 1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10], [1, 2, 3, 4, 5, 11, 6, 7, 8, 9, 10, 11]
    lattices = Lattices(np.array([[*best, *second]]).T, [0, 12], sources, targets, [*"aaaaaabbbbbb"], ["a a a a a a"])
    found = evaluate(lattices, [weight])
    assert (found.loss, found.tied_lists) == (0.0, 0)


def test_scores_that_underflow_are_compared_exactly() -> None:
    rows = np.array([[7.0, 0.0], [1.0, -5.0], [-2.0, -8.0]])  # with weights -3 and 4, the scores are -21, -23 and -26
    lattices = Lattices(rows * 2.0**-540, [0, 3], [0] * 3, [1] * 3, [None] * 3, losses=[0, 1, 2])
    assert evaluate(lattices, np.array([-3.0, 4.0]) * 2.0**-537, metric="loss").loss == 0.0


GRAMMAR: dict[str, Any] = {
    "features": [[1, 0], [0, 1], [0, 2], [3, 0]], "offsets": [0, 4], "heads": [1, 2, 0, 0],
    "tails": [[], [], [1, 2], [2, 1, 2]], "outputs": [["la"], ["casa", "blanca"], [0, 1], [2, "y", 0, 1]],
    "references": ["la casa blanca"],
}  # fmt: skip
"""The goal is 0: "la casa blanca", or "casa blanca y casa blanca la"."""


def hyper(**changes: Any) -> Hypergraphs:
    return Hypergraphs(**{**GRAMMAR, **changes})


def test_texts_are_put_together_from_outputs() -> None:
    problem, graphs = LatticeProblem(hyper()), hyper()
    said = [problem.text(0, problem.decode(np.array(w)).winners[0].ways[0]) for w in ([0.0, 1.0], [1.0, 0.0])]
    assert said == ["la casa blanca", "casa blanca y casa blanca la"]  # with the features 1, 3 and 4, 2
    assert 10 ** float(graphs.log10_paths[0]) == pytest.approx(2)
    assert graphs.n_links == 4


NODES, PARALLEL = 200, 100


def ladder(width: int) -> Lattices:
    nodes = np.repeat(np.arange(NODES), PARALLEL)
    features = np.random.default_rng(1).integers(-9, 10, (len(nodes), width))
    return Lattices(features, [0, len(nodes)], nodes, nodes + 1, ["a"] * len(nodes), ["a b"])


def test_joining_lattices_takes_no_more_than_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = [(k, k // PARALLEL, k // PARALLEL + 1) for k in range(NODES * PARALLEL)]
    lines = [f"J={k} S={u} E={v} W=w{k % 7} a=-{k % 11}.5 l=-{k % 5}" for k, u, v in links]
    nodes = [f"I={v}" for v in range(NODES + 1)]
    path = tmp_path / "one.slf"
    path.write_text("\n".join(["VERSION=1.0", f"N={len(nodes)} L={len(lines)}", *nodes, *lines]) + "\n")
    lpmert.load_lattices(path, {"one": "w1 w2"})  # what is loaded once is
    asked: list[tuple[int, int]] = []

    def begin(size: int, _: str) -> None:
        tracemalloc.reset_peak()
        asked.append((size, tracemalloc.get_traced_memory()[0]))

    monkeypatch.setattr(files, "room_for", begin)
    tracemalloc.start()
    try:
        lpmert.load_lattices(path, {"one": "w1 w2"})
        (size, before), most = asked[0], tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * size < most - before < size


@pytest.mark.parametrize("region", [None, Region(fixed={"feature1": 1.0}, bounds={"feature2": (0, 3)})])
def test_the_problem_takes_no_more_than_was_asked_for_and_a_fingerprint_copies_no_features(
    region: Region | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattices, asked = ladder(8), list[int]()
    assert peak_of(lambda: lattices.fingerprint) < lattices.features.nbytes // 2
    LatticeProblem(lattices, "wer", region)
    monkeypatch.setattr(lattice_problem, "room_for", lambda size, _: asked.append(size))
    assert peak_of(lambda: LatticeProblem(lattices, "wer", region)) < asked[0]


def test_lattices_that_find_no_room_are_refused_before_the_search() -> None:
    now, lattices = resident(), ladder(40)
    if now is None:
        pytest.skip("nobody knows what the process holds")
    with (
        Allowance(now + lattices.features.nbytes).enforced(),
        pytest.raises(DataError, match=r"memory limit of .* is too low: .* allow more"),
    ):
        LatticeProblem(lattices, "wer")


@pytest.mark.parametrize("seeds", [range(12), many_more(range(12, 120))], ids=["some", "many"])
def test_lists_hold_the_best_texts_of_all_paths_in_exact_order(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fuzz.py` says what must hold of them; links are left out of small graphs, too."""
    for name, value in (("_FEWEST_LINKS", 1), ("_LINKS", 1), ("_GROWTH", 2)):
        monkeypatch.setattr(files, name, value)
    found = [check_n_best([*FEATURES][seed % len(FEATURES)], WORTHS[seed % len(WORTHS)], seed) for seed in seeds]
    assert sum(status is lpmert.Status.OPTIMAL for _, status in chain(*found)) > len(seeds)


def test_derivations_deep_and_many_are_ranked_without_listing_them() -> None:
    depth = 1200  # beyond what recursion could follow, and 2**1200 derivations
    heads = [node for node in range(depth) for _ in range(2)]
    tails = [[node - 1] if node else [] for node in heads]
    outputs = [[*([0] if own else []), word] for own, word in zip(tails, ["a", "b"] * depth, strict=True)]
    features = [[0.0] if output[-1] == "a" else [-1.0 - (place == 9)] for place, output in enumerate(outputs)]
    lists = lpmert.n_best(Hypergraphs(features, [0, 2 * depth], heads, tails, outputs, ["a"]), [1.0], n=6)
    # Best first: no b, then one at some place, that nearest to the root last, as its link "a" is given before "b".
    places = [[k for k, word in enumerate(text.split()) if word == "b"] for text in lists.texts or ()]
    assert places == [[], [0], [1], [2], [3], [5]]
    assert lists.dense_features()[:, 0].tolist() == [0.0, *[-1.0] * 5]


def parallel(words: int, links: int = 4) -> lpmert.Lattices:
    """A lattice of so many words in a row, with so many links for each: their product is the number of texts."""
    rng = np.random.default_rng(words)
    n = words * links
    places = np.repeat(np.arange(words), links)
    names = [f"{place}{link}" for place in range(words) for link in range(links)]
    return Lattices(rng.normal(size=(n, 2)), [0, n], places, places + 1, names, ["00"], names=["a", "b"])


def doubling(nodes: int) -> lpmert.Hypergraphs:
    """A hypergraph whose goal has 2 ** nodes derivations with different texts."""
    heads = [0] + [1 + place for place in range(nodes) for _ in range(2)]
    tails = [[]] + [[place] for place in range(nodes) for _ in range(2)]
    outputs = [["x"]] + [[0, word] for _ in range(nodes) for word in ("a", "b")]
    rows = np.random.default_rng(0).normal(size=(len(heads), 1))
    return Hypergraphs(rows, [0, len(heads)], heads, tails, outputs, ["x a"])


@pytest.mark.parametrize(("make", "size"), [(parallel, 30), (doubling, 40)])
@pytest.mark.parametrize("limit", ["time_limit", "memory_limit"])
def test_lists_without_end_end_at_a_limit(make: Callable[[int], Any], size: int, limit: str) -> None:
    graphs = make(size)
    weights = [1.0] * len(graphs.names)
    assert len(lpmert.n_best(graphs, weights, n=50, time_limit=60.0).texts or ()) == 50
    value = 0.3 if limit == "time_limit" else resident() + (48 << 20)
    began = time.process_time()
    with pytest.raises(lpmert.LimitError, match=r"no lists of 1,000,000,000 hypotheses each: .* limit of"):
        lpmert.n_best(graphs, weights, n=10**9, **{limit: value})
    assert time.process_time() - began < 10.0


def test_the_time_limit_of_whoever_asks_for_lists_counts() -> None:
    graphs = parallel(30)
    with (
        pytest.raises(lpmert.LimitError, match=r"nothing read: the time limit of 0\.3 s is over"),
        limited(0.3, None, "nothing read: {}".format),
    ):
        files.best_lists(graphs, [np.ones(2)], 10**9)


def searched(**settings: Any) -> lpmert.Result:
    """Two edits for three words of the reference are no whole number."""
    given = {"words": ["a", "b c", "d"], "references": ["x y d"]} | settings
    own = {name: given.pop(name) for name in ("words", "references", "losses") if name in given}
    return minimize(built(**own), **given)


def listed(**arguments: Any) -> lpmert.NBest:
    return lpmert.n_best(**{"lattices": parallel(2), "weights": [1.0, 1.0], **arguments})


FIRST_TAIL: dict[str, Any] = {"tails": [[0], [], [1, 2], [2, 1, 2]], "outputs": [["la", 0], *GRAMMAR["outputs"][1:]]}

# fmt: off
test_what_does_not_fit_is_refused_by_name = refused([
    *((DataError, message, partial(built, **changes)) for changes, message in [
        ({"sources": [0, 1, 1], "targets": [1, 0, 2], "starts": [0]}, r"cycle, \d -> \d -> \d"),
        ({"sources": [0, 1, 1], "targets": [1, 1, 2]}, "cycle, 1 -> 1"),
        ({"sources": [0, 1, 2], "targets": [1, 2, 0]}, "cycle"),
        ({"sources": [0, 1, 2], "targets": [2, 2, 3]}, "nodes 0 and 1 could both be its start; give starts"),
        ({"sources": [0, 0, 0], "targets": [1, 1, 2]}, "nodes 1 and 2 could both be its end; give ends"),
        ({"starts": [2], "ends": [0]}, "no path from node 2 to node 0"),
        ({"features": [[1e150, 1], [1, 1], [1e149, 1]]}, "'feature1' adds up to more than 1e.150 along a path"),
        ({"starts": [1], "ends": [1]}, "no path"),
        ({"starts": [7]}, "no node 7, its start"),
        ({"sources": [0, 0]}, "sources must be a one-dimensional array of 3 whole numbers"),
        ({"targets": [1, 1, -2]}, "targets has numbers below 0"),
        ({"targets": [1.0, 1.0, 2.0]}, "targets must be"),
        ({"offsets": [0, 2]}, "offsets must run from 0 to 3, the number of links"),
        ({"words": ["a", "b"]}, "words must be a sequence of 3"),
        ({"words": ["a", "", None]}, "words must be strings that are not empty"),
        ({"words": [0, 1, -2], "vocabulary": ["a", "b"]}, "words must be 3 whole numbers"),
        ({"words": [0, 2, -1], "vocabulary": ["a", "b"]}, "words must be 3 whole numbers"),
        ({"references": ["a", "b"]}, "references needs one entry for each of the 1 lattices"),
        ({"references": [[]]}, "at least one reference"),
        ({"features": [[1.0, np.nan], [0.0, 1.0], [0.0, 0.0]]},
         "lattice '0', link 0 .*'feature2': nan is not a finite number"),
        ({"features": [[1.0, 1.0], [0.0, 1e200], [0.0, 0.0]]}, "link 1 .*beyond 1e\\+150"),
        ({"names": ["x", "x"]}, "names has 'x' twice"),
        ({"losses": [3, 1, -4]}, "whole numbers"),
    ]),
    *((DataError, message, partial(hyper, **changes)) for changes, message in [
        *((first, r"cycle, \d -> \d") for first in (FIRST_TAIL, {**FIRST_TAIL, "goals": [0]})),
        ({"heads": [1, 2, 0, 3]}, "0 and 3 could both be its goal; give goals"),
        ({"goals": [7]}, "no node 7, its goal"),
        ({"outputs": [["la"], ["casa"], [0, 0], [2, 0, 1]]}, r"edge 2 .*must name each of its 2 tails once"),
        ({"outputs": [["la"], ["casa"], [0], [2, 0, 1]]}, r"edge 2 .*must name each of its 2 tails once"),
        ({"outputs": [["la"], "casa", [0, 1], [2, 0, 1]]}, r"output of edge 1"),
        ({"outputs": [["la"], ["casa"], [0, 1]]}, "outputs must be a sequence of 4"),
        ({"tails": [[], [], [1, -2], [2, 1, 2]]}, r"tails of edge 2 \(from 0\) must be whole numbers"),
        ({"tails": [[], [], [1, 2]]}, "tails must be a sequence of 4"),
        ({"losses": [1, 2, 0.5, 3]}, "losses must be 4 whole numbers"),
        ({"references": None}, "give references, or losses"),
    ]),
    *((error, message, partial(searched, **settings)) for settings, error, message in [
        ({"metric": "sentence-bleu"}, MetricError, "must be whole numbers"),
        ({"metric": "f1"}, MetricError, "no metric 'f1' on texts"),
        ({"metric": "wer", "references": None, "losses": [3, 1, 2]}, MetricError, "needs references"),
        ({"metric": EditTexts(per_sentence=True), "region": None}, MetricError, "must be whole numbers"),
        ({"method": Choices()}, MethodError, "'choices' needs N-best lists"),
        ({"ties": "best"}, MethodError, "ties='best'"),
        ({"region": Region(total=1.0, bounds={"feature1": (0.1, 1)})}, RegionError, "feature1 >= 0.1 has digits"),
        ({"region": Region(cosine=0.9, around=[1, 1], bounds={"feature1": (None, 0)})}, RegionError, "feature1"),
        ({"region": Region(bounds={"x": (0, None)})}, RegionError, "no feature 'x'"),
        ({"region": Region(nonnegative=True, bounds={"feature2": (None, 0)})}, RegionError, "feature2"),
    ]),
    *((lpmert.LpmertError, message, partial(listed, **arguments)) for arguments, message in [
        ({"weights": [1.0]}, "2 features"),
        ({"weights": {"x": 1.0, "y": 2.0}}, "have none for a"),
        ({"n": 0}, "n must be a whole number"),
        ({"time_limit": -1}, "time_limit must be a number of at least 0"),
        ({"lattices": lpmert.NBest([[1.0]], [0, 1], [[0]])}, r"must be Lattices or Hypergraphs, not NBest"),
    ]),
])
# fmt: on


def test_cones_that_cannot_be_split_and_what_leaves_do_not_settle_stay_unsettled_at_their_bound() -> None:
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    weights, start = CanonicalWeights(np.array([1.0, 0.0])), None
    search = LatticeSearch(LatticeProblem(lattices, "wer"), Incumbent(100, weights, ""), start, 1)
    search._branch(Cone(np.array([[1.0, 0.0], [1.0, 2.0**-60]]), all_mixes(2), 0, 17, no_lists(), {}), [(0, 1)])
    assert (search.unsettled, len(search._queue)) == (None, 2)
    search._branch(Cone(np.array([[2.0**60, 0.0], [1.0, 1.0]]), all_mixes(2), 0, 17, no_lists(), {}), [(0, 1)])
    assert search.unsettled == 17
    counted = {"nodes": 1, "lps": 0, "effort": 0.0, "counters": dict}
    ended = SimpleNamespace(finished=True, unsettled=5, lower_bound=5, incumbent=Incumbent(90, weights, ""), **counted)
    search._leaf = Leaf(np.eye(2), no_lists(), ended, 10, 100, 0)  # settled lattices cost 10
    search._search_leaf(search._leaf)
    assert (search.unsettled, search._leaf) == (15, None)


def test_weights_beyond_the_region_and_on_its_edge_are_not_taken_whatever_they_lose() -> None:
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    problem, weights = LatticeProblem(lattices, "wer", region=Region(nonnegative=True)), np.array([1.0, 0.0])
    search = LatticeSearch(problem, Incumbent(100, CanonicalWeights(weights), ""), None, 1)
    for last, cost in ((-0.5, 100), (0.0, 100), (0.5, 0)):
        assert search._try_weights(CanonicalWeights(np.array([1.0, last]))).loss == 0
        assert search.incumbent.cost == cost


@pytest.mark.parametrize("jobs", [2, 3, 7])
def test_threads_decode_lattices_side_by_side_as_one_does(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.model.lattice_problem._LINKS_OF_UNIT", 3)
    for seed in range(700, 712):
        lattices = Drawn(seed, "ternary", 6, 3).lattices()
        weights = CallerWeights(np.random.default_rng(seed).integers(-2, 3, 3).astype(np.float64))
        alone = LatticeProblem(lattices).decode(weights)
        with using_workers("threads", jobs):
            together = LatticeProblem(lattices).decode(weights)
        for own, other in zip(alone.winners, together.winners, strict=True):
            assert sorted(way.tolist() for way in own.ways) == sorted(way.tolist() for way in other.ways)
        assert (alone.loss, alone.strict) == (together.loss, together.strict)


def test_paths_that_are_remembered_are_those_of_the_weights_asked_about() -> None:
    lattices = Drawn(720, "integers", 4, 2).lattices()
    remembering = LatticeProblem(lattices)
    asked = [[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -2.0], [3.0, 1.0]]
    for weights in [*asked, *reversed(asked), *asked]:
        given = remembering.evaluate(weights)
        given.statistics[:] = -1.0  # whoever gets an evaluation may write to it
        anew, again = (problem.evaluate(weights) for problem in (LatticeProblem(lattices), remembering))
        assert (again.loss, again.tied_lists) == (anew.loss, anew.tied_lists)
        assert again.statistics.tolist() == anew.statistics.tolist()


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(("n_lattices", "errors", "most"), [(60, 228, 55), (100, 386, None)])
def test_least_errors_are_those_of_an_independent_search(n_lattices: int, errors: int, most: int | None) -> None:
    """The figures are those of a search of its own, in its data's description, by plain dominance at the rays."""
    folder = shared("asr-lattices")
    silent = ["<sil>", "[NOISE]", "[SPEECH]"]
    whole = lpmert.load_lattices(folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=silent, variants=True)
    lattices = whole.restrict(slice(0, n_lattices))
    region = Region(fixed={"acoustic": 1.0}, bounds={"lm": (3.0, 20.0), "words": (-12.0, 12.0)})
    result = lpmert.minimize(lattices, region=region)
    assert (result.loss, result.lower_bound, result.status) == (errors, errors, Status.OPTIMAL)
    assert lpmert.evaluate(lattices, result).loss == errors
    if most is not None:
        problem = LatticeProblem(lattices)
        assert sum(problem.least_loss(s) for s in range(n_lattices)) == most
        assert lpmert.evaluate(lattices, [1.0, 9.5, -0.63]).loss == 250


def test_lattices_with_hundreds_of_features_keep_to_the_time_limit() -> None:
    """The limit is half a second of the clock; processor time does not grow with load, and the margin is large."""
    rng = np.random.default_rng(0)
    places, width, n_features = 6, 3, 640
    sources = np.tile(np.repeat(np.arange(places), width), 2)
    features = rng.integers(-9, 10, size=(len(sources), n_features)).astype(float)
    words = [f"w{k % 3}" for k in range(len(sources))]
    offsets = [0, places * width, 2 * places * width]
    lattices = Lattices(features, offsets, sources, sources + 1, words, ["w0 w1 w2 w0 w1 w2"] * 2)
    began = time.process_time()
    result = lpmert.minimize(lattices, metric="wer", time_limit=0.5)
    assert time.process_time() - began < 10.0
    assert result.status is Status.TIME_LIMIT
    assert 0.0 <= result.lower_bound <= result.loss


@pytest.mark.parametrize("metric", ["wer", "bleu", "ter"])
@pytest.mark.parametrize("block", [0, *(many_more(block) for block in range(1, 8))])
def test_what_the_oracle_does_not_know_ends_where_lists_of_all_paths_end(metric: str, block: int) -> None:
    """TER, and cosines, beside an equation too; the other metrics and regions stand in `test_methods.py`."""
    equation = Linear({"feature1": 3.0, "feature2": -0.7, "feature3": 1.0}, lower=0, upper=0)
    seen = 0
    for seed in range(15 * block, 15 * block + 15):
        drawn = Drawn(seed, "integers", 2, 3)
        drawn.words = [None if word is None else "aaab"[k % 4] for k, word in enumerate(drawn.words)]
        drawn.references = ["a a a b a", "a a b a a a"]
        if not 0 < np.prod([len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(2)]) <= 400:
            continue
        drawn.features = drawn.features * np.random.default_rng(seed).normal(size=3)
        units = drawn.lattices().units
        drawn.features = np.rint(drawn.features / units) * units  # as lattices hold them
        region = Region(linear=[equation] * (seed % 2), cosine=0.4, around=[1.0, 2.0, -1.0])
        region = region if metric != "ter" or seed % 3 == 0 else Region(nonnegative=seed % 3 == 1)
        lists, measure = listed_paths(drawn, metric)
        found = lpmert.minimize(drawn.lattices(), metric=metric, region=region)
        wanted = lpmert.minimize(lists, metric=measure, region=region)
        assert (found.loss, found.status, found.lower_bound) == (wanted.loss, wanted.status, wanted.lower_bound), seed
        assert lpmert.evaluate(drawn.lattices(), found, metric=metric).loss == found.loss
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_counted_by_their_numbers_as_they_are_in_texts(lowercase: bool) -> None:
    words = ["A", "a", "\u039f\u03a3", "\u03bf\u03c2", "\u03a3", None, "b"]
    references = [["a a \u03bf\u03c2 \u03bf\u03c3 B", "\u0391 a \u03c3 b"]]
    chain = Lattices(np.eye(7), [0, 7], range(7), range(1, 8), words, references)
    settings = EditTexts(lowercase=lowercase)
    problem = LatticeProblem(chain, settings)
    for chosen in ([*range(7)], [0, 2, 5], [3, 4, 6], [5], [1, 1, 2, 3]):
        way = np.array(chosen[::-1])
        text = " ".join(word for k in chosen if (word := words[k]) is not None)
        assert problem.statistics(0, way).tolist() == settings.counter(chain.references[0])(text)


def test_a_loss_that_only_rounding_gives_is_called_optimal_to_tolerance_above_a_true_bound() -> None:
    """Two lattices with two places, two links in parallel each: multiples of one vector, but for rounding."""
    one = [0.03300010398406011, -1.4253489608701877, 0.33281361313804664]
    two, three = (
        [0.06600020796812021, -2.8506979217403754, 0.6656272262760933],
        [0.09900031195218031, -4.276046882610563, 0.99844083941414],
    )
    links = np.array([two, one, three, three, one, one, three, two]) * [[-1], [0], [1], [1], [-1], [1], [-1], [1]]
    losses, places = [1.0, 1.0, 4.0, 2.0, 4.0, 0.0, 3.0, 4.0], np.array([0, 0, 1, 1] * 2)
    names = ["f0", "f1", "f2"]
    lattices = Lattices(links, [0, 4, 8], places, places + 1, list("abcdefgh"), losses=losses, names=names)
    units = [Fraction(unit) for unit in lattices.units.tolist()]
    held = [[round(Fraction(x) / unit) * unit for x, unit in zip(row, units, strict=True)] for row in links.tolist()]
    paths = [(first + start, second + start) for start in (0, 4) for first, second in product((0, 1), (2, 3))]
    sums = [[a + b for a, b in zip(held[first], held[second], strict=True)] for first, second in paths]
    rows = np.array(sums, dtype=np.float64)
    assert [[Fraction(value) for value in row] for row in rows.tolist()] == sums  # so that lists hold the same
    listed = NBest(rows, [0, 4, 8], [losses[first] + losses[second] for first, second in paths], names=names)
    to_tolerance = 0
    for own in product((-3.0, -1.0, 1.0, 3.0), (-2.0, 2.0), (-2.0, 2.0)):
        region = Region(linear=[Linear(dict(zip(names, own, strict=True)), lower=0, upper=0)])
        found = lpmert.minimize(lattices, metric="loss", region=region)
        same = lpmert.minimize(listed, region=region, method="choices")
        assert same.status is Status.OPTIMAL
        if found.status is Status.OPTIMAL:
            assert found.lower_bound == found.loss == same.loss
            continue
        to_tolerance += 1
        assert found.lower_bound <= same.loss < found.loss
        assert "needs weights that double precision cannot tell from a tie" in str(found)
    assert to_tolerance > 0


@pytest.mark.parametrize("kind", ["integers", "ternary", "dyadic"])
def test_labels_are_all_that_win_somewhere_in_the_cone(kind: str) -> None:
    """No path that some weights of the cone make strictly best is missing; without ties, few others stay."""
    left_over = listed = 0
    for seed in range(40):
        rng = np.random.default_rng(3000 + seed)
        width = int(rng.integers(1, 4))
        drawn, rays = Drawn(seed, kind, 1, width), rng.integers(-8, 9, size=(width, width)).astype(float)
        if not drawn.searchable or abs(np.linalg.det(rays)) < 0.5:
            continue
        problem = LatticeProblem(drawn.lattices())
        search = LatticeSearch(problem, Incumbent(0, CanonicalWeights(rays[0]), ""), None, 1)
        expander = Expander(problem)
        [view] = expander.views([(0, expander.whole(0), {})], rays, all_mixes(width), 10**6)
        ids, _ = search.take_view(0, view)
        features, offsets, _ = drawn.listed()
        factors = [Fraction(factor) for factor in problem.coordinates.scales.tolist()]
        rows = [[x * factor for x, factor in zip(row, factors, strict=True)] for row in features]
        narrower = np.vstack([rays.sum(axis=0), rays[1:]])
        left = search.narrowed(no_lists().joined({0: ids}), narrower)[0].ids
        kept, still = ({tuple(row) for row in search.catalogue.features[one].tolist()} for one in (ids, left))
        for cone, found in ((rays, kept), (narrower, still)):
            exact = [[Fraction(value) for value in ray] for ray in cone.tolist()]
            sides = []  # each is 0 at all rays but one, and positive there
            for k, ray in enumerate(exact):
                (side,) = oracle.null_space([*exact[:k], *exact[k + 1 :]], width)
                sides.append([value if oracle.dot(side, ray) > 0 else -value for value in side])
            must = {tuple(map(float, rows[row])) for (row,) in oracle.attainable(rows, offsets, sides)}
            assert must <= found <= kept
            left_over += len(found - must)
            listed += len(found)
    assert left_over <= 0.25 * listed > 10
