"""Better weights while a search goes on: evolution, and in turn descents near the best weights, or by Powell's method,
for metrics that do not add up and within regions, from where steps at a temperature lead.

Sources: Press and others, Numerical Recipes, section on direction set methods; Kirkpatrick, Gelatt and Vecchi,
Optimization by simulated annealing, Science 1983 (here with exact steps along circles, see lpmert/core/circle.cpp).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.descents import OVERHEAD, Descents
from lpmert.lines.directions import powell
from lpmert.lines.line_search import LineSearch
from lpmert.lines.restarts import random_weights
from lpmert.model.coordinates import CanonicalWeights
from lpmert.search.evolution import Evolution
from lpmert.search.method import Task
from lpmert.search.moved import moved
from lpmert.search.start import attained_cost
from lpmert.system.deadline import out_of_time

_SLICE = 40_000_000
"""What a search does in a slice, in features times hypotheses times line searches, about: 25 milliseconds."""

_FEWEST_FEATURES = 6
"""Searches with fewer features meet good weights as soon themselves."""

_CIRCLES = (4, 16)
"""Fewest and most steps between two descents, each along a circle."""

_WARMTH = (-3.0, -1.5)
"""Range of the temperature's decimal logarithm, in units of what the first circle costs more on average."""

_FRESH = 0.2
"""Share of descents that begin anywhere."""

_EVALUATIONS = 4
"""Weights that can be decoded in the time of one line search."""

_ROUNDS = 20
"""Draws of evolution in a turn."""

_EAGER_RUNS, _EAGER = 2, 5.0
"""So many runs of evolution come first, while a search earns so much more: most of what they find, they find soon."""

_FADING, _LEAST_SHARE = 0.97, 0.25
"""By how much each turn that finds nothing lowers what a search earns, and how far; what it finds brings all back."""

_BESIDE = (1e-8, 1e-6, 1e-4)
"""How far from weights with ties others are tried that have none."""


class Improver:
    """Descents whose work keeps to a share of a search's: it earns as the search goes on, and spends at once.

    What leads to better weights is not charged. Steps at a temperature lead away from the best weights so far, those of
    the search too, and a descent from there may end in better ones. All that is random comes from the seed, and all
    work is counted, not timed: the outcome does not depend on the machine.
    """

    def __init__(self, task: Task, share: float, *, near: bool = True) -> None:
        self._near = near
        self._problem, self._form, self._incumbent = task.problem, task.canonical, task.incumbent
        self._rng = np.random.default_rng([task.seed, 1])
        self._wage = share * _SLICE / self._form.n_features
        self._faith = 1.0
        self._credit = 0.0
        self._turns = 0
        self._evolved = self._descended = 0.0

    def earn(self, slices: float) -> None:
        """Look for better weights as far as more slices of the search allow."""
        self._credit += slices * self._wage * (_EAGER if self._eager else self._faith)
        while self._credit > 0.0 and self._form.n_features >= _FEWEST_FEATURES and not out_of_time():
            before = self._incumbent.cost
            work = self._turn()
            if self._incumbent.cost == before:
                self._credit -= work
                self._faith = max(_LEAST_SHARE, _FADING * self._faith)
            else:
                self._faith = 1.0

    @property
    def _eager(self) -> bool:
        return self._form.n_features >= _FEWEST_FEATURES and self._evolution.runs < _EAGER_RUNS

    @cached_property
    def _evolution(self) -> Evolution:
        return Evolution(self._problem, self._incumbent.weights, np.random.default_rng(self._rng.integers(1 << 32)))

    @cached_property
    def _search(self) -> LineSearch:
        return LineSearch(self._form)

    @cached_property
    def _descents(self) -> Descents:
        return Descents(*self._form.lists, seed=int(self._rng.integers(1 << 32)), initial=self._incumbent.weights)

    def _turn(self) -> float:
        """Let the way to better weights that has worked less have its turn; return the work of that."""
        if self._eager or self._evolved <= self._descended:
            work = self._evolve()
            self._evolved += work
        else:
            work = self._descend()
            self._descended += work
        return work

    def _evolve(self) -> float:
        """Draw weights; return the work of that."""
        evolution, clock = self._evolution, Clock(self._problem)
        for _ in range(_ROUNDS):
            if clock.expired(evolution.step(clock)):
                break
        form, weights = self._form, clock.best
        if weights is not None and form.cost_of_loss(clock.loss) < self._incumbent.cost:
            self._take(weights)
        return clock.steps * (len(form.features) + OVERHEAD) / _EVALUATIONS

    def _descend(self) -> float:
        """Descend; return the work of that."""
        form = self._form
        if self._near and form.additive and form.cap is None and not len(form.limits):
            self._descents.offer(self._incumbent.weights)
            work = self._descents.turn()
            cost, weights = self._descents.best
            if cost < self._incumbent.cost:
                self._take(weights)
            return work
        return self._powell()

    def _powell(self) -> float:
        """Descend once by Powell's method; return the work of that."""
        clock = Clock(self._problem)
        start = self._start(clock) if self._turns else self._incumbent.weights
        self._turns += 1
        weights, level = powell(self._search, start, self._rng, clock)
        form = self._form
        if (int(level) if form.additive else form.cost_of_loss(level)) < self._incumbent.cost:
            self._take(weights)
        return clock.steps * (len(form.features) + OVERHEAD)

    def _start(self, clock: Clock) -> FloatArray:
        if self._rng.random() < _FRESH:
            return random_weights(self._search, self._rng)
        weights: FloatArray = self._incumbent.weights
        temperature: float | None = None
        for _ in range(int(self._rng.integers(*_CIRCLES))):
            if clock.expired(2):
                break
            circle = self._search.around(weights, self._across(weights))
            widths = circle.ends - circle.begins
            above = circle.levels - circle.levels.min(initial=np.inf)
            if not widths.sum() > 0.0:
                continue
            if temperature is None:
                temperature = float(widths @ above / widths.sum()) * 10.0 ** self._rng.uniform(*_WARMTH)
            if temperature == 0.0:
                break
            odds = widths * np.exp(-above / temperature)
            piece = self._rng.choice(len(odds), p=odds / odds.sum())
            angle = circle.begins[piece] + widths[piece] * self._rng.random()
            weights = np.cos(angle) * weights + np.sin(angle) * circle.direction
        return weights

    def _across(self, weights: FloatArray) -> FloatArray:
        """Return a random direction [d] at right angles to weights [d], and of their length, for features alike."""
        spread = self._search.spread
        along = weights * spread
        length = float(np.linalg.norm(along))
        direction = self._rng.normal(size=len(weights))
        direction -= (direction @ along) / length**2 * along
        return np.asarray(direction * (length / float(np.linalg.norm(direction))) / spread)

    def _take(self, weights: FloatArray) -> None:
        """Make weights [d], or some beside them if they are tied, the incumbent if they cost less."""
        beside = moved(weights, _BESIDE, lambda: self._rng.normal(size=len(weights)))
        for one in (weights, *beside):
            cost = attained_cost(self._form, CanonicalWeights(np.asarray(one)))
            if cost is not None:
                self._incumbent.improve(cost, one, "L")
                return
