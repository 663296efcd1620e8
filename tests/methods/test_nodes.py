"""Cones and boxes: conflicts charge no more than weights inside cost, and boxes become cones without loss."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import factorial, inf
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from oracle import best_loss, dot, exact_cost, inner, null_space
from problems import KINDS, random_lists
from searches import assert_closes_on
from test_boxes import NO_SUMS, core_search, exact, in_pairs, points_inside, raised, random_box

import lpmert
from lpmert import Problem, Status
from lpmert.errors import FloatArray
from lpmert.methods import Cells, Incumbent, cells
from lpmert.methods.cell_nodes import Fields, root_node
from lpmert.methods.cells import CellsSearch
from lpmert.model.canonical import CanonicalWeights
from lpmert.numeric.cone import cones_of_box
from lpmert.numeric.lists import SortedLists, sorted_lists


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
    monkeypatch.setattr("lpmert.methods.cell_nodes.cones_of_box", divided)
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
