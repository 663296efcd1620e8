"""The best hypotheses of lattices, held to all of their paths in exact arithmetic."""

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from fuzz import WORTHS, check_n_best
from graph_problems import DrawnHypergraphs
from problems import FEATURES
from searches import many_more

import lpmert
from lpmert import DataError, Status
from lpmert.formats import best_lists
from lpmert.system import memory
from lpmert.system.deadline import limited


@pytest.fixture
def links_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave links out of small graphs, too."""
    for name, value in (("_FEWEST_LINKS", 1), ("_LINKS", 1), ("_MORE", 2)):
        monkeypatch.setattr(best_lists, name, value)


def weights_of(seed: int) -> list[float]:
    return np.random.default_rng(seed).normal(size=2).tolist() if seed % 3 else [1.0, -1.0]


def score_of(row: Sequence[Any], weights: list[float]) -> Fraction:
    return sum((Fraction(x) * Fraction(w) for x, w in zip(row, weights, strict=True)), Fraction(0))


BLOCKS = pytest.mark.parametrize("seeds", [range(12), many_more(range(12, 120))], ids=["some", "many"])


@BLOCKS
@pytest.mark.usefixtures("links_left_out")
def test_lists_hold_the_best_texts_of_all_paths_in_exact_order(seeds: range) -> None:
    """`fuzz.py` says what must hold of them."""
    outcomes = [
        outcome
        for seed in seeds
        for outcome in check_n_best(tuple(FEATURES)[seed % len(FEATURES)], WORTHS[seed % len(WORTHS)], seed)
    ]
    assert sum(status is Status.OPTIMAL for _, status in outcomes) > len(seeds)


@BLOCKS
@pytest.mark.usefixtures("links_left_out")
def test_lists_of_hypergraphs_hold_the_best_texts_of_all_derivations_in_order(seeds: range) -> None:
    for seed, n in product(seeds, (1, 3, 400)):
        graphs, weights = DrawnHypergraphs(seed, 2, 2, 300, words="ab"), weights_of(seed)
        lists = lpmert.n_best(graphs.graphs(), weights, n=n)
        assert lists.texts is not None
        for number in range(2):
            best: dict[str, tuple[Fraction, tuple[int, ...], list[Fraction]]] = {}
            for edges, words in graphs.derivations(number):
                row = graphs.sums(edges)
                mine = (-score_of(row, weights), edges, row)
                best[" ".join(words)] = min(mine, best.get(" ".join(words), mine))
            expected = sorted(best.items(), key=lambda item: item[1])[:n]
            begin, end = lists.offsets[number : number + 2].tolist()
            assert list(lists.texts[begin:end]) == [text for text, _ in expected]
            assert lists.dense_features()[begin:end].tolist() == [row for _, (_, _, row) in expected]


def test_derivations_deep_and_many_are_ranked_without_listing_them() -> None:
    depth = 1200  # beyond what recursion could follow, and 2**1200 derivations
    heads = [node for node in range(depth) for _ in range(2)]
    tails = [[node - 1] if node else [] for node in heads]
    outputs = [[*([0] if own else []), word] for own, word in zip(tails, ["a", "b"] * depth, strict=True)]
    features = [[0.0] if output[-1] == "a" else [-1.0 - (place == 9)] for place, output in enumerate(outputs)]
    graphs = lpmert.Hypergraphs(features, [0, 2 * depth], heads, tails, outputs, ["a"])
    lists = lpmert.n_best(graphs, [1.0], n=6)
    # Best first: no b, then one at some place, that nearest to the root last, as its link "a" is given before "b".
    assert lists.texts is not None
    assert [[k for k, word in enumerate(text.split()) if word == "b"] for text in lists.texts] == [
        [], [0], [1], [2], [3], [5]
    ]  # fmt: skip
    assert lists.dense_features()[:, 0].tolist() == [0.0, *[-1.0] * 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [1.0]}, "2 features"),
        ({"weights": {"x": 1.0, "y": 2.0}}, "have none for a"),
        ({"n": 0}, "n must be a whole number"),
        ({"time_limit": -1}, "time_limit must be a number of at least 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(lpmert.LpmertError, match=message):
        lpmert.n_best(parallel(2), **{"weights": [1.0, 1.0], **arguments})


def test_lists_are_no_lattices() -> None:
    with pytest.raises(DataError, match=r"made of Lattices or Hypergraphs.* and not of NBest"):
        lpmert.n_best(lpmert.NBest([[1.0]], [0, 1], [[0]]), [1.0])


def parallel(words: int, links: int = 4) -> lpmert.Lattices:
    """A lattice of so many words in a row, with so many links for each: their product is the number of texts."""
    rng = np.random.default_rng(words)
    n = words * links
    places = np.repeat(np.arange(words), links)
    names = [f"{place}{link}" for place in range(words) for link in range(links)]
    return lpmert.Lattices(rng.normal(size=(n, 2)), [0, n], places, places + 1, names, ["00"], names=["a", "b"])


def doubling(nodes: int) -> lpmert.Hypergraphs:
    """A hypergraph whose goal has 2 ** nodes derivations with different texts."""
    heads = [0] + [1 + place for place in range(nodes) for _ in range(2)]
    tails = [[]] + [[place] for place in range(nodes) for _ in range(2)]
    outputs = [["x"]] + [[0, word] for _ in range(nodes) for word in ("a", "b")]
    rows = np.random.default_rng(0).normal(size=(len(heads), 1))
    return lpmert.Hypergraphs(rows, [0, len(heads)], heads, tails, outputs, ["x a"])


@pytest.mark.parametrize(("make", "size"), [(parallel, 30), (doubling, 40)])
@pytest.mark.parametrize("limit", ["time_limit", "memory_limit"])
def test_lists_without_end_end_at_a_limit(make: Callable[[int], Any], size: int, limit: str) -> None:
    graphs = make(size)
    weights = [1.0] * len(graphs.names)
    assert len(lpmert.n_best(graphs, weights, n=50, time_limit=60.0).texts or ()) == 50
    value = 0.3 if limit == "time_limit" else memory.resident() + (48 << 20)
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
        best_lists.best_lists(graphs, [np.ones(2)], 10**9)
