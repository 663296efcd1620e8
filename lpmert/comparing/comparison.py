"""What a comparison found: runs, what they say of each method, here and on unseen lists, and the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.findings import LOSS, Outcome, Unit
from lpmert.result import SCHEMA, Result, Status
from lpmert.unseen.estimate import FEW, Interval


@dataclass(frozen=True)
class Run:
    """One run of a method, or weights that were given, judged by decoding.

    weights [D]; loss and score are what `Problem.evaluate` gives on the lists tuned on, with `tied_lists` tied; inside:
    whether the weights lie in the region. The held-out figures are `None` without held-out lists. seconds: of the
    search alone. status: how the run ended, `None` for given weights; seed likewise. chosen [S, K] and
    held_out_chosen: the statistics of the hypotheses chosen.
    """

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    inside: bool
    held_out_loss: float | None
    held_out_score: float | None
    seconds: float
    seed: int | None
    status: Status | None
    chosen: FloatArray
    held_out_chosen: FloatArray | None

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the run as plain numbers and strings, without what it chose."""
        own = {name: value for name, value in vars(self).items() if name not in ("chosen", "held_out_chosen")}
        status = None if self.status is None else self.status.name.lower()
        return {**own, "status": status, "weights": dict(zip(names, self.weights.tolist(), strict=True))}


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
        difference = None if self.difference is None else asdict(self.difference)
        own = {**vars(self), "loss": asdict(self.loss), "difference": difference, "fits": len(self.fits)}
        return {**own, "optimism": self.optimism, "proved": self.proved}


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """All methods on the same folds; groups: of lists that share a source, or the lists themselves.

    planned: repetitions that were to be made; repetitions: those that were completed. left_out: names of weights that
    cannot be fitted again.
    """

    folds: int
    repetitions: int
    planned: int
    groups: int
    n_lists: int
    entries: tuple[Expected, ...]
    left_out: tuple[str, ...]

    def __getitem__(self, name: str) -> Expected:
        """Return the entry of this name; raises `KeyError`."""
        return {entry.name: entry for entry in self.entries}[name]

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
        found = []
        if self.repetitions < self.planned:
            found.append(f"only {self.repetitions} of {self.planned} repetitions were made")
        if self.groups < FEW:
            few = "lists" if self.groups == self.n_lists else "groups of lists"
            found.append(f"fewer than {FEW} {few}: cross-validation is not worth much")
        for entry in self.entries:
            if entry.name == OPTIMUM and entry.proved < len(entry.fits):
                open_fits = len(entry.fits) - entry.proved
                found.append(f"{open_fits} of {len(entry.fits)} optima are not proved: the best known are used")
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


BEST_OF = 10
DRAWS = 1000
_FEWEST = 3
"""Runs that a correlation needs at least."""


@dataclass(frozen=True)
class Difference:
    """How the best run of a method differs from that of the first method on the same lists.

    loss: this method's minus the first one's; p_value: of the paired permutation test; low, high: 95% of bootstrapped
    differences.
    """

    loss: float
    p_value: float
    low: float
    high: float


@dataclass(frozen=True)
class BestOf:
    """What to expect of the best of `runs` runs, over bootstrapped sets of them.

    loss: of the best one on the lists tuned on; held_out_loss: of that run on the held-out lists.
    """

    runs: int
    loss: float
    held_out_loss: float | None


@dataclass(frozen=True)
class Entry:
    """A method, or weights from elsewhere, with all runs in the order of their seeds.

    settings: the method's name and what differs from its defaults. training and held_out: differences from the first
    method, `None` for itself.
    """

    name: str
    settings: str
    runs: tuple[Run, ...]
    training: Difference | None
    held_out: Difference | None

    @property
    def best(self) -> Run:
        """The run with the least loss, the first of equals; one outside of the region only if all are."""
        return min(self.runs, key=lambda run: (not run.inside, run.loss))

    @property
    def losses(self) -> list[float]:
        return [run.loss for run in self.runs]

    @property
    def held_out_losses(self) -> list[float]:
        """Loss of each run on the held-out lists, none without such lists."""
        return [run.held_out_loss for run in self.runs if run.held_out_loss is not None]

    @property
    def seconds(self) -> float:
        """Median of the runs' seconds."""
        return median(run.seconds for run in self.runs)

    @property
    def pearson(self) -> float | None:
        """Correlation between loss and held-out loss over the runs; `None` where it is undefined."""
        return _correlation(self.losses, self.held_out_losses, ranks=False)

    @property
    def spearman(self) -> float | None:
        """Rank correlation between loss and held-out loss over the runs; `None` where it is undefined."""
        return _correlation(self.losses, self.held_out_losses, ranks=True)

    def best_of(self, *, draws: int = DRAWS, seed: int = 0) -> list[BestOf]:
        """Return what the best of 1, ..., 10 runs gives, from bootstrapped sets; empty for a single run.

        Source: Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT 2009.
        """
        if len(self.runs) < 2:
            return []
        rng = np.random.default_rng(seed)
        losses, held_out = np.array(self.losses), np.array(self.held_out_losses)
        curve = []
        for runs in range(1, BEST_OF + 1):
            drawn = rng.integers(len(losses), size=(draws, runs))
            chosen = drawn[np.arange(draws), losses[drawn].argmin(axis=1)]
            mean = float(losses[chosen].mean())
            curve.append(BestOf(runs, mean, float(held_out[chosen].mean()) if len(held_out) else None))
        return curve


@dataclass(frozen=True)
class Comparison(Outcome):
    """All entries on the same lists, the first method first, and the optimum of these lists or what is known of it.

    names [D] of the features. complete: whether every run was made. unseen: the cross-validation, if it was asked for
    and one repetition at least was made. unit, held_out_unit: how losses on the lists, and on those held out, read in
    the unit that users know.
    """

    names: tuple[str, ...]
    entries: tuple[Entry, ...]
    optimum: Result | None
    complete: bool
    signature: str
    fingerprint: str
    held_out_fingerprint: str | None
    unseen: CrossValidation | None = None
    unit: Unit = LOSS
    held_out_unit: Unit | None = None

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of this name; raises `KeyError`."""
        return {entry.name: entry for entry in self.entries}[name]

    @property
    def proved(self) -> bool:
        return self.optimum is not None and self.optimum.status.proved

    @property
    def lower_bound(self) -> float | None:
        """The proven least loss, or a proven bound below it; `None` if there is none."""
        return None if self.optimum is None else self.optimum.lower_bound

    def excess(self, run: Run) -> float | None:
        """Return the loss beyond the lower bound: the distance to the optimum where that is proved.

        Negative only for given weights that win by ties or lie outside of the region. `None` without a bound.
        """
        return None if self.lower_bound is None else run.loss - self.lower_bound

    def wins_by_ties(self, run: Run) -> bool:
        """Whether the loss is below the proved least one: only ties, broken by list order, can do that."""
        excess = self.excess(run)
        return run.inside and excess is not None and excess < 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain numbers, strings, lists and dictionaries, ready for JSON."""
        return {
            "schema": SCHEMA,
            "complete": self.complete,
            "signature": self.signature,
            "fingerprint": self.fingerprint,
            "held_out_fingerprint": self.held_out_fingerprint,
            "proved": self.proved,
            "lower_bound": self.lower_bound,
            "optimum": None if self.optimum is None else self.optimum.to_dict(),
            "methods": [self._entry(entry) for entry in self.entries],
            "cross_validation": None if self.unseen is None else self.unseen.to_dict(),
            "unit": asdict(self.unit),
            "held_out_unit": None if self.held_out_unit is None else asdict(self.held_out_unit),
        }

    def _entry(self, entry: Entry) -> dict[str, Any]:
        return {
            "name": entry.name,
            "settings": entry.settings,
            "runs": [run.to_dict(self.names) for run in entry.runs],
            "loss": {**summary(entry.losses), "excess": self.excess(entry.best)},
            "held_out_loss": summary(entry.held_out_losses) if entry.held_out_losses else None,
            "wins_by_ties": self.wins_by_ties(entry.best),
            "seconds": entry.seconds,
            "against_first": {"training": _plain(entry.training), "held_out": _plain(entry.held_out)},
            "stability": {
                "pearson": entry.pearson,
                "spearman": entry.spearman,
                "best_of": [vars(point) for point in entry.best_of()],
            },
        }

    def __str__(self) -> str:
        """Return a short report, one line a method."""
        unit, bound = self.unit, "no bound"
        if self.lower_bound is not None:
            proved = " (proved optimum)" if self.proved else ""
            bound = f"{unit.name} {unit.bound} {unit.short(self.lower_bound, bound=True)}{proved}"
        width = max((len(entry.name) for entry in self.entries), default=0)
        rows = [(entry.name, unit.short(fmean(entry.losses)), unit.short(entry.best.loss)) for entry in self.entries]
        lines = [f"  {name:{width}}  {mean} (best {best})" for name, mean, best in rows]
        return "\n".join([f"{len(self.entries)} methods, {bound}", *lines])


def summary(losses: Sequence[float]) -> dict[str, float | None]:
    """Return mean and best of losses, their range Delta and their standard deviation S, `None` for a single one."""
    several = len(losses) > 1
    return {
        "mean": fmean(losses),
        "best": min(losses),
        "delta": max(losses) - min(losses) if several else None,
        "deviation": stdev(losses) if several else None,
    }


def _plain(difference: Difference | None) -> Mapping[str, float] | None:
    return None if difference is None else vars(difference)


def _correlation(first: Sequence[float], second: Sequence[float], *, ranks: bool) -> float | None:
    if len(second) < _FEWEST or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    from scipy.stats import pearsonr, spearmanr

    value = float(spearmanr(first, second).statistic if ranks else pearsonr(first, second).statistic)
    return value if math.isfinite(value) else None
