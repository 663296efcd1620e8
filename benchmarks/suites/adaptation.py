"""Kana-kanji conversion adapted to other texts, and learning curves by line search, after Gao and others.

The background, the converter's score and a bigram model of one kind of manuals, is adapted to other kinds.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import datasets
from benchmarks.bigrams import Bigrams, Probability, background_model
from benchmarks.halves import Halves
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Objective, Solver, Task
from benchmarks.plots import panels
from benchmarks.rows import Row, find
from benchmarks.suites.msr import FOLDER, FOLDS, decoded_loss, fold, sparse_conversions, toy_lists
from benchmarks.tables import Figure, Table
from lpmert.errors import FloatArray
from lpmert.methods.sparse import (
    Boosting,
    MinimumSampleRisk,
    Perceptron,
    SparseLineSearch,
    Trained,
    sparse_lists,
)
from lpmert.model.nbest import NBest

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

BACKGROUND = "manpages-ja"
DOMAINS = {
    "handbook": ("debian-handbook",),
    "reference": ("debian-reference",),
    "guides": ("developers-reference", "maint-guide"),
}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)  # weights of the language model beside the converter's score
PRIORS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # masses of the background as a prior in MAP adaptation, in words

KEPT = (100, 300, 1000)
TIME_LIMIT = 120.0
PAPER = {
    "MAP": (3.69, 5.47, 7.98, 10.76),
    "msr": (2.73, 5.15, 7.40, 10.16),
    "boosting": (2.78, 5.33, 7.53, 10.25),
    "perceptron": (2.78, 5.20, 7.44, 10.18),
}


@dataclass(frozen=True, eq=False)
class Adaptation:
    """The background, the sentences to adapt to, and held-out ones of the same kind."""

    background: NBest
    train: NBest
    test: NBest


def words_of(lists: NBest) -> list[list[str]]:
    """Return the words of every conversion."""
    return [text.split() for text in lists.texts or ()]


def best_words(lists: NBest) -> list[list[str]]:
    """Return the words of the best conversion of each list."""
    words, losses = words_of(lists), lists.statistics[:, 0]
    return [words[a + int(losses[a:b].argmin())] for a, b in pairwise(lists.offsets.tolist())]


def scored(lists: NBest, model: Probability, share: float) -> FloatArray:
    """Return the converter's score of every conversion plus `share` times its log10 probability in a model."""
    base: FloatArray = _sparse(lists)[:, [0]].toarray().ravel()
    if share == 0.0:
        return base
    own = [sum(np.log10(model(a, b)) for a, b in pairwise(["<s>", *words, "</s>"])) for words in words_of(lists)]
    return np.asarray(base + share * np.array(own))


def errors(lists: NBest, scores: FloatArray) -> float:
    """Return the errors of the conversions with the highest scores."""
    return decoded_loss(lists.changed(features=scores[:, None], names=None), np.ones(1))


def halves_of(lists: NBest) -> list[tuple[NBest, NBest]]:
    """Return every other sentence and the rest, in both orders."""
    one, other = lists.restrict(np.s_[::2]), lists.restrict(np.s_[1::2])
    return [(one, other), (other, one)]


def background_share(background: NBest) -> float:
    """Return the share with the fewest errors on the half of the background that the language model has not seen."""
    pairs = [(background_model(best_words(one)), other) for one, other in halves_of(background)]
    return min(SHARES, key=lambda share: sum(errors(other, scored(other, model, share)) for model, other in pairs))


def baseline(data: Adaptation) -> tuple[Probability, float]:
    """Return the background model and its share, without adaptation."""
    return _background(data.background)


@cache
def _background(lists: NBest) -> tuple[Probability, float]:
    return background_model(best_words(lists)), background_share(lists)


def adapted(data: Adaptation) -> tuple[Probability, float]:
    """Return the MAP estimate, with the background as a prior; cross-validation chooses its mass and the share."""
    background, _ = baseline(data)
    pairs = halves_of(data.train)

    def wrong(setting: tuple[float, float]) -> float:
        mass, share = setting
        return sum(
            errors(other, scored(other, Bigrams(best_words(one), background, mass), share)) for one, other in pairs
        )

    mass, share = min(product(PRIORS, SHARES), key=wrong)
    return Bigrams(best_words(data.train), background, mass), share


def _judge(data: Adaptation, answer: Answer) -> Judgement:
    """Count the errors of the conversions with the highest scores; the answer has the scores of both parts."""
    scores = np.split(answer.weights, [data.train.n_hypotheses])
    own, other = (errors(part, one) for part, one in zip((data.train, data.test), scores, strict=True))
    return Judgement(own, own, {"held_out_loss": other})


def model(name: str, fit: Callable[[Adaptation], tuple[Probability, float]]) -> Solver:
    """Return a language model beside the converter's score."""

    def solve(data: Adaptation, *_: object) -> Answer:
        found, share = fit(data)
        scores = np.concatenate([scored(part, found, share) for part in (data.train, data.test)])
        return Answer(scores, "heuristic", None, {}, {"share": share})

    return Solver(name, solve)


def discriminative(name: str, train: Callable[[NBest], Trained]) -> Solver:
    """Return a method that learns weights of words and word pairs beside the score of the background."""

    def solve(data: Adaptation, *_: object) -> Answer:
        found, share = baseline(data)
        lists, test = (_based_on(part, scored(part, found, share)) for part in (data.train, data.test))
        trained = train(lists)
        scores = np.concatenate([np.asarray(part.features @ trained.weights) for part in (lists, test)])
        return Answer(scores, "heuristic", None, dict(trained.counters), {"share": share})

    return Solver(name, solve, lambda: train(toy_lists()))


def _sparse(lists: NBest) -> Any:
    return lists.features


def _based_on(lists: NBest, scores: FloatArray) -> NBest:
    """Return the lists with these scores [M] as their first feature."""
    from scipy.sparse import coo_array, hstack

    return lists.changed(features=hstack([coo_array(scores[:, None]), _sparse(lists)[:, 1:]], format="csr"))


SOLVERS = (
    model("background", baseline),
    model("MAP", adapted),
    discriminative("msr", lambda lists: MinimumSampleRisk(kept=300).train(lists)),
    discriminative("boosting", lambda lists: Boosting(rounds=100).train(lists)),
    discriminative("perceptron", lambda lists: Perceptron(passes=5).train(lists)),
)


def _judge_path(data: Halves, answer: Answer) -> Judgement:
    """Decode both halves with each row of the weights [n, D]."""
    own, other = ([decoded_loss(one, row) for row in answer.weights] for one in (data.train, data.test))
    return Judgement(own[-1], own[-1], {"training": own, "held_out": other})


BY_SEARCH = Objective("character errors by line search", _judge_path)
"""Wrong characters of both halves after each line search that changed a weight."""


def curve(kept: int) -> Solver:
    """Return minimum sample risk, feature by feature, from the base feature alone to the end."""

    def solve(data: Halves, *_: object) -> Answer:
        places, weights = _snapshots(data.train, kept)
        return Answer(weights, "heuristic", None, {"line_searches": places[-1]}, {"searches": places})

    return Solver(f"msr, {kept} features", solve, lambda: _snapshots(toy_lists(), kept))


def _snapshots(nbest: NBest, kept: int) -> tuple[list[int], FloatArray]:
    """Return the numbers of line searches after which weights changed, and the weights [n, D]."""
    lists, base = sparse_lists(nbest, None, None)
    search = SparseLineSearch(lists)
    path: list[FloatArray] = []

    def record() -> bool:
        same = bool(path) and np.array_equal(path[-1], search.weights)
        path.append(path[-1] if same else search.weights.copy())
        return False

    best, counters = MinimumSampleRisk(kept=kept).descend(search, record)
    path = [*path[len(path) - counters["line_searches"] :], best]  # one call before each line search
    places = [k for k, row in enumerate(path) if k in (0, len(path) - 1) or row is not path[k - 1]]
    weights = np.array([path[k] for k in places])
    weights[:, base] = 1.0
    return places, weights


CURVES = tuple(map(curve, KEPT))


@cache
def _kinds() -> dict[str, NBest]:
    """Return the sentences by kind."""
    with gzip.open(datasets.shared_path(FOLDER) / "sources.txt.gz", "rt", encoding="utf-8") as file:
        source = [line.strip() for line in file]
    kinds = {"background": (BACKGROUND,), **DOMAINS}
    whole = sparse_conversions()
    return {name: whole.restrict([one.startswith(own) for one in source]) for name, own in kinds.items()}


def domain_fold(domain: str, number: int) -> Dataset:
    """Return all folds of a kind but one to adapt to, and that fold held out."""

    def divided() -> Adaptation:
        kinds = _kinds()
        order = np.arange(kinds[domain].n_lists)
        train, test = (kinds[domain].restrict(order[(order % FOLDS == number) == held]) for held in (False, True))
        return Adaptation(kinds["background"], train, test)

    name = f"ime-kkc, {BACKGROUND} to {domain}, fold {number}"
    return Dataset(name, divided, partial(datasets.missing, FOLDER))


def tasks() -> Iterator[Task]:
    """Yield all kinds with every method, then the learning curves."""
    for domain, number in product(DOMAINS, range(FOLDS)):
        for solver in SOLVERS:
            yield Task(
                domain_fold(domain, number), Objective("character errors", _judge), solver, time_limit=TIME_LIMIT
            )
    for number in range(FOLDS):
        for one in CURVES:
            yield Task(fold(number), BY_SEARCH, one, time_limit=TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield errors by kind of text, the paper's error rates, and errors by line search."""
    body = []
    for solver in SOLVERS:
        cells = []
        for domain in DOMAINS:
            names = [domain_fold(domain, number).name for number in range(FOLDS)]
            mine = [row for name in names for row in find(rows, dataset=name, solver=solver.name)]
            wrong = sum(row.details["held_out_loss"] for row in mine)
            cells.append(f"{wrong:.0f}" if len(mine) == FOLDS else "-")
        if set(cells) != {"-"}:
            body.append([solver.name, *cells])
    note = (
        "Wrong characters, both folds of each kind added up; 163, 89 and 66 sentences, half of them to adapt to. The "
        "background is the converter's score and a bigram model of 382 sentences of manual pages, their mixture chosen "
        "there. MAP: the bigram model of the sentences to adapt to, with the background's as a prior; its mass and the "
        "mixture by cross-validation within. The others learn weights of words and of pairs of words beside the "
        "background. With so few sentences, differences of a few characters mean nothing; the paper has thousands."
    )
    yield Table("Adaptation to other texts (Table 2, in kind)", ("method", *DOMAINS), body, note)
    paper = [[name, *(f"{rate:.2f}%" for rate in rates)] for name, rates in PAPER.items()]
    note = "The paper's own character error rates."
    yield Table("The paper's outcome", ("method", "Yomiuri", "TuneUp", "Encarta", "Shincho"), paper, note)
    if any(find(rows, solver=one.name) for one in CURVES):
        note = (
            "Wrong characters of both folds of all 700 sentences while minimum sample risk searches along one selected "
            "feature after the other. A second round changes nothing here."
        )
        yield Figure("adaptation", "Errors by line search", lambda canvas: _draw(canvas, rows), note, size=(9.0, 3.8))


def by_search(row: Row, side: str, places: Sequence[int]) -> FloatArray:
    """Return the errors of a run after these numbers of line searches."""
    last = np.searchsorted(row.details["searches"], places, side="right") - 1
    return np.array(row.details[side], dtype=np.float64)[last]


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    titles = ("training", "held out")
    for side, axes in zip(titles, panels(canvas, titles, "line searches", "wrong characters", 8), strict=True):
        for place, one in enumerate(CURVES):
            mine = find(rows, solver=one.name)
            if len(mine) == FOLDS:
                most = max(row.counters["line_searches"] for row in mine)
                places = np.unique(np.geomspace(1, most, 200).astype(int)).tolist()
                total = np.sum([by_search(row, side.replace(" ", "_"), places) for row in mine], axis=0)
                axes.step(places, total, where="post", color=f"C{place}", label=one.name)
        axes.set_xscale("log")


BENCHMARK = Benchmark(
    "adaptation",
    "Adaptation of kana-kanji conversion, and learning by line search",
    tasks,
    render,
    source="Gao, Yu, Yuan and Xu, HLT/EMNLP 2005, Table 2 and the learning curves, in kind",
)
