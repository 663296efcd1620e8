"""Which undecided lists to look ahead in first: those in which a linear program has raised bounds most."""

from __future__ import annotations

from lpmert.numeric.kernels import internal


@internal
def sort_by_gain(tree):
    """Put lists in order of gain; from node to node, few of them change places."""
    order, gain = tree.order, tree.gain
    for k in range(1, len(order)):
        s = order[k]
        j = k
        while j > 0 and gain[order[j - 1]] < gain[s]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = s


@internal
def note_gain(tree, s, raised):
    """Note by how much a linear program has raised the bound in list s."""
    tree.asked[s] += 1
    tree.raised[s] += raised
    tree.gain[s] = tree.raised[s] / tree.asked[s]
