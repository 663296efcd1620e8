"""Searches of the core over nodes of a test's own."""

from __future__ import annotations

from typing import Any

from lpmert import core
from lpmert.methods.cells.nodes import precision_of
from lpmert.methods.cells.units import NodeSettings
from lpmert.methods.choices.choices import Choices
from lpmert.numeric.lists import SortedLists


def core_search(lists: SortedLists, *, boxed: bool, levels: int = 4) -> Any:
    """A search over boxes or cones of sums of losses, with no node yet."""
    settings = NodeSettings(
        granularity=1,
        leaf_lists=0,
        leaf_rows=0,
        conflict_lists=len(lists.offsets),
        most_stalled=100,
        hopeless=100,
        row_work=4,
        levels=levels,
    )
    selections = Choices().core_settings(1, cores=True, pool_size=64)
    search = core.cell_search(lists.native(), None, selections, precision_of(lists) if boxed else None, settings)
    search.renew(lists.rows[0] * 0.0)
    return search
