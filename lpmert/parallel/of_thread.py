"""What each thread that does units makes once for itself, such as work space."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Generic, TypeVar

T = TypeVar("T")


class OfThread(Generic[T]):
    """Something that every thread has of its own; it is left behind where what holds it is sent away."""

    def __init__(self) -> None:
        self._local = local()

    def get(self, make: Callable[[], T]) -> T:
        """Return the one of this thread, made when it is first asked for."""
        own: T | None = getattr(self._local, "own", None)
        if own is None:
            own = self._local.own = make()
        return own

    def __reduce__(self) -> tuple[type[OfThread[T]], tuple[()]]:
        return OfThread, ()
