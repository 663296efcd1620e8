"""LP-MERT with a beam against restarted line searches, at their own and at equal time, as in the paper's Table 2."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import by_method, line_search_weights, loss, warm_up
from benchmarks.plots import legend
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, seconds, table_of
from lpmert.lines import LineSearch
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Och
from lpmert.methods.lp_mert import Beam, BeamSearch
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.nbest import NBest
from lpmert.search.method import Incumbent

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZES = (32, 64, 128, 256, 500, 1000)
BEAMS = (100, 1000)  # the last is the paper's

TIME_LIMIT = 40.0
BEAM = {beam: by_method(Beam(beam), f"beam {beam}") for beam in BEAMS}
ALL_BEAMS = (10, 30, 100, 300, 1000)
FEW = (4, 8, 16, 32, 64, 128, 250)
"""Numbers of lists on which all beams are run to their ends, from good weights and from weak ones."""

TO_THE_END = 600.0  # processor seconds for a beam; none needs as many

POWELL = by_method(Och(directions="powell", restarts=20), "Powell, 20 restarts")
ENDLESS = by_method(Och(directions="powell", restarts=10**9), "Powell, restarts without end")
BOUNDED = by_method(Auto(), "auto")
PAPER = {32: 2.32, 64: 1.59, 128: 1.29, 256: 0.98, 500: 0.56, 1000: 0.23}
"""BLEU that the beam gained over 1D-MERT, by number of lists; the paper's last are 512 and 1024."""


def _from_start(beam: int, weak: bool, data: NBest, objective: Objective, _seed: int, time_limit: float) -> Answer:
    """Search with a beam, pass by pass, for so many processor seconds at most.

    weak: whether from equal weights, for features of equal spread, instead of those of line searches.
    """
    problem = objective.problem(data)
    form = problem.canonical
    if weak:
        first = CanonicalWeights(1.0 / LineSearch(form).spread)
    else:
        first = problem.to_canonical(problem.checked_weights(line_search_weights(data)))
    began = time.process_time()
    begin = problem.evaluate(problem.to_caller(first)).loss
    search = BeamSearch(beam, form, Incumbent(form.cost_of_loss(begin), first, ""))
    while not search.finished and time.process_time() - began < time_limit:
        search.advance()
    weights = problem.to_caller(search.incumbent.weights)
    status = "heuristic" if search.finished else "time_limit"
    spent = time.process_time() - began
    return Answer(weights, status, None, dict(search.counters()), {"trace": [(0.0, None, begin)], "spent": spent})


def _begun(beam: int, weak: bool) -> Solver:
    name = f"beam {beam} from {'equal weights' if weak else 'line searches'}"
    return Solver(name, partial(_from_start, beam, weak), lambda: warm_up(Beam(beam)))


WEAK, GOOD = ({beam: _begun(beam, weak) for beam in ALL_BEAMS} for weak in (True, False))


def lists(size: int) -> Dataset:
    """Return this many lists of one run, or of two runs if one has too few."""
    return datasets.swahili(slice(0, size)) if size <= datasets.SWAHILI_LISTS else datasets.swahili_twice(size)


def tasks() -> Iterator[Task]:
    """Yield every size with every solver; restarts and exact search use the whole time."""
    for size in SIZES:
        for solver in (POWELL, ENDLESS, *BEAM.values(), BOUNDED):
            yield Task(lists(size), loss(), solver, time_limit=TIME_LIMIT)
    for starting in (WEAK, GOOD):
        for begun in starting.values():
            for size in FEW:
                yield Task(lists(size), loss(), begun, time_limit=TO_THE_END)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield what beams reach beside line searches at equal time, what all reach in the end, and a figure."""
    body = []
    for size in SIZES:
        mine = find(rows, dataset=lists(size).name)
        endless = next(iter(find(mine, solver=ENDLESS.name)), None)
        powell = next(iter(find(mine, solver=POWELL.name)), None)
        for beam, solver in BEAM.items():
            for row in find(mine, solver=solver.name):
                if powell is None or endless is None:
                    continue
                begin, found, theirs, same = (
                    points([loss], size)
                    for loss in (row.details["trace"][0][2], row.loss, powell.loss, loss_at(endless, row.seconds))
                )
                mark = "stopped by the limit" if row.cut_short else "ended"
                body.append(
                    {
                        "S": str(size),
                        "beam": str(beam),
                        "": mark,
                        "its start": f"{begin:.3f}",
                        "found": f"{found:.3f}",
                        "its seconds": seconds(row.seconds),
                        "pass": f"{row.counters.get('passes', 0)}",
                        "Powell, 20 restarts": f"{theirs:.3f}",
                        "Powell's seconds": seconds(powell.seconds),
                        "Powell, equal time": f"{same:.3f}",
                        "beam - Powell at equal time": f"{found - same:+.3f}",
                        "paper's difference, beam 1000": f"{PAPER[size]:+.2f}",
                    }
                )
    note = (
        "Swahili translation, 14 features, 100-best; mean sentence BLEU+1, 0 to 100; seed 0. The beam starts from the "
        "best of line searches that `lpmert` begins every method with, mostly better than 20 restarts of Powell, and "
        "improves on it only where the two columns differ; what a row gains on Powell without that is not the beam's. "
        "The paper's differences are in corpus BLEU, on other lists (374-best), against a line search whose seconds it "
        "does not count: 25.25 after 22.93 for 32 lists. Its 512 and 1024 lists stand beside our 500 and 1000, which "
        "are the same 500 sentences in the lists of two runs."
    )
    yield table_of("LP-MERT with a beam beside line searches (Table 2)", body, note, left=3)
    yield from _starts(rows)
    yield from _bounds(rows)
    note = "Each line is one run with seed 0; the bounds, far below, are in the table."
    if any(find(rows, dataset=lists(size).name) for size in SIZES):
        yield Figure("beam", "Loss against time", lambda canvas: _draw(canvas, rows), note, size=(9.0, 6.0))


def points(losses: Sequence[float | None], size: int) -> float:
    """Return mean sentence BLEU, 0 to 100, from sums of 1 - BLEU over this many lists."""
    return 100.0 * (1.0 - fmean(loss for loss in losses if loss is not None) / size)


def loss_at(row: Row, time: float) -> float:
    """Return the best loss of a run after so many seconds, or its first one."""
    trace = row.details["trace"]
    found: float = min((loss for when, _, loss in trace if when <= time), default=trace[0][2])
    return found


def _starts(rows: list[Row]) -> Iterator[Table]:
    """Yield what all beams reach from weak and from good weights, and how their work grows with the lists."""
    body = []
    for beam in ALL_BEAMS:
        for size in FEW:
            cells: list[str] = []
            for starting in (WEAK, GOOD):
                mine = find(rows, dataset=lists(size).name, solver=starting[beam].name)
                if not mine or mine[0].loss is None:
                    cells += ["-"] * 5
                    continue
                row = mine[0]
                mark = ">" if row.cut_short else ""
                cells += [
                    f"{points([row.details['trace'][0][2]], size):.3f}",
                    f"{points([row.loss], size):.3f}",
                    f"{row.counters['passes']}",
                    f"{mark}{row.counters['lps'] / size:,.0f}",
                    f"{mark}{seconds(row.details['spent'])}",
                ]
            if {*cells} != {"-"}:
                body.append([str(beam), str(size), *cells])
    outcome = ("found", "passes", "LPs a list", "CPU s")
    headings = ("beam", "S", "from equal weights", *outcome, "from line searches", *outcome)
    note = (
        "Mean sentence BLEU+1, 14 features. >: stopped before its end, after so many processor seconds. A beam limits "
        "the combinations of each part of the lists, so that its work grows with the lists and with the beam."
    )
    if body:
        yield Table("All beams run to their ends, from weak and good weights", headings, body, note, left=2)


def _bounds(rows: list[Row]) -> Iterator[Table]:
    """Yield what restarts and exact search reach in the whole time, and the proved bound."""
    body, limits = [], set()
    for size in SIZES:
        mine = find(rows, dataset=lists(size).name)
        bounded = find(mine, solver=BOUNDED.name)
        endless = find(mine, solver=ENDLESS.name)
        if not bounded or bounded[0].lower_bound is None or not endless:
            continue
        limits |= {row.time_limit for row in (*bounded, *endless)}
        reached = [points([row.loss for row in found], size) for found in (endless, bounded[:1])]
        best = 100.0 * (1.0 - bounded[0].lower_bound / size)
        body.append([str(size), *(f"{value:.3f}" for value in (*reached, best))])
    headings = ("S", ENDLESS.name, BOUNDED.name, "no weights reach more than")
    after = " or ".join(f"{limit:g}" for limit in sorted(limits))
    yield Table(f"Mean sentence BLEU+1 after {after} seconds, and the proved bound", headings, body)


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    sizes = [size for size in SIZES if find(rows, dataset=lists(size).name)]
    panels = canvas.subplots(-(-len(sizes) // 3), 3, squeeze=False).ravel()
    for axes in panels[len(sizes) :]:
        axes.set_visible(False)
    for axes, size in zip(panels, sizes, strict=False):
        for solver, style in ((ENDLESS, "-"), (BEAM[BEAMS[-1]], "--"), (BOUNDED, ":")):
            for row in find(rows, dataset=lists(size).name, solver=solver.name):
                trace = [*row.details["trace"], (row.seconds, row.lower_bound, row.loss)]
                times = [max(when, 1e-3) for when, _, _ in trace]
                axes.step(times, [loss for *_, loss in trace], style, where="post", label=solver.name, linewidth=1.5)
        axes.set_xscale("log")
        axes.set_title(f"S = {size}", fontsize=10)
        axes.set_xlabel("seconds")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("sum of 1 - BLEU+1")
    legend(panels[0], 7)


BENCHMARK = Benchmark(
    "beam",
    "LP-MERT with a beam against restarted line searches",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Table 2, in kind",
)
