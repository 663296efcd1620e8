"""Every way to stop early leaves weights, their loss and a valid bound; and nothing depends on when one looks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from oracle import Lists
from searches import RATIOS

import lpmert
from lpmert import Progress, Result, Status
from lpmert.methods.cells.cells import Cells
from lpmert.methods.choices.choices import Choices
from lpmert.model.problem import Problem
from lpmert.search.report import bound_on_loss

LATE = 10.0
"""Seconds by which the real clock may be late, on a busy machine; `test_overruns.py` is strict with processor time."""


def gaussian(lists: int, hypotheses: int, features: int, seed: int = 0) -> Lists:
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, lists * hypotheses + 1, hypotheses)
    losses = rng.integers(0, 8, offsets[-1]).astype(float)
    return Lists(rng.normal(size=(offsets[-1], features)), offsets, losses)


HARD = gaussian(60, 30, 8)
MEDIUM = gaussian(14, 8, 4)


@pytest.fixture(scope="module")
def optimum() -> float:
    """Least loss of MEDIUM, on which two different searches agree."""
    first, second = (lpmert.minimize(MEDIUM.nbest, method=method) for method in ("choices", "cells"))
    assert first.status is second.status is Status.OPTIMAL
    assert first.loss == second.loss
    return first.loss


def assert_in_time(began: float, limit: float) -> None:
    """The limit is kept."""
    assert time.perf_counter() - began < limit + LATE


def assert_sound(result: Result, lists: Lists) -> None:
    """The loss is that of the weights, the bound is below it, and the trace only ever closes."""
    assert result.loss == Problem(lists.nbest).evaluate(result.weights).loss
    assert result.lower_bound is not None
    cheapest = sum(lists.losses[begin:end].min() for begin, end in lists.ranges())
    assert cheapest <= result.lower_bound <= result.loss
    assert result.trace
    for (t0, bound0, loss0), (t1, bound1, loss1) in pairwise(result.trace):
        assert t0 <= t1
        assert bound0 is not None
        assert bound1 is not None
        assert bound0 <= bound1 <= loss1 <= loss0
    if result.tied_lists:  # searches count ties within rounding at their worst
        assert result.trace[-1][2] >= result.loss * (1 - 1e-12)
    else:
        assert result.trace[-1][2] == pytest.approx(result.loss, rel=1e-12)
    assert str(result)
    assert result.to_json()


@pytest.mark.serial
@pytest.mark.parametrize("method", RATIOS)
def test_the_time_limit_is_kept(method: str) -> None:
    for limit in (0.0, 1.0):
        began = time.perf_counter()
        result = lpmert.minimize(HARD.nbest, method=method, time_limit=limit)
        assert_in_time(began, limit)
        assert result.status is Status.TIME_LIMIT
        assert not result.success
        assert_sound(result, HARD)


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("method", RATIOS)
@pytest.mark.parametrize("size", [(60, 30, 8), (200, 50, 12), (500, 100, 5), (40, 200, 20)])
def test_the_time_limit_is_kept_on_any_size(size: tuple[int, int, int], method: str) -> None:
    lists = gaussian(*size)
    began = time.perf_counter()
    result = lpmert.minimize(lists.nbest, method=method, time_limit=5.0)
    assert_in_time(began, 5.0)
    assert result.status is Status.TIME_LIMIT
    assert_sound(result, lists)


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("method", RATIOS)
def test_the_time_limit_is_kept_where_nothing_is_clear_of_rounding(method: str) -> None:
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 60 * 20 + 1, 20)
    features = rng.integers(-9, 10, (offsets[-1], 5)) + 2.0**49 * np.repeat(rng.integers(1, 8, (60, 5)), 20, axis=0)
    lists = Lists(features, offsets, rng.integers(0, 8, offsets[-1]).astype(float))
    began = time.perf_counter()
    result = lpmert.minimize(lists.nbest, method=method, time_limit=5.0)
    assert_in_time(began, 5.0)
    assert_sound(result, lists)


@pytest.mark.parametrize("method", RATIOS)
def test_bounds_of_runs_cut_short_are_below_the_optimum(method: str, optimum: float) -> None:
    bounds = []
    for limit in (1, 3, 10, 30, 100, 300):
        result = lpmert.minimize(MEDIUM.nbest, method=method, node_limit=limit)
        assert result.status in (Status.NODE_LIMIT, Status.OPTIMAL)
        assert_sound(result, MEDIUM)
        assert result.lower_bound is not None
        assert result.lower_bound <= optimum <= result.loss
        bounds.append(result.lower_bound)
    assert bounds == sorted(bounds)


def test_a_bound_on_real_losses_is_rounded_down() -> None:
    nbest = lpmert.NBest([[1.0], [0.0], [0.0], [1.0]], [0, 2, 4], [-1234567.1, 0.3, 7.7, 1e-3])
    problem = Problem(nbest)
    form = problem.canonical
    off = set()
    for cost in range(0, form.dearest, form.dearest // 100):
        exact = (form.constant + cost) * Fraction(form.unit)
        bound = Fraction(bound_on_loss(problem.canonical, cost))
        off.add(bound == exact)
        assert 0 <= exact - bound <= Fraction(np.spacing(2e6))
    assert off == {True, False}


@pytest.mark.parametrize("method", RATIOS)
def test_a_gap_ends_the_search(method: str, optimum: float) -> None:
    result = lpmert.minimize(MEDIUM.nbest, method=method, gap=0.5)
    assert result.status in (Status.GAP, Status.OPTIMAL)
    assert result.success
    assert result.gap_rel is not None
    assert result.gap_rel <= 0.5
    assert result.lower_bound is not None
    assert result.lower_bound <= optimum <= result.loss
    assert_sound(result, MEDIUM)
    assert lpmert.minimize(MEDIUM.nbest, method=method, gap=0.0).status is Status.OPTIMAL


@pytest.mark.parametrize("method", RATIOS)
def test_a_target_ends_the_search(method: str, optimum: float) -> None:
    result = lpmert.minimize(HARD.nbest, method=method, target=float(HARD.losses.sum()))
    assert result.status is Status.TARGET
    assert result.success
    assert_sound(result, HARD)
    unreachable = lpmert.minimize(MEDIUM.nbest, method=method, target=optimum - 1)
    assert (unreachable.status, unreachable.loss) == (Status.OPTIMAL, optimum)


@pytest.mark.parametrize("method", RATIOS)
def test_little_memory_ends_the_search(method: str) -> None:
    result = lpmert.minimize(HARD.nbest, method=method, memory_limit=1000)
    assert result.status is Status.MEMORY_LIMIT
    assert_sound(result, HARD)


@pytest.mark.parametrize("method", RATIOS)
def test_a_true_answer_of_the_callback_stops_the_search(method: str) -> None:
    seen: list[Progress] = []

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 4

    result = lpmert.minimize(HARD.nbest, method=method, callback=stop)
    assert result.status is Status.CALLBACK
    assert len(seen) == 4
    assert_sound(result, HARD)
    problem = Problem(HARD.nbest)
    for before, after in pairwise(seen):
        assert before.seconds <= after.seconds
        assert before.nodes <= after.nodes
        assert before.loss >= after.loss
        assert before.lower_bound is not None
        assert after.lower_bound is not None
        assert before.lower_bound <= after.lower_bound
    for progress in seen:
        assert problem.evaluate(progress.weights).loss == progress.loss


@pytest.mark.parametrize("method", RATIOS)
def test_an_interrupt_leaves_a_valid_result(method: str) -> None:
    calls = 0

    def interrupt(_: Progress) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    result = lpmert.minimize(HARD.nbest, method=method, callback=interrupt)
    assert result.status is Status.INTERRUPTED
    assert not result.success
    assert_sound(result, HARD)


@pytest.mark.parametrize("method", RATIOS)
def test_an_error_in_the_callback_is_not_swallowed(method: str) -> None:
    def fail(_: Progress) -> None:
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="of the caller"):
        lpmert.minimize(HARD.nbest, method=method, callback=fail)


@pytest.mark.parametrize("method", RATIOS)
def test_watching_does_not_change_the_answer(method: str) -> None:
    alone = lpmert.minimize(MEDIUM.nbest, method=method)
    watched = lpmert.minimize(MEDIUM.nbest, method=method, callback=lambda _: time.sleep(0.003))
    assert watched.weights.tolist() == alone.weights.tolist()
    assert dict(watched.counters) == dict(alone.counters)


@pytest.mark.parametrize(
    ("length", "method"),
    [
        ("choices.choices.SLICE", Choices()),
        ("cells.cells._SLICE", Cells()),
        ("cells.cells._SLICE", Cells(leaf_lists=1)),
    ],
    ids=str,
)
def test_the_length_of_slices_does_not_change_the_optimum(
    length: str, method: Choices | Cells, monkeypatch: pytest.MonkeyPatch, optimum: float
) -> None:
    for work in (1, 1000, 10**9):
        monkeypatch.setattr(f"lpmert.methods.{length}", work)
        result = lpmert.minimize(MEDIUM.nbest, method=method)
        assert (result.loss, result.status) == (optimum, Status.OPTIMAL)
        assert_sound(result, MEDIUM)


@pytest.mark.parametrize("method", RATIOS)
def test_no_start_is_worse_than_the_one_given(method: str) -> None:
    best = lpmert.minimize(HARD.nbest, method=method, time_limit=1.0)
    again = lpmert.minimize(HARD.nbest, method=method, initial_weights=best.weights, time_limit=0.0)
    assert again.loss <= best.loss


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_limit": -1},
        {"time_limit": float("nan")},
        {"time_limit": "5"},
        {"gap": -0.1},
        {"target": float("nan")},
        {"node_limit": 1.5},
        {"node_limit": -1},
        {"memory_limit": 0},
        {"jobs": 0},
        {"seed": -1},
        {"seed": True},
        {"method": "simplex"},
        {"method": Cells},
        {"ties": "any"},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(lpmert.MethodError):
        lpmert.minimize(MEDIUM.nbest, **wrong)


_INTERRUPTED = """
import random, signal, sys
import lpmert
from lpmert.methods.cells.cells import Cells

lists = random_lists("opposite", 1006, most_lists=6, most_hypotheses=6, most_features=4, most_selections=200)
method = Cells(leaf_lists=0)
lpmert.minimize(lists.nbest, method=method, time_limit=0.5)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
random.seed(1)
for _ in range(60):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.05, 0.3))
    try:
        lpmert.minimize(lists.nbest, method=method, time_limit=1.0)
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.slow
def test_an_interrupt_at_any_moment_does_not_crash() -> None:
    """A signal that arrives while compiled code makes Python objects must not leave them half made."""
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])}
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
