"""Small problems of every awkward kind, and exact answers for them that share no code with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import Canonical
from lpmert.model.nbest import NBest
from lpmert.numeric.lists import SortedLists
from lpmert.registry import METHODS
from lpmert.search.method import Search

FRACTIONS = tuple(n for n in METHODS.own if n != "sweep" and getattr(METHODS.find(n), "takes_fractions", False))
"""Methods that prove the least fraction of sums, and the least sum, over any number of features."""
RATIOS = tuple(name for name in FRACTIONS if METHODS.find(name).takes_ratios)
"""Those of them that take any metric."""
SUMS = (*FRACTIONS, "mip")
"""All that find the least sum and a bound."""


def many_more(*values: object) -> Any:
    """Parameters of a test for the slow tier."""
    return pytest.param(*values, marks=pytest.mark.slow)


@contextmanager
def short_descent(*, one: bool = False) -> Iterator[None]:
    """Make the exact methods start from weights that are nothing special, so that they have to search; and fast.

    one: a single descent, also for metrics that are not additive.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lpmert.search.incumbent.DEFAULT_BUDGET", 200)
        if one:
            patch.setattr("lpmert.search.incumbent._FEWEST", 1)
            patch.setattr("lpmert.search.incumbent._MOST", 1)
        yield


@dataclass(frozen=True)
class Lists:
    """Plain arrays of one problem: features [M, D], offsets [S + 1], losses [M]."""

    features: FloatArray
    offsets: IntArray
    losses: NDArray[Any]

    @property
    def nbest(self) -> NBest:
        """The same as the package's N-best lists."""
        return NBest(features=self.features, offsets=self.offsets, statistics=self.losses)

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First and last-plus-one row of every list."""
        return pairwise(self.offsets.tolist())


Maker = Callable[[np.random.Generator, IntArray, int], tuple[FloatArray, FloatArray]]


def _generic(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    return rng.normal(size=(offsets[-1], width)), rng.integers(0, 5, offsets[-1]).astype(float)


def _integers(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    reach = int(rng.integers(1, 4))
    return rng.integers(-reach, reach + 1, (offsets[-1], width)).astype(float), rng.integers(0, 3, offsets[-1]).astype(
        float
    )


def _binary(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    return rng.integers(0, 2, (offsets[-1], width)).astype(float), rng.integers(0, 2, offsets[-1]).astype(float)


def _duplicates(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    pool = rng.normal(size=(3, width))
    return pool[rng.integers(0, 3, offsets[-1])], rng.integers(0, 6, offsets[-1]).astype(float)


def _collinear(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    features, losses = _integers(rng, offsets, width)
    if width > 1:
        features[:, -1] = features[:, :-1] @ rng.integers(-2, 3, width - 1)
    return features, losses


def _nearly_collinear(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    features, losses = _generic(rng, offsets, width)
    if width > 1:
        features[:, -1] = features[:, 0] * (1 + 1e-13 * rng.normal(size=offsets[-1]))
    return features, losses


def _opposite(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Lists of 0 and rows that are opposite to one another but for the last few bits."""
    directions = rng.normal(size=(2, width))
    nudge = 10.0 ** rng.integers(-16, -11, size=(offsets[-1], 1))
    features = directions[rng.integers(0, 2, offsets[-1])] * rng.choice([-1.0, 1.0], (offsets[-1], 1))
    features = features * (1 + nudge * rng.integers(-4, 5, (offsets[-1], width)))
    features[offsets[:-1]] = 0.0
    return features, rng.integers(0, 4, offsets[-1]).astype(float)


def _single(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Some lists with one loss only, some features constant or all zero."""
    features, losses = _generic(rng, offsets, width)
    for begin, end in pairwise(offsets):
        if rng.random() < 0.4:
            losses[begin:end] = losses[begin]
    columns = rng.random(width)
    features[:, columns < 0.2] = 0.0
    features[:, (columns > 0.2) & (columns < 0.4)] = 7.25
    return features, losses


def _scales(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    features, losses = _generic(rng, offsets, width)
    features *= 10.0 ** rng.integers(-12, 13, width)
    return features * 10.0 ** rng.integers(-12, 13, (offsets[-1], 1)), losses


def _offset(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Small differences between large features."""
    features = rng.integers(-2, 3, (offsets[-1], width)).astype(float)
    large = rng.integers(-1, 2, (len(offsets) - 1, width)) * 2.0 ** rng.integers(30, 53)
    return features + np.repeat(large, np.diff(offsets), axis=0), rng.integers(0, 4, offsets[-1]).astype(float)


def _parallel(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Many differences that are parallel or opposite, with 0/1 losses."""
    directions = rng.integers(-2, 3, (3, width)).astype(float)
    features = directions[rng.integers(0, 3, offsets[-1])] * rng.integers(-3, 4, (offsets[-1], 1))
    features[offsets[:-1]] = 0.0
    return features, rng.integers(0, 2, offsets[-1]).astype(float)


def _real_losses(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    return rng.normal(size=(offsets[-1], width)), rng.normal(size=offsets[-1])


def _mixed_losses(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    losses = rng.integers(-3, 4, offsets[-1]) * 10.0 ** np.repeat(
        rng.integers(0, 13, len(offsets) - 1), np.diff(offsets)
    )
    return rng.integers(-4, 5, (offsets[-1], width)).astype(float), losses


def _ulps(rng: np.random.Generator, offsets: IntArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Rows a few ulps apart."""
    pool = rng.normal(size=(2, width))
    features = pool[rng.integers(0, 2, offsets[-1])]
    return features * (1 + 2.0**-52 * rng.integers(-3, 4, features.shape)), rng.integers(0, 4, offsets[-1]).astype(
        float
    )


KINDS: dict[str, Maker] = {
    "generic": _generic,
    "integers": _integers,
    "binary": _binary,
    "duplicates": _duplicates,
    "collinear": _collinear,
    "nearly collinear": _nearly_collinear,
    "opposite": _opposite,
    "single": _single,
    "scales": _scales,
    "offset": _offset,
    "parallel": _parallel,
    "real losses": _real_losses,
    "mixed losses": _mixed_losses,
    "ulps": _ulps,
}


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
    longest = 2 if kind == "parallel" else int(rng.integers(2, most_hypotheses + 1))
    sizes = rng.integers(1, longest + 1, int(rng.integers(1, most_lists + 1)))
    if kind in ("parallel", "opposite") and longest == 2:
        sizes[:] = 2
    while np.prod(sizes.astype(float)) > most_selections:
        sizes[np.argmax(sizes)] -= 1
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features, losses = KINDS[kind](rng, offsets, width)
    return Lists(features, offsets, losses)


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


_REMEMBERED: dict[tuple[object, ...], Any] = {}


def remembered(compute: Callable[..., Any], lists: Lists, *of: object) -> Any:
    """What an oracle says of lists: many tests ask for the same, and exact arithmetic takes its time.

    of: what else it is asked, none of which changes later.
    """
    arrays = [array for array in (lists.features, lists.offsets, lists.losses, *of) if isinstance(array, np.ndarray)]
    others = tuple(one for one in of if not isinstance(one, np.ndarray))
    key = (compute.__name__, *((array.shape, array.tobytes()) for array in arrays), *others)
    if key not in _REMEMBERED:
        _REMEMBERED[key] = compute(lists, *of)
    return _REMEMBERED[key]


def best_loss(lists: Lists, ties: str = "first") -> Fraction:
    """The least loss of an attainable selection, exactly."""
    return remembered(_best_loss, lists, ties)


def _best_loss(lists: Lists, ties: str) -> Fraction:
    return oracle.best_loss(lists.features.tolist(), lists.offsets.tolist(), lists.losses.tolist(), ties)


def exact_decode(lists: Lists, weights: FloatArray, ties: str = "first") -> tuple[list[int], int]:
    """Each list's winner at these weights (counted in its list) in exact arithmetic, and how many lists are tied.

    Hypotheses with identical features count as one, for which the first, best or worst stands; else the first wins.
    """
    exact = [Fraction(value) for value in weights.tolist()]
    winners, tied = [], 0
    for begin, end in lists.ranges():
        rows = [tuple(map(Fraction, row)) for row in lists.features[begin:end].tolist()]
        scores = [sum(w * g for w, g in zip(exact, row, strict=True)) for row in rows]
        best = scores.index(max(scores))
        tied += len({row for row, score in zip(rows, scores, strict=True) if score == scores[best]}) > 1
        same = [i for i, row in enumerate(rows) if row == rows[best]]
        losses = lists.losses[begin:end]
        if ties == "best":
            best = min(same, key=lambda i: (losses[i], i))
        elif ties == "worst":
            best = min(same, key=lambda i: (-losses[i], i))
        winners.append(best)
    return winners, tied


def clear_winners(lists: SortedLists, weights: Sequence[Fraction]) -> list[int] | None:
    """The row that is strictly best in every list in exact arithmetic, `None` if hypotheses tie for a best place."""
    chosen = []
    for begin, end in pairwise(lists.offsets.tolist()):
        rows = lists.rows[begin:end].tolist()
        scores = [sum(Fraction(x) * w for x, w in zip(row, weights, strict=True)) for row in rows]
        best = max(scores)
        if scores.count(best) > 1:
            return None
        chosen.append(begin + scores.index(best))
    return chosen


def exact_cost(lists: SortedLists, weights: Sequence[Fraction]) -> int | None:
    """What weights cost beyond the least of every list, whose rows come by cost; `None` if hypotheses tie."""
    chosen = clear_winners(lists, weights)
    return None if chosen is None else int((lists.costs[chosen] - lists.costs[lists.offsets[:-1]]).sum())


def assert_closes_on(optimum: float, search: Search, form: Canonical) -> None:
    """Run a search to its end: bounds never fall, losses never rise, and both end at the optimum, which none passes."""
    bounds, losses = [], []
    while not search.finished:
        search.advance()
        assert search.lower_bound is not None
        bounds.append(form.loss_of(search.lower_bound))
        losses.append(form.loss_of(search.incumbent.cost))
    assert all(a <= b for a, b in pairwise(bounds))
    assert all(a >= b for a, b in pairwise(losses))
    assert max(bounds) <= optimum <= min(losses)
    assert bounds[-1] == losses[-1] == optimum


def loss_of(lists: Lists, selection: list[int] | IntArray) -> Fraction:
    """The exact sum of the losses of a selection."""
    rows = lists.offsets[:-1] + np.asarray(selection)
    return sum((Fraction(value) for value in lists.losses[rows].tolist()), Fraction(0))


def attainable_totals(
    lists: Lists, statistics: FloatArray, limits: Sequence[tuple[Fraction, ...]] = ()
) -> list[list[float]]:
    """The summed statistics of every selection that some weights attain without a tie, all limits' products above 0."""
    rows = remembered(_attainable, lists, tuple(limits))
    return [statistics[list(chosen)].sum(axis=0).tolist() for chosen in rows]


def _attainable(lists: Lists, limits: tuple[tuple[Fraction, ...], ...]) -> list[tuple[int, ...]]:
    return list(oracle.attainable(lists.features.tolist(), lists.offsets.tolist(), limits))


def gaussian_lists(seed: int, *, lists: int, hypotheses: int, features: int) -> Lists:
    """Lists of one length with Gaussian features and losses from 0 to 5."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, lists * hypotheses + 1, hypotheses)
    return Lists(rng.normal(size=(offsets[-1], features)), offsets, rng.integers(0, 6, offsets[-1]).astype(float))


def random_nbest(
    seed: int = 0, *, lists: int = 12, size: int = 4, dimension: int = 3, kind: str = "loss", integers: bool = False
) -> NBest:
    """Lists of one length for the losses 0 to 8, or for the metric "f1"."""
    rng = np.random.default_rng(seed)
    count = lists * size
    shape = (count, dimension)
    features = rng.integers(-2, 3, shape).astype(float) if integers else rng.normal(size=shape)
    if kind != "f1":
        return NBest(features, np.arange(0, count + 1, size), rng.integers(0, 9, count).astype(float))
    gold = np.repeat(rng.integers(1, 6, lists), size)
    predicted = rng.integers(0, 6, count)
    match = rng.integers(0, np.minimum(gold, predicted) + 1)
    return NBest(features, np.arange(0, count + 1, size), np.column_stack([match, predicted, gold]).astype(float))
