"""What each stage from a file to a proof costs: reading, canonical form, first weights, first bound, proof."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import lpmert
from benchmarks import machine
from benchmarks.harness import Answer, Judgement, Objective, Solver
from benchmarks.lists import warm_up
from lpmert.methods.cells import Cells
from lpmert.model.nbest import NBest
from lpmert.result import Limits, Progress
from lpmert.search.driver import solve

CANONICAL, WEIGHTS, BOUND, PROOF = "canonical form", "first weights", "first bound", "proof"
STAGES = (CANONICAL, WEIGHTS, BOUND, PROOF)
"""In their order; each begins where the last one ends. The proof includes making the result."""

CUT_SHORT = "cut short"


class Stopwatch:
    """Wall-clock seconds, processor seconds and peak memory of each stage."""

    def __init__(self) -> None:
        self.parts: dict[str, Mapping[str, float | None]] = {}
        self._begin()

    def _begin(self) -> None:
        self._memory = machine.PeakMemory()
        self._wall, self._processor = time.perf_counter(), machine.processor_seconds()

    def end(self, name: str) -> None:
        """End the running stage and begin the next one; held_bytes: all that the process held at the peak."""
        seconds, processor = time.perf_counter() - self._wall, machine.processor_seconds() - self._processor
        peak, held = self._memory.bytes(), self._memory.held
        self.parts[name] = {
            "seconds": seconds,
            "processor_seconds": processor,
            "peak_bytes": peak,
            "held_bytes": None if peak is None or held is None else peak + held,
        }
        self._begin()


def _path(format: str) -> Path:
    return Path(_folder().name) / f"lists.{format}"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder that is deleted with this process."""
    return tempfile.TemporaryDirectory()


def a_file(format: str) -> Objective:
    """Return the reading of a file of this format unchanged, which is written before the clock starts."""

    def judge(data: NBest, answer: Answer) -> Judgement:
        for name in ("features", "offsets", "statistics"):
            if not np.array_equal(getattr(answer.weights, name), getattr(data, name)):
                raise ValueError(f"{format}: the {name} that were read are not those that were written")
        return Judgement(details={"file_bytes": _path(format).stat().st_size})

    return Objective(f"a file, {format}", judge, prepare=lambda data: lpmert.write(data, _path(format)))


def reader(format: str) -> Solver:
    """Return a solver that reads a file of this format as every command does."""

    def skip(*_: object) -> str | None:
        missing = format == "parquet" and find_spec("pyarrow") is None
        return "pyarrow is not installed" if missing else None

    def warm_up() -> None:
        with tempfile.TemporaryDirectory() as folder:
            toy = Path(folder) / f"toy.{format}"
            lpmert.write(lpmert.NBest([[1.0], [2.0]], [0, 2], [0.0, 1.0]), toy)
            lpmert.read(toy)

    return Solver(
        "read", lambda data, *_: Answer(lpmert.read(_path(format)), "read", None, _sizes(data)), warm_up, skip
    )


def _solve(data: NBest, objective: Objective, seed: int, time_limit: float) -> Answer:
    """Solve by `cells`, and measure each stage."""
    watch = Stopwatch()
    problem = objective.problem(data)
    watch.end(CANONICAL)
    result = solve(Cells(), problem, Limits(time_limit=time_limit), _between(watch), seed)
    watch.end(PROOF if result.status.proved else CUT_SHORT)
    held = [part["held_bytes"] for part in watch.parts.values()]
    return Answer(
        weights=result.weights,
        status=result.status.name.lower(),
        lower_bound=result.lower_bound,
        counters={**result.counters, **_sizes(data), "canonical_bytes": problem.canonical.features.nbytes},
        details={"stages": watch.parts, "held_bytes": max((one for one in held if one is not None), default=None)},
    )


STAGED = Solver("cells", _solve, lambda: warm_up(Cells()))  # `cells` from arrays to the proof, stage by stage


def _between(watch: Stopwatch) -> Callable[[Progress], None]:
    """Return a callback that ends the stages of the first weights and of the first bound.

    A search begins with the sum of the least losses as its bound; the first bound is the first one above that.
    """
    first: list[float | None] = []

    def on_progress(point: Progress) -> None:
        if not first:
            first.append(point.lower_bound)
            watch.end(WEIGHTS)
        elif BOUND not in watch.parts and point.lower_bound is not None and point.lower_bound > (first[0] or 0.0):
            watch.end(BOUND)

    return on_progress


def _sizes(data: NBest) -> dict[str, int]:
    """Return the numbers of lists and hypotheses, and the bytes of the arrays."""
    arrays = data.dense_features(), data.offsets, data.statistics
    return {
        "lists": data.n_lists,
        "hypotheses": data.n_hypotheses,
        "array_bytes": sum(array.nbytes for array in arrays),
    }
