"""`report`: an HTML page about an outcome that is one file, fetches nothing and runs nothing.

The text of the page is in `page.html.jinja`; this module makes its parts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from lpmert.comparing.comparison import Comparison
from lpmert.errors import DataError
from lpmert.model.problem import Problem
from lpmert.quoting import duration, number, quoted
from lpmert.reporting import pictures, tables
from lpmert.reporting.lines import shown_features
from lpmert.reporting.material import Material, Shown, changes, closest
from lpmert.result import Check
from lpmert.system.files import write_text
from lpmert.unseen.tune import Tuned
from lpmert.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

    from lpmert.errors import FloatArray
    from lpmert.findings import Unit
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.nbest import NBest
    from lpmert.result import Result
    from lpmert.values import Weights

_MOST_PAIRED = 4
"""Maximum number of features whose pairs get surfaces by default."""

_MOST_PROFILES = 24
"""Maximum number of features whose weights get profiles."""

_WINDOWS = ("wide", "near")
"""Windows of the surfaces and profiles."""

_MOST_CHANGES = 60
"""Maximum number of changed lists shown for each other weights, half with the largest gains, half with the least."""

_CLOSEST = 12
"""Number of closest decisions shown."""


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
    """Return the parts of the page that need the lists; wanted: the pairs of features to show."""
    problem, weights = material.problem, material.result.weights
    if problem is None:
        return {"surfaces": [], "profiles": [], "changes": [], "closest": []}
    profiled = shown_features(material.lines, weights, _MOST_PROFILES).tolist()
    nearest = closest(problem, weights, _CLOSEST) if isinstance(problem, Problem) else []
    return {
        "surfaces": [_surface(material, pair) for pair in _pairs(material, wanted)],
        "profiles": [_profile(material, feature) for feature in profiled],
        "varying": int((material.lines.spread > 0.0).sum()),
        "changes": [_changed(problem, material.result, *other) for other in material.others.items()],
        "closest": [(change, change.pieces()) for change in nearest],
    }


def _pairs(material: Material, wanted: Sequence[tuple[str, str]] | None) -> list[tuple[int, int]]:
    """Return the pairs of features to show: those wanted, or all pairs of the most important ones.

    Raises `DataError` for a feature that is unknown or does not vary.
    """
    if wanted is None:
        return list(combinations(shown_features(material.lines, material.result.weights, _MOST_PAIRED).tolist(), 2))
    found = []
    for pair in wanted:
        if pair[0] == pair[1]:
            raise DataError(f"a surface is over two weights, not twice {quoted(pair[0])}")
        first, second = map(material.index, pair)
        found.append((first, second))
    return list(dict.fromkeys(found))


def _surface(material: Material, pair: tuple[int, int]) -> dict[str, Any]:
    """Return the surfaces over a pair of weights in both windows, with their key."""
    names, centre = (
        (material.result.names[pair[0]], material.result.names[pair[1]]),
        material.result.weights[list(pair)],
    )
    marks: dict[str, FloatArray] = {}
    key, drawings = [], []
    for number_in_key, (name, weights) in enumerate(material.others.items(), 1):
        point = material.in_plane(weights, pair)
        note = "not in this plane"
        if point is not None:
            marks[str(number_in_key)] = point
            inside = (abs(point - centre) <= material.window("wide")[list(pair)]).all()
            note = "" if inside else "outside of these windows"
        key.append((number_in_key, name, note))
    for window in _WINDOWS:
        found = material.surface(pair, window)
        words = f"{window}: {_from_to(material.unit, found.losses)} over the weights of {names[0]} and {names[1]}"
        drawings.append(picture(pictures.surface(found, names, marks, {}, material.unit), words))
    return {"names": names, "pictures": drawings, "key": key, "rows": material.lines.rows}


def _profile(material: Material, feature: int) -> dict[str, Any]:
    name, drawings = material.result.names[feature], []
    for window in _WINDOWS:
        found = material.profile(feature, window)
        ends = _from_to(material.unit, found.losses)
        words = f"{ends} while {name} goes from {found.ends[0]:.5g} to {found.ends[-1]:.5g}"
        figure = pictures.profile(found, name, material.title, material.result.loss, material.unit)
        drawings.append(picture(figure, words))
    low, high = ("beyond the window" if end is None else f"{end:.6g}" for end in found.best)
    weight = f"{found.value:.6g}"
    return {"name": name, "weight": weight, "low": low, "high": high, "pictures": drawings, "whole": found.whole}


def _changed(problem: Problem | LatticeProblem, result: Result, name: str, weights: FloatArray) -> dict[str, Any]:
    changed = changes(problem, weights, result.weights)
    differences = [change.difference for change in changed if change.difference is not None]
    known = len(differences) == len(changed)
    loss = problem.evaluate(weights).loss
    return {
        "name": name,
        "loss": loss,
        "count": len(changed),
        "better": sum(one < 0 for one in differences) if known else None,
        "worse": sum(one > 0 for one in differences) if known else None,
        "difference": result.loss - loss,
        "rows": [(change, change.pieces()) for change in pictures.both_ends(changed, _MOST_CHANGES)],
    }


def _page(material: Material, pairs: Sequence[tuple[str, str]] | None) -> str:
    unit, outcome = material.unit, material.outcome
    result, progress = replace(material.result, unit=unit), None
    if result.trace:
        course = f"from {unit.name} {unit.short(result.trace[0][2])} to {result.cost}"
        progress = picture(pictures.progress(result, unit), course)
    return rendered(
        "page.html.jinja",
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


def rendered(template: str, **parts: Any) -> str:
    """Return a page as HTML; its security policy lets it fetch nothing and run nothing."""
    style = files("lpmert.reporting").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return _templates().get_template(template).render(style=style, policy=policy, version=__version__, **parts) + "\n"


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    source = Environment(
        loader=PackageLoader("lpmert.reporting", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: pictures.printable(value) if type(value) is str else value,
        extensions=["jinja2.ext.do"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    source.filters.update(number=number, duration=duration)
    source.globals.update(tables=tables)
    return source


class _Picture(NamedTuple):
    source: str
    words: str


def picture(figure: Figure, words: str) -> _Picture:
    """Return a picture as a data URL, with a description in words."""
    return _Picture("data:image/svg+xml," + quote(pictures.svg(figure), safe=" /:;=,+()@!*?$"), words)


def _from_to(unit: Unit, losses: FloatArray) -> str:
    return f"{unit.name} from {unit.short(float(losses.min()))} to {unit.short(float(losses.max()))}"
