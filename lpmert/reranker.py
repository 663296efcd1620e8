"""Use of weights: pick the best hypothesis or answer of each list."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import DataError, IntArray
from lpmert.model.arrays import checked_sequence, is_missing
from lpmert.model.nbest import NBest, checked_lists
from lpmert.quoting import quoted
from lpmert.result import Outcome

if TYPE_CHECKING:
    from lpmert.values import Weights


@dataclass(frozen=True, eq=False)
class Reranked(Outcome):
    """The hypotheses that weights pick.

    Parameters
    ----------
    list_ids : tuple of str
        The lists.
    hypotheses : array [S]
        The hypothesis picked from each list, counted from 0 within the list; with votes, the first hypothesis that
        gives the answer picked.
    texts : tuple of str or None
        Their texts; `None` for lists without texts.
    tied : int
        Number of lists in which another hypothesis comes within rounding of the best score; the first of equal ones is
        picked.
    """

    list_ids: tuple[str, ...]
    hypotheses: IntArray
    texts: tuple[str, ...] | None
    tied: int

    def __str__(self) -> str:
        """Return a line for each list: its id, a tab, and the text picked, or its number if there are no texts."""
        picked = map(str, self.hypotheses.tolist()) if self.texts is None else self.texts
        return "\n".join(f"{name}\t{' '.join(one.split())}" for name, one in zip(self.list_ids, picked, strict=True))


def rerank(nbest: NBest, weights: Weights | str | Path, *, vote: bool | Sequence[Hashable] = False) -> Reranked:
    """Pick the best hypothesis of each list by its score. No losses are needed.

    Parameters
    ----------
    nbest : NBest
        The lists; `lpmert.read(..., references=False)` reads lists without losses.
    weights : mapping or sequence of numbers, Result, Tuned, str or Path
        One number per feature, by name or in order, or a file of weights.
    vote : bool or sequence [M]
        Whether hypotheses of a list with the same text, or with the same entry of this sequence, are one answer: their
        features are summed, as by `lpmert.vote`.

    Returns
    -------
    Reranked
        The picks. Scores are compared exactly, and the first of equal hypotheses is picked. Weights that are all 0 log
        a warning, as in `check`.

    Raises
    ------
    DataError
        If weights or answers do not fit the lists, or `nbest` is not an `NBest`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [0, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}).texts
    ('4',)
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}, vote=True).texts
    ('5',)
    """
    from lpmert.api import evaluated
    from lpmert.formats.weights import given_weights
    from lpmert.metrics.base import SumOfLosses
    from lpmert.model.problem import Problem

    checked_lists(nbest)
    answers = None if isinstance(vote, bool) else vote
    lists, firsts = (nbest, np.arange(nbest.n_hypotheses)) if vote is False else _voted(nbest, answers)
    nothing = np.zeros(lists.n_hypotheses)
    blank = NBest(lists.features, lists.offsets, nothing, lists.names, lists.list_ids, texts=lists.texts)
    found = evaluated(Problem(blank, SumOfLosses()), given_weights(weights))
    rows = blank.rows_of(found.selection)
    texts = None if blank.texts is None else tuple(blank.texts[row] for row in rows.tolist())
    return Reranked(blank.list_ids, firsts[rows] - nbest.offsets[:-1], texts, found.tied_lists)


def vote(nbest: NBest, answers: Sequence[Hashable] | None = None) -> NBest:
    """Merge the hypotheses of each list that give the same answer, and sum their features.

    A feature that is 1 everywhere then counts votes. Tuning weights on such lists is weighted self-consistency.

    Parameters
    ----------
    nbest : NBest
        The lists.
    answers : sequence [M], optional
        The answer of each hypothesis; by default its text.

    Returns
    -------
    NBest
        Lists with one hypothesis per answer, in the order of their first occurrence; statistics and texts are those of
        the first hypothesis with the answer.

    Raises
    ------
    DataError
        If there are neither texts nor answers, or hypotheses with the same answer have different statistics.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [1, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.vote(lists).dense_features().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    voted, _ = _voted(nbest, answers)
    return voted


def _voted(nbest: NBest, answers: Sequence[Hashable] | None) -> tuple[NBest, IntArray]:
    """Return the lists of `vote`, and the first hypothesis [m] with each answer."""
    entries = checked_lists(nbest).texts if answers is None else checked_sequence(answers, "answers")
    if entries is None:
        raise DataError("the lists have no texts that could be answers; read them with a text column, or pass answers")
    if len(entries) != nbest.n_hypotheses:
        raise DataError(
            f"answers must have one entry for each of the {nbest.n_hypotheses} hypotheses, not {len(entries)}"
        )
    lists = nbest.list_index
    if not all(isinstance(one, Hashable) for one in entries) or any(map(is_missing, entries)):
        raise DataError("answers must be strings, numbers or the like, none of them missing (None or NaN)")
    numbers: dict[tuple[int, Hashable], int] = {}
    answer = np.array([numbers.setdefault(key, len(numbers)) for key in zip(lists.tolist(), entries, strict=True)])
    firsts = np.unique(answer, return_index=True)[1]
    different = np.flatnonzero((nbest.statistics != nbest.statistics[firsts][answer]).any(axis=1))
    if len(different):
        row = int(different[0])
        raise DataError(
            f"list {quoted(nbest.list_ids[lists[row]])}: hypotheses with the answer {quoted(entries[row])} have "
            "different statistics; the same answer must cost the same"
        )
    features = np.zeros((len(firsts), nbest.n_features))
    np.add.at(features, answer, nbest.dense_features())
    voted = NBest(
        features,
        np.concatenate([[0], np.cumsum(np.bincount(lists[firsts]))]),
        nbest.statistics[firsts],
        nbest.names,
        nbest.list_ids,
        nbest.statistic_names,
        None if nbest.texts is None else [nbest.texts[row] for row in firsts.tolist()],
    )
    return voted, firsts
