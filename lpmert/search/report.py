"""From the ending of a search to its result, with weights in the centre of the optimal cell or moved off all ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

import numpy as np

from lpmert.core import decode
from lpmert.errors import IntArray
from lpmert.limits import OutOfTime, heeding, out_of_time
from lpmert.model.canonical import CallerWeights, Canonical, CanonicalWeights
from lpmert.model.data_warnings import too_good
from lpmert.model.lattice_problem import AnyProblem, Catalogue, LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.cone import LinOptimizer
from lpmert.quoting import SHOWN_DECIMALS
from lpmert.result import Cell, Diagnostic, Evaluation, Result, Status
from lpmert.search.incumbent import halved, in_scale_of, moved, normalised
from lpmert.search.method import Method
from lpmert.version import __version__

_PERTURBATIONS = 24

_THIN = 2.0**-52
"""Margin below which the centre of a cell is also computed in the scale of the caller's weights. Features that hardly
vary are scaled up to the size of the others, and limits on their weights then leave almost no margin.
"""

_TIE_DRAWS = 4
_TIE_SIZES = tuple(10.0 ** (exponent / 2) for exponent in range(-24, -3))
"""Sizes of the steps that move weights off a tie, relative to the largest weight."""


class Placed(NamedTuple):
    """Weights [D], the margin of their cell (`None` if unknown), and the labels of the limits that cut the cell off.

    holds: in exact arithmetic, the weights have the cost that the search claims, and no tie decides it. centre [D]: the
    centre of the cell if the weights are not its centre.
    """

    weights: CallerWeights
    margin: float | None = None
    holds: bool = False
    limiting: tuple[str, ...] = ()
    centre: CallerWeights | None = None


def in_the_middle(
    problem: Problem, weights: CanonicalWeights, cost: int, seed: int, initial: CallerWeights | None
) -> Placed:
    """Return the centre of the cell that contains weights [d] of this cost, within the region.

    Initial weights [D] that are as good are kept; repeated searches would drift otherwise. The centre is computed on
    the unmerged lists: merged lists that cancel each other can be tied at the weights of the search.
    """
    if initial is not None and initial.any() and problem.attains(normalised(initial), cost):
        centre, margin, limiting = _centred(problem, initial)
        return Placed(normalised(initial), margin, True, limiting, normalised(centre))
    found = problem.to_caller(weights)
    centre, margin, limiting = _centred(problem, found)
    holds = problem.attains(normalised(centre), cost)
    thin = not holds or (margin is not None and margin < _THIN)
    if thin or not problem.far_from_rounding(centre):
        middle, even_margin, even_limiting = _centred(problem, found, even=True)
        even = normalised(middle)
        if problem.attains(even, cost):
            if thin and even_margin is not None and even_margin > (margin or 0.0):
                return Placed(even, even_margin, True, even_limiting)
            if problem.far_from_rounding(even):  # tiny weights of huge features leave sums without digits
                return Placed(even, margin, True, limiting, normalised(centre))
    if holds:
        return Placed(normalised(centre), margin, True, limiting)
    # A cell can be so thin that normalising moves weights out of it; a power of two changes no bit of the weights.
    candidates = [normalised(found), halved(centre), halved(found)]
    if problem.region is not None:
        # Cell and region are convex: some point between the weights found and the centre lies in both.
        near, far = normalised(found), normalised(centre)
        candidates = [normalised(near + 2.0**-k * (far - near)) for k in range(1, _PERTURBATIONS)] + candidates
    sizes = [10.0 ** (-k / 2) for k in range(_PERTURBATIONS)]
    nearby = moved(found, sizes, _steps(problem, seed), alike=True)
    for candidate in chain(candidates, map(normalised, nearby)):
        if problem.attains(candidate, cost):
            return Placed(candidate, None, True, limiting)
        if out_of_time():
            break
    inside = problem.canonical.interior
    if inside is not None and not problem.inside(normalised(found)):
        found = problem.to_caller(inside)
    return Placed(normalised(found), None, False, limiting)


def beside_ties(problem: Problem, weights: CanonicalWeights, seed: int, initial: CallerWeights | None) -> Placed:
    """Return weights [d] moved just far enough that no tie decides their loss, or initial weights [D] as good."""
    placed = _beside_ties(problem, weights, seed)
    if initial is None or not initial.any() or not problem.inside(kept := normalised(initial)):
        return placed
    evaluation = problem.evaluate(kept)
    as_good = _is_clear(evaluation) and evaluation.loss <= problem.evaluate(placed.weights).loss
    return Placed(kept) if as_good else placed


def _beside_ties(problem: Problem, weights: CanonicalWeights, seed: int) -> Placed:
    found = problem.to_caller(weights)
    inside = problem.canonical.interior
    if inside is not None and not problem.inside(found):
        found = problem.to_caller(inside)
    start = normalised(found)
    if (_is_clear(problem.evaluate(start)) and problem.inside(start)) or not len(problem.unmerged.coordinates.columns):
        return Placed(start)
    nearby = moved(found, np.repeat(_TIE_SIZES, _TIE_DRAWS), _steps(problem, seed), alike=True)
    for size in _TIE_SIZES:
        if out_of_time() and size > _TIE_SIZES[0]:
            break
        draws = [normalised(next(nearby)) for _ in range(_TIE_DRAWS)]
        clear = [(at.loss, row) for row in draws if problem.inside(row) and _is_clear(at := problem.evaluate(row))]
        if clear:
            return Placed(min(clear, key=lambda pair: pair[0])[1])
    return Placed(start)


def _steps(problem: Problem, seed: int) -> Callable[[], CallerWeights]:
    """Return a function that draws a step [D] of the weights of all unmerged features; merged ones may hide ties."""
    rng = np.random.default_rng(seed)
    coordinates = problem.unmerged.coordinates
    return lambda: coordinates.to_caller(rng.normal(size=len(coordinates.columns)))


def _is_clear(evaluation: Evaluation) -> bool:
    low, high = evaluation.loss_best_ties, evaluation.loss_worst_ties
    return evaluation.tied_lists == 0 or (low is not None and low == high)


def _centred(
    problem: Problem, found: CallerWeights, *, even: bool = False
) -> tuple[CallerWeights, float | None, tuple[str, ...]]:
    """Return the centre [D] of the cell that contains weights [D] on the unmerged lists, its margin, and its limits.

    even: measure distances in units of the caller's weights rather than of features scaled alike. Without time left,
    the weights themselves are returned, and the margin is `None`.
    """
    lists = problem.unmerged
    if len(lists.offsets) < 2 or not len(lists.coordinates.columns) or out_of_time():
        return found, None, ()
    start = lists.coordinates.from_caller(found)
    rows = decode(lists.features, lists.offsets, start)
    scales = lists.coordinates.scales if even else np.ones(len(start))
    optimizer = LinOptimizer(lists.features / scales if even else lists.features, lists.offsets)
    try:
        with heeding():
            inner, margin = optimizer.centre((np.arange(len(rows)), rows), start=start * scales)
            centre = lists.coordinates.to_caller(inner / scales)
            return centre, margin, _limiting(problem, optimizer, rows)
    except OutOfTime:
        return found, None, ()


def _limiting(problem: Problem, optimizer: LinOptimizer, rows: IntArray) -> tuple[str, ...]:
    """Return the labels of the limits that cut the optimal cell off: beyond them, the same choices are made."""
    labels = problem.canonical.labels if problem.canonical.additive else ()
    first = len(rows) - len(labels)
    lists = np.arange(len(rows))
    limiting = []
    for k, label in enumerate(labels):
        beyond = rows.copy()
        beyond[first + k] = optimizer.offsets[first + k] + 1
        if optimizer.solve((lists, beyond)).attainable:
            limiting.append(label)
    return tuple(limiting)


_MOST_ROUNDS = 30  # most rounds of placing weights on lattices; another follows when unknown paths win at the weights
RESOLUTION = 1e-12  # largest relative error of rounded losses for which an optimum still counts as proved


@dataclass(frozen=True)
class Ending:
    """The outcome of a search, with costs in the problem's units; the search itself is freed before the report."""

    method: Method
    seed: int
    status: Status
    cost: int
    weights: CanonicalWeights
    lower_bound: int | None
    trace: tuple[tuple[float, float | None, float], ...]
    strict: bool
    counters: Mapping[str, int]
    conclude: Callable[[Result], Result]
    catalogue: Catalogue | None


def result_of(problem: AnyProblem, ending: Ending, initial: CallerWeights | None = None) -> Result:
    """Return the result of a search; methods that minimise on lists keep initial weights [D] if none are better."""
    if isinstance(problem, LatticeProblem):
        result = _on_lattices(problem, ending)
    else:
        result = _on_lists(problem, ending, initial if ending.method.minimises else None)
    return ending.conclude(replace(result, initial=initial))


def _on_lists(problem: Problem, ending: Ending, initial: CallerWeights | None) -> Result:
    """Return the result on lists; initial [D]: weights that are kept unless others are better."""
    try:
        if ending.strict:
            placed = in_the_middle(problem, ending.weights, ending.cost, ending.seed, initial)
        else:
            placed = beside_ties(problem, ending.weights, ending.seed, initial)
    except KeyboardInterrupt:
        placed = Placed(normalised(problem.to_caller(ending.weights)))
    problem.give_back()
    weights, evaluation = scaled_evaluation(problem, placed.weights)
    centre = weights if placed.centre is None else in_scale_of(problem.region, problem.names, placed.centre)
    unseen = problem.unseen(evaluation.loss)
    doubtful = not placed.holds or unseen > RESOLUTION * abs(evaluation.loss)
    nbest, form = problem.nbest, problem.canonical
    sizes = {"lists": nbest.n_lists, "hypotheses": nbest.n_hypotheses, "features": nbest.n_features}
    reduced = zip([*sizes], (form.n_lists, len(form.features), form.n_features), strict=True)
    sizes |= {f"canonical_{name}": size for name, size in reduced}
    return replace(
        _result(problem, ending, weights, evaluation, doubtful=doubtful, unseen=unseen),
        free=problem.free,
        limiting=placed.limiting,
        cell=None if placed.margin is None else Cell(problem.weight_ranges(weights), centre, placed.margin),
        counters={**sizes, **ending.counters},
        warnings=(*problem.data_warnings, *_of_weights(problem, weights, evaluation)),
        list_ids=problem.nbest.list_ids,
        rates=problem.rates(evaluation.loss),
    )


def _on_lattices(problem: LatticeProblem, ending: Ending) -> Result:
    """Return the result on lists of all paths that may win in some cone, completed by the winners at its weights."""
    pool = ending.catalogue or Catalogue(problem)
    found = problem.to_caller(ending.weights)
    candidates = [normalised(found), halved(found)]
    for weights in candidates:
        pool.add_winners(problem.decode(weights))
    for _ in range(_MOST_ROUNDS):
        lists = pool.as_lists()
        shift = lists.canonical.constant
        bound = None if ending.lower_bound is None else ending.lower_bound - shift
        shifted = replace(ending, cost=ending.cost - shift, weights=lists.to_canonical(found), lower_bound=bound)
        placed = CallerWeights(_on_lists(lists, shifted, None).weights)
        if not pool.add_winners(problem.decode(placed)) or out_of_time():
            break
    holding = [weights for weights in (placed, *candidates) if problem.attains(weights, ending.cost)]
    weights, evaluation = scaled_evaluation(problem, holding[0] if holding else candidates[0])
    result = _result(problem, ending, weights, evaluation, doubtful=not holding)
    lattices = problem.lattices
    sizes = {"lists": lattices.n_lists, "links": lattices.n_links, "features": lattices.n_features}
    return replace(result, counters={**sizes, "log10_paths": int(sum(lattices.log10_paths)), **ending.counters})


def _result(
    problem: AnyProblem,
    ending: Ending,
    weights: CallerWeights,
    evaluation: Evaluation,
    *,
    doubtful: bool,
    unseen: float = 0.0,
) -> Result:
    """Return the common part of results; doubtful: the loss may differ; unseen: by how much beyond fixed point."""
    loss, status, lower = evaluation.loss, ending.status, None
    if ending.lower_bound is not None:
        if status is Status.OPTIMAL and (doubtful or problem.inexact):
            status = Status.OPTIMAL_TO_TOLERANCE
        bound = bound_on_loss(problem.canonical, ending.lower_bound, unseen)
        lower = loss if status is Status.OPTIMAL else min(loss, bound)
    return Result(
        weights=weights,
        names=problem.names,
        lower_bound=lower,
        status=status,
        method=ending.method.name,
        signature=f"lpmert:{__version__}|{problem.signature}|method:{ending.method.settings()}|seed:{ending.seed}",
        fingerprint=problem.fingerprint,
        seed=ending.seed,
        region=problem.distances(weights),
        trace=ending.trace,
        unit=problem.unit,
        **{name: value for name, value in vars(evaluation).items() if name != "inside"},
    )


def scaled_evaluation(problem: AnyProblem, weights: CallerWeights) -> tuple[CallerWeights, Evaluation]:
    """Return weights [D] and their evaluation, in the scale of the region if it changes no loss or limit."""
    exact = problem.evaluate(weights)
    scaled = in_scale_of(problem.region, problem.names, weights)
    leaves = (problem.inside(scaled, strictly=s) < problem.inside(weights, strictly=s) for s in (False, True))
    if scaled is weights or any(leaves):
        return weights, exact
    found = problem.evaluate(scaled)
    same = found.loss == exact.loss and found.tied_lists <= exact.tied_lists
    return (scaled, found) if same else (weights, exact)


def bound_on_loss(form: Canonical, cost: int, unseen: float = 0.0) -> float:
    """Return the lower bound on the loss that corresponds to a lower bound on the cost, rounded down."""
    exact = (form.constant + cost) * Fraction(form.unit) - Fraction(unseen)
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def _of_weights(problem: Problem, weights: CallerWeights, evaluation: Evaluation) -> Iterator[Diagnostic]:
    """Yield warnings about weights [D]: suspiciously good ones, or ones that the digits of reports would worsen."""
    losses = None if problem.data_warnings else problem.losses
    if losses is not None and (doubt := too_good(problem.nbest, losses, evaluation.selection)):
        yield doubt
    rounded = np.round(weights, SHOWN_DECIMALS)
    if not np.array_equal(rounded, weights) and rounded.any() and not out_of_time():
        loss = problem.evaluate(rounded).loss
        if loss > evaluation.loss:
            yield Diagnostic(
                "digits",
                f"rounded to {SHOWN_DECIMALS} decimals, as reports show them, these weights have loss {loss:.10g}: "
                "take them from the JSON output, which has them in full",
            )
