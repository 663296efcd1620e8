"""Beside the floor prototypes: the same arrays in the same process, rounds taken in turn. And targets of speed.

The prototypes and their data are not part of the repository: they are looked for in `prototypes` under the environment
variable LPMERT_SHARED, or in `../shared/prototypes` beside the checkout.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean, median
from types import ModuleType

import numpy as np

from benchmarks import targets
from benchmarks.datasets import ROOT
from benchmarks.harness import Answer, Benchmark, Dataset, Task, Unlimited
from benchmarks.lists import Loss, Solve
from benchmarks.rows import Row, find
from benchmarks.tables import Table, number, seconds
from lpmert.methods.auto import Auto
from lpmert.model.nbest import NBest

CASES = {
    "libri3": 1767.0,
    "libri4": 1758.0,
    "libri5": 1746.0,
    "swahili-0:8": 4.948169,
    "swahili-8:16": 4.641196,
    "swahili-16:24": 5.091451,
    "swahili-24:32": 5.890797,
}
"""Names of the prototypes' cases, and the optima that they proved."""

ROUNDS = (0, 1, 2)
SIZES = ("lists", "hypotheses", "features")
TIME_LIMIT = 180.0
_FEW_LISTS = 8
_MODULES = ("run", "data", "cells", "choices", "choices_fast")


def find_prototypes() -> Path | None:
    """Return the directory of the prototypes if their data lie beside it, or `None`."""
    named = os.environ.get("LPMERT_SHARED")
    place = (Path(named) if named else ROOT.parent / "shared") / "prototypes"
    return place if (place / "run.py").is_file() and (place.parent / "data").is_dir() else None


def _skip() -> str | None:
    if find_prototypes() is None:
        return "prototypes outside the repository: set LPMERT_SHARED to the folder that holds them and their data"
    clash = [name for name in _MODULES if name in sys.modules and not _is_theirs(name)]
    return f"modules called {', '.join(clash)} are already loaded; run this in a fresh process" if clash else None


def _is_theirs(name: str) -> bool:
    return str(sys.modules[name].__file__).startswith(str(find_prototypes()))


@cache
def prototypes() -> ModuleType:
    """Import the prototypes' `run`, which needs what it imports."""
    place = find_prototypes()
    if place is None:
        raise FileNotFoundError(_skip())
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(place))
    try:
        return importlib.import_module("run")
    finally:
        sys.path.remove(str(place))


@cache
def _later() -> ModuleType:
    place = prototypes().__file__
    sys.path.insert(0, str(Path(str(place)).parent))
    try:
        return importlib.import_module("choices_fast")
    finally:
        sys.path.pop(0)


@cache
def _load(case: str) -> NBest:
    _, features, losses, offsets = prototypes().case(case)
    return NBest(features, offsets, losses)


@dataclass(frozen=True)
class Prototype(Unlimited):
    """The prototypes' own engine for a case."""

    name: str = "prototype"

    def warm_up(self) -> None:
        """Compile both engines."""
        rng = np.random.default_rng(0)
        for engine in ("cells", "choices"):
            prototypes().solve(engine, rng.normal(size=(120, 3)), rng.random(120), np.arange(0, 121, 10))

    def solve(self, data: NBest, _objective: Loss, _seed: int, _time_limit: float) -> Answer:
        """Solve to the end; the prototypes know no time limit, and their preparation is left out."""
        engine = "cells" if data.n_lists > _FEW_LISTS else "choices"
        loss, weights, nodes, lps, proved = prototypes().solve(
            engine, data.features, data.statistics[:, 0], data.offsets
        )
        state = "optimal" if proved else "time_limit"
        return Answer(
            np.asarray(weights), state, float(loss) if proved else None, {"nodes": int(nodes), "lps": int(lps)}
        )


@dataclass(frozen=True)
class LaterPrototype(Prototype):
    """The later prototype for few lists; it has its own line searches, which its time leaves out."""

    name: str = "later prototype"

    def skip(self, data: NBest, _objective: Loss) -> str | None:
        """Return that there are many lists, if so."""
        return None if data.n_lists <= _FEW_LISTS else "many lists"

    def warm_up(self) -> None:
        """Compile it."""
        rng = np.random.default_rng(0)
        _later().solve(rng.normal(size=(60, 3)), rng.random(60), np.arange(0, 61, 10))

    def solve(self, data: NBest, _objective: Loss, _seed: int, _time_limit: float) -> Answer:
        """Solve to the end."""
        found = _later().solve(data.dense_features(), data.statistics[:, 0].copy(), data.offsets)
        proved = bool(found["proved"])
        counts = {"nodes": int(found["nodes"]), "lps": int(found["lps"])}
        bound = float(found["loss"]) if proved else None
        return Answer(
            np.asarray(found["w"]), "optimal" if proved else "time_limit", bound, counts, {"search": float(found["t"])}
        )


SOLVERS = (Prototype(), Solve(Auto(), "lpmert"), LaterPrototype())


def dataset(case: str) -> Dataset:
    """Return the prototypes' arrays."""
    return Dataset(case, partial(_load, case), _skip)


def tasks() -> Iterator[Task]:
    """Yield every case, both sides in turn, three times; then what has a target."""
    for case, optimum in CASES.items():
        for seed in ROUNDS:
            for solver in SOLVERS:
                yield Task(dataset(case), Loss(), solver, seed, TIME_LIMIT, optimum)
    yield from targets.tasks()


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield targets, the medians of both sides and their ratios, then where the time went."""
    yield targets.table(rows)
    body, parts, ratios = [], [], []
    for case in CASES:
        theirs, ours, later = (find(rows, dataset=case, solver=solver.name) for solver in SOLVERS)
        if not theirs or not ours:
            continue
        times = [median(row.seconds for row in side) for side in (theirs, ours)]
        ratios.append(times[0] / times[1])
        shown = number(ours[0].loss, 7) if all(row.proved for row in (*theirs, *ours)) else "not proved"
        counts = [f"{ours[0].counters[name]:,}" for name in SIZES]
        fast = f"{median(row.details['search'] for row in later):.3g}" if later else "-"
        body.append([case, *counts, shown, *map(seconds, times), f"{ratios[-1]:.3g}", fast])
        spent = [median(row.details["parts"][name] for row in ours) for name in ("prepare", "incumbent", "search")]
        work = [f"{side[0].counters[name]:,}" for name in ("nodes", "lps") for side in (theirs, ours)]
        spread = [
            f"{min(row.seconds for row in side):.3g} to {max(row.seconds for row in side):.3g}"
            for side in (theirs, ours)
        ]
        parts.append([case, *work, *map(seconds, spent), *spread])
    mean = f"{math.exp(fmean(map(math.log, ratios))):.2f}" if ratios else "-"
    note = (
        f"Seconds, medians of {len(ROUNDS)} rounds taken in turn, after compilation. The geometric mean of the ratios "
        f"is {mean}. lpmert's are of the canonical form, the first weights and the search; the prototypes' leave their "
        "preparation out. The later prototype, for few lists, is rougher still; its seconds are of its search alone."
    )
    headings = ("case", *SIZES, "proved optimum", "prototype", "lpmert", "ratio", "later prototype")
    yield Table("Seconds to the proof", headings, body, note)
    columns = (
        "case",
        "nodes: prototype",
        "lpmert",
        "LPs: prototype",
        "lpmert",
        "lpmert: prepare",
        "first weights",
        "search",
        "range: prototype",
        "lpmert",
    )
    yield Table("Where it went", columns, parts, "Seconds; counts are of one round.")


BENCHMARK = Benchmark("floor", "Targets of speed, and beside the floor prototypes", tasks, render, tolerance=1e-6)
