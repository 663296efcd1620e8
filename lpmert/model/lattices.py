"""Word lattices as arrays, checked once: what `NBest` is for lists, for graphs whose paths are the hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lpmert import core
from lpmert.errors import DataError, IntArray
from lpmert.model.word_graphs import (
    WordGraphs,
    checked_losses,
    checked_references,
    checked_rows,
    numbered_words,
    ranks_of,
    whole_numbers,
)
from lpmert.quoting import quoted


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Lattices(WordGraphs):
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
        For each lattice a string, or several. Not needed with `losses`.
    losses : array [L], optional
        What each link loses, whole numbers: with metric "loss" a path loses their sum.
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
        both = whole_numbers(sources, len(rows), "sources"), whole_numbers(targets, len(rows), "targets")
        firsts = None if starts is None else whole_numbers(starts, len(ids), "starts")
        lasts = None if ends is None else whole_numbers(ends, len(ids), "ends")
        n_nodes, lengths, chosen = np.empty(len(ids), dtype=np.int64), [0], np.empty(len(rows), dtype=np.int64)
        ordered, end = np.empty((2, len(rows)), dtype=np.int32), 0
        for s, list_id in enumerate(ids):
            links = slice(int(bounds[s]), int(bounds[s + 1]))
            outer = None if firsts is None else int(firsts[s]), None if lasts is None else int(lasts[s])
            order, found = _arranged(both[0][links], both[1][links], *outer, list_id)
            own = slice(end, end := end + len(order))
            chosen[own], ordered[:, own] = order + links.start, found
            n_nodes[s] = int(found[1][-1]) + 1
            lengths.append(len(order))
        del both
        chosen, lost = chosen[:end], checked_losses(losses, len(rows))
        self._set(
            features=rows[chosen],
            offsets=np.cumsum(lengths),
            sources=ordered[0, :end],
            seconds=np.zeros(end, dtype=np.int32),
            targets=ordered[1, :end],
            words=numbers[chosen],
            losses=None if lost is None else lost[chosen],
            n_nodes=n_nodes,
            references=checked_references(references, ids, lost),
            vocabulary=known,
            names=own_names,
            list_ids=ids,
        )

    def restrict(self, lattices: ArrayLike | slice) -> Lattices:
        """Return the lattices chosen by indices, a mask [S] or a slice, in the order given.

        Raises `DataError` if an index is out of range.
        """
        try:
            chosen = np.arange(self.n_lists)[lattices if isinstance(lattices, slice) else np.asarray(lattices)]
        except IndexError as error:
            raise DataError(f"cannot choose these of {self.n_lists} lattices: {error}") from error
        if chosen.ndim != 1 or not len(chosen):
            raise DataError("choose at least one lattice, with a one-dimensional array of indices")
        links = np.concatenate([np.arange(self.offsets[s], self.offsets[s + 1]) for s in chosen])
        return Lattices(
            self.features[links],
            np.cumsum([0, *np.diff(self.offsets)[chosen].tolist()]),
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
        rank = ranks_of(sources, targets, n_nodes, list_id)
    order = np.argsort(rank[targets], kind="stable")
    first, second = rank[sources[order]], rank[targets[order]]
    useful = np.empty(n_nodes, dtype=np.bool_)
    core.mark_useful(first, second, int(rank[start]), int(rank[end]), useful)
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
        ranks_of(*(others, inner) if what == "start" else (inner, others), n_nodes, list_id)  # names the cycle
    raise DataError(
        f"lattice {quoted(list_id)}: nodes {found[0]} and {found[1]} could both be its {what}; give {what}s"
    )
