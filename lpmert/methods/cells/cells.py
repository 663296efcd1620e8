"""Branch and bound over the weight space: cones of weights, and in each the hypotheses that may still win.

Best first over a frontier of coarse cones, depth first inside each. The bound of a cone is the sum of every list's
cheapest survivor; for a ratio metric it is a linear function below the loss, tight where the sums of the cone are, that
tells what survivors cost. Small or stalled cones go to the search over selections, restricted to the cone; where
rounding leaves that undecided, exact arithmetic closes the cone. Cones are simplicial or, where features are many,
those over boxes on the faces of a cube.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lpmert.configurable import option
from lpmert.errors import MethodError
from lpmert.methods.cells.search import CellsSearch
from lpmert.methods.choices.choices import Choices
from lpmert.model.form import Canonical
from lpmert.search.method import Method, Task

_BOX_FEATURES = 3
"""Features from which on boxes are better than simplices, where they do not stall."""

_BOX_FEATURES_OF_RATIOS = 4
"""The same for ratio metrics, of which more lists stay open: with three features boxes save no time."""


@dataclass(frozen=True)
class Cells(Method):
    """Branch and bound over cones of the weight space; no option changes the optimum."""

    leaf_lists: int | None = option(
        None,
        "cones with at most so many open lists go to the search over selections; none: 10, or 6 for ratio metrics",
        least=0,
    )
    conflict_lists: int = option(
        4000, "most open lists of a node whose bound conflicts of pairs may raise; 0 for none", least=0
    )
    stalled_splits: int = option(4, "splits in a row, a feature, with little settled before a cone goes there", least=0)
    shape: str = option(
        "auto",
        "what the weight space is divided into; auto: boxes, but for few features, a cosine, or where these get stuck",
        choices=("auto", "simplices", "boxes"),
    )
    lanes: int = option(
        8, "parts searched side by side once a search is long; so many workers find something to do", least=1
    )
    selections: Choices = field(default_factory=Choices)

    name = "cells"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    keeps_checkpoints = True

    def boxed(self, canonical: Canonical) -> bool:
        """Whether the weight space of a problem is divided into boxes; raises `MethodError` where it cannot be."""
        possible = canonical.cap is None
        if self.shape == "boxes" and not possible:
            raise MethodError("shape: boxes are for regions without a cosine; leave it out, or set simplices")
        fewest = _BOX_FEATURES if canonical.additive else _BOX_FEATURES_OF_RATIOS
        return possible and (self.shape == "boxes" or (self.shape == "auto" and canonical.n_features >= fewest))

    def start(self, task: Task) -> CellsSearch:
        """Return a search over the whole weight space that begins with this incumbent."""
        return CellsSearch(self, task.canonical, task.incumbent)
