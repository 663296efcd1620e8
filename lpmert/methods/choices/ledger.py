"""What the hypotheses of a node cost, and its bound, in the search over selections: of sums, or of ratios like BLEU.

The search is written once; it is compiled for the ledger that it is given. Both ledgers have these operations, see
ledger_of_sums.py and ledger_of_ratios.py in this folder. The cheapest hypothesis left to an undecided list is at its
`pointer` in the tree, whose SUM is what these and the decided choices add up to.
"""

from __future__ import annotations

from functools import partial

from lpmert.methods.choices import ledger_of_ratios as ratios
from lpmert.methods.choices import ledger_of_sums as sums
from lpmert.numeric.kernels import by_ledger

_by_ledger = partial(by_ledger, sums.Costs)
_inlined = partial(_by_ledger, inline="always")
"""For what is called often, and with single arrays."""

take_witness = _inlined(sums.take_witness, ratios.take_witness)
"""(ledger, lists, tree, scores, weights): decode weights into tree.selection, and take them as incumbent if they are
better beyond rounding. scores: work space for a list.
"""

take_selection = _inlined(sums.take_selection, ratios.take_selection)
"""(ledger, tree, depth, weights): take the complete selection at this depth, which weights are known to attain, if it
is better; decoding alone need not show it clearly.
"""

bound_node = _by_ledger(sums.bound_node, ratios.bound_node)
"""(ledger, lists, tree): find the costs in a node, SUM and pointers; set the phase to LOOK, or leave it for another
try; return OPEN or CLOSED.
"""

costs_of = _inlined(sums.costs_of, ratios.costs_of, allocates=True)
"""(ledger, lists): what each row costs in the node, [M]. Only kernels that allocate may return an array of their own;
inlined, it counts no references all the same.
"""

rule_out = _inlined(sums.rule_out, ratios.rule_out)
"""(ledger, begin, row, end): rule out the cheapest row of begin .. end; return the next, or -1 if none is left."""

look_again = _inlined(sums.look_again, ratios.look_again)
"""(ledger, tree, ruled_out): whether to bound the node anew after looking ahead has ruled out so many."""

put_back = _by_ledger(sums.put_back, ratios.put_back)
"""(ledger, lists, tree, begin, end): undo what the trail says from begin to end."""

step = _inlined(sums.step, ratios.step)
"""(ledger, costs, begin, here, end): what the second cheapest row of a list costs more than the cheapest, `here`."""

is_tight = _inlined(sums.is_tight, ratios.is_tight)
"""(ledger): whether a selection costs what its hypotheses add up to, and no more."""

slack = _by_ledger(sums.slack, ratios.slack)
"""(ledger, tree): by how much the costs of a node may rise."""

weigh = _inlined(sums.weigh, ratios.weigh)
"""(ledger, costs, begin, here, end, rate, slack): how many candidates a list has whose cheapest row is `here`, each
counting the less the more it costs.
"""

lay_out = _by_ledger(sums.lay_out, ratios.lay_out)
"""(ledger, lists, tree, s): put the candidates of the list that the node branches on in order."""

next_child = _inlined(sums.next_child, ratios.next_child)
"""(ledger, costs, begin, end, position, depth): return (position in its list, bound) of the next of them, counted by
`position`; (-1, 0) if there is none.
"""

enter_child = _inlined(sums.enter_child, ratios.enter_child)
"""(ledger, lists, tree, s, h): note the child in which list s has hypothesis h."""
