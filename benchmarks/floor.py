"""Race lpmert against the floor prototypes: same arrays, same process, one thread, rounds taken in turn.

The prototypes and their data are not part of the repository: they are looked for where `--prototypes` says, in
`prototypes` under the environment variable LPMERT_SHARED, or in `../shared/prototypes` beside the checkout.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import lpmert

CASES = ("libri3", "libri4", "libri5", "swahili-0:8", "swahili-8:16", "swahili-16:24", "swahili-24:32")
_MODULES = ("run", "data", "cells", "choices")
_AGREEMENT = 1e-9


@dataclass(frozen=True)
class Race:
    """One case; times are medians over the rounds, in seconds. `parts` are those of lpmert's whole `minimize`."""

    case: str
    lists: int
    hypotheses: int
    features: int
    optimum: float
    status: str
    agree: bool
    prototype_seconds: float
    prototype_nodes: int
    prototype_lps: int
    seconds: float
    nodes: int
    lps: int
    parts: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many times faster lpmert is; below 1 where it is slower."""
        return self.prototype_seconds / self.seconds


def find_prototypes(given: Path | None) -> Path | None:
    """Return the directory of the prototypes with their data beside it, or `None`."""
    shared = os.environ.get("LPMERT_SHARED")
    beside = Path(__file__).resolve().parents[2] / "shared"
    place = given or (Path(shared) if shared else beside) / "prototypes"
    return place if (place / "run.py").is_file() and (place.parent / "data").is_dir() else None


def load_prototypes(place: Path) -> ModuleType:
    """Import the prototypes' `run`; their kernels are cached elsewhere, as their place may be read-only."""
    os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.mkdtemp(prefix="lpmert-floor-"))
    from numba.core import config

    config.reload_config()  # type: ignore[no-untyped-call]
    sys.dont_write_bytecode = True
    clash = [name for name in _MODULES if name in sys.modules]
    if clash:
        raise click.ClickException(f"modules called {', '.join(clash)} are already loaded; run this in a fresh process")
    sys.path.insert(0, str(place))
    try:
        return importlib.import_module("run")
    finally:
        sys.path.remove(str(place))


def warm_up(prototypes: ModuleType) -> None:
    """Compile both sides on toy lists."""
    rng = np.random.default_rng(0)
    toy = rng.normal(size=(120, 3)), rng.random(120), np.arange(0, 121, 10)
    for engine in ("cells", "choices"):
        prototypes.solve(engine, *toy)
    for n_features in (3, 14):
        features, losses = rng.normal(size=(240, n_features)), rng.random(240)
        nbest = lpmert.NBest(features, np.arange(0, 241, 10), losses[:, None])
        for method in ("auto", "cells", "choices"):
            lpmert.minimize(nbest, method=method, time_limit=5)


def race(prototypes: ModuleType, case: str, rounds: int) -> Race:
    """Let both sides solve one case `rounds` times in turn."""
    engine, features, losses, offsets = prototypes.case(case)
    theirs: list[float] = []
    ours: list[float] = []
    parts: list[dict[str, float]] = []
    answer: Any = None
    result: Any = None
    for _ in range(rounds):
        begin = time.perf_counter()
        answer = prototypes.solve(engine, features, losses, offsets)
        theirs.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        result = lpmert.minimize(lpmert.NBest(features, offsets, losses[:, None]))
        ours.append(time.perf_counter() - begin)
        parts.append(dict(result.seconds))
    loss, _, nodes, lps, proved = answer
    close = math.isclose(float(loss), result.loss, rel_tol=_AGREEMENT)
    return Race(
        case=case,
        lists=len(offsets) - 1,
        hypotheses=len(losses),
        features=features.shape[1],
        optimum=result.loss,
        status=result.status.name.lower(),
        agree=bool(proved) and result.status.proved and close,
        prototype_seconds=statistics.median(theirs),
        prototype_nodes=int(nodes),
        prototype_lps=int(lps),
        seconds=statistics.median(ours),
        nodes=int(result.counters["nodes"]),
        lps=int(result.counters["lps"]),
        parts={name: statistics.median(part[name] for part in parts) for name in parts[0]},
    )


def table_of(races: list[Race]) -> Table:
    """Return the races as a table, with the geometric mean of the ratios below."""
    table = Table(title="seconds, medians; one thread")
    for heading in ("case", "lists", "hypotheses", "features", "optimum", "prototype", "nodes", "LPs", "lpmert"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for heading in ("prepare", "incumbent", "search", "nodes", "LPs", "ratio", "agree"):
        table.add_column(heading, justify="right")
    for one in races:
        parts = [f"{one.parts[name]:.3f}" for name in ("prepare", "incumbent", "search")]
        table.add_row(
            one.case,
            *(f"{count:,}" for count in (one.lists, one.hypotheses, one.features)),
            f"{one.optimum:.7g}",
            f"{one.prototype_seconds:.3f}",
            f"{one.prototype_nodes:,}",
            f"{one.prototype_lps:,}",
            f"{one.seconds:.3f}",
            *parts,
            f"{one.nodes:,}",
            f"{one.lps:,}",
            f"{one.ratio:.2f}",
            "yes" if one.agree else "NO",
        )
    table.caption = f"geometric mean of the ratios: {geometric_mean([one.ratio for one in races]):.2f}"
    return table


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


@click.command()
@click.argument("cases", nargs=-1, type=click.Choice(CASES))
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each side.")
@click.option("--prototypes", type=click.Path(path_type=Path), help="Directory of the prototypes' run.py.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write all figures as JSON to this file too.")
def main(cases: tuple[str, ...], rounds: int, prototypes: Path | None, output: Path | None) -> None:
    """Race lpmert against the floor prototypes on CASES (all if none is named)."""
    place = find_prototypes(prototypes)
    if place is None:
        raise click.ClickException(
            "no prototypes found: name their directory with --prototypes, or their parent in LPMERT_SHARED"
        )
    module = load_prototypes(place)
    warm_up(module)
    console = Console(width=190)
    races = []
    for case in cases or CASES:
        races.append(race(module, case, rounds))
        one = races[-1]
        console.print(f"{case}: prototype {one.prototype_seconds:.3f}s, lpmert {one.seconds:.3f}s")
    console.print(table_of(races))
    if output is not None:
        figures = [{**asdict(one), "ratio": one.ratio} for one in races]
        content = {"rounds": rounds, "cores": os.cpu_count(), "races": figures}
        output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if not all(one.agree for one in races):
        raise click.ClickException("the two sides disagree on an optimum")


if __name__ == "__main__":
    main()
