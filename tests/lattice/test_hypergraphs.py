"""Hypergraphs: what is refused, and the optimum over all derivations, against these one by one in exact arithmetic."""

from typing import Any

import numpy as np
import pytest

from lpmert import DataError, Hypergraphs
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
