"""`compare`: methods and weights of other tools on the same lists, and their distance to the optimum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count, product
from pathlib import Path

from lpmert.api import method_of, problem_of
from lpmert.comparing import (
    DEFAULT_METHODS,
    DEFAULT_ON_LATTICES,
    OPTIMUM_SECONDS,
    REPETITIONS,
    REPLICATIONS,
    SEEDS,
)
from lpmert.comparing.comparison import OPTIMUM, Comparison, Entry, Run, best_of
from lpmert.comparing.cross_validation import Refits, expected, fit_and_judge
from lpmert.comparing.runs import Judge, collect, run_once, sources
from lpmert.errors import DataError, MethodError
from lpmert.formats.weights import given_weights
from lpmert.metrics.base import Metric
from lpmert.metrics.text import TextMetric
from lpmert.model.arrays import checked_sequence
from lpmert.model.graphs import WordGraphs
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.result import Callback, Limits, Result
from lpmert.search.driver import check_fits, solve
from lpmert.search.method import Method
from lpmert.system.deadline import told
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance
from lpmert.unseen.estimate import TOO_FEW, Material, Split, unseen
from lpmert.values import Weights, checked_limits, whole_number
from lpmert.workers import checked_backend, using_workers

logger = logging.getLogger("lpmert")


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
    optimum: str | Method | Result | None = "auto",
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
    optimum : str, method, Result or None
        The method that searches for the optimum at the end, from the best weights found; or the result of `minimize` on
        these lists.
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
    test = None if held_out is None else problem_of(unseen(held_out, nbest), metric, ties, None)
    judge, initial = Judge(problem, test), None
    if initial_weights is not None:
        initial = problem.checked_weights(given_weights(initial_weights, "initial_weights"))
    if methods is None:
        methods = DEFAULT_METHODS if isinstance(problem, Problem) else DEFAULT_ON_LATTICES
    chosen: list[tuple[str | None, Method]]
    if isinstance(methods, Mapping):
        chosen = [(name, method_of(method)) for name, method in methods.items()]
    else:
        chosen = [(None, method_of(method)) for method in checked_sequence(methods, "methods")]
    compared = sources(chosen, weights or {}, callables or {}, problem)
    known = optimum if isinstance(optimum, Result) else None
    if known and (known.fingerprint != problem.fingerprint or f"|{problem.signature}|" not in known.signature):
        raise DataError(
            "the given optimum is for other lists, another metric or another region; give one found for "
            "these, or a method that finds it"
        )
    solver = None if optimum is None or isinstance(optimum, Result) else method_of(optimum)
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
        refits = Refits(problem, split, [one for one in compared if not one.fixed], solver, limits, at_most)
        refits.check()
    runs: dict[str, list[Run]] = {}
    of_folds: dict[str, list[Run]] = {}
    with Interrupts() as interrupts, using_workers(checked_backend(backend), jobs):
        for method in [method for _, method in chosen] + ([] if solver is None else [solver]):
            check_fits(method, problem)  # before the first run
        tasks = [
            (source, number, limits, initial)
            for source in compared
            for number in (range(seed, seed + seeds) if source.random else [seed])
        ]
        complete = collect(run_once, judge, tasks, runs, lambda found: told(on_run, *found[0]), interrupts, memory)
        if solver is not None and complete:
            best = best_of(chain.from_iterable(runs.values()))
            try:
                start = problem.checked_weights(best.weights)
                known = solve(solver, problem, at_most, callback, seed, start)
            except MethodError as error:
                logger.warning("no bound: %s", error)
                refits = refits and replace(refits, solver=None)
        if refits and complete:
            done, folds = count(1), list(product(range(split.repetitions), range(split.folds)))

            def on_fold(_: object) -> bool:
                return told(on_stage, "cross-validation", next(done), len(folds))

            complete = collect(fit_and_judge, refits, folds, of_folds, on_fold, interrupts, memory)
    entries: list[Entry] = []
    for source in (source for source in compared if source.name in runs):
        entry = Entry(source.name, source.settings, tuple(runs[source.name]), None)
        p_value = judge.p_value(entries[0].best, entry.best, seed) if entries else None
        entries.append(replace(entry, p_value=p_value))
    found = None
    if refits is not None:
        costs = {entry.name: (entry.losses, entry.held_out_losses) for entry in entries}
        if known is not None:
            costs[OPTIMUM] = [known.loss], [] if test is None else [test.evaluate(known.weights).loss]
        found = expected(problem, split, of_folds, costs, [one.name for one in compared if one.fixed])
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
