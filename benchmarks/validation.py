"""Whether the simulation is right: what it says of one and two workers, beside what these were measured to do.

Units were timed where they ran, in processor seconds, which other programs hardly change, and by the wall clock, which
they do. So three things are compared, from what depends least on other programs to what depends most on them: what
units cost; the schedule, by replaying each run with its own times of the wall clock; and the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.recording import Record
from benchmarks.rows import Row, find
from benchmarks.simulation import Network, in_order
from benchmarks.tables import Table, seconds

RECORDED = "recorded, 8 lanes"
ONE, TWO = "1 worker", "2 threads"
_KINDS = ((ONE, "threads", 1), (TWO, "threads", 2), ("2 processes", "processes", 2))


class Run(NamedTuple):
    """A run that was measured. own: what its own costs would take if each worker had a core to itself; replayed: what
    its own times of the wall clock take by the simulated schedule; wall: what it took; idle: the share of its time,
    from the first unit to the end, in which a worker had no unit.
    """

    record: Record
    own: float
    replayed: float
    wall: float
    idle: float
    row: Row


def runs_of(rows: list[Row], dataset: str, solver: str, workers: int, network: Network) -> list[Run]:
    """Return the proved runs of so many workers on a data set."""
    found = []
    for row in find(rows, dataset=dataset, solver=solver):
        if not row.proved:
            continue
        record = Record.of(row.details["record"])
        whole = record.by_wall
        at_work = sum(piece.end - piece.begin for piece in record.pieces)
        span = workers * (row.details["seconds"] - whole.before_units)
        own, replayed = (in_order(one, workers, network).seconds for one in (record, whole))
        found.append(Run(record, own, replayed, row.details["seconds"], 1 - at_work / span, row))
    return found


def idle(record: Record, workers: int, network: Network) -> float:
    """Return the share of time, from the first unit to the end, in which a worker has no unit, as simulated."""
    outcome = in_order(record, workers, network)
    home = sum(piece.seconds for piece in record.pieces[: record.at_home]) if network.far else 0.0
    span = outcome.seconds - record.before_units - home
    return 1 - (outcome.busy - home) / (workers * span) if span > 0 else 0.0


def most_at_once(record: Record) -> int:
    """Return how many units were being done at once, at most."""
    ends = sorted((piece.end, -1) for piece in record.pieces)
    now = most = 0
    for _, change in sorted([(piece.begin, 1) for piece in record.pieces] + ends):
        now += change
        most = max(most, now)
    return most


def speed_of_two(rows: list[Row], dataset: str) -> float | None:
    """Return how much faster two threads were than one, by runs that no other programs held up."""
    best = [
        min(
            (r.details["seconds"] for r in find(rows, dataset=dataset, solver=name) if r.proved and not r.held_up),
            default=None,
        )
        for name in (ONE, TWO)
    ]
    return best[0] / best[1] if best[0] is not None and best[1] is not None else None


def shown(rows: list[Row], long: Sequence[str], known: Mapping[str, Network]) -> Iterator[Table]:
    """Yield what units cost, the schedule, and the speed of two workers, each simulated and measured."""
    costs, schedule, speeds = [], [], []
    for dataset in long:
        found = [row for row in find(rows, dataset=dataset, solver=RECORDED) if row.proved]
        if not found:
            continue
        record = Record.of(found[0].details["record"])
        alone = runs_of(rows, dataset, ONE, 1, known["threads"])
        for name, backend, workers in _KINDS:
            if backend not in known:
                continue
            network = known[backend]
            runs = runs_of(rows, dataset, name, workers, network)
            if not runs:
                continue
            guess = in_order(record, workers, network).seconds
            home = record.at_home if network.far else 0
            costs.append(
                [
                    dataset,
                    name,
                    str(max(0, len(record.pieces) - home)),
                    _span([len(run.record.pieces) for run in runs], "d"),
                    seconds(record.done_in_units),
                    _span([run.record.done_in_units for run in runs]),
                    seconds(record.done_alone),
                    _span([run.record.done_alone for run in runs]),
                    seconds(guess),
                    _span([run.own for run in runs]),
                    _percent([guess / run.own - 1 for run in runs]),
                ]
            )
            schedule.append(
                [
                    dataset,
                    name,
                    str(max(most_at_once(run.record) for run in runs)),
                    f"{idle(record, workers, network):.0%}",
                    _shares([run.idle for run in runs]),
                    _span([run.wall for run in runs]),
                    _span([run.replayed for run in runs]),
                    _percent([run.replayed / run.wall - 1 for run in runs]),
                ]
            )
            if workers > 1 and alone:
                own = median(run.own for run in alone) / median(run.own for run in runs)
                wall = min(run.wall for run in alone) / min(run.wall for run in runs)
                held = any(min(each, key=_wall).row.held_up for each in (alone, runs))
                loads = [run.row.load for run in (*alone, *runs) if run.row.load is not None]
                speeds.append(
                    [
                        dataset,
                        name,
                        f"{in_order(record, 1).seconds / guess:.2f}",
                        f"{own:.2f}",
                        f"{wall:.2f}" + (" (held up)" if held else ""),
                        f"{min(loads):.1f} to {max(loads):.1f}" if loads else "-",
                    ]
                )
    yield Table(
        "Simulated and measured: costs",
        (
            "search", "workers", "units: recorded", "run", "in units: recorded", "run", "alone: recorded", "run",
            "seconds: simulated", "by the run's own costs", "error",
        ),
        costs,
        "Processor seconds with 8 lanes. Recorded: one run by one thread, which the simulation is made of; run: what "
        "the runs cost, each unit timed where it was done, least to most. The last columns are what the same schedule "
        "makes of both; the error is the first against the second. Where workers are processes, the caller does the "
        "first 12 units of `cells`: there they are no units, but belong to what is done alone.",
        left=2,
    )  # fmt: skip
    yield Table(
        "Simulated and measured: schedule",
        ("search", "workers", "at once", "idle: simulated", "measured", "wall: measured", "replayed", "error"),
        schedule,
        "Replayed: the schedule of the simulation with what each unit and each step of the caller took by the wall "
        "clock in that very run, other programs included; what is left, its error, is what the schedule does not know: "
        "waiting for messages or for a thread to wake up. Idle: the share of the time from the first unit on in which "
        "a worker had none.",
        left=2,
    )
    yield Table(
        "Simulated and measured: speed of two workers",
        ("search", "workers", "simulated", "by costs of runs", "measured", "load before"),
        speeds,
        "Against one worker. Simulated: from the one recorded run. By costs: medians of what the schedule makes of the "
        "runs' own processor seconds. Measured: the least seconds of the wall clock of one against the least of two; "
        "held up: other programs took the processor in one of these runs.",
        left=2,
    )


def _wall(run: Run) -> float:
    return run.wall


def _span(values: Sequence[float], form: str = "") -> str:
    low, high = (f"{end:d}" if form else seconds(end) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _shares(values: Sequence[float]) -> str:
    return _joined([f"{end:.0%}" for end in (min(values), max(values))])


def _percent(values: Sequence[float]) -> str:
    return _joined([f"{100 * end:+.0f} %" for end in (min(values), max(values))])


def _joined(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
