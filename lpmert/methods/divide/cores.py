"""Learnt cores: sets of choices that no weights make together, kept so that choices which hold one are known to fail
without another linear program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Cores:
    """Cores over S lists; choices are looked up by one pass over the lists, however many cores there are.

    Every core is one bit: `_free` holds for each list the cores without a choice there, `_needed` those that need a
    given position.
    """

    def __init__(self, n_lists: int) -> None:
        self._free = [0] * n_lists
        self._needed: list[dict[int, int]] = [{} for _ in range(n_lists)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def learn(self, core: Iterable[tuple[int, int]]) -> None:
        """Keep a core, a set of (list, position)."""
        bit = 1 << self._count
        self._count += 1
        place = dict(core)
        for s, needed in enumerate(self._needed):
            if s in place:
                needed[place[s]] = needed.get(place[s], 0) | bit
            else:
                self._free[s] |= bit

    def inside(self, lists: Sequence[int], positions: Sequence[int]) -> bool:
        """Return whether the choices of these positions in these lists hold a core."""
        left = (1 << self._count) - 1
        for s, position in zip(lists, positions, strict=True):
            left &= self._free[s] | self._needed[s].get(position, 0)
            if not left:
                return False
        for s in set(range(len(self._free))).difference(lists):
            left &= self._free[s]
            if not left:
                return False
        return True

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        return self._count // 8 * sum(1 + len(needed) for needed in self._needed)
