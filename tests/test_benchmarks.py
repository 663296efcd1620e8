"""The benchmarks find what they race against, say so when they cannot, and report what they measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.floor import find_prototypes, geometric_mean

ROOT = Path(__file__).resolve().parents[1]


def floor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.floor", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_geometric_mean_of_a_number_and_its_inverse_is_one() -> None:
    assert geometric_mean([4.0, 0.25, 1.0]) == pytest.approx(1.0)


def test_without_prototypes_the_race_says_how_to_name_them(tmp_path: Path) -> None:
    run = floor("libri3", LPMERT_SHARED=str(tmp_path))
    assert run.returncode == 1
    assert "--prototypes" in run.stderr
    assert "LPMERT_SHARED" in run.stderr


def test_prototypes_without_their_data_are_not_taken(tmp_path: Path) -> None:
    prototypes = tmp_path / "prototypes"
    prototypes.mkdir()
    (prototypes / "run.py").touch()
    assert find_prototypes(prototypes) is None
    (tmp_path / "data").mkdir()
    assert find_prototypes(prototypes) == prototypes


@pytest.mark.slow
@pytest.mark.skipif(find_prototypes(None) is None, reason="needs the prototypes: set LPMERT_SHARED")
def test_both_sides_prove_the_known_optimum(tmp_path: Path) -> None:
    output = tmp_path / "floor.json"
    run = floor("swahili-8:16", "--rounds", "1", "-o", str(output))
    assert run.returncode == 0, run.stderr
    (race,) = json.loads(output.read_text(encoding="utf-8"))["races"]
    assert race["agree"]
    assert race["optimum"] == pytest.approx(4.641196, abs=1e-6)  # the value published with the prototypes
