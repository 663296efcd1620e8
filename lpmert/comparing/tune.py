"""`tune`: find the optimum and an average, cross-validate both, and recommend one for unseen lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum, sqrt
from typing import Any

import numpy as np

from lpmert.api import many_searches, problem_of
from lpmert.comparing.averaging import AGREEMENT
from lpmert.comparing.cross_validation import (
    TOO_FEW,
    Estimate,
    Split,
    chosen_statistics,
    cross_validated,
    divisible,
    doubts,
    estimate_of,
    fit,
    unseen,
)
from lpmert.errors import FloatArray
from lpmert.limits import Allowance, told
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TextMetric
from lpmert.model.canonical import CallerWeights, Canonical
from lpmert.model.graphs import Lattices
from lpmert.model.nbest import NBest
from lpmert.model.region import Region
from lpmert.quoting import LOSS, Unit
from lpmert.result import Callback, OnStage, Result, Weighted, warned
from lpmert.search.incumbent import normalised
from lpmert.search.method import Method
from lpmert.search.report import scaled_evaluation
from lpmert.values import whole_number

AVERAGED, OPTIMUM = "averaged", "optimum"


@dataclass(frozen=True, eq=False)
class Averaged:
    """Averaged weights [D], and their loss, score and ties on the training lists; the rest is that of `Average`."""

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    unit: float
    temperature: float
    agreement: float | None
    chains: int
    steps: int
    complete: bool


@dataclass(frozen=True, eq=False)
class Tuned(Weighted):
    """Weights for unseen lists, beside the best ones for the training lists.

    Parameters
    ----------
    weights : array [D]
        The recommended weights, in the scale of a `Result`.
    names : tuple of str
        The features, in the order of the weights.
    recommended : str
        Which weights these are: "averaged" or "optimum".
    optimum : Result
        The result of the search for the optimum.
    averaged : Averaged
        The averaged weights.
    estimate : Estimate or None
        The expected loss on as many unseen lists; `None` if it was not requested or not possible.
    held_out : Estimate or None
        The loss on held-out lists, if there are any.
    n_lists : int
        Number of training lists.
    seed : int
        The random seed.
    signature : str
        Every setting that changes the numbers.
    seconds : mapping from str to float
        Seconds by stage.
    unestimated : str
        Why there is no estimate although it was requested; otherwise empty.
    held_out_unit : Unit or None
        The unit in which losses on held-out lists are shown.
    """

    json_properties = ("optimism", "notes")
    json_omits = ("unestimated",)

    weights: FloatArray
    names: tuple[str, ...]
    recommended: str
    optimum: Result
    averaged: Averaged
    estimate: Estimate | None
    held_out: Estimate | None
    n_lists: int
    seed: int
    signature: str
    seconds: dict[str, float] = field(default_factory=dict)
    unestimated: str = ""
    held_out_unit: Unit | None = None

    @property
    def optimism(self) -> float | None:
        """By which share the optimum's loss on the training lists is below its expected loss on unseen lists."""
        if self.estimate is None or not self.estimate.optimum.value > 0.0:
            return None
        return 1.0 - self.optimum.loss / self.estimate.optimum.value

    @property
    def notes(self) -> list[str]:
        """Notes on how far the result can be trusted, a sentence each."""
        found = []
        if not self.averaged.complete:
            found.append("the average is not complete: it was stopped")
        elif self.averaged.steps == 0:
            found.append("nothing to average: these lists leave no choice between directions of weights")
        elif self.averaged.agreement is not None and self.averaged.agreement < AGREEMENT:
            found.append(
                f"the chains agree to {self.averaged.agreement:.3f} only, less than {AGREEMENT:g}: "
                "other seeds will give other averages"
            )
        if self.unestimated:
            found.append(self.unestimated)
        if self.estimate is not None and self.recommended == AVERAGED and self.estimate.difference.value > 0.0:
            found.append(
                "the estimate favours the optimum, but within chance; in such cases, averaged weights "
                "were still better on most other lists"
            )
        for what, estimate in (("the estimate", self.estimate), ("the held-out comparison", self.held_out)):
            found += [] if estimate is None else doubts(what, estimate.groups, estimate.n_lists)
        return found

    def __str__(self) -> str:
        """Return a short report."""
        unit = self.optimum.unit or LOSS
        best, own = unit.short(self.optimum.loss), unit.short(self.averaged.loss)
        found = f"{self.recommended} weights; {unit.name} {best} at the optimum, {own} with averaged weights"
        return "\n".join([found, *self._lines(), *self.notes])


FOLDS = 5
OPTIMUM_SECONDS = 60.0  # default time limit of the search for the optimum


def tune(
    nbest: NBest | Lattices,
    *,
    metric: str | Metric | TextMetric | None = None,
    method: str | Method = "auto",
    held_out: NBest | Lattices | None = None,
    groups: Sequence[Hashable] | None = None,
    folds: int = FOLDS,
    quick: bool = False,
    ties: str = "first",
    region: Region | None = None,
    time_limit: float | None = None,
    node_limit: int | None = None,
    gap: float | None = None,
    target: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    callback: Callback | None = None,
    on_stage: OnStage | None = None,
) -> Tuned:
    """Find weights for unseen lists, and estimate their loss there.

    The best weights for the training lists also fit their noise. `tune` finds the mean of weights with density
    exp(-loss / T) as well, and compares both by cross-validation.

    Parameters
    ----------
    nbest : NBest or Lattices
        The training lists, or lattices, of which every path is a hypothesis.
    metric : str or Metric, optional
        How summed statistics become a loss, as for `minimize`: a sum over lists, a ratio with a known formula, or for
        lattices a metric on texts.
    method : str or Method
        How to search for the optimum.
    held_out : NBest or Lattices, optional
        More lists, on which both weights are compared; nothing is fitted to them.
    groups : sequence, optional
        One entry for each list; lists with equal entries share a source and stay together in cross-validation.
    folds : int
        Number of folds of the cross-validation.
    quick : bool
        Skip the cross-validation.
    ties, region
        As for `minimize`; the average also keeps to the region.
    time_limit : float, optional
        Seconds for everything; by default only the search for the optimum has a limit, of a minute.
    node_limit, gap, target, memory_limit
        As for `minimize`, for the search for the optimum.
    jobs : int
        Number of workers for all stages; it changes only the time.
    backend : str
        The workers, as for `minimize`.
    seed : int
        Random seed. The average and the estimate depend on nothing else, unless they are stopped.
    callback : callable, optional
        Called with the `Progress` of the search for the optimum; a true return value stops it.
    on_stage : callable, optional
        Called with the name of a stage, how many of its parts are done, and their number.

    Returns
    -------
    Tuned
        The recommended weights, the optimum, the average, and the estimate.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`.

    Notes
    -----
    The averaged weights are recommended unless cross-validation shows that the optimum is better, with an interval of
    the difference that excludes 0. Without cross-validation, the optimum is recommended if the loss of the averaged
    weights is so much higher that they cannot be an average around it. `docs/unseen.md` has the mathematics, the
    sources and the measurements.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> tuned = lpmert.tune(lists)
    >>> tuned.optimum.loss, tuned.averaged.loss, tuned.recommended
    (0.0, 0.0, 'averaged')
    """
    settings = method, time_limit, memory_limit, jobs, seed, backend
    folds = whole_number(folds, "folds", 2)

    def report(stage: str, done: int, parts: int) -> None:  # what `on_stage` returns stops nothing
        told(on_stage, stage, done, parts)

    stops: dict[str, Any] = {"node_limit": node_limit, "gap": gap, "target": target}
    with many_searches("tune needs", *settings, **stops, partial=True) as searches:
        deadline = searches.deadline
        with Allowance(memory_limit).enforced(if_any=True):
            problem = problem_of(divisible(nbest), metric, ties, region)
        seed, split = searches.seed, Split.of(groups, nbest.n_lists, folds, searches.seed)
        judge = None if held_out is None else unseen(held_out, nbest, problem)
        fitted = fit(problem, seed, deadline.left, on_steps=partial(report, "average"))
        seconds = {"average": deadline.seconds}
        estimate, unestimated = None, ""
        if not quick and split.groups < 2:
            unestimated = TOO_FEW
        elif not quick:
            estimate = cross_validated(problem, split, deadline, partial(report, "cross-validation"))
            if estimate is None:
                ended = "was interrupted" if searches.interrupts.pressed else "did not end in time"
                unestimated = f"cross-validation {ended}: nothing is known of unseen lists"
        seconds["estimate"] = deadline.seconds - seconds["average"]
        left = OPTIMUM_SECONDS if deadline.left is None else deadline.left
        optimum = warned(searches.solve(problem, callback, fitted.found, time_limit=left))
        seconds["optimum"] = deadline.seconds - fsum(seconds.values())
        measured = None
        if judge is not None and held_out is not None:
            measured = estimate_of(
                problem.metric,
                chosen_statistics(judge, CallerWeights(optimum.weights)),
                chosen_statistics(judge, fitted.averaged),
                np.arange(held_out.n_lists),
            )
    weights, found = scaled_evaluation(problem, normalised(fitted.averaged))
    average = fitted.average
    averaged = Averaged(
        np.asarray(weights), found.loss, found.score, found.tied_lists, average.unit, average.temperature,
        average.agreement, average.chains, average.steps, average.complete,
    )  # fmt: skip
    if estimate is None:
        worse = _is_too_far(averaged, optimum, problem.canonical, nbest.n_lists)
    else:
        worse = estimate.difference.low is not None and estimate.difference.low > 0.0
    recommended = AVERAGED if averaged.steps and not worse else OPTIMUM
    return Tuned(
        weights=optimum.weights if recommended == OPTIMUM else averaged.weights,
        names=nbest.names,
        recommended=recommended,
        optimum=optimum,
        averaged=averaged,
        estimate=estimate,
        held_out=measured,
        n_lists=nbest.n_lists,
        seed=seed,
        signature=problem.signature,
        seconds=seconds,
        unestimated=unestimated,
        held_out_unit=None if judge is None else judge.unit,
    )


def _is_too_far(averaged: Averaged, optimum: Result, form: Canonical, n_lists: int) -> bool:
    """Whether the loss of averaged weights exceeds the optimum so far that the average cannot lie around it.

    If the loss grows in proportion to the distance from the optimum, the excess loss of weights with density
    exp(-loss / T) on a sphere of d dimensions has a gamma distribution with mean T d and standard deviation T sqrt(d).
    Too far means more than two standard deviations above the mean.
    """
    excess = (averaged.loss - optimum.loss) * (1 if form.additive else n_lists)
    dimensions = max(1, form.n_features - 1)
    return excess > averaged.temperature * (dimensions + 2.0 * sqrt(dimensions))
