"""What a comparison found: runs, what they say of each method, here and on unseen lists, and the optimum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from lpmert.errors import FloatArray
from lpmert.findings import LOSS, Outcome, Unit
from lpmert.result import SCHEMA, Result, Status
from lpmert.unseen.estimate import Interval, doubts


@dataclass(frozen=True)
class Run:
    """One run of a method, or weights that were given, judged by decoding.

    weights [D]; loss and score are what `Problem.evaluate` gives on the lists tuned on, with `tied_lists` tied; inside:
    whether the weights lie in the region. The held-out figures are `None` without held-out lists. seconds: of the
    search alone. status: how the run ended, `None` for given weights; seed likewise. chosen [S, K] and
    held_out_chosen: the statistics of the hypotheses chosen.
    """

    untold = ("chosen", "held_out_chosen")

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


def best_of(runs: Iterable[Run]) -> Run:
    """Return the run with the least loss, the first of equals; one outside of the region only if all are."""
    return min(runs, key=lambda run: (not run.inside, run.loss))


OPTIMUM = "optimum"
"""The name of what the search for the optimum finds on the lists of a fit, beside those of the methods."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What a method costs on lists that it was not fitted to.

    here: its mean loss on the lists that it was fitted to, all of them; loss: that of cross-validation; difference:
    from the first method, with the p-value of there being none, `None` for the first. held_out: mean loss on lists
    apart. fits: one for each repetition and fold.
    """

    told = ("optimism", "proved")
    untold = ("fits",)

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


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """All methods on the same folds; groups: of lists that share a source, or the lists themselves.

    planned: repetitions that were to be made; repetitions: those that were completed. left_out: names of weights that
    cannot be fitted again.
    """

    told = ("notes",)
    untold = ("planned", "n_lists", "left_out")

    folds: int
    repetitions: int
    planned: int
    groups: int
    n_lists: int
    methods: tuple[Expected, ...]
    left_out: tuple[str, ...]

    def __getitem__(self, name: str) -> Expected:
        """Return the method of this name; raises `KeyError`."""
        return {method.name: method for method in self.methods}[name]

    @property
    def notes(self) -> list[str]:
        """What to keep in mind, a sentence each."""
        found = []
        if self.repetitions < self.planned:
            found.append(f"only {self.repetitions} of {self.planned} repetitions were made")
        found += doubts("cross-validation", self.groups, self.n_lists)
        for method in self.methods:
            if method.name == OPTIMUM and method.proved < len(method.fits):
                open_fits = len(method.fits) - method.proved
                found.append(f"{open_fits} of {len(method.fits)} optima are not proved: the best known are used")
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(f"{names}: not fitted here, so not cross-validated; they may have seen the lists held out")
        return found


@dataclass(frozen=True)
class Summary:
    """Mean and best of losses, their range Delta and their standard deviation S, `None` for a single one."""

    mean: float
    best: float
    delta: float | None
    deviation: float | None

    @classmethod
    def of(cls, losses: Sequence[float]) -> Summary:
        several = len(losses) > 1
        spread = (max(losses) - min(losses), stdev(losses)) if several else (None, None)
        return cls(fmean(losses), min(losses), *spread)


@dataclass(frozen=True)
class Entry:
    """A method, or weights from elsewhere, with all runs in the order of their seeds.

    settings: the method's name and what differs from its defaults. p_value: of the difference of its best run from that
    of the first method, on the held-out lists if there are any; `None` for the first.
    """

    told = ("loss", "held_out_loss", "seconds")

    name: str
    settings: str
    runs: tuple[Run, ...]
    p_value: float | None

    @property
    def best(self) -> Run:
        """The run with the least loss, the first of equals; one outside of the region only if all are."""
        return best_of(self.runs)

    @property
    def losses(self) -> list[float]:
        return [run.loss for run in self.runs]

    @property
    def held_out_losses(self) -> list[float]:
        """Loss of each run on the held-out lists, none without such lists."""
        return [run.held_out_loss for run in self.runs if run.held_out_loss is not None]

    @property
    def loss(self) -> Summary:
        """What the runs cost on the lists tuned on."""
        return Summary.of(self.losses)

    @property
    def held_out_loss(self) -> Summary | None:
        """The same on the held-out lists, `None` without such lists."""
        return Summary.of(self.held_out_losses) if self.held_out_losses else None

    @property
    def seconds(self) -> float:
        """Median of the runs' seconds."""
        return median(run.seconds for run in self.runs)


@dataclass(frozen=True)
class Comparison(Outcome):
    """All methods on the same lists, and the optimum of these lists or what is known of it.

    names [D] of the features. complete: whether every run was made. cross_validation: if it was requested and one
    repetition at least was made. unit, held_out_unit: how losses on the lists, and on those held out, read in
    the unit that users know.
    """

    schema = SCHEMA
    told = ("schema", "proved", "lower_bound")
    untold = ("names",)

    names: tuple[str, ...]
    methods: tuple[Entry, ...]
    optimum: Result | None
    complete: bool
    signature: str
    fingerprint: str
    held_out_fingerprint: str | None
    cross_validation: CrossValidation | None = None
    unit: Unit = LOSS
    held_out_unit: Unit | None = None

    def __getitem__(self, name: str) -> Entry:
        """Return the method of this name; raises `KeyError`."""
        return {method.name: method for method in self.methods}[name]

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

    def __str__(self) -> str:
        """Return a short report, one line a method."""
        unit, bound = self.unit, "no bound"
        if self.lower_bound is not None:
            proved = " (proved optimum)" if self.proved else ""
            bound = f"{unit.name} {unit.bound} {unit.short(self.lower_bound, bound=True)}{proved}"
        width = max((len(one.name) for one in self.methods), default=0)
        lines = [
            f"  {one.name:{width}}  {unit.short(one.loss.mean)} (best {unit.short(one.best.loss)})"
            for one in self.methods
        ]
        return "\n".join([f"{len(self.methods)} methods, {bound}", *lines])
