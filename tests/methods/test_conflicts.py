"""Conflicts of lists in a cone or box charge no more than what any weights in it cost, however near to a tie."""

from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
import pytest
from oracle import exact_cost
from problems import KINDS, random_lists
from test_boxes import NO_SUMS, exact, in_pairs, points_inside, raised, random_box

from lpmert.errors import FloatArray
from lpmert.methods.cells.nodes import whole_box, whole_cone
from lpmert.model.problem import Problem
from lpmert.numeric.lists import SortedLists, sorted_lists


class Cones:
    boxed = False
    opposite = np.array([[1.0, 0.0625, 0.0], [1.0, 0.0, 0.0625], [1.0, -0.0625, -0.0625]])

    @staticmethod
    def drawn(rng: np.random.Generator, n_features: int) -> FloatArray:
        """The rays of an orthant, or of a cone within it after some splits at midpoints."""
        rays = np.diag(rng.choice([-1.0, 1.0], n_features))
        for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
            p, q = rng.choice(n_features, 2, replace=False)
            rays[p] = 0.5 * (rays[p] + rays[q])
        return rays

    @staticmethod
    def node(lists: SortedLists, rays: FloatArray) -> Any:
        return whole_cone(lists, rays, NO_SUMS)

    @staticmethod
    def inside(rng: np.random.Generator, rays: FloatArray, count: int) -> list[list[Fraction]]:
        """Random points in exact numbers, some of them close to a ray or a face."""
        rows = [exact(ray) for ray in rays]
        shares = rng.integers(1, 1000, (count, len(rays))) * 10 ** rng.integers(0, 6, (count, len(rays)))
        return [
            [sum(map(mul, own, column), Fraction(0)) for column in zip(*rows, strict=True)] for own in shares.tolist()
        ]


class Boxes:
    boxed = True
    opposite = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0625, 0.0625])

    @staticmethod
    def drawn(rng: np.random.Generator, n_features: int) -> tuple[FloatArray, FloatArray]:
        return random_box(rng, n_features)

    @staticmethod
    def node(lists: SortedLists, box: tuple[FloatArray, FloatArray]) -> Any:
        return in_pairs(lists, whole_box(lists, *box, NO_SUMS))

    @staticmethod
    def inside(rng: np.random.Generator, box: tuple[FloatArray, FloatArray], count: int) -> list[list[Fraction]]:
        return points_inside(rng, *box, count)


Shape = type[Cones] | type[Boxes]


def bound_of(lists: SortedLists, shape: Shape, part: Any) -> int:
    """How far conflicts raise the bound of a cone or box, asked for more and more."""
    return raised(lists, shape.node(lists, part), boxed=shape.boxed)


@pytest.mark.parametrize("shape", [Cones, Boxes])
@pytest.mark.parametrize("kind", KINDS)
def test_conflicts_never_charge_more_than_any_weights_inside_cost(kind: str, shape: Shape) -> None:
    tried = charged = 0
    for seed in range(500, 510):
        lists = Problem(random_lists(kind, seed, most_features=4).nbest).canonical.by_cost
        if not len(lists.costs):
            continue
        rng = np.random.default_rng(seed)
        for _ in range(4):
            part = shape.drawn(rng, lists.rows.shape[1])
            bound = bound_of(lists, shape, part)
            charged += bound > 0
            for point in shape.inside(rng, part, 8):
                cost = exact_cost(lists, point)
                tried += cost is not None
                assert cost is None or bound <= cost, (kind, seed, part, point)
    assert tried > 40
    assert charged or kind == "idle columns" or shape is Boxes


def charged(first: FloatArray, second: FloatArray, spread: FloatArray | None = None) -> bool:
    """Whether one of two lists pays in the first orthant, each of two hypotheses with this gain [D] of the dearer."""
    rows = np.array([np.zeros(len(first)), first, np.zeros(len(first)), second])
    lists = sorted_lists(rows, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    if spread is not None:
        lists = lists._replace(spread=spread)
    return raised(lists, whole_cone(lists, np.eye(len(first)), NO_SUMS), boxed=False) > 0


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
        counts = charged(np.array([1.0, -loss, 0.0]), np.array([-least, gain, 1.0]))
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
        second = np.array([-multiple * (1.0 - 1e-9), multiple * 0.125 + lead, 1.0])
        assert charged(np.array([1.0, -0.125, 0.0]), second, np.array([0.0, error, 0.0])) == counts


@pytest.mark.parametrize(("first", "second"), [(np.inf, 1.0), (np.nan, 1.0), (1e308, 1e308), (np.inf, -np.inf)])
def test_what_is_no_number_or_overflows_is_no_lead(first: float, second: float) -> None:
    with np.errstate(invalid="ignore", over="ignore"):
        assert not charged(np.array([first]), np.array([second]))


def test_a_level_of_costs_counts_all_hypotheses_that_cost_less() -> None:
    """At (1, 1, 0.9) the one that is ahead there beats all others of its list, and the second list has its cheapest."""
    ahead, here, behind, dear = [-2.0, 0.0, 3.0], [0.0] * 3, [-9.0, 0.0, 0.0], [0.0, 1.0, -1.0]
    for rows, costs in (
        ([here, ahead, behind, dear], [0, 0, 1, 2]),  # what costs one more is ahead nowhere
        ([ahead, here, dear], [0, 1, 2]),  # what costs one more leads at the centre
    ):
        size = len(rows)
        features = np.array([*rows, [0.0] * 3, [0.0, -1.0, 1.0]])
        lists = sorted_lists(features, np.array([0, size, size + 2]), np.array([*costs, 0, 1]))
        assert exact_cost(lists, [Fraction(1), Fraction(1), Fraction(9, 10)]) == 0
        assert bound_of(lists, Boxes, (np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0]))) == 0


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
        box = np.array([1.0, x, y]), np.array([0.0, radius, radius])
        assert cost is None or bound_of(lists, Boxes, box) <= cost
        free += cost == 0
    assert free > 10
