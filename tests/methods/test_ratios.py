"""Ratios: searches begin with the oracle bound, undercut no minorant, lose nothing by cores; metrics of others."""

import math
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product
from math import nextafter, prod
from typing import Any

import numpy as np
import pytest
from oracle import Lists, attainable_totals, best_loss, dot
from problems import KINDS, METRICS, WER, Plain, Sum, fractions_loss, random_lists, random_nbest, sums
from scipy.optimize import linprog
from searches import FRACTIONS, RATIOS, many_more
from shared import needs_shared, pool

import lpmert
from benchmarks import datasets
from lpmert import Limits, MethodError, MetricError, NBest, Problem, Result, Status, core
from lpmert.core import height_limit, loss_of_height, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods import Incumbent
from lpmert.methods.choices.ratio import UNIT, _Pieces, cost_of_height, oracle_height, ratio_lists, tight_oracle_height
from lpmert.metrics import Bleu, Chrf, LinearFraction, f_beta, precision
from lpmert.metrics.base import BLEU, CHRF, FRACTION
from lpmert.metrics.text import BleuTexts
from lpmert.model.canonical import CanonicalWeights
from lpmert.numeric.lists import SortedLists, sorted_lists
from lpmert.registry import METHODS
from lpmert.search.driver import Driver
from lpmert.search.fractional import FractionSearch
from lpmert.search.method import Enumeration
from lpmert.system.deadline import Deadline, OutOfTime

pytestmark = pytest.mark.usefixtures("poorest_start")

BOUNDED = {"bleu": Bleu(), "chrf": Chrf(char_order=3)}
LISTS, SIZE = 5, 4


def lists_of(rng: np.random.Generator, name: str, n_features: int) -> tuple[Any, NBest]:
    """A metric, and lists with its statistics; for chrF hypotheses are about as long as their reference."""
    metric, _, counts = METRICS[name]
    offsets = list(range(0, LISTS * SIZE + 1, SIZE))
    statistics = counts(rng, offsets)
    if name == "chrf":
        metric, sizes = Chrf(char_order=1), rng.integers(4, 9, (LISTS * SIZE, 2))
        sizes[:, 1] = sizes[::SIZE, 1].repeat(SIZE)
        statistics = np.column_stack([sizes, rng.binomial(sizes.min(axis=1), 0.6)]).astype(float)
    return metric, NBest(rng.normal(size=(offsets[-1], n_features)), offsets, statistics)


def unrestricted(metric: Any, statistics: FloatArray) -> float:
    """The least loss of all selections, one after another."""
    lists = statistics.reshape(LISTS, SIZE, -1)
    chosen = product(range(SIZE), repeat=LISTS)
    return min(metric.loss(lists[np.arange(LISTS), list(rows)].sum(axis=0)) for rows in chosen)


@pytest.mark.parametrize("time_limit", [0.0, 0.2])
@pytest.mark.parametrize("method", ["auto", "choices", "cells", "groups"])
def test_sums_begin_with_the_oracle_itself(method: str, time_limit: float) -> None:
    """Too many lists and features for a proof, where the bound is all that there is."""
    rng = np.random.default_rng(2)
    nbest = NBest(rng.normal(size=(3000, 14)), np.arange(0, 3001, 20), rng.integers(0, 30, 3000) / 7.0)
    result = lpmert.minimize(nbest, method=method, time_limit=time_limit)
    least = nbest.statistics[:, 0].reshape(150, 20).min(axis=1).sum()
    assert result.status is lpmert.Status.TIME_LIMIT
    assert least * (1 - 1e-12) <= result.lower_bound <= result.loss


@pytest.mark.parametrize("name", ["wer", "f1", "precision"])
def test_fractions_begin_with_the_oracle_itself(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        metric, nbest = lists_of(rng, name, 6)
        result = lpmert.minimize(nbest, metric=metric, time_limit=0)
        assert result.lower_bound == pytest.approx(unrestricted(metric, nbest.statistics), rel=1e-12)


@pytest.mark.parametrize("method", ["auto", "choices", "cells", "groups"])
@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_other_ratios_begin_just_below_it(name: str, method: str) -> None:
    rng = np.random.default_rng(1)
    short = []
    for _ in range(10):
        metric, nbest = lists_of(rng, name, 6)
        result = lpmert.minimize(nbest, metric=metric, method=method, time_limit=0)
        least = unrestricted(metric, nbest.statistics)
        assert result.lower_bound <= least + 1e-12
        any_weights = Problem(nbest, metric).evaluate(np.ones(6)).loss
        short.append((least - result.lower_bound) / max(any_weights - least, 1e-9))
    # a share of what there is to choose; the minorant that is tight at some weights alone leaves several times as much
    assert np.mean(short) < 0.1


@pytest.mark.parametrize("name", BOUNDED)
def test_no_selection_undercuts_what_is_said_of_the_oracle(name: str) -> None:
    """All selections, attainable or not; with counts of 0, lengths that differ, and lists of one hypothesis."""
    metric = BOUNDED[name]
    closer = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, len(name)])
        sizes = rng.integers(1, 5, rng.integers(1, 5))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        statistics = sums(rng, metric, 8, offsets[-1])
        if seed % 2:  # of few kinds, so that much is equal, and far apart
            statistics = statistics[rng.integers(0, min(3, len(statistics)), len(statistics))] * rng.integers(1, 40)
        form = Problem(NBest(rng.normal(size=(offsets[-1], 3)), offsets, statistics), metric).canonical
        if not form.n_lists:
            continue
        lists, ratio = ratio_lists(form)
        weights = CanonicalWeights(rng.normal(size=form.n_features))
        plain, bound = oracle_height(lists, ratio, weights)
        height = tight_oracle_height(lists, ratio, plain, bound)
        totals = form.totals
        own = [range(begin, end) for begin, end in pairwise(form.offsets.tolist())]
        losses = [metric.loss(totals.constant + totals.statistics[list(rows)].sum(axis=0)) for rows in product(*own)]
        assert plain <= height
        assert form.loss_of(cost_of_height(form, ratio.kind, height)) <= min(losses) + 1e-12
        closer += plain < height
        quarters = ratio._replace(constant=ratio.constant + 0.25)  # sums of them could be rounded out of a piece
        assert tight_oracle_height(lists, quarters, plain, bound) == plain
    assert closer > 20


def test_heights_of_pieces_are_rounded_down() -> None:
    rng = np.random.default_rng(0)
    metric = BOUNDED["bleu"]
    statistics = sums(rng, metric, 8, 20)
    form = Problem(NBest(rng.normal(size=(20, 3)), [0, 5, 10, 15, 20], statistics), metric).canonical
    lists, ratio = ratio_lists(form)
    pieces, plain = _Pieces(ratio, lists.offsets, 1), ratio.statistics.tolist()
    for _ in range(50):
        slopes, multiplier, end = rng.normal(size=len(plain[0])) * 1e3, rng.normal() * 1e3, rng.normal()
        lines = np.column_stack([ratio.statistics @ slopes, ratio.statistics[:, 1]])
        height, _ = pieces._cheapest(0.1, slopes, lines, multiplier, end)
        exact, times = list(map(Fraction, slopes.tolist())), Fraction(multiplier)
        exact[1] -= times
        least = sum(min(dot(exact, row) for row in plain[a:b]) for a, b in pairwise(lists.offsets.tolist()))
        total = Fraction(0.1) + times * Fraction(end) + dot(exact, ratio.constant.tolist()) + least
        assert total - Fraction(1, 10**6) < height * Fraction(UNIT) <= total


@pytest.mark.parametrize("kind", KINDS)
def test_no_selection_undercuts_the_minorant(kind: str) -> None:
    """All selections, attainable or not."""
    tried = 0
    for seed in range(8):
        lists = random_lists(kind, seed, most_lists=4, most_hypotheses=4, most_features=3)
        for name, metric in BOUNDED.items():
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


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_a_cost_is_that_of_its_own_loss(name: str) -> None:
    """What the core is told to undercut comes back: were it a unit less, old weights would count as new."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        metric, nbest = lists_of(rng, name, 3)
        form = Problem(nbest, metric).canonical
        for weights in rng.normal(size=(20, form.n_features)):
            cost = form.attained_cost(CanonicalWeights(weights))
            assert cost is not None
            assert form.cost_of_loss(form.loss_of(cost)) == cost


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
    metric, starts, ends = BOUNDED["bleu"], nbest.offsets[:-1], nbest.offsets[1:]
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
    nbest = datasets.swahili_counts().load()
    result = lpmert.minimize(nbest, metric="bleu", time_limit=60)
    assert best_of_each(nbest) < result.lower_bound < result.loss


@needs_shared
@pytest.mark.parametrize(
    ("names", "bleu", "methods"),
    [
        ("lm+tm", 0.305565, ("cells", "auto")),
        ("lm+tm+length", 0.310015, ("cells", "auto")),
        many_more("lm+tm+length+reordering", 0.323456, ("cells",)),
    ],
)
def test_corpus_bleu_of_translations_is_proved(names: str, bleu: float, methods: tuple[str, ...]) -> None:
    for method in methods:
        result = lpmert.minimize(datasets.swahili_bleu_groups(names).load(), metric="bleu", method=method)
        assert result.status is Status.OPTIMAL
        assert round(result.score / 100, 6) == bleu


FOUND_BY_MOSES = (0.384774, 0.410349, 0.410349, 0.410349, 0.411710, 0.410349, 0.406334)


@needs_shared
@pytest.mark.parametrize("runs", [1, *map(many_more, range(2, 8))])
def test_many_features_on_few_lists_are_proved_and_no_worse_than_what_moses_found(runs: int) -> None:
    nbest = pool("news5", runs, metric=BleuTexts(tokenize="none"))
    result = lpmert.minimize(nbest, metric="bleu", time_limit=300)
    assert result.status is Status.OPTIMAL
    assert result.score / 100 >= FOUND_BY_MOSES[runs - 1]
    assert Problem(nbest, "bleu").evaluate(result.weights).loss == result.loss


def drawn(rng: np.random.Generator, n_lists: tuple[int, int]) -> Lists:
    """From the first number of lists to below the second, with few different losses."""
    width, count, size = (int(rng.integers(*ends)) for ends in ((2, 5), n_lists, (2, 5)))
    features = rng.normal(size=(count * size, width))
    losses = rng.integers(0, int(rng.choice([2, 4, 9])), count * size)
    return Lists(features, np.arange(0, count * size + 1, size), losses)


@pytest.mark.parametrize("seed", [50, 966, 1020, 1202, 1368])
def test_a_child_that_costs_just_less_than_the_incumbent_is_searched(seed: int) -> None:
    """Of 2,400 random problems, these are some whose optimum is met nowhere but in such a child."""
    rng = np.random.default_rng(seed)
    lists = drawn(rng, (5, 14))
    found = lpmert.minimize(lists.nbest, method="choices")
    assert (found.status, found.loss) == (Status.OPTIMAL, float(best_loss(lists)))


def _core_search(lists: SortedLists) -> Any:
    search = core.choices_search(lists.native(), None, 0, np.zeros(lists.rows.shape[1]), 1)
    search.aim(10**6, 1.0)
    return search


@pytest.mark.parametrize("seeds", [range(120), many_more(range(120, 400))])
def test_cores_raise_bounds_by_no_more_than_their_lists_pay(seeds: range) -> None:
    """From nothing known on, the least is found as exact arithmetic and cones find it."""
    for seed in seeds:
        plain = drawn(np.random.default_rng(seed), (6, 16))
        search = _core_search(sorted_lists(plain.features, plain.offsets, plain.losses))
        assert search.search(10**8) == 2
        assert search.found[0] == lpmert.minimize(plain.nbest, method="cells").loss, seed
        if seed % 40 == 0:
            assert search.found[0] == best_loss(plain)


def _made(rows: FloatArray, choices: Iterable[Iterable[int]]) -> FloatArray | None:
    """Weights that make these choices [n, 2] of lists of three, rows [S, 3, D], with room around them."""
    leads = np.array([rows[s, h] - rows[s, other] for s, h in choices for other in range(3) if other != h])
    leads /= np.linalg.norm(leads, axis=1)[:, None]
    bounds = [(-1, 1)] * leads.shape[1] + [(0, 1)]
    limits = np.column_stack([-leads, np.ones(len(leads))])
    solved = linprog([0.0] * leads.shape[1] + [-1.0], A_ub=limits, b_ub=np.zeros(len(leads)), bounds=bounds)
    return solved.x[:-1] if solved.x is not None and solved.x[-1] > 1e-9 else None


def test_choices_that_no_doubles_make_are_left_out_and_nothing_else() -> None:
    """Two lists have their cheapest together only between two directions that are all but one."""
    unattainable, none = 0, np.empty((0, 2), dtype=np.int64)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        direction = rng.normal(size=3)
        features = rng.normal(size=(18, 3))
        features[0], features[1], features[2] = direction, 0.0, -0.5 * np.abs(direction)
        features[3], features[4] = np.nextafter(-direction, rng.choice([-9.0, 9.0], 3)), 0.0
        features[5] = -0.25 * np.abs(direction)
        costs = np.sort(rng.integers(0, 5, (6, 3)), axis=1)
        costs[:2] = [0, 2, 3]
        lists = sorted_lists(features, np.arange(0, 19, 3), costs.ravel())
        rows, search = lists.rows.reshape(6, 3, 3), _core_search(lists)
        while (state := search.search(10**6)) != 2:
            assert state == 1
            choices = search.question.tolist()
            if any([0, h] in choices and [1, h] in choices for h in (0, 1)):
                search.answer(np.empty(0), none)
                unattainable += 1
            elif (weights := _made(rows, choices)) is None:
                search.answer(np.empty(0), search.question)
            else:
                search.answer(weights, none)
        selections = sorted(product(range(3), repeat=6), key=lambda one: sum(costs[range(6), one]))
        least = next(one for one in selections if not one[0] == one[1] < 2 and _made(rows, enumerate(one)) is not None)
        assert search.found[0] == costs[range(6), least].sum(), seed
    assert unattainable > 4


# Metrics of others, and fractions of sums


def rate(total: list[float]) -> float:
    """2 errors / (words + 3 insertions): several columns, losses below and above 1."""
    return 2 * total[0] / (total[1] + 3 * total[2]) if total[1] + 3 * total[2] else 1.0


def linear(numerator: tuple[int, ...] = (2, 0, 0), denominator: tuple[int, ...] = (0, 1, 3)) -> LinearFraction:
    return LinearFraction("rate", ("errors", "words", "insertions"), numerator, denominator)


def counts(seed: int, offsets: Any) -> FloatArray:
    rng, shape = np.random.default_rng(seed), (offsets[-1], 3)
    return (rng.integers(0, 4, shape) * rng.integers(0, 2, shape)).astype(np.float64)


FOREIGN: dict[str, tuple[Any, Callable[[list[float]], float], int]] = {
    "a sum": (Sum(lambda t: 2 * t[0] - t[1], lambda s: 2 * s[:, 0] - s[:, 1]), lambda t: 2 * t[0] - t[1], 12),
    "a fraction": (linear(), rate, 40),
}
"""Metrics, their losses, and how many problems."""


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_metric_is_proved_by_every_engine(name: str) -> None:
    metric, loss, seeds = FOREIGN[name]
    above_one = 0
    for seed in range(seeds):
        kind = ("floats", "integers", "duplicates")[seed % 3]
        lists = random_lists(kind, seed, most_lists=4, most_hypotheses=4, most_features=3, most_selections=60)
        nbest = NBest(lists.features, lists.offsets, counts(seed, lists.offsets))
        least = min(map(loss, attainable_totals(lists, nbest.statistics)))
        above_one += least > 1
        for method in FRACTIONS:
            result = lpmert.minimize(nbest, metric=metric, method=method)
            assert result.status is Status.OPTIMAL
            assert result.lower_bound == result.loss == pytest.approx(least, abs=0, rel=0)
    assert name != "a fraction" or above_one >= 3


def two_lists(statistics: FloatArray | None = None) -> NBest:
    offsets = [0, 6, 12]
    features = np.eye(12)[:, :3] + np.arange(12)[:, None] % 2
    return NBest(features, offsets, counts(1, offsets) if statistics is None else statistics)


BEYOND = np.tile([3.0, 2.0, 1.0], (12, 3))
WRONG: dict[str, tuple[FloatArray | None, Any, str]] = {
    "a numerator below 0": (None, linear((-2, 0, 0)), "numerator of the loss is -"),
    "matches beyond totals": (BEYOND, Bleu(), "matches among"),
    "too few columns for BLEU": (None, Bleu(), "takes 9"),
    "losses that do not add up": (None, Sum(max, lambda s: s[:, 0]), "is not additive.*omit `losses`"),
    "losses that nearly add up": (None, Sum(lambda t: t[0] * (1 + 1e-6), lambda s: s[:, 0]), "is not additive"),
    "losses that are not finite": (None, Sum(sum, lambda s: s[:, 0] / 0.0), "one finite number"),
    "a single loss": (None, Sum(sum, lambda s: s[:1, 0]), "one finite number"),
    "an infinite loss": (None, Plain(lambda _: math.inf), "finite"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_metric_that_breaks_its_contract_is_refused_at_once(wrong: str) -> None:
    statistics, metric, message = WRONG[wrong]
    for method in (*RATIOS, "och"):
        with pytest.raises(MetricError, match=message):
            lpmert.minimize(two_lists(statistics), metric=metric, method=method)


def test_no_formula_takes_what_is_for_another() -> None:
    total = np.array([4.0, 5.0, 3.0])
    for kind, parameters in ((4, [4.0]), (3, [4.0]), (-1, [4.0]), (BLEU, []), (CHRF, []), (FRACTION, [1.0])):
        with pytest.raises(ValueError, match=r"kind is none|another number of statistics or parameters"):
            core.losses_of_totals(kind, np.array(parameters), total[None])
        with pytest.raises(ValueError, match=r"kind is none|another number of statistics or parameters"):
            core.lay_minorant(kind, np.array(parameters), total, total, total)
    # a fraction has a loss, but no bound
    constant, slopes = core.lay_minorant(FRACTION, f_beta().parameters, total, total, total)
    assert (constant, slopes.any()) == (0.0, False)


def test_a_loss_that_is_neither_a_sum_nor_a_formula_of_ours_is_for_heuristics() -> None:
    metric = Plain(lambda total: 1.0 / (1.0 + total[0]))
    nbest = two_lists()
    for method in RATIOS:
        with pytest.raises(lpmert.MethodError, match="only heuristics"):
            lpmert.minimize(nbest, metric=metric, method=method)
    result = lpmert.minimize(nbest, metric=metric, method="random")
    assert (result.status, result.lower_bound) == (Status.HEURISTIC, None)


def larger(seed: int) -> NBest:
    return random_nbest(seed, lists=60, size=10, dimension=4, kind="f1")


def test_methods_that_need_a_sum_over_lists_say_so() -> None:
    for method in ("mip", "beam"):
        with pytest.raises(MethodError, match="additive"):
            lpmert.minimize(larger(0), metric="f1", method=method)
    with pytest.raises(MethodError, match="ties"):
        lpmert.minimize(larger(0), metric="f1", ties="best")


def exact_loss(metric: LinearFraction, total: list[float]) -> Fraction:
    return Fraction(fractions_loss(metric)([int(value) for value in total]))


def assert_least(result: Result, nbest: NBest, metric: LinearFraction, least: Fraction) -> bool:
    """No status claims what exact arithmetic denies; say whether the least loss is called proved."""
    total = nbest.statistics[nbest.offsets[:-1] + result.selection].sum(axis=0).tolist()
    own = exact_loss(metric, total)
    assert result.loss == float(own)
    if result.status is Status.OPTIMAL:
        assert own == least
        assert result.lower_bound == result.loss
        return True
    assert result.status is Status.OPTIMAL_TO_TOLERANCE
    assert result.lower_bound <= float(least) * (1 + 2.0**-52)
    return False


def zeros(seed: int) -> tuple[NBest, list[list[float]]]:
    """Lists whose words may be 0, and their attainable totals."""
    lists = random_lists("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
    rng = np.random.default_rng(seed)
    counts = np.column_stack([rng.integers(1, 9, len(lists.features)), rng.integers(0, 4, len(lists.features))])
    counts[rng.random(len(counts)) < 0.4, 1] = 0
    statistics = counts.astype(float)
    return NBest(lists.features, lists.offsets, statistics), attainable_totals(lists, statistics)


def test_fractions_closer_than_a_unit_are_ranked_exactly() -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        lists = random_lists("integers", seed, most_lists=3, most_hypotheses=5, most_features=4, most_selections=40)
        size = 10**13 - rng.integers(0, 10, len(lists.features))
        counts = np.column_stack([size - rng.integers(1, 4, len(size)), size, size])
        nbest = NBest(lists.features, lists.offsets, counts)
        least = min(exact_loss(precision(), total) for total in attainable_totals(lists, nbest.statistics))
        for method in FRACTIONS[1:4]:
            result = lpmert.minimize(nbest, metric=precision(), method=method)
            assert assert_least(result, nbest, precision(), least)


def test_losses_above_one_are_proved_from_a_start_that_attains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.search.incumbent._PERTURBATIONS", 0)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        lists = random_lists("integers", seed, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)
        words = 3 * rng.integers(1, 3, len(lists.features))
        nbest = NBest(lists.features, lists.offsets, np.column_stack([words + rng.integers(1, 9, len(words)), words]))
        least = min(exact_loss(WER, total) for total in attainable_totals(lists, nbest.statistics))
        assert least > 1
        for method in FRACTIONS:
            result = lpmert.minimize(nbest, metric=WER, method=method)
            assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, float(least), float(least))


def test_what_is_found_but_decoded_by_no_weights_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FractionSearch, "_try_weights", lambda *_: None)
    open_ends = 0
    for seed in range(60):
        nbest, totals = zeros(seed)
        least = min(exact_loss(WER, total) for total in totals)
        for method in ("choices", "lp-mert"):
            open_ends += not assert_least(lpmert.minimize(nbest, metric=WER, method=method), nbest, WER, least)
    assert open_ends >= 10


class GivenUp(Enumeration):
    """Finds given weights, and is stopped in the middle."""

    weights = np.zeros(0)

    def advance(self) -> None:
        self.incumbent.improve(self.incumbent.cost - 1, self.weights, "S")
        raise OutOfTime


def test_better_weights_of_a_search_that_is_given_up_are_kept() -> None:
    nbest = larger(0)
    best = lpmert.minimize(nbest, metric="f1")
    problem = Problem(nbest, "f1")
    form = problem.canonical
    GivenUp.weights = problem.to_canonical(best.weights)
    start = np.ones(4)
    loss = problem.attained_loss(problem.to_caller(start))
    assert loss > best.loss
    assert form.totals.fraction is not None
    incumbent = Incumbent(form.cost_of_loss(loss), start, "I")
    search = FractionSearch(form, incumbent, lambda _, inner: GivenUp(inner, []))
    outcome = Driver(METHODS.build("choices"), 0, problem, Limits(), None, Deadline(None)).drive(search)
    assert outcome.status is Status.TIME_LIMIT
    assert form.loss_of(outcome.cost) == pytest.approx(best.loss, rel=1e-15)
    assert problem.attains(problem.to_caller(outcome.weights), outcome.cost)
    assert form.loss_of(outcome.lower_bound) <= best.loss


def test_counts_whose_sums_are_not_exact_are_refused() -> None:
    nbest = NBest([[0.0], [1.0]], [0, 2], [[0, 2**40, 2**40], [1, 2**40, 2**40]])
    with pytest.raises(MetricError, match="numerator of the loss is not exact; divide them"):
        lpmert.minimize(nbest, metric=f_beta(0.37))
