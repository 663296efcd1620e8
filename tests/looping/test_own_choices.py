"""Methods whose result is a choice of their own: the loop decodes next with what they select, whatever that costs."""

from typing import Any

import numpy as np
import pytest
from looping.test_loop import START, Fragile, Toy, nbest_of

import lpmert
from lpmert.looping import steps
from lpmert.methods import Stabilised
from lpmert.registry import METHODS
from lpmert.search.method import Run

CHOOSING = {
    "annealing",  # Smith and Eisner 2006: the weights at the end of the schedule
    "boosting",  # Collins 2000: the weights after the last round
    "likelihood",  # Smith and Eisner 2006: the most likely weights under the prior
    "mira",  # Cherry and Foster 2012: the best of the averages after each pass
    "perceptron",  # Collins 2002: the average over all visits
    "pro",  # Hopkins and May 2011: the weights that rank the sampled pairs best
    "stabilised",  # Foster and Kuhn 2009: a local optimum that is good and far from recent weights
}


def direction(weights: Any) -> np.ndarray:
    vector = np.asarray(weights, dtype=np.float64)
    return np.asarray(vector / np.linalg.norm(vector))


def test_the_methods_that_choose_are_those_whose_papers_say_so() -> None:
    assert {name for name in METHODS.own if not METHODS.find(name).minimises} == CHOOSING


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The weights [D] that each search ends with, before anything is made of them."""
    found: list[np.ndarray] = []
    advance = Run.advance

    def advancing(search: Run) -> None:
        advance(search)
        found.append(search._problem.to_caller(search.incumbent.weights))

    monkeypatch.setattr(Run, "advance", advancing)
    return found


@pytest.fixture
def averaged(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    fit = steps.fit

    def fitting(*arguments: Any) -> Any:
        fitted = fit(*arguments)
        found.append(fitted.averaged)
        return fitted

    monkeypatch.setattr(steps, "fit", fitting)
    return found


EXPLORING = Stabilised(selection=(10.9, 9.9, 3))  # nearly by distance alone


@pytest.mark.parametrize("method", [*sorted(CHOOSING - {"stabilised"}), EXPLORING, "average"])
def test_what_a_method_selects_is_decoded_next(
    searched: list[np.ndarray], averaged: list[np.ndarray], method: Any
) -> None:
    """Also where it costs more on the pool than the weights before, as from the optimum of all hypotheses on."""
    toy = Toy()
    best = lpmert.minimize(nbest_of(toy.all, toy.references))
    assert best.status is lpmert.Status.OPTIMAL
    searched.clear()
    found = lpmert.loop(toy, best, references=toy.references, n=5, method=method, iterations=4, patience=4)
    selected = averaged if method == "average" else searched
    steps_taken = [*zip(found.iterations, found.iterations[1:], selected, strict=False)]
    assert any(one.pool_loss is not None and one.pool_loss > one.loss for one, _, _ in steps_taken)
    for _, after, weights in steps_taken:
        assert direction([*after.weights.values()]) == pytest.approx(direction(weights), abs=1e-9)
    assert found.loss == best.loss  # the answer is the decoder's best iteration


@pytest.mark.parametrize("method", sorted(CHOOSING))
def test_initial_weights_do_not_displace_what_a_method_selects(searched: list[np.ndarray], method: str) -> None:
    toy = Toy()
    lists = nbest_of(toy.all, toy.references)
    best = lpmert.minimize(lists)
    found = lpmert.minimize(lists, method=method, initial_weights=best)
    assert direction(found.weights) == pytest.approx(direction(searched[-1]), abs=1e-9)


def test_the_only_optimum_of_a_convex_method_is_the_same_from_everywhere() -> None:
    toy = Toy()
    lists = nbest_of(toy.all, toy.references)
    best = lpmert.minimize(lists)
    alone = lpmert.minimize(lists, method="pro")
    assert alone.loss > best.loss
    found = lpmert.minimize(lists, method="pro", initial_weights=best)
    assert direction(found.weights) == pytest.approx(direction(alone.weights), abs=1e-5)


@pytest.mark.parametrize("method", sorted(CHOOSING))
def test_steps_that_a_method_chooses_need_no_confirmation(method: str) -> None:
    toy = Fragile()
    found = lpmert.loop(toy, START, references=toy.references, n=30, method=method, iterations=3)
    assert all(one.accepted and one.angle is None for one in found.iterations)
    assert any(one.loss > before.loss for before, one in zip(found.iterations, found.iterations[1:], strict=False))


@pytest.mark.parametrize("method", ["likelihood", "perceptron"])
def test_a_step_that_ends_where_it_began_is_not_called_a_search_for_better_weights(method: str) -> None:
    toy = Toy()
    found = lpmert.loop(toy, START, references=toy.references, n=3, method=method, search_seconds=0.0)
    assert [one.weights for one in found.iterations] == [START]
    assert found.reason == "the search ended at the same weights on the pool"
