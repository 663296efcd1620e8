"""Columns of which more is better: truth values as numbers, and losses made of gains."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpmert.errors import DataError
from lpmert.model.nbest import NBest

_TRUTH = {"true": 1.0, "false": 0.0}


def truth_as_numbers(cells: Any, *, textual: bool) -> Any:
    """Return the cells of a column with 1 for true and 0 for false; in TSV and CSV, `textual`, these are words."""
    if isinstance(cells, np.ndarray) and cells.dtype != object:
        return cells.astype(np.float64) if cells.dtype == bool else cells
    if textual:
        return [str(_TRUTH[word]) if (word := cell.strip().lower()) in _TRUTH else cell for cell in cells]
    return [float(cell) if isinstance(cell, bool) else cell for cell in cells]


def losses_of_gains(nbest: NBest) -> NBest:
    """Return the lists with a loss in the place of their one statistic, of which more is better.

    It is 1 - gain where all gains lie between 0 and 1, such as flags and shares, or else minus the gain; its name says
    which. Raises `DataError` for several statistics.
    """
    if nbest.statistics.shape[1] != 1:
        raise DataError(f"a gain is one column; the lists have {nbest.statistics.shape[1]} statistics")
    gains, name = nbest.statistics, nbest.statistic_names[0]
    share = bool(((gains >= 0) & (gains <= 1)).all())
    losses = 1.0 - gains if share else -gains
    return NBest(
        nbest.features,
        nbest.offsets,
        np.asarray(losses + 0.0),
        nbest.names,
        nbest.list_ids,
        (f"1 - {name}" if share else f"-{name}",),
        nbest.texts,
        copy=False,
    )
