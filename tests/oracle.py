"""Exact answers for tiny problems by brute force; shares no code with the package that it is there to check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

Vector = Sequence[Fraction]


def strictly_feasible(rows: Sequence[Sequence[float | Fraction | int]]) -> bool:
    """Whether some w has a strictly positive product with every row.

    By Gordan and Caratheodory there is none exactly when at most D+1 rows, linearly dependent in one way only, add up
    to zero with positive multipliers; all such sets are tried.
    """
    exact = [tuple(Fraction(value) for value in row) for row in rows]
    width = len(exact[0]) if exact else 0
    supports = (some for size in range(1, width + 2) for some in combinations(exact, size))
    return not any(_balanced(support) for support in supports)


def all_selections(features: Sequence[Sequence[float]], offsets: Sequence[int]) -> set[tuple[int, ...]]:
    """All attainable selections, counted from 0 within each list; no list may hold a feature vector twice."""
    lists = _lists(features, offsets)
    return {choice for choice in product(*(range(len(one)) for one in lists)) if _attainable(lists, choice)}


def best_loss(
    features: Sequence[Sequence[float]], offsets: Sequence[int], losses: Sequence[float], ties: str = "first"
) -> Fraction:
    """The least summed loss of an attainable selection.

    Hypotheses of a list with identical features count as one, with the loss of the first, the best or the worst.
    """
    represent = {"first": lambda group: group[0], "best": min, "worst": max}[ties]
    lists, costs = [], []
    for one, start in zip(_lists(features, offsets), offsets, strict=False):
        groups: dict[Vector, list[Fraction]] = {}
        for place, vector in enumerate(one):
            groups.setdefault(vector, []).append(Fraction(losses[start + place]))
        lists.append(list(groups))
        costs.append([represent(group) for group in groups.values()])
    choices = product(*(range(len(one)) for one in lists))
    totals = ((sum(cost[i] for cost, i in zip(costs, choice, strict=True)), choice) for choice in choices)
    return next(total for total, choice in sorted(totals) if _attainable(lists, choice))


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


def _attainable(lists: Sequence[Sequence[Vector]], choice: Sequence[int]) -> bool:
    return strictly_feasible(list(_differences(lists, choice)))


def _differences(lists: Sequence[Sequence[Vector]], choice: Sequence[int]) -> Iterator[Vector]:
    for one, chosen in zip(lists, choice, strict=True):
        for place, other in enumerate(one):
            if place != chosen:
                yield tuple(a - b for a, b in zip(one[chosen], other, strict=True))


def _balanced(support: Sequence[Vector]) -> bool:
    """Whether the vectors have a null combination, one only, and with positive multipliers."""
    count = len(support)
    system = [[vector[i] for vector in support] for i in range(len(support[0]))]
    pivots: list[int] = []
    for column in range(count):
        top = len(pivots)
        row = next((i for i in range(top, len(system)) if system[i][column] != 0), None)
        if row is None:
            continue
        system[top], system[row] = system[row], system[top]
        head = [value / system[top][column] for value in system[top]]
        system[top] = head
        for i, other in enumerate(system):
            if i != top and other[column] != 0:
                system[i] = [value - other[column] * pivot for value, pivot in zip(other, head, strict=True)]
        pivots.append(column)
    free = [column for column in range(count) if column not in pivots]
    return len(free) == 1 and all(system[i][free[0]] < 0 for i in range(len(pivots)))
