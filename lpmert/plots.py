"""Pictures of results, as the page of `lpmert report` has them, drawn by matplotlib (`pip install 'lpmert[plots]'`).

Each function returns a figure, which notebooks show; `save` writes it as PNG, SVG or PDF.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.asked import problem_of
from lpmert.errors import DataError, FloatArray, MetricError
from lpmert.formats.weights import given_weights
from lpmert.markup.progress import course
from lpmert.picturing.decisions import changes as changed_lists
from lpmert.picturing.profile import profile as along
from lpmert.picturing.rows import Lines, lines_of, place_of
from lpmert.picturing.surface import Surface
from lpmert.picturing.surface import surface as over
from lpmert.picturing.windows import Window, windows
from lpmert.quoting import listed, quoted
from lpmert.reporting.documents import documents
from lpmert.reporting.material import check_same, ties_of
from lpmert.reporting.surfaces import in_plane
from lpmert.system.pictures import check_drawing, check_picture, write_picture
from lpmert.values import weights_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.nbest import NBest
    from lpmert.model.problem import Problem
    from lpmert.model.word_graphs import WordGraphs
    from lpmert.result import Result
    from lpmert.values import Weights

_LOSS, _BOUND, _BAND = "#b3400c", "#1763b8", "#f4c9a2"
_PATHS = ("#ffffff", "#ff9f1c", "#ff6ad5", "#ff4d4d", "#b8f2ff", "#c2ff5c")
"""Colours of paths, which are seen on all of the surface's."""

_MOST_BARS = 40
_ALL_BUT = 98.0
"""Percent of a surface whose losses have colours of their own; those beyond have that of the highest."""


def progress(result: Result) -> Figure:
    """Draw the best loss and the bound over the time of a search.

    Parameters
    ----------
    result : Result
        Of any method.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Raises
    ------
    MethodError
        Without matplotlib.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.progress(lpmert.minimize(lists))
    """
    figure, axes = _empty(7.0, 3.6)
    found = course(result.to_dict())
    if found is not None:
        axes.stairs(found.loss.values, found.loss.ends, baseline=None, color=_LOSS, label="best loss", linewidth=1.8)
        if found.bound is not None:
            axes.stairs(*found.bound[::-1], baseline=None, color=_BOUND, label="bound", linewidth=1.8, linestyle="--")
        if found.logarithmic:
            axes.set_xscale("log")
        axes.legend(frameon=False)
    axes.set(xlabel="seconds", ylabel="loss", title=result.message)
    return figure


def profile(
    result: Result,
    data: NBest | WordGraphs,
    weight: str,
    *,
    metric: str | Metric | TextMetric | None = None,
    window: str = "wide",
) -> Figure:
    """Draw the loss along one weight, all others fixed: exact, with the interval in which it stays what it is.

    Parameters
    ----------
    result : Result
        Whose weights are in the middle.
    data : NBest, Lattices or Hypergraphs
        The lists of the result.
    weight : str
        The name of its feature.
    metric : str, Metric or TextMetric, optional
        That of the result.
    window : {"wide", "medium", "near"}
        How far to go.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Raises
    ------
    DataError
        For other data than those of the result, and a feature or a window that is unknown.
    MethodError
        Without matplotlib.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.profile(lpmert.minimize(lists), lists, "b")
    """
    lines, around = _around(_problem(result, data, metric), result.weights)
    found = along(lines, result.weights, place_of(weight, result.names, lines), _window(around, window), around[0])
    figure, axes = _empty(7.0, 3.6)
    begin, end = found.best
    axes.axvspan(
        found.ends[0] if begin is None else max(begin, found.ends[0]),
        found.ends[-1] if end is None else min(end, found.ends[-1]),
        color=_BAND,
        label="same loss",
    )
    axes.stairs(found.losses, found.ends, baseline=None, color=_LOSS, linewidth=1.5)
    axes.plot(found.value, result.loss, "o", color=_LOSS, label=f"{_title(result)}: {result.loss:.10g}")
    axes.set(xlabel=f"weight of {weight}", ylabel="loss", xlim=(found.ends[0], found.ends[-1]))
    axes.legend(frameon=False)
    return figure


def surface(
    result: Result,
    data: NBest | WordGraphs,
    weights: tuple[str, str] | None = None,
    *,
    metric: str | Metric | TextMetric | None = None,
    window: str = "wide",
    scale: tuple[str, float] | None = None,
    paths: Mapping[str, Sequence[Weights]] | None = None,
) -> Figure:
    """Draw the loss over two weights, all others fixed, cell by cell.

    Parameters
    ----------
    result : Result
        Whose weights are in the middle.
    data : NBest, Lattices or Hypergraphs
        The lists of the result.
    weights : pair of str, optional
        The names of the two features; by default the first two that vary.
    metric : str, Metric or TextMetric, optional
        That of the result.
    window : {"wide", "medium", "near"}
        How far to go.
    scale : (name, number), optional
        Draw all weights times the positive factor that brings this one to this number.
    paths : mapping from name to sequences of weights, optional
        Ways through the weights, such as those of line searches; what lies in the plane of the picture is drawn.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Raises
    ------
    DataError
        For other data than those of the result, and a feature or a window that is unknown.
    MethodError
        Without matplotlib.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.surface(lpmert.minimize(lists), lists, ("a", "b"))
    """
    middle = result.weights if scale is None else result.scaled_to(*scale)
    lines, around = _around(_problem(result, data, metric), middle)
    varying = [name for name, spread in zip(result.names, lines.spread, strict=True) if spread > 0.0]
    names = weights or tuple(varying[:2])
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(f"a surface is over the weights of two features that vary; here {listed(varying)} do")
    places = place_of(names[0], result.names, lines), place_of(names[1], result.names, lines)
    halves = _window(around, window).halves
    found = over(lines, middle, places, (float(halves[places[0]]), float(halves[places[1]])))
    figure, axes = _empty(7.2, 5.6)
    _add_cells(figure, axes, found, middle[list(places)], halves[list(places)])
    for (name, path), colour in zip((paths or {}).items(), cycle(_PATHS), strict=False):
        there = (in_plane(weights_array(one, result.names), middle, places, lines.spread) for one in path)
        inside = np.array([[one[place] for place in places] for one in there if one is not None]).reshape(-1, 2)
        if len(inside):
            _add_path(axes, inside, name, colour)
    reach = [(middle[place] - halves[place], middle[place] + halves[place]) for place in places]
    label = f"{_title(result)}: {result.loss:.10g}"
    axes.plot(*(middle[place] for place in places), "o", markersize=10, fillstyle="none", color="white", zorder=5)
    axes.plot(*(middle[place] for place in places), "o", markersize=10, fillstyle="none", color="black",
              markeredgewidth=0.8, label=label, zorder=6)  # fmt: skip
    axes.set(xlim=reach[0], ylim=reach[1], xlabel=f"weight of {names[0]}", ylabel=f"weight of {names[1]}")
    figure.legend(loc="outside lower center", ncols=3, facecolor="0.75", framealpha=1.0)
    return figure


def changes(
    data: NBest | WordGraphs,
    first: Weights | str | Path,
    second: Weights | str | Path,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
) -> Figure:
    """Draw what each list loses more or less at the second weights than at the first, for an additive loss.

    Parameters
    ----------
    data : NBest, Lattices or Hypergraphs
        The lists.
    first, second : mapping or sequence of numbers, Result, str or Path
        Weights, by name or in order, or files of weights.
    metric, ties
        As for `minimize`.

    Returns
    -------
    matplotlib.figure.Figure
        The picture; of many lists those with the largest differences.

    Raises
    ------
    DataError, MetricError
        As by `evaluate`; `MetricError` also for a metric that gives lists no loss of their own.
    MethodError
        Without matplotlib.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.changes(lists, [1, 0], [0, 1])
    """
    problem = problem_of(data, metric, ties, None)
    vectors = [weights_array(given_weights(one, "weights"), data.names) for one in (first, second)]
    found = [(change.list_id, change.difference) for change in changed_lists(problem, *vectors)]
    known = [(name, difference) for name, difference in found if difference is not None]
    if len(known) < len(found):
        raise MetricError(f"metric {quoted(problem.metric.name)} gives lists no loss of their own")
    shown = known if len(known) <= _MOST_BARS else [*known[: _MOST_BARS // 2], *known[-_MOST_BARS // 2 :]]
    figure, axes = _empty(7.0, 1.2 + 0.22 * max(len(shown), 4))
    colours = ["C2" if difference < 0 else "C3" for _, difference in shown]
    axes.barh(range(len(shown)), [difference for _, difference in shown], color=colours)
    axes.set_yticks(range(len(shown)), [name for name, _ in shown], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.4", linewidth=0.8)
    better, worse = sum(one < 0 for _, one in known), sum(one > 0 for _, one in known)
    axes.set(xlabel="difference in loss", title=f"{len(known):,} lists change: {better:,} better, {worse:,} worse")
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a picture to a file whose ending says in which form: PNG, SVG or PDF.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The picture.
    path : str or Path
        The file; it appears whole or not at all.

    Raises
    ------
    DataError
        For another ending, and where the file cannot be written.

    Examples
    --------
    >>> import lpmert, tempfile
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.plots.save(lpmert.plots.progress(lpmert.minimize(lists)), tempfile.mkdtemp() + "/progress.svg")
    """
    check_picture(path)
    write_picture(figure, path)


def _empty(width: float, height: float) -> tuple[Figure, Any]:
    check_drawing()
    from matplotlib.figure import Figure as Canvas  # no window, no global state

    figure = Canvas(figsize=(width, height), layout="constrained")
    axes: Any = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _add_cells(figure: Figure, axes: Any, found: Surface, middle: FloatArray, halves: FloatArray) -> None:
    """Draw the cells of a surface, with the scale of their colours; middle, halves [2]: of its window."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import PowerNorm

    corners = np.empty((len(found.losses), 4, 2))
    counts, starts = np.diff(found.offsets), found.offsets[:-1]
    corners[:, 0, 1] = corners[:, 1, 1] = np.repeat(found.bottoms, counts)
    corners[:, 2, 1] = corners[:, 3, 1] = np.repeat(found.tops, counts)
    corners[:, 1, 0], corners[:, 2, 0] = found.lower, found.upper
    for column, ends in ((0, found.lower), (3, found.upper)):
        corners[1:, column, 0] = ends[:-1]
        corners[starts, column, 0] = -1.0
    corners = middle + corners * halves
    least, most = float(found.losses.min()), float(np.percentile(found.losses, _ALL_BUT))
    norm = PowerNorm(0.5, least, max(most, math.nextafter(least, math.inf)))
    flat: dict[str, Any] = {"antialiased": False, "linewidth": 0.0, "edgecolor": "face", "rasterized": True}
    cells = PolyCollection(list(corners), array=found.losses, cmap="viridis", norm=norm, **flat)
    axes.add_collection(cells)
    figure.colorbar(cells, label="loss", extend="max" if found.losses.max() > most else "neither")


def _add_path(axes: Any, points: FloatArray, name: str, colour: str) -> None:
    """Draw a way through the weights, points [P, 2], whose beginning is a square."""
    from matplotlib.patheffects import Normal, Stroke

    edge = [Stroke(linewidth=3.0, foreground="black"), Normal()]
    style: dict[str, Any] = {"color": colour, "markeredgecolor": "black", "markeredgewidth": 0.6, "zorder": 4}
    axes.plot(*points.T, "o-", linewidth=1.6, markersize=4, label=name, path_effects=edge, **style)
    axes.plot(*points[0], "s", markersize=7, **style)


def _problem(result: Result, data: NBest | WordGraphs, metric: Any) -> Problem | LatticeProblem:
    found = problem_of(data, metric, ties_of(result.signature), None)
    check_same(found, documents([result]), "data")
    return found


def _around(problem: Problem | LatticeProblem, weights: FloatArray) -> tuple[Lines, list[Window]]:
    lines = lines_of(problem)
    return lines, windows(lines, weights)


def _window(around: Sequence[Window], name: str) -> Window:
    for one in around:
        if one.name == name:
            return one
    raise DataError(f"window={quoted(name)} is none of {', '.join(one.name for one in around)}")


def _title(result: Result) -> str:
    return "proved optimum" if result.status.proved else "best found"
