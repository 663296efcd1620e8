"""N-best lists from word lattices: the paths that differ in their words, best first, and what they score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.kbest import Arc, distinct_best
from lpmert.formats.slf import SCORE_NAMES, WORDS, Lattice, Link, Scores, read_lattice
from lpmert.formats.utterances import References, measured, utterance_files
from lpmert.model.nbest import MAGNITUDE_LIMIT, NBest
from lpmert.quoting import listed, quoted

SILENT = frozenset({"!NULL", "<eps>", "<s>", "</s>", "!SENT_START", "!SENT_END"})
"""Words of a lattice that are no words of the hypothesis."""

_UNSCALED = dict.fromkeys(("acoustic", "lm", "ngram", "pronunciation"), 1.0)

Counts = Mapping[str, Iterable[str]]


def read_lattices(
    source: str | Path,
    references: References,
    *,
    n_best: int = 100,
    scales: Scores | None = None,
    counts: Counts | None = None,
    metric: str = "wer",
    partial: bool = False,
) -> NBest:
    """Read lattices in HTK's SLF, one file an utterance, and return their N-best lists.

    `source`, `references`, `metric` and `partial` are those of `read_srilm`. The features are the scores that the
    lattices hold (acoustic, lm, ngram, pronunciation, duration, x1, ..., x9; natural logarithms), `words`, and one for
    each name in `counts`: how many of these words (silences, fillers) the hypothesis holds; they are left out of its
    text, like !NULL, <eps> and the sentence marks, and not counted as words. A list has the `n_best` best hypotheses
    with different words by the sum of features times `scales`; without a scale there, the one in the header of the
    lattice counts, as in HTK and SRILM, and without that 1 for the first four scores and 0 for the others. The scores
    of a hypothesis are those of its best path. Raises `DataError` with file and, where there is one, line.
    """
    if n_best < 1:
        raise DataError(f"n_best is {n_best}; a list needs at least one hypothesis")
    lattices = [(utterance, path, read_lattice(path)) for utterance, path in utterance_files(source)]
    present = {name for _, _, lattice in lattices for name in lattice.score_names}
    names = [*(name for name in SCORE_NAMES if name in present), WORDS, *(counts or {})]
    for name in scales or {}:
        if name not in names:
            raise DataError(f"scales has {quoted(name)}; the features are {listed(names)}", path=source)
    if len(set(names)) < len(names):
        raise DataError(f"counts has a name that is a feature already: {listed(names)}", path=source)
    features: list[list[float]] = []
    texts: dict[str, list[str]] = {}
    for utterance, path, lattice in lattices:
        for name in sorted(present - set(lattice.score_names)):
            if lattice.links:
                raise DataError(
                    f"no {name} scores, which other lattices have; add them, or read this lattice separately", path=path
                )
        hypotheses = best_hypotheses(lattice, n_best, scales=scales, counts=counts, path=path)
        features += [[hypothesis.features[name] for name in names] for hypothesis in hypotheses]
        texts[utterance] = [" ".join(hypothesis.words) for hypothesis in hypotheses]
    return measured(features, names, texts, references, metric, partial)


@dataclass(frozen=True)
class Hypothesis:
    """The words of a path through a lattice, and its features by name: scores, words and counts; missing ones are 0."""

    words: tuple[str, ...]
    features: Mapping[str, float]


def best_hypotheses(
    lattice: Lattice,
    n: int,
    *,
    scales: Scores | None = None,
    counts: Counts | None = None,
    path: str | Path | None = None,
) -> list[Hypothesis]:
    """Return the n hypotheses with the highest scores that differ in their words, the best first.

    Arguments as in `read_lattices`; `path` is named in errors. Each link's score is a sum in double precision, paths
    are compared by exact sums of these. Raises `DataError` if the lattice has a cycle or no path.
    """
    factors = {**_UNSCALED, **lattice.scales, **(scales or {})}
    counted = counted_words(counts or {})
    arcs: list[tuple[Arc, Scores]] = []
    start, end, steps = _steps(lattice, path)
    for step in steps:
        word = None if step.word is None or step.word in counted or step.word in SILENT else step.word
        features = dict(step.scores)
        if word is not None:
            features[WORDS] = 1.0
        elif step.word in counted:
            features[counted[step.word]] = 1.0
        score = sum(factors.get(name, 0.0) * value for name, value in features.items())
        if not math.isfinite(score):
            raise DataError("the scores times their scales are beyond double precision", path=path, line=step.line)
        arcs.append((Arc(step.source, step.target, word, score), features))
    best = distinct_best([arc for arc, _ in arcs], start, end, n)
    if not best:
        line = lattice.nodes[lattice.end].line
        raise DataError(f"no path from node {lattice.start} to node {lattice.end}", path=path, line=line)
    names = {name for _, features in arcs for name in features} | set(counted.values()) | set(SCORE_NAMES) | {WORDS}
    found = []
    for way in best:
        taken = [arcs[index][1] for index in way.arcs]
        sums = {name: math.fsum(features.get(name, 0.0) for features in taken) for name in names}
        if max(map(abs, sums.values())) > MAGNITUDE_LIMIT:
            raise DataError(f"the scores of a path add up beyond {MAGNITUDE_LIMIT:g}; rescale them", path=path)
        found.append(Hypothesis(way.words, sums))
    return found


def counted_words(counts: Counts) -> dict[str, str]:
    """Return the name under which each word is counted; raises `DataError` for a word under two names."""
    counted: dict[str, str] = {}
    for name, words in counts.items():
        if isinstance(words, str):
            raise DataError(f"counts[{quoted(name)}] must be a sequence of words, not the one string {quoted(words)}")
        for word in words:
            if counted.setdefault(word, name) != name:
                raise DataError(
                    f"counts has {quoted(word)} under {quoted(counted[word])} and {quoted(name)}; choose one"
                )
    return counted


@dataclass(frozen=True)
class _Step:
    """A link with nodes numbered so that it leads to a larger number."""

    source: int
    target: int
    word: str | None
    scores: Scores
    line: int | None


def _steps(lattice: Lattice, path: str | Path | None) -> tuple[int, int, list[_Step]]:
    """Return the first node, the last node and the links.

    One more link stands for the word of the first node, or of the last one if links have the words before them.
    """
    rank = _ranks(lattice, path)
    inner = [(rank[link.start], rank[link.end], link) for link in lattice.links]
    start, end = rank[lattice.start], rank[lattice.end]
    if lattice.forward:
        outer = (-1, start, Link(lattice.start, lattice.start))
    else:
        outer = (end, len(rank), Link(lattice.end, lattice.end))
    steps = []
    for source, target, link in [outer, *inner]:
        node = lattice.nodes[link.end if lattice.forward else link.start]
        word = node.word if link.word is None else link.word
        line = node.line if link.line is None else link.line
        steps.append(_Step(source, target, word, {**node.scores, **link.scores}, line))
    return (-1, end, steps) if lattice.forward else (start, len(rank), steps)


def _ranks(lattice: Lattice, path: str | Path | None) -> dict[int, int]:
    """Return numbers for the nodes such that links lead to larger ones."""
    before: dict[int, set[int]] = {node: set() for node in range(len(lattice.nodes))}
    for link in lattice.links:
        before[link.end].add(link.start)
    try:
        return {node: number for number, node in enumerate(TopologicalSorter(before).static_order())}
    except CycleError as error:
        cycle = error.args[1]
        line = next(link.line for link in lattice.links if [link.start, link.end] == cycle[:2])
        trouble = f"the links make a cycle: {' -> '.join(map(str, cycle))}; a lattice has none"
        raise DataError(trouble, path=path, line=line) from error


SLF = Format("HTK lattices, one utterance a file", read_lattices)
