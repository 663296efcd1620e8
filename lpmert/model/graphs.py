"""Graphs of words whose paths are hypotheses, as arrays checked once: lattices, and hypergraphs of parsers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert import core
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model import arrays
from lpmert.model.arrays import MAGNITUDE_LIMIT, checked_labels, checked_losses, checked_sequence, whole_numbers
from lpmert.numeric.lists import rows_of_lists
from lpmert.quoting import quoted

SILENT = -1  # the word number of a link without a word
Texts = tuple[tuple[int, ...], ...]  # texts as numbers of words

_EXACT_BITS = 51
"""The features of a path are whole multiples of their unit below 2**51: sums and differences of two are exact."""

_MOST_LINKS = 1_000_000  # most links of one hypothesis


class Graph(NamedTuple):
    """One lattice or hypergraph from node 0 to node n_nodes - 1: links sorted by target, each to a larger node.

    sources, seconds [L]: the nodes that a link leaves; 0 stands for none, and is the start of a lattice. targets [L]:
    nodes; words [L]: numbers of words, or `SILENT`; features [L, D]. most_links: the length of the longest path.
    """

    n_nodes: int
    most_links: int
    sources: NDArray[np.int32]
    seconds: NDArray[np.int32]
    targets: NDArray[np.int32]
    words: NDArray[np.int32]
    features: FloatArray

    def links(self, chosen: NDArray[np.integer] | None = None) -> core.Links:
        rows = slice(None) if chosen is None else chosen
        return core.Links(self.sources[rows], self.seconds[rows], self.targets[rows], self.n_nodes)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class WordGraphs:
    """S graphs with L links in all, each with D features; immutable.

    A hypothesis is a path, or in a hypergraph a derivation: a tree of links. It is stored as its links in preorder from
    the root, first sources first; for a path that is from the last link to the first. losses [L]: of the links, for
    metric "loss". most_links [S]: of a hypothesis. Features are whole multiples of units [D].
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
        """Set all fields except `most_links` and `units`, and compute these; the features are rounded in place.

        Raises `DataError` for paths that are too long.
        """
        vars(self).update(values, most_links=np.zeros(len(values["n_nodes"]), dtype=np.int64))
        for number, list_id in enumerate(self.list_ids):
            graph = self.graph(number)
            longest = float(graph.links().largest_sums(np.ones((len(graph.sources), 1)))[0])
            if longest > _MOST_LINKS:
                raise DataError(f"{quoted(list_id)} has hypotheses of {longest:g} links, beyond {_MOST_LINKS}")
            self.most_links[number] = longest
        vars(self).update(units=self.exact_sums(self.features, out=self.features)[1])
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({self.n_lists} {kind.lower()}, {self.n_links} links, {self.n_features} features)"

    @property
    def n_lists(self) -> int:
        return len(self.n_nodes)

    @property
    def n_links(self) -> int:
        return len(self.features)

    @property
    def n_features(self) -> int:
        return len(self.names)

    def graph(self, number: int) -> Graph:
        links = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        ends_and_words = self.sources[links], self.seconds[links], self.targets[links], self.words[links]
        return Graph(int(self.n_nodes[number]), int(self.most_links[number]), *ends_and_words, self.features[links])

    @cached_property
    def log10_paths(self) -> FloatArray:
        """The decimal logarithm of the number of paths of each lattice [S]."""
        return np.array([self.graph(number).links().log10_paths() for number in range(self.n_lists)])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum or its report."""
        labels = [self.names, self.list_ids, self.vocabulary, self.references, self.features.shape]
        values = (getattr(self, field.name) for field in fields(self))
        numbers = [value for value in values if isinstance(value, np.ndarray)]
        return arrays.fingerprint_of(f"lpmert {type(self).__name__} 2", labels, numbers)

    def exact_sums(self, rows: FloatArray, out: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Return features [L, d] of links, rounded to multiples of units [d] so that sums along paths are exact.

        out: an array for the result, which may be `rows`. Returns the rounded features and the units.
        """
        largest, whole = np.zeros(rows.shape[1]), np.ones(rows.shape[1], dtype=bool)
        for s in range(self.n_lists):
            block = rows[int(self.offsets[s]) : int(self.offsets[s + 1])]
            np.maximum(largest, self.graph(s).links().largest_sums(np.ascontiguousarray(np.abs(block))), out=largest)
            whole &= (block == np.rint(block)).all(axis=0)
            if largest.max(initial=0.0) > MAGNITUDE_LIMIT:
                which = f"lattice {quoted(self.list_ids[s])}: {quoted(self.names[int(largest.argmax())])}"
                raise DataError(f"{which} adds up to more than {MAGNITUDE_LIMIT:g} along a path; rescale it")
        # One bit of room for what rounding adds to a sum, even to that of many tiny numbers.
        exponents = np.frexp(largest)[1] + 1 - _EXACT_BITS
        units = np.ldexp(1.0, np.maximum(exponents, np.where(whole & (exponents <= 0), 0, -1074)))
        found = np.divide(rows, units, out=out)
        np.rint(found, out=found)
        found *= units
        found += 0.0
        return found, units

    def say(self, link: int, texts: Texts) -> Texts:
        """Return the text of a link, counted from 0 over all graphs, from the texts of the nodes that it leaves."""
        before, word = texts[0] if texts else (), int(self.words[link])
        return (before if word == SILENT else (*before, word),)

    def words_of(self, number: int, way: NDArray[np.integer]) -> NDArray[np.int32]:
        words = self.words[int(self.offsets[number]) + way[::-1]]
        return np.asarray(words[words != SILENT])

    def text(self, words: Sequence[int]) -> str:
        return " ".join(self.vocabulary[word] for word in words)


def checked_rows(
    features: ArrayLike,
    offsets: ArrayLike,
    names: Sequence[str] | None,
    list_ids: Sequence[str | int] | None,
) -> tuple[FloatArray, IntArray, tuple[str, ...], tuple[str, ...]]:
    """Return checked features, offsets, names and ids, with default names and ids for `None`.

    Raises `DataError` if sizes disagree, a name or id comes twice, or a number is not finite or too large.
    """
    # Not copied: callers take a part of the rows.
    rows = np.asarray(arrays.real_numbers(features, "features"), dtype=np.float64)
    arrays.check_shape(rows.shape, "features")
    n_links, n_features = rows.shape
    bounds = arrays.checked_offsets(offsets, n_links, "links")
    n_graphs = len(bounds) - 1
    ids = checked_labels(range(n_graphs) if list_ids is None else list_ids, n_graphs, "list_ids")
    own_names = checked_labels(arrays.numbered("feature", n_features) if names is None else names, n_features, "names")
    arrays.check_magnitudes(rows, bounds, ids, own_names, of=("lattice", "link"))
    return rows, bounds, own_names, ids


def _references(
    references: Sequence[str | Sequence[str]] | None, ids: Sequence[str], losses: FloatArray | None
) -> tuple[tuple[str, ...], ...]:
    if references is None and losses is None:
        raise DataError("give references, or losses of the links")
    return (
        tuple(() for _ in ids) if references is None else tuple(arrays.checked_references(references, ids, "lattice"))
    )


def numbered_words(
    words: Any, vocabulary: Sequence[str] | None, count: int
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return words as numbers, `SILENT` for `None`, and the vocabulary; raises `DataError` for anything else."""
    if vocabulary is not None:
        labels = checked_sequence(vocabulary, "vocabulary")
        known = checked_labels(labels, len(labels), "vocabulary")
        numbers = np.asarray(words)
        right = numbers.dtype.kind in "iu" and numbers.shape == (count,)
        if not right or (count and not (numbers.min() >= SILENT and numbers.max() < len(known))):
            raise DataError(f"words must be {count} whole numbers, -1 or a place in the vocabulary of {len(known)}")
        return numbers.astype(np.int32), known
    words = checked_sequence(words, "words")
    if len(words) != count:
        raise DataError(f"words must be a sequence of {count} strings or None, one per link")
    known_words = [word for word in dict.fromkeys(words) if word is not None]
    for word in known_words:
        if not isinstance(word, str) or not word:
            raise DataError(f"words must be strings that are not empty, or None; got {quoted(word)}")
    number_of = {None: SILENT, **{word: number for number, word in enumerate(known_words)}}
    return np.array([number_of[word] for word in words], dtype=np.int32), tuple(known_words)


def _ranks_of(sources: IntArray, targets: IntArray, n_nodes: int, who: str) -> IntArray:
    """Return a topological rank of each node; raises `DataError`, naming the nodes, if there is a cycle."""
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    try:
        order = list(nx.topological_sort(graph))
    except nx.NetworkXUnfeasible as error:
        cycle = [u for u, _ in nx.find_cycle(graph)]
        shown = " -> ".join(map(str, [*cycle, cycle[0]]))
        raise DataError(f"{who}: the links make a cycle, {shown}; remove it, or unfold it") from error
    ranks = np.empty(n_nodes, dtype=np.int64)
    ranks[order] = np.arange(n_nodes)
    return ranks


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Lattices(WordGraphs):
    """S word lattices with L links in all, each link with D features and perhaps a word; immutable.

    A lattice is a graph without cycles; its hypotheses are its paths from a start to an end. The features of a
    hypothesis are the sums of those of its links, its text consists of their words, and its loss is counted from that
    text against the references. Paths with the same words are one hypothesis, with the score of the best path. Of paths
    that no weights distinguish, the first represents all: paths are compared link by link from their ends, in the order
    in which links are given.

    Links on no path from start to end are dropped. Features are rounded to multiples of a power of two, so that sums
    are exact; each feature has one power for all lattices, below 2**-50 of its largest sum along a path. Numbers with
    few digits before and after the point move by less than 1e-9, whole numbers not at all.

    Parameters
    ----------
    features : array [L, D]
        Features of the links.
    offsets : array [S + 1]
        Lattice s has the links offsets[s] to offsets[s + 1] - 1.
    sources, targets : array [L]
        The node that a link leaves and the node that it leads to, whole numbers from 0 within each lattice.
    words : sequence of str or None [L], or array [L]
        `None` for a link without a word; with a vocabulary, the numbers of words in it, -1 for none.
    references : sequence [S]
        For each lattice a string, or several. Not needed with `losses`.
    losses : array [L], optional
        The loss of each link, whole numbers: with metric "loss" that of a path is their sum.
    vocabulary : sequence of str, optional
        The words, if `words` holds their numbers.
    starts, ends : array [S], optional
        First and last node of each lattice; by default the only node that no link leads to, and the only one that no
        link leaves.
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

    def __init__(
        self,
        features: ArrayLike,
        offsets: ArrayLike,
        sources: ArrayLike,
        targets: ArrayLike,
        words: Sequence[str | None] | ArrayLike,
        references: Sequence[str | Sequence[str]] | None = None,
        *,
        losses: ArrayLike | None = None,
        vocabulary: Sequence[str] | None = None,
        starts: ArrayLike | None = None,
        ends: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        list_ids: Sequence[str | int] | None = None,
    ) -> None:
        rows, bounds, own_names, ids = checked_rows(features, offsets, names, list_ids)
        numbers, known = numbered_words(words, vocabulary, len(rows))
        left, entered = whole_numbers(sources, len(rows), "sources"), whole_numbers(targets, len(rows), "targets")
        firsts = None if starts is None else whole_numbers(starts, len(ids), "starts")
        lasts = None if ends is None else whole_numbers(ends, len(ids), "ends")
        n_nodes, lengths, chosen = np.empty(len(ids), dtype=np.int64), [0], np.empty(len(rows), dtype=np.int64)
        ends_of_links, end = np.empty((2, len(rows)), dtype=np.int32), 0
        for s, list_id in enumerate(ids):
            links = slice(int(bounds[s]), int(bounds[s + 1]))
            outer = None if firsts is None else int(firsts[s]), None if lasts is None else int(lasts[s])
            order, sorted_ends = _sorted_links(left[links], entered[links], *outer, list_id)
            useful = slice(end, end := end + len(order))
            chosen[useful], ends_of_links[:, useful] = order + links.start, sorted_ends
            n_nodes[s] = int(sorted_ends[1][-1]) + 1
            lengths.append(len(order))
        del left, entered
        chosen, link_losses = chosen[:end], checked_losses(losses, len(rows))
        self._set(
            features=rows[chosen],
            offsets=np.cumsum(lengths),
            sources=ends_of_links[0, :end],
            seconds=np.zeros(end, dtype=np.int32),
            targets=ends_of_links[1, :end],
            words=numbers[chosen],
            losses=None if link_losses is None else link_losses[chosen],
            n_nodes=n_nodes,
            references=_references(references, ids, link_losses),
            vocabulary=known,
            names=own_names,
            list_ids=ids,
        )

    def restrict(self, lattices: ArrayLike | slice) -> Lattices:
        """Return the lattices chosen by indices, a mask [S] or a slice, in the order given.

        Raises `DataError` if an index is out of range.
        """
        chosen = arrays.chosen_of(lattices, self.n_lists, "lattice")
        links, offsets = rows_of_lists(self.offsets, chosen)
        return Lattices(
            self.features[links],
            offsets,
            self.sources[links],
            self.targets[links],
            self.words[links],
            [self.references[s] for s in chosen] if all(self.references) else None,
            losses=None if self.losses is None else self.losses[links],
            vocabulary=self.vocabulary,
            starts=np.zeros(len(chosen), dtype=np.int64),
            ends=self.n_nodes[chosen] - 1,
            names=self.names,
            list_ids=[self.list_ids[s] for s in chosen],
        )


def _sorted_links(
    sources: IntArray, targets: IntArray, start: int | None, end: int | None, list_id: str
) -> tuple[IntArray, tuple[IntArray, IntArray]]:
    """Return the links on paths from start to end, sorted by target, and their sources and targets.

    Nodes are renumbered from 0 in topological order. Links into one node keep their order.
    """
    n_nodes, who = int(max(sources.max(), targets.max())) + 1, f"lattice {quoted(list_id)}"
    rank = np.arange(n_nodes)
    if (sources >= targets).any():
        rank = _ranks_of(sources, targets, n_nodes, who)
    start = _outer_node(start, n_nodes, sources, targets, "start", who)
    end = _outer_node(end, n_nodes, targets, sources, "end", who)
    order = np.argsort(rank[targets], kind="stable")
    ends, last = rank[np.stack([sources[order], targets[order]])] - rank[start], int(rank[end] - rank[start])
    between = (ends[0] >= 0) & (ends[1] <= last)
    order, ends = order[between], ends[:, between]
    useful = _useful(ends[0], np.zeros_like(order), ends[1], last)
    if start == end or not useful.any():
        raise DataError(f"{who} has no path from node {start} to node {end}; leave it out")
    ends = ends[:, useful]
    kept = np.zeros(last + 1, dtype=bool)
    kept[ends] = True
    sources, targets = (np.cumsum(kept) - 1)[ends]
    return order[useful], (sources, targets)


def _useful(sources: IntArray, seconds: IntArray, targets: IntArray, last: int) -> NDArray[np.bool_]:
    """Return which links are part of a path or derivation from node 0 to the last one."""
    first, second, third = (nodes.astype(np.int32) for nodes in (sources, seconds, targets))
    return np.isfinite(core.Links(first, second, third, max(last, 0) + 1).best_through(np.zeros(len(sources))))


def _outer_node(node: int | None, n_nodes: int, nodes: IntArray, inner: IntArray, what: str, who: str) -> int:
    """Return the node if it is not `None`, or else the only one of the nodes that is not inner; there is no cycle."""
    if node is not None:
        if node >= n_nodes:
            raise DataError(f"{who} has no node {node}, its {what}; the largest is {n_nodes - 1}")
        return node
    first, *others = np.setdiff1d(nodes, inner).tolist()
    if others:
        raise DataError(f"{who}: nodes {first} and {others[0]} could both be its {what}; give {what}s")
    return int(first)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Hypergraphs(WordGraphs):
    """S hypergraphs with L edges in all, each with D features; immutable.

    An edge derives its head from its tails; a hypothesis is a derivation of the goal. Its features are the sums of
    those of its edges, where an edge that is used twice counts twice; its text is composed of the outputs of the edges.
    Its loss is counted from that text, and features are rounded, as for `Lattices`.

    Of derivations that no weights distinguish, the first represents all: derivations are compared edge by edge, from
    the goal on, first tails first, in the order in which edges are given. Edges in no derivation of the goal are
    dropped.

    Parameters
    ----------
    features : array [L, D]
        Features of the edges.
    offsets : array [S + 1]
        Hypergraph s has the edges offsets[s] to offsets[s + 1] - 1.
    heads : array [L]
        The node that an edge derives, whole numbers from 0 within each hypergraph.
    tails : sequence [L] of sequences
        Nodes from which an edge derives its head, possibly none. A node may occur twice.
    outputs : sequence [L] of sequences
        A string is a word, a number k the text of the edge's tail k, counted from 0; every tail occurs once.
    references : sequence [S]
        For each hypergraph a string, or several. Not needed with `losses`.
    losses : array [L], optional
        The loss of each edge, whole numbers: with metric "loss" that of a derivation is their sum.
    goals : array [S], optional
        The node whose derivations are the hypotheses; by default the only node that is no tail.
    names : sequence of str, optional
        Of the features; feature1, ... by default.
    list_ids : sequence of str or int, optional
        Of the hypergraphs; counted from 0 by default.

    Raises
    ------
    DataError
        If shapes disagree, a hypergraph has a cycle, no derivation, or no clear goal, an output does not name every
        tail once, a name or id occurs twice, or a number is not finite or beyond 1e150.

    Examples
    --------
    >>> import lpmert
    >>> hypergraphs = lpmert.Hypergraphs(
    ...     [[1, 0], [0, 1], [0, 2]], [0, 3], [1, 1, 0], [[], [], [1]], [["hour"], ["our"], ["an", 0]], ["an hour"]
    ... )
    >>> hypergraphs
    Hypergraphs(1 hypergraphs, 3 links, 2 features)
    """

    outputs: NDArray[np.int32]
    output_offsets: IntArray

    def __init__(
        self,
        features: ArrayLike,
        offsets: ArrayLike,
        heads: ArrayLike,
        tails: Sequence[Sequence[int]],
        outputs: Sequence[Sequence[str | int]],
        references: Sequence[str | Sequence[str]] | None = None,
        *,
        losses: ArrayLike | None = None,
        goals: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        list_ids: Sequence[str | int] | None = None,
    ) -> None:
        rows, bounds, own_names, ids = checked_rows(features, offsets, names, list_ids)
        derived = whole_numbers(heads, len(rows), "heads")
        wanted = None if goals is None else whole_numbers(goals, len(ids), "goals")
        edge_losses = checked_losses(losses, len(rows))
        checked_tails, checked_outputs = _checked_edges(tails, outputs, len(rows))
        tables, counts = [], []
        for s, list_id in enumerate(ids):
            own, goal = range(int(bounds[s]), int(bounds[s + 1])), None if wanted is None else int(wanted[s])
            tables.append(_sorted_edges(derived, checked_tails, own, goal, list_id))
            counts.append(int(tables[-1][-1, 2]) + 1)
        table = np.concatenate(tables)
        edges = table[:, 3]
        is_edge = edges >= 0  # other links only join tails
        words = [word for output in checked_outputs for word in output if isinstance(word, str)]
        numbers, vocabulary = numbered_words(words, None, len(words))
        number = iter(numbers.tolist())
        coded = [
            [next(number) if isinstance(item, str) else SILENT - 1 - item for item in output]
            for output in checked_outputs
        ]
        texts: list[list[int]] = [coded[edge] if edge >= 0 else [] for edge in edges.tolist()]
        self._set(
            features=np.where(is_edge[:, None], rows[edges], 0.0),
            offsets=np.cumsum([0, *map(len, tables)], dtype=np.int64),
            sources=table[:, 0].astype(np.int32),
            seconds=table[:, 1].astype(np.int32),
            targets=table[:, 2].astype(np.int32),
            words=np.where(is_edge, SILENT, _JOINT).astype(np.int32),
            losses=None if edge_losses is None else np.where(is_edge, edge_losses[edges], 0.0),
            outputs=np.array([word for text in texts for word in text], dtype=np.int32),
            output_offsets=np.cumsum([0, *map(len, texts)], dtype=np.int64),
            n_nodes=np.array(counts, dtype=np.int64),
            references=_references(references, ids, edge_losses),
            vocabulary=vocabulary,
            names=own_names,
            list_ids=ids,
        )

    @property
    def n_links(self) -> int:
        return int((self.words != _JOINT).sum())

    def words_of(self, number: int, way: NDArray[np.integer]) -> NDArray[np.int32]:
        stack: list[Texts] = []  # texts of tails, those of a link's source on top
        first = int(self.offsets[number])
        for link in (first + way[::-1]).tolist():
            tails = [node for node in (self.sources[link], self.seconds[link]) if node > 0]
            stack.append(self.say(link, tuple(text for _ in tails for text in stack.pop())))
        return np.array(stack[0][0], dtype=np.int32)

    def say(self, link: int, texts: Texts) -> Texts:
        """Return the text of a link, see `WordGraphs.say`; several texts if it only joins tails."""
        if self.words[link] == _JOINT:
            return texts
        words: list[int] = []
        for word in self.outputs[self.output_offsets[link] : self.output_offsets[link + 1]].tolist():
            words += [word] if word > SILENT else texts[SILENT - 1 - word]
        return (tuple(words),)


_JOINT = SILENT - 1  # the word number of a link that only joins two tails of an edge with more than two


def _checked_edges(
    tails: Sequence[Sequence[int]], outputs: Sequence[Sequence[str | int]], count: int
) -> tuple[list[tuple[int, ...]], list[tuple[str | int, ...]]]:
    for what, given in (("tails", tails), ("outputs", outputs)):
        if isinstance(given, str) or len(given) != count:
            raise DataError(f"{what} must be a sequence of {count} sequences, one per edge")
    for k, (nodes, output) in enumerate(zip(tails, outputs, strict=True)):
        if not all(isinstance(node, int | np.integer) and 0 <= node < 2**31 for node in nodes):
            raise DataError(f"the tails of edge {k} (from 0) must be whole numbers from 0, not {quoted(nodes)}")
        named = sorted(int(word) for word in output if not isinstance(word, str))
        if isinstance(output, str) or named != list(range(len(nodes))):
            once = f"must name each of its {len(nodes)} tails once, from 0"
            raise DataError(f"the output of edge {k} (from 0) {once}; it is {quoted(output)}")
    own_outputs = [tuple(word if isinstance(word, str) else int(word) for word in output) for output in outputs]
    return [tuple(nodes) for nodes in tails], own_outputs


def _sorted_edges(
    heads: IntArray, tails: list[tuple[int, ...]], edges: range, goal: int | None, list_id: str
) -> IntArray:
    """Return links [l, 4] (source, second, target, edge) sorted by target, of which the last is the goal.

    Node 0 stands for no tail. Of an edge with more than two tails, all but the last are joined by links with edge -1.
    """
    who, own_heads = f"hypergraph {quoted(list_id)}", heads[edges.start : edges.stop]
    into: dict[int, list[int]] = {}
    for edge, head in zip(edges, own_heads.tolist(), strict=True):
        into.setdefault(head, []).append(edge)
    pairs = [(node, head) for head, entering in into.items() for edge in entering for node in tails[edge]]
    lower, upper = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    n_nodes = 1 + int(max(own_heads.max(), lower.max(initial=0)))
    rank = _ranks_of(lower, upper, n_nodes, who)
    goal = _outer_node(goal, n_nodes, own_heads, lower, "goal", who)
    links: list[tuple[int, int, int, int]] = []
    new: dict[int, int] = {}
    last = 0
    for node in np.argsort(rank)[: rank[goal] + 1].tolist():
        entering = []
        for edge in into.get(node, ()):
            sides = [new[tail] for tail in tails[edge]]
            while len(sides) > 2:
                last += 1
                links.append((sides[0], sides[1], last, -1))
                sides[:2] = [last]
            entering.append((*[*sides, 0, 0][:2], edge))
        last += 1
        new[node] = last
        links += [(source, second, last, edge) for source, second, edge in entering]
    table = np.array(links, dtype=np.int64).reshape(-1, 4)
    table = table[_useful(table[:, 0], table[:, 1], table[:, 2], last)]
    if not len(table):
        raise DataError(f"{who} has no derivation of node {goal}; leave it out")
    table[:, :3] = np.searchsorted(np.unique(np.append(table[:, :3], 0)), table[:, :3])
    return table
