"""Proved optima of real data, the shipped example, and problems brought over by the converters."""

import lzma
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import decoded
from searches import many_more
from shared import SHARED_DATA, librispeech, needs_shared, swahili, train_choices

import lpmert
from benchmarks import datasets
from lpmert import NBest, Result, Status
from lpmert.model.problem import Problem


def numpy_loss(nbest: NBest, weights: NDArray[np.float64]) -> float:
    """The loss of decoding in plain floating point, first hypothesis on ties."""
    return float(nbest.statistics[decoded(nbest.dense_features(), nbest.offsets, weights), 0].sum())


def assert_proved(result: Result, nbest: NBest, loss: float, tolerance: float = 0.0) -> None:
    assert result.status is Status.OPTIMAL
    assert result.loss == pytest.approx(loss, rel=0, abs=tolerance)
    assert result.lower_bound == result.loss
    assert numpy_loss(nbest, result.weights) == pytest.approx(result.loss, rel=1e-12)


@needs_shared
@pytest.mark.parametrize(
    ("load", "loss", "nodes"),
    [
        (librispeech, 1767, 4_000),
        (lambda: librispeech(4), 1758, 4_000),
        many_more(lambda: librispeech(5), 1746, 35_000),
        many_more(lambda: datasets.libri_characters().load(), 1739, 400_000),
        many_more(lambda: datasets.generated(100, 30, 6).load(), 201, 20_000),
    ],
    ids=["speech, 3", "speech, 4", "speech, 5", "speech, 6", "generated, 6"],
)
def test_proofs_take_no_more_nodes_than_they_need(load: Callable[[], NBest], loss: float, nodes: int) -> None:
    """The optima are those of programs in C++ that share no code with this one, and take about as many nodes."""
    assert_proved(lpmert.minimize(load(), node_limit=nodes, time_limit=1500), load(), loss)


@needs_shared
def test_common_speech_weights_are_checked() -> None:
    nbest, weights = librispeech(), np.array([0.6, 0.4, 0.6])
    found = lpmert.check(nbest, weights)
    assert found.loss == numpy_loss(nbest, weights)
    assert found.optimum.loss == 1767
    assert found.excess == found.loss - 1767 > 0
    assert not found.wins_by_ties


@needs_shared
@pytest.mark.parametrize("method", ["auto", many_more("choices")])
@pytest.mark.parametrize(("first", "loss"), [(0, 4.948169), (8, 4.641196), (16, 5.091451), (24, 5.890797)])
def test_swahili_with_fourteen_features(first: int, loss: float, method: str) -> None:
    nbest = swahili().restrict(slice(first, first + 8))
    assert_proved(lpmert.minimize(nbest, method=method), nbest, loss, tolerance=1e-6)


@needs_shared
@pytest.mark.parametrize("method", ["auto", many_more("choices"), many_more("cells")])
@pytest.mark.parametrize(("count", "loss"), [(100, 25), (200, 45), (400, 115), (2929, 858)])
def test_choices_of_train_trips(count: int, loss: int, method: str) -> None:
    nbest = train_choices().restrict(slice(count))
    assert_proved(lpmert.minimize(nbest, method=method), nbest, loss)


@needs_shared
def test_merged_train_choices_cost_what_they_cost_before() -> None:
    nbest = train_choices()
    problem = Problem(nbest)
    form = problem.canonical
    assert form.n_lists < 1500
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = rng.normal(size=form.n_features)
        cost = int(form.costs[decoded(form.features, form.offsets, w)].sum())
        assert form.loss_of(cost) == numpy_loss(nbest, problem.to_caller(w))


@needs_shared
@pytest.mark.serial
@pytest.mark.parametrize("method", ["auto", many_more("choices"), many_more("cells")])
def test_the_time_limit_is_kept_on_spelling_normalisation(method: str) -> None:
    path = SHARED_DATA / "csmt-normalisation" / "nbest-pool.tsv.xz"
    with lzma.open(path, "rt", encoding="utf-8") as file:
        names = file.readline().split("\t")[4:-1]
    assert len(names) == 8
    nbest = lpmert.read(path, segment="sent", features=names, loss="errors")
    began = time.perf_counter()
    result = lpmert.minimize(nbest, method=method, time_limit=2.0)
    assert time.perf_counter() - began < 12.0
    assert 148 <= result.lower_bound <= result.loss
    assert numpy_loss(nbest, result.weights) == result.loss
