"""Exact answers for tiny problems in whole numbers; shares no code with the package that it is there to check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

Vector = Sequence[Fraction]


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


def strictly_feasible(rows: Sequence[Sequence[float | Fraction | int]]) -> bool:
    """Whether some w has a strictly positive product with every row."""
    return positive_weights(whole(rows)) is not None


def attainable(
    features: Sequence[Sequence[float]],
    offsets: Sequence[int],
    limits: Sequence[Sequence[float | Fraction]] = (),
    hopeless: Callable[[tuple[int, ...]], bool] | None = None,
) -> Iterator[tuple[int, ...]]:
    """The rows of every selection that weights with a positive product with all limits attain, as in `selections_in`.

    The first of a list's identical vectors stands for all of them.
    """
    exact = whole([*features, *limits])
    firsts: list[dict[tuple[int, ...], int]] = []
    for start, end in pairwise(offsets):
        firsts.append({})
        for row in range(start, end):
            firsts[-1].setdefault(tuple(exact[row]), row)
    rows = [list(first.values()) for first in firsts]

    def rows_of(choice: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(one[i] for one, i in zip(rows, choice, strict=False))

    leave = None if hopeless is None else lambda choice: hopeless(rows_of(choice))
    yield from map(rows_of, selections_in([list(first) for first in firsts], exact[len(features) :], leave))


def all_selections(features: Sequence[Sequence[float]], offsets: Sequence[int]) -> set[tuple[int, ...]]:
    """All attainable selections, counted from 0 within each list."""
    return {
        tuple(row - start for row, start in zip(rows, offsets, strict=False)) for rows in attainable(features, offsets)
    }


def best_loss(
    features: Sequence[Sequence[float]], offsets: Sequence[int], losses: Sequence[float], ties: str = "first"
) -> Fraction:
    """The least summed loss of an attainable selection.

    Hypotheses of a list with identical features count as one, with the loss of the first, the best or the worst.
    """
    represent = {"first": lambda group: group[0], "best": min, "worst": max}[ties]
    worth: dict[int, Fraction] = {}
    cheapest = []
    for start, end in pairwise(offsets):
        groups: dict[Sequence[float], list[int]] = {}
        for row in range(start, end):
            groups.setdefault(tuple(features[row]), []).append(row)
        own = {group[0]: represent([Fraction(losses[row]) for row in group]) for group in groups.values()}
        cheapest.append(min(own.values()))
        worth |= own
    best: list[Fraction] = []

    def hopeless(rows: tuple[int, ...]) -> bool:
        return bool(best) and sum(worth[row] for row in rows) + sum(cheapest[len(rows) :]) >= best[0]

    for rows in attainable(features, offsets, (), hopeless):
        best[:] = [sum((worth[row] for row in rows), Fraction(0))]
    return best[0]


def is_strictly_best(
    features: Sequence[Sequence[float]],
    offsets: Sequence[int],
    selection: Sequence[int],
    weights: Sequence[float | int],
) -> bool:
    """Whether the weights make the selected hypothesis of every list better than all others of it."""
    exact = [Fraction(weight) for weight in weights]
    return all(
        sum(w * g for w, g in zip(exact, row, strict=True)) > 0
        for row in _differences(_lists(features, offsets), selection)
    )


def _lists(features: Sequence[Sequence[float]], offsets: Sequence[int]) -> list[list[Vector]]:
    exact = [tuple(Fraction(float(value)) for value in row) for row in features]
    return [exact[start:end] for start, end in pairwise(offsets)]


def _differences(lists: Sequence[Sequence[Vector]], choice: Sequence[int]) -> Iterator[Vector]:
    for one, chosen in zip(lists, choice, strict=True):
        for place, other in enumerate(one):
            if place != chosen:
                yield tuple(a - b for a, b in zip(one[chosen], other, strict=True))


def positive_weights(rows: Sequence[Sequence[int]]) -> list[int] | None:
    """Whole weights with a positive product with every row of whole numbers, or `None` where there are none.

    Either answer is checked before it is given: the weights by their products, their absence by a null combination of
    the rows with multipliers of at least 0 (Gordan). They come from one linear program, min t(1) + ... + t(D+1) with
    sum of y_j row_j + t = 0, sum of y_j + t(D+1) = 1, y, t >= 0, by the simplex method in whole numbers (Edmonds: all
    entries over one common denominator) with Bland's rule, which ends.
    """
    width = len(rows[0]) if rows else 0
    distinct = list(dict.fromkeys(_primitive(row) for row in rows))
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
    if any(_product(weights, row) <= 0 for row in distinct):
        raise ArithmeticError("the oracle's weights have no positive product with every row")
    return list(_primitive(weights))


def whole(rows: Sequence[Sequence[float | Fraction]]) -> list[list[int]]:
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
    lists: Sequence[Sequence[Sequence[int]]],
    limits: Sequence[Sequence[int]] = (),
    hopeless: Callable[[tuple[int, ...]], bool] | None = None,
) -> Iterator[tuple[int, ...]]:
    """Every selection that weights with a positive product with all limits make strictly best, counted within lists.

    Depth first; choices of the first lists that are hopeless are not followed.
    """

    def extend(choice: tuple[int, ...], rows: list[tuple[int, ...]], near: list[int]) -> Iterator[tuple[int, ...]]:
        if len(choice) == len(lists):
            yield choice
            return
        one = lists[len(choice)]
        for i, chosen in enumerate(one):
            longer = (*choice, i)
            if hopeless is not None and hopeless(longer):
                continue
            new = [tuple(a - b for a, b in zip(chosen, other, strict=True)) for k, other in enumerate(one) if k != i]
            serves = all(_product(near, row) > 0 for row in new)
            weights = near if serves else positive_weights([*rows, *new])
            if weights is not None:
                yield from extend(longer, [*rows, *new], weights)

    start = positive_weights([tuple(row) for row in limits]) if limits else [0] * len(lists[0][0]) if lists else []
    if start is not None:
        yield from extend((), [tuple(row) for row in limits], start)


def _primitive(row: Sequence[int]) -> tuple[int, ...]:
    divisor = gcd(*row)
    return tuple(value // divisor for value in row) if divisor > 1 else tuple(row)


def _product(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(first, second, strict=True))
