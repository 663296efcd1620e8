"""The search over selections as a method: exact/choices_search.py, or exact/ratio_choices.py for ratio metrics."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.exact.choices_search import ChoicesSearch
from lpmert.exact.ratio_choices import RatioChoicesSearch
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.problem import Problem


@dataclass(frozen=True)
class Choices(ExactMethod):
    """Settings of the search over selections; the switches never change the optimum.

    sharpness: how steeply a candidate's excess cost counts when the next list to decide is chosen; core_preference: how
    much lists outside every core are held back then. look_ahead tests each undecided list at every node, not only at
    the root; use_cores raises bounds by disjoint cores, for sums of losses; use_witnesses saves LPs by remembered
    weights. kept_witnesses and kept_cores bound what a node remembers.
    """

    sharpness: float = 2.0
    core_preference: float = 3.0
    look_ahead: bool = True
    use_cores: bool = True
    use_witnesses: bool = True
    kept_witnesses: int = 3000
    kept_cores: int = 400

    name = "choices"
    takes_ratios = True
    takes_fractions = True
    takes_caps = True

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search over the whole weight space that begins with this incumbent."""
        if not problem.additive:
            return RatioChoicesSearch(self, problem, incumbent)
        lists = problem.features, problem.offsets, problem.costs
        return ChoicesSearch(self, *lists, problem.granularity, incumbent, cap=problem.cap)
