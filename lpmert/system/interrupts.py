"""Ctrl-C and similar signals: a search ends after its current slice of work, any other command at once.

Only small parts of the standard library are imported, because a command installs the handlers before all else.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that a command treats as Ctrl-C; SIGHUP comes when its terminal is closed."""

_undoing: dict[object, Callable[[], object]] = {}


def take_signals() -> None:
    """Make each of `SIGNALS` that is not ignored end this process with `abort`; for commands, not for the library."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, abort)
    # At exit, Python restores the default handlers; a signal would then kill a process whose work is done.
    atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def abort(number: int, frame: FrameType | None) -> NoReturn:
    """Run the functions of `undone_by_abort` and end the process with exit code 128 + number.

    It raises no exception: within an import or a finaliser, one can be lost, replaced by another one, or printed with
    its traceback.
    """
    del frame
    _ignore_signals()
    threading.excepthook = lambda _: None  # threads that wait for workers would report their end
    for undo in list(_undoing.values()):
        with suppress(Exception):
            undo()
    with suppress(OSError):
        os.write(2, b"lpmert: interrupted\n")  # the signal may have interrupted a write to sys.stderr
    os._exit(128 + number)


@contextmanager
def undone_by_abort(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the process is aborted within the block, at whatever moment."""
    key = object()
    _undoing[key] = undo
    try:
        yield
    finally:
        del _undoing[key]


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block `SIGNALS` in processes that are started within the block, since their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupts:
    """While it is entered, the first Ctrl-C sets `pressed`; a second one raises `KeyboardInterrupt` as usual.

    The first one raises nothing, because an exception within compiled code can be lost or replaced by another one. In a
    command the other `SIGNALS` do the same, and the second one aborts. `number` is the signal that came first. Nothing
    changes outside the main thread, or for signals with a handler of the caller. Nested instances all record the
    signal; an inner one starts with the state of the outer one.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.number = int(signal.SIGINT)
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            handler = signal.getsignal(number)
            outer = _interrupts_of(handler)
            if outer is not None and outer.pressed:
                self.pressed, self.number = True, outer.number
            if outer is not None or handler in (signal.default_int_handler, abort):
                self._previous[number] = handler
                signal.signal(number, self._press)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _press(self, number: int, frame: FrameType | None) -> None:
        first = not self.pressed
        if first:
            self.pressed, self.number = True, number
        previous = self._previous[number]
        if not first or _interrupts_of(previous) is not None:
            previous(number, frame)


def _interrupts_of(handler: Any) -> Interrupts | None:
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, Interrupts) else None
