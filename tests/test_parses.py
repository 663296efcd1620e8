"""The trees that are reranked are the best projective ones, and their features what the counts say."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest

from benchmarks.parses import best_trees, parse_lists, read_sentences

TREEBANK = """\
# text = A dog barks
1\tA\ta\tDET\t_\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tbarks\tbark\tVERB\t_\t_\t0\troot\t_\t_

# text = Dogs don't bark
1\tDogs\tdog\tNOUN\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_
4.1\tloud\tloud\tADV\t_\t_\t_\t_\t_\t_

# text = Dogs bark
1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_
"""


def projective_trees(n: int) -> Iterator[tuple[int, ...]]:
    """All heads of n words of which exactly one has head 0, without a circle and without arcs that cross."""
    for heads in product(range(n + 1), repeat=n):
        arcs = [(min(arc), max(arc)) for arc in enumerate(heads, 1)]
        crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
        if heads.count(0) == 1 and not crossing and all(reaches_the_root(word, heads) for word in range(1, n + 1)):
            yield (0, *heads)


def reaches_the_root(word: int, heads: Sequence[int]) -> bool:
    for _ in heads:
        word = heads[word - 1] if word else 0
    return word == 0


@pytest.mark.parametrize(("n", "how_many"), [(1, 1), (2, 2), (3, 7), (4, 30), (5, 143)])
def test_the_best_trees_are_those_of_all_projective_trees(n: int, how_many: int) -> None:
    trees = list(projective_trees(n))
    assert len(trees) == how_many  # C(3n - 2, n - 1) / n
    arcs = np.random.default_rng(n).normal(size=(n + 1, n + 1))
    trees.sort(key=lambda heads: -sum(arcs[heads[word], word] for word in range(1, n + 1)))
    for k in (1, 2, 10, how_many, how_many + 7):
        assert [tuple(heads) for heads in best_trees(arcs, k).tolist()] == trees[:k]


def test_lists_have_the_features_and_errors_of_hand_counted_trees(tmp_path: Path) -> None:
    path = tmp_path / "toy.conllu"
    path.write_text(TREEBANK, encoding="utf-8")
    sentences = read_sentences(path)
    assert [sentence.words[1:] for sentence in sentences] == [
        ("A", "dog", "barks"),
        ("Dogs", "do", "n't", "bark"),
        ("Dogs", "bark"),
    ]
    nbest = parse_lists(sentences, sentences, n_trees=100)
    assert np.diff(nbest.offsets).tolist() == [7, 30]  # all trees; two words are too few for a list
    first = nbest.statistics[:7]
    assert sorted(first[:, 0]) == sorted(sum(map(int.__ne__, tree, (0, 2, 3, 0))) for tree in projective_trees(3))
    assert (first[:, 1] == 3).all()
    (right,) = np.flatnonzero(first[:, 0] == 0)
    # 9 arcs among 9 + 16 + 4 pairs. Of a dependent's tag, a head's word and the side: each pair of the first sentence
    # is there once, but for the root above a verb, three times, and above a noun, three times without an arc.
    # Each pair counts as if it had been seen once more, with the average rate.
    rate = 9 / 29
    arc, none = (1 + rate) / 2, rate / 2
    det = arc / (none + arc + none)
    noun = arc / (rate / 4 + none + arc)
    root = (3 + rate) / 4
    verb = root / (root + none + none)
    assert nbest.features[right, nbest.names.index("head")] == pytest.approx(log(det * noun * verb))
    # numbers of dependents left and right that are seen: (0, 0), (1, 0), (3, 0), (0, 1), a quarter each beforehand
    det, noun, verb, top = (1.25 / 2), (1.25 / 4), (2.25 / 4), (3.25 / 4)
    assert nbest.features[right, nbest.names.index("dependents")] == pytest.approx(log(det * noun * verb * top))
