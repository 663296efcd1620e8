"""What the rows of `scale` say: seconds and memory by size with fitted growth, and workers, measured and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import validation
from benchmarks.harness import Dataset
from benchmarks.plots import legend, one_for_each
from benchmarks.recording import Record, summary
from benchmarks.rows import Row, find
from benchmarks.simulation import THREADS, Network, Outcome, in_order, stealing
from benchmarks.stages import STAGES
from benchmarks.tables import Figure, Table, mebibytes, number, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

WORKERS = (1, 2, 4, 8, 16, 32, 64)
LANES = (8, 16, 32, 64, 128)
"""Hands that are out at once: twice as many as workers, and 8 at least, as the manual says."""

TREE = 1_000_000
"""So many lanes that every part goes out alone and at once: each unit is left of one other."""

FORMATS = ("npz", "parquet", "tsv")
_LEAST = 0.01
"""Processor seconds below which a stage is left out of fits: they say little about growth."""

_LATENCIES = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Kind:
    """Lists of one kind in several sizes. make: returns them, for about so many hypotheses."""

    name: str
    sizes: tuple[int, ...]
    make: Callable[[int], Dataset]


class Prediction(NamedTuple):
    """A value and the ends of the interval in which the next measurement would lie, if nothing else changed."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """value = exp(intercept) size^slope, by least squares on logarithms; reach: of the slope, at 95 percent."""

    slope: float
    reach: float
    intercept: float
    centre: float
    spread: float
    scatter: float
    points: int

    def at(self, size: float) -> Prediction:
        """Return what the fit says of a size, with the interval of a single new point."""
        from scipy.stats import t

        away = log(size) - self.centre
        width = self.scatter * sqrt(1 + 1 / self.points + away**2 / self.spread)
        middle = self.intercept + self.slope * log(size)
        half = float(t.ppf((1 + _CONFIDENCE) / 2, self.points - 2)) * width
        return Prediction(exp(middle), exp(middle - half), exp(middle + half))

    def __str__(self) -> str:
        return f"x^{self.slope:.2f} ± {self.reach:.2f} ({self.points})"


def fitted(points: Iterable[tuple[float, float]], least: float = 0.0) -> Fit | None:
    """Return the power that points follow of which the value is more than `least`; `None` for fewer than three."""
    import numpy as np
    from scipy.stats import linregress, t

    known = [(log(size), log(value)) for size, value in points if value > least]
    if len(known) < 3:
        return None
    x, y = np.array(known).T
    line = linregress(x, y)
    rest = y - line.intercept - line.slope * x
    free = len(known) - 2
    return Fit(
        float(line.slope),
        float(t.ppf((1 + _CONFIDENCE) / 2, free) * line.stderr),
        float(line.intercept),
        float(x.mean()),
        float(((x - x.mean()) ** 2).sum()),
        sqrt(float((rest**2).sum()) / free),
        len(known),
    )


def stage_points(rows: list[Row], kind: Kind, measure: str) -> dict[str, list[tuple[float, float]]]:
    """Return (hypotheses, value) by stage: of formats that were read, and of the search up to its proof.

    measure: `processor_seconds`, or another one that stages have.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for name in dict.fromkeys(kind.make(size).name for size in kind.sizes):
        for row in find(rows, dataset=name):
            if row.status == "read" and hasattr(row, measure):
                value = getattr(row, measure)
                found.setdefault(f"read {row.objective.rpartition(' ')[2]}", []).append(
                    (row.counters["hypotheses"], value)
                )
            elif "stages" in row.details:
                for stage, part in row.details["stages"].items():
                    found.setdefault(stage, []).append((row.counters["hypotheses"], part[measure]))
    order = [*(f"read {format}" for format in FORMATS), *STAGES]
    return {stage: found[stage] for stage in order if stage in found}


def shown(rows: list[Row], kinds: Sequence[Kind], long: Sequence[str]) -> Iterator[Table | Figure]:
    """Yield the tables of all sizes, fitted growth, workers measured and simulated, and a figure."""
    yield from _stages(rows, kinds)
    yield from _growth(rows, kinds)
    yield from validation.shown(rows, long, networks(rows))
    yield from _simulated(rows, long)
    yield from _latencies(rows, long)
    yield Figure(
        "scale", "Processor seconds by size, and speed by workers", partial(_draw, rows, kinds, long), size=(10.0, 3.8)
    )


def _stages(rows: list[Row], kinds: Sequence[Kind]) -> Iterator[Table]:
    names = (*(f"read {format}" for format in FORMATS), *STAGES)
    body = []
    for kind in kinds:
        for size in kind.sizes:
            mine = find(rows, dataset=kind.make(size).name)
            staged = next((row for row in mine if "stages" in row.details), None)
            values: dict[str, float] = {
                f"read {row.objective.rpartition(' ')[2]}": row.processor_seconds
                for row in mine
                if row.status == "read"
            }
            if staged is not None:
                values |= {stage: part["processor_seconds"] for stage, part in staged.details["stages"].items()}
            if not mine:
                continue
            wall = "-" if staged is None else seconds(staged.seconds)
            nodes = "-" if staged is None else f"{staged.counters['nodes']:,}"
            loss = "-" if staged is None else number(staged.loss, 9)
            proved = "-" if staged is None else "yes" if staged.proved else f"bound {number(staged.lower_bound, 6)}"
            held = None if staged is None else staged.details["held_bytes"]
            shown = [seconds(values.get(name)) for name in names]
            count = f"{mine[0].counters['hypotheses']:,}"
            body.append([kind.name, count, *shown, wall, nodes, loss, proved, mebibytes(held)])
    note = (
        "Processor seconds of each stage; `wall` is the wall clock from the canonical form to the proof, on a machine "
        "that others used too. First bound: until the bound is above the sum of the least losses. MiB: the peak of the "
        "process, with the lists as given. Real lists are the 2,864 of LibriSpeech dev-other, repeated: the optimum is "
        "the known one as many times. They need more nodes than once, because conflicts of pairs raise bounds only "
        "where at most 4,000 lists are open."
    )
    headings = ("lists", "hypotheses", *names, "wall", "nodes", "loss", "proved", "MiB")
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
                    str(fitted(points, _LEAST) or "-"),
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


def networks(rows: list[Row]) -> Mapping[str, Network]:
    """Return what messages to workers were measured to take, by the workers; threads need none."""
    found = {"threads": THREADS}
    for row in rows:
        if row.status == "measured":
            found[row.solver.rpartition(" ")[2]] = Network(row.details["latency"], row.details["bandwidth"])
    return found


def record_of(rows: list[Row], dataset: str, lanes: int) -> Record | None:
    """Return what was recorded of a search with so many lanes."""
    found = [row for row in find(rows, dataset=dataset, solver=f"recorded, {lanes} lanes") if row.proved]
    return Record.of(found[0].details["record"]) if found else None


def lanes_for(workers: int) -> int:
    """Return the number of lanes that so many workers are simulated with."""
    return next((lanes for lanes in LANES if lanes >= 2 * workers), LANES[-1])


def _simulated(rows: list[Row], long: Sequence[str]) -> Iterator[Table]:
    known, body = networks(rows), []
    dask = known.get("dask", THREADS)
    for dataset in long:
        tree = record_of(rows, dataset, TREE)
        alone = record_of(rows, dataset, LANES[0])
        for workers in WORKERS:
            record = record_of(rows, dataset, lanes_for(workers))
            if record is None or tree is None or alone is None:
                continue
            one = in_order(alone, 1).seconds
            near, far = in_order(record, workers), in_order(record, workers, dask)
            stolen = tree.before_units + steal(tree, workers, dask).seconds
            facts = summary(record)
            body.append(
                [
                    dataset,
                    str(workers),
                    str(lanes_for(workers)),
                    f"{facts['units']:,.0f}",
                    seconds(facts["alone"]),
                    seconds(near.seconds),
                    f"{one / near.seconds:.2f}",
                    seconds(far.seconds),
                    f"{one / far.seconds:.2f}",
                    mebibytes(far.sent),
                    seconds(stolen),
                    f"{one / stolen:.2f}",
                ]
            )
    headings = (
        "search", "workers", "lanes", "units", "alone", "threads", "times", "Dask", "times", "MiB sent",
        "stealing", "times",
    )  # fmt: skip
    note = (
        "**Simulated**, seconds. Threads: messages take no time. Dask: each takes the latency and bandwidth that were "
        f"measured on this machine ({dask.latency * 1e3:.2g} ms, {dask.bandwidth / 1e6:,.0f} MB/s). Alone: seconds of "
        "whoever hands out, most of them before the first unit. With more lanes a unit begins with older weights and "
        "the search does more; this is in the recorded units. Stealing: a way that lpmert does not go, over Dask's "
        "messages: every worker keeps what its units leave, and takes the part with the least bound from another one "
        "when it has none. `times` are against one worker with 8 lanes."
    )
    yield Table("Simulated: 1 to 64 workers", headings, body, note)


def steal(tree: Record, workers: int, network: Network) -> Outcome:
    """Return what the units of a tree take when they are stolen; what follows an answer is done by its worker."""
    after = {one.unit: two.seconds for one, two in zip(tree.events, tree.events[1:], strict=False) if one.taken}
    pieces = [piece._replace(seconds=piece.seconds + after.get(k, 0.0)) for k, piece in enumerate(tree.pieces)]
    return stealing(pieces, workers, network, first=tree.first, granularity=tree.granularity)


def _latencies(rows: list[Row], long: Sequence[str]) -> Iterator[Table]:
    body = []
    for dataset in long:
        tree, record = record_of(rows, dataset, TREE), record_of(rows, dataset, LANES[-1])
        if tree is None or record is None or not tree.pieces:
            continue
        for latency in _LATENCIES:
            network = Network(latency, far=latency > 0)
            told, stolen = in_order(record, WORKERS[-1], network), steal(tree, WORKERS[-1], network)
            body.append(
                [
                    dataset,
                    f"{latency * 1e3:g} ms",
                    seconds(told.seconds),
                    seconds(tree.before_units + stolen.seconds),
                    f"{stolen.steals:,}",
                    seconds(stolen.busy),
                ]
            )
    headings = ("search", "latency", "in order", "stealing", "parts stolen", "seconds in units, stealing")
    note = (
        "**Simulated**, 64 workers: seconds if a message takes so long, whatever its size, and at 0 ms if they are "
        "threads: other workers get no units of `cells` before the caller has done 40. Latency delays parts and "
        "answers, and when stealing also what others know of better weights, so that units are done that earlier "
        "news would have saved."
    )
    yield Table("Simulated: latency", headings, body, note)


def _draw(rows: list[Row], kinds: Sequence[Kind], long: Sequence[str], canvas: Canvas) -> None:
    left, right = canvas.subplots(1, 2)
    one_for_each(left, stage_points(rows, kinds[0], "processor_seconds"), ordered=False)
    left.set_xticks([10**power for power in range(4, 8)], [f"$10^{power}$" for power in range(4, 8)])
    left.set_xlabel(f"hypotheses, {kinds[0].name}, D = 3")
    left.set_ylabel("processor seconds")
    legend(left, 7)
    dask = networks(rows).get("dask", THREADS)
    for place, dataset in enumerate(long):
        alone, tree = record_of(rows, dataset, LANES[0]), record_of(rows, dataset, TREE)
        if alone is None or tree is None:
            continue
        one = in_order(alone, 1).seconds
        told = [
            (w, one / in_order(record, w, dask).seconds)
            for w in WORKERS
            if (record := record_of(rows, dataset, lanes_for(w)))
        ]
        stolen = [(w, one / (tree.before_units + steal(tree, w, dask).seconds)) for w in WORKERS]
        right.plot(
            *zip(*told, strict=True), color=f"C{place}", marker="o", markersize=3.5, label=f"{dataset}, in order"
        )
        right.plot(*zip(*stolen, strict=True), color=f"C{place}", linestyle="--", label=f"{dataset}, stealing")
        measured = validation.speed_of_two(rows, dataset)
        if measured is not None:
            right.plot(
                2, measured, color=f"C{place}", marker="x", linestyle="", label=f"{dataset}, two threads measured"
            )
    right.plot(WORKERS[:5], WORKERS[:5], color="0.7", linewidth=1, label="ideal")
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xticks(WORKERS, [str(w) for w in WORKERS])
    right.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    right.set_xlabel("workers; beyond 2 simulated")
    right.set_ylabel("times faster than one")
    right.grid(alpha=0.3)
    legend(right, 6)
