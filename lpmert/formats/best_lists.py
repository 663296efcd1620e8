"""N-best lists of lattices and hypergraphs: their best hypotheses with different words, in exact order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.converters import measure_texts
from lpmert.model.graphs import SILENT, Graph, Hypergraphs, Texts, WordGraphs
from lpmert.model.lattice_problem import exact_scores
from lpmert.model.nbest import NBest
from lpmert.numeric.rounding import EPSILON
from lpmert.quoting import quoted
from lpmert.values import weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.values import Weights

MOST_HYPOTHESES = 100_000
"""Of one lattice: so many take up to half a minute and 3 GB, and a billion would never end."""


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
class BestPath:
    """The words of a path and the indices of its arcs."""

    words: tuple[Word, ...]
    arcs: tuple[int, ...]


def distinct_best(arcs: Sequence[Arc], start: int, end: int, n: int) -> list[BestPath]:
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

    found: list[BestPath] = []
    newest_first = count(0, -1)  # of equal priorities the longest goes on, which keeps the search narrow
    queue: list[tuple[int, int, tuple[Word, ...], _Reached | Trace]] = []
    if start in best_rest:
        queue.append((-best_rest[start], next(newest_first), (), {start: (0, None)}))
    while queue and len(found) < n:
        _, _, words, state = heappop(queue)
        if not isinstance(state, dict):
            found.append(BestPath(words, _arcs_of(state)))
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


class Derivation(NamedTuple):
    """The texts of a derivation, its links from the root on, those of the source first, and its score."""

    texts: Texts
    way: tuple[int, ...]
    score: int


class _Choice(NamedTuple):
    """A link, and which derivations of its source and its second one, by their ranks."""

    link: int
    first: int
    second: int


@dataclass
class _Node:
    """What is known of a node: its best derivations, candidates for the next one, and choices that may become some."""

    waiting: list[_Choice] = field(default_factory=list)
    heap: list[tuple[int, tuple[int, ...], Texts, _Choice]] = field(default_factory=list)
    seen: set[_Choice] = field(default_factory=set)
    said: set[Texts] = field(default_factory=set)
    best: list[Derivation] = field(default_factory=list)
    complete: bool = False


def distinct_derivations(
    links: Sequence[tuple[int, int, int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
    goal: int,
    n: int,
) -> list[Derivation]:
    """Return the n best derivations of a node with different texts, or as many as there are, the best first.

    links: source, second and target each, nodes whose number grows, 0 for none. say(link, texts): what a link makes of
    the texts of its tails. Of derivations with the same text the best one stands for all; of equal scores that comes
    first whose links do, from the root on.

    Every node ranks its own derivations, as far as others ask for them; of those with the same text only the best is
    part of a best one. Source: L. Huang and D. Chiang, Better k-best parsing, IWPT 2005, algorithm 3.
    """
    nodes: dict[int, _Node] = {}
    for link, (_, _, target) in enumerate(links):
        nodes.setdefault(target, _Node()).waiting.append(_Choice(link, 0, 0))
    asked = [(goal, rank) for rank in range(n - 1, -1, -1)]
    while asked:
        number, rank = asked[-1]
        node = nodes.get(number)
        if node is None or node.complete or len(node.best) > rank:
            asked.pop()
            continue
        unknown = _weigh(node, nodes, links, scores, say)
        if unknown is not None:
            asked.append(unknown)
        elif node.heap:
            _take_best(node, links)
        else:
            node.complete = True
    return nodes[goal].best if goal in nodes else []


def _weigh(
    node: _Node,
    nodes: dict[int, _Node],
    links: Sequence[tuple[int, int, int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
) -> tuple[int, int] | None:
    """Make candidates of all choices that wait; return a node and a rank that have to be known before."""
    while node.waiting:
        choice = node.waiting[-1]
        tails = []
        for number, rank in zip(links[choice.link], choice[1:], strict=False):
            if number == 0:
                continue
            below = nodes.get(number)
            if below is not None and len(below.best) > rank:
                tails.append(below.best[rank])
            elif below is None or below.complete:
                break  # there is no such derivation
            else:
                return number, rank
        else:
            score = scores[choice.link] + sum(tail.score for tail in tails)
            way = (choice.link, *(link for tail in tails for link in tail.way))
            texts = say(choice.link, tuple(text for tail in tails for text in tail.texts))
            heappush(node.heap, (-score, way, texts, choice))
        node.waiting.pop()
    return None


def _take_best(node: _Node, links: Sequence[tuple[int, int, int]]) -> None:
    """Move the best candidate to the derivations, if its text is new, and let those next to it wait."""
    cost, way, texts, choice = heappop(node.heap)
    if texts not in node.said:
        node.said.add(texts)
        node.best.append(Derivation(texts, way, -cost))
    source, second, _ = links[choice.link]
    nexts = [choice._replace(first=choice.first + 1)] if source else []
    nexts += [choice._replace(second=choice.second + 1)] if second else []
    node.waiting += [new for new in nexts if new not in node.seen]
    node.seen.update(nexts)


_FEWEST_LINKS, _LINKS, _MORE = 200, 4, 4
"""How many links of a lattice are looked at first, how many more for each hypothesis, and times how many more later."""


def n_best(
    lattices: WordGraphs, weights: Weights | str | Path, *, n: int = 100, metric: str | TextMetric = "wer"
) -> NBest:
    """Return the best hypotheses of each lattice, with different words, as N-best lists.

    Parameters
    ----------
    lattices : Lattices or Hypergraphs
        The lattices, whose hypotheses are paths, or hypergraphs, whose hypotheses are derivations.
    weights : mapping or sequence of numbers, Result, str or Path
        What the order depends on: one number for each feature, by name or in order, or a file of weights.
    n : int
        Most hypotheses of a list; at most 100,000.
    metric : str or TextMetric
        What is counted against the references: "wer", "cer", "ter", "bleu", ..., or its settings.

    Returns
    -------
    NBest
        The lists, the best hypothesis first. Of the paths with the same words the best one gives the features. Sums
        and comparisons are exact. Of derivations with equal scores the first comes first; see `Hypergraphs`.

    Raises
    ------
    DataError, MetricError
        Where an argument cannot be used.

    Notes
    -----
    The search is that of Mohri and Riley, An efficient algorithm for the n-best-strings problem, ICSLP 2002, and for
    hypergraphs the third algorithm of Huang and Chiang, Better k-best parsing, IWPT 2005.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.Lattices([[1], [2]], [0, 2], [0, 0], [1, 1], ["a", "an"], ["an"], names=["lm"])
    >>> lpmert.n_best(lattices, {"lm": 1}).texts
    ('an', 'a')
    """
    from lpmert.formats.weights import given_weights

    if not isinstance(lattices, WordGraphs):
        raise DataError(
            f"lists are made of Lattices or Hypergraphs, see lpmert.load_lattices, and not of {type(lattices).__name__}"
        )
    given = weights_array(given_weights(weights, "weights"), lattices.names)
    return best_lists(lattices, [given] * lattices.n_lists, whole_number(n, "n", 1), metric)


def best_lists(lattices: WordGraphs, weights: Sequence[FloatArray], n: int, metric: str | TextMetric) -> NBest:
    """Return the lists of n hypotheses of each lattice by weights [S][D] of its own; `DataError` for too many."""
    if n > MOST_HYPOTHESES:
        raise DataError(
            f"lists of {n:,} hypotheses of each lattice are too many; make them of at most {MOST_HYPOTHESES:,}, or "
            "search all paths, which takes no lists: auto or cells, without n_best (--n-best)"
        )
    features: list[FloatArray] = []
    texts: list[str] = []
    offsets = [0]
    for number in range(lattices.n_lists):
        for words, row in _best(lattices, number, weights[number], n):
            if np.abs(row).max() > MAGNITUDE_LIMIT:
                raise DataError(
                    f"lattice {quoted(lattices.list_ids[number])}: the scores of a path add up beyond "
                    f"{MAGNITUDE_LIMIT:g}; rescale them"
                )
            features.append(row)
            texts.append(lattices.text(words))
        offsets.append(len(texts))
    lists = NBest(np.array(features), offsets, np.zeros(len(texts)), lattices.names, lattices.list_ids, texts=texts)
    return measure_texts(lists, lattices.references, metric)[0]


def _best(lattices: WordGraphs, number: int, weights: FloatArray, n: int) -> list[tuple[tuple[int, ...], FloatArray]]:
    """Return the words, by number, and the features [D] of the n best hypotheses of a lattice.

    Links that are on no good path are left out at first. That loses nothing as long as the last hypothesis found is
    better, beyond rounding, than whatever goes through these links; otherwise more links are taken.
    """
    graph, units = lattices.graph(number), lattices.units
    through = graph.links().best_through(graph.features @ weights)
    size = float((np.abs(graph.features) @ np.abs(weights)).max()) * graph.most_links
    slack = 8.0 * (graph.most_links + len(weights) + 4) * EPSILON * size
    count = _FEWEST_LINKS + _LINKS * n
    while True:
        every = count >= len(through) or not np.isfinite(slack)
        floor = -np.inf if every else float(np.partition(through, -count)[-count])
        links = np.arange(len(through)) if every else np.flatnonzero(through >= floor)
        exact = exact_scores(graph.features[links] / units, weights, units)
        found = _distinct(lattices, number, graph, links, exact, n)
        rows = [graph.features[links[list(way)]].sum(axis=0) for _, way in found]
        if every or (len(found) == n and float(rows[-1] @ weights) > floor + slack):
            return [(words, row) for (words, _), row in zip(found, rows, strict=True)]
        count *= _MORE


def _distinct(
    lattices: WordGraphs, number: int, graph: Graph, links: IntArray, scores: list[int], n: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return words and links, by their places in `links`, of the n best hypotheses of a lattice that use only these."""
    ends = [ends[links].tolist() for ends in (graph.sources, graph.seconds, graph.targets)]
    goal = graph.n_nodes - 1
    if isinstance(lattices, Hypergraphs):
        own = (int(lattices.offsets[number]) + links).tolist()
        derivations = distinct_derivations(
            list(zip(*ends, strict=True)), scores, lambda link, texts: lattices.say(own[link], texts), goal, n
        )
        return [(one.texts[0], one.way) for one in derivations]
    names = [None if word == SILENT else word for word in graph.words[links].tolist()]
    paths = distinct_best([*map(Arc, ends[0], ends[2], names, scores)], 0, goal, n)
    return [(tuple(map(int, path.words)), path.arcs) for path in paths]
