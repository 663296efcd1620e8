"""The shell commands in docs/report.md work, one after the other, and make what the page says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment, succeeded
from pages import parts
from shared import ROOT


def test_shell_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of lpmert[report]")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/report.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 5
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "lpmert":
            succeeded(*arguments)
        else:
            assert program == "python3"
            done = subprocess.run(
                [sys.executable, *arguments], check=True, env=environment(), timeout=280, capture_output=True, text=True
            )
    page = parts(tmp_path / "report.html")
    assert page.texts["h1"] == ["Proved: no weights do better than errors 912."]
    assert "The weights checked have errors 983: there are better weights: errors 912 instead of 983." in page.all_text
    for picture in ("surface.png", "proof.png"):
        assert (tmp_path / "docs" / picture).read_bytes().startswith(b"\x89PNG")
    assert done.stdout == "883 errors, OPTIMAL; 98 of 100 line searches stop above\n"
    shown = "best weights and bound meet at 883 errors. Right: of 100 line searches, 98 stop above the optimum"
    assert all(shown in (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md"))
