"""Parts that results share: JSON, units of losses, the cell around weights, and diagnostics of the question."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from lpmert.quoting import number, quoted

if TYPE_CHECKING:
    from lpmert.errors import FloatArray, IntArray


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
class Unit:
    """The unit in which a loss is shown: the figure is offset + factor * loss.

    Parameters
    ----------
    name : str
        Its name: BLEU, WER, accuracy, or the column of the losses.
    factor, offset : float
        They turn a loss into the figure; the factor is negative if higher figures are better.
    percent : bool
        Whether the figure is a share, shown in percent.
    counts : str
        For a share, the noun of what the loss counts, such as "errors"; empty if the count is not shown.
    """

    name: str
    factor: float = 1.0
    offset: float = 0.0
    percent: bool = False
    counts: str = ""

    def __post_init__(self) -> None:
        """Raise `ValueError` if the factor is 0, or the figures could overflow."""
        if not 0.0 < abs(self.factor) <= _LARGEST or not abs(self.offset) <= _LARGEST:
            raise ValueError(f"the unit {quoted(self.name)} has the factor {self.factor:g}, the offset {self.offset:g}")

    @property
    def bound(self) -> str:
        """The words before the figure of a lower bound on the loss."""
        return "at least" if self.factor > 0 else "at most"

    def of(self, loss: float) -> float:
        return self.offset + self.factor * loss

    def text(self, loss: float | None) -> str:
        """Return the figure in a few digits, with the count if there is one; a dash for `None`."""
        count = f" ({self.counted(loss)})" if self.counts and loss is not None else ""
        return f"{self.short(loss)}{count}"

    def counted(self, loss: float) -> str:
        return f"{number(loss)} {self.counts.removesuffix('s') if loss == 1 else self.counts}"

    def short(self, loss: float | None, *, bound: bool = False) -> str:
        """Return the figure in a few digits, a dash for `None`; bound: rounded so that it stays a lower bound."""
        if loss is None:
            return "-"
        value = self.of(loss)
        side = self.factor if bound else 0.0
        if self.percent:
            return f"{_rounded(100 * value, _DECIMALS, side)}%"
        if not math.isfinite(value) or (self.offset == 0.0 and value == int(value)):
            return number(value)
        size = abs(self.offset) or abs(value)  # four digits of the largest figure
        decimals = min(_MOST_DECIMALS, max(0, _DIGITS - math.ceil(math.log10(size)))) if size else 0
        return _rounded(value, decimals, side)

    def least(self, bound: float, loss: float) -> str:
        """Return the figure of a lower bound, rounded so that it stays one, or of the loss where both are equal."""
        return self.short(bound, bound=bound < loss)

    @property
    def label(self) -> str:
        return f"{self.name} in %" if self.percent else self.name

    def figures(self, losses: FloatArray) -> FloatArray:
        return (self.offset + self.factor * losses) * (100.0 if self.percent else 1.0)

    def own(self, loss: float | None, n_lists: int) -> str:
        """Return the loss of a single list: its count, or the figure of the list by itself if the whole is a mean."""
        if loss is None or self.counts:
            return number(loss)
        factor = self.factor if abs(self.factor) == 1.0 else self.factor * n_lists
        return Unit(self.name, factor, self.offset, self.percent).short(loss)

    def interval(self, low: float | None, high: float | None) -> str:
        """Return the interval of a difference between losses; an empty text if it is unknown."""
        if low is None or high is None:
            return ""
        ends = sorted((low, high), key=lambda end: self.factor * end)
        return f"[{', '.join(self.difference(end, sign=True) for end in ends)}]"

    def difference(self, losses: float, *, sign: bool = False) -> str:
        """Return the difference in figures for a difference in losses; sign: with a plus if it is positive."""
        value = self.factor * losses + 0.0
        plus = "+" if sign else ""
        if self.percent:
            return f"{100 * value:{plus}.{_DECIMALS}f}"
        return f"{value:{plus}.{_DIGITS}g}" if abs(value) < 10.0**_DIGITS else f"{value:{plus}.0f}"


_DECIMALS, _DIGITS, _MOST_DECIMALS = 2, 4, 10
_LARGEST = 1e6  # bound on factor and offset; factors are at most 100, or 1 over a number of lists

LOSS = Unit("loss")


def _rounded(value: float, decimals: int, side: float) -> str:
    """Return a number with few decimals: rounded down if `side` is positive, up if it is negative, else to nearest."""
    scaled = value * 10.0**decimals
    nearest = round(scaled)
    if side and abs(nearest - scaled) > 1e-9 * max(1.0, abs(scaled)):  # less is the rounding of a nearest decimal
        nearest = math.floor(scaled) if side > 0 else math.ceil(scaled)
    return f"{nearest / 10.0**decimals + 0.0:.{decimals}f}"


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
