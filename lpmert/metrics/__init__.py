"""Losses on summed statistics."""

from __future__ import annotations

from lpmert.registry import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
