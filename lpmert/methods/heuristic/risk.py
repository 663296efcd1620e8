"""Minimum risk annealing: minimise the expected loss of a random choice, and make the choice less and less random.

Source: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006. Hypotheses have
probability softmax(gamma w.h) within their list. Additive losses are linear in the probabilities. Precision, F measures
and BLEU are ratios of sums: the expectation of minus the logarithm is a weighted sum of E[log X] over sums X of a
column and, for BLEU's brevity penalty, of E[max(R / A - 1, 0)]. As in the paper, these expectations are approximated to
second order around the expected sums. Lists are drawn independently, so means and variances of sums add up over lists.

Over lattices and hypergraphs whose links have losses, the expected loss over all paths is exact, computed by the inside
and outside sums of the expectation semiring (Eisner, Parameter Estimation for Probabilistic Finite-State Transducers,
ACL 2002).
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
"""Least sum of which a logarithm is taken, so that a missing match is no infinite loss."""


Risk = Callable[[FloatArray], tuple[float, FloatArray]]
"""Maps probabilities [M] to an expectation and its slopes [M], the derivatives by each probability. Slopes may be off
by
a constant for each list.
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
    """Means and covariances of the sums of columns [M] over independent lists."""

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
        """Return the covariance of the sums of columns a and b, and its slopes [M]."""
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
    """E[max(R / A - 1, 0)], which is minus the expected logarithm of BLEU's brevity penalty.

    A, R: summed lengths [M] of the hypotheses and of the references.
    """

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
    """Return the expected loss of a metric on these lists: of the loss itself if it is additive, else of a logarithm.

    A fraction whose denominator does not depend on the choices is additive. For other metrics, the expectation is that
    of minus the log-score if higher scores are better, and of the log-loss for error rates. Raises `MethodError` for
    metrics other than sums, fractions and BLEU.
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
"""Most doublings of gamma."""

_FIRST_GAMMA = 0.1
"""First gamma of the schedule gamma."""

_TOLERANCE = 1e-5
"""Relative change of the risk at which a schedule ends."""

_GRADIENT, _CHANGE = 1e-8, 1e-10
"""Tolerances of L-BFGS at one step of the schedule."""


class Step(NamedTuple):
    """One step of a schedule: the temperature that multiplies the entropy, and the sharpness gamma."""

    temperature: float
    gamma: float


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

    Lattices and hypergraphs need additive losses of links: metric "loss". Then every path counts by itself, even if
    others have the same words. `held_out` is not available for them.
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
        """Run the schedule from canonical weights [d]; held_out: maps weights to their loss on the held-out lists."""
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
    """The objective of one step: risk - T * entropy + precision . weights^2 / 2, with precision [d] of the prior."""

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
    """The random choice among all hypotheses of all lists, and its risk."""

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
    """Nodes [n] whose sums can be computed together, and the links [m] of these sums, sorted by node.

    begins [n]: the first link of each node. others [m]: for outside sums, the other tail node of the link.
    """

    nodes: IntArray
    links: IntArray
    begins: IntArray
    others: IntArray


def _layers(nodes: IntArray, links: IntArray, others: IntArray, height: IntArray) -> list[_Layer]:
    """Divide pairs of a node [m] and a link [m] into layers by the height of the node, the lowest first."""
    order = np.lexsort((nodes, height[nodes]))
    nodes, links, others = nodes[order], links[order], others[order]
    cuts = np.flatnonzero(np.diff(height[nodes])) + 1
    layers = []
    columns = (np.split(column, cuts) for column in (nodes, links, others))
    for of_node, of_link, of_other in zip(*columns, strict=True):
        begins = np.flatnonzero(np.diff(of_node, prepend=-1))
        layers.append(_Layer(of_node[begins], of_link, begins, of_other))
    return layers


class AllPaths:
    """The random choice among all paths of all graphs: features [L, d] of links, canonical, and losses [L].

    Links of all graphs are concatenated, and so are nodes; the first node of each graph is its start.
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
        first_nodes = np.repeat(base[:-1], [len(graph.sources) for graph in graphs])
        self._tails, self._others, self._heads = (
            np.concatenate(ends) + first_nodes
            for ends in zip(*((graph.sources, graph.seconds, graph.targets) for graph in graphs), strict=True)
        )
        self._goals, self._count = base[1:] - 1, int(base[-1])
        self._goal_of_link = self._goals[np.searchsorted(base, first_nodes, side="right") - 1]
        height = [0] * self._count
        for tail, other, head in zip(
            *(ends.tolist() for ends in (self._tails, self._others, self._heads)), strict=True
        ):
            height[head] = max(height[head], height[tail] + 1, height[other] + 1)
        heights, links = np.array(height), np.arange(len(first_nodes))
        self._up = _layers(self._heads, links, links, heights)
        pairs = np.concatenate([self._tails, self._others]), np.concatenate([self._others, self._tails])
        inner = np.flatnonzero(pairs[0] != np.tile(first_nodes, 2))  # starts need no outside sums
        self._down = _layers(pairs[0][inner], np.tile(links, 2)[inner], pairs[1][inner], heights)[::-1]

    def expected(self, scores: FloatArray, temperature: float) -> tuple[float, FloatArray]:
        """Return risk - temperature * entropy at scores [L] of links, and its slopes [L] by these scores.

        It equals the expectation of loss + temperature * score, summed along paths, minus temperature * log Z. The
        slope of a link is the covariance of this sum with the number of times that a path uses the link.
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
    """Return, for each segment, the log-sum-exp of its scores, and the mean of its values under their softmax."""
    largest = np.maximum.reduceat(scores, begins)
    shares = np.exp(scores - np.repeat(largest, np.diff(begins, append=len(scores))))
    totals = np.add.reduceat(shares, begins)
    return largest + np.log(totals), np.add.reduceat(shares * values, begins) / totals
