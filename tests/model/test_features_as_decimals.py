"""Features that are decimals mean these decimals, and everything is as exact for them as for whole numbers."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from oracle import Lists, exact_decode
from problems import random_lists
from shared import needs_shared, swahili

import lpmert
from lpmert.errors import FloatArray
from lpmert.methods.cells.cells import Cells
from lpmert.model.problem import Problem
from lpmert.numeric.rounding import decimals_of
from lpmert.result import Status

EXACT_KINDS = ("integers", "lattice", "collinear", "multiples")


def exact(values: FloatArray) -> list[Fraction]:
    return [Fraction(value) for value in values.ravel().tolist()]


def printed(values: FloatArray) -> list[Fraction]:
    """The shortest decimals that read as these doubles."""
    return [Fraction(Decimal(repr(value))) for value in values.ravel().tolist()]


def tenths(kind: str, seed: int) -> tuple[Lists, Lists]:
    """Whole numbers, and the same divided by a power of ten."""
    whole = random_lists(kind, seed, most_selections=60)
    size = 10.0 ** (1 + seed % 4)
    return whole, Lists(whole.features / size, whole.offsets, whole.losses)


@pytest.mark.parametrize("decimals", [1, 2, 4, 7, 9])
def test_features_are_multiples_of_what_was_printed(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    whole = rng.integers(-(10 ** min(decimals + 3, 14)), 10 ** min(decimals + 3, 14), (3000, 3))
    features = np.array([[float(f"{value}e-{decimals}") for value in row] for row in whole.tolist()])
    found = decimals_of(features)
    scaled = found.of(features)
    factors = {a / b for a, b in zip(exact(scaled), printed(features), strict=True) if b}
    assert len(factors) == 1
    assert 0.7 < factors.pop() < 1.42
    np.testing.assert_allclose(scaled * found.unit, features, rtol=1e-15)


@pytest.mark.parametrize(
    "features",
    [
        np.array([[3.0, -2.0], [0.0, 7.0]]),
        np.array([[0.5, -2.25], [1e6, 7.0]]),  # doubles hold these decimals exactly
        np.random.default_rng(0).normal(size=(100, 2)),
        np.array([[0.1, 0.2], [0.1 + 0.2, 0.4]]),  # 0.30000000000000004 is no short decimal
        np.array([[1e-12, 1e4], [2e-12, 3.0]]),  # too many digits from the first to the last place
        np.array([[1e-30], [0.1]]),
        np.array([[0.1], [1e150]]),
    ],
)
def test_other_numbers_are_taken_as_they_are(features: FloatArray) -> None:
    found = decimals_of(features)
    assert found.of(features) is features
    assert found.unit == 1.0


def test_one_number_that_is_no_decimal_leaves_all_as_they_are() -> None:
    features = np.round(np.random.default_rng(0).normal(size=(50_000, 3)), 4)
    assert decimals_of(features).unit != 1.0
    features[40_000, 1] = np.nextafter(features[40_000, 1], np.inf)
    assert decimals_of(features).of(features) is features


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_ties_in_decimals_are_ties(kind: str) -> None:
    rng = np.random.default_rng(1)
    tied = 0
    for seed in range(20):
        whole, decimals = tenths(kind, seed)
        problem = Problem(decimals.nbest)
        for _ in range(10):
            weights = rng.integers(-2, 3, whole.features.shape[1]).astype(float)
            winners, _ = exact_decode(whole, weights)
            found = problem.evaluate(weights)
            assert found.selection.tolist() == winners
            tied += found.tied_lists > 0
    assert tied >= 20


def test_margins_are_in_the_units_of_the_features() -> None:
    nbest = lpmert.NBest([[0.3, 0.1], [0.2, 0.2], [0.1, 0.1]], [0, 3], [0.0, 1.0, 2.0])
    assert lpmert.evaluate(nbest, [1.0, 0.25]).margin == pytest.approx(0.075)


@needs_shared
@pytest.mark.slow
def test_all_lists_of_a_translation_system_with_four_features_are_proved() -> None:
    """Fourteen lists share a hyperplane as printed, but no two of them as doubles."""
    nbest = swahili()
    result = lpmert.minimize(nbest.select_features(nbest.names[:4]), method=Cells(), node_limit=100_000)
    assert result.status is Status.OPTIMAL
    assert result.loss == Problem(nbest.select_features(nbest.names[:4])).evaluate(result.weights).loss
