"""python -m benchmarks list | run NAME ... | report: everything measured about lpmert, and its rendering."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from benchmarks.report import RESULTS, write_report
from benchmarks.runner import ROWS, Wishes, run
from benchmarks.suites import NAMES, benchmark

_TERMINATED = 143
SCRIPTS = ("benchmarks.sample_risk",)
"""Measurements with command lines of their own."""


@click.group()
def main() -> None:
    """Measure lpmert; rows are kept, so that a run which was ended goes on where it stopped."""
    logging.getLogger("lpmert").addHandler(
        logging.NullHandler()
    )  # solvers are also tried on toys that do not suit them


@main.command("list")
def list_benchmarks() -> None:
    """Name the benchmarks, and say what of them cannot be run here."""
    for name in NAMES:
        wanted = benchmark(name)
        tasks = list(wanted.tasks())
        reasons = sorted({reason for task in tasks if (reason := task.dataset.skip()) is not None})
        source = f" [{wanted.source}]" if wanted.source else ""
        click.echo(f"{name:12} {len(tasks):4} runs  {wanted.title}{source}")
        for reason in reasons:
            click.echo(f"{'':24}not all of it here: {reason}")
    for script in SCRIPTS:
        click.echo(f"python -m {script} --help")


@main.command("run")
@click.argument("names", nargs=-1, required=True, type=click.Choice([*NAMES, "all"]))
@click.option("--dataset", "datasets", multiple=True, help="Only these; a pattern as in a shell; repeatable.")
@click.option("--solver", "solvers", multiple=True, help="Only these; a pattern as in a shell; repeatable.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0), help="Seconds for each run, instead of the benchmark's own."
)
@click.option("--again", is_flag=True, help="Run again what is done already.")
@click.option("--again-above", type=float, help="Run again what was measured above this load average.")
@click.option("--again-older", is_flag=True, help="Run again what was measured with another commit.")
@click.option("--at-most", type=click.FloatRange(min=0), help="Begin no further run after so many seconds a benchmark.")
@click.option("--rows", type=click.Path(path_type=Path), default=ROWS, help="Folder of the rows.")
@click.option(
    "--report",
    "reported",
    is_flag=True,
    help="Render the report of these benchmarks into the parent folder of the rows.",
)
def run_benchmarks(
    names: tuple[str, ...],
    datasets: tuple[str, ...],
    solvers: tuple[str, ...],
    time_limit: float | None,
    again: bool,
    again_above: float | None,
    again_older: bool,
    at_most: float | None,
    rows: Path,
    reported: bool,
) -> None:
    """Run the benchmarks NAMES, or what is left of them; fail if an optimum has changed."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(_TERMINATED)
    )  # so that processes of single rows end with this one
    wishes = Wishes(datasets, solvers, time_limit, again, again_above, again_older, at_most)
    trouble = []
    wanted = NAMES if "all" in names else names
    for name in wanted:
        trouble += run(benchmark(name), wishes, rows, click.echo)
    if reported:
        _write(wanted, rows, rows.parent)
    if trouble:
        raise click.ClickException("\n".join(["contradictions:", *trouble]))


@main.command("report")
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--rows", type=click.Path(path_type=Path), default=ROWS, help="Folder of the rows.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of the report.")
def report(names: tuple[str, ...], rows: Path, output: Path) -> None:
    """Render a page with tables and figures from the rows of each benchmark, or of NAMES."""
    _write(names or NAMES, rows, output)


def _write(names: Iterable[str], rows: Path, output: Path) -> None:
    for path in write_report(names, rows, output):
        click.echo(path)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
