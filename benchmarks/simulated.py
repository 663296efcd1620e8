"""A simulated decoder: it returns the n best of a fixed set of hypotheses, at almost no cost and without search errors.

The set is the union of the lists of several runs of a real decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import lpmert
from benchmarks import datasets
from benchmarks.harness import Answer, Dataset, Unlimited
from benchmarks.lists import warm_up
from lpmert.methods.heuristic.och import Och, Stabilised
from lpmert.model.nbest import NBest
from lpmert.search.method import Method

RUNS = (3, 5, 7)
N_TRAIN = 150
SIZE = 20
"""Hypotheses of each sentence that the decoder returns."""

SMALL = ("Distortion0_0", "LM0_0", "WordPenalty0_0", "PhrasePenalty0_0", *(f"TranslationModel0_{k}" for k in range(4)))
"""The features of a translation system without its lexical reordering."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """All hypotheses of the sentences to tune on, and of two test sets."""

    train: NBest
    tests: tuple[NBest, NBest]

    @property
    def first_weights(self) -> dict[str, float]:
        """Weights of the first decoding: equal ones for features of equal spread within lists."""
        return dict(zip(self.train.names, (1.0 / datasets.spread_within(self.train)).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Simulated:
    """Returns the best hypotheses of each list, equal ones in order."""

    everything: NBest

    def decode(self, weights: Mapping[str, float], n: int) -> lpmert.Decoded:
        """Return the n best of each list."""
        everything = self.everything
        scores = everything.dense_features() @ np.array([weights[name] for name in everything.names])
        owner = everything.list_index
        order = np.lexsort((np.arange(len(scores)), -scores, owner))
        rows = order[np.arange(len(scores)) - everything.offsets[owner] < n]
        sizes = np.minimum(np.diff(everything.offsets), n)
        return lpmert.Decoded(
            NBest(
                everything.dense_features()[rows],
                np.concatenate([[0], np.cumsum(sizes)]),
                everything.statistics[rows],
                everything.names,
                everything.list_ids,
                everything.statistic_names,
            )
        )


def whole_tuning(
    data: Sentences,
    method: Method,
    iterations: int,
    seed: int,
    time_limit: float,
    *,
    metric: str = "bleu",
    search_seconds: float | None = None,
) -> lpmert.Looped:
    """Tune with the simulated decoder until no list grows, or for this many iterations."""
    return lpmert.loop(
        Simulated(data.train),
        data.first_weights,
        metric=metric,
        n=SIZE,
        method=method,
        iterations=iterations,
        patience=iterations,
        search_seconds=search_seconds,
        time_limit=time_limit,
        seed=seed,
    )


@dataclass(frozen=True)
class Loop(Unlimited):
    """A whole tuning with one method, as a solver; summary: returns the counters and the details of its row."""

    name: str
    method: Method
    iterations: int
    summary: Callable[[lpmert.Looped], tuple[Mapping[str, int], Mapping[str, Any]]]
    metric: str = "bleu"
    search_seconds: float | None = None

    def warm_up(self) -> None:
        """Load what the method needs, and line searches."""
        warm_up(Och() if isinstance(self.method, Stabilised) else self.method)

    def solve(self, data: Sentences, _objective: object, seed: int, time_limit: float) -> Answer:
        """Tune until the loop ends."""
        more: dict[str, Any] = {"metric": self.metric, "search_seconds": self.search_seconds}
        found = whole_tuning(data, self.method, self.iterations, seed, time_limit, **more)
        return Answer(found.weights, "finished" if found.finished else "heuristic", None, *self.summary(found))


@cache
def _all_runs() -> NBest:
    first, *others = (datasets.swahili_counts(run) for run in RUNS)
    for run in others:
        first = first.merge(run)
    return first.deduplicate()


@cache
def _sentences(names: tuple[str, ...]) -> Sentences:
    whole = _all_runs()
    chosen = whole.select_features(names).deduplicate() if names else whole
    order = np.arange(N_TRAIN, whole.n_lists)
    return Sentences(chosen.restrict(slice(0, N_TRAIN)), (chosen.restrict(order[::2]), chosen.restrict(order[1::2])))


def translations(names: Sequence[str] = ()) -> Dataset:
    """Return the sentences of a translation system, with the features of these names, or all."""
    size = f"{len(names)}" if names else "14"
    return Dataset(f"swahili decoder, {size} features", partial(_sentences, tuple(names)), _skip)


@cache
def _single_sentences(names: tuple[str, ...], begin: int, end: int) -> Sentences:
    whole = _sentences(names)
    lists = whole.train.restrict(slice(begin, end))
    losses = 1.0 - datasets.sentence_bleu(lists.statistics)
    train = NBest(lists.dense_features(), lists.offsets, losses[:, None], lists.names, lists.list_ids)
    return Sentences(train, whole.tests)


def of_single_sentences(names: Sequence[str], begin: int, end: int) -> Dataset:
    """Return some of the sentences to tune on, with 1 - sentence BLEU+1 as their loss, and the whole test sets."""
    name = f"swahili decoder, {len(names)} features, sentences {begin}:{end}"
    return Dataset(name, partial(_single_sentences, tuple(names), begin, end), _skip)


def _skip() -> str | None:
    return next((reason for run in RUNS if (reason := datasets.swahili(run=run).skip()) is not None), None)
