"""What a ranking is worth at k: NDCG, MRR, MAP, recall and precision, with the order of documents exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray, MetricError
from lpmert.model.judged import Judged, rows_by_query
from lpmert.numeric.rounding import in_decimals
from lpmert.quoting import quoted

MOST_POSITIONS = 4096
"""Largest k: up to it, the rounding of a query's value stays within the units that the core adds."""

_NAMES = ("ndcg", "mrr", "map", "recall", "precision")

_GAINS, _FIRST, _PLACED = range(3)
"""What a document adds, as the core numbers it: its gain, its gain if it is the first one, or how many are placed."""


@dataclass(frozen=True)
class RankingMetric:
    """What a ranking is worth at k: the mean over all queries that have a relevant document.

    Documents with equal scores count in the worst order.

    Parameters
    ----------
    name : str
        "ndcg", "mrr" (the inverse rank of the first relevant document), "map" (the precision at each relevant document,
        divided by the number of all relevant ones), "recall" or "precision".
    k : int
        How many places count.
    exponential : bool
        Whether a grade g gains 2**g - 1 in NDCG, rather than g.

    Notes
    -----
    NDCG with g is that of Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002, and
    trec_eval's; with 2**g - 1 it is that of Burges and others, Learning to rank using gradient descent, ICML 2005.
    """

    name: str
    k: int
    exponential: bool = False

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise MetricError(f"the metric must be one of {', '.join(_NAMES)}, not {quoted(self.name)}")
        if not 1 <= self.k <= MOST_POSITIONS:
            raise MetricError(f"k must be from 1 to {MOST_POSITIONS}, not {self.k}")

    @classmethod
    def of(cls, given: RankingMetric | str) -> RankingMetric:
        """Return the metric that a text such as "ndcg@10" means; in "ndcg-exp@10" a grade g gains 2**g - 1."""
        if isinstance(given, RankingMetric):
            return given
        name, _, k = given.partition("@")
        if not k.isdecimal():
            raise MetricError(f"the metric must be like 'ndcg@10', not {quoted(given)}")
        exponential = name == "ndcg-exp"
        return cls("ndcg" if exponential else name, int(k), exponential)

    def parts(self, lists: Judged) -> Parts:
        """Return gains, discounts and factors on these lists; raises `DataError` where no query counts."""
        if self.name == "ndcg":
            largest = max(lists.relevance.max(), *(one.max(initial=0.0) for one in lists.unretrieved))
            if self.exponential and largest > 50:
                raise DataError("relevance must be at most 50 where a grade g gains 2**g - 1; try ndcg")
            discounts = 1 / np.log2(np.arange(2.0, self.k + 2))
        else:
            discounts = 1 / np.arange(1.0, self.k + 1) if self.name in ("mrr", "map") else np.ones(self.k)
        gains = self._gains(lists.relevance)
        scales = np.zeros(len(lists.offsets) - 1)
        for q, own in enumerate(rows_by_query(lists.offsets)):
            every = np.concatenate([gains[own], self._gains(lists.unretrieved[q])])
            best = np.sort(every)[::-1][: self.k]
            if best[0] > 0:
                ideal = fsum(best * discounts[: len(best)])
                relevant = float(np.count_nonzero(every))
                most = {"ndcg": ideal, "mrr": 1.0, "map": relevant, "recall": relevant, "precision": float(self.k)}
                scales[q] = 1 / most[self.name]
        if not scales.any():
            raise DataError("no query has a relevant document")
        return Parts(gains, discounts, scales, {"mrr": _FIRST, "map": _PLACED}.get(self.name, _GAINS))

    def _gains(self, grades: FloatArray) -> FloatArray:
        if self.name != "ndcg":
            return (grades > 0).astype(np.float64)
        return np.exp2(grades) - 1 if self.exponential else grades.copy()


@dataclass(frozen=True)
class Parts:
    """A metric on lists: gains [M], discounts [k], a factor for each query [Q], 0 where it does not count.

    kind: what a document adds, before the discount of its place.
    """

    gains: FloatArray
    discounts: FloatArray
    scales: FloatArray
    kind: int

    @property
    def n_queries(self) -> int:
        return int(np.count_nonzero(self.scales))


def evaluate(lists: Judged, weights: Sequence[float] | FloatArray, metric: RankingMetric | str) -> float:
    """Return the mean over the queries with a relevant document; orders are exact, ties count in the worst order.

    Examples
    --------
    >>> lists = Judged([[1.0], [1.0], [0.0]], [0, 3], [1, 0, 1])
    >>> evaluate(lists, [1.0], "mrr@3"), evaluate(lists, [-1.0], "mrr@3")
    (0.5, 1.0)
    """
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != lists.features.shape[1:] or not np.isfinite(given).all():
        raise DataError(f"weights must be {lists.features.shape[1]} finite numbers")
    parts = RankingMetric.of(metric).parts(lists)
    return summed(in_decimals(lists.features), lists.offsets, given, parts) / parts.n_queries


@np.errstate(over="ignore", invalid="ignore")
def summed(features: FloatArray, offsets: IntArray, weights: FloatArray, parts: Parts) -> float:
    """Return the sum over the queries, each in units of its best value, ties in the worst order."""
    terms = features * weights  # each term and sum is rounded by itself: equal documents have equal scores
    scores, sizes = np.zeros(len(terms)), np.zeros(len(terms))
    for column in terms.T:
        scores = scores + column
        sizes = sizes + np.abs(column)
    errors = sizes * (len(weights) + 2) * 2.0**-52 + 1e-300
    values = []
    for q, own in enumerate(rows_by_query(offsets)):
        if parts.scales[q] == 0:
            continue
        k, reached, doubt = len(parts.discounts), scores[own], 2 * errors[own].max()
        lowest = np.partition(reached, -k)[-k] if k < len(reached) else -np.inf
        near = own.start + np.flatnonzero(~(reached < lowest - doubt))  # all of them after an overflow
        order = near[np.lexsort((parts.gains[near], -scores[near]))]
        clear = scores[order[:-1]] - scores[order[1:]] > doubt
        if (~clear & (features[order[:-1]] != features[order[1:]]).any(axis=1)).any():
            exact = {int(d): _dot(weights, features[d]) for d in near}
            order = np.array(sorted(exact, key=lambda d: (-exact[d], parts.gains[d])))
        gains = parts.gains[order[:k]]
        adds = gains if parts.kind != _PLACED else np.where(gains > 0, np.cumsum(gains > 0), 0.0)
        placed = adds * parts.discounts[: len(gains)]
        values.append((placed.max() if parts.kind == _FIRST else fsum(placed)) * parts.scales[q])
    return fsum(values)


def _dot(weights: FloatArray, row: FloatArray) -> Fraction:
    return sum((Fraction(w) * Fraction(x) for w, x in zip(weights.tolist(), row.tolist(), strict=True)), Fraction(0))
