"""The entry points `minimize`, `check`, `evaluate`, `rerank` and `certify`, and the checks of their arguments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import DataError, IntArray, MethodError, MetricError
from lpmert.formats.weights import checked_region, given_weights
from lpmert.limits import Allowance, Deadline, Interrupts, limited, told
from lpmert.metrics.base import SumOfLosses
from lpmert.model.arrays import checked_sequence, is_missing
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.nbest import NBest, checked_lists
from lpmert.model.problem import Problem
from lpmert.quoting import WARNINGS, listed, quoted
from lpmert.registry import METHODS
from lpmert.result import ALL_ZERO, Check, Outcome, warned
from lpmert.search.driver import Below, CheckpointFile, search_below, solve
from lpmert.search.method import Method
from lpmert.values import checked_limits, finite_number, whole_number
from lpmert.workers import checked_backend, using_workers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.region import Region
    from lpmert.result import Callback, Evaluation, Limits, Result
    from lpmert.values import Weights

logger = logging.getLogger(__name__)


def minimize(
    nbest: NBest | WordGraphs,
    *,
    metric: str | Metric | TextMetric | None = None,
    method: str | Method = "auto",
    initial_weights: Weights | str | Path | None = None,
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
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Result:
    """Find weights with the least loss on N-best lists or lattices, and prove that no weights do better.

    Limits never raise, and neither does Ctrl-C once the search is running: the result then holds the best weights so
    far and a valid bound.

    Parameters
    ----------
    nbest : NBest, Lattices or Hypergraphs
        The N-best lists, or lattices, of which every path is a hypothesis.
    metric : str or Metric, optional
        How summed statistics become a loss: a name, `module:Class`, or an object of `lpmert.metrics`. By default the
        names of the statistics decide; a single column is a loss. For lattices a metric on texts: "wer" (the default),
        "cer", "ter", or an object with its settings.
    method : str or Method
        How to search: a name, `module:Class`, or an object of `lpmert.methods`, whose arguments are its options.
    initial_weights : mapping or sequence of numbers, Result, str or Path, optional
        Where the search starts: one number per feature, by name or in order, or a file of weights. They are returned,
        up to their scale, unless better ones are found. Methods with another objective, such as "likelihood", only
        start from them.
    ties : {"first", "best", "worst"}
        Which hypothesis of a list represents all that have identical features: the first, or that with the least or
        the greatest loss.
    region : Region, optional
        Where the weights may lie; everywhere by default.
    time_limit : float, optional
        Seconds for everything except loading modules.
    node_limit : int, optional
        Maximum number of search nodes.
    gap : float, optional
        Relative gap between loss and bound at which to stop, from 0 to 1: 0.05 for 5 %.
    target : float, optional
        Loss at which to stop.
    memory_limit : int or None
        Maximum memory of the process in bytes, see docs/scale.md; by default its memory at the start plus nine tenths
        of what is free. The search stops before the limit and returns its best weights and their bound; `DataError` is
        raised if not even the lists fit.
    jobs : int
        Number of workers for long searches; it changes only the time. docs/scale.md says which methods use them.
    backend : str
        The workers: "threads", or "dask://HOST:PORT" for all workers of a Dask cluster (needs `lpmert[dask]`).
    seed : int
        Random seed.
    callback : callable, optional
        Called with a `Progress` about ten times a second; a true return value stops the search.
    checkpoint : str or Path, optional
        File in which exact methods (on lattices `auto` and `cells`) save the state of the search, every minute and at
        the end.
    resume : bool
        Continue from the checkpoint if the file exists. The file must not exist unless `resume` is set.

    Returns
    -------
    Result
        The weights, their loss, the proven bound, and how the run ended.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        If an argument cannot be used, or the checkpoint belongs to other data or settings; the message names the
        remedy.

    Notes
    -----
    "Proved" means that every choice of hypotheses with a lower loss was ruled out, by comparisons that exceed a bound
    on their rounding errors or by exact arithmetic. The problem is that of Och, Minimum Error Rate Training in
    Statistical Machine Translation, ACL 2003, and of Galley and Quirk, Optimal Search for Minimum Error Rate Training,
    EMNLP 2011.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> result = lpmert.minimize(lists)
    >>> result.loss, result.lower_bound, result.status.name
    (0.0, 0.0, 'OPTIMAL')
    >>> lpmert.minimize(lists, method=lpmert.methods.Och(restarts=3)).lower_bound is None
    True
    """
    solver, limits, seed = settings_of(
        method, time_limit, memory_limit, jobs, seed, backend, node_limit=node_limit, gap=gap, target=target
    )
    if checkpoint is None and resume:
        raise MethodError("resume needs the file of a checkpoint")
    file = None if checkpoint is None else CheckpointFile(checkpoint, resume)
    problem, started = _problem_within(limits, nbest, metric, ties, region)
    initial = None
    if initial_weights is not None:
        initial = problem.checked_weights(given_weights(initial_weights, "initial_weights"))
    with using_workers(backend, jobs):
        return warned(solve(solver, problem, limits, callback, seed, initial, started, file))


def check(
    nbest: NBest | WordGraphs,
    weights: Weights | str | Path,
    *,
    metric: str | Metric | TextMetric | None = None,
    method: str | Method = "auto",
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
) -> Check:
    """Evaluate weights, and search for the optimum, starting from them, to tell how far they are from it.

    Parameters
    ----------
    nbest : NBest, Lattices or Hypergraphs
        The N-best lists, or lattices, of which every path is a hypothesis.
    weights : mapping or sequence of numbers, Result, str or Path
        The weights to check: one number per feature, by name or in order, or a file of weights.
    metric, method, ties, region, time_limit, node_limit, gap, target, memory_limit, jobs, backend, seed, callback
        As for `minimize`.

    Returns
    -------
    Check
        The loss of the weights, and the result of the search.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> found = lpmert.check(lists, {"a": 0, "b": 1})
    >>> found.loss, found.optimum.loss, found.excess
    (1.0, 0.0, 1.0)
    """
    solver, limits, seed = settings_of(
        method, time_limit, memory_limit, jobs, seed, backend, node_limit=node_limit, gap=gap, target=target
    )
    problem, started = _problem_within(limits, nbest, metric, ties, region)
    vector = problem.checked_weights(given_weights(weights, "weights"))
    evaluation = evaluated(problem, vector)
    with using_workers(backend, jobs):
        optimum = warned(solve(solver, problem, limits, callback, seed, vector, started))
    return Check(weights=vector, names=nbest.names, optimum=optimum, **vars(evaluation))


def evaluate(
    nbest: NBest | WordGraphs,
    weights: Weights | str | Path,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
    region: Region | None = None,
) -> Evaluation:
    """Decode with weights and return their loss, without a search; ties are found and broken in exact arithmetic.

    Parameters
    ----------
    nbest : NBest, Lattices or Hypergraphs
        The N-best lists, or lattices, of which every path is a hypothesis.
    weights : mapping or sequence of numbers, Result, str or Path
        One number per feature, by name or in order, or a file of weights.
    metric, ties, region
        As for `minimize`.

    Returns
    -------
    Evaluation
        Loss, score, the chosen hypotheses, the ties, and whether the weights lie in the region.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> found = lpmert.evaluate(lists, [0, 1])
    >>> found.loss, found.selection.tolist(), found.tied_lists
    (1.0, [1, 1], 0)
    """
    return evaluated(problem_of(nbest, metric, ties, region), given_weights(weights, "weights"))


@dataclass(frozen=True, eq=False)
class Reranked(Outcome):
    """The hypotheses that weights pick.

    Parameters
    ----------
    list_ids : tuple of str
        The lists.
    hypotheses : array [S]
        The hypothesis picked from each list, counted from 0 within the list; with votes, the first hypothesis that
        gives the answer picked.
    texts : tuple of str or None
        Their texts; `None` for lists without texts.
    tied : int
        Number of lists in which another hypothesis comes within rounding of the best score; the first of equal ones is
        picked.
    """

    list_ids: tuple[str, ...]
    hypotheses: IntArray
    texts: tuple[str, ...] | None
    tied: int

    def __str__(self) -> str:
        """Return a line for each list: its id, a tab, and the text picked, or its number if there are no texts."""
        picked = map(str, self.hypotheses.tolist()) if self.texts is None else self.texts
        return "\n".join(f"{name}\t{' '.join(one.split())}" for name, one in zip(self.list_ids, picked, strict=True))


def rerank(nbest: NBest, weights: Weights | str | Path, *, vote: bool | Sequence[Hashable] = False) -> Reranked:
    """Pick the best hypothesis of each list by its score. No losses are needed.

    Parameters
    ----------
    nbest : NBest
        The lists; `lpmert.read(..., references=False)` reads lists without losses.
    weights : mapping or sequence of numbers, Result, Tuned, str or Path
        One number per feature, by name or in order, or a file of weights.
    vote : bool or sequence [M]
        Whether hypotheses of a list with the same text, or with the same entry of this sequence, are one answer: their
        features are summed, as by `lpmert.vote`.

    Returns
    -------
    Reranked
        The picks. Scores are compared exactly, and the first of equal hypotheses is picked. Weights that are all 0 log
        a warning, as in `check`.

    Raises
    ------
    DataError
        If weights or answers do not fit the lists, or `nbest` is not an `NBest`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [0, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}).texts
    ('4',)
    >>> lpmert.rerank(lists, {"count": 0, "logit": 1}, vote=True).texts
    ('5',)
    """
    checked_lists(nbest)
    answers = None if isinstance(vote, bool) else vote
    lists, firsts = (nbest, np.arange(nbest.n_hypotheses)) if vote is False else _voted(nbest, answers)
    nothing = np.zeros(lists.n_hypotheses)
    blank = NBest(lists.features, lists.offsets, nothing, lists.names, lists.list_ids, texts=lists.texts)
    found = evaluated(Problem(blank, SumOfLosses()), given_weights(weights))
    rows = blank.rows_of(found.selection)
    texts = None if blank.texts is None else tuple(blank.texts[row] for row in rows.tolist())
    return Reranked(blank.list_ids, firsts[rows] - nbest.offsets[:-1], texts, found.tied_lists)


def vote(nbest: NBest, answers: Sequence[Hashable] | None = None) -> NBest:
    """Merge the hypotheses of each list that give the same answer, and sum their features.

    A feature that is 1 everywhere then counts votes. Tuning weights on such lists is weighted self-consistency.

    Parameters
    ----------
    nbest : NBest
        The lists.
    answers : sequence [M], optional
        The answer of each hypothesis; by default its text.

    Returns
    -------
    NBest
        Lists with one hypothesis per answer, in the order of their first occurrence; statistics and texts are those of
        the first hypothesis with the answer.

    Raises
    ------
    DataError
        If there are neither texts nor answers, or hypotheses with the same answer have different statistics.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 3], [1, 2], [1, 2]], [0, 3], [1, 0, 0], ["count", "logit"], texts=["4", "5", "5"])
    >>> lpmert.vote(lists).dense_features().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    voted, _ = _voted(nbest, answers)
    return voted


def _voted(nbest: NBest, answers: Sequence[Hashable] | None) -> tuple[NBest, IntArray]:
    """Return the lists of `vote`, and the first hypothesis [m] with each answer."""
    entries = checked_lists(nbest).texts if answers is None else checked_sequence(answers, "answers")
    if entries is None:
        raise DataError("the lists have no texts that could be answers; read them with a text column, or pass answers")
    if len(entries) != nbest.n_hypotheses:
        raise DataError(
            f"answers must have one entry for each of the {nbest.n_hypotheses} hypotheses, not {len(entries)}"
        )
    lists = nbest.list_index
    if not all(isinstance(one, Hashable) for one in entries) or any(map(is_missing, entries)):
        raise DataError("answers must be strings, numbers or the like, none of them missing (None or NaN)")
    numbers: dict[tuple[int, Hashable], int] = {}
    answer = np.array([numbers.setdefault(key, len(numbers)) for key in zip(lists.tolist(), entries, strict=True)])
    firsts = np.unique(answer, return_index=True)[1]
    different = np.flatnonzero((nbest.statistics != nbest.statistics[firsts][answer]).any(axis=1))
    if len(different):
        row = int(different[0])
        raise DataError(
            f"list {quoted(nbest.list_ids[lists[row]])}: hypotheses with the answer {quoted(entries[row])} have "
            "different statistics; the same answer must cost the same"
        )
    features = np.zeros((len(firsts), nbest.n_features))
    np.add.at(features, answer, nbest.dense_features())
    voted = NBest(
        features,
        np.concatenate([[0], np.cumsum(np.bincount(lists[firsts]))]),
        nbest.statistics[firsts],
        nbest.names,
        nbest.list_ids,
        nbest.statistic_names,
        None if nbest.texts is None else [nbest.texts[row] for row in firsts.tolist()],
    )
    return voted, firsts


def certify(
    nbest: NBest | WordGraphs,
    result: Result,
    path: str | Path,
    *,
    metric: str | Metric | None = None,
    ties: str = "first",
    region: Region | None = None,
    at_most: int | None = None,
    budget: Mapping[str, float] | None = None,
    second: ArrayLike | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    on_stage: Callable[[str, int, int | None], object] | None = None,
) -> None:
    """Write a certificate that no weights do better than the optimum that `minimize` proved, for `verify` to check.

    Parameters
    ----------
    nbest, result : NBest, Lattices or Hypergraphs, and Result
        The lists, or small lattices, and their proved optimum.
    path : str or Path
        Where the certificate goes; compressed if the name ends in .gz or .xz.
    metric, ties, region
        Those of the run. The metric must be a sum, a fraction of sums, BLEU or chrF; the region must have no cosine.
    at_most : int, optional
        For a result of `best_subsets`: the maximum number of nonzero weights. The certificate has a proof for each set
        of so many features. The region may only hold signs and zeros, and ties count at their worst.
    budget, second : {name: number}, and array [M], optional
        For a result of `within_budget`: the limit of the second sum, and its number for each hypothesis unless the
        name is that of a feature or statistic.
    time_limit : float, optional
        Seconds for everything.
    memory_limit : int, optional
        Maximum memory of the process in bytes, as for `minimize`.
    on_stage : callable, optional
        Called with the name of a stage, how many of its parts are done, and their number, `None` if unknown.

    Raises
    ------
    MethodError
        If there is nothing to certify.
    DataError
        If `result` is not a `Result`, the file cannot be written, or the memory is too small for the lists.
    CertificateError
        If lattices are too large for exact arithmetic.
    LimitError
        If a limit ended the work; no certificate is written then.

    Notes
    -----
    The proof needs a search of its own, which may take much longer than the search for the weights.
    `proofs/certificates.md` describes the file.

    Examples
    --------
    >>> import lpmert, tempfile
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> path = tempfile.mkdtemp() + "/proof.json"
    >>> lpmert.certify(lists, lpmert.minimize(lists), path)
    >>> lpmert.verify(path, lists).proved
    True
    """
    from lpmert.certificates.write.certify import refuse_cosine, write_certificate, write_certificate_of_graphs

    refuse_cosine(checked_region(region))
    checked_limits(time_limit, None, None, None, memory_limit)
    size = 0 if at_most is None else whole_number(at_most, "at_most", 1)
    if not isinstance(budget, Mapping | None) or (second is not None and not budget):
        raise MethodError(f"budget must be {{name: number}}, and goes with second; got {quoted(budget)}")
    budgets = {name: Fraction(repr(finite_number(most, "a budget"))) for name, most in (budget or {}).items()}
    if size and budgets:
        raise MethodError("at_most and budget cannot be combined; give one of them")
    if size or budgets:
        _refuse_lattices(nbest, "certificates with at_most or budget need")
    report = on_stage or (lambda *_: None)

    with (
        limited(time_limit, memory_limit, lambda why: f"no certificate written: {why}") as allowance,
        allowance.enforced(),
    ):
        problem = problem_of(nbest, metric, ties, region)
        if isinstance(problem, Problem) and isinstance(nbest, NBest):
            settings: Any = {"metric": metric, "ties": ties, "region": problem.region}
            claim: Any = {"at_most": size, "budget": budgets, "second": second}
            write_certificate(path, nbest, result, on_stage=report, **settings, **claim)
        elif not isinstance(problem, Problem):
            write_certificate_of_graphs(path, problem, result, on_stage=report)


def _problem_within(
    limits: Limits, data: NBest | WordGraphs, metric: Any, ties: str, region: Region | None
) -> tuple[Problem | LatticeProblem, float]:
    allowance = Allowance(limits.memory_limit)
    with allowance.enforced(if_any=True), Deadline(limits.time_limit, memory=allowance).running() as deadline:
        return problem_of(data, metric, ties, region), deadline.started


def evaluated(problem: Problem | LatticeProblem, weights: Weights) -> Evaluation:
    """Return the evaluation of weights, with whether they lie in the region and the loss as rates."""
    vector = problem.checked_weights(weights)
    if not vector.any():
        logging.getLogger(WARNINGS).warning("warning: %s", ALL_ZERO.message)
    return replace(found := problem.evaluate(vector), inside=problem.inside(vector), rates=problem.rates(found.loss))


def problem_of(data: NBest | WordGraphs, metric: Any, ties: str, region: Region | None) -> Problem | LatticeProblem:
    if not isinstance(data, WordGraphs):
        return Problem(checked_lists(data), metric, ties=ties, region=checked_region(region))
    metric = metric or "loss"
    if not isinstance(metric, str) and not hasattr(metric, "counter"):
        raise MetricError(f"for lattices the metric is one on texts, wer, cer or ter, not {quoted(metric)}")
    if ties != "first":
        raise MethodError(
            f"ties={quoted(ties)} is for N-best lists; of paths with the same features the first one counts"
        )
    # "loss" is the default of some callers; it means "wer" if links have no losses.
    return LatticeProblem(data, "wer" if metric == "loss" and data.losses is None else metric, checked_region(region))


def _refuse_lattices(data: object, what: str) -> None:
    """Raise `MethodError` for lattices; what: the beginning of the message, such as "budgets need"."""
    if isinstance(data, WordGraphs):
        raise MethodError(f"{what} N-best lists; make some with lpmert.n_best")


def list_problem(data: NBest | WordGraphs, metric: Any, ties: str, region: Region | None, what: str) -> Problem:
    """Return the problem on lists; raises `MethodError` for lattices, with a message that begins with `what`."""
    _refuse_lattices(data, what)
    return Problem(checked_lists(data), metric, ties=ties, region=checked_region(region))


def settings_of(
    method: str | Method,
    time_limit: float | None,
    memory_limit: int | None,
    jobs: int,
    seed: int,
    backend: str = "threads",
    *,
    node_limit: int | None = None,
    gap: float | None = None,
    target: float | None = None,
) -> tuple[Method, Limits, int]:
    jobs = whole_number(jobs, "jobs", 1)
    checked_backend(backend)
    solver = method_of(method)
    if jobs > 1 and not solver.takes_jobs:
        logger.warning("jobs=%d: method %r searches in one thread", jobs, solver.name)
    limits = checked_limits(time_limit, node_limit, gap, target, memory_limit)
    return solver, limits, whole_number(seed, "seed", 0)


@dataclass
class Searches:
    """The searches of one call: their method, limits and seed, the time that they share, and what ends them all.

    needs: the beginning of messages, such as "budgets need". stopped: whether `on_stage` has asked for the end.
    """

    needs: str
    method: Method
    limits: Limits
    seed: int
    deadline: Deadline
    interrupts: Interrupts
    on_stage: Callable[..., object] | None
    stopped: bool = False

    @property
    def over(self) -> bool:
        return self.stopped or self.deadline.expired

    def tell(self, *report: object) -> bool:
        """Report to the caller, and return whether the caller has asked for the end."""
        self.stopped |= told(self.on_stage, *report)
        return self.stopped

    def solve(self, problem: AnyProblem, callback: Any = None, initial: Any = None, **limits: Any) -> Result:
        return solve(self.method, problem, replace(self.limits, **limits), callback, self.seed, initial)

    def below(self, problem: Problem, cutoff: float, **limits: Any) -> Below:
        return search_below(problem, cutoff, self.method, replace(self.limits, **limits), self.seed)


@contextmanager
def many_searches(
    needs: str,
    method: str | Method,
    time_limit: float | None,
    memory_limit: int | None,
    jobs: int,
    seed: int,
    backend: str,
    on_stage: Callable[..., object] | None = None,
    *,
    proofs: bool = False,
    partial: bool = False,
    **stops: Any,
) -> Iterator[Searches]:
    """Apply limits of time and memory, Ctrl-C and workers to a call that runs many searches.

    partial: the call has a result wherever memory ends it; otherwise `DataError` is raised for what does not fit.
    Raises `MethodError` for a method that proves nothing where the call needs `proofs`.
    """
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend, **stops)
    if proofs and not solver.proves:
        raise MethodError(f"method {quoted(solver.name)} proves nothing, and {needs} proofs; use auto")
    interrupts, allowance = Interrupts(), Allowance(limits.memory_limit)
    deadline = Deadline(limits.time_limit, None, lambda: interrupts.pressed, allowance)
    searches = Searches(needs, solver, replace(limits, time_limit=None), seed, deadline, interrupts, on_stage)
    enforced = nullcontext() if partial else allowance.enforced(if_any=True)
    with interrupts, deadline.running(), enforced, using_workers(backend, jobs):
        yield searches


def method_of(method: str | Method) -> Method:
    """Return a method by name or as it is; raises `MethodError` for other objects."""
    found = METHODS.build(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        names = f"one of {listed(METHODS.names())}, or an object of a class derived from lpmert.methods.Method"
        raise MethodError(f"a method must be {names}; got {quoted(method)}")
    return found
