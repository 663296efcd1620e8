"""Small problems of every awkward kind, and exact answers for them that share no code with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from lpmert.nbest import NBest
from lpmert.result import FloatArray, IntArray


@contextmanager
def short_descent() -> Iterator[None]:
    """Make the exact methods start from weights that are nothing special, so that they have to search; and fast."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lpmert.exact.start.DEFAULT_BUDGET", 200)
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


def strictly_feasible(rows: list[tuple[Fraction, ...]]) -> bool:
    """Whether some w has a positive product with all rows: guessed by linear programming, decided in fractions."""
    distinct = list(dict.fromkeys(_direction(row) for row in rows))
    if not distinct:
        return True
    if any(not any(row) for row in distinct):
        return False
    matrix = np.array([[float(value) for value in row] for row in distinct])
    width = matrix.shape[1]
    answer = linprog(
        np.append(np.zeros(width), -1.0),
        A_ub=np.column_stack([-matrix, np.ones(len(matrix))]),
        b_ub=np.zeros(len(matrix)),
        bounds=[(-1, 1)] * width + [(None, None)],
        method="highs-ds",
    )
    if answer.status == 0:
        weights = [Fraction(value) for value in answer.x[:-1].tolist()]
        if all(sum(w * g for w, g in zip(weights, row, strict=True)) > 0 for row in distinct):
            return True
        support = [row for row, dual in zip(distinct, answer.ineqlin.marginals.tolist(), strict=True) if dual < -1e-9]
        if support and oracle._balanced(support):
            return False
    return oracle.strictly_feasible(distinct)


def _direction(row: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The row divided by its largest magnitude."""
    largest = max((abs(value) for value in row), default=Fraction(0))
    return tuple(value / largest for value in row) if largest else row


def best_loss(lists: Lists, ties: str = "first") -> Fraction:
    """The least loss of an attainable selection, exactly."""
    represent = {"first": lambda group: group[0], "best": min, "worst": max}[ties]
    vectors, costs = [], []
    losses = [Fraction(value) for value in lists.losses.tolist()]
    for begin, end in lists.ranges():
        groups: dict[tuple[Fraction, ...], list[Fraction]] = {}
        for row in range(begin, end):
            key = tuple(Fraction(value) for value in lists.features[row].tolist())
            groups.setdefault(key, []).append(losses[row])
        vectors.append(list(groups))
        costs.append([represent(group) for group in groups.values()])
    return _search(vectors, costs)


def _search(vectors: list[list[tuple[Fraction, ...]]], costs: list[list[Fraction]]) -> Fraction:
    """Depth first over the lists in order of cost, leaving out what cannot be attained or is no better."""
    least_rest = [Fraction(0)]
    for one in reversed(costs):
        least_rest.append(least_rest[-1] + min(one))
    least_rest.reverse()
    best: list[Fraction] = []

    def descend(place: int, total: Fraction, rows: list[tuple[Fraction, ...]]) -> None:
        if best and total + least_rest[place] >= best[0]:
            return
        if place == len(vectors):
            best[:] = [total]
            return
        for h in sorted(range(len(costs[place])), key=costs[place].__getitem__):
            chosen = vectors[place][h]
            more = [
                tuple(a - b for a, b in zip(chosen, other, strict=True))
                for other in vectors[place]
                if other is not chosen
            ]
            longer = total + costs[place][h]
            if best and longer + least_rest[place + 1] >= best[0]:
                return
            if not more or strictly_feasible(rows + more):
                descend(place + 1, longer, rows + more)

    descend(0, Fraction(0), [])
    return best[0]


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


def loss_of(lists: Lists, selection: list[int] | IntArray) -> Fraction:
    """The exact sum of the losses of a selection."""
    rows = lists.offsets[:-1] + np.asarray(selection)
    return sum((Fraction(value) for value in lists.losses[rows].tolist()), Fraction(0))


def attainable_totals(
    lists: Lists, statistics: FloatArray, limits: Sequence[tuple[Fraction, ...]] = ()
) -> list[list[float]]:
    """The summed statistics of every selection that some weights attain without a tie, all limits' products above 0."""
    found = []
    vectors = [[tuple(map(Fraction, row)) for row in lists.features[a:b].tolist()] for a, b in lists.ranges()]
    for choice in product(*(range(len(one)) for one in vectors)):
        if any(one.index(one[i]) != i for one, i in zip(vectors, choice, strict=True)):
            continue  # the first of identical vectors stands for all
        rows = [
            tuple(a - b for a, b in zip(one[i], other, strict=True))
            for one, i in zip(vectors, choice, strict=True)
            for other in one
            if other != one[i]
        ]
        if strictly_feasible([*rows, *limits]):
            found.append(statistics[lists.offsets[:-1] + np.array(choice)].sum(axis=0).tolist())
    return found
