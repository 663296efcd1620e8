"""Exact answers about small problems; shares no code with the package that it is there to check.

First plain numbers, then `Lists`, what may end as "optimal to tolerance", and what lies within a cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from itertools import pairwise, product
from math import gcd, lcm
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

import lpmert

if TYPE_CHECKING:
    from lpmert.errors import FloatArray, IntArray
    from lpmert.numeric.lists import SortedLists


Rows = Sequence[Sequence[float | Fraction]]
Choice = tuple[int, ...]
Hopeless = Callable[[Choice], bool]


def meaning(features: Sequence[Sequence[float]]) -> list[list[Fraction]]:
    """What features mean: the decimals as which they print if, written with the same number of places each, none of
    them has more than 15 digits; else the doubles themselves.
    """
    printed = [[Decimal(repr(value)).normalize() for value in row] for row in features]
    numbers = [number for row in printed for number in row]
    places = max((-int(number.as_tuple().exponent) for number in numbers if number), default=0)
    if places <= 22 and all(abs(Fraction(number)) * 10 ** max(places, 0) < 10**15 for number in numbers):
        return [[Fraction(number) for number in row] for row in printed]
    return [[Fraction(value) for value in row] for row in features]


def strictly_feasible(rows: Rows) -> bool:
    """Whether some w has a strictly positive product with every row."""
    return positive_weights(whole(rows)) is not None


def attainable(
    features: Rows, offsets: Sequence[int], limits: Rows = (), hopeless: Hopeless | None = None
) -> Iterator[Choice]:
    """The rows of every selection that weights with a positive product with all limits attain, as in `selections_in`.

    The first of a list's identical vectors stands for all of them.
    """
    exact = whole([*features, *limits])
    rows = [[start + own[0] for own in identical(exact[start:end])] for start, end in pairwise(offsets)]

    def rows_of(choice: Choice) -> Choice:
        return tuple(one[i] for one, i in zip(rows, choice, strict=False))

    leave = None if hopeless is None else lambda choice: hopeless(rows_of(choice))
    vectors = [[exact[row] for row in one] for one in rows]
    yield from map(rows_of, selections_in(vectors, exact[len(features) :], leave))


def identical(vectors: Iterable[Iterable[Any]]) -> list[list[int]]:
    """The places of each different vector, in the order of the first ones."""
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, vector in enumerate(vectors):
        places.setdefault(tuple(vector), []).append(place)
    return list(places.values())


def all_selections(features: Rows, offsets: Sequence[int]) -> set[Choice]:
    """All attainable selections, counted from 0 within each list."""
    found = attainable(features, offsets)
    return {tuple(row - start for row, start in zip(rows, offsets, strict=False)) for rows in found}


def least_total(features: Rows, offsets: Sequence[int], losses: Sequence[float], ties: str = "first") -> Fraction:
    """The least summed loss of an attainable selection.

    Hypotheses of a list with identical features count as one, with the loss of the first, the best or the worst.
    """
    represent = {"first": lambda group: group[0], "best": min, "worst": max}[ties]
    worth = [Fraction(loss) for loss in losses]
    for start, end in pairwise(offsets):
        for group in identical(features[start:end]):
            same = represent([worth[start + k] for k in group])
            for k in group:
                worth[start + k] = same
    return least_sum(features, offsets, worth)


def least_sum(features: Rows, offsets: Sequence[int], losses: Sequence[Fraction], limits: Rows = ()) -> Any:
    """The least summed loss of a selection that weights attain, as in `attainable`; `None` if there is none."""
    cheapest = [min(losses[start:end]) for start, end in pairwise(offsets)]
    best: list[Fraction] = []

    def hopeless(rows: Choice) -> bool:
        return bool(best) and sum(losses[row] for row in rows) + sum(cheapest[len(rows) :]) >= best[0]

    for rows in attainable(features, offsets, limits, hopeless):
        best[:] = [sum((losses[row] for row in rows), Fraction(0))]
    return best[0] if best else None


def positive_weights(rows: Sequence[Sequence[int]]) -> list[int] | None:
    """Whole weights with a positive product with every row of whole numbers, or `None` where there are none.

    Either answer is checked before it is given: the weights by their products, their absence by a null combination of
    the rows with multipliers of at least 0 (Gordan). They come from one linear program, min t(1) + ... + t(D+1) with
    sum of y_j row_j + t = 0, sum of y_j + t(D+1) = 1, y, t >= 0, by the simplex method in whole numbers (Edmonds: all
    entries over one common denominator) with Bland's rule, which ends.
    """
    width = len(rows[0]) if rows else 0
    distinct = list(dict.fromkeys(primitive(row) for row in rows))
    if not distinct:
        return [0] * width
    count, height = len(distinct), width + 1
    columns = [[*row, 1] for row in distinct]
    table = [
        [*(column[i] for column in columns), *(int(i == k) for k in range(height)), int(i == width)]
        for i in range(height)
    ]
    # What every column would lower the sum of t by, and in the last place that sum.
    gains = [sum(row[j] for row in table) for j in range(count)] + [0] * height + [1]
    basis = list(range(count, count + height))
    denominator = 1
    while (entering := next((j for j in range(count) if gains[j] > 0), None)) is not None:
        candidates = [i for i in range(height) if table[i][entering] > 0]
        leaving = min(candidates, key=lambda i: (Fraction(table[i][-1], table[i][entering]), basis[i]))
        pivot, own = table[leaving][entering], table[leaving]
        for row in (*(row for row in table if row is not own), gains):
            factor = row[entering]
            row[:] = [(pivot * a - factor * b) // denominator for a, b in zip(row, own, strict=True)]
        denominator, basis[leaving] = pivot, entering
    if gains[-1] == 0:
        multipliers = {basis[i]: table[i][-1] for i in range(height) if basis[i] < count}
        sums = [sum(m * distinct[j][d] for j, m in multipliers.items()) for d in range(width)]
        if any(sums) or min(multipliers.values()) < 0 or not any(multipliers.values()):
            raise ArithmeticError("the oracle's multipliers do not balance the rows")
        return None
    # The gain of t(k) is the k-th dual value less 1, over the denominator; at the end none of the columns gains.
    weights = [-(gains[count + k] + denominator) for k in range(width)]
    if any(inner(weights, row) <= 0 for row in distinct):
        raise ArithmeticError("the oracle's weights have no positive product with every row")
    return list(primitive(weights))


def whole(rows: Rows) -> list[list[int]]:
    """The rows times one common positive factor that makes them whole."""
    ratios = [[Fraction(value) for value in row] for row in rows]
    factor = lcm(*(value.denominator for row in ratios for value in row))
    return [[int(value * factor) for value in row] for row in ratios]


def null_space(equations: Sequence[Sequence[Fraction]], width: int) -> list[list[Fraction]]:
    """A basis of the vectors [width] whose product with every equation is 0."""
    system = [list(row) for row in equations]
    pivots: list[int] = []
    for column in range(width):
        top = len(pivots)
        found = next((i for i in range(top, len(system)) if system[i][column] != 0), None)
        if found is None:
            continue
        system[top], system[found] = system[found], system[top]
        system[top] = [value / system[top][column] for value in system[top]]
        for i, row in enumerate(system):
            if i != top and row[column] != 0:
                system[i] = [a - row[column] * b for a, b in zip(row, system[top], strict=True)]
        pivots.append(column)
    basis = []
    for free in (column for column in range(width) if column not in pivots):
        vector = [Fraction(int(column == free)) for column in range(width)]
        for i, pivot in enumerate(pivots):
            vector[pivot] = -system[i][free]
        basis.append(vector)
    return basis


def selections_in(
    lists: Sequence[Sequence[Sequence[int]]], limits: Sequence[Sequence[int]] = (), hopeless: Hopeless | None = None
) -> Iterator[Choice]:
    """Every selection that weights with a positive product with all limits make strictly best, counted within lists.

    Depth first; choices of the first lists that are hopeless are not followed.
    """

    def extend(choice: Choice, rows: list[tuple[int, ...]], near: list[int]) -> Iterator[Choice]:
        if len(choice) == len(lists):
            yield choice
            return
        one = lists[len(choice)]
        for i, chosen in enumerate(one):
            longer = (*choice, i)
            if hopeless is not None and hopeless(longer):
                continue
            new = [tuple(a - b for a, b in zip(chosen, other, strict=True)) for k, other in enumerate(one) if k != i]
            serves = all(inner(near, row) > 0 for row in new)
            weights = near if serves else positive_weights([*rows, *new])
            if weights is not None:
                yield from extend(longer, [*rows, *new], weights)

    start = positive_weights([tuple(row) for row in limits]) if limits else [0] * len(lists[0][0]) if lists else []
    if start is not None:
        yield from extend((), [tuple(row) for row in limits], start)


def primitive(row: Sequence[int]) -> tuple[int, ...]:
    divisor = gcd(*row)
    return tuple(value // divisor for value in row) if divisor > 1 else tuple(row)


def inner(first: Iterable[Any], second: Iterable[Any]) -> Any:
    """The inner product of two vectors of exact numbers."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def dot(first: Iterable[float | Fraction], second: Iterable[float | Fraction]) -> Fraction:
    """The exact inner product of two vectors of any numbers."""
    return Fraction(inner(map(Fraction, first), map(Fraction, second)))


# The same of lists as arrays.


@dataclass(frozen=True)
class Lists:
    """Plain arrays of one problem: features [M, D], offsets [S + 1], losses [M]."""

    features: FloatArray
    offsets: IntArray
    losses: NDArray[Any]

    @property
    def nbest(self) -> lpmert.NBest:
        return lpmert.NBest(features=self.features, offsets=self.offsets, statistics=self.losses)

    @property
    def n_lists(self) -> int:
        return len(self.offsets) - 1

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First and last-plus-one row of every list."""
        return pairwise(self.offsets.tolist())


Answer = TypeVar("Answer")


def remembered(compute: Callable[..., Answer]) -> Callable[..., Answer]:
    """An oracle that keeps what it says of lists: many tests ask for the same, and exact arithmetic takes its time.

    It is asked by place, and nothing that it is given changes later.
    """
    known: dict[tuple[object, ...], Answer] = {}

    @wraps(compute)
    def answer(lists: Lists, *of: object) -> Answer:
        given = lists.features, lists.offsets, lists.losses, *of
        key = tuple((one.shape, one.tobytes()) if isinstance(one, np.ndarray) else one for one in given)
        if key not in known:
            known[key] = compute(lists, *of)
        return known[key]

    return answer


@remembered
def best_loss(lists: Lists, ties: str = "first") -> Fraction:
    """The least loss of an attainable selection, exactly."""
    return least_total(lists.features.tolist(), lists.offsets.tolist(), lists.losses.tolist(), ties)


def exact_decode(lists: Lists, weights: FloatArray, ties: str = "first") -> tuple[list[int], int]:
    """Each list's winner at these weights (counted in its list) in exact arithmetic, and how many lists are tied.

    Hypotheses with identical features count as one, for which the first, best or worst stands; else the first wins.
    """
    exact = [Fraction(value) for value in weights.tolist()]
    winners, tied = [], 0
    for begin, end in lists.ranges():
        rows = [tuple(map(Fraction, row)) for row in lists.features[begin:end].tolist()]
        scores = [inner(exact, row) for row in rows]
        best = scores.index(max(scores))
        tied += len({row for row, score in zip(rows, scores, strict=True) if score == scores[best]}) > 1
        (same,) = (group for group in identical(rows) if best in group)
        winners.append(_standing(same, lists.losses[begin:end], ties))
    return winners, tied


def _standing(group: list[int], losses: NDArray[Any], ties: str) -> int:
    """Which of the hypotheses with identical features stands for them."""
    sign = {"first": 0, "best": 1, "worst": -1}[ties]
    return min(group, key=lambda k: sign * losses[k])


def decoded(features: FloatArray, offsets: Sequence[int], weights: Any) -> IntArray:
    """The row that plain floating point chooses from each list, the first of equal scores."""
    scores = features @ np.asarray(weights)
    return np.array([begin + int(np.argmax(scores[begin:end])) for begin, end in pairwise(offsets)])


def decoded_loss(nbest: lpmert.NBest, weights: Any) -> float:
    """The sum of the first statistic over what plain floating point chooses."""
    return float(nbest.statistics[decoded(nbest.dense_features(), nbest.offsets.tolist(), weights), 0].sum())


def directions_of_the_plane(features: FloatArray, offsets: Sequence[int]) -> Iterator[FloatArray]:
    """One direction between any two neighbours at which hypotheses of a list tie: of two features, all choices."""
    steps = [features[begin:end, None] - features[begin:end] for begin, end in pairwise(offsets)]
    x, y = np.concatenate([step.reshape(-1, 2)[step.any(axis=2).ravel()] for step in steps]).T
    angles = np.unique(np.arctan2(x, -y) % (2 * np.pi))
    for middle in (angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2:
        yield np.array([np.cos(middle), np.sin(middle)])


def clear_winners(lists: SortedLists, weights: Sequence[Fraction]) -> list[int] | None:
    """The row that is strictly best in every list in exact arithmetic, `None` if hypotheses tie for a best place."""
    chosen = []
    for begin, end in pairwise(lists.offsets.tolist()):
        scores = [inner(map(Fraction, row), weights) for row in lists.rows[begin:end].tolist()]
        best = max(scores)
        if scores.count(best) > 1:
            return None
        chosen.append(begin + scores.index(best))
    return chosen


def exact_cost(lists: SortedLists, weights: Sequence[Fraction]) -> int | None:
    """What weights cost beyond the least of every list, whose rows come by cost; `None` if hypotheses tie."""
    chosen = clear_winners(lists, weights)
    return None if chosen is None else int((lists.costs[chosen] - lists.costs[lists.offsets[:-1]]).sum())


def loss_of(lists: Lists, selection: list[int] | IntArray) -> Fraction:
    """The exact sum of the losses of a selection."""
    rows = lists.offsets[:-1] + np.asarray(selection)
    return sum((Fraction(value) for value in lists.losses[rows].tolist()), Fraction(0))


def attainable_totals(lists: Lists, statistics: FloatArray, limits: Rows = ()) -> list[list[float]]:
    """The summed statistics of every selection that some weights attain without a tie, all limits' products above 0."""
    return [statistics[list(chosen)].sum(axis=0).tolist() for chosen in _attainable(lists, tuple(limits))]


@remembered
def _attainable(lists: Lists, limits: Rows) -> list[Choice]:
    return list(attainable(lists.features.tolist(), lists.offsets.tolist(), limits))


# What may end as "optimal to tolerance", and what must hold of it all the same.

CLEAR = 1e-9
"""Weights with which every winner leads by more than this share of the size of the scores are far from any tie."""


def assert_to_tolerance(
    result: lpmert.Result, lists: Lists, least: Any, loss: Callable[[Choice], Any], slack: float, ties: str = "first"
) -> None:
    """The bound is the least loss; a lower loss than the result's needs weights that are hardly told from a tie.

    loss: that of a selection, which counts from 0 in each list; losses closer than the slack are the same.
    """
    assert abs(result.lower_bound - float(least)) <= slack
    assert least <= result.loss + slack
    standing = [
        [_standing(group, lists.losses[begin:end], ties) for group in identical(lists.features[begin:end].tolist())]
        for begin, end in lists.ranges()
    ]
    for selection in product(*standing):
        if loss(selection) < result.loss - slack:
            assert not clearly_attainable(lists, selection), f"clear weights attain {float(loss(selection))}"


def clearly_attainable(lists: Lists, selection: Choice) -> bool:
    """Whether weights are found with which each hypothesis selected leads by more than `CLEAR` of the scores' size.

    The size is the sum of |w| |f| over the features, with the larger |f| of the two. Guessed by linear programming
    with weights u - v, u and v >= 0; decided in fractions.
    """
    leads, sizes = [], []
    for (begin, end), chosen in zip(lists.ranges(), selection, strict=True):
        best = lists.features[begin + chosen]
        for other in lists.features[begin:end]:
            if (other != best).any():
                leads.append([Fraction(a) - Fraction(b) for a, b in zip(best.tolist(), other.tolist(), strict=True)])
                sizes.append(np.maximum(np.abs(best), np.abs(other)))
    if not leads:
        return True
    size = np.array(sizes)
    columns = np.where(size.any(axis=0), size.max(axis=0), 1.0)
    size = size / columns
    rows = size.max(axis=1, keepdims=True)
    lead = np.array([[float(x) for x in row] for row in leads]) / columns / rows
    size = size / rows
    width = len(columns)
    answer = linprog(
        np.append(np.zeros(2 * width), -1.0),
        A_ub=np.column_stack([CLEAR * size - lead, CLEAR * size + lead, np.ones(len(lead))]),
        b_ub=np.zeros(len(lead)),
        bounds=[(0, 1)] * (2 * width) + [(None, None)],
        method="highs-ds",
    )
    if answer.status != 0:
        return False
    weights = [Fraction(w) for w in ((answer.x[:width] - answer.x[width:-1]) / columns).tolist()]
    magnitudes = [dot(map(abs, weights), one.tolist()) for one in sizes]
    return all(inner(weights, row) > Fraction(CLEAR) * own for row, own in zip(leads, magnitudes, strict=True))


# Weights within a cosine of given ones, by library routines and enumeration.


def reaches(rows: FloatArray, centre: FloatArray, cosine: float) -> bool:
    """Whether an open cone {rows w > 0} has weights within a cosine of at least 0, by library routines only."""
    width = rows.shape[1]
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not norms.all():
        return False
    rows = rows / norms
    leads, box = np.column_stack([-rows, np.ones(len(rows))]), [(-1, 1)] * width + [(None, 1)]
    program = linprog(np.append(np.zeros(width), -1.0), leads, np.zeros(len(rows)), bounds=box)
    if -program.fun < 1e-9:
        return False
    multipliers, _ = nnls(rows.T, -centre)
    return bool(np.linalg.norm(centre + multipliers @ rows) >= cosine)


@remembered
def best_within(lists: Lists, centre: FloatArray, cosine: float, loss: Callable[[FloatArray], float] = float) -> float:
    """The least loss of a selection attainable within the cosine, by enumeration; loss: of summed statistics.

    Of hypotheses with identical features the first stands for all.
    """
    unit = centre / np.linalg.norm(centre)
    choices = list(product(*(range(a, b) for a, b in lists.ranges())))
    for choice in sorted(choices, key=lambda c: loss(lists.losses[list(c)].sum(axis=0))):
        rows = [
            lists.features[i] - lists.features[j]
            for i, (a, b) in zip(choice, lists.ranges(), strict=True)
            for j in range(a, b)
            if j < i or (lists.features[j] != lists.features[i]).any()
        ]
        if not rows or reaches(np.array(rows), unit, cosine):
            return loss(lists.losses[list(choice)].sum(axis=0))
    raise AssertionError("no selection reaches the cap")
