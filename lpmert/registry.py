"""Methods, metrics and formats by name: our own, entry points of other packages, and `module:Name`. Also the names of
columns by which statistics are recognised.

Everything is imported on first use, and our own names are found without looking at the installed packages. The public
names of a module are those of its stub, which type checkers read too. Source: Scientific Python's SPEC 1, Lazy Loading
of Submodules and Functions.
"""

from __future__ import annotations

import ast
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import resolve_name
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.errors import DataError, LpmertError, MethodError, MetricError
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

logger = logging.getLogger("lpmert")


@dataclass(frozen=True)
class Registry:
    """A table of objects by name, such as entry points of the group "lpmert.methods".

    error: for unknown names. own: where each of our own objects is, in a table, because looking up entry points takes
    time.
    """

    kind: str
    error: type[LpmertError]
    own: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        return (*self.own, *sorted(self._foreign()))

    def find(self, name: str) -> Any:
        """Return the object of this name; raises the registry's error if there is none or it cannot be loaded."""
        if name in self.own:
            return _attribute(self.own[name])
        places = [name] if ":" in name else sorted(self._foreign().get(name, ()))
        if not places:
            raise self.error(self.unknown(name))
        if len(places) > 1:
            raise self.error(f"{self.kind} {quoted(name)} is registered twice; give one of {listed(places)}")
        try:
            return _attribute(places[0])
        except (ImportError, AttributeError, ValueError, SyntaxError) as error:
            raise self.error(f"{self.kind} {quoted(name)} cannot be loaded from {places[0]}: {error}") from error

    def build(self, name: str) -> Any:
        """Return the object of this name; a class or function is called without arguments."""
        found = self.find(name)
        if not callable(found):
            return found
        try:
            return found()
        except TypeError as error:
            raise self.error(f"{self.kind} {quoted(name)} cannot be made without arguments: {error}") from error

    def unknown(self, name: str, others: Iterable[str] = ()) -> str:
        """Return the message for an unknown name; others: further names that would have been valid."""
        known = listed(dict.fromkeys([*self.names(), *others]))
        return f"no {self.kind} {quoted(name)}; choose one of {known}, or give module:Name"

    def _foreign(self) -> dict[str, set[str]]:
        """Return the places of entry points by name, except those with one of our own names, with a warning."""
        found: dict[str, set[str]] = {}
        for one in _registered(f"lpmert.{self.kind}s", tuple(sys.path)):
            if one.name in self.own:
                logger.warning("%s %r has the name of one of ours; use %s", self.kind, one.name, one.value)
            else:
                found.setdefault(one.name, set()).add(one.value)
        return found


@cache
def _registered(group: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of all packages on this path; cached, because reading their metadata takes a while."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _attribute(place: str) -> Any:
    module, _, path = place.partition(":")
    return attrgetter(path)(import_module(module))


METHODS = Registry(
    "method",
    MethodError,
    {
        "auto": "lpmert.methods.auto:Auto",
        "cells": "lpmert.methods.cells:Cells",
        "choices": "lpmert.methods.choices:Choices",
        "sweep": "lpmert.methods.enumeration:Sweep",
        "lp-mert": "lpmert.methods.lp_mert:LpMert",
        "exhaustive": "lpmert.methods.enumeration:Exhaustive",
        "mip": "lpmert.methods.mip:Mip",
        "groups": "lpmert.methods.groups:Groups",
        "beam": "lpmert.methods.lp_mert:Beam",
        "och": "lpmert.methods.direct_search:Och",
        "stabilised": "lpmert.methods.direct_search:Stabilised",
        "grid": "lpmert.methods.direct_search:Grid",
        "random": "lpmert.methods.direct_search:RandomSearch",
        "nelder-mead": "lpmert.methods.direct_search:NelderMead",
        "cma-es": "lpmert.methods.direct_search:CmaEs",
        "tpe": "lpmert.methods.direct_search:Tpe",
        "annealing": "lpmert.methods.surrogate_losses:Annealing",
        "likelihood": "lpmert.methods.surrogate_losses:Likelihood",
        "msr": "lpmert.methods.sparse:MinimumSampleRisk",
        "perceptron": "lpmert.methods.sparse:Perceptron",
        "boosting": "lpmert.methods.sparse:Boosting",
        "pro": "lpmert.methods.surrogate_losses:Pro",
        "mira": "lpmert.methods.surrogate_losses:Mira",
        "average": "lpmert.comparing.averaging:Averaging",
    },
)

METRICS = Registry(
    "metric",
    MetricError,
    {
        "loss": "lpmert.metrics.base:SumOfLosses",
        "zero-one": "lpmert.metrics.base:ZeroOne",
        "bleu": "lpmert.metrics.ratio:Bleu",
        "chrf": "lpmert.metrics.ratio:Chrf",
        "f1": "lpmert.metrics.ratio:f_beta",
        "wer": "lpmert.metrics.base:Wer",
        "cer": "lpmert.metrics.base:Cer",
        "error-rate": "lpmert.metrics.ratio:error_rate",
        "precision": "lpmert.metrics.ratio:precision",
        "recall": "lpmert.metrics.ratio:recall",
    },
)

FORMATS = Registry(
    "format",
    DataError,
    {
        "tsv": "lpmert.formats.tables:TSV",
        "csv": "lpmert.formats.tables:CSV",
        "jsonl": "lpmert.formats.tables:JSONL",
        "json": "lpmert.formats.tables:JSON",
        "parquet": "lpmert.formats.tables:PARQUET",
        "npz": "lpmert.formats.format:NPZ",
        "moses": "lpmert.formats.moses:MOSES",
        "mert": "lpmert.formats.moses:MERT",
        "best-of-n": "lpmert.formats.tables:BEST_OF_N",
        "srilm": "lpmert.formats.utterances:SRILM",
        "slf": "lpmert.formats.lattices:SLF",
        "kaldi-lattice": "lpmert.formats.lattices:KALDI",
        "fst": "lpmert.formats.lattices:FST",
        "scores": "lpmert.formats.utterances:SCORES",
        "espnet": "lpmert.formats.utterances:ESPNET",
    },
)

PROBLEM = ".toml"
"""Ending of problem files, which tell the command line the lists to read and the region of the weights."""

TABLES = ("tsv", "csv", "jsonl", "json", "parquet")  # the formats with one hypothesis per row and named columns


def attach(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a module, as the stub beside its file lists the names."""
    places: dict[str, tuple[str, str | None]] = {}
    own = []
    package = module if Path(file).stem == "__init__" else module.rpartition(".")[0]
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            source = resolve_name("." * node.level + (node.module or ""), package)
            for one in node.names:
                found = (source, one.name) if node.module else (f"{source}.{one.name}", None)
                places[one.asname or one.name] = found
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own.append(node.target.id)
    names = sorted([*own, *places])

    def getattribute(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {quoted(module)} has no attribute {quoted(name)}")
        source, attribute = places[name]
        imported = import_module(source)
        value = imported if attribute is None else getattr(imported, attribute)
        setattr(sys.modules[module], name, value)
        return value

    return getattribute, lambda: list(names), names


BLEU_COLUMNS = (*(f"{what}_{n}" for n in range(1, 5) for what in ("match", "total")), "reference_length")
F_COLUMNS = ("match", "predicted", "gold")
ERROR_COLUMNS = ("errors", "reference_length")  # statistics of WER and CDER if the length of the reference is known
TER_COLUMNS = ("edits_100", "reference_length_100", "rate_100")  # statistics of TER in data of Moses' mert, times 100
TEXT_METRICS = ("bleu", "sentence-bleu", "chrf", "sentence-chrf", "ter", "sentence-ter", "wer", "cer")
"""Names of the metrics on texts, which are listed here so that nothing needs to be imported."""
LOSSES = ("loss", "errors")  # names of a single column that is recognised as losses

_CHRF = re.compile(r"match_(char|word)_[1-9][0-9]?")


def chrf_columns(char_order: int, word_order: int) -> tuple[str, ...]:
    """Return the names of the statistics of chrF, three per order."""
    orders = [f"{of}_{n}" for of, most in (("char", char_order), ("word", word_order)) for n in range(1, most + 1)]
    return tuple(f"{what}_{order}" for order in orders for what in ("hypothesis", "reference", "match"))


def named_like_statistics(names: Sequence[str]) -> bool:
    """Whether these are names of statistics: losses, the statistics of a metric, or statistic1, statistic2, ..."""
    columns = tuple(names)
    if len(columns) == 1:
        return columns[0] in LOSSES
    numbered = tuple(f"statistic{number}" for number in range(1, len(columns) + 1))
    known = (BLEU_COLUMNS, F_COLUMNS, ERROR_COLUMNS, TER_COLUMNS, numbered)
    return columns in known or chrf_orders(columns) is not None


def chrf_orders(names: Sequence[str]) -> tuple[int, int] | None:
    """Return the character and word orders of the chrF that has these statistics; `None` for other names."""
    columns = tuple(names)
    kinds = [match[1] for name in columns if (match := _CHRF.fullmatch(name))]
    orders = kinds.count("char"), kinds.count("word")
    return orders if kinds and chrf_columns(*orders) == columns else None
