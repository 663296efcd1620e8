"""Open prefixes: what is left to be combined in a chain of streams, in pieces that can be searched anywhere else.

A chain combines one list after the other. Every attainable choice of its first lists is combined with the hypotheses
of the next one in order; a prefix is open as far as that has not been done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.divide.combination import Combination, Screen
from lpmert.methods.divide.extremity import Start
from lpmert.methods.divide.streams import OneList, Stream, TwoHalves


class OpenPrefix(NamedTuple):
    """All selections that begin with some choices, but those whose next list chooses before a position.

    positions [k]: what the chain's first lists choose. following: the next list's first position. bound: nothing in it
    costs less. least [S]: for every list the first position that may go with the choices. weights [d]: these make them;
    `None` where no double precision weights are known to.
    """

    positions: IntArray
    following: int
    bound: int
    least: IntArray
    weights: FloatArray | None

    @property
    def nbytes(self) -> int:
        weights = 0 if self.weights is None else self.weights.nbytes
        return self.positions.nbytes + self.least.nbytes + weights + 100


class Alone(NamedTuple):
    """What is known of a list alone: of its first hypotheses, so many, those that are attainable [F], and for each of
    them the first position of every list that may go with it [F, S].
    """

    tested: int
    positions: IntArray
    least: IntArray

    @classmethod
    def of(cls, stream: OneList) -> Alone:
        """Return what a stream has found out."""
        found = stream.found
        positions = np.array([combination.positions[0] for combination in found], dtype=np.int64)
        least = np.array([combination.least for combination in found], dtype=np.int64)
        return cls(stream.position, positions, least.reshape(len(found), -1 if len(found) else 0))

    def put(self, stream: OneList, screen: Screen, following: int = 0) -> OneList:
        """Let a stream that has found nothing yet know it, from a position on; return the stream."""
        stream.position = max(self.tested, following)
        for position, least in zip(self.positions.tolist(), self.least, strict=True):
            if position >= following:
                stream.found.append(_combination(screen, stream.part, np.array([position]), least, None))
        return stream


class Chain:
    """Where open prefixes are searched. order [S]: in which its lists are combined; alone: what is known of each."""

    def __init__(self, screen: Screen, order: IntArray, alone: Sequence[Alone], *, lazy: bool) -> None:
        self._screen, self._order, self._lazy = screen, order, lazy
        self._lists = [one.put(OneList(s, screen), screen) for s, one in enumerate(alone)]

    def root(self, part: OpenPrefix) -> Stream:
        """Return the stream of all complete combinations of a part."""
        depth = len(part.positions)
        branch = int(self._order[depth])
        known = Alone.of(self._lists[branch])
        stream: Stream = known.put(OneList(branch, self._screen), self._screen, part.following)
        if depth:
            lists = self._order[:depth]
            prefix = _combination(self._screen, lists, part.positions, part.least, part.weights)
            stream = self._join(_Prefix(lists, prefix), stream)
        for s in self._order[depth + 1 :].tolist():
            stream = self._join(stream, self._lists[s])
        return stream

    def open_in(self, root: Stream, bound: int) -> list[OpenPrefix]:
        """Return what is open in a stream that `root` returned; nothing in it costs less than the bound."""
        return open_prefixes(root, self._lists, self._screen, bound)

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        return TwoHalves(left, right, self._screen, lazy=self._lazy)


class _Prefix:
    """The stream of one combination that is known."""

    bound = INFINITE_COST

    def __init__(self, part: IntArray, combination: Combination) -> None:
        self.part, self.found = part, [combination]

    def get_next_best(self) -> None:
        """There is no other one."""


def _combination(
    screen: Screen, lists: IntArray, positions: IntArray, least: IntArray, weights: FloatArray | None
) -> Combination:
    return Combination(int(screen.costs[lists, positions].sum()), positions, Start(len(lists), weights), least)


def open_prefixes(root: Stream, lists: Sequence[OneList], screen: Screen, bound: int) -> list[OpenPrefix]:
    """Return what is open in a chain of these lists, the coarsest first; nothing in it costs less than the bound."""
    sizes = screen.extremity.sizes
    first = np.array([int(one.found[0].positions[0]) if one.found else one.position for one in lists])
    found: list[OpenPrefix] = []

    def add(begun: IntArray, branch: int, following: int, known: Combination | None) -> None:
        """Add what begins with a combination, if anything is left there; begun: its lists."""
        lowest = first.copy() if known is None else np.maximum(first, known.least)
        lowest[branch] = max(following, 0 if known is None else int(known.least[branch]))
        positions = np.zeros(0, dtype=np.int64) if known is None else known.positions
        lowest[begun] = positions
        if (lowest < sizes).all():
            least = np.zeros(len(sizes), dtype=np.int64) if known is None else known.least
            weights = None if known is None else known.start.weights
            own = int(screen.costs[np.arange(len(sizes)), lowest].sum())
            found.append(OpenPrefix(positions, following, max(bound, own), least, weights))

    stream = root
    while isinstance(stream, TwoHalves):
        left, right = stream.left, stream.right
        if not isinstance(right, OneList):
            raise TypeError("a chain combines one list after the other")
        rows = {m: n for _, m, n in stream.frontier}
        not_begun = min((m for m, n in rows.items() if n == 0), default=len(left.found))
        for m in range(len(left.found)):
            n = rows.get(m, 0 if m >= not_begun else None)
            if n is not None:
                following = int(right.found[n].positions[0]) if n < len(right.found) else right.position
                add(left.part, int(right.part[0]), following, left.found[m])
        stream = left
    if isinstance(stream, OneList):
        add(np.zeros(0, dtype=np.int64), int(stream.part[0]), stream.position, None)
    return found[::-1]
