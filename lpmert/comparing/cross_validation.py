"""What methods cost on lists that they were not fitted to: all of them on the same folds, drawn several times.

Every fit sees the lists of its fold alone: their scale, their starts, their settings. Weights that the caller gives are
no starts here, as they may come from the lists that are held out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpmert.comparing.comparison import Run
from lpmert.comparing.foreign import Source, of_method
from lpmert.comparing.significance import corrected_reach, corrected_test
from lpmert.comparing.work import Judge, one_thread
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import Metric
from lpmert.model.coordinates import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.result import Limits
from lpmert.search.method import Method
from lpmert.unseen.energy import shares
from lpmert.unseen.estimate import FEW, Interval, folds_of

OPTIMUM = "optimum"
"""The name of what the search for the optimum finds on the lists of a fit, beside those of the methods."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What a method costs on lists that it was not fitted to.

    here: its mean loss on the lists that it was fitted to, all of them; loss: that of cross-validation; difference:
    from the first method, with the p-value of there being none, `None` for the first. held_out: mean loss on lists
    apart. fits: one for each repetition and fold.
    """

    name: str
    here: float | None
    loss: Interval
    difference: Interval | None
    p_value: float | None
    held_out: float | None
    fits: tuple[Run, ...]

    @property
    def optimism(self) -> float | None:
        """The share of the expected loss that the loss on the lists fitted to leaves out."""
        if self.here is None or not self.loss.value > 0.0:
            return None
        return 1.0 - self.here / self.loss.value

    @property
    def proved(self) -> int:
        """Fits whose loss is proved to be the least on their lists."""
        return sum(fit.status is not None and fit.status.proved for fit in self.fits)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers and dictionaries, without the fits."""
        return {
            "name": self.name,
            "here": self.here,
            "loss": asdict(self.loss),
            "optimism": self.optimism,
            "difference": None if self.difference is None else asdict(self.difference),
            "p_value": self.p_value,
            "held_out": self.held_out,
            "fits": len(self.fits),
            "proved": self.proved,
        }


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """All methods on the same folds; groups: of lists that share a source, or the lists themselves.

    asked: repetitions that were asked for; repetitions: those that were completed. left_out: names of weights that
    cannot be fitted again.
    """

    folds: int
    repetitions: int
    asked: int
    groups: int
    n_lists: int
    entries: tuple[Expected, ...]
    left_out: tuple[str, ...]

    def __getitem__(self, name: str) -> Expected:
        """Return the entry of this name; raises `KeyError`."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
        found = []
        if self.repetitions < self.asked:
            found.append(f"only {self.repetitions} of {self.asked} repetitions were made")
        if self.groups < FEW:
            few = "lists" if self.groups == self.n_lists else "groups of lists"
            found.append(f"fewer than {FEW} {few}: cross-validation is not worth much")
        for entry in self.entries:
            if entry.name == OPTIMUM and entry.proved < len(entry.fits):
                open_fits = len(entry.fits) - entry.proved
                found.append(f"{open_fits} of {len(entry.fits)} optima are not proved: the best known stand for them")
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(f"{names}: not fitted here, so not cross-validated; they may have seen the lists held out")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {
            "folds": self.folds,
            "repetitions": self.repetitions,
            "groups": self.groups,
            "methods": [entry.to_dict() for entry in self.entries],
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Split:
    """How the lists are drawn into folds: the fold of each list in each repetition [R, S], and of each group [R, G]."""

    group: IntArray
    folds: int
    seed: int
    repetitions: int

    def of_lists(self, repetition: int) -> IntArray:
        """Return the fold [S] of each list."""
        return folds_of(self.group, self.folds, self.seed + repetition)

    def of_groups(self, repetition: int) -> IntArray:
        """Return the fold [G] of each group."""
        return folds_of(np.arange(int(self.group.max()) + 1), self.folds, self.seed + repetition)


@dataclass(frozen=True)
class Fold:
    """A fit of every source, and then of the optimum, on the lists that are not aside [S]; they are judged on those."""

    nbest: NBest
    aside: NDArray[np.bool_]
    metric: Metric
    ties: str
    region: Region | None
    sources: tuple[Source, ...]
    solver: Method | None
    seed: int
    limits: Limits
    optimum_limits: Limits

    @property
    def foreign(self) -> bool:
        """Whether functions of the caller take part."""
        return any(source.foreign for source in self.sources)

    def run(self) -> list[tuple[str, Run]]:
        """Return a run of every source, without what it chose on the lists that it was fitted to."""
        with one_thread():
            fitted = Problem(self.nbest.restrict(~self.aside), self.metric, ties=self.ties, region=self.region)
            judge = Judge(fitted, Problem(self.nbest.restrict(self.aside), self.metric, ties=self.ties))
            found = [(one.name, judge.run(one, self.seed, self.limits, None)) for one in self.sources]
            if self.solver is not None:
                best = min((run for _, run in found), key=lambda run: (not run.inside, run.loss), default=None)
                start = None if best is None else CallerWeights(best.weights)
                optimum = judge.run(of_method(self.solver, OPTIMUM), self.seed, self.optimum_limits, start)
                found.append((OPTIMUM, optimum))
        return [(name, replace(run, selection=run.selection[:0])) for name, run in found]


def folds(
    problem: Problem,
    ties: str,
    split: Split,
    sources: Sequence[Source],
    solver: Method | None,
    limits: Limits,
    optimum_limits: Limits,
) -> list[Fold]:
    """Return the folds of every repetition; the time for the optimum is shared out among them.

    Raises `MethodError` for a method that remembers other lists, and where a name means the optimum.
    """
    taking_part = [source for source in sources if not source.fixed]
    if not taking_part and solver is None:
        raise MethodError("nothing to cross-validate; give at least one method")
    for source in taking_part:
        if source.remembers:
            raise MethodError(
                f"{quoted(source.name)} goes on from what earlier runs left behind, which may come from the lists held "
                "out; cross-validate it without that"
            )
        if source.name == OPTIMUM:
            raise MethodError(f"{quoted(OPTIMUM)} is the name of the optimum of a fit; choose another")
    count = split.folds * split.repetitions
    if optimum_limits.time_limit is not None:
        optimum_limits = replace(optimum_limits, time_limit=optimum_limits.time_limit / count)
    return [
        Fold(
            problem.nbest,
            split.of_lists(repetition) == number,
            problem.metric,
            ties,
            problem.region,
            tuple(taking_part),
            solver,
            split.seed + repetition,
            limits,
            optimum_limits,
        )
        for repetition in range(split.repetitions)
        for number in range(split.folds)
    ]


def expected(
    problem: Problem,
    split: Split,
    tasks: Sequence[Fold],
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
        loss, values = _costs(problem, split, tasks, fits)
        difference, p_value = None, None
        if first is None:
            first, start = values, loss
        else:
            difference = _interval(loss - start, values - first, ratio)
            p_value = corrected_test(values - first, ratio)
        here, held_out = (fmean(losses) if losses else None for losses in known.get(name, ((), ())))
        entries.append(Expected(name, here, _interval(loss, values, ratio), difference, p_value, held_out, tuple(fits)))
    groups = int(split.group.max()) + 1
    return CrossValidation(
        split.folds, done, split.repetitions, groups, problem.nbest.n_lists, tuple(entries), tuple(left_out)
    )


def _costs(problem: Problem, split: Split, tasks: Sequence[Fold], fits: Sequence[Run]) -> tuple[float, FloatArray]:
    """Return the mean over repetitions of the loss of all folds together, and what each fold [J] says of it."""
    nbest, metric = problem.nbest, problem.metric
    chosen = np.empty((nbest.n_lists, nbest.statistics.shape[1]))
    losses: list[float] = []
    values: list[float] = []
    for repetition in range(len(fits) // split.folds):
        for number in range(split.folds):
            place = repetition * split.folds + number
            aside, selection = tasks[place].aside, fits[place].held_out_selection
            if selection is not None:
                chosen[aside] = nbest.statistics[nbest.offsets[:-1][aside] + selection]
        losses.append(metric.loss(chosen.sum(axis=0)))
        values.extend(_by_fold(metric, chosen, split, repetition))
    return float(np.mean(losses)), np.array(values)


def _by_fold(metric: Metric, chosen: FloatArray, split: Split, repetition: int) -> Iterator[float]:
    """Yield what the groups of each fold say about the loss of all lists."""
    fold = split.of_groups(repetition)
    summed = np.zeros((len(fold), chosen.shape[1]))
    np.add.at(summed, split.group, chosen)
    parts = shares(metric, summed)
    for number in range(split.folds):
        yield float(parts[fold == number].mean() * len(fold))


def _interval(value: float, values: FloatArray, ratio: float) -> Interval:
    reach = corrected_reach(values, ratio)
    return Interval(value, value - reach, value + reach)
