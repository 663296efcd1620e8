"""A process that is killed while it writes a certificate leaves a checkpoint, with which the same command ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment, finished
from shared import ROOT

import lpmert

EXAMPLE = ROOT / "examples" / "asr" / "nbest.tsv.gz"
COLUMNS = ("--segment", "utterance", "--features", "am,lm,words", "--loss", "errors")

KILLED = """
import itertools, os, signal, sys
from lpmert.certificates.write import cones
from lpmert.cli.main import main
closed, calls = cones.ConeTree._close, itertools.count(1)
def close(*given):
    if next(calls) == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    return closed(*given)
cones.ConeTree._close = close
main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 100])
def test_a_run_killed_while_it_writes_goes_on_to_a_certificate_that_holds(tmp_path: Path, at: int) -> None:
    path, checkpoint = tmp_path / "c.json.gz", tmp_path / "search.npz"
    kept = ("--certificate", str(path), "--checkpoint", str(checkpoint), "--resume", "--quiet")
    command = [sys.executable, "-c", KILLED, str(at), "solve", str(EXAMPLE), *COLUMNS, *kept]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoint.exists()
    assert not path.exists()
    assert len([*tmp_path.glob(".c.json.gz.*.tmp")]) == 1
    code, _, err = finished("solve", EXAMPLE, *COLUMNS, *kept)
    assert code == 0, err
    assert not [*tmp_path.glob(".c.json.gz.*.tmp")]
    nbest = lpmert.read(EXAMPLE, segment="utterance", features=["am", "lm", "words"], loss="errors")
    found = lpmert.verify(path, nbest)
    assert (found.loss, found.proved) == (912, True)
