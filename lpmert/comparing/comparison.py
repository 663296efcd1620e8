"""The result of a comparison: runs, their summary by method, cross-validation, and the optimum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from lpmert.comparing.cross_validation import Interval, doubts
from lpmert.errors import FloatArray
from lpmert.quoting import LOSS, Unit
from lpmert.result import SCHEMA, Outcome, Result, Status


@dataclass(frozen=True)
class Run:
    """One run of a method, or weights [D] from elsewhere, evaluated by decoding.

    inside: whether the weights lie in the region. held_out_loss: `None` without held-out lists.
    seconds: of the search alone. seed: `None` if nothing is random; status: `None` unless a method ran. chosen [S, K],
    held_out_chosen [S', K]: the statistics of the chosen hypotheses.
    """

    json_omits = ("chosen", "held_out_chosen")

    weights: FloatArray
    loss: float
    score: float
    tied_lists: int
    inside: bool
    held_out_loss: float | None
    seconds: float
    seed: int | None
    status: Status | None
    chosen: FloatArray
    held_out_chosen: FloatArray | None

    @property
    def judged(self) -> FloatArray:
        """The statistics of the chosen hypotheses, of held-out lists if there are any."""
        return self.chosen if self.held_out_chosen is None else self.held_out_chosen


def best_of(runs: Iterable[Run]) -> Run:
    """Return the run with the least loss, the first of equal ones; runs outside the region only count if all are."""
    return min(runs, key=lambda run: (not run.inside, run.loss))


OPTIMUM = "optimum"  # name of the search for the optimum in cross-validation, beside the names of the methods


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected loss of a method on unseen lists, by cross-validation.

    here, held_out: the mean loss of its runs on all lists, to which they are fitted, and on the held-out lists.
    difference, p_value: from the first method, for which they are `None`; the p-value also if all folds have the same
    difference, not 0. fits: one for each repetition and fold.
    """

    json_properties = ("optimism", "proved")
    json_omits = ("fits",)

    name: str
    here: float | None
    loss: Interval
    difference: Interval | None
    p_value: float | None
    held_out: float | None
    fits: tuple[Run, ...]

    @property
    def optimism(self) -> float | None:
        """By which share the loss on the lists fitted to is below the expected loss."""
        if self.here is None or not self.loss.value > 0.0:
            return None
        return 1.0 - self.here / self.loss.value

    @property
    def proved(self) -> int:
        return sum(fit.status is not None and fit.status.proved for fit in self.fits)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Cross-validation of all methods on the same folds.

    repetitions, planned: how often lists were drawn into folds and all folds completed, and how often this was
    requested. groups: of lists that share a source; without groups, of lists. left_out: names of weights from
    elsewhere, which cannot be refitted.
    """

    json_properties = ("notes",)
    json_omits = ("planned", "n_lists", "left_out")

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
        """Notes on how far the estimates can be trusted, a sentence each."""
        found = doubts("cross-validation", self.groups, self.n_lists)
        if self.repetitions < self.planned:
            found.insert(0, f"only {self.repetitions} of {self.planned} repetitions were made")
        for method in self.methods:
            if method.name == OPTIMUM and (unproved := len(method.fits) - method.proved):
                found.append(f"{unproved} of {len(method.fits)} optima are not proved: the best known are used")
        if self.left_out:
            names = ", ".join(self.left_out)
            found.append(f"{names}: not fitted here, so not cross-validated; they may have seen the lists held out")
        return found


@dataclass(frozen=True)
class Summary:
    """Mean, minimum, range and standard deviation of the losses of runs, the last two `None` for a single one."""

    mean: float
    best: float
    delta: float | None
    deviation: float | None

    @classmethod
    def of(cls, losses: Sequence[float]) -> Summary:
        spread = (max(losses) - min(losses), stdev(losses)) if len(losses) > 1 else (None, None)
        return cls(fmean(losses), min(losses), *spread)


@dataclass(frozen=True)
class Entry:
    """A method, or weights from elsewhere, with its runs in the order of their seeds.

    settings: the method's name and the options that differ from their defaults. p_value: of the difference between its
    best run and that of the first entry, on the held-out lists if there are any; `None` for the first entry.
    """

    json_properties = ("loss", "held_out_loss", "seconds")

    name: str
    settings: str
    runs: tuple[Run, ...]
    p_value: float | None

    @property
    def best(self) -> Run:
        return best_of(self.runs)

    @property
    def losses(self) -> list[float]:
        return [run.loss for run in self.runs]

    @property
    def held_out_losses(self) -> list[float]:
        return [run.held_out_loss for run in self.runs if run.held_out_loss is not None]

    @property
    def loss(self) -> Summary:
        return Summary.of(self.losses)

    @property
    def held_out_loss(self) -> Summary | None:
        return Summary.of(self.held_out_losses) if self.held_out_losses else None

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.runs)


@dataclass(frozen=True)
class Comparison(Outcome):
    """All methods on the same lists, and the optimum of these lists or a bound on it.

    Parameters
    ----------
    names : tuple of str
        The features.
    methods : tuple of Entry
        The methods and weights compared.
    optimum : Result or None
        The result of the search for the optimum, if there was one.
    complete : bool
        Whether every run was made.
    signature : str
        Every setting that changes the numbers.
    fingerprint : str
        Fingerprint of the lists.
    cross_validation : CrossValidation or None
        Its result, if it was requested and at least one repetition was completed.
    unit, held_out_unit : Unit, or None
        The units in which losses on the lists, and on the held-out lists, are shown.
    """

    schema = SCHEMA
    json_properties = ("schema", "proved", "lower_bound")
    json_omits = ("names",)

    names: tuple[str, ...]
    methods: tuple[Entry, ...]
    optimum: Result | None
    complete: bool
    signature: str
    fingerprint: str
    cross_validation: CrossValidation | None = None
    unit: Unit = LOSS
    held_out_unit: Unit | None = None

    def __getitem__(self, name: str) -> Entry:
        """Return the method of this name; raises `KeyError`."""
        return {method.name: method for method in self.methods}[name]

    @property
    def proved(self) -> bool:
        """Whether the optimum is proved."""
        return self.optimum is not None and self.optimum.status.proved

    @property
    def lower_bound(self) -> float | None:
        """The proven lower bound on the loss of all weights; `None` if there is none."""
        return None if self.optimum is None else self.optimum.lower_bound

    def excess(self, run: Run) -> float | None:
        """Return how far the loss of a run exceeds the lower bound, which is the optimum if that is proved.

        It is negative only for weights that win by ties or lie outside the region. `None` without a bound.
        """
        return None if self.lower_bound is None else run.loss - self.lower_bound

    def __str__(self) -> str:
        """Return a short report with a line for each method."""
        unit, bound = self.unit, "no bound"
        if self.lower_bound is not None:
            proved = " (proved optimum)" if self.proved else ""
            bound = f"{unit.name} {unit.bound} {unit.short(self.lower_bound, bound=True)}{proved}"
        runs = [f"{one.name}: {unit.short(one.loss.mean)} (best {unit.short(one.best.loss)})" for one in self.methods]
        return "\n  ".join([f"{len(self.methods)} methods, {bound}", *runs])
