"""Small problems that are searched as if they took long: in many units of work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from graph_problems import random_links
from problems import gaussian_lists
from searches import short_descent

import lpmert
from lpmert import Lattices, Progress, Result, Status
from lpmert.methods import Auto, cells, choices, groups, lattices, lp_mert
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.driver import CheckpointFile, solve
from lpmert.workers import Workers

SLICE = 2000


@contextmanager
def long_searches(unit: int = SLICE) -> Iterator[None]:
    """Search small problems in units of work from the beginning, in short slices, from poor first weights."""
    constants: dict[Any, dict[str, int]] = {
        cells: {"_SLICE": SLICE, "_ANSWERS": 1, "_MANY_CLOSINGS": 1, "_SHORT": 0, "_ALONE": 0, "_UNIT": unit},
        choices: {"SLICE": SLICE, "_ALONE": 0, "_UNIT": unit},
        groups: {"_ALONE": 0, "_BEGINNING": 0, "_TURN": 4 * SLICE, "_DESCENT_BUDGET": 500},
        lp_mert: {"SLICE_STEPS": 8},
        lattices: {"_ALONE": 0, "_LOCAL_WORK": 0, "_UNIT": 1},
    }
    with short_descent(one=True), pytest.MonkeyPatch.context() as context:
        for module, own in constants.items():
            for name, value in own.items():
                context.setattr(module, name, value)
        yield


def problem_of(seed: int, n_lists: int = 60, n_features: int = 4) -> lpmert.NBest:
    rng = np.random.default_rng(seed)
    n = 12 * n_lists
    features = rng.normal(size=(n, n_features))
    quality = features @ rng.normal(size=n_features) + rng.normal(size=n)
    return lpmert.NBest(features, np.arange(0, n + 1, 12), np.clip(np.rint(2 - quality), 0, None))


def noise_of(seed: int, n_lists: int = 12, n_features: int = 5) -> lpmert.NBest:
    """A problem whose losses have nothing to do with its features: searches take long."""
    return gaussian_lists(seed, lists=n_lists, hypotheses=12, features=n_features, dearest=49).nbest


def counted(seed: int, metric: str, n_features: int = 3) -> lpmert.NBest:
    """A problem with the statistics of a metric that is not additive."""
    lists = problem_of(seed, 40 if metric == "f1" else 12, n_features)
    rng = np.random.default_rng(seed)
    n = len(lists.dense_features())
    if metric == "f1":
        predicted, gold = rng.integers(1, 6, n), np.repeat(rng.integers(1, 6, lists.n_lists), 12)
        statistics = np.stack([rng.binomial(np.minimum(predicted, gold), 0.5), predicted, gold], axis=1)
    else:  # totals of each order with their matches, and for chrF those of the reference between them
        totals = rng.integers(8, 14, (n, 1)) - np.arange(4 if metric == "bleu" else 6)
        matches = rng.binomial(totals, rng.random((n, 1)))
        reference = np.repeat(rng.integers(8, 14, lists.n_lists), 12)[:, None]
        of_reference = np.maximum(matches, reference - np.arange(totals.shape[1]))
        of_order = (matches, totals) if metric == "bleu" else (totals, of_reference, matches)
        statistics = np.stack(of_order, axis=2).reshape(n, -1)
        statistics = np.hstack([statistics, reference]) if metric == "bleu" else statistics
    return lpmert.NBest(lists.dense_features(), lists.offsets, statistics.astype(float))


def lattices_of(seed: int) -> Lattices:
    """Lattices whose references have nothing to do with their features; see `search_lattices`."""
    rng = np.random.default_rng(seed)
    offsets, sources, targets = random_links(rng, 6, (8, 9), 10)
    references = [" ".join(rng.choice(["a", "b", "c"], 6)) for _ in range(6)]
    features, words = rng.integers(-64, 65, (len(sources), 3)) / 16, rng.integers(0, 3, len(sources))
    return Lattices(features, offsets, sources, targets, words, references, vocabulary=["a", "b", "c"])


def search_lattices(seed: int, metric: str, **more: Any) -> Result:
    """Search such lattices in many cones; more: arguments of `solve`."""
    problem = LatticeProblem(lattices_of(seed), metric)
    with open_lattices(comparisons=1):
        return solve(Auto(), problem, **more)


def open_lattices(*, comparisons: int) -> Any:
    """Let lattices stay open in a cone where listing their paths takes more comparisons a link."""
    return patch.object(lattices, "COMPARISONS", comparisons)


def kept_search(kind: str, path: Path | None = None) -> Result:
    """Search lists by a method, or lattices for a metric; with a path, resume from the checkpoint there."""
    if kind in ("wer", "bleu"):
        return search_lattices(5, kind, checkpoint=None if path is None else CheckpointFile(path, resume=True))
    return lpmert.minimize(noise_of(5, 10), method=kind, checkpoint=path, resume=path is not None)


def after(calls: int) -> Callable[[Progress], bool]:
    """Return a callback that stops a search at this number of calls."""
    numbers = count(1)
    return lambda _: next(numbers) >= calls


def in_pieces(search: Callable[..., Any], path: Path, calls: int, growth: float = 1.04) -> tuple[Any, int]:
    """Search with a stop after so many slices each time, more after more: closing a leaf begins anew each time.

    search: returns a result or its status, given arguments of `minimize`. Return its last answer, and how many pieces
    it took.
    """
    path.unlink(missing_ok=True)
    for piece in range(2_000):
        stop = after(calls - 1 + int(growth**piece))
        found = search(checkpoint=path, resume=piece > 0, callback=stop)
        if getattr(found, "status", found) is not Status.CALLBACK:
            return found, piece + 1
    raise AssertionError("it never ends")


def same(first: Result, second: Result) -> bool:
    """Whether two searches went the same way, bit for bit."""
    return (
        first.weights.tobytes() == second.weights.tobytes()
        and [point[1:] for point in first.trace] == [point[1:] for point in second.trace]
        and first.counters == second.counters
        and first.signature == second.signature
    )


def with_workers(workers: Workers) -> Any:
    """Let all searches within the block use these workers."""
    return patch("lpmert.workers.workers_of", lambda *_: nullcontext(workers))
