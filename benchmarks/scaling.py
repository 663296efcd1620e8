"""Tables and figure of `scale`: seconds and memory by size with fitted growth, and the gain of two workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import TYPE_CHECKING

from benchmarks.harness import Dataset
from benchmarks.plots import legend, one_for_each
from benchmarks.rows import Row, find
from benchmarks.stages import STAGES
from benchmarks.tables import Figure, Table, mebibytes, number, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

FORMATS = ("npz", "parquet", "tsv")
ALL_STAGES = (*(f"read {format}" for format in FORMATS), *STAGES)
WORKERS = ("1 worker", "2 threads")
_LEAST = 0.01  # fits leave out stages with fewer processor seconds, which say little about growth

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Kind:
    """Lists of one kind in several sizes. make: returns them for a size, about the number of hypotheses."""

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Dataset]


def fitted(points: Iterable[tuple[float, float]], least: float = 0.0) -> str:
    """Return the power law of the points with a value above `least`, by least squares on logarithms.

    The slope stands with half its 95 % interval and the number of points; fewer than three give a dash.
    """
    import numpy as np
    from scipy.stats import linregress, t

    known = [(log(size), log(value)) for size, value in points if value > least]
    if len(known) < 3:
        return "-"
    line = linregress(*np.array(known).T)
    half = float(t.ppf((1 + _CONFIDENCE) / 2, len(known) - 2) * line.stderr)
    return f"x^{line.slope:.2f} ± {half:.2f} ({len(known)})"


def measured(rows: list[Row], dataset: Dataset, measure: str) -> dict[str, float]:
    """Return a measure by stage: reading of each format, then the stages of the search.

    measure: `processor_seconds`, or another number of a stage.
    """
    found: dict[str, float] = {}
    for row in find(rows, dataset=dataset.name):
        if row.status == "read":
            found[f"read {row.objective.rpartition(' ')[2]}"] = getattr(row, measure)
        for stage, part in row.details.get("stages", {}).items():
            found[stage] = part[measure]
    return {stage: found[stage] for stage in ALL_STAGES if stage in found}


def hypotheses(rows: list[Row], dataset: Dataset) -> int | None:
    """Return the number of hypotheses of a dataset that was measured."""
    return next((row.counters["hypotheses"] for row in find(rows, dataset=dataset.name)), None)


def stage_points(rows: list[Row], kind: Kind, measure: str) -> dict[str, list[tuple[float, float]]]:
    """Return (hypotheses, value) by stage."""
    found: dict[str, list[tuple[float, float]]] = {stage: [] for stage in ALL_STAGES}
    for dataset in map(kind.make, kind.sizes):
        for stage, value in measured(rows, dataset, measure).items():
            found[stage].append((hypotheses(rows, dataset) or 0, value))
    return {stage: points for stage, points in found.items() if points}


def shown(rows: list[Row], kinds: Sequence[Kind], long: Sequence[str]) -> Iterator[Table | Figure]:
    """Yield the tables of all sizes, fitted growth, workers, and a figure."""
    yield from _stages(rows, kinds)
    yield from _growth(rows, kinds)
    yield _workers(rows, long)
    yield Figure("scale", "Processor seconds by size", partial(_draw, rows, kinds))


def _stages(rows: list[Row], kinds: Sequence[Kind]) -> Iterator[Table]:
    body = []
    for kind in kinds:
        for dataset in map(kind.make, kind.sizes):
            count = hypotheses(rows, dataset)
            if count is None:
                continue
            values = measured(rows, dataset, "processor_seconds")
            shown = [kind.name, f"{count:,}", *(seconds(values.get(name)) for name in ALL_STAGES)]
            row = next((one for one in find(rows, dataset=dataset.name) if "stages" in one.details), None)
            if row is not None:
                proved = "yes" if row.proved else f"bound {number(row.lower_bound, 6)}"
                shown += [seconds(row.seconds), f"{row.counters['nodes']:,}", number(row.loss, 9), proved]
            body.append([*shown, mebibytes(row.details["held_bytes"])] if row else [*shown, *"-----"])
    note = (
        "Processor seconds of each stage; `wall` is the wall clock from the canonical form to the proof, on a machine "
        "that others used too. First bound: until the bound is above the sum of the least losses. MiB: the peak of the "
        "process, with the lists as given. Real lists are the 2,864 of LibriSpeech dev-other, repeated: the optimum is "
        "the known one as many times. They need more nodes than once, because conflicts of pairs raise bounds only "
        "where at most 4,000 lists are open."
    )
    headings = ("lists", "hypotheses", *ALL_STAGES, "wall", "nodes", "loss", "proved", "MiB")
    yield Table("Stages", headings, body, note)


def _growth(rows: list[Row], kinds: Sequence[Kind]) -> Iterator[Table]:
    body = []
    for kind in kinds:
        memory = stage_points(rows, kind, "peak_bytes")
        for stage, points in stage_points(rows, kind, "processor_seconds").items():
            size, value = max(points)
            bytes_of = dict(memory.get(stage, []))
            body.append(
                [
                    kind.name,
                    stage,
                    fitted(points, _LEAST),
                    f"{size:,.0f}",
                    seconds(1e6 * value / size),
                    f"{(bytes_of.get(size) or 0) / size:,.0f}",
                ]
            )
    note = (
        "Processor seconds as a power of the hypotheses, by least squares on logarithms, with the interval of 95 % and "
        f"the number of sizes; what took less than {_LEAST:g} s is left out. The last columns are those of the largest "
        "size: processor seconds for each million hypotheses, and peak bytes of the stage beyond what was held when it "
        "began, for each hypothesis."
    )
    yield Table("Growth", ("lists", "stage", "growth", "largest", "s a million", "bytes each"), body, note, left=2)


def _workers(rows: list[Row], long: Sequence[str]) -> Table:
    """Return a table of the least seconds of one worker and of two, and their ratio."""
    body = []
    for dataset in long:
        alone = _least(rows, dataset, WORKERS[0])
        for name in WORKERS[1:]:
            together = _least(rows, dataset, name)
            if alone is not None and together is not None:
                loads = [row.load for row in find(rows, dataset=dataset) if row.load is not None]
                load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-"
                body.append([dataset, name, seconds(alone), seconds(together), f"{alone / together:.2f}", load])
    note = "Whole searches by the wall clock, the least of the runs that no other programs held up."
    headings = ("search", "workers", "one worker", "these", "times faster", "load before")
    return Table("Two workers", headings, body, note, left=2)


def _least(rows: list[Row], dataset: str, solver: str) -> float | None:
    found = [row for row in find(rows, dataset=dataset, solver=solver) if row.proved and not row.held_up]
    return min((row.details["seconds"] for row in found), default=None)


def _draw(rows: list[Row], kinds: Sequence[Kind], canvas: Canvas) -> None:
    axes = canvas.subplots()
    one_for_each(axes, stage_points(rows, kinds[0], "processor_seconds"), ordered=False)
    axes.set_xticks([10**power for power in range(4, 8)], [f"$10^{power}$" for power in range(4, 8)])
    axes.set_xlabel(f"hypotheses, {kinds[0].name}, D = 3")
    axes.set_ylabel("processor seconds")
    legend(axes, 7)
