"""What the checker does inside cones, against fractions: nothing is dropped that could win, no bound is too high."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product
from math import factorial

import numpy as np
import pytest
from strategies import KINDS, Lists, random_lists

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.regions import Shape, Whole, cover, midpoint, orthants
from lpmert.certificates.check.tree import Part, narrowed, whole_part
from lpmert.certificates.check.verify import claim_of
from lpmert.certificates.format import BOXES, CONES, Record
from lpmert.metrics.base import SumOfLosses
from lpmert.model.nbest import NBest
from lpmert.numeric.rational import solve_integers

TREES = (BOXES, CONES)


def claimed(nbest: NBest, exponents: dict[str, int]) -> ProofLists:
    """Lists whose summed losses are to be bounded."""
    claim = claim_of(SumOfLosses(), nbest.statistics, "first")
    proof = ProofLists(nbest, claim, "first", exponents)
    claim.take([], Fraction(0))
    proof.weigh()
    return proof


def lists_and_cone(kind: str, seed: int, tree: str, splits: int = 40) -> tuple[Lists, ProofLists, Part]:
    """Random lists and a random cone after fewer than so many splits, and what the checker keeps in it."""
    lists = random_lists(kind, seed, most_features=4)
    exponents = dict.fromkeys(lists.nbest.names, 0)
    proof = claimed(lists.nbest, exponents)
    rng = np.random.default_rng(seed)
    shapes = [*cover(len(exponents), {"split": tree})]
    cone = narrowed(proof, whole_part(proof), shapes[rng.integers(len(shapes))])
    for _ in range(int(rng.integers(0, splits)) if len(exponents) > 1 else 0):
        p, q = (int(k) for k in rng.permutation(len(exponents))[:2])
        record: Record = {"split": [max(p, q)] if cone.shape.boxed else [p, q]}
        if cone.shape.boxed and rng.random() < 0.1:
            record = {"corners": rng.choice([1, -1], len(exponents) - 1).tolist()}
        parts = cone.shape.parts(record)
        cone = narrowed(proof, cone, parts[rng.integers(len(parts))])
    return lists, proof, cone


def inside(shape: Shape, rng: np.random.Generator) -> list[int]:
    """Random weights inside a part, in whole numbers."""
    if shape.boxed:
        shares = [1000, *rng.integers(-999, 1000, len(shape.rays) - 1).tolist()]
    else:
        shares = rng.integers(1, 1000, len(shape.rays)).tolist()
    return [sum(x * value for x, value in zip(shares, column, strict=True)) for column in zip(*shape.rays, strict=True)]


def corners(shape: Shape) -> Whole:
    """The rays of a part: of a box these lead to its corners."""
    if not shape.boxed:
        return shape.rays
    signs = np.array([(1, *own) for own in product((1, -1), repeat=len(shape.rays) - 1)], dtype=object)
    return np.asarray(signs @ shape.rays)


def scores(proof: ProofLists, row: int, rays: Sequence[Sequence[int]] | Whole) -> list[Fraction]:
    return [Fraction(sum(x * r for x, r in zip(proof.whole[row], ray, strict=True))) for ray in rays]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10, 16))
def test_a_bound_is_below_the_cost_of_every_choice_inside(kind: str, seed: int, tree: str) -> None:
    lists, proof, cone = lists_and_cone(kind, seed, tree)
    rng = np.random.default_rng(seed)
    bounds = proof.offsets.tolist()
    for _ in range(5):
        point = inside(cone.shape, rng)
        cost = 0
        for a, b in pairwise(bounds):
            values = [scores(proof, row, [point])[0] for row in range(a, b)]
            cost += min(proof.worth[0][a + k] for k, value in enumerate(values) if value == max(values))
        assert cone.box(proof)[0][0] <= cost
    assert lists.n_lists == len(bounds) - 1


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20, 26))
def test_a_hypothesis_is_dropped_only_if_another_is_as_good_at_every_ray(kind: str, seed: int, tree: str) -> None:
    _, proof, cone = lists_and_cone(kind, seed, tree)
    kept, rays = set(cone.rows.tolist()), corners(cone.shape)
    bounds = proof.offsets.tolist()
    for a, b in pairwise(bounds):
        own = {row: scores(proof, row, rays) for row in range(a, b)}
        if not kept & set(own):
            winners = [row for row in own if not any(beats(own[other], own[row]) for other in own if other != row)]
            assert len({proof.worth[0][row] for row in winners}) == 1  # settled: what may win costs the same
            continue
        for row in set(own) - kept:
            assert any(beats(own[other], own[row]) for other in own if other != row)


def beats(winner: list[Fraction], loser: list[Fraction]) -> bool:
    return all(x >= y for x, y in zip(winner, loser, strict=True))


def conflict(differences: list[int], multipliers: list[int], spread: int = 0) -> tuple[ProofLists, bool]:
    """Lists of two whose first features differ by these numbers, and whether the checker takes the differences, times
    multipliers, for nowhere negative in the positive quadrant; spread: between the two of one more list.
    """
    rows = [row for value in (*differences, spread) for row in ([0.0, 1.0], [float(value), 1.0])]
    lists = NBest(np.array(rows), range(0, len(rows) + 1, 2), np.arange(len(rows)) % 2.0)
    proof = claimed(lists, dict.fromkeys(lists.names, 0))
    part = whole_part(proof)._replace(shape=Shape(np.array([[1, 0], [0, 1]], dtype=object)))
    chosen = [2 * k for k in range(len(differences))]
    (balanced,) = part.balanced(proof, chosen, [row + 1 for row in chosen], multipliers, [0])
    return proof, bool(balanced)


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_conflict_that_rounding_alone_balances_is_refused(off: int) -> None:
    """2**31 (2**29 + 1) - (2**30 + 1) (2**30 + 1) is -1, and 0 in doubles."""
    proof, balanced = conflict([2**29 + 1, -(2**30 + 1), 1], [1 << 31, (1 << 30) + 1, 1 + off])
    assert not proof.errors(np.eye(2)).any()
    assert balanced is (off >= 0)


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_so_it_is_where_scores_are_rounded(off: int) -> None:
    proof, balanced = conflict([2**53, -(2**53), 1, -1], [1, 1, 1, 1 - off], 2**54)
    assert proof.errors(np.eye(2)).all()
    assert balanced is (off >= 0)


def test_the_parts_of_a_cone_cover_it() -> None:
    """A point of the cone has non-negative shares in one of the two halves, whatever the edge."""
    rng = np.random.default_rng(0)
    rays = np.array([[3, 1, 0], [0, 5, -2], [1, 0, 4]], dtype=object)
    for p, q in combinations(range(3), 2):
        ray = midpoint(rays[p], rays[q])
        halves = []
        for replaced in (p, q):
            half = rays.copy()
            half[replaced] = ray
            halves.append(half.astype(float))
        for shares in rng.random((200, 3)):
            point = shares @ rays.astype(float)
            assert any((np.linalg.solve(half.T, point) >= -1e-9).all() for half in halves)


@pytest.mark.parametrize("n_features", range(1, 6))
def test_the_parts_of_a_box_cover_it(n_features: int) -> None:
    """Every vector is in a face, every point of a box in one of its halves and in a cone over its corners."""
    rng = np.random.default_rng(n_features)
    for _ in range(30):
        vector = rng.integers(-9, 10, n_features).tolist()
        holding = [shape for shape in cover(n_features, {"split": BOXES}) if holds(shape, vector)]
        assert holding
        shape = holding[0]
        for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
            parts = shape.parts({"split": [int(rng.integers(1, n_features))]})
            assert len(parts) == 2
            shape = next(own for own in parts if holds(own, vector))
            assert shape.boxed
        cones = shape.parts({"corners": rng.choice([1, -1], n_features - 1).tolist()})
        assert len(cones) == factorial(n_features - 1)
        assert any(holds(cone, vector) for cone in cones)
        assert all(holds(shape, list(ray)) for cone in cones for ray in cone.rays)


def holds(shape: Shape, vector: list[int]) -> bool:
    """Whether a part holds weights: solved in fractions for the multiples of its rays."""
    shares = solve_integers([list(column) for column in zip(*shape.rays, strict=True)], vector)
    assert shares is not None
    if shape.boxed:
        return shares[0] >= 0 and all(abs(share) <= shares[0] for share in shares[1:])
    return all(share >= 0 for share in shares)


@pytest.mark.parametrize("tree", TREES)
def test_what_is_nowhere_negative_is_so_at_every_corner_and_nothing_else(tree: str) -> None:
    rng = np.random.default_rng(7)
    found = set()
    for seed in range(300):
        _, _, cone = lists_and_cone(sorted(KINDS)[seed % len(KINDS)], seed, tree, 6)
        vector = rng.integers(-5, 6, len(cone.shape.rays)).tolist()
        products = [sum(x * y for x, y in zip(vector, ray, strict=True)) for ray in corners(cone.shape)]
        assert cone.shape.nowhere_negative(np.array(vector, dtype=object)) == (min(products) >= 0)
        found.add(min(products) >= 0)
    assert found == {True, False}


def test_orthants_are_all_there_and_their_rays_independent() -> None:
    found = list(orthants(3))
    assert len(found) == len({str(rays) for rays in found}) == 8
    assert all(abs(round(np.linalg.det(rays.astype(float)))) == 1 for rays in found)


@pytest.mark.parametrize("bits", [20, 40, 51, 52, 53, 60, 899])
def test_scores_are_called_exact_only_where_they_are(bits: int) -> None:
    features = np.array([[1.0, 2.0**-3], [2.0, 1.0]])
    proof = claimed(Lists(features, np.array([0, 2]), np.array([0.0, 1.0])).nbest, EXPONENTS)
    ray = (2**bits - 1, 3)
    exact = [sum(Fraction(x) * r for x, r in zip(row, ray, strict=True)) for row in proof.features.tolist()]
    computed = (proof.features @ np.array(ray, dtype=float)).tolist()
    error = abs(Fraction(computed[1] - computed[0]) - (exact[1] - exact[0]))
    assert error <= proof.errors(np.array([ray], dtype=float))[0]
    assert (proof.errors(np.array([ray], dtype=float))[0] == 0) == (bits < 50)


EXPONENTS = {"feature1": 0, "feature2": 0}
