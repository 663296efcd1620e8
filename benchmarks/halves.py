"""Lists in two halves: one to train on, and one held out, which shows how weights do on other lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.harness import Answer, Dataset, Judgement, Objective
from lpmert.metrics.contract import metric_by_name
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Halves:
    """Lists to train on and lists held out."""

    train: NBest
    test: NBest


def held_out(metric: str = "loss") -> Objective:
    """Return the loss of the training half, with that of the held-out half beside it."""

    def judge(data: Halves, answer: Answer) -> Judgement:
        own, other = (Problem(half, metric).evaluate(answer.weights) for half in (data.train, data.test))
        return Judgement(own.loss, own.score, {"held_out_loss": other.loss, "held_out_score": other.score})

    return Objective(metric_by_name(metric).name, judge, lambda data: Problem(data.train, metric))


def divided(whole: Dataset, name: str, train: ArrayLike | slice, test: ArrayLike | slice) -> Dataset:
    """Return the lists of a dataset with these numbers to train on, and others held out."""
    return whole.then(name, lambda lists: Halves(lists.restrict(train), lists.restrict(test)))


def halves(whole: Dataset, n_train: int | None = None) -> Dataset:
    """Return lists in halves: every other list to train on, or the first `n_train` of these, and the rest held out."""
    part = "" if n_train is None else f", {n_train} to train"
    most = None if n_train is None else 2 * n_train
    return divided(whole, f"{whole.name}, halves{part}", np.s_[:most:2], np.s_[1::2])
