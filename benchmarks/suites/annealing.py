"""Minimum risk annealing in the loop of decoding and tuning, after Smith and Eisner: by iteration and by first
temperature, beside line searches by restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import Answer, Benchmark, Judgement, Objective, Task
from benchmarks.plots import panels
from benchmarks.rows import Row, find
from benchmarks.simulated import SIZE, Sentences, loop, translations
from benchmarks.tables import Figure, Table, seconds
from lpmert import Looped
from lpmert.methods.direct_search import Och
from lpmert.methods.surrogate_losses import Annealing, Likelihood
from lpmert.model.problem import Problem
from lpmert.search.method import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

ITERATIONS = 8
TIME_LIMIT = 120.0
SEEDS = tuple(range(5))
MOST_RESTARTS = 20  # line searches with more restarts run with one seed only

METHODS: dict[str, Method] = {
    "likelihood": Likelihood(),
    "line search, 1 start": Och(directions="powell", restarts=0),
    "line search, 5 restarts": Och(directions="powell", restarts=5),
    "line search, 20 restarts": Och(directions="powell", restarts=20),
    "line search, 80 restarts": Och(directions="powell", restarts=80),
    **{f"annealing, T0 = {t:g}": Annealing(first_temperature=t) for t in (1.0, 100.0, 200.0, 1000.0)},
    "annealing, to T = 0.01": Annealing(first_temperature=100.0, last_temperature=0.01),
    "gamma alone": Annealing(schedule="gamma"),
}
DRAWN = ("likelihood", "line search, 1 start", "line search, 20 restarts", "annealing, T0 = 100", "gamma alone")


def _by_iteration(data: Sentences, answer: Answer) -> Judgement:
    """Return corpus BLEU of the decoder's output, and of both test sets together, in each iteration and in the best."""
    test = data.tests[0].merge(data.tests[1])
    tuned, held_out = (
        [Problem(one, "bleu").evaluate(np.array(weights)).score for weights in answer.details["weights"]]
        for one in (data.train, test)
    )
    best = Problem(data.train, "bleu").evaluate(answer.weights)
    details = {"tuned": tuned, "test": held_out}
    return Judgement(best.loss, best.score, {**details, "test_score": held_out[tuned.index(max(tuned))]})


def summary(found: Looped) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the size of the loop, and the weights of all iterations."""
    weights = [[*one.weights.values()] for one in found.iterations]
    return {"iterations": len(weights), "best": found.best, "pool": found.iterations[-1].hypotheses}, {
        "weights": weights
    }


def tasks() -> Iterator[Task]:
    """Yield every method, with several seeds if it draws a few random starts."""
    for name, method in METHODS.items():
        for seed in SEEDS if isinstance(method, Och) and 0 < method.restarts <= MOST_RESTARTS else SEEDS[:1]:
            objective, solver = Objective("bleu", _by_iteration), loop(name, method, ITERATIONS, summary)
            yield Task(translations(), objective, solver, seed, TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield the outcomes of the loops, and BLEU by iteration."""
    body = []
    for name in METHODS:
        mine = find(rows, solver=name)
        if not mine:
            continue
        test = [row.details["test_score"] for row in mine]
        body.append(
            [
                name,
                str(len(mine)),
                f"{fmean(row.score for row in mine if row.score is not None):.2f}",
                f"{fmean(test):.2f}",
                f"{min(test):.2f} to {max(test):.2f}",
                f"{fmean(row.counters['iterations'] for row in mine):.1f}",
                f"{fmean(row.counters['pool'] for row in mine):,.0f}",
                seconds(fmean(row.processor_seconds for row in mine)),
            ]
        )
    headings = ("method", "runs", "tuned on", "test", "least to greatest", "iterations", "last pool", "CPU s")
    note = (
        f"Corpus BLEU of the decoder's best iteration, of at most {ITERATIONS}; {SIZE} hypotheses a sentence, 14 "
        "features, 150 sentences to tune on and 350 to test on; means over the runs. Likelihood and annealing take all "
        "steps, as in the paper. Line searches have lpmert's own loop: it ends where the pool holds no better weights, "
        "and a step that the decoder does not confirm is halved. T: the weight of the entropy, beside the loss of all "
        "lists together."
    )
    yield Table("Annealing in the loop (Figures 3 and 4, in kind)", headings, body, note)
    if body:
        note = "The best iteration so far, with seed 0; loops that ended keep what they had."
        yield Figure("annealing", "BLEU by iteration", lambda canvas: _draw(canvas, rows), note, size=(9.5, 4.0))


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    numbers = range(1, ITERATIONS + 1)
    drawn = panels(canvas, ("tuned on", "test"), "iteration", "BLEU", 7, legends=1)
    for what, axes in zip(("tuned", "test"), drawn, strict=True):
        for place, name in enumerate(DRAWN):
            for row in find(rows, solver=name, seed=0):
                tuned, shown = row.details["tuned"], row.details[what]
                best = [int(np.argmax(tuned[: min(n, len(tuned))])) for n in numbers]
                axes.plot(numbers, [shown[k] for k in best], marker="o", markersize=3, color=f"C{place}", label=name)


BENCHMARK = Benchmark(
    "annealing",
    "Annealing in the loop of decoding and tuning",
    tasks,
    render,
    source="Smith and Eisner, COLING/ACL 2006, Figures 3 and 4, in kind",
)
