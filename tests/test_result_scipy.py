"""A result under the names of SciPy's optimisers says what the result says."""

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

import lpmert

LISTS = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])


@pytest.mark.parametrize(("method", "proved"), [("auto", True), ("och", False)])
def test_names_of_scipy(method: str, proved: bool) -> None:
    result = lpmert.minimize(LISTS, method=method)
    found = result.to_scipy()
    assert isinstance(found, OptimizeResult)
    assert found.fun == lpmert.evaluate(LISTS, found.x).loss
    assert np.array_equal(found.x, result.weights)
    assert found.success == result.success
    assert found.message == result.message
    assert (found.mip_dual_bound, found.mip_gap) == ((0.0, 0.0) if proved else (None, None))
    found.x[:] = 0.0
    assert result.weights.any(), "a copy"
