"""The possible winners of lattices that have few of them, as lists; each hypothesis is stored once for all cones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem

Way = NDArray[np.int32]  # the links of a path


class Catalogue:
    """Hypotheses of all lattices, by permanent numbers: features [n, e], statistics [n, K], and `ways`, their links.

    numbers: the lattice of each hypothesis. Of the hypotheses of a lattice with the same features, the first link by
    link represents all.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        self._problem = problem
        self._ids: list[dict[bytes, int]] = [{} for _ in problem.graphs]
        self.features = np.empty((256, problem.exact_graphs[0].features.shape[1]))
        self.statistics = np.empty((256, len(problem.settings.columns)))
        self.ways: list[Way] = []
        self.numbers: list[int] = []

    def add(self, number: int, way: NDArray[np.integer], row: FloatArray | None = None) -> int:
        """Return the number of a hypothesis of lattice `number`, added if new; row [e]: its features, if known."""
        links: Way = way.astype(np.int32, copy=False)
        row = self._problem.exact_graphs[number].features[way].sum(axis=0) + 0.0 if row is None else row
        known = self._ids[number].get(row.tobytes())
        if known is not None:
            earlier = self.ways[known]
            if earlier.tobytes() == links.tobytes() or earlier.tolist() <= links.tolist():
                return known
        new = len(self.ways)
        if new == len(self.features):
            self.features = np.concatenate([self.features, np.empty_like(self.features)])
            self.statistics = np.concatenate([self.statistics, np.empty_like(self.statistics)])
        self.features[new], self.statistics[new] = row, self._problem.statistics(number, links)
        self.ways.append(links)
        self.numbers.append(number)
        self._ids[number][row.tobytes()] = new
        return new

    def add_winners(self, verdict: Verdict) -> bool:
        """Add the winners of a verdict, and return whether one of them is new."""
        before = len(self)
        for number in range(len(verdict.winners)):
            for way in verdict.ways(number):
                self.add(number, way)
        return len(self) > before

    def as_lists(self) -> Problem:
        """Return the problem on N-best lists of all hypotheses, ordered link by link."""
        problem, lattices = self._problem, self._problem.lattices
        ids = self._sorted(own.values() for own in self._ids)
        features = problem.features_of([(self.numbers[known], self.ways[known]) for known in ids.tolist()])
        offsets, columns = np.cumsum([0, *map(len, self._ids)]), problem.settings.columns
        nbest = NBest(features, offsets, self.statistics[ids], lattices.names, lattices.list_ids, columns)
        return Problem(nbest, problem.metric, region=problem.region)

    def _sorted(self, lists: Iterable[Iterable[int]]) -> IntArray:
        ordered = (sorted(ids, key=lambda known: self.ways[known].tolist()) for ids in lists)
        return np.array([known for ids in ordered for known in ids], dtype=np.int64)

    def in_order(self, lists: Lists) -> Lists:
        bounds = pairwise(lists.ends.tolist())
        return lists._replace(ids=self._sorted(lists.ids[a:b].tolist() for a, b in bounds))

    def losses(self, ids: IntArray) -> IntArray:
        return np.asarray(self.statistics[ids, 0].astype(np.int64) if self._problem.additive else np.zeros_like(ids))

    def __len__(self) -> int:
        """Return the number of hypotheses, counting those with the same features once."""
        return sum(map(len, self._ids))


class Lists(NamedTuple):
    """List a holds the hypotheses ids[ends[a]] .. ids[ends[a + 1] - 1] of a catalogue, all of lattice numbers[a]."""

    numbers: IntArray
    ends: IntArray
    ids: IntArray

    def joined(self, others: dict[int, IntArray]) -> Lists:
        lengths = [len(ids) for ids in others.values()]
        return Lists(
            np.concatenate([self.numbers, np.array(list(others), dtype=np.int64)]),
            np.concatenate([self.ends, self.ends[-1] + np.cumsum(lengths, dtype=np.int64)]),
            np.concatenate([self.ids, *others.values()]),
        )

    def split(self) -> dict[int, IntArray]:
        ids = [self.ids[begin:end] for begin, end in pairwise(self.ends.tolist())]
        by_lattice = dict(zip(self.numbers.tolist(), ids, strict=True))
        return dict(sorted(by_lattice.items()))


def no_lists() -> Lists:
    return Lists(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))
