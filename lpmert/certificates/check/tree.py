"""The tree of a certificate, depth first: every record closes a part of the weights, or divides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from lpmert.certificates.check.lists import Price, ProofLists
from lpmert.certificates.check.regions import Box, Whole
from lpmert.certificates.format import CertificateReader, Record, depth_first, integers, typed
from lpmert.errors import BoolArray, CertificateError, FloatArray, IntArray
from lpmert.system.deadline import checked, checkpoint

_SCORE_BYTES = 32
"""What a score and its comparisons take."""

Core = Mapping[int, int]
"""Choices (list -> row) that no weights make together."""

Charges = list[tuple[int, Core]]
"""What cores add to a bound."""


class Part(NamedTuple):
    """What may win at weights inside a box that make some choices.

    For the lists that may still differ in worth: their survivors' rows [n], those of a list in order of cost, equal
    ones as they are, and the start [L] of each list among them.
    fixed [K]: the worth of all other lists. price: what counts here as cost. chosen: the choices made (list -> row),
    those of the limits among them; take: the last of them. cores: those met on the way.
    """

    shape: Box
    rows: IntArray
    starts: IntArray
    fixed: IntArray
    price: Price
    chosen: Mapping[int, int]
    take: tuple[int, int] | None = None
    cores: tuple[Core, ...] = ()

    @property
    def sizes(self) -> IntArray:
        """How many survivors the lists [L] have."""
        return np.asarray(np.append(self.starts[1:], len(self.rows)) - self.starts)

    def scores(self, lists: ProofLists) -> FloatArray:
        """Return what the survivors [d, n] score at the rays of the box."""
        return np.asarray(self.shape.points @ lists.features.take(self.rows, axis=0).T)

    def only(self, kept: BoolArray) -> Part:
        """Return what is left with some of the rows [n], and the lists of which any are."""
        if kept.all():
            return self
        sizes = np.add.reduceat(kept, self.starts, dtype=np.int64)
        sizes = sizes[sizes > 0]
        return self._replace(rows=self.rows[kept], starts=np.cumsum(sizes) - sizes)

    def worth(self, lists: ProofLists) -> tuple[IntArray, IntArray]:
        """Return the least and the most [K, L] that survivors of the lists are worth."""
        worth = lists.worth.take(self.rows, axis=1)
        return np.minimum.reduceat(worth, self.starts, axis=1), np.maximum.reduceat(worth, self.starts, axis=1)

    def box(self, lists: ProofLists) -> tuple[list[int], list[int]]:
        """Return between what the worth [K] of all selections lies."""
        low, high = ((self.fixed + ends.sum(axis=1)).tolist() for ends in self.worth(lists))
        return low, high

    def costs(self, lists: ProofLists) -> IntArray:
        return np.asarray(np.array(self.price.slopes) @ lists.worth[:, self.rows])

    def least(self, costs: IntArray) -> int:
        """Return what all selections cost at least, from what the rows [n] do: the cheapest of a list come first."""
        return self.price.of(self.fixed.tolist()) + int(costs[self.starts].sum())

    def ordered(self, lists: ProofLists, price: Price) -> Part:
        part = self._replace(price=price)
        order = np.lexsort((part.costs(lists), np.repeat(np.arange(len(self.starts)), self.sizes)))
        return part._replace(rows=self.rows[order])


def whole_part(lists: ProofLists) -> Part:
    """Return all weights that are within the limits."""
    nothing = np.zeros(len(lists.worth), dtype=lists.worth.dtype)
    # Of several sums, only that of broken limits has a price everywhere.
    price = Price([0] * (len(lists.worth) - 1) + [1], 1 if lists.claim.several else lists.target)
    shape = Box(np.zeros((0, lists.features.shape[1]), dtype=object))
    part = Part(shape, np.arange(len(lists.features)), lists.offsets[:-1], nothing, price, lists.limit_rows)
    return narrowed(lists, part.ordered(lists, price), shape)


def narrowed(lists: ProofLists, part: Part, shape: Box) -> Part:
    """Return what is left of a part inside a box that lies in its own.

    Hypotheses fall that the best of their list at the centre, the first of equals, is as good as everywhere inside, and
    then the first of a list if any other one is; lists of which all others are worth the same are settled. What falls
    is decided exactly: the outcome does not depend on how scores are rounded.
    """
    checkpoint(len(part.rows) * _SCORE_BYTES * len(shape.rays))
    part = part._replace(shape=shape)
    part = part.only(_survivors(lists, part)) if len(shape.rays) else part
    least, most = part.worth(lists)
    differs: BoolArray = (least != most).any(axis=0)
    if differs.all():
        return part
    fixed = part.fixed + least[:, ~differs].sum(axis=1)
    return part.only(np.repeat(differs, part.sizes))._replace(fixed=fixed)


def _survivors(lists: ProofLists, part: Part) -> BoolArray:
    """Return which of the rows [n] of a part are left inside its box."""
    scores, errors = part.scores(lists), lists.errors(part.shape.points)
    rows, sizes, doubt = np.arange(len(part.rows)), part.sizes, float(errors.sum())
    best = np.repeat(_winners(lists, part, scores[0], float(errors[0])), sizes)
    beaten = _beaten(lists, part, doubt, scores.take(best, axis=1) - scores, best, rows)
    left = np.flatnonzero(~beaten)
    firsts = left[np.searchsorted(left, part.starts)]
    first = np.repeat(firsts, sizes)
    beaten[firsts] = np.logical_or.reduceat(
        _beaten(lists, part, doubt, scores - scores.take(first, axis=1), rows, first), part.starts
    )
    return ~beaten


def _winners(lists: ProofLists, part: Part, scores: FloatArray, error: float) -> IntArray:
    """Return the best of each list [L] at the centre, the first of equals."""
    top = np.maximum.reduceat(scores, part.starts)
    close = np.flatnonzero(scores >= np.repeat(top - error, part.sizes))
    begins = np.searchsorted(close, part.starts)
    winners: IntArray = close[begins]
    if error:
        centre = Box(part.shape.rays[:1])
        ends = np.append(begins[1:], len(close))
        for a in checked(np.flatnonzero(ends - begins > 1).tolist(), 10):
            for other in close[begins[a] + 1 : ends[a]].tolist():
                if not centre.is_nonnegative(_lead(lists, part, winners[a], other)):
                    winners[a] = other
    return winners


def _beaten(
    lists: ProofLists, part: Part, doubt: float, leads: FloatArray, winners: IntArray, losers: IntArray
) -> BoolArray:
    """Return for pairs of hypotheses [p] whether the first, another one, is as good as the second everywhere inside.

    leads [d, p]: of the first ones at the rays; doubt: how far the least inside may be from the true one.
    """
    leads[0, winners == losers] = -np.inf
    margins = leads[0] - np.abs(leads[1:]).sum(axis=0)
    beaten: BoolArray = margins >= doubt
    for k in checked(np.flatnonzero(~beaten & ~(margins < -doubt)).tolist(), 10):
        beaten[k] = part.shape.is_nonnegative(_lead(lists, part, winners[k], losers[k]))
    return beaten


def _lead(lists: ProofLists, part: Part, winner: int, loser: int) -> Whole:
    return np.asarray(lists.whole[part.rows[winner]] - lists.whole[part.rows[loser]])


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
    others = left.least(costs)
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
    after checking that none leaves weights: C1 and B4.

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
    differences = np.array(multipliers, dtype=object)[:, None] * (lists.whole[others] - lists.whole[chosen])
    sums = np.add.reduceat(differences, ends[:-1]) if entries else ()
    if not all(part.shape.is_nonnegative(own) for own in checked(sums, 10)):
        raise CertificateError("the multipliers of a core do not balance its differences")
    return [dict(zip(numbers[start:end], chosen[start:end], strict=True)) for start, end in pairwise(ends)]


def check_tree(reader: CertificateReader, lists: ProofLists) -> float:
    """Check a whole tree about a claim whose bound is known, and return the least excess over the target, infinite if
    nothing can be attained at all.

    Raises `CertificateError` where something is not shown.
    """
    least = inf
    lists.weigh()

    def visit(part: Part) -> Iterator[Part]:
        nonlocal least
        record = reader.record()
        if part.take is None and "split" in record:
            return map(partial(narrowed, lists, part), part.shape.parts(record))
        excess, open_parts = closed(lists, part, record)
        least = min(least, excess)
        return open_parts

    depth_first(iter([whole_part(lists)]), visit)
    return least
