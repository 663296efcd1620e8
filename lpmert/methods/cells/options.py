"""What the search over cones takes of the method `Cells`, which starts it."""

from __future__ import annotations

from typing import Protocol

from lpmert.methods.choices.choices import Choices
from lpmert.model.form import Canonical


class Options(Protocol):
    """What a search takes of the method `Cells`."""

    @property
    def leaf_lists(self) -> int | None:
        """Cones with at most so many open lists go to the search over selections."""

    @property
    def cuts(self) -> int:
        """Most cutting planes of a simplex."""

    @property
    def cut_rows(self) -> int:
        """Most survivors of such a simplex."""

    @property
    def conflict_lists(self) -> int:
        """Most open lists between which conflicts are looked for."""

    @property
    def conflict_sample(self) -> int:
        """Of many open lists of a box, those between which conflicts are looked for first."""

    @property
    def conflict_levels(self) -> int:
        """Levels of a list's costs that conflicts charge in a box."""

    @property
    def stalled_splits(self) -> int:
        """Splits in a row, a feature, with little settled."""

    @property
    def compare_all(self) -> bool:
        """Whether all hypotheses of a list are compared."""

    @property
    def shape(self) -> str:
        """What the weight space is divided into."""

    @property
    def lanes(self) -> int:
        """Parts searched side by side."""

    @property
    def selections(self) -> Choices:
        """The search over selections."""

    def boxed(self, canonical: Canonical) -> bool:
        """Return whether the weight space of a problem is divided into boxes."""
