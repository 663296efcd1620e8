"""N-best lists of lattices: their best hypotheses with different words at given weights, in exact order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.formats.kbest import Arc, distinct_best
from lpmert.model.lattice_problem import exact_scores
from lpmert.model.lattices import SILENT, Lattices
from lpmert.model.nbest import MAGNITUDE_LIMIT, NBest
from lpmert.model.texts import measure_texts
from lpmert.quoting import quoted
from lpmert.values import weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.values import Weights


def n_best(
    lattices: Lattices, weights: Weights | str | Path, *, n: int = 100, metric: str | TextMetric = "wer"
) -> NBest:
    """Return the best hypotheses of each lattice, with different words, as N-best lists.

    Parameters
    ----------
    lattices : Lattices
        The lattices.
    weights : mapping or sequence of numbers, Result, str or Path
        What the order depends on: one number for each feature, by name or in order, or a file of weights.
    n : int
        Most hypotheses of a list.
    metric : str or TextMetric
        What is counted against the references: "wer", "cer", "ter", "bleu", ..., or its settings.

    Returns
    -------
    NBest
        The lists, the best hypothesis first. Of the paths with the same words the best one gives the features. Sums
        and comparisons are exact.

    Raises
    ------
    DataError, MetricError
        Where an argument cannot be used.

    Notes
    -----
    The search is that of Mohri and Riley, An efficient algorithm for the n-best-strings problem, ICSLP 2002.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.Lattices([[1], [2]], [0, 2], [0, 0], [1, 1], ["a", "an"], ["an"], names=["lm"])
    >>> lpmert.n_best(lattices, {"lm": 1}).texts
    ('an', 'a')
    """
    from lpmert.formats.weights import given_weights

    if not isinstance(lattices, Lattices):
        raise DataError(f"the first argument must be Lattices, not {type(lattices).__name__}; see lpmert.load_lattices")
    given = weights_array(given_weights(weights, "weights"), lattices.names)
    return best_lists(lattices, [given] * lattices.n_lists, whole_number(n, "n", 1), metric)


def best_lists(lattices: Lattices, weights: Sequence[FloatArray], n: int, metric: str | TextMetric) -> NBest:
    """Return the lists of n hypotheses of each lattice by weights [S][D] of its own."""
    features: list[FloatArray] = []
    texts: list[str] = []
    offsets = [0]
    for number in range(lattices.n_lists):
        graph = lattices.graph(number)
        scores = exact_scores(graph.features / lattices.units, weights[number], lattices.units)
        names = [None if word == SILENT else lattices.vocabulary[word] for word in graph.words.tolist()]
        arcs = [*map(Arc, graph.sources.tolist(), graph.targets.tolist(), names, scores)]
        for way in distinct_best(arcs, 0, graph.n_nodes - 1, n):
            own = graph.features[list(way.arcs)].sum(axis=0)
            if np.abs(own).max() > MAGNITUDE_LIMIT:
                raise DataError(
                    f"lattice {quoted(lattices.list_ids[number])}: the scores of a path add up beyond "
                    f"{MAGNITUDE_LIMIT:g}; rescale them"
                )
            features.append(own)
            texts.append(" ".join(way.words))
        offsets.append(len(texts))
    lists = NBest(np.array(features), offsets, np.zeros(len(texts)), lattices.names, lattices.list_ids, texts=texts)
    return measure_texts(lists, lattices.references, metric)[0]
