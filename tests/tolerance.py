"""What may end as "optimal to tolerance", how often, and what must hold of it all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.optimize import linprog
from strategies import Lists, exact_decode, loss_of

from lpmert import Result, Status

NARROW = frozenset({"ulps", "opposite", "nearly collinear", "offset", "scales"})
"""Kinds in which the cell of the best selection can be too narrow for doubles."""

SHARE = 0.01
"""Even of these hardly any are: most often some doubles lie in the narrowest of cells."""

CLEAR = 1e-9
"""Weights with which every winner leads by more than this share of the size of the scores are far from any tie."""


class Tolerated:
    """Takes the results of one kind of problem that are optimal to tolerance, and counts them by method."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._seen: Counter[str] = Counter()
        self._short: Counter[str] = Counter()

    def count(self, result: Result) -> bool:
        """Whether the result is optimal to tolerance only; asserts that its kind may be so."""
        self._seen[result.method] += 1
        if result.status is not Status.OPTIMAL_TO_TOLERANCE:
            return False
        assert self._kind in NARROW, f"{result.method} does not prove the loss {result.loss}"
        self._short[result.method] += 1
        return True

    def take(self, result: Result, lists: Lists, least: Fraction, ties: str = "first") -> bool:
        """The same; asserts too that what such a result says holds."""
        taken = self.count(result)
        if taken:
            slack = 1e-12 * float(np.abs(lists.losses).sum())
            assert_to_tolerance(result, lists, least, lambda selection: loss_of(lists, list(selection)), slack, ties)
        return taken

    def assert_least(self, result: Result, lists: Lists, least: Fraction, ties: str = "first") -> None:
        """The weights have the loss that is said; it is the least one and proved to be, or this takes the result."""
        assert result.loss == float(loss_of(lists, exact_decode(lists, result.weights, ties)[0]))
        self.assert_proved(result, lists, least, ties)

    def assert_proved(self, result: Result, lists: Lists, least: Fraction, ties: str = "first") -> None:
        """The loss is the least one and proved to be, or this takes the result."""
        if not self.take(result, lists, least, ties):
            assert result.status is Status.OPTIMAL
            assert result.lower_bound == result.loss
            assert abs(result.loss - float(least)) <= 1e-12 * float(np.abs(lists.losses).sum())

    def assert_rare(self) -> None:
        """One result of a method is not proved at most, or one in a hundred."""
        for method, count in self._short.items():
            assert count <= max(1, SHARE * self._seen[method]), (method, count, self._seen[method])


def assert_to_tolerance(
    result: Result,
    lists: Lists,
    least: Fraction | float,
    loss: Callable[[tuple[int, ...]], Fraction | float],
    slack: float,
    ties: str = "first",
) -> None:
    """The bound is the least loss; a lower loss than the result's needs weights that are hardly told from a tie.

    loss: that of a selection, which counts from 0 in each list; losses closer than the slack are the same.
    """
    assert result.lower_bound is not None
    assert abs(result.lower_bound - float(least)) <= slack
    assert least <= result.loss + slack
    for selection in product(*(_standing(lists, begin, end, ties) for begin, end in lists.ranges())):
        if loss(selection) < result.loss - slack:
            assert not clearly_attainable(lists, selection), f"clear weights attain {float(loss(selection))}"


def clearly_attainable(lists: Lists, selection: tuple[int, ...]) -> bool:
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
    return all(
        sum(w * a for w, a in zip(weights, row, strict=True))
        > Fraction(CLEAR) * sum(abs(w) * Fraction(b) for w, b in zip(weights, magnitudes.tolist(), strict=True))
        for row, magnitudes in zip(leads, sizes, strict=True)
    )


def _standing(lists: Lists, begin: int, end: int, ties: str) -> list[int]:
    """The hypotheses of a list, counted from 0, that stand for those with identical features."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for h in range(end - begin):
        groups.setdefault(tuple(lists.features[begin + h].tolist()), []).append(h)
    cost = lists.losses[begin:end].__getitem__
    if ties == "first":
        return [group[0] for group in groups.values()]
    return [(min if ties == "best" else max)(group, key=cost) for group in groups.values()]
