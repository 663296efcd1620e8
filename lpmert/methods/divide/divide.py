"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.configurable import option
from lpmert.errors import MethodError
from lpmert.methods.divide.search import SLICE_LPS, DivideSearch
from lpmert.methods.divide.shared import SharedDivide
from lpmert.search.method import Method, Search, Task


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    The objective "margin" asks for strict attainability, as all methods here. "published" maximises w.(h - centroid)
    and also accepts what only ties attain: where that costs less than every strict selection, it stays the lower bound,
    and the status says so. The linear programs "least-norm" are decided in a kernel, and in exact arithmetic where
    rounding hides the answer; "highs" decides on HiGHS. look_ahead finds each other list's cheapest hypothesis that
    goes with a combination, drops the combination if no selection below the incumbent is left, and now and then
    completes one greedily. A chain begins with the lists with the fewest candidates, so that what is looked at ahead is
    known early. The cosine_test "published" asks the weights of the cell with the largest product with the centre,
    which can miss cells that reach into the cap, so that the result has no bound; "exact" projects.
    """

    objective: str = option("margin", "what a linear program maximises", choices=("margin", "published"))
    lp: str = option("least-norm", "what decides linear programs", choices=tuple(SLICE_LPS))
    row_generation: bool = option(True, "begin with few rows and where the first half ended")
    use_witnesses: bool = option(True, "weights known to make the choices save the linear program")
    use_cores: bool = option(True, "choices that hold a learnt core are dropped without one")
    look_ahead: bool = option(True, "bound what the other lists still cost; only with the objective margin")
    lazy: bool = option(True, "a neighbour waits in the frontier at a bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    pair: bool = option(False, "in a balanced tree combine first the lists that conflict most")
    sampled: int = option(32, "pieces of work on every pair of lists that show how much it conflicts", least=0)
    lanes: int = option(
        8, "parts searched side by side once a search is long; so many workers find something to do", least=1
    )
    cosine_test: str = option("exact", "how a cosine is asked of a combination", choices=("exact", "published"))

    name = "lp-mert"
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    keeps_checkpoints = True

    @property
    def parallel(self) -> bool:
        return self.chain and self.objective == "margin"

    def start(self, task: Task) -> Search:
        """Return the search as one that can pause; raises `MethodError` for ties within a cosine."""
        if self.objective == "published" and task.canonical.cap is not None:
            raise MethodError("objective='published' accepts ties, which a cosine cannot be asked of; use 'margin'")
        alone = DivideSearch(self, task.canonical, task.incumbent)
        return SharedDivide(self, task.canonical, alone) if self.parallel else alone
