"""Signals, full disks and closed streams: the real command, at many moments, leaves whole files or the old ones.

Wherever a signal arrives, an outcome file holds either all of an outcome or what it held before, no scratch file stays,
and stderr shows no traceback.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import PATIENCE, environment, finished, start as start_process, until
from searches import many_more

import lpmert
from lpmert.files import read_text, write_text
from lpmert.formats.moses import write_mert_data
from lpmert.model.nbest import NBest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and streams as POSIX has them")

resource = pytest.importorskip("resource")

NAMES = [f"f{d}" for d in range(8)]
COLUMNS = ["--segment", "list", "--features", ",".join(NAMES), "--loss", "errors"]
ONES = "1,1,1,1,1,1,1,1"
OLD = '{"old": true}\n'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists that are done at once, lists that no search finishes, a certificate, and data for `mert`."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for name, n_lists, size in (("small", 2, 3), ("hard", 400, 30), ("large", 2000, 30)):
        rows, errors = rng.normal(size=(n_lists * size, 8)), rng.integers(0, 10, n_lists * size)
        lists = NBest(rows, np.arange(n_lists + 1) * size, errors, NAMES, statistic_names=["errors"])
        lpmert.write(lists, folder / f"{name}.tsv")
        if name == "hard":
            lists = NBest(rows.round(3), lists.offsets, np.column_stack([errors, np.full(len(rows), 20)]), NAMES)
            write_mert_data(lists, folder / "features", scores=folder / "scores", score_type="WER")
    assert finished("solve", folder / "small.tsv", *COLUMNS, "--certificate", folder / "c.json")[0] == 0
    (folder / "init").write_text("1 1 1 1 1 1 1 1\n")
    return folder


@pytest.fixture(autouse=True)
def here(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in an empty folder, with links to the data."""
    monkeypatch.chdir(tmp_path)
    for path in data.iterdir():
        Path(path.name).symlink_to(path)


def made() -> dict[str, str]:
    """Return the names and the beginnings of all files that were made here."""
    return {path.name: path.read_bytes()[:99].decode() for path in Path().iterdir() if not path.is_symlink()}


def ended(code: int, *arguments: object, **options: Any) -> tuple[str, str]:
    """Run the command to its end: this exit code, and no traceback; return what it wrote to stdout and stderr."""
    found, text, log = finished(*arguments, **options)
    assert found == code, log
    assert not re.search("Traceback|ignored", log)
    return text, log


def start(*arguments: object, **options: Any) -> Any:
    """Start the command; its stderr goes to the file `log`, with each import as it ends."""
    return start_process(*arguments, stderr=Path("log").open("w"), python=("-X", "importtime"), **options)


def log() -> str:
    return Path("log").read_text()


def scratch_files() -> list[Path]:
    return list(Path().rglob(".*.tmp"))


def ended_well(process: subprocess.Popen[str], number: int, *others: int) -> str:
    """Hold what must be true whenever the signal came, and return the log."""
    process.communicate(timeout=PATIENCE)
    text = "\n".join(line for line in log().splitlines() if not line.startswith("import time:"))
    assert process.returncode in (128 + number, *others), text
    assert not re.search("Traceback|ignored", text)
    assert scratch_files() == []
    return text


MERT = ["mert", "-d", "8", "-F", "features", "-S", "scores", "-i", "init", "-s", "WER"]
LONG: dict[str, tuple[list[str], str, int]] = {  # what they write, and the code if the signal comes too late
    "solve": (["solve", "hard.tsv", *COLUMNS, "-o", "r.json", "--time-limit", "100"], "r.json", 130),
    "check": (["check", "hard.tsv", *COLUMNS, "-o", "r.json", "--weights", ONES, "--time-limit", "100"], "r.json", 130),
    "compare": (["compare", "hard.tsv", *COLUMNS, "-o", "r.json", "--methods", "och,annealing"], "r.json", 130),
    "convert": (["convert", "large.tsv", "out.jsonl", *COLUMNS, "--to", "best-of-n"], "out.jsonl", 0),
    "mert": (MERT, "weights.txt", 130),
    "verify": (["verify", "c.json", "small.tsv", *COLUMNS], "", 0),
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


@pytest.mark.parametrize("delay", [0.0, 0.4, *map(many_more, (1.2, 3.0))])
@pytest.mark.parametrize("name", LONG)
def test_at_any_moment_files_are_whole_or_old(name: str, delay: float) -> None:
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[int(10 * delay) % 3]
    arguments, target, late = LONG[name]
    if target:
        Path(target).write_text(OLD)
    process = start(*arguments)
    until(lambda: "lpmert.registry" in log(), process)  # which is imported just after signals are taken
    time.sleep(delay)
    process.send_signal(number)
    text = ended_well(process, number, late)
    assert not target or Path(target).read_text() == OLD or whole(Path(target)), text


@pytest.mark.parametrize("module", ["click", "lpmert.cli.main", "numpy.linalg", "lpmert.core", "lpmert.search.driver"])
def test_imports_are_given_up_without_traceback(module: str) -> None:
    number = signal.SIGTERM if module in ("lpmert.cli.main", "lpmert.core") else signal.SIGINT
    process = start(*LONG["solve"][0])
    assert until(lambda: f" {module}\n" in log(), process), f"{module} is not imported"
    process.send_signal(number)
    ended_well(process, number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_ends_a_search_with_weights_and_bound_and_a_run_beside_it_goes_on(number: int) -> None:
    process = start_process("solve", "hard.tsv", *COLUMNS, "-o", "r.json")
    next(line for line in process.stderr if "at least" in line)  # it has told a bound
    own = scratch_files()
    ended(0, "solve", "small.tsv", *COLUMNS, "-o", "r.json")
    assert scratch_files() == own
    process.send_signal(number)
    told = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 128 + number, told
    found = json.loads(Path("r.json").read_text())
    assert found["status"] == "interrupted"
    assert 0 <= found["lower_bound"] < found["loss"]
    assert scratch_files() == []


def test_waiting_for_data_is_given_up() -> None:
    process = start("solve", "-", *COLUMNS, "-o", "r.json", stdin=subprocess.PIPE)
    assert until(scratch_files, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=PATIENCE)
    assert ended_well(process, signal.SIGTERM) == "lpmert: interrupted"
    assert not Path("r.json").exists()


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_writing_is_given_up(packing: str) -> None:
    out = Path(f"out.jsonl{packing}")
    for _ in range(5):  # on a busy machine it may have written all before the signal comes
        out.write_text(OLD)
        process = start("convert", "large.tsv", out, *COLUMNS, "--to", "best-of-n")
        until(lambda: any(path.stat().st_size for path in scratch_files()), process)
        process.send_signal(signal.SIGTERM)
        ended_well(process, signal.SIGTERM, 0)
        if process.returncode:
            break
        assert len(lpmert.read(out).offsets) == 2001
    assert out.read_text() == OLD


def test_a_package_that_imports_ours_keeps_its_own_signals() -> None:
    Path("mine").mkdir()
    Path("mine/__init__.py").write_text("import lpmert\n")
    handlers = "[signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]"
    told = "[signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]"
    Path("mine/__main__.py").write_text(f"import signal\nprint({handlers} == {told})\n")

    def as_usual() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever started the tests, nohup for one

    for arguments in (["-m", "mine"], ["-mmine", "lpmert"]):
        call = [sys.executable, *arguments]
        assert subprocess.check_output(call, env=environment(), preexec_fn=as_usual, timeout=PATIENCE) == b"True\n"


def test_ignored_signals_stay_ignored() -> None:
    options = {"before": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start("solve", "hard.tsv", *COLUMNS, "-o", "r.json", "--time-limit", "2", **options)
    until(scratch_files, process)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=PATIENCE) == 3
    assert json.loads(Path("r.json").read_text())["status"] == "time_limit"


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_end_quietly_with_their_parent(number: int, twice: bool) -> None:
    Path("r.json").write_text(OLD)
    process = start(*LONG["compare"][0], "--seeds", "100", "--jobs", "2", start_new_session=True)
    assert until(lambda: "och, seed 0" in log(), process)
    os.killpg(process.pid, number)  # as a terminal does
    if twice:
        time.sleep(0.1)
        os.killpg(process.pid, number)
    ended_well(process, number)
    assert whole(Path("r.json")) if Path("r.json").read_text() != OLD else twice
    deadline = time.monotonic() + PATIENCE
    with suppress(ProcessLookupError):  # once no worker is left
        while True:
            os.killpg(process.pid, 0)
            assert time.monotonic() < deadline, "workers are left"
            time.sleep(0.05)


def test_interrupted_before_the_first_run_ended_it_writes_nothing() -> None:
    Path("r.json").write_text(OLD)
    # no run of it ends within the patience of a test
    arguments = ["compare", "large.tsv", *COLUMNS, "-o", "r.json", "--methods", "cells"]
    process = start(*arguments, "--jobs", "2", "--seeds", "2", start_new_session=True)
    assert until(lambda: " lpmert.comparing.comparison\n" in log(), process)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGTERM)
    assert "nothing to compare" in ended_well(process, signal.SIGTERM)
    assert Path("r.json").read_text() == OLD


def test_stopped_by_its_limit_it_exits_with_3() -> None:
    options = [*COLUMNS, "--methods", "grid", "-o", "r.json"]
    ended(3, "compare", "hard.tsv", *options, "--time-limit", "0.1", "--run-time-limit", "1")
    assert json.loads(Path("r.json").read_text())["optimum"]["status"] == "time_limit"
    ended(0, "compare", "small.tsv", *options)


def little_room(size: int = 100) -> None:
    """Let this process write files of at most so many bytes, as a quota does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def closed(*numbers: int) -> Callable[[], object]:
    return lambda: [os.close(number) for number in numbers]


def full(number: int) -> Callable[[], object]:
    return lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), number)


def unread() -> None:
    """Let the reader of stdout go away."""
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(reading)
    os.close(writing)


# fmt: off
OUTCOMES = ("solve small.tsv", f"check small.tsv --weights {ONES}", "compare small.tsv --methods grid")
ERROR = "lpmert: error: "
FAULTS = [  # a command line, what happens to its process, its exit code, what stdout and the end of the log hold
    *((f"{line} -o /dev/full", int, 1, '"seed": ', f"{ERROR}/dev/full: cannot be written: No space left on device; ")
      for line in OUTCOMES),
    *((f"{line} -o new", little_room, 1, '"seed": ', f"{ERROR}new: cannot be written: File too large; ")
      for line in OUTCOMES),
    ("solve small.tsv --certificate new", little_room, 1, "proved optimal", f"{ERROR}new: cannot be written"),
    ("solve small.tsv --json -q --checkpoint new", little_room, 0, '"loss": ',
     "new: cannot be written: File too large; no checkpoint was written at the end"),
    *((f"convert hard.tsv old.{ending}", little_room, 1, "", f"{ERROR}old.{ending}: cannot be written: File too large")
      for ending in ("tsv", "tsv.gz", "tsv.xz", "npz", "parquet")),
    ("solve small.tsv -q", full(1), 1, "", f"{ERROR}standard output: No space left on device"),
    ("solve small.tsv", full(2), 0, "proved optimal", ""),
    ("solve small.tsv", closed(2), 0, "proved optimal", ""),
    ("solve small.tsv -o /dev/stdout", int, 0, '"status": "optimal"', "proved optimal"),
    ("solve -", closed(0), 1, "", f"{ERROR}-: cannot be read: Bad file descriptor"),
    *((line, closed(1), 1, "", f"{ERROR}standard ") for line in ("--help", "verify c.json small.tsv", *OUTCOMES)),
    *((line, unread, 1, "", f"{ERROR}standard output: Broken pipe") for line in ("verify c.json small.tsv", *OUTCOMES)),
]
# fmt: on


@pytest.mark.parametrize(("line", "before", "code", "told", "logged"), FAULTS)
def test_what_cannot_be_written_is_told_and_no_outcome_is_lost(
    line: str, before: Callable[[], object], code: int, told: str, logged: str
) -> None:
    old = [word for word in line.split() if word.startswith("old.")]
    for name in old:
        Path(name).write_text(OLD)
    columns = [] if line == "--help" else COLUMNS
    text, log = ended(code, *shlex.split(line), *columns, before=before)
    assert told in text
    assert not told.startswith('"') or json.loads(text)
    assert logged in (log.splitlines() or [""])[-1]
    assert "standard output: N" not in log or "proved optimal" in log  # the report
    assert made() == dict.fromkeys(old, OLD)


@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)])
def test_an_outcome_file_needs_no_streams(numbers: tuple[int, ...]) -> None:
    assert ended(0, "solve", "small.tsv", *COLUMNS, "-o", "r.json", before=closed(*numbers))[0] == ""
    assert json.loads(Path("r.json").read_text())["status"] == "optimal"


def test_mert_without_room_gives_its_weights_on_stdout() -> None:
    ended(0, *MERT, "--time-limit", "1")
    Path("weights.txt").write_text(OLD)
    text, log = ended(1, *MERT, "--time-limit", "1", before=lambda: little_room(10))
    assert "error: weights.txt: cannot be written: File too large" in log
    assert "Best point" in log
    assert len([float(word) for word in text.split()]) == 8
    assert made() == {"weights.txt": OLD}


def test_too_many_open_files_are_told_with_a_remedy() -> None:
    path, (before, most) = Path("file"), resource.getrlimit(resource.RLIMIT_NOFILE)
    path.write_text("")
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
    try:
        with suppress(OSError):
            while True:
                held.append(os.dup(0))
        for use, what in ((read_text, "read"), (lambda path: write_text(path, "some"), "written")):
            with pytest.raises(lpmert.DataError) as caught:
                use(path)
            trouble = f"{path}: cannot be {what}: Too many open files"
            assert str(caught.value) == f"{trouble}; allow more with ulimit -n, or take fewer workers (--jobs)"
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def test_a_folder_that_vanishes_loses_no_result() -> None:
    Path("gone").mkdir()
    process = start("solve", "hard.tsv", *COLUMNS, "-o", "gone/r.json", "--time-limit", "1")
    assert until(scratch_files, process)
    time.sleep(0.3)  # a folder that vanishes while the file is made is refused before the search
    shutil.rmtree("gone")
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert json.loads(text)["status"] == "time_limit"
    assert "error: gone/r.json: cannot be written: No such file or directory" in log()
