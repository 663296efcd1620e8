"""Local search along lines of weights: exact line searches, descents from local optimum to local optimum, restarts.

On a line, the loss is constant between the thresholds at which some list changes its choice, so a line search finds its
least value exactly. Two kinds of descents follow such steps: those of the literature, for every metric, on lists,
lattices and hypergraphs; and `Descents`, for sums of costs on lists, which give exact searches their first weights. No
descent bounds the loss.

Sources: Och, ACL 2003 (line search); Macherey and others, EMNLP 2008, and Kumar and others, ACL 2009 (lattices and
hypergraphs); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction, NIPS 2010 (directions
from the chosen hypotheses towards cheaper ones); Moore and Quirk, Random Restarts in Minimum Error Rate Training for
Statistical Machine Translation, COLING 2008 (random walks around the best weights so far).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import atan, inf, tan
from typing import NamedTuple, Self

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import checkpoint, out_of_time
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.graphs import Graph
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.numeric.lists import correlations, from_sizes, reach_of, units
from lpmert.numeric.rational import EPSILON, below_one
from lpmert.quoting import quoted


class Step(NamedTuple):
    """The least level on a line, and a t that attains it: at weights + t direction."""

    level: float
    t: float


_LEAST_SPREAD = 1e-30  # a feature that varies less than this times the widest one counts as if it varied so much


class Space:
    """The weight space of a search: how features vary within lists, and where limits and cap end a line.

    lattices: the problem, if its hypotheses are the paths of lattices or hypergraphs; the form then has no lists.
    """

    def __init__(self, form: Canonical, lattices: LatticeProblem | None = None) -> None:
        self.dimension, self.form, self.lattices = form.n_features, form, lattices

    @classmethod
    def of(cls, problem: AnyProblem) -> Self:
        return cls(problem.canonical, problem if isinstance(problem, LatticeProblem) else None)

    @cached_property
    def spread(self) -> FloatArray:
        """How much each feature [D] varies within lists, 1 for one that does not; random weights are in its inverse.

        This is the standard deviation, or for lattices the mean range over all paths. Features that hardly vary beside
        others count for more, so that weights stay finite.
        """
        if self.lattices is not None:
            links = [(graph.links(), graph.features) for graph in self.lattices.graphs]
            widths = (every.largest_sums(features) + every.largest_sums(-features) for every, features in links)
            width = sum(widths, np.zeros(self.dimension))
            return np.where(width > 0.0, width / max(1, len(links)), 1.0)
        spread = units([(self.form.features, self.form.offsets)])
        return np.asarray(np.maximum(spread, _LEAST_SPREAD * spread.max(initial=0.0)))

    def range(self, weights: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """Return the interval of t, around 0, in which weights + t direction stay within limits and cap.

        Returns the whole line if t = 0 lies outside, or the interval is a point.
        """
        low, high = -inf, inf
        limits, cap = self.form.limits, self.form.cap
        if len(limits):
            height, slope = limits @ weights, limits @ direction
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = -height / slope
            low = float(np.max(crossing, where=slope > 0, initial=low))
            high = float(np.min(crossing, where=slope < 0, initial=high))
        if cap is not None:
            unit, square = cap.unit, cap.cosine**2

            def product(x: FloatArray, y: FloatArray) -> float:
                return float(unit @ x) * float(unit @ y) - square * float(x @ y)

            roots = np.roots(
                [product(direction, direction), 2 * product(direction, weights), product(weights, weights)]
            )
            real = roots[np.isreal(roots)].real
            low = max(low, float(real.max(where=real < 0, initial=-inf)))
            high = min(high, float(real.min(where=real > 0, initial=inf)))
        return (low, high) if low <= 0.0 <= high and low < high else (-inf, inf)


_PIECE_OF_COORDINATES = 1_000_000  # coordinates times hypotheses searched between two checks of the clock
_INTERCEPT, _SLOPE = np.eye(2)  # weights and direction for lists whose two features are intercept and slope


class LineSearch(Space):
    """Line searches on lists in canonical form, or on all hypotheses of lattices or hypergraphs.

    A level is a sum of costs, or the loss of a ratio metric. Lines that start within limits and cap stay there. An
    object is for one thread at a time. Raises `MethodError` for a metric that the core cannot compute.
    """

    def __init__(self, form: Canonical, lattices: LatticeProblem | None = None) -> None:
        super().__init__(form, lattices)
        if lattices is None:
            self._lists = line_search(form.features, form.offsets, losses_of(form))

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D] in floating point, the first of equals winning."""
        lists, point, _ = self._on_line(weights, np.zeros(self.dimension))
        return lists.at(point)

    def loss_of(self, level: float) -> float:
        return self.form.loss_of(int(level)) if self.form.additive else level

    def along(self, weights: FloatArray, direction: FloatArray) -> Step:
        """Return the best step on the line weights + t direction within the limits.

        The step leads to the middle, measured as an angle, of the nearest interval with the least level.
        """
        ends, unit = self.range(weights, direction), unit_of(weights, direction)
        lists, point, way = self._on_line(weights, direction)
        return Step(*lists.along(point, way, *ends, unit))

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray) -> tuple[int, Step]:
        """Return the coordinate whose line from weights [D] has the best step, the first of equals, and that step.

        Returns coordinate -1 if none has a finite level.
        """
        best, step = -1, Step(inf, 0.0)
        for coordinate, found in self._best_of_pieces(weights, coordinates):
            if found.level < step.level:
                best, step = coordinate, found
            if out_of_time():
                break
        return best, step

    def _best_of_pieces(self, weights: FloatArray, coordinates: IntArray) -> Iterator[tuple[int, Step]]:
        """Yield the best coordinate, and its step, of one piece of the coordinates after the other."""
        axes = np.eye(self.dimension)
        if self.lattices is not None:
            yield from ((one, self.along(weights, axes[one])) for one in coordinates.tolist())
            return
        ranges = np.tile([-inf, inf], (self.dimension, 1))
        if self.form.cap is not None or len(self.form.limits):
            ranges[:] = [self.range(weights, axis) for axis in axes]
        piece, scale = max(1, _PIECE_OF_COORDINATES // len(self.form.features)), unit_of(weights, np.ones(1))
        for begin in range(0, len(coordinates), piece):
            one, *step = self._lists.best_coordinate(weights, coordinates[begin : begin + piece], ranges, scale)
            yield one, Step(*step)

    def _on_line(self, weights: FloatArray, direction: FloatArray) -> tuple[core.LineSearch, FloatArray, FloatArray]:
        """Return lists for a line, and its weights and direction for these.

        For lattices, these are the hypotheses on the envelope of each; their features are intercept and slope.
        """
        if self.lattices is None:
            return self._lists, weights, direction
        lines: list[FloatArray] = []
        statistics: list[FloatArray] = []
        offsets = [0]
        for number, graph in enumerate(self.lattices.graphs):
            intercepts, slopes, _, ways = envelope(graph, weights, direction)
            lines.append(np.column_stack([intercepts, slopes]))
            statistics += [self.lattices.statistics(number, way) for way in ways]
            offsets.append(len(statistics))
        losses = losses_of(self.form, np.array(statistics))
        return line_search(np.concatenate(lines), np.array(offsets, dtype=np.int64), losses), _INTERCEPT, _SLOPE


Losses = IntArray | tuple[int, FloatArray, FloatArray, FloatArray]
"""Costs [M]; or a ratio metric's kind and parameters, statistics [M, K], and their constant [K]."""


def line_search(features: FloatArray, offsets: IntArray, losses: Losses) -> core.LineSearch:
    """Return lists for line searches: features [M, D], offsets [S + 1]."""
    return core.line_search(np.ascontiguousarray(features.T), offsets, losses)


def losses_of(form: Canonical, statistics: FloatArray | None = None) -> Losses:
    """Return the losses of a canonical form, or of paths with statistics [M, K], for the core.

    Raises `MethodError` for a metric that it cannot compute.
    """
    if form.additive:
        return form.costs if statistics is None else statistics[:, 0].astype(np.int64)
    metric, totals = form.totals.metric, form.totals
    if not isinstance(metric, RatioMetric):
        raise MethodError(
            f"line search takes sums over lists and the ratio metrics of lpmert, not {quoted(metric.name)}; "
            "state a fraction of sums as lpmert.metrics.LinearFraction, or choose a method that takes any loss"
        )
    return metric.kind, metric.parameters, totals.statistics if statistics is None else statistics, totals.constant


def envelope(
    graph: Graph, weights: FloatArray, direction: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, list[IntArray]]:
    """Return the hypotheses of a lattice that win somewhere on the line weights + t direction.

    Returns their intercepts, slopes, and the t from which each wins [n], -inf first, and the links of each.
    """
    heights, along = graph.features @ weights, graph.features @ direction
    intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), heights, along)
    return intercepts, slopes, starts, np.split(links, ends[1:-1])


def unit_of(weights: FloatArray, direction: FloatArray) -> float:
    """Return |weights| / |direction|, the natural unit of t on a line; 1 if either is 0."""
    numerator, denominator = float(np.linalg.norm(weights)), float(np.linalg.norm(direction))
    return numerator / denominator if numerator > 0 and denominator > 0 else 1.0


class Clock:
    """Tells a heuristic when its time or its steps are used up, and keeps the best weights that it reports.

    The heuristic calls `keep` with every candidate for its result, and ends soon after `expired` has returned true.
    `best` [d] are the weights with the least `loss`, `None` before the first.
    """

    def __init__(self, problem: AnyProblem, most_steps: int | None = None) -> None:
        self.best: CanonicalWeights | None = None
        self.loss, self.steps = inf, 0
        self._problem, self._most_steps = problem, most_steps

    def expired(self, steps: int = 1) -> bool:
        self.steps += steps
        return out_of_time() or (self._most_steps is not None and self.steps >= self._most_steps)

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are the best so far, and return their loss.

        loss: the loss of decoding with them; if `None`, they are decoded here.
        """
        known = loss_at(self._problem, weights) if loss is None else loss
        if known < self.loss:
            self.best, self.loss = CanonicalWeights(np.array(weights, dtype=np.float64)), known
        return known


def loss_at(problem: AnyProblem, weights: FloatArray) -> float:
    """Return the loss of decoding weights [d], infinite outside of the region."""
    if not isinstance(problem, LatticeProblem):
        return problem.canonical.loss_at(weights)
    full = problem.to_caller(CanonicalWeights(weights))
    return problem.metric.loss(problem.decode(full).total) if problem.inside(full) else inf


def start_weights(canonical: Canonical, initial: CanonicalWeights | None) -> CanonicalWeights:
    """Return the initial weights [d], or else weights inside the region."""
    if initial is not None:
        return initial
    return CanonicalWeights(np.ones(canonical.n_features)) if canonical.interior is None else canonical.interior


LEAST_STARTS = 10  # fewest starts by the rule of Foster and Kuhn

_DEVIATION = 0.1
"""Greatest standard deviation of a random walk's step, for weights whose largest is 1 and features that vary alike.
Each step draws its own, log-uniformly between a tenth of that and that: Moore and Quirk (COLING 2008) leave it open.
"""


Optimum = tuple[FloatArray, float]  # the end of a descent: weights [d] and their level
Descent = Callable[[LineSearch, FloatArray, Clock], Optimum]  # descends from weights [d] to a local optimum


def local_optima(
    search: LineSearch,
    descend: Descent,
    starts: Sequence[FloatArray],
    rng: np.random.Generator,
    clock: Clock,
    count: int | None = 20,
    walk_share: float = 0.9,
) -> list[tuple[float, FloatArray]]:
    """Descend from given weights [d], then from random ones; return level and weights of all optima, in order.

    count: random starts; `None`: at least `LEAST_STARTS` starts in all, the given ones among them; whenever a start
    yields a new best, at least as many further ones as there were so far (Foster and Kuhn, Stabilizing Minimum Error
    Rate Training, WMT 2009); given starts beyond that number are left out. walk_share: the share of random starts that
    step from the best weights so far (random walk) instead of being drawn afresh.
    """
    found: list[tuple[float, FloatArray]] = []
    best, best_weights, best_start = inf, np.empty(0), 0
    while True:
        wanted = max(LEAST_STARTS, 2 * best_start) if count is None else len(starts) + count
        if found and (len(found) >= wanted or clock.expired(0)):
            return found
        if len(found) < len(starts):
            start = starts[len(found)]
        elif not len(best_weights) or rng.random() >= walk_share:
            start = random_weights(search, rng)
        else:
            deviation = _DEVIATION * 10.0 ** -rng.random() * np.abs(best_weights * search.spread).max()
            step = deviation * rng.normal(size=len(best_weights)) / search.spread
            high = search.range(best_weights, step)[1]  # a step that leaves the limits is cut at random before them
            start = best_weights + (step if high > 1.0 else step * high * rng.random())
        weights, level = descend(search, start, clock)
        clock.keep(weights, search.loss_of(level))
        found.append((level, weights))
        if level < best:
            best, best_weights, best_start = level, weights, len(found)


def random_weights(space: Space, rng: np.random.Generator) -> FloatArray:
    """Return random weights [d]: a uniform direction, or with limits a point on a random line through their interior.

    Uniform means in units in which all features vary alike.
    """
    direction: FloatArray = rng.normal(size=space.dimension) / space.spread
    inside = space.form.interior
    if inside is None:
        return direction
    scale = unit_of(inside, direction)
    low, high = (atan(end / scale) for end in space.range(inside, direction))
    return np.asarray(inside + scale * tan(rng.uniform(low, high)) * direction)


def usual_starts(problem: AnyProblem, space: Space, start: FloatArray | None) -> list[FloatArray]:
    """Return the first starts of a method: `start` [d], or else weights that count all features alike."""
    inside = problem.canonical.interior
    first = 1.0 / space.spread if start is None else start
    if inside is not None:
        return [first if problem.inside(problem.to_caller(CanonicalWeights(first))) else inside]
    return [first, -first] if space.dimension == 2 else [first]  # lines from opposite points cover a plane


def greedy(search: LineSearch, weights: FloatArray, clock: Clock) -> Optimum:
    """Move along the coordinate that lowers the level most, until none does."""
    level, axes = search.at(weights), np.eye(search.dimension)
    coordinates = candidates = np.arange(search.dimension)
    while not clock.expired(len(candidates)):
        before, (coordinate, step) = level, search.best_coordinate(weights, candidates)
        weights, level = _moved(search, weights, level, axes[coordinate], step)
        if level == before:
            break
        candidates = coordinates[coordinates != coordinate]  # the line just searched has nothing better
    return weights, level


def powell(search: LineSearch, weights: FloatArray, clock: Clock) -> Optimum:
    """Move along each of D directions in turn, replacing one by the way of the whole round, until a round is no help.

    The direction of the largest fall is replaced if Powell's criterion says so (Press and others, Numerical Recipes,
    section on direction set methods): the way of the round leads on downwards, and not by one direction alone.
    """
    level = search.at(weights)
    directions = np.eye(search.dimension)
    while True:
        round_start, start_level = weights, level
        falls = np.zeros(search.dimension)
        for k, direction in enumerate(directions):
            if clock.expired():
                return weights, level
            before = level
            weights, level = _moved(search, weights, level, direction, search.along(weights, direction))
            falls[k] = before - level
        if level == start_level:
            return weights, level
        way = weights - round_start
        largest = int(falls.argmax())
        further = search.at(weights + way)
        fall = start_level - level
        bend = 2 * (start_level - 2 * level + further) * (fall - falls[largest]) ** 2
        if further < start_level and bend < falls[largest] * (start_level - further) ** 2 and way.any():
            weights, level = _moved(search, weights, level, way, search.along(weights, way))
            directions[largest] = directions[-1]
            directions[-1] = way / np.linalg.norm(way)


DESCENTS: Mapping[str, Descent] = {"greedy": greedy, "powell": powell}


def _moved(search: LineSearch, weights: FloatArray, level: float, direction: FloatArray, step: Step) -> Optimum:
    """Return the weights after a step and their level, if decoding with them lowers the level; else those before."""
    if step.level < level:
        moved, _ = below_one(weights + step.t * direction)
        reached = search.at(moved)
        if reached < level:
            return moved, reached
    return weights, level


DEFAULT_BUDGET = 3_000_000
"""Hypotheses times line searches that `descend` spends unless told otherwise: 0.1 s for lists of 30 to 100."""

_OVERHEAD = 1_000  # the fixed cost of a line search, in hypotheses
_PIECE_OF_DESCENT = 20_000_000  # features times hypotheses times line searches between two checks of the clock
_TABLE = 64  # directions drawn for one start; a longer descent uses them again
_RIDGE = 1e-3  # directions in which the lists vary less than this share of the widest are not stretched further
_RATES = (-4.0, 2.0)  # range of the logarithm of the score that offsets a unit of cost, both in standard deviations
_COORDINATE_EVERY = 16  # one in so many drawn directions is a coordinate axis of the features as given
_FRESH = 0.3  # share of fresh random starts after searches nearby have failed; the others step from the best weights
_PATIENCE = 3  # a descent ends after so many times D directions in a row that do not lower the cost
_WALK = 0.1  # standard deviation of a random step from the best weights, for weights whose largest is 1
_TRIES = 3  # failed searches in a row near the same weights before the next restart
_SHARES = (-2.0, -0.7)  # range of the decimal logarithm of the share of hypotheses that can win in a neighbourhood
_LINES = 16  # work of a search nearby, in line searches on all lists
_REACHES = 3  # work of `find_reaches`, in line searches on all lists
_LEAST_LINES = 5  # least work left, in line searches on all lists, with which another search begins
_FROM_CENTRE = 0.5  # share of descents nearby that begin anywhere within reach; others take a step from the best there
_SMALLEST = -1.5  # decimal logarithm of the smallest such step, in units of the reach
_TINY = 1e-300
_UNKNOWN = True, np.iinfo(np.int64).max  # whether weights are tied, and their cost, before they are decoded


def even_basis(features: FloatArray, offsets: IntArray, ridge: float = _RIDGE) -> FloatArray:
    """Return the basis [D, D] in which features @ basis varies alike in all directions within lists.

    Directions that vary less than the share `ridge` of the widest are not stretched further.
    """
    checkpoint()
    correlation, spread = correlations(lambda: [(features, offsets)])
    checkpoint()
    values, vectors = np.linalg.eigh(correlation)
    stretch = 1 / np.sqrt(np.maximum(values, 0) + ridge * (values[-1] if values[-1] > 0 else 1.0))
    return np.ascontiguousarray(vectors * stretch / spread[:, None])


class Near(NamedTuple):
    """A neighbourhood: weights centre + x [D] with x at right angles to the centre and |x| <= reach; or all weights.

    lists, with offsets [s + 1]: the hypotheses that can win there, of lists whose cost varies. base: the cost of all
    other lists there. size: of a line search on these lists, in hypotheses.
    """

    centre: FloatArray
    reach: float
    lists: core.LineSearch
    offsets: IntArray
    base: int = 0

    @property
    def line(self) -> int:
        """The work of a line search on these lists."""
        return int(self.offsets[-1]) + _OVERHEAD

    def beside(self, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return weights [D] in it: a random step from its centre, or a smaller one from `weights` [D]."""
        step = rng.normal(size=len(self.centre))
        step -= (step @ self.centre) * self.centre
        step *= self.reach / max(float(np.linalg.norm(step)), _TINY)
        if rng.random() < _FROM_CENTRE:
            return np.asarray(self.centre + step * rng.random())
        moved = weights - self.centre + step * 10.0 ** (_SMALLEST * rng.random())
        return np.asarray(self.centre + moved * min(1.0, self.reach / max(float(np.linalg.norm(moved)), _TINY)))


class Descents:
    """Descents that can be continued: first from the initial weights, then near the best weights found.

    Near good weights most hypotheses are far behind: a search that stays near them passes only a small part of the
    lists, and what it finds holds for all lists. After a few failures, a descent from fresh random weights, or from a
    random step from the best, finds other weights to search near. Line searches are in coordinates in which all
    directions vary alike (`even_basis`); weights in these coordinates are called inner.
    """

    def __init__(
        self,
        features: FloatArray,
        offsets: IntArray,
        costs: IntArray,
        *,
        seed: int = 0,
        initial: FloatArray | None = None,
    ) -> None:
        dimension = features.shape[1]
        self._rng = np.random.default_rng(seed)
        self._patience = _PATIENCE * dimension
        self._features, self._offsets, self._costs = features, offsets, costs
        self._basis = even_basis(features, offsets)
        self._inverse = np.linalg.inv(self._basis)
        transposed = np.ascontiguousarray(features.T)
        self._turned = np.empty_like(transposed)
        for column, row in zip(self._basis.T, self._turned, strict=True):  # faster than a threaded matrix product
            checkpoint()
            row[:] = core.scores_of(transposed, np.ascontiguousarray(column))
        self._magnitudes = reach_of(features)
        self._everywhere = Near(np.zeros(dimension), inf, core.line_search(self._turned, offsets, costs), offsets)
        self._line = self._everywhere.line
        self._deviation = max(float(costs.std()), 1.0)
        self._verdict, self._weights = _UNKNOWN, np.empty(0)  # of the best weights [D]
        self._first = [np.ones(dimension)]
        self._around, self._centre = _UNKNOWN, self._inverse @ self._first[0]  # of those near which to search, inner
        self._reaches = np.empty(0)
        self._failures = 0
        if initial is not None and np.any(initial):
            weights = np.asarray(initial, dtype=np.float64)
            self.offer(weights)
            self._first.insert(0, weights)

    @property
    def best(self) -> tuple[int, FloatArray]:
        """The least cost found, untied if possible, and weights [D] that attain it."""
        while not len(self._weights):
            self.turn(1)
        return self._verdict[1], self._weights

    def offer(self, weights: FloatArray) -> None:
        """Decode weights [D] and remember the best; search near them from now on if they beat the current centre."""
        scaled = weights / np.abs(weights).max()
        error = 4 * len(scaled) * EPSILON * float(np.abs(scaled) @ self._magnitudes)
        cost, _, clear = core.decoded_cost(self._features, self._offsets, self._costs, scaled, error)
        verdict = not clear, cost
        if not len(self._weights) or verdict < self._verdict:
            self._verdict, self._weights = verdict, scaled
        if verdict < self._around:
            inner = self._inverse @ weights
            self._around, self._centre = verdict, inner / np.linalg.norm(inner)
            self._reaches = np.empty(0)
            self._failures = 0

    def run(self, left: int, starts: int | None = None) -> None:
        """Descend until the work `left`, in hypotheses times line searches, or `starts` are used up.

        Ends early at an untied cost of 0.
        """
        while (self._first or left >= _LEAST_LINES * self._line) and (starts is None or starts > 0):
            if len(self._weights) and (self._verdict == (False, 0) or out_of_time()):
                break
            left -= self.turn(left)
            starts = None if starts is None else starts - 1

    def turn(self, budget: int = 1 << 62) -> int:
        """Descend once: from the initial weights, near the best, or after failures from a restart; return the work."""
        if not self._first and self._failures < _TRIES:
            return self._descend_near(budget)
        if self._first:
            inner = self._inverse @ self._first.pop(0)
        else:
            self._around, self._failures = _UNKNOWN, 0
            inner = self._rng.normal(size=len(self._basis))
            if self._rng.random() >= _FRESH:
                best = self._inverse @ self.best[1]
                inner = best + _WALK * np.abs(best).max() * inner
            inner = self._inverse @ (self._basis @ inner)
        most = max(1, budget // self._line)
        left = self._descend(inner, most, self._everywhere)
        self.offer(self._basis @ inner)
        return (most - left + 1) * self._line

    def _descend(self, inner: FloatArray, searches: int, where: Near) -> int:
        """Descend from weights `inner` [D], which are replaced by the end of the descent; return the searches left.

        Random directions and directions towards cheaper hypotheses alternate, until `_patience` of them in a row do not
        lower the cost, or `searches` line searches are done.
        """
        rng = self._rng
        directions = rng.normal(size=(_TABLE, len(inner)))
        directions[::_COORDINATE_EVERY] = self._inverse.T[rng.integers(len(inner), size=_TABLE // _COORDINATE_EVERY)]
        rates = np.exp(rng.uniform(*_RATES, size=_TABLE)) / self._deviation
        taking_part = rng.random((_TABLE, len(where.offsets) - 1)) < rng.random((_TABLE, 1))
        turns = np.zeros(2, dtype=np.int64)
        at_once = max(1, _PIECE_OF_DESCENT // max(1, int(where.offsets[-1]) * len(inner)))
        while turns[1] < self._patience and searches > 0 and not out_of_time():
            most = min(at_once, searches)
            searches -= most - core.descend(
                where.lists,
                inner,
                where.centre,
                where.reach,
                directions,
                rates,
                taking_part,
                turns,
                self._patience,
                most,
            )
        return searches

    def _near(self) -> Near | None:
        """Return the neighbourhood of the centre in which a random share of the hypotheses wins somewhere.

        Returns `None` if no list can change its cost there.
        """
        offsets, costs, reaches = self._offsets, self._costs, self._reaches
        place = min(int(10.0 ** self._rng.uniform(*_SHARES) * len(reaches)), len(reaches) - 1)
        reach = float(np.partition(reaches, place)[place])
        if reach == inf:
            reach = float(reaches.max(where=reaches < inf, initial=0.0))
        can_win = reaches <= reach
        least = np.minimum.reduceat(np.where(can_win, costs, np.iinfo(np.int64).max), offsets[:-1])
        most = np.maximum.reduceat(np.where(can_win, costs, np.iinfo(np.int64).min), offsets[:-1])
        varies = least < most
        rows = np.flatnonzero(can_win & np.repeat(varies, np.diff(offsets)))
        if not len(rows):
            return None
        left = from_sizes(np.add.reduceat(can_win, offsets[:-1], dtype=np.int64)[varies])
        lists = core.line_search(np.ascontiguousarray(self._turned[:, rows]), left, costs[rows])
        return Near(self._centre, reach, lists, left, int(least[~varies].sum()))

    def _descend_near(self, budget: int) -> int:
        """Descend several times within a neighbourhood of the current centre, `offer` the best; return the work."""
        spent = self._line
        if not len(self._reaches):
            self._reaches = core.find_reaches(self._everywhere.lists, self._centre)
            spent += _REACHES * self._line
        self._failures += 1
        near = self._near()
        if near is None:
            return spent
        left = max(1, min(budget, _LINES * self._line) // near.line)
        best, weights = self._around[1], self._centre
        inner = weights.copy()
        while left > 0 and not out_of_time():
            before = left
            left = self._descend(inner, left, near)
            spent += (before - left) * near.line
            reached = near.base + int(near.lists.at(inner))
            if reached < best:
                best, weights = reached, inner
            inner = near.beside(weights, self._rng)
        if best < self._around[1]:
            self.offer(self._basis @ weights)
        return spent


def descend(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    *,
    seed: int = 0,
    starts: int | None = None,
    initial: FloatArray | None = None,
    budget: int = DEFAULT_BUDGET,
) -> tuple[int, FloatArray]:
    """Return low-cost weights [D], largest entry 1 in absolute value, and the cost of decoding with them.

    features [M, D] with D > 0, offsets [S + 1], costs [M]. Descents start at `initial` [D], if any, and equal weights,
    then near the weights found, a step from the best, or at fresh random weights. They stop when `starts` (default: no
    limit) or `budget`, in hypotheses times line searches, is used up, or the cost is 0; each ends after 3 D directions
    in a row that do not lower the cost. Weights with a tie between different costs are returned only if nothing else
    was found. On one machine the same arguments give the same weights, unless the time limit of the running call comes
    first.
    """
    descents = Descents(features, offsets, costs, seed=seed, initial=initial)
    descents.run(budget, starts)
    return descents.best
