"""Pruning of a box: drop the hypotheses that another beats everywhere in it, settle lists, and add up the bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.box_stack import N_PAIRS, OWN, TINY, set_pair
from lpmert.methods.cells.ledger import close_box, look_at_pair, open_account, settle, settle_pair
from lpmert.methods.cells.prune import MOST_COMPARED
from lpmert.methods.cells.stack import AGE, BOUND, CENTRE, IMPOSSIBLE, N_LISTS, N_ROWS, SETTLED
from lpmert.numeric.kernels import EPSILON, INFINITE_COST, internal, kernel

_BLOCK = 512
"""Pairs or rows that are looked at together: what is computed of them stays in the fastest cache."""


class BoxWork(NamedTuple):
    """Work space for blocks: leads and reaches, positions of the best rows; kept: of what survives."""

    lead: FloatArray
    reach: FloatArray
    best: IntArray
    kept_pairs: IntArray
    kept_rows: IntArray


def new_box_work(n_rows: int, n_lists: int, longest: int) -> BoxWork:
    """Return work space for boxes of so many rows and lists, and for lists of a length."""
    size = max(_BLOCK, longest)
    best = np.empty(size, dtype=np.int64)
    kept = np.empty(n_lists, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    return BoxWork(np.empty(size), np.empty(size), best, *kept)


@internal
def _measure(columns, begin, end, centre, radius, lead, reach):
    """Fill lead with the products of columns begin .. end and the centre, reach with what they vary by in the box."""
    # In this form, over arrays from 0, these loops are compiled to vector instructions.
    leads, reaches = lead[: end - begin], reach[: end - begin]
    for j in range(len(leads)):
        leads[j] = 0.0
        reaches[j] = 0.0
    for d in range(len(centre)):
        values, c, r = columns[d, begin:end], centre[d], radius[d]
        for j in range(len(leads)):
            leads[j] += values[j] * c
            reaches[j] += abs(values[j]) * r


@internal
def _score(columns, begin, end, centre, score):
    """Fill score with the products of columns begin .. end and the centre."""
    scores = score[: end - begin]
    for j in range(len(scores)):
        scores[j] = 0.0
    for d in range(len(centre)):
        values, c = columns[d, begin:end], centre[d]
        for j in range(len(scores)):
            scores[j] += values[j] * c


@internal
def _vary(columns, begin, end, radius, best, reach):
    """Fill reach with what the lead of the best row [end - begin] over columns begin .. end varies by in the box."""
    reaches, bests = reach[: end - begin], best[: end - begin]
    for j in range(len(reaches)):
        reaches[j] = 0.0
    for d in range(len(radius)):
        values, r = columns[d, begin:end], radius[d]
        if r > 0.0:
            for j in range(len(reaches)):
                reaches[j] += abs(values[bests[j]] - values[j]) * r


@kernel
def beats_in_box(columns, winner, loser, centre, radius, rounding, off):
    """Whether one of the columns [D, n] surely has at least the product of another with all weights of a box.

    rounding: 0.0 if all sums are exact, else 1.0; off: of `Precision`.
    """
    lead = reach = mass = 0.0
    for d in range(len(centre)):
        gain = columns[d, winner] - columns[d, loser]
        lead += gain * centre[d]
        reach += abs(gain) * radius[d]
        mass += abs(gain)
    error = rounding * ((len(centre) + 4) * EPSILON * mass + TINY) + off
    return lead - (reach + error) >= 0.0


@internal
def _take(source, indices, n, target):
    chosen, targets = indices[:n], target[:n]
    for j in range(len(chosen)):
        targets[j] = source[chosen[j]]


@internal
def _prune_pairs(ledger, kept, first, n, child, work, own, limit, rounding):
    """Settle the pairs of which one beats the other; return (own, extra cost at the centre)."""
    numbers, total = child.numbers, child.total
    centre = np.int64(0)
    k = np.int64(0)
    for begin in range(first, first + n, _BLOCK):
        end = min(begin + _BLOCK, first + n)
        _measure(kept.gains, begin, end, child.centre, child.radius, work.lead, work.reach)
        for j in range(end - begin):
            p = begin + j
            lead, error = work.lead[j], kept.reaches[p]
            reach = work.reach[j] + rounding * error
            if lead - reach >= 0.0:
                own = settle_pair(ledger, total, own + kept.steps[p], kept.dear[p])
            elif -lead - reach >= 0.0:
                own = settle_pair(ledger, total, own, kept.cheap[p])
            else:
                work.kept_pairs[k] = p
                k += 1
                centre += look_at_pair(ledger, numbers, kept.cheap[p], kept.dear[p], kept.steps[p], lead, error)
        if own > limit:
            break
    numbers[N_PAIRS] = k
    return own, centre


@internal
def _keep_pairs(kept, own, kept_pairs, k):
    """Copy the pairs that are kept to the child's."""
    for d in range(len(own.gains)):
        _take(kept.gains[d], kept_pairs, k, own.gains[d])
    _take(kept.reaches, kept_pairs, k, own.reaches)
    _take(kept.steps, kept_pairs, k, own.steps)
    _take(kept.cheap, kept_pairs, k, own.cheap)
    _take(kept.dear, kept_pairs, k, own.dear)


@internal
def _measure_leads(columns, i, low, high, radius, scores, margin):
    """Fill margin with the least lead in a box of rows low .. high over row i; scores: at the centre, from low on."""
    margins, own = margin[: high - low], scores[i - low]
    for j in range(len(margins)):
        margins[j] = scores[j] - own
    for d in range(len(radius)):
        values, x, r = columns[d, low:high], columns[d, i], radius[d]
        if r > 0.0:
            for j in range(len(margins)):
                margins[j] -= abs(values[j] - x) * r


@internal
def _is_beaten(kept, rows, start, left, k, end, best, low, margins, centre, radius, rounding, off):
    """Whether row k of start .. end is beaten in the whole box by another that is not dropped; but for the best one."""
    i = rows[k]
    for q in range(start, end):
        j = rows[q]
        may = margins[j - low] >= -2.0 * (kept.row_reaches[i] + kept.row_reaches[j])
        other = j != best and q != k and (q < left or q > k)
        if may and other and beats_in_box(kept.features, j, i, centre, radius, rounding, off):
            return True
    return False


@internal
def _drop_beaten(kept, rows, start, end, best, low, high, scores, margin, centre, radius, rounding, off, compare_all):
    """Drop rows start .. end (positions among low .. high) that another one beats in the whole box; return the new end.

    scores: at the centre, from row low on. Only the cheapest, on which the bound rests, are compared with all
    others; the rest with compare_all.
    """
    if not compare_all:
        k, ahead = start, start
        while k < end and kept.costs[rows[k]] == kept.costs[rows[start]]:
            if scores[rows[k] - low] > scores[rows[ahead] - low]:
                ahead = k
            k += 1
        if rows[ahead] == best:
            return end
        _measure_leads(kept.features, rows[ahead], low, high, radius, scores, margin)
        if not _is_beaten(kept, rows, start, start, ahead, end, best, low, margin, centre, radius, rounding, off):
            return end
    left = start
    for k in range(start, end):
        i = rows[k]
        compared = compare_all or left == start or kept.costs[i] == kept.costs[rows[start]]
        if left == k and not compared:
            return end  # none was dropped
        beaten = False
        if compared and i != best and (k - start) * (end - start) <= MOST_COMPARED:
            _measure_leads(kept.features, i, low, high, radius, scores, margin)
            beaten = _is_beaten(kept, rows, start, left, k, end, best, low, margin, centre, radius, rounding, off)
        if not beaten:
            rows[left] = i
            left += 1
    return left


@internal
def _find_best(ends, a, b, first, begin, work):
    """Fill best: for each row of lists a .. b, from row `begin` on, the position among these of its list's best."""
    for s in range(a, b):
        low, high = first + ends[s] - begin, first + ends[s + 1] - begin
        best = low
        for i in range(low + 1, high):
            if work.lead[i] > work.lead[best]:
                best = i
        for i in range(low, high):
            work.best[i] = best


@internal
def _leads_clearly(lead, best, low, high, begin, errors):
    """Whether the best row of low .. high leads at the centre by more than rounding errors."""
    for i in range(low, high):
        if i != best and not lead[best - begin] - lead[i - begin] > errors[best] + errors[i]:
            return False
    return True


@internal
def _prune_rows(ledger, stack, t, child, work, own, limit, rounding, compare_all):
    """Drop rows and settle lists; return (own, extra cost at the centre, whether its winners are clear)."""
    kept, mine, n, rows = stack.kept, child.kept, child.numbers, work.kept_rows
    first, n_lists = stack.first_row[t], stack.n_lists[t]
    ends = kept.ends[stack.first_end[t] : stack.first_end[t] + n_lists + 1]
    centre, radius = child.centre, child.radius
    share, off = (len(centre) + 4) * EPSILON, stack.precision.off
    extra = np.int64(0)
    clear = True
    pair, row, n_open = n[N_PAIRS], np.int64(0), np.int64(0)
    mine.ends[0] = 0
    a = np.int64(0)
    while a < n_lists and own <= limit:
        b = a + 1
        while b < n_lists and ends[b + 1] - ends[a] <= _BLOCK:
            b += 1
        begin, end = first + ends[a], first + ends[b]
        _score(kept.features, begin, end, centre, work.lead)
        _find_best(ends, a, b, first, begin, work)
        _vary(kept.features, begin, end, radius, work.best, work.reach)
        for s in range(a, b):
            low, high = first + ends[s], first + ends[s + 1]
            best = begin + work.best[low - begin]
            top, error = work.lead[best - begin], kept.row_reaches[best]
            left = row
            for i in range(low, high):
                lead, doubt = top - work.lead[i - begin] - work.reach[i - begin], error + kept.row_reaches[i]
                beaten = lead > doubt
                if not beaten and lead >= -doubt:
                    beaten = beats_in_box(kept.features, best, i, centre, radius, rounding, off)
                if i == best or not beaten:
                    rows[left] = i
                    left += 1
            if left - row > 2:
                scores, margin = work.lead[low - begin : high - begin], work.reach[low - begin : high - begin]
                left = _drop_beaten(
                    kept, rows, row, left, best, low, high, scores, margin, centre, radius, rounding, off, compare_all
                )
            least = kept.costs[rows[row]]
            own += least - kept.costs[low]
            for k in range(row, left):
                mine.ids[k], mine.costs[k] = kept.ids[rows[k]], kept.costs[rows[k]]
            standing = settle(ledger, n, mine.ids, mine.costs, child.total, row, left, kept.ids[best])
            if standing == SETTLED:
                continue
            if standing == IMPOSSIBLE:
                own = INFINITE_COST
                continue
            extra += kept.costs[best] - least
            clear = clear and _leads_clearly(work.lead, best, low, high, begin, kept.row_reaches)
            if left - row == 2:
                mine.cheap[pair], mine.dear[pair] = mine.ids[row], mine.ids[row + 1]
                set_pair(mine, pair, kept.features, kept.costs, rows[row], rows[row + 1], share, off)
                pair += 1
            else:
                row = left
                n_open += 1
                mine.ends[n_open] = row
        a = b
    n[N_PAIRS], n[N_ROWS], n[N_LISTS] = pair, row, n_open
    return own, extra, clear


@internal
def _keep_rows(kept, own, kept_rows, k):
    """Copy to the child's rows what it does not have yet of those that are kept."""
    for d in range(len(own.features)):
        _take(kept.features[d], kept_rows, k, own.features[d])
    _take(kept.row_reaches, kept_rows, k, own.row_reaches)


@internal
def rounds(places, centre, radius):
    """Return 0.0 where all sums of a box are exact, as its sides are multiples of 2^-places, else 1.0."""
    for d in range(len(radius)):
        low, high = np.ldexp(centre[d] - radius[d], places), np.ldexp(centre[d] + radius[d], places)
        if low != np.floor(low) or high != np.floor(high):
            return 1.0
    return 0.0


@internal
def prune_box(ledger, stack, t, child, work, limit, compare_all):
    """Fill the child with what is left of box t in the child's part of it, unless its bound exceeds a limit."""
    n = child.numbers
    rounding = rounds(stack.precision.places, child.centre, child.radius)
    n[CENTRE], n[AGE] = 0, stack.age[t]
    for k in range(len(child.total)):
        child.total[k] = stack.totals[t, k]
    open_account(ledger)
    own, centre = _prune_pairs(
        ledger, stack.kept, stack.first_pair[t], stack.n_pairs[t], child, work, stack.own[t], limit, rounding
    )
    if own <= limit:
        _keep_pairs(stack.kept, child.kept, work.kept_pairs, n[N_PAIRS])
        own, extra, clear = _prune_rows(ledger, stack, t, child, work, own, limit, rounding, compare_all)
        n[CENTRE] = max(n[CENTRE], own + centre + extra) if clear else INFINITE_COST
        if own <= limit:
            _keep_rows(stack.kept, child.kept, work.kept_rows, n[N_ROWS])
            own = close_box(ledger, child, own, limit)
    n[OWN] = own
    n[BOUND] = max(own, stack.bound[t])
