"""Lattices and hypergraphs as arrays, sums along paths, memory, and their best hypotheses in exact order."""

import time
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import check_n_best
from problems import FEATURES, WORTHS
from refusals import refused
from searches import many_more, peak_of

import lpmert
from lpmert import DataError, Hypergraphs, Lattices, MethodError, MetricError, Region, RegionError, evaluate, minimize
from lpmert.formats import lattices as files
from lpmert.limits import Allowance, limited, resident
from lpmert.methods import Choices
from lpmert.metrics.text import EditTexts
from lpmert.model import lattice_problem
from lpmert.model.lattice_problem import LatticeProblem

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
