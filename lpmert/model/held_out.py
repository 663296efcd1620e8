"""Lists that are held out, beside those that weights are found on."""

from __future__ import annotations

from lpmert.errors import DataError
from lpmert.model.nbest import NBest
from lpmert.quoting import listed


def like(held_out: NBest, nbest: NBest) -> NBest:
    """Return held-out lists with the features in the order of the others; raises `DataError` if they lack one."""
    if held_out.statistic_names != nbest.statistic_names:
        raise DataError(
            f"the held-out lists have statistics {listed(held_out.statistic_names)}, the others "
            f"{listed(nbest.statistic_names)}; read both with the same columns"
        )
    return held_out if held_out.names == nbest.names else held_out.select_features(nbest.names)
