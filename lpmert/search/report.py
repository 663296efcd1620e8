"""From the outcome of a search to the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpmert.findings import Cell, Doubt
from lpmert.model.coordinates import CallerWeights, CanonicalWeights
from lpmert.model.doubts import too_good
from lpmert.model.evaluation import Evaluation
from lpmert.model.form import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.quoting import SHOWN_DECIMALS
from lpmert.result import Result, Status
from lpmert.search.method import Method, Search
from lpmert.search.moved import in_scale_of, normalised
from lpmert.search.polish import Placed, beside_ties, in_the_middle
from lpmert.system.deadline import out_of_time
from lpmert.system.memory import give_back
from lpmert.version import __version__

_RESOLUTION = 1e-12
"""Share of the loss by which rounded losses may be off and the optimum still be called proved."""


@dataclass(frozen=True)
class Outcome:
    """How driving a search ended; cost units are the problem's."""

    status: Status
    cost: int
    weights: CanonicalWeights
    lower_bound: int | None
    trace: tuple[tuple[float, float | None, float], ...]


@dataclass(frozen=True)
class Ended:
    """What a report takes of a search, which may go then with all that it held: whether the cost of the incumbent does
    not hang on ties, what was counted, and what makes of a result the one that the caller gets.
    """

    strict: bool
    counters: Mapping[str, int]
    conclude: Callable[[Result], Result]

    @classmethod
    def of(cls, search: Search) -> Ended:
        """Return this of a search that has ended."""
        return cls(search.strict, search.counters(), search.conclude)


def result_of(
    method: Method,
    problem: Problem,
    search: Ended,
    outcome: Outcome,
    seed: int,
    initial: CallerWeights | None = None,
) -> Result:
    """Return what decoding with the weights of an outcome gives, and what the search proved.

    initial [D]: where the search began; they stay unless others are better, if the method minimises.
    """
    staying = initial if method.minimises else None
    try:
        if search.strict:
            placed = in_the_middle(problem, outcome.weights, outcome.cost, seed, staying)
        else:
            placed = beside_ties(problem, outcome.weights, seed, staying)
    except KeyboardInterrupt:
        placed = Placed(normalised(problem.to_caller(outcome.weights)))
    if problem.reduced:
        give_back()
    margin = placed.margin
    weights, evaluation = scaled_evaluation(problem, problem.nbest.names, placed.weights)
    centre = weights if placed.centre is None else in_scale_of(problem.region, problem.nbest.names, placed.centre)
    loss, status, lower = evaluation.loss, outcome.status, None
    if outcome.lower_bound is not None:
        unseen = problem.unseen(loss)
        doubtful = not placed.holds or problem.turned or unseen > _RESOLUTION * abs(loss)
        if status is Status.OPTIMAL and doubtful:
            status = Status.OPTIMAL_TO_TOLERANCE
        bound = bound_on_loss(problem.canonical, outcome.lower_bound, unseen)
        lower = loss if status is Status.OPTIMAL else min(loss, bound)
    return Result(
        weights=weights,
        names=problem.nbest.names,
        loss=loss,
        score=evaluation.score,
        lower_bound=lower,
        status=status,
        method=method.name,
        statistics=evaluation.statistics,
        selection=evaluation.selection,
        margin=evaluation.margin,
        signature=f"lpmert:{__version__}|{problem.signature}|method:{method.settings()}|seed:{seed}",
        fingerprint=problem.nbest.fingerprint,
        seed=seed,
        tied_lists=evaluation.tied_lists,
        loss_best_ties=evaluation.loss_best_ties,
        loss_worst_ties=evaluation.loss_worst_ties,
        free=problem.free,
        region=problem.distances(weights),
        limiting=placed.limiting,
        cell=None if margin is None else Cell(problem.weight_ranges(weights), centre, margin),
        counters={**_sizes(problem), **search.counters},
        trace=outcome.trace,
        warnings=(*problem.doubts, *_of_weights(problem, weights, evaluation)),
        list_ids=problem.nbest.list_ids,
        rates=problem.rates(loss),
        unit=problem.unit,
        initial=initial,
    )


def scaled_evaluation(
    problem: Problem | LatticeProblem, names: Sequence[str], weights: CallerWeights
) -> tuple[CallerWeights, Evaluation]:
    """Return weights [D] in the scale of the region, unless rounding changes their cost there, and what they cost."""
    exact = problem.evaluate(weights)
    scaled = in_scale_of(problem.region, names, weights)
    if scaled is weights or problem.inside(scaled) < problem.inside(weights):
        return weights, exact
    found = problem.evaluate(scaled)
    same = found.loss == exact.loss and found.tied_lists <= exact.tied_lists
    return (scaled, found) if same else (weights, exact)


def bound_on_loss(form: Canonical, cost: int, unseen: float = 0.0) -> float:
    """Return the bound on the loss that a bound on the cost gives, rounded down."""
    exact = (form.constant + cost) * Fraction(form.unit) - Fraction(unseen)
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def _of_weights(problem: Problem, weights: CallerWeights, evaluation: Evaluation) -> Iterator[Doubt]:
    """Yield what is odd about weights [D]: they are too good, or lose their loss in the digits of reports."""
    if problem.losses is not None and not problem.doubts:
        doubt = too_good(problem.nbest, problem.losses, evaluation.selection)
        if doubt is not None:
            yield doubt
    rounded = np.round(weights, SHOWN_DECIMALS)
    if not np.array_equal(rounded, weights) and rounded.any() and not out_of_time():
        loss = problem.evaluate(rounded).loss
        if loss > evaluation.loss:
            yield Doubt(
                "digits",
                f"rounded to {SHOWN_DECIMALS} decimals, as reports show them, these weights have loss {loss:.10g}: "
                "take them from the JSON output, which has them in full",
            )


def _sizes(problem: Problem) -> Mapping[str, int]:
    return {
        "lists": problem.nbest.n_lists,
        "hypotheses": problem.nbest.n_hypotheses,
        "features": problem.nbest.n_features,
        "canonical_lists": problem.canonical.n_lists,
        "canonical_hypotheses": len(problem.canonical.features),
        "canonical_features": problem.canonical.n_features,
    }
