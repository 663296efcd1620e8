"""Real data that several tests use; it lies outside the repository, and tests that need it are skipped without it."""

from __future__ import annotations

import csv
import lzma
import os
from functools import cache
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
    from lpmert.formats.tables import read_table

    path = _path("librispeech-asr-30best/dev_other.nbest.tsv.xz")
    return read_table(path, segment="utt", features=list(columns), loss="errors")


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
