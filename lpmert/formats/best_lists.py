"""N-best lists of lattices and hypergraphs: their best hypotheses with different words, in exact order.

Source: L. Huang and D. Chiang, Better k-best parsing, IWPT 2005, algorithm 3; a path of a lattice is a derivation whose
links have one tail each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.formats.format import Pool
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.converters import measure_texts
from lpmert.model.graphs import Texts, WordGraphs
from lpmert.model.lattice_problem import exact_scores
from lpmert.model.nbest import NBest
from lpmert.numeric.rational import EPSILON
from lpmert.quoting import quoted
from lpmert.system.deadline import checkpoint, limited
from lpmert.values import checked_limits, weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.values import Weights


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
    links: Sequence[Sequence[int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
    goal: int,
    n: int,
) -> list[Derivation]:
    """Return the n best derivations of a node with different texts, or as many as there are, the best first.

    links: source, second and target each, nodes whose number grows, 0 for none, and the link's name for
    say(name, texts), which makes a text of those of its tails. Of derivations with the same text the best one stands
    for all; of equal scores that comes first whose links do, from the root on.

    Nodes rank their derivations lazily; of those with the same text, only the best can be part of a best one.
    """
    nodes: defaultdict[int, _Node] = defaultdict(_Node)
    for link, (_, _, target, _) in enumerate(links):
        nodes[target].waiting.append(_Choice(link, 0, 0))
    for rank in range(n):
        wanted = [(goal, rank)]
        while wanted:
            checkpoint()
            number, own = wanted[-1]
            node = nodes[number]
            if node.complete or len(node.best) > own:
                wanted.pop()
                continue
            unknown = _weigh(node, nodes, links, scores, say)
            if unknown is not None:
                wanted.append(unknown)
            elif node.heap:
                _take_best(node, links)
            else:
                node.complete = True
        if nodes[goal].complete:
            break
    return nodes[goal].best


def _weigh(
    node: _Node,
    nodes: Mapping[int, _Node],
    links: Sequence[Sequence[int]],
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
            below = nodes[number]
            if len(below.best) > rank:
                tails.append(below.best[rank])
            elif below.complete:
                break  # there is no such derivation
            else:
                return number, rank
        else:
            score = scores[choice.link] + sum(tail.score for tail in tails)
            way = (choice.link, *(link for tail in tails for link in tail.way))
            texts = say(links[choice.link][3], tuple(text for tail in tails for text in tail.texts))
            heappush(node.heap, (-score, way, texts, choice))
        node.waiting.pop()
    return None


def _take_best(node: _Node, links: Sequence[Sequence[int]]) -> None:
    """Move the best candidate to the derivations, if its text is new, and let those next to it wait."""
    cost, way, texts, choice = heappop(node.heap)
    if texts not in node.said:
        node.said.add(texts)
        node.best.append(Derivation(texts, way, -cost))
    source, second, *_ = links[choice.link]
    nexts = [choice._replace(first=choice.first + 1)] if source else []
    nexts += [choice._replace(second=choice.second + 1)] if second else []
    node.waiting += [new for new in nexts if new not in node.seen]
    node.seen.update(nexts)


_FEWEST_LINKS, _LINKS, _MORE = 200, 4, 4
"""Links of a lattice in the first round, further ones for each hypothesis, and the factor for later rounds."""


def n_best(
    lattices: WordGraphs,
    weights: Weights | str | Path,
    *,
    n: int = 100,
    metric: str | TextMetric = "wer",
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> NBest:
    """Return the best hypotheses of each lattice, with different words, as N-best lists.

    Parameters
    ----------
    lattices : Lattices or Hypergraphs
        The lattices, whose hypotheses are paths, or hypergraphs, whose hypotheses are derivations.
    weights : mapping or sequence of numbers, Result, str or Path
        Weights that order the hypotheses: one number for each feature, by name or in order, or a file of weights.
    n : int
        Most hypotheses of a list.
    metric : str or TextMetric
        What is counted against the references: "wer", "cer", "ter", "bleu", ..., or its settings.
    time_limit : float, optional
        Seconds.
    memory_limit : int, optional
        Bytes that the process may hold, as for `minimize`.

    Returns
    -------
    NBest
        The lists, the best hypothesis first. Of the paths with the same words the best one gives the features. Sums
        and comparisons are exact. Of hypotheses with equal scores the first comes first; see `Hypergraphs`.

    Raises
    ------
    DataError, MetricError
        Where an argument cannot be used.
    LimitError
        If a limit came before the lists were made.

    Notes
    -----
    The search is the third algorithm of Huang and Chiang, Better k-best parsing, IWPT 2005.

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
    checked_limits(time_limit, None, None, None, memory_limit)
    given = weights_array(given_weights(weights, "weights"), lattices.names)
    own = [given] * lattices.n_lists
    with limited(time_limit, memory_limit, lambda why: f"no lists of {n:,} hypotheses each: {why}"):
        return measure_texts(best_lists(lattices, own, whole_number(n, "n", 1)), lattices.references, metric)[0]


def best_lists(lattices: WordGraphs, weights: Sequence[FloatArray], n: int) -> NBest:
    """Return lists of n hypotheses of each lattice by weights [S][D] of its own; the statistics are to be counted."""
    pool = Pool()
    for number, list_id in enumerate(lattices.list_ids):
        for words, row in _best(lattices, number, weights[number], n):
            if np.abs(row).max() > MAGNITUDE_LIMIT:
                trouble = f"the scores of a path add up beyond {MAGNITUDE_LIMIT:g}; rescale them"
                raise DataError(f"lattice {quoted(list_id)}: {trouble}")
            pool.add_row(list_id, lattices.names, row, text=lattices.text(words))
    return pool.nbest(texts=True)


def _best(lattices: WordGraphs, number: int, weights: FloatArray, n: int) -> list[tuple[tuple[int, ...], FloatArray]]:
    """Return the words, by number, and the features [D] of the n best hypotheses of a lattice.

    Links that are on no good path are left out at first. That loses nothing as long as the last hypothesis found is
    better, beyond rounding, than whatever goes through these links; otherwise more links are taken.
    """
    graph, units, begin = lattices.graph(number), lattices.units, int(lattices.offsets[number])
    through = graph.links().best_through(graph.features @ weights)
    size = float((np.abs(graph.features) @ np.abs(weights)).max()) * graph.most_links
    slack = 8.0 * (graph.most_links + len(weights) + 4) * EPSILON * size
    count = _FEWEST_LINKS + _LINKS * n
    while True:
        every = count >= len(through) or not np.isfinite(slack)
        floor = -np.inf if every else float(np.partition(through, -count)[-count])
        links = np.arange(len(through)) if every else np.flatnonzero(through >= floor)
        exact = exact_scores(graph.features[links] / units, weights, units)
        ends = np.stack(
            [*(own[links] for own in (graph.sources, graph.seconds, graph.targets)), begin + links], 1
        ).tolist()
        found = distinct_derivations(ends, exact, lattices.say, graph.n_nodes - 1, n)
        rows = [graph.features[links[list(one.way)]].sum(axis=0) for one in found]
        if every or (len(found) == n and float(rows[-1] @ weights) > floor + slack):
            return [(one.texts[0], row) for one, row in zip(found, rows, strict=True)]
        count *= _MORE
