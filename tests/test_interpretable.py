"""Few features and small whole weights: against the exact oracle and every vector of small whole numbers."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import inf

import numpy as np
import oracle
import pytest
from fuzz import ROUNDING
from oracle import Lists
from problems import Case, at_odds, feature_names, problem, random_lists
from refusals import refused
from shared import ROOT

import lpmert
from lpmert import DataError, MethodError, NBest, Problem, Region, RegionError, Status
from lpmert.search.driver import Below

_P = 2**33 + 3
_Q = (2 * _P - 1) // 3  # 2 P = 3 Q + 1: 2 : 3 is a little more than Q : P, by less than limits of 30 bits can tell


@pytest.mark.parametrize("kind", ["integers", "duplicates", "collinear"])
@pytest.mark.parametrize("seed", range(6))
def test_every_size_has_the_least_loss_of_all_its_sets(seed: int, kind: str) -> None:
    """Of hypotheses that a set cannot tell apart, the worst counts."""
    lists = random_lists(kind, seed, most_features=4, most_selections=200)
    found = lpmert.best_subsets(lists.nbest)
    assert found.complete
    assert [one.size for one in found.subsets] == [*range(1, 1 + len(found.subsets))] != []
    for one in found.subsets:
        sets = combinations(range(lists.features.shape[1]), one.size)
        least = min(oracle.best_loss(replace(lists, features=lists.features[:, kept]), "worst") for kept in sets)
        assert one.result.status is Status.OPTIMAL
        assert one.result.loss == one.result.lower_bound == float(least)
        _assert_few_weights(one)


def _assert_few_weights(one: lpmert.Subset) -> None:
    """The features are those with nonzero weights, and no more than allowed."""
    assert len(one.features) <= one.size
    assert set(one.features) >= {name for name, weight in one.result.by_name.items() if weight}


def _least(case: Case, size: int) -> Fraction | float | None:
    """The least loss of weights in the region with at most so many features."""
    names = feature_names(case.features.shape[1])
    every = [_on(case, kept) for k in range(1, size + 1) for kept in combinations(names, k)]
    return min((one.least for one in every if one is not None and one.least is not None), default=None)


def _on(case: Case, kept: Sequence[str]) -> Case | None:
    """The problem with all other weights at 0, where their limits still hold; `None` if one is fixed elsewhere."""
    width = case.features.shape[1]
    dropped = [d for d, name in enumerate(feature_names(width)) if name not in kept]
    if case.region is not None and any(value and name not in kept for name, value in case.region.fixed.items()):
        return None
    equations = [*case.equations, *([Fraction(int(k == d)) for k in range(width)] for d in dropped)]
    basis = oracle.null_space(equations, width)
    rows = [row for row in case.rows if any(sum(a * b for a, b in zip(row, one, strict=True)) for one in basis)]
    return replace(case, equations=equations, rows=rows)


@pytest.mark.parametrize("kind", ["", "nonnegative", "signs", "fixed", "simplex", "linear", "equation"])
@pytest.mark.parametrize("worth", ["small", "negative", "floats", "wer", "bleu"])
def test_regions_and_metrics(worth: str, kind: str) -> None:
    searched = 0
    for features, seed in (("integers", 1), ("ternary", 2), ("decimals", 5), ("collinear", 4), ("dyadic", 6)):
        case = problem(features, worth, seed, kind=kind)
        if case.features.shape[1] > 4:
            continue
        if (case.features == case.features[np.repeat(case.offsets[:-1], np.diff(case.offsets))]).all():
            continue
        try:
            found = lpmert.best_subsets(case.nbest, metric=case.metric, region=case.region, ties="first")
        except RegionError:
            assert _least(case, case.features.shape[1]) is None
            continue
        for one in found.subsets:
            least = _least(case, one.size)
            slack = 0.0 if case.exact else ROUNDING * abs(float(least))
            about = f"{case.name}, {one.size} features: {one.result.loss!r}, least {float(least)!r}"
            assert abs(one.result.loss - float(least)) <= slack, about
            assert one.result.lower_bound <= float(least) + slack, about
            assert one.result.status in (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE), about
            searched += 1
        sizes = [one.size for one in found.subsets]
        assert all(_least(case, size) is None for size in range(1, sizes[0]))
    assert searched


def _wide(n_features: int) -> NBest:
    rng = np.random.default_rng(3)
    features, losses = rng.normal(size=(200, n_features)), rng.integers(0, 9, 200).astype(float)
    return NBest(features, range(0, 201, 5), losses, names=feature_names(n_features))


ALIKE = NBest([[1.0, 2.0], [1.0, 2.0]], [0, 2], [[0], [1]])
TWO = Region(fixed={"f0": 1.0, "f1": 0.5})
test_invalid_arguments_are_refused = refused([
    (MethodError, "no feature varies within a list", lambda: lpmert.best_subsets(ALIKE)),
    (MethodError, "than 50,000 sets of up to 4; ask for at most 3", lambda: lpmert.best_subsets(_wide(40))),
    (MethodError, "at_most", lambda: lpmert.best_subsets(_wide(3), at_most=0)),
    (RegionError, "at most 1 feature", lambda: lpmert.best_subsets(_wide(3), at_most=1, region=TWO)),
    (KeyError, "4", lambda: lpmert.best_subsets(_wide(3))[4]),
    (DataError, "must be an NBest, not ndarray", lambda: lpmert.whole_weights(ALIKE.features, [1, 2])),
])  # fmt: skip


def test_a_feature_that_the_region_fixes_is_in_every_set() -> None:
    found = lpmert.best_subsets(_wide(4), at_most=2, region=Region(fixed={"f2": 1.0}))
    assert [one.size for one in found.subsets] == [1, 2]
    assert all("f2" in one.features and one.result.by_name["f2"] == 1.0 for one in found.subsets)


@pytest.mark.parametrize(("region", "expected"), [
    (Region(nonnegative=True), {1: "a", 2: "a b"}),
    (Region(bounds={"same": (0.0, None)}), {1: "a", 2: "a b"}),
    (Region(total=1.0), {1: "a", 2: "a b", 3: "a b"}),
    (Region(fixed={"same": 1.0}), {1: "same", 2: "a same", 3: "a b same"}),
    (Region(fixed={"a": 1.0}, bounds={"same": (0.5, 2.0)}), {2: "a same", 3: "a b same"}),
    (Region(cosine=0.5, around=[0.0, 0.0, 1.0]), {1: "same", 2: "a same", 3: "a b same"}),
])  # fmt: skip
def test_a_feature_that_is_the_same_within_each_list_has_a_weight_only_where_the_region_needs_it(region, expected):
    """It is counted then: the weights of a size have at most so many entries other than 0."""
    features = [[1, 0, 3], [0, 1, 3], [2, 1, 5], [1, 3, 5]]
    lists = NBest(features, [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b", "same"])
    found = lpmert.best_subsets(lists, region=region)
    assert {one.size: " ".join(one.features) for one in found.subsets} == expected
    for one in found.subsets:
        assert one.result.loss == one.result.lower_bound == len({"a", "b"} - {*one.features})
        _assert_few_weights(one)


def test_a_stopped_selection_has_valid_bounds() -> None:
    lists, seen = _wide(8), []

    def on_stage(*stage: object) -> bool:
        seen.append(stage)
        return len(seen) == 12

    stopped = lpmert.best_subsets(lists, at_most=3, on_stage=on_stage)
    assert seen == [("sets of 1", k, 8) for k in range(1, 9)] + [("sets of 2", k, 28) for k in range(1, 5)]
    assert not stopped.complete
    least, two = lpmert.best_subsets(lists, at_most=2)[2].result.loss, stopped[2].result
    assert two.status is Status.CALLBACK
    assert two.lower_bound <= least <= two.loss
    short = lpmert.best_subsets(lists, time_limit=0.2)
    assert short.seconds < 5.0
    assert all(one.result.lower_bound <= one.result.loss for one in short.subsets)


def test_a_method_that_proves_nothing_searches_each_set_once_and_has_no_bound() -> None:
    found = lpmert.best_subsets(_wide(4), at_most=2, method="och")
    assert [(one.result.status, one.result.lower_bound) for one in found.subsets] == [(Status.HEURISTIC, None)] * 2


def test_losses_are_the_same_for_any_number_of_jobs() -> None:
    one, two = (lpmert.best_subsets(_wide(5), at_most=3, jobs=jobs) for jobs in (1, 2))
    assert [list(a.result.weights) for a in one.subsets] == [list(b.result.weights) for b in two.subsets]


def test_sets_that_were_not_searched_count_with_the_oracle_bound() -> None:
    """The second of two features makes no error, and the search stops after the first."""
    lists = NBest([[0, 1], [1, 0], [0, 0], [1, 1]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    found = lpmert.best_subsets(lists, at_most=1, on_stage=lambda *_: True)[1]
    assert (found.result.loss, found.result.status) == (1.0, Status.CALLBACK)
    assert found.result.lower_bound <= 0.0
    assert lpmert.best_subsets(lists, at_most=1)[1].result.loss == 0.0


EARLY = replace(lpmert.minimize(_wide(3)), loss=5.0, lower_bound=0.0, status=Status.TIME_LIMIT)


@pytest.mark.parametrize(("ties", "tied_lists", "region", "of_pairs", "bounds", "status"), [
    ("first", 0, None, 5.0, [0.0, 0.0], Status.OPTIMAL_TO_TOLERANCE),  # a smaller set may cost less
    ("worst", 0, None, 5.0, [5.0, 5.0], Status.OPTIMAL),
    ("worst", 0, None, 9.0, [5.0, 5.0], Status.OPTIMAL),
    ("worst", 0, None, 3.0, [3.0, 3.0], Status.OPTIMAL_TO_TOLERANCE),
    ("worst", 0, None, -1.0, [0.0, -1.0], Status.OPTIMAL_TO_TOLERANCE),
    ("worst", 1, None, 5.0, [5.0, 5.0], Status.OPTIMAL_TO_TOLERANCE),  # the loss of 5 may depend on a tie
    ("worst", 0, Region(cosine=0.5, around=[1, 1, 1]), 5.0, [5.0, 5.0], Status.OPTIMAL_TO_TOLERANCE),
])  # fmt: skip
def test_bounds_of_both_sizes_count_and_no_set_is_searched_again(
    ties, tied_lists, region, of_pairs, bounds, status, monkeypatch
):
    """The first of three features has weights with loss 5, and each feature has a bound of 0."""
    known = replace(EARLY, tied_lists=tied_lists)
    searched: list[frozenset[str]] = []

    def below(problem: Problem, cutoff: float, *_: object) -> Below:
        at_zero = frozenset(problem.region.fixed)
        assert at_zero not in searched
        searched.append(at_zero)
        assert cutoff == (5.0 if len(searched) > 1 else inf)
        bound = 0.0 if len(at_zero) == 2 else of_pairs
        return Below(known if len(searched) == 1 else None, bound, Status.OPTIMAL, 5.0)

    monkeypatch.setattr("lpmert.api.search_below", below)
    found = lpmert.best_subsets(_wide(3), at_most=2, ties=ties, region=region).subsets
    assert sorted(map(len, searched)) == [1, 1, 1, 2, 2, 2]
    assert [(one.result.lower_bound, one.result.status) for one in found] == [(bound, status) for bound in bounds]


def test_a_set_that_is_searched_again_keeps_the_better_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [Below(None, bound, Status.OPTIMAL, 5.0) for bound in (5.0, 5.0, 1.0)]
    answers = iter([Below(EARLY, 3.0, Status.TIME_LIMIT, 5.0), *later])
    monkeypatch.setattr("lpmert.api.search_below", lambda *_: next(answers))
    (found,) = lpmert.best_subsets(_wide(3), at_most=1).subsets
    assert found.result.lower_bound == 3.0
    assert next(answers, None) is None


def _ahead(lists: Lists, chosen: list[int], whole: tuple[int, ...]) -> bool:
    """Whether each choice has a higher score than the others of its list with another loss; of equal ones the first."""
    losses, rows = lists.losses.tolist(), lists.features.tolist()
    scores = [sum(int(x) * w for x, w in zip(row, whole, strict=True)) for row in rows]
    return all(
        scores[begin + own] > scores[row]
        for own, (begin, end) in zip(chosen, lists.ranges(), strict=True)
        for row in range(begin, end)
        if losses[row] != losses[begin + own] and rows.index(rows[row], begin) == row
    )


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_no_smaller_whole_numbers_keep_all_choices_ahead(seed, n_features, monkeypatch):
    lists = at_odds(seed, n_features, 6)[0]
    result = lpmert.minimize(lists.nbest)
    chosen, largest = result.selection.tolist(), {1: 3, 2: 12, 3: 6}[n_features]
    monkeypatch.setattr("lpmert.interpretable._LARGEST", largest)
    every = product(range(-largest, largest + 1), repeat=n_features)
    sizes = [max(map(abs, whole)) for whole in every if _ahead(lists, chosen, whole)]
    found = lpmert.whole_weights(lists.nbest, result)
    if not sizes:
        assert found is None
        return
    assert max(map(abs, found.values())) == min(sizes)
    at = lpmert.evaluate(lists.nbest, found)
    assert at.loss == result.loss
    assert at.tied_lists == 0 or at.loss_best_ties == at.loss_worst_ties == result.loss


@pytest.mark.parametrize("seed", range(6))
def test_decimals_are_what_they_print_as(seed: int) -> None:
    lists = at_odds(seed, 2, 6)[0]
    tenths = NBest(np.round(lists.features / 10, 1), lists.offsets, lists.losses)
    for result in (lpmert.minimize(lists.nbest), lpmert.minimize(tenths)):
        assert lpmert.whole_weights(tenths, result) == lpmert.whole_weights(lists.nbest, result)


@pytest.mark.timeout(60)
def test_where_small_weights_tie_nearly_everywhere_the_search_for_whole_ones_gives_up() -> None:
    """Features of words are coarse: thousands of candidates, each with ties to break exactly, took minutes."""
    puzzles = lpmert.read(ROOT / "examples" / "best_of_n" / "puzzles.jsonl.gz")
    assert lpmert.whole_weights(puzzles, lpmert.minimize(puzzles, method="choices")) is None


@pytest.mark.parametrize(("region", "some"), [
    (Region(nonnegative=True), True),
    (Region(fixed={"feature1": 0.0}), True),
    (Region(fixed={"feature2": 1.0}, bounds={"feature1": (0.5, 2.0)}), True),
    (Region(linear=[lpmert.Linear({"feature1": 1, "feature2": -1}, 0, 0)]), False),
])  # fmt: skip
def test_whole_weights_lie_in_the_region(region: Region, some: bool) -> None:
    every = []
    for seed in range(6):
        lists = at_odds(seed, 3, 6)[1]
        result = lpmert.minimize(lists, region=region)
        found = lpmert.whole_weights(lists, result, region=region)
        if found is not None:
            at = lpmert.evaluate(lists, found, region=region)
            assert (at.inside, at.loss) == (True, result.loss)
            every.append(found)
    assert bool(every) == some


def test_what_rounded_limits_cannot_tell_is_left_to_exact_arithmetic() -> None:
    assert 2 * _P == 3 * _Q + 1
    lists = NBest([[_P, -_Q], [0, 0], [-4, 3], [0, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    # between Q : P and 3 : 4 there is no smaller ratio than 2 : 3
    assert lpmert.whole_weights(lists, {"a": 7.0, "b": 10.0}) == {"a": 2, "b": 3}


def test_a_limit_whose_entries_are_all_rounded_against_the_weights_rules_nothing_out() -> None:
    """Of its entries, times 2**30 / 16 of the largest, three lie just above a half: they are rounded up."""
    thirds = [(2**30 - 2) // 3 + k for k in (0, 0, (2**30 - 2) % 3)]
    row = [16 * 2**30, *(16 * third + 9 for third in thirds)]
    whole = {"a": 1, "b": -1, "c": -1, "d": -1}
    assert 0 < sum(x * w for x, w in zip(row, whole.values(), strict=True)) < 16
    signs = (-np.eye(4)[1:]).tolist()
    rows = [line for limit in (row, *signs) for line in (limit, [0] * 4)]
    lists = NBest(rows, range(0, 9, 2), [[0], [1]] * 4, names=list("abcd"))
    assert lpmert.whole_weights(lists, whole) == whole


def test_a_limit_of_the_region_is_kept_though_by_less_than_rounded_ones_can_tell() -> None:
    lists = NBest([[5, -3], [0, 0], [-4, 3], [0, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    region = Region(linear=[lpmert.Linear({"a": -_P, "b": _Q}, 0.0)])  # at most Q : P
    assert lpmert.whole_weights(lists, {"a": 5.0, "b": 8.0}) == {"a": 2, "b": 3}
    assert lpmert.whole_weights(lists, {"a": 5.0, "b": 8.0}, region=region) == {"a": 5, "b": 8}


def test_features_that_do_not_matter_weigh_nothing_unless_the_region_asks_for_it_and_ratios_do_as_well() -> None:
    lists = NBest([[-1, 0], [-1, 1]], [0, 2], [[0], [4]], names=["a", "b"])  # a is the same in both
    region = Region(fixed={"a": 1.0})
    assert lpmert.whole_weights(lists, {"a": 1.0, "b": -2.0}, region=region) == {"a": 1, "b": -1}
    features = [[1, 0, 7], [0, 1, 7], [2, 1, 5], [1, 3, 5]]
    lists = NBest(features, [0, 2, 4], [[1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]], names=["a", "b", "same"])
    assert lpmert.whole_weights(lists, lpmert.minimize(lists, metric="f1"), metric="f1") == {"a": 3, "b": 2, "same": 0}
