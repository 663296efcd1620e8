"""Boxes of weights for ratio metrics: no weights of a box have less than its bound and the prices in it say."""

from fractions import Fraction

import numpy as np
import pytest
from long_searches import counted
from oracle import clear_winners

from lpmert.core import height_of_loss, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.cells.nodes import Fields, faces
from lpmert.methods.choices.ratio import UNIT, Ratio, ratio_lists
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

METRICS = ("bleu", "chrf")


def open_boxes(problem: Problem, budget: int) -> list[Fields]:
    """What is open on every face after so much work, with nothing known to be good."""
    form = problem.canonical
    start = Incumbent(form.cost_of_loss(1.0), CanonicalWeights(np.ones(form.n_features)), "")
    search = CellsSearch(Cells(shape="boxes", leaf_lists=0), form, start)
    nodes = search._nodes
    found: list[Fields] = []
    for face in faces(form.n_features):
        nodes.load_root(face)
        nodes.prune_root(start.cost)
        if nodes.n_nodes:
            nodes.explore(start.cost, budget)
        while nodes.n_nodes:
            found.append(nodes.top())
            # Prices change, and with them which of a pair is the dearer one: looked up anew, nothing else is found.
            charged, packed = nodes._core.conflicts(1 << 60), nodes.nodes()[-1]
            nodes.drop_top()
            nodes.load(packed)
            assert nodes._core.conflicts(1 << 60) == charged
            nodes.drop_top()
    return found


def prices(box: Fields, offsets: np.ndarray) -> dict[int, dict[int, int]]:
    """What each hypothesis that is left costs more than the cheapest of its list, by list."""
    found: dict[int, dict[int, int]] = {}
    for low, high in zip(box["ends"][:-1].tolist(), box["ends"][1:].tolist(), strict=True):
        ids, costs = box["ids"][low:high].tolist(), box["costs"][low:high]
        assert (np.diff(costs) >= 0).all()
        found[int(np.searchsorted(offsets, ids[0], "right")) - 1] = dict(
            zip(ids, (costs - costs[0]).tolist(), strict=True)
        )
    for cheap, dear, step in zip(box["cheap"].tolist(), box["dear"].tolist(), box["steps"].tolist(), strict=True):
        assert step >= 0
        found[int(np.searchsorted(offsets, cheap, "right")) - 1] = {cheap: 0, dear: step}
    return found


def inside(rng: np.random.Generator, box: Fields) -> list[Fraction]:
    """Random weights of a box, some of them on a side."""
    shares = np.clip(rng.uniform(-1.2, 1.2, len(box["centre"])), -1.0, 1.0)
    return [
        Fraction(c) + Fraction(r) * Fraction(x)
        for c, r, x in zip(box["centre"].tolist(), box["radius"].tolist(), shares.tolist(), strict=True)
    ]


def units(ratio: Ratio, total: FloatArray) -> float:
    """The height of sums in units."""
    (loss,) = losses_of_totals(ratio.kind, ratio.parameters, total[None]).tolist()
    return float("inf") if loss >= 1.0 else height_of_loss(ratio.kind, loss) / UNIT


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_in_a_box_is_lower_than_its_bound_and_prices(metric: str) -> None:
    rng = np.random.default_rng(0)
    tried = swapped = raised = 0
    for seed in range(3):
        problem = Problem(counted(seed, metric, n_features=3 + seed % 2), metric)
        lists, ratio = ratio_lists(problem.canonical)
        for box in open_boxes(problem, 40_000):
            swapped += int((box["cheap"] > box["dear"]).sum())
            raised += box["bound"] > box["own"]
            left = prices(box, lists.offsets)
            for _ in range(4):
                winners = clear_winners(lists, inside(rng, box))
                if winners is None:
                    continue
                tried += 1
                height = units(ratio, ratio.constant + ratio.statistics[winners].sum(axis=0)) * (1.0 + 1e-12)
                assert all(winners[s] in costs for s, costs in left.items())
                assert box["own"] + sum(costs[winners[s]] for s, costs in left.items()) <= height
                assert box["bound"] <= height
                settled = [i for s, i in enumerate(winners) if s not in left]
                assert (box["total"] == ratio.constant + ratio.statistics[settled].sum(axis=0)).all()
    assert tried > 200
    assert swapped > 20
    assert raised > 3
