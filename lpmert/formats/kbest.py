"""The best paths of a word graph that differ in their words, in exact order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

Trace = tuple["Trace", int] | None
"""The arcs of a path from the last to the first, each with those before it."""


Word = str | int
"""A word, or its number."""


class Arc(NamedTuple):
    """An arc from node `source` to node `target`, a larger number; without a word it leaves no mark."""

    source: int
    target: int
    word: Word | None
    score: float


@dataclass(frozen=True)
class Path:
    """The words of a path and the indices of its arcs."""

    words: tuple[Word, ...]
    arcs: tuple[int, ...]


def distinct_best(arcs: Sequence[Arc], start: int, end: int, n: int) -> list[Path]:
    """Return the n best paths from one node to another with different words, the best first.

    Of the paths with the same words the best stands for all; its score is the sum of its arcs' scores, in exact
    arithmetic, higher is better. There are fewer than n if the graph has no more word sequences, and none if it has no
    path. Takes time in proportion to the number of words of the result times the arcs that can follow them, however
    many paths have the same words.

    An A* search over word sequences: each stands for all paths that begin with it, its priority is the score of the
    best of them, known exactly from the best completions of all nodes. (The lattice is made deterministic, but only
    where the search gets to: M. Mohri and M. Riley, An efficient algorithm for the n-best-strings problem, ICSLP 2002.)
    """
    scores = _integers([arc.score for arc in arcs])
    best_rest = _best_completions(arcs, scores, end)
    leaving: dict[int, list[int]] = {node: [] for node in best_rest}
    for index, arc in enumerate(arcs):
        if arc.target in best_rest:
            leaving[arc.source].append(index)

    def priority(reached: _Reached) -> int:
        return max(score + best_rest[node] for node, (score, _) in reached.items())

    found: list[Path] = []
    newest_first = count(0, -1)  # of equal priorities the longest goes on, which keeps the search narrow
    queue: list[tuple[int, int, tuple[Word, ...], _Reached | Trace]] = []
    if start in best_rest:
        queue.append((-best_rest[start], next(newest_first), (), {start: (0, None)}))
    while queue and len(found) < n:
        _, _, words, state = heappop(queue)
        if not isinstance(state, dict):
            found.append(Path(words, _arcs_of(state)))
            continue
        silent, spoken = _follow(state, arcs, scores, leaving)
        for word, reached in spoken.items():
            heappush(queue, (-priority(reached), next(newest_first), (*words, word), reached))
        if end in silent:
            score, trace = silent[end]
            heappush(queue, (-score, next(newest_first), words, trace))
    return found


_Reached = dict[int, tuple[int, Trace]]
"""By node, the best score with which paths of the same words reach it, and the best of these paths."""


def _follow(
    reached: _Reached, arcs: Sequence[Arc], scores: Sequence[int], leaving: Mapping[int, Sequence[int]]
) -> tuple[_Reached, dict[Word, _Reached]]:
    """Return the nodes that arcs without words lead to, the given ones included, and those one word further."""
    silent = dict(reached)
    spoken: dict[Word, _Reached] = {}
    waiting = sorted(reached)
    while waiting:  # by number, so that every node is final when its turn comes
        node = heappop(waiting)
        before, trace = silent[node]
        for index in leaving[node]:
            _, target, word, _ = arcs[index]
            score = before + scores[index]
            if word is None:
                table = silent
                if target not in silent:
                    heappush(waiting, target)
            else:
                table = spoken.setdefault(word, {})
            known = table.get(target)
            if known is None or score > known[0]:
                table[target] = score, (trace, index)
    return silent, spoken


def _best_completions(arcs: Sequence[Arc], scores: Sequence[int], end: int) -> dict[int, int]:
    """Return for each node from which there is a path to the end the score of the best one."""
    best = {end: 0}
    for index in sorted(range(len(arcs)), key=lambda index: arcs[index].source, reverse=True):
        source, target, _, _ = arcs[index]
        if target in best:
            score = scores[index] + best[target]
            best[source] = max(score, best.get(source, score))
    return best


def _integers(numbers: Sequence[float]) -> list[int]:
    """Return the numbers as whole multiples of a power of two, so that their sums and differences are exact."""
    ratios = [number.as_integer_ratio() for number in numbers]
    unit = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (unit // denominator) for numerator, denominator in ratios]


def _arcs_of(trace: Trace) -> tuple[int, ...]:
    indices = []
    while trace is not None:
        trace, index = trace
        indices.append(index)
    return tuple(reversed(indices))
