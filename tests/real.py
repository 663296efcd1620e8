"""Every real data set as lists with a loss for each hypothesis, for what has to hold on all of them."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import groupby

import numpy as np
from shared import SHARED_DATA, librispeech, swahili, train_choices

from lpmert.model.nbest import NBest


def _lines(name: str) -> list[str]:
    assert SHARED_DATA is not None
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
