"""Numbers that are multiples of a power of two, and their products."""

from fractions import Fraction

import numpy as np

from lpmert.errors import FloatArray
from lpmert.numeric.rounding import binary_places, exact_products, single_products


def products_are_exact(ray: FloatArray, features: FloatArray) -> bool:
    """Whether products come out exactly, added up from either end."""
    for row in features.tolist():
        terms = [(x, y) for x, y in zip(row, ray.tolist(), strict=True)]
        exact = sum((Fraction(x) * Fraction(y) for x, y in terms), Fraction(0))
        for order in (terms, terms[::-1]):
            total = 0.0
            for x, y in order:
                total += x * y
            if Fraction(total) != exact:
                return False
    return True


def test_places_are_those_of_multiples_of_a_power_of_two() -> None:
    assert binary_places(np.array([0.0, -3.0, 2.0**60])) == 0
    assert binary_places(np.array([1.0, 2.0**-10])) == 10
    assert binary_places(np.array([1.0, 2.0**-11])) == 20
    assert binary_places(np.array([2.0**-3]), range(9)) == 3
    assert binary_places(np.array([0.1])) is None
    assert binary_places(np.array([np.inf])) is None
    assert binary_places(np.array([1e308, 2.0**-20])) is None  # overflows when multiplied


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


def test_the_last_bit_that_doubles_hold_decides() -> None:
    ray = np.array([1.0, 1.0])
    for bits, exact in ((21, True), (23, False)):  # sums of 52 and of 54 bits
        features = np.array([[2.0**bits, 1.0 - 2.0**-30]])
        assert products_are_exact(ray, features) is exact
        assert exact_products(ray[None, :], features, float(features.sum()))[0] == exact
    held = np.array([[2.0**21, 1.0 - 2.0**-30]])
    assert exact_products(ray[None, :], held, 2.0**22 - 1.0)[0]
    assert not exact_products(ray[None, :], held, 2.0**22)[0]
    assert not exact_products(np.array([[0.1, 1.0]]), held, 1.0)[0]


def test_one_entry_that_is_a_power_of_two_rounds_nothing() -> None:
    features = np.array([[0.1, 0.7], [1e300, 5e-324]])
    rays = np.array([[0.0, -1.0], [2.0, 0.0], [0.0, 3.0], [0.0, 0.5], [1.0, 1.0], [0.0, 0.0]])
    assert single_products(rays).tolist() == [True, True, False, False, False, False]  # half of 5e-324 is no number
    assert [products_are_exact(ray, features) for ray in rays[:4]] == [True, True, False, False]


def test_products_that_underflow_are_not_called_exact() -> None:
    rays, features = np.array([[2.0**-1070, 2.0**-1070]]), np.array([[2.0**-10, 1.0]])
    assert Fraction(float(features[0] @ rays[0])) != sum(
        Fraction(x) * Fraction(w) for x, w in zip(features[0].tolist(), rays[0].tolist(), strict=True)
    )
    assert not exact_products(rays, features, 2.0).any()
