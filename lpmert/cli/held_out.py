"""The option `--held-out`: more lists, on which weights are compared and to which nothing is fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lpmert.cli.main import _read, naming

if TYPE_CHECKING:
    from lpmert.cli.shared import Shared

Command = TypeVar("Command", bound=Callable[..., Any])


def held_out_options(command: Command) -> Command:
    """Add `--held-out` and `--held-out-references`."""
    references = click.option(
        "--held-out-references", multiple=True, metavar="FILE", help="The references of the lists held out."
    )
    held_out = click.option(
        "--held-out",
        type=click.Path(),
        metavar="FILE",
        help="More lists like DATA, to which nothing is fitted, and on which weights are compared.",
    )
    return held_out(references(command))


def read_with_held_out(shared: Shared, file: str | None, references: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the lists, and those held out, `None` where there are none.

    Raises `click.UsageError`, before anything is read, for what belongs to DATA alone, and `DataError`, which names the
    file held out, where its features are others.
    """
    if file is None and references:
        raise click.UsageError("--held-out-references needs --held-out.")
    aside = None if file is None else shared.held_out(file, references)
    data = _read(shared, whole=True)[0]
    if aside is None:
        return data, None
    others = _read(aside, whole=True)[0]
    from lpmert.unseen.material import held_out_like

    with naming(aside.reading.name):
        return data, held_out_like(others, data)
