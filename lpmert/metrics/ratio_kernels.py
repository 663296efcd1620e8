"""Ratio metrics in numbers that kernels take: an integer `kind` and an array of parameters.

BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
FRACTION: (a.x + a0) / (b.x + b0); parameters a [K], a0, b [K], b0; 1 where the denominator is 0.
CHRF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLEU, FRACTION, CHRF = range(3)


@njit(cache=True)
def loss_of_total(kind, parameters, total):
    """Return the loss of summed statistics [K]; never NaN, whatever is zero."""
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


@njit(cache=True)
def losses_of_totals(kind, parameters, totals, losses):
    """Fill losses [n] with the losses of summed statistics [n, K]."""
    for i in range(len(totals)):
        losses[i] = loss_of_total(kind, parameters, totals[i])
