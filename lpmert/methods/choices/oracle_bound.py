"""A bound for a ratio metric that needs no search: that of the oracle, for which every list may choose as it likes."""

from __future__ import annotations

from lpmert import core
from lpmert.errors import FloatArray
from lpmert.methods.choices.ratio_lists import TANGENTS, Bound, Ratio, best_height
from lpmert.numeric.lists import SortedLists


def oracle_height(lists: SortedLists, ratio: Ratio, weights: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a height in units that no selection undercuts, whether attainable or not, and what costs are laid for it.

    The first minorant is laid at what the weights [d] attain, see `best_height`. The costs [M] of the bound are what
    each row costs more than the cheapest of its list.
    """
    return best_height(lists.offsets, ratio, core.decode_total(lists.native(), ratio, weights), tangents)
