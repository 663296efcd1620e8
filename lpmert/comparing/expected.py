"""What cross-validation found: for each method the loss to be expected on lists that it was not fitted to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lpmert.comparing.run import Run
from lpmert.unseen.estimate import FEW, Interval

OPTIMUM = "optimum"
"""The name of what the search for the optimum finds on the lists of a fit, beside those of the methods."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What a method costs on lists that it was not fitted to.

    here: its mean loss on the lists that it was fitted to, all of them; loss: that of cross-validation; difference:
    from the first method, with the p-value of there being none, `None` for the first. held_out: mean loss on lists
    apart. fits: one for each repetition and fold.
    """

    name: str
    here: float | None
    loss: Interval
    difference: Interval | None
    p_value: float | None
    held_out: float | None
    fits: tuple[Run, ...]

    @property
    def optimism(self) -> float | None:
        """The share of the expected loss that the loss on the lists fitted to leaves out."""
        if self.here is None or not self.loss.value > 0.0:
            return None
        return 1.0 - self.here / self.loss.value

    @property
    def proved(self) -> int:
        """Fits whose loss is proved to be the least on their lists."""
        return sum(fit.status is not None and fit.status.proved for fit in self.fits)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers and dictionaries, without the fits."""
        return {
            "name": self.name,
            "here": self.here,
            "loss": asdict(self.loss),
            "optimism": self.optimism,
            "difference": None if self.difference is None else asdict(self.difference),
            "p_value": self.p_value,
            "held_out": self.held_out,
            "fits": len(self.fits),
            "proved": self.proved,
        }


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """All methods on the same folds; groups: of lists that share a source, or the lists themselves.

    asked: repetitions that were asked for; repetitions: those that were completed. left_out: names of weights that
    cannot be fitted again.
    """

    folds: int
    repetitions: int
    asked: int
    groups: int
    n_lists: int
    entries: tuple[Expected, ...]
    left_out: tuple[str, ...]

    def __getitem__(self, name: str) -> Expected:
        """Return the entry of this name; raises `KeyError`."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
        found = []
        if self.repetitions < self.asked:
            found.append(f"only {self.repetitions} of {self.asked} repetitions were made")
        if self.groups < FEW:
            few = "lists" if self.groups == self.n_lists else "groups of lists"
            found.append(f"fewer than {FEW} {few}: cross-validation is not worth much")
        for entry in self.entries:
            if entry.name == OPTIMUM and entry.proved < len(entry.fits):
                open_fits = len(entry.fits) - entry.proved
                found.append(f"{open_fits} of {len(entry.fits)} optima are not proved: the best known stand for them")
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(f"{names}: not fitted here, so not cross-validated; they may have seen the lists held out")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {
            "folds": self.folds,
            "repetitions": self.repetitions,
            "groups": self.groups,
            "methods": [entry.to_dict() for entry in self.entries],
            "notes": self.notes,
        }
