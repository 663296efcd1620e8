"""The expected loss of choosing at random, and minimum risk annealing, which makes the choice less and less random.

Source: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006. Hypotheses have
probability softmax(gamma w.h) within their list. Losses that are sums over lists are linear in the probabilities. A
precision, an F measure or BLEU is a ratio of sums: the expected value of minus its logarithm is a weighted sum of
E[log X] over sums X of one column, and of E[max(R / A - 1, 0)] for BLEU's brevity penalty. These expectations are the
paper's: up to the second order around the expected sums. Lists are drawn independently, so means and variances of sums
add up over lists. Over lattices and hypergraphs whose links have losses, the expected sum is exact, over all paths: by
sums from the start to each node and from there to the end, of probabilities and, beside them, of what these expect (the
expectation semiring of Eisner, Parameter Estimation for Probabilistic Finite-State Transducers, ACL 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.likelihood import AllHypotheses, basis_of, lists_of, minimize_smooth
from lpmert.metrics.base import AdditiveMetric, Metric
from lpmert.metrics.ratio import Bleu, LinearFraction
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.quoting import quoted
from lpmert.search.method import Comparator, Found

FLOOR = 0.1
"""Sums below this count as this, where their logarithm is taken: a match too few is no infinite loss."""


Risk = Callable[[FloatArray], tuple[float, FloatArray]]
"""From probabilities [M] to an expectation, and its slopes: its derivative [M] by each probability, up to a constant
for each list.
"""


def linear_risk(losses: FloatArray) -> Risk:
    """Return the expectation of a sum of losses [M]."""
    return lambda probabilities: (float(probabilities @ losses), losses)


def sum_of_risks(terms: Sequence[tuple[float, Risk]]) -> Risk:
    """Return a weighted sum of expectations."""

    def expected(probabilities: FloatArray) -> tuple[float, FloatArray]:
        total, slopes = 0.0, np.zeros(len(probabilities))
        for factor, term in terms:
            value, slope = term(probabilities)
            total += factor * value
            slopes += factor * slope
        return total, slopes

    return expected


class Moments:
    """Mean and variance of the sum of a column [M], or of two columns, over independent lists."""

    def __init__(self, lists: AllHypotheses, probabilities: FloatArray, *columns: FloatArray) -> None:
        self.columns = columns
        self.means = []
        self._centred = []
        for column in columns:
            mean = lists.sums(probabilities * column)
            self.means.append(float(mean.sum()))
            self._centred.append(column - mean[lists.numbers])
        self._probabilities = probabilities

    def covariance(self, a: int, b: int) -> tuple[float, FloatArray]:
        """Return the covariance of two of the sums, and its slopes [M]."""
        slopes = self._centred[a] * self._centred[b]
        return float(self._probabilities @ slopes), slopes


@dataclass(frozen=True)
class ExpectedLog:
    """E[log X] of the sum X of a column [M]."""

    lists: AllHypotheses
    column: FloatArray

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        moments = Moments(self.lists, probabilities, self.column)
        mean = max(moments.means[0], FLOOR)
        variance, slopes = moments.covariance(0, 0)
        value = np.log(mean) - variance / (2 * mean**2)
        return float(value), (1 / mean + variance / mean**3) * self.column - slopes / (2 * mean**2)


@dataclass(frozen=True)
class ExpectedBrevity:
    """E[max(R / A - 1, 0)], minus the logarithm of BLEU's brevity penalty, of the lengths A and references R [M]."""

    lists: AllHypotheses
    lengths: FloatArray
    references: FloatArray

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        moments = Moments(self.lists, probabilities, self.lengths, self.references)
        length, reference = max(moments.means[0], FLOOR), moments.means[1]
        if reference <= length:
            return 0.0, np.zeros(len(self.lengths))
        spread, by_spread = moments.covariance(0, 0)
        joint, by_joint = moments.covariance(0, 1)
        value = reference / length - 1 + reference * spread / length**3 - joint / length**2
        slopes = self.references / length - reference / length**2 * self.lengths
        slopes += (spread / length**3) * self.references + by_spread * reference / length**3
        slopes += (2 * joint / length**3 - 3 * reference * spread / length**4) * self.lengths
        return value, slopes - by_joint / length**2


def risk_of(metric: Metric, lists: AllHypotheses) -> Risk:
    """Return the expected loss of a metric on these lists, where it is additive, else that of a logarithm.

    A fraction is a sum where its denominator does not hang on the choice. Else the logarithm is minus that of the score
    for scores of which more is better, and that of the loss for error rates. Raises `MethodError` for other metrics
    than sums, fractions and BLEU.
    """
    statistics = lists.statistics
    if isinstance(metric, AdditiveMetric):
        return linear_risk(np.asarray(metric.losses(statistics), dtype=np.float64))
    if isinstance(metric, Bleu):
        matches = [(-0.25, ExpectedLog(lists, statistics[:, column])) for column in range(0, 8, 2)]
        totals = [(0.25, ExpectedLog(lists, statistics[:, column])) for column in range(1, 8, 2)]
        return sum_of_risks([*matches, *totals, (1.0, ExpectedBrevity(lists, statistics[:, 1], statistics[:, 8]))])
    if isinstance(metric, LinearFraction):
        above = statistics @ np.array(metric.numerator, dtype=np.float64)
        below = statistics @ np.array(metric.denominator, dtype=np.float64)
        first = below[lists.offsets[:-1]]
        if np.array_equal(below, first[lists.numbers]):
            return linear_risk(above / max(float(first.sum()), FLOOR))
        good = below - above if metric.higher_is_better else above
        sign = -1.0 if metric.higher_is_better else 1.0
        return sum_of_risks([(sign, ExpectedLog(lists, good)), (-sign, ExpectedLog(lists, below))])
    raise MethodError(f"no expected loss is known for metric {quoted(metric.name)}")


SCHEDULES = ("entropy", "gamma")

_MOST_DOUBLINGS = 40
_FIRST_GAMMA = 0.1
"""Where the schedule gamma begins."""

_TOLERANCE = 1e-5
"""Relative change of the risk at which a schedule ends."""
_GRADIENT, _CHANGE = 1e-8, 1e-10
"""Where L-BFGS ends at one step of the schedule."""


class Step(NamedTuple):
    """One step of a schedule: the temperature that multiplies the entropy, and the sharpness gamma."""

    temperature: float
    gamma: float


@dataclass(frozen=True)
class Annealing(Comparator):
    """Minimise the expected loss, by L-BFGS with exact gradients, from a random choice towards a certain one.

    schedule "entropy": the objective is risk - T * entropy. T is halved from `first_temperature` (the paper takes 100,
    200 or 1000) to `last_temperature` (0.01 or 0.001); then the choice is quenched: T is 0 and gamma is doubled until
    the risk hardly changes. schedule "gamma": gamma is doubled from 0.1 on
    until then, and T is 0. Each objective has the term |w|^2 / (2 variance) on the caller's weights; `inf` means none,
    and is what the schedule "entropy" takes unless told otherwise, "gamma" takes 1.
    The loss of a metric that is not additive counts once for every list, so that the same numbers serve.

    held_out: the share of the lists, drawn by the seed, that are left out of the objective; the weights of the step
    that decodes them with the least loss are returned. (The paper stops the cooling at the first rise; that often ends
    in the noise of the first, nearly random steps.) Otherwise the last weights are returned, or the best ones so far
    where a limit stops the run. The method starts from weights 0 unless others are given.

    Lattices and hypergraphs need losses of links, which add up: metric "loss". Then all paths count, each by itself,
    also those with the same words. `held_out` is not for them.
    """

    schedule: str = option("entropy", "what falls: the temperature, or the uncertainty", choices=SCHEDULES)
    first_temperature: float = option(1000.0, "T0 of the schedule entropy; the paper takes 100, 200 or 1000", above=0)
    last_temperature: float = option(0.001, "where that schedule ends; the paper takes 0.01 or 0.001", above=0)
    variance: float | None = option(
        None, "of the Gaussian prior; inf for none, as in the schedule entropy by default; 1 in that of gamma", above=0
    )
    held_out: float = option(0.0, "share of the lists left out of the objective, to choose a step", least=0, below=1)

    name: ClassVar[str] = "annealing"
    minimises = False
    takes_lattices: ClassVar[bool] = True

    @property
    def random(self) -> bool:
        return self.held_out > 0.0

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        if isinstance(problem, LatticeProblem):
            if self.held_out:
                raise MethodError("annealing over all paths of lattices takes no held_out; drop it")
            return self._anneal(AllPaths(problem), np.linalg.norm(basis_of(problem), axis=0), weights, clock)
        lists = lists_of(problem)
        aside = None
        if self.held_out:
            order = np.random.default_rng(seed).permutation(lists.n_lists)
            count = min(max(1, round(self.held_out * lists.n_lists)), lists.n_lists - 1)
            if count:
                aside, lists = lists.take(np.sort(order[:count])), lists.take(np.sort(order[count:]))
        share = 1.0 if isinstance(problem.metric, AdditiveMetric) else float(lists.n_lists)
        choice = AllLists(lists, sum_of_risks([(share, risk_of(problem.metric, lists))]))

        def loss_aside(weights: FloatArray) -> float:
            return problem.metric.loss(aside.total(weights)) if aside else inf

        return self._anneal(choice, lists.scale, weights, clock, None if aside is None else loss_aside)

    def _anneal(
        self,
        choice: AllLists | AllPaths,
        scale: FloatArray,
        weights: FloatArray,
        clock: Clock,
        held_out: Callable[[FloatArray], float] | None = None,
    ) -> Found:
        """Return the end of the schedule, begun at canonical weights [d]; held_out: what weights lose elsewhere."""
        usual = inf if self.schedule == "entropy" else 1.0
        precision = np.asarray(scale**2 / (usual if self.variance is None else self.variance))
        best, least = weights, inf
        last = inf
        steps = 0
        for step in self._steps():
            objective = Objective(choice, step, precision)
            weights, _ = minimize_smooth(objective, weights, clock, gradient=_GRADIENT, change=_CHANGE)
            steps += 1
            clock.keep(weights)
            if clock.expired(0):
                return Found(weights if clock.best is None else clock.best, {"schedule_steps": steps})
            if held_out is not None:
                loss = held_out(weights)
                if loss <= least:
                    best, least = weights, loss
            if step.temperature == 0.0:
                value = objective.expected_loss(weights)
                if abs(last - value) <= _TOLERANCE * abs(value):
                    break
                last = value
        return Found(weights if held_out is None else best, {"schedule_steps": steps})

    def _steps(self) -> Iterator[Step]:
        gamma = _FIRST_GAMMA
        if self.schedule == "entropy":
            gamma = 1.0
            temperature = self.first_temperature
            while temperature >= self.last_temperature:
                yield Step(temperature, gamma)
                temperature /= 2
        for _ in range(_MOST_DOUBLINGS):
            yield Step(0.0, gamma)
            gamma *= 2


@dataclass(frozen=True)
class Objective:
    """What one step minimises: risk - T * entropy + the prior's precision [d] times squared weights / 2."""

    choice: AllLists | AllPaths
    step: Step
    precision: FloatArray

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient [d] at canonical weights [d]."""
        features, gamma = self.choice.features, self.step.gamma
        value, slopes = self.choice.expected(gamma * (features @ weights), self.step.temperature)
        prior = 0.5 * float(self.precision @ weights**2)
        return value + prior, gamma * (slopes @ features) + self.precision * weights

    def expected_loss(self, weights: FloatArray) -> float:
        return self.choice.expected(self.step.gamma * (self.choice.features @ weights), 0.0)[0]


@dataclass(frozen=True)
class AllLists:
    """All hypotheses of all lists, and the risk of choosing among them at random."""

    lists: AllHypotheses
    risk: Risk

    @property
    def features(self) -> FloatArray:
        return self.lists.features

    def expected(self, scores: FloatArray, temperature: float) -> tuple[float, FloatArray]:
        """Return risk - temperature * entropy at scores [M], and its slopes [M] by these."""
        log_p = self.lists.log_probabilities(scores)
        p = np.exp(log_p)
        value, slopes = self.risk(p)
        if temperature > 0.0:
            value, slopes = value + temperature * float(p @ log_p), slopes + temperature * log_p
        return value, p * (slopes - self.lists.sums(p * slopes)[self.lists.numbers])


class _Layer(NamedTuple):
    """What sums into some nodes [n] have in common: links [m], sorted by node, and where those of each begin [n].

    others [m]: of sums from the end, the node beside this one that a link leaves.
    """

    nodes: IntArray
    links: IntArray
    begins: IntArray
    others: IntArray


def _layers(nodes: IntArray, links: IntArray, others: IntArray, height: IntArray) -> list[_Layer]:
    """Return pairs of a node [m] and a link [m] by the height of the node, the lowest first."""
    order = np.lexsort((nodes, height[nodes]))
    nodes, links, others = nodes[order], links[order], others[order]
    cuts = np.flatnonzero(np.diff(height[nodes])) + 1
    found = []
    for own, through, beside in zip(*(np.split(one, cuts) for one in (nodes, links, others)), strict=True):
        begins = np.flatnonzero(np.diff(own, prepend=-1))
        found.append(_Layer(own[begins], through, begins, beside))
    return found


class AllPaths:
    """All hypotheses of all graphs: features [L, d] of their links in canonical coordinates, and losses [L].

    The links of all graphs stand one after the other, and so do the nodes, the first of each graph being its start.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        graphs, losses = problem.graphs, problem.lattices.losses
        if problem.given_metric != "loss" or losses is None:
            raise MethodError(
                "over all paths of lattices, an expected loss is known only where links have losses (metric loss); "
                "make N-best lists with --n-best or lpmert.n_best for other metrics"
            )
        self.features, self.losses = np.concatenate([graph.features for graph in graphs]), losses
        base = np.cumsum([0, *(graph.n_nodes for graph in graphs)])
        own = np.repeat(base[:-1], [len(graph.sources) for graph in graphs])
        self._tails, self._others, self._heads = (
            np.concatenate(ends) + own
            for ends in zip(*((graph.sources, graph.seconds, graph.targets) for graph in graphs), strict=True)
        )
        self._goals, self._count = base[1:] - 1, int(base[-1])
        self._goal_of_link = self._goals[np.searchsorted(base, own, side="right") - 1]
        height = [0] * self._count
        for tail, other, head in zip(
            *(ends.tolist() for ends in (self._tails, self._others, self._heads)), strict=True
        ):
            height[head] = max(height[head], height[tail] + 1, height[other] + 1)
        heights, links = np.array(height), np.arange(len(own))
        self._up = _layers(self._heads, links, links, heights)
        pairs = np.concatenate([self._tails, self._others]), np.concatenate([self._others, self._tails])
        inner = np.flatnonzero(pairs[0] != np.tile(own, 2))  # a start is no part of a hypothesis
        self._down = _layers(pairs[0][inner], np.tile(links, 2)[inner], pairs[1][inner], heights)[::-1]

    def expected(self, scores: FloatArray, temperature: float) -> tuple[float, FloatArray]:
        """Return risk - temperature * entropy at scores [L] of links, and its slopes [L] by these.

        It is what loss + temperature * score expects, less temperature * log Z; scores and losses are summed along
        paths. The slope is the covariance of how often a hypothesis uses the link, and of that value.
        """
        values = self.losses + temperature * scores
        inside, mean = np.zeros(self._count), np.zeros(self._count)
        for nodes, links, begins, _ in self._up:
            tails, others = self._tails[links], self._others[links]
            inside[nodes], mean[nodes] = _expected(
                scores[links] + inside[tails] + inside[others], values[links] + mean[tails] + mean[others], begins
            )
        outside, beyond = np.zeros(self._count), np.zeros(self._count)
        for nodes, links, begins, others in self._down:
            heads = self._heads[links]
            outside[nodes], beyond[nodes] = _expected(
                scores[links] + outside[heads] + inside[others], values[links] + beyond[heads] + mean[others], begins
            )
        tails, others, heads, goals = self._tails, self._others, self._heads, self._goal_of_link
        uses = np.exp(scores + inside[tails] + inside[others] + outside[heads] - inside[goals])
        excess = values + mean[tails] + mean[others] + beyond[heads] - mean[goals]
        log_z = float(inside[self._goals].sum())
        return float(mean[self._goals].sum()) - temperature * log_z, uses * excess


def _expected(scores: FloatArray, values: FloatArray, begins: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return for each segment the logarithm of the sum of exponential scores, and the mean of values under these."""
    largest = np.maximum.reduceat(scores, begins)
    shares = np.exp(scores - np.repeat(largest, np.diff(begins, append=len(scores))))
    totals = np.add.reduceat(shares, begins)
    return largest + np.log(totals), np.add.reduceat(shares * values, begins) / totals
