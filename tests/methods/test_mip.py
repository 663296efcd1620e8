"""The mixed-integer program finds what brute force finds, and claims no more than it may."""

import pytest
from late import Late
from oracle import best_loss
from problems import gaussian_lists
from test_known_optima import ring

import lpmert
from lpmert import Status
from lpmert.methods.mip import Mip

pulp = Late("pulp")

pytestmark = pytest.mark.usefixtures("poor_start")


def test_the_optimum_is_never_called_proved_on_the_word_of_a_solver() -> None:
    result = lpmert.minimize(gaussian_lists(0, lists=8, hypotheses=4, features=3).nbest, method="mip")
    assert result.loss > 0
    assert result.status is Status.OPTIMAL_TO_TOLERANCE


def test_selections_that_only_ties_reach_are_cut_off() -> None:
    """With equal weights all n lists are tied, which the program takes for the best choice everywhere."""
    for n in (3, 4, 5):
        assert lpmert.minimize(ring(n).lists, method="mip").counters["cores"] >= 1


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
