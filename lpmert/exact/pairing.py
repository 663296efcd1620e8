"""Which streams of combinations to combine: neighbours, or those that conflict most, to meet contradictions early."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import networkx

from lpmert.kernels import INFINITE_COST

if TYPE_CHECKING:
    from lpmert.exact.divide import Stream, TwoHalves

_BLOCK = 16
"""So many streams at most are matched at a time: the pairs to sample grow with the square."""


def neighbours(streams: Sequence[Stream], join: Callable[[Stream, Stream], TwoHalves]) -> list[Stream]:
    """Return the streams joined two by two in order; the last stays alone if their number is odd."""
    pairs = [join(left, right) for left, right in zip(streams[::2], streams[1::2], strict=False)]
    return [*pairs, *streams[2 * len(pairs) :]]


def pair_by_conflict(
    streams: Sequence[Stream], join: Callable[[Stream, Stream], TwoHalves], sampled: int
) -> Generator[None, None, list[Stream]]:
    """Return the streams joined two by two so that those conflict most, by maximum-weight matching.

    The conflict of two streams is what their cheapest combination costs beyond their own cheapest, as far as `sampled`
    pieces of work show. Work done for the pairs chosen is kept; yields after every piece.
    """
    level: list[Stream] = []
    for begin in range(0, len(streams), _BLOCK):
        block = streams[begin : begin + _BLOCK]
        graph = networkx.Graph()
        graph.add_nodes_from(range(len(block)))
        for i, j in combinations(range(len(block)), 2):
            pair = join(block[i], block[j])
            for _ in range(sampled):
                if pair.found or pair.bound >= INFINITE_COST:
                    break
                pair.get_next_best()
                yield
            graph.add_edge(i, j, pair=pair, weight=_conflict(pair))
        matched = {tuple(sorted(edge)) for edge in networkx.max_weight_matching(graph, maxcardinality=True)}
        level += [graph.edges[edge]["pair"] for edge in sorted(matched)]
        left_over = set(graph) - {i for edge in matched for i in edge}
        level += [block[i] for i in sorted(left_over)]
    return level


def _conflict(pair: TwoHalves) -> int:
    def least(stream: Stream) -> int:
        return stream.found[0].cost if stream.found else stream.bound

    return least(pair) - least(pair.left) - least(pair.right)
