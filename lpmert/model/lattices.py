"""Word lattices as arrays, checked once: what `NBest` is for lists, for graphs whose paths are the hypotheses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.lattice_kernels import count_paths, longest_path, mark_useful
from lpmert.model.nbest import MAGNITUDE_LIMIT, checked_labels, checked_offsets, real_matrix
from lpmert.quoting import quoted

SILENT = -1
"""In place of the number of a word: the link has none."""

_EXACT_BITS = 51
"""The features of a path are whole multiples of their unit below 2**51: sums and differences of two are exact."""

_FINGERPRINT_TAG = b"lpmert lattices 1"

Link = tuple[int, int]


class Graph(NamedTuple):
    """One lattice: links sorted by target, from node 0 to node n_nodes - 1, each to a larger node.

    sources, targets, words [L]: nodes, and numbers of words or `SILENT`; features [L, D]. seconds [L]: a second node
    that a link leaves, 0 for none. most_links: no path has more.
    """

    n_nodes: int
    most_links: int
    sources: NDArray[np.int32]
    seconds: NDArray[np.int32]
    targets: NDArray[np.int32]
    words: NDArray[np.int32]
    features: FloatArray


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Lattices:
    """S word lattices with L links in all, each link with D features and perhaps a word; immutable.

    A lattice is a graph without cycles; its hypotheses are its paths from a start to an end. The features of a
    hypothesis are the sums of those of its links, its text their words, and what it loses is counted from that text
    against the references. Paths with the same words are one hypothesis with the score of the best of them; of
    paths that no weights tell apart the first stands for all: paths are compared link by link from their ends, and
    the link that is given first comes first.

    Links that are on no path from start to end are left out. The features are rounded to multiples of a power of two,
    one for each feature and all lattices, below 2**-50 of the largest sum along a path, so that sums are exact; numbers
    with few digits before and after the point, once read, move by less than 1e-9, whole numbers not at all.

    Parameters
    ----------
    features : array [L, D]
        Of the links.
    offsets : array [S + 1]
        Lattice s has the links offsets[s] to offsets[s + 1] - 1.
    sources, targets : array [L]
        Node that a link leaves and node that it leads to, whole numbers from 0 within each lattice.
    words : sequence of str or None [L], or array [L]
        `None` for a link that adds no word; with a vocabulary the numbers of words in it, -1 for none.
    references : sequence [S]
        For each lattice a string, or several.
    vocabulary : sequence of str, optional
        The words, if `words` has their numbers.
    starts, ends : array [S], optional
        First and last node of each lattice; the only node that no link leads to and the only one that none leaves.
    names : sequence of str, optional
        Of the features; feature1, ... by default.
    list_ids : sequence of str or int, optional
        Of the lattices; counted from 0 by default.

    Raises
    ------
    DataError
        If shapes disagree, a lattice has a cycle, no path, or no clear start or end, a name or id occurs twice, or a
        number is not finite or beyond 1e150.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.Lattices(
    ...     [[1, 0], [0, 1], [1, 1]], [0, 3], [0, 0, 1], [1, 1, 2], ["a", "an", "hour"], ["an hour"], names=["am", "lm"]
    ... )
    >>> lattices
    Lattices(1 lattices, 3 links, 2 features)
    """

    features: FloatArray
    offsets: IntArray
    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    words: NDArray[np.int32]
    n_nodes: IntArray
    references: tuple[tuple[str, ...], ...]
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    list_ids: tuple[str, ...]
    units: FloatArray

    def __init__(
        self,
        features: ArrayLike,
        offsets: ArrayLike,
        sources: ArrayLike,
        targets: ArrayLike,
        words: Sequence[str | None] | ArrayLike,
        references: Sequence[str | Sequence[str]],
        *,
        vocabulary: Sequence[str] | None = None,
        starts: ArrayLike | None = None,
        ends: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        list_ids: Sequence[str | int] | None = None,
    ) -> None:
        rows = real_matrix(features, "features")
        n_links, n_features = rows.shape
        bounds = checked_offsets(offsets, n_links, "links")
        n_lattices = len(bounds) - 1
        ids = checked_labels(range(n_lattices) if list_ids is None else list_ids, n_lattices, "list_ids")
        default = [f"feature{number}" for number in range(1, n_features + 1)]
        own_names = checked_labels(default if names is None else names, n_features, "names")
        _check_magnitudes(rows, bounds, ids, own_names)
        numbers, known = _words(words, vocabulary, n_links)
        both = _whole(sources, n_links, "sources"), _whole(targets, n_links, "targets")
        firsts = None if starts is None else _whole(starts, n_lattices, "starts")
        lasts = None if ends is None else _whole(ends, n_lattices, "ends")
        kept, counts, parts = [], [], []
        for s, list_id in enumerate(ids):
            links = slice(int(bounds[s]), int(bounds[s + 1]))
            outer = None if firsts is None else int(firsts[s]), None if lasts is None else int(lasts[s])
            order, found = _arranged(both[0][links], both[1][links], *outer, list_id)
            kept.append(order + links.start)
            parts.append(found)
            counts.append(int(found[1][-1]) + 1)
        chosen = np.concatenate(kept)
        values = {
            "offsets": np.cumsum([0, *map(len, kept)]),
            "sources": np.concatenate([found[0] for found in parts]).astype(np.int32),
            "targets": np.concatenate([found[1] for found in parts]).astype(np.int32),
            "words": numbers[chosen],
            "n_nodes": np.array(counts, dtype=np.int64),
            "features": rows[chosen],
            "references": _references(references, ids),
            "vocabulary": known,
            "names": own_names,
            "list_ids": ids,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        exact, units = self.exact_sums(self.features)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "features", exact)
        for array in (self.features, self.offsets, self.sources, self.targets, self.words, self.n_nodes, units):
            array.flags.writeable = False

    def __repr__(self) -> str:
        """Return the sizes, not the numbers."""
        return f"Lattices({self.n_lists} lattices, {self.n_links} links, {self.n_features} features)"

    @property
    def n_lists(self) -> int:
        """Number of lattices, S."""
        return len(self.n_nodes)

    @property
    def n_links(self) -> int:
        """Number of links of all lattices together, L."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Number of features, D."""
        return len(self.names)

    def graph(self, number: int) -> Graph:
        """Return one lattice, by its number from 0."""
        links = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        sources, n_nodes = self.sources[links], int(self.n_nodes[number])
        own = sources, np.zeros_like(sources), self.targets[links], self.words[links]
        return Graph(n_nodes, n_nodes - 1, *own, self.features[links])

    @cached_property
    def log10_paths(self) -> FloatArray:
        """For each lattice [S] the decimal logarithm of its number of paths."""
        found = []
        for number in range(self.n_lists):
            graph = self.graph(number)
            mantissas, exponents = np.empty(graph.n_nodes), np.empty(graph.n_nodes, dtype=np.int64)
            count_paths(graph.sources, graph.targets, mantissas, exponents)
            found.append(np.log10(mantissas[-1]) + exponents[-1] * np.log10(2.0))
        return np.array(found)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum or its report."""
        digest = hashlib.sha256(_FINGERPRINT_TAG)
        labels = [self.names, self.list_ids, self.vocabulary, self.references, self.features.shape]
        digest.update(json.dumps(labels).encode("ascii"))
        for array in (self.offsets, self.n_nodes, self.sources, self.targets, self.words, self.features):
            digest.update(array.astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes())
        return digest.hexdigest()

    def exact_sums(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return features [L, d] of the links rounded so that sums along paths are exact multiples of units [d]."""
        units = []
        for column in np.abs(rows.T):
            largest = 0.0
            for s in range(self.n_lists):
                graph = self.graph(s)
                longest = np.empty(graph.n_nodes)
                lengths = np.ascontiguousarray(column[int(self.offsets[s]) : int(self.offsets[s + 1])])
                longest_path(graph.sources, graph.targets, lengths, longest)
                largest = max(largest, float(longest[-1]))
            # One bit of room for what rounding adds to the sum; a feature of many tiny numbers loses no more than that.
            exponent = int(np.frexp(largest)[1]) + 1 - _EXACT_BITS
            whole = bool((column == np.rint(column)).all())
            units.append(np.ldexp(1.0, max(exponent, 0 if whole and exponent <= 0 else -1000)))
        return np.rint(rows / units) * units + 0.0, np.array(units)

    def text(self, words: Sequence[int]) -> str:
        """Return words, given by their numbers, as one text."""
        return " ".join(self.vocabulary[word] for word in words)


def _check_magnitudes(rows: FloatArray, offsets: IntArray, ids: Sequence[str], names: Sequence[str]) -> None:
    fits = np.abs(rows) <= MAGNITUDE_LIMIT  # false for NaN
    if not fits.all():
        link, column = divmod(int(np.argmin(fits)), len(names))
        number = int(np.searchsorted(offsets, link, side="right")) - 1
        raise DataError(
            f"lattice {quoted(ids[number])}, link {link - int(offsets[number])} (from 0), feature "
            f"{quoted(names[column])}: {rows[link, column]} is not finite, or beyond {MAGNITUDE_LIMIT:g}; correct it"
        )


def _whole(values: ArrayLike, count: int, what: str) -> IntArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise DataError(f"{what} must be a one-dimensional array of {count} whole numbers, not {quoted(values)}")
    if (array < 0).any() or (array > np.iinfo(np.int32).max).any():
        raise DataError(f"{what} has numbers below 0 or beyond 2**31; number nodes from 0")
    return array.astype(np.int64)


def _words(words: Any, vocabulary: Sequence[str] | None, count: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    if vocabulary is not None:
        known = checked_labels(vocabulary, len(vocabulary), "vocabulary")
        numbers = np.asarray(words)
        right = numbers.dtype.kind in "iu" and numbers.shape == (count,)
        if not right or (count and not (numbers.min() >= SILENT and numbers.max() < len(known))):
            raise DataError(f"words must be {count} whole numbers, -1 or a place in the vocabulary of {len(known)}")
        return numbers.astype(np.int32), known
    if isinstance(words, str) or len(words) != count:
        raise DataError(f"words must be a sequence of {count} strings or None, one a link")
    known_words = [word for word in dict.fromkeys(words) if word is not None]
    for word in known_words:
        if not isinstance(word, str) or not word:
            raise DataError(f"words must be strings that are not empty, or None; got {quoted(word)}")
    place = {None: SILENT, **{word: number for number, word in enumerate(known_words)}}
    return np.array([place[word] for word in words], dtype=np.int32), tuple(known_words)


def _references(references: Sequence[str | Sequence[str]], ids: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    if isinstance(references, str) or len(references) != len(ids):
        raise DataError(f"references needs one entry for each of the {len(ids)} lattices; got {quoted(references)}")
    several = [(own,) if isinstance(own, str) else tuple(own) for own in references]
    for list_id, own in zip(ids, several, strict=True):
        if not own or not all(isinstance(one, str) for one in own):
            raise DataError(f"lattice {quoted(list_id)} needs at least one reference, all of them strings")
    return tuple(several)


def _arranged(
    sources: IntArray, targets: IntArray, start: int | None, end: int | None, list_id: str
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """Return the links on paths, sorted by target, and their sources and targets, numbered from 0 in topological order.

    Links into one node keep their order.
    """
    n_nodes = int(max(sources.max(), targets.max())) + 1
    start = _outer_node(start, n_nodes, targets, sources, "start", list_id)
    end = _outer_node(end, n_nodes, sources, targets, "end", list_id)
    rank = np.arange(n_nodes)
    if (sources >= targets).any():
        rank = _ranks(sources, targets, n_nodes, list_id)
    order = np.argsort(rank[targets], kind="stable")
    first, second = rank[sources[order]], rank[targets[order]]
    reached, leading = np.zeros(n_nodes, dtype=bool), np.zeros(n_nodes, dtype=bool)
    mark_useful(first, second, rank[start], rank[end], reached, leading)
    useful = reached & leading
    on_path = useful[first] & useful[second]
    if start == end or not on_path.any():
        raise DataError(f"lattice {quoted(list_id)} has no path from node {start} to node {end}; leave it out")
    new = np.cumsum(useful) - 1
    return order[on_path], (new[first[on_path]], new[second[on_path]])


def _outer_node(given: int | None, n_nodes: int, inner: IntArray, others: IntArray, what: str, list_id: str) -> int:
    """Return the given node, or the only one of `others` that is not inner."""
    if given is not None:
        if given >= n_nodes:
            raise DataError(f"lattice {quoted(list_id)} has no node {given}, its {what}; the largest is {n_nodes - 1}")
        return given
    found = np.setdiff1d(others, inner)
    if len(found) == 1:
        return int(found[0])
    if len(found) == 0:
        _ranks(*(others, inner) if what == "start" else (inner, others), n_nodes, list_id)  # names the cycle
    raise DataError(
        f"lattice {quoted(list_id)}: nodes {found[0]} and {found[1]} could both be its {what}; give {what}s"
    )


def _ranks(sources: IntArray, targets: IntArray, n_nodes: int, list_id: str) -> IntArray:
    """Return for each node a number such that links lead to larger ones; raises `DataError` that names a cycle."""
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    try:
        order = list(nx.topological_sort(graph))
    except nx.NetworkXUnfeasible as error:
        cycle = [u for u, _ in nx.find_cycle(graph)]
        shown = " -> ".join(map(str, [*cycle, cycle[0]]))
        raise DataError(
            f"lattice {quoted(list_id)}: the links make a cycle, {shown}; a lattice has none: unfold it"
        ) from error
    ranks = np.empty(n_nodes, dtype=np.int64)
    ranks[order] = np.arange(n_nodes)
    return ranks
