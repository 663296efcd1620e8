"""Repeated cross-validation of methods, all on the same folds.

Every fit uses its training lists alone: their scale, their first weights, their settings. It does not start from the
caller's initial weights, because these may come from the held-out lists.
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
    """Fits of every source and of the optimum to all lists outside a fold, evaluated on the lists of the fold."""

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
        """Return the fits on the lists of a problem; the time limit of the optimum is divided among them.

        Raises `MethodError` for a method that depends on earlier runs, and for a source with the name of the optimum.
        """
        refitted = tuple(source for source in sources if not source.fixed)
        if not refitted and solver is None:
            raise MethodError("nothing to cross-validate; give at least one method")
        for source in refitted:
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
        data_of(problem)  # raises for hypergraphs, which cannot be split
        return cls(problem, split, refitted, solver, limits, optimum_limits)

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """The repetition and the fold of each fit."""
        return list(product(range(self.split.repetitions), range(self.split.folds)))


def fit_and_judge(refits: Refits, task: tuple[int, int]) -> Named:
    """Return a run of every source for a repetition and fold, without its choices on the training lists."""
    repetition, fold = task
    held_out, seed = refits.split.of_lists(repetition) == fold, refits.split.seed + repetition
    problem, data = refits.problem, data_of(refits.problem)
    with one_thread():
        training = like(problem, data.restrict(~held_out), problem.region)
        judge = Judge(training, like(problem, data.restrict(held_out)))
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
    """Summarise the runs of the folds; `None` unless at least one repetition is complete.

    known: losses on all lists, and on held-out lists, by name.
    """
    done = min((len(found) for found in runs.values()), default=0) // split.folds
    if done == 0:
        return None
    entries: list[Expected] = []
    ratio = 1 / (split.folds - 1)
    fits = {name: found[: done * split.folds] for name, found in runs.items()}
    costs = {name: _costs(problem.metric, split, own) for name, own in fits.items()}
    start, first = next(iter(costs.values()))
    for name, (loss, values) in costs.items():
        difference = interval_of(loss - start, values - first, ratio) if entries else None
        p_value = corrected_test(values - first, ratio) if entries else None
        here, held_out = (fmean(losses) if losses else None for losses in known.get(name, ((), ())))
        of_loss = interval_of(loss, values, ratio)
        entries.append(Expected(name, here, of_loss, difference, p_value, held_out, tuple(fits[name])))
    return CrossValidation(
        split.folds, done, split.repetitions, split.groups, len(split.group), tuple(entries), tuple(left_out)
    )


def _costs(metric: Metric, split: Split, fits: Sequence[Run]) -> tuple[float, FloatArray]:
    """Return the total loss of all folds, as a mean over repetitions, and its estimate from each fold [J]."""
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
