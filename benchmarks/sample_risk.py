"""Sparse training at the scale of an input method: minimum sample risk, averaged perceptron and boosting.

Generated lists stand for the reranking of kana-kanji conversion (Gao et al., HLT/EMNLP 2005): 80,000 lists of 20
conversions, 860,000 counts of words and word pairs, and the log probability of a baseline model with partly systematic
mistakes. Losses are wrong characters.

    python -m benchmarks.sample_risk                     # all three methods, the paper's scale
    python -m benchmarks.sample_risk msr --lists 8000
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.suites.msr import decoded_loss
from benchmarks.tables import Table
from lpmert.methods.sparse import Boosting, MinimumSampleRisk, Perceptron, Trained
from lpmert.model.nbest import NBest

Words = NDArray[np.int64]

_LENGTH = 12
_HOMOPHONES = 4
_SYSTEMATIC = {"word": 1.1, "pair": 0.8}
_RANDOM = 0.7
_ADVANTAGE = 3.0


@dataclass(frozen=True)
class Sizes:
    """The size of the set: lists, conversions of each, most features with the base, words of the vocabulary."""

    lists: int = 80_000
    size: int = 20
    features: int = 860_000
    words: int = 60_000


def write_set(path: Path, sizes: Sizes, seed: int) -> None:
    """Generate a set and write its features (CSR), offsets and losses to an .npz file."""
    rng = np.random.default_rng(seed)
    words, losses = conversions(sizes, rng)
    pairs = words[:, :-1] * sizes.words + words[:, 1:]
    noise = [
        scale * _normal_of(kind).sum(axis=1)
        for scale, kind in ((_SYSTEMATIC["word"], words), (_SYSTEMATIC["pair"], pairs))
    ]
    wrong = (words.reshape(sizes.lists, sizes.size, -1) != words[:: sizes.size, None]).sum(axis=2).ravel()
    base = sum(noise) + _RANDOM * rng.normal(size=len(words)) - _ADVANTAGE * wrong
    order = (
        np.arange(sizes.lists)[:, None] * sizes.size
        + rng.permuted(np.tile(np.arange(sizes.size), (sizes.lists, 1)), axis=1)
    ).ravel()
    columns, starts, values = sparse_counts(words[order], pairs[order], base[order], sizes)
    offsets = np.arange(0, len(words) + 1, sizes.size)
    np.savez(path, columns=columns, starts=starts, values=values, offsets=offsets, losses=losses[order])


def conversions(sizes: Sizes, rng: np.random.Generator) -> tuple[Words, NDArray[np.float64]]:
    """Return the words [M, length] of all conversions, the right one first in its list, and their wrong characters [M].

    Words follow Zipf's law; about every second one depends on the word before it. In a wrong conversion, some words are
    replaced by others of the same reading.
    """
    shares = 1.0 / np.arange(2.7, sizes.words + 2)
    cumulative = np.cumsum(shares / shares.sum())
    right = np.minimum(np.searchsorted(cumulative, rng.random((sizes.lists, _LENGTH))), sizes.words - 1)
    for place in range(1, _LENGTH):
        follows = rng.random(sizes.lists) < 0.5
        partner = (right[:, place - 1] * 31 + rng.integers(0, 5, sizes.lists) ** 2 * 7) % sizes.words
        right[follows, place] = partner[follows]
    words = np.repeat(right, sizes.size, axis=0)
    replaced = rng.random(words.shape) < 1.5 / _LENGTH
    replaced[np.arange(len(words)), rng.integers(0, _LENGTH, len(words))] = True
    replaced[:: sizes.size] = False
    # Words of one reading are far apart in rank, so that a common and a rare word compete.
    stride = sizes.words // _HOMOPHONES
    shift = rng.integers(1, _HOMOPHONES, words.shape) * stride
    words = np.where(replaced, (words + shift) % (stride * _HOMOPHONES), words)
    characters = 1 + right % 3
    wrong = words.reshape(sizes.lists, sizes.size, -1) != right[:, None]
    return words, (wrong * characters[:, None]).sum(axis=2).ravel().astype(np.float64)


def sparse_counts(
    words: Words, pairs: Words, base: NDArray[np.float64], sizes: Sizes
) -> tuple[Words, Words, NDArray[np.float64]]:
    """Return columns, row starts and values: column 0 is the base, then all words, then the most frequent pairs."""
    found, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    n_pairs = min(len(found), sizes.features - 1 - sizes.words)
    number = np.full(len(found), -1)
    number[np.argsort(-counts, kind="stable")[:n_pairs]] = 1 + sizes.words + np.arange(n_pairs)
    columns = np.hstack([np.zeros((len(words), 1), dtype=np.int64), 1 + words, number[inverse.reshape(pairs.shape)]])
    values = np.ones(columns.shape)
    values[:, 0] = base
    used = columns >= 0
    starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return columns[used].astype(np.int32), starts, values[used]


def _normal_of(keys: Words) -> NDArray[np.float64]:
    """Return for each key a fixed number; over the keys, they are nearly normal with variance 1."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    parts = [(mixed >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)]
    return np.asarray((sum(part.astype(np.float64) for part in parts) / 65535.0 - 2.0) * np.sqrt(3.0))


def read_set(path: Path) -> NBest:
    """Return the set of a file as N-best lists with sparse features."""
    from scipy.sparse import csr_array

    with np.load(path) as file:
        rows = csr_array((file["values"], file["columns"], file["starts"]))
        return NBest(rows, file["offsets"], file["losses"])


def peak_gibibytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@click.command()
@click.argument("methods", nargs=-1, type=click.Choice(["msr", "perceptron", "boosting"]))
@click.option("--lists", type=click.IntRange(min=10), default=Sizes.lists, show_default=True)
@click.option("--held-out", type=click.IntRange(min=1), default=4_000, show_default=True, help="Further lists.")
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write all figures as JSON to this file too.")
def main(
    methods: tuple[str, ...],
    lists: int,
    held_out: int,
    seed: int,
    output: Path | None,
) -> None:
    """Generate a set, then load it and train METHODS (all if none is named) in one process."""
    sizes = Sizes(lists=lists + held_out)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "set.npz"
        begin = time.perf_counter()
        # In a separate process, whose memory does not count.
        writer = multiprocessing.get_context("spawn").Process(target=write_set, args=(path, sizes, seed))
        writer.start()
        writer.join()
        if writer.exitcode or not path.exists():
            raise click.ClickException("the set could not be generated; see above")
        click.echo(f"generated in {time.perf_counter() - begin:.1f} s, {path.stat().st_size / 2**30:.2f} GiB")
        begin = time.perf_counter()
        whole = read_set(path)
    load_seconds = time.perf_counter() - begin
    nbest, test = whole.restrict(slice(0, lists)), whole.restrict(slice(lists, None))
    del whole
    base = np.zeros(nbest.n_features)
    base[0] = 1.0
    test_before = decoded_loss(test, base)
    click.echo(f"loaded {nbest!r} in {load_seconds:.1f} s, {peak_gibibytes():.2f} GiB")
    trainers: dict[str, Callable[[], Trained]] = {
        "msr": lambda: MinimumSampleRisk(kept=2_000, considered=20_000).train(nbest),
        "perceptron": lambda: Perceptron(passes=10).train(nbest, seed=seed),
        "boosting": lambda: Boosting(rounds=2_000).train(nbest),
    }
    runs: list[dict[str, Any]] = []
    body = []
    for method in methods or tuple(trainers):
        begin = time.perf_counter()
        trained = trainers[method]()
        seconds = time.perf_counter() - begin
        decoded = decoded_loss(nbest, trained.weights)
        held_out_losses = test_before, decoded_loss(test, trained.weights)
        click.echo(f"{method}: {seconds:.1f} s, {peak_gibibytes():.2f} GiB so far, {trained.counters}")
        losses = {"loss_before": trained.loss_before, "loss": trained.loss, "decoded": decoded}
        runs.append({"method": method, "seconds": seconds, **losses, "held_out": held_out_losses})
        runs[-1]["counters"] = trained.counters
        falls = [f"{100 * (1 - b / a):.1f}%" for a, b in ((trained.loss_before, decoded), held_out_losses)]
        shown = [[f"{loss:,.0f}" for loss in own] for own in (losses.values(), held_out_losses)]
        body.append([method, f"{seconds:.1f}", *shown[0], falls[0], *shown[1], falls[1]])
    headings = ("method", "seconds", "before", "after", "decoded", "fall", "held out", "after", "fall")
    note = "After: as the method reports; decoded: counted by decoding."
    click.echo(Table(f"Wrong characters; peak {peak_gibibytes():.2f} GiB", headings, body, note).markdown())
    if output is not None:
        content = {
            "sizes": asdict(sizes),
            "seed": seed,
            "load_seconds": load_seconds,
            "peak_gibibytes": peak_gibibytes(),
            "runs": runs,
        }
        output.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
