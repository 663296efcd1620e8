"""All attainable selections: known counts, hulls, and brute force in fractions."""

from collections.abc import Callable
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from numpy.typing import ArrayLike
from oracle import all_selections, least_total
from scipy.spatial import ConvexHull
from searches import many_more

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.exhaustive import attainable_selections
from lpmert.numeric.lp import LinOptimizer

Lists = tuple[FloatArray, IntArray]


def count_attainable(features, offsets):
    return sum(1 for _ in attainable_selections(LinOptimizer(features, offsets)))


def joined(blocks: list[ArrayLike]) -> Lists:
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks]
    return np.concatenate(arrays), np.cumsum([0, *map(len, arrays)])


def binary(width: int) -> list[tuple[int, ...]]:
    return list(product((0, 1), repeat=width))


def threshold_functions(width: int) -> Lists:
    return joined([[(0,) * (width + 1), (1, *x)] for x in binary(width)])


def permutations(width: int) -> Lists:
    return joined(list(combinations(np.eye(width), 2)))


def binary_trees(width: int) -> Lists:
    return joined([np.eye(width)[i:j] for i in range(width) for j in range(i + 2, width + 1)])


def resonance_arrangement(width: int) -> Lists:
    return joined([[(0,) * width, x] for x in binary(width) if any(x)])


@pytest.mark.parametrize(
    ("of", "counts"),
    [
        (threshold_functions, {2: 14, 3: 104}),
        many_more(threshold_functions, {4: 1882}),
        (permutations, {3: 6, 4: 24, 5: 120}),
        (binary_trees, {3: 5, 4: 14, 5: 42, 6: 132}),
        (resonance_arrangement, {2: 6, 3: 32, 4: 370}),
    ],
)
def test_selections_are_as_many_as_the_things_they_stand_for(
    of: Callable[[int], Lists], counts: dict[int, int]
) -> None:
    assert {width: count_attainable(*of(width)) for width in counts} == counts


def test_random_pairs_have_as_many_selections_as_hyperplanes_have_regions() -> None:
    for lists, width in ((4, 3), (10, 3), (12, 4), (10, 5), (6, 1), (7, 2), (3, 6)):
        rng = np.random.default_rng(lists * width)
        pairs = joined([[np.zeros(width), row] for row in rng.normal(size=(lists, width))])
        assert count_attainable(*pairs) == 2 * sum(comb(lists - 1, k) for k in range(width))


@pytest.mark.parametrize("seed", range(4))
def test_attainable_hypotheses_of_a_planar_list_are_the_vertices_of_its_hull(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(50, 2)) if seed % 2 else rng.uniform(size=(80, 2))
    one_list = LinOptimizer(points, np.array([0, len(points)]))
    found = [int(selection[0]) for selection, _ in attainable_selections(one_list)]
    assert found == sorted(ConvexHull(points).vertices.tolist())


def test_hundreds_of_lists_do_not_meet_a_recursion_limit() -> None:
    features = np.tile([[0.0], [1.0]], (1100, 1))
    optimizer = LinOptimizer(features, np.arange(0, 2201, 2))
    assert [s.tolist() for s, _ in attainable_selections(optimizer)] == [[0] * 1100, [1] * 1100]




