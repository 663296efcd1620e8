"""The memory limit is that of the process: searches end before it with a bound that holds, reading with one line."""

import json
import mmap
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from commands import environment
from searches import peak_of

import lpmert
from lpmert import DataError, Status
from lpmert.formats.arrays import read_npz
from lpmert.formats.tables import write_table
from lpmert.methods.cells.cells import Cells
from lpmert.model.problem import Problem
from lpmert.system import memory
from lpmert.system.memory import Allowance, room_for

MIB = 1 << 20

CHILD = """
import os, sys
from lpmert.cli.main import main
try:
    main(sys.argv[1:])
finally:
    # not ru_maxrss, which counts the process that this one was forked from
    peak = int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10
    os.write(2, f"\\npeak {peak}\\n".encode())
"""


def commanded(*words: str) -> tuple[int, str, str, int]:
    """Run a command in a process of its own; return exit code, output, log, and the most memory that it had."""
    call = [sys.executable, "-c", CHILD, *words]
    done = subprocess.run(call, capture_output=True, text=True, env=environment(), check=False, timeout=600)
    log, _, peak = done.stderr.rpartition("\npeak ")
    return done.returncode, done.stdout, log, int(peak)


def written(path: Path, n_lists: int, size: int, seed: int = 1) -> Path:
    """Write lists like those of a speech recogniser, three features and word errors, as plain arrays."""
    rng = np.random.default_rng(seed)
    errors = rng.poisson(3, (n_lists, size)).astype(float)
    noise = rng.normal(size=(n_lists, size, 3))
    features = np.stack([2 * noise[..., 0] - errors, 2 * noise[..., 1] - errors / 2, noise[..., 2]], axis=-1)
    features = np.round(features, 4).reshape(-1, 3)
    np.savez(path, features=features, offsets=np.arange(n_lists + 1) * size, statistics=errors.reshape(-1, 1))
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is told otherwise")
def test_a_search_ends_before_the_limit_with_a_bound_that_holds(tmp_path: Path) -> None:
    """Also before its first node, which takes a tenth of it."""
    path, tiny = str(written(tmp_path / "lists.npz", 5000, 100)), str(written(tmp_path / "tiny.npz", 100, 100))
    code, text, _, free_peak = commanded("solve", path, "--json", "-q")
    optimum = json.loads(text)
    assert (code, optimum["status"]) == (0, "optimal")
    _, _, _, least = commanded("solve", tiny, "--json", "-q")
    for share in (0.875, 0.95):  # with less than 0.8, the canonical form is refused
        limit = least + int((free_peak - least) * share)
        code, text, _, peak = commanded("solve", path, "--json", "-q", "--memory-limit", str(limit))
        found = json.loads(text)
        assert (code, found["status"]) == (3, "memory_limit")
        assert peak <= limit < free_peak
        assert found["lower_bound"] <= optimum["loss"] <= found["loss"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is told otherwise")
@pytest.mark.parametrize("form", ["npz", "tsv"])
def test_a_limit_below_what_reading_needs_ends_with_one_line(form: str, tmp_path: Path) -> None:
    path = written(tmp_path / "lists.npz", 10_000, 100)
    if form == "tsv":
        write_table(read_npz(path), tmp_path / "lists.tsv")
        path = tmp_path / "lists.tsv"
    code, text, log, peak = commanded("solve", str(path), "--memory-limit", "60MiB")
    assert (code, text) == (1, "")
    (line,) = log.strip().splitlines()
    assert "lists." in line
    assert "the memory limit of 60.0 MiB is too low" in line
    assert "--memory-limit" in line
    assert peak < 64 * MIB


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "och", "sweep"])
def test_a_limit_that_the_process_is_beyond_already_ends_with_weights_and_a_bound(method: str) -> None:
    rng = np.random.default_rng(0)
    width = 2 if method == "sweep" else 4
    nbest = lpmert.NBest(rng.normal(size=(600, width)), np.arange(0, 601, 20), rng.integers(0, 9, 600))
    result = lpmert.minimize(nbest, method=method, memory_limit=MIB)
    assert result.status is Status.MEMORY_LIMIT
    assert lpmert.evaluate(nbest, result.weights).loss == result.loss
    if result.lower_bound is not None:
        assert result.lower_bound <= lpmert.minimize(nbest, method="cells").loss <= result.loss


def test_no_limit_is_what_is_there_and_most_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    held, free = memory.resident(), memory.free()
    with monkeypatch.context() as still:  # other processes take memory and give it back meanwhile
        still.setattr(memory, "resident", lambda: held)
        still.setattr(memory, "free", lambda: free)
        limit = Allowance().limit
    assert held < limit < held + free
    assert not Allowance().spent


def test_what_is_held_grows_and_falls_with_arrays() -> None:
    before = memory.resident()
    # pages of their own: an array could take what an earlier one left in the heap, which is held already
    with mmap.mmap(-1, 64 * MIB) as pages:
        block = np.frombuffer(pages)
        block.fill(1.0)
        grown = memory.resident()
        del block
    after = memory.resident()
    assert grown - before > 56 * MIB
    assert memory.sys.platform != "linux" or grown - after > 56 * MIB


def test_processes_that_work_for_this_one_count() -> None:
    call = [sys.executable, "-c", "block = bytearray(64 << 20); print('here', flush=True); input()"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"here\n"
        alone, _ = memory.held()
        with memory.counting(lambda: [other.pid]), memory.counting(lambda: [other.pid]):  # it counts once
            together, processes = memory.held()
        assert memory.held()[1] == processes - 1
        other.kill()
    assert 64 * MIB < together - alone < 96 * MIB
    assert memory.group_of(other.pid) == [other.pid]
    with memory.counting(lambda: [other.pid]):  # it has ended
        assert memory.held()[0] > 0


@pytest.mark.usefixtures("fresh_memory")
def test_the_memory_of_other_processes_spends_the_allowance() -> None:
    call = [sys.executable, "-c", "print('here', flush=True); input(); block = b'1' * (400 << 20); input()"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"here\n"
        with memory.counting(lambda: [other.pid]):
            held, _ = memory.held()
            allowance = Allowance(held + 200 * MIB)
            assert not allowance.spent
            other.stdin.write(b"\n")
            other.stdin.flush()
            while not allowance.spent:
                time.sleep(0.01)
        other.kill()


def test_the_limit_is_near_when_memory_grows_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [100]
    monkeypatch.setattr(memory, "resident", lambda: held[0] * MIB)
    monkeypatch.setattr(memory, "_PAUSE", 0.0)
    allowance = Allowance(1000 * MIB)
    held[0] = 300
    assert not allowance.spent
    held[0] = 601
    assert allowance.spent  # 301 more in the last step: two of these would be too many
    held[0] = 100
    assert allowance.spent


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is told otherwise")
def test_a_limit_just_above_what_a_small_search_takes_is_enough(tmp_path: Path) -> None:
    path = str(written(tmp_path / "lists.npz", 100, 100))
    _, _, _, peak = commanded("solve", path, "--json", "-q")
    limit = peak * 27 // 25
    code, text, _, limited = commanded("solve", path, "--json", "-q", "--memory-limit", str(limit))
    assert (code, json.loads(text)["status"]) == (0, "optimal")
    assert limited <= limit


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere limits of the process are not looked at")
@pytest.mark.parametrize("which", ["RLIMIT_DATA", "RLIMIT_AS"])
def test_limits_of_the_process_count_as_what_is_free(which: str) -> None:
    before = memory.free()
    pages = [int(number) for number in Path("/proc/self/statm").read_text().split()]
    limit, used = getattr(resource, which), pages[0 if which == "RLIMIT_AS" else 5] * os.sysconf("SC_PAGE_SIZE")
    old = resource.getrlimit(limit)
    resource.setrlimit(limit, (used + 256 * MIB, old[1]))
    try:
        left = memory.free()
    finally:
        resource.setrlimit(limit, old)
    assert 200 * MIB < left <= min(before, 256 * MIB)


def test_room_is_asked_for_where_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident", lambda: 100 * MIB)
    room_for(1 << 50, "anything")
    with Allowance(200 * MIB).enforced():
        room_for(100 * MIB, "this")
        with pytest.raises(DataError, match=r"200.0 MiB is too low: 100.0 MiB are in .* that takes 101.0 MiB more"):
            room_for(101 * MIB, "that")


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("form", ["npz", "parquet"])
@pytest.mark.parametrize(("lists", "longest", "few", "size", "most"), [
    (30_000, 100, 300, 96_000_000, 3.0),
    (6_000, 1000, 30, 192_000_000, 1.0),  # of which few hypotheses may win
])  # fmt: skip
def test_the_peak_above_that_of_a_tiny_search_is_a_few_times_the_arrays_at_most(
    lists: int, longest: int, few: int, size: int, most: float, form: str, tmp_path: Path
) -> None:
    peaks = []
    for n_lists in (few, lists):
        path = written(tmp_path / f"{n_lists}.npz", n_lists, longest)
        code, text, _, peak = commanded("solve", str(as_parquet(path) if form == "parquet" else path), "--json", "-q")
        assert code == 0
        peaks.append(peak)
    result = json.loads(text)
    assert (result["status"], 8 * 4 * result["counters"]["hypotheses"]) == ("optimal", size)
    assert peaks[1] - peaks[0] < most * size


def as_parquet(path: Path) -> Path:
    """Write the lists of plain arrays as Parquet, in groups of a hundred thousand rows."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = np.load(path)
    owner = np.repeat(np.arange(len(arrays["offsets"]) - 1), np.diff(arrays["offsets"]))
    columns = {f"f{d}": column for d, column in enumerate(arrays["features"].T)}
    table = pa.table({"list": owner, **columns, "errors": arrays["statistics"][:, 0]})
    parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=100_000)
    return path.with_suffix(".parquet")


def noise(rows: int, width: int) -> lpmert.NBest:
    rng = np.random.default_rng(0)
    return lpmert.NBest(rng.normal(size=(rows, width)), range(0, rows + 1, 50), rng.integers(0, 9, rows))


def test_preparing_lists_copies_their_features_once() -> None:
    lists = noise(20_000, 200)
    Problem(lists.restrict(slice(0, 2)))  # loads what it needs
    assert peak_of(lambda: Problem(lists)) < 1.5 * lists.dense_features().nbytes


def test_cones_that_cover_many_features_are_made_one_by_one() -> None:
    """There are D + 1 of them, with D * D numbers each: 216 MB for 300 features, 1.7 GB for 600."""
    lists = noise(1000, 300)
    Problem(lists)
    assert peak_of(lambda: lpmert.minimize(lists, method=Cells(shape="simplices"), node_limit=0)) < 60e6
