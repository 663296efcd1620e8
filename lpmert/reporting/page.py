"""`report`: an HTML page about results that is one file, fetches nothing and runs nothing.

The text of the page is in `page.html.jinja`; this module makes its parts, as many as the time limit allows.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from lpmert.errors import DataError
from lpmert.findings import Outcome
from lpmert.model.problem import Problem
from lpmert.quoting import duration, number, quoted
from lpmert.reporting import pictures, tables
from lpmert.reporting.documents import Change, Material, Source, changes, closest, documents
from lpmert.reporting.lines import shown_features
from lpmert.system.deadline import Deadline, OutOfTime, checkpoint, heeding
from lpmert.system.files import write_text
from lpmert.system.interrupts import Interrupts
from lpmert.values import checked_limits
from lpmert.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

    from lpmert.errors import FloatArray
    from lpmert.findings import Unit
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.nbest import NBest
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

Stage = Callable[[str, int, int], object]
Item = TypeVar("Item")


def report(
    results: Source | Iterable[Source],
    path: str | Path,
    *,
    data: NBest | WordGraphs | None = None,
    metric: str | Metric | TextMetric | None = None,
    weights: Mapping[str, Weights | str | Path] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    scale: tuple[str, float] | None = None,
    time_limit: float | None = None,
) -> None:
    """Write a page about results: an HTML file that fetches nothing and runs nothing.

    Parameters
    ----------
    results : Result, Check, Tuned, Comparison, or a file that one of them was written to, or several
        The subject of the page; all of the same lists. The first result is at the centre of all pictures.
    path : str or Path
        The file to write.
    data : NBest, Lattices or Hypergraphs, optional
        The lists of the results, for error surfaces, the loss along each weight, and the lists that change.
    metric : str, Metric or TextMetric, optional
        The metric of the results.
    weights : mapping from name to weights, optional
        Further weights to compare with those of the results.
    pairs : sequence of pairs of feature names, optional
        Pairs of weights over which surfaces are drawn; by default all pairs of the four most important ones.
    scale : (name, number), optional
        Show all weights times the positive factor that gives this weight this value.
    time_limit : float, optional
        Seconds; then, as at Ctrl-C, the page is written with the parts that are ready, and says which are missing.

    Raises
    ------
    DataError
        If a file holds no result, results or data are of different lists, or weights or pairs come without data.
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
    started = time.perf_counter()
    limit = checked_limits(time_limit, None, None, None, None).time_limit
    if data is None and (weights or pairs):
        raise DataError("weights and pairs need the lists: pass data")
    found = documents([results] if isinstance(results, str | Path | Outcome) else results)
    pictures.check_installed("jinja2", "matplotlib")
    outcomes = Material.of(found, None, None, weights or {}, scale)
    with_lists = partial(Material.of, found, data, metric, weights or {}, scale)
    write_page(path, outcomes, with_lists, pairs, limit, started)


def write_page(
    path: str | Path,
    outcomes: Material,
    with_lists: Callable[[], Material],
    pairs: Sequence[tuple[str, str]] | None = None,
    time_limit: float | None = None,
    started: float | None = None,
    on_stage: Stage = lambda *_: None,
) -> tuple[list[str], Interrupts]:
    """Write a page until the time limit; return the parts that it lacks for lack of time, and the signals that came.

    outcomes: without lists, shown alone if the time does not suffice for `with_lists`, which reads them. started: as
    for `Deadline`. Raises `DataError` if lists or pairs of features do not belong to the outcomes.
    """
    material, missing, parts = outcomes, list[str](), dict[str, Any]()
    with Interrupts() as stop, Deadline(time_limit, started, lambda: stop.pressed).running(), heeding():
        try:
            material = with_lists()
            parts = _of_lists(material, pairs, missing, on_stage)
        except OutOfTime:
            missing.append("all parts about the lists")
        text = _page(material, missing, parts)
    write_text(path, text)
    return missing, stop


def _of_lists(
    material: Material, pairs: Sequence[tuple[str, str]] | None, missing: list[str], on_stage: Stage
) -> dict[str, Any]:
    """Return the parts of the page that need the lists, as the time allows; append the others to `missing`."""
    if material.problem is None:
        return {}

    def collected(
        what: str, items_of: Callable[[], Sequence[Item]], draw: Callable[[Material, Item], Any]
    ) -> list[Any]:
        found: list[Any] = []
        items: Sequence[Item] = ()
        try:
            items = items_of()
            for item in items:
                checkpoint()
                on_stage(what, len(found), len(items))
                found.append(draw(material, item))
        except OutOfTime:
            missing.append(f"{len(items) - len(found)} of {len(items)} {what}" if found else f"the {what}")
        return found

    def profiled() -> list[int]:
        features: list[int] = shown_features(material.lines, material.weights, _MOST_PROFILES).tolist()
        return features

    def nearest() -> Sequence[Change]:
        problem = material.problem
        return closest(problem, material.result.weights, _CLOSEST) if isinstance(problem, Problem) else ()

    return {
        "surfaces": collected("error surfaces", lambda: _pairs(material, pairs), _surface),
        "profiles": collected("profiles of weights", profiled, _profile),
        "varying": int((material.lines.spread > 0.0).sum()) if not missing else None,
        "changes": collected("lists that change", lambda: list(material.others.items()), _changed),
        "closest": collected("closest decisions", nearest, lambda _, change: (change, change.pieces())),
    }


def _pairs(material: Material, wanted: Sequence[tuple[str, str]] | None) -> list[tuple[int, int]]:
    """Return the pairs of features to show: those wanted, or all pairs of the most important ones.

    Raises `DataError` for a feature that is unknown or does not vary.
    """
    if wanted is None:
        return list(combinations(shown_features(material.lines, material.weights, _MOST_PAIRED).tolist(), 2))
    found = []
    for pair in wanted:
        if pair[0] == pair[1]:
            raise DataError(f"a surface is over two weights, not twice {quoted(pair[0])}")
        first, second = map(material.index, pair)
        found.append((first, second))
    return list(dict.fromkeys(found))


def _surface(material: Material, pair: tuple[int, int]) -> dict[str, Any]:
    """Return the surfaces over a pair of weights in both windows, with their key."""
    names, centre = (material.names[pair[0]], material.names[pair[1]]), material.weights[list(pair)]
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
    """Return the profiles of a weight in both windows."""
    name, drawings = material.names[feature], []
    for window in _WINDOWS:
        found = material.profile(feature, window)
        ends = _from_to(material.unit, found.losses)
        words = f"{ends} while {name} goes from {found.ends[0]:.5g} to {found.ends[-1]:.5g}"
        figure = pictures.profile(found, name, material.title, material.result.loss, material.unit)
        drawings.append(picture(figure, words))
    low, high = ("beyond the window" if end is None else f"{end:.6g}" for end in found.best)
    weight = f"{found.value:.6g}"
    return {"name": name, "weight": weight, "low": low, "high": high, "pictures": drawings, "whole": found.whole}


def _changed(material: Material, other: tuple[str, FloatArray]) -> dict[str, Any]:
    """Return the lists whose choices differ between other weights and those of the result."""
    problem, (name, weights) = cast(Problem, material.problem), other
    changed = changes(problem, weights, material.weights)
    differences = [change.difference for change in changed if change.difference is not None]
    known = len(differences) == len(changed)
    loss = problem.evaluate(weights).loss
    return {
        "name": name,
        "loss": loss,
        "count": len(changed),
        "better": sum(one < 0 for one in differences) if known else None,
        "worse": sum(one > 0 for one in differences) if known else None,
        "difference": material.result.loss - loss,
        "rows": [(change, change.pieces()) for change in pictures.both_ends(changed, _MOST_CHANGES)],
    }


def _page(material: Material, missing: Sequence[str], parts: Mapping[str, Any]) -> str:
    """Return the page with these parts; it says which are missing."""
    result, unit = material.result, material.unit
    content = result.to_dict()
    return rendered(
        "page.html.jinja",
        result=content,
        proved=result.status.proved,
        verdict=tables.verdict(replace(result, unit=unit)),
        unit=unit,
        lists_count=len(result.list_ids),
        facts=[
            *tables.costs(result, unit),
            ("method", result.method),
            *(("time", duration(seconds)) for name, seconds in result.seconds.items() if name == "total"),
        ],
        material=material,
        missing=missing,
        progress=picture(pictures.progress(content, unit), _course(content, unit)) if content["trace"] else None,
        lists={"surfaces": [], "profiles": [], "changes": [], "closest": [], "varying": None, **parts},
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


def _course(result: Mapping[str, Any], unit: Unit) -> str:
    """Return in words how the best loss and the bound changed over time."""
    first, last = result["trace"][0], result["trace"][-1]
    bounds = [unit.least(bound, loss) for _, bound, loss in result["trace"] if bound is not None]
    bound = f"the bound from {bounds[0]} to {bounds[-1]}" if bounds else "no bound"
    seconds = duration(result["seconds"].get("total", last[0]))
    best = f"the best {unit.name} went from {unit.short(first[2])} to {unit.short(last[2])}"
    return f"Over {seconds} {best}, {bound}."
