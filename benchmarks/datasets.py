"""The lists of the benchmarks: generated ones, the shipped example, and real ones from outside the repository.

Real lists are in the folder that the environment variable LPMERT_SHARED_DATA names, or in `../shared/data` beside the
checkout.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness import Dataset
from lpmert.errors import FloatArray, IntArray
from lpmert.formats.detect import read
from lpmert.formats.moses import read_moses
from lpmert.model.nbest import NBest

ROOT = Path(__file__).resolve().parents[1]
_PIECE_BITS = 16
_PIECES = 4
SWAHILI_LISTS = 500
SWAHILI_SIZE = 100
LIBRI_LISTS = 2864
ASR_COLUMNS = ("am", "lm", "words", "silences", "fillers")
_LIBRI = "librispeech-asr-30best/dev_other.nbest.tsv.xz"
_SWAHILI = "swahili-mert-100best/run{}.{}.txt.xz"
LIBRI_COLUMNS = ("decoder", "ctc", "lm", "n_tokens", "n_words")
CSMT_COLUMNS = ("LM0", "LM1", "WordPenalty0", "PhrasePenalty0", "TM0_0", "TM0_1", "TM0_2", "TM0_3")


def shared_data() -> Path | None:
    """Return the folder of the data outside the repository, or `None`."""
    named = os.environ.get("LPMERT_SHARED_DATA")
    place = Path(named) if named else ROOT.parent / "shared" / "data"
    return place if place.is_dir() else None


def missing(name: str) -> str | None:
    """Return why there is no such file or folder in the shared data, or `None`."""
    place = shared_data()
    if place is None:
        return "data outside the repository: set LPMERT_SHARED_DATA to the folder that holds them"
    return None if (place / name).exists() else f"LPMERT_SHARED_DATA has no {name}"


def shared_path(name: str) -> Path:
    """Return the path of a file or folder of the shared data; raises `FileNotFoundError`."""
    place = shared_data()
    if place is None or not (place / name).exists():
        raise FileNotFoundError(missing(name))
    return place / name


def generated(n_lists: int, size: int, n_features: int, seed: int = 0) -> Dataset:
    """Return lists whose errors, small whole numbers, are partly explained by hidden weights.

    Integer arithmetic makes all numbers from the raw bits of a generator, so that they are the same everywhere.
    """
    name = f"generated-S{n_lists}-N{size}-D{n_features}" + (f"-{seed}" if seed else "")
    return Dataset(name, partial(_generate, n_lists, size, n_features, seed))


def _generate(n_lists: int, size: int, n_features: int, seed: int) -> NBest:
    bits = np.random.PCG64(seed)
    n = n_lists * size

    def normal(*shape: int) -> IntArray:
        """Return nearly normal integers with mean 0 and a standard deviation of about 37837."""
        raw = bits.random_raw(int(np.prod(shape))).reshape(shape)
        pieces = [(raw >> np.uint64(_PIECE_BITS * k)) & np.uint64(2**_PIECE_BITS - 1) for k in range(_PIECES)]
        return np.asarray(sum(piece.astype(np.int64) for piece in pieces) - _PIECES * 2 ** (_PIECE_BITS - 1))

    features, hidden = normal(n, n_features), normal(n_features) >> 8
    explained = features @ hidden
    scale = int(np.sqrt(float(hidden @ hidden))) or 1
    quality = explained // scale + normal(n)
    errors = np.clip(4 - quality // 2**15, 0, None)
    return NBest(features / 2.0**_PIECE_BITS, np.arange(0, n + 1, size), errors.astype(np.float64))


def generated_counts(n_lists: int, size: int, n_features: int) -> Dataset:
    """Return lists with the 9 counts of BLEU, the same everywhere."""
    name = f"counts-S{n_lists}-N{size}-D{n_features}"
    return Dataset(name, partial(_generate_counts, n_lists, size, n_features))


def _generate_counts(n_lists: int, size: int, n_features: int) -> NBest:
    n = n_lists * size
    raw = np.random.PCG64(1).random_raw(n * (n_features + 8)).reshape(n, n_features + 8) >> np.uint64(44)
    draws = raw.astype(np.int64)
    features = (draws[:, :n_features] - 2**19) / 2.0**16
    length = 6 + draws[:, n_features] % 8
    counts = np.zeros((n, 9))
    match = length
    for order in range(4):
        match = np.minimum(match - draws[:, n_features + 1 + order] % 3, length - order)
        counts[:, 2 * order] = np.maximum(match, 0)
        counts[:, 2 * order + 1] = length - order
    counts[:, 8] = np.repeat(6 + draws[::size, n_features + 6] % 8, size)
    return NBest(features, np.arange(0, n + 1, size), counts)


def f1_counts(n_lists: int, size: int, n_features: int) -> Dataset:
    """Return the lists of `generated_counts` with three counts of F1: match, predicted and gold."""

    def three(lists: NBest) -> NBest:
        counts = np.column_stack([lists.statistics[:, :2], lists.statistics[:, 8] + 7.0])  # gold is no less than match
        return lists.changed(statistics=counts, statistic_names=None)

    whole = generated_counts(n_lists, size, n_features)
    return whole.then(f"{whole.name}-f1", three)


def part(whole: Dataset, lists: slice, name: str | None = None) -> Dataset:
    """Return some of the lists of a dataset; by default their numbers are added to its name."""
    if lists == slice(None):
        return whole
    return whole.then(name or f"{whole.name}-{lists.start or 0}:{lists.stop}", lambda nbest: nbest.restrict(lists))


def shared_table(name: str, file: str, segment: str, columns: Sequence[str], text: str | None = None) -> Dataset:
    """Return the lists of a table of the shared data with a column of errors."""

    def table() -> NBest:
        return read(shared_path(file), segment=segment, features=list(columns), loss="errors", text=text)

    return Dataset(name, table, partial(missing, file))


def asr(n_features: int, lists: slice = slice(None)) -> Dataset:
    """Return the first features of the shipped example, with word errors of a speech recogniser."""
    path, columns = ROOT / "examples" / "asr" / "nbest.tsv.gz", ASR_COLUMNS[:n_features]
    whole = Dataset(f"asr{n_features}", lambda: read(path, segment="utterance", features=columns, loss="errors"))
    return part(whole, lists)


def libri(n_features: int, n_lists: int | None = None) -> Dataset:
    """Return the first features of the 30-best lists of LibriSpeech dev-other, with word errors."""
    return part(shared_table(f"libri{n_features}", _LIBRI, "utt", LIBRI_COLUMNS[:n_features]), slice(n_lists))


def libri_characters() -> Dataset:
    """Return the lists of LibriSpeech with a sixth feature, the number of characters of the text."""

    def with_characters(nbest: NBest) -> NBest:
        characters = [len(text) for text in nbest.texts or ()]
        features, names = np.column_stack([nbest.dense_features(), characters]), (*nbest.names, "characters")
        return nbest.changed(features=features, names=names, texts=None)

    whole = shared_table("libri5, texts", _LIBRI, "utt", LIBRI_COLUMNS, "text")
    return whole.then("libri6", with_characters)


def csmt(n_lists: int | None = None) -> Dataset:
    """Return the pooled lists of a speller with 8 features of unit deviation within lists, and character errors."""
    whole = shared_table("csmt as it is", "csmt-normalisation/nbest-pool.tsv.xz", "sent", CSMT_COLUMNS)
    return part(whole.then("csmt", of_unit_deviation), slice(n_lists))


def swahili(lists: slice = slice(None), *, n_features: int = 14, size: int | None = None, run: int = 7) -> Dataset:
    """Return the 100-best lists of one run of a translation system's tuning, with 1 - sentence BLEU+1 as loss.

    n_features, size: how many features, and how many hypotheses of each list, the first ones.
    """
    own = (("D", n_features, 14), ("N", size, None), ("run", run, 7))
    settings = "".join(f"-{letter}{value}" for letter, value, default in own if value != default)
    whole = swahili_counts(run).then(f"swahili{settings}", partial(_sentence_losses, n_features, size))
    return part(whole, lists, f"swahili-{lists.start or 0}:{lists.stop}{settings}")


def _sentence_losses(n_features: int, size: int | None, counts: NBest) -> NBest:
    """Return lists with 1 - sentence BLEU+1 as loss, cut to the first features and hypotheses."""
    most = counts.n_hypotheses if size is None else size
    rows = np.flatnonzero(np.arange(counts.n_hypotheses) - counts.offsets[counts.list_index] < most)
    return NBest(
        counts.dense_features()[rows, :n_features],
        np.concatenate([[0], np.cumsum(np.minimum(np.diff(counts.offsets), most))]),
        1.0 - sentence_bleu(counts.statistics[rows]),
        counts.names[:n_features],
        counts.list_ids,
    )


def swahili_unit(n_lists: int) -> Dataset:
    """Return the first lists of the last run; within all its lists, features have unit deviation."""
    return part(swahili().then("swahili-unit", of_unit_deviation), slice(n_lists))


def swahili_twice(n_lists: int) -> Dataset:
    """Return the lists of two runs, one after the other: the same sentences, translated with different weights."""

    def both() -> NBest:
        last, earlier = (swahili(run=run).load() for run in (7, 5))
        twice: NBest = last.merge(earlier.changed(list_ids=[f"{name} of run 5" for name in earlier.list_ids]))
        return twice.changed(list_ids=None)

    return part(Dataset("swahili-runs-5,7", both, swahili_counts(5).skip), slice(n_lists))


def swahili_counts(run: int = 7) -> Dataset:
    """Return all 500 lists with the 9 counts of BLEU."""

    def counts() -> NBest:
        statistics = shared_path(_SWAHILI.format(run, "bleustats"))
        return read_moses(shared_path(_SWAHILI.format(run, "nbest")), statistics_file=statistics)

    return Dataset(f"swahili counts, run {run}", counts, partial(missing, _SWAHILI.format(run, "nbest")))


def sentence_bleu(counts: FloatArray) -> FloatArray:
    """Return BLEU+1 [M], 0 to 1, of single sentences from counts [M, 9]; it adds 1 to the counts of orders above 1."""
    match, total, reference = counts[:, 0:8:2].copy(), counts[:, 1:8:2].copy(), counts[:, 8]
    length = np.maximum(total[:, 0], 1e-9)
    match[:, 1:] += 1
    total[:, 1:] += 1
    with np.errstate(divide="ignore"):
        precision = np.log(match / np.maximum(total, 1e-9)).mean(axis=1)
    bleu = np.exp(np.minimum(0.0, 1.0 - reference / length) + precision)
    bleu[counts[:, 0] == 0] = 0.0
    return np.asarray(bleu)


def swahili_bleu(n_features: int = 14) -> Dataset:
    """Return the first features of the lists of the last run, with the counts of corpus BLEU."""
    name = "swahili-bleu" + ("" if n_features == 14 else f"-D{n_features}")
    return swahili_counts().then(name, lambda lists: lists.select_features(lists.names[:n_features]))


_GROUPS: dict[str, tuple[tuple[int, float], ...]] = {
    "lm": ((7, 1.0),),
    "tm": tuple((feature, 1.0) for feature in range(10, 14)),
    "length": ((8, 1.0),),
    "reordering": (*((feature, 1.0) for feature in range(6)), (6, 0.2)),
    "lexical": tuple((feature, 1.0) for feature in range(6)),
    "distance": ((6, 1.0),),
}


def swahili_bleu_groups(names: str) -> Dataset:
    """Return these lists and counts with features summed in groups; names: of the groups, joined by +."""

    def summed(counts: NBest) -> NBest:
        features, groups = counts.dense_features(), names.split("+")
        sums = [np.sum([by * features[:, feature] for feature, by in _GROUPS[group]], axis=0) for group in groups]
        return counts.changed(features=np.stack(sums, axis=1), names=groups, texts=None)

    return swahili_counts().then(f"swahili-bleu-{names}", summed)


def spread_within(nbest: NBest) -> FloatArray:
    """Return the deviation [D] of each feature within lists, 1 where it does not vary."""
    features, starts = nbest.dense_features(), nbest.offsets[:-1]
    means = np.add.reduceat(features, starts, axis=0) / np.diff(nbest.offsets)[:, None]
    deviation = (features - means[nbest.list_index]).std(axis=0)
    return np.where(deviation > 0.0, deviation, 1.0)


def of_unit_deviation(nbest: NBest) -> NBest:
    """Return lists with features of unit deviation within lists, so that a cosine of weights is meaningful."""
    return nbest.changed(features=nbest.dense_features() / spread_within(nbest))
