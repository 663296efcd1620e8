"""What the terminal shows: aligned progress lines at the right times, and reports that say no more than was proved."""

import io
import itertools
import math
import re
import sys
from collections.abc import Iterable
from typing import Any

import click
import numpy as np
import pytest
from hypothesis import given, strategies as st

from lpmert.cli.reports import result_report
from lpmert.cli.running import HOW_TO_STOP, ProgressLog, header, picture, progress_line, progress_shown
from lpmert.quoting import Unit, duration, number, percent
from lpmert.result import Cell, Progress, Result, Status, relative_gap


def progress(seconds: float, source: str = "", loss: float = 1767, bound: float | None = 1700, n: int = 12) -> Progress:
    return Progress(seconds, n, 3, bound, loss, relative_gap(loss, bound), 5, source, np.array([0.5, 0.5]))


def result(**changes: object) -> Result:
    values: dict[str, object] = {
        "weights": np.array([0.5, -0.25, 0.25]),
        "names": ("am", "lm", "length"),
        **dict.fromkeys(("loss", "score", "lower_bound"), 1767.0),
        "status": Status.OPTIMAL,
        "method": "cells",
        "statistics": np.array([1767.0]),
        "selection": np.array([0, 1]),
        "margin": 0.125,
        "signature": "metric:loss|ties:first",
        "fingerprint": "0" * 64,
        "seed": 7,
    }
    return Result(**(values | changes))


def printed(reports: Iterable[Progress], capsys: Any, time_limit: float | None = 7200.0) -> list[str]:
    log = ProgressLog(time_limit)
    for report in reports:
        log(report)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@pytest.mark.parametrize(
    "report",
    [
        progress(0.1),
        progress(12.3, "w"),
        progress(1e5, bound=None, n=123_456_789_012),
        progress(999.94, "r", loss=9.7142051, bound=1e-9),
        progress(86_399, loss=0.0, bound=-1.0),
    ],
)
def test_progress_lines_have_their_separators_below_those_of_the_header(report: Progress) -> None:
    line = progress_line(report, report.source)
    assert [m.start() for m in re.finditer(r"\|", line)] == [m.start() for m in re.finditer(r"\|", header())]
    assert len(line) == len(header()) <= 79


def test_progress_is_told_in_the_unit_of_the_report() -> None:
    bleu, share = Unit("BLEU", -100.0, 100.0), Unit("accuracy", -1 / 120, 1.0, percent=True)
    assert header(bleu).split()[4:8] == ["at", "most", "BLEU", "gap"]
    for report, unit, figures in (
        (progress(61.0, loss=0.6673507, bound=0.57595), bleu, "42.41 33.26 9.14"),
        (progress(1.0, loss=32.0, bound=32.0), share, "73.33% 73.33% 0.00"),  # a bound that is met is not above
    ):
        assert progress_line(report, "", unit).split("|")[1].split() == figures.split()


def test_lines_come_every_second_with_the_source_of_the_last_incumbent(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed([progress(t / 10) for t in range(10)], capsys) == []
    sources = {3: "r", 15: "r", 17: "w"}
    reports = [progress(t / 10, source=sources.get(t, "")) for t in range(41)]
    expected = [progress_line(progress(1.0 + t), source) for t, source in enumerate(("r", "w", "", ""))]
    expected.insert(0, header())
    assert printed(reports, capsys) == expected
    first, *lines = printed(reports, capsys, None)
    assert HOW_TO_STOP in first
    assert lines == expected
    lines = printed([progress(float(t)) for t in range(1, 46)], capsys)
    assert [place for place, line in enumerate(lines) if line == header()] == [0, 21, 42]


def test_terminals_get_a_live_view_that_leaves_nothing_behind_and_others_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        monkeypatch.setenv("TERM", "dumb" if terminal else "xterm")
        with progress_shown(None) as callback:
            assert isinstance(callback, ProgressLog)
    monkeypatch.setenv("TERM", "xterm")
    with progress_shown(None) as callback:
        assert not isinstance(callback, ProgressLog)
        callback(progress(1.0))
        sys.stderr.write("a line of the log\n")
        callback(progress(2.0))
    told = capsys.readouterr().err
    assert "a line of the log" in told
    assert HOW_TO_STOP in told
    assert "|" not in told


def seen(report: Progress, first: Progress, limit: float | None = None, columns: int = 80) -> list[str]:
    from rich.console import Console

    screen = Console(width=columns, record=True, file=io.StringIO())
    screen.print(picture(report, first, limit, columns))
    return screen.export_text().splitlines()


@pytest.mark.parametrize("columns", [32, 40, 80, 200])
def test_the_live_view_fits_the_terminal_and_says_how_to_stop(columns: int) -> None:
    for bound, limit in itertools.product((None, 1700.0), (None, 7200.0)):
        shown = seen(progress(3599.0, bound=bound), progress(1.0, bound=bound), limit, columns)
        assert len(shown) == 4
        assert max(map(len, shown)) <= columns
        assert shown[0].startswith("59m59s")
        assert shown[3] == "Ctrl-C stops and keeps the best"


def test_the_bar_is_full_only_if_no_gap_is_left() -> None:
    for bound, loss, closed in ((0.0, 80.0, 0), (20.0, 80.0, 10), (20.0, 60.0, 20), (59.9, 60.0, 39), (60.0, 60.0, 40)):
        line = seen(progress(2.0, bound=bound, loss=loss), progress(1.0, bound=0.0, loss=80.0))[1]
        assert float(line.split()[0]) == bound
        assert line.split()[1:3] == ["━" * closed + "─" * (40 - closed), f"{loss:g}"]


def test_only_an_exact_zero_reads_as_zero() -> None:
    for show, texts in (
        (number, {1767.0: "1767", -0.0: "0", 12_345_678_901.0: "12345678901", 4.948169: "4.948169", None: "-"}),
        (number, {math.inf: "inf", 1e300: "1e+300"}),
        (percent, {None: "-", 0.0: "0%", 1e-12: "<0.01%", 0.0123: "1.23%", 1.0: "100.00%", math.inf: ">999%"}),
        (duration, {0.04: "0.0s", 999.94: "999.9s", 1000.0: "16m40s", 7200.0: "2h00m", 86_400.0: "24h00m"}),
    ):
        assert {value: show(value) for value in texts} == texts


def report(**changes: object) -> list[str]:
    return click.unstyle(result_report(result(**changes))).splitlines()


CELL = Cell(np.array([[0.4, np.inf], [-np.inf, -0.2], [0.2, 0.3]]), np.array([0.5, -0.25, 0.25]), 0.01)


def test_a_report_has_weights_loss_bound_and_last_the_verdict_in_fifteen_lines() -> None:
    lines = report(unit=Unit("errors"), cell=CELL, counters={"nodes": 12345})
    assert lines[0].split() == ["feature", "weight", "may", "fall", "to", "may", "rise", "to"]
    assert [(row[0], float(row[1])) for row in map(str.split, lines[1:4])] == [
        ("am", 0.5), ("lm", -0.25), ("length", 0.25),
    ]  # fmt: skip
    assert [line.split() for line in lines[5:7]] == [["errors", "1767"], ["at", "least", "1767"]]
    assert lines[-1] == Status.OPTIMAL.value
    assert len(lines) <= 15
    assert "nodes" not in "".join(lines)
    assert len({line.index(".") for line in report(weights=np.array([0.5, -0.25, 0.0]))[1:4]}) == 1
    assert report(names=("am", "[bold] :smile:", "length"))[2].startswith("[bold] :smile: "), "no markup"


def test_weights_have_the_digits_that_their_ranges_ask_for() -> None:
    narrow = Cell(np.array([[0.5 - 1e-6, 0.5 + 1e-6], [-1, 0], [0, 1]]), np.array([0.5, -0.25, 0.25]), 0.01)
    assert report(cell=CELL)[1].split()[1] == "0.5000"
    assert report(cell=narrow)[1].split()[1] == "0.50000000"
    weights = np.array([1.0 - 3e-12, -2e-12, 1e-12])
    rows = [line.split() for line in report(weights=weights)[1:4]]
    assert np.allclose([float(row[1]) for row in rows], weights, rtol=1e-6, atol=0), "not rounded to zero"


def test_an_unproved_result_does_not_say_proved_and_a_heuristic_shows_no_bound() -> None:
    stopped = report(lower_bound=1700.0, status=Status.TIME_LIMIT)
    assert "proved" not in "".join(stopped)
    assert ["at", "least", "1700"] in map(str.split, stopped)
    assert ["gap", "3.79%"] in map(str.split, stopped)
    heuristic = report(lower_bound=None, status=Status.HEURISTIC)
    assert not [line for line in heuristic if line.startswith(("at least", "gap"))]
    assert heuristic[-1] == Status.HEURISTIC.value


def test_losses_and_bounds_are_told_in_their_unit() -> None:
    for unit, loss, bound, told in (
        (Unit("BLEU", -100.0, 100.0), 0.6673507, 0.57595, ["BLEU 33.26", "at most 42.41"]),
        (Unit("WER", 1 / 86, percent=True, counts="errors"), 42.0, 41.0, ["WER 48.84% (42 errors)", "at least 47.67%"]),
        (Unit("accuracy", -1 / 16, 1.0, True, "wrong"), 3.0, 2.0, ["accuracy 81.25% (3 wrong)", "at most 87.50%"]),
        (Unit("reward", -1.0), -656.0, -700.0, ["reward 656", "at most 700"]),
        (Unit("F1", -1.0, 1.0), 1 / 3, 0.25, ["F1 0.6667", "at most 0.7500"]),
        (Unit("loss"), 4.948169, 4.94816, ["loss 4.948", "at least 4.948"]),
        (Unit("loss"), 931.4, 7.77777, ["loss 931.4", "at least 7.777"]),
    ):
        lines = report(unit=unit, loss=loss, score=loss, lower_bound=bound, status=Status.TIME_LIMIT)
        assert [" ".join(line.split()) for line in lines[5:7]] == told


@given(st.floats(-1e6, 1e6), st.floats(0.01, 1e4), st.booleans(), st.sampled_from([0.0, 1.0, 100.0]), st.booleans())
def test_rounding_makes_no_bound_better(loss: float, factor: float, more: bool, offset: float, percent: bool) -> None:
    unit = Unit("x", -factor if more else factor, offset, percent)
    shown = float(unit.short(loss, bound=True).rstrip("%")) / (100 if percent else 1)
    slack = 2e-9 * max(1.0, abs(unit.of(loss)))
    assert shown >= unit.of(loss) - slack if more else shown <= unit.of(loss) + slack


def test_more_is_told_of_ties_free_weights_and_limits_and_with_v_of_times_and_counters() -> None:
    found = result(
        loss=69.443462, score=30.556538, cell=CELL, free=("length",), limiting=("am >= 0",),
        tied_lists=1, loss_best_ties=1766.0, loss_worst_ties=1769.0,
        seconds={"read": 0.25, "search": 1.5}, counters={"nodes": 12345, "lps_cold": 6},
    )  # fmt: skip
    short, long = (click.unstyle(result_report(found, verbose=verbose)).splitlines() for verbose in (False, True))
    told = {
        *("am 0.5000 0.4000 inf", "lm -0.2500 -inf -0.2000", "length (free) 0.2500 0.2000 0.3000", "score 30.556538"),
        *("ties 1 list: 1766 at best, 1769 at worst", "limited by am >= 0: the best choices go on beyond"),
    }
    assert told <= {" ".join(line.split()) for line in short}
    more = {"seconds read 0.250, search 1.500", "work nodes 12,345, lps cold 6"}
    assert told | more <= {" ".join(line.split()) for line in long}


@pytest.mark.parametrize(("columns", "tables"), [(30, 2), (50, 1), (200, 1)])
def test_reports_fit_the_terminal_and_cut_no_number(columns: int, tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    long = result(cell=CELL, signature="x" * 150, counters={"nodes": 12345})
    piped = click.unstyle(result_report(long, verbose=True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = click.unstyle(result_report(long, verbose=True)).splitlines()
    assert all(len(line) <= columns for line in lines if line != Status.OPTIMAL.value)
    assert "x" * 150 in piped
    assert re.search("x+", "".join(line.strip() for line in lines if "x" in line)).group() == "x" * 150
    assert {word for word in piped.split() if "x" not in word} == {
        word for line in lines for word in line.split() if "x" not in word
    }
    assert sum(line.startswith("am ") for line in lines) == tables
