"""The door to comparisons: all methods on the same lists, each judged by its distance to the optimum.

Nothing heavy is imported before it is needed, so that the command line starts at once.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lpmert.comparing.comparison import Comparison, Difference, Run
    from lpmert.comparing.foreign import Source
    from lpmert.errors import IntArray
    from lpmert.metrics.base import Metric
    from lpmert.model.coordinates import CallerWeights
    from lpmert.model.nbest import NBest
    from lpmert.model.problem import Problem
    from lpmert.model.region import Region
    from lpmert.result import Callback, Limits, Result
    from lpmert.search.method import Method
    from lpmert.system.interrupts import Interrupts
    from lpmert.values import Weights

DEFAULT_METHODS = ("och", "annealing", "msr", "grid")
SEEDS = 10
OPTIMUM_SECONDS = 60.0
REPLICATIONS = 1000

logger = logging.getLogger("lpmert")


def compare(
    nbest: NBest,
    methods: Sequence[str | Method] | Mapping[str, str | Method] = DEFAULT_METHODS,
    *,
    seeds: int = SEEDS,
    metric: str | Metric = "loss",
    ties: str = "first",
    region: Region | None = None,
    held_out: NBest | None = None,
    weights: Mapping[str, Weights | str | Path] | None = None,
    callables: Mapping[str, Callable[[NBest, int], Weights]] | None = None,
    initial_weights: Weights | str | Path | None = None,
    optimum: str | Method | Result | None = "auto",
    optimum_limits: Limits | None = None,
    time_limit: float | None = None,
    replications: int = REPLICATIONS,
    jobs: int = 1,
    seed: int = 0,
    on_run: Callable[[str, Run], object] | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Run methods on the same lists from several seeds, and judge what they find, and what other tools found.

    Parameters
    ----------
    nbest : NBest
        The lists on which weights are tuned.
    methods : sequence, or mapping from name, of str or method
        Each runs with the seeds `seed`, `seed` + 1, ...; those that draw nothing at random run once.
    seeds : int
        Number of seeds.
    metric, ties, region
        As for `minimize`.
    held_out : NBest, optional
        Lists on which no weights are tuned.
    weights : mapping from name to weights, optional
        Those that other tools found, each by name, in the order of the features, or in a file.
    callables : mapping from name to function, optional
        Functions of the lists and a seed that return weights.
    initial_weights : mapping or sequence of numbers, Result, str or Path, optional
        Where every method starts that starts from weights.
    optimum : str, method, Result or None
        What finds the optimum at the end, from the best weights that were met; or what `minimize` found on these lists.
    optimum_limits : Limits, optional
        Of that search; 60 seconds by default.
    time_limit : float, optional
        Seconds for each run.
    replications : int
        Of the permutation test against the first entry.
    jobs : int
        Processes; the outcome is the same for any number, apart from times.
    seed : int
        The first seed.
    on_run : callable, optional
        Sees the name of each run and the run as it ends, and stops the comparison by a true answer.
    callback : callable, optional
        Of the search for the optimum, as for `minimize`.

    Returns
    -------
    Comparison
        The runs of every entry, and the optimum. Ctrl-C ends the comparison with the runs so far.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        Where an argument cannot be used.

    Notes
    -----
    The first entry and each other one are compared by approximate randomisation, by list: Noreen, Computer-Intensive
    Methods for Testing Hypotheses, 1989. The interval of their difference is bootstrapped: Koehn, Statistical
    Significance Tests for Machine Translation Evaluation, EMNLP 2004.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> found = lpmert.compare(lists, ["och"], seeds=1, weights={"mine": {"a": 0, "b": 1}})
    >>> found["och"].best.loss, found["mine"].best.loss, found.excess(found["mine"].best)
    (0.0, 1.0, 1.0)
    """
    from lpmert._doors import _method, _problem
    from lpmert.comparing.comparison import Comparison, Entry
    from lpmert.comparing.foreign import sources
    from lpmert.errors import MethodError
    from lpmert.formats.weights import given_weights
    from lpmert.model.held_out import like
    from lpmert.result import Limits, Result
    from lpmert.search.driver import solve
    from lpmert.system.interrupts import Interrupts
    from lpmert.values import checked_limits, whole_number

    seeds, jobs = whole_number(seeds, "seeds", 1), whole_number(jobs, "jobs", 1)
    replications, seed = whole_number(replications, "replications", 1), whole_number(seed, "seed", 0)
    limits = checked_limits(time_limit, None, None, None, 1 << 30)
    problem = _problem(nbest, metric, ties, region)
    judge = _Judge(problem, None if held_out is None else _problem(like(held_out, nbest), metric, ties, None))
    initial = (
        None if initial_weights is None else problem.checked_weights(given_weights(initial_weights, "initial_weights"))
    )
    named = methods.items() if isinstance(methods, Mapping) else [(None, method) for method in methods]
    given = [(name, _method(method)) for name, method in named]
    compared = sources(given, weights or {}, callables or {}, problem)
    known = _checked(optimum, problem) if isinstance(optimum, Result) else None
    solver = None if optimum is None or isinstance(optimum, Result) else _method(optimum)

    tasks = [
        _Task(source, number, judge, limits, initial)
        for source in compared
        for number in (range(seed, seed + seeds) if source.random else [seed])
    ]
    runs: dict[str, list[Run]] = {}
    with Interrupts() as interrupts:
        complete = _collect(tasks, jobs, runs, on_run, interrupts)
        if solver is not None and complete:
            best = min((run for found in runs.values() for run in found), key=lambda run: (not run.inside, run.loss))
            at_most = optimum_limits or Limits(time_limit=OPTIMUM_SECONDS)
            try:
                known = solve(solver, problem, at_most, callback, seed, problem.checked_weights(best.weights))
            except MethodError as error:
                logger.warning("no bound: %s", error)
    entries: list[Entry] = []
    for source in (source for source in compared if source.name in runs):
        entry = Entry(source.name, source.settings, tuple(runs[source.name]), None, None)
        differences = judge.differences(entries[0].best, entry.best, replications, seed) if entries else (None, None)
        entries.append(Entry(source.name, source.settings, entry.runs, *differences))
    return Comparison(
        names=nbest.names,
        entries=tuple(entries),
        optimum=known,
        complete=complete,
        signature=f"{problem.signature}|seeds:{seed}..{seed + seeds - 1}|replications:{replications}",
        fingerprint=nbest.fingerprint,
        held_out_fingerprint=None if held_out is None else held_out.fingerprint,
    )


@dataclass(frozen=True)
class _Judge:
    """Tells what weights cost, on the lists tuned on and on those held out."""

    problem: Problem
    held_out: Problem | None

    def run(self, source: Source, seed: int, limits: Limits, initial: CallerWeights | None) -> Run:
        """Return a run of a source, judged by decoding alone."""
        from lpmert.comparing.comparison import Run
        from lpmert.system.deadline import Deadline

        clock = Deadline()
        weights, status = source.find(self.problem, limits, initial, seed)
        seconds = clock.seconds
        here = self.problem.evaluate(weights)
        there = None if self.held_out is None else self.held_out.evaluate(weights)
        return Run(
            weights=weights,
            loss=here.loss,
            score=here.score,
            tied_lists=here.tied_lists,
            inside=self.problem.inside(weights),
            held_out_loss=None if there is None else there.loss,
            held_out_score=None if there is None else there.score,
            seconds=seconds,
            seed=seed if source.random else None,
            status=status,
            selection=here.selection,
            held_out_selection=None if there is None else there.selection,
        )

    def differences(self, first: Run, other: Run, replications: int, seed: int) -> tuple[Difference, Difference | None]:
        """Return how two runs differ on the lists tuned on and on those held out."""
        here = _difference(self.problem, first.selection, other.selection, replications, seed)
        if self.held_out is None or first.held_out_selection is None or other.held_out_selection is None:
            return here, None
        there = (first.held_out_selection, other.held_out_selection)
        return here, _difference(self.held_out, *there, replications, seed)


def _difference(problem: Problem, first: IntArray, other: IntArray, replications: int, seed: int) -> Difference:
    from lpmert.comparing.comparison import Difference
    from lpmert.comparing.significance import bootstrap_interval, permutation_test

    nbest, metric = problem.nbest, problem.metric
    one, two = (nbest.statistics[nbest.offsets[:-1] + chosen] for chosen in (first, other))
    low, high = bootstrap_interval(metric, one, two, replications=replications, seed=seed)
    return Difference(
        loss=metric.loss(two.sum(axis=0)) - metric.loss(one.sum(axis=0)),
        p_value=permutation_test(metric, one, two, replications=replications, seed=seed),
        low=low,
        high=high,
    )


@dataclass(frozen=True)
class _Task:
    source: Source
    seed: int
    judge: _Judge
    limits: Limits
    initial: CallerWeights | None

    def run(self) -> Run:
        with _one_thread():
            return self.judge.run(self.source, self.seed, self.limits, self.initial)


def _one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread: with several, sums are rounded in an order that hangs on their number."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited


def _collect(
    tasks: Sequence[_Task],
    jobs: int,
    runs: dict[str, list[Run]],
    on_run: Callable[[str, Run], object] | None,
    interrupts: Interrupts,
) -> bool:
    """Make the runs and gather them by name; return whether all were made."""
    from lpmert.errors import MethodError
    from lpmert.result import Status

    results = _results(tasks, jobs)
    try:
        for task in tasks:
            if interrupts.pressed:
                return False
            # methods heed Ctrl-C on their own; workers and functions do not
            with interrupts.raising() if jobs > 1 or task.source.foreign else nullcontext():
                run = next(results)
            if run.status is Status.INTERRUPTED:
                runs.setdefault(task.source.name, [run])  # beside whole runs it would count as one
                return False
            runs.setdefault(task.source.name, []).append(run)
            if on_run is not None and on_run(task.source.name, run):
                return False
    except KeyboardInterrupt:
        logger.info("interrupted; the runs so far are compared")
        return False
    except BrokenExecutor as error:
        raise MethodError(
            f"a worker process died, perhaps because it ran out of memory: {error}; use fewer jobs"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of the runs that are given up, which is what was asked for
            results.close()
    return True


def _results(tasks: Sequence[_Task], jobs: int) -> Generator[Run, None, None]:
    """Return the runs in the order of the tasks."""
    if jobs == 1:
        return (task.run() for task in tasks)
    from multiprocessing.resource_tracker import ensure_running

    from joblib import Parallel, delayed

    from lpmert.system.interrupts import kept_from_children

    ensure_running()  # would be started with the workers, and lets all signals through again

    # max_nbytes: arrays mapped into memory are read-only, for which all kernels would be compiled anew
    parallel = Parallel(n_jobs=jobs, return_as="generator", max_nbytes=None)
    with kept_from_children():
        found: Generator[Run, None, None] = parallel(delayed(task.run)() for task in tasks)
    return found


def _checked(optimum: Result, problem: Problem) -> Result:
    """Return a result that was given; raises `DataError` unless it is about this problem."""
    from lpmert.errors import DataError

    if optimum.fingerprint != problem.nbest.fingerprint or f"|{problem.signature}|" not in optimum.signature:
        raise DataError(
            "the given optimum is for other lists, another metric or another region; give one found for "
            "these, or a method that finds it"
        )
    return optimum
