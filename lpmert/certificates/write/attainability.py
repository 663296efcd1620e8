"""Whether some weights make given choices: a witness, or a core with its exact multipliers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import gcd, lcm
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.certificates.check.lists import ProofLists, rounded
from lpmert.certificates.check.regions import axes
from lpmert.certificates.check.tree import Node, root_node
from lpmert.numeric import rational
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, first_best, sorted_lists

_EXACT_BITS = 53  # features with no more bits are exact in doubles
Choices = Mapping[int, int]  # list -> row


class SelectionOrCore(NamedTuple):
    """The selection (list -> row) at weights that make the choices, or else a core.

    core: [list, other hypothesis, multiplier, list, ...]. weights: those of the selection, for `ProofLists.whole` or
    `ProofLists.features`, in integers or doubles.
    """

    selection: Choices | None
    core: list[int]
    weights: Sequence[float] = ()


Feasibility = Callable[[Choices], SelectionOrCore]  # decides whether some weights make choices


class Anywhere:
    """Decides whether any weights make choices: by the point of least norm, and exactly where rounding leaves doubt."""

    def __init__(self, lists: ProofLists) -> None:
        n_features = lists.features.shape[1]
        self._lists = lists
        unsorted = sorted_lists(lists.features, lists.offsets, np.zeros(len(lists.features), dtype=np.int64))
        self._least_norm = core.LeastNorm(unsorted.native())
        self._corral, self._origin = core.Corral(n_features), np.zeros(n_features)

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices of at least one list."""
        answer = self._in_doubles(chosen)
        exact = self._lists.bits <= _EXACT_BITS
        if answer is None or not (exact or answer.selection is None or self._confirmed(answer, chosen)):
            return self._exactly(chosen)
        return answer

    @cached_property
    def _exactly(self) -> Inside:
        return Inside(self._lists, root_node(self._lists))

    def _confirmed(self, answer: SelectionOrCore, chosen: Choices) -> bool:
        """Whether the weights make all choices in exact arithmetic, without ties."""
        lists = self._lists
        (weights,) = np.array(rational.to_integers([answer.weights]), dtype=object)
        for number, row in chosen.items():
            scores = lists.whole[lists.offsets[number] : lists.offsets[number + 1]] @ weights
            if np.count_nonzero(scores >= scores[row - lists.offsets[number]]) > 1:
                return False
        return True

    def _in_doubles(self, chosen: Choices) -> SelectionOrCore | None:
        """Return the answer, or `None` if rounding leaves doubt or a core does not hold for the exact features."""
        lists, corral = self._lists, self._corral
        decided = np.array(list(chosen), dtype=np.int64)
        positions = np.full(len(lists.offsets) - 1, -1)
        positions[decided] = np.array(list(chosen.values())) - lists.offsets[decided]
        corral.restart(self._origin)  # so that the answer does not depend on earlier questions
        verdict = self._least_norm.separate(decided, positions, 0, corral)
        if verdict == FEASIBLE:  # rounding may decide in lists without a choice
            rows = first_best(lists.features @ corral.point, lists.offsets[:-1])
            return SelectionOrCore({**dict(enumerate(rows.tolist())), **chosen}, [], corral.point.tolist())
        if verdict == INFEASIBLE:
            others = corral.others + lists.offsets[corral.lists]
            pairs = [(chosen[s], row) for s, row in zip(corral.lists.tolist(), others.tolist(), strict=True)]
            multipliers = rational.farkas([(lists.whole[row] - lists.whole[other]).tolist() for row, other in pairs])
            if multipliers is not None:
                return SelectionOrCore(None, _core(lists, pairs, multipliers))
        return None


class Inside:
    """Decides in exact arithmetic whether weights inside a box, or any weights, make choices."""

    def __init__(self, lists: ProofLists, node: Node) -> None:
        self._lists, self._rows, self._starts = lists, node.rows, node.starts
        boxed = len(node.box.rays) > 0
        rays = node.box.rays if boxed else axes(lists.features.shape[1])
        self._rays: list[list[int]] = rays.tolist()
        self._table = lists.whole[node.rows] @ rays.T
        self._rounded, _ = rounded(self._table)
        self._numbers: list[int] = lists.numbers[node.rows[node.starts]].tolist()
        self._places = {s: slice(k, k + n) for s, k, n in zip(self._numbers, node.starts, node.sizes, strict=True)}
        units = np.eye(len(self._rays), dtype=np.int64)
        # Shares of the rays give weights inside the box if none is larger in size than the share of the centre.
        inside = np.concatenate([units[:1], units[0] + units[1:], units[0] - units[1:]])
        self._inside: list[list[int]] = inside.tolist() if boxed else []
        self._first: list[int] = (units[0] if boxed else units.sum(axis=0)).tolist()

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices among the survivors of the node."""
        pairs: list[tuple[int, int]] = []
        rows, divisors = list(self._inside), []
        shares = self._first
        while True:
            broken = self._broken(shares, chosen)
            if not broken:
                columns = zip(*self._rays, strict=True)
                point = [sum(x * y for x, y in zip(shares, column, strict=True)) for column in columns]
                return SelectionOrCore(self._decoded(shares, chosen), [], point)
            pairs += [(row, other) for row, other, _ in broken]
            for _, _, lead in broken:
                divisors.append(gcd(*lead) or 1)
                rows.append([value // divisors[-1] for value in lead])
            answer = rational.decide(rows)
            if isinstance(answer, rational.Infeasible):
                common = lcm(*divisors)
                products = zip(answer.multipliers[len(self._inside) :], divisors, strict=True)
                return SelectionOrCore(
                    None, _core(self._lists, pairs, [m * (common // divisor) for m, divisor in products])
                )
            shares = answer.weights

    def _broken(self, shares: list[int], chosen: Choices) -> list[tuple[int, int, list[int]]]:
        """Return the choices that are not strictly best, each with its best rival and its own lead at the rays."""
        broken = []
        for number, row in chosen.items():
            if number not in self._places:
                continue
            rows, table = self._rows[self._places[number]].tolist(), self._table[self._places[number]]
            choice = rows.index(row)
            scores = (table @ np.array(shares, dtype=object)).tolist()
            rival = max((k for k in range(len(rows)) if k != choice), key=scores.__getitem__, default=choice)
            if rival != choice and scores[rival] >= scores[choice]:
                broken.append((row, rows[rival], (table[choice] - table[rival]).tolist()))
        return broken

    def _decoded(self, shares: list[int], chosen: Choices) -> Choices:
        """Return the selection at weights that make the choices; in all other lists rounding may decide."""
        if not len(self._rows):
            return chosen
        best = first_best(self._rounded @ rounded(np.array(shares, dtype=object))[0], self._starts)
        return {**dict(zip(self._numbers, self._rows[best].tolist(), strict=True)), **chosen}


def _core(lists: ProofLists, pairs: list[tuple[int, int]], multipliers: list[int]) -> list[int]:
    """Return a core as a record holds it; pairs: the rows of choices and others, with a multiplier each."""
    divisor = gcd(*multipliers)
    return [
        value
        for (_, other), multiplier in zip(pairs, multipliers, strict=True)
        if multiplier
        for value in (*lists.places[other], multiplier // divisor)
    ]
