"""What shells and `man` are given beside the package is up to date, and works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from man_pages import SHARE, whole_program, write


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }


def test_manual_pages_and_completions_are_what_the_commands_say(tmp_path: Path) -> None:
    """`PYTHONPATH=tests python tests/man_pages.py` writes them anew."""
    write(tmp_path)
    written = _files(tmp_path)
    assert len(written) == len(whole_program().commands) + 4
    assert _files(SHARE) == written


def _completed(words: str) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"source {SHARE}/bash-completion/completions/lpmert; " + (
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '_lpmert_completion lpmert; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": path}
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=280, env=environment)
    return run.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_options_and_names() -> None:
    assert _completed("lpmert sol") == ["solve"]
    assert _completed("lpmert solve --time-l") == ["--time-limit"]
    assert _completed("lpmert solve --method cel") == ["cells"]


@pytest.mark.skipif(shutil.which("man") is None, reason="no man")
def test_man_shows_the_page() -> None:
    run = subprocess.run(
        ["man", "-l", str(SHARE / "man" / "man1" / "lpmert-solve.1")],
        capture_output=True, text=True, timeout=280, env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "100"},
    )  # fmt: skip
    assert "find the weights with the least loss on the lists" in " ".join(run.stdout.split()).lower()
