"""`report`: one page (HTML) that holds all it needs, fetches nothing and runs nothing.

What the page says stands in `page.html.jinja`; here its parts are put together, as many as there is time for.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

from lpmert.errors import DataError
from lpmert.findings import Outcome
from lpmert.formats.weights import given_weights
from lpmert.model.problem import Problem
from lpmert.quoting import duration, number, quoted
from lpmert.reporting import pictures, tables
from lpmert.reporting.documents import Change, Documents, Material, Source, changes, closest, documents
from lpmert.reporting.lines import shown_features
from lpmert.system.deadline import Deadline, OutOfTime, checkpoint, heeding
from lpmert.system.files import write_text
from lpmert.system.interrupts import Interrupts
from lpmert.values import checked_limits, weights_array
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
"""Features whose pairs get surfaces by default."""

_MOST_PROFILES = 24
"""Features whose weights have profiles."""

_WINDOWS = ("wide", "near")
"""How far pictures go."""

_MOST_CHANGES = 60
"""Changed lists shown for each two weights, half from either end."""

_CLOSEST = 12
"""Lists with the closest decisions that are shown."""

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
    """Write one page about results: an HTML file that holds all it needs, fetches nothing and runs nothing.

    Parameters
    ----------
    results : Result, Check, Tuned, Comparison, or a file that one of them was written to, or several
        What the page is about; all of the same lists. The first result is in the middle of all pictures.
    path : str or Path
        Where the page goes.
    data : NBest, Lattices or Hypergraphs, optional
        The lists of the results, for error surfaces, the loss along each weight, and the lists that change.
    metric : str, Metric or TextMetric, optional
        That of the results.
    weights : mapping from name to weights, optional
        Further weights to set beside those of the results.
    pairs : sequence of pairs of feature names, optional
        Over which weights surfaces are drawn; by default over all pairs of the four most important.
    scale : (name, number), optional
        Show all weights times the positive factor that brings this one to this number.
    time_limit : float, optional
        Seconds; then, as at Ctrl-C, the page is written with the parts that are ready, and says which are missing.

    Raises
    ------
    DataError
        If a file holds no result, results or data are of other lists, or weights or pairs come without data.
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
    with drawing(limit, started):
        made = page_of(found, lambda: (data, metric), weights or {}, scale, pairs)
    write_text(path, made.text)


class Page(NamedTuple):
    """A page as HTML, and the parts that it lacks because there was no time for them."""

    text: str
    missing: tuple[str, ...]


@contextmanager
def drawing(time_limit: float | None, started: float) -> Iterator[Interrupts]:
    """Let what a page shows of lists end so many seconds after the start, a `time.perf_counter()`, and at Ctrl-C."""
    pictures.check_installed("jinja2", "matplotlib")
    with Interrupts() as stop, Deadline(time_limit, started, lambda: stop.pressed).running(), heeding():
        yield stop


def page_of(
    found: Documents,
    read: Callable[[], tuple[NBest | WordGraphs | None, Any]],
    weights: Mapping[str, Weights | str | Path],
    scale: tuple[str, float] | None,
    pairs: Sequence[tuple[str, str]] | None,
    data_name: str = "data",
    on_stage: Stage | None = None,
) -> Page:
    """Return the page about outcomes and the lists that `read` returns, with their metric.

    Raises `DataError` where parts do not belong together.
    """
    result = found.result
    given = {name: weights_array(given_weights(own, name), result.names, name) for name, own in weights.items()}
    material = Material.of(found, None, None, given, scale)
    try:
        data, metric = (None, None) if result.sums else read()  # which are about all weights, not those of a budget
        material = Material.of(found, data, metric, given, scale, data_name)
    except OutOfTime:  # before there was anything to draw
        return _page(material, ["all that the lists would show"], {})
    lacking: list[str] = []
    return _page(material, lacking, _of_lists(material, pairs, lacking, on_stage or (lambda *_: None)))


def _of_lists(
    material: Material, pairs: Sequence[tuple[str, str]] | None, lacking: list[str], on_stage: Stage
) -> dict[str, Any]:
    """Return the parts of the page that take the lists, as many as there is time for; names what is lacking."""
    if material.problem is None:
        return {}

    def collected(what: str, about: Callable[[], Sequence[Item]], made: Callable[[Material, Item], Any]) -> list[Any]:
        found: list[Any] = []
        items: Sequence[Item] = ()
        try:
            items = about()
            for item in items:
                checkpoint()
                on_stage(what, len(found), len(items))
                found.append(made(material, item))
        except OutOfTime:
            lacking.append(f"{len(items) - len(found)} of {len(items)} {what}" if found else f"the {what}")
        return found

    def shown() -> list[int]:
        found: list[int] = shown_features(material.lines, material.weights, _MOST_PROFILES).tolist()
        return found

    def nearest() -> Sequence[Change]:
        problem = material.problem
        return closest(problem, material.result.weights, _CLOSEST) if isinstance(problem, Problem) else ()

    return {
        "surfaces": collected("error surfaces", lambda: _pairs(material, pairs), _surface),
        "profiles": collected("profiles of weights", shown, _profile),
        "varying": int((material.lines.spread > 0.0).sum()) if not lacking else None,
        "changes": collected("lists that change", lambda: list(material.others.items()), _changed),
        "closest": collected("closest decisions", nearest, lambda _, change: (change, change.pieces())),
    }


def _pairs(material: Material, wanted: Sequence[tuple[str, str]] | None) -> list[tuple[int, int]]:
    """Return the pairs of features to show: those wanted, or all of the few that matter most.

    Raises `DataError` for a feature that is unknown, or does not vary.
    """
    if wanted is None:
        return list(combinations(shown_features(material.lines, material.weights, _MOST_PAIRED).tolist(), 2))
    found = []
    for pair in wanted:
        if pair[0] == pair[1]:
            raise DataError(f"a surface is over two weights, not twice {quoted(pair[0])}")
        first, second = map(material.place, pair)
        found.append((first, second))
    return list(dict.fromkeys(found))


def _surface(material: Material, pair: tuple[int, int]) -> dict[str, Any]:
    """Return the pictures of a pair of weights, from afar and from near, with their key."""
    names, middle = (material.names[pair[0]], material.names[pair[1]]), material.weights[list(pair)]
    marks: dict[str, FloatArray] = {}
    key, drawings = [], []
    for place, (name, weights) in enumerate(material.others.items(), 1):
        at = material.in_plane(weights, pair)
        note = "not in this plane"
        if at is not None:
            marks[str(place)] = at
            inside = (abs(at - middle) <= material.window("wide")[list(pair)]).all()
            note = "" if inside else "outside of these windows"
        key.append((place, name, note))
    for window in _WINDOWS:
        found = material.surface(pair, window)
        words = f"{window}: {_from_to(material.unit, found.losses)} over the weights of {names[0]} and {names[1]}"
        drawings.append(picture(pictures.surface(found, names, marks, {}, material.unit), words))
    return {"names": names, "pictures": drawings, "key": key, "rows": material.lines.rows}


def _profile(material: Material, feature: int) -> dict[str, Any]:
    """Return the loss along a weight, from afar and from near."""
    name, drawings = material.names[feature], []
    for window in _WINDOWS:
        found = material.profile(feature, window)
        ends = _from_to(material.unit, found.losses)
        words = f"{ends} while {name} goes from {found.ends[0]:.5g} to {found.ends[-1]:.5g}"
        figure = pictures.profile(found, name, material.title, material.result.loss, material.unit)
        drawings.append(picture(figure, words))
    low, high = ("beyond the window" if end is None else _weight(end) for end in found.best)
    weight = _weight(float(material.weights[feature]))
    return {"name": name, "weight": weight, "low": low, "high": high, "pictures": drawings, "whole": found.whole}


def _changed(material: Material, other: tuple[str, FloatArray]) -> dict[str, Any]:
    """Return which lists choose otherwise at other weights than at those of the result."""
    problem, (name, weights) = cast(Problem, material.problem), other
    own = changes(problem, weights, material.weights)
    known = [change.difference for change in own if change.difference is not None]
    loss = problem.evaluate(weights).loss
    return {
        "name": name,
        "loss": loss,
        "count": len(own),
        "better": sum(one < 0 for one in known) if known or not own else None,
        "worse": sum(one > 0 for one in known) if known or not own else None,
        "difference": material.result.loss - loss,
        "rows": [(change, change.pieces()) for change in pictures.both_ends(own, _MOST_CHANGES)],
    }


def _page(material: Material, missing: Sequence[str], parts: Mapping[str, Any]) -> Page:
    """Return the page of these parts, which says what is missing."""
    result, unit = material.result, material.unit
    told = result.to_dict()
    text = rendered(
        "page.html.jinja",
        result=told,
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
        progress=picture(pictures.progress(told, unit), _course(told, unit)) if told["trace"] else None,
        lists={"surfaces": [], "profiles": [], "changes": [], "closest": [], "varying": None, **parts},
    )
    return Page(text, tuple(missing))


def rendered(template: str, **parts: Any) -> str:
    """Return a page as HTML that fetches nothing and runs nothing."""
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
    source.filters.update(number=number, duration=duration, weight=_weight)
    source.globals.update(tables=tables)
    return source


class _Picture(NamedTuple):
    source: str
    words: str


def picture(figure: Figure, words: str) -> _Picture:
    """Return a picture as an address that holds it, and what it shows in words."""
    return _Picture("data:image/svg+xml," + quote(pictures.svg(figure), safe=" /:;=,+()@!*?$"), words)


def _from_to(unit: Unit, losses: FloatArray) -> str:
    return f"{unit.name} from {unit.short(float(losses.min()))} to {unit.short(float(losses.max()))}"


def _course(result: Mapping[str, Any], unit: Unit) -> str:
    first, last = result["trace"][0], result["trace"][-1]
    bounds = [unit.least(bound, loss) for _, bound, loss in result["trace"] if bound is not None]
    bound = f"the bound from {bounds[0]} to {bounds[-1]}" if bounds else "no bound"
    seconds = duration(result["seconds"].get("total", last[0]))
    best = f"the best {unit.name} went from {unit.short(first[2])} to {unit.short(last[2])}"
    return f"Over {seconds} {best}, {bound}."


_MINUS = "\N{MINUS SIGN}"


def _weight(value: float) -> str:
    return f"{value:.6g}".replace("-", _MINUS)
