"""The step from a pool to the next weights, within an angle if requested."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lpmert.errors import FloatArray, RegionError
from lpmert.looping.decoder import Measure
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Iteration, Stabilised
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region, limits_of
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.incumbent import in_scale_of, normalised
from lpmert.search.method import Method
from lpmert.system.deadline import Deadline

_ROUNDING = 1e-12  # tolerance for limits of a region, relative to the sum of the absolute terms
_SAME = 1e-9  # weights of Euclidean length 1 count as the same if their entries differ by at most this


@dataclass(frozen=True)
class Step:
    """The weights of the next decoding.

    loss, lower_bound: on the pool, within an angle in degrees, `None` for no limit. stays: the step ends where it
    started, because no better weights were found on the pool or the method chose the same again; proved: no weights are
    better. optima [n, D]: where later steps of a method that remembers start.
    """

    weights: Mapping[str, float]
    loss: float
    lower_bound: float | None
    angle: float | None
    stays: bool
    seconds: float
    optima: Sequence[Sequence[float]] = ()
    proved: bool = False


@dataclass(frozen=True)
class Stepping:
    """Makes steps by a method.

    first: the weights [D] of the first decoding, which set the scale. history: of decodings so far, for `stabilised`.
    """

    method: Method
    measure: Measure
    region: Region | None
    limits: Limits
    first: FloatArray
    seed: int
    history: list[Iteration] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history.append(Iteration(normalised(self.first), ()))

    def reason_to_stay(self, step: Step) -> str:
        where = "on the pool" + ("" if step.angle is None else " within the last angle")
        if not self.method.minimises:
            return f"the search ended at the same weights {where}"
        if step.proved:
            return f"no weights are better {where}"
        bound = "" if step.lower_bound is None else f", where all cost at least {step.lower_bound:.7g}"
        return f"no better weights were found {where}{bound}"

    def within(self, angle: float | None) -> Method:
        """Return the method that searches within an angle in degrees: `auto` if the own method cannot."""
        return self.method if angle is None or self.method.takes_caps else Auto()

    def remember(self, step: Step) -> None:
        """Add a step, new or from the journal, to the history."""
        weights = normalised(np.array([*step.weights.values()]))
        self.history.append(Iteration(weights, tuple(map(np.array, step.optima))))

    def step(self, lists: NBest, start: FloatArray, angle: float | None) -> Step:
        clock, names, region = Deadline(), lists.names, self.region
        if angle is not None:
            around = dict(zip(names, start.tolist(), strict=True))
            region = replace(region or Region(), cosine=math.cos(math.radians(angle)), around=around)
        problem = Problem(lists, self.measure.metric, region=region)
        before = problem.evaluate(start).loss
        earlier = [*self.history]
        searching = self.within(angle)
        method = replace(searching, earlier=earlier) if isinstance(searching, Stabilised) else searching
        found = solve(method, problem, self.limits, None, self.seed, problem.checked_weights(start))
        weights, loss = problem.checked_weights(found.weights), found.loss
        if not self.method.minimises:
            stays = np.allclose(_direction(weights), _direction(start), rtol=0.0, atol=_SAME)
        else:  # with other weights that are equally good, the loop would wander
            stays = not loss < before
        if stays:
            weights, loss = problem.checked_weights(start), before
        scaled = start if stays else scaled_like(weights, names, self.region, self.first)
        by_name = dict(zip(names, np.asarray(scaled).tolist(), strict=True))
        optima = [one.tolist() for one in earlier[-1].optima]
        return Step(by_name, loss, found.lower_bound, angle, bool(stays), clock.seconds, optima, found.status.proved)


def scaled_like(weights: FloatArray, names: Sequence[str], region: Region | None, first: FloatArray) -> FloatArray:
    """Scale weights [D] to the fixed values of the region, or else to the L1 norm of the first weights: decoders prune
    by absolute scores.
    """
    scaled = in_scale_of(region, names, CallerWeights(weights))
    if scaled is not weights:
        return scaled
    norm, own = np.abs(first).sum(), np.abs(weights).sum()
    return np.asarray(weights * (norm / own)) if norm and own else weights


def check_first(first: Mapping[str, float], region: Region) -> None:
    """Raise `RegionError` if the first weights are outside the region, or differ from its fixed weights."""
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
    """Return the angle between two weight vectors [D] in degrees, by arctan, which is accurate for small angles."""
    a, b = _direction(one), _direction(other)
    return math.degrees(2.0 * math.atan2(float(np.linalg.norm(a - b)), float(np.linalg.norm(a + b))))


def _direction(weights: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(weights))
    return weights / norm if norm else weights
