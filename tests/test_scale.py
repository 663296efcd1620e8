"""The benchmark of scale measures what it says: stages of one search, fitted growth, one worker and two."""

from dataclasses import replace
from pathlib import Path

import pytest
from late import Late
from long_searches import long_searches

from benchmarks import datasets, scaling
from benchmarks.rows import read_rows
from benchmarks.runner import Wishes, run
from benchmarks.suites import benchmark, scale
from benchmarks.tables import Table
from lpmert.methods.cells.cells import Cells
from lpmert.methods.choices.choices import Choices

figures = Late("matplotlib.figure")


@pytest.mark.slow
def test_the_suite_runs_in_a_small_form_and_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [datasets.generated(size, 8, 3) for size in (10, 20, 40)]
    kind = scaling.Kind("generated", (10, 20, 40), lambda size: small[(10, 20, 40).index(size)])
    monkeypatch.setattr(scale, "SYNTHETIC", kind)
    monkeypatch.setattr(scale, "REAL", scaling.Kind("none", (), lambda _: small[0]))
    long = scale.Long(datasets.generated(12, 12, 5), Cells()), scale.Long(datasets.generated(8, 12, 5), Choices())
    monkeypatch.setattr(scale, "LONG", long)
    monkeypatch.setattr(scale, "ROUNDS", 1)
    wanted = replace(benchmark("scale"), apart=False)
    with long_searches():
        trouble = run(wanted, Wishes(solvers=("read", "cells", "1 *", "2 threads")), tmp_path, print)
    assert trouble == []
    rows = list(read_rows(tmp_path / "scale.jsonl").values())
    assert len(rows) == 3 * 4 + 2 * 2  # stages and runs
    shown = list(wanted.render(rows))
    tables = {part.title: part for part in shown if isinstance(part, Table)}
    assert len(tables["Stages"].rows) == 3
    assert [row[:2] for row in tables["Two workers"].rows] == [
        ["generated-S12-N12-D5", "2 threads"],
        ["generated-S8-N12-D5", "2 threads"],
    ]
    for part in shown:
        if isinstance(part, Table):
            assert all(len(row) == len(part.headings) for row in part.rows), part.title
        else:
            part.draw(figures.Figure())
