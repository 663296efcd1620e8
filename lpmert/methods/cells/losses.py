"""The loss of a problem as the search over the weight space counts it: a sum of costs, or the height of a ratio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray
from lpmert.methods.cells.nodes import Precision, Survivors, precision_of
from lpmert.methods.choices.choices import Choices, ChoicesSearch, RatioChoicesSearch, SumChoicesSearch
from lpmert.methods.choices.ratio import UNIT, Ratio, close_oracle_height, oracle_height, ratio_lists
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.lists import SortedLists
from lpmert.search.method import Incumbent


class Loss(ABC):
    """What a search over the weight space asks about the loss; bounds of nodes are whole numbers in units of their own.

    lists: as the core takes them; total [K]: sums of the lists that are settled for good. granularity: by how much the
    bounds of selections of different losses differ at least. row_work: what a split costs a hypothesis. leaf_lists: how
    many open lists a node has at most, where nothing is said, that is searched selection by selection.
    """

    lists: SortedLists
    total: FloatArray
    granularity: int
    row_work: int
    leaf_lists: int

    _canonical: Canonical
    _choices: Choices

    @cached_property
    def precision(self) -> Precision:
        """How exact products of the features with weights of boxes are."""
        return precision_of(self.lists)

    @cached_property
    def in_core(self) -> tuple[Any, Any, Any]:
        """The lists, the ratio metric or `None`, and how selections of small nodes are searched, for the core."""
        return self.lists.native(), self.ratio, self._choices.core_settings(self.granularity, cores=True)

    @property
    def ratio(self) -> Ratio | None:
        """What the hypotheses mean to a ratio metric."""
        return None

    @property
    def least(self) -> int | None:
        """A cost that nothing undercuts, where one is known before any search."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """What workers need of it: the lists, and the scale of the loss."""
        state = {name: value for name, value in self.__dict__.items() if name != "in_core"}
        return {**state, "_canonical": self._canonical.bare()}

    def loss_of(self, cost: int) -> float:
        return 1.0

    @abstractmethod
    def cost_found(self, bound: int, loss: float) -> int:
        """Return the cost of what the core found, with this bound or loss."""

    @abstractmethod
    def bound_of(self, cost: int) -> int:
        """Return the bound that no node has in which something costs less, by the granularity or more."""

    @abstractmethod
    def cost_of(self, bound: int) -> int:
        """Return a cost that nothing undercuts in a node of this bound."""

    @abstractmethod
    def attained(self, weights: FloatArray, cost: int) -> int | None:
        """Return what weights [d] found by a search of selections cost, `None` if they do not clearly cost that."""

    @abstractmethod
    def selections(self, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None) -> tuple[ChoicesSearch, int]:
        """Return a search with exact answers for less than the incumbent, and what is to be added to its costs.

        part: the hypotheses that may win in a part of the weight space, and its normals; `None` for all of it.
        """


class SumLoss(Loss):
    """Costs that add up."""

    row_work = 4
    leaf_lists = 10

    def __init__(self, choices: Choices, canonical: Canonical) -> None:
        self._choices, self._canonical = choices, canonical
        self.lists = canonical.by_cost
        self.total = np.empty(0)
        self.granularity = canonical.granularity

    def cost_found(self, bound: int, loss: float) -> int:
        return bound

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
        rows, exact = np.ascontiguousarray(self.lists.rows[kept.ids]), self.lists.rounding
        lists = replace(self._canonical, features=rows, offsets=kept.ends, losses=kept.costs, step=self.granularity)
        lists = replace(lists, rounding=None if exact is None else exact.take(kept.ids))
        incumbent.cost -= kept.fixed
        return SumChoicesSearch(self._choices, lists, incumbent, normals), kept.fixed


class RatioLoss(Loss):
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
    def ratio(self) -> Ratio:
        return self._ratio

    @property
    def least(self) -> int:
        return self._least

    def loss_of(self, cost: int) -> float:
        return self._canonical.loss_of(cost)

    def cost_found(self, bound: int, loss: float) -> int:
        return self._canonical.cost_of_loss(loss)

    def bound_of(self, cost: int) -> int:
        return int(core.height_limit(self._ratio.kind, self._canonical.loss_of(cost)))

    def cost_of(self, bound: int) -> int:
        return max(
            self._least, self._canonical.cost_of_loss(min(1.0, core.loss_of_height(self._ratio.kind, bound * UNIT)))
        )

    def attained(self, weights: FloatArray, cost: int) -> int | None:
        found = self._canonical.attained_cost(CanonicalWeights(weights))
        return cost if found is not None and found <= cost else None

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


def loss_for(choices: Choices, canonical: Canonical, incumbent: Incumbent) -> Loss:
    return SumLoss(choices, canonical) if canonical.additive else RatioLoss(choices, canonical, incumbent.weights)
