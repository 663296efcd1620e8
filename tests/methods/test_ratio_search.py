"""The exact methods prove ratio metrics: they find the loss that brute force in exact arithmetic finds."""

from collections.abc import Iterator

import numpy as np
import pytest
from oracle import Lists
from problems import random_lists, sums
from shared import needs_shared, pool

import lpmert
from benchmarks import datasets
from lpmert import NBest, Status
from lpmert.methods.choices.choices import Choices
from lpmert.metrics.ratio import Bleu, Chrf, Per
from lpmert.metrics.text import BleuTexts
from lpmert.model.problem import Problem

pytestmark = pytest.mark.usefixtures("poorest_start")

METRICS = {"bleu": Bleu(), "chrf": Chrf(char_order=3), "per": Per()}


def problems(kind: str, seeds: range, **sizes: int) -> Iterator[tuple[Lists, NBest, str]]:
    """Small problems of one kind, for both metrics."""
    limits = {"most_lists": 5, "most_hypotheses": 4, "most_features": 4, "most_selections": 100, **sizes}
    for seed in seeds:
        lists = random_lists(kind, seed, **limits)
        for name in METRICS:
            statistics = sums(np.random.default_rng([seed, len(name)]), METRICS[name], 8, len(lists.features))
            yield lists, NBest(lists.features, lists.offsets, statistics), name


def test_options_of_selections_are_heeded() -> None:
    changes = {
        "use_cores": ("lps_for_cores", Choices(use_cores=True)),
        "look_ahead": ("lps", Choices(look_ahead=False)),
    }
    seen = set()
    for _, nbest, name in problems("floats", range(600, 610), most_lists=8, most_selections=2000):
        usual = lpmert.minimize(nbest, metric=METRICS[name], method=Choices())
        assert usual.counters["lps_for_cores"] == 0
        for option, (what, method) in changes.items():
            result = lpmert.minimize(nbest, metric=METRICS[name], method=method)
            assert result.loss == usual.loss
            if result.counters[what] != usual.counters[what]:
                seen.add(option)
    assert seen == set(changes)


@needs_shared
@pytest.mark.parametrize(("names", "bleu"), [("lm+tm", 0.305565), ("lm+tm+length", 0.310015)])
def test_corpus_bleu_of_translations_is_proved(names: str, bleu: float) -> None:
    for method in ("cells", "auto"):
        result = lpmert.minimize(datasets.swahili_bleu_groups(names).load(), metric="bleu", method=method)
        assert result.status is Status.OPTIMAL
        assert round(result.score / 100, 6) == bleu


@needs_shared
@pytest.mark.slow
def test_corpus_bleu_of_translations_is_proved_for_four_features() -> None:
    result = lpmert.minimize(
        datasets.swahili_bleu_groups("lm+tm+length+reordering").load(), metric="bleu", method="cells"
    )
    assert result.status is Status.OPTIMAL
    assert round(result.score / 100, 6) == 0.323456


FOUND_BY_MOSES = (0.384774, 0.410349, 0.410349, 0.410349, 0.411710, 0.410349, 0.406334)


@needs_shared
@pytest.mark.parametrize("runs", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 8))])
def test_many_features_on_few_lists_are_proved_and_no_worse_than_what_moses_found(runs: int) -> None:
    nbest = pool("news5", runs, metric=BleuTexts(tokenize="none"))
    result = lpmert.minimize(nbest, metric="bleu", time_limit=300)
    assert result.status is Status.OPTIMAL
    assert result.score / 100 >= FOUND_BY_MOSES[runs - 1]
    assert Problem(nbest, "bleu").evaluate(result.weights).loss == result.loss
