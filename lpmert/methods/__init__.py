"""The classes of all methods, whose fields are their settings, and the contracts of new ones."""

from __future__ import annotations

from lpmert.registry import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
