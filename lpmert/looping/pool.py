"""All hypotheses that a decoder has given so far, and how well the two agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.looping.decoder import Decoded, Measure, own_texts
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.quoting import listed, quoted

POLICIES = ("all", "latest")
"""What counts of equal words in a list: all their features, or those of the last decoding that gave them."""

_DECIMALS = 6
"""To which features are rounded when they are compared; those that came first are kept as they are."""

Words = tuple[str, str | bytes]
"""List and text of a hypothesis; without texts, its statistics stand for them."""


class Growth(NamedTuple):
    """What a decoding added: hypotheses, words not seen before in their list, and how many lists got any of these."""

    hypotheses: int
    words: int
    lists: int


@dataclass
class _Hypothesis:
    features: FloatArray
    statistics: FloatArray
    decoding: int


class Pool:
    """The union of N-best lists; hypotheses of a list are the same if their words and their rounded features are.

    Parameters
    ----------
    equal_words : {"all", "latest"}
        What counts of hypotheses of a list with equal words: a decoder that prunes may give other features for the
        same words at other weights.
    """

    def __init__(self, equal_words: str = "all") -> None:
        if equal_words not in POLICIES:
            raise DataError(f"equal_words must be one of {listed(POLICIES)}, not {quoted(equal_words)}")
        self.equal_words = equal_words
        self._lists: dict[str, dict[str | bytes, dict[bytes, _Hypothesis]]] = {}
        self._decodings = 0
        self._like: NBest | None = None

    def add(self, lists: NBest) -> Growth:
        """Add the lists of one decoding, and return what was new in them.

        Raises `DataError` where features or statistics have other names than before, or texts are there only now.
        """
        like = self._like
        if like is not None and (like.names, like.statistic_names, like.texts is None) != (
            lists.names,
            lists.statistic_names,
            lists.texts is None,
        ):
            raise DataError("the pool's lists have other features, statistics or no texts; read all in the same way")
        self._like, self._decodings = lists, self._decodings + 1
        hypotheses, new, grown = 0, 0, set()
        for (name, words), row, statistics in zip(
            words_of(lists), lists.dense_features(), lists.statistics, strict=True
        ):
            known = self._lists.setdefault(name, {}).setdefault(words, {})
            if not known:
                new += 1
                grown.add(name)
            key = (np.round(row, _DECIMALS) + 0.0).tobytes()
            if key not in known:
                hypotheses += 1
                known[key] = _Hypothesis(row, statistics, self._decodings)
            known[key].decoding = self._decodings
        return Growth(hypotheses, new, len(grown))

    @property
    def list_ids(self) -> tuple[str, ...]:
        """The lists that have hypotheses."""
        return tuple(self._lists)

    def lists(self) -> NBest:
        """Return the pooled lists, with equal words treated by the policy."""
        if self._like is None:
            raise DataError("the pool is empty; add lists to it first")
        features, statistics, texts, sizes = [], [], [], []
        for by_words in self._lists.values():
            size = 0
            for words, known in by_words.items():
                last = max(one.decoding for one in known.values())
                counting = [one for one in known.values() if self.equal_words == "all" or one.decoding == last]
                features += [one.features for one in counting]
                statistics += [one.statistics for one in counting]
                texts += [words] * len(counting)
                size += len(counting)
            sizes.append(size)
        return NBest(
            np.array(features),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.array(statistics),
            self._like.names,
            tuple(self._lists),
            self._like.statistic_names,
            None if self._like.texts is None else [str(words) for words in texts],
        )

    @property
    def n_words(self) -> int:
        """How many different words all lists have together."""
        return sum(map(len, self._lists.values()))

    @property
    def spread(self) -> tuple[int, float, str]:
        """How many words of a list came with several features; over these, the median of the greatest less the least
        value of the feature that differs most; and which that is. 0 and empty where each has the same every time.
        """
        several = [
            np.ptp([one.features for one in known.values()], axis=0)
            for by_words in self._lists.values()
            for known in by_words.values()
            if len(known) > 1
        ]
        if not several or self._like is None or self._like.texts is None:
            return 0, 0.0, ""
        medians = np.median(several, axis=0)
        most = int(np.argmax(medians))
        return len(several), float(medians[most]), self._like.names[most]


def words_of(lists: NBest) -> Iterator[Words]:
    """Yield list and words of each hypothesis; without texts, its statistics stand for them."""
    ids = np.repeat(np.array(lists.list_ids, dtype=object), np.diff(lists.offsets)).tolist()
    words = lists.texts if lists.texts is not None else [row.tobytes() for row in lists.statistics]
    return zip(ids, words, strict=True)


@dataclass(frozen=True)
class Consistency:
    """How well pool and decoder agree, at the weights of one decoding.

    own_differs: lists in which the decoder shows other words than those of the pool's best hypothesis; search_errors:
    lists in which the pool has a better hypothesis than all that the decoder gave this time; pool_loss and own_loss: of
    the pool's best hypotheses, and of the decoder's own outputs for the same lists, which are `lists`. equal_words:
    words of a list that came with several features, of all the `words`; spread: the median difference between these in
    `feature`, where it is largest; 0 and empty where all are equal.
    """

    lists: int
    own_differs: int
    search_errors: int
    pool_loss: float
    own_loss: float
    words: int
    equal_words: int
    spread: float
    feature: str


_ROUNDING = 1e-9
"""Of the largest score: what two scores of the same hypothesis may differ by."""

_PARTED = 0.1
_FEWEST = 5
"""Share of the decoder's loss, and lists, by which the pool may be wrong before a warning."""


def consistency(pool: Pool, problem: Problem, decoded: Decoded, measure: Measure, weights: FloatArray) -> Consistency:
    """Return how a pool and a decoding with weights [D] fit; problem: the pool's lists, decoded: with statistics."""
    lists = problem.nbest
    found = problem.evaluate(weights)
    rows = lists.rows_of(found.selection)
    differs = 0
    if lists.texts is not None:
        own = own_texts(decoded)
        differs = sum(
            own.get(name, "").split() != lists.texts[row].split()
            for name, row in zip(lists.list_ids, rows.tolist(), strict=True)
        )
    scores, given = lists.dense_features() @ weights, decoded.lists.dense_features() @ weights
    best = dict(
        zip(decoded.lists.list_ids, np.maximum.reduceat(given, decoded.lists.offsets[:-1]).tolist(), strict=True)
    )
    margin = _ROUNDING * float(np.abs(scores).max(initial=0.0))
    pooled = zip(lists.list_ids, scores[rows].tolist(), strict=True)
    errors = sum(score > best.get(name, -np.inf) + margin for name, score in pooled)
    equal_words, spread, feature = pool.spread
    return Consistency(
        lists=lists.n_lists,
        own_differs=differs,
        search_errors=errors,
        pool_loss=found.loss,
        own_loss=measure.own(decoded, {*lists.list_ids}).loss,
        words=pool.n_words,
        equal_words=equal_words,
        spread=spread,
        feature=feature,
    )


def warning(found: Consistency, policy: str) -> str | None:
    """Return a warning and remedies where decoder and pool disagree; policy: of the pool, for equal words."""
    parted = abs(found.own_loss - found.pool_loss)
    if parted <= _PARTED * max(found.own_loss, found.pool_loss) or found.own_differs + found.search_errors < _FEWEST:
        return None
    remedies = []
    if found.equal_words:
        remedies.append(
            f"{found.equal_words:,} of {found.words:,} outputs came with several features (spread {found.spread:.3g} "
            f"in {found.feature}): let the decoder prune less"
            + ("" if policy == "latest" else ', or keep those of the last decoding (equal_words="latest")')
        )
    if found.search_errors:
        remedies.append(
            f"in {found.search_errors:,} of {found.lists:,} lists the decoder missed a hypothesis that its own model "
            "prefers: widen its beam, or narrow the region of the weights"
        )
    if found.own_differs > found.search_errors:
        remedies.append(
            f"in {found.own_differs:,} of {found.lists:,} lists it shows other words than the best of the pool: check "
            "that the features and weights are those that it decodes with"
        )
    return (
        f"the decoder's outputs cost {found.own_loss:g}, but by the pool they would cost {found.pool_loss:g} at the "
        f"same weights; {'; '.join(remedies)}"
    )
