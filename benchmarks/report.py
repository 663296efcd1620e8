"""Renders the rows of each benchmark as a page of Markdown with figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.rows import Row
from benchmarks.runner import current_rows
from benchmarks.suites import benchmark
from benchmarks.tables import Figure, Table

RESULTS = Path(__file__).resolve().parent / "results"
_DPI = 120


def write_report(names: Iterable[str], rows: Path, output: Path) -> Iterator[Path]:
    """Write `NAME.md` and figures for each of these benchmarks that has rows; yield the files."""
    output.mkdir(parents=True, exist_ok=True)
    for name in names:
        suite = benchmark(name)
        found = current_rows(suite, rows)
        if not found:
            continue
        parts = list(suite.render(found))
        for part in parts:
            if isinstance(part, Figure):
                yield _draw(part, output)
        page = output / f"{name}.md"
        page.write_text(_markdown(suite, found, parts), encoding="utf-8")
        yield page


def provenance(suite: Benchmark, rows: list[Row]) -> str:
    """Return the command, the dates and the machine of the rows, and how many of all runs they are."""
    days = sorted({row.date[:10] for row in rows})
    machines = sorted({f"{row.cores} core{'s' if row.cores != 1 else ''}, {row.processor}" for row in rows})
    versions = dict.fromkeys(row.version for row in rows)
    loads = [row.load for row in rows if row.load is not None]
    load = f"; load average before a run {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    waited = max((row.seconds / row.processor_seconds for row in rows if row.processor_seconds >= 0.1), default=0.0)
    load += f", wall clock at most {waited:.1f} times the processor's" if waited > 1.05 else ""
    between = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"`python -m benchmarks run {suite.name}`, {len(rows)} of {len(list(suite.tasks()))} runs, {between}; "
        f"lpmert {', '.join(versions)}; "
        f"{' and '.join(machines)}{load}. One thread, unless said otherwise."
    )


def _draw(figure: Figure, output: Path) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=figure.size, layout="constrained")
    FigureCanvasAgg(canvas)
    figure.draw(canvas)
    path = output / f"{figure.name}.png"
    canvas.savefig(path, dpi=_DPI, metadata={"Software": None})
    return path


def _markdown(suite: Benchmark, rows: list[Row], parts: list[Table | Figure]) -> str:
    blocks = [f"# {suite.title}", *([f"After {suite.source}."] if suite.source else []), provenance(suite, rows)]
    for part in parts:
        if isinstance(part, Table):
            blocks.append(part.markdown().rstrip())
        else:
            blocks += [f"![{part.title}]({part.name}.png)", *([part.note] if part.note else [])]
    return "\n\n".join(blocks) + "\n"
