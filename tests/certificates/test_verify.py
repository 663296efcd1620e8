"""The checker, against fractions: nothing is dropped that could win, no bound is too high, nothing false is accepted.

Also of ratios, within equations and of lattices; a cosine is refused.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from certificates import assert_refused, base, random_nbest, rewrite
from graph_problems import Drawn
from problems import KINDS, METRICS, Plain, problem, random_lists
from searches import many_more
from test_certificate_fuzz import CHANGES

import lpmert
from lpmert import CertificateError, Lattices, Linear, MethodError, NBest, Region, verify
from lpmert.certificates import lattices as check
from lpmert.certificates.claims import Price, RatioClaim
from lpmert.certificates.format import BOXES
from lpmert.certificates.lattices import midpoint, orthants
from lpmert.certificates.lists import Box, ProofLists, Whole, basis_of, rows_with_limits
from lpmert.certificates.verify import Node, _checked, check_node, claim_of, narrowed, root_node
from lpmert.certificates.write.certify import write_certificate
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


def ratio(worth: str) -> tuple[RatioClaim, Any]:
    """The checker's formula of a metric, and that of the oracle."""
    metric, loss, _ = METRICS[worth]
    return RatioClaim(metric, np.zeros((1, len(metric.columns)))), loss


@pytest.mark.parametrize("tree", ["boxes", "selections"])
@pytest.mark.parametrize("worth", ["small", "f1", "bleu", "chrf"])
def test_a_wrong_claim_of_an_engine_gives_a_certificate_with_a_gap(path: Path, worth: str, tree: str) -> None:
    told = 0
    for seed in range(40, 46):
        case = problem("floats", worth, seed)
        honest = lpmert.minimize(case.nbest, metric=case.metric)
        for weights in np.random.default_rng(seed).normal(size=(20, case.nbest.n_features)):
            if lpmert.evaluate(case.nbest, weights, metric=case.metric).loss <= honest.loss + 1e-6:
                continue
            write_certificate(path, case.nbest, replace(honest, weights=weights), metric=case.metric, kind=tree)
            found = verify(path, case.nbest, metric=case.metric)
            assert (found.proved, found.loss > found.bound, "above the least" in str(found)) == (False, True, True)
            assert abs(found.bound - Fraction(case.least)) <= (0 if case.exact else Fraction(1e-14))
            told += 1
            break
    assert told > 2


def test_formulas_without_a_lemma_have_no_proof(path: Path) -> None:
    with pytest.raises(CertificateError, match="no proof is known for the formula of 'new'"):
        RatioClaim(SimpleNamespace(name="new", kind=99, parameters=np.empty(0)), np.empty((0, 0)))
    nbest, _ = base("f1")
    with pytest.raises(MethodError, match="'theirs' is neither"):
        write_certificate(path, nbest, lpmert.minimize(nbest), metric=Plain(lambda total: total[0] ** 2))


@pytest.mark.parametrize("worth", ["bleu", "chrf", "f1", "wer"])
def test_losses_and_their_order_are_those_of_the_papers(worth: str) -> None:
    formula, loss = ratio(worth)
    rows = [row for seed in range(20) for row in problem("integers", worth, seed).statistics.astype(int).tolist()]
    assert [float(formula.loss(row)) for row in rows] == pytest.approx([float(loss(row)) for row in rows], abs=1e-12)
    for first, second in product(rows[:25], repeat=2):
        sign, difference = formula.order(first, second), loss(first) - loss(second)
        assert sign == -formula.order(second, first)
        assert abs(difference) <= 1e-9 or sign == math.copysign(1, difference)


def test_bleu_is_compared_where_doubles_cannot_tell() -> None:
    formula, _ = ratio("bleu")
    large = 10**15
    long = [large, large + 1, 3, 4, 2, 3, 1, 2, large // 2]
    longer = [large, large + 2, 3, 4, 2, 3, 1, 2, large // 2]
    assert formula.order(longer, long) == 1  # one n-gram more without a match
    assert formula.order(long, [large, large + 1, 2, 3, 3, 4, 1, 2, large // 2]) == 0
    short = [5, 7, 3, 6, 2, 5, 1, 4, 9]
    assert formula.order(short, [10, 14, 6, 12, 4, 10, 2, 8, 18]) == 0  # the same shares and brevity
    assert formula.order(short, [5, 7, 3, 6, 2, 5, 1, 4, 10]) == -1


@pytest.mark.parametrize("worth", ["bleu", "chrf"])
@pytest.mark.parametrize("seeds", [range(12), many_more(range(12, 200))])
def test_nothing_in_a_box_undercuts_its_best_corner_or_costs_its_price(worth: str, seeds: range) -> None:
    formula, _ = ratio(worth)
    priced = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = problem("integers", worth, seed % 7).statistics.astype(int)
        low = rows[rng.integers(len(rows))] * int(rng.integers(1, 4))
        high = low + rng.integers(0, 4, len(low))
        inside = [list(map(int, x)) for x in rng.integers(low, high + 1, size=(60, len(low)))]
        inside = [x for x in inside if formula.possible(x)]
        best = formula.best(low.tolist(), high.tolist())
        assert best is None or all(formula.order(x, best) >= 0 for x in inside)
        at = [max(1, int(value)) for value in rng.integers(low, high + 1)]
        for target in [x for x in inside if formula.loss(x) < 1][:6]:
            try:
                formula.sums = target
                price = formula.price(low.tolist(), high.tolist(), at)
            except CertificateError:
                assert (worth, best) == ("chrf", None)
                break
            priced += 1
            for x in inside:
                assert formula.order(x, target) >= 0 or price.of(x) < price.target
                assert price.of(x) + price.forbidden >= price.target
    assert priced > 20


def test_a_cosine_is_refused_before_anything_else_but_one_of_0_is_a_limit(path: Path) -> None:
    """The second hypothesis is best where b is above a, which the half-space leaves out."""
    nbest = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[1], [0]], names=["a", "b"])
    for cosine in (0.5, -0.5):  # the result is `None`: nothing of it is looked at
        with pytest.raises(MethodError, match="cover no cosine; search a region of bounds or linear limits instead"):
            lpmert.certify(nbest, None, path, region=Region(cosine=cosine, around={"a": 1, "b": 0}))
    assert not path.exists()
    region = Region(cosine=0.0, around={"a": 1, "b": -1})
    lpmert.certify(nbest, lpmert.minimize(nbest, region=region), path, region=region)
    found = verify(path, nbest)
    (limit,) = found.limits
    assert (found.loss, found.bound, limit[0]) == (1, 1, -limit[1])
    assert lpmert.minimize(nbest).loss == 0


@pytest.mark.parametrize(("region", "weights", "why"), [
    (None, [1.0, 1.0], "hypotheses of list 0 tie that lose differently"),
    (Region(nonnegative=True), [1.0, 0.0], "the weights break limit 1"),
])  # fmt: skip
def test_ties_and_limit_edges_prove_nothing(path: Path, region: Region | None, weights: list[float], why: str) -> None:
    """The first of those that tie loses as little as the header says."""
    nbest = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]], names=["a", "b"])
    lpmert.certify(nbest, lpmert.minimize(nbest, region=region), path, region=region)
    rewrite(path, weights={name: weight.hex() for name, weight in zip(nbest.names, weights, strict=True)})
    assert_refused(path, nbest, why)


@pytest.mark.parametrize("kind", ["boxes", "selections"])
def test_losses_beyond_64_bits_are_summed_exactly(path: Path, kind: str) -> None:
    """In units of the last digit, a million times 2**55; the middle one of a list never wins."""
    nbest = lpmert.NBest([[0], [1], [2]] * 2, [0, 3, 6], [1e6, 5e5, 0.1, 0, 0.7, 0.3])
    write_certificate(path, nbest, lpmert.minimize(nbest), kind=kind)
    found = verify(path, nbest)
    assert found.loss == found.bound == Fraction(0.1) + Fraction(0.3)


def test_each_equation_sets_the_first_weight_that_it_can() -> None:
    one = Fraction(1)
    basis, free = basis_of([[one, one, one, one], [one, -one, one, one], [2 * one, 0 * one, 2 * one, 2 * one]], 4)
    # The second less the first is 2 w1 = 0, and w0 = -w2 - w3 is left.
    assert free == [2, 3]
    assert basis.T.tolist() == [[-1, 0, 1, 0], [-1, 0, 0, 1]]


def test_what_equations_leave_is_exact_where_doubles_are_not() -> None:
    """The first weight is -1e-400 times the second: hypotheses that doubles cannot tell apart stay two."""
    nbest = lpmert.NBest([[2.0, 1.0], [5.0, 1.0]], [0, 2], [0.0, 1.0])
    rows, _, _ = rows_with_limits(nbest, [], [[Fraction(1), Fraction(1, 10**400)]])
    assert [row[0] - 10**400 for row in rows.tolist()] == [-2, -5]


@pytest.mark.parametrize(("metric", "region"), [
    ("wer", None),
    ("chrf", Region(fixed={"feature1": 0.0})),
    ("wer", Region(linear=[Linear({"feature1": 2.0, "feature3": -3.0}, 0, 0)])),
    ("chrf", Region(nonnegative=True)),
])  # fmt: skip
def test_changed_certificates_of_lattices_are_refused_or_still_true(path, metric, region):
    """Whatever is changed, nothing but `CertificateError` comes of it, and no bound above the optimum is accepted."""
    every = (Drawn(seed, "integers", 2, 3) for seed in range(80))
    drawn = next(one for one in every if one.searchable and 4 < len(one.paths(0)) * len(one.paths(1)) < 100)
    lattices = drawn.lattices()
    found = lpmert.minimize(lattices, metric=metric, region=region)
    lpmert.certify(lattices, found, path, metric=metric, region=region)
    proved, text = verify(path, lattices, metric=metric), path.read_text(encoding="utf-8")
    outcomes: Counter[str] = Counter()
    for seed in range(80):
        rng = random.Random(f"{metric} {seed}")
        path.write_bytes(rng.choice(CHANGES)(rng, json.loads(text)))
        try:
            other = verify(path, lattices, metric=metric)
        except CertificateError:
            outcomes["refused"] += 1
        else:
            outcomes["true"] += 1
            assert other.bound <= proved.bound <= other.loss
    assert (outcomes["refused"] > 40, outcomes["true"] > 1) == (True, True)


@pytest.fixture
def proof(path: Path) -> tuple[Lattices, Path]:
    lattices = Drawn(3, "integers", 2, 2).lattices()
    lpmert.certify(lattices, lpmert.minimize(lattices), path)
    return lattices, path


@pytest.mark.parametrize(("changes", "why"), [
    *(({"limits": limits}, "must have 2 numbers") for limits in ([[]], [["0x1p+0"]], [["0x0p+0", "0x0p+0"]])),
    ({"equations": [["1", "0"], ["0", "1"]]}, "leave no weights"),
    ({"limits": [["0x1p+0", "0x0p+0"], ["-0x1p+0", "0x0p+0"]]}, "leave no weights"),
    ({"limits": [["0x1p+0", "0x0p+0"]], "equations": [["1", "0"]]}, "leave no weights"),
    ({"loss": "1" + 300 * "0"}, "weights lose 2, not 1"),
    ({"loss": "1" + 301 * "0"}, "of at most 1e300"),
    ({"loss": "1"}, "weights lose 2, not 1"),
    ({"bound": "1"}, "is above|bound|loss"),
])  # fmt: skip
def test_claims_that_cannot_be_are_refused(changes: dict[str, object], why: str, proof: tuple[Lattices, Path]) -> None:
    lattices, path = proof
    rewrite(path, **changes)
    assert_refused(path, lattices, why)


def test_a_certificate_does_not_hold_for_other_lattices(proof: tuple[Lattices, Path]) -> None:
    lattices, path = proof
    assert_refused(path, Drawn(4, "integers", 2, 2).lattices(), "at the weights, paths of '0' tie")
    for metric in ("cer", "chrf"):
        assert_refused(path, lattices, "weights lose", metric=metric)


@pytest.mark.parametrize("ties", ["best", "worst"])
def test_another_rule_for_ties_proves_nothing_over_lattices(ties: str, path: Path) -> None:
    """Of the two paths the later one loses nothing: no proof may say that 1 is the least with the best of them."""
    lattices = Lattices([[1.0, 0.0], [1.0, 0.0]], [0, 2], [0, 0], [1, 1], ["b", "a"], ["a"])
    lpmert.certify(lattices, lpmert.minimize(lattices), path)
    assert verify(path, lattices).loss == 1
    rewrite(path, ties=ties)
    assert_refused(path, lattices, "rule for ties", ties=ties)


@pytest.mark.parametrize(("labels", "cones", "what"), [(1, 50, "'0'"), (None, 3, "a number of 2 features")])
def test_a_lattice_too_large_for_exact_arithmetic_is_refused(labels, cones, what, path, monkeypatch):
    lattices = Drawn(3, "dyadic", 2, 2).lattices()
    result = lpmert.minimize(lattices)
    monkeypatch.setattr(check, "_MOST_LABELS", labels or check._MOST_LABELS)
    monkeypatch.setattr(check, "_MOST_CONES", cones)
    with pytest.raises(CertificateError, match=f"{what} is too large for a certificate"):
        lpmert.certify(lattices, result, path)


def test_the_orthants_cover_the_space_and_the_parts_of_a_cone_cover_it() -> None:
    """A point of the cone has non-negative shares in one of the two halves, whatever the edge."""
    found = list(orthants(3))
    assert len(found) == len({str(rays) for rays in found}) == 8
    assert all(abs(round(np.linalg.det(rays.astype(float)))) == 1 for rays in found)
    rng = np.random.default_rng(0)
    rays = np.array([[3, 1, 0], [0, 5, -2], [1, 0, 4]], dtype=object)
    for p, q in combinations(range(3), 2):
        halves = rays.astype(float), rays.astype(float)
        halves[0][p] = halves[1][q] = midpoint(rays[p], rays[q])
        for shares in rng.random((200, 3)):
            point = shares @ rays.astype(float)
            assert any((np.linalg.solve(half.T, point) >= -1e-9).all() for half in halves)
