"""A search that has others do the work: what they count, and what they hold, adds up."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence

from lpmert.search.method import Incumbent, Search


class Combined(Search):
    """A search by way of others, some at once or one after the other."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._counted: Counter[str] = Counter()
        self._nodes = self._lps = 0

    @property
    @abstractmethod
    def _searches(self) -> Sequence[Search]:
        """Those that have begun and have not been put away."""

    def _put_away(self, search: Search) -> None:
        """Keep what a search has counted; from here on it must not be among the others."""
        self._nodes += search.nodes
        self._lps += search.lps
        self._counted.update(search.counters())

    @property
    def nodes(self) -> int:
        return self._nodes + sum(search.nodes for search in self._searches)

    @property
    def open_nodes(self) -> int:
        return sum(search.open_nodes for search in self._searches)

    @property
    def lps(self) -> int:
        return self._lps + sum(search.lps for search in self._searches)

    @property
    def memory(self) -> int:
        return sum(search.memory for search in self._searches)

    def counters(self) -> Mapping[str, int]:
        """Return what all searches counted together."""
        total = self._counted.copy()
        for search in self._searches:
            total.update(search.counters())
        return total
