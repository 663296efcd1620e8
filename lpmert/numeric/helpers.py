"""Processes that compile kernels beside the one that needs them: `python -m lpmert.numeric.helpers entries 3 1 4`.

`entries.json` says which kernels are needed together. The first of them that is not in the cache has helpers begin with
the others, those that take longest first; they end when they find nothing more to do, or with the process that started
them. What one has in hand no other begins (`lpmert/numeric/claims.py`).
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from lpmert.numeric.built import read_entries
from lpmert.numeric.claims import can_share, writing
from lpmert.numeric.entry_types import signature_of
from lpmert.system.deadline import memory_left
from lpmert.system.interrupts import kept_from_children
from lpmert.system.memory import counted_too

JOBS = "LPMERT_COMPILE_JOBS"
"""The environment variable for the number of processes that compile at once, this one among them."""

_MOST = 4
"""Processes at most: beyond this number, all wait for the kernel that takes longest."""
_LEAST = 256 << 20
"""What a helper takes: as many begin as fit within the memory limit."""
_SECONDS_TO_END = 1.0
_ROOT = Path(__file__).resolve().parents[2]

_begun: set[str] = set()
_running: list[subprocess.Popen[bytes]] = []


def begin_with(module: str, name: str, signature: tuple[Any, ...]) -> None:
    """Have helpers compile what is needed together with a kernel that is compiled now."""
    table = read_entries()
    groups: dict[str, list[int]] = table.get("groups", {})
    if _begun.issuperset(groups) or jobs() == 1:
        return
    own = [number for number, entry in enumerate(table["entries"]) if entry[:2] == [module, name]]
    number = next((number for number in own if signature_of(number) == signature), None)
    fitting = {group: {*numbers} for group, numbers in groups.items() if number in numbers}
    for group, numbers in fitting.items():
        if group not in _begun and all(numbers <= others for others in fitting.values()):  # whatever is to come
            _begun.add(group)
            start(numbers - {number})


def start(numbers: Iterable[int], *, callees: bool = False) -> None:
    """Start helpers for entries that are not in the cache.

    callees: compile them for other kernels, as an extension module needs them, and not for Python.
    """
    wanted = {number: _wanted(number, callees=callees) for number in numbers}
    sizes = {number: dispatcher._cache.size(signature) for number, (dispatcher, signature) in wanted.items()}
    missing = [n for n, (dispatcher, signature) in wanted.items() if dispatcher._cache.wanted(signature)]
    missing.sort(key=lambda number: -sizes[number])
    left = memory_left()
    fitting = len(missing) if left is None else left // _LEAST
    for _ in range(min(jobs() - 1, len(missing), fitting)):
        command = [sys.executable, "-P", *["-B"] * sys.dont_write_bytecode, "-m", __name__]
        command += ["callees" if callees else "entries", *map(str, missing)]
        own = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
        path = os.pathsep.join([str(_ROOT), *[own] * bool(own)])
        environment = os.environ | {"PYTHONPATH": path, JOBS: "1"}
        nothing = subprocess.DEVNULL
        try:
            with kept_from_children():
                helper = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=environment
                )
        except OSError as error:
            logging.getLogger("lpmert").debug("no helper compiles kernels: %s", error)
            return
        if not _running:
            atexit.register(stop)
            counted_too(lambda: [one.pid for one in _running if one.poll() is None])
        _running.append(helper)


def jobs() -> int:
    """Return how many processes may compile at once: LPMERT_COMPILE_JOBS, or one a core, up to four.

    Only one in a process that was itself started to share the work of another, where claims cannot be held, and where
    Python is part of another program.
    """
    given = os.environ.get(JOBS, "")
    alone = multiprocessing.parent_process() is not None or not can_share()
    if alone or given == "1" or not Path(sys.executable or "").name.startswith("python"):
        return 1
    if given.isdecimal() and int(given) > 0:
        return int(given)
    # not by joblib, which is not there where a wheel is built
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, _MOST)


def stop() -> None:
    """End all helpers."""
    while _running:
        helper = _running.pop()
        if helper.stdin is not None:
            with suppress(OSError):
                helper.stdin.close()
        try:
            helper.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            helper.kill()
            helper.wait()


def _wanted(number: int, *, callees: bool) -> tuple[Any, tuple[Any, ...]]:
    """Return what compiles an entry, and for which types of arguments."""
    module, name, *_ = read_entries()["entries"][number]
    kernel, signature = getattr(import_module(module), name), signature_of(number)
    return (kernel.callee, kernel.as_callee(signature)) if callees else (kernel.dispatcher, signature)


def _end_with_parent() -> None:
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when Python ends
    with writing:
        os._exit(0)


def _help(kind: str, *numbers: str) -> None:
    """Compile entries that nobody has in hand."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for number in map(int, numbers):
        dispatcher, signature = _wanted(number, callees=kind == "callees")
        if dispatcher._cache.wanted(signature):
            dispatcher.compile(signature)


if __name__ == "__main__":
    _help(*sys.argv[1:])
