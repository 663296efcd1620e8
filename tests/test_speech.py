"""The shell commands in docs/speech.md, lattices.md and translation.md work on the example files, one by one."""

import re
import shlex
import shutil
from glob import glob
from pathlib import Path

import pytest
from commands import succeeded
from shared import ROOT

import lpmert


@pytest.mark.parametrize(
    ("page", "left"), [("speech", "dev.tsv"), ("lattices", "best.tsv"), ("translation", "moses.ini")]
)
def test_shell_commands_of_the_page_run(page: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / f"docs/{page}.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "cp":
            shutil.copy(*arguments)
            continue
        assert program == "lpmert"
        outcome = succeeded(*[name for word in arguments for name in sorted(glob(word)) or [word]])
    assert "proved optimal" in outcome.output
    assert (tmp_path / left).exists()


def test_example_lattices_hold_what_was_said_or_close_to_it() -> None:
    nbest = lpmert.read(ROOT / "examples/speech/lattices", references=ROOT / "examples/speech/text", n_best=200)
    assert nbest.n_lists == 12
    assert nbest.names == ("acoustic", "lm", "words")
    words = sum(len(line.split()) - 1 for line in (ROOT / "examples/speech/text").read_text().splitlines())
    best = [nbest.statistics[a:b].min() for a, b in zip(nbest.offsets[:-1], nbest.offsets[1:], strict=True)]
    assert 0 < sum(best) < words / 2
