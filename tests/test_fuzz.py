"""Random problems of every kind, solved in every way, against exact arithmetic: `fuzz.py` says what must hold."""

from collections import Counter

import pytest
from fuzz import CHECKS, methods
from problems import FEATURES, LOSSES, METRICS, THIN, WORTHS, problem

from lpmert import Status

pytestmark = pytest.mark.usefixtures("poor_start")

PROBLEMS = {
    "plain": 57, "regions": 57, "limits": 19, "relatives": 19, "cosines": 19,
    "graphs": 19, "options": 19, "forged": 19, "faces": 19, "n_best": 19, "workers": 2,
}  # fmt: skip
"""How many problems of each kind of features the slow tier checks in each way: every kind of loss and metric once,
plain ones and regions three times. More, with fresh seeds, are the work of `fuzz.py`."""


@pytest.mark.parametrize("check", CHECKS)
def test_a_sample_of_problems(check: str) -> None:
    proved = 0
    # half of the kinds, in turns; processes take a second to start
    kinds = [*FEATURES][[*CHECKS].index(check) % 2 :: 6 if check == "workers" else 2]
    for k, features in enumerate(kinds):
        outcomes = CHECKS[check](features, WORTHS[(7 * k) % len(WORTHS)], k)
        proved += sum(status is Status.OPTIMAL for _, status in outcomes)
    assert proved >= len(kinds) // 2


@pytest.mark.slow
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("check", CHECKS)
def test_problems_of_every_kind(check: str, features: str) -> None:
    """Kinds of losses and metrics take turns; most of what runs to its end is proved, on plain data all of it."""
    outcomes: Counter[Status] = Counter()
    for k in range(PROBLEMS[check]):
        outcomes.update(status for _, status in CHECKS[check](features, WORTHS[k % len(WORTHS)], 1000 + k))
    ended = outcomes[Status.OPTIMAL] + outcomes[Status.OPTIMAL_TO_TOLERANCE]
    assert ended > 0
    # a forged cost of weights cuts the proof short
    share = 0.5 if features in THIN or check == "forged" else 0.9
    assert outcomes[Status.OPTIMAL] >= ended * share
    assert check == "limits" or outcomes[Status.TIME_LIMIT] <= 0.2 * outcomes.total()


def test_forged_costs_without_room_beside_limits_are_refused() -> None:
    """`MethodError`, which blames the losses, came of a checkpoint with costs that no search had written."""
    outcomes = CHECKS["forged"]("thin cones", "chrf", 7123000371)
    assert ("groups", Status.HEURISTIC) in outcomes


def test_every_kind_of_loss_metric_and_method_is_among_the_problems() -> None:
    assert (len(FEATURES), len(LOSSES), len(METRICS)) == (26, 11, 8)
    assert PROBLEMS["plain"] > len(WORTHS)
    taken = {method for worth in WORTHS for seed in range(20) for method in methods(problem("floats", worth, seed))}
    assert taken == {"choices", "cells", "lp-mert", "exhaustive", "auto", "groups", "sweep"}
