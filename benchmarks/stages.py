"""What each stage from a file to a proof costs: reading, canonical form, first weights, first bound, proof."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import lpmert
from benchmarks import machine
from benchmarks.harness import Answer, Judgement, Unlimited
from benchmarks.lists import HasProblem, warm_up
from lpmert.methods.cells.cells import Cells
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


@dataclass
class File:
    """Lists in a file of this format, written before the clock starts, and to be read unchanged."""

    format: str
    read: NBest | None = None
    path: Path | None = None
    _folder: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The format."""
        return f"a file, {self.format}"

    def prepare(self, data: NBest) -> None:
        """Write the file into a folder that is deleted with this process."""
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / f"lists.{self.format}"
        lpmert.write(data, self.path)

    def judge(self, data: NBest, answer: Answer) -> Judgement:
        """Compare all numbers; raises `ValueError` if one differs."""
        del answer
        read, path = self.read, self.path
        if read is None or path is None:
            raise ValueError("nothing was read")
        for name in ("features", "offsets", "statistics"):
            if not np.array_equal(getattr(read, name), getattr(data, name)):
                raise ValueError(f"{self.format}: the {name} that were read are not those that were written")
        return Judgement(details={"file_bytes": path.stat().st_size})


@dataclass(frozen=True)
class Reader:
    """Reads a file as every command does."""

    name: str = "read"

    def skip(self, data: NBest, objective: File) -> str | None:
        """Return that pyarrow is missing, if so."""
        del data
        if objective.format == "parquet":
            with suppress(ImportError):
                import pyarrow.parquet  # noqa: F401

                return None
            return "pyarrow is not installed"
        return None

    def warm_up(self) -> None:
        """Read a toy in each format."""
        with tempfile.TemporaryDirectory() as folder:
            for format in ("npz", "tsv", "parquet"):
                with suppress(lpmert.DataError):
                    toy = Path(folder) / f"toy.{format}"
                    lpmert.write(lpmert.NBest([[1.0], [2.0]], [0, 2], [0.0, 1.0]), toy)
                    lpmert.read(toy)

    def solve(self, data: NBest, objective: File, seed: int, time_limit: float) -> Answer:
        """Read."""
        del seed, time_limit
        if objective.path is None:
            raise ValueError("the file was not written")
        objective.read = lpmert.read(objective.path)
        return Answer(None, "read", counters=_sizes(data))


@dataclass(frozen=True)
class Staged(Unlimited):
    """`cells` from arrays to the proof, stage by stage."""

    name: str = "cells"

    def warm_up(self) -> None:
        """Solve toy lists."""
        warm_up(Cells())

    def solve(self, data: NBest, objective: HasProblem, seed: int, time_limit: float) -> Answer:
        """Solve, and measure each stage."""
        watch = Stopwatch()
        problem = objective.problem(data)
        watch.end(CANONICAL)
        result = solve(Cells(), problem, Limits(time_limit=time_limit), _between(watch), seed)
        if result.status.proved:
            watch.end(PROOF)
        else:
            watch.end(CUT_SHORT)
        held = [part["held_bytes"] for part in watch.parts.values()]
        canonical = problem.canonical
        return Answer(
            weights=result.weights,
            status=result.status.name.lower(),
            lower_bound=result.lower_bound,
            counters={**result.counters, **_sizes(data), "canonical_bytes": canonical.features.nbytes},
            details={"stages": watch.parts, "held_bytes": max((one for one in held if one is not None), default=None)},
        )


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
