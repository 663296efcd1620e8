"""Costs have room in 64 bits, or the problem is refused; features that are decimals mean these decimals."""

from dataclasses import replace
from fractions import Fraction
from itertools import chain, pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle import meaning
from problems import Case, problem
from searches import FRACTIONS, many_more
from shared import needs_shared, swahili

import lpmert
from lpmert import MethodError, MetricError, NBest, Status
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray
from lpmert.methods.cells import Cells
from lpmert.metrics.ratio import LinearFraction
from lpmert.model.canonical import Canonical
from lpmert.model.presolve import fixed_point, whole_fractions
from lpmert.model.problem import Problem
from lpmert.numeric.lists import sorted_lists
from lpmert.numeric.rational import decimals_of


@given(
    st.lists(st.floats(-1e15, 1e15), min_size=2, max_size=12),
    st.integers(0, 300),
    st.sampled_from([1.0, 2.0**-60, 2.0**100]),
)
@settings(max_examples=200, deadline=None)
def test_the_dearest_selection_outside_all_limits_has_room(numbers: list[float], n_limits: int, factor: float) -> None:
    losses = np.array(numbers) * factor
    offsets = np.array([0, *range(2, len(numbers), 2), len(numbers)])
    costs = fixed_point(losses, offsets, n_limits).costs
    features = np.zeros((len(numbers), 1))
    _, ends, all_costs = Canonical(features, offsets, costs, np.ones((n_limits, 1))).with_limits().lists
    lists = [all_costs[begin:end].tolist() for begin, end in pairwise(ends.tolist())]
    own = sum(max(one) for one in lists[: len(offsets) - 1])
    assert sum(max(one) for one in lists) <= 2**60 + len(numbers) * (2 * n_limits + 1)  # rounded losses
    assert all(one == [0, one[1]] and one[1] > own for one in lists[len(offsets) - 1 :])


def test_limits_that_leave_no_room_are_refused() -> None:
    lists = np.array([[0.0], [1.0]]), np.array([0, 2]), np.array([0, 2**58], dtype=np.int64)
    with pytest.raises(MethodError, match="4 limits leave no room in 64 bits"):
        Canonical(*lists, np.ones((4, 1))).with_limits()
    assert Canonical(*lists, np.ones((3, 1))).with_limits().costs.tolist() == [0, 2**58, *[0, 2**59] * 3]


def many_limits(seed: int, largest: int) -> Case:
    """Three lists in three dimensions within seventy half-spaces, with counts of this size."""
    case = problem("integers", "precision", (36, 70, 103, 264)[seed], kind="many")
    rng = np.random.default_rng(seed)
    predicted = rng.integers(int(0.8 * largest), largest, len(case.features))
    match = (predicted * rng.random(len(predicted))).astype(int)
    counts = np.column_stack([match, predicted, predicted])
    values = [tuple(map(Fraction, row)) for row in counts.tolist()]
    return replace(case, statistics=counts.astype(float), values=values)


@pytest.mark.parametrize("seeds", [range(1), many_more(range(1, 4))])
@pytest.mark.parametrize("method", FRACTIONS)
def test_fractions_of_large_counts_in_many_limits_are_exact_or_refused(method: str, seeds: range) -> None:
    """Whether they fit is said before the search, and does not hang on which losses it meets."""
    for seed in seeds:
        for largest in (10**3, 10**6, 10**7):
            case = many_limits(seed, largest)
            result = lpmert.minimize(case.nbest, metric=case.metric, method=method, region=case.region)
            assert result.status is Status.OPTIMAL
            assert result.loss == float(case.least) == float(case.attained(result.weights.tolist())[0])
            assert min(result.region.values()) > 0
        for largest in (15 * 10**7, 3 * 10**8):
            case = many_limits(seed, largest)
            with pytest.raises(MethodError, match=r"not exact in 64 bits; divide and round them, or set fewer limits"):
                lpmert.minimize(case.nbest, metric=case.metric, method=method, region=case.region)


def test_counts_with_a_common_divisor_need_no_more_room() -> None:
    small = many_limits(1, 10**3)
    large = NBest(small.features, np.array(small.offsets), small.statistics * 10**11, names=small.nbest.names)
    for method in FRACTIONS:
        result = lpmert.minimize(large, metric=small.metric, method=method, region=small.region)
        assert (result.status, result.loss) == (Status.OPTIMAL, float(small.least or 0))


def test_factors_that_take_counts_beyond_64_bits_are_refused_or_exact() -> None:
    rate = LinearFraction("rate", ("a", "b"), (10**6, 0), (0, 10**6))
    features = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    counts = np.array([[1, 4], [2, 3], [0, 5], [3, 7]]) * 2.0**45
    with pytest.raises(MetricError, match="so large that the numerator of the loss is not exact; divide them"):
        lpmert.minimize(NBest(features, [0, 2, 4], counts), metric=rate, method="choices")
    result = lpmert.minimize(NBest(features, [0, 2, 4], counts / 2.0**25), metric=rate, method="choices")
    assert (result.status, result.loss) == (Status.OPTIMAL, 1 / 9)


def test_forbidden_hypotheses_make_a_cost_infinite_however_many_they_are() -> None:
    for forbidden in range(12):
        n_lists = forbidden + 2
        rows = np.tile(np.array([[0.0], [1.0]]), (n_lists, 1))
        costs = np.tile(np.array([0, INFINITE_COST]), n_lists)
        costs[[1, 3]] = 5, 7
        lists = sorted_lists(rows, np.arange(0, 2 * n_lists + 1, 2), costs)
        selection = np.zeros(n_lists, dtype=np.int64)
        cost, clear = lists.native().decode_clearly(np.ones(1), selection)
        assert (cost, clear) == (12 if forbidden == 0 else INFINITE_COST, True)


def test_a_constant_part_beyond_64_bits_is_refused_even_if_nothing_else_is_large() -> None:
    counts, constant = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 2.0**50])
    with pytest.raises(MethodError, match=r"not exact in 64 bits; divide and round them$"):
        whole_fractions(counts, constant, (1, 0), (0, 10**6), np.array([0, 2]), 0)


@given(st.floats(0.0, 1.0), st.sampled_from([2.0**-56, 0.1, 3.0, 1e-300]), st.integers(-9, 9))
def test_losses_in_fixed_point_are_rounded_down_exactly(loss: float, unit: float, constant: int) -> None:
    form = Problem(NBest([[1.0], [2.0]], [0, 2], [0.0, 1.0])).canonical.bare()
    form = replace(form, unit=unit, constant=constant)
    for given_loss in (loss, Fraction(loss) / 3, int(loss)):
        assert form.cost_of_loss(given_loss) == floor(Fraction(given_loss) / Fraction(unit)) - constant


@pytest.mark.parametrize(
    "features",
    [
        *(np.random.default_rng(k).integers(-(10**k), 10**k, (500, 3)) / 10.0**k for k in (1, 2, 4, 7, 9)),
        np.array([[3.0, -2.0], [0.0, 7.0]]),
        np.array([[0.5, -2.25], [1e6, 7.0]]),  # doubles hold these decimals exactly
        np.random.default_rng(0).normal(size=(100, 2)),
        np.array([[0.1, 0.2], [0.1 + 0.2, 0.4]]),  # 0.30000000000000004 is no short decimal
        np.array([[1e-12, 1e4], [2e-12, 3.0]]),  # too many digits from the first to the last place
        np.array([[1e-30], [0.1]]),
        np.array([[0.1], [1e150]]),
        np.append(np.arange(50_000) / 10, np.nextafter(0.7, 1))[:, None],  # one number that is no decimal
    ],
)
def test_features_are_taken_as_what_they_mean_times_one_factor(features: FloatArray) -> None:
    found = decimals_of(features)
    pairs = zip(found.of(features).ravel().tolist(), chain(*meaning(features.tolist())), strict=True)
    (factor,) = {Fraction(a) / b for a, b in pairs if b}
    assert 0.7 < factor < 1.42
    assert float(1 / factor) == pytest.approx(found.unit, rel=1e-15)


@given(
    st.lists(st.tuples(st.integers(0, 2**49), st.integers(1, 2**49)), min_size=4, max_size=4),
    st.integers(1, 10**6),
    st.integers(0, 40),
)
@settings(max_examples=200, deadline=None)
def test_whole_fractions_are_those_of_statistics(counts: list[tuple[int, int]], factor: int, common_bits: int) -> None:
    """Also where counts times factors do not fit into 64 bits, as long as their differences within lists are small."""
    counts = [(a >> common_bits, (b >> common_bits) + 1) for a, b in counts]
    statistics, constant, offsets = np.array(counts, dtype=float), np.array([3.0, 5.0]), np.array([0, 2, 4])
    try:
        above, below, *more = whole_fractions(statistics, constant, (factor, 1), (1, factor), offsets, 0)
    except MethodError:
        spread = max(abs(a - b) for one in (counts[:2], counts[2:]) for a, b in zip(*one, strict=True))
        assert max(1, spread * factor) * sum(map(sum, counts)) * factor > 2**56
        return
    for chosen in ([0, 2], [0, 3], [1, 2], [1, 3]):
        a, b = 3 + sum(counts[k][0] for k in chosen), 5 + sum(counts[k][1] for k in chosen)
        found = [rest + sum(part[chosen].tolist()) for part, rest in zip((above, below), more, strict=True)]
        assert Fraction(*found) == Fraction(factor * a + b, a + factor * b)


@needs_shared
@pytest.mark.slow
def test_all_lists_of_a_translation_system_with_four_features_are_proved() -> None:
    """Fourteen lists share a hyperplane as printed, but no two of them as doubles."""
    nbest = swahili().select_features(swahili().names[:4])
    result = lpmert.minimize(nbest, method=Cells(), node_limit=100_000)
    assert (result.status, result.loss) == (Status.OPTIMAL, lpmert.evaluate(nbest, result).loss)
