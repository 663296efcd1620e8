"""What is hot, compiled from C++.

Arrays are C-contiguous, with the dtype and the shape that is stated; `ValueError` names the argument that is not.
Throughout: M hypotheses in S lists, whose rows begin and end at offsets [S + 1], int64; D features.
"""

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray

Bits = NDArray[np.uint8]

class Lists:
    """Lists for the searches of this module, list by list in order of cost.

    rows [M, D]; costs [M] int64; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from
    the exact one; cap: empty, or a unit vector and the least cosine with it [D + 1]. The arrays are kept, not copied,
    and not to be written to.
    """

    def __init__(
        self,
        rows: FloatArray,
        offsets: IntArray,
        costs: IntArray,
        reach: FloatArray,
        spread: FloatArray,
        cap: FloatArray,
    ) -> None: ...
    def decode_clearly(self, weights: FloatArray, selection: IntArray) -> tuple[int, bool]:
        """Write each list's winner, counted within the list, into selection [S]; return (cost, clear).

        clear: every winner leads by more than rounding.
        """

    def decode_total(self, ratio: Ratio, weights: FloatArray, total: FloatArray) -> tuple[float, bool]:
        """Write the summed statistics of the winners into total [K]; return (loss, clear).

        clear: the weights lie in the cap, every winner leads by more than rounding, or is within rounding of its equals
        only, and none is forbidden.
        """

class Ratio:
    """What the hypotheses of lists mean to a ratio metric, see `lpmert.metrics.ratio_kernels`.

    statistics [M, K]; constant [K]: of lists that are settled for good; reach [K]: the largest of each statistic;
    classes [M] int64: equal within a list where the statistics are, -1 for what no weights of the region choose.
    """

    def __init__(
        self,
        kind: int,
        parameters: FloatArray,
        statistics: FloatArray,
        constant: FloatArray,
        reach: FloatArray,
        classes: IntArray,
    ) -> None: ...

class Corral:
    """Where a linear program starts and what it leaves: some rows and the least-norm point of their hull.

    point [D]; multipliers, lists, others [size] of the rows, each the chosen hypothesis of a list minus another one.
    """

    def __init__(self, n_features: int) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def point(self) -> FloatArray: ...
    @property
    def multipliers(self) -> FloatArray: ...
    @property
    def lists(self) -> IntArray: ...
    @property
    def others(self) -> IntArray: ...
    def restart(self, weights: FloatArray) -> None:
        """Start anew at these weights [D]."""

    def take(self, other: Corral) -> None:
        """Become a copy of another one."""

class LeastNorm:
    """Decides whether choices from lists go together; `programs` and their `rounds` are counted."""

    def __init__(self, lists: Lists) -> None: ...
    @property
    def programs(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    def separate(self, decided: IntArray, chosen: IntArray, start: int, corral: Corral) -> int:
        """Decide whether the choices of decided [n] can be made together; start from, and leave behind, a corral.

        chosen [S] holds the chosen position within each decided list, of which the one at `start` is looked at first.
        INFEASIBLE (0) leaves a core in the corral's rows of positive multipliers, FEASIBLE (1) a witness in its point;
        UNDECIDED (2) is left to exact arithmetic.
        """

class ChoiceSettings:
    """granularity: what an improvement is at least; sharpness: how steeply costs count in branching; core_preference:
    how much lists outside all cores are held back where these raise the bound; switches turn devices off that never
    change the optimum; pool_size, kept_witnesses, kept_cores: what is remembered at most.
    """

    def __init__(
        self,
        granularity: int,
        sharpness: float,
        core_preference: float,
        look_ahead: bool,
        by_gain: bool,
        use_cores: bool,
        use_witnesses: bool,
        pool_size: int,
        kept_witnesses: int,
        kept_cores: int,
    ) -> None: ...

OpenNode = tuple[IntArray, IntArray, int, IntArray, int, int, Bits, int, FloatArray, IntArray]
"""choices [k, 2], pointer [S], branch, children [n, 2], own, bound, out, and the corral: size, numbers, names."""

class _Choices:
    """A search over selections that pauses; the last n_fixed lists are half-spaces, decided for good.

    work is counted in scores. question [n, 2]: choices (list, position) of which it asks whether they go together, and
    `trial` the corral that could not tell. least_open: the least bound of what is open, 2**61 if nothing is. gains: how
    often looking ahead asked about each list [S], and by how much that raised bounds [S].
    """

    work: int
    @property
    def best_weights(self) -> FloatArray: ...
    @property
    def nodes(self) -> int: ...
    @property
    def depth(self) -> int: ...
    @property
    def programs(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    @property
    def core_programs(self) -> int: ...
    @property
    def witnesses(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def between_nodes(self) -> bool: ...
    @property
    def least_open(self) -> int: ...
    @property
    def trial(self) -> Corral: ...
    @property
    def question(self) -> IntArray: ...
    @property
    def gains(self) -> tuple[IntArray, FloatArray]: ...
    def search(self, budget: int) -> int:
        """Search until so much work is done (0), until it asks (1), or to the end (2)."""

    def answer_attainable(self, weights: FloatArray) -> None:
        """Say that the choices go together, and at which weights [D] to go on from there."""

    def answer_unattainable(self) -> None:
        """Say that no doubles make the choices."""

    def answer_core(self, core: IntArray) -> None:
        """Say which of the choices [n, 2] do not go together."""

    def expect(self, asked: IntArray, raised: FloatArray) -> None:
        """Begin with what looking ahead has brought elsewhere."""

    def open_nodes(self) -> list[OpenNode]:
        """Return what is open, the coarsest first."""

    def go_on_with(
        self,
        choices: IntArray,
        pointer: IntArray,
        branch: int,
        children: IntArray,
        own: int,
        out: Bits,
        size: int,
        numbers: FloatArray,
        names: IntArray,
    ) -> None:
        """Search one open node next, and nothing else."""

class SumChoices(_Choices):
    """The search over selections for losses that add up; cost: what the incumbent costs."""

    cost: int
    def __init__(
        self, lists: Lists, n_fixed: int, cost: int, weights: FloatArray, settings: ChoiceSettings
    ) -> None: ...

class RatioChoices(_Choices):
    """The search over selections for a ratio metric; loss: of the incumbent. Bounds are heights in units.

    total [K]: the sums where the first minorant is laid.
    """

    loss: float
    def __init__(
        self,
        lists: Lists,
        ratio: Ratio,
        n_fixed: int,
        loss: float,
        total: FloatArray,
        weights: FloatArray,
        settings: ChoiceSettings,
    ) -> None: ...

def height_limit(kind: int, loss: float) -> int:
    """Return a height in units from which on no loss is lower than this one."""

def height_of_all(
    ratio: Ratio, offsets: IntArray, at: FloatArray, low: FloatArray, high: FloatArray, costs: IntArray
) -> int:
    """Return a height in units that no selection from lists undercuts, by the minorant that is tight at `at` [K].

    low, high [K] become the box of all sums, costs [M] what each row costs more than the cheapest of its list.
    """

def combine(transposed: FloatArray, weights: FloatArray, scores: FloatArray) -> None:
    """Write weights [D] times transposed [D, M] into scores [M]."""
