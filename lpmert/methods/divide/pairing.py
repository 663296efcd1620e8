"""Which streams of combinations to combine: neighbours, those that conflict most, or one list after the other, to meet
contradictions early.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import combinations

import networkx
import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import IntArray
from lpmert.methods.divide.streams import Stream, TwoHalves

_SHARPNESS = 8.0
"""How steeply a candidate's cost beyond the cheapest counts when lists are put in order, in units of the slack."""

_BLOCK = 16
"""So many streams at most are matched at a time: the pairs to sample grow with the square."""


def neighbours(streams: Sequence[Stream], join: Callable[[Stream, Stream], TwoHalves]) -> list[Stream]:
    """Return the streams joined two by two in order; the last stays alone if their number is odd."""
    pairs = [join(left, right) for left, right in zip(streams[::2], streams[1::2], strict=False)]
    return [*pairs, *streams[2 * len(pairs) :]]


def fewest_candidates_first(
    streams: Sequence[Stream], costs: Sequence[IntArray], most: int
) -> Generator[None, None, list[Stream]]:
    """Return the streams of single lists, those first that have the fewest candidates in a selection of cost `most`.

    costs: of each list's hypotheses. Every stream is first asked for its cheapest; yields after every piece of work.
    """
    for stream in streams:
        while not stream.found and stream.bound < INFINITE_COST:
            stream.get_next_best()
            yield
    slack = max(1, most - sum(_least(stream) for stream in streams))
    weights = []
    for stream, own in zip(streams, costs, strict=True):
        excess = own[own >= _least(stream)] - _least(stream)
        weights.append(float(np.exp(-_SHARPNESS * excess[excess < slack] / slack).sum()))
    return [streams[k] for k in np.argsort(weights, kind="stable").tolist()]


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
    return _least(pair) - _least(pair.left) - _least(pair.right)


def _least(stream: Stream) -> int:
    return stream.found[0].cost if stream.found else stream.bound
