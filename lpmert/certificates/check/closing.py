"""What a record shows of a part: a bound that closes it, by what does not go together, or a choice that divides it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import sub
from typing import Any

import numpy as np

from lpmert.certificates.check.claims import Price
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Core, Line, Lines, Part
from lpmert.certificates.format import Record, integers, typed
from lpmert.errors import CertificateError, IntArray

_WORDS = {"take", "out", "at", "cores", "conflicts", "branch"}


def closed(lists: ProofLists, part: Part, record: Record) -> tuple[int | None, list[Part]]:
    """Return the least bound of what a record closes of a part, `None` if that is nothing, and the parts left open.

    Raises `CertificateError` if the record does not show this.
    """
    expected = None if part.take is None else list(lists.places[part.take[1]])
    if record.get("take") != expected or not set(record) <= _WORDS:
        raise CertificateError(f"expected a node that decides {expected} (list, hypothesis), not {record!r:.40}")
    cores = _Cores(lists, part)
    left = _without(cores, typed(record["out"], list)) if "out" in record else part
    attainable = len(left.starts) == len(part.starts)
    attainable = attainable and (not lists.claim.several or may_undercut(lists, *left.box(lists)))
    if attainable and "at" in record:
        left = priced(lists, left, record["at"])
    left, costs = left.ordered(lists)
    target = left.price.target
    others = left.price.of(left.fixed.tolist()) + int(costs[left.starts].sum())
    charges = _charges(lists, left, costs, cores, record) if attainable else None
    bound = None if charges is None else others + sum(amount for amount, _ in charges)
    if charges is None or bound is None or bound >= target:
        if "branch" in record:
            raise CertificateError("the node is closed, and cannot branch")
        return bound, []
    if "branch" not in record:
        raise CertificateError(f"the bound of this part is {bound} steps of the loss, and {target} are needed")
    branch = typed(record["branch"], int)
    concerned = lists.numbers[left.rows] == branch
    if not concerned.any():
        raise CertificateError(f"list {branch} is not open")
    own = list(zip(left.rows[concerned].tolist(), costs[concerned].tolist(), strict=True))
    others += sum(amount for amount, core in charges if branch not in core) - own[0][1]
    rest = left.only(~concerned)._replace(cores=tuple(cores.met))
    children = [
        rest._replace(fixed=rest.fixed + lists.worth[:, row], chosen={**part.chosen, branch: row}, take=(branch, row))
        for row, cost in own
        if others + cost < target
    ]
    return min((others + cost for _, cost in own if others + cost >= target), default=None), children


def priced(lists: ProofLists, part: Part, at: object) -> Part:
    """Return a part at the prices taken at some sums, which hold in the box of its own sums."""
    if not lists.claim.several:
        raise CertificateError("there are no prices where one sum tells the loss")
    low, high = map(lists.sums, part.box(lists))
    price = lists.claim.price(low, high, integers(at, len(lists.constant)))
    target = price.target - price.of(lists.constant)
    return part._replace(price=Price([*price.slopes, price.forbidden], target))


def may_undercut(lists: ProofLists, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether the best corner of a box of worth undercuts a claim of several sums."""
    return low[-1] == 0 and not lists.claim.closes(lists.sums(low), lists.sums(high))


def _without(cores: _Cores, entries: list[Any]) -> Part:
    """Return a part without hypotheses that cannot be combined with the choices made."""
    lists, part = cores.lists, cores.part
    rows = set(part.rows.tolist())
    for entry in entries:
        *place, core = typed(entry, list) or [None]
        number, hypothesis = integers(place, 2)
        row = lists.row(number, hypothesis)
        if row not in rows:
            raise CertificateError(f"hypothesis {hypothesis} of list {number} is not open")
        cores.core(core, {**part.chosen, number: row})
        rows.remove(row)
    return part.only(np.isin(part.rows, [*rows]))


def _charges(
    lists: ProofLists, part: Part, costs: IntArray, cores: _Cores, record: Record
) -> list[tuple[int, Core]] | None:
    """Return what each core of a record adds to the bound; `None` if nothing in the part can be attained.

    The cores consist of choices made and of the cheapest ones: one of its open lists leaves its cheapest, and pays at
    least the step to the next. No list pays more than its step in all: C5.
    """
    firsts = part.rows[part.starts]
    assumed = {**part.chosen, **dict(zip(lists.numbers[firsts].tolist(), firsts.tolist(), strict=True))}
    first = part.starts[part.sizes > 1]
    left = dict(zip(lists.numbers[part.rows[first]].tolist(), (costs[first + 1] - costs[first]).tolist(), strict=True))
    charges = []
    for core in cores.named(record, assumed):
        payers = core.keys() & left.keys()
        if not payers:
            return None
        amount = min(left[number] for number in payers)
        left.update({number: left[number] - amount for number in payers})
        charges.append((amount, core))
    return charges


class _Cores:
    """The cores met on the way to a part, and at it: choices that no weights inside its shape make together."""

    def __init__(self, lists: ProofLists, part: Part) -> None:
        self.lists, self.part = lists, part
        self.met = list(part.cores)

    def named(self, record: Record, assumed: Mapping[int, int]) -> list[Core]:
        """Return the cores of assumed choices that a record names."""
        cores = [self.core(entry, assumed) for entry in typed(record.get("cores", []), list)]
        conflicts = [self._conflict(entry, assumed) for entry in typed(record.get("conflicts", []), list)]
        clear = self.part.surely_balanced(self.lists, conflicts)
        return cores + [self._checked(lines, sure) for lines, sure in zip(conflicts, clear, strict=True)]

    def core(self, entry: object, assumed: Mapping[int, int]) -> Core:
        """Return a core of assumed choices: one met before, by its number, or one that is checked and kept."""
        if isinstance(entry, list):
            self.met.append(self._checked([self._line(line) for line in entry]))
            entry = len(self.met) - 1
        if not 0 <= typed(entry, int) < len(self.met):
            raise CertificateError(f"there is no core {entry} on the way to this node")
        core = self.met[typed(entry, int)]
        for number, row in core.items():
            if assumed.get(number) != row:
                raise CertificateError(f"a core names the choice {list(self.lists.places[row])}, not made here")
        return core

    def _line(self, line: object) -> Line:
        """Return the list of a comparison, its choice and another hypothesis, both as rows, and a multiplier."""
        *place, text = typed(line, list) or [None]
        number, hypothesis, other = integers(place, 3)
        if not re.fullmatch("[1-9a-f][0-9a-f]*", typed(text, str)):
            raise CertificateError(f"a multiplier is a positive hexadecimal number, not {text!r:.40}")
        return number, self.lists.row(number, hypothesis), self.lists.row(number, other), int(text, 16)

    def _conflict(self, entry: object, assumed: Mapping[int, int]) -> Lines:
        """Return the lines of a core that names only the other hypotheses: [list, other, multiplier, list, ...]."""
        parts = integers(entry, len(typed(entry, list)))
        numbers = parts[::3]
        if len(parts) % 3 or not {*numbers} <= assumed.keys() or min(parts[2::3], default=0) < 1:
            raise CertificateError(f"not open lists, each with a hypothesis and a multiplier: {entry!r:.60}")
        compared = zip(numbers, parts[1::3], parts[2::3], strict=True)
        return [(s, assumed[s], self.lists.row(s, other), m) for s, other, m in compared]

    def _checked(self, lines: Lines, sure: bool = False) -> Core:
        """Return the choices of comparisons after checking the multipliers, of which one may be sure: C1, K7 and B4.

        The differences chosen - other, times positive multipliers, add up to a vector that has no positive product with
        weights inside. Weights inside that make all the choices would give it a positive one.
        """
        core: dict[int, int] = {}
        for number, row, other, _ in lines:
            if row == other or core.setdefault(number, row) != row:
                raise CertificateError(f"a core makes two choices in list {number}, or compares one with itself")
        if not core or not (sure or self.part.shape.nowhere_negative(self._total(lines))):
            raise CertificateError("the multipliers of a core do not balance its differences")
        return core

    def _total(self, lines: Lines) -> list[int]:
        """Return the differences other - chosen, times the multipliers."""
        whole = self.lists.whole
        total = [0] * self.lists.features.shape[1]
        for _, row, other, multiplier in lines:
            lead = map(sub, whole[other], whole[row])
            total = [before + multiplier * value for before, value in zip(total, lead, strict=True)]
        return total
