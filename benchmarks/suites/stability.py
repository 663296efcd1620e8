"""How much the outcome of tuning varies with the seed, and what steadies it, after Foster and Kuhn.

Three runs of lists are pooled one after the other, as in a tuning loop whose decoder has spoken already.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Task
from benchmarks.lists import warm_up
from benchmarks.plots import legend
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, seconds
from lpmert.errors import FloatArray
from lpmert.methods.heuristic.och import Och
from lpmert.methods.heuristic.stabilised import Iteration, Stabilised
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.driver import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

RUNS = (3, 5, 7)
N_TRAIN = 250
SEEDS = tuple(range(10))
TIME_LIMIT = 300.0
DRAWS = 1000
MOST_RUNS = 10
_NUMBERS = tuple(f"n = {n}" for n in range(1, MOST_RUNS + 1))
METHODS = {
    "baseline": Stabilised(reseed=False, history=False, selection=None),
    "+ seed": Stabilised(reseed=True, history=False, selection=None),
    "+ history": Stabilised(selection=None),
    "+ selection 5,9,3": Stabilised(),
    "+ selection 1,1,3": Stabilised(selection=(1.0, 1.0, 3)),
    "+ perturbation": Stabilised(regularised=True),
}


@dataclass(frozen=True, eq=False)
class Rounds:
    """The pooled lists of each iteration, lists to choose the best of several runs on, and lists for the final test."""

    pools: tuple[NBest, ...]
    held_out: tuple[NBest, NBest]


@dataclass(frozen=True)
class Tuned:
    """Corpus BLEU of the last pool; beside it that of the held-out lists."""

    name: str = "bleu"

    def prepare(self, data: Rounds) -> None:
        """Do nothing."""

    def judge(self, data: Rounds, answer: Answer) -> Judgement:
        """Decode the last pool and the held-out lists."""
        if answer.weights is None:
            return Judgement(None, None, {})
        own, *others = (Problem(one, "bleu").evaluate(answer.weights) for one in (data.pools[-1], *data.held_out))
        return Judgement(own.loss, own.score, {"held_out_scores": [other.score for other in others]})


@dataclass(frozen=True)
class Loop:
    """The iterations of one tuning."""

    name: str
    method: Stabilised

    def skip(self, _data: Rounds, _objective: Tuned) -> str | None:
        """Return nothing: it always can."""
        return None

    def warm_up(self) -> None:
        """Compile line searches."""
        warm_up(Och())

    def solve(self, data: Rounds, _objective: Tuned, seed: int, time_limit: float) -> Answer:
        """Return the weights after the last iteration."""
        began = time.perf_counter()
        history: list[Iteration] = []
        searches = 0
        for pool in data.pools:
            limits = Limits(time_limit=max(0.0, time_limit - (time.perf_counter() - began)))
            result = solve(replace(self.method, earlier=history), Problem(pool, "bleu"), limits, seed=seed)
            searches += result.counters.get("line_searches", 0)
        return Answer(history[-1].weights, result.status.name.lower(), None, {"line_searches": searches})


@cache
def _load() -> Rounds:
    runs = [datasets.swahili_counts(run) for run in RUNS]
    pools: list[NBest] = []
    held_out: NBest | None = None
    for run in runs:
        own, other = run.restrict(slice(0, N_TRAIN)), run.restrict(slice(N_TRAIN, None))
        pools.append(pools[-1].merge(own).deduplicate() if pools else own)
        held_out = other if held_out is None else held_out.merge(other).deduplicate()
    if held_out is None:
        raise ValueError("there are no runs")
    order = np.arange(held_out.n_lists)
    return Rounds(tuple(pools), (held_out.restrict(order[::2]), held_out.restrict(order[1::2])))


def _skip() -> str | None:
    return next((reason for run in RUNS if (reason := datasets.swahili(run=run).skip()) is not None), None)


DATASET = Dataset(f"swahili, {N_TRAIN} lists, runs {', '.join(map(str, RUNS))} pooled", _load, _skip)


def tasks() -> Iterator[Task]:
    """Yield every method with every seed."""
    for name, method in METHODS.items():
        for seed in SEEDS:
            yield Task(DATASET, Tuned(), Loop(name, method), seed, TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield mean, spread and correlation by method, and the best of several runs."""
    from scipy.stats import pearsonr, spearmanr

    body, best = [], []
    for name in METHODS:
        mine = find(rows, solver=name)
        if len(mine) < 3:
            continue
        train, second, test = _scores(mine)
        spreads = [f"{values.max() - values.min():.2f}" for values in (train, test)]
        deviations = [f"{values.std(ddof=1):.2f}" for values in (train, test)]
        constant = np.ptp(train) == 0 or np.ptp(test) == 0
        related = ["-", "-"] if constant else [f"{f(train, test).statistic:.2f}" for f in (pearsonr, spearmanr)]
        means = [f"{values.mean():.2f}" for values in (train, test)]
        time = seconds(float(np.median([row.seconds for row in mine])))
        columns = [[a, b, c] for a, b, c in zip(means, spreads, deviations, strict=True)]
        body.append([name, str(len(mine)), *columns[0], *columns[1], *related, time])
        best.append([name, *(f"{value:.2f}" for value in best_of(second, test))])
    headings = ("strategy", "runs", "train", "max - min", "S", "held out", "max - min", "S", "r", "rho", "seconds")
    note = (
        "Corpus BLEU after three iterations on 250 lists, and of 125 held-out lists; r and rho: Pearson's and "
        "Spearman's correlation of the two over the runs. Strategies are cumulative, but the second selection "
        "stands in the first one's place. The paper, with 20 features and a decoder in the loop: max - min 1.09 to "
        "2.14 and S 0.34 to 0.66 BLEU without its strategies, 0.88 and 0.30 with selection 5,9,3. Here the lists "
        "of later iterations are fixed, so that the seed acts through the search alone; and they come from a tuning "
        "that had seen all sentences, the held-out ones too."
    )
    yield Table("Spread over seeds (Tables 2 to 5, in kind)", headings, body, note)
    if best:
        note = (
            f"Mean of {DRAWS} draws of n runs with replacement; of each draw the run that is best on 125 held-out "
            "lists counts with its BLEU on 125 others."
        )
        yield Table("Held-out BLEU of the best of n runs", ("strategy", *_NUMBERS), best, note)
        note = "Each cross is a run with a seed of its own."
        yield Figure("stability", "Held-out BLEU by strategy", lambda canvas: _draw(canvas, rows), note)


def _scores(rows: list[Row]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the scores of all runs on the training lists, on those to choose by, and on those of the test."""
    second, test = np.array([row.details["held_out_scores"] for row in rows]).T
    return np.array([row.score for row in rows], dtype=np.float64), second, test


def best_of(first: FloatArray, test: FloatArray) -> list[float]:
    """Return the mean test score of the best on `first` of n runs drawn with replacement, n = 1, 2, ..."""
    rng = np.random.default_rng(0)
    means = []
    for n in range(1, MOST_RUNS + 1):
        drawn = rng.integers(len(first), size=(DRAWS, n))
        winners = drawn[np.arange(DRAWS), first[drawn].argmax(axis=1)]
        means.append(float(test[winners].mean()))
    return means


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    left, right = canvas.subplots(1, 2)
    for place, name in enumerate(METHODS):
        mine = find(rows, solver=name)
        if not mine:
            continue
        train, second, test = _scores(mine)
        left.plot(train, test, "x", color=f"C{place}", label=name)
        right.plot(range(1, MOST_RUNS + 1), best_of(second, test), marker="o", markersize=3, color=f"C{place}")
    left.set_xlabel("training BLEU")
    left.set_ylabel("held-out BLEU")
    right.set_xlabel("best of so many runs")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    legend(left, 7)


BENCHMARK = Benchmark(
    "stability",
    "The spread of tuned weights over seeds",
    tasks,
    render,
    source="Foster and Kuhn, WMT 2009, Tables 2 to 5 and Figure 1, in kind",
)
