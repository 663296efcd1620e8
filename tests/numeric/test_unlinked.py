"""Kernels that only other kernels call become machine code in their callers only, which compute the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared import ROOT

CODE = """
import numpy as np
from lpmert.metrics import ratio_kernels
from lpmert.numeric import kernels
{setting}
low, high, slopes = np.arange(1.0, 10.0), np.arange(11.0, 20.0), np.zeros(9)
constant = ratio_kernels.minorant(0, np.empty(0), low, high, 0.5 * (low + high), slopes)
print(constant == constant, [value.hex() for value in slopes.tolist()])
library = next(iter(ratio_kernels._bleu_minorant.dispatcher.overloads.values())).library
print(type(library).__name__, sum(1 for _ in library.get_defined_functions()))
called = next(iter(ratio_kernels.minorant.dispatcher.overloads.values())).library
print(type(called).__name__, any(True for _ in called.get_defined_functions()))
"""


def run(folder: Path, setting: str = "") -> list[str]:
    """What a process prints that compiles into this folder, or finds there what another one has compiled."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", CODE.format(setting=setting)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_kernel_without_an_entry_is_no_machine_code_and_its_callers_compute_the_same(tmp_path: Path) -> None:
    first = run(tmp_path / "unlinked")
    assert first[0].startswith("True")
    assert first[1:] == ["Unlinked 0", "JITCodeLibrary True"]
    stock = run(tmp_path / "stock", "kernels._without_entry = lambda options: {}")
    assert stock[0] == first[0]
    assert stock[1].startswith("JITCodeLibrary")
    assert stock[1] != "JITCodeLibrary 0"


def test_what_was_kept_of_it_serves_other_callers(tmp_path: Path) -> None:
    first = run(tmp_path)
    (entry,) = (file for file in tmp_path.glob("kernels-*/*minorant*.nbc") if "_minorant" not in file.name)
    entry.unlink()
    again = run(tmp_path)
    assert again[0] == first[0]
