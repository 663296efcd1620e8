"""Cones and boxes of weights: what is dropped, charged or closed in one is so at all of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product, starmap
from math import factorial, inf
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from long_searches import counted
from oracle import best_loss, clear_winners, dot, exact_cost, inner, null_space
from problems import KINDS, height_of_loss, random_lists, random_nbest
from searches import assert_closes_on

import lpmert
from lpmert import Problem, Status, core
from lpmert.core import box_charges, box_normals, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods import Cells, Incumbent, cells
from lpmert.methods.cells import CellsSearch, Fields, faces, precision_of, root_node
from lpmert.methods.choices import UNIT, Ratio, ratio_lists
from lpmert.metrics import error_rate
from lpmert.model.canonical import CanonicalWeights
from lpmert.numeric.cone import cones_of_box
from lpmert.numeric.lists import SortedLists, sorted_lists

Rng = np.random.Generator
Box = tuple[FloatArray, FloatArray]

NO_SUMS = np.empty(0)  # of statistics, as losses add up


def random_box(rng: Rng, n_features: int, splits: int | None = None) -> Box:
    """Centre and radius of a face of the cube, or of a part of it after some halvings."""
    centre, radius = np.zeros(n_features), np.ones(n_features)
    face = int(rng.integers(n_features))
    centre[face], radius[face] = rng.choice([-1.0, 1.0]), 0.0
    others = [d for d in range(n_features) if d != face]
    for _ in range((int(rng.integers(0, 20)) if splits is None else splits) if others else 0):
        d = int(rng.choice(others))
        if radius[d] > 2.0**-30:
            radius[d] /= 2
            centre[d] += rng.choice([-1.0, 1.0]) * radius[d]
    return centre, radius


def exact(values: FloatArray) -> list[Fraction]:
    return [Fraction(x) for x in values.tolist()]


def least_product(g: Sequence[Fraction | float], centre: FloatArray, radius: FloatArray) -> Fraction:
    """The least product with the corners of a box, one after the other."""
    sides = [sorted({c - r, c + r}) for c, r in zip(exact(centre), exact(radius), strict=True)]
    return min(dot(g, corner) for corner in product(*sides))


def points_inside(rng: Rng, centre: FloatArray, radius: FloatArray, count: int) -> list[list[Fraction]]:
    """Random points of a box in exact numbers, some of them on a side or a corner, some close to one."""
    near = rng.choice([0.0, 1e-9, 1.0], (count, len(centre)))
    shares = rng.choice([-1.0, 1.0], near.shape) * (1.0 - near * rng.random(near.shape))
    box = exact(centre), exact(radius)
    return [[c + r * x for c, r, x in zip(*box, exact(row), strict=True)] for row in shares]


def core_search(lists: SortedLists, *, boxed: bool, leaves: int = 0, ratio: Any = None, precision: Any = None) -> Any:
    """A search over boxes or cones, of sums of losses unless there is a ratio, with no node yet."""
    sizes = 1, leaves, 0, len(lists.offsets)
    settings = cells.NodeSettings(*sizes, most_stalled=100, hopeless=100, row_work=4, levels=8)
    precision = (precision or precision_of(lists)) if boxed else None
    search = core.cell_search(lists.native(), ratio, precision, settings)
    search.renew(np.zeros(lists.rows.shape[1]))
    return search


def beats(
    columns: FloatArray, winner: int, loser: int, box: Box, *, exactly: bool, spread: FloatArray = NO_SUMS
) -> bool:
    """Whether one hypothesis of a list of two, columns [D, 2], drops the other one in a box.

    exactly: whether the search is told that no sum is rounded; spread [D]: what features may be off.
    """
    lists = sorted_lists(np.ascontiguousarray(columns[:, [winner, loser]].T), np.array([0, 2]), np.array([0, 1]))
    lists = lists._replace(spread=spread) if len(spread) else lists
    search = core_search(lists, boxed=True, precision=precision_of(lists)._replace(places=100 if exactly else -1))
    search.push(root_node(lists, box, NO_SUMS))
    search.propagate_root(1 << 59)
    return not len(search.survivors()[0]) and search.top()["own"] == 0


def raised(lists: SortedLists, node: Fields, *, boxed: bool) -> int:
    """How far conflicts raise the bound of a node, asked for more and more."""
    search = core_search(lists, boxed=boxed)
    search.push(node)
    bound = 0
    while (more := search.conflicts(bound)) > bound:
        bound = more
    return bound


def one_pays(first: FloatArray, second: FloatArray, box: Box, rounding: float, off: float = 0.0) -> bool:
    """Whether, of two items with these gains [D], one pays all over a box, as far as rounding tells."""
    return box_charges(np.array([first, second]), np.array([1, 1]), *box, rounding, off, 0, 0)[0] > 0


def least_of_best_mixture(first: FloatArray, second: FloatArray, box: Box) -> Fraction:
    """The largest over all mixtures of the least product: it is linear in the share but where an entry is 0."""
    x, y = exact(first), exact(second)
    shares = {Fraction(0), Fraction(1), *(b / (b - a) for a, b in zip(x, y, strict=True) if a != b)}
    mixed = ([share * a + (1 - share) * b for a, b in zip(x, y, strict=True)] for share in shares if 0 <= share <= 1)
    return max(least_product(one, *box) for one in mixed)


def in_pairs(lists: SortedLists, box: Fields) -> Fields:
    """A box with all hypotheses, of which those of lists of two are pairs."""
    sizes = np.diff(lists.offsets)
    cheap = lists.offsets[:-1][sizes == 2].astype(np.int32)
    rows = np.flatnonzero(np.repeat(sizes > 2, sizes)).astype(np.int32)
    return {**box, "cheap": cheap, "dear": cheap + 1, "ids": rows, "ends": np.cumsum([0, *sizes[sizes > 2]])}


def test_leads_at_the_edge_of_rounding_do_not_count() -> None:
    """Leads that equal the reach but for a few ulps: what counts is true, and some would count without a tolerance."""
    rng = np.random.default_rng(1)
    counted = misled = 0
    for _ in range(4000):
        centre, radius = box = random_box(rng, 3, 8)
        columns = np.zeros((3, 2))
        columns[:, 0] = lead = rng.normal(size=3)
        face = int(np.flatnonzero(radius == 0.0)[0])
        rest = sum(lead[d] * centre[d] - abs(lead[d]) * radius[d] for d in range(3) if d != face)
        columns[face, 0] = -rest * centre[face]
        columns[face, 0] += int(rng.integers(-20, 60)) * float(np.spacing(columns[face, 0])) * centre[face]
        true = least_product(columns[:, 0].tolist(), *box)
        counts = beats(columns, 0, 1, box, exactly=False)
        assert true >= 0 or not counts
        counted += counts
        misled += beats(columns, 0, 1, box, exactly=True) and true < 0
    assert counted > 100
    assert misled > 20  # without the tolerance these would have counted


@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 2.0**-1000, 1e300])
def test_ties_on_a_side_count_where_nothing_is_rounded(scale: float) -> None:
    """The first hypothesis has as much as the second at one corner of the face w1 = 1, |w2| <= 1, else more."""
    columns = np.array([[2.0, 1.0], [0.0, 1.0]]) * scale
    centre, radius = box = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert beats(columns, 0, 1, box, exactly=True)
    assert not beats(columns, 0, 1, box, exactly=False)
    assert not beats(columns, 1, 0, box, exactly=True)
    assert not beats(columns, 0, 1, (centre, radius * (1.0 + 2.0**-20)), exactly=True)


def test_sums_are_called_exact_only_where_they_are() -> None:
    # the largest sum is 7
    places = {(1.0, 2.0): 49 - 3, (0.25, 2.0): 49 - 3 - 10, (0.1, 2.0): -1, (1e15, 2.0): -1, (1e308, 1e308): -1}
    for first, expected in places.items():
        lists = sorted_lists(np.array([first, [3.0, -4.0]]), np.array([0, 2]), np.arange(2))
        assert precision_of(lists).places == expected


@pytest.mark.parametrize("rows", [[[np.inf, 0], [0, 0]], [[np.nan, 0], [0, 0]], [[1e308] * 2, [-1e308] * 2]])
def test_what_is_no_number_beats_nothing(rows: list[list[float]]) -> None:
    columns, box = np.array(rows).T.copy(), (np.array([1.0, 0.5]), np.array([0.0, 0.5]))
    for winner, exactly in ((1, True), (1, False), (0, False)):
        assert not beats(columns, winner, 1 - winner, box, exactly=exactly)
    assert not one_pays(*columns.T, box, 1.0)


def test_rounded_features_count_with_all_that_may_be_meant() -> None:
    """Leads and conflicts that hold for the doubles, but not if every feature is off by as much as it may be."""
    rng = np.random.default_rng(4)
    said = denied = 0
    for _ in range(400):
        centre, radius = box = random_box(rng, 3, 6)
        spread = rng.random(3) * 1e-3
        lists = sorted_lists(rng.integers(-4, 5, (4, 3)) * 2.0**-9, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
        precision = precision_of(lists._replace(spread=spread))
        assert precision.places == -1
        worst = 2 * dot(spread.tolist(), [abs(c) + r for c, r in zip(exact(centre), exact(radius), strict=True)])
        gains = lists.rows[1] - lists.rows[0], lists.rows[3] - lists.rows[2]
        for k, gain in zip((0, 2), gains, strict=True):
            drops = beats(lists.rows.T, k + 1, k, box, exactly=False, spread=spread)
            assert least_product(gain.tolist(), *box) >= worst or not drops
            said += drops
            denied += not drops and beats(lists.rows.T, k + 1, k, box, exactly=False)
        pays = one_pays(*gains, box, 1.0, precision.error)
        assert least_of_best_mixture(*gains, box) >= worst or not pays
        said += pays
    assert said > 50
    assert denied > 20


@pytest.mark.parametrize("splits", [0, 5, 60])
def test_the_sides_of_a_wider_box_hold_all_corners(splits: int) -> None:
    rng = np.random.default_rng(splits)
    for n_features in range(1, 5):
        centre, radius = random_box(rng, n_features, splits)
        normals = box_normals(centre, radius)
        assert normals.shape == (2 * n_features - 1, n_features)
        assert all(least_product(normal, centre, radius) > 0 for normal in normals.tolist())
        wider = cells.WIDER * 1.001 * radius
        outside = sum(least_product(normal, centre, wider) < 0 for normal in normals.tolist())
        assert outside == 2 * n_features - 2  # all but the face itself


def test_a_conflict_at_the_edge_of_rounding_does_not_count() -> None:
    """Random gains that mirror each other; nowhere is their mixture, each by its reach, negative but for a few ulps."""
    rng = np.random.default_rng(3)
    counted = misled = 0
    for _ in range(4000):
        place, reach = rng.uniform(-0.5, 0.5), 2.0 ** -int(rng.integers(2, 8))
        centre, radius = np.array([1.0, place, -place]), np.array([0.0, reach, reach])
        a, b = rng.normal(size=2)
        face = abs(a - b) * reach - (a - b) * place
        face += int(rng.integers(-20, 60)) * float(np.spacing(face))
        factor = float(rng.choice([1.0, rng.random() + 0.5]))
        first, second = np.array([face, a, b]), factor * np.array([face, -b, -a])
        # exact sums of gains are none of their shares
        rounding = 1.0 if factor == 1.0 else float(rng.choice([0.0, 1.0]))
        counts = one_pays(first, second, (centre, radius), rounding)
        true = least_of_best_mixture(first, second, (centre, radius))
        assert true >= 0 or not counts
        counted += counts
        mixed = first + second / factor
        misled += sum(mixed[d] * centre[d] - abs(mixed[d]) * radius[d] for d in range(3)) >= 0.0 > true
    assert counted > 50
    assert misled > 20


IDS, ONE = np.arange(5, dtype=np.int32), np.ones(1, dtype=np.int32)
PLACE = {"centre": np.zeros(3), "radius": np.ones(3)}
DAMAGED_BOX: list[tuple[dict[str, Any], str]] = [
    *(({name: 99 * ONE}, f"{name} must be from 0 to below 5") for name in ("ids", "cheap", "dear")),
    ({"ids": np.array([0, -1, 2], dtype=np.int32)}, "ids must be from 0 to below 5"),
    ({"dear": IDS[3:]}, "dear must have 1 items, not 2"),
    ({"ids": IDS[:4]}, "ends must increase from 0 to the number of rows"),
    *(({"ends": np.array(ends)}, "ends must increase from 0 to the number of rows") for ends in ([0, 4], [0, 0, 3])),
    ({"centre": np.zeros(2)}, "centre must have 3 items, not 2"),
    ({"radius": np.zeros(4)}, "radius must have 3 items, not 4"),
    ({"total": np.zeros(2)}, "total must have 0 items, not 2"),
    ({"ids": IDS[:4], "ends": np.array([0, 4])}, "more lists or hypotheses than there are"),
    ({"ends": np.arange(4)}, "more lists or hypotheses than there are"),
    ({"ids": IDS[[0, 1, 2, 2, 2, 2]], "ends": np.array([0, 3, 6])}, "more lists or hypotheses than there are"),
]


@pytest.mark.parametrize(("fields", "message"), DAMAGED_BOX)
def test_a_box_of_a_damaged_file_is_refused(fields: dict[str, Any], message: str) -> None:
    lists = sorted_lists(np.ones((5, 3)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]))
    box = {"cheap": 3 * ONE, "dear": 4 * ONE, "ids": IDS[:3], "ends": np.array([0, 3]), **PLACE}
    search = core_search(lists, boxed=True)
    search.push(box)
    with pytest.raises(ValueError, match=message):
        search.push({**box, **fields})


@pytest.mark.parametrize("boxed", [True, False])
def test_bytes_of_a_damaged_file_are_refused(boxed: bool) -> None:
    """Cut short, too long, or with any byte changed: what is taken is within bounds, and all else an error."""
    rng = np.random.default_rng(0)
    lists = sorted_lists(rng.normal(size=(5, 3)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]))
    search = core_search(lists, boxed=boxed)
    search.push(root_node(lists, next(faces(3)) if boxed else np.eye(3), NO_SUMS))
    [(_, data)] = search.nodes()
    for wrong in (data[:-1], data[:0], np.append(data, data[:1])):
        with pytest.raises(ValueError, match="an open node has too"):
            search.load(np.ascontiguousarray(wrong))
    refused = 0
    for place in range(len(data)):
        changed = data.copy()
        changed[place] ^= 0x80
        try:
            search.load(changed)
        except ValueError:
            refused += 1
        else:
            assert len(search.survivors()[0]) <= 5
            search.pop()
    assert refused > 20


def test_boxes_are_refused_where_there_are_none() -> None:
    nbest = random_nbest(5, lists=8, size=10, dimension=4)
    region = lpmert.Region(cosine=0.5, around=[1.0, 1.0, 1.0, 1.0])
    with pytest.raises(lpmert.MethodError, match="set simplices"):
        lpmert.minimize(nbest, method=Cells(shape="boxes"), region=region)
    cells, choices = (lpmert.minimize(nbest, method=method, region=region) for method in ("cells", "choices"))
    assert cells.lower_bound == cells.loss == choices.loss


BESIDE = [[0.0, 0.0], [-0.5 - 2.0**-25, 1.0], [-0.5 + 2.0**-40, 1.0], [0.0, 0.0]]
"""Hypotheses of two lists: for w1 = 1, the second one leads beyond w2 = 0.5, the third from just below 0.5 on."""

NEARLY_TIED = [[0.0, 0.0], [-0.27 * 2.0**-13, 2.0**-13], [-0.3, 1.0], [0.0, 0.0], [2.0**40, 2.0**40]]
"""The second one leads by less than scores of a third list, of one hypothesis, are rounded."""


@pytest.mark.parametrize("as_ratio", [False, True])
@pytest.mark.parametrize(
    ("rows", "errors", "below", "least"),
    [(BESIDE, [0, 1, 0, 5], 6, 0), (NEARLY_TIED, [0, 3, 0, 5, 0], 5, 3)],
    ids=["beside", "nearly tied"],
)
def test_a_leaf_is_closed_only_by_weights_that_surely_decode_to_what_was_found(
    rows: list[list[float]], errors: list[int], below: int, least: int, as_ratio: bool
) -> None:
    """Within the box w1 = 1, 0 <= w2 <= 0.5; else exact arithmetic has to close it (2)."""
    ends = np.array([0, 2, 4, 5][: 3 + (len(rows) == 5)])
    costs = np.zeros(len(rows), dtype=np.int64) if as_ratio else np.array(errors)
    lists = sorted_lists(np.array(rows), ends, costs)
    counts = np.column_stack([errors, np.full(len(rows), 8.0)])
    metric, length = error_rate(), 8.0 * (len(ends) - 1)
    ratio = Ratio(metric.kind, metric.parameters, counts, np.zeros(2), counts.max(axis=0), np.arange(len(rows)))
    search = core_search(lists, boxed=True, leaves=10, ratio=ratio if as_ratio else None)
    search.aim(below, below / length if as_ratio else 1.0)
    settled = counts[4:].sum(axis=0)[: 2 * as_ratio]
    search.push(in_pairs(lists, root_node(lists, (np.array([1.0, 0.25]), np.array([0.0, 0.25])), settled)))
    search.begin(1 << 30, -1)
    state, (upper, loss, _) = search.explore(1 << 30), search.found
    assert search.counts[1] > 0
    assert state == 2 or (loss * length if as_ratio else upper) == least


def open_boxes(problem: Problem, budget: int) -> list[Fields]:
    """What is open on every face after so much work, with nothing known to be good."""
    form = problem.canonical
    start = Incumbent(form.cost_of_loss(1.0), CanonicalWeights(np.ones(form.n_features)), "")
    opened = CellsSearch(Cells(shape="boxes", leaf_lists=0), form, start)._nodes
    found: list[Fields] = []
    for face in faces(form.n_features):
        opened.propagate_root(face, start.cost)
        if opened.n_nodes:
            opened.explore(start.cost, budget)
        while opened.n_nodes:
            found.append(opened.top())
            # Prices change, and with them which of a pair is the dearer one: looked up anew, nothing else is found.
            charged, packed = opened._core.conflicts(1 << 60), opened.nodes()[-1]
            opened.drop_top()
            opened.load(packed)
            assert opened._core.conflicts(1 << 60) == charged
            opened.drop_top()
    return found


def prices(box: Fields, offsets: np.ndarray) -> dict[int, dict[int, int]]:
    """What each hypothesis that is left costs more than the cheapest of its list, by list."""
    found = []
    for rows in starmap(slice, pairwise(box["ends"].tolist())):
        assert (np.diff(box["costs"][rows]) >= 0).all()
        dearer = box["costs"][rows] - box["costs"][rows][0]
        found.append(dict(zip(box["ids"][rows].tolist(), dearer.tolist(), strict=True)))
    assert (box["steps"] >= 0).all()
    pairs = zip(box["cheap"].tolist(), box["dear"].tolist(), box["steps"].tolist(), strict=True)
    found += [{cheap: 0, dear: step} for cheap, dear, step in pairs]
    return {int(np.searchsorted(offsets, min(costs), "right")) - 1: costs for costs in found}


def units(ratio: Ratio, total: FloatArray) -> float:
    """The height of sums in units."""
    (loss,) = losses_of_totals(ratio.kind, ratio.parameters, total[None]).tolist()
    return float("inf") if loss >= 1.0 else height_of_loss(ratio.kind, loss) / UNIT


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
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
            for point in points_inside(rng, box["centre"], box["radius"], 4):
                winners = clear_winners(lists, point)
                if winners is None:
                    continue
                tried += 1
                height = units(ratio, ratio.constant + ratio.statistics[winners].sum(axis=0)) * (1.0 + 1e-12)
                assert box["own"] + sum(costs[winners[s]] for s, costs in left.items()) <= height
                assert box["bound"] <= height
                settled = [i for s, i in enumerate(winners) if s not in left]
                assert (box["total"] == ratio.constant + ratio.statistics[settled].sum(axis=0)).all()
    assert tried > 200
    assert swapped > 20
    assert raised > 3


def random_cone(rng: np.random.Generator, n_features: int) -> FloatArray:
    """The rays of an orthant, or of a cone within it after some splits at midpoints."""
    rays = np.diag(rng.choice([-1.0, 1.0], n_features))
    for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
        p, q = rng.choice(n_features, 2, replace=False)
        rays[p] = 0.5 * (rays[p] + rays[q])
    return rays


def points_of_cone(rng: np.random.Generator, rays: FloatArray, count: int) -> list[list[Fraction]]:
    """Random points in exact numbers, some of them close to a ray or a face."""
    shares = rng.integers(1, 1000, (count, len(rays))) * 10 ** rng.integers(0, 6, (count, len(rays)))
    columns = [exact(column) for column in rays.T]
    return [[inner(own, column) for column in columns] for own in shares.tolist()]


def bound_in(lists: SortedLists, part: Any) -> int:
    """How far conflicts raise the bound of a cone (rays) or box (centre and radius), asked for more and more."""
    boxed = isinstance(part, tuple)
    node = root_node(lists, part, NO_SUMS)
    node = in_pairs(lists, node) if boxed else node
    return raised(lists, node, boxed=boxed)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_conflicts_never_charge_more_than_any_weights_inside_cost(kind: str, boxed: bool) -> None:
    tried = charged = 0
    for seed in range(500, 510):
        lists = Problem(random_lists(kind, seed, most_features=4).nbest).canonical.by_cost
        rng = np.random.default_rng(seed)
        for _ in range(4 if len(lists.costs) else 0):
            part: Any = (random_box if boxed else random_cone)(rng, lists.rows.shape[1])
            bound = bound_in(lists, part)
            charged += bound > 0
            for point in points_inside(rng, *part, 8) if boxed else points_of_cone(rng, part, 8):
                cost = exact_cost(lists, point)
                tried += cost is not None
                assert cost is None or bound <= cost, (kind, seed, part, point)
    assert tried > 40
    assert charged or kind == "idle columns" or boxed


def charged(first: Sequence[float], second: Sequence[float], spread: Sequence[float] = ()) -> bool:
    """Whether one of two lists pays in the first orthant, each of two hypotheses with this gain [D] of the dearer."""
    nothing = np.zeros(len(first))
    lists = sorted_lists(np.array([nothing, first, nothing, second]), np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    return bound_in(lists._replace(spread=np.array(spread)) if spread else lists, np.eye(len(first))) > 0


def test_a_sum_at_the_edge_of_rounding_does_not_count() -> None:
    """A multiple of the first gain makes up for the losses of the second, but for a few ulps: what counts is true."""
    rng = np.random.default_rng(0)
    counted = misled = 0
    for _ in range(4000):
        multiple, loss = float(np.float32(rng.uniform(0.75, 1.0))), rng.uniform(0.05, 0.4)
        least = multiple - int(rng.integers(2) * rng.integers(0, 30)) * float(np.spacing(multiple))
        gain = multiple * loss
        gain += int(rng.integers(2) * rng.integers(-10, 30)) * float(np.spacing(gain))
        true = Fraction(least) * Fraction(loss) <= Fraction(gain)  # some multiple is enough and not too much
        counts = charged([1.0, -loss, 0.0], [-least, gain, 1.0])
        assert true or not counts
        counted += counts
        misled += gain - multiple * loss >= 0.0 and not true
    assert counted > 100  # many of those that are clear do
    assert misled > 100  # without the tolerance these would have counted


@pytest.mark.parametrize("multiple", [1.0, 0.25])
def test_errors_of_scores_are_taken_off(multiple: float) -> None:
    """A lead within what four scores may be off together is none; a little more is one."""
    error = 2.0**-40
    edge = 2.0 * error * (multiple + 1.0)
    for lead, counts in ((0.999 * edge, False), (1.001 * edge, True)):
        second = [-multiple * (1.0 - 1e-9), multiple * 0.125 + lead, 1.0]
        assert charged([1.0, -0.125, 0.0], second, [0.0, error, 0.0]) == counts


def test_a_loss_that_underflows_in_a_mixture_is_one() -> None:
    """In the shares by which the first makes up for the second, its loss at the second ray is below all doubles."""
    assert not charged([1.0, -1e-50, -0.25], [-1e-300, 0.0, 1e-300])
    assert charged([1.0, 0.0, -0.25], [-1.0, 0.0, 1.0])


def test_what_is_no_number_or_overflows_is_no_lead() -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        gains = (np.inf, 1.0), (np.nan, 1.0), (1e308, 1e308), (np.inf, -np.inf)
        assert not any(charged([first], [second]) for first, second in gains)


def test_a_level_of_costs_counts_all_hypotheses_that_cost_less() -> None:
    """At (1, 1, 0.9) the one that is ahead there beats all others of its list, and the second list has its cheapest."""
    ahead, here, behind, dear = [-2.0, 0.0, 3.0], [0.0] * 3, [-9.0, 0.0, 0.0], [0.0, 1.0, -1.0]
    for rows, costs in (
        ([here, ahead, behind, dear], [0, 0, 1, 2]),  # what costs one more is ahead nowhere
        ([ahead, here, dear], [0, 1, 2]),  # what costs one more leads at the centre
    ):
        ends = np.array([0, len(rows), len(rows) + 2])
        lists = sorted_lists(np.array([*rows, [0.0] * 3, [0.0, -1.0, 1.0]]), ends, np.array([*costs, 0, 1]))
        assert exact_cost(lists, [Fraction(1), Fraction(1), Fraction(9, 10)]) == 0
        assert bound_in(lists, (np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0]))) == 0


def test_what_others_of_the_cheapest_are_ahead_is_not_rounded_down() -> None:
    """Their lead is what cancels in a sum of large products; at a corner it is more than doubles make of it."""
    rng = np.random.default_rng(4)
    radius, slope, free = 2.0**-30, 2.0**-26, 0
    for _ in range(200):
        x, y = (int(k) * 2 * radius for k in rng.integers(2**20, 2**28, 2))
        a, b = rng.random(2) + 0.5
        other = [-(a * x + b * y), a, b]
        beyond = other[0] + a * x + b * y + (a * radius + b * radius)
        dear = [beyond + 2.0**-60 - slope * x, slope, 0.0]
        features = np.array([[0.0] * 3, other, dear, [0.0] * 3, [slope * x, -slope, 0.0]])
        lists = sorted_lists(features, np.array([0, 3, 5]), np.array([0, 0, 1, 0, 1]))
        cost = exact_cost(lists, [Fraction(1), Fraction(x) + Fraction(radius), Fraction(y) + Fraction(radius)])
        assert cost is None or bound_in(lists, (np.array([1.0, x, y]), np.array([0.0, radius, radius]))) <= cost
        free += cost == 0
    assert free > 10


@pytest.mark.parametrize("exact", [False, True])
def test_errors_of_scores_at_rays_are_no_less_than_the_spread_and_rounding_allow(exact: bool) -> None:
    """exact: products of features with rays are, but the sum of what these features are off is rounded."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, spread, rays = rng.normal(size=(4, 3)), np.zeros(3), rng.normal(size=(3, 3))
        if exact:
            features, spread, rays = rng.integers(-9, 10, (4, 3)), rng.random(3), rng.integers(1, 8, (3, 3)) * 1.0
        lists = sorted_lists(features, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))._replace(spread=spread)
        node = root_node(lists, rays, NO_SUMS)
        found = np.reshape(node["scores"], (3, 4)).tolist()
        for ray, own, error in zip(rays.tolist(), found, node["errors"].tolist(), strict=True):
            away = dot(map(abs, ray), spread.tolist())
            off = (abs(Fraction(score) - dot(ray, row)) for row, score in zip(lists.rows.tolist(), own, strict=True))
            assert max(off) + away <= Fraction(error)


def coordinates(rays: FloatArray, point: list[Fraction]) -> list[Fraction]:
    """What a point is of independent rays [D, D] in exact numbers."""
    (solution,) = null_space([[*exact(axis), -value] for axis, value in zip(rays.T, point, strict=True)], len(rays) + 1)
    return [value / solution[-1] for value in solution[:-1]]


def test_every_vector_of_a_box_lies_in_one_of_its_cones() -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        n_features = int(rng.integers(1, 6))
        centre, radius = random_box(rng, n_features)
        cones = cones_of_box(centre, radius * rng.choice([-1.0, 1.0], n_features))
        assert len(cones) == factorial(n_features - 1)
        ends = [{c - r, c + r} for c, r in zip(exact(centre), exact(radius), strict=True)]
        for ray in cones.reshape(-1, n_features):  # corners, exactly
            assert all(x in own for x, own in zip(exact(ray), ends, strict=True))
        for point in points_inside(rng, centre, radius, 4):
            assert max(min(coordinates(rays, point)) for rays in cones) >= 0


def corners(n_lists: int = 40) -> lpmert.NBest:
    """Lists whose hypotheses mostly differ in all features but the second, where they are tied, as in decoders."""
    rng = np.random.default_rng(8)
    features = rng.integers(-9, 10, (n_lists * 6, 4)) / 10.0
    features[:, 1] = np.repeat(rng.integers(-9, 10, n_lists * 2), 3) / 10.0
    return lpmert.NBest(features, np.arange(0, n_lists * 6 + 1, 6), rng.integers(0, 9, n_lists * 6).astype(float))


def test_many_boundaries_in_a_corner_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = corners()
    expected = lpmert.minimize(nbest, method=Cells(shape="simplices"))
    assert expected.status is Status.OPTIMAL
    divided = MagicMock(wraps=cones_of_box)
    monkeypatch.setattr("lpmert.methods.cells.cones_of_box", divided)
    for splits in (1, 4):
        result = lpmert.minimize(nbest, method=Cells(shape="boxes", stalled_splits=splits), time_limit=60)
        assert (result.status, result.loss) == (Status.OPTIMAL, expected.loss)
    divided.assert_called()


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a search leave boxes for simplices as soon as one has stalled."""
    monkeypatch.setattr(cells, "_PATIENCE", 0)
    monkeypatch.setattr(cells, "_CLOSING_SHARE", 0.0)


def test_where_boxes_stall_simplices_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    form, least = Problem(corners(18)).canonical, lpmert.minimize(corners(18), method=Cells(shape="simplices")).loss

    def begun() -> CellsSearch:
        start = Incumbent(form.dearest + 1, CanonicalWeights(np.ones(4)), "")
        return CellsSearch(Cells(stalled_splits=1), form, start)

    monkeypatch.setattr(cells, "_PATIENCE", 1_000_000)
    patient = begun()
    while not patient.finished:
        patient.advance()
    assert patient._task.boxed
    impatient(monkeypatch)
    search, kept = begun(), None
    while kept is None:
        bound, nodes = search.lower_bound, search.nodes
        search.advance()
        assert bound <= search.lower_bound
        assert nodes <= search.nodes
        kept = None if search._task.boxed else dict(search.state())
    assert search._stalled == 1
    # A search that goes on from what is kept after that is one over simplices from the beginning.
    again = begun()
    again.restore(kept)
    counted = kept["counts"].get("nodes", 0) + kept["_counted"].get("nodes", 0)
    assert (again._task.boxed, again.lower_bound, again.nodes) == (False, kept["_floor"], counted)
    for one in (search, again):
        assert_closes_on(least, one, form)


def test_nothing_is_lost_on_the_way_from_boxes_to_simplices(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    left = []
    restart = CellsSearch._restart_with_simplices
    monkeypatch.setattr(CellsSearch, "_restart_with_simplices", lambda search: (left.append(search), restart(search)))
    method = Cells(leaf_lists=0, stalled_splits=1)
    for kind, seed in product(KINDS, range(910, 918)):
        lists = random_lists(kind, seed, most_features=5, most_lists=8)
        found = [lpmert.minimize(lists.nbest, method=method, jobs=jobs) for jobs in (1, 2)]
        assert found[0].loss == pytest.approx(float(best_loss(lists)), rel=1e-12, abs=1e-12), (kind, seed)
        assert found[0].counters == found[1].counters
    assert len(left) > 10


def _open_cones(lists: SortedLists, node: Fields, budget: int) -> tuple[int, list[Fields]]:
    """How a slice of the search from one cone ends, and the cones that are open then."""
    search = core_search(lists, boxed=False)
    search.push(node)
    search.aim(1 << 59, inf)
    search.begin(budget, -1)
    ended, found = search.explore(1 << 40), []
    while search.nodes():
        found.append(search.top())
        search.pop()
    return ended, found


@pytest.mark.parametrize(("whole", "unit"), [(False, 1.0), (True, 1.0), (True, 2.0**-1074)])
def test_scores_at_the_rays_of_split_cones_are_off_by_no_more_than_their_errors(whole: bool, unit: float) -> None:
    """Those of an orthant are exact, and so are means of whole numbers; others may round, and the tiniest."""
    rng = np.random.default_rng(6)
    features = rng.normal(size=(160, 3)) * 10.0 ** rng.integers(-2, 3, (160, 3))
    features = np.round(features * 100.0) * unit if whole else features
    lists = sorted_lists(features, np.arange(0, 161, 8), rng.integers(0, 9, 160))
    node = root_node(lists, np.diag([1.0, -1.0, 1.0]), NO_SUMS)
    assert not np.any(node["errors"])
    _, cones = _open_cones(lists, node, 2_000)
    off = 0
    for cone in cones:
        rays = np.reshape(cone["rays"], (3, 3)).tolist()
        for ray, error, scores in zip(rays, cone["errors"].tolist(), np.reshape(cone["scores"], (3, -1)), strict=True):
            for i, score in zip(cone["ids"].tolist(), scores.tolist(), strict=True):
                true = dot(lists.rows[i].tolist(), ray)
                assert abs(Fraction(score) - true) <= Fraction(error)
                off += Fraction(score) != true
    assert len(cones) > 3
    assert (off == 0) == (whole and unit == 1.0)


@pytest.mark.parametrize(
    ("kind", "lead", "n_left"),
    [
        *(("cone", lead, n_left) for lead, n_left in ((1.9, 2), (1.999, 2), (2.001, 0), (2.1, 0))),
        *((box, lead, n_left) for box in ("box", "pair") for lead, n_left in ((1.9, 2), (1.999, 2), (2.3, 0))),
    ],
)
def test_a_lead_of_what_both_may_be_off_drops_nothing(kind: str, lead: float, n_left: int) -> None:
    """Scores at the rays of a cone, or two features, whose weights in the box count as 1 at most."""
    off = np.full(2, 2.0**-20)
    lists = sorted_lists(np.array([[1.0, 1.0], 1.0 + lead * off]), np.array([0, 2]), np.array([0, 1]))
    if kind == "cone":
        node = {**root_node(lists, np.eye(2), NO_SUMS), "scores": np.tile([0.0, lead * off[0]], 2), "errors": off}
    else:
        lists = lists._replace(spread=off)
        node = root_node(lists, (np.array([1.0, 0.75]), np.array([0.0, 2.0**-30])), NO_SUMS)
        node = in_pairs(lists, node) if kind == "pair" else node
    search = core_search(lists, boxed=kind != "cone")
    search.push(node)
    search.propagate_root(1 << 59)
    assert (len(search.survivors()[0]), search.top()["own"]) == (n_left, int(n_left == 0))


def test_a_cone_whose_middle_is_no_sum_of_doubles_is_not_split() -> None:
    lists = sorted_lists(np.array([[1.0, 0.0], [0.0, 1.0]] * 2), np.array([0, 2, 4]), np.array([0, 1, 1, 0]))
    for smallest, splits in ((2.0**-40, True), (2.0**-60, False)):
        rays = np.array([[1.0, 0.0], [smallest, 1.0]])
        ended, cones = _open_cones(lists, root_node(lists, rays, NO_SUMS), 200)
        assert splits == (len(cones) != 1 or np.ravel(cones[0]["rays"]).tolist() != rays.ravel().tolist())
        assert splits or ended == 2
