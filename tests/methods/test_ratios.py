"""Ratios: searches begin with the oracle bound, undercut no minorant, lose nothing by cores; metrics of others."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from math import nextafter
from typing import Any

import numpy as np
import pytest
from fuzz import run
from oracle import Lists, best_loss, dot
from problems import KINDS, METRICS, WER, Case, Plain, Sum, fractions_loss, random_lists, random_nbest, share_loss, sums
from refusals import refused
from scipy.optimize import linprog
from searches import FRACTIONS, RATIOS, many_more
from shared import needs_shared, pool

import lpmert
from benchmarks import datasets
from lpmert import MethodError, MetricError, NBest, Problem, Result, Status, core
from lpmert.core import height_limit, loss_of_height, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.limits import OutOfTime
from lpmert.methods import Incumbent
from lpmert.methods.choices import UNIT, _Pieces, cost_of_height, oracle_height, ratio_lists, tight_oracle_height
from lpmert.metrics import Bleu, Chrf, LinearFraction, f_beta, precision
from lpmert.metrics.base import BLEU, CHRF, FRACTION
from lpmert.metrics.text import BleuTexts
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.lists import sorted_lists
from lpmert.search.combined import FractionSearch
from lpmert.search.method import Enumeration

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


def test_fractions_begin_with_the_oracle_itself() -> None:
    rng = np.random.default_rng(0)
    for name in ("wer", "f1", "precision") * 20:
        metric, nbest = lists_of(rng, name, 6)
        result = lpmert.minimize(nbest, metric=metric, time_limit=0)
        assert result.lower_bound == pytest.approx(unrestricted(metric, nbest.statistics), rel=1e-12)


@pytest.mark.parametrize("method", RATIOS)
@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_other_ratios_begin_just_below_it(name: str, method: str) -> None:
    """The minorant that is tight at some weights alone leaves several times as much of what there is to choose."""
    rng = np.random.default_rng(1)
    short = []
    for _ in range(10):
        metric, nbest = lists_of(rng, name, 6)
        bound = lpmert.minimize(nbest, metric=metric, method=method, time_limit=0).lower_bound
        least = unrestricted(metric, nbest.statistics)
        assert bound <= least + 1e-12
        any_weights = lpmert.evaluate(nbest, np.ones(6), metric=metric).loss
        short.append((least - bound) / max(any_weights - least, 1e-9))
    assert np.mean(short) < 0.1


def assert_no_selection_undercuts(form: Canonical, metric: Any, seed: int) -> bool:
    """What is said of the oracle, and the minorant; return whether pieces make the bound tighter."""
    searched, ratio = ratio_lists(form)
    weights = CanonicalWeights(np.random.default_rng(seed).normal(size=form.n_features))
    plain, bound = oracle_height(searched, ratio, weights)
    height = tight_oracle_height(searched, ratio, plain, bound)
    totals = form.totals
    own = [range(begin, end) for begin, end in pairwise(form.offsets.tolist())]
    losses = {rows: metric.loss(totals.constant + totals.statistics[list(rows)].sum(axis=0)) for rows in product(*own)}
    assert plain <= height
    assert form.loss_of(cost_of_height(form, ratio.kind, height)) <= min(losses.values()) + 1e-12
    for rows, loss in losses.items():
        below = plain + int(bound.costs[list(rows)].sum())
        assert cost_of_height(form, ratio.kind, below) <= form.cost_of_loss(loss)
    quarters = ratio._replace(constant=ratio.constant + 0.25)  # sums of them could be rounded out of a piece
    assert tight_oracle_height(searched, quarters, plain, bound) == plain
    return plain < height


@pytest.mark.parametrize("name", BOUNDED)
def test_no_selection_undercuts_what_is_said_of_the_oracle_and_the_minorant(name: str) -> None:
    """All selections, attainable or not; with counts of 0, lengths that differ, and lists of one hypothesis."""
    metric, closer, tried = BOUNDED[name], 0, 0
    for seed in range(150):
        rng = np.random.default_rng([seed, len(name)])
        offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, rng.integers(1, 5)))])
        statistics = sums(rng, metric, 8, offsets[-1])
        if seed % 2:  # of few kinds, so that much is equal, and far apart
            statistics = statistics[rng.integers(0, min(3, len(statistics)), len(statistics))] * rng.integers(1, 40)
        form = Problem(NBest(rng.normal(size=(offsets[-1], 3)), offsets, statistics), metric).canonical
        closer += bool(form.n_lists) and assert_no_selection_undercuts(form, metric, seed)
    for kind, seed in product(KINDS, range(8)):
        lists = random_lists(kind, seed, most_lists=4, most_hypotheses=4, most_features=3, most_selections=300)
        statistics = sums(np.random.default_rng([seed, len(name)]), metric, 8, len(lists.features))
        form = Problem(NBest(lists.features, lists.offsets, statistics), metric).canonical
        if form.n_lists:
            assert_no_selection_undercuts(form, metric, seed)
            tried += 1
    assert closer > 20
    assert tried > 70


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


@needs_shared
@pytest.mark.slow
def test_no_weights_choose_500_translations_as_good_as_the_best_of_each() -> None:
    """Of which none alone can be exchanged for a better one, whatever weights choose."""
    nbest, metric = datasets.swahili_counts().load(), BOUNDED["bleu"]
    rows, before = nbest.offsets[:-1].copy(), None
    while before is None or (rows != before).any():
        before = rows.copy()
        for s, (begin, end) in enumerate(pairwise(nbest.offsets.tolist())):
            totals = nbest.statistics[np.delete(rows, s)].sum(axis=0) + nbest.statistics[begin:end]
            losses = [metric.loss(total) for total in totals]
            rows[s] = rows[s] if losses[rows[s] - begin] == min(losses) else begin + int(np.argmin(losses))
    result = lpmert.minimize(nbest, metric="bleu", time_limit=60)
    assert metric.loss(nbest.statistics[rows].sum(axis=0)) < result.lower_bound < result.loss


@needs_shared
@pytest.mark.parametrize(
    ("names", "bleu", "method"),
    [
        *product(["lm+tm"], [0.305565], ["cells", "auto"]),
        *product(["lm+tm+length"], [0.310015], ["cells", "auto"]),
        many_more("lm+tm+length+reordering", 0.323456, "cells"),
    ],
)
def test_corpus_bleu_of_translations_is_proved(names: str, bleu: float, method: str) -> None:
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


@pytest.mark.parametrize("seed", [50, 966, 1020, 1202, 1368])
def test_a_child_that_costs_just_less_than_the_incumbent_is_searched(seed: int) -> None:
    """Of 2,400 random problems, these are some whose optimum is met nowhere but in such a child."""
    rng = np.random.default_rng(seed)
    width, count, size = (int(rng.integers(*ends)) for ends in ((2, 5), (5, 14), (2, 5)))
    features = rng.normal(size=(count * size, width))
    losses = rng.integers(0, int(rng.choice([2, 4, 9])), count * size)
    lists = Lists(features, np.arange(0, count * size + 1, size), losses)
    found = lpmert.minimize(lists.nbest, method="choices")
    assert (found.status, found.loss) == (Status.OPTIMAL, float(best_loss(lists)))


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
        rows, search = lists.rows.reshape(6, 3, 3), core.ChoicesSearch(lists.native(), None, 0, np.zeros(3), 1)
        search.aim(10**6, 1.0)  # with nothing known to be good
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


def test_an_open_node_with_children_leaves_a_list_for_them() -> None:
    lists = sorted_lists(np.eye(3)[[0, 1, 0, 2]], np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
    [(_, data)] = (search := core.ChoicesSearch(lists.native(), None, 0, np.zeros(3), 1)).open_nodes()
    forged = np.array([2, 0, 0, 1, 0, 0, 1, 0, 0]).view(np.uint8)  # both lists are chosen, and branched on is the first
    with pytest.raises(ValueError, match="an open node must be of the lists to search"):
        search.go_on_with(np.concatenate([forged, data[24:]]))


# Metrics of others, and fractions of sums


def linear(numerator: tuple[int, ...] = (2, 0, 0)) -> LinearFraction:
    """A multiple of errors over words and insertions: several columns, losses below and above 1."""
    return LinearFraction("rate", ("errors", "words", "insertions"), numerator, (0, 1, 3))


def counts(seed: int, offsets: Any) -> FloatArray:
    rng, shape = np.random.default_rng(seed), (offsets[-1], 3)
    return (rng.integers(0, 4, shape) * rng.integers(0, 2, shape)).astype(np.float64)


def measured(lists: Lists, statistics: FloatArray, metric: Any, loss: Any) -> Case:
    """Lists with statistics, of which cells may be too thin for doubles."""
    values = [tuple(map(Fraction, row)) for row in statistics.tolist()]
    return Case("", lists.features, lists.offsets.tolist(), statistics, values, metric, loss, thin=True)


few = partial(random_lists, most_lists=3, most_hypotheses=4, most_features=3, most_selections=40)


def ended(one: Case, methods: Iterable[str]) -> set[Status]:
    return {run(one, method)[1] for method in methods}


def test_a_foreign_metric_is_proved_by_every_engine() -> None:
    """A sum, and a fraction whose loss can be above 1."""
    plain = Sum(lambda t: 2 * t[0] - t[1], lambda s: 2 * s[:, 0] - s[:, 1])
    above_one = 0
    for seed in range(40):
        lists = few(("floats", "integers", "duplicates")[seed % 3], seed)
        statistics = counts(seed, lists.offsets)
        fraction = measured(lists, statistics, linear(), fractions_loss(linear()))
        above_one += fraction.least > 1
        assert ended(fraction, FRACTIONS) == {Status.OPTIMAL}
        if seed < 12:
            summed = measured(lists, statistics, plain, lambda sums: Fraction(2 * sums[0] - sums[1]))
            assert ended(summed, FRACTIONS) == {Status.OPTIMAL}
    assert above_one >= 3


def two_lists(statistics: FloatArray | None = None) -> NBest:
    features = np.eye(12)[:, :3] + np.arange(12)[:, None] % 2
    return NBest(features, [0, 6, 12], counts(1, [12]) if statistics is None else statistics)


BEYOND = np.tile([3.0, 2.0, 1.0], (12, 3))
WRONG: list[tuple[FloatArray | None, Any, str]] = [
    (None, linear((-2, 0, 0)), "numerator of the loss is -"),
    (BEYOND, Bleu(), "matches among"),
    (None, Bleu(), "takes 9"),
    (None, Sum(max, lambda s: s[:, 0]), "is not additive.*omit `losses`"),
    (None, Sum(lambda t: t[0] * (1 + 1e-6), lambda s: s[:, 0]), "is not additive"),  # but nearly
    (None, Sum(sum, lambda s: np.where(s[:, 0] < 1, math.inf, 1.0)), "a finite number for each"),
    (None, Sum(sum, lambda s: s[:1, 0]), "a finite number for each"),
    (None, Plain(lambda _: math.inf), "finite"),
]


def test_no_formula_takes_what_is_for_another() -> None:
    total = np.array([4.0, 5.0, 3.0])
    wrong = (4, [4.0]), (3, [4.0]), (-1, [4.0]), (BLEU, []), (CHRF, []), (FRACTION, [1.0])
    takers = (losses_of_totals, total[None]), (core.lay_minorant, total, total, total)
    for (kind, parameters), (take, *totals) in product(wrong, takers):
        with pytest.raises(ValueError, match=r"kind is none|another number of statistics or parameters"):
            take(kind, np.array(parameters), *totals)
    # a fraction has a loss, but no bound
    constant, slopes = core.lay_minorant(FRACTION, f_beta().parameters, total, total, total)
    assert (constant, slopes.any()) == (0.0, False)


def solving(nbest: NBest, metric: Any, **more: Any) -> Callable[[], Result]:
    return partial(lpmert.minimize, nbest, metric=metric, **more)


LARGER = random_nbest(lists=60, size=10, dimension=4, kind="f1")
NO_FORMULA = Plain(lambda total: 1.0 / (1.0 + total[0]))
INEXACT = NBest([[0.0], [1.0]], [0, 2], [[0, 2**40, 2**40], [1, 2**40, 2**40]])

test_metrics_that_break_their_contract_or_that_a_method_cannot_take_are_refused = refused(
    [
        *(
            (MetricError, message, solving(two_lists(statistics), metric, method=method))
            for (statistics, metric, message), method in product(WRONG, (*RATIOS, "och"))
        ),
        *((MethodError, "only heuristics", solving(two_lists(), NO_FORMULA, method=method)) for method in RATIOS),
        *((MethodError, "additive", solving(LARGER, "f1", method=method)) for method in ("mip", "beam")),
        (MethodError, "ties", solving(LARGER, "f1", ties="best")),
        (MetricError, "numerator of the loss is not exact; divide them", solving(INEXACT, f_beta(0.37))),
    ]
)


def test_fractions_closer_than_a_unit_are_ranked_exactly() -> None:
    for seed in range(15):
        lists, rng = few("integers", seed, most_hypotheses=5, most_features=4), np.random.default_rng(seed)
        size = 10.0**13 - rng.integers(0, 10, len(lists.features))
        statistics = np.column_stack([size - rng.integers(1, 4, len(size)), size, size])
        assert ended(measured(lists, statistics, precision(), share_loss(1)), FRACTIONS[1:4]) == {Status.OPTIMAL}


def test_losses_above_one_are_proved_from_a_start_that_attains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.search.incumbent._PERTURBATIONS", 0)
    for seed in range(10):
        lists, rng = few("integers", seed), np.random.default_rng(seed)
        words = 3 * rng.integers(1, 3, len(lists.features))
        statistics = np.column_stack([words + rng.integers(1, 9, len(words)), words]).astype(float)
        one = measured(lists, statistics, WER, fractions_loss(WER))
        assert one.least > 1
        assert ended(one, FRACTIONS) == {Status.OPTIMAL}


def test_what_is_found_but_decoded_by_no_weights_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of lists whose words may be 0."""
    monkeypatch.setattr(FractionSearch, "_try_weights", lambda *_: None)
    statuses: Counter[Status] = Counter()
    for seed in range(60):
        lists, rng = few("integers", seed), np.random.default_rng(seed)
        errors, words = rng.integers(1, 9, len(lists.features)), rng.integers(0, 4, len(lists.features))
        words[rng.random(len(words)) < 0.4] = 0
        one = measured(lists, np.column_stack([errors, words]).astype(float), WER, fractions_loss(WER))
        statuses.update(run(one, method)[1] for method in ("choices", "lp-mert"))
    assert statuses[Status.OPTIMAL_TO_TOLERANCE] >= 10


def test_better_weights_of_a_search_that_is_given_up_are_kept() -> None:
    """It finds the best weights, and is stopped in the middle."""
    best, problem = lpmert.minimize(LARGER, metric="f1"), Problem(LARGER, "f1")
    form, start = problem.canonical, CanonicalWeights(np.ones(4))

    class GivenUp(Enumeration):
        def advance(self) -> None:
            self.incumbent.improve(self.incumbent.cost - 1, problem.to_canonical(best.weights), "S")
            raise OutOfTime

    loss = problem.attained_loss(problem.to_caller(start))
    assert loss > best.loss
    search = FractionSearch(form, Incumbent(form.cost_of_loss(loss), start, "I"), lambda _, inner: GivenUp(inner, []))
    with pytest.raises(OutOfTime):
        search.advance()
    assert form.loss_of(search.incumbent.cost) == pytest.approx(best.loss, rel=1e-15)
    assert problem.attains(problem.to_caller(search.incumbent.weights), search.incumbent.cost)
    assert form.loss_of(search.lower_bound) <= best.loss
