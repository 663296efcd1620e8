"""Signals, full disks and closed streams: the real command, at many moments, leaves whole files or the old ones.

Wherever a signal arrives, an outcome file holds either all of an outcome or what it held before, no scratch file stays,
and stderr shows no traceback.
"""

import json
import os
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
from commands import PATIENCE, environment, finished, until
from commands import start as start_process
from searches import many_more

import lpmert
from lpmert.formats.moses import write_mert_data
from lpmert.model.nbest import NBest
from lpmert.system.files import read_text, write_text

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and streams as POSIX has them")

resource = pytest.importorskip("resource")

NAMES = [f"f{d}" for d in range(8)]
COLUMNS = ["--segment", "list", "--features", ",".join(NAMES), "--loss", "errors"]
OLD = '{"old": true}\n'
BEGUN = "lpmert.registry"
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
    assert finished("solve", folder / "small.tsv", *COLUMNS, "--certificate", folder / "c.json")[0] == 0
    rng = np.random.default_rng(0)
    counts = np.column_stack([rng.integers(0, 10, 12000), np.full(12000, 20)])
    lists = NBest(rng.normal(size=(12000, 8)).round(3), np.arange(0, 12001, 30), counts, names=NAMES)
    write_mert_data(lists, folder / "features", scores=folder / "scores", score_type="WER")
    (folder / "init").write_text("1 1 1 1 1 1 1 1\n")
    return folder


@pytest.fixture(autouse=True)
def here(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run where the data are."""
    monkeypatch.chdir(data)


def ended(code: int, *arguments: object, **options: Any) -> tuple[str, str]:
    """Run the command to its end: this exit code, and no traceback; return what it wrote to stdout and stderr."""
    found, text, log = finished(*arguments, **options)
    assert found == code, log
    assert "Traceback" not in log
    return text, log


def start(*arguments: object, log: Path | None = None, **options: Any) -> Any:
    """Start the command; its stderr goes to the file `log`, with each import as it ends, or else to a pipe."""
    if log is not None:
        options |= {"stderr": log.open("w"), "python": ("-X", "importtime")}
    return start_process(*arguments, **options)


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


def commands(data: Path, out: Path) -> dict[str, tuple[list[object], Path | None, tuple[int, ...]]]:
    """Arguments of each command, where it writes, and codes that it may end with if the signal comes too late."""
    hard = [data / "hard.tsv", *COLUMNS]
    mert = ["-d", "8", "-F", data / "features", "-S", data / "scores", "-i", data / "init", "-s", "WER"]
    return {
        "solve": (["solve", *hard, "-o", out, "--time-limit", "100"], out, ()),
        "check": (["check", *hard, "-o", out, "--weights", "1,1,1,1,1,1,1,1", "--time-limit", "100"], out, ()),
        "compare": (["compare", *hard, "-o", out, "--methods", "och,annealing", "--seeds", "50"], out, ()),
        "convert": (["convert", data / "large.tsv", out, *COLUMNS, "--to", "best-of-n"], out, (0,)),
        "mert": (["mert", *mert], out.with_name("weights.txt"), ()),
        "verify": (["verify", data / "c.json", data / "small.tsv", *COLUMNS], None, (0,)),
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
    @pytest.mark.parametrize("delay", [0.0, 0.4, *map(many_more, (1.2, 3.0))])
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

    @pytest.mark.parametrize(
        ("module", "number"),
        [
            *(("click", signal.SIGINT), ("lpmert.cli.main", signal.SIGTERM), ("numpy.linalg", signal.SIGINT)),
            *(("lpmert.core", signal.SIGTERM), ("lpmert.search.driver", signal.SIGINT)),
        ],
    )
    def test_imports_are_given_up_without_traceback(self, module: str, number: int, data: Path, tmp_path: Path) -> None:
        log = tmp_path / "log"
        arguments = commands(data, tmp_path / "out.json")["solve"][0]
        process = start(*arguments, log=log)
        assert until(lambda: f" {module}\n" in log.read_text(), process), f"{module} is not imported"
        process.send_signal(number)
        ended_well(process, log, number, tmp_path, ())

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_ends_a_search_with_weights_and_bound(self, number: int, tmp_path: Path) -> None:
        process = start("solve", "hard.tsv", *COLUMNS, "-o", tmp_path / "r.json")
        for line in process.stderr:
            if "at least" in line:
                break
        process.send_signal(number)
        log = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 128 + number, log
        found = json.loads((tmp_path / "r.json").read_text())
        assert found["status"] == "interrupted"
        assert 0 <= found["lower_bound"] < found["loss"]

    def test_waiting_for_data_is_given_up(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        process = start("solve", "-", *COLUMNS, "-o", tmp_path / "r.json", log=log, stdin=subprocess.PIPE)
        assert until(lambda: scratch_files(tmp_path), process)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        assert ended_well(process, log, signal.SIGTERM, tmp_path, ()) == "lpmert: interrupted"
        assert not (tmp_path / "r.json").exists()

    @pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
    def test_writing_is_given_up(self, tmp_path: Path, packing: str) -> None:
        out = tmp_path / f"out.jsonl{packing}"
        log = tmp_path / "log"
        for _ in range(5):  # on a busy machine it may have written all before the signal comes
            out.write_text(OLD)
            process = start("convert", "large.tsv", out, *COLUMNS, "--to", "best-of-n", log=log)
            until(lambda: any(path.stat().st_size for path in scratch_files(tmp_path)), process)
            process.send_signal(signal.SIGTERM)
            ended_well(process, log, signal.SIGTERM, tmp_path, (0,))
            if process.returncode:
                break
            assert len(lpmert.read(out).offsets) == 2001
        assert out.read_text() == OLD

    def test_a_package_that_imports_ours_keeps_its_own_signals(self, tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "__init__.py").write_text("import lpmert\n")
        handlers = "[signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]"
        told = "[signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]"
        (tmp_path / "mine" / "__main__.py").write_text(f"import signal\nprint({handlers} == {told})\n")

        def as_usual() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever started the tests, nohup for one

        for arguments in (["-m", "mine"], ["-mmine", "lpmert"]):
            process = subprocess.run(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                preexec_fn=as_usual,
                timeout=PATIENCE,
            )
            assert process.stdout == b"True\n"

    def test_ignored_signals_stay_ignored(self, tmp_path: Path) -> None:
        out, options = tmp_path / "r.json", {"before": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
        process = start("solve", "hard.tsv", *COLUMNS, "-o", out, "--time-limit", "2", log=tmp_path / "log", **options)
        until(lambda: scratch_files(tmp_path), process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=PATIENCE) == 3
        assert json.loads(out.read_text())["status"] == "time_limit"


class TestLeftovers:
    def test_a_run_beside_it_keeps_its_own(self, tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        process = start("solve", "hard.tsv", *COLUMNS, "-o", out)
        assert until(lambda: scratch_files(tmp_path), process)
        mine = scratch_files(tmp_path)
        ended(0, "solve", "small.tsv", *COLUMNS, "-o", out)
        assert scratch_files(tmp_path) == mine
        for line in process.stderr:
            if "at least" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert json.loads(out.read_text())["status"] == "interrupted"
        assert scratch_files(tmp_path) == []


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


class TestCompare:
    @pytest.mark.parametrize("twice", [False, True])
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_workers_end_quietly_with_their_parent(self, number: int, twice: bool, tmp_path: Path) -> None:
        out, log = tmp_path / "r.json", tmp_path / "log"
        out.write_text(OLD)
        arguments = ["compare", "hard.tsv", *COLUMNS, "-o", out, "--methods", "och,annealing"]
        process = start(*arguments, "--seeds", "100", "--jobs", "2", log=log, start_new_session=True)
        assert until(lambda: "och, seed 0" in log.read_text(), process)
        os.killpg(process.pid, number)  # as a terminal does
        if twice:
            time.sleep(0.1)
            os.killpg(process.pid, number)
        ended_well(process, log, number, tmp_path, ())
        if out.read_text() != OLD:
            found = json.loads(out.read_text())
            assert not found["complete"]
            assert len(found["methods"][0]["runs"]) >= 1
        else:
            assert twice
        deadline = time.monotonic() + PATIENCE
        while not group_is_gone(process.pid):
            assert time.monotonic() < deadline, "workers are left"
            time.sleep(0.05)

    def test_interrupted_before_the_first_run_ended_it_writes_nothing(self, tmp_path: Path) -> None:
        out, log = tmp_path / "r.json", tmp_path / "log"
        out.write_text(OLD)
        # no run of it ends within the patience of a test
        arguments = ["compare", "large.tsv", *COLUMNS, "-o", out, "--methods", "cells"]
        process = start(*arguments, "--jobs", "2", "--seeds", "2", log=log, start_new_session=True)
        assert until(lambda: " lpmert.comparing.runs\n" in log.read_text(), process)
        time.sleep(1.0)
        os.killpg(process.pid, signal.SIGTERM)
        text = ended_well(process, log, signal.SIGTERM, tmp_path, ())
        assert "nothing to compare" in text
        assert out.read_text() == OLD

    def test_stopped_by_its_limit_it_exits_with_3(self, tmp_path: Path) -> None:
        out, options = tmp_path / "r.json", [*COLUMNS, "--methods", "grid", "-o"]
        ended(3, "compare", "hard.tsv", *options, out, "--time-limit", "0.1", "--run-time-limit", "1")
        assert json.loads(out.read_text())["optimum"]["status"] == "time_limit"
        ended(0, "compare", "small.tsv", *options, out)


def little_room() -> None:
    """Let this process write files of at most 100 bytes, as a quota does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


class TestFullDisk:
    @pytest.mark.parametrize("name", ["solve", "check", "compare"])
    @pytest.mark.parametrize("full", [True, False])
    def test_the_outcome_goes_to_stdout(self, name: str, full: bool, tmp_path: Path) -> None:
        out = "/dev/full" if full else tmp_path / "r.json"
        more = {"solve": [], "check": ["--weights", "1,1,1,1,1,1,1,1"], "compare": ["--methods", "grid"]}[name]
        options: Any = {"before": int if full else little_room}
        text, log = ended(1, name, "small.tsv", *COLUMNS, *more, "-o", out, **options)
        assert f"{out}: cannot be written: {'No space left on device' if full else 'File too large'}" in log
        assert {"loss", "methods"} & set(json.loads(text))
        assert list(tmp_path.iterdir()) == []

    def test_a_certificate_without_room_is_an_error_after_the_report(self, tmp_path: Path) -> None:
        out = tmp_path / "c.json"
        text, log = ended(1, "solve", "small.tsv", *COLUMNS, "--certificate", out, before=little_room)
        assert "proved optimal" in text
        assert f"error: {out}: cannot be written" in log
        assert list(tmp_path.iterdir()) == []

    def test_a_checkpoint_without_room_loses_no_outcome(self, tmp_path: Path) -> None:
        kept = tmp_path / "kept"
        text, log = ended(0, "solve", "small.tsv", *COLUMNS, "--json", "-q", "--checkpoint", kept, before=little_room)
        assert "loss" in json.loads(text)
        assert f"{kept}: cannot be written: File too large; no checkpoint was written at the end" in log
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("ending", ["tsv", "tsv.gz", "npz", *map(many_more, ("tsv.xz", "parquet"))])
    def test_a_conversion_without_room_names_its_file(self, ending: str, tmp_path: Path) -> None:
        out = tmp_path / f"out.{ending}"
        out.write_text(OLD)
        _, log = ended(1, "convert", "hard.tsv", out, *COLUMNS, before=little_room)
        assert log == f"lpmert: error: {out}: cannot be written: File too large\n"
        assert out.read_text() == OLD
        assert list(tmp_path.iterdir()) == [out]

    def test_mert_without_room_gives_its_weights_on_stdout(self, data: Path, tmp_path: Path) -> None:
        limit = resource.RLIMIT_FSIZE
        arguments = [*commands(data, tmp_path / "out")["mert"][0], "--time-limit", "1"]
        ended(0, *arguments, cwd=tmp_path)
        (tmp_path / "weights.txt").write_text(OLD)
        text, log = ended(1, *arguments, cwd=tmp_path, before=lambda: resource.setrlimit(limit, (10, 10)))
        assert "error: weights.txt: cannot be written: File too large" in log
        assert "Best point" in log
        assert len([float(word) for word in text.split()]) == 8
        assert (tmp_path / "weights.txt").read_text() == OLD

    def test_too_many_open_files_are_told_with_a_remedy(self, tmp_path: Path) -> None:
        path, (before, most) = tmp_path / "here", resource.getrlimit(resource.RLIMIT_NOFILE)
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

    def test_a_folder_that_vanishes_loses_no_result(self, tmp_path: Path) -> None:
        (tmp_path / "gone").mkdir()
        out = tmp_path / "gone" / "r.json"
        log = tmp_path / "log"
        process = start("solve", "hard.tsv", *COLUMNS, "-o", out, "--time-limit", "1", log=log)
        assert until(lambda: scratch_files(tmp_path), process)
        time.sleep(0.3)  # a folder that vanishes while the file is made is refused before the search
        shutil.rmtree(tmp_path / "gone")
        text, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert json.loads(text)["status"] == "time_limit"
        assert f"error: {out}: cannot be written: No such file or directory" in log.read_text()

    def test_a_full_stdout_is_an_error_and_the_report_goes_to_stderr(self) -> None:
        with open("/dev/full", "w") as full:
            _, log = ended(1, "solve", "small.tsv", *COLUMNS, "-q", stdout=full)
        assert "proved optimal" in log
        assert log.endswith("lpmert: error: standard output: No space left on device\n")

    def test_a_log_without_room_stops_nothing(self) -> None:
        with open("/dev/full", "w") as full:
            text, _ = ended(0, "solve", "small.tsv", *COLUMNS, stderr=full)
        assert "proved optimal" in text


def closing(*numbers: int) -> Callable[[], object]:
    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


class TestClosedStreams:
    @pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
    def test_an_outcome_file_needs_no_streams(self, closed: tuple[int, ...], tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        assert ended(0, "solve", "small.tsv", *COLUMNS, "-o", out, before=closing(*closed))[0] == ""
        assert json.loads(out.read_text())["status"] == "optimal"

    @pytest.mark.parametrize(
        "line", ["--help", "solve small.tsv", "verify c.json small.tsv", "compare small.tsv --methods grid"]
    )
    def test_closed_stdout_is_a_failure_told_on_stderr(self, line: str) -> None:
        columns = [] if line == "--help" else COLUMNS
        _, log = ended(1, *line.split(), *columns, before=closing(1))
        assert log.splitlines()[-1].startswith("lpmert: error: standard ")
        assert "ignored" not in log

    def test_closed_stderr_hides_only_the_log(self) -> None:
        text, _ = ended(0, "solve", "small.tsv", *COLUMNS, before=closing(2))
        assert text.splitlines()[-1].startswith("proved optimal")

    def test_closed_stdin_cannot_be_read(self) -> None:
        _, log = ended(1, "solve", "-", *COLUMNS, before=closing(0))
        assert log == "lpmert: error: -: cannot be read: Bad file descriptor\n"

    def test_a_reader_that_went_away_is_told(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        for words in (["solve", "small.tsv"], ["verify", "c.json", "small.tsv"]):
            _, log = ended(1, *words, *COLUMNS, stdout=writing)
            assert log.endswith("lpmert: error: standard output: Broken pipe\n")
        os.close(writing)

    def test_an_outcome_goes_into_a_pipe_by_its_name(self) -> None:
        text, _ = ended(0, "solve", "small.tsv", *COLUMNS, "-o", "/dev/stdout")
        assert json.loads(text)["status"] == "optimal"
