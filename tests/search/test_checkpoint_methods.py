"""Exact methods go on from checkpoints: fractions, enumerations, programs, sweeps, and searches within regions."""

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_searches import counted, in_pieces, lattices_of, long_searches, noise_of

import lpmert
from lpmert import NBest, Status
from lpmert.methods.exhaustive import attainable_selections
from lpmert.methods.mip import Mip, MipSearch
from lpmert.model.problem import Problem
from lpmert.numeric.lp import LinOptimizer
from lpmert.registry import METHODS
from lpmert.search.incumbent import any_incumbent


def searched(kind: str, path: Path, **more: Any) -> lpmert.Result:
    """Search lists by a method, with the options that follow it, for a metric, or lattices, with a checkpoint."""
    if kind == "lattices":
        return lpmert.minimize(lattices_of(2), metric="wer", checkpoint=path, **more)
    name, _, metric = kind.partition(" ")
    method = METHODS.build(name).configured({"size": metric} if metric.isdigit() else {})
    nbest = counted(3, "f1", 4) if metric == "f1" else noise_of(1, 9)
    return lpmert.minimize(nbest, metric="f1" if metric == "f1" else "loss", method=method, checkpoint=path, **more)


@pytest.mark.parametrize("kind", ["cells", "choices", "cells f1", "auto f1", "groups 2", "groups 5", "lattices"])
def test_a_search_goes_on_with_its_bound_and_counters(kind: str, tmp_path: Path) -> None:
    """None of what was open is searched again from the beginning."""
    with long_searches():
        whole = searched(kind, tmp_path / "whole.npz")
        share = max(1, whole.counters["nodes"] // 4)
        limits = [{"node_limit": share}, {"node_limit": share + 1}, {"node_limit": 2 * share}, {}, {"time_limit": 0}]
        results = [searched(kind, tmp_path / "kept.npz", resume=k > 0, **limit) for k, limit in enumerate(limits)]
    assert results[0].status is Status.NODE_LIMIT
    assert results[0].counters["nodes"] > 0
    assert [result.resumed for result in results] == [False, True, True, True, True]
    assert results[-2].status is results[-1].status is whole.status is Status.OPTIMAL
    for before, after in pairwise(results):
        assert before.lower_bound <= after.lower_bound <= whole.loss <= after.loss <= before.loss
        assert all(count <= after.counters[name] for name, count in before.counters.items())
    assert results[-1].counters["nodes"] == results[-2].counters["nodes"] < 2.5 * whole.counters["nodes"]
    assert results[-1].counters.get("additive_searches", 2) > 1
    assert results[-1].counters.get("groups") == whole.counters.get("groups")


def test_an_enumeration_in_pieces_meets_every_selection_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.methods.exhaustive._SELECTIONS_A_SLICE", 7)
    nbest = noise_of(1, 3, 3)
    whole = lpmert.minimize(nbest, method="exhaustive")
    result, pieces = in_pieces(nbest, tmp_path / "kept.npz", 3, method="exhaustive")
    assert pieces > 3
    assert result.loss == result.lower_bound == whole.loss
    form = Problem(nbest).canonical
    count = sum(1 for _ in attainable_selections(LinOptimizer(form.features, form.offsets)))
    assert result.counters["nodes"] == whole.counters["nodes"] == count > 50


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
        assert "the checkpoint holds only the best weights of this search: the proof begins anew" in caplog.text
        caplog.clear()
        ended = lpmert.minimize(nbest, method=method, checkpoint=path, resume=True, time_limit=0)
        assert whole.status is ended.status is Status.OPTIMAL
        assert ended.loss == whole.loss == lpmert.minimize(nbest, method="exhaustive").loss
        assert not caplog.text
        path.unlink()
