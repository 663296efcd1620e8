"""From a pool to the next weights: the optimum of the pool, or an average, near the best weights so far if need be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lpmert.errors import FloatArray, RegionError
from lpmert.looping.decoder import Measure
from lpmert.methods.auto import Auto
from lpmert.methods.heuristic.och import Iteration, Stabilised
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region, limits_of
from lpmert.quoting import listed
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.incumbent import in_scale_of, normalised
from lpmert.search.method import Method
from lpmert.system.deadline import Deadline
from lpmert.unseen.estimate import Setting, fit

_ROUNDING = 1e-12
"""Relative to the sum of the terms of a limit."""

_SAME = 1e-9
"""What weights may differ by, each of Euclidean length 1, and be the same."""

AVERAGE = "average"
"""Instead of a method: the average of `lpmert.tune`, which holds better on other lists than the optimum."""


@dataclass(frozen=True)
class Step:
    """Weights to decode with next; loss and bound: on the pool, within the angle in degrees, `None` for no limit.

    stays: the step ends at the weights that it started from, as no better ones were found on the pool or as the method
    chose them again; proved: there are no better ones. optima: where later steps of a method that remembers start
    [n, D].
    """

    weights: Mapping[str, float]
    loss: float
    lower_bound: float | None
    angle: float | None
    stays: bool
    seconds: float
    optima: Sequence[Sequence[float]] = ()
    proved: bool = False

    @classmethod
    def of(cls, kept: Mapping[str, Any], names: Sequence[str]) -> Step:
        """Return the step of these fields; raises `TypeError`, `ValueError` or `AttributeError` for others.

        names: what has a weight.
        """
        step = cls(**kept)
        if [*step.weights] != [*names]:
            raise ValueError(f"weights of {listed(step.weights)}")
        known = [one for one in (step.lower_bound, step.angle) if one is not None]
        numbers = [*step.weights.values(), step.loss, step.seconds, *known, *(w for one in step.optima for w in one)]
        if not all(math.isfinite(one) for one in numbers) or {*map(len, step.optima)} - {len(names)}:
            raise ValueError("numbers that are missing or not finite")
        if {type(step.stays), type(step.proved)} != {bool}:
            raise ValueError("what should be true or false is something else")
        return step


@dataclass(frozen=True)
class Stepping:
    """How steps are made: a method, or `None` for averages, and what all steps have in common.

    first: the weights [D] whose scale all others get. history: what the steps so far left behind, for `stabilised`.
    """

    method: Method | None
    measure: Measure
    region: Region | None
    limits: Limits
    first: FloatArray
    seed: int
    history: list[Iteration] = field(default_factory=list)

    @property
    def _chooses(self) -> bool:
        """Whether steps go where the method says, and not where the pool's loss is least."""
        return self.method is None or not self.method.minimises

    @property
    def explores(self) -> bool:
        """Whether they do so without being confirmed: the average can be searched for within an angle, too."""
        return self.method is not None and self._chooses

    def reason_to_stay(self, step: Step) -> str:
        """Return what a step that stays means."""
        where = "on the pool" + ("" if step.angle is None else " within the last angle")
        if self._chooses:
            return f"the search ended at the same weights {where}"
        if step.proved:
            return f"no weights are better {where}"
        bound = "" if step.lower_bound is None else f", where all cost at least {step.lower_bound:.7g}"
        return f"no better weights were found {where}{bound}"

    def within(self, angle: float | None) -> Method | None:
        """Return what searches within an angle in degrees: `auto` in the place of a method that cannot."""
        return self.method if angle is None or self.method is None or self.method.takes_caps else Auto()

    def remember(self, step: Step, start: FloatArray) -> None:
        """Take a step from weights [D] into the history, be it new or from before the loop was stopped."""
        if isinstance(self.method, Stabilised):
            self.history[:] = self._before(start)
            weights = normalised(np.array([*step.weights.values()]))
            self.history.append(Iteration(weights, tuple(map(np.array, step.optima))))

    def _before(self, start: FloatArray) -> list[Iteration]:
        """Return the history, with the weights [D] of the first decoding if it is empty."""
        return [*self.history] or [Iteration(normalised(start), ())]

    def step(self, lists: NBest, start: FloatArray, angle: float | None, deadline: Deadline) -> Step:
        """Return the step from weights [D], at most an angle in degrees away."""
        own = Deadline()
        names = lists.names
        region = self.region
        if angle is not None:
            around = dict(zip(names, start.tolist(), strict=True))
            region = replace(region or Region(), cosine=math.cos(math.radians(angle)), around=around)
        problem = Problem(lists, self.measure.metric, region=region)
        before = problem.evaluate(start).loss
        bound, proved = None, False
        earlier = self._before(start)
        searching = self.within(angle)
        if searching is None:
            setting = Setting(self.seed, deadline)
            weights = fit(problem, setting).averaged
            loss = problem.evaluate(weights).loss
        else:
            method = replace(searching, earlier=earlier) if isinstance(searching, Stabilised) else searching
            found = solve(method, problem, self.limits, None, self.seed, problem.checked_weights(start))
            weights, loss, bound = problem.checked_weights(found.weights), found.loss, found.lower_bound
            proved = found.status.proved
        if self._chooses:
            stays = np.allclose(_direction(weights), _direction(start), rtol=0.0, atol=_SAME)
        else:  # weights that are as good, but others, would have the loop wander
            stays = not loss < before
        if stays:
            weights, loss = problem.checked_weights(start), before
        scaled = start if stays else scaled_like(weights, names, self.region, self.first)
        by_name = dict(zip(names, np.asarray(scaled).tolist(), strict=True))
        optima = [one.tolist() for one in earlier[-1].optima]
        return Step(by_name, loss, bound, angle, bool(stays), own.seconds, optima, proved)


def scaled_like(weights: FloatArray, names: Sequence[str], region: Region | None, first: FloatArray) -> FloatArray:
    """Return weights [D] times the positive factor that brings fixed ones to what they are, or their size to that of
    the first weights: a decoder prunes by absolute scores.
    """
    scaled = in_scale_of(region, names, CallerWeights(weights))
    if scaled is not weights:
        return scaled
    norm, own = np.abs(first).sum(), np.abs(weights).sum()
    return np.asarray(weights * (norm / own)) if norm and own else weights


def check_first(first: Mapping[str, float], region: Region) -> None:
    """Raise `RegionError` where the first weights are outside the region, or fixed ones have another value."""
    cone = limits_of(region, [*first])
    weights = np.array([*first.values()])
    for name, value in region.fixed.items():
        if first[name] != value:
            raise RegionError(f"the region fixes {name} at {value:g}, but the first weights have {first[name]:g}")
    for rows, labels, both in ((cone.rows, cone.labels, False), (cone.equations, cone.equation_labels, True)):
        products, terms = rows @ weights, np.abs(rows) @ np.abs(weights)
        beyond = -np.abs(products) if both else products
        for label, product, most in zip(labels, beyond.tolist(), terms.tolist(), strict=True):
            if product < -_ROUNDING * most:
                raise RegionError(f"the first weights are outside the region: {label} does not hold for them")


def angle_between(one: FloatArray, other: FloatArray) -> float:
    """Return the angle between two weight vectors [D], in degrees; by arctan, which is accurate for small ones."""
    a, b = _direction(one), _direction(other)
    return math.degrees(2.0 * math.atan2(float(np.linalg.norm(a - b)), float(np.linalg.norm(a + b))))


def _direction(weights: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(weights))
    return weights / norm if norm else weights
