"""The time in which kernels are compiled, which counts against no limit, and how far that has come."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

logger = logging.getLogger("lpmert")

Watcher = Callable[[int, int], object]
"""Gets the number of kernels compiled, and of those and what they are known to need."""


_COLLECT_AFTER = 100_000
"""New objects after which Python looks for garbage while kernels are compiled. numba keeps most of the many that it
makes, so that looking as often as usual takes a tenth of the time."""


class Compilation:
    """Adds up the time in which at least one kernel is being compiled, in any thread, and says once that it is done.

    Kernels that other kernels call are compiled on the way: only the outermost compilation counts. Reading a kernel
    from the cache is none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._since = 0.0
        self._spans: list[tuple[float, float]] = []
        self._total = 0.0
        self._said = False
        self._needed: set[str] = set()
        self._compiled: set[str] = set()
        self._watchers: list[Watcher] = []
        self._collects_after = gc.get_threshold()

    def begin(self, name: str) -> None:
        """Note that the compilation of a function begins, by its module and name."""
        with self._lock:
            if self._depth == 0:
                self._since = time.perf_counter()
                self._collects_after = gc.get_threshold()
                if 0 < self._collects_after[0] < _COLLECT_AFTER:
                    gc.set_threshold(_COLLECT_AFTER, *self._collects_after[1:])
            self._depth += 1
            say = not self._said and name.partition(".")[0] == "lpmert"
            self._said = self._said or say
        if say:
            logger.warning("compiling kernels, once; this does not count as time spent")

    def end(self, name: str) -> None:
        """Note that the compilation of a function has ended."""
        with self._lock:
            if self._depth == 0:
                return  # another thread began it before anybody listened
            self._depth -= 1
            if self._depth == 0:
                gc.set_threshold(*self._collects_after)
                self._spans.append((self._since, time.perf_counter()))
                self._total += self._spans[-1][1] - self._since
            if name in self._needed:
                self._compiled.add(name)
            counts = len(self._compiled), len(self._needed)
        for watcher in self._watchers:
            watcher(*counts)

    def need(self, names: Iterable[str]) -> None:
        """Note what is to be compiled, unless it is found in the cache or these are part of what is being compiled."""
        with self._lock:
            if self._depth == 0:
                self._needed.update(names)

    def found(self, name: str) -> None:
        """Note what was found in the cache."""
        with self._lock:
            self._needed.discard(name)
            self._compiled.discard(name)

    @property
    def running(self) -> bool:
        """Whether a kernel is being compiled."""
        return self._depth > 0

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Note that another process compiles a function while this one waits for it, which is as good."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def compiled_elsewhere(self, names: Iterable[str]) -> None:
        """Note what other processes have compiled of what is needed."""
        with self._lock:
            before = len(self._compiled)
            self._compiled.update(self._needed.intersection(names))
            counts = len(self._compiled), len(self._needed)
        if counts[0] > before:
            for watcher in self._watchers:
                watcher(*counts)

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Tell a watcher each time a kernel is compiled."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def seconds_until(self, moment: float) -> float:
        """Return the seconds spent compiling before a `time.perf_counter()`."""
        with self._lock:
            total = self._total + (max(0.0, moment - self._since) if self._depth else 0.0)
            for begin, end in reversed(self._spans):
                if end <= moment:
                    break
                total -= end - max(begin, moment)
            return total


_COMPILATION = Compilation()


def compilation() -> Compilation:
    """Return the one that listens to numba, from the first call on after that was loaded."""
    if "numba.core.event" in sys.modules:
        _listen()
    return _COMPILATION


@cache
def _listen() -> None:
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            _COMPILATION.begin(_name(event))

        def on_end(self, event: Any) -> None:
            _COMPILATION.end(_name(event))

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def _name(event: Any) -> str:
    function = getattr(event.data["dispatcher"], "py_func", None)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
