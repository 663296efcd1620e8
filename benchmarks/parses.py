"""Dependency parses to rerank, after Smith and Eisner (COLING/ACL 2006): the best trees of an even mix of weak models,
made from treebanks in CoNLL-U.

The models are counts of a treebank's development file. Each sentence of its test file becomes a list of the most
probable projective trees under the product of all arc models. Features are the logarithms of the models' probabilities;
statistics are the number of words with a wrong head, and the number of words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.datasets import missing, shared_path
from benchmarks.harness import Dataset
from lpmert.errors import FloatArray, IntArray
from lpmert.model.nbest import NBest

TREES = 30
SHORTEST, LONGEST = 3, 20  # lengths in words of the sentences that become lists

_FOLDER = "treebanks"
_ROOT = "ROOT"
_PRIOR = 1.0  # mass of the average rate as a prior, in words or pairs of words


class Sentence(NamedTuple):
    """Words, their tags and the places of their heads, from 1; place 0 is the root, which is its own head."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]


def treebank(name: str) -> Dataset:
    """Return trees of the test file of a treebank in the shared data, such as sl_ssj."""
    files = [f"{_FOLDER}/{name}-ud-{part}.conllu" for part in ("dev", "test")]
    return Dataset(name, partial(_lists, *files), lambda: missing(files[0]) or missing(files[1]))


def _lists(development: str, test: str) -> NBest:
    return parse_lists(read_sentences(shared_path(development)), read_sentences(shared_path(test)))


def read_sentences(path: Path) -> list[Sentence]:
    """Return the sentences of a file in CoNLL-U, without ranges of contracted words and without empty nodes."""
    found = []
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line.split("\t") for line in block.splitlines() if line and not line.startswith("#")]
        rows = [line for line in lines if line[0].isdigit()]
        if rows:
            words, tags, heads = (tuple(row[column] for row in rows) for column in (1, 3, 6))
            found.append(Sentence((_ROOT, *words), (_ROOT, *tags), (0, *map(int, heads))))
    return found


def parse_lists(training: Sequence[Sentence], sentences: Iterable[Sentence], n_trees: int = TREES) -> NBest:
    """Return lists of at most n_trees trees for the sentences of SHORTEST to LONGEST words, from counted models."""
    models = [arc_model(training, context) for context in CONTEXTS.values()]
    dependents = dependents_model(training)
    features, statistics, sizes = [], [], []
    for sentence in sentences:
        n_words = len(sentence.heads) - 1
        if not SHORTEST <= n_words <= LONGEST:
            continue
        arcs = np.stack([model(sentence) for model in models])
        trees = best_trees(arcs.sum(axis=0), n_trees)
        words = np.arange(1, n_words + 1)
        sums = arcs[:, trees[:, 1:], words].sum(axis=2).T
        features.append(np.column_stack([sums, [dependents(sentence, tree) for tree in trees.tolist()]]))
        wrong = (trees != np.array(sentence.heads)).sum(axis=1)
        statistics.append(np.column_stack([wrong, np.full(len(trees), n_words)]))
        sizes.append(len(trees))
    return NBest(
        np.concatenate(features),
        np.cumsum([0, *sizes]),
        np.concatenate(statistics),
        names=[*CONTEXTS, "dependents"],
        statistic_names=["errors", "length"],
    )


def _distance(sentence: Sentence, head: int, dependent: int) -> Hashable:
    tags = sentence.tags
    return tags[head], tags[dependent], head < dependent, head and abs(head - dependent).bit_length()


def _between(sentence: Sentence, head: int, dependent: int) -> Hashable:
    tags = sentence.tags
    inner = tags[min(head, dependent) + 1 : max(head, dependent)]
    return tags[head], tags[dependent], head < dependent, "VERB" in inner, "PUNCT" in inner


CONTEXTS: dict[str, Callable[[Sentence, int, int], Hashable]] = {
    "distance": _distance,
    "head": lambda sentence, head, dependent: (sentence.words[head], sentence.tags[dependent], head < dependent),
    "dependent": lambda sentence, head, dependent: (sentence.tags[head], sentence.words[dependent], head < dependent),
    "between": _between,
}
"""For each arc model, what it sees of a possible arc from a head to a dependent."""


def arc_model(
    training: Sequence[Sentence], context: Callable[[Sentence, int, int], Hashable]
) -> Callable[[Sentence], FloatArray]:
    """Return a model: a function from a sentence to log probabilities [n + 1, n + 1] of heads (row) of words (column).

    A probability is proportional to the share of pairs of words with this context that are arcs. Column 0, and a word
    as its own head, have -inf.
    """
    pairs: Counter[Hashable] = Counter()
    arcs: Counter[Hashable] = Counter()
    for sentence in training:
        places = range(len(sentence.heads))
        for dependent in places[1:]:
            pairs.update(context(sentence, head, dependent) for head in places if head != dependent)
            arcs[context(sentence, sentence.heads[dependent], dependent)] += 1
    rate = arcs.total() / pairs.total()

    def logarithms(sentence: Sentence) -> FloatArray:
        places = range(len(sentence.heads))
        found = np.full((len(places), len(places)), -np.inf)
        for dependent in places[1:]:
            for head in places:
                if head != dependent:
                    key = context(sentence, head, dependent)
                    found[head, dependent] = np.log((arcs[key] + _PRIOR * rate) / (pairs[key] + _PRIOR))
        found[:, 1:] -= np.log(np.exp(found[:, 1:]).sum(axis=0))
        return found

    return logarithms


def dependents_model(training: Sequence[Sentence]) -> Callable[[Sentence, Sequence[int]], float]:
    """Return a model: a function from a tree to the log probability of its numbers of dependents on either side.

    It is no sum over arcs, so that only reranking can use it.
    """
    seen: Counter[tuple[str, tuple[int, int]]] = Counter()
    tags: Counter[str] = Counter()
    for sentence in training:
        seen.update(zip(sentence.tags, _numbers_of_dependents(sentence.heads), strict=True))
        tags.update(sentence.tags)
    rate = 1.0 / len({numbers for _, numbers in seen})

    def logarithm(sentence: Sentence, heads: Sequence[int]) -> float:
        pairs = zip(sentence.tags, _numbers_of_dependents(heads), strict=True)
        shares = [(seen[tag, numbers] + _PRIOR * rate) / (tags[tag] + _PRIOR) for tag, numbers in pairs]
        return float(np.log(shares).sum())

    return logarithm


def _numbers_of_dependents(heads: Sequence[int]) -> list[tuple[int, int]]:
    left, right = [0] * len(heads), [0] * len(heads)
    for dependent, head in enumerate(heads[1:], 1):
        (left if dependent < head else right)[head] += 1
    return list(zip(left, right, strict=True))


def best_trees(arcs: FloatArray, k: int) -> IntArray:
    """Return the heads [at most k, n + 1] of the projective trees with the largest sums of arcs, the largest first.

    arcs [n + 1, n + 1]: the score of each head (row) of each word (column). Exactly one word depends on the root, place
    0. Eisner's algorithm (COLING 1996) with the k best of every span: in `right` and `left`, the head is the first or
    the last word of the span and has all its dependents; `to_right` and `to_left` end with an arc. Each tree is found
    once.
    """
    n = len(arcs)
    first, second = np.divmod(np.arange(k * k), k)
    useful = (first + 1) * (second + 1) <= k  # at least p * q - 1 pairs are as good as the p-th with the q-th best
    first, second = first[useful], second[useful]

    def table() -> tuple[FloatArray, IntArray]:
        return np.full((n, n, k), -np.inf), np.zeros((n, n, k, n), dtype=np.int64)

    def best(a: tuple[FloatArray, IntArray], b: tuple[FloatArray, IntArray]) -> tuple[FloatArray, IntArray]:
        """Return scores [k] and heads [k, n] of the best pairs of an item of `a` and one of `b` at the same split."""
        sums = a[0][:, first] + b[0][:, second]
        order = np.argsort(-sums, axis=None, kind="stable")[:k]
        split, pair = np.divmod(order, len(first))
        return sums[split, pair], a[1][split, first[pair]] + b[1][split, second[pair]]

    right, left, to_right, to_left = (table() for _ in range(4))
    for scores, _ in (right, left):
        scores[range(n), range(n), 0] = 0.0
    for width in range(1, n - 1):
        for i in range(1, n - width):
            j = i + width
            scores, heads = best(_spans(right, i, slice(i, j)), _spans(left, slice(i + 1, j + 1), j))
            for (all_scores, all_heads), head, dependent in ((to_right, i, j), (to_left, j, i)):
                all_scores[i, j], all_heads[i, j] = scores + arcs[head, dependent], heads
                all_heads[i, j, :, dependent] = head
            inner, outer = slice(i + 1, j + 1), slice(i, j)
            right[0][i, j], right[1][i, j] = best(_spans(to_right, i, inner), _spans(right, inner, j))
            left[0][i, j], left[1][i, j] = best(_spans(left, i, outer), _spans(to_left, outer, j))
    every = slice(1, n)
    before, heads = _spans(left, 1, every)
    scores, heads = best((before + arcs[0, 1:, None], heads), _spans(right, every, n - 1))
    return heads[np.isfinite(scores)]


def _spans(table: tuple[FloatArray, IntArray], start: int | slice, end: int | slice) -> tuple[FloatArray, IntArray]:
    return table[0][start, end], table[1][start, end]
