"""Weights of linear models with the least error on N-best lists, found and proved.

The doors are `read_table`, `NBest`, `minimize`, `check`, `compare` and `verify`; everything is imported where it is
first used.
"""

from __future__ import annotations

import os
import sys

if os.path.basename(sys.argv[0]).removesuffix(".exe") == "lpmert" or (
    # as it is while Python looks for a module that it is to run, of whatever package
    sys.argv[0] == "-m" and sys.orig_argv[-len(sys.argv)] in ("lpmert", "-mlpmert")
):
    # the command is starting, and Ctrl-C may come while it imports the rest
    from lpmert.interrupts import take_signals

    take_signals()

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Not lazy: modules have the names of their functions, and the functions must win.
from lpmert.compare import compare
from lpmert.minimize import Check, check, minimize
from lpmert.verify import Verified, verify

_PLACES = {
    "NBest": "lpmert.nbest",
    "read_table": "lpmert.formats.tables",
    "from_classification": "lpmert.converters",
    "from_choices": "lpmert.converters",
    "Comparison": "lpmert.comparison",
    "Problem": "lpmert.problem",
    "Evaluation": "lpmert.evaluation",
    "Cell": "lpmert.result",
    "Limits": "lpmert.result",
    "Progress": "lpmert.result",
    "Result": "lpmert.result",
    "Status": "lpmert.result",
    "LpmertError": "lpmert.result",
    "DataError": "lpmert.result",
    "MetricError": "lpmert.result",
    "MethodError": "lpmert.result",
    "RegionError": "lpmert.result",
    "CertificateError": "lpmert.result",
    "Region": "lpmert.region",
    "Linear": "lpmert.region",
}

__all__ = ["Check", "Verified", "__version__", "check", "compare", "minimize", "verify", *_PLACES]

if TYPE_CHECKING:
    from lpmert.comparison import Comparison as Comparison
    from lpmert.converters import from_choices as from_choices
    from lpmert.converters import from_classification as from_classification
    from lpmert.evaluation import Evaluation as Evaluation
    from lpmert.formats.tables import read_table as read_table
    from lpmert.nbest import NBest as NBest
    from lpmert.problem import Problem as Problem
    from lpmert.result import Cell as Cell
    from lpmert.result import CertificateError as CertificateError
    from lpmert.result import DataError as DataError
    from lpmert.result import Limits as Limits
    from lpmert.result import LpmertError as LpmertError
    from lpmert.result import MethodError as MethodError
    from lpmert.result import MetricError as MetricError
    from lpmert.result import Progress as Progress
    from lpmert.result import Result as Result
    from lpmert.result import Status as Status


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'lpmert' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
