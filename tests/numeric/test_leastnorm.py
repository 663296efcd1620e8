"""Verdicts of the small cone programs are never wrong, and seldom missing on generic data."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from oracle import Lists, is_strictly_best, strictly_feasible
from problems import KINDS, random_lists

from lpmert import core
from lpmert.model.problem import Problem
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, UNDECIDED, sorted_lists

Selection = NDArray[np.int64]


def decide(lists: Lists, selection: Selection, *, steps: bool) -> tuple[int, NDArray[np.float64], NDArray[np.int64]]:
    """Verdict, point and core lists for a selection, adding one list at a time (as a search does) or all at once."""
    n_lists, width = lists.n_lists, lists.features.shape[1]
    prepared = sorted_lists(lists.features, lists.offsets, np.zeros(len(lists.losses), dtype=np.int64))
    least_norm, corral = core.LeastNorm(prepared.native()), core.Corral(width)
    order = np.arange(n_lists)
    verdict = UNDECIDED
    for count in range(1, n_lists + 1) if steps else [n_lists]:
        verdict = least_norm.separate(order[:count], selection, count - 1, corral)
        if verdict != FEASIBLE:
            break
    return verdict, corral.point, np.unique(corral.lists)


def rows_of(lists: Lists, selection: Selection, only: list[int] | None = None) -> list[tuple[Fraction, ...]]:
    rows = []
    for s, (begin, end) in enumerate(lists.ranges()):
        if only is not None and s not in only:
            continue
        chosen = [Fraction(value) for value in lists.features[begin + selection[s]].tolist()]
        for row in range(begin, end):
            if row != begin + selection[s]:
                other = lists.features[row].tolist()
                rows.append(tuple(a - Fraction(b) for a, b in zip(chosen, other, strict=True)))
    return rows


def canonical(lists: Lists) -> Lists | None:
    """The lists without identical vectors and with columns of like size, as the searches see them."""
    problem = Problem(lists.nbest)
    form = problem.canonical
    if form.n_lists == 0:
        return None
    return Lists(form.features, form.offsets, form.costs.astype(object))


def cases(kind: str, first: int, count: int) -> list[tuple[Lists, Selection]]:
    found = []
    for seed in range(first, first + count):
        lists = canonical(random_lists(kind, seed))
        if lists is None:
            continue
        rng = np.random.default_rng(seed)
        for _ in range(4):
            selection = rng.integers(0, np.diff(lists.offsets))
            found.append((lists, selection.astype(np.int64)))
        # What weights choose is feasible, up to ties.
        w = rng.integers(-2, 3, lists.features.shape[1]).astype(float)
        chosen = [int(np.argmax(lists.features[begin:end] @ w)) for begin, end in lists.ranges()]
        found.append((lists, np.array(chosen, dtype=np.int64)))
    return found


@pytest.mark.parametrize("steps", [True, False])
def test_no_verdict_is_wrong(steps: bool) -> None:
    counts: Counter[int] = Counter()
    for kind in KINDS:
        for lists, selection in cases(kind, 0, 25):
            verdict, point, conflict = decide(lists, selection, steps=steps)
            counts[verdict] += 1
            rows = rows_of(lists, selection)
            if verdict == FEASIBLE:
                assert is_strictly_best(
                    lists.features.tolist(), lists.offsets.tolist(), selection.tolist(), point.tolist()
                )
            elif verdict == INFEASIBLE:
                assert not strictly_feasible(rows)
                assert not strictly_feasible(rows_of(lists, selection, conflict.tolist()))
                assert len(conflict) <= lists.features.shape[1] + 1
    assert min(counts[FEASIBLE], counts[INFEASIBLE]) > counts.total() / 10


@pytest.mark.parametrize("width", [2, 4, 8, 14])
def test_generic_programs_are_nearly_all_decided(width: int) -> None:
    counts: Counter[int] = Counter()
    rng = np.random.default_rng(width)
    for _ in range(150):
        offsets = np.arange(0, 61, 5)
        lists = Lists(rng.normal(size=(60, width)), offsets, np.zeros(60))
        w = rng.normal(size=width)
        best = np.array([int(np.argmax(lists.features[begin:end] @ w)) for begin, end in lists.ranges()])
        near = best.copy()
        near[rng.integers(0, 12)] = rng.integers(0, 5)
        for selection in (best, near, rng.integers(0, 5, 12)):
            counts[decide(lists, selection.astype(np.int64), steps=True)[0]] += 1
    assert counts[UNDECIDED] <= 0.02 * counts.total()
    assert counts[FEASIBLE] >= 150
    assert counts[INFEASIBLE] >= 50


@pytest.mark.parametrize("relative", [2.0**-52, 1e-15, 1e-13, 1e-10])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nearly_opposite_rows_are_never_called_wrongly(relative: float, sign: float) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        row = rng.normal(size=3)
        nudged = -row * (1 + sign * relative * rng.integers(-1, 2, 3))
        lists = Lists(np.vstack([row, np.zeros(3), nudged, np.zeros(3)]), np.array([0, 2, 4]), np.zeros(4))
        selection = np.zeros(2, dtype=np.int64)
        verdict, point, _ = decide(lists, selection, steps=True)
        true = FEASIBLE if strictly_feasible(rows_of(lists, selection)) else INFEASIBLE
        assert verdict in (true, UNDECIDED)
        best = is_strictly_best(lists.features.tolist(), [0, 2, 4], [0, 0], point.tolist())
        assert best or verdict != FEASIBLE


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 40, 67])
def test_lists_of_every_length_are_decoded_to_their_first_best_hypothesis(length: int) -> None:
    """Scores are computed in blocks, of which the last may overlap the one before."""
    rng = np.random.default_rng(length)
    for width in range(1, 7):
        features = rng.integers(-3, 4, (3 * length, width)).astype(float)
        weights = rng.integers(-2, 3, width).astype(float)
        offsets, costs = np.arange(0, 3 * length + 1, length), rng.integers(0, 9, 3 * length)
        lists = sorted_lists(features, offsets, costs)
        selection = np.zeros(3, dtype=np.int64)
        cost, clear = lists.native().decode_clearly(weights, selection)
        scores = [lists.rows[begin : begin + length] @ weights for begin in offsets[:-1]]
        assert selection.tolist() == [int(np.argmax(own)) for own in scores]
        assert cost == sum(lists.costs[offsets[:-1] + selection])
        assert clear == all(np.count_nonzero(own == own.max()) == 1 for own in scores)


@pytest.mark.parametrize(
    ("decided", "chosen", "start", "what"),
    [
        ([0, 2], [0, 0], 0, "decided must be from 0 to below"),
        ([0, 1], [0, 2], 0, "chosen, in decided lists, must be from 0"),
        ([0, 1], [-1, 0], 0, "chosen, in decided lists, must be from 0"),
        ([0, 1], [0, 0, 0], 0, "chosen must have 2 items"),
        ([0, 1], [0, 0], 2, "start must be in decided"),
    ],
)
def test_choices_outside_the_lists_are_refused(decided: list[int], chosen: list[int], start: int, what: str) -> None:
    lists = sorted_lists(np.eye(4), np.array([0, 2, 4]), np.zeros(4, dtype=np.int64))
    with pytest.raises(ValueError, match=what):
        core.LeastNorm(lists.native()).separate(np.array(decided), np.array(chosen), start, core.Corral(4))


def test_rows_that_come_and_go_leave_the_verdicts_as_they_are_from_scratch() -> None:
    """As lists are added one by one, the inverse of a corral is updated, and has to lead where a new one leads."""
    rng = np.random.default_rng(5)
    offsets = np.arange(0, 241, 20)
    lists = Lists(rng.normal(size=(240, 8)), offsets, np.zeros(240))
    prepared = sorted_lists(lists.features, offsets, np.zeros(240, dtype=np.int64))
    least_norm, worn = core.LeastNorm(prepared.native()), core.Corral(8)
    order, said = np.arange(12), Counter[int]()
    for _ in range(400):
        scores = (lists.features @ rng.normal(size=8)).reshape(12, 20)
        selection = scores.argmax(axis=1)
        if rng.random() < 0.5:
            selection[rng.integers(12)] = rng.integers(20)
        for count in range(1, 13):
            verdict = least_norm.separate(order[:count], selection, count - 1, worn)
            fresh = core.Corral(8)
            assert verdict == least_norm.separate(order[:count], selection, count - 1, fresh)
            if verdict != FEASIBLE:
                break
        said[verdict] += 1
        worn.restart(worn.point)
    assert said[UNDECIDED] == 0
    assert min(said[FEASIBLE], said[INFEASIBLE]) > 100
