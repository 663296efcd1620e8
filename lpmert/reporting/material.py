"""The material of a page or a plot: the exact loss along lines of weights, and the lists that change.

Profiles show the loss along one weight, surfaces over two, in windows around the weights of an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lpmert import core
from lpmert.api import problem_of
from lpmert.comparing.comparison import Comparison
from lpmert.comparing.tune import Tuned
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.weights import given_weights
from lpmert.limits import checkpoint
from lpmert.lines import Space, envelope
from lpmert.metrics.base import AdditiveMetric, losses_of_totals
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.presolve import fixed_point
from lpmert.model.problem import TIES, Problem
from lpmert.numeric.lists import units, varying_columns
from lpmert.quoting import LOSS, Unit, listed, quoted
from lpmert.result import Check, Result
from lpmert.values import weights_array

PIECES = 1000  # maximum number of pieces of a drawn profile; more cannot be seen
COLUMNS = 401  # points on each line of a surface; odd, like the number of lines


class Row(NamedTuple):
    """The loss on a segment: thresholds [E], ascending, where it may change, and losses [E + 1] between them."""

    thresholds: FloatArray
    losses: FloatArray


class Lines(NamedTuple):
    """The loss along lines of weights in the caller's coordinates; not thread-safe.

    spread [D]: how far each feature varies within lists. rows: the number of lines of a surface, odd so that one of
    them goes through its centre. row: a function of weights and direction [D] to the loss at weights + t direction,
    -1 < t < 1.
    """

    spread: FloatArray
    rows: int
    row: Callable[[FloatArray, FloatArray], Row]

    def along(self, weights: FloatArray, feature: int, half: float) -> Row:
        """Return the loss while one of the weights [D] moves by less than `half`; thresholds are in units of `half`."""
        direction = np.zeros(len(weights))
        direction[feature] = half
        return self.row(weights, direction)


def lines_of(problem: Problem | LatticeProblem) -> Lines:
    """Return the loss of a problem along lines; its region is ignored."""
    return _of_lists(problem) if isinstance(problem, Problem) else _of_lattices(problem)


def _rows(budget: int, size: int, most: int) -> int:
    """Return the odd number of lines of a surface that take about five seconds, at least 9; size: the work for one."""
    return min(max(budget // max(size, 1), 9), most) // 2 * 2 + 1


def _totals(first: FloatArray, changes: FloatArray) -> FloatArray:
    return np.cumsum(np.concatenate([first[None], changes]), axis=0)


def _of_lists(problem: Problem) -> Lines:
    features, offsets, statistics = problem.as_given()
    lines, every, columns = core.FeatureLines(offsets), np.arange(len(features)), np.ascontiguousarray(features.T)
    numbers = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    metric, costs = problem.metric, None
    if isinstance(metric, AdditiveMetric):  # in fixed point, sums are exact
        costs = fixed_point(np.asarray(metric.losses(statistics), dtype=np.float64), offsets)
    values: Any = statistics if costs is None else costs.costs

    def row(weights: FloatArray, direction: FloatArray) -> Row:
        checkpoint()
        slopes, scores = core.scores_of(columns, direction), core.scores_of(columns, weights)
        _, left, thresholds, leaving, entering = lines.events(every, slopes, 0.0, scores)
        order = np.argsort(thresholds, kind="stable")
        thresholds, leaving, entering = thresholds[order], leaving[order], entering[order]
        begin, end = np.searchsorted(thresholds, -1.0, "right"), np.searchsorted(thresholds, 1.0, "left")
        left[numbers[entering[:begin]]] = entering[:begin]  # of several changes of a list, the last one counts
        changes = values[entering[begin:end]] - values[leaving[begin:end]]
        totals = _totals(values[left].sum(axis=0), changes)
        losses = losses_of_totals(metric, totals) if costs is None else (costs.constant + totals) * costs.unit
        return Row(thresholds[begin:end], losses)

    varies = np.isin(np.arange(features.shape[1]), varying_columns(features, offsets))
    spread = np.where(varies, units(block[:2] for block in problem.blocks()), 0.0)
    return Lines(spread, _rows(700_000_000, len(features), 255), row)


def _of_lattices(problem: LatticeProblem) -> Lines:
    scales = problem.coordinates.scales

    def row(weights: FloatArray, direction: FloatArray) -> Row:
        first, thresholds, changes = np.zeros(0), [], []
        for number, graph in enumerate(problem.graphs):
            checkpoint()
            *_, starts, ways = envelope(graph, weights / scales, direction / scales)
            begin, end = int(np.searchsorted(starts, -1.0, "right")), int(np.searchsorted(starts, 1.0, "left"))
            won = np.array([problem.statistics(number, way) for way in ways[begin - 1 : max(begin, end)]])
            first = first + won[0] if number else won[0]
            thresholds.append(starts[begin:end])
            changes.append(np.diff(won, axis=0))
        found = np.concatenate(thresholds)
        order = np.argsort(found, kind="stable")
        totals = _totals(first, np.concatenate(changes)[order])
        return Row(found[order], totals[:, 0] if problem.additive else losses_of_totals(problem.metric, totals))

    links = sum(len(graph.sources) for graph in problem.graphs)
    return Lines(np.asarray(Space.of(problem).spread / scales), _rows(8_000_000, links, 127), row)


def windows(lines: Lines, weights: FloatArray) -> dict[str, FloatArray]:
    """Return two windows around weights [D] by name, wide and near: half their widths in each weight [D].

    In the widest, each weight can outweigh all others; the narrowest shows about a dozen cells, and at least 1/4000 of
    the widest. The widths are 0 for weights that do not matter.
    """
    spread = lines.spread
    length = float(np.linalg.norm(weights * spread)) or 1.0
    with np.errstate(divide="ignore"):
        wide = np.where(spread > 0.0, 1.25 * length / spread, 0.0)
    near = wide.copy()
    for d in np.flatnonzero(wide):
        low, high = interval(lines, weights, int(d), float(wide[d]))
        near[d] = min(max(2.5 * (high - low), wide[d] / 4000), wide[d] / 4)
    return {"wide": wide, "near": near}


def interval(lines: Lines, weights: FloatArray, feature: int, half: float) -> tuple[float, float]:
    """Return how far one weight can move down (<= 0) and up (>= 0) before the loss changes, by at most `half`."""
    row = lines.along(weights, feature, half)
    ends = np.concatenate([[-1.0], row.thresholds, [1.0]])
    here = int(np.searchsorted(row.thresholds, 0.0, "right"))
    others = np.flatnonzero(row.losses != row.losses[here])
    low, high = others[others < here].max(initial=-1) + 1, others[others > here].min(initial=len(row.losses))
    return min(float(ends[low]), 0.0) * half, max(float(ends[high]), 0.0) * half


def shown_features(lines: Lines, weights: FloatArray, most: int) -> IntArray:
    """Return at most `most` features whose weights contribute most to scores, in ascending order."""
    share = np.abs(weights) * lines.spread
    chosen = np.lexsort((-lines.spread, -share))[:most]
    return np.sort(chosen[lines.spread[chosen] > 0.0])


@dataclass(frozen=True, eq=False)
class Profile:
    """The loss along one weight: losses [n] between ends [n + 1], ascending.

    value: the weight in the middle. best: the interval around it on which the loss is constant; an end is `None` if it
    is beyond the widest window. whole: whether every piece was long enough to be drawn.
    """

    value: float
    ends: FloatArray
    losses: FloatArray
    best: tuple[float | None, float | None]
    whole: bool


def profile(lines: Lines, weights: FloatArray, feature: int, window: FloatArray, widest: FloatArray) -> Profile:
    """Return the loss along one weight in a window around weights [D]; widest: limits the search for `best`."""
    half, value, reach = float(window[feature]), float(weights[feature]), float(widest[feature])
    row = lines.along(weights, feature, half)
    last = np.append(row.losses[1:] != row.losses[:-1], True)
    ends, losses = np.append(row.thresholds, 1.0)[last], row.losses[last]
    whole = len(losses) <= PIECES
    if not whole:
        centres = (2 * np.arange(PIECES) + 1) / PIECES - 1.0
        losses = losses[np.minimum(np.searchsorted(ends, centres, "right"), len(losses) - 1)]
        last = np.append(losses[1:] != losses[:-1], True)
        ends, losses = ((2 * np.arange(PIECES) + 2) / PIECES - 1.0)[last], losses[last]
    low, high = interval(lines, weights, feature, reach)
    best = (value + low if low > -reach else None, value + high if high < reach else None)
    return Profile(value, value + half * np.concatenate([[-1.0], ends]), losses, best, whole)


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss over two weights, exact at the centres of equal rectangles that fill a window.

    features: the two; weights [D]: the centre; halves [2]: half the widths of the window; losses [rows, columns]: rows
    by the second weight, columns by the first, both ascending.
    """

    features: tuple[int, int]
    weights: FloatArray
    halves: FloatArray
    losses: FloatArray


def surface(lines: Lines, weights: FloatArray, features: tuple[int, int], window: FloatArray) -> Surface:
    direction, step = (np.where(np.arange(len(weights)) == feature, window, 0.0) for feature in features)
    heights, centres = ((2 * np.arange(count) + 1) / count - 1.0 for count in (lines.rows, COLUMNS))
    rows = (lines.row(weights + height * step, direction) for height in heights)
    losses = np.array([row.losses[np.searchsorted(row.thresholds, centres, "right")] for row in rows])
    return Surface(features, weights, window[list(features)], losses)


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
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return 0.0 not in lengths and bool(np.allclose(first / lengths[0], second / lengths[1], rtol=0.0, atol=_SAME))


def _check_same(problem: Problem | LatticeProblem, result: Result) -> None:
    """Raise `DataError` unless a problem has the lists, features and metric of a result; its region may differ."""
    lists = problem.nbest if isinstance(problem, Problem) else problem.lattices
    if lists.fingerprint != result.fingerprint or lists.names != result.names:
        what = "lists" if isinstance(lists, NBest) else "lattices"
        trouble = f"other {what} than those of the result: pass the same ones, with the same features and losses"
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
        """Return both texts in pieces, which are unchanged where both have the same words in the same order."""
        first, second = (self.before.text or "").split(), (self.after.text or "").split()
        if len(first) + len(second) > 2000:  # comparing them word by word would take quadratic time
            return [(True, " ".join(first))], [(True, " ".join(second))]
        found = SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
        return (
            [(tag != "equal", " ".join(first[a:b])) for tag, a, b, _, _ in found if a < b],
            [(tag != "equal", " ".join(second[a:b])) for tag, _, _, a, b in found if a < b],
        )


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


def _of_list(problem: Problem, s: int, number: int) -> Choice:
    nbest, metric = problem.nbest, problem.metric
    row = int(nbest.offsets[s]) + number
    loss = float(metric.losses(nbest.statistics[row : row + 1])[0]) if isinstance(metric, AdditiveMetric) else None
    return Choice(number, loss, None if nbest.texts is None else nbest.texts[row])
