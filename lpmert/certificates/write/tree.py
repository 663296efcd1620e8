"""Grow the tree of a certificate: over boxes, and below them over selections.

Boxes are split until the least costs of the survivors, or conflicts, close them. Searches over selections, depth first,
exclude hypotheses by cores, bound and branch as methods/choices.py does. The optimum is known: they only show
that nothing undercuts it. The checker's own rules check every record before it is written, and return the children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import exp, gcd, lcm
from typing import NamedTuple

import numpy as np

from lpmert.certificates.claims import BudgetClaim
from lpmert.certificates.format import BOXES, Record, depth_first
from lpmert.certificates.lists import Box, ProofLists, axes, rounded
from lpmert.certificates.verify import Node, check_node, may_undercut, narrowed, priced, root_node
from lpmert.core import Corral, LeastNorm, box_charges
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.limits import checkpoint
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
        self._least_norm = LeastNorm(unsorted.native())
        self._corral, self._origin = Corral(n_features), np.zeros(n_features)

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices of at least one list."""
        answer = self._in_doubles(chosen)
        if answer is not None and answer.selection is not None and self._lists.bits > _EXACT_BITS:
            (weights,) = rational.to_integers([answer.weights])
            answer = None if self._exactly.broken(weights, chosen) else answer
        return self._exactly(chosen) if answer is None else answer

    @cached_property
    def _exactly(self) -> Inside:
        return Inside(self._lists, root_node(self._lists))

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
        self._rays = rays
        self._table = lists.whole[node.rows] @ rays.T
        self._rounded, _ = rounded(self._table)
        self._numbers: list[int] = lists.numbers[node.rows[node.starts]].tolist()
        self._places = {s: slice(k, k + n) for s, k, n in zip(self._numbers, node.starts, node.sizes, strict=True)}
        units = np.eye(len(rays), dtype=np.int64)
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
            broken = self.broken(shares, chosen)
            if not broken:
                point = (np.array(shares, dtype=object) @ self._rays).tolist()
                return SelectionOrCore(self._decoded(shares, chosen), [], point)
            pairs += [(row, other) for row, other, _ in broken]
            for _, _, lead in broken:
                divisors.append(gcd(*lead) or 1)
                rows.append([value // divisors[-1] for value in lead])
            shares, multipliers = rational.decide(rows)
            if multipliers:
                common = lcm(*divisors)
                products = zip(multipliers[len(self._inside) :], divisors, strict=True)
                return SelectionOrCore(None, _core(self._lists, pairs, [m * (common // d) for m, d in products]))

    def broken(self, shares: list[int], chosen: Choices) -> list[tuple[int, int, list[int]]]:
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


_SHARPNESS = 2.0
_CORE_PREFERENCE = 3.0
_MOST_POINTS = 3


class Undercut(Exception):
    """Some weights attain a selection that undercuts the claim; cost: its worth, for a claim of one sum."""

    def __init__(self, cost: int, weights: Sequence[float]) -> None:
        super().__init__(f"a selection costs {cost}")
        self.cost, self.weights = cost, weights


def grow_selections(lists: ProofLists, root: Node, feasible: Feasibility, add: Callable[[Record], None]) -> None:
    """Add the records of the tree over selections below a node, as `grow_boxes`; feasible: for weights of its box."""

    def grow(state: tuple[Node, list[Choices]]) -> Iterator[tuple[Node, list[Choices]]]:
        checkpoint()
        node, witnesses = state
        if node.take is not None:
            number, row = node.take
            witnesses = [witness for witness in witnesses if witness[number] == row]
        record = _RecordBuilder(lists, feasible, node, witnesses).record()
        _, children = check_node(lists, node, record)
        add(record)
        return ((child, witnesses) for child in children)

    depth_first(iter([(root, list[Choices]())]), grow)


class _RecordBuilder:
    """Builds the record of one node; adds selections found attainable in it to `witnesses`.

    alive: for each open list, its rows that are not excluded, in order of cost; cost: of each row at the node's price;
    bound: the least cost of a selection; target: the bound that closes the node. residual: what cores can still charge
    to each list; charged: the lists that some core concerns.
    """

    def __init__(self, lists: ProofLists, feasible: Feasibility, node: Node, witnesses: list[Choices]) -> None:
        self._lists, self._decide, self._node = lists, feasible, node
        self._witnesses = witnesses
        self._empty = False
        self._out: list[tuple[int, int, list[int]]] = []
        self._known: list[int] = []
        self._cores: list[list[int]] = []
        self._residual: dict[int, int] = {}
        self._charged: set[int] = set()

    @property
    def _cheapest(self) -> dict[int, int]:
        return {s: rows[0] for s, rows in self._alive.items()}

    def record(self) -> Record:
        """Return the record that closes the node or says where to branch."""
        node, places = self._node, self._lists.places
        at = self._weigh()
        self._close_if_infeasible()
        self._exclude()
        if self._out and self._lists.claim.several and not self._empty:
            self._node = node.only(~np.isin(node.rows, [row for _, row, _ in self._out]))
            at = self._weigh()
        record: Record = {
            "take": [] if node.take is None else list(places[node.take[1]]),
            "out": [[*places[row], *core] for _, row, core in self._out],
            "at": [] if self._empty else at,
            "known": self._known,
            "cores": self._cores,
        }
        if not self._closed:
            self._charge_cores()
        branch = {} if self._closed else {"branch": self._branch()}
        return {**{key: value for key, value in record.items() if value}, **branch}

    def _weigh(self) -> list[int]:
        """Set prices, costs and bound; return the sums that the prices are taken at, if the node needs any."""
        lists = self._lists
        points: list[tuple[list[int], Node]] = [([], self._node)]
        self._closed_by_corner = False
        if lists.claim.several:
            low, high = self._node.sum_bounds(lists)
            self._closed_by_corner = not may_undercut(lists, low, high)
            middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
            points += () if self._closed_by_corner else _at_prices(lists, self._node, middle)
        at, node = points[-1]
        rows, numbers = node.rows.tolist(), lists.numbers[node.rows[node.starts]].tolist()
        ends = zip(numbers, pairwise([*node.starts.tolist(), len(rows)]), strict=True)
        of_lists = ((s, tuple(rows[a:b])) for s, (a, b) in ends if s not in node.chosen)  # the lists of limits are
        self._alive: dict[int, tuple[int, ...]] = dict(of_lists)
        costs = node.costs(lists)
        self._cost = dict(zip(rows, costs.tolist(), strict=True))
        self._bound, self._target = node.least(costs), node.price.target
        return at

    @property
    def _closed(self) -> bool:
        return self._empty or self._closed_by_corner or self._bound >= self._target

    def _close_if_infeasible(self) -> None:
        """Close the node if no weights make its choices together."""
        if self._node.take is not None and not self._witnesses and not self._closed:
            answer = self._feasible(self._node.chosen)
            if answer.selection is None:
                self._cores.append(answer.core)
                self._charge(answer.core[::3])

    def _exclude(self) -> None:
        """Exclude the cheapest hypotheses of each list that no weights choose together with the choices made."""
        cost = self._cost
        for number in [*self._alive]:
            while not self._closed:
                row = self._alive[number][0]
                if any(witness[number] == row for witness in self._witnesses):
                    break
                answer = self._feasible({**self._node.chosen, number: row})
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
        """Undo exclusions that the bound does not need to close the node, the last of each list first."""
        cost = self._cost
        needed: list[tuple[int, int, list[int]]] = []
        for number, row, core in reversed(self._out):
            step = cost[self._alive[number][0]] - cost[row]
            if step <= self._bound - self._target and number not in {entry[0] for entry in needed}:
                self._bound -= step
                self._alive[number] = (row, *self._alive[number])
            else:
                needed.append((number, row, core))
        self._out = needed[::-1]

    def _charge_cores(self) -> None:
        """Raise the bound by cores of the cheapest choices: first those met on the path, then new ones."""
        cost = self._cost
        self._residual = {s: cost[rows[1]] - cost[rows[0]] for s, rows in self._alive.items() if len(rows) > 1}
        cheapest = self._cheapest
        assumed = {**self._node.chosen, **cheapest}
        for number, core in enumerate(self._node.cores):
            if not self._closed and all(assumed.get(s) == row and self._residual.get(s, 1) for s, row in core.items()):
                self._known.append(number)
                self._charge(core)
        while not self._closed:
            open_choices = {s: row for s, row in cheapest.items() if self._residual.get(s, 1)}
            if cheapest and not open_choices:
                return
            answer = self._feasible({**self._node.chosen, **open_choices})
            if answer.selection is not None:
                if len(open_choices) == len(cheapest) and self._undercuts():
                    raise Undercut(self._bound, answer.weights)
                return
            self._cores.append(answer.core)
            self._charge(answer.core[::3])

    def _charge(self, lists: Iterable[int]) -> None:
        """Charge a core of these lists to the open ones among them (C5)."""
        open_lists = {s for s in lists if s in self._alive}
        payers = open_lists & set(self._residual)
        self._charged |= open_lists
        self._empty = not payers
        if payers:
            amount = min(self._residual[s] for s in payers)
            self._bound += amount
            for s in payers:
                self._residual[s] -= amount

    def _undercuts(self) -> bool:
        """Whether the cheapest selection undercuts the claim; with several sums, its cost is only a bound on that."""
        worth = (self._node.fixed + self._lists.worth[:, [*self._cheapest.values()]].sum(axis=1)).tolist()
        return not self._lists.claim.several or may_undercut(self._lists, worth, worth)

    def _branch(self) -> int:
        """Return the list with the fewest hypotheses that leave the node open, cheap ones weighing more.

        Lists that no core concerns weigh more.
        """
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


def _at_prices(lists: ProofLists, node: Node, worth: Sequence[int]) -> Iterator[tuple[list[int], Node]]:
    """Yield sums of at least 1 and the node at the prices taken there: sums of this worth, then the cheapest at the
    last prices; for a budget, the best prices.
    """
    seen: list[list[int]] = []
    while len(seen) < _MOST_POINTS:
        if isinstance(lists.claim, BudgetClaim):
            at = budget_prices(lists, node, lists.claim.most)
        else:
            at = [max(1, value) for value in lists.sums(worth)]
        if at in seen:
            return
        seen.append(at)
        try:
            weighed = priced(lists, node, at)
        except CertificateError:
            return
        yield at, weighed
        worth = (weighed.fixed + lists.worth[:, weighed.rows[weighed.starts]].sum(axis=1)).tolist()


def budget_prices(lists: ProofLists, node: Node, most: int) -> list[int]:
    """Return the prices of the loss and the second sum at which the bound of a node within a budget is largest.

    This is the Lagrangian dual, a concave piecewise linear function. At its top, a selection within the budget and one
    beyond it cost the same: prices at which two selections do are tried, and a cheaper selection replaces one of them.
    Doubles suffice: rounding can only lead to a worse bound.
    """
    worth = lists.worth[:, node.rows].astype(np.float64)
    forbidden = np.where(worth[-1] > 0.0, np.inf, 0.0)

    def cheapest(first: float, second: float) -> tuple[int, int]:
        """Return loss and second sum of a cheapest selection at these prices."""
        rows = node.rows[first_best(-(first * worth[0] + second * worth[1] + forbidden), node.starts)]
        sums = lists.sums([fixed + sum(lists.worth[k, rows].tolist()) for k, fixed in enumerate(node.fixed[:2])])
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


_LEAF_LISTS = 8  # boxes with no more open lists are closed by a search over their selections

_MOST_STALLED = 12
"""So are boxes after this many splits for each feature in a row that settled less than a tenth of the open lists."""

_SAMPLED_LISTS = 100  # about this many open lists decide along which axis a box is split
_MOST_LISTS = 4000  # boxes with more open lists are split without looking for conflicts of pairs
_MOST_PAIRS = 20_000  # the most pairs of lists that are tried in a box
_BITS = (0, 2, 4, 8, 16, 32)  # bits of multipliers; the fewest that balance are used

_SHARE = 0.35 / 0.65
"""Multipliers of a pair are tried in the ratio that gives both gains the same reach, and with this factor in favour of
either gain.
"""

_LARGEST_STEPS = 1 << 60  # the most that the steps of all lists may sum to in the compiled core


def grow_boxes(lists: ProofLists, add: Callable[[Record], None]) -> None:
    """Add the records of the tree over boxes; raises `Undercut` if an attainable selection undercuts the claim."""

    def grow(state: tuple[Node, Box, int]) -> Iterator[tuple[Node, Box, int]]:
        checkpoint()
        parent, box, stalled = state
        node = narrowed(lists, parent, box)
        stalled = stalled + 1 if len(node.starts) >= 0.9 * len(parent.starts) else 0
        scores = node.scores(lists)
        costs, record = (_closed_by_prices if lists.claim.several else _closed_by_cores)(lists, node, scores)
        if record is not None:
            add(record)
        elif len(node.starts) <= _LEAF_LISTS or stalled >= _MOST_STALLED * lists.features.shape[1]:
            grow_selections(lists, node, Inside(lists, node), add)
        else:
            record = {"split": [_axis(node, scores, costs)]}
            add(record)
            return ((node, half, stalled) for half in node.box.parts(record))
        return iter(())

    split: Record = {"split": BOXES}
    add(split)
    root = root_node(lists)
    depth_first(((root, face, -1) for face in root.box.parts(split)), grow)


def _closed_by_cores(lists: ProofLists, node: Node, scores: FloatArray) -> tuple[FloatArray, Record | None]:
    """Return the costs [n] of a box's survivors, and the record that closes it by conflicts of pairs, if one does."""
    exact = node.costs(lists)
    needed = lists.target - node.least(exact)
    costs = exact.astype(np.float64)
    if needed <= 0:
        return costs, {}
    record: Record = {"cores": box_conflicts(lists, node, scores, needed) if len(node.starts) else []}
    if not record["cores"]:
        return costs, None
    try:
        check_node(lists, node, record)
    except CertificateError:
        return costs, None  # conflicts were found in floating point, and do not all hold
    return costs, record


def _closed_by_prices(lists: ProofLists, node: Node, scores: FloatArray) -> tuple[FloatArray, Record | None]:
    """Return the costs [n] of a box's survivors at the last prices, and the record that closes it by prices, if any.

    Prices are taken at the sums of the centre of the box, then at those that are cheapest at the last prices.
    """
    costs = np.zeros(len(node.rows))
    if not may_undercut(lists, *node.sum_bounds(lists)):
        return costs, {}
    if not len(node.starts):
        return costs, None
    centre = node.fixed + lists.worth[:, node.rows[first_best(scores[0], node.starts)]].sum(axis=1)
    for at, weighed in _at_prices(lists, node, centre.tolist()):
        if weighed.least(weighed.costs(lists)) >= weighed.price.target:
            return costs, {"at": at}
        costs = (np.array(weighed.price.slopes[:-1]) @ lists.worth[:-1, node.rows]).astype(np.float64)
    return costs, None


def _axis(node: Node, scores: FloatArray, costs: FloatArray) -> int:
    """Return the axis of a box along which most cost is at stake.

    The cost difference of a list's first hypothesis and another is shared among the axes by how much the difference of
    their scores varies along each.
    """
    first = np.repeat(node.starts, node.sizes)
    stride = max(1, len(node.starts) // _SAMPLED_LISTS)
    sampled = np.repeat(np.arange(len(node.starts)) % stride == 0, node.sizes)
    rows = np.flatnonzero(sampled & (costs != costs[first]))
    gains = scores[1:, rows] - scores[1:, first[rows]]
    reach = np.abs(gains).sum(axis=0)
    rows, gains, reach = rows[reach > 0.0], gains[:, reach > 0.0], reach[reach > 0.0]
    stakes = np.abs(costs[rows] - costs[first[rows]]) / np.repeat(node.sizes, node.sizes)[rows]
    lengths = np.abs(node.box.points).max(axis=1)
    return 1 + int(np.argmax(stakes @ np.abs((gains / reach).T) + 1e-3 * lengths[1:] / lengths[0]))


def box_conflicts(lists: ProofLists, node: Node, scores: FloatArray, needed: int) -> list[list[int]]:
    """Return cores of pairs of lists that together charge what a box needs to be closed; none if they do not suffice.

    They are found in doubles and named with integer multipliers. Steps too large for the compiled core are divided by a
    power of two first.
    """
    costs = lists.worth[0][node.rows]
    steps = costs[node.starts + 1] - costs[node.starts]
    value = scores[0].copy()
    value[node.starts] = -np.inf
    both = np.column_stack([node.starts, first_best(value, node.starts)])[steps > 0]
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
        rounding=0.0,  # the cores are checked in integers
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
    for rows, pair in zip(node.rows[pairs[:, :, 1]].tolist(), multipliers.tolist(), strict=True):
        if pair[0]:
            entries.append([x for row, m in zip(rows, pair, strict=True) for x in (*lists.places[row], m)])
    return entries


def _multipliers(first: FloatArray, second: FloatArray) -> IntArray:
    """Return for pairs of gains [p, d] small multipliers [p, 2] whose sum is nowhere negative; 0 if none are found."""
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
