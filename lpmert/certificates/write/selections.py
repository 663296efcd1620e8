"""Grow the tree over selections of a certificate: exclude choices by cores, bound, branch, depth first.

The optimum is known, so that the search only shows that nothing undercuts it; it decides as
methods/choices/search.py does. Every record is checked by the certificate's own rules before it is written, and these
say which nodes come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import Node, SelectionRules
from lpmert.certificates.format import Record
from lpmert.certificates.write.questions import Choices, Line, Question, SelectionOrCore
from lpmert.errors import CertificateError

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
    """The tree below the root of `rules`; `ask` answers for the weights for which these hold."""

    def __init__(self, lists: ProofLists, rules: SelectionRules, ask: Question, add: Callable[[Record], None]) -> None:
        self.lists = lists
        self.place = lists.place
        self.ask = ask
        self.rules = rules
        self._add = add

    def grow(self) -> None:
        """Add all records of the tree; raises `Undercut` if something is attainable below the target."""
        waiting: list[tuple[Node, list[Choices]]] = [(self.rules.root, [])]
        while waiting:
            node, witnesses = waiting.pop()
            if node.take is not None:
                number, row = node.take
                witnesses = [witness for witness in witnesses if witness[number] == row]
            record = _Work(self, node, witnesses).record()
            _, children = self.rules.check(node, record)
            self._add(record)
            waiting += [(child, witnesses) for child in reversed(children)]


class _Work:
    """One node while its record is put together; new witnesses are added to those given.

    `bound` is that of the node, infinite once nothing is attainable. left: what cores can still charge to each list.
    """

    def __init__(self, tree: SelectionTree, node: Node, witnesses: list[Choices]) -> None:
        self._tree = tree
        self._node = node
        self._witnesses = witnesses
        self._alive: Alive = dict(node.alive)
        self._empty = False
        self._out: list[tuple[int, int, list[Line]]] = []
        self._cores: list[int | list[Line]] = []
        self._left: dict[int, int] = {}
        self._charged: set[int] = set()

    def record(self) -> Record:
        """Return the record that closes the node or says where to branch."""
        node, place = self._node, self._tree.place
        record: Record = {} if node.take is None else {"take": list(place(node.take[1]))}
        at = self._weigh()
        self._ask_for_choices()
        self._exclude()
        if self._out:
            record["out"] = [[*place(row), core] for _, row, core in self._out]
            if self._tree.lists.several and not self._empty:
                self._node = node._replace(alive=self._alive)
                at = self._weigh()
        if at and not self._empty:
            record["at"] = at
        if not self._closed:
            self._charge_cores()
        if self._cores:
            record["cores"] = self._cores
        if not self._closed:
            record["branch"] = self._branch()
        return record

    def _weigh(self) -> list[int]:
        """Set the bound and return the sums whose prices it is at, none where it needs no prices or the node closes."""
        node, lists = self._node, self._tree.lists
        at: list[int] = []
        self._shut = False
        if lists.several:
            for attempt in range(_MOST_POINTS):
                low, high = self._tree.rules.box(node)
                chosen = {**node.chosen, **{s: rows[0] for s, rows in self._node.alive.items()}}
                cheapest = low if not attempt else self._tree.rules.box(node._replace(chosen=chosen, alive={}))[0]
                middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
                new = point(lists, cheapest if attempt else middle)
                if new == at:
                    break
                at = new
                try:
                    weighed = self._tree.rules.weighed(node, {"at": at})
                except CertificateError:
                    at = []
                    break
                if weighed is None:
                    self._shut = True
                    at = []
                    break
                self._node = weighed
        self._alive = dict(self._node.alive)
        self._bound = self._node.fixed + sum(self._node.cost[rows[0]] for rows in self._alive.values())
        return at

    @property
    def _closed(self) -> bool:
        return self._empty or self._shut or self._bound >= self._node.target

    def _ask_for_choices(self) -> None:
        """Close the node if the choices that led here do not go together."""
        if self._node.take is not None and not self._witnesses and not self._closed:
            answer = self._asked(self._node.chosen)
            if answer.selection is None:
                self._charge([int(line[0]) for line in answer.core], answer.core)

    def _exclude(self) -> None:
        """Exclude the cheapest hypotheses of lists as long as they do not go together with the choices made."""
        cost = self._node.cost
        for number in self._node.alive:
            while not self._closed:
                row = self._alive[number][0]
                if any(witness[number] == row for witness in self._witnesses):
                    break
                answer = self._asked({**self._node.chosen, number: row})
                if answer.selection is not None:
                    break
                self._out.append((number, row, answer.core))
                self._alive[number] = self._alive[number][1:]
                if self._alive[number]:
                    self._bound += cost[self._alive[number][0]] - cost[row]
                else:
                    self._out = [entry for entry in self._out if entry[0] == number]
                    self._empty = True
        if self._closed and not self._empty and not self._tree.lists.several:
            self._restore()

    def _restore(self) -> None:
        """Leave out exclusions, the last of each list first, that the bound does without."""
        cost = self._node.cost
        kept: list[tuple[int, int, list[Line]]] = []
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
        cost, node = self._node.cost, self._node
        self._left = {s: cost[rows[1]] - cost[rows[0]] for s, rows in self._alive.items() if len(rows) > 1}
        cheapest = {s: rows[0] for s, rows in self._alive.items()}
        assumed = {**node.chosen, **cheapest}
        for number, core in enumerate(node.cores):
            if not self._closed and all(assumed.get(s) == row and self._left.get(s, 1) for s, row in core.items()):
                self._charge(core, number)
        while not self._closed:
            asked = {s: row for s, row in cheapest.items() if self._left.get(s, 1)}
            if cheapest and not asked:
                return
            answer = self._asked({**node.chosen, **asked})
            if answer.selection is not None:
                if len(asked) == len(cheapest) and self._undercuts():
                    raise Undercut(self._bound, answer.weights)
                return
            self._charge([int(line[0]) for line in answer.core], answer.core)

    def _charge(self, lists: Iterable[int], core: int | list[Line]) -> None:
        self._cores.append(core)
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
        lists, node = self._tree.lists, self._node
        if not lists.several:
            return True
        chosen = {**node.chosen, **{s: rows[0] for s, rows in self._alive.items()}}
        return not lists.closed(*self._tree.rules.box(node._replace(chosen=chosen, alive={})))

    def _branch(self) -> int:
        """Return the list with the fewest hypotheses within the slack, weighted by how cheap they are."""
        cost, slack = self._node.cost, self._node.target - self._bound

        def weight(number: int) -> float:
            excess = [cost[row] - cost[self._alive[number][0]] for row in self._alive[number]]
            total = sum(exp(-_SHARPNESS * value / slack) for value in excess if value < slack)
            return total if number in self._charged else _CORE_PREFERENCE * total

        several = [number for number, rows in self._alive.items() if len(rows) > 1]
        return min(several or self._alive, key=weight)

    def _asked(self, chosen: Mapping[int, int]) -> SelectionOrCore:
        answer = self._tree.ask(chosen)
        if answer.selection is not None:
            self._witnesses.append(answer.selection)
        return answer


def point(lists: ProofLists, worth: Sequence[int]) -> list[int]:
    """Return the sums of a selection of this worth, at least 1, at which prices can be taken."""
    return [max(1, value) for value in lists.sums(worth)]
