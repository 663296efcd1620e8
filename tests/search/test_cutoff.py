"""Searches below a cut-off: at, just above and just below the least loss, which exact arithmetic tells."""

from math import inf, nextafter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fuzz import ROUNDING
from problems import Given, problem

from lpmert import Limits, NBest, Status
from lpmert.api import problem_of
from lpmert.registry import METHODS
from lpmert.search.driver import Below, _bound_of, search_below

KINDS = ("integers", "ternary", "decimals", "dyadic", "duplicates")


def _below(given: Given, cutoff: float, method: str) -> Below:
    return search_below(problem_of(given.nbest, given.metric, "first", given.region), cutoff, METHODS.build(method))


@pytest.mark.parametrize("worth", ["small", "negative", "huge", "powers of two", "floats", "decimals", "wer", "bleu"])
@pytest.mark.parametrize("method", ["choices", "cells"])
def test_weights_come_back_exactly_where_some_cost_less(method: str, worth: str) -> None:
    for seed in range(10):
        _check(method, worth, seed)


def _check(method: str, worth: str, seed: int) -> None:
    given = problem(KINDS[seed % len(KINDS)], worth, seed, in_region=seed % 3 == 0)
    if given.least is None:
        return
    least = float(given.least)
    off = 0.0 if given.exact else ROUNDING * abs(least)
    for cutoff in (inf, least + 1.5, least + 1.0, nextafter(least + off, inf)):
        found = _below(given, cutoff, method)
        assert found.ended
        assert found.result is not None, f"{given.name}: none below {cutoff!r} of {least!r}"
        assert found.result.loss < cutoff
        assert abs(found.result.loss - least) <= off
        assert found.bound == found.result.lower_bound
        assert found.least_met == found.result.loss
    for cutoff in (least, nextafter(least, -inf), least - 0.5, least - 1.0):
        found = _below(given, cutoff, method)
        assert found.result is None or found.result.loss < cutoff <= least + off
        if found.result is None:
            assert found.ended
            assert found.bound <= least + off
            assert found.bound >= cutoff, f"{given.name}: {found.bound!r} below {cutoff!r} of {least!r}"
            assert least - off <= found.least_met < inf


def _many() -> NBest:
    """Losses are even: so are costs, in their unit."""
    rng = np.random.default_rng(8)
    return NBest(rng.normal(size=(240, 4)), list(range(0, 241, 6)), 2.0 * rng.integers(0, 5, 240))


def test_a_search_that_is_stopped_bounds_all_weights_and_says_that_it_was() -> None:
    lists = problem_of(_many(), "loss", "first", None)
    method = METHODS.build("choices")
    least = search_below(lists, inf, method).bound
    begun = search_below(lists, inf, method, Limits(node_limit=1))
    assert not begun.ended
    assert begun.bound < least <= begun.result.loss
    none = search_below(lists, least, method, Limits(node_limit=1))
    assert none.result is None
    assert not none.ended
    assert none.bound < least
    assert none.least_met >= least


def test_the_cutoff_prunes_from_the_start() -> None:
    lists = problem_of(_many(), "loss", "first", None)
    losses = _many().statistics[:, 0]
    oracle = float(np.minimum.reduceat(losses, _many().offsets[:-1]).sum())
    for cutoff in (oracle, oracle - 1.0, oracle - 7.0):
        found = search_below(lists, cutoff, METHODS.build("choices"), Limits(node_limit=1))
        assert found.ended
        assert found.result is None
        assert cutoff <= found.bound <= oracle


@pytest.mark.parametrize(
    ("status", "inexact", "unseen", "lower_bound", "expected"),
    [
        (Status.OPTIMAL, False, 0.0, 4, 4.5),
        (Status.OPTIMAL, False, 1e-13, 4, 4.5),
        (Status.OPTIMAL, False, 0.25, 4, 3.75),
        (Status.OPTIMAL, True, 0.0, 4, 4.0),
        (Status.OPTIMAL_TO_TOLERANCE, False, 0.0, 4, 4.0),
        (Status.NODE_LIMIT, False, 0.25, 3, 2.75),
        (Status.HEURISTIC, False, 0.0, None, -inf),
    ],
)
def test_the_cutoff_is_the_bound_only_where_the_search_is_exact(
    status: Status, inexact: bool, unseen: float, lower_bound: int | None, expected: float
) -> None:
    """No weights are below 4.5; costs are whole numbers, which losses may undercut by what is unseen."""
    canonical = SimpleNamespace(constant=0, unit=1.0)
    lists: Any = SimpleNamespace(canonical=canonical, inexact=inexact, unseen=lambda _: unseen)
    outcome: Any = SimpleNamespace(status=status, lower_bound=lower_bound)
    assert _bound_of(lists, 4.5, outcome) == expected
