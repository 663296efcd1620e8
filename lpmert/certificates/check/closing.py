"""What a record shows of a part: a bound that closes it, by what does not go together, or a choice that divides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from math import inf
from operator import eq
from typing import Any

import numpy as np

from lpmert.certificates.check.claims import Price
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Charges, Core, Part
from lpmert.certificates.format import Record, integers, typed
from lpmert.errors import CertificateError, IntArray

_WORDS = {"take", "out", "at", "known", "cores", "branch"}


def closed(lists: ProofLists, part: Part, record: Record) -> tuple[float, Iterator[Part]]:
    """Return by how much the least bound of what a record closes of a part exceeds the target, infinite if that is
    nothing, and the parts left open, each made when it is asked for.

    Raises `CertificateError` if the record does not show this.
    """
    expected = None if part.take is None else list(lists.places[part.take[1]])
    if ("take" in record) != (part.take is not None) or record.get("take") != expected or not set(record) <= _WORDS:
        raise CertificateError(f"expected a node that decides {expected} (list, hypothesis), not {record!r:.40}")
    met = list(part.cores)
    left = _without(lists, part, met, typed(record["out"], list)) if "out" in record else part
    attainable = len(left.starts) == len(part.starts)
    attainable = attainable and (not lists.claim.several or may_undercut(lists, *left.box(lists)))
    if attainable and "at" in record:
        left = priced(lists, left, record["at"])
    costs = left.costs(lists)
    target = left.price.target
    others = left.price.of(left.fixed.tolist()) + int(costs[left.starts].sum())
    charges = _charges(lists, left, met, costs, record) if attainable else None
    bound = inf if charges is None else others + sum(amount for amount, _ in charges)
    if charges is None or bound >= target:
        if "branch" in record:
            raise CertificateError("the node is closed, and cannot branch")
        return bound - target, iter(())
    if "branch" not in record:
        raise CertificateError(f"the bound of this part is {bound} steps of the loss, and {target} are needed")
    branch = typed(record["branch"], int)
    concerned = lists.numbers[left.rows] == branch
    if not concerned.any():
        raise CertificateError(f"list {branch} is not open")
    own = list(zip(left.rows[concerned].tolist(), costs[concerned].tolist(), strict=True))
    others += sum(amount for amount, core in charges if branch not in core) - own[0][1]
    rest = left.only(~concerned)._replace(cores=tuple(met))
    closed_by = [others + cost - target for _, cost in own if others + cost >= target]
    # all at once, they would hold what is chosen as often as there are parts
    return min(closed_by, default=inf), (
        rest._replace(fixed=rest.fixed + lists.worth[:, row], chosen={**rest.chosen, branch: row}, take=(branch, row))
        for row in [row for row, cost in own if others + cost < target]
    )


def priced(lists: ProofLists, part: Part, at: object) -> Part:
    """Return a part at the prices taken at some sums, which hold in the box of its own sums."""
    low, high = map(lists.sums, part.box(lists))
    price = lists.claim.price(low, high, integers(at, len(lists.constant)))
    return part.ordered(lists, Price([*price.slopes, price.forbidden], price.target - price.of(lists.constant)))


def may_undercut(lists: ProofLists, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether the best corner of a box of worth undercuts a claim of several sums."""
    return low[-1] == 0 and not lists.claim.closes(lists.sums(low), lists.sums(high))


def _without(lists: ProofLists, part: Part, met: list[Core], entries: list[Any]) -> Part:
    """Return a part without hypotheses that cannot be combined with the choices made."""
    rows = set(part.rows.tolist())
    for entry in entries:
        number, hypothesis = integers(typed(entry, list)[:2], 2)
        (row,) = lists.rows([(number, hypothesis)])
        if row not in rows:
            raise CertificateError(f"hypothesis {hypothesis} of list {number} is not open")
        met += _checked(lists, part, [entry[2:]], {**part.chosen, number: row})
        rows.remove(row)
    return part.only(np.isin(part.rows, [*rows]))


def _charges(lists: ProofLists, part: Part, met: list[Core], costs: IntArray, record: Record) -> Charges | None:
    """Return what each core of a record adds to the bound; `None` if nothing in the part can be attained.

    The cores consist of choices made and of the cheapest ones: one of its open lists leaves its cheapest, and pays at
    least the step to the next. No list pays more than its step in all: C5.
    """
    numbers = lists.numbers[part.rows[part.starts]].tolist()
    assumed = {**part.chosen, **dict(zip(numbers, part.rows[part.starts].tolist(), strict=True))}
    first = part.starts[part.sizes > 1]
    steps = (costs[first + 1] - costs[first]).tolist()
    left = dict(zip(lists.numbers[part.rows[first]].tolist(), steps, strict=True))
    known = typed(record.get("known", []), list)
    if not all(type(k) is int and 0 <= k < len(met) and met[k].items() <= assumed.items() for k in known):
        raise CertificateError(f"not all of {known!r:.60} are cores on the way to this node, and of choices made here")
    new = _checked(lists, part, typed(record.get("cores", []), list), assumed)
    cores = [met[k] for k in known] + new
    met += new
    charges = []
    for core in cores:
        payers = [number for number in core if number in left]
        if not payers:
            return None
        amount = min([left[number] for number in payers])
        for number in payers:
            left[number] -= amount
        charges.append((amount, core))
    return charges


def _checked(lists: ProofLists, part: Part, entries: list[Any], assumed: Mapping[int, int]) -> list[Core]:
    """Return the assumed choices that entries [list, other hypothesis, multiplier, list, ...] compare with others,
    after checking that none leaves weights: C1, K7 and B4.

    The differences other - chosen, times positive multipliers, add up to a vector that has no negative product with
    weights inside. Weights inside that make all the choices would give it a negative one.
    """
    sizes = [len(typed(entry, list)) // 3 for entry in entries]
    flat = integers([value for entry in entries for value in entry], 3 * sum(sizes))
    numbers, multipliers = flat[::3], flat[2::3]
    chosen = [assumed.get(number, -1) for number in numbers]
    others = lists.rows(zip(numbers, flat[1::3], strict=True))
    if 0 in sizes or -1 in chosen or min(multipliers, default=1) < 1 or any(map(eq, chosen, others)):
        raise CertificateError("a core compares choices with other hypotheses of their lists, positive times each")
    ends = [0, *accumulate(sizes)]
    if entries and not part.balanced(lists, chosen, others, multipliers, ends[:-1]).all():
        raise CertificateError("the multipliers of a core do not balance its differences")
    return [dict(zip(numbers[start:end], chosen[start:end], strict=True)) for start, end in pairwise(ends)]
