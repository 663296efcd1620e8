"""Lemmas and counterexamples of the proofs hold in numbers, and the functions that rely on them agree."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from oracle import strictly_feasible as strict

import lpmert
from lpmert.core import lay_minorant
from lpmert.errors import FloatArray
from lpmert.methods.lp_mert.attainability import AttainabilityOracle, PublishedSearch
from lpmert.methods.lp_mert.method import LpMert
from lpmert.metrics.ratio import Budget
from lpmert.model.presolve import fixed_point
from lpmert.model.problem import Problem
from lpmert.model.region import Region, limits_of
from lpmert.numeric.cone import Cap, covering_cones, enclosing_cone, outer_normals, project, wider_rays
from lpmert.numeric.lists import rounding_bound
from lpmert.whole import _narrowed, _relaxed

pytestmark = pytest.mark.usefixtures("poor_start")


# P: the problem


def test_half_a_unit_for_each_list_is_reached() -> None:
    # One loss of 1 sets the unit to 2^-58; the others are half a unit, and rounded to even, that is to 0.
    n_lists = 8
    losses = np.zeros(2 * n_lists + 2)
    losses[1], losses[3::2] = 1.0, 2.0**-59
    offsets = np.arange(0, len(losses) + 1, 2)
    rounded = fixed_point(losses, offsets)
    assert (rounded.unit, rounded.rounded) == (2.0**-58, True)
    exact = sum(Fraction(one) for one in losses[1::2].tolist())
    found = Fraction(rounded.unit) * (rounded.constant + sum(rounded.costs[1::2].tolist()))
    assert exact - found == n_lists * Fraction(rounded.unit) / 2


@pytest.mark.parametrize("seed", range(5))
def test_differences_of_scores_are_off_by_less_than_their_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(2, 20))
    features = rng.normal(size=(40, width)) * 10.0 ** rng.integers(-3, 4, size=(40, width))
    nbest = lpmert.NBest(features=features, offsets=[0, 40], statistics=np.arange(40.0))
    problem = Problem(nbest)
    form = problem.canonical
    weights = rng.normal(size=form.n_features)
    bound = rounding_bound(weights, form.reach)
    scores = form.features @ weights
    exact = [
        sum(Fraction(a) * Fraction(b) for a, b in zip(row, weights.tolist(), strict=True))
        for row in form.features.tolist()
    ]
    for i, j in combinations(range(40), 2):
        assert abs(Fraction(scores[i] - scores[j]) - (exact[i] - exact[j])) < Fraction(bound)


# S: selections

Vectors = list[list[int]]

# The examples of S3: lists in the plane, and the positions chosen.
CROSS: Vectors = [[0, 0], [1, 0], [-1, 0]]
STEP: Vectors = [[0, 0], [0, 1]]
EDGE: Vectors = [[0, 0], [1, 0], [2, 0], [0, -1]]
RIGHT: Vectors = [[0, 0], [1, 0], [2, 0]]
LEFT: Vectors = [[0, 0], [-1, 0], [-2, 0]]


def differences(lists: list[Vectors], chosen: tuple[int, ...]) -> list[list[int]]:
    """One row for each other hypothesis of each list: the sparse combination."""
    return [
        [a - b for a, b in zip(one[pick], other, strict=True)]
        for one, pick in zip(lists, chosen, strict=True)
        for place, other in enumerate(one)
        if place != pick
    ]


@pytest.mark.parametrize(
    ("lists", "chosen", "passes", "attainable"),
    [
        ([CROSS], (0,), False, False),  # E1: interior in a part, extreme in the whole
        ([CROSS, STEP], (0, 1), True, False),
        ([RIGHT, LEFT], (0, 0), False, False),  # E2: the same three lists, combined in two orders
        ([RIGHT, STEP], (0, 0), True, True),
        ([RIGHT, LEFT, STEP], (0, 0, 0), True, False),
        ([EDGE], (1,), True, False),  # E4: a point inside an edge
    ],
)
def test_the_published_test_on_the_examples(
    lists: list[Vectors], chosen: tuple[int, ...], passes: bool, attainable: bool
) -> None:
    assert (weak_weights(lists, chosen) is not None) == passes
    assert strict(differences(lists, chosen)) == attainable


def weak_weights(lists: list[Vectors], chosen: tuple[int, ...]) -> FloatArray | None:
    offsets = np.cumsum([0, *map(len, lists)])
    losses = np.concatenate([np.arange(len(one)) for one in lists]).astype(float)
    problem = Problem(lpmert.NBest(features=np.vstack(lists), offsets=offsets, statistics=losses))
    form = problem.canonical
    assert form.n_lists == len(lists)
    return AttainabilityOracle(form.by_cost).published_weights(np.arange(len(lists)), np.array(chosen))


def test_the_published_result_depends_on_the_order_of_the_lists() -> None:
    accepted = []
    for lists in ([RIGHT, STEP, LEFT], [RIGHT, LEFT, STEP]):
        offsets = np.cumsum([0, *map(len, lists)])
        losses = np.concatenate([np.minimum(np.arange(len(one)), 1) for one in lists]).astype(float)
        nbest = lpmert.NBest(features=np.vstack(lists), offsets=offsets, statistics=losses)
        assert lpmert.minimize(nbest, method="lp-mert").loss == 1.0
        search = PublishedSearch(Problem(nbest).canonical)
        while not search.finished:
            search.advance()
        (first,) = search._root.found
        accepted.append(first.cost * search._canonical.unit)
        result = lpmert.minimize(nbest, method=LpMert(published=True))
        assert result.loss >= 1.0
        assert result.status is (
            lpmert.Status.OPTIMAL if accepted[-1] == 1.0 and result.loss == 1.0 else lpmert.Status.HEURISTIC
        )
    assert accepted == [0.0, 1.0]


# K: cones


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 14])
def test_every_vector_lies_in_a_starting_cone(width: int) -> None:
    rng = np.random.default_rng(width)
    inverses = np.linalg.inv(list(covering_cones(width)))
    vectors = np.vstack([rng.normal(size=(200, width)), rng.integers(-1, 2, size=(200, width))])
    coordinates = vectors @ inverses
    assert (coordinates >= -1e-12).all(axis=2).any(axis=0).all()


@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_wider_cones_contain_narrower_ones(width: int) -> None:
    rng = np.random.default_rng(width)
    checked = 0
    for _ in range(40):
        rays = np.round(rng.normal(size=(width, width)) * 1024) / 1024
        normals, certain = outer_normals(rays)
        wider = wider_rays(rays)
        if not certain or wider is None or np.linalg.cond(rays) > 1e4:
            continue
        checked += 1
        for k, d in product(range(width), repeat=2):  # in exact arithmetic
            assert sum(Fraction(a) * Fraction(b) for a, b in zip(rays[k], normals[d], strict=True)) > 0
        # The corners of the cone of the normals, in coordinates along the wider rays.
        corners = np.linalg.inv(normals)
        assert (corners.T @ np.linalg.inv(wider) > 0).all()
    assert checked > 10


# R: ratio metrics


def test_bounds_of_budgets_lie_below_the_loss() -> None:
    """In fractions; units are such that losses or excess come up to 1/2 and beyond, where f is cut off."""
    rng = np.random.default_rng(11)
    seen = dict.fromkeys(("within", "beyond", "priced"), 0)
    for _ in range(1500):
        lists = [rng.integers(0, 9, (int(rng.integers(1, 4)), 2)) for _ in range(int(rng.integers(1, 4)))]
        lists = [one * int(rng.choice([1, 10**5])) for one in lists]
        low, high = (sum(end(one, axis=0) for one in lists).astype(float) for end in (np.min, np.max))
        most = float(max(0, int(rng.integers(low[1] - 2, high[1] + 3))))
        unit, beyond = (2.0 ** float(rng.integers(-26, -2)) for _ in range(2))
        metric, at = Budget(most, unit, beyond), rng.uniform(low, high)
        constant, slopes = lay_minorant(metric.kind, metric.parameters, low, high, at)
        for picks in product(*(range(len(one)) for one in lists)):
            loss, second = (int(sum(one[pick][k] for one, pick in zip(lists, picks, strict=True))) for k in range(2))
            exact = min(Fraction(1, 2), Fraction(unit) * loss)
            if second > most:
                exact = min(Fraction(1), Fraction(1, 2) + Fraction(beyond) * (second - int(most)))
            assert exact == Fraction(metric.loss(np.array([loss, second], dtype=float)))
            below = Fraction(constant) + Fraction(float(slopes[0])) * loss + Fraction(float(slopes[1])) * second
            assert below <= exact
            if high[1] <= most and unit * high[0] <= 0.5:
                seen["within"] += 1
                assert exact - below < 1e-12
            if low[1] > most and beyond * (high[1] + most) <= 0.5:
                seen["beyond"] += 1
                assert exact - below < 1e-12
        seen["priced"] += bool(slopes[0] and slopes[1])
    assert min(seen.values()) > 100


# G: regions


def test_a_cell_that_only_touches_the_cap_is_not_in_it() -> None:
    # The cell {w1 > 0, 4 w1 < 3 w2} and w0 = (1, 0): the closed cell reaches the cosine 3/5 at (3, 4) only.
    rows, centre = np.array([[1.0, 0.0], [-4.0, 3.0]]), np.array([1.0, 0.0])
    nearest, multipliers = project(rows, centre)
    assert nearest == pytest.approx([0.36, 0.48])
    assert (multipliers >= 0).all()
    edge = np.array([3.0, 4.0])
    assert Cap(centre, 0.6).contains(edge) == (Fraction(0.6) <= Fraction(3, 5))
    rng = np.random.default_rng(0)
    inside = rng.normal(size=(20000, 2))
    inside = inside[(inside @ rows.T > 0).all(axis=1)]
    cosines = inside @ centre / np.linalg.norm(inside, axis=1)
    assert len(inside) > 1000
    assert (cosines < 0.6).all()
    for cosine, reaches in ((0.61, False), (0.59, True)):
        hypotheses = [[0.0, 0.0], [-1.0, 0.0], [4.0, -3.0]]
        nbest = lpmert.NBest(features=hypotheses, offsets=[0, 3], statistics=[0.0, 1.0, 1.0], names=["a", "b"])
        region = Region(cosine=cosine, around={"a": 1.0, "b": 0.0})
        assert lpmert.minimize(nbest, method="choices", region=region).loss == (0.0 if reaches else 1.0)


@pytest.mark.parametrize("value", [1.0, -1.0, 0.5, -4.0])
@pytest.mark.parametrize("limit", [0.25, -0.25, 3.0])
def test_limits_with_a_reference_hold_exactly_where_the_scaled_weights_keep_them(value: float, limit: float) -> None:
    region = Region(fixed={"a": value}, bounds={"b": (limit, None)})
    limits = limits_of(region, ["a", "b", "c"])
    rng = np.random.default_rng(0)
    for w in rng.integers(-8, 9, size=(200, 3)).astype(float):
        if w[0] * value <= 0:
            continue
        scaled = [Fraction(value) / Fraction(w[0]) * Fraction(one) for one in w.tolist()]
        products = [
            sum(Fraction(a) * Fraction(b) for a, b in zip(row, w.tolist(), strict=True)) for row in limits.rows.tolist()
        ]
        assert all(one >= 0 for one in products) == (scaled[1] >= Fraction(limit))


@pytest.mark.parametrize("width", range(2, 9))
def test_a_cone_encloses_rays_however_flat(width: int) -> None:
    rng = np.random.default_rng(width)
    flat = 0
    for k in range(60):
        around = rng.normal(size=width)
        spread = 10.0 ** -rng.integers(1, 9)
        rays = around + spread * rng.normal(size=(width, width))
        if k % 2:  # all but in one plane
            rays -= (1 - 1e-13) * np.outer(rays @ np.eye(width)[0], np.eye(width)[0])
        enclosing = enclosing_cone(rays)
        if enclosing is None:
            continue
        normals, wider = enclosing
        flat += int(np.linalg.cond(rays) > 1e8)
        for ray, normal in product(rays, normals):  # in exact arithmetic
            assert sum(Fraction(a) * Fraction(b) for a, b in zip(ray, normal, strict=True)) > 0
        corners = np.linalg.inv(normals)
        assert (corners.T @ np.linalg.inv(wider) > 0).all()
    assert flat > 10


def test_no_cone_encloses_rays_that_lead_everywhere() -> None:
    assert enclosing_cone(np.array([[1.0, 0.0], [-1.0, 1e-14]])) is None
    assert enclosing_cone(np.array([[1.0, 0.0], [0.0, 0.0]])) is None


def test_limits_in_whole_numbers_rule_out_no_weights_of_the_cone() -> None:
    """All whole weights of small cones, with features whose digits are cut off."""
    rng = np.random.default_rng(5)
    kept = 0
    for _ in range(40):
        width, size = int(rng.integers(1, 4)), 4
        centre = rng.normal(size=width)
        limits = rng.normal(size=(5, width)) * 10.0 ** rng.integers(-8, 9)
        limits *= np.sign(limits @ centre)[:, None]
        whole = _relaxed(limits)
        box = _narrowed(whole, np.full(width, -size), np.full(width, size), size * width)
        for weights in product(range(-size, size + 1), repeat=width):
            exact = [sum(Fraction(a) * w for a, w in zip(row, weights, strict=True)) for row in limits.tolist()]
            if min(exact) > 0:
                kept += 1
                assert (box[0] <= weights).all()
                assert (weights <= box[1]).all()
                assert (whole @ np.array(weights) > -size * width).all()
    assert kept > 50
