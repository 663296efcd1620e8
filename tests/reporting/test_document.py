"""Shell commands of docs/speech.md, lattices.md, translation.md and report.md work on the example files, in turn."""

import re
import shlex
import shutil
from glob import glob
from pathlib import Path

import pytest
from commands import python, succeeded
from pages import parts
from shared import ROOT

import lpmert


def commands_of_the_page_run(page: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the shell commands of a page on the example files in this folder; return what the last of them prints."""
    (here / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(here)
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / f"docs/{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "cp":
            shutil.copy(*arguments)
        elif program == "python3":
            output = python(*arguments, cwd=here).stdout
        else:
            assert program == "lpmert"
            output = succeeded(*[name for word in arguments for name in sorted(glob(word)) or [word]]).output
    return output


@pytest.mark.parametrize(
    ("page", "left"), [("speech", "dev.tsv"), ("lattices", "best.tsv"), ("translation", "moses.ini")]
)
def test_shell_commands_of_the_page_run(page: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "proved optimal" in commands_of_the_page_run(page, tmp_path, monkeypatch)
    assert (tmp_path / left).exists()


@pytest.mark.slow
def test_reports_are_made_by_their_page_and_say_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of lpmert[report]")
    (tmp_path / "docs").mkdir()
    output = commands_of_the_page_run("report", tmp_path, monkeypatch)
    page = parts(tmp_path / "report.html")
    assert page.texts["h1"] == ["Proved: no weights do better than errors 912."]
    assert "The weights checked have errors 983: there are better weights: errors 912 instead of 983." in page.all_text
    for picture in ("surface.png", "proof.png"):
        assert (tmp_path / "docs" / picture).read_bytes().startswith(b"\x89PNG")
    assert output == "883 errors, OPTIMAL; 98 of 100 line searches stop above\n"
    shown = "best weights and bound meet at 883 errors. Right: of 100 line searches, 98 stop above the optimum"
    assert all(shown in (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md"))


def test_example_lattices_hold_what_was_said_or_close_to_it() -> None:
    nbest = lpmert.read(ROOT / "examples/speech/lattices", references=ROOT / "examples/speech/text", n_best=200)
    assert nbest.n_lists == 12
    assert nbest.names == ("acoustic", "lm", "words")
    words = sum(len(line.split()) - 1 for line in (ROOT / "examples/speech/text").read_text().splitlines())
    best = [nbest.statistics[a:b].min() for a, b in zip(nbest.offsets[:-1], nbest.offsets[1:], strict=True)]
    assert 0 < sum(best) < words / 2
