"""What each addition to LP-MERT saves: linear programs, combinations by length and seconds, with each switched off.

The sets of 8 Swahili lists come with the floor prototypes, which are looked for as `benchmarks.floor` does.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import lpmert
from benchmarks.floor import find_prototypes, load_prototypes
from lpmert.exact.divide import LpMert

SETS = ("0:8", "8:16", "16:24", "24:32")
LENGTHS = (1, 2, 4, 8)
SWITCHES = ("row_generation", "use_witnesses", "use_cores", "look_ahead", "lazy", "chain")
VARIANTS = {
    "default": LpMert(),
    **{f"without {switch}": replace(LpMert(), **{switch: False}) for switch in SWITCHES},  # type: ignore[arg-type]
    "with pair": LpMert(chain=False, pair=True),
    "all off": LpMert(**dict.fromkeys(SWITCHES, False)),  # type: ignore[arg-type]
}


@dataclass(frozen=True)
class Run:
    """One variant on one set; `proved` is false where the time limit ended it, and the counts are then only a start."""

    variant: str
    lists: str
    proved: bool
    loss: float
    lower_bound: float | None
    lps: int
    tested: dict[int, int]
    combinations: int
    rows_in_full: int
    rows_held: int
    seconds: float


def run(variant: str, lists: str, nbest: lpmert.NBest, time_limit: float) -> Run:
    """Solve one set with one variant."""
    begin = time.perf_counter()
    result = lpmert.minimize(nbest, method=VARIANTS[variant], time_limit=time_limit)
    counters = result.counters
    return Run(
        variant=variant,
        lists=lists,
        proved=result.status.proved,
        loss=result.loss,
        lower_bound=result.lower_bound,
        lps=counters["lps"],
        tested={length: counters.get(f"tested_{length}", 0) for length in LENGTHS},
        combinations=counters["combinations"],
        rows_in_full=counters["rows_in_full"],
        rows_held=counters["rows_held"],
        seconds=time.perf_counter() - begin,
    )


def table_of(runs: list[Run]) -> Table:
    """Return the runs as a table; a count with > is that of a run which the time limit ended."""
    table = Table(title="LP-MERT on sets of 8 lists; tested: combinations by length")
    for heading in ("lists", "variant", "optimum", "LPs", *(f"tested {n}" for n in LENGTHS), "seconds"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for one in runs:
        mark = "" if one.proved else ">"
        counts = [one.lps, *one.tested.values()]
        optimum = f"{one.loss:.7g}" if one.proved else "-"
        table.add_row(
            one.lists, one.variant, optimum, *(f"{mark}{count:,}" for count in counts), f"{mark}{one.seconds:.1f}"
        )
    table.caption = "; ".join(f"{one.lists}: {one.combinations:.3g} combinations" for one in runs if _first(one))
    return table


def _first(one: Run) -> bool:
    return one.variant == next(iter(VARIANTS))


def _as_json(one: Run) -> dict[str, Any]:
    return {**vars(one), "tested": {str(length): count for length, count in one.tested.items()}}


@click.command()
@click.argument("sets", nargs=-1, type=click.Choice(SETS))
@click.option("--variant", "variants", multiple=True, type=click.Choice(list(VARIANTS)), help="Only these; repeatable.")
@click.option("--time-limit", type=float, default=120.0, show_default=True, help="Seconds for one run.")
@click.option("--prototypes", type=click.Path(path_type=Path), help="Directory of the prototypes' run.py.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write all figures as JSON to this file too.")
def main(
    sets: tuple[str, ...], variants: tuple[str, ...], time_limit: float, prototypes: Path | None, output: Path | None
) -> None:
    """Run LP-MERT with every addition, with each one switched off, and with none, on SETS (all if none is named)."""
    place = find_prototypes(prototypes)
    if place is None:
        raise click.ClickException(
            "no data found: name the prototypes' directory with --prototypes, or its parent in LPMERT_SHARED"
        )
    module = load_prototypes(place)
    console = Console(width=150)
    runs: list[Run] = []
    for lists in sets or SETS:
        _, features, losses, offsets = module.case(f"swahili-{lists}")
        nbest = lpmert.NBest(features, offsets, losses[:, None])
        lpmert.minimize(nbest, method="lp-mert", node_limit=10)
        for variant in variants or VARIANTS:
            runs.append(run(variant, lists, nbest, time_limit))
            console.print(f"{lists} {variant}: {runs[-1].lps:,} LPs, {runs[-1].seconds:.1f}s")
    console.print(table_of(runs))
    if output is not None:
        content = {"time_limit": time_limit, "cores": os.cpu_count(), "runs": [_as_json(one) for one in runs]}
        output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
