"""Ratio metrics in numbers that kernels take: an integer `kind` and an array of parameters.

BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
FRACTION: (a.x + a0) / (b.x + b0); parameters a [K], a0, b [K], b0; 1 where the denominator is 0.
CHRF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
PER: totals match, hypothesis and reference words; no parameters.

`lpmert.metrics.kinds.check_kind` refuses every other kind, and statistics that a formula does not take: the loss of
what it lets pass is at least 0, and at most 1 unless it is a fraction.
"""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import EPSILON, fill, internal, kernel

BLEU, FRACTION, CHRF, PER = range(4)

_WIDEST = 256.0
"""No tangent is taken at less than this share of the largest sum: its slope would drown the others in rounding."""

_LARGEST = 1e3
"""A minorant whose terms add up to more is of no use."""


@kernel
def loss_of_total(kind, parameters, total):
    """Return the loss of summed statistics [K]; whatever is zero it is a number, NaN for an unknown kind only."""
    if kind == BLEU:
        matches = total[0] * total[2] * total[4] * total[6]
        if matches <= 0.0:
            return 1.0
        score = np.sqrt(np.sqrt(matches / (total[1] * total[3] * total[5] * total[7])))
        if total[1] < total[8]:
            score *= np.exp(1.0 - total[8] / total[1])
        return 1.0 - score
    if kind == FRACTION:
        n_columns = len(total)
        above = parameters[n_columns]
        below = parameters[2 * n_columns + 1]
        for k in range(n_columns):
            above += parameters[k] * total[k]
            below += parameters[n_columns + 1 + k] * total[k]
        return above / below if below > 0.0 else 1.0
    if kind == PER:
        wrong = max(total[1], total[2]) - total[0]
        return wrong / total[2] if wrong < total[2] else 1.0
    if kind != CHRF:
        return np.nan
    precision = 0.0
    recall = 0.0
    n_orders = 0
    for n in range(0, len(total), 3):
        if total[n] > 0.0 and total[n + 1] > 0.0:
            precision += total[n + 2] / total[n]
            recall += total[n + 2] / total[n + 1]
            n_orders += 1
    below = parameters[0] * precision + recall
    if below <= 0.0:
        return 1.0
    return 1.0 - (1.0 + parameters[0]) * precision * recall / (below * n_orders)


@kernel
def losses_of_totals(kind, parameters, totals, losses):
    """Fill losses [n] with the losses of summed statistics [n, K]."""
    for i in range(len(totals)):
        losses[i] = loss_of_total(kind, parameters, totals[i])


@kernel
def height_of_loss(kind, loss):
    """Return the height of a loss: a monotone function of it that `minorant` bounds; infinite for a BLEU of 0."""
    if kind == BLEU:
        return -np.log1p(-loss) if loss < 1.0 else np.inf
    return loss


@kernel
def loss_of_height(kind, height):
    """Return a loss that is no more than any whose height is at least this one."""
    loss = -np.expm1(-height) if kind == BLEU else height
    return max(0.0, loss - 8.0 * EPSILON)


@internal
def _bleu_minorant(low, high, at, slopes):
    """Tangents for the logarithms of matches, chords for those of totals, a tangent of a McCormick envelope for
    brevity.
    """
    constant = 0.0
    size = 1.0
    for n in range(0, 8, 2):
        if high[n] < 1.0:
            return np.inf, 0.0
        point = min(high[n], max(at[n], low[n], high[n] / _WIDEST, 1.0))
        constant += 0.25 * (1.0 - np.log(point))
        slopes[n] = -0.25 / point
        least, most = max(1.0, low[n + 1]), high[n + 1]
        slopes[n + 1] = 0.25 * (np.log(most) - np.log(least)) / (most - least) if most > least else 0.0
        constant += 0.25 * np.log(least) - slopes[n + 1] * least
        size += np.log(point) + np.log(most) + slopes[n + 1] * most + high[n] / point
    least, most = max(1.0, low[1]), high[1]
    length = min(most, max(at[1], least, most / _WIDEST))
    # reference / length - 1 with 1 / length between 1 / most and 1 / least, and at least its tangent
    below = low[8] / length + (at[8] - low[8]) / most
    above = high[8] / length + (at[8] - high[8]) / least
    reference, steepness = (low[8], 1.0 / most) if below >= above else (high[8], 1.0 / least)
    if max(below, above) > 1.0:
        constant += reference * (2.0 / length - steepness) - 1.0
        slopes[1] -= reference / (length * length)
        slopes[8] = steepness
        size += reference * (2.0 / length + steepness) + reference / length * most / length + steepness * high[8]
    return constant, size


@internal
def _chrf_minorant(squared, low, high, at, slopes):
    """A tangent of the harmonic mean of precision and recall, and above each of them a McCormick envelope."""
    n_orders = 0
    precision = 0.0
    recall = 0.0
    for n in range(0, len(low), 3):
        if high[n] < 1.0 or high[n + 1] < 1.0:
            continue
        if low[n] < 1.0 or low[n + 1] < 1.0:
            return 0.0, 0.0  # whether this order counts is open
        n_orders += 1
        precision += at[n + 2] / max(1.0, at[n])
        recall += at[n + 2] / max(1.0, at[n + 1])
    if n_orders == 0:
        return 1.0, 0.0
    if precision <= 0.0 or recall <= 0.0:
        precision = recall = 1.0
    below = squared * precision + recall
    constant = 1.0
    size = 1.0
    for n in range(0, len(low), 3):
        if high[n] < 1.0 or high[n + 1] < 1.0:
            continue
        for k in range(2):
            share = recall / below if k == 0 else precision / below
            factor = (1.0 + squared) * share * share / n_orders * (1.0 if k == 0 else squared)
            least, most = low[n + k], high[n + k]
            # 1 / count is at most its chord intercept - descent * count
            descent = 1.0 / (least * most)
            intercept = 1.0 / least + 1.0 / most
            chord = intercept - descent * at[n + k]
            above_high = high[n + 2] * chord + (at[n + 2] - high[n + 2]) / most
            above_low = low[n + 2] * chord + (at[n + 2] - low[n + 2]) / least
            match, steepness = (high[n + 2], 1.0 / most) if above_high <= above_low else (low[n + 2], 1.0 / least)
            constant -= factor * match * (intercept - steepness)
            slopes[n + k] += factor * match * descent
            slopes[n + 2] -= factor * steepness
            size += factor * (match * (2.0 * intercept + descent * most) + steepness * high[n + 2])
    return constant, size


@internal
def _per_minorant(low, high, at, slopes):
    """Words of the reference that are missing, words that are wrong, or a mean of both where the box has room.

    Where the length of the reference is open, its ends take its place. Wrong words count for at most all of it.
    """
    least, most = low[2], high[2]
    if least < 1.0:
        return 0.0, 0.0  # whether there is a reference is open
    whole = max(most, high[1] - low[0])
    shorter = at[2] - at[1]
    missing = 1.0 if shorter >= 0.0 else 0.0
    room = min(at[2] - low[1], high[1] - at[2])
    if room > 0.0:
        missing = min(1.0, max(0.0, 0.5 + shorter / (2.0 * room)))
    wrong = 1.0 - missing
    slopes[0] = -(missing / least + wrong / whole)
    slopes[1] = wrong / whole
    return missing, 1.0 + high[0] / least + high[1] / whole


@kernel
def minorant(kind, parameters, low, high, at, slopes):
    """Fill slopes [K] and return a constant so that height(x) >= constant + slopes . x for all whole x in the box.

    low, high [K]: the box of summed statistics; at [K]: where in it the bound should be good. The constant is rounded
    down by what its computation may be off; it is infinite where every x in the box has a loss of 1, and the slopes are
    0 where no bound but 0 is known, as for a fraction (see search/fractional.py). Source: tangents of the convex and
    chords of the concave terms of the logarithm of BLEU; PER is the larger of two sums.
    """
    fill(slopes, 0.0)
    if kind == BLEU:
        constant, size = _bleu_minorant(low, high, at, slopes)
    elif kind == CHRF:
        constant, size = _chrf_minorant(parameters[0], low, high, at, slopes)
    elif kind == PER:
        constant, size = _per_minorant(low, high, at, slopes)
    else:
        return 0.0
    if not size < _LARGEST:
        fill(slopes, 0.0)
        return 0.0
    return constant - 64.0 * EPSILON * size
