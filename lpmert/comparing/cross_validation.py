"""Repeated cross-validation of methods, all on the same folds.

Every fit uses its training lists alone: their scale, their first weights, their settings. It does not start from the
caller's initial weights, because these may come from the held-out lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Fits of every source and of the optimum to all lists outside a fold, evaluated on the lists of the fold.

    optimum_limits: the time limit is divided among the fits.
    """

    problem: AnyProblem
    split: Split
    sources: Sequence[Source]
    solver: Method | None
    limits: Limits
    optimum_limits: Limits

    def check(self) -> None:
        """Raise `MethodError` for a method that depends on earlier runs, and for a source with the name of the optimum.

        Raises `DataError` for hypergraphs, which cannot be split.
        """
        if not self.sources and self.solver is None:
            raise MethodError("nothing to cross-validate; give at least one method")
        for source in self.sources:
            if source.remembers:
                raise MethodError(
                    f"{quoted(source.name)} continues from what earlier runs left behind, which may come from the "
                    "lists held out; cross-validate it without that"
                )
            if source.name == OPTIMUM:
                raise MethodError(f"{quoted(OPTIMUM)} is the name of the optimum of a fit; choose another")
        data_of(self.problem)


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
            limits, fits = refits.optimum_limits, refits.split.folds * refits.split.repetitions
            if limits.time_limit is not None:
                limits = replace(limits, time_limit=limits.time_limit / fits)
            found.append((OPTIMUM, judge.run(of_method(refits.solver, OPTIMUM), seed, limits, start)))
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
