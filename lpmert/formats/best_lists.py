"""N-best lists of lattices and hypergraphs: the best hypotheses with different words, in exact order.

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
    """A derivation: its texts, its score, and its links from the root on, those below the source tail first."""

    texts: Texts
    links: tuple[int, ...]
    score: int


_Choice = tuple[int, int, int]
"""A link, and the ranks of the derivations that it takes from its tails, the source and the second one."""


@dataclass
class _Node:
    """The search at a node: its best derivations so far, a heap of candidates, and choices that are not scored yet."""

    waiting: list[_Choice] = field(default_factory=list)
    heap: list[tuple[int, tuple[int, ...], Texts, _Choice]] = field(default_factory=list)
    seen: set[_Choice] = field(default_factory=set)
    known_texts: set[Texts] = field(default_factory=set)
    best: list[Derivation] = field(default_factory=list)
    complete: bool = False


def distinct_derivations(
    links: Sequence[Sequence[int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
    goal: int,
    n: int,
) -> list[Derivation]:
    """Return the n best derivations of the node `goal` with different texts, or as many as there are, the best first.

    links: for each, its source, second and target node, and its name. Targets have higher numbers than their tails; 0
    stands for no tail. say(name, texts): makes a link's text of the texts of its tails. A text gets its best
    derivation; among equal scores, the one whose links come first, from the root on.

    Nodes rank their derivations only as far as needed. Of derivations with the same text, only the best can be part of
    a best one.
    """
    nodes: defaultdict[int, _Node] = defaultdict(_Node)
    nodes[0] = _Node(best=[Derivation((), (), 0)], complete=True)
    for link, (_, _, target, _) in enumerate(links):
        nodes[target].waiting.append((link, 0, 0))
    needed = [(goal, n - 1)]  # a stack of nodes and ranks
    while needed:
        checkpoint()
        number, rank = needed[-1]
        node = nodes[number]
        if node.complete or len(node.best) > rank:
            needed.pop()
        elif (unknown := _score_waiting(node, nodes, links, scores, say)) is not None:
            needed.append(unknown)
        elif node.heap:
            _take_best(node)
        else:
            node.complete = True
    return nodes[goal].best


def _score_waiting(
    node: _Node,
    nodes: Mapping[int, _Node],
    links: Sequence[Sequence[int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
) -> tuple[int, int] | None:
    """Turn all waiting choices into candidates; return the node and rank of a derivation that must be found before."""
    while node.waiting:
        link, *ranks = choice = node.waiting[-1]
        tails = []
        for number, rank in zip(links[link], ranks, strict=False):
            below = nodes[number]
            if len(below.best) > rank:
                tails.append(below.best[rank])
            elif not below.complete:
                return number, rank
        if len(tails) == 2:  # otherwise there are no such derivations
            one, two = tails
            path, texts = (link, *one.links, *two.links), say(links[link][3], one.texts + two.texts)
            heappush(node.heap, (-scores[link] - one.score - two.score, path, texts, choice))
        node.waiting.pop()
    return None


def _take_best(node: _Node) -> None:
    """Move the best candidate to the derivations, if its text is new, and add its successors to the waiting choices."""
    cost, path, texts, (link, first, second) = heappop(node.heap)
    if texts not in node.known_texts:
        node.known_texts.add(texts)
        node.best.append(Derivation(texts, path, -cost))
    nexts = [(link, first + 1, second), (link, first, second + 1)]
    node.waiting += [new for new in nexts if new not in node.seen]
    node.seen.update(nexts)


_FEWEST_LINKS, _LINKS, _GROWTH = 200, 4, 4
"""Links in the first round, at least and for each hypothesis of the list, and their growth in later rounds."""


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
        Bytes of memory that the call may hold, as for `minimize`.

    Returns
    -------
    NBest
        The lists, the best hypothesis first. The best path with the same words gives the features. Sums and
        comparisons are exact; `Hypergraphs` says how hypotheses with equal scores are ordered.

    Raises
    ------
    DataError, MetricError
        If an argument cannot be used.
    LimitError
        If a limit is reached before the lists are complete.

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
            f"lattices must be Lattices or Hypergraphs, see lpmert.load_lattices, not {type(lattices).__name__}"
        )
    checked_limits(time_limit, None, None, None, memory_limit)
    weight_rows = [weights_array(given_weights(weights, "weights"), lattices.names)] * lattices.n_lists
    with limited(time_limit, memory_limit, lambda why: f"no lists of {n:,} hypotheses each: {why}"):
        lists = best_lists(lattices, weight_rows, whole_number(n, "n", 1))
        return measure_texts(lists, lattices.references, metric)[0]


def best_lists(lattices: WordGraphs, weights: Sequence[FloatArray], n: int) -> NBest:
    """Return the n best hypotheses of each lattice by its own weights [S][D]; statistics must still be counted."""
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

    The first round only takes links on good paths. Its result stands if the last hypothesis found is better, beyond
    rounding, than every path through the other links; otherwise the next round takes more links.
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
            [*(nodes[links] for nodes in (graph.sources, graph.seconds, graph.targets)), begin + links], 1
        ).tolist()
        found = distinct_derivations(ends, exact, lattices.say, graph.n_nodes - 1, n)
        rows = [graph.features[links[list(derivation.links)]].sum(axis=0) for derivation in found]
        if every or (len(found) == n and float(rows[-1] @ weights) > floor + slack):
            return [(derivation.texts[0], row) for derivation, row in zip(found, rows, strict=True)]
        count *= _GROWTH
