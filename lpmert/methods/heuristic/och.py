"""Och's minimum error rate training: line searches until none helps, from several starts.

Sources: Och, ACL 2003; Cer, Jurafsky and Manning, Regularization and Search for Minimum Error Rate Training, WMT 2008
(the choice of directions, each line minimised globally).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.directions import DIRECTIONS, lines_along, local_optima
from lpmert.lines.line_search import INTERVALS, SMOOTHING, LatticeLineSearch, Lineal, LineSearch
from lpmert.lines.restarts import STOPPING, Restarts
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found


@dataclass(frozen=True)
class Och(Comparator):
    """Line searches from the start (or equal weights) and from random weights; the best local optimum wins.

    On lattices the lines are searched over all paths (Macherey, Och, Thayer and Uszkoreit, EMNLP 2008). The baseline of
    Galley and Quirk (EMNLP 2011) is `directions="powell"`.
    """

    directions: str = option(
        "greedy",
        "greedy: the best of all coordinates; cyclic: one after the other; powell: a set that adapts; random: drawn",
        choices=DIRECTIONS,
    )
    restarts: int = option(20, "random starts", least=0)
    stopping: str = option(
        "fixed", "foster-kuhn: as many starts as the best one so far needed, at least ten", choices=STOPPING
    )
    walk_share: float = option(0.9, "share of starts that step from the best weights so far", least=0, most=1)
    walk_deviation: float = option(0.1, "greatest standard deviation of such a step", above=0)
    interval: str = option(
        "midpoint", "which of the best intervals of a line, see LineSearch", choices=tuple(INTERVALS)
    )
    smoothing: float = option(SMOOTHING, "of the interval smoothed, in units of |w| / |d|", above=0)

    name: ClassVar[str] = "och"
    takes_lattices: ClassVar[bool] = True
    takes_jobs: ClassVar[bool] = True

    def _restarts(self) -> Restarts:
        return Restarts(self.restarts, self.stopping, self.walk_share, self.walk_deviation)

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best local optimum."""
        make: Callable[[], Lineal]
        if isinstance(problem, LatticeProblem):
            make = partial(LatticeLineSearch, problem, self.interval, self.smoothing)
        else:
            make = partial(LineSearch, problem.canonical, self.interval, self.smoothing)
        optima = local_optima(problem, lines_along(self.directions, make), self._restarts(), start, seed, clock)
        return Found(min(optima, key=lambda item: item[0])[1], {"starts": len(optima), "line_searches": clock.steps})
