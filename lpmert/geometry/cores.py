"""Learnt cores: sets of choices that no weights make together, kept so that a set of choices that holds one is known to
fail without another linear program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Cores:
    """Cores over some lists; a set of choices is looked up by one pass over its lists, however many cores there are.

    Every core is one bit: for each list, `_free` holds the cores without a choice there, `_needed` those that need a
    given position.
    """

    def __init__(self, lists: Sequence[int]) -> None:
        self._lists = tuple(lists)
        self._free = [0] * len(self._lists)
        self._needed: list[dict[int, int]] = [{} for _ in self._lists]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def learn(self, core: Mapping[int, int]) -> None:
        """Keep a core that maps lists to positions; lists outside of these cores' own are an error (`ValueError`)."""
        if not core.keys() <= set(self._lists):
            raise ValueError(f"a core over the lists {sorted(core)} does not fit into {self._lists}")
        bit = 1 << self._count
        self._count += 1
        for place, number in enumerate(self._lists):
            if number in core:
                needed = self._needed[place]
                needed[core[number]] = needed.get(core[number], 0) | bit
            else:
                self._free[place] |= bit

    def inside(self, positions: Sequence[int]) -> bool:
        """Return whether the choices, one position for each list in order, hold a learnt core."""
        left = (1 << self._count) - 1
        for free, needed, position in zip(self._free, self._needed, positions, strict=True):
            left &= free | needed.get(position, 0)
            if not left:
                return False
        return True
