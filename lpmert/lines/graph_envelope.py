"""The upper envelope of all paths of a lattice along a line: those of its nodes, merged link by link.

Source: Macherey, Och, Thayer and Uszkoreit, Lattice-based Minimum Error Rate Training for Statistical Machine
Translation, EMNLP 2008. On the line w + t d a path scores intercept + t slope; at a node, those that are best for no t
are best nowhere beyond it.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import internal, kernel


class Lines(NamedTuple):
    """Lines of partial paths, by slope: intercepts, slopes [R], starts [R], the t from which on each is the envelope.

    came [R, 2]: the line of the node before, and the link from there; -1 for none.
    """

    intercepts: FloatArray
    slopes: FloatArray
    starts: FloatArray
    came: IntArray


def new_lines(room: int) -> Lines:
    """Return room for so many lines."""
    return Lines(np.empty(room), np.empty(room), np.empty(room), np.empty((room, 2), dtype=np.int64))


@internal
def _put(lines, place, intercept, slope, start, line, link):
    lines.intercepts[place] = intercept
    lines.slopes[place] = slope
    lines.starts[place] = start
    lines.came[place, 0] = line
    lines.came[place, 1] = link


@internal
def _push(lines, size, intercept, slope, line, link):
    """Add a line, whose slope is no less than any before, to the envelope lines[:size]; return its new size.

    Of lines that are equal the first stands.
    """
    while size:
        run = slope - lines.slopes[size - 1]
        if run > 0.0:
            threshold = (lines.intercepts[size - 1] - intercept) / run
            if threshold > lines.starts[size - 1]:
                _put(lines, size, intercept, slope, threshold, line, link)
                return size + 1
        elif intercept <= lines.intercepts[size - 1]:
            return size
        size -= 1
    _put(lines, size, intercept, slope, -inf, line, link)
    return size + 1


@internal
def _merged(one, size, other, store, begin, end, intercept, slope, link):
    """Write the envelope of one[:size] and store[begin:end], with a link added to each, into other; return its size."""
    count = np.int64(0)
    i, j = np.int64(0), begin
    while i < size or j < end:
        if j >= end or (i < size and one.slopes[i] <= store.slopes[j] + slope):
            count = _push(other, count, one.intercepts[i], one.slopes[i], one.came[i, 0], one.came[i, 1])
            i += 1
        else:
            count = _push(other, count, store.intercepts[j] + intercept, store.slopes[j] + slope, j, link)
            j += 1
    return count


@kernel
def find_envelope(sources, targets, intercepts, slopes, first, store, one, other):
    """Find the envelope of all paths of a lattice; return (begin, end), its lines in store, or -1 if there is no room.

    Links sorted by target, from node 0 to node len(first) - 2, all to a larger one; intercepts, slopes [L]: of the
    links; first [n + 1]: work space; one, other: for the lines of one node.
    """
    _put(store, np.int64(0), 0.0, 0.0, -inf, np.int64(-1), np.int64(-1))
    first[0] = 0
    first[1] = 1
    n = np.int64(1)
    k = 0
    for v in range(1, len(first) - 1):
        size = np.int64(0)
        while k < len(sources) and targets[k] == v:
            begin, end = first[sources[k]], first[sources[k] + 1]
            if size + end - begin > len(one.slopes):
                return np.int64(-1), np.int64(-1)
            size = _merged(one, size, other, store, begin, end, intercepts[k], slopes[k], np.int64(k))
            one, other = other, one
            k += 1
        if n + size > len(store.slopes):
            return np.int64(-1), np.int64(-1)
        for i in range(size):
            _put(store, n + i, one.intercepts[i], one.slopes[i], one.starts[i], one.came[i, 0], one.came[i, 1])
        n += size
        first[v + 1] = n
    return first[len(first) - 2], n


def way_of(lines: Lines, line: int) -> IntArray:
    """Return the links of the path of a line, from the last to the first."""
    way = []
    before, link = lines.came[line].tolist()
    while before >= 0:
        way.append(link)
        before, link = lines.came[before].tolist()
    return np.array(way, dtype=np.int64)
