"""Metrics, losses and regions on lattices: they end where N-best lists of all paths end; equal lattices end alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_problems import Drawn, listed_paths
from searches import many_more

import lpmert
from lpmert import DataError, Lattices, Linear, MetricError, Region
from lpmert.errors import FloatArray
from lpmert.metrics.text import EditTexts
from lpmert.model.lattice_problem import LatticeProblem

Links = tuple[list[Any], list[int], list[int], list[Any]]
"""Features, sources, targets and words."""


@pytest.mark.parametrize("metric", ["wer", "bleu", "ter"])
@pytest.mark.parametrize("block", [0, *(many_more(block) for block in range(1, 8))])
def test_what_the_oracle_does_not_know_ends_where_lists_of_all_paths_end(metric: str, block: int) -> None:
    """TER, and cosines, beside an equation too; the other metrics and regions stand in `test_methods.py`."""
    equation = Linear({"feature1": 3.0, "feature2": -0.7, "feature3": 1.0}, lower=0, upper=0)
    seen = 0
    for seed in range(15 * block, 15 * block + 15):
        drawn = Drawn(seed, "integers", 2, 3)
        drawn.words = [None if word is None else "aaab"[k % 4] for k, word in enumerate(drawn.words)]
        drawn.references = ["a a a b a", "a a b a a a"]
        if not 0 < np.prod([len(drawn.paths(s)) * any(drawn.paths(s)) for s in range(2)]) <= 400:
            continue
        drawn.features = drawn.features * np.random.default_rng(seed).normal(size=3)
        units = drawn.lattices().units
        drawn.features = np.rint(drawn.features / units) * units  # as lattices hold them
        region = Region(linear=[equation] * (seed % 2), cosine=0.4, around=[1.0, 2.0, -1.0])
        region = region if metric != "ter" or seed % 3 == 0 else Region(nonnegative=seed % 3 == 1)
        lists, measure = listed_paths(drawn, metric)
        found = lpmert.minimize(drawn.lattices(), metric=metric, region=region)
        wanted = lpmert.minimize(lists, metric=measure, region=region)
        assert (found.loss, found.status, found.lower_bound) == (wanted.loss, wanted.status, wanted.lower_bound), seed
        assert lpmert.evaluate(drawn.lattices(), found, metric=metric).loss == found.loss
        seen += 1
    assert seen > 5


@pytest.mark.parametrize("lowercase", [False, True])
def test_words_are_counted_by_their_numbers_as_they_are_in_texts(lowercase: bool) -> None:
    words = ["A", "a", "\u039f\u03a3", "\u03bf\u03c2", "\u03a3", None, "b"]
    chain = Lattices(
        np.eye(len(words)), [0, len(words)], range(len(words)), range(1, len(words) + 1), words,
        references=[["a a \u03bf\u03c2 \u03bf\u03c3 B", "\u0391 a \u03c3 b"]],
    )  # fmt: skip
    settings = EditTexts(lowercase=lowercase)
    problem = LatticeProblem(chain, settings)
    for chosen in ([*range(7)], [0, 2, 5], [3, 4, 6], [5], [1, 1, 2, 3]):
        way = np.array(chosen[::-1])
        text = " ".join(word for k in chosen if (word := words[k]) is not None)
        assert problem.statistics(0, way).tolist() == settings.counter(chain.references[0])(text)


def test_links_have_losses_that_add_up() -> None:
    features = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [0.0, 3.0]]
    lattices = Lattices(features, [0, 4], [0, 0, 1, 1], [1, 1, 2, 2], ["a", "b", "c", None], losses=[3, 1, 4, 2])
    # The best of the first two links is free to choose, the third wins at (1, 0), the fourth at (0, 1).
    assert lpmert.evaluate(lattices, [1, 0]).loss == 7
    assert lpmert.evaluate(lattices, [0, 1]).loss == 3
    found = lpmert.minimize(lattices)
    assert (found.loss, found.lower_bound) == (3, 3)
    with pytest.raises(MetricError, match="needs references"):
        lpmert.minimize(lattices, metric="wer")
    with pytest.raises(DataError, match="whole numbers"):
        Lattices(features, [0, 4], [0, 0, 1, 1], [1, 1, 2, 2], ["a", "b", "c", None], losses=[3, 1, -4, 2])


# Lattices that hold the same hypotheses


def rebuilt(paths: list[list[tuple[FloatArray, Any]]]) -> Links:
    """Features, sources, targets and words of a lattice with one path beside the other, from one start to one end."""
    features: list[Any] = []
    sources: list[int] = []
    targets: list[int] = []
    words: list[Any] = []
    new = 2
    for path in paths:
        node = 0
        for k, (row, word) in enumerate(path):
            last = k + 1 == len(path)
            features.append(row)
            words.append(word)
            sources.append(node)
            targets.append(1 if last else new)
            node = new
            new += 0 if last else 1
    return features, sources, targets, words


def trie(paths: list[list[tuple[FloatArray, Any]]], *, reverse: bool) -> Links:
    """The same with common beginnings (or with reverse, ends) of paths shared: what determinising (minimising) does."""
    start, end = (1, 0) if reverse else (0, 1)
    known: dict[tuple[Any, ...], int] = {(): start}
    features: list[Any] = []
    sources: list[int] = []
    targets: list[int] = []
    words: list[Any] = []
    made: set[tuple[Any, ...]] = set()
    for path in paths:
        key: tuple[Any, ...] = ()
        steps = path[::-1] if reverse else path
        for k, (row, word) in enumerate(steps):
            before, key = known[key], (*key, (tuple(row.tolist()), word))
            final = k + 1 == len(steps)
            after = end if final else known.setdefault(key, len(known) + 1)
            if (key, final) not in made:
                made.add((key, final))
                features.append(row)
                words.append(word)
                sources.append(after if reverse else before)
                targets.append(before if reverse else after)
    return features, sources, targets, words


@pytest.mark.parametrize("reshape", [rebuilt, lambda p: trie(p, reverse=False), lambda p: trie(p, reverse=True)])
@pytest.mark.parametrize("metric", ["wer", "chrf"])
def test_unfolded_determinised_and_minimised_lattices_have_the_same_optimum(
    reshape: Callable[[Any], Links], metric: str
) -> None:
    for seed in range(300, 320):
        drawn = Drawn(seed, "large", 2, 2)  # no two paths with the same features
        if not all(any(drawn.paths(s)) for s in range(2)):
            continue
        features: list[Any] = []
        sources: list[int] = []
        targets: list[int] = []
        words: list[Any] = []
        offsets = [0]
        for s in range(2):
            paths = [[(drawn.features[k], drawn.words[k]) for k in reversed(way)] for way in drawn.paths(s)]
            for gathered, more in zip((features, sources, targets, words), reshape(paths), strict=True):
                gathered += more
            offsets.append(len(features))
        other = Lattices(
            np.array(features), offsets, sources, targets, words, drawn.references, starts=[0, 0], ends=[1, 1]
        )
        one = drawn.lattices()
        assert other.log10_paths == pytest.approx(one.log10_paths)
        found, again = lpmert.minimize(one, metric=metric), lpmert.minimize(other, metric=metric)
        assert (found.loss, found.lower_bound, found.status) == (again.loss, again.lower_bound, again.status)
