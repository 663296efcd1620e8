"""Graphs of words whose paths are hypotheses: what lattices and hypergraphs share once they are checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert import core
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.given import (
    MAGNITUDE_LIMIT,
    check_shape,
    checked_labels,
    checked_offsets,
    checked_sequence,
    real_numbers,
)
from lpmert.quoting import quoted

SILENT = -1
"""In place of the number of a word: the link has none."""

_EXACT_BITS = 51
"""The features of a path are whole multiples of their unit below 2**51: sums and differences of two are exact."""

_MOST_LINKS = 1_000_000
"""Of one hypothesis."""


class Graph(NamedTuple):
    """One lattice or hypergraph: links sorted by target, from node 0 to node n_nodes - 1, each to a larger node.

    sources, seconds [L]: the nodes that a link leaves; 0 stands for none, and is the start of a lattice. targets, words
    [L]: nodes, and numbers of words or `SILENT`; features [L, D]. most_links: no path has more.
    """

    n_nodes: int
    most_links: int
    sources: NDArray[np.int32]
    seconds: NDArray[np.int32]
    targets: NDArray[np.int32]
    words: NDArray[np.int32]
    features: FloatArray

    def links(self, chosen: NDArray[np.integer] | None = None) -> core.Links:
        """Return these links, or all."""
        own = slice(None) if chosen is None else chosen
        return core.Links(self.sources[own], self.seconds[own], self.targets[own], self.n_nodes)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class WordGraphs:
    """S graphs with L links in all, each with D features; immutable.

    A hypothesis is a path, or in a hypergraph a derivation: a tree of links. It is written as its links in the order of
    a walk through that tree from its root, first sources first; those of a path stand in it from the last to the first.
    losses [L]: what links lose, if that is what counts. most_links [S]: of a hypothesis.
    """

    features: FloatArray
    offsets: IntArray
    sources: NDArray[np.int32]
    seconds: NDArray[np.int32]
    targets: NDArray[np.int32]
    words: NDArray[np.int32]
    losses: FloatArray | None
    n_nodes: IntArray
    most_links: IntArray
    references: tuple[tuple[str, ...], ...]
    vocabulary: tuple[str, ...]
    names: tuple[str, ...]
    list_ids: tuple[str, ...]
    units: FloatArray

    def _set(self, **values: Any) -> None:
        """Set the fields but for units, with features as they are given; raises `DataError` for too long paths."""
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        object.__setattr__(self, "most_links", self._longest())
        exact, units = self.exact_sums(self.features)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "features", exact)
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __repr__(self) -> str:
        """Return the sizes, not the numbers."""
        kind = type(self).__name__
        return f"{kind}({self.n_lists} {kind.lower()}, {self.n_links} links, {self.n_features} features)"

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
        own = self.sources[links], self.seconds[links], self.targets[links], self.words[links]
        return Graph(int(self.n_nodes[number]), int(self.most_links[number]), *own, self.features[links])

    @cached_property
    def log10_paths(self) -> FloatArray:
        """For each lattice [S] the decimal logarithm of its number of paths."""
        return np.array([self.graph(number).links().log10_paths() for number in range(self.n_lists)])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum or its report."""
        digest = hashlib.sha256(f"lpmert {type(self).__name__} 1".encode("ascii"))
        labels = [self.names, self.list_ids, self.vocabulary, self.references, self.features.shape]
        digest.update(json.dumps(labels).encode("ascii"))
        arrays: list[NDArray[Any]] = [
            self.offsets,
            self.n_nodes,
            self.sources,
            self.seconds,
            self.targets,
            self.features,
            *self._said(),
        ]
        for array in arrays if self.losses is None else [*arrays, self.losses]:
            digest.update(np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8").data)
        return digest.hexdigest()

    def exact_sums(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return features [L, d] of the links rounded so that sums along paths are exact multiples of units [d]."""
        units, largest = [], np.zeros(rows.shape[1])
        for s in range(self.n_lists):
            lengths = np.ascontiguousarray(np.abs(rows[int(self.offsets[s]) : int(self.offsets[s + 1])]))
            np.maximum(largest, self.graph(s).links().largest_sums(lengths), out=largest)
        # One bit of room for what rounding adds to the sum; a feature of many tiny numbers loses no more than that.
        for values, exponent in zip(rows.T, (np.frexp(largest)[1] + 1 - _EXACT_BITS).tolist(), strict=True):
            whole = bool((values == np.rint(values)).all())
            units.append(np.ldexp(1.0, max(exponent, 0 if whole and exponent <= 0 else -1000)))
        found = rows / units
        np.rint(found, out=found)
        found *= units
        found += 0.0
        return found, np.array(units)

    def _said(self) -> tuple[NDArray[np.int32], ...]:
        """Return what tells the words of hypotheses."""
        return (self.words,)

    def words_of(self, number: int, way: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the words, as numbers, of a hypothesis of graph `number`."""
        words = self.words[int(self.offsets[number]) + way[::-1]]
        return np.asarray(words[words != SILENT])

    def _longest(self) -> IntArray:
        """Return the most links of a hypothesis of each graph; raises `DataError` where these are too many."""
        object.__setattr__(self, "most_links", np.zeros(self.n_lists, dtype=np.int64))
        found = []
        for number in range(self.n_lists):
            graph = self.graph(number)
            longest = float(graph.links().largest_sums(np.ones((len(graph.sources), 1)))[0])
            if longest > _MOST_LINKS:
                raise DataError(
                    f"{quoted(self.list_ids[number])} has hypotheses of {longest:g} links, beyond {_MOST_LINKS}"
                )
            found.append(int(longest))
        return np.array(found, dtype=np.int64)

    def text(self, words: Sequence[int]) -> str:
        """Return words, given by their numbers, as one text."""
        return " ".join(self.vocabulary[word] for word in words)


class Rows(NamedTuple):
    """Features [L, D] of links, where those of each graph begin and the last ones end, and what both are called."""

    features: FloatArray
    offsets: IntArray
    names: tuple[str, ...]
    list_ids: tuple[str, ...]


def checked_rows(
    features: ArrayLike,
    offsets: ArrayLike,
    names: Sequence[str] | None,
    list_ids: Sequence[str | int] | None,
) -> Rows:
    """Return features with names and ids, which are counted where there are none.

    Raises `DataError` where sizes disagree, a name or id comes twice, or a number is not finite or too large.
    """
    rows = np.asarray(real_numbers(features, "features"), dtype=np.float64)  # graphs keep rows that they have chosen
    check_shape(rows.shape, "features")
    n_links, n_features = rows.shape
    bounds = checked_offsets(offsets, n_links, "links")
    n_graphs = len(bounds) - 1
    ids = checked_labels(range(n_graphs) if list_ids is None else list_ids, n_graphs, "list_ids")
    default = [f"feature{number}" for number in range(1, n_features + 1)]
    found = Rows(rows, bounds, checked_labels(default if names is None else names, n_features, "names"), ids)
    _check_magnitudes(found)
    return found


def _check_magnitudes(given: Rows) -> None:
    rows, offsets, names, ids = given
    # no array as large as the rows; comparisons with NaN are false
    if not -MAGNITUDE_LIMIT <= rows.min() <= rows.max() <= MAGNITUDE_LIMIT:
        fits = np.abs(rows) <= MAGNITUDE_LIMIT
        link, column = divmod(int(np.argmin(fits)), len(names))
        number = int(np.searchsorted(offsets, link, side="right")) - 1
        raise DataError(
            f"lattice {quoted(ids[number])}, link {link - int(offsets[number])} (from 0), feature "
            f"{quoted(names[column])}: {rows[link, column]} is not finite, or beyond {MAGNITUDE_LIMIT:g}; correct it"
        )


def whole_numbers(values: ArrayLike, count: int, what: str) -> IntArray:
    """Return nodes [count]; raises `DataError` unless they are as many whole numbers from 0."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise DataError(f"{what} must be a one-dimensional array of {count} whole numbers, not {quoted(values)}")
    if (array < 0).any() or (array > np.iinfo(np.int32).max).any():
        raise DataError(f"{what} has numbers below 0 or beyond 2**31; number nodes from 0")
    return array.astype(np.int64)


def numbered_words(
    words: Any, vocabulary: Sequence[str] | None, count: int
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return words as numbers, and the vocabulary; raises `DataError` for what is none."""
    if vocabulary is not None:
        known = checked_labels(given := checked_sequence(vocabulary, "vocabulary"), len(given), "vocabulary")
        numbers = np.asarray(words)
        right = numbers.dtype.kind in "iu" and numbers.shape == (count,)
        if not right or (count and not (numbers.min() >= SILENT and numbers.max() < len(known))):
            raise DataError(f"words must be {count} whole numbers, -1 or a place in the vocabulary of {len(known)}")
        return numbers.astype(np.int32), known
    words = checked_sequence(words, "words")
    if len(words) != count:
        raise DataError(f"words must be a sequence of {count} strings or None, one a link")
    known_words = [word for word in dict.fromkeys(words) if word is not None]
    for word in known_words:
        if not isinstance(word, str) or not word:
            raise DataError(f"words must be strings that are not empty, or None; got {quoted(word)}")
    place = {None: SILENT, **{word: number for number, word in enumerate(known_words)}}
    return np.array([place[word] for word in words], dtype=np.int32), tuple(known_words)


def checked_references(
    references: Sequence[str | Sequence[str]] | None, ids: Sequence[str], losses: FloatArray | None
) -> tuple[tuple[str, ...], ...]:
    """Return references, none where links have losses; raises `DataError` where not each graph has one."""
    if references is None and losses is not None:
        return tuple(() for _ in ids)
    if references is None:
        raise DataError("give references, or losses of the links")
    if isinstance(references, str) or len(references) != len(ids):
        raise DataError(f"references needs one entry for each of the {len(ids)} lattices; got {quoted(references)}")
    several = [(own,) if isinstance(own, str) else tuple(own) for own in references]
    for list_id, own in zip(ids, several, strict=True):
        if not own or not all(isinstance(one, str) for one in own):
            raise DataError(f"lattice {quoted(list_id)} needs at least one reference, all of them strings")
    return tuple(several)


def checked_losses(losses: ArrayLike | None, count: int) -> FloatArray | None:
    """Return losses [L] of links; raises `DataError` unless they are as many whole numbers from 0."""
    if losses is None:
        return None
    found = np.asarray(losses, dtype=np.float64)
    if found.shape != (count,) or not ((found >= 0) & (found <= 2**31) & (found == np.rint(found))).all():
        raise DataError(f"losses must be {count} whole numbers from 0 to 2**31, one a link")
    return found


def ranks_of(sources: IntArray, targets: IntArray, n_nodes: int, list_id: str) -> IntArray:
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
