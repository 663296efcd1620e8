"""Judged documents of queries, and the value of their rankings at k: NDCG, MRR, average precision, recall and others.

Metrics are stated once, exactly: searches round them, and certificates are checked with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray, MetricError
from lpmert.model.arrays import checked_labels, checked_offsets, fingerprint_of, frame_names, numbered, real_numbers
from lpmert.numeric.lists import rows_of_lists
from lpmert.quoting import quoted
from lpmert.values import whole_number

MOST_POSITIONS = 4096  # largest k: up to it, the rounding of a query's value stays within the units that the core adds

NAMES = ("ndcg", "ndcg-exp", "mrr", "map", "recall", "precision", "success")
_FORM = re.compile(r"(?P<name>.+?)(-l(?P<least>\d+))?@(?P<k>\d{1,9})", re.ASCII)
_LARGEST = 1e100  # largest grade
_LEAST_EXPONENT, _MOST_EXPONENT = Fraction(1, 10**9), 50  # range of grades other than 0 that are exponents of 2

_DIGITS = 60
_ALMOST = Decimal(10) ** -50  # bound on the relative error of a logarithm or power of `_DIGITS` digits
Enclosed = tuple[Fraction, Fraction]  # lower and upper bound of a number

_NOTHING: Enclosed = Fraction(0), Fraction(0)


@dataclass(frozen=True)
class Judged:
    """Documents of queries with features and judgments.

    Parameters
    ----------
    features : array [M, D] or data frame
        Finite numbers; those that print as decimals stand for these.
    offsets : array [Q + 1]
        Where the documents of each query begin and end.
    relevance : array [M]
        Grades; 0 means not relevant.
    names : tuple of str
        Of the features; by default those of the data frame's columns, or their numbers.
    queries : tuple of str
        Names of the queries.
    unretrieved : sequence of Q arrays
        Grades of the relevant documents of each query that were not retrieved: no weights rank them, but NDCG and
        recall count them. By default there are none.
    notes : tuple of str
        What the reader changed or left out.
    """

    features: FloatArray
    offsets: IntArray
    relevance: FloatArray
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    unretrieved: tuple[FloatArray, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        features, relevance = _numbers(self.features, "features"), _numbers(self.relevance, "relevance")
        if features.ndim != 2 or 0 in features.shape:
            raise DataError("features must be an array of documents x features")
        if relevance.shape != features.shape[:1]:
            raise DataError(f"relevance must have one grade for each of {len(features)} documents")
        offsets = checked_offsets(self.offsets, len(features), "documents")
        if not np.isfinite(features).all():
            raise DataError("features must be finite; replace missing scores, for example by the least one")
        n_queries = len(offsets) - 1
        unretrieved = tuple(_numbers(own, "unretrieved").ravel() for own in self.unretrieved or [()] * n_queries)
        grades = np.concatenate([relevance, *unretrieved])
        if not np.isfinite(grades).all() or (grades < 0).any():
            raise DataError("relevance must be finite and not negative")
        if (grades[grades > 0] < 1.0 / _LARGEST).any() or (grades > _LARGEST).any():
            ends = f"{1.0 / _LARGEST:g} to {_LARGEST:g}"
            raise DataError(f"relevance must be 0, or from {ends}, so that gains can be summed")
        n_features = features.shape[1]
        names = frame_names(self.features, self.names or None) or numbered("", n_features)
        queries = checked_labels(self.queries or numbered("", n_queries), n_queries, "queries")
        if len(unretrieved) != n_queries:
            raise DataError(f"unretrieved needs grades for each of the {n_queries} queries; got {len(unretrieved)}")
        vars(self).update(features=features, offsets=offsets, relevance=relevance)
        vars(self).update(names=checked_labels(names, n_features, "names"), queries=queries, unretrieved=unretrieved)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum, and of the names."""
        labels = [self.names, self.queries, self.features.shape]
        values = [self.offsets, self.features, self.relevance, *self.unretrieved]
        with_sizes = [part for array in values for part in (np.array([len(array)]), array)]
        return fingerprint_of("lpmert judged documents 1\n", labels, with_sizes)

    def of_queries(self, numbers: Sequence[int] | IntArray) -> Judged:
        """Return the documents of these queries, by their numbers from 0."""
        rows, offsets = rows_of_lists(self.offsets, np.asarray(numbers))
        return replace(
            self,
            features=self.features[rows],
            offsets=offsets,
            relevance=self.relevance[rows],
            queries=tuple(self.queries[q] for q in numbers),
            unretrieved=tuple(self.unretrieved[q] for q in numbers),
        )


def _numbers(values: Any, what: str) -> FloatArray:
    return np.array(real_numbers(values, what), dtype=np.float64, order="C")


def rows_by_query(offsets: IntArray) -> Iterator[slice]:
    return (slice(int(a), int(b)) for a, b in pairwise(offsets))


@dataclass(frozen=True)
class RankingMetric:
    """The value of a ranking at k: the mean over all queries that have a relevant document.

    Documents with equal scores count in the worst order.

    Parameters
    ----------
    name : str
        "ndcg", "ndcg-exp", "mrr" (the inverse rank of the first relevant document), "map" (average precision),
        "recall", "precision" or "success" (whether there is a relevant document).
    k : int
        Number of places that count.
    relevant_from : int
        The least relevant grade; 0 means all grades above 0, the only choice for NDCG.

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
    def of(cls, metric: RankingMetric | str) -> RankingMetric:
        """Return the metric of a text such as "ndcg@10"; in "recall-l2@10" grades from 2 on are relevant."""
        if isinstance(metric, RankingMetric):
            return metric
        found = _FORM.fullmatch(metric) if isinstance(metric, str) else None
        if found is None:
            raise MetricError(f"the metric must be like 'ndcg@10', not {quoted(metric)}")
        return cls(found["name"], int(found["k"]), int(found["least"] or 0))

    def __str__(self) -> str:
        return f"{self.name}{f'-l{self.relevant_from}' if self.relevant_from else ''}@{self.k}"

    @property
    def _graded(self) -> bool:
        return self.name.startswith("ndcg")

    def parts(self, lists: Judged) -> Parts:
        """Return the gains, discounts and factors on these lists; raises `DataError` if no query counts."""
        given: object = lists
        if not isinstance(given, Judged):
            made = "make it with lpmert.read_judged or lpmert.ranking.Judged"
            raise DataError(f"the first argument must be Judged documents, not {type(given).__name__}; {made}")
        retrieved = np.flatnonzero(lists.relevance)
        grades = np.unique(np.concatenate([lists.relevance[retrieved], *lists.unretrieved]))
        gains = {grade: self._gain(Fraction(grade)) for grade in grades.tolist()}
        exact = sorted({_NOTHING, *gains.values()})
        level_of = {grade: exact.index(gain) for grade, gain in gains.items()}
        levels = np.zeros(len(lists.relevance), dtype=np.int64)
        levels[retrieved] = [level_of[grade] for grade in lists.relevance[retrieved].tolist()]
        discounts = [self._discount(place) for place in range(self.k)]

        @cache
        def factor(relevant: tuple[int, ...]) -> Enclosed:
            """Return the factor of a query from the levels of its relevant documents, best first."""
            if not self._graded:
                whole = {"recall": len(relevant), "map": len(relevant), "precision": self.k}.get(self.name, 1)
                return Fraction(1, whole), Fraction(1, whole)
            pairs = list(zip(relevant, discounts, strict=False))
            low, high = (sum((exact[level][end] * place[end] for level, place in pairs), Fraction(0)) for end in (0, 1))
            return 1 / high, 1 / low

        factors = {}
        for query, rows in enumerate(rows_by_query(lists.offsets)):
            of_rows, unretrieved = levels[rows], lists.unretrieved[query].tolist()
            relevant = [*of_rows[of_rows > 0].tolist(), *(level_of[grade] for grade in unretrieved if level_of[grade])]
            if relevant:
                factors[query] = factor(tuple(sorted(relevant, reverse=True)))
        if not factors:
            least = f"{self.relevant_from} or more" if self.relevant_from > 1 else "more than 0"
            raise DataError(f"no query has a relevant document, with a grade of {least}; check the grades")
        merits = np.ones(self.k)
        if self.name == "map":
            merits = np.arange(1.0, self.k + 1)
        elif self.name in ("mrr", "success"):
            merits[1:] = 0.0
        scales = np.zeros(len(lists.offsets) - 1)
        scales[list(factors)] = [float(low) for low, _ in factors.values()]
        rounded, places = (np.array([float(low) for low, _ in bounds]) for bounds in (exact, discounts))
        return Parts(rounded[levels], places, merits, scales, levels, exact, discounts, factors)

    def _gain(self, grade: Fraction) -> Enclosed:
        if not self._graded:
            return (Fraction(1), Fraction(1)) if grade and grade >= self.relevant_from else _NOTHING
        if self.name == "ndcg" or not grade:
            return grade, grade
        if not _LEAST_EXPONENT <= grade <= _MOST_EXPONENT:
            ends = f"from {float(_LEAST_EXPONENT):g} to {_MOST_EXPONENT}"
            raise DataError(f"relevance must be 0, or {ends}, where a grade g gains 2**g - 1; try ndcg")
        if grade.denominator == 1:
            return Fraction(2**grade.numerator - 1), Fraction(2**grade.numerator - 1)
        with localcontext(Context(_DIGITS)):
            low, high = _around(Decimal(2) ** (Decimal(grade.numerator) / Decimal(grade.denominator)))
        return low - 1, high - 1

    def _discount(self, place: int) -> Enclosed:
        if not self._graded:
            exact = Fraction(1, place + 1 if self.name in ("mrr", "map") else 1)
            return exact, exact
        with localcontext(Context(_DIGITS)):
            return _around(Decimal(2).ln() / Decimal(place + 2).ln())


def _around(value: Decimal) -> Enclosed:
    exact, error = Fraction(value), Fraction(_ALMOST)
    return exact * (1 - error), exact * (1 + error)


@dataclass(frozen=True)
class Parts:
    """A metric on lists: for each query, the sum of gain times discount times merit, times a factor.

    Rounded: gains [M] of documents, discounts [k] of places, merits [k] of the first, second, ... document with a gain,
    scales [Q], the factors of queries, 0 for queries that do not count. Exact: `exact_gains` rise from 0, and `levels`
    [M] are the places of the documents' gains in them; `factors` are those of the queries that count. If merits differ,
    gains are 0 or 1.
    """

    gains: FloatArray
    discounts: FloatArray
    merits: FloatArray
    scales: FloatArray
    levels: IntArray
    exact_gains: list[Enclosed]
    exact_discounts: list[Enclosed]
    factors: dict[int, Enclosed]

    @property
    def n_queries(self) -> int:
        return len(self.factors)
