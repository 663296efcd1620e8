"""The pool of all hypotheses that a decoder has given so far: how well both agree, and the step to the next weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lpmert.api import Searches
from lpmert.errors import DataError, FloatArray, RegionError
from lpmert.limits import Deadline
from lpmert.looping.decoders import Decoded, own_texts
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Iteration, Stabilised
from lpmert.metrics.base import Metric
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region, limits_of
from lpmert.quoting import listed, quoted
from lpmert.search.incumbent import in_scale_of, normalised
from lpmert.search.method import Method

POLICIES = ("all", "latest")  # which hypotheses with equal words count: all, or those of the last decoding with them
_DECIMALS = 6  # decimals to which features are rounded for comparison; the first features are kept unrounded
Words = tuple[str, str | bytes]  # list id and text of a hypothesis; if there are no texts, its statistics instead


@dataclass
class _Hypothesis:
    features: FloatArray
    statistics: FloatArray
    decoding: int = 0


class Pool:
    """The union of N-best lists from several decodings.

    Hypotheses of a list are the same if their words and their rounded features are.

    Parameters
    ----------
    equal_words : {"all", "latest"}
        Which hypotheses of a list with the same words count: all, or those of the last decoding that gave these words.
        A decoder that prunes may give different features for the same words at other weights.
    """

    def __init__(self, equal_words: str = "all") -> None:
        if equal_words not in POLICIES:
            raise DataError(f"equal_words must be one of {listed(POLICIES)}, not {quoted(equal_words)}")
        self.equal_words = equal_words
        self._known: dict[Words, dict[bytes, _Hypothesis]] = {}
        self._decodings = 0
        self._last: NBest | None = None

    def add(self, lists: NBest) -> int:
        """Add the lists of a decoding.

        Parameters
        ----------
        lists : NBest
            The lists, with texts or with statistics.

        Returns
        -------
        int
            Number of new hypotheses.

        Raises
        ------
        DataError
            If features or statistics have other names than before, or only one of both has texts.
        """
        if self._last is not None and _columns(self._last) != _columns(lists):
            raise DataError("the pool's lists have other features, statistics or no texts; read all in the same way")
        self._last, self._decodings = lists, self._decodings + 1
        new = 0
        ids = np.repeat(np.array(lists.list_ids, dtype=object), np.diff(lists.offsets)).tolist()
        every = lists.texts if lists.texts is not None else [row.tobytes() for row in lists.statistics]
        for name, words, row, statistics in zip(ids, every, lists.dense_features(), lists.statistics, strict=True):
            known = self._known.setdefault((name, words), {})
            key = (np.round(row, _DECIMALS) + 0.0).tobytes()
            new += key not in known
            known.setdefault(key, _Hypothesis(row, statistics)).decoding = self._decodings
        return new

    @property
    def list_ids(self) -> tuple[str, ...]:
        """The lists that have hypotheses."""
        return tuple(dict.fromkeys(name for name, _ in self._known))

    def lists(self) -> NBest:
        """Return the pooled lists, with the hypotheses that count by `equal_words`."""
        if self._last is None:
            raise DataError("the pool is empty; add lists to it first")
        place = {name: number for number, name in enumerate(self.list_ids)}
        counting: list[tuple[Words, _Hypothesis]] = []
        for words, known in sorted(self._known.items(), key=lambda item: place[item[0][0]]):
            last = 0 if self.equal_words == "all" else max(one.decoding for one in known.values())
            counting += [(words, one) for one in known.values() if one.decoding >= last]
        sizes = Counter(name for (name, _), _ in counting)
        return NBest(
            np.array([one.features for _, one in counting]),
            np.cumsum([0, *sizes.values()]),
            np.array([one.statistics for _, one in counting]),
            self._last.names,
            tuple(sizes),
            self._last.statistic_names,
            None if self._last.texts is None else [str(text) for (_, text), _ in counting],
        )

    @property
    def spread(self) -> tuple[int, int, float, str]:
        """How many words the lists have; how many of these came with several features; their spread in the feature that
        differs most, as the median of the maximum minus the minimum; and its name. 0 and empty if there are none.
        """
        every = self._known.values()
        several = [np.ptp([one.features for one in known.values()], axis=0) for known in every if len(known) > 1]
        if not several or self._last is None or self._last.texts is None:
            return len(every), 0, 0.0, ""
        medians = np.median(several, axis=0)
        most = int(np.argmax(medians))
        return len(every), len(several), float(medians[most]), self._last.names[most]


def _columns(lists: NBest) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    return lists.names, lists.statistic_names, lists.texts is None


@dataclass(frozen=True)
class Consistency:
    """How well pool and decoder agree at the weights of one decoding.

    Parameters
    ----------
    lists : int
        Number of lists in the pool.
    own_differs : int
        Number of lists in which the decoder's own output differs from the words of the pool's best hypothesis.
    search_errors : int
        Number of lists in which the pool has a hypothesis with a higher score than all of this decoding.
    pool_loss, own_loss : float
        Loss of the pool's best hypotheses, and of the decoder's own outputs for the same lists.
    words : int
        Number of different words, summed over lists.
    equal_words : int
        How many of these came with several features.
    spread : float
        The median difference between these features, in the feature for which it is largest.
    feature : str
        The name of that feature; empty if there is none.
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


_ROUNDING = 1e-9  # maximum difference between two scores of the same hypothesis, relative to the largest score
_MOST_GAP, _FEWEST_LISTS = 0.1, 5  # share by which losses, and lists in which pool and decoder differ before a warning


def consistency(pool: Pool, problem: Problem, decoded: Decoded, own_loss: float, weights: FloatArray) -> Consistency:
    """Return how well a pool and a decoding with weights [D] agree.

    problem: on the pool's lists. own_loss: of the decoder's own outputs for these lists.
    """
    lists = problem.nbest
    found = problem.evaluate(weights)
    rows = lists.rows_of(found.selection)
    differs = 0
    if lists.texts is not None:
        own = own_texts(decoded)
        chosen = zip(lists.list_ids, rows.tolist(), strict=True)
        differs = sum(own.get(name, "").split() != lists.texts[row].split() for name, row in chosen)
    scores, decoded_scores = lists.dense_features() @ weights, decoded.lists.dense_features() @ weights
    maxima = np.maximum.reduceat(decoded_scores, decoded.lists.offsets[:-1])
    best = dict(zip(decoded.lists.list_ids, maxima.tolist(), strict=True))
    margin = _ROUNDING * float(np.abs(scores).max(initial=0.0))
    pooled = zip(lists.list_ids, scores[rows].tolist(), strict=True)
    errors = sum(score > best.get(name, -np.inf) + margin for name, score in pooled)
    return Consistency(lists.n_lists, differs, errors, found.loss, own_loss, *pool.spread)


def warning(found: Consistency, policy: str) -> str | None:
    """Return a warning with remedies if decoder and pool disagree; policy: the pool's `equal_words`."""
    gap = abs(found.own_loss - found.pool_loss)
    if gap <= _MOST_GAP * max(found.own_loss, found.pool_loss):
        return None
    if found.own_differs + found.search_errors < _FEWEST_LISTS:
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


_OUTSIDE = 1e-12  # tolerance for limits of a region, relative to the sum of the absolute terms
_SAME = 1e-9  # weights of Euclidean length 1 count as the same if their entries differ by at most this


@dataclass(frozen=True)
class Step:
    """The weights of the next decoding.

    loss, lower_bound: on the pool, within an angle in degrees, `None` for no limit. stays: the step ends where it
    started, because no better weights were found on the pool or the method chose the same again; proved: no weights are
    better. optima [n, D]: where later steps of a method that remembers start.
    """

    weights: Mapping[str, float]
    loss: float
    lower_bound: float | None
    angle: float | None
    stays: bool
    seconds: float
    optima: Sequence[Sequence[float]] = ()
    proved: bool = False


@dataclass(frozen=True)
class Stepping:
    """Makes steps, each a search of at most so many seconds.

    first: the weights of the first decoding, which set the scale. steps: those so far. Raises `RegionError` if the
    first weights are outside the region, or differ from its fixed weights.
    """

    searches: Searches
    seconds: float | None
    region: Region | None
    first: Mapping[str, float]
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        region, weights = self.region or Region(), vector_of(self.first)
        cone = limits_of(region, [*self.first])
        for name, value in region.fixed.items():
            if self.first[name] != value:
                was = f"the first weights have {self.first[name]:g}"
                raise RegionError(f"the region fixes {name} at {value:g}, but {was}")
        for rows, labels, both in ((cone.rows, cone.labels, False), (cone.equations, cone.equation_labels, True)):
            products, terms = rows @ weights, np.abs(rows) @ np.abs(weights)
            beyond = -np.abs(products) if both else products
            for label, product, most in zip(labels, beyond.tolist(), terms.tolist(), strict=True):
                if product < -_OUTSIDE * most:
                    raise RegionError(f"the first weights are outside the region: {label} does not hold for them")

    def reason_to_stay(self, step: Step) -> str:
        where = "on the pool" + ("" if step.angle is None else " within the last angle")
        if not self.searches.method.minimises:
            return f"the search ended at the same weights {where}"
        if step.proved:
            return f"no weights are better {where}"
        bound = "" if step.lower_bound is None else f", where all cost at least {step.lower_bound:.7g}"
        return f"no better weights were found {where}{bound}"

    def within(self, angle: float | None) -> Method:
        """Return the method that searches within an angle in degrees: `auto` if the own method cannot."""
        return self.searches.method if angle is None or self.searches.method.takes_caps else Auto()

    def step(self, lists: NBest, metric: Metric, start: FloatArray, angle: float | None) -> Step:
        """Search the lists of a pool from weights [D], within an angle in degrees if there is one."""
        clock, names, region = Deadline(), lists.names, self.region
        if angle is not None:
            around = dict(zip(names, start.tolist(), strict=True))
            region = replace(region or Region(), cosine=math.cos(math.radians(angle)), around=around)
        problem = Problem(lists, metric, region=region)
        before = problem.evaluate(start).loss
        earlier, method = [Iteration(normalised(vector_of(self.first)), ())], self.within(angle)
        for step in self.steps:
            earlier.append(Iteration(normalised(vector_of(step.weights)), tuple(map(np.array, step.optima))))
        if isinstance(method, Stabilised):
            method = replace(method, earlier=earlier)
        searches = replace(self.searches, method=method)
        found = searches.solve(problem, None, problem.checked_weights(start), time_limit=self.seconds)
        weights, loss = problem.checked_weights(found.weights), found.loss
        if not self.searches.method.minimises:
            stays = bool(np.allclose(_direction(weights), _direction(start), rtol=0.0, atol=_SAME))
        else:  # with other weights that are equally good, the loop would wander
            stays = not loss < before
        if stays:
            scaled, loss = start, before
        else:  # to the fixed values of the region, or else to the norm of the first weights: decoders prune by scores
            scaled = in_scale_of(self.region, names, weights)
            norm, own = np.abs(vector_of(self.first)).sum(), np.abs(weights).sum()
            if scaled is weights and norm and own:
                scaled = weights * (norm / own)
        by_name = dict(zip(names, np.asarray(scaled).tolist(), strict=True))
        optima = [one.tolist() for one in earlier[-1].optima]
        return Step(by_name, loss, found.lower_bound, angle, stays, clock.seconds, optima, found.status.proved)


def angle_between(one: FloatArray, other: FloatArray) -> float:
    """Return the angle between two weight vectors [D] in degrees, by arctan, which is accurate for small angles."""
    a, b = _direction(one), _direction(other)
    return math.degrees(2.0 * math.atan2(float(np.linalg.norm(a - b)), float(np.linalg.norm(a + b))))


def _direction(weights: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(weights))
    return weights / norm if norm else weights


def vector_of(weights: Mapping[str, float]) -> FloatArray:
    return np.array([*weights.values()], dtype=np.float64)
