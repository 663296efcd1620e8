"""The mixed-integer program finds what brute force finds, and claims no more than it may."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pulp
import pytest
from oracle import Lists, best_loss
from problems import gaussian_lists

import lpmert
from lpmert import Status
from lpmert.methods.mip import Mip

pytestmark = pytest.mark.usefixtures("poor_start")


def ring(n: int) -> Lists:
    """Lists {a, b}, {b, c}, ..., {z, a}, each of which would like its first, which goes round in a circle; and one
    more list with a feature of its own, so that some weights tie all of the circle."""
    units = np.eye(n + 1)
    features = np.concatenate([*(units[[k, (k + 1) % n]] for k in range(n)), [units[n], 0 * units[n]]])
    return Lists(features, np.arange(0, 2 * n + 3, 2), np.tile([0.0, 1.0], n + 1))


def test_agrees_with_the_search_over_selections_on_larger_problems() -> None:
    for seed in range(3):
        lists = gaussian_lists(seed, lists=10, hypotheses=5, features=3)
        found = lpmert.minimize(lists.nbest, method="mip")
        proved = lpmert.minimize(lists.nbest, method="choices")
        assert proved.status is Status.OPTIMAL
        assert found.loss == found.lower_bound == proved.loss
        assert found.counters["programs"] > 0


def test_the_optimum_is_never_called_proved_on_the_word_of_a_solver() -> None:
    result = lpmert.minimize(gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest, method="mip")
    assert result.loss > 0
    assert result.status is Status.OPTIMAL_TO_TOLERANCE


def test_selections_that_only_ties_reach_are_cut_off() -> None:
    """With equal weights all n lists are tied, which the program takes for the best choice everywhere."""
    for n in (3, 4, 5):
        result = lpmert.minimize(ring(n).nbest, method="mip")
        assert result.loss == 1.0
        assert result.lower_bound == 1.0
        assert result.tied_lists == 0
        assert result.counters["cores"] >= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_solvers_that_are_there_agree() -> None:
    lists = gaussian_lists(3, lists=6, hypotheses=4, features=3)
    least = float(best_loss(lists))
    there = {"HiGHS", "PULP_CBC_CMD"} & set(pulp.listSolvers(onlyAvailable=True))
    assert "HiGHS" in there
    for solver in there:
        result = lpmert.minimize(lists.nbest, method=Mip(solver=solver))
        assert result.loss == result.lower_bound == least
        assert solver in result.signature or solver == "HiGHS"


def test_an_unknown_solver_is_refused_with_the_names_of_those_that_are_there() -> None:
    with pytest.raises(lpmert.MethodError, match="highs"):
        lpmert.minimize(gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest, method=Mip(solver="cplox"))


@pytest.mark.serial
def test_the_time_limit_holds_and_leaves_loss_and_bound() -> None:
    lists = gaussian_lists(1, lists=30, hypotheses=10, features=6)
    started = time.perf_counter()
    result = lpmert.minimize(lists.nbest, method="mip", time_limit=2.0)
    assert time.perf_counter() - started < 12.0
    assert result.status is Status.TIME_LIMIT
    assert result.lower_bound is not None
    oracle = sum(lists.losses[begin:end].min() for begin, end in pairwise(lists.offsets))
    assert oracle <= result.lower_bound <= result.loss


def test_the_signature_names_settings_but_no_clock() -> None:
    lists = gaussian_lists(2, lists=6, hypotheses=4, features=3)
    signatures = {lpmert.minimize(lists.nbest, method="mip", time_limit=limit).signature for limit in (None, 50, 60)}
    assert len(signatures) == 1
    assert "method:mip|" in signatures.pop()
