"""`report`: one page about results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.asked import problem_of
from lpmert.errors import DataError
from lpmert.formats.weights import given_weights
from lpmert.reporting.documents import Documents, Source, Told, documents
from lpmert.reporting.material import Material, check_same, ties_of
from lpmert.reporting.page import Page, Stage, page
from lpmert.system.deadline import Deadline, OutOfTime, heeding
from lpmert.system.files import write_text
from lpmert.system.interrupts import Interrupts
from lpmert.values import checked_limits

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.metrics.text import TextMetric
    from lpmert.model.nbest import NBest
    from lpmert.model.word_graphs import WordGraphs
    from lpmert.values import Weights


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
    """Write one page about results: an HTML file that holds all it needs and fetches nothing.

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
        Over which weights surfaces are drawn; by default over all pairs of the four that matter most.
    scale : (name, number), optional
        Show all weights times the positive factor that brings this one to this number.
    time_limit : float, optional
        Seconds, after which the page is written with the parts that there are, and says which it lacks; so it is at
        Ctrl-C.

    Raises
    ------
    DataError
        If a file holds no result, or results or data are of other lists.
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
    found = documents([results] if isinstance(results, str | Path | Told) else results)
    with drawing(limit, started):
        made = page_of(found, lambda: (data, metric), weights or {}, scale, pairs)
    write_text(path, made.text)


@contextmanager
def drawing(time_limit: float | None, started: float) -> Iterator[Interrupts]:
    """Let what a page shows of lists end so many seconds after the start, a `time.perf_counter()`, and at Ctrl-C."""
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
    """Return the page about outcomes and the lists that `read` returns, with their metric; raises as `material_of`."""
    try:
        data, metric = read()
        return page(material_of(found, data, metric, weights, scale, data_name), pairs, on_stage)
    except OutOfTime:  # before there was anything to draw
        return page(material_of(found, None, None, weights, scale), missing=["all that the lists would show"])


def material_of(
    found: Documents,
    data: NBest | WordGraphs | None,
    metric: Any,
    weights: Mapping[str, Weights | str | Path],
    scale: tuple[str, float] | None,
    data_name: str = "data",
) -> Material:
    """Return what a page is made of; raises `DataError` where parts do not belong together."""
    result = found.result
    factor = 1.0
    if scale is not None:
        try:
            own = result.scaled_to(*scale)
        except ValueError as error:
            raise DataError(str(error)) from error
        place = result.names.index(scale[0])
        factor = float(own[place] / result.weights[place])
    problem = None
    if data is not None:
        problem = problem_of(data, metric, ties_of(result.signature), None)
        check_same(problem, found, data_name)
    from lpmert.values import weights_array

    given = {name: weights_array(given_weights(own, name), result.names, name) for name, own in weights.items()}
    return Material(found, problem, given, factor)
