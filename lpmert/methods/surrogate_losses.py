"""Methods that minimise another objective than the loss, on all hypotheses of all lists.

Sources: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006 (likelihood and
expected loss); Hopkins and May, Tuning as Ranking, EMNLP 2011 (PRO); Cherry and Foster, Batch Tuning Strategies for
Statistical Machine Translation, NAACL 2012 (k-best batch MIRA: updates between a hopeful and a fearful hypothesis).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from math import inf
from typing import Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import out_of_time
from lpmert.lines import Clock
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.ratio import Bleu, LinearFraction
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.numeric.lists import first_best, list_numbers, rows_of_lists, units
from lpmert.quoting import quoted
from lpmert.search.method import Comparator, Found

_ITERATIONS = 10_000  # most iterations of L-BFGS


@dataclass(frozen=True)
class AllHypotheses:
    """All hypotheses of all lists: features [M, d] in canonical coordinates, offsets [S + 1], statistics [M, K].

    Probabilities, unlike decoding, depend on how often a vector occurs and on distances. So identical vectors are not
    collapsed here, and parallel lists are not merged. scale [d]: the caller's weight is a canonical weight times this.
    """

    features: FloatArray
    offsets: IntArray
    statistics: FloatArray
    scale: FloatArray

    @property
    def n_lists(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def numbers(self) -> IntArray:
        return list_numbers(self.offsets)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sums [S] or [S, K] of values [M] or [M, K] over each list."""
        return np.asarray(np.add.reduceat(values, self.offsets[:-1], axis=0))

    def log_probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the log-probability [M] of each hypothesis by softmax within its list, from scores [M]."""
        shifted = scores - np.maximum.reduceat(scores, self.offsets[:-1])[self.numbers]
        return np.asarray(shifted - np.log(self.sums(np.exp(shifted)))[self.numbers])

    def total(self, weights: FloatArray) -> FloatArray:
        """Return the summed statistics [K] of decoding at weights [d], the first row of a list on ties."""
        chosen = first_best(self.features @ weights, self.offsets[:-1])
        return np.asarray(self.statistics[chosen].sum(axis=0))

    def take(self, lists: IntArray) -> AllHypotheses:
        rows, offsets = rows_of_lists(self.offsets, lists)
        return AllHypotheses(self.features[rows], offsets, self.statistics[rows], self.scale)


def lists_of(problem: Problem) -> AllHypotheses:
    """Return all lists of a problem, including hypotheses and lists that its canonical form drops."""
    nbest, axes = problem.nbest, np.eye(problem.canonical.n_features)
    basis = np.column_stack([problem.to_caller(CanonicalWeights(axis)) for axis in axes])
    features = np.ascontiguousarray(nbest.dense_features() @ basis)
    return AllHypotheses(features, nbest.offsets, nbest.statistics, np.linalg.norm(basis, axis=0))


def own_losses(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return the loss [M] of each hypothesis by itself, from statistics [M, K].

    For an additive metric, this is its loss. For BLEU, 1 is added to the matches and totals of bigrams and longer
    n-grams (Lin and Och, ORANGE, COLING 2004), as PRO does. Other metrics are applied to the statistics of the single
    hypothesis.
    """
    if isinstance(metric, AdditiveMetric):
        return np.asarray(metric.losses(statistics), dtype=np.float64)
    if isinstance(metric, Bleu):
        statistics = statistics.copy()
        statistics[:, 2:8] += 1.0
    return losses_of_totals(metric, statistics)


Objective = Callable[[FloatArray], tuple[float, FloatArray]]  # maps weights [d] to a value and its gradient [d]


def with_prior(objective: Objective, precision: FloatArray) -> Objective:
    """Return an objective plus minus the logarithm of a Gaussian prior with inverse variances `precision` [d]."""

    def penalised(weights: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(weights)
        return value + 0.5 * float(precision @ weights**2), gradient + precision * weights

    return penalised


def minimize_smooth(
    objective: Objective,
    precision: FloatArray,
    weights: FloatArray,
    clock: Clock,
    *,
    gradient: float,
    change: float = 0.0,
) -> tuple[FloatArray, Mapping[str, int]]:
    """Return the end [d] of L-BFGS on the objective with a prior, from weights [d], and its counts.

    It ends once no derivative exceeds `gradient`, the relative change does not exceed `change`, or the clock has
    expired.
    """
    from scipy.optimize import minimize

    def watch(_: Any) -> None:
        if clock.expired():
            raise StopIteration

    callback: Any = watch
    options: Any = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": gradient, "ftol": change}
    penalised = with_prior(objective, precision)
    answer = minimize(penalised, weights, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return np.asarray(answer.x), {"iterations": int(answer.nit), "evaluations": int(answer.nfev)}


VARIANCES = (0.03, 0.3, 3.0, 30.0, 300.0)
"""Variances tried by cross-validation, for features scaled to unit spread within lists; the narrowest comes first."""


GRADIENT_TOLERANCE = 1e-9
"""L-BFGS ends once no derivative, in canonical scaling and relative to the number of lists, exceeds this."""


@dataclass(frozen=True)
class Likelihood(Comparator):
    """Conditional log-likelihood of the hypotheses of least loss, summed over ties, with a Gaussian prior.

    The prior has mean 0 and `variance` for every weight in the caller's scaling; `inf` means no prior. With `folds`,
    cross-validation chooses the variance, for features scaled to unit spread: the smallest one of equals. Smith
    and Eisner (2006) try 0.25, 0.5, 1 and inf. If each list has a single hypothesis of least loss, the objective is
    convex, and L-BFGS ends at its optimum. Without a prior, the optimum can lie at infinity; L-BFGS then ends when no
    step gains any more.
    """

    variance: float = option(1.0, "variance of the Gaussian prior; inf for no prior", above=0)
    folds: int | None = option(
        None,
        "folds of a cross-validation that chooses the variance, for features of equal spread; none: variance as given",
        least=2,
    )

    name: ClassVar[str] = "likelihood"
    minimises = False

    @property
    def random(self) -> bool:
        return self.folds is not None

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        counted: Counter[str] = Counter()

        def fit(sample: AllHypotheses, precision: FloatArray, begin: FloatArray) -> FloatArray:
            gold = gold_rows(sample, own_losses(problem.metric, sample.statistics))
            objective, tolerance = partial(negative_log_likelihood, sample, gold), GRADIENT_TOLERANCE * sample.n_lists
            found, counters = minimize_smooth(objective, precision, begin, clock, gradient=tolerance)
            counted.update(counters)
            return found

        def path(sample: AllHypotheses) -> Iterator[FloatArray]:
            # The fit for each prior starts from the fit for the next narrower one.
            spread, found = units([(sample.features, sample.offsets)]), weights
            for variance in VARIANCES:
                found = fit(sample, spread**2 / variance, found)
                yield found

        if self.folds is None:
            found = fit(lists, lists.scale**2 / self.variance, weights)
        else:
            fold = np.random.default_rng(seed).permutation(lists.n_lists) % min(self.folds, lists.n_lists)
            totals = np.zeros((len(VARIANCES), lists.statistics.shape[1]))
            for number in range(int(fold.max()) + 1 if lists.n_lists > 1 else 0):
                aside = lists.take(np.flatnonzero(fold == number))
                for place, found in enumerate(path(lists.take(np.flatnonzero(fold != number)))):
                    totals[place] += aside.total(found)
            best = int(np.argmin([problem.metric.loss(total) for total in totals]))
            found = next(islice(path(lists), best, None))
        clock.keep(found)
        return Found(found, counted)


def gold_rows(lists: AllHypotheses, losses: FloatArray) -> FloatArray:
    """Return 1 for each row [M] with the least loss of its list, else 0."""
    least = np.minimum.reduceat(losses, lists.offsets[:-1])
    return np.asarray((losses == least[lists.numbers]).astype(np.float64))


def negative_log_likelihood(lists: AllHypotheses, gold: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood of the gold rows [M] at canonical weights [d], and its gradient [d]."""
    log_p = lists.log_probabilities(lists.features @ weights)
    p = np.exp(log_p)
    log_gold = lists.log_probabilities(np.where(gold > 0, log_p, -np.inf))
    share = np.exp(log_gold)
    first = np.maximum.reduceat(np.where(gold > 0, log_p - log_gold, -np.inf), lists.offsets[:-1])
    return -float(first.sum()), np.asarray((p - share) @ lists.features)


_GRADIENT_TOLERANCE = 1e-7  # largest derivative at which L-BFGS ends, relative to the number of pairs
_SAMPLES = 5000  # pairs that PRO draws from each list, the paper's Gamma
_LEAST_DIFFERENCE = 0.05  # least difference of the losses of a pair, the paper's alpha
_DECAY = 0.999  # factor by which MIRA's background statistics decay from list to list


@dataclass(frozen=True)
class Pro(Comparator):
    """Logistic regression, from the difference of the features of two hypotheses to which one has the smaller loss.

    From each list, 5000 pairs are drawn (the paper's Gamma). Pairs whose losses differ by less than 0.05 (its alpha)
    are dropped, and the `pairs` that differ most (its Xi, 50) are kept. Losses are those of each hypothesis by itself,
    with BLEU smoothed by 1. The prior on the caller's weights is Gaussian with mean 0 and `variance`; `inf` means no
    prior.
    """

    pairs: int = option(50, "pairs kept from each list, the paper's Xi", least=1)
    variance: float = option(1.0, "variance of the Gaussian prior; inf for no prior", above=0)

    name: ClassVar[str] = "pro"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        better, worse = self.sample(lists, own_losses(problem.metric, lists.statistics), np.random.default_rng(seed))
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        if not len(better):
            return Found(weights, {"pairs": 0})
        differences = lists.features[better] - lists.features[worse]
        objective, precision = partial(logistic_loss, differences), lists.scale**2 / self.variance
        tolerance = _GRADIENT_TOLERANCE * len(better)
        found, counters = minimize_smooth(objective, precision, weights, clock, gradient=tolerance)
        clock.keep(found)
        return Found(found, {"pairs": len(better), **counters})

    def sample(self, lists: AllHypotheses, losses: FloatArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return the rows with the smaller and with the larger loss [M] of each kept pair.

        If time runs out, only the first lists have pairs.
        """
        better, worse = [], []
        for begin, end in zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True):
            first, second = rng.integers(begin, end, (2, _SAMPLES))
            difference = losses[second] - losses[first]
            apart = np.flatnonzero(np.abs(difference) >= _LEAST_DIFFERENCE)
            kept = apart[np.argsort(-np.abs(difference[apart]), kind="stable")[: self.pairs]]
            swapped = difference[kept] < 0
            better.append(np.where(swapped, second[kept], first[kept]))
            worse.append(np.where(swapped, first[kept], second[kept]))
            if out_of_time():
                break
        return np.concatenate(better), np.concatenate(worse)


def logistic_loss(differences: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood that every difference [n, d] scores above 0 at weights [d], and its gradient."""
    scores = differences @ weights
    share = np.exp(-np.logaddexp(0.0, scores))
    return float(np.logaddexp(0.0, -scores).sum()), np.asarray(-(share @ differences))


@dataclass(frozen=True)
class Mira(Comparator):
    """Passes over the lists in random order; each list moves the weights so that hope scores above fear by a margin.

    Hope has the largest score minus cost, fear the largest score plus cost. The margin is the difference of their
    costs, and the step is at most `step` (the paper's C, 0.01). The cost of a hypothesis is its loss if the metric is
    additive. Otherwise it is the loss of its statistics plus background statistics, times the length of the reference
    in that sum for BLEU, and times the largest statistic for other metrics. The background starts with the mean
    statistics, decays by the factor 0.999 with each list, and adds the statistics of each hope. The weights are
    averaged up to the end of each of the `passes`; the average that decodes best is returned.
    """

    passes: int = option(60, "passes over the lists", least=1)
    step: float = option(0.01, "largest step, the paper's C", above=0)

    name: ClassVar[str] = "mira"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start * lists.scale
        rng = np.random.default_rng(seed)
        orders = (rng.permutation(lists.n_lists) for _ in range(self.passes))
        for found in mira_passes(self.step, lists, problem.metric, weights, orders):
            clock.keep(found.weights)
            if clock.expired(lists.n_lists):
                break
        return found if clock.best is None else replace(found, weights=clock.best)


def mira_passes(
    step: float, lists: AllHypotheses, metric: Metric, weights: FloatArray, orders: Iterable[IntArray]
) -> Iterator[Found]:
    """Pass over the lists in each of the orders, from weights [d] in the caller's scaling.

    After each pass, yields the mean of the weights after each visited list, and the number of updates so far.
    """
    features, background = lists.features / lists.scale, lists.statistics.mean(axis=0)
    total, visits, updates = np.zeros(len(weights)), 0, 0
    for order in orders:
        for number in order.tolist():
            rows = slice(*lists.offsets[number : number + 2].tolist())
            statistics = lists.statistics[rows]
            costs, scores = _mira_costs(metric, background, statistics), features[rows] @ weights
            hope, fear = int(np.argmax(scores - costs)), int(np.argmax(scores + costs))
            margin = costs[fear] - costs[hope]
            difference = features[rows][hope] - features[rows][fear]
            short = margin - (scores[hope] - scores[fear])
            squares = float(difference @ difference)
            if margin > 0 and short > 0 and squares > 0:
                weights = weights + min(step, short / squares) * difference
                updates += 1
            background = _DECAY * background + statistics[hope]
            total += weights
        visits += len(order)
        yield Found(total / visits / lists.scale, {"updates": updates})


def _mira_costs(metric: Metric, background: FloatArray, statistics: FloatArray) -> FloatArray:
    if isinstance(metric, AdditiveMetric):
        return np.asarray(metric.losses(statistics), dtype=np.float64)
    totals = background + statistics
    sizes = totals[:, 8] if isinstance(metric, Bleu) else totals.max(axis=1)
    return np.asarray(losses_of_totals(metric, totals) * sizes)


FLOOR = 0.1  # least sum of which a logarithm is taken, so that a missing match is no infinite loss


Risk = Callable[[FloatArray], tuple[float, FloatArray]]
"""Maps probabilities [M] to an expectation and its derivatives [M], which may be off by a constant for each list."""


def sum_of_risks(terms: Sequence[tuple[float, Risk]], probabilities: FloatArray) -> tuple[float, FloatArray]:
    """Return a weighted sum of expectations, as a `Risk` does."""
    total, slopes = 0.0, np.zeros(len(probabilities))
    for factor, term in terms:
        value, slope = term(probabilities)
        total += factor * value
        slopes += factor * slope
    return total, slopes


def expected_sum(losses: FloatArray, probabilities: FloatArray) -> tuple[float, FloatArray]:
    return float(probabilities @ losses), losses


def _centred(lists: AllHypotheses, probabilities: FloatArray, column: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean of the sum of a column [M] over all lists, and the column less its mean in each list."""
    means = lists.sums(probabilities * column)
    return float(means.sum()), column - means[lists.numbers]


def expected_log(lists: AllHypotheses, column: FloatArray, probabilities: FloatArray) -> tuple[float, FloatArray]:
    """Return E[log X] of the sum X of a column [M], as a `Risk` does."""
    mean, centred = _centred(lists, probabilities, column)
    mean, squares = max(mean, FLOOR), centred * centred
    variance = float(probabilities @ squares)
    value = np.log(mean) - variance / (2 * mean**2)
    return float(value), (1 / mean + variance / mean**3) * column - squares / (2 * mean**2)


def expected_brevity(
    lists: AllHypotheses, lengths: FloatArray, references: FloatArray, probabilities: FloatArray
) -> tuple[float, FloatArray]:
    """Return E[max(R / A - 1, 0)] of the sums A, R of lengths [M]: minus the expected logarithm of BLEU's penalty."""
    length, centred = _centred(lists, probabilities, lengths)
    reference, centred_reference = _centred(lists, probabilities, references)
    length = max(length, FLOOR)
    if reference <= length:
        return 0.0, np.zeros(len(lengths))
    by_spread, by_joint = centred * centred, centred * centred_reference
    spread, joint = float(probabilities @ by_spread), float(probabilities @ by_joint)
    value = reference / length - 1 + reference * spread / length**3 - joint / length**2
    slopes = references / length - reference / length**2 * lengths
    slopes += (spread / length**3) * references + by_spread * reference / length**3
    slopes += (2 * joint / length**3 - 3 * reference * spread / length**4) * lengths
    return value, slopes - by_joint / length**2


def risk_of(metric: Metric, lists: AllHypotheses) -> Risk:
    """Return the expected loss of a metric on these lists: of the loss itself if it is additive, else of a logarithm.

    A fraction whose denominator does not depend on the choices is additive. For other metrics, the expectation is that
    of minus the log-score if higher scores are better, and of the log-loss for error rates. Raises `MethodError` for
    metrics other than sums, fractions and BLEU.
    """
    statistics = lists.statistics
    if isinstance(metric, AdditiveMetric):
        return partial(expected_sum, np.asarray(metric.losses(statistics), dtype=np.float64))
    if isinstance(metric, Bleu):
        logs = [partial(expected_log, lists, column) for column in statistics[:, :8].T]
        terms = [*((-0.25, log) for log in logs[::2]), *((0.25, log) for log in logs[1::2])]
        brevity = partial(expected_brevity, lists, statistics[:, 1], statistics[:, 8])
        return partial(sum_of_risks, [*terms, (1.0, brevity)])
    if isinstance(metric, LinearFraction):
        above = statistics @ np.array(metric.numerator, dtype=np.float64)
        below = statistics @ np.array(metric.denominator, dtype=np.float64)
        first = below[lists.offsets[:-1]]
        if np.array_equal(below, first[lists.numbers]):
            return partial(expected_sum, above / max(float(first.sum()), FLOOR))
        good = below - above if metric.higher_is_better else above
        sign = -1.0 if metric.higher_is_better else 1.0
        return partial(
            sum_of_risks, [(sign, partial(expected_log, lists, good)), (-sign, partial(expected_log, lists, below))]
        )
    raise MethodError(f"no expected loss is known for metric {quoted(metric.name)}")


SCHEDULES = ("entropy", "gamma")

_MOST_DOUBLINGS = 40  # most doublings of gamma
_FIRST_GAMMA = 0.1  # first gamma of the schedule gamma
_TOLERANCE = 1e-5  # relative change of the risk at which a schedule ends
_GRADIENT, _CHANGE = 1e-8, 1e-10  # tolerances of L-BFGS at one step of the schedule


@dataclass(frozen=True)
class Annealing(Comparator):
    """Minimise the expected loss, by L-BFGS with exact gradients, from a random choice towards a deterministic one.

    schedule "entropy": the objective is risk - T * entropy. T is halved from `first_temperature` (the paper takes 100,
    200 or 1000) to `last_temperature` (0.01 or 0.001). Then T is 0, and gamma is doubled until the risk hardly changes.
    schedule "gamma": T is 0, and gamma is doubled from 0.1 until the risk hardly changes. Every objective includes
    |w|^2 / (2 variance) on the caller's weights; `inf` means no such term. The default variance is `inf` for "entropy"
    and 1 for "gamma". The loss of a metric that is not additive is multiplied by the number of lists, so that the same
    temperatures serve.

    held_out: share of the lists, drawn by the seed, that the objective leaves out; the result is the weights of the
    step that decodes them with the least loss. (The paper stops cooling at the first rise; that often ends in the noise
    of the first, nearly random steps.) Otherwise the last weights are returned, or the best ones so far if a limit
    stops the run. The method starts from weights 0 unless others are given.
    """

    schedule: str = option("entropy", "how the choice becomes certain: by entropy or by gamma", choices=SCHEDULES)
    first_temperature: float = option(1000.0, "first T of schedule entropy; the paper takes 100, 200 or 1000", above=0)
    last_temperature: float = option(0.001, "last T of that schedule; the paper takes 0.01 or 0.001", above=0)
    variance: float | None = option(
        None, "variance of the Gaussian prior; inf for no prior; none: inf for entropy, 1 for gamma", above=0
    )
    held_out: float = option(0.0, "share of the lists held out to choose a step of the schedule", least=0, below=1)

    name: ClassVar[str] = "annealing"
    minimises = False

    @property
    def random(self) -> bool:
        return self.held_out > 0.0

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        lists = lists_of(problem)
        aside = None
        if self.held_out:
            order = np.random.default_rng(seed).permutation(lists.n_lists)
            count = min(max(1, round(self.held_out * lists.n_lists)), lists.n_lists - 1)
            if count:
                aside, lists = lists.take(np.sort(order[:count])), lists.take(np.sort(order[count:]))
        share = 1.0 if isinstance(problem.metric, AdditiveMetric) else float(lists.n_lists)
        risk = partial(sum_of_risks, [(share, risk_of(problem.metric, lists))])
        usual = inf if self.schedule == "entropy" else 1.0
        precision = np.asarray(lists.scale**2 / (usual if self.variance is None else self.variance))
        best, least, last, steps = weights, inf, inf, 0
        for steps, (temperature, gamma) in enumerate(self._steps(), 1):
            objective = partial(annealed, lists, risk, temperature, gamma)
            weights, _ = minimize_smooth(objective, precision, weights, clock, gradient=_GRADIENT, change=_CHANGE)
            clock.keep(weights)
            if clock.expired(0):
                return Found(weights if clock.best is None else clock.best, {"schedule_steps": steps})
            loss = inf if aside is None else problem.metric.loss(aside.total(weights))
            if loss <= least:
                best, least = weights, loss
            if temperature == 0.0:
                value, _ = risk(np.exp(lists.log_probabilities(gamma * (lists.features @ weights))))
                if abs(last - value) <= _TOLERANCE * abs(value):
                    break
                last = value
        return Found(best, {"schedule_steps": steps})

    def _steps(self) -> Iterator[tuple[float, float]]:
        """Yield the temperature that multiplies the entropy, and the sharpness gamma, of each step."""
        gamma = _FIRST_GAMMA
        if self.schedule == "entropy":
            gamma = 1.0
            temperature = self.first_temperature
            while temperature >= self.last_temperature:
                yield temperature, gamma
                temperature /= 2
        for _ in range(_MOST_DOUBLINGS):
            yield 0.0, gamma
            gamma *= 2


def annealed(
    lists: AllHypotheses, risk: Risk, temperature: float, gamma: float, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Return the objective of a step at canonical weights [d] without the prior, and its gradient [d]."""
    log_p = lists.log_probabilities(gamma * (lists.features @ weights))
    p = np.exp(log_p)
    value, slopes = risk(p)
    if temperature > 0.0:
        value, slopes = value + temperature * float(p @ log_p), slopes + temperature * log_p
    by_score = p * (slopes - lists.sums(p * slopes)[lists.numbers])
    return value, gamma * (by_score @ lists.features)
