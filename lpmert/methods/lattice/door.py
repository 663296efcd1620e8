"""What the doors do with lattices before they search them: check the arguments."""

from __future__ import annotations

from typing import Any

from lpmert.errors import MethodError, MetricError
from lpmert.model.graphs import WordGraphs
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.region import Region
from lpmert.quoting import quoted


def lattice_problem(lattices: WordGraphs, metric: Any, ties: str, region: Region | None) -> LatticeProblem:
    """Return the problem; raises `MetricError`, `MethodError` and `RegionError` for what lattices cannot take.

    metric: "loss", the default of the doors, stands for "wer" where links have no losses.
    """
    if not isinstance(metric, str) and not hasattr(metric, "counter"):
        raise MetricError(f"for lattices the metric is one on texts, wer, cer or ter, not {quoted(metric)}")
    if ties != "first":
        raise MethodError(
            f"ties={quoted(ties)} is for N-best lists; of paths that no weights tell apart the first one counts"
        )
    return LatticeProblem(lattices, "wer" if metric == "loss" and lattices.losses is None else metric, region)
