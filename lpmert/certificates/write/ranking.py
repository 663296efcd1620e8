"""Write the certificate of a ranking: the tree of cones that its search went through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from lpmert.certificates.check.ranking import Measure, roots
from lpmert.certificates.format import RankingHeader, Record
from lpmert.certificates.write.certify import certificate_writer
from lpmert.errors import FloatArray, IntArray
from lpmert.model.judged import Judged

CLOSED: Record = {}


@dataclass(frozen=True)
class Tree:
    """How a search divided cones of weights for features divided by powers of two, the `exponents`.

    bound: what no weights exceed, by this tree. splits [n, 4]: the number of a cone, that of the first of its parts,
    and the rays above and below; shares [n] of the former in the new ray, which takes the place of the latter in the
    first part. leaves: records of what is below a cone that was divided in exact arithmetic.
    """

    nonnegative: bool
    exponents: dict[str, int]
    bound: float
    splits: IntArray
    shares: FloatArray
    leaves: dict[int, list[Record]]

    def records(self) -> Iterator[Record]:
        """Yield the records of the tree, each before those of its parts."""
        rows = {row[0]: i for i, row in enumerate(self.splits.tolist())}
        waiting = list(range(len(roots(len(self.exponents), self.nonnegative))))[::-1]
        while waiting:
            number = waiting.pop()
            if number not in rows:
                yield from self.leaves.get(number, [CLOSED])
                continue
            _, first, above, below = self.splits[rows[number]].tolist()
            share, whole = float(self.shares[rows[number]]).as_integer_ratio()
            yield {"split": [above, below, share, whole - share]}
            waiting += [first + 1, first]


def write_certificate_of_ranking(path: str | Path, lists: Judged, metric: str, weights: FloatArray, tree: Tree) -> None:
    """Write what weights [D] reach at least, and that none reach more than the bound of a tree.

    Raises `DataError` if the file cannot be written.
    """
    by_name = dict(zip(lists.names, np.asarray(weights, dtype=np.float64).tolist(), strict=True))
    score = Measure(lists, metric).reached(by_name)
    bound = max(Fraction(tree.bound), score)
    header = RankingHeader(metric, lists.fingerprint, score, bound, tree.nonnegative, by_name, tree.exponents)
    with certificate_writer(path, header) as write:
        for record in tree.records():
            write(record)
