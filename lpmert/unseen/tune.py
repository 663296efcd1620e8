"""`tune`: proves or bounds the optimum, averages, and tells what either costs on unseen lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import fsum, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from lpmert.api import problem_of, settings_of
from lpmert.errors import FloatArray, MethodError
from lpmert.findings import LOSS, Unit, Weighted
from lpmert.model.canonical import CallerWeights, Canonical
from lpmert.quoting import quoted
from lpmert.result import Result, warned
from lpmert.search.driver import solve
from lpmert.search.incumbent import normalised
from lpmert.search.report import scaled_evaluation
from lpmert.system.deadline import Deadline, told
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance
from lpmert.unseen.averaging import AGREEMENT, Averaging
from lpmert.unseen.estimate import (
    TOO_FEW,
    Estimate,
    Setting,
    Split,
    chosen_statistics,
    cross_validated,
    divisible,
    doubts,
    estimate_of,
    fit,
    groups_of,
    held_out_like,
    like,
)
from lpmert.values import whole_number
from lpmert.workers import using_workers

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import Lattices
    from lpmert.model.nbest import NBest
    from lpmert.model.region import Region
    from lpmert.result import Callback, OnStage
    from lpmert.search.method import Method

AVERAGED, OPTIMUM = "averaged", "optimum"


@dataclass(frozen=True, eq=False)
class Averaged:
    """Averaged weights [D], their loss on the lists fitted to, and how they were found.

    unit: the mean difference in loss between two hypotheses of a list; temperature: that of the average, `None` if it
    is infinite; both are S times as much for a metric that is not additive. agreement: the least cosine of a chain's
    mean with the mean of all; `None` where nothing was averaged. complete: whether all steps were taken.
    """

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    unit: float
    temperature: float | None
    agreement: float | None
    chains: int
    steps: int
    complete: bool


@dataclass(frozen=True, eq=False)
class Tuned(Weighted):
    """Weights for unseen lists, beside the best ones for the lists given.

    weights [D]: those recommended, in the scale of a `Result`; recommended: "averaged" or "optimum", whose weights
    these are. estimate: what to expect on as many unseen lists, `None` where it was not requested or not possible;
    unestimated: why it was not possible; held_out: the same measured on held-out lists, in held_out_unit. optimum: the
    result of the search for it.
    """

    told = ("optimism", "notes")
    untold = ("unestimated",)

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
        """The share of the optimum's expected loss that its loss on these lists hides."""
        if self.estimate is None or not self.estimate.optimum.value > 0.0:
            return None
        return 1.0 - self.optimum.loss / self.estimate.optimum.value

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
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
OPTIMUM_SECONDS = 60.0
"""How long the optimum is searched for where no limit is given."""


def tune(
    nbest: NBest | Lattices,
    *,
    metric: str | Metric | TextMetric | None = None,
    method: str | Method = "auto",
    held_out: NBest | Lattices | None = None,
    groups: Sequence[Hashable] | None = None,
    folds: int = FOLDS,
    quick: bool = False,
    averaging: Averaging | None = None,
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
    """Find weights for unseen lists, and estimate what they will cost there.

    The best weights for these lists also fit their noise. This averages weights as well, in proportion to exp(-loss /
    T), and compares both by cross-validation with refits.

    Parameters
    ----------
    nbest : NBest or Lattices
        The lists; or lattices, where all paths count.
    metric : str or Metric, optional
        What turns summed statistics into a loss, as for `minimize`: a sum over lists, a ratio of a known formula, or
        for lattices a metric on texts.
    method : str or Method
        How to search for the optimum.
    held_out : NBest or Lattices, optional
        More lists, on which both weights are compared; nothing is fitted to them.
    groups : sequence, optional
        One entry for each list; lists with equal entries share a source and stay together in cross-validation.
    folds : int
        Of the cross-validation.
    quick : bool
        Leave the cross-validation out.
    averaging : Averaging, optional
        How to average; `lpmert.methods.Averaging()` by default.
    ties, region
        As for `minimize`; the average keeps to the region, too.
    time_limit : float, optional
        Seconds for everything; by default only the search for the optimum ends, after a minute.
    node_limit, gap, target, memory_limit
        As for `minimize`, of the search for the optimum.
    jobs : int
        Workers for all parts; their number changes only the time.
    backend : str
        The workers, as for `minimize`.
    seed : int
        Seed for everything random. The average and the estimate depend on nothing else, unless they are stopped.
    callback : callable, optional
        Gets the `Progress` of the search for the optimum, and stops it by a true answer.
    on_stage : callable, optional
        Called with the name of a stage and how many of its parts are done, of how many.

    Returns
    -------
    Tuned
        The weights recommended, the optimum, the average, and the estimate.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`.

    Notes
    -----
    The averaged weights are recommended unless cross-validation shows the optimum to be better, with an interval of the
    difference that excludes 0. Without cross-validation, the optimum is recommended where the averaged weights cost so
    much more that they cannot be an average around it. `docs/unseen.md` has the mathematics, the sources and the
    measurements.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> tuned = lpmert.tune(lists)
    >>> tuned.optimum.loss, tuned.averaged.loss, tuned.recommended
    (0.0, 0.0, 'averaged')
    """
    solver, limits, seed = settings_of(
        method, time_limit, memory_limit, jobs, seed, backend, node_limit=node_limit, gap=gap, target=target
    )
    folds = whole_number(folds, "folds", 2)
    interrupts = Interrupts()
    allowance = Allowance(limits.memory_limit)
    deadline = Deadline(limits.time_limit, None, lambda: interrupts.pressed, allowance)

    def report(stage: str, done: int, parts: int) -> None:  # whose answer stops nothing
        told(on_stage, stage, done, parts)

    averaging = averaging or Averaging()
    if not isinstance(averaging, Averaging):
        raise MethodError(f"averaging must be an lpmert.methods.Averaging, or None; got {quoted(averaging)}")
    with interrupts, deadline.running(), using_workers(backend, jobs):
        with allowance.enforced_if_any():
            problem = problem_of(divisible(nbest), metric, ties, region)
        group = groups_of(groups, nbest.n_lists)
        aside = None if held_out is None else held_out_like(held_out, nbest)
        setting = Setting(seed, deadline, averaging)
        seconds = {}
        fitted = fit(problem, setting, on_steps=partial(report, "average"))
        seconds["average"] = deadline.seconds
        estimate, unestimated = None, ""
        if not quick and group.max() == 0:
            unestimated = TOO_FEW
        elif not quick:
            split = Split.of(groups, nbest.n_lists, folds, seed)
            estimate = cross_validated(problem, setting, split, partial(report, "cross-validation"))
            if estimate is None:
                ended = "was interrupted" if interrupts.pressed else "did not end in time"
                unestimated = f"cross-validation {ended}: nothing is known of unseen lists"
        seconds["estimate"] = deadline.seconds - seconds["average"]
        left = OPTIMUM_SECONDS if deadline.left is None else deadline.left
        at_most = replace(limits, time_limit=left)
        optimum = warned(solve(solver, problem, at_most, callback, seed, fitted.found))
        seconds["optimum"] = deadline.seconds - fsum(seconds.values())
        apart, unit = None, None
        if aside is not None:
            judged = like(problem, aside)
            unit = judged.unit
            apart = estimate_of(
                problem.metric,
                chosen_statistics(judged, CallerWeights(optimum.weights)),
                chosen_statistics(judged, fitted.averaged),
                np.arange(aside.n_lists),
            )
    average = fitted.average
    weights, found = scaled_evaluation(problem, normalised(fitted.averaged))
    temperature = average.temperature if isfinite(average.temperature) else None
    own = {name: getattr(average, name) for name in ("unit", "agreement", "chains", "steps", "complete")}
    averaged = Averaged(np.asarray(weights), found.loss, found.score, found.tied_lists, temperature=temperature, **own)
    if estimate is None:
        better = _is_too_far(averaged, optimum, problem.canonical, nbest.n_lists)
    else:
        better = estimate.difference.low is not None and estimate.difference.low > 0.0
    recommended = AVERAGED if averaged.steps and not better else OPTIMUM
    return Tuned(
        weights=optimum.weights if recommended == OPTIMUM else averaged.weights,
        names=nbest.names,
        recommended=recommended,
        optimum=optimum,
        averaged=averaged,
        estimate=estimate,
        held_out=apart,
        n_lists=nbest.n_lists,
        seed=seed,
        signature=f"{problem.signature}|{averaging.settings()}",
        seconds=seconds,
        unestimated=unestimated,
        held_out_unit=unit,
    )


def _is_too_far(averaged: Averaged, optimum: Result, form: Canonical, n_lists: int) -> bool:
    """Whether averaged weights cost so much more than the optimum that what was averaged does not lie around that.

    Where the loss grows in proportion to the distance from the optimum, what weights under exp(-loss / T) cost more
    has a gamma distribution over the d dimensions of the sphere: T d on average, with a standard deviation of
    T sqrt(d). Far is beyond two of these.
    """
    excess = (averaged.loss - optimum.loss) * (1 if form.additive else n_lists)
    dimensions = max(1, form.n_features - 1)
    return averaged.temperature is not None and excess > averaged.temperature * (dimensions + 2.0 * sqrt(dimensions))
