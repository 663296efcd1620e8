"""Whether the pool speaks for the decoder: what it would choose at the decoder's weights, beside what the decoder did.

A pool is a model of the decoder. It fails where the decoder's scores for the same words differ between decodings, where
the decoder prunes what its own model prefers, or where what it shows is not its best hypothesis. Then the optimum of
the pool says little about the decoder.
"""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray
from lpmert.looping.decoder import Decoded
from lpmert.looping.looped import Consistency
from lpmert.looping.measure import Measure, own_texts
from lpmert.looping.pool import Pool
from lpmert.model.problem import Problem

_ROUNDING = 1e-9
"""Of the largest score: what two scores of the same hypothesis may differ by."""

_PARTED = 0.1
_FEWEST = 5
"""Share of the decoder's loss, and lists, by which the pool may be wrong before a warning."""


def consistency(pool: Pool, problem: Problem, decoded: Decoded, measure: Measure, weights: FloatArray) -> Consistency:
    """Return how a pool and a decoding with weights [D] fit; problem: the pool's lists, decoded: with statistics."""
    lists = problem.nbest
    found = problem.evaluate(weights)
    rows = lists.offsets[:-1] + found.selection
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
    spread = pool.spread
    return Consistency(
        lists=lists.n_lists,
        own_differs=differs,
        search_errors=errors,
        pool_loss=found.loss,
        own_loss=measure.own(decoded, decoded.lists, {*lists.list_ids}).loss,
        words=pool.n_words,
        equal_words=0 if spread is None else spread.words,
        spread=0.0 if spread is None else spread.median,
        feature="" if spread is None else spread.feature,
    )


def warning(found: Consistency, policy: str) -> str | None:
    """Return what to say where decoder and pool part, and what to do about it; policy: of the pool, for equal words."""
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
