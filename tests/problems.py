"""Small random problems of many kinds: lists, metrics, regions, with their least loss in exact arithmetic.

`fuzz.py` says what must hold of their results.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import oracle
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle import Lists, inner

from lpmert import Linear, NBest, Region
from lpmert.metrics import Bleu, Chrf, LinearFraction, Metric, f_beta, precision, recall
from lpmert.metrics.base import BLEU

Array = NDArray[np.float64]
Rng = np.random.Generator
Loss = Callable[[Sequence[int]], Fraction | float]


def height_of_loss(kind: int, loss: float) -> float:
    """The height that linear functions bound, as in proofs/ratio.md: of BLEU minus the logarithm of the score."""
    if kind != BLEU:
        return loss
    return -math.log1p(-loss) if loss < 1.0 else math.inf


@dataclass(frozen=True)
class Case:
    """A small problem: arrays for `NBest`, metric and region, and its exact answer.

    values: what each hypothesis adds, exactly: its loss, or its counts with a `loss` of their sums. rows, equations:
    the region without a cosine. exact: whether sums of losses are exact. thin: whether cones may be too thin for
    doubles. given: what is solved, if not arrays.
    """

    name: str
    features: Array
    offsets: list[int]
    statistics: Array
    values: list[tuple[Fraction, ...]]
    metric: str | Metric = "loss"
    loss: Loss | None = None
    region: Region | None = None
    rows: list[list[Fraction]] = field(default_factory=list)
    equations: list[list[Fraction]] = field(default_factory=list)
    exact: bool = True
    thin: bool = False
    given: Any = None

    @property
    def nbest(self) -> NBest:
        names = feature_names(self.features.shape[1])
        return NBest(self.features, np.array(self.offsets), self.statistics, names=names)

    @property
    def data(self) -> Any:
        """What `lpmert.minimize` takes."""
        return self.nbest if self.given is None else self.given

    def total(self, chosen: Sequence[int]) -> Fraction | float:
        """The loss of chosen rows, one a list."""
        sums = tuple(map(sum, zip(*(self.values[row] for row in chosen), strict=True)))
        return Fraction(sums[0]) if self.loss is None else self.loss([int(value) for value in sums])

    @cached_property
    def least(self) -> Fraction | float | None:
        """The least loss that weights inside the region have without a tie; `None` if there are no such weights.

        Not for a region with a cosine.
        """
        if not self._basis:
            return None
        limits = [_times(self._basis, row) for row in self.rows] if self.equations else self.rows
        if self.loss is None:
            return oracle.least_sum(self.left, self.offsets, [value for (value,) in self.values], limits)
        return min(map(self.total, oracle.attainable(self.left, self.offsets, limits)), default=None)

    @cached_property
    def _basis(self) -> list[list[Fraction]]:
        return oracle.null_space(self.equations, self.features.shape[1])

    @cached_property
    def _meant(self) -> list[list[Fraction]]:
        return oracle.meaning(self.features.tolist())

    @cached_property
    def left(self) -> list[list[Fraction]]:
        """What the equations leave of the features."""
        return [_times(self._basis, row) for row in self._meant] if self.equations else self._meant

    def attained(self, weights: Sequence[float | Fraction]) -> tuple[Fraction | float, bool]:
        """The loss of weights, and whether no tie of unequal values decides it and no limit is touched.

        The first of the hypotheses that equations make one stands for all.
        """
        exact = [Fraction(value) for value in weights]
        chosen, strict = [], all(inner(row, exact) > 0 for row in self.rows)
        for begin, end in pairwise(self.offsets):
            scores = [inner(row, exact) for row in self._meant[begin:end]]
            winners = [row for row, score in enumerate(scores, begin) if score == max(scores)]
            first = {tuple(self.left[row]): row for row in reversed(winners)}
            strict = strict and len({self.values[row] for row in first.values()}) == 1
            chosen.append(self.left.index(self.left[winners[0]], begin, end))
        return self.total(chosen), strict

    def on_equations(self, weights: Sequence[float | Fraction]) -> list[Fraction]:
        """The weights nearby that fulfil the equations exactly: these set the first weights that they can."""
        basis = oracle.null_space(self.equations, len(weights))  # a vector ends with the weight that stays
        stays = [Fraction(weights[max(d for d, value in enumerate(own) if value)]) for own in basis]
        parts = [[weight * value for value in own] for weight, own in zip(stays, basis, strict=True)]
        return [sum(column, Fraction(0)) for column in zip(*parts, strict=True)]


def case_of(name: str, lists: Lists, **more: Any) -> Case:
    """Lists with losses as a problem; more: its other fields."""
    values = [(Fraction(loss),) for loss in lists.losses.tolist()]
    return Case(name, lists.features, lists.offsets.tolist(), lists.losses, values, **more)


def feature_names(width: int) -> list[str]:
    return [f"f{d}" for d in range(width)]


def _times(basis: Sequence[Sequence[Fraction]], row: Sequence[Fraction]) -> list[Fraction]:
    return [inner(vector, row) for vector in basis]


# Features of this shape, [M, width], for lists with these offsets. Those in THIN can make cones that no doubles meet.

Shape = tuple[int, int]


def _integers(rng: Rng, _: list[int], shape: Shape) -> Array:
    reach = int(rng.choice([1, 2, 5, 100]))
    return rng.integers(-reach, reach + 1, shape).astype(float)


def _collinear(rng: Rng, offsets: list[int], shape: Shape) -> Array:
    rows = _integers(rng, offsets, shape)
    if shape[1] > 1:
        rows[:, -1] = rows[:, :-1] @ rng.integers(-2, 3, shape[1] - 1)
        rows[:, -1] += np.repeat(rng.integers(-5, 6, len(offsets) - 1), np.diff(offsets))
    return rows


def _nearly_collinear(rng: Rng, _: list[int], shape: Shape) -> Array:
    rows = rng.normal(size=shape)
    if shape[1] > 1:
        rows[:, -1] = rows[:, :-1] @ np.full(shape[1] - 1, 0.1)
    return rows


def _nearly_equal(rng: Rng, _: list[int], shape: Shape) -> Array:
    rows = rng.normal(size=shape)
    if shape[1] > 1:
        rows[:, -1] = rows[:, 0] * (1 + 1e-13 * rng.normal(size=shape[0]))
    return rows


def _parallel(rng: Rng, _: list[int], shape: Shape) -> Array:
    two = rng.integers(-3, 4, (2, shape[1])).astype(float)
    return rng.integers(-3, 4, (shape[0], 2)) * [1, float(rng.random() < 0.5)] @ two


def _idle_columns(rng: Rng, offsets: list[int], shape: Shape) -> Array:
    rows = _integers(rng, offsets, shape)
    rows[:, rng.integers(shape[1])] = 0.0
    rows[:, rng.integers(shape[1])] = np.repeat(rng.integers(-9, 10, len(offsets) - 1), np.diff(offsets))
    return rows


def _large_offset(rng: Rng, offsets: list[int], shape: Shape) -> Array:
    large = rng.integers(-1, 2, (len(offsets) - 1, shape[1])) * 2.0 ** rng.integers(35, 50)
    return np.repeat(large, np.diff(offsets), axis=0) + _integers(rng, offsets, shape)


def _opposite(rng: Rng, offsets: list[int], shape: Shape) -> Array:
    """Lists of 0 and rows that are opposite to one another but for the last few bits."""
    rows = rng.normal(size=(2, shape[1]))[rng.integers(0, 2, shape[0])] * rng.choice([-1.0, 1.0], (shape[0], 1))
    rows *= 1 + 10.0 ** rng.integers(-16, -11, (shape[0], 1)) * rng.integers(-4, 5, shape)
    rows[offsets[:-1]] = 0.0
    return rows


def _multiples(rng: Rng, offsets: list[int], shape: Shape) -> Array:
    """Many differences that are parallel or opposite."""
    directions = rng.integers(-2, 3, (3, shape[1])).astype(float)
    rows: Array = directions[rng.integers(0, 3, shape[0])] * rng.integers(-3, 4, (shape[0], 1))
    rows[offsets[:-1]] = 0.0
    return rows


FEATURES: Mapping[str, Callable[[Rng, list[int], Shape], Array]] = {
    "integers": _integers,
    "ternary": lambda rng, _, shape: rng.choice([0.0, 0.0, 1.0, -1.0], shape),
    "dyadic": lambda rng, _, shape: _integers(rng, _, shape) * 2.0 ** rng.integers(-30, 31, shape[1]),
    "floats": lambda rng, _, shape: rng.normal(size=shape),
    "decimals": lambda rng, _, shape: np.round(rng.normal(size=shape), 2),
    # decimals with many ties and parallels, of which doubles keep few
    "tenths": lambda rng, _, shape: _integers(rng, _, shape) / 10.0 ** int(rng.integers(1, 4)),
    "large offset": _large_offset,
    "mixed magnitudes": lambda rng, _, shape: rng.normal(size=shape) * 10.0 ** rng.uniform(-12, 12, shape[1]),
    "tiny or huge": lambda rng, _, shape: rng.normal(size=shape) * 10.0 ** float(rng.choice([-90, -30, 30, 90])),
    "nearly tied": lambda rng, _, shape: (
        2.0 ** -float(rng.integers(40, 53)) * rng.integers(-3, 4, shape) + rng.integers(-2, 3, shape)
    ),
    "collinear": _collinear,
    "nearly collinear": _nearly_collinear,
    "duplicates": lambda rng, _, shape: _integers(rng, _, shape)[rng.integers(0, (shape[0] + 1) // 2, shape[0])],
    # on the moment curve every hypothesis is extreme
    "polygon": lambda rng, _, shape: (
        (rng.permutation(shape[0]) - shape[0] // 2).astype(float)[:, None] ** np.arange(1, shape[1] + 1)
    ),
    "antipodal": lambda rng, _, shape: (
        rng.integers(-3, 4, (3, shape[1]))[rng.integers(0, 3, shape[0])] * rng.choice([-1.0, 1, -2], (shape[0], 1))
    ),
    "parallel": _parallel,
    "nearly parallel": lambda rng, _, shape: (
        rng.integers(-2, 3, (shape[0], 1)) * rng.normal(size=shape[1])
        + 10.0 ** -float(rng.integers(6, 17)) * rng.normal(size=shape)
    ),
    "lattice": lambda rng, _, shape: rng.integers(0, 2, shape).astype(float),
    "thin cones": lambda rng, _, shape: (
        2.0 ** float(rng.integers(8, 27)) * rng.integers(-1, 2, shape) + rng.integers(-1, 2, shape)
    ),
    "scaled rows": lambda rng, _, shape: (
        _integers(rng, _, shape) * 2.0 ** rng.choice([0.0, 0.0, -20.0, -40.0], (shape[0], 1))
    ),
    "idle columns": _idle_columns,
    "opposite": _opposite,
    "ulps": lambda rng, _, shape: (
        rng.normal(size=(2, shape[1]))[rng.integers(0, 2, shape[0])] * (1 + 2.0**-52 * rng.integers(-3, 4, shape))
    ),
    # columns and rows of any size
    "scales": lambda rng, _, shape: (
        rng.normal(size=shape) * 10.0 ** rng.integers(-12, 13, shape[1]) * 10.0 ** rng.integers(-12, 13, (shape[0], 1))
    ),
    "multiples": _multiples,
    "nearly equal": _nearly_equal,
}
THIN = {
    *("nearly tied", "nearly collinear", "nearly parallel", "thin cones", "scaled rows", "large offset"),
    *("opposite", "ulps", "scales", "nearly equal"),
}
"""Kinds in which the cell of the best selection can be too narrow for doubles."""

LOSSES: Mapping[str, Callable[[Rng, int], Array]] = {
    "small": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "0 or 1": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "negative": lambda rng, n: rng.integers(-5, 6, n).astype(float),
    "floats": lambda rng, n: rng.random(n),
    "decimals": lambda rng, n: rng.integers(0, 10, n) / 10,
    "huge": lambda rng, n: 2.0 ** rng.integers(40, 51, n) + rng.integers(0, 4, n),
    "tiny": lambda rng, n: rng.random(n) * 10.0 ** float(rng.choice([-300, -100, -20])),
    "all magnitudes": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.uniform(-8, 8, n),
    "nearly equal": lambda rng, n: rng.integers(0, 3, n) + rng.integers(-3, 4, n) * 2.0**-45,
    "all equal": lambda rng, n: np.full(n, float(rng.integers(-2, 3))),
    "powers of two": lambda rng, n: 2.0 ** rng.integers(0, 13, n),
}
ROUNDED = {"floats", "decimals", "tiny", "all magnitudes"}
"""Losses that are no multiples of one unit: their sums are off by rounding, as docs/exactness.md says."""


def fractions_loss(metric: LinearFraction) -> Loss:
    def loss(sums: Sequence[int]) -> Fraction:
        below = inner(metric.denominator, sums)
        return Fraction(inner(metric.numerator, sums), below) if below else Fraction(1)

    return loss


def f_loss(square: Fraction) -> Loss:
    """Van Rijsbergen 1979: 1 - (1 + b^2) P R / (b^2 P + R), with the square of b, in counts; 1 where there are none."""

    def loss(sums: Sequence[int]) -> Fraction:
        match, predicted, gold = sums
        return 1 - (1 + square) * match / (predicted + square * gold) if predicted + square * gold else Fraction(1)

    return loss


def share_loss(column: int) -> Loss:
    """1 - the matches' share of the predicted (column 1) or of the gold items (column 2)."""
    return lambda sums: 1 - Fraction(sums[0], sums[column]) if sums[column] else Fraction(1)


def bleu_loss(sums: Sequence[int]) -> float:
    """Papineni et al. 2002: the geometric mean of four precisions, times exp(1 - reference / length) if below 1."""
    matches, totals = sums[0:8:2], sums[1:8:2]
    if not all(matches):
        return 1.0
    brevity = min(0.0, 1.0 - sums[8] / totals[0])
    return 1.0 - math.exp(brevity + sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)


def chrf_in_rationals(sums: Sequence[float], beta: float = 2.0) -> Fraction:
    """Popović 2015: 1 - F_beta of the mean precision and the mean recall of the orders that occur."""
    orders = [tuple(map(Fraction, sums[k : k + 3])) for k in range(0, len(sums), 3) if sums[k] and sums[k + 1]]
    p, r = (sum((order[2] / order[k] for order in orders), Fraction(0)) for k in (0, 1))
    square = Fraction(beta) ** 2
    return 1 - (1 + square) * p * r / (square * p + r) / len(orders) if p + r else Fraction(1)


def chrf_loss(sums: Sequence[float], beta: float = 2.0) -> float:
    return float(chrf_in_rationals(sums, beta))


class Plain:
    """A metric from a function of the totals; shares nothing with the package but the contract."""

    name = "theirs"
    signature = "metric:theirs"

    def __init__(self, loss: Callable[[list[float]], float]) -> None:
        self._loss = loss

    def check(self, statistics: Array) -> None: ...

    def loss(self, total: Array) -> float:
        return self._loss(total.tolist())

    def score(self, total: Array) -> float:
        return -self.loss(total)


class Sum(Plain):
    """The same for a loss that adds up."""

    def __init__(self, loss: Callable[[list[float]], float], losses: Callable[[Array], Array]) -> None:
        super().__init__(loss)
        self.losses = losses


WER = LinearFraction("wer", ("errors", "words"), (1, 0), (0, 1), higher_is_better=False)
FRACTIONS: tuple[tuple[LinearFraction, Loss], ...] = (
    *((f_beta(beta), f_loss(Fraction(beta) ** 2)) for beta in (1, 2, 0.5)),
    (precision(), share_loss(1)),
    (recall(), share_loss(2)),
)


def _f_counts(rng: Rng, offsets: list[int]) -> Array:
    reach = int(rng.choice([3, 10, 1000, 10**6]))
    predicted, gold = rng.integers(0, reach + 1, (2, offsets[-1]))
    gold = np.repeat(gold[offsets[:-1]], np.diff(offsets))
    return np.column_stack([rng.integers(0, np.minimum(predicted, gold) + 1), predicted, gold]).astype(float)


def _wer_counts(rng: Rng, offsets: list[int]) -> Array:
    words = rng.integers(1, 8, offsets[-1])
    if rng.random() < 0.4:  # of the hypothesis, which may be empty
        words[rng.random(len(words)) < 0.5] = 0
    else:  # of the reference, which is the same for a list
        words = np.repeat(words[offsets[:-1]], np.diff(offsets))
    return np.column_stack([rng.integers(0, 12, offsets[-1]), words]).astype(float)


def _bleu_counts(rng: Rng, offsets: list[int]) -> Array:
    length = rng.integers(4, 15, offsets[-1])
    totals = np.maximum(length[:, None] - np.arange(4), 0)
    matches = np.minimum.accumulate(rng.integers(0, totals + 1), axis=1)
    reference = np.repeat(rng.integers(4, 15, len(offsets) - 1), np.diff(offsets))
    return np.column_stack([np.stack([matches, totals], axis=2).reshape(-1, 8), reference]).astype(float)


def _chrf_counts(rng: Rng, offsets: list[int]) -> Array:
    hypothesis, reference = rng.integers(0, 12, (2, offsets[-1], 2))
    reference = np.repeat(reference[offsets[:-1]], np.diff(offsets), axis=0)
    match = rng.integers(0, np.minimum(hypothesis, reference) + 1)
    return np.stack([hypothesis, reference, match], axis=2).reshape(-1, 6).astype(float)


METRICS: Mapping[str, tuple[Metric, Loss, Callable[[Rng, list[int]], Array]]] = {
    **{metric.name: (metric, loss, _f_counts) for metric, loss in FRACTIONS},
    "wer": (WER, fractions_loss(WER), _wer_counts),
    "bleu": (Bleu(), bleu_loss, _bleu_counts),
    "chrf": (Chrf(char_order=2), chrf_loss, _chrf_counts),
}

WORTHS = (*LOSSES, *METRICS)  # what hypotheses can be worth: every kind of loss, and every metric


def sums(rng: Rng, metric: Any, largest: int, count: int) -> Array:
    """Return possible summed statistics [count, K], many of them with zeros."""
    if isinstance(metric, Bleu):
        longest = rng.integers(0, largest + 1, (count, 1))
        totals = np.maximum(longest - rng.integers(0, largest // 4 + 2) * np.arange(4), 0)
        matches = rng.binomial(totals, rng.random((count, 1)))
        reference = rng.integers(0, largest + 1, (count, 1))
        return np.hstack([np.stack([matches, totals], axis=2).reshape(count, 8), reference]).astype(float)
    if isinstance(metric, Chrf):
        sizes = rng.integers(0, largest + 1, (count, len(metric.columns) // 3, 2))
        matches = rng.binomial(sizes.min(axis=2), rng.random((count, 1)))
        return np.concatenate([sizes, matches[:, :, None]], axis=2).reshape(count, -1).astype(float)
    sizes = rng.integers(0, largest + 1, (count, 2))
    return np.column_stack([rng.binomial(sizes.min(axis=1), rng.random()), sizes]).astype(float)


# Regions, with the half-spaces and equations that they are.

Rows = list[list[Fraction]]
REGIONS = ["nonnegative", "signs", "linear", "many", "equation", "fixed", "simplex", "total", "decimals"]


def cone_of(settings: Mapping[str, Any], width: int) -> tuple[Rows, Rows]:
    """The half-spaces row . w > 0 and the equations row . w = 0 that arguments of `Region` mean, at any scale of w.

    Limits other than 0 are relative to the first fixed weight other than 0, or to the total.
    """
    names = feature_names(width)
    units = {name: {name: 1} for name in names}
    fixed = {**settings.get("fixed", {})}
    sums = [(units[name], value, value) for name, value in fixed.items()]
    if "total" in settings:
        sums.append((dict.fromkeys(names, 1), settings["total"], settings["total"]))
    reference, size, _ = next((one for one in sums if one[1]), ({}, 1, 1))
    limits = [one for one in sums if one[0] is not reference]
    limits += [(units[name], 0, None) for name in names if settings.get("nonnegative")]
    limits += [(units[name], *ends) for name, ends in settings.get("bounds", {}).items()]
    limits += [(one.coefficients, one.lower, one.upper) for one in settings.get("linear", ())]

    def beyond(terms: Mapping[str, float], end: float, sign: int = 1) -> list[Fraction]:
        share = Fraction(end) / Fraction(size)
        return [sign * (Fraction(terms.get(name, 0)) - share * reference.get(name, 0)) for name in names]

    rows = [beyond(reference, 0, 1 if size > 0 else -1)] if reference else []
    equations = []
    for terms, low, high in limits:
        if low is not None and low == high:
            equations.append(beyond(terms, low))
            continue
        rows += [] if low is None else [beyond(terms, low)]
        rows += [] if high is None else [beyond(terms, high, -1)]
    return rows, equations


def _decimals(rng: Rng, width: int) -> dict[str, Any]:
    """Limits and equations whose sums and products no doubles hold."""
    names = feature_names(width)
    first, *others = [names[d] for d in rng.permutation(width).tolist()]
    value = float(rng.choice([0.3, -0.7, 1.1, 3.0]))
    if width > 1 and rng.random() < 0.3:  # 0.3 w_d = a w_k + b w_l, and the half-space in which that is positive
        terms = {first: 0.3} | {name: -float(rng.choice([0.1, -0.7, 1.3])) for name in others[:2]}
        return {"linear": [Linear(terms, 0, 0)], "bounds": {first: (0.0, None)}}
    if rng.random() < 0.3:
        low, high = sorted(rng.choice([-0.9, -0.2, 0.1, 0.7, 1.3], 2, replace=False).tolist())
        return {"total": value, "bounds": {first: (low, high)}}
    fixed, bounds = {first: value}, {}
    for name in others:
        if rng.random() < 0.4:
            fixed[name] = float(rng.choice([0.1, -0.2, 0.7]))
        elif rng.random() < 0.5:
            bounds[name] = tuple(sorted(rng.choice([-1.7, -0.2, 0.1, 0.9], 2, replace=False).tolist()))
    return {"fixed": fixed, "bounds": bounds}


def _settings(rng: Rng, width: int, kind: str) -> dict[str, Any]:
    names = feature_names(width)
    if kind == "decimals":
        return _decimals(rng, width)
    if kind == "nonnegative":
        return {"nonnegative": True}
    if kind == "signs":
        signs = rng.integers(-1, 2, width).tolist()
        return {"bounds": {n: (0, None) if s > 0 else (None, 0) for n, s in zip(names, signs, strict=True) if s}}
    if kind in ("linear", "many"):
        inside = rng.normal(size=width)
        rows = rng.integers(-9, 10, (int(rng.integers(1, 4)) if kind == "linear" else 70, width)).astype(float)
        rows = rows[rows.any(axis=1)]
        rows *= np.where(rows @ inside > 0, 1.0, -1.0)[:, None] if kind == "many" else 1.0
        terms = [{n: v for n, v in zip(names, row, strict=True) if v} for row in rows.tolist()]
        return {"linear": [Linear(one, lower=0) for one in terms]}
    d = int(rng.integers(width))
    if kind == "equation":
        terms = {names[d]: 1.0}
        other = float(rng.integers(1, 3) * rng.choice([-1, 1]))
        terms |= {names[(d + 1) % width]: other} if width > 1 else {}
        return {"linear": [Linear({n: terms[n] for n in names if n in terms}, 0, 0)]}
    if kind == "fixed":
        bounds, fixed = {}, {names[d]: float(rng.choice([1.0, -1.0, 2.0, 0.5]))}
        for name in names[:d] + names[d + 1 :]:
            low, high = sorted(rng.choice(np.arange(-8, 9), 2, replace=False) / 4)
            if rng.random() < 0.2:
                fixed[name] = 0.0
            elif rng.random() < 0.7:
                bounds[name] = (float(low), float(high))
        return {"fixed": fixed, "bounds": bounds}
    total = 1.0 if kind == "simplex" else float(rng.choice([1.0, -2.0]))
    bounded = rng.random() < 0.5
    bounds = {names[d]: (None, float(rng.choice([0.25, 0.5, 0.75])))} if bounded else {}
    return {"total": total, "nonnegative": kind == "simplex", "bounds": bounds}


def region(rng: Rng, width: int, kind: str = "") -> tuple[str, dict[str, Any], Rows, Rows]:
    """Return a kind, drawn if none is given, arguments of `Region`, its half-spaces row . w > 0, and equations = 0."""
    kind = kind or str(rng.choice(REGIONS))
    settings = _settings(rng, width, kind)
    return kind, settings, *cone_of(settings, width)


def sizes(rng: Rng) -> tuple[list[int], int]:
    """Random offsets and a number of features; so few selections that all can be looked at."""
    width = int(rng.choice([1, 2, 2, 3, 3, 3, 4, 5, 6]))
    count = int(rng.integers(1, 6))
    lengths = rng.integers(1, 5, count)
    if rng.random() < 0.3:
        lengths[:] = 2
    while np.prod(lengths) > 150:
        lengths[np.argmax(lengths)] -= 1
    return [0, *np.cumsum(lengths).tolist()], width


def problem(features: str, worth: str, seed: int, *, in_region: bool = False, kind: str = "") -> Case:
    """A problem with features of this kind; worth: a kind of loss, or a metric; kind: of region."""
    in_region = in_region or bool(kind)
    rng = np.random.default_rng([seed, *features.encode(), *worth.encode(), int(in_region)])
    offsets, width = sizes(rng)
    rows = np.asarray(FEATURES[features](rng, offsets, (offsets[-1], width)), dtype=np.float64)
    kind, settings, half_spaces, equations = region(rng, width, kind) if in_region else ("", {}, [], [])
    name = f"{features}, {worth}, {seed}" + (f", {kind}" if kind else "")
    limits = Region(**settings) if in_region else None, half_spaces, equations
    metric, loss, counts = METRICS.get(worth, ("loss", None, None))
    statistics = LOSSES[worth](rng, offsets[-1]) if counts is None else counts(rng, offsets)
    values = [tuple(map(Fraction, row)) for row in statistics.reshape(len(rows), -1).tolist()]
    exact = worth not in ROUNDED and (loss is None or isinstance(metric, LinearFraction))
    thin = features in THIN or kind == "many"
    return Case(name, rows, offsets, statistics, values, metric, loss, *limits, exact=exact, thin=thin)


# Plain lists with a loss for each hypothesis.

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("floats", "integers", "duplicates", "collinear", "large offset", "idle columns"), "small"),
    **dict.fromkeys(("opposite", "ulps", "scales", "nearly equal"), "small"),
    **{"lattice": "0 or 1", "multiples": "0 or 1", "antipodal": "powers of two", "decimals": "floats"},
}
"""A choice of kinds of features for what has to hold on all, each with a kind of losses."""


def random_lists(
    kind: str,
    seed: int,
    *,
    most_lists: int = 8,
    most_hypotheses: int = 6,
    most_features: int = 5,
    most_selections: int = 400,
) -> Lists:
    """A problem of this kind; lists are shortened until it has at most so many selections."""
    rng = np.random.default_rng([seed, *kind.encode()])
    width = int(rng.integers(1, most_features + 1))
    longest = 2 if kind == "multiples" else int(rng.integers(2, most_hypotheses + 1))
    lengths = rng.integers(1, longest + 1, int(rng.integers(1, most_lists + 1)))
    if kind in ("multiples", "opposite") and longest == 2:
        lengths[:] = 2
    while np.prod(lengths.astype(float)) > most_selections:
        lengths[np.argmax(lengths)] -= 1
    offsets = [0, *np.cumsum(lengths).tolist()]
    features = FEATURES[kind](rng, offsets, (offsets[-1], width)).astype(float)
    return Lists(features, np.array(offsets), LOSSES[KINDS[kind]](rng, offsets[-1]))


@st.composite
def small_lists(draw: Any, most_features: int = 3) -> Lists:
    """Lists of small numbers that shrink well: ties, duplicates and degenerate cones are frequent."""
    width = draw(st.integers(1, most_features))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    number = st.one_of(st.integers(-2, 2), st.sampled_from([0.5, 1e-9, 1e9, 1 + 2**-52, -1 + 2**-53]))
    count = sum(sizes)
    features = draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=count, max_size=count))
    losses = draw(st.lists(st.one_of(st.integers(-1, 3), st.just(0.1)), min_size=count, max_size=count))
    return Lists(np.array(features, dtype=float), np.cumsum([0, *sizes]), np.array(losses, dtype=float))


def gaussian_lists(seed: int, *, lists: int, hypotheses: int, features: int, dearest: int = 5) -> Lists:
    """Lists of one length with Gaussian features and losses that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, lists * hypotheses + 1, hypotheses)
    rows = rng.normal(size=(offsets[-1], features))
    return Lists(rows, offsets, rng.integers(0, dearest + 1, offsets[-1]).astype(float))


def at_odds(seed: int, n_features: int, n_lists: int = 4) -> tuple[Lists, NBest, Array]:
    """Lists with small features, some of them identical, and second numbers that are at odds with the losses."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, n_lists))])
    features = rng.integers(-3, 4, (int(offsets[-1]), n_features)).astype(float)
    losses = rng.integers(0, 6, len(features))
    lists = Lists(features, offsets, losses)
    return lists, lists.nbest, 9 - losses + rng.integers(0, 4, len(losses))


def random_nbest(
    seed: int = 0, *, lists: int = 12, size: int = 4, dimension: int = 3, kind: str = "loss", integers: bool = False
) -> NBest:
    """Lists of one length for the losses 0 to 8, or with the statistics of a metric."""
    rng = np.random.default_rng(seed)
    count = lists * size
    shape = (count, dimension)
    features = rng.integers(-2, 3, shape).astype(float) if integers else rng.normal(size=shape)
    offsets = list(range(0, count + 1, size))
    statistics = METRICS[kind][2](rng, offsets) if kind in METRICS else rng.integers(0, 9, count).astype(float)
    return NBest(features, offsets, statistics)


def noise(seed: int, lists: int = 24, dimension: int = 2) -> NBest:
    """Lists of two whose features say nothing about which of them is right."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, 2, lists)
    losses = np.column_stack([right, 1 - right]).ravel()
    return NBest(rng.normal(size=(2 * lists, dimension)), np.arange(0, 2 * lists + 1, 2), losses)


def changed_in(nbest: NBest, chosen: Array) -> NBest:
    """The same lists, but for other features and losses of those chosen: what is fitted to them is another."""
    features, losses, rows = nbest.dense_features().copy(), nbest.statistics.copy(), chosen[nbest.list_index]
    features[rows] *= [1000.0, -0.001, 7.0][: nbest.n_features]
    losses[rows] = 5.0 - 3.0 * losses[rows]
    return NBest(features, nbest.offsets, losses)


COSINES = (0.2, 0.6, 0.84, 0.95, 0.99, 0.9999)


def lists_in_a_cap(seed: int) -> tuple[Lists, Array, float]:
    """Lists, given weights, and the cosine that others must have with them."""
    rng = np.random.default_rng(seed)
    width, n_lists, size = int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    features = rng.normal(size=(n_lists * size, width))
    if seed % 3 == 0:
        features = rng.integers(-3, 4, features.shape) + 0.25 * (np.arange(len(features)) % size == 0)[:, None]
    offsets = np.arange(0, n_lists * size + 1, size)
    lists = Lists(features, offsets, rng.integers(0, 7, len(features)).astype(float))
    return lists, rng.normal(size=width), COSINES[seed % len(COSINES)]


def around(lists: Lists, centre: Array) -> dict[str, float]:
    return dict(zip(lists.nbest.names, centre.tolist(), strict=True))
