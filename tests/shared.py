"""Real data, outside the repository, as the benchmarks load them; and every set, with a loss for each hypothesis.

Tests that need them are skipped without them.
"""

import lzma
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import lpmert
from benchmarks import datasets
from benchmarks.sources import SOURCES
from lpmert import NBest
from lpmert.metrics.text import EditTexts

ROOT = Path(__file__).resolve().parents[1]
_NAMED = os.environ.get("LPMERT_SHARED_DATA")
SHARED_DATA = Path(_NAMED) if _NAMED else datasets.shared_data()
needs_shared = pytest.mark.skipif(
    SHARED_DATA is None, reason="needs the shared data: set LPMERT_SHARED_DATA to the folder that holds it"
)


shared = datasets.shared_path

swahili = datasets.swahili().load  # 1 - sentence BLEU+1 of the 500 100-best lists of run 7, 14 features

train_choices = next(one.load for one in SOURCES if one.name == "train trips")
"""0/1 loss of 2929 choices between two train trips: integer price, time, changes and comfort of each."""


def librispeech(n_features: int = 3) -> NBest:
    """Word errors of the 2864 30-best lists of dev_other: scores of decoder, CTC and language model, and two counts."""
    return datasets.libri(n_features).load()


def pool(name: str, runs: int | None = None, **measured: Any) -> NBest:
    """The lists of the first runs of a tuning by Moses, pooled, with each hypothesis once; measured: as for `read`."""
    by_run: dict[str, list[str]] = {}
    with lzma.open(shared(f"moses-mert-pools/{name}.nbest-by-run.txt.xz"), "rt", encoding="utf-8") as file:
        for line in file:
            run, _, rest = line.partition(" ||| ")
            by_run.setdefault(run, []).append(rest)
    references = sorted(shared("moses-mert-pools").glob(f"{name}.reference*"))
    with TemporaryDirectory() as folder:
        files = [Path(folder) / run for run in list(by_run)[:runs]]
        for path in files:
            path.write_text("".join(by_run[path.name]), encoding="utf-8")
        return lpmert.read(files, "moses", references=references, **measured).deduplicate()


@cache
def lambdarank() -> tuple[np.ndarray, list[int], np.ndarray]:
    """Features [M, 301] of documents, where the 201 queries begin and end, and grades."""
    with lzma.open(shared("lightgbm-lambdarank/rank.train.query.xz"), "rt") as file:
        sizes = [int(line) for line in file]
    with lzma.open(shared("lightgbm-lambdarank/rank.train.svm.xz"), "rt") as file:
        rows = [line.split() for line in file]
    features = np.zeros((len(rows), 301))
    for row, (_, *pairs) in zip(features, rows, strict=True):
        for index, value in (pair.split(":") for pair in pairs):
            row[int(index)] = float(value)
    return features, [0, *np.cumsum(sizes).tolist()], np.array([float(grade) for grade, *_ in rows])


# Every set.


def _all_of_librispeech(part: str) -> NBest:
    names = ["decoder", "ctc", "lm", "score", "n_tokens", "n_words", "ref_words"]
    path = shared(f"librispeech-asr-30best/{part}.nbest.tsv.xz")
    return lpmert.read(path, segment="utt", features=names, loss="errors")


def _europarl() -> NBest:
    folder = shared("moses-europarl-100best")
    settings: dict[str, Any] = {"references": folder / "reference.txt.xz", "metric": EditTexts(lowercase=True)}
    return lpmert.read(folder / "nbest.out.xz", "moses", **settings)


def _ranked() -> NBest:
    features, ends, grades = lambdarank()
    best = np.maximum.reduceat(grades, ends[:-1])
    return NBest(features, ends, np.repeat(best, np.diff(ends)) - grades, statistic_names=["loss"])


SETS: dict[str, Callable[[], NBest]] = {
    **{one.name: one.load for one in SOURCES},
    "librispeech dev_other": partial(_all_of_librispeech, "dev_other"),
    "librispeech dev_clean": partial(_all_of_librispeech, "dev_clean"),
    "pocketsphinx": lambda: lpmert.read(shared("asr-pocketsphinx/nbest.txt.gz"), "moses", last_field=True),
    "europarl": _europarl,
    **{name: partial(pool, name, metric=EditTexts(lowercase=True)) for name in ("news5", "europarl10")},
    "lambdarank": _ranked,
}
"""Name and what loads the lists."""

load = cache(lambda name: SETS[name]())
