"""N-best lists of lattices and hypergraphs: their best hypotheses with different words, in exact order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.kbest import Arc, distinct_best
from lpmert.formats.kbest_derivations import distinct_derivations
from lpmert.model.best_paths import exact_scores
from lpmert.model.given import MAGNITUDE_LIMIT
from lpmert.model.hypergraphs import Hypergraphs
from lpmert.model.nbest import NBest
from lpmert.model.texts import measure_texts
from lpmert.model.word_graphs import SILENT, Graph, WordGraphs
from lpmert.numeric.rounding import EPSILON
from lpmert.quoting import quoted
from lpmert.values import weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.values import Weights

MOST_HYPOTHESES = 100_000
"""Of one lattice: so many take up to half a minute and 3 GB, and a billion would never end."""

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
