"""Comparisons and tunings that were cut off go on: what has ended is not done again, and all comes out the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run
from shared import ROOT

import lpmert
from lpmert import DataError
from lpmert.search import checkpoint
from lpmert.system.scratch import owned

METHODS = ("och", "grid", "nelder-mead")


def lists() -> lpmert.NBest:
    rng = np.random.default_rng(3)
    offsets = np.arange(0, 24 * 7 + 1, 7)
    return lpmert.NBest(rng.normal(size=(offsets[-1], 3)), offsets, rng.integers(0, 6, offsets[-1]))


def plain(value: Any) -> Any:
    """Return an outcome without times."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in ("seconds", "trace")}
    return [plain(one) for one in value] if isinstance(value, list) else value


def as_if_new(outcome: Any) -> Any:
    """Return an outcome whose optimum says that it was resumed, but for that."""
    assert outcome.optimum.resumed
    return replace(outcome, optimum=replace(outcome.optimum, resumed=False))


def compared(nbest: lpmert.NBest, **arguments: Any) -> Any:
    return lpmert.compare(nbest, METHODS, seeds=3, cv=2, repeat=2, replications=20, **arguments)


def test_a_comparison_goes_on_where_it_was_stopped_and_runs_nothing_twice(tmp_path: Path) -> None:
    nbest, path = lists(), tmp_path / "kept.npz"
    whole = plain(compared(nbest).to_dict())
    counted: list[int] = []
    for stop_after in (2, 5, 100):
        seen: list[str] = []

        def stop(name: str, _: object, seen: list[str] = seen, most: int = stop_after) -> bool:
            seen.append(name)
            return len(seen) >= most

        found = compared(nbest, checkpoint=path, resume=bool(counted), on_run=stop)
        counted.append(len(seen))
    assert counted == [2, 5, 7]
    assert plain(found.to_dict()) == whole


def test_what_has_ended_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest, path = lists(), tmp_path / "kept.npz"
    first = compared(nbest, checkpoint=path)
    tuned = lpmert.tune(nbest, folds=3, checkpoint=tmp_path / "tuned.npz")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("done again")

    for name in (
        "lpmert.comparing.work.Judge.run",
        "lpmert.comparing.cross_validation.Fold.run",
        "lpmert.unseen.material.solve",
        "lpmert.unseen.averaging.Averaging.average",
    ):
        monkeypatch.setattr(name, never)
    again = compared(nbest, checkpoint=path, resume=True)
    assert plain(as_if_new(again).to_dict()) == plain(first.to_dict())
    tuned_again = lpmert.tune(nbest, folds=3, checkpoint=tmp_path / "tuned.npz", resume=True)
    assert plain(as_if_new(tuned_again).to_dict()) == plain(tuned.to_dict())


def test_a_tuning_goes_on_after_each_of_its_parts(tmp_path: Path) -> None:
    nbest, path = lists(), tmp_path / "kept.npz"
    whole = plain(lpmert.tune(nbest, folds=3).to_dict())

    class Stopped(Exception):
        pass

    for fold in (1, 2, 3):

        def stop(stage: str, done: int, _: int, last: int = fold) -> None:
            if stage == "cross-validation" and done == last:
                raise Stopped

        with pytest.raises(Stopped):
            lpmert.tune(nbest, folds=3, checkpoint=path, resume=fold > 1, on_stage=stop)
    assert plain(lpmert.tune(nbest, folds=3, checkpoint=path, resume=True).to_dict()) == whole


def test_other_data_and_settings_are_refused_by_name(tmp_path: Path) -> None:
    nbest, path = lists(), tmp_path / "kept.npz"
    compared(nbest, checkpoint=path)
    tuned = tmp_path / "tuned.npz"
    lpmert.tune(nbest, folds=3, quick=True, checkpoint=tuned)
    with pytest.raises(DataError, match="go on with it"):
        compared(nbest, checkpoint=path)
    with pytest.raises(DataError, match=r"another search \(data: "):
        compared(nbest.restrict(slice(1, None)), checkpoint=path, resume=True)
    for settings, name in (
        ({"time_limit": 5}, "limit of runs"),
        ({"seed": 1}, "seed"),
        ({"weights": {"mine": [1, 2, 3]}}, "list of methods"),
        ({"held_out": nbest}, "held-out data"),
        ({"initial_weights": [1, 2, 3]}, "initial weights"),
    ):
        with pytest.raises(DataError, match=rf"another search \({name}: "):
            compared(nbest, checkpoint=path, resume=True, **settings)
    with pytest.raises(DataError, match=r"number of folds: .* there, .* here"):
        lpmert.tune(nbest, folds=4, checkpoint=tuned, resume=True)
    with pytest.raises(DataError, match="another search"):
        lpmert.tune(nbest, checkpoint=path, resume=True)


def test_what_is_no_file_holds_no_checkpoint(tmp_path: Path) -> None:
    for place in (tmp_path, Path("/dev/null")):
        with pytest.raises(DataError, match="no regular file"):
            lpmert.tune(lists(), checkpoint=place)


def test_outcomes_data_and_checkpoints_are_different_files(tmp_path: Path) -> None:
    path, other = tmp_path / "lists.tsv", tmp_path / "kept.npz"
    lpmert.write(lists(), path)
    content = path.read_bytes()
    for command in ("solve", "tune", "compare"):
        both = run(command, path, "-q", "--checkpoint", other, "-o", other)
        assert (both.exit_code, other.exists()) == (1, False)
        assert "two outputs would go to this file" in both.stderr
        data = run(command, path, "-q", "--checkpoint", path)
        assert data.exit_code == 1
        assert "would overwrite" in data.stderr
        assert path.read_bytes() == content


def test_two_at_once_cannot_have_one_file(tmp_path: Path) -> None:
    nbest, path = lists(), tmp_path / "kept.npz"
    refused: list[str] = []

    def meanwhile(*_: object) -> bool:
        for again in (
            lambda: compared(nbest, checkpoint=path, resume=True),
            lambda: lpmert.tune(nbest, checkpoint=path),
            lambda: lpmert.minimize(nbest, checkpoint=path),
        ):
            with pytest.raises(DataError, match=f"in use by another run .process {os.getpid()}.") as caught:
                again()
            refused.append(str(caught.value))
        return True

    compared(nbest, checkpoint=path, on_run=meanwhile)
    assert len(refused) == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept.npz"]
    with owned(path, path):
        pass


def test_runs_that_end_quickly_are_written_within_the_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, written = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])

    def write(*_: object) -> None:
        written.append(now[0])
        now[0] += 0.1

    monkeypatch.setattr(checkpoint, "_write", write)
    with checkpoint.finished_parts(checkpoint.Keeping(tmp_path / "kept.npz"), dict) as finished:
        for part in range(1000):
            now[0] += 1.0
            finished.add(str(part), part)
    assert written[0] == 1.0
    assert len(written) > 100
    assert 0.1 * (len(written) - 2) <= 0.02 * now[0]


CHILD = """
import json, sys
sys.path.insert(0, "tests/comparing")
import lpmert
from lpmert.search import checkpoint
from test_finished import compared, lists, plain
checkpoint._SHARE = 1.0
what, path = sys.argv[1:]
print("begins", flush=True)
if what == "compare":
    found = compared(lists(), checkpoint=path, resume=True)
else:
    found = lpmert.tune(lists(), folds=3, checkpoint=path, resume=True)
print(json.dumps(plain(found.to_dict())))
"""


@pytest.mark.parametrize("what", ["compare", "tune"])
def test_one_that_is_killed_goes_on(what: str, tmp_path: Path) -> None:
    path = ":".join([str(ROOT), str(ROOT / "tests")])
    call = [sys.executable, "-c", CHILD, what, str(tmp_path / "kept.npz")]
    rng = np.random.default_rng(1)
    for number in [signal.SIGKILL] * 3 + [signal.SIGTERM]:
        process = subprocess.Popen(
            call, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(float(rng.exponential(0.4)))
        process.send_signal(number)
        process.wait()
        process.stdout.close()
    done = subprocess.run(
        call, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}
    )
    found = json.loads(done.stdout.splitlines()[-1])
    whole = compared(lists()) if what == "compare" else lpmert.tune(lists(), folds=3)
    assert found == json.loads(json.dumps(plain(whole.to_dict())))
