"""What a cone of weights costs is kept in a ledger: of sums for additive losses, of ratios for metrics like BLEU.

The search over cones is written once; it is compiled for the ledger that it is given. Both ledgers have these
operations, see methods/cells/ledger_of_sums.py and methods/cells/ledger_of_ratios.py.
"""

from __future__ import annotations

from functools import partial

from lpmert.methods.cells import ledger_of_ratios as ratios
from lpmert.methods.cells import ledger_of_sums as sums
from lpmert.numeric.kernels import by_ledger

_by_ledger = partial(by_ledger, sums.Sums)

open_account = _by_ledger(sums.open_account, ratios.open_account, inline="always")
"""(ledger): begin with a cone; what its parent's settled lists cost is in its child's numbers and total."""

settle = _by_ledger(sums.settle, ratios.settle, inline="always")
"""(ledger, numbers, ids, costs, total, start, end, winner): how the list with the child's rows start .. end stands, and
what it adds to the child's total if it is settled. winner: hypothesis that wins at the child's centre. Called once a
list: compiled into the caller, and with single arrays.
"""

settle_pair = _by_ledger(sums.settle_pair, ratios.settle_pair, inline="always")
"""(ledger, total, own, winner): settle a pair of which this hypothesis wins in all of a box; return what the box costs,
which is `own` by its prices.
"""

look_at_pair = _by_ledger(sums.look_at_pair, ratios.look_at_pair, inline="always")
"""(ledger, numbers, cheap, dear, step, lead, error): what a pair adds to the cost at a box's centre, where `dear` leads
by so much."""

close_account = _by_ledger(sums.close_account, ratios.close_account, inline="always")
"""(ledger, child, bound, limit): price the child's hypotheses anew if it is time, and return its bound."""

close_box = _by_ledger(sums.close_box, ratios.close_box)
"""(ledger, child, own, limit): price the hypotheses of a box anew if it is time, and return what it costs by them."""

look_at_box = _by_ledger(sums.look_at_box, ratios.look_at_box, allocates=True)
"""(ledger, lists, stack, child): take the centre of a box if it is better than all before."""

hopeless_after = _by_ledger(sums.hopeless_after, ratios.hopeless_after, inline="always")
"""(ledger, settings, n_lists, n_features): after how many splits without progress a box is given up."""

look_at_centre = _by_ledger(sums.look_at_centre, ratios.look_at_centre, allocates=True)
"""(ledger, lists, stack, child, clear): take the child's centre if it is better than all before."""

look_inside = _by_ledger(sums.look_inside, ratios.look_inside, allocates=True)
"""(ledger, lists, stack, t, x): the same with the point x [D] of cone t."""

search_leaf = _by_ledger(sums.search_leaf, ratios.search_leaf, allocates=True)
"""(ledger, lists, stack, child): search a small cone selection by selection; DONE, ASKING for exact arithmetic, or
WORKING where that is too much work.
"""

search_part = _by_ledger(sums.search_part, ratios.search_part, allocates=True)
"""(ledger, lists, stack, part, total, normals, centre): the same for any small part, within the sides of normals
[k, D].
"""
