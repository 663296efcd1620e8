"""Where a user's caches lie, and whose files there may be run."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

PACKAGE = __name__.partition(".")[0]


def user_cache_folder() -> Path | None:
    """Return the user's folder for caches of this package, `None` for users without a home; it need not be there."""
    home = Path.home() if _has_home() else None
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local) / PACKAGE / "Cache" if local else None
    if sys.platform == "darwin":
        return None if home is None else home / "Library" / "Caches" / PACKAGE
    base = os.environ.get("XDG_CACHE_HOME") or (None if home is None else home / ".cache")
    return Path(base) / PACKAGE if base and Path(base).is_absolute() else None


def cache_folder() -> Path | None:
    """Return NUMBA_CACHE_DIR if that is set, or else `user_cache_folder`."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else user_cache_folder()


def _has_home() -> bool:
    try:
        return Path.home().is_absolute()
    except RuntimeError:
        return False


def check_owner(state: os.stat_result, path: Path, source: str | Path) -> None:
    """Raise `PermissionError` for the file of a user who could not change the source either.

    In a folder that others can write, such as one in /tmp, they could leave code for us to run.
    """
    if os.name == "posix" and state.st_uid not in (os.geteuid(), 0, os.stat(source).st_uid):
        raise PermissionError(f"{path} belongs to another user")


def check_not_shared(folder: Path, source: str | Path) -> None:
    """Raise `PermissionError` for a folder as `check_owner` does, and for one in which others can replace files."""
    state = folder.stat()
    check_owner(state, folder, source)
    if os.name == "posix" and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others can write to {folder}")
