"""Writes what shells need, from the commands themselves: `python tests/man_pages.py`."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.core import write_man_pages
from shared import ROOT

import lpmert
from lpmert.cli.main import main

SHARE = ROOT / "share"
COMPLETIONS = {
    "bash": "bash-completion/completions/lpmert",
    "zsh": "zsh/site-functions/_lpmert",
    "fish": "fish/vendor_completions.d/lpmert.fish",
}


def whole_program() -> click.Group:
    with click.Context(main) as context:
        commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    found = {name: command for name, command in commands.items() if command is not None}
    return click.Group("lpmert", found, help=main.help, params=main.params)


def write(folder: Path) -> None:
    """Write the manual pages and the completions for all shells into a folder `share`."""
    pages = folder / "man" / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    write_man_pages("lpmert", whole_program(), version=lpmert.__version__, target_dir=str(pages), date=" ")
    for shell, place in COMPLETIONS.items():
        kind = get_completion_class(shell)
        if kind is None:
            raise LookupError(shell)
        script = kind(main, {}, "lpmert", "_LPMERT_COMPLETE")
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script.source_template % script.source_vars(), encoding="utf-8")


if __name__ == "__main__":
    write(SHARE)
