"""The notebooks run as programs, print what they are about, and draw their pictures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment
from shared import ROOT

FOLDER = ROOT / "examples" / "notebooks"
PRINTED = {
    "speech": "OPTIMAL 912.0",
    "translation": "OPTIMAL BLEU 78.37",
    "best_of_n": "optimum 135 right",
    "unseen": "'optimum'",
    "lattices": "OPTIMAL 42.0 errors over all paths",
}
"""Figures that the pages of these examples state, each held by a test of its own there."""


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_a_notebook_runs_and_draws(name: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = FOLDER / f"{name}.py"
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, env=environment(MPLBACKEND="agg"),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert PRINTED[name] in run.stdout
    pictures = re.findall(r'"([\w-]+\.png)"', path.read_text(encoding="utf-8"))
    assert pictures
    for picture in pictures:
        data = (tmp_path / picture).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) > 5_000
    assert sorted(os.listdir(tmp_path)) == sorted([*pictures, "examples"])
