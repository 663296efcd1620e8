"""Grow the tree over selections of a certificate: exclude choices by cores, bound, branch, depth first.

The optimum is known, so that the search only shows that nothing undercuts it; it decides as
methods/choices/choices.py does. Every record is checked by the certificate's own rules before it is written, and these
say which nodes come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.tree import Part, closed, may_undercut, priced
from lpmert.certificates.format import Record
from lpmert.certificates.write.attainability import Choices, Feasibility, SelectionOrCore
from lpmert.errors import CertificateError
from lpmert.system.deadline import checkpoint

_SHARPNESS = 2.0
_CORE_PREFERENCE = 3.0
_MOST_POINTS = 3

Alive = dict[int, tuple[int, ...]]


class Undercut(Exception):
    """A selection that undercuts the claim is attainable, at these weights; cost: of a claim of one sum."""

    def __init__(self, cost: int, weights: Sequence[float]) -> None:
        super().__init__(f"a selection costs {cost}")
        self.cost, self.weights = cost, weights


class SelectionTree:
    """The tree below a part; `feasible` answers for the weights inside its shape."""

    def __init__(self, lists: ProofLists, root: Part, feasible: Feasibility, add: Callable[[Record], None]) -> None:
        self.lists = lists
        self.feasible = feasible
        self._root = root
        self._add = add

    def grow(self) -> None:
        """Add all records of the tree; raises `Undercut` if something is attainable below the target."""
        waiting: list[tuple[Iterator[Part], list[Choices]]] = [(iter([self._root]), [])]
        while waiting:
            checkpoint()
            parts, witnesses = waiting[-1]
            part = next(parts, None)
            if part is None:
                waiting.pop()
                continue
            if part.take is not None:
                number, row = part.take
                witnesses = [witness for witness in witnesses if witness[number] == row]
            record = _Work(self, part, witnesses).record()
            _, children = closed(self.lists, part, record)
            self._add(record)
            waiting.append((children, witnesses))


class Node(NamedTuple):
    """A part as the search sees it, at its prices: the rows left of every open list, in order of cost, and their costs.

    fixed: the cost of all that is settled; target: what closes it.
    """

    part: Part
    alive: Mapping[int, tuple[int, ...]]
    cost: Mapping[int, int]
    fixed: int
    target: int

    @property
    def cheapest(self) -> dict[int, int]:
        """The cheapest row of every open list."""
        return {s: rows[0] for s, rows in self.alive.items()}


def node_of(lists: ProofLists, part: Part) -> Node:
    """Return a part as the search sees it."""
    cost = dict(zip(part.rows.tolist(), part.costs(lists).tolist(), strict=True))
    alive: dict[int, list[int]] = {}
    for row, number in zip(cost, lists.numbers[part.rows].tolist(), strict=True):
        if number not in part.chosen:  # where limits are
            alive.setdefault(number, []).append(row)
    ordered = {s: tuple(sorted(rows, key=cost.__getitem__)) for s, rows in alive.items()}
    return Node(part, ordered, cost, part.price.of(part.fixed.tolist()), part.price.target)


class _Work:
    """One node while its record is put together; new witnesses are added to those given.

    `bound` is that of the node, infinite once nothing is attainable. left: what cores can still charge to each list.
    """

    def __init__(self, tree: SelectionTree, part: Part, witnesses: list[Choices]) -> None:
        self._tree = tree
        self._part = part
        self._node = node = node_of(tree.lists, part)
        self._witnesses = witnesses
        self._alive: Alive = dict(node.alive)
        self._empty = False
        self._out: list[tuple[int, int, list[int]]] = []
        self._known: list[int] = []
        self._cores: list[list[int]] = []
        self._left: dict[int, int] = {}
        self._charged: set[int] = set()

    def record(self) -> Record:
        """Return the record that closes the node or says where to branch."""
        part, places = self._part, self._tree.lists.places
        record: Record = {} if part.take is None else {"take": list(places[part.take[1]])}
        at = self._weigh()
        self._close_if_infeasible()
        self._exclude()
        if self._out:
            record["out"] = [[*places[row], *core] for _, row, core in self._out]
            if self._tree.lists.claim.several and not self._empty:
                self._part = part.only(~np.isin(part.rows, [row for _, row, _ in self._out]))
                at = self._weigh()
        if at and not self._empty:
            record["at"] = at
        if not self._closed:
            self._charge_cores()
        if self._known:
            record["known"] = self._known
        if self._cores:
            record["cores"] = self._cores
        if not self._closed:
            record["branch"] = self._branch()
        return record

    def _weigh(self) -> list[int]:
        """Set the bound and return the sums whose prices it is at, none where it needs no prices or the node closes."""
        lists, part = self._tree.lists, self._part
        self._node = node_of(lists, part)
        at: list[int] = []
        self._shut = False
        if lists.claim.several:
            low, high = part.box(lists)
            self._shut = not may_undercut(lists, low, high)
            middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
            for _ in range(0 if self._shut else _MOST_POINTS):
                new = point(lists, self._worth(self._node.cheapest) if at else middle)
                if new == at:
                    break
                try:
                    self._node = node_of(lists, priced(lists, part, new))
                except CertificateError:
                    at = []
                    self._node = node_of(lists, part)
                    break
                at = new
        self._alive = dict(self._node.alive)
        self._bound = self._node.fixed + sum(self._node.cost[rows[0]] for rows in self._alive.values())
        return at

    @property
    def _closed(self) -> bool:
        return self._empty or self._shut or self._bound >= self._node.target

    def _close_if_infeasible(self) -> None:
        """Close the node if the choices that led here do not go together."""
        if self._part.take is not None and not self._witnesses and not self._closed:
            answer = self._feasible(self._part.chosen)
            if answer.selection is None:
                self._cores.append(answer.core)
                self._charge(answer.core[::3])

    def _exclude(self) -> None:
        """Exclude the cheapest hypotheses of lists as long as they do not go together with the choices made."""
        cost = self._node.cost
        for number in self._node.alive:
            while not self._closed:
                row = self._alive[number][0]
                if any(witness[number] == row for witness in self._witnesses):
                    break
                answer = self._feasible({**self._part.chosen, number: row})
                if answer.selection is not None:
                    break
                self._out.append((number, row, answer.core))
                self._alive[number] = self._alive[number][1:]
                if self._alive[number]:
                    self._bound += cost[self._alive[number][0]] - cost[row]
                else:
                    self._out = [entry for entry in self._out if entry[0] == number]
                    self._empty = True
        if self._closed and not self._empty and not self._tree.lists.claim.several:
            self._restore()

    def _restore(self) -> None:
        """Leave out exclusions, the last of each list first, that the bound does without."""
        cost = self._node.cost
        kept: list[tuple[int, int, list[int]]] = []
        for number, row, core in reversed(self._out):
            step = cost[self._alive[number][0]] - cost[row]
            if step <= self._bound - self._node.target and number not in {entry[0] for entry in kept}:
                self._bound -= step
                self._alive[number] = (row, *self._alive[number])
            else:
                kept.append((number, row, core))
        self._out = kept[::-1]

    def _charge_cores(self) -> None:
        """Raise the bound by cores among the cheapest choices: those met on the way, then new ones."""
        cost = self._node.cost
        self._left = {s: cost[rows[1]] - cost[rows[0]] for s, rows in self._alive.items() if len(rows) > 1}
        cheapest = {s: rows[0] for s, rows in self._alive.items()}
        assumed = {**self._part.chosen, **cheapest}
        for number, core in enumerate(self._part.cores):
            if not self._closed and all(assumed.get(s) == row and self._left.get(s, 1) for s, row in core.items()):
                self._known.append(number)
                self._charge(core)
        while not self._closed:
            open_choices = {s: row for s, row in cheapest.items() if self._left.get(s, 1)}
            if cheapest and not open_choices:
                return
            answer = self._feasible({**self._part.chosen, **open_choices})
            if answer.selection is not None:
                if len(open_choices) == len(cheapest) and self._undercuts():
                    raise Undercut(self._bound, answer.weights)
                return
            self._cores.append(answer.core)
            self._charge(answer.core[::3])

    def _charge(self, lists: Iterable[int]) -> None:
        free = {s for s in lists if s in self._alive}
        payers = free & set(self._left)
        self._charged |= free
        self._empty = not payers
        if payers:
            amount = min(self._left[s] for s in payers)
            self._bound += amount
            for s in payers:
                self._left[s] -= amount

    def _undercuts(self) -> bool:
        """Whether the cheapest choices do: prices are no more than a bound of what several sums lose."""
        lists = self._tree.lists
        if not lists.claim.several:
            return True
        worth = self._worth({s: rows[0] for s, rows in self._alive.items()})
        return may_undercut(lists, worth, worth)

    def _worth(self, cheapest: Choices) -> list[int]:
        """Return what a selection is worth."""
        worth: list[int] = (self._part.fixed + self._tree.lists.worth[:, [*cheapest.values()]].sum(axis=1)).tolist()
        return worth

    def _branch(self) -> int:
        """Return the list with the fewest hypotheses within the slack, weighted by how cheap they are."""
        cost, slack = self._node.cost, self._node.target - self._bound

        def weight(number: int) -> float:
            excess = [cost[row] - cost[self._alive[number][0]] for row in self._alive[number]]
            total = sum(exp(-_SHARPNESS * value / slack) for value in excess if value < slack)
            return total if number in self._charged else _CORE_PREFERENCE * total

        several = [number for number, rows in self._alive.items() if len(rows) > 1]
        return min(several or self._alive, key=weight)

    def _feasible(self, chosen: Mapping[int, int]) -> SelectionOrCore:
        answer = self._tree.feasible(chosen)
        if answer.selection is not None:
            self._witnesses.append(answer.selection)
        return answer


def point(lists: ProofLists, worth: Sequence[int]) -> list[int]:
    """Return the sums of a selection of this worth, at least 1, at which prices can be taken."""
    return [max(1, value) for value in lists.sums(worth)]
