"""Metrics, losses and regions on lattices: they end where N-best lists of all paths end; equal lattices end alike."""

import numpy as np
import pytest
from graph_problems import Drawn, listed_paths
from searches import many_more

import lpmert
from lpmert import DataError, Lattices, Linear, MetricError, Region
from lpmert.metrics.text import EditTexts
from lpmert.model.lattice_problem import LatticeProblem


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
