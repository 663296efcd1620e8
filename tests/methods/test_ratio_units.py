"""Units of the search over selections for a ratio metric begin with what was prepared once, and find what others do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from long_searches import counted, long_searches, same, with_workers

import lpmert
from lpmert import Status
from lpmert.errors import FloatArray
from lpmert.methods.choices import choices
from lpmert.methods.choices.choices import Choices, Common, SharedChoices, search_batch
from lpmert.model.problem import Problem
from lpmert.search.incumbent import any_incumbent
from lpmert.search.node_queue import Answer, OpenNode
from lpmert.workers import SERIAL, Processes, Threads


class Calls:
    """A function that counts how often it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.count = function, 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.count += 1
        return self.function(*arguments, **named)


def counting(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> Calls:
    calls = Calls(getattr(module, name))
    monkeypatch.setattr(module, name, calls)
    return calls


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_lists_are_prepared_once_for_all_units(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = counting(monkeypatch, choices, "ratio_lists")
    bounded = counting(monkeypatch, choices, "close_oracle_height")
    units = counting(monkeypatch, choices, "search_batch")
    for hands in (SERIAL, Threads(2)):
        prepared.count = bounded.count = units.count = 0
        with long_searches(), with_workers(hands):
            assert lpmert.minimize(counted(1, metric), metric=metric, method="choices").status is Status.OPTIMAL
        assert units.count > 20
        assert (prepared.count, bounded.count) == (1, 1)


def begun(metric: str, monkeypatch: pytest.MonkeyPatch) -> SharedChoices:
    """A search whose parts are about to be handed out; what it shares is in `_common`."""
    monkeypatch.setattr(choices, "_ALONE", 0)
    form = Problem(counted(1, metric), metric_of(metric)).canonical
    search = SharedChoices(Choices(), form, any_incumbent(form))
    with long_searches():
        search.advance()
    assert search.state()["parts"]
    return search


def metric_of(name: str) -> Any:
    return {"bleu": lpmert.metrics.Bleu, "chrf": lpmert.metrics.Chrf}[name]()


def searched_without_preparing(common: Common, part: OpenNode, weights: FloatArray, cost: int) -> Answer:
    """A unit that fails where it would prepare anything."""

    def refuse(*_: object) -> None:
        raise AssertionError("prepared again")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("ratio_lists", "oracle_height", "close_oracle_height"):
            patch.setattr(choices, name, refuse)
        return search_batch(common, [part], cost, weights, 200_000)


def test_units_elsewhere_prepare_nothing(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    search = begun("bleu", monkeypatch)
    part = OpenNode(**search.state()["parts"][0])
    own = part, search.incumbent.weights, search.incumbent.cost
    here = searched_without_preparing(search._common(), *own)
    there = processes.submit(searched_without_preparing, processes.share(search._common()), *own).wait()
    assert here.counts["nodes"] > 0
    assert (here.cost, here.counts, len(here.nodes)) == (there.cost, there.counts, len(there.nodes))
    assert here.weights.tobytes() == there.weights.tobytes()


def least_of_all_selections(nbest: lpmert.NBest, metric: str) -> float:
    """The least loss that any choice of hypotheses has, attainable or not."""
    lists = [nbest.statistics[begin:end] for begin, end in zip(nbest.offsets, nbest.offsets[1:], strict=False)]
    totals = (np.sum(rows, axis=0) for rows in product(*lists))
    return min(float(metric_of(metric).loss(total)) for total in totals)


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_search_that_goes_on_takes_the_bound_of_the_oracle_with_it(
    metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbest = counted(1, metric).restrict(slice(0, 3))
    form = Problem(nbest, metric_of(metric)).canonical
    weights = any_incumbent(form)
    with long_searches():
        search = SharedChoices(Choices(), form, weights)
        state = search.state()
        looked = counting(monkeypatch, choices, "oracle_height")
        again = SharedChoices(Choices(), form, weights)
        again.restore(state)
        while not again.finished:
            again.advance()
    assert looked.count == 0
    oracle = least_of_all_selections(nbest, metric)
    assert 0.0 < form.loss_of(state["least"]) <= oracle <= form.loss_of(again.incumbent.cost)
    assert again.lower_bound == again.incumbent.cost


def test_the_answer_is_the_same_whether_the_bound_is_kept_or_found_anew(tmp_path: Path) -> None:
    nbest, path = counted(1, "bleu"), tmp_path / "kept.npz"

    def search(**more: Any) -> lpmert.Result:
        return lpmert.minimize(nbest, metric="bleu", method="choices", checkpoint=path, **more)

    with long_searches(), pytest.MonkeyPatch.context() as patch:
        first = search(node_limit=50)
        data = path.read_bytes()
        kept = search(resume=True)
        path.write_bytes(data)
        restore = SharedChoices.restore
        patch.setattr(SharedChoices, "restore", lambda self, state: restore(self, {**state, "least": None}))
        anew = search(resume=True)
    assert first.status is Status.NODE_LIMIT
    assert first.lower_bound is not None
    assert kept.status is anew.status is Status.OPTIMAL
    assert same(kept, anew)
    assert kept.lower_bound is not None
    assert kept.lower_bound >= first.lower_bound
