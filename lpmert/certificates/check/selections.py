"""Search trees over selections: decided choices, the cores that contradict them, and the bound that is left."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lpmert.certificates.check.cones import IntegerCone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.format import Record, integers, typed
from lpmert.errors import CertificateError

Core = Mapping[int, int]
"""Choices (list -> row) that no weights make together."""


class Node(NamedTuple):
    """All selections that make the choices `chosen` (list -> row).

    alive: for every other list whose choice matters, the rows that are left in order of cost. fixed: the cost of all
    other lists. cost: of rows, at the prices that count here. target: selections that cost as much are closed. cores:
    those met on the way. take: the choice that led here.
    """

    chosen: Mapping[int, int]
    alive: Mapping[int, tuple[int, ...]]
    fixed: int
    cost: Mapping[int, int] | Sequence[int]
    target: int
    cores: tuple[Core, ...] = ()
    take: tuple[int, int] | None = None


class SelectionRules:
    """What records may say about selections that weights anywhere, or inside a cone, can make.

    root: the node of all of them. target: of a claim of one sum; of several, prices say it.
    """

    def __init__(self, lists: ProofLists, cone: IntegerCone | None, target: int) -> None:
        self._lists = lists
        self._shape = None if cone is None else cone.shape
        several = lists.several
        self._words = {"take", "out", "cores", "branch"} | ({"at"} if several else set())
        rows = [*range(len(lists.features))] if cone is None else cone.rows.tolist()
        chosen = lists.limit_rows
        alive: dict[int, list[int]] = {}
        for row, number in zip(rows, lists.numbers[rows].tolist(), strict=True):
            alive.setdefault(number, []).append(row)
        same = {s for s, own in alive.items() if s in chosen or len({*map(lists.worth_of.__getitem__, own)}) == 1}
        fixed = lists.worth[:, [alive[s][0] for s in same - set(chosen)]].sum(axis=1)
        self._settled: list[int] = [*map(int, fixed if cone is None else fixed + cone.fixed)]
        for s in same:
            del alive[s]
        cost = dict.fromkeys(rows, 0) if several else lists.cost
        self.root = Node(
            chosen,
            {s: tuple(sorted(own, key=cost.__getitem__)) for s, own in alive.items()},
            0 if several else self._settled[0],
            cost,
            1 if several else target,
        )

    def check(self, node: Node, record: Record) -> tuple[int | None, list[Node]]:
        """Return the least bound of the closed parts of a node, `None` if they are empty, and the parts left open.

        Raises `CertificateError` if the record does not show this.
        """
        expected = None if node.take is None else list(self._lists.place(node.take[1]))
        if record.get("take") != expected or not set(record) <= self._words:
            raise CertificateError(f"expected a node that decides {expected} (list, hypothesis), not {record!r:.40}")
        cores = list(node.cores)
        alive = dict(node.alive)
        for entry in typed(record.get("out", []), list):
            *place, core = typed(entry, list) or [None]
            number, hypothesis = integers(place, 2)
            row = self._lists.row(number, hypothesis)
            if row not in alive.get(number, ()):
                raise CertificateError(f"hypothesis {hypothesis} of list {number} is not open")
            self._core(core, {**node.chosen, number: row}, cores)
            alive[number] = tuple(other for other in alive[number] if other != row)
        node = node._replace(alive=alive)
        if self._lists.several and all(alive.values()):
            weighed = self.weighed(node, record)
            if weighed is None and set(record) <= {"take", "out"}:
                return None, []
            node = weighed or node
            alive = dict(node.alive)
        charges = self._charges(typed(record.get("cores", []), list), node, cores)
        least = node.fixed + sum(node.cost[rows[0]] for rows in alive.values() if rows)
        bound = None if charges is None else least + sum(y for y, _ in charges)
        if charges is None or bound is None or bound >= node.target:
            if "branch" in record:
                raise CertificateError("the node is closed, and cannot branch")
            return bound, []
        if "branch" not in record:
            raise CertificateError(too_low(bound, node.target))
        branch = typed(record["branch"], int)
        if branch not in alive:
            raise CertificateError(f"list {branch} is not open")
        rest = {number: rows for number, rows in alive.items() if number != branch}
        others = node.fixed + sum(node.cost[rows[0]] for rows in rest.values())
        others += sum(amount for amount, concerned in charges if branch not in concerned)
        bounds = {row: others + node.cost[row] for row in alive[branch]}
        children = [
            node._replace(
                chosen={**node.chosen, branch: row},
                alive=rest,
                fixed=node.fixed + node.cost[row],
                cores=tuple(cores),
                take=(branch, row),
            )
            for row, own in bounds.items()
            if own < node.target
        ]
        return min((own for own in bounds.values() if own >= node.target), default=None), children

    def box(self, node: Node) -> tuple[list[int], list[int]]:
        """Return between what the worth [K] of the selections of a node lies."""
        low, high = list(self._settled), list(self._settled)
        limits = self._lists.limit_rows
        for rows in [*((row,) for s, row in node.chosen.items() if s not in limits), *node.alive.values()]:
            for k, column in enumerate(zip(*map(self._lists.worth_of.__getitem__, rows), strict=True)):
                low[k] += min(column)
                high[k] += max(column)
        return low, high

    def weighed(self, node: Node, record: Record) -> Node | None:
        """Return the node at the prices that its record takes, `None` if its box undercuts nothing."""
        lists = self._lists
        low, high = self.box(node)
        if lists.closed(low, high):
            return None
        if "at" not in record:
            return node
        price = lists.price(low, high, record["at"])
        cost = {row: price.of(lists.worth_of[row]) for rows in node.alive.values() for row in rows}
        limits = lists.limit_rows
        chosen = [price.of(lists.worth_of[row]) for s, row in node.chosen.items() if s not in limits]
        return node._replace(
            alive={s: tuple(sorted(rows, key=cost.__getitem__)) for s, rows in node.alive.items()},
            fixed=price.of(self._settled) + sum(chosen),
            cost=cost,
            target=price.target,
        )

    def _charges(self, entries: list[Any], node: Node, cores: list[Core]) -> list[tuple[int, set[int]]] | None:
        """Return what each core adds to the bound, and the open lists it concerns; `None` if the node is empty.

        Each consists of decided choices and cheapest ones: one of its lists leaves its cheapest, and pays at least the
        step to the next. No list pays more than its step in all.
        """
        alive, cost = node.alive, node.cost
        if not all(alive.values()):
            return None
        assumed = {**node.chosen, **{number: rows[0] for number, rows in alive.items()}}
        left = {number: cost[rows[1]] - cost[rows[0]] for number, rows in alive.items() if rows[1:]}
        charges = []
        for entry in entries:
            open_lists = {number for number in self._core(entry, assumed, cores) if number in alive}
            payers = open_lists & set(left)
            if not payers:
                return None
            amount = min(left[number] for number in payers)
            for number in payers:
                left[number] -= amount
            charges.append((amount, open_lists))
        return charges

    def _core(self, entry: object, assumed: Mapping[int, int], cores: list[Core]) -> Core:
        """Return a core of assumed choices: one met before, by its number, or one that is checked and kept."""
        if isinstance(entry, list):
            cores.append(self._checked(entry))
            entry = len(cores) - 1
        if not 0 <= typed(entry, int) < len(cores):
            raise CertificateError(f"there is no core {entry} on the way to this node")
        for number, row in cores[typed(entry, int)].items():
            if assumed.get(number) != row:
                raise CertificateError(f"a core names the choice {list(self._lists.place(row))}, not made here")
        return cores[typed(entry, int)]

    def _checked(self, lines: list[Any]) -> Core:
        """Return the choices of a core after checking its multipliers.

        The differences chosen - other, times positive multipliers, add up to zero, or, inside a cone, to a vector that
        has no positive product with a ray. Weights inside that make all the choices would give it a positive one.
        """
        total = [0] * self._lists.features.shape[1]
        core: dict[int, int] = {}
        for line in lines:
            *place, text = typed(line, list) or [None]
            number, hypothesis, other = integers(place, 3)
            row, beaten = self._lists.row(number, hypothesis), self._lists.row(number, other)
            if row == beaten or core.setdefault(number, row) != row:
                raise CertificateError(f"a core makes two choices in list {number}, or compares one with itself")
            if not re.fullmatch("[1-9a-f][0-9a-f]*", typed(text, str)):
                raise CertificateError(f"a multiplier is a positive hexadecimal number, not {text!r:.40}")
            differences = zip(self._lists.whole(row), self._lists.whole(beaten), strict=True)
            total = [before + int(text, 16) * (a - b) for before, (a, b) in zip(total, differences, strict=True)]
        holds = not any(total) if self._shape is None else self._shape.nowhere_negative([-value for value in total])
        if not holds or not core:
            raise CertificateError("the multipliers of a core do not balance its differences")
        return core


def too_low(bound: int, target: int) -> str:
    """Say that a bound does not close a part."""
    return f"the bound of this part is {bound} steps of the loss, and {target} are needed"
