"""Rows that stand for lattices with too many hypotheses where the metric is a ratio: the best that these attain."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices.ratio import Ratio, best_height, cost_of_height
from lpmert.metrics.base import RatioMetric
from lpmert.metrics.text import Ideal, ideals, tokens_of_words
from lpmert.model.graphs import SILENT, Hypergraphs
from lpmert.model.lattice_problem import LatticeProblem


class _Automaton(NamedTuple):
    """How to read tokens: alphabet [T] of all tokens, 0 for those of no reference; see `most_matches`."""

    alphabet: IntArray
    follow: IntArray
    depth: IntArray


class Spelling(NamedTuple):
    """The tokens of all words of the vocabulary: word w has tokens[ends[w]:ends[w + 1]], by number."""

    tokens: IntArray
    ends: IntArray
    places: dict[str, int]


class Ideals:
    """Rows for the lattices of a problem, and the bound that rows of all lattices give; none for additive metrics."""

    def __init__(self, problem: LatticeProblem) -> None:
        self._problem = problem
        self._automata: dict[tuple[int, int], _Automaton] = {}
        self._targets: dict[int, list[Ideal]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What holds lattices against references has functions, and is made anew."""
        return {"_problem": self._problem, "_automata": {}, "_targets": {}}

    @cached_property
    def spelling(self) -> Spelling | None:
        """The words in tokens, `None` where the metric has none or a word is several."""
        vocabulary = self._problem.lattices.vocabulary
        split = None if self._problem.additive else tokens_of_words(self._problem.settings)
        if split is None or any(word.split() != [word] for word in vocabulary):
            return None
        places: dict[str, int] = {}
        tokens = [[places.setdefault(token, len(places)) for token in split(word)] for word in vocabulary]
        ends = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        return Spelling(np.array([one for own in tokens for one in own], dtype=np.int64), ends, places)

    def rows(self, number: int, links: NDArray[np.integer] | None = None) -> FloatArray | None:
        """Return rows [P, K] one of which is at least as good as any path of a lattice through some of its links.

        `None` where nothing is known of such paths.
        """
        spelling = self.spelling
        if spelling is None:
            return None
        graph = self._problem.graphs[number]
        links = np.arange(len(graph.sources)) if links is None else links
        place, words = self._spoken(number, links)
        lengths = _sums(place, np.diff(spelling.ends)[words], len(links))
        tokens = np.arange(-self._most(number, links, -lengths), self._most(number, links, lengths) + 1)
        fewest = -self._most(number, links, -_sums(place, np.ones(len(place)), len(links)))
        targets = self._targets.setdefault(
            number, ideals(self._problem.settings, self._problem.lattices.references[number])
        )
        found = []
        for which, target in enumerate(targets):
            matches = np.minimum(target.most, self._matches(number, which, target, spelling, links))
            found.append(target.rows(tokens, matches, fewest))
        return np.concatenate(found)

    def bound(self, rows: list[FloatArray], middle: FloatArray | None) -> int:
        """Return a cost that no choice of a row [K] from each of several lists [P, K] undercuts.

        middle [K]: sums near which the bound should be good.
        """
        metric, canonical = self._problem.metric, self._problem.canonical
        if not isinstance(metric, RatioMetric):
            raise TypeError("costs of an additive metric add up")
        statistics = np.concatenate(rows)
        offsets = np.cumsum([0, *map(len, rows)])
        width = statistics.shape[1]
        ratio = Ratio(
            metric.kind,
            metric.parameters,
            statistics,
            np.zeros(width),
            statistics.max(axis=0),
            np.zeros(len(statistics), dtype=np.int64),
        )
        at = np.sum([own.mean(axis=0) for own in rows], axis=0) if middle is None else np.asarray(middle, np.float64)
        return cost_of_height(canonical, metric.kind, best_height(offsets, ratio, at)[0])

    def _spoken(self, number: int, links: NDArray[np.integer]) -> tuple[IntArray, IntArray]:
        """Return the places in `links` of those that add words, and these words, by their numbers."""
        lattices = self._problem.lattices
        first = int(lattices.offsets[number])
        if isinstance(lattices, Hypergraphs):
            begins, ends = (lattices.output_offsets[first + links + k] for k in (0, 1))
            place = np.repeat(np.arange(len(links)), ends - begins)
            inside = np.arange(len(place)) - np.repeat(np.cumsum(ends - begins) - (ends - begins), ends - begins)
            words = lattices.outputs[np.repeat(begins, ends - begins) + inside]
        else:
            place, words = np.arange(len(links)), lattices.words[first + links]
        spoken = words > SILENT
        return place[spoken], words[spoken].astype(np.int64)

    def _most(self, number: int, links: NDArray[np.integer], lengths: FloatArray) -> int:
        """Return the largest sum of lengths [L] of links along a path."""
        return int(self._problem.graphs[number].links(links).largest_sums(lengths[:, None])[0])

    def _matches(
        self, number: int, which: int, target: Ideal, spelling: Spelling, links: NDArray[np.integer]
    ) -> IntArray:
        """Return for each order [N] the most n-grams of references that a path may have."""
        key = number, which
        if key not in self._automata:
            self._automata[key] = _automaton(target, spelling)
        automaton, graph = self._automata[key], self._problem.graphs[number]
        spelled = automaton.alphabet[spelling.tokens]
        if graph.seconds.any() or isinstance(self._problem.lattices, Hypergraphs):
            # n-grams cross edges; but no text matches more of them than tokens
            place, words = self._spoken(number, links)
            of_words = np.add.reduceat(np.append(spelled > 0, 0), spelling.ends)[:-1] * (np.diff(spelling.ends) > 0)
            known = self._most(number, links, _sums(place, of_words[words], len(links)))
            return np.full(len(target.most), known)
        read = spelled, spelling.ends, automaton.follow, automaton.depth
        return graph.links(links).most_matches(graph.words[links], read, len(target.most))


def _sums(places: IntArray, values: NDArray[Any], count: int) -> FloatArray:
    """Return the sums [count] of the values at each place."""
    return np.bincount(places, values, count).astype(np.float64)


def _automaton(target: Ideal, spelling: Spelling) -> _Automaton:
    """Return the automaton of the n-grams of references, as Aho and Corasick build it."""
    numbers = {token: k + 1 for k, token in enumerate(dict.fromkeys(one for own in target.references for one in own))}
    alphabet = np.zeros(len(spelling.places) + 1, dtype=np.int64)
    for token, number in numbers.items():
        if token in spelling.places:
            alphabet[spelling.places[token]] = number
    texts = [[numbers[token] for token in own] for own in target.references]
    states: dict[tuple[int, ...], int] = {(): 0}
    for order in range(1, len(target.most) + 1):
        for text in texts:
            for i in range(len(text) - order + 1):
                states.setdefault(tuple(text[i : i + order]), len(states))
    follow = np.zeros((len(states), len(numbers) + 1), dtype=np.int64)
    longer: dict[int, list[tuple[int, int]]] = {}
    for gram, state in states.items():
        if gram:
            longer.setdefault(states[gram[:-1]], []).append((gram[-1], state))
    for gram, state in states.items():  # shorter ones first
        if gram:
            follow[state] = follow[states[gram[1:]]]
        for number, after in longer.get(state, []):
            follow[state, number] = after
    return _Automaton(alphabet, follow, np.array([len(gram) for gram in states], dtype=np.int64))
