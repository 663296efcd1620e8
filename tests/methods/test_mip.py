"""The mixed-integer program finds what brute force finds, and claims no more than it may."""

from __future__ import annotations

import numpy as np
import pulp
import pytest
from oracle import Lists, best_loss
from problems import gaussian_lists
from test_known_optima import ring

import lpmert
from lpmert import Status
from lpmert.methods.mip import Mip, MipSearch
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

pytestmark = pytest.mark.usefixtures("poor_start")


def test_the_optimum_is_never_called_proved_on_the_word_of_a_solver() -> None:
    result = lpmert.minimize(gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest, method="mip")
    assert result.loss > 0
    assert result.status is Status.OPTIMAL_TO_TOLERANCE


def test_selections_that_only_ties_reach_are_cut_off() -> None:
    """With equal weights all n lists are tied, which the program takes for the best choice everywhere."""
    for n in (3, 4, 5):
        assert lpmert.minimize(ring(n).lists, method="mip").counters["cores"] >= 1


def test_a_margin_hides_selections_that_do_not_reach_it() -> None:
    """The cheapest hypothesis, between two others, leads by at most a hundredth of its distance from them."""
    features = np.array([[-1.0, 0.0], [0.0, 0.01], [1.0, 0.0]])
    problem = Problem(Lists(features, np.array([0, 3]), np.array([2.0, 0.0, 1.0])).nbest)
    scale = float(problem.coordinates.scales[1] / problem.coordinates.scales[0])
    for share, least in ((0.0, 0), (0.5, 0), (1.5, 1), (9.0, 1)):
        best_margin = 0.01 * scale / np.hypot(1.0, 0.01 * scale)
        weights = problem.to_canonical(np.array([1.0, 0.0]))
        search = MipSearch(Mip(margin=share * best_margin), problem.canonical, Incumbent(1, weights, ""))
        while not search.finished:
            search.advance()
        assert search.incumbent.cost == least
        assert search.lower_bound == (0 if share == 0.0 or least == 0 else None)


def test_a_margin_proves_no_bound() -> None:
    result = lpmert.minimize(gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest, method=Mip(margin=1e-5))
    assert result.status is Status.HEURISTIC
    assert result.lower_bound is None
    assert all(bound is None for _, bound, _ in result.trace)


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


def test_the_signature_names_settings_but_no_clock() -> None:
    lists = gaussian_lists(2, lists=6, hypotheses=4, features=3)
    signatures = {lpmert.minimize(lists.nbest, method="mip", time_limit=limit).signature for limit in (None, 50, 60)}
    assert len(signatures) == 1
    assert "method:mip|" in signatures.pop()
