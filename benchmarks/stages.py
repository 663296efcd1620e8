"""What single stages of the way from a file to a proof cost: reading, canonical form, first weights, bound, proof."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import lpmert
from benchmarks import datasets, machine
from benchmarks.harness import Answer, Judgement, Unlimited
from benchmarks.lists import Poses
from lpmert.methods.cells.cells import Cells
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.result import Limits, Progress
from lpmert.search.driver import solve

CANONICAL, WEIGHTS, BOUND, PROOF = "canonical form", "first weights", "first bound", "proof"
STAGES = (CANONICAL, WEIGHTS, BOUND, PROOF)
"""In their order; each begins where the one before it ends. The proof holds the report of the result, too."""


CUT_SHORT = "cut short"


class Stopwatch:
    """Seconds of the wall and of the processor, and the peak of memory, from one stage to the next."""

    def __init__(self) -> None:
        self.parts: dict[str, Mapping[str, float | None]] = {}
        self._begin()

    def _begin(self) -> None:
        self._memory = machine.PeakMemory()
        self._wall, self._processor = time.perf_counter(), machine.processor_seconds()

    def end(self, name: str) -> None:
        """End the stage that runs and begin the next one. held: what the process held at the peak, with all else."""
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
    """Lists in a file of this format, written before the clock starts; what was read has to be what was written."""

    format: str
    read: NBest | None = None
    path: Path | None = None
    _folder: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The format."""
        return f"a file, {self.format}"

    def prepare(self, data: NBest) -> None:
        """Write the file, into a folder that goes with this process."""
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
        return Judgement(None, None, {"file_bytes": path.stat().st_size})


@dataclass(frozen=True)
class Reader:
    """Reads a file, as every command does."""

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
    """`cells` from the arrays to the proof, stage by stage."""

    name: str = "cells"

    def warm_up(self) -> None:
        """Solve a toy."""
        warm_up_cells()

    def solve(self, data: NBest, objective: Poses, seed: int, time_limit: float) -> Answer:
        """Solve, and look at the clock between the stages."""
        watch = Stopwatch()
        problem = objective.problem(data)
        watch.end(CANONICAL)
        result = solve(Cells(), problem, Limits(time_limit=time_limit), _between(watch), seed)
        if result.status.proved:
            watch.end(PROOF)
        else:  # a stage that a limit ended is no stage
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


@cache
def warm_up_cells() -> None:
    """Let `cells` sum losses on toys of few features and of many, once a process."""
    for n_features in (3, 6):
        solve(Cells(), Problem(datasets.generated(20, 8, n_features).load()))


def _between(watch: Stopwatch) -> Callable[[Progress], None]:
    """Return a callback that ends the stage of the first weights, and that of the first bound: the first one that is
    above what every search begins with, the least loss of each list.
    """
    first: list[float | None] = []

    def look(point: Progress) -> None:
        if not first:
            first.append(point.lower_bound)
            watch.end(WEIGHTS)
        elif BOUND not in watch.parts and point.lower_bound is not None and point.lower_bound > (first[0] or 0.0):
            watch.end(BOUND)

    return look


def _sizes(data: NBest) -> dict[str, int]:
    """Return what is counted of lists, and the bytes of their arrays."""
    arrays = data.dense_features(), data.offsets, data.statistics
    return {
        "lists": data.n_lists,
        "hypotheses": data.n_hypotheses,
        "array_bytes": sum(array.nbytes for array in arrays),
    }
