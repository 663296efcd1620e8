"""Warnings about lists and losses with which the search would answer a question that the user did not ask.

Each warning states a fact about the data that is rarely an accident, and a remedy. Decoders put their best hypothesis
first, so the order of lists shows which losses are better; the signs of features do not, because features may be costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.model.nbest import NBest
from lpmert.model.presolve import group_identical
from lpmert.numeric.lists import (
    blocks_of_lists,
    first_best,
    from_sizes,
    least_and_most,
    list_numbers,
    rows_of_lists,
)
from lpmert.quoting import quoted
from lpmert.result import Diagnostic

_GAINS = re.compile(
    "correct|right|accuracy|acc|gain|reward|utility|bleu|chrf|comet|bleurt|bertscore|rouge|meteor|f1|precision|recall|"
    "ndcg|mrr|quality|rating|preference|preferred|passed|success|hits?|wins?|chosen|choice|scores?"
)
_LOSSES = re.compile("loss|losses|errors?|err|wer|cer|ter|mer|edits|costs?|penalty|wrong|risk|regret")
"""Words in column names that say whether higher is better (`_GAINS`) or lower."""

_WORD = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*")
_TURNED = re.compile(r"\s*(1\s*-|-|(1_?)?minus|neg|negative|inverse)[ _-]*")

_EVIDENCE = 20  # coincidences from which on a feature is called a function of the loss
_SAME = 1e-9  # relative rounding allowed in that function

_TRIED_LISTS = 200  # lists on which features are looked at before all lists are
_PERFECT_LISTS, _PERFECT_SHARE = 20, 0.1  # fewer lists, or a smaller share of the spread of losses, prove nothing
_FEWEST_LISTS = 5
_POSITIONS, _FEWEST_POSITIONS = 20, 8  # places in the lists whose mean losses are compared
_TABLE = 1 << 16  # lists whose first places are compared at a time, to bound memory
_DEVIATIONS, _TREND = 6.0, -0.7  # how clearly the first places must be worse, and the losses fall from there

_EFFECT = 0.5
"""In standard deviations within lists. Pooled runs of a tuning reach a quarter, because early runs had bad weights."""


def data_warnings(nbest: NBest, metric: Metric, losses: FloatArray | None, n_lists: int) -> tuple[Diagnostic, ...]:
    """Return warnings about lists and their losses [M], if additive; n_lists: on which weights matter."""
    nothing = None if n_lists else _nothing_to_choose(nbest, losses)
    if nothing is not None or losses is None:
        return () if nothing is None else (nothing,)
    return (*_leaks(nbest, losses), *_orientation(nbest, metric, losses))


def too_good(nbest: NBest, losses: FloatArray, selection: IntArray) -> Diagnostic | None:
    """Return a warning if a selection [S] gives every list its least loss, unless classes are separable."""
    low, high = least_and_most(losses, nbest.offsets)
    chosen = losses[nbest.rows_of(selection)]
    varied = high > low
    mean = np.add.reduceat(losses, nbest.offsets[:-1]) / np.diff(nbest.offsets)
    if (
        (chosen > low).any()
        or varied.sum() < _PERFECT_LISTS
        or (mean - low).sum() < _PERFECT_SHARE * (high - low).sum()
        or _one_right(losses, nbest.offsets)
    ):
        return None
    remedy = "if higher is better, pass the column as --gain (gain=); if a feature is made of the loss, leave it out"
    perfect = f"each of {varied.sum():,} lists gets its least loss, which hardly ever happens with real losses"
    return Diagnostic("too-good", f"{perfect}: {remedy}")


def _nothing_to_choose(nbest: NBest, losses: FloatArray | None) -> Diagnostic | None:
    """Return a warning that says why no choice changes the loss, `None` if that is not due to the lists alone."""
    low, high = least_and_most(nbest.statistics if losses is None else losses[:, None], nbest.offsets)
    same_loss = (low == high).all(axis=1)
    first, last = least_and_most(group_identical(nbest.dense_features(), nbest.offsets), nbest.offsets)
    same_features = first == last
    if (np.diff(nbest.offsets) == 1).all():
        reason = "every list has one hypothesis only: give lists with several, told apart by the column of the list"
    elif same_loss.all():
        reason = "within every list all hypotheses have the same loss: is this the column that tells good from bad?"
    elif same_features.all():
        reason = "within every list all hypotheses have the same features: give features that tell them apart"
    elif (same_loss | same_features).all():
        reason = "in every list the hypotheses have either the same loss or the same features"
    else:
        return None  # the region leaves no choice, or lists cancel each other
    return Diagnostic("nothing-to-choose", f"there is nothing to choose: {reason}")


def _leaks(nbest: NBest, losses: FloatArray) -> Iterator[Diagnostic]:
    """Yield a warning for each feature that is a * loss + b in every list, with a of one sign for all lists."""
    features, offsets = nbest.dense_features(), nbest.offsets
    low, high = least_and_most(losses, offsets)
    varied = np.flatnonzero(high > low)
    sizes = np.diff(offsets)[varied]
    blocks = [varied[lists] for lists, _, _ in blocks_of_lists(from_sizes(sizes))]
    sample, sample_offsets = rows_of_lists(offsets, varied[:_TRIED_LISTS])
    suspects = [
        d for d in range(features.shape[1]) if _sign_of_slope(features[sample, d], losses[sample], sample_offsets)
    ]
    for d in suspects:
        column = features[:, d]
        rows_and_offsets = (rows_of_lists(offsets, lists) for lists in blocks)
        signs = {_sign_of_slope(column[rows], losses[rows], block_offsets) for rows, block_offsets in rows_and_offsets}
        evidence = int(sizes.sum()) - len(varied) - 1
        same = np.array_equal(np.abs(column), np.abs(losses)) and len(np.unique(losses)) > 2
        if signs in ({1}, {-1}) and (evidence >= _EVIDENCE or same):
            reason = "such weights are useless where the loss is unknown"
            orders = (
                f"feature {quoted(nbest.names[d])} alone orders every list by its loss, as if it were computed from it"
            )
            yield Diagnostic("leak", f"{orders}: {reason}; leave it out")


def _sign_of_slope(feature: FloatArray, losses: FloatArray, offsets: IntArray) -> int:
    """Return the sign of a if a feature [m] is a * loss + b in each list, with a of one sign for all, else 0."""
    starts, lists = offsets[:-1], list_numbers(offsets)
    if not len(starts):
        return 0
    at_low, at_high = first_best(-losses, starts), first_best(losses, starts)
    low, high = losses[at_low], losses[at_high]
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are no evidence
        slopes = (feature[at_high] - feature[at_low]) / (high - low)
        if not ((slopes > 0).all() or (slopes < 0).all()):
            return 0
        expected = feature[at_low][lists] + slopes[lists] * (losses - low[lists])
        rounding = _SAME * np.abs(slopes * (high - low))[lists]
        if not (np.isfinite(rounding).all() and (np.abs(feature - expected) <= rounding).all()):
            return 0
    return 1 if slopes[0] > 0 else -1


def _orientation(nbest: NBest, metric: Metric, losses: FloatArray) -> Iterator[Diagnostic]:
    """Yield a warning if the loss looks like a gain, or a gain like a loss: by its name, or by the order of lists."""
    name = nbest.statistic_names[0] if isinstance(metric, SumOfLosses) else ""
    remedy = "if higher is better, pass it as --gain (gain=)"
    if word := _word_in(name, _GAINS, _LOSSES, turned=False):
        said = f": {quoted(word)} sounds as if higher were better, but it was minimised; {remedy}"
    elif word := _word_in(name, _LOSSES, _GAINS, turned=True):  # a loss made of a gain, such as 1 - errors
        said = f": {quoted(word)} sounds as if lower were better, but it was maximised; if so, use --loss"
    elif _one_right(losses, nbest.offsets):
        return
    elif _one_wrong(losses, nbest.offsets):
        said = f": in every list one hypothesis has 1 and all others have 0, the least; {remedy}"
    elif _first_is_worst(losses, nbest.offsets):
        falls = "is greatest for the first hypotheses of the lists and falls from there"
        said = f" {falls}, as if decoders had listed the worst first; {remedy}"
    else:
        return
    yield Diagnostic("orientation", f"the loss {quoted(name)}{said}" if name else f"the loss{said}")


def _word_in(name: str, words: re.Pattern[str], opposites: re.Pattern[str], *, turned: bool) -> str | None:
    """Return the first of words in a name without opposites; turned: whether the name has a prefix such as "1 -"."""
    if bool(_TURNED.match(name)) is not turned:
        return None
    parts = [part.lower() for part in _WORD.findall(name)]
    found = list(filter(words.fullmatch, parts))
    return found[0] if found and not any(map(opposites.fullmatch, parts)) else None


def _one_right(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether in every list one hypothesis has the least loss and all others the same greater one."""
    for _, rows, own in blocks_of_lists(offsets):
        low, high = least_and_most(losses[rows], own)
        best = losses[rows] == low[list_numbers(own)]
        others = best | (losses[rows] == high[list_numbers(own)])
        if not others.all() or (np.add.reduceat(best, own[:-1], dtype=np.int64) != 1).any():
            return False
    return True


def _one_wrong(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether every list has one hypothesis of loss 1 and others, at least two on average, of loss 0."""
    n_lists = len(offsets) - 1
    return (
        n_lists >= _FEWEST_LISTS
        and len(losses) >= 3 * n_lists
        and bool(((losses == 0) | (losses == 1)).all())
        and bool((np.add.reduceat(losses, offsets[:-1]) == 1).all())
    )


def _first_is_worst(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether the loss is greatest at the first place of lists, which are not short, and falls with the place."""
    sizes = np.diff(offsets)
    places = min(_POSITIONS, int(np.median(sizes)) if len(sizes) else 0)
    lists = np.flatnonzero(sizes >= places)
    if places < _FEWEST_POSITIONS or len(lists) < _FEWEST_LISTS:
        return False
    excess = variance = 0.0
    by_place = np.zeros(places)
    for block in np.array_split(lists, -(-len(lists) // _TABLE)):
        table = losses[offsets[block][:, None] + np.arange(places)]
        excess += float((table[:, 0] - table.mean(axis=1)).sum())
        variance += float(table.var(axis=1).sum())
        by_place += table.sum(axis=0)
    ranks = np.argsort(np.argsort(by_place, kind="stable"), kind="stable")
    trend = np.corrcoef(np.arange(places), ranks)[0, 1]
    clear = excess > max(_DEVIATIONS * np.sqrt(variance), _EFFECT * np.sqrt(len(lists) * variance), 0.0)
    return bool(clear and np.argmax(by_place) == 0 and trend <= _TREND)
