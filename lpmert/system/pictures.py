"""Pictures that matplotlib draws, in files."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lpmert.errors import DataError, MethodError
from lpmert.quoting import listed
from lpmert.system.files import atomic_writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")

_DPI = 150


def check_drawing() -> None:
    """Raise `MethodError` where nothing can draw."""
    if find_spec("matplotlib") is None:
        raise MethodError("matplotlib is not installed; pip install 'lpmert[plots]'")


def check_picture(path: str | Path) -> None:
    """Raise `MethodError` where nothing can draw, and `DataError` for an ending that means no picture."""
    check_drawing()
    if Path(path).suffix.lower() not in ENDINGS:
        raise DataError(f"the name of a picture must end in one of {listed(ENDINGS)}", path=str(path))


def write_picture(figure: Figure, path: str | Path) -> None:
    """Write a picture to a file, which appears whole or not at all; its ending says in which form.

    Raises `DataError` where the file cannot be written.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format=Path(path).suffix[1:].lower(), dpi=_DPI)
    with atomic_writer(path) as stream:
        stream.buffer.write(picture.getbuffer())
