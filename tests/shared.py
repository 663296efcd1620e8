"""Real data, outside the repository: what several tests use, and every set as lists with a loss for each hypothesis.

Tests that need it are skipped without it.
"""

import csv
import gzip
import lzma
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from lpmert.model.nbest import NBest

ROOT = Path(__file__).resolve().parents[1]


def _find() -> Path | None:
    named = os.environ.get("LPMERT_SHARED_DATA")
    if named:
        return Path(named)
    beside = ROOT.parent / "shared" / "data"
    return beside if beside.is_dir() else None


SHARED_DATA = _find()
needs_shared = pytest.mark.skipif(
    SHARED_DATA is None, reason="needs the shared data: set LPMERT_SHARED_DATA to the folder that holds it"
)


def _path(name: str) -> Path:
    if SHARED_DATA is None:
        raise RuntimeError("mark this test with needs_shared")
    return SHARED_DATA / name


@cache
def librispeech(columns: tuple[str, ...] = ("decoder", "ctc", "lm")) -> NBest:
    """Word errors of the 2864 30-best lists of dev_other."""
    from lpmert.formats.detect import read

    path = _path("librispeech-asr-30best/dev_other.nbest.tsv.xz")
    return read(path, segment="utt", features=list(columns), loss="errors")


@cache
def swahili() -> NBest:
    """1 - sentence BLEU+1 of the 500 100-best lists of run 7, 14 features."""
    keys, features = [], []
    with lzma.open(_path("swahili-mert-100best/run7.nbest.txt.xz"), "rt", encoding="utf-8") as file:
        for line in file:
            key, _, scores, _ = line.split("|||")
            keys.append(key.strip())
            features.append([float(token) for token in scores.split() if not token.endswith("=")])
    with lzma.open(_path("swahili-mert-100best/run7.bleustats.txt.xz"), "rt", encoding="utf-8") as file:
        counts = np.array([[float(token) for token in line.split()[1:]] for line in file])
    match, total, reference = counts[:, 0:8:2].copy(), counts[:, 1:8:2].copy(), counts[:, 8]
    length = np.maximum(total[:, 0], 1e-9)
    match[:, 1:] += 1
    total[:, 1:] += 1
    with np.errstate(divide="ignore"):
        precision = np.log(match / np.maximum(total, 1e-9)).mean(1)
    bleu = np.exp(np.minimum(0, 1 - reference / length) + precision)
    bleu[counts[:, 0] == 0] = 0
    lists = [(key, len(list(group))) for key, group in groupby(keys)]
    return NBest(
        features=np.array(features),
        offsets=np.cumsum([0, *(size for _, size in lists)]),
        statistics=1 - bleu,
        list_ids=[key for key, _ in lists],
    )


@cache
def train_choices() -> NBest:
    """0/1 loss of 2929 choices between two train trips: integer price, time, changes and comfort of each."""
    names = ("price", "time", "change", "comfort")
    with lzma.open(_path("discrete-choice/train_data.csv.xz"), "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    features = [[float(row[f"{name}{trip}"]) for name in names] for row in rows for trip in (1, 2)]
    loss = [float(row["choice"] != f"choice{trip}") for row in rows for trip in (1, 2)]
    return NBest(
        features=np.array(features),
        offsets=np.arange(0, len(loss) + 1, 2),
        statistics=np.array(loss),
        names=names,
        list_ids=[f"{row['id']}-{row['choiceid']}" for row in rows],
    )


def asr_lattices() -> Path:
    """The folder of 100 word lattices of a recogniser and their references."""
    return _path("asr-lattices")


# Every set.


def _lines(name: str) -> list[str]:
    path = SHARED_DATA / name
    with (gzip if path.suffix == ".gz" else lzma).open(path, "rt", encoding="utf-8", newline="") as file:
        return [line.rstrip("\r\n") for line in file]


def _rows(name: str, delimiter: str = "\t") -> list[dict[str, str]]:
    quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    return list(csv.DictReader(_lines(name), delimiter=delimiter, quoting=quoting))


def _lists(keys: Iterable[str], features: Sequence[Sequence[float]], losses: Sequence[float], name: str) -> NBest:
    sizes = [len(list(group)) for _, group in groupby(keys)]
    return NBest(np.array(features, dtype=float), np.cumsum([0, *sizes]), np.array(losses), statistic_names=[name])


def _librispeech(part: str) -> NBest:
    rows = _rows(f"librispeech-asr-30best/{part}.nbest.tsv.xz")
    names = [name for name, value in rows[0].items() if name not in ("utt", "rank", "errors") and _is_number(value)]
    features = [[float(row[name]) for name in names] for row in rows]
    return _lists((row["utt"] for row in rows), features, [float(row["errors"]) for row in rows], "errors")


def _csmt() -> NBest:
    rows = _rows("csmt-normalisation/nbest-pool.tsv.xz")
    head = list(rows[0])
    names = head[head.index("LM0") : head.index("text")]
    features = [[float(row[name]) for name in names] for row in rows]
    return _lists((row["sent"] for row in rows), features, [float(row["errors"]) for row in rows], "errors")


def _barred(name: str) -> NBest:
    """Lists with the number of errors in the last field: `id ||| text ||| features ||| errors`."""
    rows = [line.split(" ||| ") for line in _lines(name)]
    features = [[float(word.rpartition("=")[2]) for word in row[2].split() if word[-1] not in "=:"] for row in rows]
    return _lists((row[0] for row in rows), features, [float(row[3]) for row in rows], "errors")


def _word_errors(text: Sequence[str], reference: Sequence[str]) -> int:
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(text, reference)


def _moses(name: str, references: str, runs: bool = False) -> NBest:
    wanted = [line.lower().split() for line in _lines(references)]
    rows = [line.replace("|||", " ||| ").split(" ||| ") for line in _lines(name)]
    rows = [[field.strip() for field in row][runs:] for row in rows]
    rows.sort(key=lambda row: int(row[0]))
    features = [[float(word) for word in row[2].split() if word[-1] not in "=:"] for row in rows]
    losses = [_word_errors(row[1].lower().split(), wanted[int(row[0])]) for row in rows]
    return _lists((row[0] for row in rows), features, losses, "wer")


def _portage() -> NBest:
    rows = [row for row in _rows("portage-hansard-100best/dev2.nbest.tsv.xz") if row["text"]]
    names = [name for name in rows[0] if name not in ("sent", "text", "rank")]
    wanted = [line.split() for line in _lines("portage-hansard-100best/dev2.ref.xz")]
    first = min(int(row["sent"]) for row in rows)
    losses = [_word_errors(row["text"].split(), wanted[int(row["sent"]) - first]) for row in rows]
    return _lists((row["sent"] for row in rows), [[float(row[name]) for name in names] for row in rows], losses, "wer")


def _marks(file: str, key: str, mark: str, most: float, prefixes: tuple[str, ...]) -> NBest:
    rows = _rows(file)
    names = [name for name in rows[0] if name.startswith(prefixes) and name != "pred_overall"]
    features = [[float(row[name]) for name in names] for row in rows]
    return _lists((row[key] for row in rows), features, [most - float(row[mark]) for row in rows], f"{most:g} - {mark}")


def _lambdarank() -> NBest:
    sizes = [int(line) for line in _lines("lightgbm-lambdarank/rank.train.query.xz")]
    labels, features = [], []
    for line in _lines("lightgbm-lambdarank/rank.train.svm.xz"):
        label, *pairs = line.split()
        row = [0.0] * 301
        for pair in pairs:
            index, value = pair.split(":")
            row[int(index)] = float(value)
        labels.append(float(label))
        features.append(row)
    ends = np.cumsum([0, *sizes])
    gains = np.array(labels)
    best = np.maximum.reduceat(gains, ends[:-1])
    return NBest(np.array(features), ends, np.repeat(best, sizes) - gains, statistic_names=["loss"])


def _mode_canada() -> NBest:
    rows = [row for row in _rows("discrete-choice/ModeCanada.csv.xz", ",") if row["noalt"] == "4"]
    rows.sort(key=lambda row: int(row["case"]))
    features = [[float(row[name]) for name in ("cost", "ivt", "ovt", "freq")] for row in rows]
    return _lists((row["case"] for row in rows), features, [1 - float(row["choice"]) for row in rows], "loss")


def _heating(file: str, alternatives: Sequence[str], prefixes: Sequence[str]) -> NBest:
    rows = _rows(f"discrete-choice/{file}", ",")
    features = [[float(row[f"{prefix}.{name}"]) for prefix in prefixes] for row in rows for name in alternatives]
    losses = [float(row["depvar"] != name) for row in rows for name in alternatives]
    return _lists((str(k) for k in range(len(rows)) for _ in alternatives), features, losses, "loss")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


SETS: dict[str, Callable[[], NBest]] = {
    "librispeech dev_other": partial(_librispeech, "dev_other"),
    "librispeech dev_clean": partial(_librispeech, "dev_clean"),
    "librispeech decoder, ctc, lm": librispeech,
    "csmt": _csmt,
    "swahili": swahili,
    "pocketsphinx": partial(_barred, "asr-pocketsphinx/nbest.txt.gz"),
    "ime": partial(_barred, "ime-kkc/nbest.txt.gz"),
    "europarl": partial(_moses, "moses-europarl-100best/nbest.out.xz", "moses-europarl-100best/reference.txt.xz"),
    "news5": partial(
        _moses, "moses-mert-pools/news5.nbest-by-run.txt.xz", "moses-mert-pools/news5.reference.0.xz", runs=True
    ),
    "europarl10": partial(
        _moses, "moses-mert-pools/europarl10.nbest-by-run.txt.xz", "moses-mert-pools/europarl10.reference.xz", runs=True
    ),
    "portage": _portage,
    "realsumm": partial(
        _marks, "realsumm-cnndm/abs.tsv.xz", "doc", "litepyramid_recall", 1, ("bert", "js", "mover", "rouge")
    ),
    "topicalchat": partial(
        _marks, "unieval-topicalchat/topical_chat.tsv.xz", "context", "human_overall", 5, ("pred_",)
    ),
    "lambdarank": _lambdarank,
    "train": train_choices,
    "mode": _mode_canada,
    "heating": partial(_heating, "heating_data.csv.xz", ("gc", "gr", "ec", "er", "hp"), ("ic", "oc")),
    "houses": partial(_heating, "HC.csv.xz", ("gcc", "ecc", "erc", "hpc", "gc", "ec", "er"), ("ich", "och")),
}
"""Name and what loads the lists."""

load = cache(lambda name: SETS[name]())
