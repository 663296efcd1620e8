"""What the operating system gives a call: time, memory, signals and files."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def holding(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """Let a variable have a value within the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
