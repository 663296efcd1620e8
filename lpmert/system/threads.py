"""How many threads linear algebra takes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread: with several, sums are rounded in an order that hangs on their number."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited
