"""`report`: an HTML page about an outcome that is one file, fetches nothing and runs nothing.

The text of the page is in `page.html.jinja`; this module makes its parts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lpmert.comparing.comparison import Comparison
from lpmert.comparing.tune import Tuned
from lpmert.errors import DataError
from lpmert.files import write_text
from lpmert.model.problem import Problem
from lpmert.quoting import duration, number, quoted
from lpmert.reporting import pictures, tables
from lpmert.reporting.material import Material, Shown, changes, closest, shown_features
from lpmert.result import Check
from lpmert.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lpmert.errors import FloatArray
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.nbest import NBest
    from lpmert.quoting import Unit
    from lpmert.result import Result
    from lpmert.values import Weights

_WINDOWS = ("wide", "near")  # windows of the surfaces and profiles


def report(
    outcome: Shown,
    path: str | Path,
    *,
    data: NBest | WordGraphs | None = None,
    metric: str | Metric | TextMetric | None = None,
    weights: Mapping[str, Weights | str | Path] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Write a page about an outcome: an HTML file that fetches nothing and runs nothing.

    Parameters
    ----------
    outcome : Result, Check, Tuned or Comparison
        The subject of the page. Its optimum is at the centre of all pictures.
    path : str or Path
        The file to write; it is written completely or not at all.
    data : NBest, Lattices or Hypergraphs, optional
        The lists of the outcome, for error surfaces, the loss along each weight, and the lists that change.
    metric : str, Metric or TextMetric, optional
        The metric of the outcome.
    weights : mapping from name to weights, optional
        Further weights to compare with the optimum.
    pairs : sequence of pairs of feature names, optional
        Pairs of weights over which surfaces are drawn; by default all pairs of the four most important ones.

    Raises
    ------
    DataError
        If the outcome has no optimum, the data are other lists than its own, or weights or pairs come without data.
    MethodError
        Without jinja2 or matplotlib (`pip install 'lpmert[report]'`).
    MetricError
        As by `minimize`.

    Examples
    --------
    >>> import lpmert, tempfile
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> path = tempfile.mkdtemp() + "/report.html"
    >>> lpmert.report(lpmert.minimize(lists), path, data=lists)
    >>> open(path).read()[:15]
    '<!DOCTYPE html>'
    """
    if data is None and (weights or pairs):
        raise DataError("weights and pairs need the lists: pass data")
    pictures.check_installed("jinja2", "matplotlib")
    write_text(path, _page(Material.of(outcome, data, metric, weights or {}), pairs))


def _of_lists(material: Material, wanted: Sequence[tuple[str, str]] | None) -> dict[str, Any]:
    """Return the parts of the page that need the lists; wanted: the pairs of features to show.

    By default these are all pairs of the four most important features; the 24 most important ones get profiles. Raises
    `DataError` for a feature that is unknown or does not vary.
    """
    problem, weights = material.problem, material.result.weights
    if problem is None:
        return {"surfaces": [], "profiles": [], "changes": [], "closest": []}
    pairs = [*combinations(shown_features(material.lines, weights, 4).tolist(), 2)]
    if wanted is not None:
        pairs = list(dict.fromkeys((material.index(first), material.index(second)) for first, second in wanted))
    for first, second in pairs:
        if first == second:
            raise DataError(f"a surface is over two weights, not twice {quoted(material.result.names[first])}")
    nearest = closest(problem, weights, 12) if isinstance(problem, Problem) else []
    return {
        "surfaces": [_surface(material, pair) for pair in pairs],
        "profiles": [_profile(material, feature) for feature in shown_features(material.lines, weights, 24).tolist()],
        "varying": int((material.lines.spread > 0.0).sum()),
        "changes": [_changed(problem, material.result, *other) for other in material.others.items()],
        "closest": [(change, change.pieces()) for change in nearest],
    }


def _surface(material: Material, pair: tuple[int, int]) -> dict[str, Any]:
    places, unit = list(pair), material.unit
    names = material.result.names[pair[0]], material.result.names[pair[1]]
    marks: dict[str, FloatArray] = {}
    key = []
    for number_in_key, (name, weights) in enumerate(material.others.items(), 1):
        point, note = material.in_plane(weights, pair), "not in this plane"
        if point is not None:
            marks[str(number_in_key)] = point
            distance = abs(point - material.result.weights[places])
            note = "" if (distance <= material.window("wide")[places]).all() else "outside of these windows"
        key.append((number_in_key, name, note))
    drawings = []
    for window in _WINDOWS:
        found = material.surface(pair, window)
        words = f"{window}: {_from_to(unit, found.losses)} over the weights of {names[0]} and {names[1]}"
        drawings.append(_picture(pictures.surface(found, names, marks, {}, unit), words))
    return {"names": names, "pictures": drawings, "key": key, "rows": material.lines.rows}


def _profile(material: Material, feature: int) -> dict[str, Any]:
    name, unit, drawings = material.result.names[feature], material.unit, []
    for window in _WINDOWS:
        found = material.profile(feature, window)
        words = f"{_from_to(unit, found.losses)} while {name} goes from {found.ends[0]:.5g} to {found.ends[-1]:.5g}"
        drawings.append(_picture(pictures.profile(found, name, material.title, material.result.loss, unit), words))
    low, high = ("beyond the window" if end is None else f"{end:.6g}" for end in found.best)
    weight = f"{found.value:.6g}"
    return {"name": name, "weight": weight, "low": low, "high": high, "pictures": drawings, "whole": found.whole}


def _changed(problem: Problem | LatticeProblem, result: Result, name: str, weights: FloatArray) -> dict[str, Any]:
    changed = changes(problem, weights, result.weights)
    differences = [change.difference for change in changed]
    known = None not in differences
    loss = problem.evaluate(weights).loss
    return {
        "name": name,
        "loss": loss,
        "count": len(changed),
        "better": sum(one < 0 for one in differences if one) if known else None,
        "worse": sum(one > 0 for one in differences if one) if known else None,
        "difference": result.loss - loss,
        "rows": [(change, change.pieces()) for change in pictures.both_ends(changed, 60)],
    }


def _page(material: Material, pairs: Sequence[tuple[str, str]] | None) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    unit, outcome = material.unit, material.outcome
    result, progress = replace(material.result, unit=unit), None
    if result.trace:
        course = f"from {unit.name} {unit.short(result.trace[0][2])} to {result.cost}"
        progress = _picture(pictures.progress(result, unit), course)
    source = Environment(
        loader=PackageLoader("lpmert.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: pictures.printable(value) if type(value) is str else value,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    source.filters["number"] = number
    style = files("lpmert.reporting").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    page = source.get_template("page.html.jinja").render(
        tables=tables,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
        version=__version__,
        result=result.to_dict(),
        proved=result.status.proved,
        verdict=tables.verdict(result),
        unit=unit,
        lists_count=len(result.list_ids),
        facts=[
            *tables.costs(result, unit),
            ("method", result.method),
            *(("time", duration(seconds)) for name, seconds in result.seconds.items() if name == "total"),
        ],
        title=material.title,
        check=outcome if isinstance(outcome, Check) else None,
        tuned=outcome if isinstance(outcome, Tuned) else None,
        comparison=outcome if isinstance(outcome, Comparison) else None,
        progress=progress,
        lists=_of_lists(material, pairs),
    )
    return f"{page}\n"


def _picture(figure: Figure, words: str) -> dict[str, str]:
    return {"source": "data:image/svg+xml," + quote(pictures.svg(figure), safe=" /:;=,+()@!*?$"), "words": words}


def _from_to(unit: Unit, losses: FloatArray) -> str:
    return f"{unit.name} from {unit.short(float(losses.min()))} to {unit.short(float(losses.max()))}"
