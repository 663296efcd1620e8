"""`compare`: methods and weights of other tools on the same lists, with significance tests and cross-validation.

In cross-validation, every fit uses its training lists alone: their scale, their first weights, their settings. It does
not start from the caller's initial weights, because these may come from the held-out lists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from lpmert.api import method_of, problem_of
from lpmert.comparing import DEFAULT_METHODS, DEFAULT_ON_LATTICES, OPTIMUM_SECONDS, REPETITIONS, REPLICATIONS, SEEDS
from lpmert.comparing.comparison import OPTIMUM, Comparison, CrossValidation, Entry, Expected, Run, best_of
from lpmert.comparing.cross_validation import (
    TOO_FEW,
    Material,
    Split,
    chosen_statistics,
    corrected_test,
    data_of,
    interval_of,
    one_thread,
    shares,
    unseen,
)
from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.formats.weights import given_weights
from lpmert.limits import Allowance, Deadline, Interrupts, told
from lpmert.metrics.base import Metric, losses_of_totals
from lpmert.metrics.text import TextMetric
from lpmert.model.arrays import checked_sequence
from lpmert.model.canonical import CallerWeights
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import AnyProblem
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import quoted, repeated
from lpmert.result import Callback, Limits, Result, Status
from lpmert.search.driver import check_fits, solve
from lpmert.search.method import Method
from lpmert.values import Weights, checked_limits, whole_number
from lpmert.workers import SERIAL, Pending, checked_backend, current_workers, using_workers

logger = logging.getLogger("lpmert")


def permutation_test(
    metric: Metric, first: FloatArray, second: FloatArray, *, replications: int = REPLICATIONS, seed: int = 0
) -> float:
    """Return the p-value of the difference in loss between two sets of statistics [S, K], paired by list.

    Each replication swaps the two in random lists. The p-value is the share of replications whose absolute difference
    is at least the observed one, where the data count as one more replication. Raises `DataError` if the shapes differ.
    Source: approximate randomisation, Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989.
    """
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise DataError(f"pair statistics of the same lists, in shape [S, K]; got {first.shape} and {second.shape}")
    rng, change = np.random.default_rng(seed), second - first
    swapped = [change[rng.random(len(first)) < 0.5].sum(axis=0) for _ in range(replications)]
    moved = np.array([np.zeros(first.shape[1]), *swapped])  # the data first
    one, other = (losses_of_totals(metric, total) for total in (first.sum(axis=0) + moved, second.sum(axis=0) - moved))
    differences = np.abs(one - other)
    least = differences[0] - 1e-12 * max(1.0, differences[0])  # sums in another order differ by rounding
    return float(np.mean(differences >= least))


Named = list[tuple[str, Run]]  # runs with the names of their sources


@dataclass(frozen=True)
class Source:
    """An entry of a comparison: a method, a function of lists and seed, or weights [D] from elsewhere."""

    name: str
    given: Method | Callable[[Material, int], Weights] | FloatArray

    @property
    def settings(self) -> str:
        if isinstance(self.given, Method):
            return self.given.settings()
        return "function" if callable(self.given) else "weights"

    @property
    def random(self) -> bool:
        """Whether the seed matters."""
        return self.given.random if isinstance(self.given, Method) else callable(self.given)

    def run(
        self, problem: AnyProblem, held_out: AnyProblem | None, seed: int, limits: Limits, initial: CallerWeights | None
    ) -> Run:
        """Find weights for a problem, and evaluate them on it and on held-out lists; initial: where methods start."""
        clock, status, given = Deadline(), None, self.given
        if isinstance(given, Method):
            found = solve(given, problem, limits, None, seed, initial)
            weights, status = CallerWeights(found.weights), found.status
        elif callable(given):
            weights = problem.checked_weights(given_weights(given(data_of(problem), seed), self.name))
        else:
            weights = CallerWeights(given)
        seconds = clock.seconds
        training, test = problem.evaluate(weights), None if held_out is None else held_out.evaluate(weights)
        return Run(
            weights=weights,
            loss=training.loss,
            score=training.score,
            tied_lists=training.tied_lists,
            inside=problem.inside(weights),
            held_out_loss=None if test is None else test.loss,
            seconds=seconds,
            seed=seed if self.random else None,
            status=status,
            chosen=chosen_statistics(problem, weights, training),
            held_out_chosen=None if held_out is None else chosen_statistics(held_out, weights, test),
        )


def run_once(problems: tuple[AnyProblem, AnyProblem | None], task: tuple[Source, int, Limits, Any]) -> Named:
    source, *settings = task
    with one_thread():
        return [(source.name, source.run(*problems, *settings))]


def collect(
    unit: Callable[[Any, Any], Named],
    context: object,
    tasks: Sequence[object],
    runs: dict[str, list[Run]],
    on_runs: Callable[[int, Named], object],
    interrupts: Interrupts,
    memory: Allowance | None,
) -> bool:
    """Run all tasks and collect their runs by name, in order; return whether all were done.

    unit: runs a task; context: the value that all units share. on_runs: called with the number of each task and its
    named runs; a true return value stops. memory: allowance of this process; no more tasks run once it is spent.
    """
    workers, over = current_workers(), False
    pending: list[Pending[Named]] = []
    # set once for all: threads that each set and reset the limit would undo each other's
    with one_thread(), Deadline(stop=lambda: over or interrupts.pressed, memory=memory).running() as deadline:
        try:
            shared = workers.share(context)
            pending = [workers.submit(unit, shared, task) for task in tasks]
            for number, one in enumerate(pending, 1):
                in_time = one.in_time()
                if deadline.out_of_memory:  # this run may have been cut short
                    logger.warning("the memory limit is near; the runs so far are compared")
                    return False
                if not in_time:
                    return False
                found = one.answer()
                if interrupts.pressed and workers is not SERIAL:
                    return False  # an interrupted run would look like one that a limit stopped
                for name, run in found:
                    if run.status is Status.INTERRUPTED:
                        runs.setdefault(name, [run])  # only if it is the first: it must not count beside complete runs
                        return False
                for name, run in found:
                    runs.setdefault(name, []).append(run)
                if on_runs(number, found):
                    return False
        except KeyboardInterrupt:
            logger.info("interrupted; the runs so far are compared")
            return False
        finally:
            over = True  # stops threads that are still running
            for one in pending:
                one.give_up()
    return True


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
            if isinstance(source.given, Method) and source.given.remembers:
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
    seed = refits.split.seed + repetition
    with one_thread():
        problems = refits.split.divided(refits.problem, fold, repetition)
        found = [(one.name, one.run(*problems, seed, refits.limits, None)) for one in refits.sources]
        if refits.solver is not None:
            start = CallerWeights(best_of(run for _, run in found).weights) if found else None
            limits, fits = refits.optimum_limits, refits.split.folds * refits.split.repetitions
            if limits.time_limit is not None:
                limits = replace(limits, time_limit=limits.time_limit / fits)
            found.append((OPTIMUM, Source(OPTIMUM, refits.solver).run(*problems, seed, limits, start)))
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
        parts = shares(metric, chosen, split.group)
        values += [float(split.groups * parts[fold == number].mean()) for number in range(split.folds)]
    return float(np.mean(losses)), np.array(values)


def compare(
    nbest: NBest | WordGraphs,
    methods: Sequence[str | Method] | Mapping[str, str | Method] | None = None,
    *,
    seeds: int = SEEDS,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
    region: Region | None = None,
    held_out: NBest | WordGraphs | None = None,
    weights: Mapping[str, Weights | str | Path] | None = None,
    callables: Mapping[str, Callable[[Material, int], Weights]] | None = None,
    initial_weights: Weights | str | Path | None = None,
    optimum: str | Method | None = "auto",
    optimum_limits: Limits | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    cv: int | None = None,
    repeat: int = REPETITIONS,
    groups: Sequence[Hashable] | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_run: Callable[[str, Run], object] | None = None,
    on_stage: Callable[[str, int, int], object] | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Run methods on the same lists with several seeds, and evaluate their weights and those of other tools.

    Parameters
    ----------
    nbest : NBest, Lattices or Hypergraphs
        The lists on which weights are tuned, or lattices, of which every path is a hypothesis.
    methods : sequence, or mapping from name, of str or method, optional
        By default och, average, annealing, msr and grid; on lattices och, average and nelder-mead. Each runs with the
        seeds `seed`, `seed` + 1, ...; methods that use no random numbers run once.
    seeds : int
        Number of seeds.
    metric, ties, region
        As for `minimize`.
    held_out : NBest, Lattices or Hypergraphs, optional
        Further lists or lattices, on which no weights are tuned.
    weights : mapping from name to weights, optional
        Weights of other tools: one number per feature, by name or in order, or a file of weights.
    callables : mapping from name to function, optional
        Functions that take the lists and a seed and return weights.
    initial_weights : mapping or sequence of numbers, Result, str or Path, optional
        Start of the methods that start from weights.
    optimum : str, method or None
        The method that searches for the optimum at the end, from the best weights found.
    optimum_limits : Limits, optional
        Limits of that search; 60 seconds by default.
    time_limit : float, optional
        Seconds for each run.
    memory_limit : int, optional
        Maximum memory of this process in bytes, during the runs and the search for the optimum. The comparison stops
        before the limit and returns the runs so far.
    cv : int, optional
        Number of folds of a cross-validation of all methods, and of the search for the optimum, whose time limit is
        divided among the fits. Every fit uses the lists of its fold alone; `weights` are left out.
    repeat : int
        How often lists are drawn into folds.
    groups : sequence, optional
        One entry for each list; lists with equal entries share a source and stay together in cross-validation.
    jobs : int
        Number of workers for the runs, the folds and the search for the optimum; it changes only times.
    backend : str
        The workers, as for `minimize`.
    seed : int
        The first seed.
    on_run : callable, optional
        Called with the name of each run and the `Run` when it ends; a true return value stops the comparison.
    on_stage : callable, optional
        Called with the name of a stage, how many of its parts are done, and their number.
    callback : callable, optional
        Callback of the search for the optimum, as for `minimize`.

    Returns
    -------
    Comparison
        The runs of every entry, and the optimum. Ctrl-C ends the comparison with the runs so far.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        If an argument cannot be used.

    Notes
    -----
    Each entry is compared with the first one by approximate randomisation over lists: Noreen, Computer-Intensive
    Methods for Testing Hypotheses, 1989.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> found = lpmert.compare(lists, ["och"], seeds=1, weights={"mine": {"a": 0, "b": 1}})
    >>> found["och"].best.loss, found["mine"].best.loss, found.excess(found["mine"].best)
    (0.0, 1.0, 1.0)
    """
    seeds, jobs, seed = whole_number(seeds, "seeds", 1), whole_number(jobs, "jobs", 1), whole_number(seed, "seed", 0)
    limits = checked_limits(time_limit, None, None, None, None)
    most = checked_limits(None, None, None, None, memory_limit).memory_limit
    memory = None if most is None else Allowance(most)
    with Allowance(most).enforced(if_any=True):
        problem = problem_of(nbest, metric, ties, region)
    test = None if held_out is None else unseen(held_out, nbest, problem)
    initial = None
    if initial_weights is not None:
        initial = problem.checked_weights(given_weights(initial_weights, "initial_weights"))
    if methods is None:
        methods = DEFAULT_METHODS if isinstance(problem, Problem) else DEFAULT_ON_LATTICES
    named = (
        methods.items() if isinstance(methods, Mapping) else [("", one) for one in checked_sequence(methods, "methods")]
    )
    chosen = [(name, method_of(method)) for name, method in named]
    compared = [Source(name or method.settings(), method) for name, method in chosen]
    compared += [Source(name, _fitting(given, name, problem)) for name, given in (weights or {}).items()]
    compared += [Source(name, function) for name, function in (callables or {}).items()]
    if (twice := repeated(source.name for source in compared)) is not None:
        raise MethodError(f"{quoted(twice)} is compared twice; give each its own name")
    if not compared:
        raise MethodError("nothing to compare; give at least one method")
    fixed = [one.name for one in compared if one.settings == "weights"]
    solver = None if optimum is None else method_of(optimum)
    at_most = optimum_limits or Limits(time_limit=OPTIMUM_SECONDS)
    at_most = at_most if most is None else replace(at_most, memory_limit=most)
    signature = f"{problem.signature}|seeds:{seed}..{seed + seeds - 1}|replications:{REPLICATIONS}"
    refits = None
    if cv is not None:
        cv, repeat = whole_number(cv, "cv", 2), whole_number(repeat, "repeat", 1)
        split = Split.of(groups, nbest.n_lists, cv, seed, repeat)
        if split.groups < 2:
            raise DataError(TOO_FEW)
        signature += f"|folds:{split.folds}x{split.repetitions}"
        refits = Refits(problem, split, [one for one in compared if one.name not in fixed], solver, limits, at_most)
        refits.check()
    known: Result | None = None
    runs: dict[str, list[Run]] = {}
    of_folds: dict[str, list[Run]] = {}
    with Interrupts() as interrupts, using_workers(checked_backend(backend), jobs):
        for method in [*(method for _, method in chosen), *([] if solver is None else [solver])]:
            check_fits(method, problem)  # before the first run
        tasks = [
            (source, number, limits, initial)
            for source in compared
            for number in (range(seed, seed + seeds) if source.random else [seed])
        ]

        def on_task(_: int, found: Named) -> bool:
            return told(on_run, *found[0])

        complete = collect(run_once, (problem, test), tasks, runs, on_task, interrupts, memory)
        if solver is not None and complete:
            best = best_of(chain.from_iterable(runs.values()))
            try:
                start = problem.checked_weights(best.weights)
                known = solve(solver, problem, at_most, callback, seed, start)
            except MethodError as error:
                logger.warning("no bound: %s", error)
                refits = refits and replace(refits, solver=None)
        if refits and complete:
            folds = list(product(range(split.repetitions), range(split.folds)))

            def on_fold(number: int, _: Named) -> bool:
                return told(on_stage, "cross-validation", number, len(folds))

            complete = collect(fit_and_judge, refits, folds, of_folds, on_fold, interrupts, memory)
    entries: list[Entry] = []
    for source in (source for source in compared if source.name in runs):
        entry = Entry(source.name, source.settings, tuple(runs[source.name]), None)
        if entries:
            p_value = permutation_test(problem.metric, entries[0].best.judged, entry.best.judged, seed=seed)
            entry = replace(entry, p_value=p_value)
        entries.append(entry)
    found = None
    if refits is not None:
        costs = {entry.name: (entry.losses, entry.held_out_losses) for entry in entries}
        if known is not None:
            costs[OPTIMUM] = [known.loss], [] if test is None else [test.evaluate(known.weights).loss]
        found = expected(problem, split, of_folds, costs, fixed)
    return Comparison(
        names=nbest.names,
        methods=tuple(entries),
        optimum=known,
        complete=complete,
        signature=signature,
        fingerprint=nbest.fingerprint,
        cross_validation=found,
        unit=problem.unit,
        held_out_unit=None if test is None else test.unit,
    )


def _fitting(weights: Weights | str | Path, name: str, problem: AnyProblem) -> CallerWeights:
    """Return weights from elsewhere; raises `DataError` unless they fit."""
    try:
        return problem.checked_weights(given_weights(weights, name))
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
