"""The upper envelope of all hypotheses of a lattice or hypergraph along a line: those of its nodes, merged by link.

Sources: Macherey, Och, Thayer and Uszkoreit, Lattice-based Minimum Error Rate Training for Statistical Machine
Translation, EMNLP 2008; for hypergraphs Kumar, Macherey, Dyer and Och, Efficient Minimum Error Rate Training and
Minimum Bayes-Risk Decoding for Translation Hypergraphs and Lattices, ACL 2009. On the line w + t d a hypothesis scores
intercept + t slope; at a node, those that are best for no t are best nowhere beyond it.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import internal, kernel


class Lines(NamedTuple):
    """Lines of partial paths, by slope: intercepts, slopes [R], starts [R], the t from which on each is the envelope.

    came [R, 3]: the lines of the two nodes that the last link leaves, and this link, -1 for none.
    """

    intercepts: FloatArray
    slopes: FloatArray
    starts: FloatArray
    came: IntArray


def new_lines(room: int) -> Lines:
    """Return room for so many lines."""
    return Lines(np.empty(room), np.empty(room), np.empty(room), np.empty((room, 3), dtype=np.int64))


@internal
def _put(lines, place, intercept, slope, start, source, second, link):
    lines.intercepts[place] = intercept
    lines.slopes[place] = slope
    lines.starts[place] = start
    lines.came[place, 0] = source
    lines.came[place, 1] = second
    lines.came[place, 2] = link


@internal
def _push(lines, size, intercept, slope, source, second, link):
    """Add a line, whose slope is no less than any before, to the envelope lines[:size]; return its new size.

    Of lines that are equal the first stands.
    """
    while size:
        run = slope - lines.slopes[size - 1]
        if run > 0.0:
            threshold = (lines.intercepts[size - 1] - intercept) / run
            if threshold > lines.starts[size - 1]:
                _put(lines, size, intercept, slope, threshold, source, second, link)
                return size + 1
        elif intercept <= lines.intercepts[size - 1]:
            return size
        size -= 1
    _put(lines, size, intercept, slope, -inf, source, second, link)
    return size + 1


@internal
def _summed(store, begin, end, second, last, pairs):
    """Write the sum of the envelopes store[begin:end] and store[second:last] into pairs; return its size."""
    count = np.int64(0)
    i, j = begin, second
    while True:
        start = max(store.starts[i], store.starts[j])
        intercept = store.intercepts[i] + store.intercepts[j]
        _put(pairs, count, intercept, store.slopes[i] + store.slopes[j], start, i, j, np.int64(-1))
        count += 1
        if i + 1 < end and (j + 1 >= last or store.starts[i + 1] <= store.starts[j + 1]):
            i += 1
        elif j + 1 < last:
            j += 1
        else:
            return count


@internal
def _merged(one, size, other, lines, begin, end, paired, intercept, slope, link):
    """Write the envelope of one[:size] and lines[begin:end], with a link added to each, into other; return its size.

    paired: whether these lines are sums, which came as they say, or those of the one node that the link leaves.
    """
    count = np.int64(0)
    i, j = np.int64(0), begin
    while i < size or j < end:
        if j >= end or (i < size and one.slopes[i] <= lines.slopes[j] + slope):
            came = one.came[i]
            count = _push(other, count, one.intercepts[i], one.slopes[i], came[0], came[1], came[2])
            i += 1
        else:
            source, second = j, np.int64(0)
            if paired:
                source, second = lines.came[j, 0], lines.came[j, 1]
            total = lines.intercepts[j] + intercept
            count = _push(other, count, total, lines.slopes[j] + slope, source, second, link)
            j += 1
    return count


@kernel
def find_envelope(sources, seconds, targets, intercepts, slopes, first, store, one, other, pairs):
    """Find the envelope of all hypotheses; return (begin, end), its lines in store, or -1 if there is no room.

    Links sorted by target, from node 0 to node len(first) - 2, all to a larger one; second 0 for none; intercepts,
    slopes [L]: of the links; first [n + 1]: work space; one, other, pairs: for the lines of one node.
    """
    _put(store, np.int64(0), 0.0, 0.0, -inf, np.int64(0), np.int64(0), np.int64(-1))
    first[0] = 0
    first[1] = 1
    n = np.int64(1)
    k = 0
    for v in range(1, len(first) - 1):
        size = np.int64(0)
        while k < len(sources) and targets[k] == v:
            begin, end = first[sources[k]], first[sources[k] + 1]
            second, last = first[seconds[k]], first[seconds[k] + 1]
            if size + end - begin + last - second > len(one.slopes):
                return np.int64(-1), np.int64(-1)
            paired = seconds[k] > 0
            if paired:
                end = _summed(store, begin, end, second, last, pairs)
                begin = np.int64(0)
            lines = pairs if paired else store
            size = _merged(one, size, other, lines, begin, end, paired, intercepts[k], slopes[k], np.int64(k))
            one, other = other, one
            k += 1
        if n + size > len(store.slopes):
            return np.int64(-1), np.int64(-1)
        for i in range(size):
            came = one.came[i]
            _put(store, n + i, one.intercepts[i], one.slopes[i], one.starts[i], came[0], came[1], came[2])
        n += size
        first[v + 1] = n
    return first[len(first) - 2], n


def way_of(lines: Lines, line: int) -> IntArray:
    """Return the links of the hypothesis of a line, in the order in which `WordGraphs` has them."""
    way = []
    waiting = [line]
    while waiting:
        source, second, link = lines.came[waiting.pop()].tolist()
        if link >= 0:
            way.append(link)
            waiting += [second, source]
    return np.array(way, dtype=np.int64)
