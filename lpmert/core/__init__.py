"""Hot loops, compiled from the C++ sources in this folder; `__init__.pyi` documents them.

In a checkout, importing this package compiles the sources again if they have changed.
"""

from pathlib import Path

if Path(__file__).with_name("CMakeLists.txt").exists():
    from lpmert.core.backend import refresh

    refresh()

from lpmert.core import _core
from lpmert.core._core import *  # noqa: F403

__all__ = [name for name in dir(_core) if not name.startswith("_")]
