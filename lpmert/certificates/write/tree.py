"""Grow the tree of a certificate: over boxes, and below them over selections.

Boxes are divided until the survivors' least costs, or conflicts, close them; selections exclude choices by
cores, bound, branch, depth first. The optimum is known, so that the search only shows that nothing undercuts it; it
decides as methods/choices/choices.py does. Every record is checked by the certificate's own rules before it is written,
and these say which nodes come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, gcd

import numpy as np

from lpmert.certificates.check.lists import BudgetClaim, ProofLists
from lpmert.certificates.check.regions import Box
from lpmert.certificates.check.tree import Part, closed, may_undercut, narrowed, priced, whole_part
from lpmert.certificates.format import BOXES, Record, depth_first
from lpmert.certificates.write.attainability import Choices, Feasibility, Inside, SelectionOrCore
from lpmert.core import box_charges
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.numeric.lists import first_best
from lpmert.system.deadline import checkpoint

_SHARPNESS = 2.0
_CORE_PREFERENCE = 3.0
_MOST_POINTS = 3


class Undercut(Exception):
    """A selection that undercuts the claim is attainable, at these weights; cost: of a claim of one sum."""

    def __init__(self, cost: int, weights: Sequence[float]) -> None:
        super().__init__(f"a selection costs {cost}")
        self.cost, self.weights = cost, weights


def grow_selections(lists: ProofLists, root: Part, feasible: Feasibility, add: Callable[[Record], None]) -> None:
    """Add the records of the tree over selections below a part; `feasible` answers for the weights inside its box.

    Raises `Undercut` if something is attainable below the target.
    """

    def grow(node: tuple[Part, list[Choices]]) -> Iterator[tuple[Part, list[Choices]]]:
        checkpoint()
        part, witnesses = node
        if part.take is not None:
            number, row = part.take
            witnesses = [witness for witness in witnesses if witness[number] == row]
        record = _Work(lists, feasible, part, witnesses).record()
        _, children = closed(lists, part, record)
        add(record)
        return ((child, witnesses) for child in children)

    depth_first(iter([(root, list[Choices]())]), grow)


class _Work:
    """One node while its record is put together; new witnesses are added to those given.

    alive: the rows left of every open list, in order of cost; cost: theirs at the node's prices; bound: what all
    selections cost at least; target: what closes it. left: what cores can still charge to each list.
    """

    def __init__(self, lists: ProofLists, feasible: Feasibility, part: Part, witnesses: list[Choices]) -> None:
        self._lists, self._decide, self._part = lists, feasible, part
        self._witnesses = witnesses
        self._empty = False
        self._out: list[tuple[int, int, list[int]]] = []
        self._known: list[int] = []
        self._cores: list[list[int]] = []
        self._left: dict[int, int] = {}
        self._charged: set[int] = set()

    @property
    def _cheapest(self) -> dict[int, int]:
        return {s: rows[0] for s, rows in self._alive.items()}

    def record(self) -> Record:
        """Return the record that closes the node or says where to branch."""
        part, places = self._part, self._lists.places
        record: Record = {} if part.take is None else {"take": list(places[part.take[1]])}
        at = self._weigh()
        self._close_if_infeasible()
        self._exclude()
        if self._out:
            record["out"] = [[*places[row], *core] for _, row, core in self._out]
            if self._lists.claim.several and not self._empty:
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
        lists = self._lists
        points: list[tuple[list[int], Part]] = [([], self._part)]
        self._shut = False
        if lists.claim.several:
            low, high = self._part.box(lists)
            self._shut = not may_undercut(lists, low, high)
            middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
            points += () if self._shut else _at_prices(lists, self._part, middle)
        at, part = points[-1]
        rows, numbers = part.rows.tolist(), lists.numbers[part.rows[part.starts]].tolist()
        ends = zip(numbers, pairwise([*part.starts.tolist(), len(rows)]), strict=True)
        self._alive: dict[int, tuple[int, ...]] = {
            s: tuple(rows[a:b])
            for s, (a, b) in ends
            if s not in part.chosen  # as limits are
        }
        costs = part.costs(lists)
        self._cost = dict(zip(rows, costs.tolist(), strict=True))
        self._bound, self._target = part.least(costs), part.price.target
        return at

    @property
    def _closed(self) -> bool:
        return self._empty or self._shut or self._bound >= self._target

    def _close_if_infeasible(self) -> None:
        """Close the node if the choices that led here do not go together."""
        if self._part.take is not None and not self._witnesses and not self._closed:
            answer = self._feasible(self._part.chosen)
            if answer.selection is None:
                self._cores.append(answer.core)
                self._charge(answer.core[::3])

    def _exclude(self) -> None:
        """Exclude the cheapest hypotheses of lists as long as they do not go together with the choices made."""
        cost = self._cost
        for number in [*self._alive]:
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
        if self._closed and not self._empty and not self._lists.claim.several:
            self._restore()

    def _restore(self) -> None:
        """Leave out exclusions, the last of each list first, that the bound does without."""
        cost = self._cost
        kept: list[tuple[int, int, list[int]]] = []
        for number, row, core in reversed(self._out):
            step = cost[self._alive[number][0]] - cost[row]
            if step <= self._bound - self._target and number not in {entry[0] for entry in kept}:
                self._bound -= step
                self._alive[number] = (row, *self._alive[number])
            else:
                kept.append((number, row, core))
        self._out = kept[::-1]

    def _charge_cores(self) -> None:
        """Raise the bound by cores among the cheapest choices: those met on the way, then new ones."""
        cost = self._cost
        self._left = {s: cost[rows[1]] - cost[rows[0]] for s, rows in self._alive.items() if len(rows) > 1}
        cheapest = self._cheapest
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
        worth = (self._part.fixed + self._lists.worth[:, [*self._cheapest.values()]].sum(axis=1)).tolist()
        return not self._lists.claim.several or may_undercut(self._lists, worth, worth)

    def _branch(self) -> int:
        """Return the list with the fewest hypotheses within the slack, weighted by how cheap they are."""
        cost, slack = self._cost, self._target - self._bound

        def weight(number: int) -> float:
            excess = [cost[row] - cost[self._alive[number][0]] for row in self._alive[number]]
            total = sum(exp(-_SHARPNESS * value / slack) for value in excess if value < slack)
            return total if number in self._charged else _CORE_PREFERENCE * total

        several = [number for number, rows in self._alive.items() if len(rows) > 1]
        return min(several or self._alive, key=weight)

    def _feasible(self, chosen: Mapping[int, int]) -> SelectionOrCore:
        answer = self._decide(chosen)
        if answer.selection is not None:
            self._witnesses.append(answer.selection)
        return answer


def _at_prices(lists: ProofLists, part: Part, worth: Sequence[int]) -> Iterator[tuple[list[int], Part]]:
    """Yield sums at which prices can be taken, and the part at these: sums of this worth, then the cheapest ones."""
    seen: list[list[int]] = []
    while len(seen) < _MOST_POINTS:
        at = point(lists, part, worth)
        if at in seen:
            return
        seen.append(at)
        try:
            weighed = priced(lists, part, at)
        except CertificateError:
            return
        yield at, weighed
        worth = (weighed.fixed + lists.worth[:, weighed.rows[weighed.starts]].sum(axis=1)).tolist()


def point(lists: ProofLists, part: Part, worth: Sequence[int]) -> list[int]:
    """Return the sums of a selection of this worth, at least 1, at which prices can be taken; of a budget, prices."""
    if isinstance(lists.claim, BudgetClaim):
        return budget_prices(lists, part, lists.claim.most)
    return [max(1, value) for value in lists.sums(worth)]


def budget_prices(lists: ProofLists, part: Part, most: int) -> list[int]:
    """Return the prices of loss and second sum at which the bound of a part within a budget is largest.

    Two selections of least price, one within the budget and one beyond, price alike where the bound turns; a cheaper
    one replaces one of them. Found in doubles, whose rounding costs at most a better bound.
    """
    worth = lists.worth[:, part.rows].astype(np.float64)
    forbidden = np.where(worth[-1] > 0.0, np.inf, 0.0)

    def cheapest(first: float, second: float) -> tuple[int, int]:
        rows = first_best(-(first * worth[0] + second * worth[1] + forbidden), part.starts)
        sums = lists.sums([own + sum(lists.worth[k, part.rows[rows]].tolist()) for k, own in enumerate(part.fixed[:2])])
        return int(sums[0]), int(sums[1])

    beyond, within = cheapest(1.0, 0.0), cheapest(0.0, 1.0)
    if beyond[1] <= most or within[1] > most:
        return [1, 0]
    while True:
        prices = [beyond[1] - within[1], max(0, within[0] - beyond[0])]
        prices = [price // (gcd(*prices) or 1) for price in prices]
        found = cheapest(*map(float, prices))
        totals = [prices[0] * loss + prices[1] * second for loss, second in (found, beyond)]
        if totals[0] >= totals[1]:
            return prices
        beyond, within = (beyond, found) if found[1] <= most else (found, within)


_LEAF_LISTS = 8
"""Boxes with at most so many open lists are closed by a search over their selections."""

_MOST_STALLED = 12
"""So are those that this many splits a feature have rid of less than a tenth of their lists."""

_SAMPLED_LISTS = 100


_MOST_LISTS = 4000
"""Boxes with more open lists are split rather than searched for pairs."""

_MOST_PAIRS = 20_000

_BITS = (0, 2, 4, 8, 16, 32)
"""Of multipliers, the fewest that do."""

_SHARE = 0.35 / 0.65
"""The search tries equal shares, and this one in favour of either list."""

_LARGEST_STEPS = 1 << 60
"""What the steps of all lists together may come to in the core."""


def grow_boxes(lists: ProofLists, add: Callable[[Record], None]) -> None:
    """Add the records of the tree over boxes; raises `Undercut` if something attainable undercuts."""

    def grow(node: tuple[Part, Box, int]) -> Iterator[tuple[Part, Box, int]]:
        checkpoint()
        whole, shape, stalled = node
        part = narrowed(lists, whole, shape)
        stalled = stalled + 1 if len(part.starts) >= 0.9 * len(whole.starts) else 0
        scores = part.scores(lists)
        costs, record = (_closed_by_prices if lists.claim.several else _closed_by_cores)(lists, part, scores)
        if record is not None:
            add(record)
        elif len(part.starts) <= _LEAF_LISTS or stalled >= _MOST_STALLED * lists.features.shape[1]:
            grow_selections(lists, part, Inside(lists, part), add)
        else:
            record = {"split": [_axis(part, scores, costs)]}
            add(record)
            return ((part, own, stalled) for own in part.shape.parts(record))
        return iter(())

    root: Record = {"split": BOXES}
    add(root)
    everywhere = whole_part(lists)
    depth_first(((everywhere, shape, -1) for shape in everywhere.shape.parts(root)), grow)


def _closed_by_cores(lists: ProofLists, part: Part, scores: FloatArray) -> tuple[FloatArray, Record | None]:
    """Return what the hypotheses of a box cost [n], and the record that closes it at once, if there is one."""
    whole = part.costs(lists)
    needed = lists.target - part.least(whole)
    costs = whole.astype(np.float64)
    if needed <= 0:
        return costs, {}
    record: Record = {"cores": box_conflicts(lists, part, scores, needed) if len(part.starts) else []}
    if not record["cores"]:
        return costs, None
    try:
        closed(lists, part, record)
    except CertificateError:
        return costs, None  # what was found in floating point is not so
    return costs, record


def _closed_by_prices(lists: ProofLists, part: Part, scores: FloatArray) -> tuple[FloatArray, Record | None]:
    """Try the sums at the centre of a box, then those that are cheapest at their prices, and so on."""
    costs = np.zeros(len(part.rows))
    if not may_undercut(lists, *part.box(lists)):
        return costs, {}
    if not len(part.starts):
        return costs, None
    centre = part.fixed + lists.worth[:, part.rows[first_best(scores[0], part.starts)]].sum(axis=1)
    for at, weighed in _at_prices(lists, part, centre.tolist()):
        if weighed.least(weighed.costs(lists)) >= weighed.price.target:
            return costs, {"at": at}
        costs = (np.array(weighed.price.slopes[:-1]) @ lists.worth[:-1, part.rows]).astype(np.float64)
    return costs, None


def _axis(part: Part, scores: FloatArray, costs: FloatArray) -> int:
    """Return the axis of a box along which most cost is at stake between two hypotheses.

    That is so between the first of some lists and the others, by how their differences vary along the axes.
    """
    first = np.repeat(part.starts, part.sizes)
    stride = max(1, len(part.starts) // _SAMPLED_LISTS)
    sampled = np.repeat(np.arange(len(part.starts)) % stride == 0, part.sizes)
    rows = np.flatnonzero(sampled & (costs != costs[first]))
    gains = scores[1:, rows] - scores[1:, first[rows]]
    reach = np.abs(gains).sum(axis=0)
    rows, gains, reach = rows[reach > 0.0], gains[:, reach > 0.0], reach[reach > 0.0]
    stakes = np.abs(costs[rows] - costs[first[rows]]) / np.repeat(part.sizes, part.sizes)[rows]
    lengths = np.abs(part.shape.points).max(axis=1)
    return 1 + int(np.argmax(stakes @ np.abs((gains / reach).T) + 1e-3 * lengths[1:] / lengths[0]))


def box_conflicts(lists: ProofLists, part: Part, scores: FloatArray, needed: int) -> list[list[int]]:
    """Return conflicts of pairs of lists that charge what is needed in a box, none if they do not.

    They are found in doubles and named in whole numbers; steps beyond the core's are divided by a power of two first.
    """
    costs = lists.worth[0][part.rows]
    steps = costs[part.starts + 1] - costs[part.starts]
    value = scores[0].copy()
    value[part.starts] = -np.inf
    both = np.column_stack([part.starts, first_best(value, part.starts)])[steps > 0]
    steps = steps[steps > 0]
    gains = (scores[:, both[:, 1]] - scores[:, both[:, 0]]).T
    reaches = np.abs(gains[:, 1:]).sum(axis=1)
    used = np.flatnonzero(reaches > 0.0)
    if len(used) > _MOST_LISTS:
        return []
    centre, radius = np.zeros(len(scores)), np.ones(len(scores))
    centre[0], radius[0] = 1.0, 0.0
    bits = max(0, (max(needed, int(steps[used].sum())) // _LARGEST_STEPS).bit_length())
    needed = -(-needed >> bits)
    charged, named = box_charges(
        np.ascontiguousarray(gains[used] / reaches[used, None]),
        (steps[used] >> bits).astype(np.int64),
        centre,
        radius,
        rounding=0.0,  # what is found is checked in whole numbers
        off=0.0,
        needed=needed - 1,
        most_pairs=_MOST_PAIRS,
    )
    if charged < needed:
        return []
    pairs = both[used[named]]
    gains = scores[:, pairs[:, :, 1]] - scores[:, pairs[:, :, 0]]
    multipliers = _multipliers(gains[:, :, 0].T, gains[:, :, 1].T)
    entries: list[list[int]] = []
    for rows, pair in zip(part.rows[pairs[:, :, 1]].tolist(), multipliers.tolist(), strict=True):
        if pair[0]:
            entries.append([x for row, m in zip(rows, pair, strict=True) for x in (*lists.places[row], m)])
    return entries


def _multipliers(first: FloatArray, second: FloatArray) -> IntArray:
    """Return for pairs of gains [p, d] small multipliers [p, 2] whose sum is nowhere negative; or 0 and 0."""
    even = np.abs(second[:, 1:]).sum(axis=1) / np.abs(first[:, 1:]).sum(axis=1)
    ratio = even[:, None] * np.tile([1.0, _SHARE, 1.0 / _SHARE], len(_BITS))
    scale = np.repeat(np.ldexp(1.0, _BITS), 3)
    p = np.maximum(1.0, np.rint(np.where(ratio >= 1.0, ratio * scale, scale)))
    q = np.maximum(1.0, np.rint(np.where(ratio >= 1.0, scale, scale / ratio)))
    total = p[:, :, None] * first[:, None] + q[:, :, None] * second[:, None]
    holds = (total[:, :, 0] >= np.abs(total[:, :, 1:]).sum(axis=2)) & (np.maximum(p, q) < 2.0**60)
    which = np.arange(len(first)), holds.argmax(axis=1)  # of the fewest bits
    found = np.where(holds.any(axis=1), [p[which], q[which]], 0.0).astype(np.int64)
    return np.asarray((found // np.maximum(1, np.gcd(*found))).T)
