"""The hypotheses that may win of those lattices that have few of them, as lists: each kept once for all cones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import IntArray
from lpmert.methods.lattice.kernels import compare_with_all
from lpmert.methods.lattice.mixtures import drop_mixed
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric.kernels import EPSILON, kernel

Way = NDArray[np.int32]


class Catalogue:
    """Hypotheses of all lattices, by numbers that stay: features [n, d], statistics [n, K], and ways, their links.

    Of those of a lattice with the same features the first stands for all.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        self._problem = problem
        self._ids: list[dict[bytes, int]] = [{} for _ in problem.graphs]
        self.features = np.empty((256, problem.canonical.n_features))
        self.statistics = np.empty((256, len(problem.settings.columns)))
        self.ways: list[Way] = []

    def add(self, number: int, way: NDArray[np.integer]) -> int:
        """Return the number of a hypothesis of lattice `number`."""
        row = self._problem.graphs[number].features[way].sum(axis=0) + 0.0
        key = row.tobytes()
        known = self._ids[number].get(key)
        if known is not None and self.ways[known].tolist() <= way.tolist():
            return known
        new = len(self.ways)
        if new == len(self.features):
            self.features = np.concatenate([self.features, np.empty_like(self.features)])
            self.statistics = np.concatenate([self.statistics, np.empty_like(self.statistics)])
        self.features[new], self.statistics[new] = row, self._problem.statistics(number, way)
        self.ways.append(way.astype(np.int32))
        self._ids[number][key] = new
        return new

    def losses(self, ids: IntArray) -> IntArray:
        """Return the losses [n] of hypotheses where these are additive, and else 0 for each."""
        return np.asarray(self.statistics[ids, 0].astype(np.int64) if self._problem.additive else np.zeros_like(ids))

    def of_lattice(self, number: int) -> list[Way]:
        """Return the ways of the hypotheses of a lattice."""
        return [self.ways[known] for known in self._ids[number].values()]

    def __len__(self) -> int:
        """Return how many there are, of paths with the same features one."""
        return sum(map(len, self._ids))


class Lists(NamedTuple):
    """The hypotheses ids[ends[a]] .. ids[ends[a + 1] - 1] of lattice numbers[a], by their numbers in a catalogue."""

    numbers: IntArray
    ends: IntArray
    ids: IntArray

    def joined(self, others: dict[int, IntArray]) -> Lists:
        """Return these lists with those of other lattices after them."""
        lengths = [len(ids) for ids in others.values()]
        return Lists(
            np.concatenate([self.numbers, np.array(list(others), dtype=np.int64)]),
            np.concatenate([self.ends, self.ends[-1] + np.cumsum(lengths, dtype=np.int64)]),
            np.concatenate([self.ids, *others.values()]),
        )

    def split(self) -> dict[int, IntArray]:
        """Return the hypotheses by the number of their lattice, in the order of these numbers."""
        own = dict(zip(self.numbers.tolist(), np.split(self.ids, self.ends[1:-1]), strict=True))
        return dict(sorted(own.items()))


def no_lists() -> Lists:
    """Return none."""
    return Lists(np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))


@kernel(nogil=True, allocates=True)
def narrow(features, lists, rays, reach, game, kept, scores, middle):
    """Drop the hypotheses of lists that others of their list beat at every ray of a cone.

    features: of the catalogue; reach [S, D] bounds scores of lattices at the rays. Fills kept, which is like lists, the
    scores [n, D] of its hypotheses, and middle [m]: which is the best of each list in the middle of the cone.
    """
    numbers, ends, ids = lists
    n_rays, n_features = rays.shape
    longest = 1
    for a in range(len(numbers)):
        longest = max(longest, ends[a + 1] - ends[a])
    rows, own, dead = np.empty((longest, n_features)), np.empty((longest, n_rays)), np.empty(longest, dtype=np.bool_)
    tolerance = np.empty(n_rays)
    n = 0
    kept.ends[0] = 0
    for a in range(len(numbers)):
        begin, size = ends[a], ends[a + 1] - ends[a]
        for r in range(n_rays):
            tolerance[r] = 2.0 * (n_rays + 2) * EPSILON * reach[numbers[a], r]
        likely = -1
        for i in range(size):
            for d in range(n_features):
                rows[i, d] = features[ids[begin + i], d]
            for r in range(n_rays):
                score = 0.0
                for d in range(n_features):
                    score += rows[i, d] * rays[r, d]
                own[i, r] = score
            likely = compare_with_all(rows, own, dead, np.int64(0), i, likely, rays, tolerance)
            dead[i] = likely >= 0
        drop_mixed(rows, own, dead, np.int64(0), size, rays, game)
        top = -np.inf
        for i in range(size):
            if dead[i]:
                continue
            score = 0.0
            for r in range(n_rays):
                scores[n, r] = own[i, r]
                score += own[i, r]
            if score > top:
                top, middle[a] = score, ids[begin + i]
            kept.ids[n] = ids[begin + i]
            n += 1
        kept.numbers[a] = numbers[a]
        kept.ends[a + 1] = n


@kernel
def spreads(scores, ends, totals):
    """Add for each ray the range of the scores [n, D] of each list to totals [D]."""
    for a in range(len(ends) - 1):
        for r in range(len(totals)):
            low, high = np.inf, -np.inf
            for i in range(ends[a], ends[a + 1]):
                low, high = min(low, scores[i, r]), max(high, scores[i, r])
            totals[r] += high - low


@kernel(allocates=True)
def stakes(scores, ends, scale, stake):
    """Add up in stake [D, D], for p > q, by how much the winners of each list at two rays fall short of the best scores
    where they tie, were scores, divided by scale [D], the only ones.
    """
    n_rays = len(scale)
    best = np.empty(n_rays, dtype=np.int64)
    for a in range(len(ends) - 1):
        for r in range(n_rays):
            top = -np.inf
            for i in range(ends[a], ends[a + 1]):
                if scores[i, r] > top:
                    top, best[r] = scores[i, r], i
        for p in range(n_rays):
            for q in range(p):
                gain = (scores[best[p], p] - scores[best[q], p]) / scale[p]
                other = (scores[best[q], q] - scores[best[p], q]) / scale[q]
                if gain > 0.0 and other > 0.0:
                    stake[p, q] += gain * other / (gain + other)
