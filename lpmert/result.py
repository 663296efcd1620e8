"""Results, the parts that they share, and their JSON; limits, progress and status of a search."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lpmert.errors import (
    DataError,
    FloatArray,
    IntArray,
    LpmertError as LpmertError,  # code that handles results also handles errors
)
from lpmert.quoting import LOSS, WARNINGS, Unit, listed, quoted

if TYPE_CHECKING:
    from lpmert.limits import Deadline

SCHEMA = 1  # version of the JSON of results, checks, evaluations and comparisons


class Status(Enum):
    """How a run ended; the value is a sentence for the user."""

    OPTIMAL = "proved optimal: no weights give a lower loss"
    OPTIMAL_TO_TOLERANCE = (
        "optimal to tolerance: a lower loss, if any, needs weights that double precision cannot tell from a tie"
    )
    GAP = "stopped: the requested gap is reached"
    TARGET = "stopped: the target loss is reached"
    TIME_LIMIT = "stopped at the time limit: loss and bound hold"
    NODE_LIMIT = "stopped at the node limit: loss and bound hold"
    MEMORY_LIMIT = "stopped at the memory limit: loss and bound hold"
    CALLBACK = "stopped by the callback: loss and bound hold"
    INTERRUPTED = "interrupted: loss and bound hold"
    HEURISTIC = "finished: a heuristic, which proves no bound"

    @property
    def proved(self) -> bool:
        """Whether the loss is proved to be the least."""
        return self is Status.OPTIMAL

    @property
    def finished(self) -> bool:
        """Whether the run ended by itself or reached the requested gap or target, rather than another limit."""
        return self in _FINISHED

    @classmethod
    def cut_short(cls, deadline: Deadline, *, interrupted: bool) -> Status:
        """Return the status of a run that was interrupted, or has used up its time or memory."""
        if interrupted:
            return cls.INTERRUPTED
        return cls.MEMORY_LIMIT if deadline.ends_for_memory else cls.TIME_LIMIT


_FINISHED = {Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE, Status.GAP, Status.TARGET, Status.HEURISTIC}


@dataclass(frozen=True)
class Limits:
    """Limits of a search; `None` means no limit.

    Parameters
    ----------
    time_limit : float or None
        Seconds.
    node_limit : int or None
        Maximum number of search nodes.
    gap : float or None
        Relative gap at which to stop, as in `Result.gap_rel`.
    target : float or None
        Loss at which to stop.
    memory_limit : int or None
        Maximum memory of the process in bytes; `None` means its memory when the call begins plus nine tenths of what is
        free.
    """

    time_limit: float | None = None
    node_limit: int | None = None
    gap: float | None = None
    target: float | None = None
    memory_limit: int | None = None


@dataclass(frozen=True)
class Progress:
    """The state of a running search; one line of the log.

    Parameters
    ----------
    seconds : float
        Time since the start.
    nodes, open_nodes : int
        Nodes searched, and nodes in the queue.
    lower_bound : float or None
        The proven lower bound on the loss; `None` for heuristics.
    loss : float
        The loss of the incumbent.
    gap_rel : float or None
        The relative gap between both, see `Result.gap_rel`.
    lps : int
        Linear programs solved.
    source : str
        One letter for what found a new incumbent since the last line, or an empty string.
    weights : array [D]
        The weights of the incumbent.
    phase : str
        What the search is doing.
    """

    seconds: float
    nodes: int
    open_nodes: int
    lower_bound: float | None
    loss: float
    gap_rel: float | None
    lps: int
    source: str
    weights: FloatArray
    phase: str = "searching"


Callback = Callable[[Progress], object]  # called about ten times a second; a true return value stops the search

OnStage = Callable[[str, int, int], object]
"""Called with a stage of many searches, how many of its parts are done, and their number; a true return value stops."""


def relative_gap(loss: float, lower_bound: float | None) -> float | None:
    """Return (loss - bound) / |loss|, never negative, and 0 if both are equal; `None` without a bound."""
    if lower_bound is None or loss <= lower_bound:
        return None if lower_bound is None else 0.0
    return (loss - lower_bound) / abs(loss) if loss else float("inf")


class Outcome:
    """Base of the dataclasses that calls return; each converts to JSON."""

    json_properties: ClassVar[tuple[str, ...]] = ()
    """Properties that JSON has in addition to the fields."""

    json_omits: ClassVar[tuple[str, ...]] = ()
    """Fields that JSON leaves out."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: weights are by name, and infinite numbers are `None`."""
        found: dict[str, Any] = plain(self)
        return found

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the short report in notebooks."""
        printer.text("..." if cycle else str(self))


class Weighted(Outcome):
    weights: FloatArray
    names: tuple[str, ...]

    @property
    def by_name(self) -> dict[str, float]:
        """The weights by the names of the features."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    def _lines(self) -> list[str]:
        width = max(map(len, self.names), default=0)
        return [f"  {name:{width}}  {weight: .10g}" for name, weight in self.by_name.items()]


BY_FEATURE = ("weights", "initial", "ranges", "centre")
"""Arrays with an entry for each feature; JSON has them as mappings by name."""


def plain(value: Any, names: tuple[str, ...] = ()) -> Any:
    """Convert a value to plain numbers, strings, lists and dictionaries; names: of the features, unless it has them."""
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        names, own = getattr(value, "names", names), [one.name for one in fields(value)]
        omitted = {*getattr(value, "json_omits", ()), *(["names"] if "weights" in own else [])}  # names become keys
        shown = [*(name for name in own if name not in omitted), *getattr(value, "json_properties", ())]
        found = {name: plain(getattr(value, name), names) for name in shown}
        arrays = [name for name in BY_FEATURE if hasattr(getattr(value, name, None), "tolist")]
        return {**found, **{name: dict(zip(names, found[name], strict=True)) for name in arrays}}
    if hasattr(value, "items"):
        return {key: plain(one, names) for key, one in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return [plain(one, names) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Diagnostic:
    """A property of the lists or weights that makes a result less meaningful than it looks.

    Parameters
    ----------
    code : str
        `nothing-to-choose`, `leak`, `orientation`, `too-good`, `digits` or `all-zero`.
    message : str
        The finding and the remedy.
    """

    code: str
    message: str


_TIED = "all weights are 0, so all hypotheses of a list tie, and the first one counts; give one weight another value"
ALL_ZERO = Diagnostic("all-zero", _TIED)


@dataclass(frozen=True)
class Evaluation:
    """The loss of weights with ties broken as the problem says, and with ties at their best and worst.

    selection [S] counts hypotheses from 0 within their list. `tied_lists` counts lists in which hypotheses with other
    features come within rounding of the best score; `margin` is the least lead of a winner over hypotheses with other
    features, `None` if no list has any, or if there are a million hypotheses or more. `loss_best_ties` and
    `loss_worst_ties` are `None` if lists are tied and the metric is not additive. `inside`: whether the weights lie in
    the region, if there is one. `rates`: the loss as rates (`accuracy`, `error_rate`), if the divisor is known.
    """

    loss: float
    score: float
    statistics: FloatArray
    selection: IntArray
    tied_lists: int
    loss_best_ties: float | None
    loss_worst_ties: float | None
    margin: float | None
    inside: bool = True
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """The optimal cell around the returned weights: all weights with the same choices in lists that matter.

    Parameters
    ----------
    ranges : array [D, 2]
        For each weight the open interval in which it may vary, with all others fixed, without a change of choice in
        any list whose hypotheses have different losses; ends may be infinite.
    centre : array [D]
        The Chebyshev centre of the intersection of the cell and the unit box, in canonical feature scaling, mapped back
        and L1-normalised; in the scale of the weights if doubles cannot hold that.
    margin : float
        The least normalised margin at the centre.
    """

    ranges: FloatArray
    centre: FloatArray
    margin: float


@dataclass(frozen=True)
class Result(Weighted):
    """The result of a search: the best weights found, and what is proved of them. Unknown values are `None`.

    Parameters
    ----------
    weights : array [D]
        One for each feature, in the scale of a region that fixes a weight or the total, otherwise with absolute values
        that sum to 1; if the optimal cell is so thin that this division would leave it, they sum to at least 1/2.
    names : tuple of str
        The features, in the order of the weights; `by_name` maps them to the weights.
    loss, score : float
        The loss and the score of decoding with these weights.
    lower_bound : float or None
        The proven lower bound on the loss of all weights; `None` for heuristics.
    status : Status
        How the run ended.
    method : str
        The name of the method.
    statistics : array [K]
        The statistics summed over the chosen hypotheses.
    selection : array [S]
        The chosen hypothesis of each list, counted from 0 within the list.
    margin : float or None
        The least score difference between a chosen hypothesis and any other of its list at these weights; `None` if
        there is none, or for a million hypotheses or more.
    signature : str
        Every setting that changes the numbers.
    fingerprint : str
        Fingerprint of the lists.
    seed : int
        The random seed.
    tied_lists : int
        Number of lists that are tied at these weights.
    loss_best_ties, loss_worst_ties : float or None
        The loss with all ties broken for the best and for the worst.
    free : tuple of str
        Features whose weight decides nothing: it is 0, or the same for all if there is nothing to choose.
    region : mapping from label to number
        Distance of the weights from each limit of the region.
    limiting : tuple of str
        Limits that cut off part of the optimal cell.
    cell : Cell or None
        The optimal cell around the weights.
    counters, seconds : mapping
        Counters, and seconds by phase.
    trace : tuple of (seconds, bound, loss)
        Improvements of bound or loss; for long searches about every second, fourth, ... one, at most a thousand.
    warnings : tuple of Diagnostic
        Warnings about the lists, the losses or the weights.
    list_ids : tuple of str
        The lists, in the order of the selection.
    rates : mapping from name to share
        The loss as shares (`accuracy`, `error_rate`), if the divisor is known.
    unit : Unit or None
        The unit in which the loss is shown.
    initial : array [D] or None
        The initial weights of the caller.
    resumed : bool
        Whether the search continued from a checkpoint: then the bound also rests on that file.
    sums : mapping from name to number
        Second sums of the chosen hypotheses, for budgets and fronts.
    whole : mapping from name to int
        The smallest whole weights that choose as well, if they were requested and found: see `whole_weights`.

    Examples
    --------
    >>> import lpmert
    >>> result = lpmert.minimize(lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]], names=["a", "b"]))
    >>> result.status.proved, result.gap_abs, result.by_name["a"] > result.by_name["b"]
    (True, 0.0, True)
    """

    schema = SCHEMA
    json_properties = ("schema", "gap_abs", "gap_rel", "message")

    weights: FloatArray
    names: tuple[str, ...]
    loss: float
    score: float
    lower_bound: float | None
    status: Status
    method: str
    statistics: FloatArray
    selection: IntArray
    margin: float | None
    signature: str
    fingerprint: str
    seed: int
    tied_lists: int = 0
    loss_best_ties: float | None = None
    loss_worst_ties: float | None = None
    free: tuple[str, ...] = ()
    region: Mapping[str, float] = field(default_factory=dict)
    limiting: tuple[str, ...] = ()
    cell: Cell | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[tuple[float, float | None, float], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    list_ids: tuple[str, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    unit: Unit | None = None
    initial: FloatArray | None = None
    resumed: bool = False
    sums: Mapping[str, float] = field(default_factory=dict)
    whole: Mapping[str, int] = field(default_factory=dict)

    @property
    def restricted(self) -> bool:
        """Whether bound and proof are about a region, apart from a budget, rather than all weights."""
        return "|region:" in self.signature or "|features:" in self.signature

    @property
    def message(self) -> str:
        """The status as a sentence, which also tells whether there is a region and whether the search was resumed."""
        which = "no weights of the region" if self.restricted else "no weights"
        within = f" with {listed(self.sums)} within budget" if self.sums else ""
        resumed = "; resumed from a checkpoint, on which the bound also rests" if self.resumed else ""
        return f"{self.status.value.replace('no weights', which)}{within}{resumed}"

    @property
    def gap_abs(self) -> float | None:
        """Loss minus lower bound, never negative; `None` without a bound."""
        return None if self.lower_bound is None else max(0.0, self.loss - self.lower_bound)

    @property
    def gap_rel(self) -> float | None:
        """Absolute gap divided by the absolute loss; `None` without a bound."""
        return relative_gap(self.loss, self.lower_bound)

    @property
    def cost(self) -> str:
        """The loss and its bound as text, in the unit in which losses are shown."""
        unit = self.unit or LOSS
        bound = "" if self.lower_bound is None else f", {unit.bound} {unit.least(self.lower_bound, self.loss)}"
        return f"{unit.name} {unit.text(self.loss)}{bound}"

    def factor_to(self, name: str, value: float) -> float:
        """Return the positive factor that brings the weight of a feature to a value.

        Parameters
        ----------
        name : str
            The feature.
        value : float
            The value of its weight.

        Returns
        -------
        float
            The factor, by which all weights may be multiplied: it changes no choice.

        Raises
        ------
        ValueError
            If the name is unknown, or the weight is 0 or has the opposite sign.
        """
        if name not in self.names:
            raise ValueError(f"no feature {quoted(name)}; the features are {listed(self.names)}")
        weight = float(self.weights[self.names.index(name)])
        if weight * value <= 0:
            raise ValueError(f"the weight of {quoted(name)} is {weight:g}: no positive factor brings it to {value:g}")
        return value / weight

    def times(self, factor: float) -> Result:
        """Return the result with weights, margin and cell multiplied by a positive factor."""
        cell = self.cell
        return replace(
            self,
            weights=self.weights * factor,
            margin=None if self.margin is None else self.margin * factor,
            cell=None if cell is None else replace(cell, ranges=cell.ranges * factor, centre=cell.centre * factor),
        )

    def save(self, path: str | Path) -> None:
        """Write the result as JSON; the file is written completely or not at all."""
        from lpmert.files import write_text

        write_text(path, self.to_json() + "\n")

    @staticmethod
    def load(path: str | Path) -> Result:
        """Read a result that `save` wrote; raises `DataError` for other files."""
        from lpmert.files import read_text

        try:
            return Result.from_dict(json.loads(read_text(path)))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(f"not a result of lpmert ({error}); write one with Result.save", path=path) from error

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Result:
        """Return the result of a dictionary from `to_dict`; raises `ValueError`, `KeyError` or the like for others."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {quoted(data['schema'])}, and only {SCHEMA} is known")
        names, cell = tuple(data["weights"]), data["cell"]
        found = {one.name: data[one.name] for one in fields(Result) if one.name in data}

        def array(by_name: Mapping[str, Any]) -> FloatArray:
            return np.array([by_name[name] for name in names], dtype=np.float64)

        if cell is not None:
            ranges = array(cell["ranges"]).reshape(-1, 2)  # None becomes NaN
            ranges = np.where(np.isnan(ranges), [-np.inf, np.inf], ranges)
            found["cell"] = Cell(ranges, array(cell["centre"]), cell["margin"])
        for name in ("loss", "score", "lower_bound", "margin", "loss_best_ties", "loss_worst_ties"):
            found[name] = None if data[name] is None else float(data[name])
        for name in ("free", "limiting", "list_ids"):
            found[name] = tuple(data[name])
        found |= {
            "weights": array(data["weights"]),
            "names": names,
            "status": Status[data["status"].upper()],
            "statistics": np.array(data["statistics"], dtype=np.float64),
            "selection": np.array(data["selection"], dtype=np.int64),
            "trace": tuple((t, bound, loss) for t, bound, loss in data["trace"]),
            "warnings": tuple(Diagnostic(**one) for one in data["warnings"]),
            "unit": None if data.get("unit") is None else Unit(**data["unit"]),
            "initial": None if data["initial"] is None else array(data["initial"]),
        }
        return Result(**found)

    def __str__(self) -> str:
        """Return a short report."""
        ties = [f"{self.tied_lists} lists are tied at these weights"] if self.tied_lists else []
        warnings = [f"warning: {one.message}" for one in self.warnings]
        return "\n".join([*self._lines(), *ties, *warnings, self.cost, self.message])


def warned(result: Result) -> Result:
    """Log the warnings of a result, and return it."""
    for one in result.warnings:
        logging.getLogger(WARNINGS).warning("warning: %s", one.message)
    return result


@dataclass(frozen=True, kw_only=True)
class Check(Outcome, Evaluation):
    """The evaluation of given weights beside the best weights.

    Parameters
    ----------
    weights : array [D]
        The weights that were checked.
    names : tuple of str
        The features, in the order of the weights.
    loss, score : float
        The loss and the score of decoding with these weights, with ties broken by `ties`.
    statistics : array [K]
        The statistics summed over the chosen hypotheses.
    tied_lists : int
        Number of lists that are tied at these weights.
    loss_best_ties, loss_worst_ties : float or None
        The loss with all ties broken for the best and for the worst.
    margin : float or None
        The least score difference between a chosen hypothesis and any other of its list; `None` if there is none, or
        for a million hypotheses or more.
    inside : bool
        Whether the weights lie in the region.
    optimum : Result
        The result of the search.
    rates : mapping from name to share
        The loss as shares, as in a `Result`.
    """

    schema = SCHEMA
    json_omits = ("selection",)
    json_properties = ("schema", "excess", "wins_by_ties")

    weights: FloatArray
    names: tuple[str, ...]
    optimum: Result

    @property
    def excess(self) -> float:
        """How far the loss exceeds that of the best weights found; never negative."""
        return max(0.0, self.loss - self.optimum.loss)

    @property
    def wins_by_ties(self) -> bool:
        """Whether the loss is below the proved optimum, which is only possible by ties that list order breaks."""
        return self.inside and self.optimum.status.proved and self.loss < self.optimum.loss

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings about the weights and about the lists."""
        return (*(() if self.weights.any() else (ALL_ZERO,)), *self.optimum.warnings)

    def __str__(self) -> str:
        """Return a short report."""
        ties = f" ({self.tied_lists} lists tied)" if self.tied_lists else ""
        unit = self.optimum.unit or LOSS
        return f"{self.optimum}\nthe weights checked: {unit.name} {unit.text(self.loss)}{ties}"
