"""Weights of linear models with the least error on N-best lists, found and proved.

Begin with `read`, `NBest`, `minimize`, `tune`, `check`, `evaluate`, `compare`, `certify` and `verify`. The stub beside
this file lists all public names; everything is imported where it is first used.
"""

from __future__ import annotations

import os
import sys

if os.path.basename(sys.argv[0]).removesuffix(".exe") == "lpmert" or (
    # as it is while Python looks for a module that it is to run, of whatever package
    sys.argv[0] == "-m" and sys.orig_argv[-len(sys.argv)] in ("lpmert", "-mlpmert")
):
    # the command is starting, and Ctrl-C may come while it imports the rest
    from lpmert.limits import take_signals

    take_signals()

from lpmert.registry import attach
from lpmert.version import __version__ as __version__

__getattr__, __dir__, __all__ = attach(__name__, __file__)
