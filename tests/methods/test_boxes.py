"""Boxes of weights: what is dropped, charged or closed in one is so at all of its weights, for sums and ratios."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product, starmap
from typing import Any

import numpy as np
import pytest
from long_searches import counted
from oracle import clear_winners, dot
from problems import height_of_loss, random_nbest

import lpmert
from lpmert import Problem, core
from lpmert.core import box_charges, box_normals, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods import Cells, Incumbent, cell_nodes
from lpmert.methods.cell_nodes import Fields, faces, precision_of, root_node
from lpmert.methods.cells import CellsSearch
from lpmert.methods.choices import UNIT, Ratio, ratio_lists
from lpmert.metrics import error_rate
from lpmert.model.canonical import CanonicalWeights
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
    settings = cell_nodes.NodeSettings(*sizes, most_stalled=100, hopeless=100, row_work=4, levels=8)
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
        wider = cell_nodes.WIDER * 1.001 * radius
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
