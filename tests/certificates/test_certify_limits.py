"""Writing a certificate keeps to its limits, says how far it is, and leaves nothing half done."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest
from certificates import base
from commands import run
from graph_problems import Drawn

import lpmert
from lpmert import CertificateError, LimitError, MethodError
from lpmert.certificates.check import lattices as check
from lpmert.cli import progress
from lpmert.system import deadline
from lpmert.system.deadline import Deadline, OutOfTime, Pace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certificate.json"


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many looks at the limits are left."""
    looks = [inf]

    def expired(_: Deadline) -> bool:
        looks[0] -= 1
        return looks[0] < 0

    monkeypatch.setattr(Deadline, "expired", property(expired))
    return looks


@pytest.mark.parametrize("name", ["cones", "boxes", "selections", "bleu cones", "f1"])
def test_a_limit_at_any_moment_leaves_no_certificate(path: Path, name: str, left: list[float]) -> None:
    nbest = base(name)[0]
    result = lpmert.minimize(nbest)
    left[0] = 1_000_000
    lpmert.certify(nbest, result, path)
    total = 1_000_000 - int(left[0])
    assert total >= 10
    path.unlink()
    for looks in (*range(0, total, 1 + total // 6), total - 1):
        left[0] = looks
        with pytest.raises(LimitError, match="no certificate written: "):
            lpmert.certify(nbest, result, path)
        assert not list(path.parent.iterdir())


@pytest.mark.parametrize("limits", [{"time_limit": 0}, {"memory_limit": 1 << 40, "time_limit": 0.0}])
def test_lattices_keep_to_limits_too(path: Path, limits: dict[str, Any]) -> None:
    lattices = Drawn(3, "integers", 2, 2).lattices()
    result = lpmert.minimize(lattices)
    with pytest.raises(LimitError, match=r"no certificate written: the time limit of 0 s is over; .*\(time_limit\)"):
        lpmert.certify(lattices, result, path, **limits)
    assert not path.exists()
    lpmert.certify(lattices, result, path)
    with pytest.raises(LimitError, match="not checked further: the time limit"):
        lpmert.verify(path, lattices, **limits)
    assert lpmert.verify(path, lattices).proved


def test_a_limit_that_is_none_is_refused(path: Path) -> None:
    nbest = base("boxes")[0]
    with pytest.raises(MethodError, match="time_limit must be a number"):
        lpmert.certify(nbest, lpmert.minimize(nbest), path, time_limit=-1)


def test_stages_are_told_small_lattices_first_then_records(path: Path) -> None:
    lattices = Drawn(3, "integers", 2, 3).lattices()
    told: list[tuple[str, int, int | None]] = []
    lpmert.certify(lattices, lpmert.minimize(lattices), path, on_stage=lambda *stage: told.append(stage))
    sizes = [len(lattices.graph(k).targets) for k in range(lattices.n_lists)]
    links = [(done, parts) for stage, done, parts in told if stage.startswith("links of lattices")]
    assert list(dict.fromkeys(links)) == [(sum(sorted(sizes)[:k]), sum(sizes)) for k in range(len(sizes))]
    records = [(done, parts) for stage, done, parts in told if stage == "records of the certificate"]
    n_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert records == [(k, None) for k in range(1, n_lines - 1)]  # without the first line and the last


def test_more_orthants_than_cones_that_a_lattice_may_take_are_refused_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattices = Drawn(3, "integers", 2, 2).lattices()
    result = lpmert.minimize(lattices)
    monkeypatch.setattr(check, "_MOST_CONES", 3)
    monkeypatch.setattr(check, "_labels", None)  # nothing is looked for
    with pytest.raises(CertificateError, match="2 features is too large for a certificate"):
        lpmert.certify(lattices, result, path)


@pytest.mark.parametrize(
    ("seconds_left", "hopeless"),
    [
        (None, False),  # there is no limit
        (95, False),  # less than a tenth of the time has passed: too little is known
        (90, False),  # 10 s for 2 of 100 parts: 490 s more, and 900 would be ten times what is left
        (66, True),  # 34 s for 2: 1,666 s more, and 660 would be
        (0, True),
    ],
)
def test_work_is_given_up_where_ten_times_the_time_would_not_do(
    seconds_left: float | None, hopeless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now: list[float | None] = [100.0]
    monkeypatch.setattr(deadline, "time_left", lambda: now[0])
    pace = Pace(100, "work")
    now[0] = seconds_left
    if hopeless:
        with pytest.raises(OutOfTime, match=r"work would take [0-9,]+ s more at the pace so far"):
            pace.check(2)
    else:
        pace.check(2)
    pace.check(100)


@pytest.mark.parametrize("given", [None, 1000])
def test_the_command_gives_the_certificate_what_the_search_left_of_its_time(
    given: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "lists.tsv"
    table.write_text("list\tam\tlm\terrors\na\t1\t0\t0\na\t0\t1\t2\nb\t0\t1\t0\nb\t1\t0\t3\n")
    limits: list[float | None] = []

    def certify(*_: object, time_limit: float | None, **__: object) -> None:
        limits.append(time_limit)
        raise LimitError("no certificate written: the time limit is over")

    monkeypatch.setattr(lpmert, "certify", certify)
    columns = (table, "--segment", "list", "--features", "am,lm", "--loss", "errors")
    time_limit = () if given is None else ("--time-limit", given)
    outcome = run("solve", *columns, "--certificate", tmp_path / "c.json", *time_limit)
    assert outcome.exit_code == 3, outcome.output
    assert "lpmert: stopped by a limit: no certificate written" in outcome.stderr
    assert "loss" in outcome.stdout  # the result is there
    (left,) = limits
    assert left is None if given is None else left is not None and 0 < left < given


def test_progress_tells_what_is_left_at_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    now = [0.0]
    monkeypatch.setattr(progress, "say", said.append)
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    told = progress.Stages(slower=True)
    for seconds, done, parts in ((0.5, 1, 100), (2.0, 10, 100), (4.0, 7, None)):
        now[0] = seconds
        told("links", done, parts)
    # 10 of 100 in 2 s: 90 more in 18 s
    assert said == ["links: 10 of 100; 18.0s more at this pace, or longer", "links: 7"]
