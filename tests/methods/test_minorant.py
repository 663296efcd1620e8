"""What is proved of costs below a ratio metric holds of the metric: no selection undercuts it, and bounds only rise."""

from decimal import Decimal, localcontext
from itertools import product
from math import nextafter, prod

import numpy as np
import pytest
from problems import KINDS, random_lists, sums
from shared import needs_shared
from test_ratio_search import METRICS

import lpmert
from benchmarks import datasets
from lpmert import NBest
from lpmert.core import height_limit, loss_of_height, losses_of_totals
from lpmert.methods.choices.ratio import UNIT, cost_of_height, oracle_height, ratio_lists
from lpmert.metrics.base import BLEU
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem


@pytest.mark.parametrize("kind", KINDS)
def test_no_selection_undercuts_the_minorant(kind: str) -> None:
    """Attainable or not."""
    tried = 0
    for seed in range(8):
        lists = random_lists(kind, seed, most_lists=4, most_hypotheses=4, most_features=3)
        for name, metric in METRICS.items():
            statistics = sums(np.random.default_rng([seed, len(name)]), metric, 8, len(lists.features))
            form = Problem(NBest(lists.features, lists.offsets, statistics), metric).canonical
            if not form.n_lists:
                continue
            weights = CanonicalWeights(np.random.default_rng(seed).normal(size=form.n_features))
            searched, ratio = ratio_lists(form)
            height, bound = oracle_height(searched, ratio, weights)
            below = form.with_costs(bound.costs[: len(form.features)].copy())
            sizes = np.diff(form.offsets)
            if below.n_lists != form.n_lists or prod(sizes.tolist()) > 300:
                continue
            tried += 1
            for positions in product(*(range(size) for size in sizes.tolist())):
                rows = form.offsets[:-1] + np.array(positions)
                total = form.totals.constant + form.totals.statistics[rows].sum(axis=0)
                cost = int(below.costs[below.offsets[:-1] + np.array(positions)].sum())
                assert cost_of_height(form, ratio.kind, height + cost) <= form.cost_of_loss(metric.loss(total))
    assert tried


def test_heights_and_losses_turn_into_each_other_on_the_safe_side() -> None:
    """A translation is never beyond the limit of a loss above its own, and no bound is above the loss of its height."""
    rng = np.random.default_rng(2)
    with localcontext() as context:
        context.prec = 60
        for _ in range(200):
            words = rng.integers(10, 10 ** int(rng.integers(2, 8)), 4).astype(float)
            total = np.array([1.0, words[0], 1.0, words[1], 1.0, words[2], 1.0, words[3], 1.0])
            height = Decimal(int(words.astype(object).prod())).ln() / 4
            (loss,) = losses_of_totals(BLEU, np.empty(0), total[None]).tolist()
            assert height <= height_limit(BLEU, nextafter(loss, 1.0)) * Decimal(UNIT)
            bound = float(rng.random() * 10.0 ** rng.integers(-3, 2))
            assert Decimal(loss_of_height(BLEU, bound)) <= 1 - (-Decimal(bound)).exp()


def best_of_each(nbest: NBest) -> float:
    """The score of hypotheses of which none alone can be exchanged for a better one, whatever weights choose."""
    metric, starts, ends = METRICS["bleu"], nbest.offsets[:-1], nbest.offsets[1:]
    rows = starts.copy()
    total = nbest.statistics[rows].sum(axis=0)
    least, before = metric.loss(total), np.inf
    while least < before:
        before = least
        for s, (begin, end) in enumerate(zip(starts, ends, strict=True)):
            totals = total - nbest.statistics[rows[s]] + nbest.statistics[begin:end]
            losses = [metric.loss(row) for row in totals]
            if min(losses) < least:
                least = min(losses)
                rows[s] = begin + int(np.argmin(losses))
                total = nbest.statistics[rows].sum(axis=0)
    return least


@needs_shared
@pytest.mark.slow
def test_no_weights_choose_500_translations_as_good_as_the_best_of_each() -> None:
    nbest = datasets.swahili_counts()
    result = lpmert.minimize(nbest, metric="bleu", time_limit=60)
    assert best_of_each(nbest) < result.lower_bound < result.loss
