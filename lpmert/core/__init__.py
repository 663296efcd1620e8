"""What is hot, compiled from the C++ in this folder; the stub beside this file says what there is.

In a checkout it is compiled again when its sources have changed.
"""

from pathlib import Path

if Path(__file__).with_name("CMakeLists.txt").exists():
    from lpmert.core.backend import refresh

    refresh()

from lpmert.core import _core
from lpmert.core._core import *  # noqa: F403

__all__ = [name for name in dir(_core) if not name.startswith("_")]
