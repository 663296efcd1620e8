"""Rank fusion of retrievers' scores: the best weights, compared with equal weights, a grid and each score alone, and
cross-validated on unseen queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from itertools import combinations
from math import fsum
from operator import attrgetter
from typing import Any

import numpy as np

from lpmert.comparing.cross_validation import corrected_reach
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.limits import out_of_time, within
from lpmert.model.judgments import Judged
from lpmert.ranking import RankingMetric, RankingResult, evaluate, maximize
from lpmert.result import Outcome, Status, plain
from lpmert.values import Weights, weights_array, whole_number

_STEPS = 10  # steps of the grid: 11 values per weight, as tools of search engines scan
_GRID_SECONDS = 20.0  # maximum time for the grid
_FOLD_SECONDS = 10.0
"""Maximum time for the search of a fold: its weights are judged by held-out queries, not by a bound."""
_DIGITS = range(3, 17)
_PROVED = 1e-11  # gap up to which a score counts as proved best
_SHOWN = 6
OnStage = Callable[[str, int, int | None], object]


@dataclass(frozen=True)
class Found:
    """Other weights, and their score in exact arithmetic."""

    weights: list[float]
    score: float


@dataclass(frozen=True)
class Unseen:
    """The expected score on unseen queries, by cross-validation.

    Parameters
    ----------
    best, equal : float
        Mean scores on held-out queries: of the best weights for the other queries, and of equal weights.
    reach : float
        Half the width of the 95 % interval of their difference.
    folds : int
        Number of folds.
    """

    json_properties = ("message",)

    best: float
    equal: float
    reach: float
    folds: int

    @property
    def message(self) -> str:
        """The comparison as a sentence."""
        if abs(self.best - self.equal) <= self.reach:
            return "on unseen queries equal weights may be as good"
        winner = "they beat equal weights" if self.best > self.equal else "equal weights are better"
        return f"on unseen queries {winner}"


@dataclass(frozen=True)
class Fused(Outcome):
    """The best weights for a metric, and the scores of other weights.

    Parameters
    ----------
    result : RankingResult
        The result of the search; its weights have as few digits as the score allows.
    metric : str
        The metric, such as "ndcg@10".
    alone : dict
        The score of each feature alone.
    others : dict
        Other weights by name: those to compare with, equal weights, and the best of a grid of multiples of 0.1 that sum
        to 1.
    unseen : Unseen or None
        The result of cross-validation, if requested.
    queries, documents : int
        Number of queries with a relevant document, and of their documents.
    notes : tuple of str
        What reading the documents changed or left out, and the score of another order of ties.
    """

    json_properties = ("message",)
    json_omits = ("result",)

    result: RankingResult = field(repr=False)
    metric: str
    alone: Mapping[str, float]
    others: Mapping[str, Found]
    unseen: Unseen | None
    queries: int
    documents: int
    notes: tuple[str, ...]

    @property
    def message(self) -> str:
        """What is proved of the weights, as a sentence."""
        bound, no = rounded_up(self.result.bound), "no nonnegative" if self.result.search.nonnegative else "no"
        if self.result.status is Status.OPTIMAL:
            return f"proved: {no} weights do better"
        if self.result.status is Status.OPTIMAL_TO_TOLERANCE:
            return f"optimal to tolerance: {no} weights with a higher score were found; none exceed {bound}"
        ended = "interrupted" if self.result.status is Status.INTERRUPTED else "stopped at the time limit"
        return f"{ended}: {no} weights reach more than {bound}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {**plain(self.result), **super().to_dict()}


def fuse(
    lists: Judged,
    metric: RankingMetric | str,
    *,
    nonnegative: bool = True,
    time_limit: float | None = None,
    seed: int = 0,
    other: Weights | None = None,
    folds: int | None = None,
    on_stage: OnStage | None = None,
) -> Fused:
    """Find the best weights for fusing scores, and compare them with equal weights, a grid and each score alone.

    Parameters
    ----------
    lists : Judged
        Documents with features and grades, such as `lpmert.read_judged` returns.
    metric : RankingMetric or str
        The metric, as for `lpmert.ranking.maximize`.
    nonnegative, time_limit, seed
        As for `lpmert.ranking.maximize`. The grid may take 20 seconds more, and each fold of cross-validation 10.
    other : mapping or sequence of numbers, optional
        Weights to compare with, by name or in order.
    folds : int, optional
        Number of folds for cross-validation; none by default.
    on_stage : callable, optional
        Called with the name of a stage, how many of its parts are done, and their number, `None` if unknown.

    Returns
    -------
    Fused
        The best weights and all scores, which are exact; see `lpmert.ranking.evaluate`.

    Raises
    ------
    DataError
        If no query has a relevant document, or fewer queries count than there are folds.

    Examples
    --------
    >>> lists = Judged([[3, 0], [2, 2], [0, 3], [1, 1], [0, 2]], [0, 3, 5], [0, 1, 0, 0, 1])
    >>> fused = fuse(lists, "mrr@10")
    >>> fused.result.score, fused.alone, fused.message
    (1.0, {'1': 0.5, '2': 0.75}, 'proved: no nonnegative weights do better')
    """
    measure = RankingMetric.of(metric)
    counted = np.array(sorted(measure.parts(lists).factors))
    if folds is not None and whole_number(folds, "folds", 2) > len(counted):
        raise DataError(f"cross-validation in {folds} parts needs as many queries that count, not {len(counted)}")
    dimensions, tell = len(lists.names), on_stage or (lambda *_: None)

    def on_progress(score: float, bound: float, nodes: int) -> None:
        tell(f"{measure} {score:.{_SHOWN}f}, at most {rounded_up(bound)}; cones", nodes, None)

    settings: dict[str, Any] = {"nonnegative": nonnegative, "time_limit": time_limit, "seed": seed}
    found = maximize(lists, measure, on_progress=on_progress, **settings)

    def judged(weights: Weights) -> Found:
        return Found(weights_array(weights, lists.names).tolist(), evaluate(lists, weights, measure))

    alone = {name: judged(one) for name, one in zip(lists.names, np.eye(dimensions), strict=True)}
    others = {} if other is None else {"these weights": judged(other)}
    others["equal weights"] = judged(np.ones(dimensions))
    grid: list[Found] = []
    deadline = within(_GRID_SECONDS)
    for weights in _grid(dimensions):
        grid.append(judged(weights))
        if deadline.expired:
            break
    others[f"grid of {len(grid):,}"] = max(grid, key=attrgetter("score"))
    allowed = [one for one in [*alone.values(), *others.values()] if not nonnegative or min(one.weights) >= 0]
    best = _at_least(lists, measure, found, np.array(max(allowed, key=attrgetter("score")).weights))
    best = _with_few_digits(lists, measure, best, nonnegative)
    given = evaluate(lists, best.weights, measure, ties="given")  # tools disagree on the order
    notes = [f"documents with equal scores count in the worst order; as they come {given:.6f}"]
    notes = notes if given - best.score > _PROVED else []
    return Fused(
        best,
        str(measure),
        {name: one.score for name, one in alone.items()},
        others,
        None if folds is None else _cross_validated(lists, measure, counted, folds, settings, tell),
        len(counted),
        int(np.diff(lists.offsets)[counted].sum()),
        (*lists.notes, *notes),
    )


def rounded_up(bound: float) -> str:
    """Return an upper bound with six decimals, rounded up."""
    return str(Decimal(bound).quantize(Decimal(10) ** -_SHOWN, ROUND_CEILING))


def _at_least(lists: Judged, metric: RankingMetric, result: RankingResult, weights: FloatArray) -> RankingResult:
    """Replace the weights of a result by others that score better, which can happen if the search was stopped early."""
    normalised = weights / np.abs(weights).sum()
    score = evaluate(lists, normalised, metric)
    if score <= result.score:
        return result
    bound = max(result.bound, score)
    status = Status.OPTIMAL if bound - score <= _PROVED else result.status
    return replace(result, weights=normalised, score=score, bound=bound, status=status)


def _with_few_digits(lists: Judged, metric: RankingMetric, result: RankingResult, nonnegative: bool) -> RankingResult:
    """Round the weights of a result to the fewest decimals that keep the score; nonnegative weights still sum to 1.

    The weights stay as they are once the deadline of the running call is reached.
    """
    largest = int(np.abs(result.weights).argmax())
    for digits in _DIGITS:
        if out_of_time():
            break
        weights = np.array([float(f"{weight:.{digits}f}") for weight in result.weights.tolist()])
        if nonnegative:
            weights[largest] = float(f"{1.0 - fsum(np.delete(weights, largest)):.{digits}f}")
        score = evaluate(lists, weights, metric)
        if score >= result.score:
            return replace(result, weights=weights, score=score, bound=max(result.bound, score))
    return result


def _grid(dimensions: int) -> Iterator[FloatArray]:
    """Yield all nonnegative weights that are multiples of 1 / `_STEPS` and sum to 1."""
    places = _STEPS + dimensions - 1
    for bars in combinations(range(places), dimensions - 1):  # the steps between two bars are those of a weight
        yield (np.diff([-1, *bars, places]) - 1) / _STEPS


def _cross_validated(
    lists: Judged,
    metric: RankingMetric,
    counted: IntArray,
    folds: int,
    settings: Mapping[str, Any],
    on_stage: OnStage,
) -> Unseen | None:
    """Compare the best weights with equal weights on each fold of the queries, after a search on the other folds.

    Returns `None` if the deadline of the running call comes first. settings: arguments of `maximize`.
    """
    limit = settings["time_limit"]
    settings = {**settings, "time_limit": _FOLD_SECONDS if limit is None else min(_FOLD_SECONDS, limit)}
    parts = np.array_split(np.random.default_rng(settings["seed"]).permutation(counted), folds)
    values = []
    for number, part in enumerate(parts):
        on_stage("cross-validation", number, folds)
        others = lists.of_queries(np.setdiff1d(counted, part))
        weights = maximize(others, metric, **settings).weights
        if out_of_time():
            return None
        held_out = lists.of_queries(part)
        values.append([evaluate(held_out, one, metric) for one in (weights, np.ones(len(weights)))])
    best, equal = np.average(values, axis=0, weights=[len(part) for part in parts])
    differences = np.array([one - other for one, other in values])
    return Unseen(float(best), float(equal), corrected_reach(differences, 1 / (folds - 1)), folds)
