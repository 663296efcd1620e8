"""What nobody means to do and everybody does: damaged files, pipes, two runs at once, too little memory, odd names."""

import json
import os
import warnings
from pathlib import Path

import hard_life
import numpy as np
import pytest
from commands import run, start

import lpmert
from lpmert import DataError
from lpmert.cli.loop_file import read_config
from lpmert.formats.weights import read_weights

resource = pytest.importorskip("resource")

TABLE = "list\tam\tlm\terrors\nu1\t1\t0\t0\nu1\t0\t1\t1\nu2\t2\t1\t1\nu2\t1\t3\t0\n"
BARRED = "\x1b]0;x\x07"
"""What changes the title of a terminal."""


def test_a_share_of_the_inputs_gives_no_traceback(tmp_path: Path) -> None:
    outcomes, failures = hard_life.try_entry_points(3000, 7, tmp_path)
    assert failures == []
    taken = {name for name, outcome in outcomes if outcome == "taken"}
    refused = {name for name, outcome in outcomes if outcome == "refused"}
    assert outcomes.total() >= 2900
    assert len(taken & refused) > 30  # each entry point lets some through and stops some


@pytest.mark.parametrize("name", [f"a{BARRED}", "a\u202eb", "a\rb", "a\u2028b", "a\x85b"])
def test_names_in_messages_command_no_terminal(tmp_path: Path, name: str) -> None:
    nbest = lpmert.NBest([[1.0], [2.0]], [0, 2], [0, 1], names=[name])
    with pytest.raises(DataError) as caught:
        nbest.select_features(["x"])
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
    """Only messages escape."""
    names = [BARRED, "a\nb", "\t", "\U0001f600", "\u202e\u05d0"]
    nbest = lpmert.NBest(np.eye(5), [0, 3, 5], [0, 1, 2, 1, 0], names=names)
    lpmert.write(nbest, tmp_path / "x.jsonl", "best-of-n")
    assert lpmert.read(tmp_path / "x.jsonl").names == tuple(names)
    assert lpmert.minimize(nbest).names == tuple(names)
    shown = run("solve", tmp_path / "x.jsonl").output
    assert "\x1b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("text", ["\r \t-1\n", " \t1", "\x0b\t2\n"])
def test_weights_of_a_blank_name_are_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "w").write_text(text, newline="")
    assert [*read_weights(tmp_path / "w").values] == [float(text)]


@pytest.mark.parametrize("text", ["weights = " + "[" * 3000, "x = " + "9" * 5000, 'weights = "\\u0000"'])
def test_a_loop_that_python_cannot_hold_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "loop.toml").write_text(text + '\n[decoder]\ncommand = ["true"]\n')
    with pytest.raises(DataError, match=r"not TOML|cannot be read"):
        read_config(tmp_path / "loop.toml")


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("slf", "VERSION=1.0\nUTTERANCE=x\nstart=0 end=1\nN=2 L=" + "9" * 5000 + "\nI=0\nI=1\nJ=0 S=0 E=1 W=a a=1\n"),
        ("fst", "0 1 a 1\n" + "9" * 5000 + "\n"),
    ],
)
def test_graphs_of_huge_numbers_are_refused(tmp_path: Path, format: str, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(DataError) as caught:
        lpmert.load_lattices(tmp_path / "x", {"x": "a", "0": "a"}, format=format, partial=True)
    assert str(caught.value).startswith(str(tmp_path / "x"))


@pytest.mark.parametrize("value", [5e-324, 1e-310])
def test_denormal_features_are_refused_without_a_warning(value: float) -> None:
    nbest = lpmert.NBest(np.array([[1.0, 2], [3, 1], [2, 5], [1, 1]]) * value, [0, 2, 4], [0, 1, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match="rescale it"):
            lpmert.minimize(nbest)


def test_many_runs_at_once_write_one_file(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(TABLE)
    out, proof = tmp_path / "r.json", tmp_path / "c.json"
    runs = [start("solve", tmp_path / "x.tsv", "-o", out, "--certificate", proof, "-q") for _ in range(4)]
    assert [(run.communicate(timeout=300)[1], run.returncode) for run in runs] == [("", 0)] * 4
    assert json.loads(out.read_text())["loss"] == 0
    assert run("verify", proof, tmp_path / "x.tsv").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "r.json", "x.tsv"]
