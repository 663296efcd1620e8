"""From judgments to lists: labels of cases, choices, references of texts, and grades of documents.

The value of a ranking at k, by NDCG, MRR, average precision, recall and others, is stated once, exactly: searches round
it, and certificates are checked with it.
"""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert.errors import DataError, FloatArray, IntArray, MetricError
from lpmert.limits import checked
from lpmert.metrics.base import Metric
from lpmert.metrics.text import EditTexts, TextMetric, source_of, text_metric
from lpmert.model import arrays
from lpmert.model.arrays import (
    as_ids,
    checked_labels,
    checked_offsets,
    checked_sequence,
    fingerprint_of,
    frame_names,
    numbered,
    real_matrix,
    real_numbers,
)
from lpmert.model.nbest import NBest, gathered
from lpmert.numeric.lists import rows_of_lists
from lpmert.quoting import quoted
from lpmert.registry import BLEU_COLUMNS
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


logger = logging.getLogger(__name__)

_MUCH = 0.1  # share of the references' words whose spelling must differ for a warning


def from_classification(
    features: ArrayLike, labels: ArrayLike, *, intercept: bool = True, names: Sequence[str] | None = None
) -> NBest:
    """Return classified cases as lists of two hypotheses, one list per case, with the 0/1 loss of a linear classifier.

    Parameters
    ----------
    features : array [n, D] or data frame
        Of the cases.
    labels : array [n]
        True and False, 1 and 0, 1 and -1, or any two values; the larger one is positive.
    intercept : bool
        Whether to add a constant feature.
    names : sequence of str, optional
        Of the features; by default those of the data frame's columns.

    Returns
    -------
    NBest
        In each list the first hypothesis is "negative", with all features 0, and the second "positive", with features
        (x, 1), or x without `intercept`. So w.(x, 1) > 0 means positive, and a tie counts as negative. The loss is 1
        for the wrong hypothesis.

    Raises
    ------
    DataError
        If the shapes disagree or the labels have more than two values.

    Examples
    --------
    >>> import lpmert
    >>> lpmert.minimize(lpmert.from_classification([[0, 0], [0, 1], [1, 0], [1, 1]], labels=[0, 1, 1, 0])).loss
    1.0
    """
    rows = real_matrix(features, "features")
    column = _column(labels, len(rows), "labels")
    values = np.unique(column)
    if len(values) != 2 and not any(set(values.tolist()) <= usual for usual in ({0, 1}, {-1, 1})):
        remedy = "for more classes use one list per case in NBest"
        raise DataError(f"labels must have two values, not {len(values)}; {remedy}")
    positive: NDArray[np.bool_] = column == (values[1] if len(values) == 2 else 1)
    names = frame_names(features, names)
    columns = arrays.checked_labels(
        arrays.numbered("feature", rows.shape[1]) if names is None else names, rows.shape[1], "names"
    )
    if intercept:
        rows = np.hstack([rows, np.ones((len(rows), 1))])
        columns = (*columns, "intercept")
    pairs = np.zeros((len(rows), 2, rows.shape[1]))
    pairs[:, 1] = rows
    offsets, losses = np.arange(0, 2 * len(rows) + 1, 2), np.column_stack([positive, ~positive]).ravel()
    return NBest(pairs.reshape(2 * len(rows), -1), offsets, losses, columns)


def from_choices(
    features: ArrayLike, cases: ArrayLike, chosen: ArrayLike, *, names: Sequence[str] | None = None
) -> NBest:
    """Return discrete choices as lists of alternatives, one list per case, with the 0/1 loss of predicting them.

    Parameters
    ----------
    features : array [rows, D] or data frame
        Of the alternatives.
    cases : array [rows]
        The case of each row; the rows of a case are adjacent.
    chosen : array [rows]
        True (or 1) for the alternative that was taken.
    names : sequence of str, optional
        Of the features; by default those of the data frame's columns.

    Returns
    -------
    NBest
        The loss of alternatives that were not taken is 1. They keep their order, so a tie goes to the first.

    Raises
    ------
    DataError
        If the shapes disagree, the rows of a case are not adjacent, or not exactly one of them is chosen.

    Examples
    --------
    >>> import lpmert
    >>> prices = [[10], [25], [12], [30]]
    >>> lpmert.minimize(lpmert.from_choices(prices, cases=["Ann", "Ann", "Bob", "Bob"], chosen=[1, 0, 1, 0])).loss
    0.0
    """
    rows = real_matrix(features, "features")
    case_of_row = _column(cases, len(rows), "cases")
    taken = _column(chosen, len(rows), "chosen")
    if not np.isin(taken, [0, 1]).all():
        raise DataError("chosen must hold only true and false, or 1 and 0")
    owner, ids = _owners(case_of_row, "cases", "case", "sort the rows by case")
    _, offsets = gathered(owner)
    counts = np.add.reduceat(taken.astype(np.int64), offsets[:-1])
    if (counts != 1).any():
        wrong = int(np.argmax(counts != 1))
        trouble = f"has {counts[wrong]} chosen alternatives"
        raise DataError(f"case {quoted(ids[wrong])} {trouble}; leave it out or choose one")
    return NBest(rows, offsets, 1 - taken.astype(np.float64), frame_names(features, names), ids)


def from_groups(
    features: ArrayLike,
    statistics: ArrayLike,
    groups: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    statistic_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    gather: bool = False,
) -> NBest:
    """Return lists from the group of each row (like `qid` of rankers) instead of offsets.

    Parameters
    ----------
    features : array [M, D] or data frame
        Of the hypotheses.
    statistics : array [M] or [M, K]
        What the metric sums.
    groups : array [M]
        Which list a hypothesis belongs to: strings or whole numbers.
    names, statistic_names, texts : optional
        As for `NBest`; the default names are the columns of a data frame.
    gather : bool
        Whether to gather the hypotheses of a list, in order of appearance; otherwise they must be adjacent.

    Returns
    -------
    NBest
        The lists, in order of their first hypotheses.

    Raises
    ------
    DataError
        If the shapes disagree, an id is neither string nor whole number, or the hypotheses of a list are not adjacent.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.from_groups([[1, 0], [0, 1], [2, 1]], [0, 1, 1], ["a", "a", "b"])
    >>> lists.list_ids, lists.offsets.tolist()
    (('a', 'b'), [0, 2, 3])
    """
    names = frame_names(features, names)
    rows = real_matrix(features, "features")
    owners = _column(as_ids(groups), len(rows), "groups")
    for group in owners.tolist():
        if type(group) not in (str, int):
            raise DataError(f"groups must be strings or whole numbers, not {quoted(group)}")
    owner, ids = _owners(owners, "groups", "list", None if gather else "sort the rows, or gather=True")
    order, offsets = gathered(owner)
    statistic_rows = arrays.real_numbers(statistics, "statistics")
    if len(statistic_rows) != len(rows):
        raise DataError(f"statistics has {len(statistic_rows)} rows, features has {len(rows)}; give one per hypothesis")
    ordered = None if texts is None else [checked_sequence(texts, "texts")[row] for row in order.tolist()]
    return NBest(rows[order], offsets, statistic_rows[order], names, ids, statistic_names, ordered)


def _owners(ids: NDArray[np.generic], argument: str, what: str, remedy: str | None) -> tuple[IntArray, list[str]]:
    """Return for each row [M] the number of its list, by first appearance, and the ids of the lists as strings.

    Raises `DataError` with this remedy if the rows of a list are not adjacent; without a remedy, they need not be.
    """
    kinds: dict[str, type] = {}
    names = list(map(str, ids.tolist()))
    for name, value in zip(names, ids.tolist(), strict=True):
        if kinds.setdefault(name, type(value)) is not type(value):
            raise DataError(f"{argument} has {quoted(name)} as a string and as a number; write all ids alike")
    numbers = {name: number for number, name in enumerate(kinds)}
    owner = np.array([numbers[name] for name in names], dtype=np.int64)
    apart = np.flatnonzero(np.diff(owner) < 0)
    if len(apart) and remedy is not None:
        row = int(apart[0]) + 1
        began = f"after it began in row {names.index(names[row])}"
        raise DataError(f"{what} {quoted(names[row])} comes back in row {row} (from 0) {began}; {remedy}")
    return owner, list(numbers)


def _warn_of_spelling(texts: Sequence[str], references: Sequence[Sequence[str]], settings: Any) -> None:
    """Warn if many words of the references are in the texts only in another case, punctuation or Unicode form."""
    if not hasattr(settings, "lowercase"):
        return
    marks = string.punctuation if isinstance(settings, EditTexts) else ""  # others split it off, or hardly count it
    cased = str.lower if settings.lowercase else str
    wanted = Counter(cased(word) for texts_of_list in references for text in texts_of_list for word in text.split())
    known: set[str] = set()
    for first in range(16):  # part of the texts mostly has enough of the words
        known |= {cased(word) for text in texts[first::16] for word in text.split()}
        if sum(count for word, count in wanted.items() if word not in known) <= _MUCH * wanted.total():
            return

    def plain(word: str) -> str:
        return normalize("NFC", word.lower().strip(marks))

    alike = {*map(plain, known)}
    missed = [word for word in wanted if word not in known and plain(word) in alike]
    count, total = sum(map(wanted.__getitem__, missed)), wanted.total()
    if count > _MUCH * total:
        trouble = "are in the texts only in another case, with other punctuation, or in another Unicode form"
        remedy = "spell both alike; metric.lowercase=yes ignores case"
        logger.warning("%d of %d words of the references, such as %r, %s: %s", count, total, missed[0], trouble, remedy)


def _column(values: ArrayLike, count: int, what: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = arrays.as_array(values, what)
    if column.shape != (count,):
        raise DataError(f"{what} must have shape ({count},), one entry per row of features, not {column.shape}")
    numeric = column.dtype.kind in "biuf"
    wrong = ~np.isfinite(column) if numeric else np.array([*map(arrays.is_missing, as_ids(values).tolist())])
    if wrong.any():
        raise DataError(f"{what} has an entry that is missing or not finite: row {int(np.argmax(wrong))} (from 0)")
    return column


def measure_texts(
    nbest: NBest, references: Sequence[str | Sequence[str]], metric: str | TextMetric = "bleu"
) -> tuple[NBest, Metric]:
    """Return the lists with statistics counted from their texts, and the metric that sums these.

    references: for each list one string, or several. metric: a name of `TEXT_METRICS`, or settings such as
    `BleuTexts(tokenize="none")`. Raises `DataError` without texts or where references are missing, and `MetricError`
    for a metric or tokenizer that is unknown or not installed.
    """
    settings = text_metric(metric)
    if nbest.texts is None:
        raise DataError("the lists have no texts; read them with a text column, or pass texts to NBest")
    several = arrays.checked_references(references, nbest.list_ids, "list")
    rows: list[Sequence[float]] = []
    for (begin, end), references_of_list in zip(pairwise(nbest.offsets.tolist()), several, strict=True):
        count = settings.counter(references_of_list)
        texts = nbest.texts[begin:end]
        counted = {text: count(text) for text in checked(dict.fromkeys(texts))}
        rows += [counted[text] for text in texts]
    _warn_of_spelling(nbest.texts, several, settings)
    if settings.columns == BLEU_COLUMNS and not any(row[BLEU_COLUMNS.index("match_4")] for row in rows):
        remedy = "if no spaces part words, set metric.tokenize, such as zh, ja-mecab or char"
        logger.warning("no text has four words in a row of a reference, so BLEU is 0 for all weights; %s", remedy)
    measured = nbest.changed(statistics=np.array(rows, dtype=np.float64), statistic_names=settings.columns)
    return measured, settings.metric(source_of(settings, several))
