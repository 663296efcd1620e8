"""Scores of weights on judged documents, with documents in exact order."""

from __future__ import annotations

from fractions import Fraction
from math import fsum

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.judgments import Judged, Parts, RankingMetric, rows_by_query
from lpmert.numeric.rounding import in_decimals
from lpmert.quoting import listed, quoted
from lpmert.values import Weights, weights_array

TIES = ("worst", "given")  # orders of documents with equal scores


def evaluate(lists: Judged, weights: Weights, metric: RankingMetric | str, *, ties: str = "worst") -> float:
    """Return the mean of a metric over the queries with a relevant document; documents are sorted in exact arithmetic.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades.
    weights : mapping or sequence of numbers
        One for each feature, by name or in order.
    metric : RankingMetric or str
        The metric, as for `maximize`.
    ties : {"worst", "given"}
        The order of documents with equal scores: the one with the worst value, or that of the lists. Lists of
        `read_judged` are in the order of trec_eval for runs: by decreasing name.

    Returns
    -------
    float
        The mean.

    Raises
    ------
    DataError, MetricError
        If there is not one finite weight for each feature, the metric or order is unknown, or no document is relevant.

    Examples
    --------
    >>> lists = Judged([[1.0], [1.0], [0.0]], [0, 3], [1, 0, 1])
    >>> evaluate(lists, [1.0], "mrr@3"), evaluate(lists, [-1.0], "mrr@3")
    (0.5, 1.0)
    """
    if ties not in TIES:
        raise DataError(f"ties must be one of {listed(TIES)}, not {quoted(ties)}")
    parts, own = RankingMetric.of(metric).parts(lists), weights_array(weights, lists.names)
    return summed(in_decimals(lists.features), lists.offsets, own, parts, ties) / parts.n_queries


@np.errstate(over="ignore", invalid="ignore")
def summed(features: FloatArray, offsets: IntArray, weights: FloatArray, parts: Parts, ties: str = "worst") -> float:
    """Return the sum of the values of all queries.

    Documents are sorted by rounded scores; pairs whose scores differ by less than the error bound are compared exactly.
    """
    if not weights.all():  # documents that differ only in features of weight 0 need no exact comparison
        features, weights = features[:, weights != 0.0], weights[weights != 0.0]
    terms = features * weights  # each operation is rounded by itself, so equal documents have equal scores
    scores, sizes = np.zeros(len(terms)), np.zeros(len(terms))
    for column in terms.T:
        scores = scores + column
        sizes = sizes + np.abs(column)
    later = np.arange(len(terms)) if ties == "given" else parts.gains
    errors = sizes * (len(weights) + 2) * 2.0**-52 + 1e-300
    values = []
    for q, own in enumerate(rows_by_query(offsets)):
        if parts.scales[q] == 0:
            continue
        k, reached, doubt = len(parts.discounts), scores[own], 2 * errors[own].max()
        lowest = np.partition(reached, -k)[-k] if k < len(reached) else -np.inf
        near = own.start + np.flatnonzero(~(reached < lowest - doubt))  # after an overflow, all documents
        order = near[np.lexsort((later[near], -scores[near]))]
        clear = scores[order[:-1]] - scores[order[1:]] > doubt
        doubtful = np.flatnonzero(~clear & (features[order[:-1]] != features[order[1:]]).any(axis=1))
        starts = np.concatenate([[0], 1 + np.flatnonzero(clear), [len(order)]])
        for run in np.unique(np.searchsorted(starts, doubtful, side="right")).tolist():
            own = slice(starts[run - 1], starts[run])  # no lead inside is clear; those before and after it are
            exact = {d: _dot(weights, features[d]) for d in order[own].tolist()}
            order[own] = sorted(exact, key=lambda d: (-exact[d], later[d]))
        gains = parts.gains[order[:k]]
        places = np.flatnonzero(gains)
        worth = fsum(gains[places] * parts.discounts[places] * parts.merits[: len(places)])
        values.append(worth * float(parts.scales[q]))
    return fsum(values)


def _dot(weights: FloatArray, row: FloatArray) -> Fraction:
    return sum((Fraction(w) * Fraction(x) for w, x in zip(weights.tolist(), row.tolist(), strict=True)), Fraction(0))
