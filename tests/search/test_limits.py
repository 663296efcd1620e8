"""Every way to stop early leaves weights, their loss and a valid bound; and nothing depends on when one looks.

`test_time_limits.py` holds limits of time to processor time; `test_methods.py` stops searches on every kind of problem.
"""

import signal
import subprocess
import sys
import time
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from commands import environment
from oracle import Lists
from problems import gaussian_lists
from searches import RATIOS
from shared import ROOT

import lpmert
from lpmert import Progress, Result, Status
from lpmert.model.problem import Problem
from lpmert.search.report import bound_on_loss
from lpmert.system.interrupts import Interrupts

HARD = gaussian_lists(0, lists=60, hypotheses=30, features=8)
MEDIUM = gaussian_lists(0, lists=14, hypotheses=8, features=4)


def assert_sound(result: Result, lists: Lists) -> None:
    """The loss is that of the weights, the bound is below it, and the trace only ever closes."""
    assert result.loss == Problem(lists.nbest).evaluate(result.weights).loss
    cheapest = sum(lists.losses[begin:end].min() for begin, end in lists.ranges())
    assert cheapest <= result.lower_bound <= result.loss
    assert result.trace
    for (t0, bound0, loss0), (t1, bound1, loss1) in pairwise(result.trace):
        assert t0 <= t1
        assert bound0 <= bound1 <= loss1 <= loss0
    if result.tied_lists:  # searches count ties within rounding at their worst
        assert result.trace[-1][2] >= result.loss * (1 - 1e-12)
    else:
        assert result.trace[-1][2] == pytest.approx(result.loss, rel=1e-12)
    assert str(result)
    assert result.to_json()


class Watcher:
    """A callback that keeps what it is shown, and answers or raises at the third call."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, list[Progress]()

    def __call__(self, progress: Progress) -> bool:
        self.seen.append(progress)
        if len(self.seen) < 3:
            return False
        if isinstance(self.answer, BaseException):
            raise self.answer
        return bool(self.answer)


WAYS: dict[str, tuple[dict[str, Any], Status, bool]] = {
    "no time": ({"time_limit": 0.0}, Status.TIME_LIMIT, False),
    "some time": ({"time_limit": 0.3}, Status.TIME_LIMIT, False),
    "little memory": ({"memory_limit": 1000}, Status.MEMORY_LIMIT, False),
    "a target": ({"target": float(HARD.losses.sum())}, Status.TARGET, True),
    "a true answer of the callback": ({"callback": True}, Status.CALLBACK, False),
    "Ctrl-C": ({"callback": KeyboardInterrupt()}, Status.INTERRUPTED, False),
}
"""Settings, how the search ends, and whether that is success."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", RATIOS)
def test_every_way_to_stop_says_so_and_leaves_what_holds(method: str, way: str) -> None:
    settings, status, success = WAYS[way]
    watcher = Watcher(settings.get("callback"))
    result = lpmert.minimize(HARD.nbest, method=method, **{**settings, "callback": watcher})
    assert (result.status, result.success) == (status, success)
    assert_sound(result, HARD)
    problem = Problem(HARD.nbest)
    for before, after in pairwise(watcher.seen):
        assert before.seconds <= after.seconds
        assert before.nodes <= after.nodes
        assert before.loss >= after.loss
        assert before.lower_bound <= after.lower_bound
    assert all(problem.evaluate(progress.weights).loss == progress.loss for progress in watcher.seen)
    assert len(watcher.seen) == 3 or "callback" not in settings


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
def test_an_error_in_the_callback_is_not_swallowed(method: str) -> None:
    with pytest.raises(RuntimeError, match="of the caller"):
        lpmert.minimize(HARD.nbest, method=method, callback=Watcher(RuntimeError("of the caller")))


@pytest.mark.parametrize("method", RATIOS)
def test_watching_does_not_change_the_answer(method: str) -> None:
    alone = lpmert.minimize(MEDIUM.nbest, method=method)
    watched = lpmert.minimize(MEDIUM.nbest, method=method, callback=lambda _: time.sleep(0.003))
    assert watched.weights.tolist() == alone.weights.tolist()
    assert dict(watched.counters) == dict(alone.counters)


@pytest.mark.parametrize("method", RATIOS)
def test_no_start_is_worse_than_the_one_given(method: str) -> None:
    best = lpmert.minimize(HARD.nbest, method=method, time_limit=1.0)
    again = lpmert.minimize(HARD.nbest, method=method, initial_weights=best.weights, time_limit=0.0)
    assert again.loss <= best.loss


_INTERRUPTED = """
import random, signal, sys
import lpmert
from lpmert.methods.cells.cells import Cells
from problems import random_lists

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
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment())
    assert done.returncode == 0, done.stderr


SCRIPT = """
import signal, sys
from lpmert.system.interrupts import Interrupts, abort
number = int(sys.argv[1])
signal.signal(number, abort)
with Interrupts() as interrupts:
    for _ in range(2):
        signal.raise_signal(number)
        print("pressed", interrupts.pressed, interrupts.number, flush=True)
print("goes on", flush=True)
"""


@pytest.mark.usefixtures("interruptible")
def test_the_first_ctrl_c_is_noted_and_the_second_raises() -> None:
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.pressed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_aborts_a_command(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(int(number))], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout == f"pressed True {int(number)}\n"
    assert (done.returncode, done.stderr.strip()) == (128 + number, "lpmert: interrupted")
