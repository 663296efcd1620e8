"""Signals, full disks and closed streams: the real command, at many moments, leaves whole files or the old ones.

Wherever a signal arrives, an outcome file holds either all of an outcome or what it held before, no scratch file stays,
and stderr shows no traceback.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lpmert.formats.mert_data import write_mert_data
from lpmert.nbest import NBest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and streams as POSIX has them")

NAMES = [f"f{d}" for d in range(8)]
COLUMNS = ["--segment", "list", "--features", ",".join(NAMES), "--loss", "errors"]
OLD = '{"old": true}\n'
PATIENCE = 120.0
"""Seconds after which a process counts as hung; never reached by one that works."""
BEGUN = "lpmert.compare"
"""What the command imports just after it has taken the signals."""


def write_lists(path: Path, n_lists: int, size: int = 30) -> None:
    rng = np.random.default_rng(0)
    rows = ["\t".join(["list", *NAMES, "errors"])]
    for number in range(n_lists):
        for features, errors in zip(rng.normal(size=(size, 8)), rng.integers(0, 10, size=size), strict=True):
            rows.append("\t".join([str(number), *map(repr, features.tolist()), str(errors)]))
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists that are done at once, lists that no search finishes, a certificate, and data for `mert`."""
    folder = tmp_path_factory.mktemp("data")
    write_lists(folder / "small.tsv", 2, 3)
    write_lists(folder / "hard.tsv", 400)
    write_lists(folder / "large.tsv", 2000)
    assert finished("solve", str(folder / "small.tsv"), *COLUMNS, "--certificate", str(folder / "c.json"))[0] == 0
    rng = np.random.default_rng(0)
    counts = np.column_stack([rng.integers(0, 10, 12000), np.full(12000, 20)])
    lists = NBest(rng.normal(size=(12000, 8)).round(3), np.arange(0, 12001, 30), counts, names=NAMES)
    write_mert_data(lists, folder / "features", scores=folder / "scores", score_type="WER")
    (folder / "init").write_text("1 1 1 1 1 1 1 1\n")
    return folder


def environment(**more: str) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])} | more


def start(*arguments: str, log: Path | None = None, before: Callable[[], object] = int, **options: Any) -> Any:
    """Start the command; its stderr goes to the file `log`, with each import as it ends, or else to a pipe."""

    def prepare() -> None:
        # a shell may have started the tests with signals ignored, which children inherit
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        before()

    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()} | options
    verbose = [] if log is None else ["-X", "importtime"]
    if log is not None:
        settings["stderr"] = log.open("w")
    command = [sys.executable, *verbose, "-m", "lpmert", *arguments]
    return subprocess.Popen(command, text=True, preexec_fn=prepare, **settings)


def finished(*arguments: str, **options: Any) -> tuple[int, str, str]:
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out or "", err or ""


def until(true: Callable[[], object], process: subprocess.Popen[str]) -> bool:
    """Wait until something is true; return whether it is, or the process has ended before."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if process.poll() is not None:
            return bool(true())
        assert time.monotonic() < deadline, "the process hangs"
        time.sleep(0.005)
    return True


def scratch_files(folder: Path) -> list[Path]:
    return list(folder.rglob(".*.tmp"))


def ended_well(process: subprocess.Popen[str], log: Path, number: int, folder: Path, others: tuple[int, ...]) -> str:
    """Hold what must be true whenever the signal came, and return the log."""
    process.communicate(timeout=PATIENCE)
    text = "\n".join(line for line in log.read_text().splitlines() if not line.startswith("import time:"))
    assert process.returncode in (128 + number, *others), text
    assert "Traceback" not in text
    assert "ignored" not in text
    assert scratch_files(folder) == []
    return text


def commands(data: Path, out: Path) -> dict[str, tuple[list[str], Path | None, tuple[int, ...]]]:
    """Arguments of each command, where it writes, and codes that it may end with if the signal comes too late."""
    hard = [str(data / "hard.tsv"), *COLUMNS]
    mert = ["-d", "8", "-F", str(data / "features"), "-S", str(data / "scores"), "-i", str(data / "init"), "-s", "WER"]
    return {
        "solve": (["solve", *hard, "-o", str(out), "--time-limit", "100"], out, ()),
        "check": (["check", *hard, "-o", str(out), "--weights", "1,1,1,1,1,1,1,1", "--time-limit", "100"], out, ()),
        "compare": (["compare", *hard, "-o", str(out), "--methods", "och,annealing", "--seeds", "50"], out, ()),
        "convert": (["convert", str(data / "large.tsv"), str(out), *COLUMNS, "--to", "best-of-n"], out, (0,)),
        "mert": (["mert", *mert], out.with_name("weights.txt"), ()),
        "verify": (["verify", str(data / "c.json"), str(data / "small.tsv"), *COLUMNS], None, (0,)),
    }


def whole(path: Path) -> bool:
    """Whether a file holds all of an outcome: JSON, JSON lines or weights."""
    text = path.read_text()
    if path.name == "weights.txt":
        return len([float(word) for word in text.split()]) == 8
    if path.name == "out.jsonl":
        return len([json.loads(line) for line in text.splitlines()]) == 2000
    found = json.loads(text)
    return found["complete"] is False and bool(found["methods"]) if "methods" in found else "loss" in found


class TestSignals:
    @pytest.mark.parametrize("delay", [0.0, 0.4, 1.2, 3.0])
    @pytest.mark.parametrize("name", ["solve", "check", "compare", "convert", "mert", "verify"])
    def test_at_any_moment_files_are_whole_or_old(self, name: str, delay: float, data: Path, tmp_path: Path) -> None:
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[int(10 * delay) % 3]
        out = tmp_path / ("out.jsonl" if name == "convert" else "out.json")
        arguments, target, others = commands(data, out)[name]
        if target is not None:
            target.write_text(OLD)
        log = tmp_path / "log"
        process = start(*arguments, log=log, cwd=tmp_path)
        until(lambda: BEGUN in log.read_text(), process)
        time.sleep(delay)
        process.send_signal(number)
        text = ended_well(process, log, number, tmp_path, others)
        if target is not None and target.read_text() != OLD:
            assert whole(target), text

    @pytest.mark.parametrize("module", ["click", "lpmert.cli", "numpy.core", "numba.core.types", "lpmert.kernels"])
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_imports_are_given_up_without_a_word_of_python(
        self, module: str, number: int, data: Path, tmp_path: Path
    ) -> None:
        log = tmp_path / "log"
        arguments = commands(data, tmp_path / "out.json")["solve"][0]
        process = start(*arguments, log=log, cwd=tmp_path)
        assert until(lambda: f" {module}\n" in log.read_text(), process), f"{module} is not imported"
        process.send_signal(number)
        ended_well(process, log, number, tmp_path, ())

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_ends_a_search_with_weights_and_bound(self, number: int, data: Path, tmp_path: Path) -> None:
        process = start("solve", str(data / "hard.tsv"), *COLUMNS, "-o", str(tmp_path / "r.json"))
        for line in process.stderr:
            if "LowerBound" in line:
                break
        process.send_signal(number)
        log = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 128 + number, log
        found = json.loads((tmp_path / "r.json").read_text())
        assert found["status"] == "interrupted"
        assert 0 <= found["lower_bound"] < found["loss"]

    def test_the_second_aborts_even_a_compilation(self, data: Path, tmp_path: Path) -> None:
        (tmp_path / "kernels").mkdir()
        (tmp_path / "r.json").write_text(OLD)
        log = tmp_path / "log"
        process = start(
            *("solve", str(data / "hard.tsv"), *COLUMNS, "-o", str(tmp_path / "r.json")),
            log=log,
            env=environment(NUMBA_CACHE_DIR=str(tmp_path / "kernels")),
        )
        assert until(lambda: "read in" in log.read_text(), process)
        begin = os.times().elapsed
        for _ in range(2):
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
        ended_well(process, log, signal.SIGTERM, tmp_path, ())
        assert (tmp_path / "r.json").read_text() == OLD
        assert os.times().elapsed - begin < PATIENCE

    def test_waiting_for_data_is_given_up(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        process = start("solve", "-", *COLUMNS, "-o", str(tmp_path / "r.json"), log=log, stdin=subprocess.PIPE)
        assert until(lambda: scratch_files(tmp_path), process)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        assert ended_well(process, log, signal.SIGTERM, tmp_path, ()) == "lpmert: interrupted"
        assert not (tmp_path / "r.json").exists()

    @pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
    def test_writing_is_given_up(self, data: Path, tmp_path: Path, packing: str) -> None:
        out = tmp_path / f"out.jsonl{packing}"
        out.write_text(OLD)
        log = tmp_path / "log"
        process = start("convert", str(data / "large.tsv"), str(out), *COLUMNS, "--to", "best-of-n", log=log)
        assert until(lambda: any(path.stat().st_size for path in scratch_files(tmp_path)), process)
        process.send_signal(signal.SIGTERM)
        ended_well(process, log, signal.SIGTERM, tmp_path, ())
        assert out.read_text() == OLD

    def test_ignored_signals_stay_ignored(self, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        arguments = ["solve", str(data / "hard.tsv"), *COLUMNS, "-o", str(out), "--time-limit", "2"]
        log = tmp_path / "log"
        process = start(*arguments, log=log, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        until(lambda: scratch_files(tmp_path), process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=PATIENCE) == 3
        assert json.loads(out.read_text())["status"] == "time_limit"


class TestLeftovers:
    def test_the_next_run_removes_what_a_killed_one_left(self, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        process = start("solve", str(data / "hard.tsv"), *COLUMNS, "-o", str(out))
        assert until(lambda: scratch_files(tmp_path), process)
        process.kill()
        process.communicate()
        assert len(scratch_files(tmp_path)) == 1
        foreign = [tmp_path / name for name in (".r.json.tmp", ".r.json.0123456x.tmp", ".other.json.01234567.tmp")]
        for path in foreign:
            path.write_text("")
        assert finished("solve", str(data / "small.tsv"), *COLUMNS, "-o", str(out))[0] == 0
        assert json.loads(out.read_text())["status"] == "optimal"
        assert sorted(scratch_files(tmp_path)) == sorted(foreign)

    def test_a_run_beside_it_keeps_its_own(self, data: Path, tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        process = start("solve", str(data / "hard.tsv"), *COLUMNS, "-o", str(out))
        assert until(lambda: scratch_files(tmp_path), process)
        mine = scratch_files(tmp_path)
        assert finished("solve", str(data / "small.tsv"), *COLUMNS, "-o", str(out))[0] == 0
        assert scratch_files(tmp_path) == mine
        for line in process.stderr:
            if "LowerBound" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert json.loads(out.read_text())["status"] == "interrupted"
        assert scratch_files(tmp_path) == []
