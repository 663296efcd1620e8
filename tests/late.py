"""Modules that take long to import, of which collecting tests needs nothing."""

from importlib import import_module
from typing import Any


class Late:
    """A module that is imported when something of it is used; pytest looks for names with an underscore only."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
