"""What a ranking is worth at k: NDCG, MRR, average precision, recall and others, with the order of documents exact."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import fsum

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray, MetricError
from lpmert.model.judged import Judged, rows_by_query
from lpmert.numeric.rounding import in_decimals
from lpmert.quoting import listed, quoted
from lpmert.values import whole_number

MOST_POSITIONS = 4096
"""Largest k: up to it, the rounding of a query's value stays within the units that the core adds."""

TIES = ("worst", "best", "given")
NAMES = ("ndcg", "ndcg-exp", "mrr", "map", "recall", "precision", "success")
_FORM = re.compile(r"(?P<name>.+?)(-l(?P<least>\d+))?@(?P<k>\d{1,9})", re.ASCII)


@dataclass(frozen=True)
class RankingMetric:
    """What a ranking is worth at k: the mean over all queries that have a relevant document.

    Documents with equal scores count in the worst order.

    Parameters
    ----------
    name : str
        "ndcg", "ndcg-exp", "mrr" (the inverse rank of the first relevant document), "map" (average precision),
        "recall", "precision" or "success" (whether there is a relevant document).
    k : int
        How many places count.
    relevant_from : int
        The least grade that is relevant; 0 stands for all above 0. NDCG has none but 0.

    Notes
    -----
    In "ndcg" a grade g gains g, as by Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS
    2002, and in trec_eval; in "ndcg-exp" 2**g - 1, as by Burges and others, Learning to rank using gradient descent,
    ICML 2005.
    """

    name: str
    k: int
    relevant_from: int = 0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise MetricError(f"the metric must be one of {', '.join(NAMES)}, not {quoted(self.name)}")
        if self.relevant_from and self._graded:
            raise MetricError(f"{self.name} takes grades as they are; leave out -l{self.relevant_from}")
        if whole_number(self.k, "k", 1, MetricError) > MOST_POSITIONS:
            raise MetricError(f"k must be from 1 to {MOST_POSITIONS}, not {self.k}")

    @classmethod
    def of(cls, given: RankingMetric | str) -> RankingMetric:
        """Return the metric that a text such as "ndcg@10" means; in "recall-l2@10" grades from 2 on are relevant."""
        if isinstance(given, RankingMetric):
            return given
        found = _FORM.fullmatch(given) if isinstance(given, str) else None
        if found is None:
            raise MetricError(f"the metric must be like 'ndcg@10', not {quoted(given)}")
        return cls(found["name"], int(found["k"]), int(found["least"] or 0))

    def __str__(self) -> str:
        return f"{self.name}{f'-l{self.relevant_from}' if self.relevant_from else ''}@{self.k}"

    @property
    def _graded(self) -> bool:
        return self.name.startswith("ndcg")

    def parts(self, lists: Judged) -> Parts:
        """Return gains, discounts and factors on these lists; raises `DataError` where no query counts."""
        places = np.arange(1.0, self.k + 1)
        discounts, merits = np.ones(self.k), np.ones(self.k)
        if self._graded:
            largest = max(lists.relevance.max(), *(one.max(initial=0.0) for one in lists.unretrieved))
            if self.name == "ndcg-exp" and largest > 50:
                raise DataError("relevance must be at most 50 where a grade g gains 2**g - 1; try ndcg")
            discounts = 1 / np.log2(places + 1)
        elif self.name in ("mrr", "map"):
            discounts = 1 / places
        if self.name == "map":
            merits = places
        elif self.name in ("mrr", "success"):
            merits[1:] = 0.0
        gains = self._gains(lists.relevance)
        scales = np.zeros(len(lists.offsets) - 1)
        for q, own in enumerate(rows_by_query(lists.offsets)):
            every = np.concatenate([gains[own], self._gains(lists.unretrieved[q])])
            best = np.sort(every)[::-1][: self.k]
            if best[0] > 0:
                if self._graded:
                    scales[q] = 1 / fsum(best * discounts[: len(best)])
                else:
                    relevant = float(np.count_nonzero(every))
                    most = {"recall": relevant, "map": relevant, "precision": float(self.k)}
                    scales[q] = 1 / most.get(self.name, 1.0)
        if not scales.any():
            raise DataError("no query has a relevant document")
        return Parts(gains, discounts, merits, scales)

    def _gains(self, grades: FloatArray) -> FloatArray:
        if not self._graded:
            return ((grades > 0) & (grades >= self.relevant_from)).astype(np.float64)
        return np.exp2(grades) - 1 if self.name == "ndcg-exp" else grades.copy()


@dataclass(frozen=True)
class Parts:
    """A metric on lists: the sum of products of gain, discount, and merit, times a factor of the query.

    gains [M] of documents, discounts [k] of places, merits [k] of the first, second, ... document with a gain, scales
    [Q]: 0 for queries that do not count. Where merits differ, gains are 0 or 1.
    """

    gains: FloatArray
    discounts: FloatArray
    merits: FloatArray
    scales: FloatArray

    @property
    def n_queries(self) -> int:
        return int(np.count_nonzero(self.scales))


def evaluate(
    lists: Judged, weights: Sequence[float] | FloatArray, metric: RankingMetric | str, *, ties: str = "worst"
) -> float:
    """Return the mean over the queries with a relevant document, with documents in exact order.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades.
    weights : array [D]
        One for each feature.
    metric : RankingMetric or str
        See `maximize`.
    ties : {"worst", "best", "given"}
        The order of documents with equal scores. In the given one of `read_judged`, runs are ranked as by trec_eval: by
        falling name.

    Raises
    ------
    DataError, MetricError
        For weights that are no finite numbers, what is no metric or order, and lists without a relevant document.

    Examples
    --------
    >>> lists = Judged([[1.0], [1.0], [0.0]], [0, 3], [1, 0, 1])
    >>> evaluate(lists, [1.0], "mrr@3"), evaluate(lists, [-1.0], "mrr@3")
    (0.5, 1.0)
    """
    if ties not in TIES:
        raise DataError(f"ties must be one of {listed(TIES)}, not {quoted(ties)}")
    parts = RankingMetric.of(metric).parts(lists)
    return summed(in_decimals(lists.features), lists.offsets, _checked(lists, weights), parts, ties) / parts.n_queries


def per_query(
    lists: Judged, weights: Sequence[float] | FloatArray, metric: RankingMetric | str
) -> dict[str, tuple[float, list[int]]]:
    """Return for each query with a relevant document, by name, its value and the ranks of the documents that count.

    Raises `DataError` as `evaluate` does.

    Examples
    --------
    >>> lists = Judged([[1.0], [1.0], [0.0]], [0, 3], [1, 0, 1], queries=("cats",))
    >>> per_query(lists, [1.0], "recall@2")
    {'cats': (0.5, [2])}
    """
    parts = RankingMetric.of(metric).parts(lists)
    found = by_query(in_decimals(lists.features), lists.offsets, _checked(lists, weights), parts)
    return {lists.queries[q]: one for q, one in found.items()}


def _checked(lists: Judged, weights: Sequence[float] | FloatArray) -> FloatArray:
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != lists.features.shape[1:] or not np.isfinite(given).all():
        raise DataError(f"weights must be {lists.features.shape[1]} finite numbers")
    return given


def summed(features: FloatArray, offsets: IntArray, weights: FloatArray, parts: Parts, ties: str = "worst") -> float:
    """Return the sum over the queries, each in units of its best value."""
    return fsum(value for value, _ in by_query(features, offsets, weights, parts, ties).values())


@np.errstate(over="ignore", invalid="ignore")
def by_query(
    features: FloatArray, offsets: IntArray, weights: FloatArray, parts: Parts, ties: str = "worst"
) -> dict[int, tuple[float, list[int]]]:
    """Return what each query that counts is worth, and the ranks from 1 on of the documents that make it so."""
    terms = features * weights  # each term and sum is rounded by itself: equal documents have equal scores
    scores, sizes = np.zeros(len(terms)), np.zeros(len(terms))
    for column in terms.T:
        scores = scores + column
        sizes = sizes + np.abs(column)
    later = {"worst": parts.gains, "best": -parts.gains, "given": np.arange(len(terms))}[ties]
    errors = sizes * (len(weights) + 2) * 2.0**-52 + 1e-300
    found = {}
    for q, own in enumerate(rows_by_query(offsets)):
        if parts.scales[q] == 0:
            continue
        k, reached, doubt = len(parts.discounts), scores[own], 2 * errors[own].max()
        lowest = np.partition(reached, -k)[-k] if k < len(reached) else -np.inf
        near = own.start + np.flatnonzero(~(reached < lowest - doubt))  # all of them after an overflow
        order = near[np.lexsort((later[near], -scores[near]))]
        clear = scores[order[:-1]] - scores[order[1:]] > doubt
        doubtful = np.flatnonzero(~clear & (features[order[:-1]] != features[order[1:]]).any(axis=1))
        starts = np.concatenate([[0], 1 + np.flatnonzero(clear), [len(order)]])
        for run in np.unique(np.searchsorted(starts, doubtful, side="right")).tolist():
            own = slice(starts[run - 1], starts[run])  # no clear lead within, and one before and after it
            exact = {d: _dot(weights, features[d]) for d in order[own].tolist()}
            order[own] = sorted(exact, key=lambda d: (-exact[d], later[d]))
        gains = parts.gains[order[:k]]
        places = np.flatnonzero(gains)
        value = fsum(gains[places] * parts.discounts[places] * parts.merits[: len(places)]) * parts.scales[q]
        found[q] = value, (places + 1).tolist()
    return found


def _dot(weights: FloatArray, row: FloatArray) -> Fraction:
    return sum((Fraction(w) * Fraction(x) for w, x in zip(weights.tolist(), row.tolist(), strict=True)), Fraction(0))
