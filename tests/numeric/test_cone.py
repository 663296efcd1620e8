"""Linear and small cone programs, and bounds on rounding: every verdict is that of exact arithmetic.

Also where HiGHS would be wrong, and at the edges of the bounds.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count, product
from math import nextafter
from typing import Any

import numpy as np
import pytest
from commands import python
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from oracle import Lists, decoded, dot, positive_weights, strictly_feasible, whole
from problems import KINDS, random_lists
from scipy.optimize import linprog

from lpmert import core
from lpmert.errors import FloatArray, IntArray, LpmertError
from lpmert.limits import Deadline, OutOfTime, heeding
from lpmert.model.problem import Problem
from lpmert.numeric.cone import Decision, LinOptimizer, MarginProgram, Verdict, cones_of_region, outer_normals
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, UNDECIDED, Cap, SortedLists, first_best, sorted_lists
from lpmert.numeric.rational import Rounding, binary_places, exact_products, single_products


def pairs(*rows: tuple[float, ...]) -> tuple[FloatArray, IntArray, dict[int, int]]:
    """One list {row, 0} for each row, and the choice of all rows."""
    features = np.array([vector for row in rows for vector in (row, (0.0,) * len(row))], dtype=np.float64)
    return features, np.arange(0, len(features) + 1, 2), {i: 2 * i for i in range(len(rows))}


def asked(chosen: Mapping[int, int]) -> tuple[IntArray, IntArray]:
    return np.array([*chosen], dtype=np.int64), np.array([*chosen.values()], dtype=np.int64)


def check(features: FloatArray, offsets: IntArray, chosen: Mapping[int, int], verdict: Verdict) -> None:
    """Assert that weights make the choices in exact arithmetic, or that none make those of the core."""
    if verdict.attainable:
        rows = leads(features, offsets, chosen)
        weights = positive_weights(rows) if verdict.weights is None else verdict.weights
        assert weights is not None
        assert are_ahead(rows, weights)
        assert verdict.core == ()
        return
    assert 0 < len(verdict.core) <= features.shape[1] + 1
    for one, row, other in verdict.core:
        assert chosen[one] == row
        assert offsets[one] <= other < offsets[one + 1]
    assert positive_weights(differences(features, [(row, other) for _, row, other in verdict.core])) is None
    assert verdict.weights is None


def check_choices(choices: tuple[FloatArray, IntArray, dict[int, int]], attainable: bool) -> None:
    """Assert that a choice of rows of lists comes out as this, and that the verdict holds."""
    features, offsets, chosen = choices
    verdict = LinOptimizer(features, offsets).solve(asked(chosen))
    assert verdict.attainable == attainable
    check(features, offsets, chosen, verdict)


def differences(features: FloatArray, rows: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Exact differences of pairs of rows, times one factor."""
    exact = [[Fraction(value) for value in row] for row in features.tolist()]
    return whole([[a - b for a, b in zip(exact[row], exact[other], strict=True)] for row, other in rows])


def leads(features: FloatArray, offsets: IntArray, chosen: Mapping[int, int]) -> list[list[int]]:
    """What chosen rows are ahead of the others of their lists, exactly but for one factor."""
    pairs = [(row, other) for i, row in chosen.items() for other in range(offsets[i], offsets[i + 1]) if other != row]
    return differences(features, pairs)


def are_ahead(rows: list[list[int]], weights: Sequence[float] | FloatArray) -> bool:
    """Whether weights have a positive product with every row, exactly."""
    return all(dot(row, weights) > 0 for row in rows)


def gaussian(seed: int, width: int, lists: int, size: int) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(lists * size, width)), np.arange(0, lists * size + 1, size)


@pytest.mark.parametrize("seed", range(6))
def test_what_some_weights_decode_to_is_attainable_and_swaps_come_with_proof(seed: int) -> None:
    features, offsets = gaussian(seed, width=4 + seed, lists=12, size=20)
    rng = np.random.default_rng(seed)
    optimizer = LinOptimizer(features, offsets)
    chosen = decoded(features, offsets, rng.normal(size=features.shape[1]))
    verdict = optimizer.solve((np.arange(12), chosen))
    assert verdict.attainable
    check(features, offsets, dict(enumerate(chosen.tolist())), verdict)
    unattainable = 0
    for _ in range(30):
        lists = rng.permutation(12)[: rng.integers(1, 9)].tolist()
        some = {i: int(chosen[i]) for i in lists}
        some[lists[0]] = int(rng.integers(offsets[lists[0]], offsets[lists[0] + 1]))
        verdict = optimizer.solve(asked(some), start=verdict.weights, rows=verdict.rows)
        check(features, offsets, some, verdict)  # as without a start, as either answer comes with its proof
        unattainable += not verdict.attainable
    assert unattainable > 0


def test_rows_of_no_list_and_numbers_that_are_none_or_too_large_are_refused() -> None:
    features, offsets = gaussian(0, width=2, lists=2, size=3)
    with pytest.raises(ValueError, match="list 1 has no row 2"):
        LinOptimizer(features, offsets).solve(asked({1: 2}))
    with pytest.raises(ValueError, match="start must be finite"):
        LinOptimizer(features, offsets).solve(asked({1: 3}), start=np.array([np.nan, 0.0]))
    for large in (np.nan, np.inf, 1.7e308):
        with pytest.raises(ValueError, match="finite"):
            LinOptimizer(np.array([[large, 1.0]]), np.array([0, 1]))


def test_no_comparisons_at_all_are_attainable_with_any_weights() -> None:
    optimizer = LinOptimizer(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1, 2]))
    for chosen in ({}, {0: 0}, {0: 0, 1: 1}):
        verdict = optimizer.solve(asked(chosen))
        assert verdict.attainable
        assert verdict.weights.any()
    assert optimizer.centre(asked({0: 0}))[1] is None


@pytest.mark.parametrize("tiny", [1e-9, 1e-10, 1e-13, 1e-30, 5e-324])
def test_coefficients_that_highs_would_drop_still_decide(tiny: float) -> None:
    for rows, attainable in (
        ([(1.0, tiny), (-1.0, tiny)], True),
        ([(1.0, tiny), (-1.0, tiny), (0.0, -1.0)], False),
        ([(1.0, tiny, 0.0), (-1.0, 0.0, tiny), (0.0, -1.0, 1.0), (0.0, 1.0, -1.0 + 2**-50)], True),
    ):
        check_choices(pairs(*rows), attainable)


def test_highs_complaint_about_a_small_coefficient_is_an_error() -> None:
    model = MarginProgram(2)
    model.clear()
    with pytest.raises(LpmertError, match="kWarning"):
        model.add(np.array([[1.0, 1e-10]]))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12, 1e-300, 1e300])
@pytest.mark.parametrize("last", [-1 - 2**-52, -1 + 2**-53, -1.0])
def test_nearly_opposite_rows_are_told_from_opposite_ones(scale: float, last: float) -> None:
    row = scale * np.array([0.1, 0.3, 0.7])
    check_choices(pairs(tuple(row), tuple(row * [-1.0, -1.0, last])), last != -1)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 2), st.integers(2, 5))
def test_rows_that_differ_in_their_last_bits_are_settled_exactly(seed: int, width: int, ulps: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=width)
    noise = 1 + 2.0**-52 * rng.integers(-ulps, ulps + 1, size=(2, size, width))
    bundles = [np.unique(sign * base * one, axis=0) for sign, one in zip((-1, 1), noise, strict=True)]
    features = np.concatenate([np.zeros((1, width)), bundles[0], np.zeros((1, width)), bundles[1]])
    offsets = np.cumsum([0, *(1 + len(bundle) for bundle in bundles)])
    expected = strictly_feasible((-np.concatenate(bundles)).tolist())
    check_choices((features, offsets, {0: 0, 1: int(offsets[1])}), expected)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(-12, 12), st.integers(0, 3))
def test_certificates_hold_for_lists_of_small_integers_with_scaled_columns(
    seed: int, width: int, scale: int, lists: int
) -> None:
    rng = np.random.default_rng(seed)
    blocks = [np.unique(rng.integers(-2, 3, size=(5, width)), axis=0) for _ in range(lists + 1)]
    features = np.concatenate(blocks) * 10.0 ** (scale * np.arange(width))
    offsets = np.cumsum([0, *map(len, blocks)])
    chosen = {i: int(rng.integers(offsets[i], offsets[i + 1])) for i in range(lists + 1)}
    check(features, offsets, chosen, LinOptimizer(features, offsets).solve(asked(chosen)))


@pytest.mark.parametrize("seed", range(5))
def test_centre_has_the_largest_least_margin(seed: int) -> None:
    features, offsets = gaussian(seed, width=4, lists=30, size=12)
    chosen = decoded(features, offsets, np.random.default_rng(seed).normal(size=4))
    weights, margin = LinOptimizer(features, offsets).centre((np.arange(30), chosen))
    other = np.setdiff1d(np.arange(len(features)), chosen)
    normals = features[chosen[other // 12]] - features[other]
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    rows, box = np.hstack([-normals, np.ones((len(other), 1))]), [(-1, 1)] * 4 + [(None, None)]
    assert np.abs(weights).max() <= 1
    assert margin == pytest.approx(-linprog([0, 0, 0, 0, -1], rows, np.zeros(len(other)), bounds=box).fun, abs=1e-8)
    assert (normals @ weights).min() == pytest.approx(margin, abs=1e-12)


def test_centre_keeps_a_better_start_and_ends_where_a_dropped_coefficient_exceeds_the_tolerance() -> None:
    features, offsets, chosen = pairs((1.0, 1e-12), (-1.0, 1e-12))
    weights, margin = LinOptimizer(features, offsets).centre(asked(chosen), start=np.array([0.0, 1.0]))
    assert margin > 0
    assert are_ahead(leads(features, offsets, chosen), weights)
    features, offsets, chosen = pairs((1.0, -9e-10), (0.0, 1.0))
    assert LinOptimizer(features, offsets).centre(asked(chosen))[1] == pytest.approx(1 - 9e-10, abs=1e-11)


def test_margins_of_other_weights_are_not_those_before() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(6, 2))
    comparisons = Decision(LinOptimizer(features, np.array([0, 6])), asked({0: 2}))
    weights = np.array([1.0, 0.25])
    first = comparisons.margins(weights)[0].copy()
    weights *= -1.0  # in place
    assert np.array_equal(comparisons.margins(weights)[0], -first)
    assert np.array_equal(comparisons.margins(-weights)[0], first)


def test_margins_are_off_by_what_both_features_may_be_off() -> None:
    """Normals have length 1: the longer they were, the less it matters."""
    weights, spread = np.array([0.5, -1.0]), np.array([2.0**-30, 2.0**-20])
    for length in (1.0, 64.0):
        features = np.array([[3.0 * length, 1.0], [0.0, 1.0]])
        nobody_knows = Rounding(spread, features, np.zeros((2, 2), dtype=np.int64), None, np.arange(2))
        optimizer = LinOptimizer(features, np.array([0, 2]), rounding=nobody_knows)
        _, bound = Decision(optimizer, asked({0: 0})).margins(weights)
        most = 2.0 * (0.5 * 2.0**-30 + 2.0**-20) / (3.0 * length)
        assert most <= bound[0] <= 1.001 * most


@pytest.mark.parametrize("module", ["lpmert.numeric.cone", "lpmert.methods.mip"])
def test_highs_prints_nothing_to_standard_output_and_opens_none_that_was_closed(module: str) -> None:
    end = python("-c", f"import {module}, highspy; print('first'); highspy.Highs(); print('last')")
    assert (end.stdout, end.stderr) == ("first\nlast\n", "")
    closed = f"import os; os.close(1); import {module}, highspy; highspy.Highs(); os.fstat(1)"
    end = python("-c", closed, code=1)
    assert (end.stdout, "Bad file descriptor" in end.stderr) == ("", True)


Selection = NDArray[np.int64]


def decide(lists: Lists, selection: Selection, *, steps: bool) -> tuple[int, NDArray[np.float64], NDArray[np.int64]]:
    """Verdict, point and core lists for a selection, adding one list at a time (as a search does) or all at once."""
    n_lists, width = lists.n_lists, lists.features.shape[1]
    prepared = sorted_lists(lists.features, lists.offsets, np.zeros(len(lists.losses), dtype=np.int64))
    least_norm, corral = core.LeastNorm(prepared.native()), core.Corral(width)
    order = np.arange(n_lists)
    verdict = UNDECIDED
    for number in range(1, n_lists + 1) if steps else [n_lists]:
        verdict = least_norm.separate(order[:number], selection, number - 1, corral)
        if verdict != FEASIBLE:
            break
    return verdict, corral.point, np.unique(corral.lists)


def leads_of(lists: Lists, selection: Selection, only: Collection[int] | None = None) -> list[list[int]]:
    """What a selection is ahead of the others of some lists."""
    chosen = dict(enumerate((lists.offsets[:-1] + selection).tolist()))
    return leads(lists.features, lists.offsets, {s: chosen[s] for s in (chosen if only is None else only)})


def cases(kind: str) -> Iterator[tuple[Lists, Selection]]:
    """Selections of lists as the searches see them: without identical vectors, and with columns of like size."""
    for seed in range(25):
        form = Problem(random_lists(kind, seed).nbest).canonical
        if form.n_lists == 0:
            continue
        lists, rng = Lists(form.features, form.offsets, form.costs), np.random.default_rng(seed)
        for _ in range(4):
            yield lists, rng.integers(0, np.diff(form.offsets))
        # What weights choose is feasible, up to ties.
        w = rng.integers(-2, 3, form.n_features).astype(float)
        yield lists, decoded(form.features, form.offsets, w) - form.offsets[:-1]


@pytest.mark.parametrize("steps", [True, False])
def test_no_verdict_is_wrong(steps: bool) -> None:
    counts: Counter[int] = Counter()
    for kind in KINDS:
        for lists, selection in cases(kind):
            verdict, point, conflict = decide(lists, selection, steps=steps)
            counts[verdict] += 1
            if verdict == FEASIBLE:
                assert are_ahead(leads_of(lists, selection), point)
            elif verdict == INFEASIBLE:
                assert not strictly_feasible(leads_of(lists, selection, conflict))
                assert len(conflict) <= lists.features.shape[1] + 1
    assert min(counts[FEASIBLE], counts[INFEASIBLE]) > counts.total() / 10


@pytest.mark.parametrize("width", [2, 4, 8, 14])
def test_generic_programs_are_decided_alike_from_a_worn_corral_and_from_scratch(width: int) -> None:
    """As lists are added one by one, the inverse of a corral is updated, and has to lead where a new one leads."""
    rng = np.random.default_rng(width)
    offsets, order = np.arange(0, 121, 10), np.arange(12)
    features = rng.normal(size=(120, width))
    least_norm = core.LeastNorm(sorted_lists(features, offsets, np.zeros(120, dtype=np.int64)).native())
    worn, said = core.Corral(width), Counter[int]()
    for _ in range(150):
        selection = (features @ rng.normal(size=width)).reshape(12, 10).argmax(axis=1)
        if rng.random() < 0.5:
            selection[rng.integers(12)] = rng.integers(10)
        for number in range(1, 13):
            verdict = least_norm.separate(order[:number], selection, number - 1, worn)
            assert verdict == least_norm.separate(order[:number], selection, number - 1, core.Corral(width))
            if verdict != FEASIBLE:
                break
        said[verdict] += 1
        worn.restart(worn.point)
    assert said[UNDECIDED] == 0
    assert min(said[FEASIBLE], said[INFEASIBLE]) > 10


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 40, 67])
def test_lists_of_every_length_are_decoded_to_their_first_best_hypothesis(length: int) -> None:
    """Scores are computed in blocks, of which the last may overlap the one before."""
    rng = np.random.default_rng(length)
    for width in range(1, 7):
        features = rng.integers(-3, 4, (3 * length, width)).astype(float)
        weights = rng.integers(-2, 3, width).astype(float)
        offsets, costs = np.arange(0, 3 * length + 1, length), rng.integers(0, 9, 3 * length)
        lists = sorted_lists(features, offsets, costs)
        selection = np.zeros(3, dtype=np.int64)
        cost, clear = lists.native().decode_clearly(weights, selection)
        scores = [lists.rows[begin : begin + length] @ weights for begin in offsets[:-1]]
        assert selection.tolist() == [int(np.argmax(own)) for own in scores]
        assert cost == sum(lists.costs[offsets[:-1] + selection])
        assert clear == all(np.count_nonzero(own == own.max()) == 1 for own in scores)


@pytest.mark.parametrize(
    ("decided", "chosen", "start", "what"),
    [
        ([0, 2], [0, 0], 0, "decided must be from 0 to below"),
        ([0, 1], [0, 2], 0, "chosen, in decided lists, must be from 0"),
        ([0, 1], [-1, 0], 0, "chosen, in decided lists, must be from 0"),
        ([0, 1], [0, 0, 0], 0, "chosen must have 2 items"),
        ([0, 1], [0, 0], 2, "start must be in decided"),
    ],
)
def test_choices_outside_the_lists_are_refused(decided: list[int], chosen: list[int], start: int, what: str) -> None:
    lists = sorted_lists(np.eye(4), np.array([0, 2, 4]), np.zeros(4, dtype=np.int64))
    with pytest.raises(ValueError, match=what):
        core.LeastNorm(lists.native()).separate(np.array(decided), np.array(chosen), start, core.Corral(4))


def _lists(features: FloatArray, cap: Cap | None = None, spread: Any = 0.0) -> SortedLists:
    """Lists of two, which cost the same."""
    offsets = np.arange(0, len(features) + 1, 2)
    lists = sorted_lists(features, offsets, np.zeros(len(features), dtype=np.int64), cap)
    return lists._replace(spread=spread + np.zeros(features.shape[1]))


def _decoded(lists: SortedLists, weights: FloatArray) -> tuple[int, bool]:
    selection = np.zeros(1, dtype=np.int64)
    _, clear = lists.native().decode_clearly(weights, selection)
    return int(selection[0]), clear


def _separate(lists: SortedLists, weights: FloatArray | None = None) -> tuple[int, FloatArray]:
    width, n_lists = lists.rows.shape[1], len(lists.offsets) - 1
    corral, first = core.Corral(width), np.zeros(n_lists, dtype=np.int64)
    corral.restart(np.zeros(width) if weights is None else weights)
    return core.LeastNorm(lists.native()).separate(np.arange(n_lists), first, 0, corral), corral.point


def test_a_winner_that_rounding_makes_is_not_clear() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        weights, row = rng.normal(size=(2, 6))
        other = np.nextafter(row, row + rng.choice([-1.0, 1.0], 6))
        winner, clear = _decoded(_lists(np.array([row, other])), weights)
        lead = dot(row, weights) - dot(other, weights)
        wrong += (lead > 0) != (winner == 0)
        assert not clear or ((lead > 0) == (winner == 0) and lead)
    assert wrong > 10
    assert _decoded(_lists(np.array([row, row + 1e-12])), np.ones(6)) == (1, True)


TINY = 2.0**-1074  # the smallest double


def test_products_that_underflow_and_entries_lost_in_normalising_decide_nothing() -> None:
    weights, row = np.array([0.48, 0.48, 0.55]), np.array([3.0, 3.0, -5.0]) * TINY
    assert dot(row, weights) > 0
    assert _decoded(_lists(np.array([row, np.zeros(3)])), weights) == (1, False)
    assert _separate(_lists(-np.array([row, np.zeros(3)])), weights)[0] != FEASIBLE
    features = np.zeros((6, 2))
    features[::2] = [[2.0, TINY], [-2.0, TINY], [0.0, 1.0]]  # (0, 1) makes them
    assert _separate(_lists(features), np.array([1.0, 0.0]))[0] != INFEASIBLE


def test_choices_that_only_rounding_separates_are_not_called_possible() -> None:
    rng = np.random.default_rng(2)
    said: Counter[int] = Counter()
    for _ in range(300):
        weights, row = rng.normal(size=(2, 6))
        other = np.nextafter(row, row + rng.choice([-1.0, 1.0], 6)) - float(rng.choice([0.0, 1e-9])) * weights
        features = np.array([row, other])
        verdict, point = _separate(_lists(features), weights)
        said[verdict] += 1
        assert verdict != INFEASIBLE
        assert verdict != FEASIBLE or dot(features[0], point) > dot(features[1], point)
    assert said[FEASIBLE] > 100


def test_a_lead_is_clear_beyond_what_both_features_may_be_off_and_at_the_bound_of_the_winner_others_count() -> None:
    for lead, clear in ((1.5, False), (2.0, False), (2.1, True)):
        lists = _lists(np.array([[1.0], [1.0 - lead * 2.0**-10]]), spread=2.0**-10)
        assert _decoded(lists, np.ones(1)) == (0, clear)
    assert _decoded(_lists(np.array([[1.0], [2.0]])), np.zeros(1)) == (0, False)  # a tie at no weights
    features, offsets, costs = np.array([[1.0], [0.5], [0.25]]), np.array([0, 3]), np.array([1, 2, 4])
    for bound, expected in ((0.5, (2, False)), (0.49, (1, True)), (0.75, (4, False))):
        assert core.decoded_cost(features, offsets, costs, np.array([1.0]), bound) == (1, *expected)


@pytest.mark.parametrize("flat", [1e-3, 1e-5, 1e-6, 1e-7])
def test_flat_simplices_beside_the_origin_are_not_called_cores(flat: float) -> None:
    """Their inverse has few digits left; the origin lies inside or outside, by far less than they are flat."""
    rng = np.random.default_rng(3)
    said: Counter[int] = Counter()
    for _ in range(400):
        heights = rng.integers(-4, 5, 3).astype(float)
        heights[1] = -heights[2] if rng.random() < 0.7 else heights[1]
        heights += rng.choice([-1.0, 0.0, 1.0], 3) * 2.0 ** -rng.integers(8, 50)
        rows, features = np.column_stack([[1.0, -1.0, 1.0], flat * heights]), np.zeros((6, 2))
        features[::2] = rows
        verdict, point = _separate(_lists(features))
        said[verdict] += 1
        if verdict == FEASIBLE:
            assert all(dot(row, point.tolist()) > 0 for row in rows.tolist())
        if verdict == INFEASIBLE:
            assert not strictly_feasible([tuple(map(Fraction, row)) for row in rows.tolist()])
    assert said[FEASIBLE] > 20


@pytest.mark.parametrize("angle", [0.3, 0.9, 1.4])
def test_weights_at_the_edge_of_a_cap_are_in_it_or_nobody_knows(angle: float) -> None:
    """A half-space comes as near to the middle of the cap as its cosine, but for units in the last place."""
    row = [-np.sin(angle), np.cos(angle)]
    features, centre = np.array([row, [0.0, 0.0]]), np.array([1.0, 0.0])
    verdict, point = _separate(_lists(features, Cap(centre, 0.01)))
    assert verdict == FEASIBLE
    reached = float(point[0] / np.hypot(*point))
    closest = float(np.sqrt(1.0 - row[0] ** 2 / (row[0] ** 2 + row[1] ** 2)))
    square = 1 - Fraction(row[0]) ** 2 / (Fraction(row[0]) ** 2 + Fraction(row[1]) ** 2)
    said: Counter[int] = Counter()
    for around in (reached, closest):
        steps = [around + k * step for step in (2.0**-53, 1e-15, 1e-13, 1e-10) for k in range(-30, 31)]
        for cosine in [*steps, nextafter(around, 0), nextafter(around, 1)]:
            verdict, point = _separate(_lists(features, Cap(centre, cosine)))
            said[verdict] += 1
            w = [Fraction(value) for value in point.tolist()]
            if verdict == FEASIBLE:
                assert w[0] ** 2 >= Fraction(cosine) ** 2 * (w[0] ** 2 + w[1] ** 2)
                assert dot(row, point.tolist()) > 0
            elif verdict == INFEASIBLE:
                assert Fraction(cosine) ** 2 >= square
    assert min(said[FEASIBLE], said[INFEASIBLE]) > 30


def test_a_row_within_rounding_of_those_that_beat_it_may_win() -> None:
    for behind, left in ((2.0**-50, 5), (2.0**-30, 4)):
        rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.5, 0.5 - behind]])
        assert core.possible_winners(rows, np.array([0, 5])).tolist() == [*range(left)]
    rng = np.random.default_rng(0)
    for _ in range(2000):
        whole = rng.integers(-5, 6, (6, 2)).astype(np.float64)
        large, tiny = (core.possible_winners(one, np.array([0, 6])).tolist() for one in (whole, whole * TINY))
        assert set(large) <= set(tiny)


def test_paths_are_dropped_only_where_others_are_as_good_at_every_ray() -> None:
    """Scores are large, and at one ray the exact difference is what rounding has left of it."""
    rng = np.random.default_rng(5)
    dropped = falsely = 0
    for _ in range(2000):
        step = rng.integers(1, 1000, 3).astype(float)
        base = rng.integers(0, 2 ** int(rng.choice([1, 30])), 3).astype(float)
        across = np.cross(step, rng.normal(size=3))
        near = across + step * float(rng.choice([0.0, 0.01]))
        rays = np.array([near, step + across * rng.uniform(-1, 1)])
        features = np.array([base + step, base])[:: int(rng.choice([-1, 1]))]
        reach = np.abs(rays) @ np.abs(features).max(axis=0)
        _, found, *_ = core.narrow(features.copy(), np.array([0]), np.array([0, 2]), np.arange(2), rays, reach[None])
        exact = [[dot(row, ray) for ray in rays.tolist()] for row in features.tolist()]
        for k in {0, 1} - set(found.tolist()):
            assert all(a >= b for a, b in zip(exact[1 - k], exact[k], strict=True))
            dropped += 1
        scores = features @ rays.T
        falsely += any((scores[0, r] > scores[1, r]) != (exact[0][r] > exact[1][r]) for r in range(2))
    assert min(dropped, falsely) > 10


def test_mixtures_beat_a_path_only_where_they_do_at_every_ray() -> None:
    """Two paths are opposite to each other but for units in the last place; a third one, 0, is between them."""
    rng = np.random.default_rng(8)
    dropped = left = 0
    for _ in range(4000):
        rays, one = rng.normal(size=(2, 3)), rng.normal(size=3)
        if (one @ rays[0]) * (one @ rays[1]) > 0:
            continue
        other = -one + rng.integers(-3, 4, 3) * np.spacing(one) * 2.0 ** int(rng.choice([0, 0, 0, 30]))
        features = np.array([one, other, np.zeros(3)])
        reach = np.abs(rays) @ np.abs(features).max(axis=0)
        _, found, *_ = core.narrow(features, np.array([0]), np.array([0, 3]), np.arange(3), rays, reach[None])
        at = [[dot(row, ray) for ray in rays.tolist()] for row in features.tolist()]
        for k in {0, 1, 2} - set(found.tolist()):
            ahead = [[a - b for a, b in zip(at[k], at[j], strict=True)] for j in range(3) if j != k]
            assert not strictly_feasible([*ahead, [1, 0], [0, 1]])
            dropped += 1
        left += 2 in found.tolist()
    assert min(dropped, left) > 100


def _looked_through(features: FloatArray, rays: FloatArray, reach: FloatArray) -> tuple[list[int], int]:
    """Which links of a single path are left, and how many hypotheses these make."""
    nodes = np.arange(len(features) + 1, dtype=np.int32)
    links = core.Links(nodes[:-1].copy(), np.zeros(len(features), dtype=np.int32), nodes[1:].copy(), len(nodes))
    finder, marks = core.PathFinder(100), np.packbits(np.ones(len(features), dtype=bool))
    mixes, known = np.full((1, len(rays)), 1.0 / len(rays)), np.empty((0, features.shape[1]))
    left = finder.look_through(links, features, len(features), marks, rays, reach, mixes, known)[1]
    found, *_, ends = finder.list(10**6)
    assert found
    return left.tolist(), len(ends) - 1


def test_rounded_sums_lose_no_link_of_the_best_path() -> None:
    """Scores of links add up to that of their path but for rounding."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        features, rays = np.rint(rng.normal(size=(12, 3)) * 2**20) / 2**20, rng.normal(size=(1, 3))
        reach = (np.abs(features) @ np.abs(rays).T).sum(axis=0)
        assert _looked_through(features, rays, reach) == (list(range(12)), 1)
    assert _looked_through(np.zeros((2, 3)), np.eye(3), np.zeros(3)) == ([0, 1], 1)


def products_are_exact(ray: FloatArray, features: FloatArray) -> bool:
    """Whether products come out exactly, added up from either end."""
    for row, order in product(features.tolist(), (1, -1)):
        total = 0.0
        for x, y in zip(row[::order], ray.tolist()[::order], strict=True):
            total += x * y
        if Fraction(total) != dot(row, ray.tolist()):
            return False
    return True


def test_places_are_those_of_multiples_of_a_power_of_two() -> None:
    for values, places in (
        *(([0.0, -3.0, 2.0**60], 0), ([1.0, 2.0**-10], 10), ([1.0, 2.0**-11], 20)),
        *(([0.1], None), ([np.inf], None), ([1e308, 2.0**-20], None)),  # the last one overflows when multiplied
    ):
        assert binary_places(np.array(values)) == places


def test_products_are_called_exact_only_where_they_are() -> None:
    rng = np.random.default_rng(3)
    said = refused = 0
    for _ in range(400):
        bits, own, n_features = int(rng.integers(1, 45)), int(rng.integers(0, 30)), int(rng.integers(1, 6))
        features = np.ldexp(rng.integers(-(2**bits), 2**bits, (8, n_features)).astype(float), -int(rng.integers(0, 41)))
        ray = np.ldexp(rng.integers(-(2**own), 2**own + 1, n_features).astype(float), -int(rng.integers(0, 31)))
        largest = float(np.abs(features).sum(axis=1).max())
        if exact_products(ray[None, :], features, largest)[0]:
            assert products_are_exact(ray, features)
            said += 1
        else:
            refused += not products_are_exact(ray, features)
    assert said > 50
    assert refused > 20


HELD = 2.0**21, 1.0 - 2.0**-30  # a row whose sum has 52 bits


@pytest.mark.parametrize(
    ("ray", "row", "largest", "said", "true"),
    [
        ((1.0, 1.0), HELD, sum(HELD), True, True),
        ((1.0, 1.0), (2.0**23, HELD[1]), 2.0**23 + HELD[1], False, False),  # a sum of 54 bits
        ((1.0, 1.0), HELD, 2.0**22 - 1.0, True, True),
        ((1.0, 1.0), HELD, 2.0**22, False, True),
        ((0.1, 1.0), HELD, 1.0, False, True),
        ((2.0**-1070, 2.0**-1070), (2.0**-10, 1.0), 2.0, False, False),  # underflow
    ],
)
def test_the_last_bit_that_doubles_hold_decides(ray: Any, row: Any, largest: float, said: bool, true: bool) -> None:
    assert products_are_exact(np.array(ray), np.array([row])) is true
    assert exact_products(np.array([ray]), np.array([row]), largest)[0] == said


def test_one_entry_that_is_a_power_of_two_rounds_nothing() -> None:
    features = np.array([[0.1, 0.7], [1e300, 5e-324]])
    rays = np.array([[0.0, -1.0], [2.0, 0.0], [0.0, 3.0], [0.0, 0.5], [1.0, 1.0], [0.0, 0.0]])
    assert single_products(rays).tolist() == [True, True, False, False, False, False]  # half of 5e-324 is no number
    assert [products_are_exact(ray, features) for ray in rays[:4]] == [True, True, False, False]


@given(st.lists(st.lists(st.integers(-2, 2), min_size=1, max_size=4), min_size=1, max_size=5))
def test_the_first_of_the_best_is_taken_in_every_list(scores: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, scores)])
    expected = [begin + one.index(max(one)) for begin, one in zip(offsets.tolist(), scores, strict=False)]
    assert first_best(np.concatenate([np.array(one, dtype=float) for one in scores]), offsets[:-1]).tolist() == expected


def test_cones_cover_what_is_inside_the_limits_and_little_else() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        width = int(rng.integers(1, 5))
        shape = int(rng.integers(0, 5)), width
        limits = rng.normal(size=shape) if seed % 2 else rng.integers(-9, 10, size=shape).astype(float)
        limits = limits[limits.any(axis=1)]
        cones = list(cones_of_region(limits))
        weights = rng.normal(size=(300, width))
        for w in weights[(limits @ weights.T > 0).all(axis=0)]:
            assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in cones)
        within = [(limits @ (rays.T @ rng.random((width, 20))) >= -1e-9).all(axis=0) for rays in cones]
        assert not within or np.mean(within) > 0.9


def test_a_box_becomes_cones_with_its_corners_as_rays() -> None:
    # w1 = 1, w2 in 3..20, w3 in -12..12
    limits = np.array([[1, 0, 0], [-3, 1, 0], [20, -1, 0], [12, 0, 1], [12, 0, -1]], dtype=float)
    cones = list(cones_of_region(limits))
    corners = {(1, a, b) for a in (3, 20) for b in (-12, 0, 12)}
    assert {tuple((ray / ray[0]).tolist()) for rays in cones for ray in rays} == corners
    areas = [abs(np.linalg.det(rays / rays[:, :1])) / 2 for rays in cones]
    assert sum(areas) == pytest.approx(17 * 24)


def test_rays_have_few_bits_so_that_midpoints_stay_exact() -> None:
    rng = np.random.default_rng(7)
    for ray in (ray for rays in cones_of_region(rng.normal(size=(4, 3))) for ray in rays.tolist()):
        assert all(Fraction(value).denominator <= 2**44 for value in ray)
    assert not list(cones_of_region(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])))  # a contradiction


def test_many_limits_lose_nothing_inside_and_are_cut_for_a_while_only() -> None:
    """Between 70 limits on five weights most parts of what is cut lie outside of another limit."""
    rng = np.random.default_rng(3)
    middle, limits = rng.normal(size=5), rng.integers(-9, 10, (70, 5)).astype(float)
    limits *= np.sign(limits @ middle)[:, None]
    found = list(cones_of_region(limits))
    assert len(found) <= 256
    inside = middle + 1e-3 * rng.normal(size=(100, 5))
    inside = inside[(limits @ inside.T > 0).all(axis=0)]
    assert len(inside) > 10
    for w in inside:
        assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in found)
    (rays,) = cones_of_region(np.eye(60))  # the signs of many weights leave one cone
    assert rays.tolist() == np.eye(60).tolist()


@pytest.mark.parametrize(
    ("limits", "most"),  # the last ones cut no cone: all share their rays, but there are many cones and limits
    [(np.empty((0, 60)), 40), (np.vstack([np.eye(30), np.tile([1.0, -0.7, 0.3], 10)]), 40), (np.eye(12), 196)],
)
def test_cones_are_given_up_when_the_time_is_over(limits: FloatArray, most: int) -> None:
    asked = count()
    with Deadline(stop=lambda: next(asked) >= most).running(), heeding(), pytest.raises(OutOfTime):
        list(cones_of_region(limits))
    assert next(asked) == most + 1


def test_normals_of_a_cone_without_an_inside_are_not_certain() -> None:
    for flat in ([[1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]):
        assert not outer_normals(np.array(flat))[1]
    normals, certain = outer_normals(np.eye(3))
    assert certain
    assert (normals @ np.eye(3) + 1e-6 > 0).all()
