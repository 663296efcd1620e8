"""What the driver makes of a search, searches below a cut-off, and open nodes: never more than was proved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf, nextafter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from fuzz import ROUNDING
from long_searches import after, long_searches, noise_of, problem_of, same
from problems import Case, problem, random_nbest
from searches import many_more, short_descent

import lpmert
from lpmert import Lattices, Limits, NBest, Region, Status
from lpmert.limits import Allowance
from lpmert.lines import Clock
from lpmert.methods import Comparator, Found, Incumbent, LpMert, cell_nodes, choices
from lpmert.methods.cell_nodes import NodeSearch
from lpmert.methods.cells import Cells, CellsSearch
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.registry import METHODS
from lpmert.result import relative_gap
from lpmert.search.combined import Answer, OpenNode
from lpmert.search.driver import Below, _bound_of, search_below


def test_a_loss_of_zero_above_its_bound_has_no_small_gap() -> None:
    assert [relative_gap(*ends) for ends in ((0.0, -1.0), (0.0, 0.0), (-2.0, -3.0))] == [inf, 0.0, 0.5]


def test_a_loss_of_which_more_than_its_last_digits_is_rounded_away_is_no_proof() -> None:
    features, offsets = [[1.0], [-1.0], [1.0], [-1.0]], [0, 2, 4]
    unit = Problem(NBest(features, offsets, [0.0, 2.0**62, 1.0, 0.0])).canonical.unit
    assert lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, unit, 0.0])).status is Status.OPTIMAL
    found = lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, 1.4 * unit, 0.0]))
    assert found.status is Status.OPTIMAL_TO_TOLERANCE
    assert found.lower_bound <= found.loss == 1.4 * unit


def test_weights_on_lattices_hold_only_where_no_tie_decides() -> None:
    # Two links side by side, one with the right word.
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    problem = LatticeProblem(lattices, "wer")
    tied, clear = CallerWeights(np.array([0.5, 0.5])), CallerWeights(np.array([1.0, 0.5]))
    losses = [problem.decode(weights).loss for weights in (tied, clear)]
    said = (clear, losses[1]), (clear, losses[1] + 1), (tied, losses[0])
    assert [problem.attains(*one) for one in said] == [True, False, False]


def test_a_search_that_stops_before_its_first_unit_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "SLICE", 500)
    nbest, path = noise_of(1, 9), tmp_path / "kept"
    with short_descent(one=True):
        whole = lpmert.minimize(nbest, method="choices")
        stopped = lpmert.minimize(nbest, method="choices", checkpoint=path, callback=after(2))
        assert stopped.status is Status.CALLBACK
        assert stopped.loss > whole.loss
        again = lpmert.minimize(nbest, method="choices", checkpoint=path, resume=True)
    assert whole.status is again.status is Status.OPTIMAL
    assert again.loss == again.lower_bound == whole.loss


def test_ctrl_c_in_a_function_leaves_the_best_weights_that_it_has_shown() -> None:
    shown, nbest = np.array([0.3, -1.0, 0.2]), random_nbest()

    @dataclass(frozen=True)
    class Pressed(Comparator):
        name = "pressed"

        def run(self, _problem: object, _start: object, _seed: int, clock: Clock) -> Found:
            clock.keep(shown)
            raise KeyboardInterrupt

    result, problem = lpmert.minimize(nbest, method=Pressed()), Problem(nbest)
    expected = problem.evaluate(problem.coordinates.to_caller(shown))
    found = result.status, result.loss, [point[1:] for point in result.trace]
    assert found == (Status.INTERRUPTED, expected.loss, [(None, expected.loss)])


def test_a_fraction_is_not_proved_by_additive_searches_that_prove_nothing() -> None:
    region = Region(cosine=0.9, around={"feature1": 1.0, "feature2": 0.0, "feature3": 0.0})
    solve = partial(lpmert.minimize, random_nbest(lists=10, size=6, kind="f1"), metric="f1", region=region)
    exact, published = (solve(method=LpMert(cosine_test=test)) for test in ("exact", "published"))
    assert (exact.status, published.status, published.lower_bound) == (Status.OPTIMAL, Status.HEURISTIC, None)
    assert published.loss >= exact.loss


KINDS = ("integers", "ternary", "decimals", "dyadic", "duplicates")


def _below(case: Case, cutoff: float, method: str) -> Below:
    return search_below(Problem(case.nbest, case.metric, region=case.region), cutoff, METHODS.build(method))


@pytest.mark.parametrize("seeds", [range(5), many_more(range(5, 10))])
@pytest.mark.parametrize("worth", ["small", "negative", "huge", "powers of two", "floats", "decimals", "wer", "bleu"])
@pytest.mark.parametrize("method", ["choices", "cells"])
def test_weights_come_back_exactly_where_some_cost_less(method: str, worth: str, seeds: range) -> None:
    for seed in seeds:
        case = problem(KINDS[seed % len(KINDS)], worth, seed, in_region=seed % 3 == 0)
        if case.least is None:
            continue
        least = float(case.least)
        off = 0.0 if case.exact else ROUNDING * abs(least)
        for cutoff in (inf, least + 1.5, least + 1.0, nextafter(least + off, inf)):
            found = _below(case, cutoff, method)
            assert found.status.finished
            assert found.result is not None, f"{case.name}: none below {cutoff!r} of {least!r}"
            assert found.result.loss < cutoff
            assert abs(found.result.loss - least) <= off
            assert (found.bound, found.least_met) == (found.result.lower_bound, found.result.loss)
        for cutoff in (least, nextafter(least, -inf), least - 0.5, least - 1.0):
            found = _below(case, cutoff, method)
            assert found.result is None or found.result.loss < cutoff <= least + off
            if found.result is None:
                assert found.status.finished
                assert cutoff <= found.bound <= least + off, (
                    f"{case.name}: {found.bound!r} below {cutoff!r} of {least!r}"
                )
                assert least - off <= found.least_met < inf


def test_a_search_that_is_stopped_bounds_all_weights_and_says_so_and_a_cutoff_prunes_from_the_start() -> None:
    nbest = random_nbest(8, lists=40, size=6, dimension=4)
    # losses are even: so are costs, in their unit
    lists, few = Problem(replace(nbest, statistics=2.0 * nbest.statistics)), Limits(node_limit=1)
    below = partial(search_below, lists, method=METHODS.build("choices"))
    least = below(inf).bound
    begun, none = below(inf, limits=few), below(least, limits=few)
    assert (begun.status.finished, none.status.finished, none.result) == (False, False, None)
    assert begun.bound < least <= begun.result.loss
    assert none.bound < least <= none.least_met
    oracle = 2.0 * float(np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1]).sum())
    for cutoff in (oracle, oracle - 1.0, oracle - 7.0):
        found = below(cutoff, limits=few)
        assert (found.status.finished, found.result) == (True, None)
        assert cutoff <= found.bound <= oracle


@pytest.mark.parametrize(
    ("status", "inexact", "unseen", "lower_bound", "expected"),
    [
        (Status.OPTIMAL, False, 0.0, 4, 4.5),
        (Status.OPTIMAL, False, 1e-13, 4, 4.5),
        (Status.OPTIMAL, False, 0.25, 4, 3.75),
        (Status.OPTIMAL, True, 0.0, 4, 4.0),
        (Status.OPTIMAL_TO_TOLERANCE, False, 0.0, 4, 4.0),
        (Status.NODE_LIMIT, False, 0.25, 3, 2.75),
        (Status.HEURISTIC, False, 0.0, None, -inf),
    ],
)
def test_the_cutoff_is_the_bound_only_where_the_search_is_exact(
    status: Status, inexact: bool, unseen: float, lower_bound: int | None, expected: float
) -> None:
    """No weights are below 4.5; costs are whole numbers, which losses may undercut by what is unseen."""
    canonical = SimpleNamespace(constant=0, unit=1.0)
    lists: Any = SimpleNamespace(canonical=canonical, inexact=inexact, unseen=lambda _: unseen)
    outcome: Any = SimpleNamespace(status=status, lower_bound=lower_bound)
    assert _bound_of(lists, 4.5, outcome) == expected


def test_cones_that_wait_for_exact_arithmetic_count_in_the_bound() -> None:
    form = Problem(problem_of(1, 8, 3)).canonical
    search = CellsSearch(Cells(), form, Incumbent(form.dearest, CanonicalWeights(np.ones(3)), ""), roots=[])
    assert search.finished
    search._awaiting_exact.append(OpenNode(0, np.zeros(1)))
    assert (search.lower_bound, search.finished) == (0, False)


@long_searches()
@pytest.mark.parametrize("shape", ["simplices", "boxes"])
def test_no_search_takes_more_room_once_the_memory_is_spent(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = problem_of(7, 400)
    solve = partial(lpmert.minimize, nbest, method=Cells(shape=shape))
    whole = solve()
    monkeypatch.setattr(cell_nodes, "_ROOM", 1)
    assert same(whole, solve())  # what there is room for in the beginning makes no difference
    asked = count()
    monkeypatch.setattr(Allowance, "spent", property(lambda _: next(asked) >= 20))
    cut = solve()
    assert cut.status is Status.MEMORY_LIMIT
    assert cut.lower_bound < whole.loss <= cut.loss
    assert lpmert.evaluate(nbest, cut.weights).loss == cut.loss


@long_searches()
def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeSearch, "explore", MagicMock(side_effect=RuntimeError("broken unit")))
    with pytest.raises(RuntimeError, match="broken unit"):
        lpmert.minimize(problem_of(2), method="cells", jobs=2)


def test_nodes_that_an_improvement_fits_into_stay_open_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    form, weights = replace(Problem(problem_of(1, 8, 3)).canonical, step=2), CanonicalWeights(np.ones(3))
    assert form.granularity == 2

    def open_at(bounds: range) -> Answer:
        return Answer([OpenNode(bound, np.zeros(1)) for bound in bounds], 10, weights, "", None, {})

    monkeypatch.setattr(choices, "explore_batch", lambda _, nodes, *__: open_at(range(0 if nodes[0].bound else 11)))
    search = choices.ChoicesSearch(form, Incumbent(10, weights, ""), units=1)
    search.resume_from(open_at(range(1)))
    search.advance()
    assert sorted(node.bound for node in search._queue.nodes()) == list(range(9))  # 8 is the next cost below 10


def test_a_unit_searches_a_node_whose_bound_is_the_next_lower_cost() -> None:
    lists = problem_of(1, 8, 3)
    form, whole = Problem(lists).canonical, lpmert.minimize(lists)
    least = int(whole.loss / form.unit) - form.constant
    begin = partial(choices.ChoicesSearch, form)
    (node, *_) = begin(Incumbent(form.dearest, CanonicalWeights(np.zeros(3)), "")).export_nodes()
    found = choices.explore_batch(begin, [node._replace(bound=least)], least + form.granularity, np.zeros(3), 10**8)
    assert (whole.status, found.cost) == (Status.OPTIMAL, least)
