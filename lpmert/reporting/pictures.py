"""All pictures, drawn by matplotlib: searches, profiles, subsets, ranges, fronts, changed lists, fusion, loops.

A picture for a page is an SVG with other colours for dark screens; the same input gives the same bytes.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.files import atomic_writer
from lpmert.quoting import Unit, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.budgets import Front
    from lpmert.fusion import Fused
    from lpmert.interpretable import Subsets
    from lpmert.rashomon import NearOptimal
    from lpmert.reporting.material import Profile, Surface
    from lpmert.result import Result

Item = TypeVar("Item")

ENDINGS = (".png", ".svg", ".pdf")

_PAPER, _INK, _FAINT, _LINE = "#fdfdfb", "#1c2024", "#5b636b", "#d5d9dd"
_LOSS, _BOUND, _BAND = "#b3400c", "#1763b8", "#f4c9a2"
_DARK = {
    _PAPER: "#16191d", _INK: "#e6e8ea", _FAINT: "#a0a8b0", _LINE: "#383f47",
    _LOSS: "#ff9a5c", _BOUND: "#75b5f5", _BAND: "#5a3a20",
}  # fmt: skip
"""Colours for dark screens by those for light ones; orange and blue can be told apart with colour-blind eyes."""

_PATHS = ("#ffffff", "#ff9f1c", "#ff6ad5", "#ff4d4d", "#b8f2ff", "#c2ff5c")
"""Colours of paths, which stand out from all colours of a surface."""

_STYLE: dict[str, Any] = {
    "figure.facecolor": _PAPER, "savefig.facecolor": _PAPER, "axes.facecolor": "none", "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK, "text.color": _INK, "xtick.color": _FAINT, "ytick.color": _FAINT, "grid.color": _LINE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "axes.formatter.useoffset": False,
    "axes.titlesize": "medium", "legend.fontsize": "small", "legend.frameon": False,
    "text.parse_math": False,  # dollar signs in names are not mathematics
    "svg.fonttype": "none", "svg.hashsalt": "lpmert",
}  # fmt: skip

_BESIDE = 0.03
"""Marks closer to each other than this share of the window would hide each other: they share a point and a label."""

_AROUND = [np.array(way) * reach for reach in (0.07, 0.11, 0.16, 0.23, 0.32) for way in product((1, -1, 0), repeat=2)]
"""Where labels may be, relative to their marks, as shares of the window."""

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)
"""Characters that HTML must not contain, and those that change the direction of the text after them."""


def printable(text: str) -> str:
    """Return a text with a replacement character for each one that is not allowed in HTML or changes its direction."""
    return _UNPRINTABLE.sub("\ufffd", text)


def check_installed(*packages: str) -> None:
    """Raise `MethodError` if one of these packages, which `lpmert[report]` installs, is missing."""
    for name in packages:
        if find_spec(name) is None:
            raise MethodError(f"{name} is not installed; pip install 'lpmert[report]'")


def check_picture(path: str | Path) -> None:
    """Raise `MethodError` without matplotlib, and `DataError` if the ending is not that of a picture."""
    check_installed("matplotlib")
    if Path(path).suffix.lower() not in ENDINGS:
        raise DataError(f"the name of a picture must end in one of {listed(ENDINGS)}", path=str(path))


def write_picture(figure: Figure, path: str | Path) -> None:
    """Write a picture to a file, completely or not at all, in the format of its ending; raises as `check_picture`."""
    check_picture(path)
    with atomic_writer(path) as stream:
        stream.buffer.write(_bytes(figure, Path(path).suffix[1:].lower()))


def svg(figure: Figure) -> str:
    """Return a picture as SVG, which has other colours on dark screens."""
    rules = [f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' for light, dark in _DARK.items()
             for kind in ("fill", "stroke")]  # fmt: skip
    dark = f"@media (prefers-color-scheme:dark){{{''.join(rules)}}}"
    return _bytes(figure, "svg").decode("utf-8").replace("</style>", f"{dark}</style>", 1)


def _bytes(figure: Figure, form: str) -> bytes:
    picture = io.BytesIO()
    undated = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # viewers of SVG use their own fonts
        figure.savefig(picture, format=form, dpi=150, metadata=undated[form])
    return picture.getvalue()


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the block with the style of all pictures here, whatever the settings of matplotlib."""
    check_installed("matplotlib")
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


@contextmanager
def _drawn(
    width: float, height: float, x_label: str, y_label: str = "", *, grid: str = "", legend: int = 0
) -> Iterator[tuple[Figure, Any]]:
    """Yield an empty figure and its labelled axes, to be drawn on in the block.

    grid: the axes with grid lines; legend: the number of columns of a legend above the axes, 0 for none.
    """
    from matplotlib.figure import Figure as Canvas  # not pyplot, which has windows and global state

    with styled():
        figure = Canvas(figsize=(width, height), layout="constrained")
        axes: Any = figure.add_subplot()
        axes.set(xlabel=printable(x_label), ylabel=printable(y_label))
        if grid:
            axes.grid(axis=grid)
        yield figure, axes
        if legend and axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=legend)


def _tick_locator(figures: FloatArray | Sequence[FloatArray]) -> Any:
    """Return a tick locator, with ticks at whole numbers if all known figures are whole."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(6, integer=bool((np.isnan(figures) | (figures == np.rint(figures))).all()))


def progress(result: Result, unit: Unit, width: float = 4.4, height: float = 2.6) -> Figure:
    with _drawn(width, height, "seconds", unit.label, grid="y", legend=2) as (figure, axes):
        if not result.trace:
            return figure
        times, bounds, losses = np.array(result.trace, dtype=np.float64).T  # nan for an unknown bound
        first, last = float(times[0]), float(times[-1])
        end = max(result.seconds.get("total", last), last, first + 1e-9)
        curves = [("best found", unit.figures(losses), _LOSS, "-"), ("bound", unit.figures(bounds), _BOUND, "--")]
        curves = [curve for curve in curves if not np.isnan(curve[1]).all()]
        for label, values, colour, line in curves:
            axes.stairs(values, [*times, end], baseline=None, color=colour, label=label, linewidth=1.8, linestyle=line)
        axes.locator_params(axis="x", nbins=5)
        if first > 0.0 and end > 50.0 * first:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        if end > (begin := max(first, 0.0)):
            axes.set_xlim(begin, end)
        axes.margins(y=0.08)
        axes.yaxis.set_major_locator(_tick_locator([values for _, values, *_ in curves]))
    return figure


def profile(
    found: Profile, name: str, title: str, loss: float, unit: Unit, width: float = 4.4, height: float = 2.6
) -> Figure:
    """Draw the loss along one weight, the interval around the middle on which it is constant, and the value there.

    title, loss: the name and the loss of the weights in the middle.
    """
    with _drawn(width, height, f"weight of {name}", unit.label, grid="y", legend=2) as (figure, axes):
        first, last = float(found.ends[0]), float(found.ends[-1])
        begin, end = found.best
        low, high = first if begin is None else max(begin, first), last if end is None else min(end, last)
        axes.axvspan(low, high, color=_BAND, linewidth=0.8, label=f"same {printable(unit.name)}")
        figures = unit.figures(found.losses)
        axes.stairs(figures, found.ends, baseline=None, color=_LOSS, linewidth=1.4)
        dot: dict[str, Any] = {"color": _LOSS, "markeredgecolor": _PAPER, "zorder": 3}
        at = float(unit.figures(np.array(loss)))
        axes.plot(found.value, at, "o", label=f"{title}: {unit.short(loss)}", **dot)
        axes.set_xlim(first, last)
        axes.margins(y=0.1)
        axes.yaxis.set_major_locator(_tick_locator(figures))
        axes.locator_params(axis="x", nbins=5)
    return figure


def surface(
    found: Surface,
    names: tuple[str, str],
    marks: Mapping[str, FloatArray],
    paths: Mapping[str, FloatArray],
    unit: Unit,
    label: str | None = None,
    width: float = 4.4,
    height: float = 3.7,
) -> Figure:
    """Draw the loss over two weights in its unit, the least loss darkest; names: those of the features.

    marks: points [2] by their labels; paths: points [P, 2] by name, drawn with a square at the start; label: that of
    the ring at the centre, `None` for a picture without a legend.
    """
    from matplotlib.colors import PowerNorm
    from matplotlib.patheffects import Normal, Stroke
    from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

    places = list(found.features)
    middle, halves, losses = found.weights[places], found.halves, found.losses
    with _drawn(width, height, *(f"weight of {name}" for name in names)) as (figure, axes):
        least, beyond, most = (float(np.percentile(losses, share)) for share in (0.0, 98.0, 100.0))
        high = beyond if beyond > least else most
        norm = PowerNorm(0.5, least, high if high > least else least + 1.0)
        ends = np.column_stack([middle - halves, middle + halves])
        look: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "none", "cmap": "viridis"}
        image = axes.imshow(losses, extent=ends.ravel().tolist(), norm=norm, **look)
        scale = figure.colorbar(image, label=printable(unit.label), extend="max" if most > high else "neither")
        scale.outline.set_visible(False)
        shown = unit.figures(np.array([least, high]))
        whole = bool((unit.figures(losses) == np.rint(unit.figures(losses))).all())
        ticks = MaxNLocator(6, integer=whole).tick_values(*sorted(shown)) if high > least else shown[:1]
        ticks = ticks[(ticks >= min(shown)) & (ticks <= max(shown))]  # round in the unit, placed at the losses
        scale.locator = FixedLocator((ticks / (100.0 if unit.percent else 1.0) - unit.offset) / unit.factor)
        scale.formatter = FixedFormatter([f"{tick:.10g}" for tick in ticks])
        for (name, points), colour in zip(paths.items(), cycle(_PATHS), strict=False):
            edge = [Stroke(linewidth=3.0, foreground="black"), Normal()]
            style = {"color": colour, "markeredgecolor": "black", "markeredgewidth": 0.6, "zorder": 4}
            axes.plot(*points.T, "o-", linewidth=1.6, markersize=4, label=printable(name), path_effects=edge, **style)
            axes.plot(*points[0], "s", markersize=7, **style)
        box = {"boxstyle": "round,pad=0.15", "facecolor": "black", "alpha": 0.65, "linewidth": 0.0}
        style = {"color": "white", "weight": "bold", "fontsize": 9, "bbox": box, "zorder": 7}
        for at, place, text in _labels(marks, middle, ends):
            axes.annotate(text, at, xytext=place, ha="center", va="center", **style)
            axes.plot(*zip(at, place, strict=True), color="white", linewidth=0.8, zorder=4)
            if at is not middle:  # which the ring marks
                axes.plot(*at, "o", markersize=5, color="white", markeredgecolor="black", markeredgewidth=0.8, zorder=5)
        ring: dict[str, Any] = {"markersize": 10, "fillstyle": "none"}
        axes.plot(*middle, "o", color="white", markeredgewidth=3.0, zorder=5, **ring)
        axes.plot(*middle, "o", color="black", markeredgewidth=1.4, label=label, zorder=6, **ring)
        axes.set(xlim=ends[0], ylim=ends[1])
        axes.locator_params(nbins=5)
        if label is not None:
            legend = {"ncols": 3, "frameon": True, "facecolor": "0.75", "framealpha": 1.0, "labelcolor": "black"}
            figure.legend(loc="outside lower center", **legend)
    return figure


def _labels(
    marks: Mapping[str, FloatArray], middle: FloatArray, ends: FloatArray
) -> Iterator[tuple[FloatArray, FloatArray, str]]:
    """Yield the points of marks, and the centres of their labels and the labels, which hide no mark and no other label.

    Marks beyond the ends are left out. Marks very close to each other or to the middle share a point and a label.
    """
    span = np.ptp(ends, axis=1)
    near = _BESIDE * span
    groups: list[tuple[FloatArray, list[str]]] = [(middle, [])]
    for name, point in marks.items():
        if ((point >= ends[:, 0]) & (point <= ends[:, 1])).all():
            close = [names for other, names in groups if (np.abs(point - other) < near).all()]
            if close:
                close[0].append(name)
            else:
                groups.append((point, [name]))
    taken = [(point, near) for point, _ in groups]
    for point, names in groups:
        if names:
            half = np.array([0.02 * len(", ".join(names)), 0.035]) * span
            places = [point + offset * span for offset in _AROUND]
            inside = (one for one in places if (np.abs(one - ends.mean(axis=1)) <= span / 2 - half).all())
            free = (one for one in inside if all((np.abs(one - at) >= half + size).any() for at, size in taken))
            place = next(free, places[0])
            taken.append((place, half))
            yield point, place, ", ".join(names)


def both_ends(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Return at most `most` items, half from each end."""
    return items if len(items) <= most else [*items[: most // 2], *items[-(most // 2) :]]


def changes(differences: Sequence[tuple[str, float]], unit: Unit) -> Figure:
    """Draw the difference in loss of each list, the largest gain first; of many lists, those at both ends."""
    shown = both_ends(differences, 40)
    with _drawn(7.0, 1.2 + 0.22 * max(len(shown), 4), f"difference in {unit.label}") as (figure, axes):
        colours = [_BOUND if difference < 0 else _LOSS for _, difference in shown]
        figures = unit.figures(np.array([difference for _, difference in shown])) - unit.figures(np.zeros(len(shown)))
        axes.barh(range(len(shown)), figures, color=colours)
        axes.set_yticks(range(len(shown)), [printable(name) for name, _ in shown], fontsize=8)
        axes.invert_yaxis()
        axes.axvline(0.0, color=_FAINT, linewidth=0.8)
        better, worse = sum(one < 0 for _, one in differences), sum(one > 0 for _, one in differences)
        axes.set_title(f"{len(differences):,} lists change: {better:,} better, {worse:,} worse")
    return figure


def subsets(found: Subsets, unit: Unit) -> Figure:
    """Draw the loss and its bound against the number of features, with the features that change at each size."""
    with _drawn(7.0, 3.6, "features", unit.label, grid="y", legend=2) as (figure, axes):
        sizes = [one.size for one in found.subsets]
        losses = unit.figures(np.array([one.result.loss for one in found.subsets]))
        bounds = np.array([one.result.lower_bound for one in found.subsets], dtype=np.float64)  # nan if unknown
        if not np.isnan(bounds).all():
            axes.plot(sizes, unit.figures(bounds), "_", color=_BOUND, markersize=22, label=unit.bound)
        axes.plot(sizes, losses, "o-", color=_LOSS, label=unit.name)
        before: set[str] = set()
        for one, size, loss in zip(found.subsets, sizes, losses.tolist(), strict=True):
            changes = [f"+ {name}" for name in one.features if name not in before]
            changes += [f"- {name}" for name in sorted(before - set(one.features))]
            text = printable("\n".join(changes if len(changes) <= 3 else [f"{len(changes)} others"]))
            up = unit.factor > 0
            position = {"xytext": (8, 4 if up else -4), "va": "bottom" if up else "top"}
            axes.annotate(text, (size, loss), textcoords="offset points", fontsize=8, color=_FAINT, **position)
            before = set(one.features)
        axes.set_xticks(sizes)
        axes.margins(x=0.12, y=0.18)
        axes.yaxis.set_major_locator(_tick_locator(losses))
    return figure


def ranges(found: NearOptimal, unit: Unit) -> Figure:
    """Draw the range of each weight among near-optimal ones, in at most 4 times its absolute value at the optimum."""
    shown = [one for one in found.ranges if one.possible != (one.weight, one.weight)]
    label = f"weight relative to its size at the optimum; {unit.name} up to {unit.short(found.most)}, {found.scale}"
    with _drawn(7.0, 1.6 + 0.42 * max(len(shown), 1), label, grid="x", legend=3) as (figure, axes):
        rows, weights = range(len(shown)), np.array([one.weight for one in shown])
        sizes = np.where(weights == 0.0, 1.0, np.abs(weights))
        for ranges, colour, width, label in (
            ([one.possible for one in shown], _BAND, 9.0, "not ruled out"),
            ([one.attained for one in shown], _BOUND, 4.0, "found near-optimal"),
        ):
            ends = np.clip(np.reshape(ranges, (-1, 2)).T / sizes, -4.0, 4.0)
            axes.hlines(rows, *ends, colors=colour, linewidth=width, label=label)
        axes.plot(weights / sizes, rows, "D", color=_LOSS, markersize=5, label="optimum")
        axes.set_yticks(rows, [printable(f"{one.name} ({one.weight:.4g})") for one in shown])
        axes.set_ylim(max(len(shown), 1) - 0.4, -0.6)
        axes.axvline(0.0, color=_FAINT, linewidth=1.0)
    return figure


def fusion(found: Fused) -> Figure:
    """Draw the metric at all shares of the second of two features; raises `DataError` if there is no curve."""
    curve, result = found.result.curve, found.result
    if curve is None:
        raise DataError("a picture needs two features")
    if (curve.begins >= 0).all():
        ends, best = curve.alpha, result.weights[1] / result.weights.sum()
        label = f"weight of {result.names[1]}, out of 1"
    else:  # all directions in a full turn
        ends = np.degrees(np.unwrap(np.arctan2(curve.begins[:, 1], curve.begins[:, 0])))
        best = ends[0] + (np.degrees(np.arctan2(*result.weights[::-1])) - ends[0]) % 360.0
        label = f"angle of the weights, from {result.names[0]} towards {result.names[1]}, in degrees"
    with _drawn(7.0, 4.0, label, found.metric, legend=3) as (figure, axes):
        axes.stairs(curve.values, ends, baseline=None, color=_LOSS)
        axes.plot(best, result.score, "o", color=_BOUND, label=f"best: {result.score:.4f}")
        for style, (name, one) in zip((":", "-", "--", "-."), found.others.items(), strict=False):
            axes.axhline(one.score, color=_FAINT, linewidth=1.0, linestyle=style, label=f"{name}: {one.score:.4f}")
    return figure


def front(found: Front, unit: Unit) -> Figure:
    with _drawn(7.0, 3.6, f"{found.second}, sum at most", f"best {unit.label}", grid="both") as (figure, axes):
        points = found.points[::-1]
        sums, losses = [one.sums[found.second] for one in points], unit.figures(np.array([one.loss for one in points]))
        if found.every:  # otherwise there may be other points in between
            axes.step(sums, losses, where="post", color=_BOUND, linewidth=1.0)
        axes.plot(sums, losses, "o", color=_LOSS, markersize=4)
    return figure


def loop(found: Mapping[str, Any]) -> Figure:
    """Draw the loss of the decoder's outputs by iteration, and the loss the pool promised; found: a loop as JSON."""
    from matplotlib.ticker import MaxNLocator

    iterations, unit = found["iterations"], Unit(**found["unit"])
    numbers = [one["number"] for one in iterations]
    with _drawn(7.0, 4.0, "iteration", unit.label, grid="y") as (figure, axes):
        for later, key, label, colour, style in (
            (0, "loss", "decoder", _LOSS, "o-"),
            (0, "held_out_loss", "decoder, held-out inputs", _BOUND, "s-"),
            (1, "pool_loss", "promised by the pool of the iteration before", _FAINT, "v:"),
        ):
            losses = np.array([one[key] for one in iterations[: len(numbers) - later]], dtype=np.float64)
            if not np.isnan(losses).all():  # nan is unknown
                axes.plot(numbers[later:], unit.figures(losses), style, color=colour, label=label)
        best = iterations[found["best"] - 1]
        point = best["number"], float(unit.figures(np.array(best["loss"])))
        label = f"best: {unit.text(best['loss'])}"
        axes.plot(*point, "o", markersize=12, fillstyle="none", color=_LOSS, label=label)
        if unit.factor > 0.0:
            axes.set_ylim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
    return figure
