"""The material of a page or a plot: an outcome, its lists, and other weights.

Also the lists whose choices differ between two weight vectors, and the lists with the closest decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.api import problem_of
from lpmert.comparing.comparison import Comparison
from lpmert.comparing.tune import Tuned
from lpmert.errors import DataError, FloatArray
from lpmert.formats.weights import given_weights
from lpmert.metrics.base import AdditiveMetric
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.problem import TIES, Problem
from lpmert.quoting import LOSS, Unit, listed, quoted
from lpmert.reporting.lines import Lines, Profile, Surface, lines_of, profile, surface, windows
from lpmert.result import Check, Result
from lpmert.values import weights_array

_SAME = 1e-12  # tolerance at which weights of length 1 are the same
Shown = Result | Check | Tuned | Comparison  # what a page can be about


@dataclass(frozen=True, eq=False)
class Material:
    """An outcome, its result, the problem of its lists if they are given, and further weights [D] by name."""

    outcome: Shown
    result: Result
    problem: Problem | LatticeProblem | None
    given: Mapping[str, FloatArray]

    @classmethod
    def of(cls, outcome: object, data: NBest | WordGraphs | None, metric: Any, given: Mapping[str, Any]) -> Material:
        """Return an outcome with its lists.

        Lists of a result within a budget are left out, as pictures of the loss show all weights. Raises `DataError` if
        the outcome is none or has no result, the data are other lists, or given weights do not fit.
        """
        if not isinstance(outcome, Shown):
            trouble = "a page is about what minimize, check, tune or compare returned"
            raise DataError(f"{trouble}, not about {quoted(outcome)}; Result.load reads a saved result")
        result = outcome if isinstance(outcome, Result) else outcome.optimum
        if result is None:
            raise DataError("a page needs the optimum, and this comparison did not search for it")
        arrays = {name: weights_array(given_weights(own, name), result.names, name) for name, own in given.items()}
        problem = None
        if data is not None and not result.sums:
            ties = next((rule for rule in TIES if f"|ties:{rule}" in result.signature), "first")
            problem = problem_of(data, metric, ties, None)
            _check_same(problem, result)
        return cls(outcome, result, problem, arrays)

    def index(self, name: str) -> int:
        """Return the index of a feature; raises `DataError` if there is none, or its weight does not matter."""
        if name not in self.result.names:
            raise DataError(f"no feature {quoted(name)}; the features are {listed(self.result.names)}")
        index = self.result.names.index(name)
        if not self.lines.spread[index] > 0.0:
            raise DataError(f"feature {quoted(name)} does not vary within the lists: its weight does not matter")
        return index

    def window(self, name: str) -> FloatArray:
        if name not in self.windows:
            raise DataError(f"window={quoted(name)} is none of {', '.join(self.windows)}")
        return self.windows[name]

    def surface(self, features: tuple[int, int], window: str) -> Surface:
        return surface(self.lines, self.result.weights, features, self.window(window))

    def profile(self, feature: int, window: str) -> Profile:
        return profile(self.lines, self.result.weights, feature, self.window(window), self.window("wide"))

    def in_plane(self, weights: FloatArray, features: tuple[int, int]) -> FloatArray | None:
        """Return the point [2] of weights [D] in the plane of a surface over two features, `None` if they are outside.

        Weights are in the plane if a positive factor moves them there, to within 1e-9 of the largest other weight;
        features that do not vary are ignored.
        """
        rest = self.lines.spread > 0.0
        rest[list(features)] = False
        others, centre = weights[rest], self.result.weights[rest]
        if centre.any():
            projection = float(others @ centre)
            factor = float(centre @ centre) / projection if projection > 0.0 else 0.0
        else:
            factor = float(np.linalg.norm(self.result.weights)) / (float(np.linalg.norm(weights)) or 1.0)
        distance = np.abs(factor * others - centre).max(initial=0.0)
        near = factor > 0.0 and distance <= 1e-9 * np.abs(centre).max(initial=0.0)
        return factor * weights[list(features)] if near else None

    @property
    def unit(self) -> Unit:
        return self.result.unit or (LOSS if self.problem is None else self.problem.unit)

    @property
    def title(self) -> str:
        return "proved optimum" if self.result.status.proved else "best found"

    @cached_property
    def lines(self) -> Lines:
        """The loss along lines of weights; raises `DataError` without lists."""
        if self.result.sums:
            raise DataError("the result holds within a budget only, but pictures of the loss show all weights")
        if self.problem is None:
            raise DataError("this needs the lists: pass them")
        return lines_of(self.problem)

    @cached_property
    def windows(self) -> dict[str, FloatArray]:
        return windows(self.lines, self.result.weights)

    @cached_property
    def others(self) -> dict[str, FloatArray]:
        """Other weights [D] by name: given ones, the start of the search, checked or averaged ones, those of 8 methods.

        Weights that equal earlier ones up to a positive factor are left out, unless they are given. Raises `DataError`
        if given ones have the name of others.
        """
        own = {} if self.result.initial is None else {"start": self.result.initial}
        if isinstance(self.outcome, Check):
            own["checked"] = self.outcome.weights
        elif isinstance(self.outcome, Tuned):
            own["averaged"] = self.outcome.averaged.weights
        elif isinstance(self.outcome, Comparison):
            own |= {f"best of {entry.name}": entry.best.weights for entry in self.outcome.methods[:8]}
        found = dict(self.given)
        for name, weights in own.items():
            if name in self.given:
                raise DataError(f"weights {quoted(name)}: the outcome has others of this name; give these another one")
            if not any(_same_direction(weights, known) for known in (self.result.weights, *found.values())):
                found[name] = weights
        return found


def _same_direction(first: FloatArray, second: FloatArray) -> bool:
    """Whether weights [D] equal others times a positive factor, up to rounding."""
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return 0.0 not in lengths and bool(np.allclose(first / lengths[0], second / lengths[1], rtol=0.0, atol=_SAME))


def _check_same(problem: Problem | LatticeProblem, result: Result) -> None:
    """Raise `DataError` unless a problem has the lists, features and metric of a result; its region may differ."""
    lists = problem.nbest if isinstance(problem, Problem) else problem.lattices
    if lists.fingerprint != result.fingerprint:
        what = "lists" if isinstance(lists, NBest) else "lattices"
        trouble = f"other {what} than those of the result: pass the same ones, with the same features and losses"
    elif lists.names != result.names:
        trouble = f"the features are {listed(lists.names)}, but the result has {listed(result.names)}"
    elif f"|{problem.signature}|" not in f"|{result.signature}|":
        both = f"the metric here is {quoted(problem.metric.signature)}, but the result has {quoted(result.signature)}"
        trouble = f"{both}; pass the same metric"
    else:
        return
    raise DataError(trouble)


Piece = tuple[bool, str]  # whether words are changed, and the words


@dataclass(frozen=True)
class Choice:
    """A hypothesis: its number in its list (`None` for a path), its loss if the metric is additive, its text."""

    number: int | None
    loss: float | None
    text: str | None


@dataclass(frozen=True)
class Change:
    """A list that chooses `after` instead of `before` at other weights, or a close decision, with `after` next best.

    lead: of a close decision, how far `before` is ahead in score, for weights of length 1.
    """

    list_id: str
    before: Choice
    after: Choice
    lead: float | None = None

    @property
    def difference(self) -> float | None:
        """By how much the loss of the list grows, `None` if it has none of its own."""
        return None if self.before.loss is None or self.after.loss is None else self.after.loss - self.before.loss

    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        return edits(self.before.text or "", self.after.text or "")


def _choices(problem: Problem | LatticeProblem, weights: FloatArray) -> list[Choice]:
    """Return the choice of each list at weights [D], in exact arithmetic."""
    if isinstance(problem, Problem):
        return [_of_list(problem, s, number) for s, number in enumerate(problem.evaluate(weights).selection.tolist())]
    found = []
    for number, won in enumerate(problem.decode(problem.checked_weights(weights)).winners):
        loss = float(problem.statistics(number, won.ways[0])[0]) if problem.additive else None
        found.append(Choice(None, loss, problem.text(number, won.ways[0])))
    return found


def changes(problem: Problem | LatticeProblem, first: FloatArray, second: FloatArray) -> list[Change]:
    """Return the lists whose choices differ between two weight vectors [D], the largest gains first."""
    data = problem.nbest if isinstance(problem, Problem) else problem.lattices
    pairs = zip(data.list_ids, _choices(problem, first), _choices(problem, second), strict=True)
    found = [Change(name, before, after) for name, before, after in pairs if before != after]
    return sorted(found, key=lambda change: change.difference or 0.0)


def closest(problem: Problem, weights: FloatArray, most: int) -> list[Change]:
    """Return the lists whose choices at weights [D] lead by least over other features, in floating point."""
    nbest = problem.nbest
    features = nbest.dense_features()
    scores = features @ (weights / (np.linalg.norm(weights) or 1.0))
    found = []
    for s, chosen in enumerate(problem.evaluate(weights).selection.tolist()):
        begin, end = nbest.offsets[s : s + 2].tolist()
        others = np.flatnonzero((features[begin:end] != features[begin + chosen]).any(axis=1))
        if len(others):
            second = int(others[np.argmax(scores[begin + others])])
            found.append((max(0.0, float(scores[begin + chosen] - scores[begin + second])), s, chosen, second))
    found.sort()
    return [
        Change(nbest.list_ids[s], _of_list(problem, s, chosen), _of_list(problem, s, second), lead)
        for lead, s, chosen, second in found[:most]
    ]


def edits(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return two texts in pieces, which are unchanged where both have the same words in the same order."""
    first, second = before.split(), after.split()
    if len(first) + len(second) > 2000:  # comparing them word by word would take quadratic time
        return [(True, " ".join(first))], [(True, " ".join(second))]
    found = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    return (
        [(tag != "equal", " ".join(first[a:b])) for tag, a, b, _, _ in found if a < b],
        [(tag != "equal", " ".join(second[a:b])) for tag, _, _, a, b in found if a < b],
    )


def _of_list(problem: Problem, s: int, number: int) -> Choice:
    nbest, metric = problem.nbest, problem.metric
    row = int(nbest.offsets[s]) + number
    loss = float(metric.losses(nbest.statistics[row : row + 1])[0]) if isinstance(metric, AdditiveMetric) else None
    return Choice(number, loss, None if nbest.texts is None else nbest.texts[row])
