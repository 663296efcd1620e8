"""Lists from other data: groups instead of offsets, linear classification, discrete choice, texts and references."""

from __future__ import annotations

import logging
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert.errors import DataError, IntArray
from lpmert.metrics.base import Metric
from lpmert.metrics.text import EditTexts, TextMetric, source_of, text_metric
from lpmert.model import arrays
from lpmert.model.arrays import as_ids, checked_sequence, frame_names, real_matrix
from lpmert.model.nbest import NBest, gathered
from lpmert.quoting import quoted
from lpmert.registry import BLEU_COLUMNS
from lpmert.system.deadline import checked

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
