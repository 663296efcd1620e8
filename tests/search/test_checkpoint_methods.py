"""Exact methods go on from checkpoints: fractions, sweeps, and searches of all kinds."""

import logging
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from long_searches import counted, lattices_of, long_searches, noise_of

import lpmert
from lpmert import Status
from lpmert.registry import METHODS


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


@pytest.mark.parametrize("method", ["sweep", "auto", "lp-mert", "exhaustive", "mip"])
def test_a_search_that_keeps_the_best_weights_alone_says_that_it_begins_anew(
    method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nbest, path = noise_of(1, 4, 2), tmp_path / "kept.npz"
    caplog.set_level(logging.WARNING, logger="lpmert")
    stopped = lpmert.minimize(nbest, method=method, checkpoint=path, time_limit=0)
    assert stopped.status is Status.TIME_LIMIT
    assert "begins anew" not in caplog.text
    whole = lpmert.minimize(nbest, method=method, checkpoint=path, resume=True)
    assert "the checkpoint holds only the best weights of this search: the proof begins anew" in caplog.text
    assert whole.loss == lpmert.minimize(nbest, method="exhaustive").loss <= stopped.loss
