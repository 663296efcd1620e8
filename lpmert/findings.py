"""What a result says beyond its loss: its unit, the cell around its weights, and what is odd about the question."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from lpmert.quoting import number, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lpmert.errors import FloatArray


class Outcome:
    """What a call found: all that it holds can be told as JSON; a dataclass."""

    told: ClassVar[tuple[str, ...]] = ()
    """Properties that JSON has beside the fields."""

    untold: ClassVar[tuple[str, ...]] = ()
    """Fields that it has not."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers, strings, lists and dictionaries, ready for JSON.

        Weights go by the names of the features; what is infinite is `None`.
        """
        found: dict[str, Any] = plain(self)
        return found

    def to_json(self) -> str:
        """Return `to_dict` as one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the short report in notebooks."""
        printer.text("..." if cycle else str(self))


class Weighted(Outcome):
    """What a call found with weights for the features."""

    weights: FloatArray
    names: tuple[str, ...]

    @property
    def by_name(self) -> dict[str, float]:
        """The weights by the names of their features."""
        return dict(zip(self.names, self.weights.tolist(), strict=True))

    def _lines(self) -> list[str]:
        """Return the weights as lines of a report."""
        width = max(map(len, self.names), default=0)
        return [f"  {name:{width}}  {weight: .10g}" for name, weight in self.by_name.items()]


def figures_of(evaluation: Any, kind: type[Any]) -> dict[str, Any]:
    """Return what an evaluation has of the fields of some kind of outcome, by name."""
    wanted = {one.name for one in fields(kind)}
    return {one.name: getattr(evaluation, one.name) for one in fields(evaluation) if one.name in wanted}


def told_of(kind: type[Any]) -> list[str]:
    """Return what JSON has of a dataclass; where it has weights, the names of features are their keys."""
    own = [one.name for one in fields(kind)]
    untold = {*getattr(kind, "untold", ()), *(["names"] if "weights" in own else [])}
    return [*(name for name in own if name not in untold), *getattr(kind, "told", ())]


BY_FEATURE = ("weights", "initial", "ranges", "centre")
"""Arrays that have an entry for each feature, and go by their names."""


def plain(value: Any, names: tuple[str, ...] = ()) -> Any:
    """Return a value as plain numbers, strings, lists and dictionaries; names: of the features, where it has none."""
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        names = getattr(value, "names", names)
        found = {name: plain(getattr(value, name), names) for name in told_of(type(value))}
        arrays = [name for name in BY_FEATURE if _is_array(getattr(value, name, None))]
        return {**found, **{name: dict(zip(names, found[name], strict=True)) for name in arrays}}
    if hasattr(value, "items"):
        return {key: plain(one, names) for key, one in value.items()}
    if _is_array(value):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one, names) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_array(value: Any) -> bool:
    return hasattr(value, "tolist")


def is_restricted(region: Mapping[str, float], signature: str) -> bool:
    """Whether a result is about the weights of a region rather than all; one that only fixes weights has no limits."""
    return bool(region) or "|region:" in signature


@dataclass(frozen=True)
class Unit:
    """How a loss reads in the unit that users know: offset + factor * loss.

    Parameters
    ----------
    name : str
        What it is called: BLEU, WER, accuracy, or the column of the losses.
    factor, offset : float
        From the loss to the figure; the factor is below 0 where more is better.
    percent : bool
        Whether the figure is a share, shown in percent.
    counts : str
        Of a share, what losses count; empty where that is not worth telling.
    """

    name: str
    factor: float = 1.0
    offset: float = 0.0
    percent: bool = False
    counts: str = ""

    def __post_init__(self) -> None:
        """Raise `ValueError` for what turns losses into nothing, or into more than a double holds."""
        if not 0.0 < abs(self.factor) <= _LARGEST or not abs(self.offset) <= _LARGEST:
            raise ValueError(f"the unit {quoted(self.name)} has the factor {self.factor:g}, the offset {self.offset:g}")

    @property
    def bound(self) -> str:
        """What a lower bound on the loss is called."""
        return "at least" if self.factor > 0 else "at most"

    def of(self, loss: float) -> float:
        return self.offset + self.factor * loss

    def text(self, loss: float) -> str:
        """Return the figure in a few digits, and what it counts."""
        count = f" ({self.counted(loss)})" if self.counts else ""
        return f"{self.short(loss)}{count}"

    def counted(self, loss: float) -> str:
        """Return what a loss counts, of a share: 3 errors."""
        return f"{number(loss)} {self.counts.removesuffix('s') if loss == 1 else self.counts}"

    def short(self, loss: float, *, bound: bool = False) -> str:
        """Return the same without the count; of a lower bound on the loss, rounded such that it stays one."""
        value = self.of(loss)
        if self.percent:
            return f"{_rounded(100 * value, _DECIMALS, self.factor if bound else 0.0)}%"
        if not math.isfinite(value) or (self.offset == 0.0 and value == int(value)):
            return number(value)
        size = abs(self.offset) or abs(value)  # four digits of the largest figure
        decimals = min(_MOST_DECIMALS, max(0, _DIGITS - math.ceil(math.log10(size)))) if size else 0
        return _rounded(value, decimals, self.factor if bound else 0.0)

    def least(self, bound: float, loss: float) -> str:
        """Return a lower bound on the loss, rounded such that it stays one; where the loss meets it, the loss."""
        return self.short(bound, bound=bound < loss)

    @property
    def label(self) -> str:
        """What an axis of figures is called."""
        return f"{self.name} in %" if self.percent else self.name

    def figures(self, losses: FloatArray) -> FloatArray:
        """Return losses as the figures that are drawn."""
        return (self.offset + self.factor * losses) * (100.0 if self.percent else 1.0)

    def own(self, loss: float | None, n_lists: int) -> str:
        """Return what a single one of the lists costs: as many as it counts, or its part of a mean."""
        if loss is None or self.counts:
            return number(loss)
        factor = self.factor if abs(self.factor) == 1.0 else self.factor * n_lists
        return Unit(self.name, factor, self.offset, self.percent).short(loss)

    def interval(self, low: float | None, high: float | None) -> str:
        """Return the interval of a difference between losses, nothing if it is unknown."""
        if low is None or high is None:
            return ""
        ends = sorted((low, high), key=lambda end: self.factor * end)
        return f"[{', '.join(self.difference(end, sign=True) for end in ends)}]"

    def difference(self, losses: float, *, sign: bool = False) -> str:
        """Return the figure that a difference between losses makes, with its sign if that is asked for."""
        value = self.factor * losses + 0.0
        plus = "+" if sign else ""
        if self.percent:
            return f"{100 * value:{plus}.{_DECIMALS}f}"
        return f"{value:{plus}.{_DIGITS}g}" if abs(value) < 10.0**_DIGITS else f"{value:{plus}.0f}"


_DECIMALS, _DIGITS, _MOST_DECIMALS = 2, 4, 10
_LARGEST = 1e6
"""Factors are at most 100, or 1 over how many there are."""

LOSS = Unit("loss")
"""Of losses of which no more is known."""


def _rounded(value: float, decimals: int, side: float) -> str:
    """Return a number with few decimals: down if `side` is above 0, up if it is below 0, else to the nearest."""
    scaled = value * 10.0**decimals
    nearest = round(scaled)
    if side and abs(nearest - scaled) > _NOISE * max(1.0, abs(scaled)):
        nearest = math.floor(scaled) if side > 0 else math.ceil(scaled)
    return f"{nearest / 10.0**decimals + 0.0:.{decimals}f}"


_NOISE = 1e-9
"""Share by which a figure may be off through rounding, and is still that number."""


@dataclass(frozen=True)
class Diagnostic:
    """A property of the question that makes its answer worth less than it looks.

    Parameters
    ----------
    code : str
        `nothing-to-choose`, `leak`, `orientation`, `too-good`, `digits` or `all-zero`.
    message : str
        What was seen, and what to do about it.
    """

    code: str
    message: str


ALL_ZERO = Diagnostic(
    "all-zero",
    "all weights are 0, so all hypotheses of a list tie, and the first one counts; give one weight another value",
)
"""Of weights that choose nothing."""


@dataclass(frozen=True)
class Cell:
    """The optimal cell around the returned weights.

    ranges [D, 2]: for each weight, the open interval in which it may move with all others fixed (infinite ends allowed)
    without any list changing its choice. centre [D]: the Chebyshev centre of the cell cut with the unit box, in
    canonical feature scaling, mapped back and L1-normalised; in the scale of the weights where doubles do not hold
    that one. margin: the least normalised margin at the centre.
    """

    ranges: FloatArray
    centre: FloatArray
    margin: float
