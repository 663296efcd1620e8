"""Linear and small cone programs: every verdict is that of exact arithmetic, also where HiGHS would be wrong."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

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
from lpmert.model.problem import Problem
from lpmert.numeric.cone import Decision, LinOptimizer, MarginProgram, Verdict
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, UNDECIDED, sorted_lists
from lpmert.numeric.rational import Rounding


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
    for count in range(1, n_lists + 1) if steps else [n_lists]:
        verdict = least_norm.separate(order[:count], selection, count - 1, corral)
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
        for count in range(1, 13):
            verdict = least_norm.separate(order[:count], selection, count - 1, worn)
            assert verdict == least_norm.separate(order[:count], selection, count - 1, core.Corral(width))
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
