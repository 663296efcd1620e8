"""Suspicious lists and losses: the search would answer a question that the user did not mean.

Each warning is a fact about the data that hardly ever holds by accident, and has a remedy. Decoders put their best
hypothesis first, so the order of a list tells which way losses point; signs of features do not, as costs are features
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.findings import Diagnostic
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.model.nbest import NBest
from lpmert.model.presolve import group_identical
from lpmert.numeric.lists import (
    blocks_of_lists,
    first_best,
    from_sizes,
    least_and_most,
    list_numbers,
    of_lists,
    rows_of_lists,
)
from lpmert.quoting import quoted
from lpmert.system.mapped import pieces, released

_GAINS = re.compile(
    "correct|right|accuracy|acc|gain|reward|utility|bleu|chrf|comet|bleurt|bertscore|rouge|meteor|f1|precision|recall|"
    "ndcg|mrr|quality|rating|preference|preferred|passed|success|hits?|wins?|chosen|choice|scores?"
)
_LOSSES = re.compile("loss|losses|errors?|err|wer|cer|ter|mer|edits|costs?|penalty|wrong|risk|regret")
"""Words in names of columns that say which way is better."""

_WORD = re.compile(r"[A-Z]?[a-z]+[0-9]*|[A-Z]+(?![a-z])[0-9]*")
_TURNED = re.compile(r"\s*(1\s*-|-|(1_?)?minus|neg|negative|inverse)[ _-]*")

_EVIDENCE = 20
"""Coincidences before a feature is called a function of the loss."""
_TRIED_LISTS = 200
_SAME = 1e-9

_FEWEST_LISTS = 5
_POSITIONS = 20
_FEWEST_POSITIONS = 8
_TABLE = 1 << 16
"""Lists whose first places are looked at together."""

_DEVIATIONS = 6.0
_TREND = -0.7
_EFFECT = 0.5
"""Standard deviations within lists; runs pooled in a tuning reach a quarter, since the first had the worst weights."""
_PERFECT_LISTS = 20
_PERFECT_SHARE = 0.1


def data_warnings(nbest: NBest, metric: Metric, losses: FloatArray | None, n_lists: int) -> tuple[Diagnostic, ...]:
    """Return what is odd about lists and their losses [M], `None` if the metric is not additive.

    n_lists: how many of the lists there are on which weights matter.
    """
    found = None if n_lists else _nothing_to_choose(nbest, losses)
    if found is not None:
        return (found,)
    if losses is None:
        return ()
    return (*_leaks(nbest, losses), *_orientation(nbest, metric, losses))


def too_good(nbest: NBest, losses: FloatArray, selection: IntArray) -> Diagnostic | None:
    """Return the doubt about a selection [S] that gives every list its least loss, though lists have much worse ones.

    Classes that can be told apart are no such case: there one hypothesis of each list is right.
    """
    low, high = least_and_most(losses, nbest.offsets)
    chosen = losses[nbest.rows_of(selection)]
    released(losses)
    varied = high > low
    chance = of_lists(lambda some, own: np.add.reduceat(some, own[:-1]) / np.diff(own), losses, nbest.offsets)
    if (
        (chosen > low).any()
        or varied.sum() < _PERFECT_LISTS
        or (chance - low).sum() < _PERFECT_SHARE * (high - low).sum()
        or _one_right(losses, nbest.offsets)
    ):
        return None
    return Diagnostic(
        "too-good",
        f"each of {varied.sum():,} lists gets its least loss, which hardly ever happens with real losses: if higher is "
        "better, pass the column as --gain (gain=); if a feature is made of the loss, leave it out",
    )


def _nothing_to_choose(nbest: NBest, losses: FloatArray | None) -> Diagnostic | None:
    worth = nbest.statistics if losses is None else losses[:, None]
    starts = nbest.offsets[:-1]
    if not len(starts):
        return None
    sames = (np.maximum.reduceat(worth, starts) == np.minimum.reduceat(worth, starts)).all(axis=1)
    leader = group_identical(nbest.dense_features(), nbest.offsets)
    alike = np.maximum.reduceat(leader, starts) == np.minimum.reduceat(leader, starts)
    if (np.diff(nbest.offsets) == 1).all():
        reason = "every list has one hypothesis only: give lists with several, told apart by the column of the list"
    elif sames.all():
        reason = "within every list all hypotheses have the same loss: is this the column that tells good from bad?"
    elif alike.all():
        reason = "within every list all hypotheses have the same features: give features that tell them apart"
    elif (sames | alike).all():
        reason = "in every list the hypotheses have either the same loss or the same features"
    else:
        return None  # a region leaves nothing, or parts cancel each other
    return Diagnostic("nothing-to-choose", f"there is nothing to choose: {reason}")


def _leaks(nbest: NBest, losses: FloatArray) -> Iterator[Diagnostic]:
    """Yield a doubt for each feature that is, in every list, a * loss + b, with a of one sign for all lists."""
    features, offsets = nbest.dense_features(), nbest.offsets
    low, high = least_and_most(losses, offsets)
    varied = np.flatnonzero(high > low)
    sizes = np.diff(offsets)[varied]
    parts = [varied[lists] for lists, _, _ in blocks_of_lists(from_sizes(sizes))]
    some, few = rows_of_lists(offsets, varied[:_TRIED_LISTS])
    for d in [d for d in range(features.shape[1]) if _follows(features[some, d], losses[some], few)]:
        column = features[:, d]
        blocks = (rows_of_lists(offsets, lists) for lists in parts)
        ways = {_follows(column[rows], losses[rows], own) for rows, own in blocks}
        evidence = int(sizes.sum()) - len(varied) - 1
        same = np.array_equal(np.abs(column), np.abs(losses)) and len(np.unique(losses)) > 2
        if ways in ({1}, {-1}) and (evidence >= _EVIDENCE or same):
            yield Diagnostic(
                "leak",
                f"feature {quoted(nbest.names[d])} alone orders every list by its loss, as if it were computed from "
                "it: such weights are useless where the loss is unknown; leave it out",
            )
    released(features)


def _follows(feature: FloatArray, losses: FloatArray, offsets: IntArray) -> int:
    """Return the sign of a where a feature [m] is a * loss + b in each list, with numbers of the list, and a of one
    sign for all; 0 elsewhere.
    """
    starts, lists = offsets[:-1], list_numbers(offsets)
    if not len(starts):
        return 0
    at_low, at_high = first_best(-losses, starts), first_best(losses, starts)
    low, high = losses[at_low], losses[at_high]
    with np.errstate(over="ignore", invalid="ignore"):  # a multiple that overflows is of no use
        slopes = (feature[at_high] - feature[at_low]) / (high - low)
        if not ((slopes > 0).all() or (slopes < 0).all()):
            return 0
        expected = feature[at_low][lists] + slopes[lists] * (losses - low[lists])
        rounding = _SAME * np.abs(slopes * (high - low))[lists]
        if not (np.isfinite(rounding).all() and (np.abs(feature - expected) <= rounding).all()):
            return 0
    return 1 if slopes[0] > 0 else -1


def _orientation(nbest: NBest, metric: Metric, losses: FloatArray) -> Iterator[Diagnostic]:
    """Yield a doubt where the loss looks like a gain."""
    name = nbest.statistic_names[0] if isinstance(metric, SumOfLosses) else None
    shown = "the loss" if name is None else f"the loss {quoted(name)}"
    remedy = "if higher is better, pass it as --gain (gain=)"
    if name is not None and (word := gain_in(name)):
        yield Diagnostic(
            "orientation",
            f"{shown}: {quoted(word)} sounds as if higher were better, but it was minimised; {remedy}",
        )
    elif name is not None and (word := loss_in(name)):
        yield Diagnostic(
            "orientation",
            f"{shown}: {quoted(word)} sounds as if lower were better, but it was maximised; if so, use --loss",
        )
    elif _one_right(losses, nbest.offsets):
        return
    elif _one_wrong(losses, nbest.offsets):
        yield Diagnostic(
            "orientation", f"{shown}: in every list one hypothesis has 1 and all others have 0, the least; {remedy}"
        )
    elif _first_is_worst(losses, nbest.offsets):
        yield Diagnostic(
            "orientation",
            f"{shown} is greatest for the first hypotheses of the lists and falls from there, as if decoders had "
            f"listed the worst first; {remedy}",
        )


def gain_in(name: str) -> str | None:
    """Return the word in the name of a loss that says that higher is better, unless another word turns it round."""
    return _said(name, _GAINS, _LOSSES, turned=False)


def loss_in(name: str) -> str | None:
    """Return the word in the name of a loss made of a gain (1 - errors) that says that lower is better."""
    return _said(name, _LOSSES, _GAINS, turned=True)


def _said(name: str, words: re.Pattern[str], others: re.Pattern[str], *, turned: bool) -> str | None:
    if bool(_TURNED.match(name)) is not turned:
        return None
    found = [word.lower() for word in _WORD.findall(name)]
    said = list(filter(words.fullmatch, found))
    return said[0] if said and not any(map(others.fullmatch, found)) else None


def _one_right(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether in every list one hypothesis has the least loss and all others the same greater one."""
    for _, rows, own in blocks_of_lists(offsets):
        some = losses[rows]
        low, high = (ends.reduceat(some, own[:-1]) for ends in (np.minimum, np.maximum))
        best = some == low[list_numbers(own)]
        single = (np.add.reduceat(best, own[:-1], dtype=np.int64) == 1).all()
        if not (single and (best | (some == high[list_numbers(own)])).all()):
            return False
    return True


def _one_wrong(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether every list has one hypothesis of loss 1 and others, at least two in the mean, of loss 0."""
    n_lists = len(offsets) - 1
    return (
        n_lists >= _FEWEST_LISTS
        and len(losses) >= 3 * n_lists
        and all(((one == 0) | (one == 1)).all() for one in pieces(losses))
        and bool((of_lists(lambda some, own: np.add.reduceat(some, own[:-1]), losses, offsets) == 1).all())
    )


def _first_is_worst(losses: FloatArray, offsets: IntArray) -> bool:
    """Whether the mean loss at the first places of lists is greatest at the first place, falls with the place, and is
    there far above that of hypotheses drawn from the same lists.

    Where lists hold the same systems in a fixed order, the order may be any: few places say nothing.
    """
    sizes = np.diff(offsets)
    places = min(_POSITIONS, int(np.median(sizes)) if len(sizes) else 0)
    lists = np.flatnonzero(sizes >= places)
    if places < _FEWEST_POSITIONS or len(lists) < _FEWEST_LISTS:
        return False
    excess = variance = 0.0
    by_place = np.zeros(places)
    for some in np.array_split(lists, -(-len(lists) // _TABLE)):
        table = losses[offsets[some][:, None] + np.arange(places)]
        released(losses)
        excess += float((table[:, 0] - table.mean(axis=1)).sum())
        variance += float(table.var(axis=1).sum())
        by_place += table.sum(axis=0)
    ranks = np.argsort(np.argsort(by_place, kind="stable"), kind="stable")
    trend = np.corrcoef(np.arange(places), ranks)[0, 1]
    clear = excess > max(_DEVIATIONS * np.sqrt(variance), _EFFECT * np.sqrt(len(lists) * variance), 0.0)
    return bool(clear and np.argmax(by_place) == 0 and trend <= _TREND)
