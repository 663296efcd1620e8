"""Rows rendered as Markdown with figures for each benchmark, and as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.harness import Benchmark
from benchmarks.rows import Row
from benchmarks.runner import current_rows
from benchmarks.suites import NAMES, benchmark
from benchmarks.tables import Figure, Table

RESULTS = Path(__file__).resolve().parent / "results"
_DPI = 120
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-size: 14px; display: block; overflow-x: auto }
th, td { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: right }
th.left, td.left { text-align: left }
caption { text-align: left; font-weight: 600; padding: .4rem 0 }
img { max-width: 100% }
p.note { color: #555; margin-top: 0 } code { background: #f3f3f3; padding: 0 .2rem }
"""


def write_report(names: Iterable[str], rows: Path, output: Path) -> Iterator[Path]:
    """Write `NAME.md` and figures for these benchmarks, then `index.html` with all that have rows; yield the files."""
    output.mkdir(parents=True, exist_ok=True)
    wanted = tuple(names)
    sections = []
    for name in NAMES:
        one = benchmark(name)
        found = current_rows(one, rows)
        if not found:
            continue
        parts = list(one.render(found))
        if name in wanted:
            for part in parts:
                if isinstance(part, Figure):
                    yield _draw(part, output)
            page = output / f"{name}.md"
            page.write_text(_markdown(one, found, parts), encoding="utf-8")
            yield page
        sections.append(_section(one, found, parts))
    page = output / "index.html"
    page.write_text(_page(sections), encoding="utf-8")
    yield page


def provenance(one: Benchmark, rows: list[Row]) -> str:
    """Return the command, the dates and the machine that rows come from, and how many of all runs they are."""
    days = sorted({row.date[:10] for row in rows})
    machines = sorted({f"{row.cores} core{'s' if row.cores != 1 else ''}, {row.processor}" for row in rows})
    versions = dict.fromkeys(row.version for row in rows)
    loads = [row.load for row in rows if row.load is not None]
    load = f"; load average before a run {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    waited = max((row.seconds / row.processor_seconds for row in rows if row.processor_seconds >= 0.1), default=0.0)
    load += f", wall clock at most {waited:.1f} times the processor's" if waited > 1.05 else ""
    between = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"`python -m benchmarks run {one.name}`, {len(rows)} of {len(list(one.tasks()))} runs, {between}; "
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


def _markdown(one: Benchmark, rows: list[Row], parts: list[Table | Figure]) -> str:
    blocks = [f"# {one.title}", *([f"After {one.source}."] if one.source else []), provenance(one, rows)]
    for part in parts:
        if isinstance(part, Table):
            blocks.append(part.markdown().rstrip())
        else:
            blocks += [f"![{part.title}]({part.name}.png)", *([part.note] if part.note else [])]
    return "\n\n".join(blocks) + "\n"


def _section(one: Benchmark, rows: list[Row], parts: list[Table | Figure]) -> str:
    source = f"<p>After {html.escape(one.source)}.</p>" if one.source else ""
    lines = [f'<h2 id="{one.name}">{html.escape(one.title)}</h2>', source]
    lines.append(f'<p class="note">{_code(provenance(one, rows))}</p>')
    for part in parts:
        if isinstance(part, Table):
            lines.append(_table(part))
        else:
            title = html.escape(part.title)
            lines.append(f'<p><img src="{part.name}.png" alt="{title}"></p>')
        if part.note:
            lines.append(f'<p class="note">{_code(part.note)}</p>')
    return "\n".join(lines)


def _table(table: Table) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        marked = (
            f"<{tag}{' class=left' if column < table.left else ''}>{html.escape(cell)}</{tag}>"
            for column, cell in enumerate(cells)
        )
        return f"<tr>{''.join(marked)}</tr>"

    body = "\n".join(line(row, "td") for row in table.rows)
    return f"<table><caption>{html.escape(table.title)}</caption>\n{line(table.headings, 'th')}\n{body}\n</table>"


def _code(text: str) -> str:
    """Escape a text for HTML; what stands between backquotes becomes code."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _page(sections: list[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>lpmert: benchmarks</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        f"{_STYLE}</style></head>\n<body>\n<h1>lpmert: benchmarks</h1>\n"
        "<p>Figures of papers are the papers' own; all others were measured by the commands shown.</p>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )
