"""Work given up in the middle leaves valid results."""

import time

import numpy as np
import pytest
from oracle import Lists
from searches import SUMS

import lpmert
from lpmert import Result, Status
from lpmert.methods.mip import Mip
from lpmert.model.problem import Problem
from lpmert.system.deadline import Deadline, OutOfTime, checkpoint, heeding, out_of_time, time_left, unheeded

PAUSE = 0.05


@pytest.mark.serial
def test_seconds_count_from_the_start() -> None:
    deadline = Deadline(PAUSE)
    before = time.perf_counter()
    seconds = deadline.seconds
    assert before - deadline.started <= seconds <= time.perf_counter() - deadline.started
    time.sleep(2 * PAUSE)
    assert deadline.expired
    assert Deadline(1.0, before).seconds >= 2 * PAUSE


def test_a_checkpoint_raises_only_where_somebody_heeds_it() -> None:
    checkpoint()
    assert not out_of_time()
    assert time_left() is None
    with Deadline(0.0).running():
        assert out_of_time()
        assert time_left() is None  # exact arithmetic would take over from a linear program cut short, without an end
        checkpoint()
        with heeding():
            assert time_left() == 0.0
            with pytest.raises(OutOfTime):
                checkpoint()
            with unheeded():  # as in the caller's own code
                checkpoint()
                assert not out_of_time()
    with Deadline(None, stop=lambda: True).running(), heeding(), pytest.raises(OutOfTime):
        checkpoint()
    with Deadline(100.0).running() as deadline, heeding():
        checkpoint()
        assert not out_of_time()
        assert 0.0 < deadline.later(50.0).left - 50.0 <= 100.0
    assert not out_of_time()


rng = np.random.default_rng(3)
SMALL = Lists(
    np.vstack([rng.integers(-3, 4, (18, 3)), 1e-9 * rng.integers(-3, 4, (6, 3)) + 1.0]).astype(float),
    np.arange(0, 25, 4),
    rng.integers(0, 9, 24).astype(float),
)


def questions(method: object, monkeypatch: pytest.MonkeyPatch, most: int | None) -> tuple[Result, int]:
    """Return the result of a run whose clock answers that the time is up after so many questions, and how many came."""
    asked = 0

    def expired(self: Deadline) -> bool:
        nonlocal asked
        if self.limit is None:
            return False
        asked += 1
        return most is not None and asked > most

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "expired", property(expired))
        return lpmert.minimize(SMALL.nbest, method=method, time_limit=1e6), asked


@pytest.mark.parametrize("method", [*SUMS, "beam", "och"])
def test_work_given_up_anywhere_leaves_valid_weights_and_bounds(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = lpmert.minimize(SMALL.nbest, method="exhaustive")
    assert optimum.status.proved
    whole, asked = questions(method, monkeypatch, None)
    assert asked > 2
    problem = Problem(SMALL.nbest)
    stopped = 0
    for most in sorted({*range(12), *np.linspace(12, asked, 25).astype(int).tolist()}):
        result, _ = questions(method, monkeypatch, most)
        assert result.loss == problem.evaluate(result.weights).loss >= optimum.loss
        stopped += result.status is Status.TIME_LIMIT
        if method in SUMS:
            assert result.lower_bound <= optimum.loss
            assert result.status is Status.TIME_LIMIT or result.loss == optimum.loss
        for (_, bound0, loss0), (_, bound1, loss1) in zip(result.trace, result.trace[1:], strict=False):
            assert (bound0 or 0) <= (bound1 or 0) <= loss1 <= loss0
    assert stopped > 2
    again, _ = questions(method, monkeypatch, 10**9)
    assert again.weights.tolist() == whole.weights.tolist()
    assert dict(again.counters) == dict(whole.counters)


def test_a_solver_of_others_gets_the_time_that_is_left() -> None:
    lists = np.random.default_rng(0)
    features = lists.normal(size=(600, 6))
    nbest = lpmert.NBest(features, np.arange(0, 601, 20), lists.integers(0, 9, 600).astype(float))
    lpmert.minimize(nbest.restrict(slice(0, 2)), method=Mip())  # loads the solver
    began = time.process_time()
    result = lpmert.minimize(nbest, method=Mip(), time_limit=1.0)
    assert result.status is Status.TIME_LIMIT
    assert time.process_time() - began < 5.0
