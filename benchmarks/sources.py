"""Real lists of many kinds, for questions about unseen lists: choices, summaries, dialogues, translations, speech."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Dataset
from lpmert.files import read_text
from lpmert.formats.moses import read_moses
from lpmert.metrics import measure_texts
from lpmert.metrics.text import SentenceBleuTexts
from lpmert.model.nbest import NBest


@dataclass(frozen=True)
class Source(Dataset):
    """Lists by name. n_train: how many of the n_lists weights are fitted to."""

    n_lists: int = 0
    n_features: int = 0
    n_train: int = 0


def _rows(file: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_text(datasets.shared_path(file))), delimiter=delimiter))


def _lists(features: Sequence[Sequence[float]], losses: Sequence[float], sizes: Sequence[int]) -> NBest:
    return NBest(np.array(features, dtype=float), np.cumsum([0, *sizes]), np.array(losses, dtype=float))


def _alternatives(file: str, costs: Callable[[Mapping[str, str], str], list[float]]) -> NBest:
    """Return cases from a table with one row each; features: costs, and constants of all alternatives but the last."""
    rows = _rows(file)
    names = [name.partition(".")[2] for name in rows[0] if name.startswith(("ic.", "ich."))]
    constants = np.eye(len(names))[:, :-1].tolist()
    features = [costs(row, name) + constants[k] for row in rows for k, name in enumerate(names)]
    return _lists(features, [row["depvar"] != name for row in rows for name in names], [len(names)] * len(rows))


def _cooling(file: str) -> NBest:
    """Return choices of heating and cooling; the cost of systems with cooling includes that of the cooling."""

    def costs(row: Mapping[str, str], name: str) -> list[float]:
        cooled = len(name) == 3
        return [float(row[f"{kind}h.{name}"]) + cooled * float(row[f"{kind}ca"]) for kind in ("ic", "oc")]

    return _alternatives(file, costs)


def _heating(file: str) -> NBest:
    return _alternatives(file, lambda row, name: [float(row[f"{kind}.{name}"]) for kind in ("ic", "oc")])


def _modes(file: str) -> NBest:
    """Return the cases with all four modes of travel: cost, times, frequency, constants, interactions with flying."""
    cases = [list(group) for _, group in groupby(_rows(file), lambda row: row["case"])]
    cases = [rows for rows in cases if rows[0]["noalt"] == "4"]
    modes = ("train", "air", "bus")
    features = [
        [
            *(float(row[name]) for name in ("cost", "ivt", "ovt", "freq")),
            *(float(row["alt"] == mode) for mode in modes),
            *(float(row[name]) * (row["alt"] == "air") for name in ("urban", "income")),
        ]
        for rows in cases
        for row in rows
    ]
    losses = [row["choice"] != "1" for rows in cases for row in rows]
    return _lists(features, losses, [len(rows) for rows in cases])


def _trains(file: str) -> NBest:
    rows = _rows(file)
    names = ("price", "time", "change", "comfort")
    features = [[float(row[f"{name}{trip}"]) for name in names] for row in rows for trip in (1, 2)]
    losses = [row["choice"] != f"choice{trip}" for row in rows for trip in (1, 2)]
    return _lists(features, losses, [2] * len(rows))


def _judged(key: str, columns: tuple[int, int], human: str, best: float, file: str) -> NBest:
    """Return outputs of several systems with automatic scores in these columns; loss: `best` minus the human score."""
    rows = _rows(file, "\t")
    names = [name for name in list(rows[0])[slice(*columns)] if name != "pred_overall"]
    sizes = [len(list(group)) for _, group in groupby(rows, lambda row: row[key])]
    losses = [best - float(row[human]) for row in rows]
    return _lists([[float(row[name]) for name in names] for row in rows], losses, sizes)


def _hansard(file: str) -> NBest:
    """Return translations with 22 features, and 1 - sentence BLEU+1 as loss."""
    rows = [row for row in _rows(file, "\t") if row["text"]]
    names = [name for name in rows[0] if name not in ("sent", "text")]
    sizes = [len(list(group)) for _, group in groupby(rows, lambda row: row["sent"])]
    nbest = NBest(
        np.array([[float(row[name]) for name in names] for row in rows]),
        np.cumsum([0, *sizes]),
        np.zeros(len(rows)),
        texts=[row["text"] for row in rows],
    )
    references = read_text(datasets.shared_path("portage-hansard-100best/dev2.ref.xz")).splitlines()
    return measure_texts(nbest, references, SentenceBleuTexts(tokenize="none"))[0]


def _characters(file: str) -> NBest:
    return read_moses(datasets.shared_path(file), last_field=True)


def _source(whole: Dataset, n_lists: int, n_features: int, n_train: int) -> Source:
    return Source(whole.name, whole.make, whole.skip, n_lists, n_features, n_train)


def _of_file(name: str, make: Callable[[str], NBest], file: str) -> Dataset:
    return Dataset(name, partial(make, file), partial(datasets.missing, file))


_CLEAN = "librispeech-asr-30best/dev_clean.nbest.tsv.xz"
_SUMMARIES, _DIALOGUES = "realsumm-cnndm/abs.tsv.xz", "unieval-topicalchat/topical_chat.tsv.xz"

SOURCES = (
    _source(_of_file("heating and cooling", _cooling, "discrete-choice/HC.csv.xz"), 250, 8, 125),
    _source(_of_file("travel modes", _modes, "discrete-choice/ModeCanada.csv.xz"), 2779, 9, 400),
    _source(datasets.csmt(), 1014, 8, 400),
    _source(_of_file("heating", _heating, "discrete-choice/heating_data.csv.xz"), 900, 6, 450),
    _source(_of_file("ime-kkc", _characters, "ime-kkc/nbest.txt.gz"), 700, 7, 350),
    _source(datasets.shared_table("libri-clean5", _CLEAN, "utt", datasets.LIBRI_COLUMNS), 2703, 5, 400),
    _source(datasets.libri(3), 2864, 3, 400),
    _source(datasets.asr(5), 250, 5, 125),
    _source(_of_file("hansard", _hansard, "portage-hansard-100best/dev2.nbest.tsv.xz"), 100, 22, 50),
    _source(
        _of_file("summaries", partial(_judged, "doc", (3, 17), "litepyramid_recall", 1.0), _SUMMARIES), 100, 14, 50
    ),
    _source(datasets.swahili(), 500, 14, 250),
    _source(_of_file("dialogues", partial(_judged, "context", (8, 14), "human_overall", 5.0), _DIALOGUES), 60, 5, 30),
    _source(_of_file("train trips", _trains, "discrete-choice/train_data.csv.xz"), 2929, 4, 400),
)


def source_of(name: str) -> Source:
    """Return the source of this name."""
    return next(source for source in SOURCES if source.name == name)
