"""python -m benchmarks list | run NAME ... | report: measure lpmert, and render what was measured."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

import click

from benchmarks.report import RESULTS, write_report
from benchmarks.runner import ROWS, RunOptions, run
from benchmarks.suites import NAMES, benchmark

_TERMINATED = 143
SCRIPTS = ("benchmarks.sample_risk",)  # measurements that have their own command lines


@click.group()
def main() -> None:
    """Measure lpmert; rows are kept, so that an interrupted run continues where it stopped."""
    # Warm-ups try solvers on toys that do not suit them; what they log then is of no interest.
    logging.getLogger("lpmert").addHandler(logging.NullHandler())


@main.command("list")
def list_benchmarks() -> None:
    """List the benchmarks, and what is missing here to run them."""
    for name in NAMES:
        suite = benchmark(name)
        tasks = list(suite.tasks())
        reasons = sorted({reason for task in tasks if (reason := task.dataset.skip()) is not None})
        source = f" [{suite.source}]" if suite.source else ""
        click.echo(f"{name:12} {len(tasks):4} runs  {suite.title}{source}")
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
@click.option("--again", is_flag=True, help="Repeat runs that are done.")
@click.option("--again-above", type=float, help="Repeat runs that were measured above this load average.")
@click.option("--again-older", is_flag=True, help="Repeat runs that were measured with another commit.")
@click.option("--rows", type=click.Path(path_type=Path), default=ROWS, help="Folder of the rows.")
def run_benchmarks(
    names: tuple[str, ...],
    datasets: tuple[str, ...],
    solvers: tuple[str, ...],
    time_limit: float | None,
    again: bool,
    again_above: float | None,
    again_older: bool,
    rows: Path,
) -> None:
    """Run the benchmarks NAMES, except for runs that are done; fail if an optimum has changed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # ends the processes of single rows, too
    options = RunOptions(datasets, solvers, time_limit, again, again_above, again_older)
    trouble = []
    for name in NAMES if "all" in names else names:
        trouble += run(benchmark(name), options, rows, click.echo)
    if trouble:
        raise click.ClickException("\n".join(["contradictions:", *trouble]))


@main.command("report")
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--rows", type=click.Path(path_type=Path), default=ROWS, help="Folder of the rows.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=RESULTS, help="Folder of the report.")
def report(names: tuple[str, ...], rows: Path, output: Path) -> None:
    """Render a page with tables and figures from the rows of each benchmark, or of NAMES."""
    for path in write_report(names or NAMES, rows, output):
        click.echo(path)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
