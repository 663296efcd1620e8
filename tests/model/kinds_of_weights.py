"""Weights of the caller and of the canonical form: mypy tells them apart, and from plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpmert.errors import FloatArray
from lpmert.methods.choices import Choices
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.driver import solve
from lpmert.search.method import Incumbent

if TYPE_CHECKING:
    # Mypy reports an ignore that nothing needs: a mix-up that it no longer refuses fails the check of types.
    def _mixed_up(problem: Problem, given: CallerWeights, own: CanonicalWeights, unmerged: FloatArray) -> None:
        problem.to_caller(given)  # type: ignore[arg-type]
        problem.to_caller(unmerged)  # type: ignore[arg-type]
        problem.to_canonical(own)  # type: ignore[arg-type]
        problem.inside(own)  # type: ignore[arg-type]
        problem.attains(own, 0)  # type: ignore[arg-type]
        problem.canonical.clear_cost(given)  # type: ignore[arg-type]
        Incumbent(0, given, "")  # type: ignore[arg-type]
        solve(Choices(), problem, initial_weights=own)  # type: ignore[arg-type]
