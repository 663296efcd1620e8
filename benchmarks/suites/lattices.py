"""All paths of lattices: proofs, their growth with links, lists and features, and what tuning on n-best lists loses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np

import lpmert
from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Objective, Solver, Task
from benchmarks.lists import answer_of, of_problem, solved, warm_up
from benchmarks.rows import Row, find
from benchmarks.tables import Table, mebibytes, number, seconds
from lpmert.formats.lattices import load_lattices, n_best
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Och
from lpmert.model.graphs import Lattices
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.region import Region
from lpmert.search.method import Method

TIME_LIMIT = 120.0
_FOLDER = "asr-lattices"
_FILLERS = ("<sil>", "[NOISE]", "[SPEECH]")
N_LATTICES = 100
DECODER = {"acoustic": 1.0, "lm": 9.5, "words": -0.63}
"""Weights of the recogniser, with which it makes lists of the best hypotheses."""

UNTUNED = {"acoustic": 1.0, "lm": 3.0, "words": 0.0}  # weights with which lists may be made before any tuning

_BOX = {"lm": (3.0, 20.0), "words": (-12.0, 12.0)}
NARROW = Region(fixed={"acoustic": 1.0}, bounds=_BOX)
FILLERS = Region(fixed={"acoustic": 1.0}, bounds={**_BOX, "fillers": (-40.0, 10.0)})
WIDE = Region(bounds={"acoustic": (0.0, None)})
OPTIMUM = 386.0  # word errors of all 100 lattices within `NARROW`; for 60 of them, 228

BEAMS = (50.0, 100.0, 200.0, 400.0, 1600.0)
LISTS = (12, 25, 50)
SIZES = (1, 10, 100, 1000)


def speech(*, fillers: bool = False, lists: int = N_LATTICES, beam: float | None = None) -> Dataset:
    """Return the first lattices of a speech recogniser; beam: only links of paths within it of the best path."""
    name = f"{_FOLDER}-{lists}" + ("-fillers" if fillers else "") + ("" if beam is None else f"-beam{beam:g}")
    return Dataset(name, partial(_speech, fillers, lists, beam), partial(datasets.missing, _FOLDER))


def generated(n_features: int) -> Dataset:
    """Return 40 lattices of 30 places with 6 links each and skips; the first feature explains part of the errors.

    Integer arithmetic makes all numbers from the raw bits of a generator, so that they are the same everywhere.
    """
    return Dataset(f"generated-S40-L240-D{n_features}", partial(_generated, n_features))


@cache
def _all(fillers: bool) -> Lattices:
    folder = datasets.shared_path(_FOLDER)
    counts = {"fillers": _FILLERS} if fillers else None
    found = load_lattices(
        folder / "lattices.tar.xz", folder / "references.tsv.gz", silent=_FILLERS, counts=counts, variants=True
    )
    if not isinstance(found, Lattices):
        raise TypeError("these are hypergraphs")
    return found


def _speech(fillers: bool, lists: int, beam: float | None) -> Lattices:
    whole = _all(fillers)
    if beam is None:
        return whole.restrict(slice(0, lists))
    weights = np.array([DECODER.get(name, 0.0) for name in whole.names])
    near_best = []
    for place in range(lists):
        graph = whole.graph(place)
        through = graph.links().best_through(graph.features @ weights)
        near_best.append(through >= through.max() - beam)
    chosen = np.flatnonzero(np.concatenate(near_best))
    return Lattices(
        whole.features[chosen],
        np.searchsorted(chosen, whole.offsets[: lists + 1]),
        whole.sources[chosen],
        whole.targets[chosen],
        whole.words[chosen],
        whole.references[:lists],
        vocabulary=whole.vocabulary,
        starts=np.zeros(lists, dtype=np.int64),
        ends=whole.n_nodes[:lists] - 1,
        names=whole.names,
        list_ids=whole.list_ids[:lists],
    )


def _generated(n_features: int) -> Lattices:
    n_lists, places, width = 40, 30, 6
    bits = np.random.PCG64(1)
    raw = (bits.random_raw(n_lists * places * (width + 2) * (n_features + 2)) >> np.uint64(44)).astype(np.int64)
    draws = raw.reshape(n_lists, places, width + 2, n_features + 2)
    features, sources, targets, words, offsets, references = [], [], [], [], [0], []
    for one in draws:
        spoken = one[:, 0, n_features] % 5
        for place in range(places):
            for link in range(width + (place + 2 <= places)):
                skips = link == width
                word = int(spoken[place] if link == 0 else one[place, link, n_features] % 9)
                row = (one[place, link, :n_features] - 2**19) / 2.0**18
                row[0] += 1.0 if word == spoken[place] else 0.0
                features.append(row)
                sources.append(place)
                targets.append(place + (2 if skips else 1))
                words.append(-1 if skips else word)
        offsets.append(len(features))
        references.append(" ".join(f"w{word}" for word in spoken.tolist()))
    vocabulary = [f"w{word}" for word in range(9)]
    return Lattices(np.array(features), offsets, sources, targets, np.array(words), references, vocabulary=vocabulary)


def box(n_features: int) -> Region:
    """Return the region of the generated lattices: the first weight 1, the others between -1 and 1."""
    names = [f"feature{number}" for number in range(2, n_features + 1)]
    return Region(fixed={"feature1": 1.0}, bounds=dict.fromkeys(names, (-1.0, 1.0)))


def all_paths(region: Region, label: str) -> Objective:
    """Return the word errors of the best paths of lattices, within a region; label: the region's name."""
    whole = of_problem(f"wer, {label}", lambda data: LatticeProblem(data, "wer", region))

    def judge(data: Lattices, answer: Answer) -> Judgement:
        found = whole.judge(data, answer)
        sizes = {"links": data.n_links, "log10_paths": float(data.log10_paths.max())}
        return found._replace(details={**sizes, **found.details})

    return replace(whole, judge=judge, prepare=lambda data: data.log10_paths)


def on_paths(method: Method) -> Solver:
    """Return a method on all paths."""
    return Solver(method.settings(), partial(solved, method), partial(_warm_up, method))


def on_lists(n: int, region: Region, *, tuned: bool) -> Solver:
    """Return the optimum of lists of the n best hypotheses, made with the recogniser's weights or with untuned ones."""

    def solve(data: Lattices, _: Objective, seed: int, time_limit: float) -> Answer:
        started = time.process_time()
        lists = n_best(data, DECODER if tuned else UNTUNED, n=n)
        made = time.process_time() - started
        result = lpmert.minimize(lists, region=region, time_limit=time_limit, seed=seed)
        answer = answer_of(result)
        details = {"list_loss": result.loss, "hypotheses": lists.n_hypotheses, "making": made}
        return replace(answer, status=f"lists: {answer.status}", lower_bound=None, details=details)

    return Solver(f"{n} best" + ("" if tuned else ", untuned"), solve, lambda: warm_up(Auto()))


@cache
def _warm_up(method: Method) -> None:
    """Let a method solve toy lattices, once a process."""
    for n_features in (3, 4):
        toy = generated(n_features).load().restrict(slice(0, 3))
        lpmert.minimize(toy, metric="wer", method=method, region=box(n_features), time_limit=2.0)


def tasks() -> Iterator[Task]:
    """Yield proofs of all lattices, then of fewer and smaller ones, then lists of the best paths."""
    proof = on_paths(Auto())
    narrow, wide, more = all_paths(NARROW, "narrow"), all_paths(WIDE, "wide"), all_paths(FILLERS, "narrow")
    task = partial(Task, time_limit=TIME_LIMIT)
    yield task(speech(), narrow, proof, optimum=OPTIMUM, proof=True)
    yield task(speech(), wide, proof)
    yield task(speech(fillers=True), more, proof)
    for method in (Och(restarts=0), Och(restarts=3)):
        yield task(speech(), narrow, on_paths(method), optimum=OPTIMUM)
    for lists in LISTS:
        yield task(speech(lists=lists), narrow, proof)
    for beam in BEAMS:
        yield task(speech(beam=beam), narrow, proof)
    for n_features in (2, 3, 4, 5):
        yield task(generated(n_features), all_paths(box(n_features), "box"), proof)
    for tuned in (True, False):
        for n in SIZES:
            yield task(speech(), narrow, on_lists(n, NARROW, tuned=tuned), optimum=OPTIMUM)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield the tables of proofs, of growth, and of lists."""
    on_paths = [row for row in rows if " best" not in row.solver]
    headings = ("lattices", "region", "solver", "links", "paths", "status", "errors", "bound", "nodes", "survivors")
    parts: tuple[tuple[str, Callable[[Row], bool]], ...] = (
        ("All paths of the lattices of a speech recogniser", lambda row: row.dataset in _WHOLE),
        ("Fewer lattices, and fewer links in each", lambda row: row.dataset.startswith(_FOLDER)),
        ("Generated lattices with more features", lambda row: row.dataset.startswith("generated")),
    )
    shown: set[tuple[str, str, str, int]] = set()
    for title, wanted in parts:
        chosen = [row for row in on_paths if wanted(row) and row.key not in shown]
        shown |= {row.key for row in chosen}
        if chosen:
            yield Table(title, (*headings, "seconds", "MiB"), [*map(_line, chosen)], _NOTE, left=3)
    yield from _of_lists(rows)


_WHOLE = (f"{_FOLDER}-{N_LATTICES}", f"{_FOLDER}-{N_LATTICES}-fillers")
_NOTE = (
    "narrow: acoustic = 1, lm 3 to 20, words -12 to 12, fillers -40 to 10; wide: all weights with acoustic >= 0; box: "
    "the first weight 1, the others -1 to 1. paths: of the lattice with the most. survivors: hypotheses that may win "
    "in a cone that was searched. seconds: of the processor, after loading. beam: links on paths within so much of "
    "the best one."
)


def _line(row: Row) -> list[str]:
    region = row.objective.removeprefix("wer, ")
    paths = row.details.get("log10_paths")
    return [
        row.dataset,
        region,
        row.solver,
        number(row.details.get("links")),
        "-" if paths is None else f"10^{paths:.0f}",
        row.status.replace("_", " "),
        number(row.loss),
        number(row.lower_bound),
        number(row.counters.get("nodes")),
        number(row.counters.get("survivors")),
        seconds(row.processor_seconds),
        mebibytes(row.peak_bytes),
    ]


def _of_lists(rows: list[Row]) -> Iterator[Table]:
    """Yield what weights that are optimal on lists of N hypotheses lose on all paths."""
    body = [
        [
            row.solver,
            number(row.details.get("hypotheses")),
            number(row.details.get("list_loss")),
            number(row.loss),
            seconds(row.processor_seconds),
        ]
        for row in rows
        if " best" in row.solver
    ]
    proofs = find(rows, dataset=_WHOLE[0], objective="wer, narrow", solver=Auto().settings())
    if not body:
        return
    for row in proofs:
        body.append(["all paths", "-", "-", number(row.loss), seconds(row.processor_seconds)])
    headings = ("tuned on", "hypotheses", "errors on the lists", "errors on all paths", "seconds")
    note = (
        "The lists hold the best hypotheses with different words at acoustic = 1, lm = 9.5, words = -0.63, the weights "
        "of the recogniser, or untuned ones, 1, 3, 0, and are tuned to their proved optimum, within the narrow region. "
        "seconds: of the processor, with making the lists."
    )
    yield Table("What tuning on lists of the same lattices loses", headings, body, note)


BENCHMARK = Benchmark("lattices", "All paths of lattices", tasks, render)
