"""Nodes of a certificate's tree, against fractions: nothing is dropped that could win, no bound is too high."""

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from certificates import random_nbest
from problems import KINDS, random_lists

import lpmert
from lpmert import CertificateError, NBest, verify
from lpmert.certificates.certify import write_certificate
from lpmert.certificates.claims import Price
from lpmert.certificates.format import BOXES
from lpmert.certificates.lists import Box, ProofLists, Whole
from lpmert.certificates.verify import Node, _checked, check_node, claim_of, narrowed, root_node
from lpmert.metrics.base import SumOfLosses
from lpmert.numeric.rational import solve_integers

EXPONENTS = {"feature1": 0, "feature2": 0}


def claimed(nbest: NBest, exponents: dict[str, int]) -> ProofLists:
    """Lists whose summed losses are to be bounded."""
    claim = claim_of(SumOfLosses(), nbest, "first")
    proof = ProofLists(nbest, claim, "first", exponents)
    claim.set_bound([], Fraction(0))
    proof.weigh()
    return proof


def lists_and_box(kind: str, seed: int, splits: int = 40) -> tuple[ProofLists, Node]:
    """Random lists, and the checker's node of a random box after fewer than so many splits."""
    nbest = random_lists(kind, seed, most_features=4).nbest
    exponents = dict.fromkeys(nbest.names, 0)
    proof = claimed(nbest, exponents)
    rng = np.random.default_rng(seed)
    faces = [*root_node(proof).box.parts({"split": BOXES})]
    node = narrowed(proof, root_node(proof), faces[rng.integers(len(faces))])
    for _ in range(int(rng.integers(0, splits)) if len(exponents) > 1 else 0):
        halves = [*node.box.parts({"split": [int(rng.integers(1, len(exponents)))]})]
        node = narrowed(proof, node, halves[rng.integers(len(halves))])
    return proof, node


def inside(box: Box, rng: np.random.Generator) -> list[int]:
    """Random weights inside a box, in integers."""
    shares = [1000, *rng.integers(-999, 1000, len(box.rays) - 1).tolist()]
    return [sum(x * value for x, value in zip(shares, column, strict=True)) for column in zip(*box.rays, strict=True)]


def corners(box: Box) -> Whole:
    signs = np.array([(1, *own) for own in product((1, -1), repeat=len(box.rays) - 1)], dtype=object)
    return np.asarray(signs @ box.rays)


def scores(proof: ProofLists, row: int, rays: Sequence[Sequence[int]] | Whole) -> list[Fraction]:
    return [Fraction(sum(x * r for x, r in zip(proof.whole[row], ray, strict=True))) for ray in rays]


def worths_at(proof: ProofLists, point: list[int]) -> Iterator[list[int]]:
    """For each list, the costs of the hypotheses that are best at a point."""
    for a, b in pairwise(proof.offsets.tolist()):
        values = [scores(proof, row, [point]) for row in range(a, b)]
        yield [proof.worth[0][a + k] for k, value in enumerate(values) if value == max(values)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_is_below_the_cost_of_every_choice_inside_and_only_what_is_beaten_is_dropped(kind: str) -> None:
    for seed in range(10, 22):
        proof, node = lists_and_box(kind, seed)
        rng = np.random.default_rng(seed)
        bounds = proof.offsets.tolist()
        for _ in range(5):
            assert node.sum_bounds(proof)[0][0] <= sum(map(min, worths_at(proof, inside(node.box, rng))))
        survivors, rays = set(node.rows.tolist()), corners(node.box)
        for a, b in pairwise(bounds):
            own = {row: np.array(scores(proof, row, rays)) for row in range(a, b)}
            left = [row for row in own if not any((own[other] >= own[row]).all() for other in own if other != row)]
            if survivors & set(own):
                assert not {*left} - survivors
            else:  # the list is settled: all that may win cost the same
                assert len({proof.worth[0][row] for row in left}) == 1


def conflict(differences: list[int], multipliers: list[int], spread: int = 0) -> tuple[ProofLists, bool]:
    """Lists of two whose first features differ by these numbers, and whether the checker accepts the multipliers, so
    that the sum is nowhere negative in the positive quadrant; spread: the difference of one more list.
    """
    rows = np.array([row for value in (*differences, spread) for row in ([0.0, 1.0], [float(value), 1.0])])
    lists = NBest(rows, range(0, len(rows) + 1, 2), np.arange(len(rows)) % 2.0)
    proof = claimed(lists, dict.fromkeys(lists.names, 0))
    node = root_node(proof)._replace(box=Box(np.array([[1, 1], [1, -1]], dtype=object)))
    core = [value for k, multiplier in enumerate(multipliers) for value in (k, 1, multiplier)]
    try:
        _checked(proof, node, [core], {k: 2 * k for k in range(len(differences))})
    except CertificateError:
        return proof, False
    return proof, True


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize(("differences", "multipliers", "spread", "sign"), [
    ([2**29 + 1, -(2**30 + 1), 1], [1 << 31, (1 << 30) + 1, 1], 0, 1),
    ([2**53, -(2**53), 1, -1], [2, 2, 2, 2], 2**54, -1),  # scores are rounded
])  # fmt: skip
def test_a_conflict_that_rounding_alone_balances_is_refused(differences, multipliers, spread, sign, off):
    """2**31 (2**29 + 1) - (2**30 + 1) (2**30 + 1) is -1, and 0 in doubles."""
    proof, balanced = conflict(differences, [*multipliers[:-1], multipliers[-1] + sign * off], spread)
    errors = proof.errors(np.array([[1.0, 1.0], [1.0, -1.0]]))
    assert errors.all() if spread else not errors.any()
    assert balanced is (off >= 0)


@pytest.mark.parametrize("n_features", range(1, 6))
def test_the_parts_of_a_box_cover_it(n_features: int) -> None:
    """Every vector is in a face, every point of a box in one of its halves."""
    rng = np.random.default_rng(n_features)
    for _ in range(30):
        vector = rng.integers(-9, 10, n_features).tolist()
        faces = Box(np.zeros((0, n_features), dtype=object)).parts({"split": BOXES})
        box = next(face for face in faces if contains(face, vector))
        for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
            halves = [*box.parts({"split": [int(rng.integers(1, n_features))]})]
            assert len(halves) == 2
            box = next(half for half in halves if contains(half, vector))


def contains(box: Box, vector: list[int]) -> bool:
    """Whether weights are in a box: solved in fractions for the multiples of its rays."""
    shares = solve_integers([list(column) for column in zip(*box.rays, strict=True)], vector)
    return shares[0] >= 0 and all(abs(share) <= shares[0] for share in shares[1:])


@pytest.mark.parametrize("bits", [20, 40, 51, 52, 53, 60, 899])
def test_scores_are_called_exact_only_where_they_are(bits: int) -> None:
    features = np.array([[1.0, 2.0**-3], [2.0, 1.0]])
    proof = claimed(NBest(features, [0, 2], [0.0, 1.0]), EXPONENTS)
    ray = (2**bits - 1, 3)
    exact = [sum(Fraction(x) * r for x, r in zip(row, ray, strict=True)) for row in proof.features.tolist()]
    computed = (proof.features @ np.array(ray, dtype=float)).tolist()
    (most,) = proof.errors(np.array([ray], dtype=float))
    assert abs(Fraction(computed[1] - computed[0]) - (exact[1] - exact[0])) <= most
    assert (most == 0) == (bits < 50)


def any_pair(proof: ProofLists, node: Node, rng: np.random.Generator) -> list[int]:
    """Two lists, a hypothesis of each that is not its cheapest, and small multipliers: a conflict if they balance."""
    entry: list[int] = []
    several = np.flatnonzero(node.sizes > 1)
    for a in rng.choice(several, 2, replace=False):
        row = node.rows[node.starts[a] + rng.integers(1, node.sizes[a])]
        entry += [*proof.places[row], int(rng.integers(1, 5))]
    return entry


def accepted(proof: ProofLists, node: Node, cores: list[list[int]]) -> float | None:
    """The bound that the checker gives a node with these cores, `None` if it refuses them."""
    target = node.sum_bounds(proof)[0][0]
    try:
        return target + check_node(proof, node._replace(price=Price([1], target)), {"cores": cores})[0]
    except CertificateError:
        return None


def test_no_choice_inside_a_box_costs_less_than_its_conflicts_say() -> None:
    """The checker accepts random pairs exactly if they balance."""
    rng = np.random.default_rng(0)
    taken = refused = 0
    for kind, seed in ((kind, seed) for kind in KINDS for seed in range(700, 720)):
        proof, node = lists_and_box(kind, seed, 8)
        cores: list[list[int]] = []
        bound = node.sum_bounds(proof)[0][0]
        for _ in range(60 if np.count_nonzero(node.sizes > 1) > 1 else 0):
            pair = any_pair(proof, node, rng)
            found = accepted(proof, node, [*cores, pair])
            if found is None or found == float("inf"):
                refused += 1
                continue
            taken += 1
            cores.append(pair)
            bound = max(bound, found)
        for _ in range(10):  # the lemma is about strictly best hypotheses, so ties count at their most
            assert bound <= sum(map(max, worths_at(proof, inside(node.box, rng))))
    assert min(taken, refused) > 100


@pytest.mark.parametrize("scale", [1.0, 2.0**40, 0.3])
def test_conflicts_close_boxes_whatever_losses_are_worth(path: Path, scale: float) -> None:
    """Steps beyond the core's whole numbers are divided first: 0.3 times a loss has no small common unit."""
    nbest = random_nbest(3, n_lists=40, n_features=3, longest=6)
    nbest = NBest(nbest.features, nbest.offsets, np.round(nbest.statistics * 10) * scale)
    write_certificate(path, nbest, lpmert.minimize(nbest))
    assert verify(path, nbest).proved
    closed_so = [one["cores"] for one in json.loads(path.read_text())["tree"] if one.keys() == {"cores"}]
    assert (len(closed_so) > 10, max(map(len, closed_so)) > 3) == (True, True)


@pytest.mark.parametrize("spread", [0, 2**40, 2**48, 2**50, 2**51, 2**52])
def test_ties_at_the_edge_of_a_box_fall_whether_doubles_are_exact_or_not(spread: int) -> None:
    """Hypotheses (x, y) and a box x = 1, |y| <= 1: the first is beaten at one end by none, at the other in a tie.

    spread: between two hypotheses of the third list, so that features take many bits.
    """
    rows = [[0, 0], [1, 1], [1, -1], [0.5, 0.5], [2, 1], [2, 0], [0, 0], [1 + spread, 0]]
    rows += [[0, 0], [0.5, 0.25], [1, 5]]
    proof = claimed(NBest(rows, [0, 4, 6, 8, 11], [0.0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2]), EXPONENTS)
    box = next(iter(root_node(proof).box.parts({"split": BOXES})))
    if spread in (0, 2**52):  # scores are exact, or rounded
        assert proof.errors(box.points).any() == (spread > 0)
    # 1 + y and (1 + y) / 2 are at least 0: the first and the fourth fall to the second, but not the third. In the other
    # list neither is as good as the other one everywhere, the third is settled, and the first of the last one falls to
    # the second, though not to the third, which is the best at the centre.
    assert narrowed(proof, root_node(proof), box).rows.tolist() == [1, 2, 4, 5, 9, 10]


def test_a_vector_is_nowhere_negative_exactly_if_it_is_not_at_any_corner() -> None:
    rng = np.random.default_rng(7)
    found = set()
    for seed in range(300):
        box = lists_and_box(sorted(KINDS)[seed % len(KINDS)], seed, 6)[1].box
        vector = np.array(rng.integers(-5, 6, len(box.rays)).tolist(), dtype=object)
        found.add(least := min(corners(box) @ vector) >= 0)
        assert box.is_nonnegative(vector) == least
    assert found == {True, False}
