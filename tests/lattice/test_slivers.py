"""Lattices whose best weights lie between sums that differ by rounding: what is said of them is true."""

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

import lpmert
from lpmert import Lattices, Linear, NBest, Region, Status
from lpmert.methods.lattice.nodes import Cone, all_mixes
from lpmert.methods.lattice.search import LatticeSearch, Leaf
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.catalogue import no_lists
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.method import Incumbent

LINKS = [
    [-0.06600020796812021, 2.8506979217403754, -0.6656272262760933],
    [0.0, 0.0, 0.0],
    [0.09900031195218031, -4.276046882610563, 0.99844083941414],
    [0.09900031195218031, -4.276046882610563, 0.99844083941414],
    [-0.03300010398406011, 1.4253489608701877, -0.33281361313804664],
    [0.03300010398406011, -1.4253489608701877, 0.33281361313804664],
    [-0.09900031195218031, 4.276046882610563, -0.99844083941414],
    [0.06600020796812021, -2.8506979217403754, 0.6656272262760933],
]
"""Multiples of one vector, but for rounding; each lattice has two places with two links in parallel."""

LOSSES = [1.0, 1.0, 4.0, 2.0, 4.0, 0.0, 3.0, 4.0]
REGION = Region(linear=[Linear({"f0": -3.0, "f1": -2.0, "f2": -2.0}, lower=0, upper=0)])


def test_a_loss_that_only_rounding_gives_is_called_optimal_to_tolerance_above_a_true_bound() -> None:
    places = [0, 0, 1, 1] * 2
    lattices = Lattices(
        LINKS, [0, 4, 8], places, [place + 1 for place in places], list("abcdefgh"),
        losses=LOSSES, names=["f0", "f1", "f2"],
    )  # fmt: skip
    found = lpmert.minimize(lattices, metric="loss", region=REGION)
    units = [Fraction(unit) for unit in lattices.units.tolist()]
    held = [[round(Fraction(value) / unit) * unit for value, unit in zip(row, units, strict=True)] for row in LINKS]
    paths = [(first + s, second + s) for s in (0, 4) for first, second in product((0, 1), (2, 3))]
    sums = [[a + b for a, b in zip(held[first], held[second], strict=True)] for first, second in paths]
    rows = np.array([[float(value) for value in row] for row in sums])
    assert [[Fraction(value) for value in row] for row in rows.tolist()] == sums  # so that lists hold the same
    losses = [LOSSES[first] + LOSSES[second] for first, second in paths]
    same = lpmert.minimize(NBest(rows, [0, 4, 8], losses, names=["f0", "f1", "f2"]), region=REGION, method="choices")
    assert same.status is Status.OPTIMAL
    assert found.status is Status.OPTIMAL_TO_TOLERANCE
    assert found.lower_bound <= same.loss < found.loss
    assert "needs weights that double precision cannot tell from a tie" in str(found)
    # and those of the lists are such: what they choose leads by less than the rounding of its score
    assert same.tied_lists > 0
    assert same.margin < np.finfo(float).eps * float((np.abs(rows) @ np.abs(same.weights)).max())


def _begun(region: Region | None = None) -> tuple[LatticeSearch, CanonicalWeights]:
    """A search over a lattice of two links, and weights."""
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    weights = CanonicalWeights(np.array([1.0, 0.0]))
    start: Any = None
    return LatticeSearch(LatticeProblem(lattices, "wer", region=region), Incumbent(100, weights, ""), start, 1), weights


def test_a_cone_that_cannot_be_split_is_left_unsettled_at_its_bound() -> None:
    search, _ = _begun()
    search._split(Cone(np.array([[1.0, 0.0], [1.0, 2.0**-60]]), all_mixes(2), 0, 7, no_lists(), {}), [(0, 1)])
    assert search.unsettled is None
    assert len(search._heap) == 2
    search._split(Cone(np.array([[2.0**60, 0.0], [1.0, 1.0]]), all_mixes(2), 0, 7, no_lists(), {}), [(0, 1)])
    assert search.unsettled == 7


def test_what_the_search_of_a_leaf_leaves_unsettled_stays_so_with_what_settled_lattices_cost() -> None:
    search, weights = _begun()
    ended: Any = SimpleNamespace(
        finished=True,
        unsettled=5,
        lower_bound=5,
        incumbent=Incumbent(90, weights, ""),
        nodes=1,
        lps=0,
        effort=0.0,
        counters=dict,
    )
    search._leaf = Leaf(np.eye(2), no_lists(), ended, 10, 100, 0)
    search._search_leaf(search._leaf)
    assert search._leaf is None
    assert search.unsettled == 15


def test_weights_beyond_the_region_are_not_taken_whatever_they_lose() -> None:
    search, _ = _begun(Region(nonnegative=True))
    for outside in ([1.0, -0.5], [1.0, 0.0]):  # and on its edge
        assert search._look_at(CanonicalWeights(np.array(outside))).loss == 0
        assert search.incumbent.cost == 100
    search._look_at(CanonicalWeights(np.array([1.0, 0.5])))
    assert search.incumbent.cost == 0
