"""LP-MERT in the whole loop of decoding and tuning, beside line searches and the proved optimum of each pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.harness import Answer, Benchmark, Judgement, Task, Unprepared
from benchmarks.rows import Row, find
from benchmarks.simulated import SIZE, SMALL, Loop, Sentences, of_single_sentences
from benchmarks.tables import Table, seconds
from lpmert import Looped
from lpmert.methods.auto import Auto
from lpmert.methods.heuristic.och import Och
from lpmert.methods.lp_mert.beam import Beam
from lpmert.methods.lp_mert.method import LpMert
from lpmert.model.problem import Problem
from lpmert.search.method import Method

SIZES = (4, 8, 16, 32)
"""Numbers of sentences to tune on; LP-MERT is exact on the first ones only, and has to end on these."""

EXACT = 8
PARTS = 3
"""Sets of sentences of each size, one after the other."""

ITERATIONS = 8
SEARCH_SECONDS = 5.0
TIME_LIMIT = 120.0
PROVED = 1e-9
METHODS: dict[str, Method] = {
    "Powell, 20 restarts": Och(directions="powell", restarts=20),
    "lp-mert": LpMert(),
    "beam 30": Beam(30),
    "auto": Auto(),
}


@dataclass(frozen=True)
class Sums(Unprepared):
    """The sum of 1 - sentence BLEU+1 of what the decoder gives out; beside it corpus BLEU of the test sentences."""

    name: str = "1 - sentence BLEU+1"

    def judge(self, data: Sentences, answer: Answer) -> Judgement:
        """Decode the sentences tuned on, and both test sets together."""
        if answer.weights is None:
            return Judgement(None, None, {})
        own = Problem(data.train, "loss").evaluate(answer.weights)
        test = Problem(data.tests[0].merge(data.tests[1]), "bleu").evaluate(answer.weights)
        return Judgement(own.loss, own.score, {"test_score": test.score})


@dataclass(frozen=True)
class Tuning(Loop):
    """A whole tuning with one method, LP-MERT only of few sentences."""

    def skip(self, data: Sentences, objective: Sums) -> str | None:
        """Return that there are too many sentences for LP-MERT, if so."""
        del objective
        exact = isinstance(self.method, LpMert)
        return "too many sentences for LP-MERT" if exact and data.train.n_lists > EXACT else None


def told(found: Looped) -> tuple[dict[str, int], dict[str, Any]]:
    """Return how many searches there were, and how many of them proved their optimum."""
    searched = [one for one in found.iterations if one.pool_loss is not None]
    proved = sum(
        one.lower_bound is not None and one.pool_loss - one.lower_bound <= PROVED
        for one in searched
        if one.pool_loss is not None
    )
    return {"iterations": len(found.iterations), "searches": len(searched), "proved": proved}, {}


def tasks() -> Iterator[Task]:
    """Yield all methods on each set of sentences in turn."""
    for size in SIZES:
        for part in range(PARTS):
            for name, method in METHODS.items():
                data = of_single_sentences(SMALL, part * size, (part + 1) * size)
                yield Task(data, Sums(), Tuning(name, method, ITERATIONS, told, "loss", SEARCH_SECONDS), 0, TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield where the loops end, by number of sentences and method."""
    body = []
    for size in SIZES:
        names = [of_single_sentences(SMALL, part * size, (part + 1) * size).name for part in range(PARTS)]
        wanted = {name for name, method in METHODS.items() if size <= EXACT or not isinstance(method, LpMert)}
        names = [name for name in names if wanted <= {row.solver for row in find(rows, dataset=name)}]  # none lacks one
        for method in METHODS:
            mine = [row for name in names for row in find(rows, dataset=name, solver=method)]
            if not mine:
                continue
            searches = sum(row.counters["searches"] for row in mine)
            body.append(
                [
                    str(size),
                    method,
                    str(len(mine)),
                    f"{fmean(row.loss for row in mine if row.loss is not None):.4f}",
                    f"{fmean(row.details['test_score'] for row in mine):.2f}",
                    f"{fmean(row.counters['iterations'] for row in mine):.1f}",
                    f"{sum(row.counters['proved'] for row in mine)} of {searches}",
                    seconds(fmean(row.processor_seconds for row in mine)),
                ]
            )
    note = (
        f"A simulated decoder that gives the {SIZE} best of all hypotheses of three runs of a real one; {len(SMALL)} "
        f"features; means over {PARTS} sets of sentences of each size, or over those that all methods "
        "have run on. Tuned on: 1 - sentence BLEU+1, summed, of "
        f"what the decoder gives out at the best of at most {ITERATIONS} iterations; test: corpus BLEU of 350 other "
        "sentences. Proved: searches of pools that proved their optimum, of all. A search takes at most "
        f"{SEARCH_SECONDS:g} seconds of the wall clock, on a busy machine far fewer of the processor. "
        "The loop is lpmert's own: a step that the decoder does not confirm is halved; "
        "auto searches within half the angle in the place of the beam, which cannot. lp-mert, the beam and auto begin "
        "with lpmert's line searches. The paper's own figures, of another system, are not repeated here."
    )
    headings = ("sentences", "method", "sets", "tuned on", "test BLEU", "iterations", "proved", "CPU s")
    yield Table("LP-MERT in the loop of decoding and tuning (end to end, in kind)", headings, body, note, left=2)


BENCHMARK = Benchmark(
    "whole",
    "LP-MERT in the loop of decoding and tuning",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, in kind",
)
