"""Parts of a certificate's tree, against fractions: nothing is dropped that could win, no bound is too high."""

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from certificates import base, document, random_nbest
from oracle import Lists
from problems import KINDS, random_lists

import lpmert
from lpmert import CertificateError, NBest, verify
from lpmert.certificates.check.lists import Price, ProofLists
from lpmert.certificates.check.regions import Box, Whole
from lpmert.certificates.check.tree import Part, _checked, closed, narrowed, whole_part
from lpmert.certificates.check.verify import claim_of
from lpmert.certificates.format import BOXES
from lpmert.certificates.write.certify import write_certificate
from lpmert.certificates.write.tree import _at_prices
from lpmert.metrics import Bleu
from lpmert.metrics.base import SumOfLosses
from lpmert.numeric.rational import solve_integers

EXPONENTS = {"feature1": 0, "feature2": 0}


def claimed(nbest: NBest, exponents: dict[str, int]) -> ProofLists:
    """Lists whose summed losses are to be bounded."""
    claim = claim_of(SumOfLosses(), nbest, "first")
    proof = ProofLists(nbest, claim, "first", exponents)
    claim.take([], Fraction(0))
    proof.weigh()
    return proof


def lists_and_box(kind: str, seed: int, splits: int = 40) -> tuple[ProofLists, Part]:
    """Random lists and a random box after fewer than so many splits, and what the checker keeps in it."""
    nbest = random_lists(kind, seed, most_features=4).nbest
    exponents = dict.fromkeys(nbest.names, 0)
    proof = claimed(nbest, exponents)
    rng = np.random.default_rng(seed)
    shapes = [*whole_part(proof).shape.parts({"split": BOXES})]
    box = narrowed(proof, whole_part(proof), shapes[rng.integers(len(shapes))])
    for _ in range(int(rng.integers(0, splits)) if len(exponents) > 1 else 0):
        parts = [*box.shape.parts({"split": [int(rng.integers(1, len(exponents)))]})]
        box = narrowed(proof, box, parts[rng.integers(len(parts))])
    return proof, box


def inside(shape: Box, rng: np.random.Generator) -> list[int]:
    """Random weights inside a part, in whole numbers."""
    shares = [1000, *rng.integers(-999, 1000, len(shape.rays) - 1).tolist()]
    return [sum(x * value for x, value in zip(shares, column, strict=True)) for column in zip(*shape.rays, strict=True)]


def corners(shape: Box) -> Whole:
    """The rays that lead to the corners of a box."""
    signs = np.array([(1, *own) for own in product((1, -1), repeat=len(shape.rays) - 1)], dtype=object)
    return np.asarray(signs @ shape.rays)


def scores(proof: ProofLists, row: int, rays: Sequence[Sequence[int]] | Whole) -> list[Fraction]:
    return [Fraction(sum(x * r for x, r in zip(proof.whole[row], ray, strict=True))) for ray in rays]


def worths_at(proof: ProofLists, point: list[int]) -> Iterator[list[int]]:
    """What the hypotheses of each list that are best at a point cost."""
    for a, b in pairwise(proof.offsets.tolist()):
        values = [scores(proof, row, [point]) for row in range(a, b)]
        yield [proof.worth[0][a + k] for k, value in enumerate(values) if value == max(values)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_is_below_the_cost_of_every_choice_inside_and_only_what_is_beaten_is_dropped(kind: str) -> None:
    for seed in range(10, 22):
        proof, box = lists_and_box(kind, seed)
        rng = np.random.default_rng(seed)
        bounds = proof.offsets.tolist()
        for _ in range(5):
            assert box.box(proof)[0][0] <= sum(map(min, worths_at(proof, inside(box.shape, rng))))
        kept, rays = set(box.rows.tolist()), corners(box.shape)
        for a, b in pairwise(bounds):
            own = {row: scores(proof, row, rays) for row in range(a, b)}
            left = [row for row in own if not any(beats(own[other], own[row]) for other in own if other != row)]
            if kept & set(own):
                assert not {*left} - kept
            else:  # settled: what may win costs the same
                assert len({proof.worth[0][row] for row in left}) == 1


def beats(winner: list[Fraction], loser: list[Fraction]) -> bool:
    return all(x >= y for x, y in zip(winner, loser, strict=True))


def conflict(differences: list[int], multipliers: list[int], spread: int = 0) -> tuple[ProofLists, bool]:
    """Lists of two whose first features differ by these numbers, and whether the checker takes the differences, times
    multipliers, for nowhere negative in the positive quadrant; spread: between the two of one more list.
    """
    rows = [row for value in (*differences, spread) for row in ([0.0, 1.0], [float(value), 1.0])]
    lists = NBest(np.array(rows), range(0, len(rows) + 1, 2), np.arange(len(rows)) % 2.0)
    proof = claimed(lists, dict.fromkeys(lists.names, 0))
    part = whole_part(proof)._replace(shape=Box(np.array([[1, 1], [1, -1]], dtype=object)))
    core = [value for k, multiplier in enumerate(multipliers) for value in (k, 1, multiplier)]
    try:
        _checked(proof, part, [core], {k: 2 * k for k in range(len(differences))})
    except CertificateError:
        return proof, False
    return proof, True


@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize(
    ("differences", "multipliers", "spread", "sign"),
    [
        ([2**29 + 1, -(2**30 + 1), 1], [1 << 31, (1 << 30) + 1, 1], 0, 1),
        ([2**53, -(2**53), 1, -1], [2, 2, 2, 2], 2**54, -1),  # scores are rounded
    ],
)
def test_a_conflict_that_rounding_alone_balances_is_refused(
    differences: list[int], multipliers: list[int], spread: int, sign: int, off: int
) -> None:
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
        shape = next(own for own in faces if holds(own, vector))
        for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
            parts = [*shape.parts({"split": [int(rng.integers(1, n_features))]})]
            assert len(parts) == 2
            shape = next(own for own in parts if holds(own, vector))


def holds(shape: Box, vector: list[int]) -> bool:
    """Whether a part holds weights: solved in fractions for the multiples of its rays."""
    shares = solve_integers([list(column) for column in zip(*shape.rays, strict=True)], vector)
    assert shares is not None
    return shares[0] >= 0 and all(abs(share) <= shares[0] for share in shares[1:])


def test_what_is_nowhere_negative_is_so_at_every_corner_and_nothing_else() -> None:
    rng = np.random.default_rng(7)
    found = set()
    for seed in range(300):
        _, box = lists_and_box(sorted(KINDS)[seed % len(KINDS)], seed, 6)
        vector = rng.integers(-5, 6, len(box.shape.rays)).tolist()
        products = [sum(x * y for x, y in zip(vector, ray, strict=True)) for ray in corners(box.shape)]
        assert box.shape.is_nonnegative(np.array(vector, dtype=object)) == (min(products) >= 0)
        found.add(min(products) >= 0)
    assert found == {True, False}


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


def any_pair(proof: ProofLists, box: Part, rng: np.random.Generator) -> list[int]:
    """Two lists, another hypothesis of each than its cheapest, and small multipliers: a conflict if they balance."""
    entry: list[int] = []
    several = np.flatnonzero(box.sizes > 1)
    for a in rng.choice(several, 2, replace=False):
        row = box.rows[box.starts[a] + rng.integers(1, box.sizes[a])]
        entry += [*proof.places[row], int(rng.integers(1, 5))]
    return entry


def accepted(proof: ProofLists, box: Part, cores: list[list[int]]) -> float | None:
    """The bound that the checker gives a box with these cores, `None` if it refuses them."""
    target = box.box(proof)[0][0]
    try:
        return target + closed(proof, box._replace(price=Price([1], target)), {"cores": cores})[0]
    except CertificateError:
        return None


def test_no_choice_inside_a_box_costs_less_than_its_conflicts_say() -> None:
    """Of pairs drawn at random the checker takes those that balance, from whoever they come."""
    rng = np.random.default_rng(0)
    taken = refused = 0
    for kind, seed in ((kind, seed) for kind in KINDS for seed in range(700, 720)):
        proof, box = lists_and_box(kind, seed, 8)
        cores: list[list[int]] = []
        bound = box.box(proof)[0][0]
        for _ in range(60 if np.count_nonzero(box.sizes > 1) > 1 else 0):
            pair = any_pair(proof, box, rng)
            found = accepted(proof, box, [*cores, pair])
            if found is None or found == float("inf"):
                refused += 1
                continue
            taken += 1
            cores.append(pair)
            bound = max(bound, found)
        for _ in range(10):  # where hypotheses tie, the lemma speaks of none of them
            assert bound <= sum(map(max, worths_at(proof, inside(box.shape, rng))))
    assert min(taken, refused) > 100


def test_prices_are_taken_at_what_is_cheapest_at_those_before() -> None:
    nbest, header = base("bleu boxes")[0], document("bleu boxes")
    claim = claim_of(Bleu(), nbest, "first")
    proof = ProofLists(nbest, claim, "first", header["exponents"])
    claim.take(header["sums"], Fraction(header["bound"]))
    proof.weigh()
    whole = whole_part(proof)
    first = {own[0] for own in np.split(whole.rows, whole.starts[1:])}
    moved = 0
    for box in (narrowed(proof, whole, shape) for shape in whole.shape.parts({"split": BOXES})):
        points = list(_at_prices(proof, box, box.box(proof)[0]))
        assert len(points) > 1
        for (_, weighed), (later, _) in pairwise(points):
            rows = [min(own, key=lambda row: weighed.price.of(proof.worth[:, row]))
                    for own in np.split(box.rows, box.starts[1:])]  # fmt: skip
            moved += not {*rows} <= first
            sums = proof.sums((box.fixed + proof.worth[:, rows].sum(axis=1)).tolist())
            assert later == [max(1, value) for value in sums]
    assert moved


@pytest.mark.parametrize("scale", [1.0, 2.0**40, 0.3])
def test_conflicts_close_boxes_whatever_losses_are_worth(path: Path, scale: float) -> None:
    """Steps beyond the core's whole numbers are divided first: 0.3 times a loss has no small common unit."""
    nbest = random_nbest(3, n_lists=40, n_features=3, longest=6)
    nbest = NBest(nbest.features, nbest.offsets, np.round(nbest.statistics * 10) * scale)
    write_certificate(path, nbest, lpmert.minimize(nbest))
    assert verify(path, nbest).proved
    closed_so = [one["cores"] for one in json.loads(path.read_text())["tree"] if one.keys() == {"cores"}]
    assert len(closed_so) > 10
    assert max(map(len, closed_so)) > 3


@pytest.mark.parametrize("spread", [0, 2**40, 2**48, 2**50, 2**51, 2**52])
def test_ties_at_the_edge_of_a_box_fall_whether_doubles_are_exact_or_not(spread: int) -> None:
    """Hypotheses (x, y) and a box x = 1, |y| <= 1: the first is beaten at one end by none, at the other in a tie.

    spread: between two hypotheses of the third list, so that features take many bits.
    """
    rows = [[0, 0], [1, 1], [1, -1], [0.5, 0.5], [2, 1], [2, 0], [0, 0], [1 + spread, 0]]
    rows += [[0, 0], [0.5, 0.25], [1, 5]]
    losses = np.array([0.0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2])
    proof = claimed(Lists(np.array(rows, dtype=float), np.array([0, 4, 6, 8, 11]), losses).nbest, EXPONENTS)
    box = next(iter(whole_part(proof).shape.parts({"split": BOXES})))
    if spread in (0, 2**52):  # scores are exact, or rounded
        assert proof.errors(box.points).any() == (spread > 0)
    # 1 + y and (1 + y) / 2 are at least 0: the first and the fourth fall to the second, but not the third. In the other
    # list neither is as good as the other one everywhere, the third is settled, and the first of the last one falls to
    # the second, though not to the third, which is the best at the centre.
    assert narrowed(proof, whole_part(proof), box).rows.tolist() == [1, 2, 4, 5, 9, 10]
