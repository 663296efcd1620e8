"""The loss of a problem as a search over cones counts it: a sum of costs, or the height of a ratio metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.cells.box_stack import BoxStack, Precision, precision_of
from lpmert.methods.cells.ledger_of_ratios import Ratios
from lpmert.methods.cells.ledger_of_sums import Sums
from lpmert.methods.cells.stack import UPPER_COST, Stack, Survivors
from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.close_oracle import close_oracle_height
from lpmert.methods.choices.oracle_bound import oracle_height
from lpmert.methods.choices.ratio_lists import UNIT, height_limit, new_bound, ratio_lists
from lpmert.methods.choices.ratio_search import RatioChoicesSearch
from lpmert.methods.choices.search import ChoicesSearch, SumChoicesSearch
from lpmert.metrics.ratio_kernels import loss_of_height
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.numeric.leastnorm import SortedLists
from lpmert.numeric.rows import sizes_of_rows
from lpmert.search.method import Incumbent

_LEAF_WORK = 1_000_000
_RATIO_LEAF_SELECTIONS = 4096
_REPRICED_EVERY = 3


Ledger = TypeVar("Ledger")


class Account(ABC, Generic[Ledger]):
    """What a search over cones asks about the loss; its cones' bounds are whole numbers in units of the account.

    lists: as kernels take them; total [K]: sums of the lists that are settled for good. granularity: by how much the
    bounds of selections of different losses differ at least. row_work: what a split costs a row. leaf_lists: how many
    open lists a cone has at most, where nothing is said, that is searched selection by selection.
    """

    lists: SortedLists
    total: FloatArray
    granularity: int
    row_work: int
    leaf_lists: int

    _canonical: Canonical

    @cached_property
    def precision(self) -> Precision:
        """How exact products of the features with weights of boxes are."""
        return precision_of(self.lists)

    @cached_property
    def largest(self) -> float:
        """What the magnitudes of the features of a hypothesis add up to at most."""
        return float(sizes_of_rows(self.lists.rows).max(initial=0.0))

    @property
    def least(self) -> int | None:
        """A cost that nothing undercuts, where one is known before any search."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """What workers need of it: the lists for kernels, and the scale of the loss."""
        return {**self.__dict__, "_canonical": self._canonical.bare()}

    @abstractmethod
    def new_ledger(self) -> Ledger:
        """Return a ledger for one lane."""

    @abstractmethod
    def aim(self, ledger: Ledger, stack: Stack | BoxStack, cost: int) -> None:
        """Let kernels look only for what costs less."""

    @abstractmethod
    def found(self, ledger: Ledger, stack: Stack | BoxStack) -> tuple[int, FloatArray]:
        """Return the least cost that kernels have met with these, and its weights [d]."""

    @abstractmethod
    def bound_of(self, cost: int) -> int:
        """Return the bound that no cone has in which something costs less, by the granularity or more."""

    @abstractmethod
    def cost_of(self, bound: int) -> int:
        """Return a cost that nothing undercuts in a cone of this bound."""

    @abstractmethod
    def attained(self, weights: FloatArray, cost: int) -> int | None:
        """Return what weights [d] found by a search of selections cost, `None` if they do not clearly cost that."""

    @abstractmethod
    def selections(self, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None) -> tuple[ChoicesSearch, int]:
        """Return a search with exact answers for less than the incumbent, and what is to be added to its costs.

        part: the hypotheses that may win in a part of the weight space, and its normals; `None` for all of it.
        """


class SumAccount(Account[Sums]):
    """Costs that add up."""

    row_work = 4
    leaf_lists = 10

    def __init__(self, choices: Choices, canonical: Canonical) -> None:
        self._choices, self._canonical = choices, canonical
        self.lists = canonical.by_cost
        self.total = np.empty(0)
        self.granularity = canonical.granularity

    def new_ledger(self) -> Sums:
        return Sums(_LEAF_WORK, self._choices.switches(self.granularity, cores=True))

    def aim(self, ledger: Sums, stack: Stack | BoxStack, cost: int) -> None:
        stack.numbers[UPPER_COST] = cost

    def found(self, ledger: Sums, stack: Stack | BoxStack) -> tuple[int, FloatArray]:
        return int(stack.numbers[UPPER_COST]), stack.best_weights

    def bound_of(self, cost: int) -> int:
        return cost

    def cost_of(self, bound: int) -> int:
        return bound

    def attained(self, weights: FloatArray, cost: int) -> int | None:
        return self._canonical.strict_cost(weights)

    def selections(self, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None) -> tuple[ChoicesSearch, int]:
        if part is None:
            return SumChoicesSearch(self._choices, self._canonical, incumbent), 0
        kept, normals = part
        rows = np.ascontiguousarray(self.lists.rows[kept.ids])
        exact = self._canonical.rounding_by_cost
        lists = replace(self._canonical, features=rows, offsets=kept.ends, losses=kept.costs, step=self.granularity)
        lists = replace(lists, rounding=None if exact is None else exact.take(kept.ids))
        incumbent.cost -= kept.fixed
        return SumChoicesSearch(self._choices, lists, incumbent, normals), kept.fixed


class RatioAccount(Account[Ratios]):
    """A ratio metric: bounds are heights in units, costs losses in the problem's fixed point."""

    granularity = 1
    row_work = 8
    leaf_lists = 6

    def __init__(self, choices: Choices, canonical: Canonical, weights: FloatArray) -> None:
        self._choices, self._canonical = choices, canonical
        self.lists, self._ratio = ratio_lists(canonical)
        self.total = self._ratio.constant
        self._least = 0
        height, bound = oracle_height(self.lists, self._ratio, weights)
        self._least = self.cost_of(close_oracle_height(self.lists, self._ratio, height, bound))

    @property
    def least(self) -> int:
        return self._least

    def new_ledger(self) -> Ratios:
        n_rows, n_columns = self._ratio.statistics.shape
        return Ratios(
            self._ratio,
            new_bound(n_rows, n_columns),
            np.ones(1),
            _REPRICED_EVERY,
            _RATIO_LEAF_SELECTIONS,
            np.zeros(len(self.lists.offsets) - 1, dtype=np.int64),
            np.zeros(int(np.diff(self.lists.offsets).max(initial=1))),
            np.zeros(n_columns),
        )

    def aim(self, ledger: Ratios, stack: Stack | BoxStack, cost: int) -> None:
        ledger.loss[0] = min(ledger.loss[0], self._canonical.loss_of(cost))
        stack.numbers[UPPER_COST] = height_limit(self._ratio.kind, ledger.loss[0])

    def found(self, ledger: Ratios, stack: Stack | BoxStack) -> tuple[int, FloatArray]:
        return self._canonical.cost_of_loss(float(ledger.loss[0])), stack.best_weights

    def bound_of(self, cost: int) -> int:
        return int(height_limit(self._ratio.kind, self._canonical.loss_of(cost)))

    def cost_of(self, bound: int) -> int:
        return max(self._least, self._canonical.cost_of_loss(min(1.0, loss_of_height(self._ratio.kind, bound * UNIT))))

    def attained(self, weights: FloatArray, cost: int) -> int | None:
        loss = self._canonical.totals.attained(CanonicalWeights(weights))
        return cost if loss is not None and self._canonical.cost_of_loss(loss) <= cost else None

    def selections(self, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None) -> tuple[ChoicesSearch, int]:
        canonical = self._canonical
        if part is None:
            return RatioChoicesSearch(self._choices, canonical, incumbent), 0
        kept, normals = part
        n_own = np.count_nonzero(kept.ids[kept.ends[:-1]] < len(canonical.features))  # the limits come last
        ends = kept.ends[: n_own + 1]
        rows = kept.ids[: ends[-1]]
        lists = replace(
            canonical,
            features=np.ascontiguousarray(self.lists.rows[rows]),
            offsets=ends,
            losses=replace(canonical.totals, statistics=self._ratio.statistics[rows], constant=kept.total),
            limits=np.vstack([normals, canonical.limits]),
            rounding=None if canonical.rounding is None else canonical.rounding.take(rows).behind(normals),
        )
        return RatioChoicesSearch(self._choices, lists, incumbent, closely=False), 0  # a part: its search is short


def account_of(choices: Choices, canonical: Canonical, incumbent: Incumbent) -> Account[Any]:
    """Return the account of a problem."""
    return SumAccount(choices, canonical) if canonical.additive else RatioAccount(choices, canonical, incumbent.weights)
