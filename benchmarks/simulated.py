"""A simulated decoder: it returns the n best of a fixed set of hypotheses, at almost no cost and without search errors.

The set is the union of the lists of several runs of a real decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

import lpmert
from benchmarks import datasets
from benchmarks.harness import Answer, Dataset, Objective, Solver
from benchmarks.lists import warm_up
from lpmert.methods.direct_search import Och, Stabilised
from lpmert.model.nbest import NBest
from lpmert.search.method import Method

RUNS = (3, 5, 7)
N_TRAIN = 150
SIZE = 20  # hypotheses of each sentence that the decoder returns

SMALL = ("Distortion0_0", "LM0_0", "WordPenalty0_0", "PhrasePenalty0_0", *(f"TranslationModel0_{k}" for k in range(4)))
"""The features of a translation system without its lexical reordering."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """All hypotheses of the sentences to tune on, and of two test sets."""

    train: NBest
    tests: tuple[NBest, ...]

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
            everything.changed(
                features=everything.dense_features()[rows],
                offsets=np.concatenate([[0], np.cumsum(sizes)]),
                statistics=everything.statistics[rows],
                texts=None,
            )
        )


def loop(
    name: str,
    method: Method,
    iterations: int,
    summary: Callable[[lpmert.Looped], tuple[Mapping[str, int], Mapping[str, Any]]],
    metric: str = "bleu",
    search_seconds: float | None = None,
) -> Solver:
    """Return a whole tuning with one method, until no list grows, or for this many iterations.

    summary: returns the counters and the details of a row.
    """

    def tune(data: Sentences, _: Objective, seed: int, time_limit: float) -> Answer:
        found = lpmert.loop(
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
        return Answer(found.weights, "finished" if found.finished else "heuristic", None, *summary(found))

    return Solver(name, tune, partial(warm_up, Och() if isinstance(method, Stabilised) else method))


def _every_run() -> NBest:
    whole: NBest = reduce(NBest.merge, (datasets.swahili_counts(run).load() for run in RUNS))
    return whole.deduplicate()


def translations(names: Sequence[str] = ()) -> Dataset:
    """Return the sentences of a translation system, with the features of these names, or all."""

    def divided(whole: NBest) -> Sentences:
        chosen = whole.select_features(names).deduplicate() if names else whole
        tests = (chosen.restrict(slice(first, None, 2)) for first in (N_TRAIN, N_TRAIN + 1))
        return Sentences(chosen.restrict(slice(0, N_TRAIN)), tuple(tests))

    whole = Dataset("swahili, all runs", _every_run, _skip)
    return whole.then(f"swahili decoder, {len(names) or 14} features", divided)


def of_single_sentences(names: Sequence[str], begin: int, end: int) -> Dataset:
    """Return some of the sentences to tune on, with 1 - sentence BLEU+1 as their loss, and the whole test sets."""

    def single(whole: Sentences) -> Sentences:
        lists = whole.train.restrict(slice(begin, end))
        losses = 1.0 - datasets.sentence_bleu(lists.statistics)
        return Sentences(lists.changed(statistics=losses[:, None], statistic_names=None, texts=None), whole.tests)

    whole = translations(names)
    return whole.then(f"{whole.name}, sentences {begin}:{end}", single)


def _skip() -> str | None:
    return next((reason for run in RUNS if (reason := datasets.swahili_counts(run).skip()) is not None), None)
