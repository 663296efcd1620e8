"""`auto` beside each of our methods alone, at equal time: it should never be worse, in loss or in bound.

Time is processor time, so that a busy machine changes little. Each run records its loss and bound over time, which are
compared after 1, 5 and 20 s. Each kind of lists has two disjoint sets; settings are chosen on the first alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import answer_of, loss, thinned, warm_up
from benchmarks.rows import Row, find
from benchmarks.sources import source_of
from benchmarks.tables import Table, number
from lpmert.methods.auto import Auto
from lpmert.methods.cells import Cells
from lpmert.methods.choices import Choices
from lpmert.methods.direct_search import CmaEs, Och
from lpmert.methods.groups import Groups
from lpmert.result import Limits, Progress
from lpmert.search.driver import solve
from lpmert.search.method import Method

TIMES = (1.0, 5.0, 20.0)
_WAITING = 30  # a run ends in any case after this many times its limit by the wall clock
_ALIKE = 1e-9  # relative difference up to which two losses or bounds count as equal
_SLIGHTLY = 0.01  # relative difference up to which one counts as slightly worse
Point = tuple[float, float | None, float]  # seconds, bound and loss


def _watched(method: Method, data: Any, objective: Objective, seed: int, time_limit: float) -> Answer:
    """Solve until this many processor seconds are used up, from the construction of the problem on."""
    begin = time.process_time()
    trace: list[Point] = []

    def watch(progress: Progress) -> bool:
        seconds = time.process_time() - begin
        if not trace or trace[-1][1:] != (progress.lower_bound, progress.loss):
            trace.append((seconds, progress.lower_bound, progress.loss))
        return seconds >= time_limit

    limits = Limits(time_limit=_WAITING * time_limit)
    result = solve(method, objective.problem(data), limits, callback=watch, seed=seed)
    trace.append((time.process_time() - begin, result.lower_bound, result.loss))
    answer = answer_of(result)
    status = "time_limit" if answer.status == "callback" else answer.status
    return replace(answer, status=status, details={"trace": thinned(trace)})


METHODS: dict[str, Method] = {
    "auto": Auto(),
    "och": Och(directions="powell"),
    "cma-es": CmaEs(),
    "cells": Cells(),
    "choices": Choices(),
    "groups": Groups(),
}
SOLVERS = tuple(Solver(name, partial(_watched, one), partial(warm_up, one)) for name, one in METHODS.items())


def at(row: Row, seconds: float) -> tuple[float | None, float | None]:
    """Return the loss and the bound that a run had after so many seconds, `None` before its first."""
    before = [(loss, bound) for when, bound, loss in row.details["trace"] if when <= seconds]
    return before[-1] if before else (None, None)


def _sets() -> Iterator[tuple[Dataset, Objective]]:
    """Yield pairs of sets of one kind: one for choosing settings, and one held out."""
    losses, bleu = loss(), loss("bleu")
    counts, few, swahili = datasets.swahili_bleu(), datasets.swahili_bleu(5), datasets.swahili()
    wholes: list[tuple[Dataset, int, Objective]] = [
        (counts, datasets.SWAHILI_LISTS, bleu),
        (few, datasets.SWAHILI_LISTS, bleu),
        (swahili, datasets.SWAHILI_LISTS, losses),
        (datasets.libri(3), datasets.LIBRI_LISTS, losses),
        (datasets.libri(5), datasets.LIBRI_LISTS, losses),
        (datasets.libri_characters(), datasets.LIBRI_LISTS, losses),
    ]
    for name in ("csmt", "hansard", "summaries", "ime-kkc", "asr5", "train trips", "travel modes"):
        source = source_of(name)
        wholes.append((source, source.n_lists, losses))
    for whole, n_lists, objective in wholes:
        for begin, end in pairwise((0, n_lists // 2, n_lists)):
            yield datasets.part(whole, slice(begin, end), f"{whole.name}, {begin}:{end}"), objective
    for begin in (0, 16):
        yield datasets.swahili(slice(begin, begin + 16)), losses
    for n_lists in (100, 400):
        for seed in (0, 1):
            yield datasets.generated(n_lists, 30, 7, seed), losses


CASES = tuple(_sets())


def tasks() -> Iterator[Task]:
    """Yield every set with every method; those that cannot take a set are skipped."""
    for dataset, objective in CASES:
        for solver in SOLVERS:
            yield Task(dataset, objective, solver, 0, TIMES[-1])


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield a table for each time, and how often `auto` is worse."""
    summary = []
    for seconds in TIMES:
        body = []
        worse = [0, 0, 0, 0]
        for number_of_set, (dataset, objective) in enumerate(CASES):
            mine = find(rows, dataset=dataset.name, objective=objective.name)
            mine = [row for row in mine if row.time_limit >= seconds or not row.cut_short]
            auto = next((row for row in mine if row.solver == "auto"), None)
            others = [row for row in mine if row.solver != "auto"]
            if auto is None or not others:
                continue
            own, bound = at(auto, seconds)
            best, most = (
                chosen(
                    ((value, row.solver) for row in others if (value := at(row, seconds)[k]) is not None), default=None
                )
                for k, chosen in enumerate((min, max))
            )
            more, much_more = (
                best is not None and (own is None or best[0] < own - by * abs(own)) for by in (_ALIKE, _SLIGHTLY)
            )
            less, much_less = (
                most is not None and (bound is None or most[0] > bound + by * abs(bound)) for by in (_ALIKE, _SLIGHTLY)
            )
            worse = [count + one for count, one in zip(worse, (more, much_more, less, much_less), strict=True)]
            body.append(
                [
                    dataset.name,
                    "held out" if number_of_set % 2 else "",
                    _marked(own, worse=more),
                    *_best(best),
                    _marked(bound, worse=less),
                    *_best(most),
                ]
            )
        if body:
            headings = ("lists", "", "loss", "least of the others", "by", "bound", "most of the others", "by")
            note = "Bold: `auto` is worse. -: no weights yet, or no bound."
            yield Table(f"After {seconds:g} processor seconds", headings, body, note, left=2)
            summary.append([f"{seconds:g} s", str(len(body)), *map(str, worse)])
    if summary:
        note = (
            f"Others: {', '.join(solver.name for solver in SOLVERS[1:])}, each alone; och: Powell's method, 20 random "
            "starts. Runs that end sooner keep what they found."
        )
        counted = ("after", "sets", "loss", "by more than 1%", "bound", "by more than 1%")
        yield Table("How often another method alone is better", counted, summary, note)


def _marked(value: float | None, *, worse: bool) -> str:
    text = "-" if value is None else number(value, 6)
    return f"**{text}**" if worse else text


def _best(found: tuple[float, str] | None) -> tuple[str, str]:
    return ("-", "") if found is None else (number(found[0], 6), found[1])


BENCHMARK = Benchmark("best", "One command beside every method alone", tasks, render)
