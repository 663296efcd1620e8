"""Exact methods go on from checkpoints: fractions, enumerations, programs, sweeps, and searches within regions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_searches import counted, in_pieces, long_searches, noise_of
from problems import random_lists

import lpmert
from lpmert import NBest, Status
from lpmert.methods.exhaustive import ExhaustiveSearch, attainable_selections
from lpmert.methods.mip import Mip, MipSearch
from lpmert.model.problem import Problem
from lpmert.search.incumbent import any_incumbent

CALLS = {"cells": 4, "choices": 100, "auto": 4}


@pytest.mark.parametrize("method", CALLS)
def test_a_fraction_in_pieces_ends_with_its_optimum(method: str, tmp_path: Path) -> None:
    with long_searches():
        nbest = counted(2, "f1")
        whole = lpmert.minimize(nbest, metric="f1", method=method)
        result, pieces = in_pieces(nbest, tmp_path / "kept.npz", CALLS[method], metric="f1", method=method)
    assert pieces > 5
    assert whole.status is result.status is Status.OPTIMAL
    assert result.loss == whole.loss == result.lower_bound
    assert result.counters["additive_searches"] == whole.counters["additive_searches"] > 1
    # some of what was open is divided otherwise, but none of it is searched again from the beginning
    assert result.counters["nodes"] < 2 * whole.counters["nodes"]


def test_a_fraction_goes_on_with_its_bound_and_counters(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    own: dict[str, Any] = {"metric": "f1", "method": "cells", "checkpoint": path}
    with long_searches():
        nbest = counted(3, "f1", 4)
        first = lpmert.minimize(nbest, node_limit=200, **own)
        second = lpmert.minimize(nbest, node_limit=201, resume=True, **own)
        again = lpmert.minimize(nbest, resume=True, **own)
        ended = lpmert.minimize(nbest, resume=True, time_limit=0, **own)
    assert first.status is Status.NODE_LIMIT
    assert first.lower_bound is not None
    assert second.lower_bound is not None
    assert 0 < first.lower_bound <= second.lower_bound <= again.loss <= second.loss <= first.loss
    assert 0 < first.counters["nodes"] <= second.counters["nodes"] < again.counters["nodes"]
    assert again.status is ended.status is Status.OPTIMAL
    assert ended.counters["nodes"] == again.counters["nodes"]
    assert ended.loss == again.loss == lpmert.minimize(nbest, metric="f1").loss


@pytest.mark.parametrize("kind", ["floats", "integers"])
def test_an_enumeration_goes_on_behind_any_selection(kind: str) -> None:
    lists = random_lists(kind, 3, most_lists=3, most_features=2)
    form = Problem(lists.nbest).canonical
    for allowed in (None, form.costs <= np.median(form.costs)):
        if allowed is not None and not np.logical_or.reduceat(allowed, form.offsets[:-1]).all():
            continue
        every = [found.tolist() for found, _ in attainable_selections(form.features, form.offsets, allowed=allowed)]
        assert len(every) == len({*map(tuple, every)})
        for k, last in enumerate(every):
            rest = attainable_selections(form.features, form.offsets, allowed=allowed, after=np.array(last))
            assert [found.tolist() for found, _ in rest] == every[k + 1 :]
        assert len(every) > 1 or allowed is not None


def test_an_enumeration_in_pieces_meets_every_selection_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.methods.exhaustive._SELECTIONS_A_SLICE", 7)
    nbest = noise_of(1, 3, 3)
    whole = lpmert.minimize(nbest, method="exhaustive")
    result, pieces = in_pieces(nbest, tmp_path / "kept.npz", 3, method="exhaustive")
    assert pieces > 3
    assert result.loss == result.lower_bound == whole.loss
    form = Problem(nbest).canonical
    count = sum(1 for _ in attainable_selections(form.features, form.offsets))
    assert result.counters["nodes"] == whole.counters["nodes"] == count > 50


def test_a_finished_enumeration_does_nothing_more() -> None:
    form = Problem(noise_of(1, 2, 3)).canonical
    search = ExhaustiveSearch(form, any_incumbent(form))
    while not search.finished:
        search.advance()
    again = ExhaustiveSearch(form, search.incumbent)
    again.restore(search.state())
    assert again.finished
    assert again.lower_bound == search.incumbent.cost
    assert again.nodes == search.nodes


def test_a_program_goes_on_with_its_cuts_and_bound() -> None:
    """a, b and -a - b cannot all be above 0, but 0 where the third weight is all: the program has to cut that off."""
    cheapest = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
    features = np.stack([cheapest, np.zeros((4, 3))], axis=1).reshape(8, 3)
    nbest = NBest(features, np.arange(0, 9, 2), np.tile([0.0, 1.0], 4))
    form = Problem(nbest).canonical
    search = MipSearch(Mip(), form, any_incumbent(form))
    search.incumbent.cost = form.dearest
    search.advance()
    assert search.counters()["cores"] == 1
    again = MipSearch(Mip(), form, any_incumbent(form))
    again.incumbent.cost = form.dearest
    again.restore(search.state())
    assert again.lower_bound == search.lower_bound
    while not again.finished:
        again.advance()
    assert again.counters()["cores"] == 1
    assert form.loss_of(again.incumbent.cost) == lpmert.minimize(nbest, method="exhaustive").loss == 1.0


def test_a_sweep_that_ended_stays_ended_and_one_that_did_not_says_that_it_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nbest, path = noise_of(1, 4, 2), tmp_path / "kept.npz"
    caplog.set_level(logging.WARNING, logger="lpmert")
    for method in ("sweep", "auto"):
        stopped = lpmert.minimize(nbest, method=method, checkpoint=path, time_limit=0)
        assert stopped.status is Status.TIME_LIMIT
        assert "begins anew" not in caplog.text
        whole = lpmert.minimize(nbest, method=method, checkpoint=path, resume=True)
        assert "no more was kept of this search than its best weights: the proof begins anew" in caplog.text
        caplog.clear()
        ended = lpmert.minimize(nbest, method=method, checkpoint=path, resume=True, time_limit=0)
        assert whole.status is ended.status is Status.OPTIMAL
        assert ended.loss == whole.loss == lpmert.minimize(nbest, method="exhaustive").loss
        assert not caplog.text
        path.unlink()
