"""The links of one lattice through which a path may win in a cone of weights, and paths that are best at some."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice.kernels import Links, hopeless, leading
from lpmert.numeric.kernels import fill, internal, kernel

_ABREAST = 16
"""Mixes of rays for which best paths are looked for in one pass over the links."""

_LANES = 4
"""Rays at which links are scored in one pass."""


class Workbench(NamedTuple):
    """Work space for the links of a lattice: which of all they are [L], the links, their scores [L, R + ...] at the
    rays, and more.

    so_far, to_come [n, R + ...]: the best scores of paths to each node, and from it. For mixes, which are columns
    [R, m]: best [n, m]: the best scores of paths to each node; last [n, m]: the links that these end with; sums [m].
    most [R], stack [n + 1].
    """

    chosen: IntArray
    links: Links
    scores: FloatArray
    so_far: FloatArray
    to_come: FloatArray
    columns: FloatArray
    best: FloatArray
    last: IntArray
    sums: FloatArray
    most: FloatArray
    stack: IntArray


def new_workbench(n_links: int, n_nodes: int, n_features: int, n_rays: int) -> Workbench:
    """Return work space for lattices of so many links and nodes at most."""
    lanes = -(-n_rays // _LANES) * _LANES
    ends = [np.empty(n_links, dtype=np.int32) for _ in range(3)]
    return Workbench(
        np.empty(n_links, dtype=np.int64),
        Links(ends[0], ends[1], ends[2], np.empty((n_links, n_features))),
        np.empty((n_links, lanes)),
        np.empty((n_nodes, lanes)),
        np.empty((n_nodes, lanes)),
        np.empty((max(n_features, n_rays), _ABREAST)),
        np.empty((n_nodes, _ABREAST)),
        np.empty((n_nodes, _ABREAST), dtype=np.int64),
        np.empty(_ABREAST),
        np.empty(n_rays),
        np.empty(n_nodes + 1, dtype=np.int64),
    )


class Sought(NamedTuple):
    """What is found: the links of the best path in the middle, last first [H]; marks: bits of the links that are left;
    paths [P, D]: features of whole paths, those that are known first, then those that are best at mixes; scores [P, R]
    at the rays, in the end of those that no others beat; dead [P].
    """

    middle: NDArray[np.int32]
    marks: NDArray[np.uint8]
    paths: FloatArray
    scores: FloatArray
    dead: NDArray[np.bool_]


@kernel(nogil=True)
def look_through(graph, n_nodes, marks, rays, mixes, slack, tolerance, bench, game, sought):
    """Find best paths at mixes [m, R] of the rays, and through which of the links that have marks a path may win.

    These then stand in the work space, in their order, and have marks in what is found. Returns how many had marks, how
    many are left, the links of the best path at the first mix, and the paths that no others beat.
    """
    chosen = _gather(graph, marks, bench)
    for begin in range(0, len(rays), _LANES):
        _survey(bench, chosen, n_nodes, rays, begin)
    n_known = len(sought.paths) - len(mixes)
    length = np.int64(0)
    for begin in range(0, len(mixes), _ABREAST):
        end = min(len(mixes), begin + _ABREAST)
        _best_paths(bench, chosen, n_nodes, mixes, begin, end)
        for m in range(begin, end):
            found = _walk(bench, n_nodes, m - begin, m == 0, sought.paths, n_known + m, sought.middle)
            if m == 0:
                length = found
    leading(sought.paths, rays, tolerance, sought.scores, sought.dead, game)
    n_paths = np.int64(0)
    for p in range(len(sought.paths)):
        if not sought.dead[p]:
            for r in range(len(rays)):
                sought.scores[n_paths, r] = sought.scores[p, r]
            n_paths += 1
    return chosen, _keep(bench, chosen, slack, sought, n_paths), length, n_paths


@internal
def _gather(graph, marks, bench):
    """Copy the links that have marks to the work space; return how many these are."""
    chosen, links = bench.chosen, bench.links
    n = 0
    for k in range(len(graph.sources)):
        if marks[k >> 3] & (128 >> (k & 7)):
            chosen[n] = k
            links.sources[n] = graph.sources[k]
            links.seconds[n] = graph.seconds[k]
            links.targets[n] = graph.targets[k]
            for d in range(graph.features.shape[1]):
                links.features[n, d] = graph.features[k, d]
            n += 1
    return n


@internal
def _survey(bench, n_links, n_nodes, rays, begin):
    """Fill scores of the links at `_LANES` rays, and the best ones of paths to each node, and from it.

    What stands for rays that there are none of means nothing. Written out, as loops over so few take twice as long.
    """
    sources, seconds, targets = bench.links.sources, bench.links.seconds, bench.links.targets
    features, scores, columns = bench.links.features, bench.scores, bench.columns
    so_far, to_come = bench.so_far, bench.to_come
    p = np.uint64(begin)
    q, r, s = p + np.uint64(1), p + np.uint64(2), p + np.uint64(3)
    for lane in range(_LANES):
        for d in range(rays.shape[1]):
            columns[d, lane] = rays[begin + lane, d] if begin + lane < len(rays) else 0.0
    for node in range(n_nodes):
        for lane in range(begin, begin + _LANES):
            so_far[node, lane] = 0.0 if node == 0 else -np.inf
            to_come[node, lane] = 0.0 if node == n_nodes - 1 else -np.inf
    for k in range(n_links):
        i, j, v = np.uint32(sources[k]), np.uint32(seconds[k]), np.uint32(targets[k])
        at_p = at_q = at_r = at_s = 0.0
        for d in range(features.shape[1]):
            feature = features[k, d]
            at_p += feature * columns[d, 0]
            at_q += feature * columns[d, 1]
            at_r += feature * columns[d, 2]
            at_s += feature * columns[d, 3]
        scores[k, p], scores[k, q] = at_p, at_q
        scores[k, r], scores[k, s] = at_r, at_s
        so_far[v, p] = max(so_far[v, p], so_far[i, p] + so_far[j, p] + at_p)
        so_far[v, q] = max(so_far[v, q], so_far[i, q] + so_far[j, q] + at_q)
        so_far[v, r] = max(so_far[v, r], so_far[i, r] + so_far[j, r] + at_r)
        so_far[v, s] = max(so_far[v, s], so_far[i, s] + so_far[j, s] + at_s)
    for k in range(n_links - 1, -1, -1):
        i, j, v = np.uint32(sources[k]), np.uint32(seconds[k]), np.uint32(targets[k])
        at_p, at_q = to_come[v, p] + scores[k, p], to_come[v, q] + scores[k, q]
        at_r, at_s = to_come[v, r] + scores[k, r], to_come[v, s] + scores[k, s]
        to_come[i, p] = max(to_come[i, p], at_p + so_far[j, p])
        to_come[i, q] = max(to_come[i, q], at_q + so_far[j, q])
        to_come[i, r] = max(to_come[i, r], at_r + so_far[j, r])
        to_come[i, s] = max(to_come[i, s], at_s + so_far[j, s])
        if j > 0:
            to_come[j, p] = max(to_come[j, p], at_p + so_far[i, p])
            to_come[j, q] = max(to_come[j, q], at_q + so_far[i, q])
            to_come[j, r] = max(to_come[j, r], at_r + so_far[i, r])
            to_come[j, s] = max(to_come[j, s], at_s + so_far[i, s])


@internal
def _best_paths(bench, n_links, n_nodes, mixes, begin, end):
    """Find the best paths to each node at some mixes."""
    sources, seconds, targets = bench.links.sources, bench.links.seconds, bench.links.targets
    scores, columns, sums = bench.scores, bench.columns, bench.sums
    best, last = bench.best, bench.last
    width, n_rays = end - begin, mixes.shape[1]
    for m in range(width):
        for r in range(n_rays):
            columns[r, m] = mixes[begin + m, r]
    for v in range(n_nodes):
        fill(best[v], -np.inf)
    fill(best[0], 0.0)
    for k in range(n_links):
        u, s, v = sources[k], seconds[k], targets[k]
        for m in range(width):
            sums[m] = best[u, m] + best[s, m]
        for r in range(n_rays):
            score = scores[k, r]
            for m in range(width):
                sums[m] += score * columns[r, m]
        for m in range(width):
            better = sums[m] > best[v, m]
            best[v, m] = sums[m] if better else best[v, m]
            last[v, m] = k if better else last[v, m]


@internal
def _walk(bench, n_nodes, m, wanted, paths, row, middle):
    """Add up the features of the best path at a mix in a row of paths, and write down its links where they are wanted;
    return how many it has.
    """
    links, last, stack = bench.links, bench.last, bench.stack
    fill(paths[row], 0.0)
    length = 0
    stack[0] = n_nodes - 1
    waiting = 1
    while waiting > 0:
        waiting -= 1
        k = last[stack[waiting], m]
        for d in range(paths.shape[1]):
            paths[row, d] += links.features[k, d]
        if wanted:
            middle[length] = bench.chosen[k]
        length += 1
        if links.seconds[k] > 0:
            stack[waiting] = links.seconds[k]
            waiting += 1
        if links.sources[k] > 0:
            stack[waiting] = links.sources[k]
            waiting += 1
    return length


@internal
def _keep(bench, n_links, slack, sought, n_paths):
    """Keep the links through which a path may win in the cone; return how many these are."""
    chosen, links, scores, most = bench.chosen, bench.links, bench.scores, bench.most
    fill(sought.marks, np.uint8(0))
    likely = np.int64(0)
    n = 0
    for k in range(n_links):
        u, s, v = links.sources[k], links.seconds[k], links.targets[k]
        for r in range(len(slack)):
            through = bench.so_far[u, r] + bench.so_far[s, r] + scores[k, r]
            most[r] = through + bench.to_come[v, r] + slack[r]
        path = hopeless(most, sought.scores, n_paths, likely)
        if path >= 0:
            likely = path
            continue
        sought.marks[chosen[k] >> 3] |= np.uint8(128 >> (chosen[k] & 7))
        chosen[n], links.sources[n], links.seconds[n], links.targets[n] = chosen[k], u, s, v
        for d in range(links.features.shape[1]):
            links.features[n, d] = links.features[k, d]
        n += 1
    return n
