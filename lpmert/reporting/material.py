"""What a page is made of: the outcomes, the lists they are about, and the weights to set side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.nbest import NBest
from lpmert.model.problem import TIES, Problem
from lpmert.picturing.rows import Lines, lines_of
from lpmert.picturing.windows import Window, windows
from lpmert.quoting import listed, quoted
from lpmert.reporting.documents import Documents
from lpmert.result import Result

OPTIMUM = "optimum"
_FOUND = "weights found"
_SAME = 1e-12
"""By how much weights of length 1 may differ through rounding."""

_MOST_METHODS = 8
"""Methods of a comparison whose best weights are set beside the others."""


@dataclass(frozen=True, eq=False)
class Material:
    """Outcomes, the problem they are about if its lists are at hand, and further weights [D] by name.

    factor: what all weights are multiplied by; decoding does not see it.
    """

    documents: Documents
    problem: Problem | LatticeProblem | None = None
    given: Mapping[str, FloatArray] = field(default_factory=dict)
    factor: float = 1.0

    @property
    def result(self) -> Result:
        """The result that the page is about."""
        return self.documents.result

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return self.result.names

    @property
    def title(self) -> str:
        """What the weights of the result are called."""
        return OPTIMUM if self.result.status.proved else _FOUND

    @cached_property
    def weights(self) -> FloatArray:
        """The weights [D] of the result, times the factor."""
        return np.asarray(self.result.weights * self.factor)

    @cached_property
    def lines(self) -> Lines:
        """Lines through the lists; raises `DataError` without these."""
        if self.problem is None:
            raise DataError("this needs the lists: pass them")
        return lines_of(self.problem)

    @cached_property
    def windows(self) -> list[Window]:
        """Windows around the weights, from the widest to the narrowest."""
        return windows(self.lines, self.weights)

    @cached_property
    def others(self) -> dict[str, FloatArray]:
        """Other weights [D] by name: given ones, those that searches started from, averages, other methods'.

        Of those that are the same up to a positive factor the first ones stand; given ones always do.
        """
        found: dict[str, FloatArray] = {}
        known = [self.result.weights]
        for name, weights in self._all_others().items():
            if name in self.given or not any(_alike(weights, one) for one in known):
                found[name] = weights
                known.append(weights)
        return found

    def _all_others(self) -> dict[str, FloatArray]:
        found = dict(self.given)
        for one in self.documents.all:
            name = "" if one is self.documents.main else f" of {one.name}"
            if one.result is not None and one is not self.documents.main and one.kind != "comparison":
                found[f"{OPTIMUM if one.result.status.proved else _FOUND}{name}"] = one.result.weights
            if one.kind == "check":
                found[f"checked{name}"] = self._in_order(one.content["weights"])
            elif one.result is not None and one.result.initial is not None and one.kind != "comparison":
                found[f"start{name}"] = np.asarray(one.result.initial, dtype=np.float64)
            if one.kind == "tuning":
                found[f"averaged{name}"] = self._in_order(one.content["averaged"]["weights"])
            if one.kind == "comparison":
                found |= self._best_of_methods(one.content["methods"][:_MOST_METHODS])
        return found

    def _best_of_methods(self, entries: Sequence[dict[str, Any]]) -> dict[str, FloatArray]:
        best = {
            entry["name"]: min(entry["runs"], key=lambda run: (not run["inside"], run["loss"])) for entry in entries
        }
        return {f"best of {name}": self._in_order(run["weights"]) for name, run in best.items()}

    def _in_order(self, weights: Mapping[str, float]) -> FloatArray:
        return np.array([float(weights[name]) for name in self.names])


def _alike(first: FloatArray, second: FloatArray) -> bool:
    """Whether weights [D] are others times a positive factor, but for rounding."""
    lengths = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    return 0.0 not in lengths and bool(np.allclose(first / lengths[0], second / lengths[1], rtol=0.0, atol=_SAME))


def ties_of(signature: str) -> str:
    """Return which hypothesis counts of several with equal features, from the signature of a result."""
    found = re.search(r"\|ties:(\w+)", signature)
    return found[1] if found and found[1] in TIES else "first"


def check_same(problem: Problem | LatticeProblem, documents: Documents, data: str) -> None:
    """Raise `DataError` unless a problem is that of the outcomes, but for its region."""
    result = documents.result
    lists = problem.nbest if isinstance(problem, Problem) else problem.lattices
    if lists.fingerprint != result.fingerprint:
        what = "lists" if isinstance(lists, NBest) else "lattices"
        raise DataError(
            f"other {what} than those of {documents.main.name}: pass the same files with the same options "
            "(features, loss, ...) as to the command that wrote it",
            path=data,
        )
    if lists.names != result.names:
        trouble = f"the features are {listed(lists.names)}, and those of {documents.main.name} {listed(result.names)}"
        raise DataError(trouble, path=data)
    if f"|{problem.signature}|" not in f"|{result.signature}|":
        metric = problem.metric.signature
        raise DataError(
            f"the metric here is {quoted(metric)}, and that of {documents.main.name} another: its signature is "
            f"{quoted(result.signature)}; pass the same metric",
            path=data,
        )
