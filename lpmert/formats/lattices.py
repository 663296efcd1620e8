"""Lattices from files, with all their paths or as N-best lists, and these lists of any lattices and hypergraphs.

Source of the search for lists, exact in order and of hypotheses with different words: L. Huang and D. Chiang, Better
k-best parsing, IWPT 2005, algorithm 3; a path of a lattice is a derivation whose links have one tail each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.files import archive_members, buffered_pipes, is_archive, read_text
from lpmert.formats.columns import Names, Wanted, matched
from lpmert.formats.format import Format, Paths, Pool, unpacked
from lpmert.formats.graphs import (
    EPSILON_WORDS,
    NULL,
    SCORE_NAMES,
    WORDS,
    GraphText,
    Links,
    check_paths,
    fst_lattices,
    kaldi_lattices,
    kind_of_graph,
    read_symbols,
    slf_lattices,
)
from lpmert.formats.utterances import References, references_by_list, utterance_files, utterance_of
from lpmert.formats.weights import given_weights
from lpmert.limits import checkpoint, give_back, limited, room_for
from lpmert.model.arrays import checked_sequence, places_of
from lpmert.model.graphs import Lattices, Texts, WordGraphs
from lpmert.model.judgments import measure_texts
from lpmert.model.lattice_problem import best_through, exact_scores
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.registry import FORMATS
from lpmert.values import checked_limits, weights_array, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric
    from lpmert.values import Weights

SILENT = frozenset({NULL, "<s>", "</s>", "!SENT_START", "!SENT_END"}) | EPSILON_WORDS
"""Labels in lattices that are not words of a hypothesis."""

_SLF_ENDINGS = frozenset({".slf", ".lat", ".lattice", ".htk"})
_HEAD = 1 << 16  # characters at the beginning of a text that tell its format

_VARIANT = re.compile(r"\(\d+\)$")

Counts = Mapping[str, Iterable[str]]


def load_lattices(
    source: Paths,
    references: References | Sequence[str | Path],
    *,
    format: str | None = None,
    features: Names = None,
    counts: Counts | None = None,
    silent: Iterable[str] = (),
    variants: bool = False,
    symbols: str | Path | None = None,
    partial: bool = False,
    by_position: bool = False,
) -> Lattices:
    """Read lattices with all their paths.

    Parameters
    ----------
    source : str or path, or a sequence of them
        A file, several, or a tar archive or folder of them; any of them may be compressed. The file's name is the
        utterance unless the file names it.
    references : str, path, sequence or mapping
        Words by utterance: a Kaldi `text` file, a trn file, a table with the header utterance, reference, or a mapping;
        or, where the names of utterances are numbers, one sentence a line. Several files for several references.
    format : str, optional
        slf, kaldi-lattice or fst; detected for each file by default.
    features : sequence of str, optional
        The features to take: names, or patterns such as `LM*`.
    counts : mapping from name to words, optional
        More features: how many of these words (silences, fillers) a path has. They are left out of the text.
    silent : iterable of str
        More words to leave out of the text, beside !NULL, <eps> and the sentence marks.
    variants : bool
        Whether `word(2)` is a second pronunciation of `word`.
    symbols : str or path, optional
        Words by number, for lattices of Kaldi and OpenFst that have numbers: lines `word number`.
    partial : bool
        Whether references without a lattice are allowed.
    by_position : bool
        Whether lines of references are sentences in order, the first for utterance 0, whatever they look like.

    Returns
    -------
    Lattices
        Lattices whose features are the scores in the files, `words` (their number), and those of `counts`.

    Raises
    ------
    DataError
        With file and, where there is one, line.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.load_lattices("examples/speech/lattices", "examples/speech/text")
    >>> lattices.n_lists, lattices.names
    (12, ('acoustic', 'lm', 'words'))
    """
    with buffered_pipes():
        speech = Speech(counts, silent, variants)
        parts = _parts(source, format, symbols)
        return _joined(parts, references, speech, features, partial, by_position)


Parts = Mapping[str, tuple[str | Path, Links]]  # the file and the links of each lattice of a source, by utterance


class Speech:
    def __init__(self, counts: Counts | None, silent: Iterable[str], variants: bool) -> None:
        self.names = tuple(counts or ())
        self._counted: dict[str, str] = {}  # the name of the count by word
        self._left_out, self._variants = SILENT | frozenset(silent), variants
        for name, words in (counts or {}).items():
            if isinstance(words, str):
                trouble = f"must be a sequence of words, not the one string {quoted(words)}"
                raise DataError(f"counts[{quoted(name)}] {trouble}")
            for word in words:
                if (other := self._counted.setdefault(word, name)) != name:
                    raise DataError(f"counts has {quoted(word)} under {quoted(other)} and {quoted(name)}; choose one")

    def spoken(self, word: str | None) -> tuple[str | None, str | None]:
        """Return the word that a label adds to the text, and the name of the count it adds to; `None` for none."""
        if word is None:
            return None, None
        plain = (_VARIANT.sub("", word) if self._variants else word) or word
        mute = word in self._left_out or word in self._counted or plain in self._left_out
        return None if mute else plain, self._counted.get(word)


def _joined(
    parts: Parts,
    references: References | Sequence[str | Path] | Literal[False],
    speech: Speech,
    features: Names = None,
    partial: bool = False,
    by_position: bool = False,
) -> Lattices:
    """Join lattices as `load_lattices` does; the scores of the parts are deleted."""
    reference_texts = references_by_list([*parts], references, partial, by_position)
    graphs = [graph for _, graph in parts.values()]
    names = _names(parts, speech.names, features)
    give_back()
    sizes = [len(graph.words) for graph in graphs]
    # bytes for each link and each of its features, and for sorting the links of the largest lattice
    room_for((66 + 24 * len(names)) * sum(sizes) + 90 * max(sizes), "putting lattices together")
    vocabulary: dict[str, int] = {}
    rows, link_words = np.zeros((sum(sizes), len(names))), np.empty(sum(sizes), dtype=np.int32)
    end = 0
    for graph in graphs:
        links = slice(end, end := end + len(graph.words))
        spoken = [speech.spoken(word) for word in graph.vocabulary]
        numbers = [-1 if word is None else vocabulary.setdefault(word, len(vocabulary)) for word, _ in spoken]
        link_words[links] = np.array(numbers, dtype=np.int32)[graph.words]
        counts = {name: np.array([counted == name for _, counted in spoken])[graph.words] for name in speech.names}
        columns = {**graph.scores, WORDS: link_words[links] >= 0, **counts}
        for column, name in enumerate(names):
            rows[links, column] = columns.get(name, 0.0)
        graph.scores.clear()  # to free their memory
    try:
        lattices = Lattices(
            rows,
            np.cumsum([0, *sizes]),
            np.concatenate([graph.sources for graph in graphs]),
            np.concatenate([graph.targets for graph in graphs]),
            link_words,
            reference_texts,
            vocabulary=list(vocabulary),
            starts=[graph.start for graph in graphs],
            ends=[graph.end for graph in graphs],
            names=names,
            list_ids=[*parts],
        )
    except DataError:
        for path, graph in parts.values():
            check_paths(graph, path)  # raises an error with file and line
        raise
    give_back()
    return lattices


def _names(parts: Parts, counts: Sequence[str], features: Names) -> list[str]:
    scores = dict.fromkeys(chain.from_iterable(graph.scores for _, graph in parts.values()))
    order = {name: place for place, name in enumerate(SCORE_NAMES)}
    names = [*sorted(scores, key=lambda name: order.get(name, len(order))), WORDS, *counts]
    if len(set(names)) < len(names):
        raise DataError(f"counts has a name that is a feature already: {listed(names)}")
    for path, graph in parts.values():
        missing = sorted(scores.keys() - graph.scores.keys())
        if missing and len(graph.sources) > 1:
            trouble = f"no {missing[0]} scores, which other lattices have; add them, or read this lattice separately"
            raise DataError(trouble, path=path)
    patterns = Wanted.of(features).features
    chosen = names if patterns is None else list(matched(patterns, names, names))
    places_of(chosen, names, "feature")  # refuses others
    return chosen


def _parts(source: Paths, format: str | None, symbols: str | Path | None) -> Parts:
    table = None if symbols is None else read_symbols(symbols)
    found: dict[str, tuple[str | Path, Links]] = {}
    for utterance, path, text in _texts(source):
        by_ending = "slf" if unpacked(path).suffix in _SLF_ENDINGS else None
        kind = format or kind_of_graph(text[:_HEAD]) or by_ending
        graphs = None if kind is None else FORMATS.build(kind).graphs
        if graphs is None:
            trouble = (
                "is not a lattice in any known format" if kind is None else f"format {quoted(kind)} has no lattices"
            )
            kinds = listed(name for name in FORMATS.names() if FORMATS.build(name).graphs is not None)
            raise DataError(f"{trouble}; give the format (--from, format), one of {kinds}", path=path)
        for named, graph in graphs(GraphText(path, text, table)):
            name = utterance if named is None else named
            if name in found:
                raise DataError(f"utterance {quoted(name)} comes twice; rename one", path=path)
            found[name] = path, graph
    if not found:
        raise DataError("no lattice in it", path=str(source))
    return found


def _texts(source: Paths) -> Iterator[tuple[str, str | Path, str]]:
    for path in [source] if isinstance(source, str | Path) else checked_sequence(source, "source"):
        if not Path(path).is_dir() and is_archive(path):
            for name, member in sorted(archive_members(path), key=lambda member: member[0]):
                yield utterance_of(Path(name)), f"{path}/{name}", member
        else:
            for utterance, file in utterance_files(path):
                yield utterance, file, read_text(file)


_SCALES = dict.fromkeys(("acoustic", "lm", "ngram", "pronunciation"), 1.0)
_SCALES |= dict.fromkeys(("cost", "graph_cost", "acoustic_cost"), -1.0)


def read_lattices(
    source: Paths,
    *,
    format: str | None = None,
    n_best: int = 100,
    scales: Mapping[str, float] | None = None,
    counts: Counts | None = None,
    silent: Iterable[str] = (),
    variants: bool = False,
    symbols: str | Path | None = None,
) -> NBest:
    """Read lattices and return their N-best lists, whose statistics must still be counted.

    A list has the `n_best` best hypotheses with different words, by the sum of features times `scales`. A feature that
    is not in `scales` has the scale in the header of the lattice, as in HTK and SRILM; by default it has 1 for scores
    of a decoder, -1 for costs, and 0 otherwise. A hypothesis has the scores of its best path.
    """
    n_best = whole_number(n_best, "n_best", 1, DataError)
    speech = Speech(counts, silent, variants)
    parts = _parts(source, format, symbols)
    lattices = _joined(parts, False, speech)
    for name in scales or {}:
        if name not in lattices.names:
            place = source if isinstance(source, str | Path) else None
            raise DataError(f"scales has {quoted(name)}; the features are {listed(lattices.names)}", path=place)
    weights = [{**_SCALES, **graph.scales, **(scales or {})} for _, graph in parts.values()]
    rows = [np.array([by_name.get(name, 0.0) for name in lattices.names]) for by_name in weights]
    return best_lists(lattices, rows, n_best)


def _format(name: str, description: str, graphs: Callable[[GraphText], Iterable[tuple[str | None, Links]]]) -> Format:
    return Format(description, read_lattices, pooled=True, fixed={"format": name}, spoken=True, graphs=graphs)


SLF = _format("slf", "HTK lattices, one utterance a file", slf_lattices)
KALDI = _format("kaldi-lattice", "lattices of Kaldi as text, plain or compact", kaldi_lattices)
FST = _format("fst", "acceptors or transducers of OpenFst as text, one utterance a file", fst_lattices)


# N-best lists


class Derivation(NamedTuple):
    """A derivation: its texts, its score, and its links from the root on, those below the source tail first."""

    texts: Texts
    links: tuple[int, ...]
    score: int


_Choice = tuple[int, int, int]
"""A link, and the ranks of the derivations that it takes from its tails, the source and the second one."""


@dataclass
class _Node:
    """The search at a node: its best derivations so far, a heap of candidates, and choices that are not scored yet."""

    waiting: list[_Choice] = field(default_factory=list)
    heap: list[tuple[int, tuple[int, ...], Texts, _Choice]] = field(default_factory=list)
    seen: set[_Choice] = field(default_factory=set)
    known_texts: set[Texts] = field(default_factory=set)
    best: list[Derivation] = field(default_factory=list)
    complete: bool = False


def distinct_derivations(
    links: Sequence[Sequence[int]],
    scores: Sequence[int],
    say: Callable[[int, Texts], Texts],
    goal: int,
    n: int,
) -> list[Derivation]:
    """Return the n best derivations of the node `goal` with different texts, or as many as there are, the best first.

    links: for each, its source, second and target node, and its name. Targets have higher numbers than their tails; 0
    stands for no tail. say(name, texts): makes a link's text of the texts of its tails. A text gets its best
    derivation, of which alone can be part of a best one; among equal scores, the one whose links come first.
    """
    nodes: defaultdict[int, _Node] = defaultdict(_Node)
    nodes[0] = _Node(best=[Derivation((), (), 0)], complete=True)
    for link, (_, _, target, _) in enumerate(links):
        nodes[target].waiting.append((link, 0, 0))

    def needed_for(node: _Node) -> tuple[int, int] | None:
        """Turn waiting choices into candidates; return node and rank of a derivation that must be found before."""
        while node.waiting:
            link, *ranks = choice = node.waiting[-1]
            tails = []
            for number, rank in zip(links[link], ranks, strict=False):
                below = nodes[number]
                if len(below.best) > rank:
                    tails.append(below.best[rank])
                elif not below.complete:
                    return number, rank
            if len(tails) == 2:  # otherwise there are no such derivations
                one, two = tails
                path, texts = (link, *one.links, *two.links), say(links[link][3], one.texts + two.texts)
                heappush(node.heap, (-scores[link] - one.score - two.score, path, texts, choice))
            node.waiting.pop()
        return None

    needed = [(goal, n - 1)]  # a stack of nodes and ranks
    while needed:
        checkpoint()
        number, rank = needed[-1]
        node = nodes[number]
        if node.complete or len(node.best) > rank:
            needed.pop()
        elif (unknown := needed_for(node)) is not None:
            needed.append(unknown)
        elif node.heap:
            cost, path, texts, (link, first, second) = heappop(node.heap)
            if texts not in node.known_texts:
                node.known_texts.add(texts)
                node.best.append(Derivation(texts, path, -cost))
            nexts = [(link, first + 1, second), (link, first, second + 1)]
            node.waiting += [new for new in nexts if new not in node.seen]
            node.seen.update(nexts)
        else:
            node.complete = True
    return nodes[goal].best


_FEWEST_LINKS, _LINKS, _GROWTH = 200, 4, 4
"""Links in the first round, at least and for each hypothesis of the list, and their growth in later rounds."""


def n_best(
    lattices: WordGraphs,
    weights: Weights | str | Path,
    *,
    n: int = 100,
    metric: str | TextMetric = "wer",
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> NBest:
    """Return the best hypotheses of each lattice, with different words, as N-best lists.

    Parameters
    ----------
    lattices : Lattices or Hypergraphs
        The lattices, whose hypotheses are paths, or hypergraphs, whose hypotheses are derivations.
    weights : mapping or sequence of numbers, Result, str or Path
        Weights that order the hypotheses: one number for each feature, by name or in order, or a file of weights.
    n : int
        Most hypotheses of a list.
    metric : str or TextMetric
        What is counted against the references: "wer", "cer", "ter", "bleu", ..., or its settings.
    time_limit : float, optional
        Seconds.
    memory_limit : int, optional
        Bytes of memory that the call may hold, as for `minimize`.

    Returns
    -------
    NBest
        The lists, the best hypothesis first. The best path with the same words gives the features. Sums and
        comparisons are exact; `Hypergraphs` says how hypotheses with equal scores are ordered.

    Raises
    ------
    DataError, MetricError
        If an argument cannot be used.
    LimitError
        If a limit is reached before the lists are complete.

    Notes
    -----
    The search is the third algorithm of Huang and Chiang, Better k-best parsing, IWPT 2005.

    Examples
    --------
    >>> import lpmert
    >>> lattices = lpmert.Lattices([[1], [2]], [0, 2], [0, 0], [1, 1], ["a", "an"], ["an"], names=["lm"])
    >>> lpmert.n_best(lattices, {"lm": 1}).texts
    ('an', 'a')
    """
    if not isinstance(lattices, WordGraphs):
        raise DataError(f"lattices must be Lattices or Hypergraphs, not {type(lattices).__name__}; see load_lattices")
    checked_limits(time_limit, None, None, None, memory_limit)
    weight_rows = [weights_array(given_weights(weights, "weights"), lattices.names)] * lattices.n_lists
    with limited(time_limit, memory_limit, lambda why: f"no lists of {n:,} hypotheses each: {why}"):
        lists = best_lists(lattices, weight_rows, whole_number(n, "n", 1))
        return measure_texts(lists, lattices.references, metric)[0]


def best_lists(lattices: WordGraphs, weights: Sequence[FloatArray], n: int) -> NBest:
    """Return the n best hypotheses of each lattice by its own weights [S][D]; statistics must still be counted."""
    pool = Pool()
    for number, list_id in enumerate(lattices.list_ids):
        for words, row in _best(lattices, number, weights[number], n):
            pool.add_row(list_id, lattices.names, row, text=lattices.text(words))
    return pool.nbest(texts=True)


def _best(lattices: WordGraphs, number: int, weights: FloatArray, n: int) -> list[tuple[tuple[int, ...], FloatArray]]:
    """Return the words, by number, and the features [D] of the n best hypotheses of a lattice.

    A round only takes links on good paths. Its result stands if the last hypothesis found is better, beyond rounding,
    than every path through the other links.
    """
    graph, units, begin = lattices.graph(number), lattices.units, int(lattices.offsets[number])
    through, slack = best_through(graph, weights)
    count = _FEWEST_LINKS + _LINKS * n
    while True:
        every = count >= len(through) or not np.isfinite(slack)
        floor = -np.inf if every else float(np.partition(through, -count)[-count])
        links = np.arange(len(through)) if every else np.flatnonzero(through >= floor)
        exact = exact_scores(graph.features[links] / units, weights, units)
        ends = np.stack(
            [*(nodes[links] for nodes in (graph.sources, graph.seconds, graph.targets)), begin + links], 1
        ).tolist()
        found = distinct_derivations(ends, exact, lattices.say, graph.n_nodes - 1, n)
        rows = [graph.features[links[list(derivation.links)]].sum(axis=0) for derivation in found]
        if every or (len(found) == n and float(rows[-1] @ weights) > floor + slack):
            return [(derivation.texts[0], row) for derivation, row in zip(found, rows, strict=True)]
        count *= _GROWTH
