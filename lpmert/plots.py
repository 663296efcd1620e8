"""Plots of results, the same as on the page of `lpmert.report`, drawn by matplotlib (`pip install 'lpmert[report]'`).

Each function returns a figure, which notebooks show; `save` writes it as PNG, SVG or PDF.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.api import problem_of
from lpmert.errors import DataError, MetricError
from lpmert.formats.weights import given_weights
from lpmert.interpretable import Subsets
from lpmert.quoting import LOSS, listed, quoted
from lpmert.rashomon import NearOptimal
from lpmert.reporting import pictures
from lpmert.reporting.material import Material, changes as changed_lists
from lpmert.result import Result
from lpmert.values import weights_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.budgets import Front
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.nbest import NBest
    from lpmert.values import Weights

_SIZE = 7.0, 3.6  # width and height of a figure in inches


def outcome(found: Result | Subsets | NearOptimal | Front) -> Figure:
    """Plot the outcome of a search, or of a call that runs many.

    Parameters
    ----------
    found : Result, Subsets, NearOptimal or Front
        For a result: loss and bound over time. For `best_subsets`: the loss of the best 1, 2, ... features, with its
        bounds and the gain of each size. For `near_optimal`: the range of each weight, relative to its size at the
        optimum. For `pareto`: the least loss against the budget of the second sum.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    MethodError
        If matplotlib is not installed.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.outcome(lpmert.minimize(lists))
    >>> figure = lpmert.plots.outcome(lpmert.near_optimal(lists, slack=0.5))
    """
    if isinstance(found, Result):
        return pictures.progress(found, found.unit or LOSS, *_SIZE)
    if isinstance(found, NearOptimal):
        return pictures.ranges(found, found.optimum.unit or LOSS)
    results = [one.result for one in found.subsets] if isinstance(found, Subsets) else found.points
    unit = next((one.unit for one in results if one.unit), LOSS)
    return pictures.subsets(found, unit) if isinstance(found, Subsets) else pictures.front(found, unit)


def profile(
    result: Result,
    data: NBest | WordGraphs,
    weight: str,
    *,
    metric: str | Metric | TextMetric | None = None,
    window: str = "wide",
) -> Figure:
    """Plot the exact loss along one weight, all others fixed, with the interval on which it is constant.

    Parameters
    ----------
    result : Result
        The result whose weights are the centre of the plot.
    data : NBest, Lattices or Hypergraphs
        The lists of the result.
    weight : str
        The feature whose weight varies.
    metric : str, Metric or TextMetric, optional
        The metric of the result.
    window : {"wide", "near"}
        How much of the line to plot.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    DataError
        If the data are not those of the result, or the feature or window is unknown.
    MethodError
        If matplotlib is not installed.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.profile(lpmert.minimize(lists), lists, "b")
    """
    material = _material(result, data, metric)
    found = material.profile(material.index(weight), window)
    return pictures.profile(found, weight, material.title, result.loss, material.unit, *_SIZE)


def surface(
    result: Result,
    data: NBest | WordGraphs,
    weights: tuple[str, str] | None = None,
    *,
    metric: str | Metric | TextMetric | None = None,
    window: str = "wide",
    paths: Mapping[str, Sequence[Weights]] | None = None,
) -> Figure:
    """Plot the exact loss over two weights, all others fixed, as a map of its cells.

    Parameters
    ----------
    result, data, metric, window
        As for `profile`.
    weights : pair of str, optional
        The two features whose weights vary; by default the first two features that vary within a list.
    paths : mapping from name to sequences of weights, optional
        Paths through the weights to plot, such as those of line searches; points outside the plane are left out.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    DataError, MethodError
        As by `profile`.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> figure = lpmert.plots.surface(lpmert.minimize(lists), lists, ("a", "b"))
    """
    material = _material(result, data, metric)
    varying = [name for name, spread in zip(result.names, material.lines.spread, strict=True) if spread > 0.0]
    names = weights or tuple(varying[:2])
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(f"a surface is over the weights of two features that vary; here {listed(varying)} do")
    places = material.index(names[0]), material.index(names[1])
    found = material.surface(places, window)
    curves: dict[str, Any] = {}
    for name, path in (paths or {}).items():
        points = (material.in_plane(weights_array(one, result.names), places) for one in path)
        inside = np.array([one for one in points if one is not None]).reshape(-1, 2)
        if len(inside):
            curves[name] = inside
    label = f"{material.title}: {material.unit.name} {material.unit.short(result.loss)}"
    return pictures.surface(found, (names[0], names[1]), {}, curves, material.unit, label, 7.2, 5.6)


def changes(
    data: NBest | WordGraphs,
    first: Weights | str | Path,
    second: Weights | str | Path,
    *,
    metric: str | Metric | TextMetric | None = None,
    ties: str = "first",
) -> Figure:
    """Plot the change in the loss of each list from the first weights to the second, for an additive loss.

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
        The figure; if there are many lists, those with the largest changes.

    Raises
    ------
    DataError, MetricError
        As by `evaluate`; `MetricError` also for a metric that is not a sum over lists.
    MethodError
        If matplotlib is not installed.

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
    return pictures.changes(known, problem.unit)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of the file name.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or Path
        The file; it is written completely or not at all.

    Raises
    ------
    DataError
        If the ending is another one, or the file cannot be written.

    Examples
    --------
    >>> import lpmert, tempfile
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.plots.save(lpmert.plots.outcome(lpmert.minimize(lists)), tempfile.mkdtemp() + "/progress.svg")
    """
    pictures.write_picture(figure, path)


def _material(result: Result, data: NBest | WordGraphs, metric: Any) -> Material:
    pictures.check_installed("matplotlib")
    return Material.of(result, data, metric, {})
