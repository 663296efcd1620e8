"""Lists in two halves: one to train on, and one held out, which shows how weights do on other lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Dataset, Judgement, Unprepared
from lpmert.metrics.base import Metric
from lpmert.metrics.contract import metric_by_name
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Halves:
    """Lists to train on and lists held out."""

    train: NBest
    test: NBest


@dataclass(frozen=True)
class HeldOut(Unprepared):
    """The loss of the training half, and beside it that of the held-out half."""

    metric: str | Metric = "loss"

    @property
    def name(self) -> str:
        """The metric."""
        return metric_by_name(self.metric).name

    def problem(self, data: Halves) -> Problem:
        """Return the problem of the training half."""
        return Problem(data.train, self.metric)

    def judge(self, data: Halves, answer: Answer) -> Judgement:
        """Decode both halves."""
        if answer.weights is None:
            return Judgement()
        own, other = (Problem(half, self.metric).evaluate(answer.weights) for half in (data.train, data.test))
        return Judgement(own.loss, own.score, {"held_out_loss": other.loss, "held_out_score": other.score})


def halves(name: str, load: Callable[[], NBest], skip: Callable[[], str | None], n_train: int | None = None) -> Dataset:
    """Return lists in halves: every other list to train on, or the first `n_train` of these, and the rest held out."""
    part = "" if n_train is None else f", {n_train} to train"
    return Dataset(f"{name}, halves{part}", partial(_split, load, n_train), skip)


@cache
def _split(load: Callable[[], NBest], n_train: int | None) -> Halves:
    nbest = load()
    order: Any = np.arange(nbest.n_lists)
    return Halves(nbest.restrict(order[::2][:n_train]), nbest.restrict(order[1::2]))
