"""The door `tune`: proves or bounds the optimum, averages, and tells what either costs on unseen lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from math import fsum, isfinite
from typing import TYPE_CHECKING

import numpy as np

from lpmert.unseen.tuned import AVERAGED, OPTIMUM, Averaged, Tuned

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import Lattices
    from lpmert.model.nbest import NBest
    from lpmert.model.region import Region
    from lpmert.result import Callback
    from lpmert.search.method import Method
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.estimate import Estimate, Fit

FOLDS = 5
OPTIMUM_SECONDS = 60.0
"""How long the optimum is searched for where no limit is given."""

OnStage = Callable[[str, int, int], object]


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
    """Find weights that hold on lists that nobody has seen yet, and tell what they will cost there.

    The weights that are best on the lists at hand have been fitted to their noise. This averages weights instead, in
    proportion to exp(-loss / T), and compares the two by cross-validation with refits.

    Parameters
    ----------
    nbest : NBest or Lattices
        The lists, or lattices, of which all paths count.
    metric : str or Metric, optional
        What turns summed statistics into a loss, as for `minimize`: a sum over lists, a ratio of a known formula, or
        for lattices a metric on texts.
    method : str or Method
        How to search for the optimum.
    held_out : NBest or Lattices, optional
        More of the same features, on which both weights are compared; nothing is fitted to them.
    groups : sequence, optional
        One entry for each list; lists with equal entries share a source and stay together in cross-validation.
    folds : int
        Of the cross-validation.
    quick : bool
        Leave the cross-validation out; `averaged.quick` holds what the variance along the chains tells.
    averaging : Averaging, optional
        How to average; `lpmert.methods.Averaging()` by default.
    ties : {"first", "best", "worst"}
        Which of several hypotheses with identical features stands for them.
    region : Region, optional
        Where the weights may lie; the average keeps to it.
    time_limit : float, optional
        Seconds for everything; without it only the search for the optimum ends, after a minute.
    node_limit, gap, target, memory_limit
        As for `minimize`, of the search for the optimum.
    jobs : int
        Workers, of all parts; their number changes nothing but the time.
    backend : str
        What these workers are, as for `minimize`.
    seed : int
        Of all that is random. The average and the estimate depend on nothing else, unless they are stopped.
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
    The averaged weights are recommended unless cross-validation shows the optimum to be better, with an interval of
    the difference that leaves out 0. `docs/unseen.md` has the mathematics, the sources and the measurements.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> tuned = lpmert.tune(lists)
    >>> tuned.optimum.loss, tuned.averaged.loss, tuned.recommended
    (0.0, 0.0, 'averaged')
    """
    from lpmert.asked import problem_of, settings_of
    from lpmert.model.canonical import CallerWeights
    from lpmert.result import warned
    from lpmert.system.deadline import Deadline, unheeded
    from lpmert.system.interrupts import Interrupts
    from lpmert.system.memory import Allowance
    from lpmert.unseen.averaging import Averaging
    from lpmert.unseen.estimate import Setting, cross_validated, decoded_statistics, estimate_of, fit, groups_of
    from lpmert.unseen.material import divisible, held_out_like, searched
    from lpmert.values import whole_number
    from lpmert.workers import using_workers

    solver, limits, seed = settings_of(method, time_limit, node_limit, gap, target, memory_limit, jobs, seed, backend)
    folds = whole_number(folds, "folds", 2)
    interrupts = Interrupts()
    allowance = Allowance(limits.memory_limit)
    deadline = Deadline(limits.time_limit, None, lambda: interrupts.pressed, allowance)

    def told(stage: str, done: int, parts: int) -> None:
        if on_stage is not None:
            with unheeded():
                on_stage(stage, done, parts)

    averaging = averaging or Averaging()
    with interrupts, deadline.running(), using_workers(backend, jobs):
        with allowance.kept_if_any():
            problem = problem_of(divisible(nbest), metric, ties, region)
        group = groups_of(groups, nbest.n_lists)
        aside = None if held_out is None else held_out_like(held_out, nbest)
        setting = Setting(problem.metric, ties, problem.region, seed, deadline, averaging, metric)
        seconds = {}
        fitted = fit(problem, setting, tell=lambda done, parts: told("average", done, parts))
        seconds["average"] = deadline.seconds
        estimate, unestimated = None, ""
        if not quick and group.max() == 0:
            unestimated = "cross-validation needs two lists, or groups of lists, at least"
        elif not quick:
            estimate = cross_validated(
                nbest, setting, group, folds, lambda done, parts: told("cross-validation", done, parts)
            )
            if estimate is None:
                ended = "was interrupted" if interrupts.pressed else "did not end in time"
                unestimated = f"cross-validation {ended}: nothing is known of unseen lists"
        seconds["estimate"] = deadline.seconds - seconds["average"]
        left = OPTIMUM_SECONDS if deadline.left is None else deadline.left
        at_most = replace(limits, time_limit=left)
        optimum = warned(searched(solver, problem, at_most, callback, seed, fitted.found))
        seconds["optimum"] = deadline.seconds - fsum(seconds.values())
        apart = None
        if aside is not None:
            apart = estimate_of(
                problem.metric,
                decoded_statistics(aside, setting, CallerWeights(optimum.weights)),
                decoded_statistics(aside, setting, fitted.averaged),
                np.arange(aside.n_lists),
            )
    averaged = _averaged(fitted, nbest.n_lists)
    recommended = AVERAGED if averaged.steps and not _optimum_is_better(estimate) else OPTIMUM
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
        signature=f"{problem.signature}|{setting.averaging.settings()}",
        seconds=seconds,
        unestimated=unestimated,
    )


def _optimum_is_better(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.difference.low is not None and estimate.difference.low > 0.0


def _averaged(fitted: Fit, n_lists: int) -> Averaged:
    """Return the average with what it costs on the lists of the fit."""
    weights = fitted.averaged / np.abs(fitted.averaged).sum()
    average, found = fitted.average, fitted.problem.evaluate(weights)
    lists = 1 if fitted.problem.canonical.additive else n_lists
    gibbs = average.steps > 0 and isfinite(average.temperature)
    return Averaged(
        weights=np.asarray(weights),
        loss=found.loss,
        score=found.score,
        tied_lists=found.tied_lists,
        unit=average.unit,
        temperature=average.temperature if isfinite(average.temperature) else None,
        agreement=average.agreement,
        chains=average.chains,
        steps=average.steps,
        quick=found.loss + average.variance / average.temperature / lists if gibbs else None,
        complete=average.complete,
    )
