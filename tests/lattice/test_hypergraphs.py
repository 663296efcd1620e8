"""Hypergraphs: what is refused, and the optimum over all derivations, against these one by one in exact arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_problems import Drawn, DrawnHypergraphs

import lpmert
from lpmert import DataError, Hypergraphs, Lattices
from lpmert.model.lattice_problem import LatticeProblem

GRAMMAR: dict[str, Any] = {
    "features": [[1, 0], [0, 1], [0, 2], [3, 0]],
    "offsets": [0, 4],
    "heads": [1, 2, 0, 0],
    "tails": [[], [], [1, 2], [2, 1, 2]],
    "outputs": [["la"], ["casa", "blanca"], [0, 1], [2, "y", 0, 1]],
    "references": ["la casa blanca"],
}
"""The goal is 0: "la casa blanca", or "casa blanca y casa blanca la"."""


def built(**changes: Any) -> Hypergraphs:
    return Hypergraphs(**{**GRAMMAR, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tails": [[0], [], [1, 2], [2, 1, 2]], "outputs": [["la", 0], *GRAMMAR["outputs"][1:]]}, "goal; give goals"),
        (
            {"tails": [[0], [], [1, 2], [2, 1, 2]], "outputs": [["la", 0], *GRAMMAR["outputs"][1:]], "goals": [0]},
            r"cycle, \d -> \d",
        ),
        ({"heads": [1, 2, 0, 3]}, "0 and 3 could both be the goal"),
        ({"goals": [7]}, "no derivation of node 7"),
        ({"outputs": [["la"], ["casa"], [0, 0], [2, 0, 1]]}, r"edge 2 .*must name each of its 2 tails once"),
        ({"outputs": [["la"], ["casa"], [0], [2, 0, 1]]}, r"edge 2 .*must name each of its 2 tails once"),
        ({"outputs": [["la"], "casa", [0, 1], [2, 0, 1]]}, r"output of edge 1"),
        ({"outputs": [["la"], ["casa"], [0, 1]]}, "outputs must be a sequence of 4"),
        ({"tails": [[], [], [1, -2], [2, 1, 2]]}, r"tails of edge 2 \(from 0\) must be whole numbers"),
        ({"tails": [[], [], [1, 2]]}, "tails must be a sequence of 4"),
        ({"losses": [1, 2, 0.5, 3]}, "losses must be 4 whole numbers"),
        ({"references": None}, "give references, or losses"),
    ],
)
def test_what_is_no_hypergraph_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        built(**changes)


def test_texts_are_put_together_from_outputs() -> None:
    graphs = built()
    problem = LatticeProblem(graphs)
    said = [problem.text(0, problem.decode(np.array(w)).winners[0].ways[0]) for w in ([0.0, 1.0], [1.0, 0.0])]
    assert said == ["la casa blanca", "casa blanca y casa blanca la"]  # with the features 1, 3 and 4, 2
    assert 10 ** float(graphs.log10_paths[0]) == pytest.approx(2)
    assert graphs.n_links == 4


def test_a_lattice_is_a_hypergraph_of_edges_with_one_tail() -> None:
    for seed in range(800, 830):
        drawn = Drawn(seed, "integers", 2, 2)
        if not all(any(drawn.paths(s)) for s in range(2)):
            continue
        # Edges into a node come in their order, and the axiom of the start before them.
        features: list[list[float]] = []
        heads: list[int] = []
        tails: list[tuple[int, ...]] = []
        outputs: list[tuple[str | int, ...]] = []
        offsets = [0]
        for s in range(2):
            features.append([0.0, 0.0])
            heads.append(drawn.starts[s])
            tails.append(())
            outputs.append(())
            for link in range(drawn.offsets[s], drawn.offsets[s + 1]):
                features.append(drawn.features[link].tolist())
                heads.append(drawn.targets[link])
                tails.append((drawn.sources[link],))
                word = drawn.words[link]
                outputs.append((0,) if word is None else (0, word))
            offsets.append(len(heads))
        goals = [int(end) for end in drawn.ends]
        if any(start in drawn.targets[drawn.offsets[s] : drawn.offsets[s + 1]] for s, start in enumerate(drawn.starts)):
            continue
        graphs = Hypergraphs(features, offsets, heads, tails, outputs, drawn.references, goals=goals)
        lattices: Lattices = drawn.lattices()
        one, other = lpmert.minimize(graphs, metric="wer"), lpmert.minimize(lattices, metric="wer")
        assert (one.loss, one.status) == (other.loss, other.status)
        assert graphs.log10_paths == pytest.approx(lattices.log10_paths)


def test_unfolded_and_binarised_hypergraphs_have_the_same_optimum() -> None:
    several = 0
    for seed in range(1000, 1030):
        drawn = DrawnHypergraphs(seed, 2, 2, 60)
        whole = [drawn.derivations(number) for number in range(2)]
        found = lpmert.minimize(drawn.graphs(), metric="wer")
        # every derivation an edge of its own
        rows = [drawn.sums(edges) for own in whole for edges, _ in own]
        flat = Hypergraphs(
            np.array(rows, dtype=float),
            [0, *np.cumsum([len(own) for own in whole]).tolist()],
            [0] * len(rows),
            [()] * len(rows),
            [words for own in whole for _, words in own],
            drawn.references,
        )
        unfolded = lpmert.minimize(flat, metric="wer")
        assert (unfolded.loss, unfolded.status) == (found.loss, found.status)
        assert flat.log10_paths == pytest.approx(drawn.graphs().log10_paths)
        # edges with more than two tails as two edges, the second one for all tails but the last
        offsets, heads, tails, outputs, features = [0], [], [], [], []
        for number in range(2):
            new = 100
            for edge in range(drawn.offsets[number], drawn.offsets[number + 1]):
                below, said = drawn.tails[edge], drawn.outputs[edge]
                places = [word for word in said if not isinstance(word, str)]
                if len(below) > 2 and places == sorted(places):  # first tails, and the words between them, first
                    split = said.index(len(below) - 1)
                    parts = [
                        (new, below[:-1], said[:split]),
                        (drawn.heads[edge], (new, below[-1]), (0, 1, *said[split + 1 :])),
                    ]
                    rows_of_parts = [drawn.features[edge] * 0.25, drawn.features[edge] * 0.75]
                    new += 1
                    several += 1
                else:
                    parts, rows_of_parts = [(drawn.heads[edge], below, said)], [drawn.features[edge]]
                for (head, own, output), row in zip(parts, rows_of_parts, strict=True):
                    heads.append(head)
                    tails.append(own)
                    outputs.append(output)
                    features.append(row)
            offsets.append(len(heads))
        binary = Hypergraphs(np.array(features), offsets, heads, tails, outputs, drawn.references, goals=drawn.goals)
        binarised = lpmert.minimize(binary, metric="wer")
        assert (binarised.loss, binarised.status) == (found.loss, found.status)
        assert binary.log10_paths == pytest.approx(drawn.graphs().log10_paths)
    assert several > 3
