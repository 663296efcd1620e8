"""What a search too large for any measurement would cost, from fitted growth and a recorded search made larger.

A projection, not a measurement: rows beyond the largest size that was measured follow the fitted power, and the search
at the size that was recorded is simulated as if each of its units took as many times longer, and its messages were as
many times larger. Larger searches have more nodes, too, so that in truth units would be more rather than longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.plots import legend
from benchmarks.recording import Record
from benchmarks.rows import Row, find
from benchmarks.scaling import (
    LANES,
    TREE,
    Kind,
    Prediction,
    fitted,
    lanes_for,
    networks,
    record_of,
    stage_points,
    steal,
)
from benchmarks.simulation import THREADS, Network, in_order
from benchmarks.stages import STAGES
from benchmarks.tables import Figure, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZE = 1_000_000_000
"""Hypotheses."""

WORKERS = (1, 2, 4, 8, 16, 32, 64)
READ = "read parquet"
_HOUR = 3600.0
_BANDWIDTH = 1.25e9
"""Bytes a second of a network of 10 Gbit/s."""


class Projected(NamedTuple):
    """Seconds with so many workers: read, of one process; search, with the canonical form and the first weights;
    divided: the same if all workers read, brought to canonical form and pruned the whole weight space, each its lists;
    stealing: the same, and parts were stolen instead of handed out in order.
    """

    workers: int
    read: float
    search: float
    divided: float
    stealing: float
    sent: int


def costs(rows: list[Row], kind: Kind) -> dict[str, Prediction]:
    """Return processor seconds of each stage at `SIZE`: the fit's, and no less than in proportion to the largest size.

    What costs something even for no lists seems to grow more slowly than it does.
    """
    found = {}
    for stage, points in stage_points(rows, kind, "processor_seconds").items():
        fit = fitted(points, 0.01)
        if fit is not None:
            size, value = max(points)
            found[stage] = Prediction(*(max(one, value * SIZE / size) for one in fit.at(SIZE)))
    return found


def enlarged(record: Record, start: float, proof: float, size: float) -> Record:
    """Return the record of a search that is so many times larger. start, proof: seconds before the first unit, and of
    all that follows. The last step, the report, takes as many times longer, and units and what is between them share
    what is left.
    """
    first, *between, last = record.events
    report = min(proof, last.seconds * size)
    middle = record.done_in_units + sum(event.seconds for event in between)
    longer = (proof - report) / middle if middle else 0.0
    return replace(
        record,
        pieces=tuple(
            piece._replace(
                seconds=piece.seconds * longer,
                packing=piece.packing * size,
                sent=int(piece.sent * size),
                received=int(piece.received * size),
            )
            for piece in record.pieces
        ),
        events=(
            first._replace(seconds=start),
            *(event._replace(seconds=event.seconds * longer) for event in between),
            last._replace(seconds=report),
        ),
        shared=int(record.shared * size),
        at_home=0,  # a larger search has more units of the same length, and few of them are done before any goes far
    )


def without_start(record: Record) -> Record:
    """Return the record without what is done before the first unit."""
    if not record.events:
        return record
    first = record.events[0]
    return replace(record, events=(first._replace(seconds=0.0), *record.events[1:]))


def projected(rows: list[Row], kind: Kind, dataset: str) -> list[Projected]:
    """Return what `SIZE` hypotheses would take with more and more workers, from the recorded search of a data set of
    this kind.
    """
    cost = costs(rows, kind)
    alone, tree = record_of(rows, dataset, LANES[0]), record_of(rows, dataset, TREE)
    counts = [row.counters for row in find(rows, dataset=dataset, solver="cells") if "hypotheses" in row.counters]
    if alone is None or tree is None or not counts or not cost.keys() >= {READ, *STAGES}:
        return []
    size = SIZE / counts[0]["hypotheses"]
    start, proof = sum(cost[stage].value for stage in STAGES[:-1]), cost[STAGES[-1]].value
    network = Network(networks(rows).get("dask", THREADS).latency, _BANDWIDTH)
    found = []
    for workers in WORKERS:
        record = record_of(rows, dataset, lanes_for(workers))
        if record is None:
            continue
        large, whole = (enlarged(one, start, proof, size) for one in (record, tree))
        told = in_order(large, workers, network)
        read = cost[READ].value
        divided = (read + start) / workers
        rest = in_order(without_start(large), workers, network).seconds
        stolen = steal(whole, workers, network).seconds
        found.append(
            Projected(workers, read, told.seconds, divided + rest, divided + stolen, told.sent + workers * large.shared)
        )
    return found


def shown(rows: list[Row], kind: Kind, dataset: str) -> Iterator[Table | Figure]:
    """Yield what is projected, as tables and a figure."""
    cost = costs(rows, kind)
    memory = {
        stage: max(points)[1] / max(points)[0]
        for stage, points in stage_points(rows, kind, "peak_bytes").items()
        if points
    }
    held = max(
        (max(points)[1] / max(points)[0] for points in stage_points(rows, kind, "held_bytes").values()), default=0
    )
    body = [
        [
            stage,
            f"{value.value / _HOUR:.2g}",
            "in proportion" if value.low == value.high else f"{value.low / _HOUR:.2g} to {value.high / _HOUR:.2g}",
            f"{memory.get(stage, 0.0) * SIZE / 1e9:,.0f}",
        ]
        for stage, value in cost.items()
    ]
    note = (
        "**Projected**, not measured: the fitted powers of the stages at 1,000,000,000 generated hypotheses of 3 "
        "features, but no less than in proportion to the largest size, with the interval in which one more measurement "
        "would lie if growth went on as it does up to there (that it does is the assumption). Gigabytes: peak bytes "
        "for each hypothesis at the largest size, times as many; by the same measure the whole process held "
        f"{held * SIZE / 1e9:,.0f}."
    )
    yield Table("Projected: 1e9 hypotheses, stage by stage", ("stage", "hours", "interval", "GB"), body, note)
    found = projected(rows, kind, dataset)
    body = [
        [
            str(one.workers),
            f"{one.read / _HOUR:.2f}",
            f"{one.search / _HOUR:.2f}",
            f"{(one.read + one.search) / _HOUR:.2f}",
            f"{one.divided / _HOUR:.2f}",
            f"{one.stealing / _HOUR:.2f}",
            f"{one.sent / 1e9:,.0f}",
        ]
        for one in found
    ]
    note = (
        f"**Projected**, hours: `{dataset}` as it was recorded, with units made longer and messages as many times "
        "larger, simulated over a network of 10 Gbit/s with Dask's latency. Reading and search: as lpmert does them, "
        "one process reading, bringing to canonical form and pruning the whole weight space. Divided: the same if each "
        "worker did that with its share of the lists. Stealing: besides, workers took open cones from each other. GB "
        "sent: the lists to every worker, and all units. Before the first unit, and for all that follows, the search "
        "takes what the fitted powers say of its stages."
    )
    headings = ("workers", "reading", "search", "both", "divided", "divided, stealing", "GB sent")
    yield Table("Projected: 1e9 hypotheses by workers", headings, body, note)
    yield Figure("scale-projection", "Projected hours for 1e9 hypotheses", partial(_draw, found), size=(7.0, 4.0))


def _draw(found: Sequence[Projected], canvas: Canvas) -> None:
    axes = canvas.subplots()
    workers = [one.workers for one in found]
    for label, values in (
        ("as it is", [one.read + one.search for one in found]),
        ("reading, canonical form, first bound divided", [one.divided for one in found]),
        ("divided, and parts stolen", [one.stealing for one in found]),
        ("reading, by one process", [one.read for one in found]),
    ):
        style = ":" if label.startswith("reading, by") else "-"
        axes.plot(workers, [value / _HOUR for value in values], style, marker="o", markersize=3.5, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    if workers:
        axes.set_xticks(workers, [str(one) for one in workers])
    axes.set_xlabel("workers")
    axes.set_ylabel("hours, projected")
    axes.grid(alpha=0.3, which="both")
    legend(axes, 8)
