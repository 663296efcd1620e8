"""What methods cost on lists that they were not fitted to: all of them on the same folds, drawn several times.

Every fit sees the lists of its fold alone: their scale, their starts, their settings. Weights that the caller gives are
no starts here, as they may come from the lists that are held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import numpy as np

from lpmert.comparing.comparison import OPTIMUM, CrossValidation, Expected, Run, best_of
from lpmert.comparing.runs import Judge, Named, Source, corrected_test, of_method
from lpmert.errors import FloatArray, MethodError
from lpmert.metrics.base import Metric
from lpmert.model.canonical import CallerWeights
from lpmert.model.lattice_problem import AnyProblem
from lpmert.quoting import quoted
from lpmert.result import Limits
from lpmert.search.method import Method
from lpmert.unseen.estimate import Split, data_of, interval_of, like, one_thread, shares, summed


@dataclass(frozen=True)
class Refits:
    """Fits of every source, and then of the optimum, on all lists but those of a fold, on which they are judged."""

    problem: AnyProblem
    split: Split
    sources: tuple[Source, ...]
    solver: Method | None
    limits: Limits
    optimum_limits: Limits

    @classmethod
    def of(
        cls,
        problem: AnyProblem,
        split: Split,
        sources: Sequence[Source],
        solver: Method | None,
        limits: Limits,
        optimum_limits: Limits,
    ) -> Refits:
        """Return the fits on the lists of a problem; the time for the optimum is shared out among them.

        Raises `MethodError` for a method that remembers other lists, and where a name means the optimum.
        """
        taking_part = tuple(source for source in sources if not source.fixed)
        if not taking_part and solver is None:
            raise MethodError("nothing to cross-validate; give at least one method")
        for source in taking_part:
            if source.remembers:
                raise MethodError(
                    f"{quoted(source.name)} continues from what earlier runs left behind, which may come from the "
                    "lists held out; cross-validate it without that"
                )
            if source.name == OPTIMUM:
                raise MethodError(f"{quoted(OPTIMUM)} is the name of the optimum of a fit; choose another")
        if optimum_limits.time_limit is not None:
            share = optimum_limits.time_limit / (split.folds * split.repetitions)
            optimum_limits = replace(optimum_limits, time_limit=share)
        data_of(problem)  # refuses what is not divided
        return cls(problem, split, taking_part, solver, limits, optimum_limits)

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """The repetition and the fold of each fit."""
        return list(product(range(self.split.repetitions), range(self.split.folds)))


def fit_and_judge(refits: Refits, task: tuple[int, int]) -> Named:
    """Return a run of every source of a fit, without what it chose on the lists fitted to; a unit of work."""
    repetition, fold = task
    aside, seed = refits.split.of_lists(repetition) == fold, refits.split.seed + repetition
    problem, data = refits.problem, data_of(refits.problem)
    with one_thread():
        fitted = like(problem, data.restrict(~aside), problem.region)
        judge = Judge(fitted, like(problem, data.restrict(aside)))
        found = [(one.name, judge.run(one, seed, refits.limits, None)) for one in refits.sources]
        if refits.solver is not None:
            start = CallerWeights(best_of(run for _, run in found).weights) if found else None
            optimum = judge.run(of_method(refits.solver, OPTIMUM), seed, refits.optimum_limits, start)
            found.append((OPTIMUM, optimum))
    return [(name, replace(run, chosen=run.chosen[:0])) for name, run in found]


def expected(
    problem: AnyProblem,
    split: Split,
    runs: dict[str, list[Run]],
    known: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    left_out: Sequence[str],
) -> CrossValidation | None:
    """Return what the runs of the folds say, `None` unless all of a repetition were made.

    known: losses on all lists, and on lists apart, by name.
    """
    done = min((len(found) for found in runs.values()), default=0) // split.folds
    if done == 0:
        return None
    entries: list[Expected] = []
    first: FloatArray | None = None
    start = 0.0
    ratio = 1 / (split.folds - 1)
    for name, found in runs.items():
        fits = found[: done * split.folds]
        loss, values = _costs(problem.metric, split, fits)
        difference, p_value = None, None
        if first is None:
            first, start = values, loss
        else:
            difference = interval_of(loss - start, values - first, ratio)
            p_value = corrected_test(values - first, ratio)
        here, held_out = (fmean(losses) if losses else None for losses in known.get(name, ((), ())))
        of_loss = interval_of(loss, values, ratio)
        entries.append(Expected(name, here, of_loss, difference, p_value, held_out, tuple(fits)))
    return CrossValidation(
        split.folds, done, split.repetitions, split.groups, len(split.group), tuple(entries), tuple(left_out)
    )


def _costs(metric: Metric, split: Split, fits: Sequence[Run]) -> tuple[float, FloatArray]:
    """Return the mean over repetitions of the loss of all folds together, and what each fold [J] says of it."""
    width = max(run.held_out_chosen.shape[1] for run in fits if run.held_out_chosen is not None)
    chosen = np.empty((len(split.group), width))
    losses: list[float] = []
    values: list[float] = []
    for repetition in range(len(fits) // split.folds):
        fold = split.of_groups(repetition)
        for number, fit in enumerate(fits[repetition * split.folds :][: split.folds]):
            chosen[fold[split.group] == number] = fit.held_out_chosen
        losses.append(metric.loss(chosen.sum(axis=0)))
        parts = shares(metric, summed(chosen, split.group))
        values += [float(split.groups * parts[fold == number].mean()) for number in range(split.folds)]
    return float(np.mean(losses)), np.array(values)
