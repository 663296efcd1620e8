"""Hypergraphs of parsers and syntax-based translators as arrays, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lpmert.errors import DataError, IntArray
from lpmert.model.word_graphs import (
    SILENT,
    WordGraphs,
    checked_losses,
    checked_references,
    checked_rows,
    numbered_words,
    ranks_of,
    whole_numbers,
)
from lpmert.quoting import quoted

Texts = tuple[tuple[int, ...], ...]
"""Texts, each of words by their numbers."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Hypergraphs(WordGraphs):
    """S hypergraphs with L edges in all, each with D features; immutable.

    An edge derives its head from its tails; a hypothesis is a derivation of the goal. Its features are the sums of
    those of its edges, an edge that is used twice counting twice; its text is put together from the outputs of the
    edges. What it loses is counted from that text, as for `Lattices`, which says too how features are rounded.

    Of derivations that no weights tell apart the first stands for all: they are compared edge by edge, from the goal
    on and first tails first, and the edge that is given first comes first. Edges that are part of no derivation of the
    goal are left out.

    Parameters
    ----------
    features : array [L, D]
        Of the edges.
    offsets : array [S + 1]
        Hypergraph s has the edges offsets[s] to offsets[s + 1] - 1.
    heads : array [L]
        The node that an edge derives, whole numbers from 0 within each hypergraph.
    tails : sequence [L] of sequences
        Nodes that an edge needs; none for an edge that needs none. A node may occur twice.
    outputs : sequence [L] of sequences
        A string is a word, a number k the text of the edge's tail k, counted from 0; every tail occurs once.
    references : sequence [S]
        For each hypergraph a string, or several. Not needed with `losses`.
    losses : array [L], optional
        What each edge loses, whole numbers: with metric "loss" a derivation loses their sum.
    goals : array [S], optional
        The node whose derivations are the hypotheses; the only node that is no tail.
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
        lost = checked_losses(losses, len(rows))
        needed, said = _tails(tails, len(rows)), _outputs(outputs, tails, len(rows))
        links: list[tuple[int, int, int, int]] = []
        places, counts = [0], []
        for s, list_id in enumerate(ids):
            own = range(int(bounds[s]), int(bounds[s + 1]))
            goal = None if wanted is None else int(wanted[s])
            found, n_nodes = _arranged(derived, needed, own, goal, list_id)
            links += found
            places.append(len(links))
            counts.append(n_nodes)
        table = np.array(links, dtype=np.int64)
        edges = table[:, 3]
        real = edges >= 0
        spoken = [word for output in said for word in output if isinstance(word, str)]
        numbers, vocabulary = numbered_words(spoken, None, len(spoken))
        each = iter(numbers.tolist())
        coded = [[next(each) if isinstance(word, str) else SILENT - 1 - word for word in output] for output in said]
        texts: list[list[int]] = [coded[edge] if edge >= 0 else [] for edge in edges.tolist()]
        self._set(
            features=np.where(real[:, None], rows[edges], 0.0),
            offsets=np.array(places, dtype=np.int64),
            sources=table[:, 0].astype(np.int32),
            seconds=table[:, 1].astype(np.int32),
            targets=table[:, 2].astype(np.int32),
            words=np.where(real, SILENT, _JOINT).astype(np.int32),
            losses=None if lost is None else np.where(real, lost[edges], 0.0),
            outputs=np.array([word for text in texts for word in text], dtype=np.int32),
            output_offsets=np.cumsum([0, *map(len, texts)], dtype=np.int64),
            n_nodes=np.array(counts, dtype=np.int64),
            references=checked_references(references, ids, lost),
            vocabulary=vocabulary,
            names=own_names,
            list_ids=ids,
        )

    @property
    def n_links(self) -> int:
        """Number of edges of all hypergraphs together, L."""
        return int((self.words != _JOINT).sum())

    def words_of(self, number: int, way: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the words, as numbers, of a derivation of hypergraph `number`."""
        waiting: list[Texts] = []  # texts of tails, those of a link's source last
        first = int(self.offsets[number])
        for link in (first + way[::-1]).tolist():
            tails = [node for node in (self.sources[link], self.seconds[link]) if node > 0]
            waiting.append(self.say(link, tuple(text for _ in tails for text in waiting.pop())))
        return np.array(waiting[0][0], dtype=np.int32)

    def say(self, link: int, texts: Texts) -> Texts:
        """Return the text that a link, counted from 0 through all hypergraphs, makes of the texts of its tails.

        Several texts where it does no more than join tails.
        """
        if self.words[link] == _JOINT:
            return texts
        words: list[int] = []
        for word in self.outputs[self.output_offsets[link] : self.output_offsets[link + 1]].tolist():
            words += [word] if word > SILENT else texts[SILENT - 1 - word]
        return (tuple(words),)

    def _said(self) -> tuple[NDArray[np.int32], ...]:
        return self.outputs, self.output_offsets.astype(np.int32)


_JOINT = SILENT - 1
"""In place of the word of a link that does no more than join two tails of an edge that has more than two."""


def _tails(tails: Sequence[Sequence[int]], count: int) -> list[tuple[int, ...]]:
    if len(tails) != count:
        raise DataError(f"tails must be a sequence of {count} sequences of nodes, one an edge")
    found = [tuple(own) for own in tails]
    for k, own in enumerate(found):
        if not all(isinstance(node, int | np.integer) and 0 <= node < 2**31 for node in own):
            raise DataError(f"the tails of edge {k} (from 0) must be whole numbers from 0, not {quoted(own)}")
    return found


def _outputs(
    outputs: Sequence[Sequence[str | int]], tails: Sequence[Sequence[int]], count: int
) -> list[tuple[str | int, ...]]:
    if isinstance(outputs, str) or len(outputs) != count:
        raise DataError(f"outputs must be a sequence of {count} sequences of words and tails, one an edge")
    found = []
    for k, (own, below) in enumerate(zip(outputs, tails, strict=True)):
        named = sorted(int(word) for word in own if not isinstance(word, str))
        if isinstance(own, str) or named != list(range(len(below))):
            raise DataError(
                f"the output of edge {k} (from 0) must name each of its {len(below)} tails once, from 0; "
                f"it is {quoted(own)}"
            )
        found.append(tuple(word if isinstance(word, str) else int(word) for word in own))
    return found


def _arranged(
    heads: IntArray, tails: list[tuple[int, ...]], edges: range, goal: int | None, list_id: str
) -> tuple[list[tuple[int, int, int, int]], int]:
    """Return links (source, second, target, edge) sorted by target, and the number of nodes.

    Node 0 stands for no tail; of edges with more than two tails all but the last are joined, by links with edge -1.
    """
    own_heads = [int(heads[edge]) for edge in edges]
    if goal is None:
        below = {node for edge in edges for node in tails[edge]}
        goals = sorted(set(own_heads) - below)
        if len(goals) != 1:
            shown = "none of the heads is no tail" if not goals else f"{goals[0]} and {goals[1]} could both be"
            raise DataError(f"hypergraph {quoted(list_id)}: {shown} the goal; give goals")
        goal = goals[0]
    n_nodes = 1 + max([goal, *own_heads, *(node for edge in edges for node in tails[edge])])
    pairs = [(node, head) for edge, head in zip(edges, own_heads, strict=True) for node in tails[edge]]
    lower, upper = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True)) if pairs else (_NONE, _NONE)
    rank = ranks_of(lower, upper, n_nodes, list_id)
    into: dict[int, list[int]] = {}
    for edge, head in zip(edges, own_heads, strict=True):
        into.setdefault(head, []).append(edge)
    derivable: set[int] = set()
    for node in np.argsort(rank).tolist():
        into[node] = [edge for edge in into.get(node, []) if derivable.issuperset(tails[edge])]
        if into[node]:
            derivable.add(node)
    if goal not in derivable:
        raise DataError(f"hypergraph {quoted(list_id)} has no derivation of node {goal}; leave it out")
    used: set[int] = {goal}
    for node in np.argsort(-rank).tolist():
        if node in used:
            used.update(below for edge in into[node] for below in tails[edge])
    links: list[tuple[int, int, int, int]] = []
    new: dict[int, int] = {}
    last = 0
    for node in sorted(used, key=lambda node: int(rank[node])):  # the goal is last: all others are below it
        last = _links_into(node, into[node], tails, new, links, last)
    return links, last + 1


_NONE = np.empty(0, dtype=np.int64)


def _links_into(
    node: int,
    edges: list[int],
    tails: list[tuple[int, ...]],
    new: dict[int, int],
    links: list[tuple[int, int, int, int]],
    last: int,
) -> int:
    """Append the links into a node, and before them those that join tails; return the largest number of a node."""
    own = []
    for edge in edges:
        below = [new[tail] for tail in tails[edge]]
        while len(below) > 2:
            last += 1
            links.append((below[0], below[1], last, -1))
            below[:2] = [last]
        own.append((*[*below, 0, 0][:2], edge))
    last += 1
    new[node] = last
    links += [(source, second, last, edge) for source, second, edge in own]
    return last
