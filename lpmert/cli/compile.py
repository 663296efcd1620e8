"""`lpmert compile`: all kernels in one module of the user's, so that later commands start at once."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from lpmert.cli.console import put, say
from lpmert.cli.progress import COMPILING_SECONDS
from lpmert.cli.stages import Stages

_KEPT = 3
"""Modules for other states of the sources that are kept: several checkouts may take turns."""


@click.command("compile")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def compile_kernels(quiet: bool) -> None:
    """Compile all kernels now, so that later commands start at once.

    Without this, numba compiles kernels when they are first called, and each later command loads them, which takes a
    second. This takes some minutes and needs a C compiler. The module goes into your cache folder, or NUMBA_CACHE_DIR,
    and is used until lpmert, Python or numpy change. Wheels hold one already.
    """
    from lpmert.errors import DataError, reason_of
    from lpmert.numeric.built import own_module, ready_made

    ready = ready_made()
    if ready is not None:
        put(f"compiled already: {ready}")
        return
    target = own_module()
    if target is None:
        raise DataError("there is no folder for caches; set NUMBA_CACHE_DIR to a folder you can write")
    start = time.perf_counter()
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            os.replace(_built(Path(scratch), quiet), target)
    except OSError as error:
        raise DataError(f"cannot be written: {reason_of(error)}", path=target) from error
    _tidy(target.parent)
    if not quiet:
        say(f"{target.stat().st_size / 1e6:.1f} MB in {time.perf_counter() - start:.0f}s")
    put(str(target))


def _built(scratch: Path, quiet: bool) -> Path:
    from lpmert.errors import LpmertError

    try:
        from lpmert.numeric.ahead import build

        told = partial(Stages(COMPILING_SECONDS, at_once=True), "compiling kernels")
        return build(scratch, (lambda *_: None) if quiet else told)
    except ModuleNotFoundError as error:
        raise LpmertError(f"compiling needs {error.name}; install it: pip install {error.name}") from error
    except RuntimeError as error:
        raise LpmertError("compiling needs a C compiler, and none works here; install one, such as gcc") from error


def _tidy(place: Path) -> None:
    """Remove all but a few modules of other states of the sources, those that were made first."""
    from lpmert.numeric.built import OWN

    with suppress(OSError):
        others = [other for other in place.parent.glob(f"{OWN}*") if other != place]
        for other in sorted(others, key=lambda one: -one.stat().st_mtime)[_KEPT:]:
            shutil.rmtree(other, ignore_errors=True)
