"""What the checker does inside cones, against fractions: nothing is dropped that could win, no bound is too high."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from strategies import KINDS, Lists, random_lists

from lpmert.certificates.check.claims import Claim
from lpmert.certificates.check.cones import IntegerCone, Ray, midpoint, orthants, part, whole_cone
from lpmert.certificates.check.lists import ProofLists
from lpmert.metrics.additive import SumOfLosses
from lpmert.model.nbest import NBest


def claimed(nbest: NBest, exponents: dict[str, int]) -> ProofLists:
    """Lists whose summed losses are to be bounded."""
    claim = Claim(SumOfLosses(), nbest.statistics)
    proof = ProofLists(nbest, claim, "first", exponents)
    claim.take([], Fraction(0))
    proof.weigh()
    return proof


def lists_and_cone(kind: str, seed: int, splits: int = 40) -> tuple[Lists, ProofLists, IntegerCone]:
    """Random lists and a random cone after fewer than so many splits, and what the checker keeps in it."""
    lists = random_lists(kind, seed, most_features=4)
    exponents = dict.fromkeys(lists.nbest.names, 0)
    proof = claimed(lists.nbest, exponents)
    rng = np.random.default_rng(seed)
    cone = whole_cone(proof, list(orthants(len(exponents)))[rng.integers(2 ** len(exponents))])
    for _ in range(int(rng.integers(0, splits)) if len(exponents) > 1 else 0):
        p, q = (int(k) for k in rng.permutation(len(exponents))[:2])
        cone = part(proof, cone, p, midpoint(cone.rays[p], cone.rays[q]))
    return lists, proof, cone


def scores(proof: ProofLists, row: int, rays: tuple[Ray, ...]) -> list[Fraction]:
    features = [Fraction(value) for value in proof.features[row].tolist()]
    return [sum((x * r for x, r in zip(features, ray, strict=True)), Fraction(0)) for ray in rays]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(10, 16))
def test_a_bound_is_below_the_cost_of_every_choice_inside(kind: str, seed: int) -> None:
    lists, proof, cone = lists_and_cone(kind, seed)
    rng = np.random.default_rng(seed)
    bounds = proof.offsets.tolist()
    for _ in range(5):
        shares = rng.integers(1, 1000, len(cone.rays)).tolist()
        point = [sum(x * ray[d] for x, ray in zip(shares, cone.rays, strict=True)) for d in range(len(cone.rays))]
        cost = 0
        for a, b in pairwise(bounds):
            values = [scores(proof, row, (tuple(point),))[0] for row in range(a, b)]
            cost += min(proof.cost[a + k] for k, value in enumerate(values) if value == max(values))
        assert cone.bound <= cost
    assert lists.n_lists == len(bounds) - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(20, 26))
def test_a_hypothesis_is_dropped_only_if_another_is_as_good_at_every_ray(kind: str, seed: int) -> None:
    _, proof, cone = lists_and_cone(kind, seed)
    kept = set(cone.rows.tolist())
    bounds = proof.offsets.tolist()
    for a, b in pairwise(bounds):
        own = {row: scores(proof, row, cone.rays) for row in range(a, b)}
        if not kept & set(own):
            winners = [row for row in own if not any(beats(own[other], own[row]) for other in own if other != row)]
            assert len({proof.cost[row] for row in winners}) == 1  # settled: what may win costs the same
            continue
        for row in set(own) - kept:
            assert any(beats(own[other], own[row]) for other in own if other != row)


def beats(winner: list[Fraction], loser: list[Fraction]) -> bool:
    return all(x >= y for x, y in zip(winner, loser, strict=True))


def test_the_parts_of_a_cone_cover_it() -> None:
    """A point of the cone has non-negative shares in one of the two halves, whatever the edge."""
    rng = np.random.default_rng(0)
    rays = np.array([[3, 1, 0], [0, 5, -2], [1, 0, 4]])
    for p, q in combinations(range(3), 2):
        ray = midpoint(tuple(rays[p].tolist()), tuple(rays[q].tolist()))
        halves = []
        for replaced in (p, q):
            half = rays.copy()
            half[replaced] = ray
            halves.append(half)
        for shares in rng.random((200, 3)):
            point = shares @ rays
            assert any((np.linalg.solve(half.T, point) >= -1e-9).all() for half in halves)


def test_orthants_are_all_there_and_their_rays_independent() -> None:
    found = list(orthants(3))
    assert len(found) == len(set(found)) == 8
    assert all(abs(round(np.linalg.det(np.array(rays)))) == 1 for rays in found)


@pytest.mark.parametrize("bits", [51, 52, 53, 60, 899])
def test_scores_are_called_exact_only_where_they_are(bits: int) -> None:
    features = np.array([[1.0, 2.0**-3], [2.0, 1.0]])
    proof = claimed(Lists(features, np.array([0, 2]), np.array([0.0, 1.0])).nbest, EXPONENTS)
    ray = (2**bits - 1, 3)
    exact = [sum(Fraction(x) * r for x, r in zip(row, ray, strict=True)) for row in features.tolist()]
    computed = features @ np.array(ray, dtype=float)
    error = max(abs(Fraction(value) - true) for value, true in zip(computed.tolist(), exact, strict=True))
    assert error <= proof.tolerance(np.array(ray, dtype=float))


EXPONENTS = {"feature1": 0, "feature2": 0}
