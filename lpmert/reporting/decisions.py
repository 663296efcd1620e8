"""What lists choose: which choices two weight vectors differ in, and which are the closest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

import numpy as np

from lpmert.errors import FloatArray
from lpmert.metrics.base import AdditiveMetric
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.system.deadline import checkpoint

LONGEST_DIFF = 2000
"""Words of two texts together from which on they are shown as wholly different: telling them apart takes squares."""

Piece = tuple[bool, str]
"""Words, and whether they are changed."""


@dataclass(frozen=True)
class Choice:
    """A hypothesis: its number within its list, `None` for a path; its loss, if it has one of its own; its text."""

    number: int | None
    loss: float | None
    text: str | None


@dataclass(frozen=True)
class Change:
    """A list that chooses another hypothesis."""

    list_id: str
    before: Choice
    after: Choice

    @property
    def difference(self) -> float | None:
        """What the list loses more than before."""
        return None if self.before.loss is None or self.after.loss is None else self.after.loss - self.before.loss

    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return both texts in pieces that are the same or not."""
        return edits(self.before.text or "", self.after.text or "")


@dataclass(frozen=True)
class Close:
    """A list's choice and the hypothesis that comes next, behind by `lead` in units of the score at |weights| = 1."""

    list_id: str
    lead: float
    chosen: Choice
    next: Choice


def choices(problem: Problem | LatticeProblem, weights: FloatArray) -> list[Choice]:
    """Return what each list chooses at weights [D], in exact arithmetic."""
    if isinstance(problem, Problem):
        return [_of_list(problem, s, number) for s, number in enumerate(problem.evaluate(weights).selection.tolist())]
    verdict = problem.decode(problem.checked_weights(weights))
    found = []
    for number, won in enumerate(verdict.winners):
        checkpoint()
        way = won.ways[0]
        loss = float(problem.statistics(number, way)[0]) if problem.additive else None
        found.append(Choice(None, loss, problem.text(number, way)))
    return found


def changes(problem: Problem | LatticeProblem, first: FloatArray, second: FloatArray) -> list[Change]:
    """Return the lists that choose otherwise at the second weights [D] than at the first, the greatest gains first."""
    data = problem.nbest if isinstance(problem, Problem) else problem.lattices
    pairs = zip(data.list_ids, choices(problem, first), choices(problem, second), strict=True)
    found = [Change(name, before, after) for name, before, after in pairs if before != after]
    return sorted(found, key=lambda change: change.difference or 0.0)


def closest(problem: Problem, weights: FloatArray, most: int) -> list[Close]:
    """Return the lists, at most so many, whose choice at weights [D] has the least lead, in floating point.

    Hypotheses with the features of the choice do not count.
    """
    nbest = problem.nbest
    features = nbest.dense_features()
    scores = features @ (weights / (np.linalg.norm(weights) or 1.0))
    found = []
    for s, chosen in enumerate(problem.evaluate(weights).selection.tolist()):
        checkpoint()
        begin, end = nbest.offsets[s : s + 2].tolist()
        others = np.flatnonzero((features[begin:end] != features[begin + chosen]).any(axis=1))
        if len(others):
            second = int(others[np.argmax(scores[begin + others])])
            found.append((max(0.0, float(scores[begin + chosen] - scores[begin + second])), s, chosen, second))
    found.sort()
    return [
        Close(nbest.list_ids[s], lead, _of_list(problem, s, chosen), _of_list(problem, s, second))
        for lead, s, chosen, second in found[:most]
    ]


def edits(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, words that are in both in the same order unchanged."""
    checkpoint()
    first, second = before.split(), after.split()
    if len(first) + len(second) > LONGEST_DIFF:
        return [(True, " ".join(first))], [(True, " ".join(second))]
    left, right = [True] * len(first), [True] * len(second)
    for one, other, size in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        left[one : one + size] = right[other : other + size] = [False] * size
    return _joined(first, left), _joined(second, right)


def _joined(words: Sequence[str], changed: Sequence[bool]) -> list[Piece]:
    pairs = groupby(zip(changed, words, strict=True), key=lambda pair: pair[0])
    return [(key, " ".join(word for _, word in group)) for key, group in pairs]


def _of_list(problem: Problem, s: int, number: int) -> Choice:
    checkpoint()
    nbest = problem.nbest
    row = int(nbest.offsets[s]) + number
    metric = problem.metric
    loss = float(metric.losses(nbest.statistics[row : row + 1])[0]) if isinstance(metric, AdditiveMetric) else None
    return Choice(number, loss, None if nbest.texts is None else nbest.texts[row])
