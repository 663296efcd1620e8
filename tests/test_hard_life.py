"""What nobody means to do and everybody does: damaged and changing files, runs at once, little memory, odd names."""

import json
import os
import re
import sys
import threading
import time
import warnings
from pathlib import Path
from unittest.mock import Mock

import hard_life
import numpy as np
import pytest
from commands import python, run, start
from searches import many_more

import lpmert
from lpmert import DataError, Status
from lpmert.errors import FloatArray
from lpmert.files import open_bytes
from lpmert.formats.weights import read_weights

resource = pytest.importorskip("resource")

BARRED = "\x1b]0;x\x07"  # what changes the title of a terminal


def test_a_share_of_the_inputs_gives_no_traceback(tmp_path: Path) -> None:
    outcomes, failures = hard_life.try_entry_points(1500, 7, tmp_path)
    assert failures == []
    taken = {name for name, outcome in outcomes if outcome == "taken"}
    refused = {name for name, outcome in outcomes if outcome == "refused"}
    assert outcomes.total() >= 1450
    assert len(taken & refused) > 30  # each entry point lets some through and stops some


@pytest.mark.parametrize("name", [f"a{BARRED}", "a\u202eb", "a\rb", "a\u2028b", "a\x85b"])
def test_names_in_messages_command_no_terminal(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError) as caught:
        lpmert.NBest([[1.0], [2.0]], [0, 2], [0, 1], names=[name]).select_features(["x"])
    assert name not in str(caught.value)
    assert str(caught.value).isprintable()
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04")
    path = tmp_path / f"{name}\nx.npz"
    os.replace(tmp_path / "x.npz", path)
    with pytest.raises(DataError) as caught:
        lpmert.read(path)
    assert str(caught.value).isprintable()
    assert caught.value.path == str(path)


def test_a_name_is_what_it_was_in_python(tmp_path: Path) -> None:
    """Only messages escape what commands a terminal."""
    names = (BARRED, "a\nb", "\t", "\U0001f600", "\u202e\u05d0")
    nbest = lpmert.NBest(np.eye(5), [0, 3, 5], [0, 1, 2, 1, 0], names=names)
    lpmert.write(nbest, tmp_path / "x.jsonl", "best-of-n")
    assert lpmert.read(tmp_path / "x.jsonl").names == lpmert.minimize(nbest).names == names
    assert not {"\x1b", "\u202e"} & set(run("solve", tmp_path / "x.jsonl").output)


@pytest.mark.parametrize("text", ["\r \t-1\n", " \t1", "\x0b\t2\n"])
def test_weights_of_a_blank_name_are_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "w").write_text(text, newline="")
    assert [*read_weights(tmp_path / "w").values] == [float(text)]


TINY = [[1.0, 2.0], [3.0, 1.0], [2.0, 5.0], [1.0, 1.0]]


def far(least: float) -> FloatArray:
    """Each feature varies by `least` within a list; what another list has in common is huge beside it."""
    features = np.zeros((12, 5))
    features[:2, :4], features[1, 4], features[3, 4] = 1e150, 1.0, 1.0
    features[range(5, 12, 2), range(4)] = least
    return features


CAP = lpmert.Region(cosine=0.5, around=[1.0, 1.0])
UNFIT = [(np.array(TINY) * size, region) for size in (5e-324, 1e-310) for region in (None, CAP)]
UNFIT += [(far(least), None) for least in (2.0**-524, 2.0**-530)]


@pytest.mark.parametrize(("features", "region"), UNFIT, ids=range(len(UNFIT)))
def test_features_too_small_or_too_far_apart_are_refused_without_a_warning(
    features: FloatArray, region: lpmert.Region | None
) -> None:
    nbest = lpmert.NBest(features, range(0, len(features) + 1, 2), [0, 1, 1, 0] * (len(features) // 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="rescale it"):
            lpmert.minimize(nbest, region=region)


def test_many_runs_at_once_write_one_file(tmp_path: Path, table: Path) -> None:
    out, proof = tmp_path / "r.json", tmp_path / "c.json"
    runs = [start("solve", table, "-o", out, "--certificate", proof, "-q") for _ in range(4)]
    assert [(run.communicate(timeout=300)[1], run.returncode) for run in runs] == [("", 0)] * 4
    assert json.loads(out.read_text())["loss"] == 2
    assert run("verify", proof, table).exit_code == 0
    assert {*tmp_path.iterdir()} == {table, out, proof}


FORMATS = ("lists.tsv", "lists.tsv.gz", "lists.jsonl", "lists.npz", "lists.parquet", "moses.txt", "pool.jsonl")


def lists_of(n_lists: int, size: int = 10) -> lpmert.NBest:
    rng = np.random.default_rng(5)
    n = n_lists * size
    features, errors = rng.integers(-999, 999, (n, 2)) / 64, rng.integers(0, 9, n).astype(float)
    names, texts = ["am", "lm"], [f"text {k}" for k in range(n)]
    return lpmert.NBest(features, np.arange(0, n + 1, size), errors, names=names, texts=texts)


def written(nbest: lpmert.NBest, path: Path) -> Path:
    format = {"moses.txt": "moses", "pool.jsonl": "best-of-n"}.get(path.name)
    lpmert.write(nbest, path, format)
    return path


@pytest.mark.parametrize("change", ["grows", "shrinks", "is written anew", "breaks a line"])
def test_a_file_that_changes_while_it_is_read_is_refused_for_that_reason(tmp_path: Path, change: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(b"a" * 100_000)

    def read() -> None:
        with open_bytes(path) as stream:
            stream.read(10)
            if change == "breaks a line":
                path.write_text("list\tam\terrors\nu1\t1\n")
                raise DataError("line 2 has 2 columns, not 3", path=path)
            with path.open("ab" if change == "grows" else "r+b") as file:
                if change == "shrinks":
                    file.truncate(50_000)
                else:
                    time.sleep(0.05)  # beyond what dates of files resolve
                    file.write(b"b" * 100)
            stream.read()

    with pytest.raises(DataError, match="changed while it was read") as caught:
        read()
    assert caught.value.path == str(path)


def test_a_file_that_is_replaced_or_only_read_is_read(tmp_path: Path) -> None:
    """What is written whole and put in its place leaves the old file as it was to whoever reads it."""
    path, other = tmp_path / "x.tsv", tmp_path / "y.tsv"
    path.write_bytes(b"a" * 100_000)
    other.write_bytes(b"b" * 5)
    with open_bytes(path) as stream:
        head = stream.read(10)
        other.replace(path)
        assert head + stream.read() == b"a" * 100_000
    with open_bytes(path) as stream:
        assert stream.read() == b"b" * 5


@pytest.mark.parametrize("name", FORMATS)
def test_whatever_another_process_does_to_a_file_readers_get_lists_or_a_line(tmp_path: Path, name: str) -> None:
    """A reader gets one of the states between which the file changes, a line that says why not, or the beginning of one
    that nobody changed as long as it was read.
    """
    small, large = lists_of(100), lists_of(400)
    states = [written(one, tmp_path / name).read_bytes() for one in (small, large)]
    path, stop = tmp_path / name, threading.Event()

    def change() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            for content in states:
                with path.open("wb", buffering=0) as file:  # truncates, then grows piece by piece
                    at = 0
                    while at < len(content):
                        at += file.write(content[at : at + int(rng.integers(1, 20_000))]) or 0
                        time.sleep(0.0005)
                time.sleep(float(rng.uniform(0, 0.02)))

    thread = threading.Thread(target=change)
    thread.start()
    taken, refused = [], []
    try:
        while len(taken) + len(refused) < (60 if refused else 3000):
            try:
                taken.append(lpmert.read(path))
            except lpmert.LpmertError as error:
                refused.append(str(error))
    finally:
        stop.set()
        thread.join()
    assert refused
    for message in refused:
        assert message.isprintable()
        assert str(path) in message
    for nbest in taken:
        for whole in (small, large):
            if nbest.n_hypotheses == len(whole.features):
                assert np.array_equal(nbest.dense_features(), whole.features)
                assert np.array_equal(nbest.statistics, whole.statistics)
    assert lpmert.read(written(large, path)).n_lists == 400


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
@pytest.mark.parametrize(
    "name", ["lists.tsv", "lists.npz", *map(many_more, ("pool.jsonl", "lists.jsonl", "moses.txt"))]
)
def test_too_little_memory_ends_in_one_line_with_a_remedy(tmp_path: Path, name: str) -> None:
    """The limit is what reading takes in this environment, minus ever more: the libraries are loaded, the lists not."""
    path = written(lists_of(20_000), tmp_path / name)
    (tmp_path / "tiny").mkdir()
    tiny = written(lists_of(2), tmp_path / "tiny" / name)
    read = "import sys, lpmert; from lpmert.cli.main import main; main(['convert', *sys.argv[1:]])"
    tell = "import atexit\natexit.register(lambda: print(open('/proc/self/status').read()))"
    peak = python("-c", f"{tell}\n{read}", tiny, tmp_path / "out.npz", OPENBLAS_NUM_THREADS="1")
    least = int(re.findall(r"VmPeak:\s+(\d+)", peak.stdout)[0]) << 10
    codes = []
    for more in (2, 8):
        most = least + (more << 20)
        # the limit is set in the process itself: its loader is not meant
        program = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({most}, {most}))\n{read}"
        done = python("-c", program, path, tmp_path / "out.npz", code=None, OPENBLAS_NUM_THREADS="1")
        codes.append(done.returncode)
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode:
            assert done.returncode == 1, done.stderr
            assert re.match("lpmert: error: .*memory", done.stderr.strip().splitlines()[-1]), done.stderr
    assert codes[0] == 1


def test_an_archive_without_memory_for_it_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(lists_of(3), tmp_path / "lists.npz")
    monkeypatch.setattr(np.lib.format, "read_array", Mock(side_effect=MemoryError))
    with pytest.raises(DataError, match="not enough memory"):
        lpmert.read(path)


def test_pyarrow_that_cannot_be_loaded_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    path = written(lists_of(3), tmp_path / "lists.parquet")
    real = __import__

    def broken(name: str, *rest: object, **more: object) -> object:
        if name.startswith("pyarrow"):
            raise ImportError("libarrow.so: cannot allocate memory")
        return real(name, *rest, **more)

    monkeypatch.setattr("builtins.__import__", broken)
    with pytest.raises(DataError, match="cannot be loaded: libarrow"):
        lpmert.read(path)


@pytest.mark.slow
def test_a_million_hypotheses_are_proved_in_lists_of_one_and_in_one_list() -> None:
    """Of one list all that lie on the convex hull may win; one of least loss outside of all others does."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    features, losses = rng.normal(size=(n, 3)), rng.integers(1, 9, n).astype(float)
    features[n // 2], losses[n // 2] = (50.0, 0.0, 0.0), 0.0
    for offsets, least in ((np.arange(n + 1), losses.sum()), ([0, n], 0.0)):
        found = lpmert.minimize(lpmert.NBest(features, offsets, losses))
        assert (found.status, found.loss) == (Status.OPTIMAL, least)
