"""N-best lists from lattices: the hypotheses that differ in their words, best first, and what they score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.best_lists import best_lists
from lpmert.formats.format import Format, Graphs
from lpmert.formats.fst_text import fst_lattices, kaldi_lattices
from lpmert.formats.hypergraphs import text_hypergraphs
from lpmert.formats.json_hypergraphs import cdec_hypergraphs, travatar_hypergraphs
from lpmert.formats.lattice_graphs import Counts, Sources, Speech, load
from lpmert.formats.mecab import mecab_lattices
from lpmert.formats.moses_graph import moses_graphs
from lpmert.formats.pocketsphinx import pocketsphinx_lattices
from lpmert.formats.slf import slf_lattices
from lpmert.formats.utterances import References
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric

_UNSCALED = dict.fromkeys(("acoustic", "lm", "ngram", "pronunciation", "transition"), 1.0)
_COSTS = dict.fromkeys(("cost", "graph_cost", "acoustic_cost", "word_cost", "connection_cost"), -1.0)


def read_lattices(
    source: Sources,
    references: References | Sequence[str | Path],
    *,
    format: str | None = None,
    n_best: int = 100,
    scales: Mapping[str, float] | None = None,
    counts: Counts | None = None,
    silent: Iterable[str] = (),
    variants: bool = False,
    symbols: str | Path | None = None,
    metric: str | TextMetric = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read lattices and return their N-best lists.

    The arguments are those of `lpmert.load_lattices`, and so are the features. A list has the `n_best` best hypotheses
    with different words by the sum of features times `scales`; without a scale there, the one in the header of the
    lattice counts, as in HTK and SRILM, and without that 1 for scores of a decoder, -1 for costs, and 0 for others. The
    scores of a hypothesis are those of its best path. metric counts the statistics, as in `read_srilm`. Raises
    `DataError` with file and, where there is one, line.
    """
    if n_best < 1:
        raise DataError(f"n_best is {n_best}; a list needs at least one hypothesis")
    speech = Speech.of(counts, silent, variants)
    lattices, given = load(source, references, speech, format, symbols, partial=partial, by_position=by_position)
    place = source if isinstance(source, str | Path) else None
    for name in scales or {}:
        if name not in lattices.names:
            raise DataError(f"scales has {quoted(name)}; the features are {listed(lattices.names)}", path=place)
    known = {**_UNSCALED, **_COSTS}
    weights = [{**known, **own, **(scales or {})} for own in given]
    rows = [np.array([own.get(name, 0.0) for name in lattices.names]) for own in weights]
    return best_lists(lattices, rows, n_best, metric)


def _format(name: str, description: str, graphs: Graphs) -> Format:
    return Format(description, read_lattices, pooled=True, fixed={"format": name}, graphs=graphs)


SLF = _format("slf", "HTK lattices, one utterance a file", slf_lattices)
KALDI = _format("kaldi-lattice", "lattices of Kaldi as text, plain or compact", kaldi_lattices)
FST = _format("fst", "acceptors or transducers of OpenFst as text, one utterance a file", fst_lattices)
POCKETSPHINX = _format("pocketsphinx", "lattices of PocketSphinx, one utterance a file", pocketsphinx_lattices)
MOSES_GRAPH = _format("moses-graph", "search graphs of Moses", moses_graphs)
HYPERGRAPH = _format("hypergraph", "hypergraphs of Moses and Joshua, one sentence a file", text_hypergraphs)
CDEC = _format("cdec", "hypergraphs of cdec (JSON)", cdec_hypergraphs)
TRAVATAR = _format("travatar", "hypergraphs of travatar (JSON)", travatar_hypergraphs)
MECAB = _format("mecab", "sentences that MeCab analyses: utterance, sentence", mecab_lattices)
