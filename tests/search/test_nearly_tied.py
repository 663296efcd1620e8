"""Problems that hang on relative differences of 1e-12 to 1e-16: "proved" is said only where fractions agree."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from fuzz import check_result
from long_searches import in_pieces, long_searches
from oracle import Lists, best_loss, exact_decode, loss_of
from problems import Case, case_of
from searches import short_descent

import lpmert
from lpmert import MethodError, Result, Status, verify
from lpmert.certificates.write.certify import write_certificate
from lpmert.errors import FloatArray
from lpmert.methods import Method
from lpmert.methods.choices import Choices
from lpmert.methods.groups import Groups
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent

pytestmark = pytest.mark.usefixtures("poor_start")


def wedge(rng: np.random.Generator, width: int, size: float) -> Lists:
    """Two lists that are both right only between two nearly equal directions, and two lists of anything."""
    direction = rng.normal(size=width)
    other = -direction - size * np.abs(direction).max() * rng.normal(size=width)
    nothing = np.zeros(width)
    rest = rng.normal(size=(6, width))
    features = np.vstack([nothing, direction, nothing, other, rest])
    losses = np.concatenate([[1.0, 0.0, 1.0, 0.0], rng.integers(0, 4, 6)])
    return Lists(features, np.array([0, 2, 4, 7, 10]), losses)


def balance(rng: np.random.Generator, width: int, size: float) -> Lists:
    """As many directions, and one, as keep each other in balance but for a little: all right together or not."""
    directions = rng.normal(size=(width, width))
    last = -(rng.random(width) + 0.5) @ directions + size * rng.normal(size=width)
    features = np.zeros((2 * width + 2, width))
    features[1::2] = np.vstack([directions, last])
    return Lists(features, np.arange(0, 2 * width + 3, 2), np.tile([1.0, 0.0], width + 1))


def close(rng: np.random.Generator, width: int, size: float) -> Lists:
    """Lists of three hypotheses that differ in their last digits only."""
    centres: FloatArray = np.repeat(rng.normal(size=(4, width)), 3, axis=0)
    features = centres * (1 + size * rng.normal(size=centres.shape))
    losses = np.concatenate([rng.permutation(4)[:3] for _ in range(4)]).astype(float)
    return Lists(features, np.arange(0, 13, 3), losses)


FAMILIES: dict[str, Callable[..., Lists]] = {"wedge": wedge, "balance": balance, "close": close}
SIZES = (1e-12, 1e-13, 1e-14, 1e-15, 1e-16)
METHODS = ("choices", "cells", "lp-mert", "exhaustive", "mip")
CASES = [(family, size, width) for family in FAMILIES for size in SIZES for width in (2, 3)]


@cache
def problem(family: str, size: float, width: int) -> Case:
    """Nearly tied lists."""
    lists = FAMILIES[family](np.random.default_rng([width, round(-np.log10(size)), len(family)]), width, size)
    return case_of(f"{family}, {size}, {width}", lists, thin=True)


@cache
def solved(family: str, size: float, width: int, method: str) -> Result:
    with short_descent():
        return lpmert.minimize(problem(family, size, width).nbest, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_called_proved_is_the_least_loss(method: str) -> None:
    for case in CASES:
        result = solved(*case, method)
        check_result(problem(*case), result, problem(*case).least)
        assert result.status in (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE)


@pytest.mark.parametrize(("family", "size", "width"), CASES)
def test_certificates_state_the_least_loss_in_any_case(family: str, size: float, width: int, tmp_path: Path) -> None:
    one, result = problem(family, size, width), solved(family, size, width, "choices")
    try:
        write_certificate(tmp_path / "c.json", one.nbest, result)
    except MethodError as error:
        assert (result.status, "tie" in str(error)) == (Status.OPTIMAL_TO_TOLERANCE, True)  # noqa: PT017
        return
    found = verify(tmp_path / "c.json", one.nbest)
    assert (found.loss, found.bound) == (Fraction(result.loss), one.least)


def test_the_set_is_nearly_tied_and_proved_all_the_same() -> None:
    """Rounding hides which hypotheses are best in some of the cases; exact decoding tells them apart in all."""
    results = [solved(*case, method) for case in CASES for method in METHODS if method != "mip"]
    assert sum(result.tied_lists > 0 for result in results) > 10
    assert {result.status for result in results} == {Status.OPTIMAL}


def between_doubles() -> Lists:
    """Between u and u + d there are real weights and no double ones: u.w > 0 and (u + d).w < 0, d in the last bit."""
    u, v = np.array([1.0, 1.0]), np.array([-1.0, -1.0 + 2.0**-53])
    nothing = np.zeros(2)
    return Lists(np.array([nothing, u, nothing, v]), np.array([0, 2, 4]), np.array([1.0, 0.0, 1.0, 0.0]))


@pytest.mark.parametrize("method", ["auto", "sweep", "groups", *METHODS])
def test_to_tolerance_is_said_where_the_best_choices_need_weights_that_doubles_do_not_have(method: str) -> None:
    lists = between_doubles()
    assert best_loss(lists) == 0
    result = lpmert.minimize(lists.nbest, method=method)
    assert loss_of(lists, exact_decode(lists, result.weights)[0]) == Fraction(result.loss) == 1
    assert (result.lower_bound, result.status) == (0, Status.OPTIMAL_TO_TOLERANCE)


@pytest.mark.parametrize("method", [Choices(), Groups(size=1), Groups(size=2)], ids=lambda method: method.name)
def test_so_it_is_where_a_search_goes_on_in_units_and_in_pieces(method: Method, tmp_path: Path) -> None:
    lists, path = between_doubles(), tmp_path / "kept.npz"
    solve = partial(lpmert.minimize, lists.nbest, method=method)
    with long_searches(1):
        results = [solve(jobs=2), in_pieces(solve, path, 3)[0]]
    for result in results:
        assert (result.loss, result.lower_bound, result.status) == (1, 0, Status.OPTIMAL_TO_TOLERANCE)


def test_first_weights_count_where_doubles_cannot_tell_some_hypotheses_apart() -> None:
    """Sums of the same terms in another order differ in their last digit: no weights are clear of rounding then."""
    rng = np.random.default_rng(4)
    features = np.repeat(rng.normal(size=(40, 4, 3)), 2, axis=1)
    features[:, ::2] = np.nextafter(features[:, ::2], np.inf)
    losses = rng.integers(0, 9, (40, 8)).astype(float)
    lists = Lists(features.reshape(-1, 3), np.arange(0, 321, 8), losses.ravel())
    problem = Problem(lists.nbest)
    form = problem.canonical
    first = first_incumbent(problem, 0, None)
    winners, tied = exact_decode(lists, problem.to_caller(first.weights))
    assert (form.clear_cost(first.weights)[1], tied) == (False, 0)
    assert form.loss_of(first.cost) == float(loss_of(lists, winners)) < losses.mean(axis=1).sum()
