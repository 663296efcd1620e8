"""The sweep of the plane: exact arithmetic, brute force in fractions, planted cases, and known counts."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpmert
from lpmert import core
from lpmert.errors import DataError, MethodError
from lpmert.methods.sweep import critical_directions, sweep_directions


def exact(features):
    return [[Fraction(value) for value in row] for row in features.tolist()]


def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32), noise=st.sampled_from([0.0, 1e-16, 1e-15, 1e-3]), scale=st.integers(-30, 0))
def test_directions_are_in_the_order_of_exact_cross_products(seed, noise, scale):
    """Two lists of two points nearly on a line: each has an edge, there and back."""
    rng = np.random.default_rng(seed)
    along = rng.integers(-9, 10, 4) * 0.1
    x = along * 10.0**scale
    y = along * rng.choice([0.3, 1.0, -0.7]) + noise * rng.integers(-3, 4, 4)
    points = exact(np.column_stack([x, y]))
    _, leaving, entering, ends = core.critical_directions(x, y, np.array([0, 2, 4]))
    pairs = zip(leaving.tolist(), entering.tolist(), strict=True)
    ways = [[b - a for a, b in zip(points[p], points[q], strict=True)] for p, q in pairs]
    assert len(ways) == 2 * sum(points[p] != points[p + 1] for p in (0, 2))
    groups = np.searchsorted(ends, np.arange(len(ways)), side="right").tolist()
    for (i, one), (j, other) in combinations(enumerate(ways), 2):
        late, later = (way[1] < 0 or (way[1] == 0 and way[0] < 0) for way in (one, other))
        turn = later - late or cross(one, other)
        assert turn >= 0
        assert (turn > 0) == (groups[i] < groups[j])


def pairs_with_origin(*points):
    features = np.array([row for point in points for row in ((0.0, 0.0), point)])
    return features, np.arange(0, len(features) + 1, 2)




@pytest.mark.parametrize("bits", [48, 51])
def test_a_cell_that_rounding_may_miss_is_not_taken_for_one_of_doubles(bits):
    """Its middle decodes to the least cost, with a lead that another order of summation may turn."""
    features, offsets = pairs_with_origin((1.0, 1.0), (1.0, 1.0 + 2.0**-bits))
    optimum = sweep_directions(features, offsets, np.array([1, 0, 0, 1]))
    assert core.decode(features, offsets, optimum.weights).tolist() in ([1, 2], [0, 3])
    assert (optimum.cost, optimum.representable_cost) == (0, 1)






def test_middles_lie_in_the_cells_that_the_events_lead_to():
    rng = np.random.default_rng(2)
    features, offsets = rng.normal(size=(60, 2)), np.arange(0, 61, 12)
    critical = critical_directions(features, offsets)
    selection = critical.start.copy()
    lists = np.repeat(np.arange(5), 12)
    begin = 0
    for end, middle in zip(critical.ends, critical.middles, strict=True):
        for event in range(begin, end):
            assert selection[lists[critical.leaving[event]]] == critical.leaving[event]
            selection[lists[critical.leaving[event]]] = critical.entering[event]
        begin = end
        assert ((features @ middle).reshape(5, 12).argmax(axis=1) + offsets[:-1]).tolist() == selection.tolist()
    assert selection.tolist() == critical.start.tolist()
    assert critical.widths.sum() == pytest.approx(2 * np.pi)


def test_the_method_refuses_three_features():
    with pytest.raises(MethodError, match="two features"):
        lpmert.minimize(lpmert.NBest(np.vstack([np.eye(3), -np.eye(3)]), [0, 6], range(6)), method="sweep")


def test_features_beyond_the_range_of_exact_products_are_refused():
    features = np.array([[0.0, 1.0], [1e-140, 2.0], [1.0, 3.0]])
    with pytest.raises(DataError, match="feature 1 span more than 132 orders of magnitude"):
        sweep_directions(features, np.array([0, 3]), np.array([0, 1, 2]))
