"""Lattices from files, with all their paths or as N-best lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.best_lists import best_lists
from lpmert.formats.columns import Names, matched
from lpmert.formats.format import Format, Paths
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
from lpmert.formats.references import References, references_by_list, utterance_files, utterance_of
from lpmert.formats.text import unpacked
from lpmert.model.arrays import checked_sequence
from lpmert.model.graphs import Lattices
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.registry import FORMATS
from lpmert.system.files import archive_members, check_lines, is_archive, line_limit, read_text
from lpmert.system.memory import give_back, room_for
from lpmert.system.streams import buffered_pipes
from lpmert.values import whole_number

SILENT = frozenset({NULL, "<s>", "</s>", "!SENT_START", "!SENT_END"}) | EPSILON_WORDS
"""Labels in lattices that are not words of a hypothesis."""

_SLF_ENDINGS = frozenset({".slf", ".lat", ".lattice", ".htk"})
_HEAD = 1 << 16
"""Characters at the beginning of a text that tell its format."""

_LINK, _FEATURE, _SORTING = 66, 24, 90
"""Bytes for joining lattices: for each link, for each of its features, and for each link of the largest lattice."""

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
    max_line_length: int | None = None,
) -> Lattices:
    """Read lattices with all their paths.

    Parameters
    ----------
    source : str or path, or a sequence of them
        A file, several, a tar archive or a folder of them, or a manifest with a line `utterance path` or `path` for
        each file; any of them may be compressed. The file's name is the utterance unless the file names it.
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
    max_line_length : int, optional
        Most bytes of a line, 64 MiB by default.

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
    with line_limit(max_line_length), buffered_pipes():
        speech = Speech.of(counts, silent, variants)
        parts = _parts(source, format, symbols)
        return _joined(parts, references, speech, features, partial, by_position)


class _Part(NamedTuple):
    """One lattice of the source, with its utterance and its file."""

    utterance: str
    path: str | Path
    graph: Links


class Speech(NamedTuple):
    """The roles of labels.

    names: of the counts. counted: the name of the count by word. left_out: words that are not in the text. variants:
    whether word(2) is a pronunciation of word.
    """

    names: tuple[str, ...]
    counted: Mapping[str, str]
    left_out: frozenset[str]
    variants: bool

    @staticmethod
    def of(counts: Counts | None, silent: Iterable[str], variants: bool) -> Speech:
        """Return the roles in the arguments of `load_lattices`; raises `DataError` for a word with two counts."""
        counted: dict[str, str] = {}
        for name, words in (counts or {}).items():
            if isinstance(words, str):
                trouble = f"must be a sequence of words, not the one string {quoted(words)}"
                raise DataError(f"counts[{quoted(name)}] {trouble}")
            for word in words:
                if counted.setdefault(word, name) != name:
                    trouble = f"under {quoted(counted[word])} and {quoted(name)}; choose one"
                    raise DataError(f"counts has {quoted(word)} {trouble}")
        return Speech(tuple(counts or ()), counted, SILENT | frozenset(silent), variants)

    def spoken(self, word: str | None) -> tuple[str | None, str | None]:
        """Return the word that a label adds to the text, and the name of the count it adds to; `None` for none."""
        if word is None:
            return None, None
        plain = (_VARIANT.sub("", word) if self.variants else word) or word
        mute = word in self.left_out or word in self.counted or plain in self.left_out
        return None if mute else plain, self.counted.get(word)


def _joined(
    parts: Sequence[_Part],
    references: References | Sequence[str | Path] | Literal[False],
    speech: Speech,
    features: Names = None,
    partial: bool = False,
    by_position: bool = False,
) -> Lattices:
    """Join lattices as `load_lattices` does; the scores of the parts are deleted."""
    ids = [part.utterance for part in parts]
    reference_texts = references_by_list(ids, references, partial, by_position, what="lattice")
    graphs = [part.graph for part in parts]
    names = _names(parts, speech.names, features)
    give_back()
    sizes = [len(graph.words) for graph in graphs]
    size = (_LINK + _FEATURE * len(names)) * sum(sizes) + _SORTING * max(sizes)
    room_for(size, "putting lattices together")
    vocabulary: dict[str, int] = {}
    rows, link_words = np.zeros((sum(sizes), len(names))), np.empty(sum(sizes), dtype=np.int32)
    end = 0
    for graph in graphs:
        links = slice(end, end := end + len(graph.words))
        spoken = [speech.spoken(word) for word in graph.vocabulary]
        numbers = [-1 if word is None else vocabulary.setdefault(word, len(vocabulary)) for word, _ in spoken]
        link_words[links] = np.array(numbers, dtype=np.int32)[graph.words]
        for column, name in enumerate(names):
            if name == WORDS:
                rows[links, column] = link_words[links] >= 0
            elif name in speech.names:
                rows[links, column] = np.array([counted == name for _, counted in spoken])[graph.words]
            elif name in graph.scores:
                rows[links, column] = graph.scores[name]
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
            list_ids=ids,
        )
    except DataError:
        for part, graph in zip(parts, graphs, strict=True):
            check_paths(graph, part.path)  # raises an error with file and line
        raise
    give_back()
    return lattices


def _names(parts: Sequence[_Part], counts: Sequence[str], features: Names) -> list[str]:
    """Return the names of the features; raises `DataError` where a lattice lacks a score that others have."""
    scores = dict.fromkeys(chain.from_iterable(part.graph.scores for part in parts))
    order = {name: place for place, name in enumerate(SCORE_NAMES)}
    names = [*sorted(scores, key=lambda name: order.get(name, len(order))), WORDS, *counts]
    if len(set(names)) < len(names):
        raise DataError(f"counts has a name that is a feature already: {listed(names)}")
    for part in parts:
        missing = sorted(scores.keys() - part.graph.scores.keys())
        if missing and len(part.graph.sources) > 1:
            raise DataError(
                f"no {missing[0]} scores, which other lattices have; add them, or read this lattice separately",
                path=part.path,
            )
    if features is None:
        return names
    chosen = list(matched([features] if isinstance(features, str) else features, names, names))
    for name in chosen:
        if name not in names:
            raise DataError(f"no feature {quoted(name)}; the features are {listed(names)}")
    return chosen


def _parts(source: Paths, format: str | None, symbols: str | Path | None) -> list[_Part]:
    """Return all lattices of a source; raises `DataError` if there are none, or two of one utterance."""
    table = None if symbols is None else read_symbols(symbols)
    found: dict[str, _Part] = {}
    for utterance, path, text in _texts(source, alone=format is not None):
        check_lines(text, path)
        kind = format or _kind(text, path)
        if kind is None:
            raise DataError(f"is not a lattice in any of {listed(kinds_of_graphs())}; give the format", path=path)
        graphs = FORMATS.build(kind).graphs
        if graphs is None:
            known = listed(kinds_of_graphs())
            raise DataError(f"format {quoted(kind)} has no lattices; choose one of {known}", path=path)
        for named, graph in graphs(GraphText(path, text, table)):
            part = _Part(utterance if named is None else named, path, graph)
            if found.setdefault(part.utterance, part) is not part:
                raise DataError(f"utterance {quoted(part.utterance)} comes twice; rename one", path=path)
    if not found:
        raise DataError("no lattice in it", path=str(source))
    return list(found.values())


def _texts(source: Paths, *, alone: bool) -> Iterator[tuple[str, str | Path, str]]:
    """Yield the utterance, by name, the path and the text of every file in files, archives and folders.

    alone: a file holds lattices, whatever it looks like, and is no manifest.
    """
    if not isinstance(source, str | Path):
        if not source:
            raise DataError("no lattices; name at least one file")
        for each in checked_sequence(source, "source"):
            yield from _texts(each, alone=alone)
        return
    path = Path(source)
    if not path.is_dir():
        if is_archive(path):
            for name, member in sorted(archive_members(path), key=lambda member: member[0]):
                yield utterance_of(Path(name)), f"{path}/{name}", member
            return
        text = read_text(path)
        if alone or _kind(text, path):
            yield utterance_of(path), path, text
            return
    for utterance, file in utterance_files(path):
        yield utterance, file, read_text(file)


def _kind(text: str, path: str | Path) -> str | None:
    """Return the format that a text looks like or, if it looks like none, that its file's ending names."""
    return kind_of_graph(text[:_HEAD]) or ("slf" if unpacked(path).suffix in _SLF_ENDINGS else None)


def kinds_of_graphs() -> list[str]:
    return [name for name in FORMATS.names() if FORMATS.build(name).graphs is not None]


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

    Arguments and features are those of `lpmert.load_lattices`. A list has the `n_best` best hypotheses with different
    words, by the sum of features times `scales`. A feature that is not in `scales` has the scale in the header of the
    lattice, as in HTK and SRILM; by default it has 1 for scores of a decoder, -1 for costs, and 0 otherwise. A
    hypothesis has the scores of its best path. Raises `DataError` with file and, where there is one, line.
    """
    n_best = whole_number(n_best, "n_best", 1, DataError)
    speech = Speech.of(counts, silent, variants)
    parts = _parts(source, format, symbols)
    header_scales = [part.graph.scales for part in parts]
    lattices = _joined(parts, False, speech)
    place = source if isinstance(source, str | Path) else None
    for name in scales or {}:
        if name not in lattices.names:
            raise DataError(f"scales has {quoted(name)}; the features are {listed(lattices.names)}", path=place)
    weights = [{**_SCALES, **header, **(scales or {})} for header in header_scales]
    rows = [np.array([by_name.get(name, 0.0) for name in lattices.names]) for by_name in weights]
    return best_lists(lattices, rows, n_best)


def _format(name: str, description: str, graphs: Callable[[GraphText], Iterable[tuple[str | None, Links]]]) -> Format:
    return Format(description, read_lattices, pooled=True, fixed={"format": name}, spoken=True, graphs=graphs)


SLF = _format("slf", "HTK lattices, one utterance a file", slf_lattices)
KALDI = _format("kaldi-lattice", "lattices of Kaldi as text, plain or compact", kaldi_lattices)
FST = _format("fst", "acceptors or transducers of OpenFst as text, one utterance a file", fst_lattices)
