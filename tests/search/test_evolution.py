"""CMA-ES as it is used here: it minimises what has a known minimum, and keeps to a region."""

import numpy as np
import pytest
from problems import random_nbest

from lpmert import Region
from lpmert.lines.local_search import Clock
from lpmert.model.problem import Problem
from lpmert.search.evolution import Draws, Evolution


@pytest.mark.parametrize("dimension", [1, 2, 5, 14])
def test_an_ellipsoid_is_descended_to_its_only_minimum(dimension):
    rng = np.random.default_rng(dimension)
    centre, scales = rng.normal(size=dimension), 10.0 ** (3.0 * np.arange(dimension) / max(1, dimension - 1))
    draws = Draws(np.zeros(dimension), 0.5, rng)
    for _ in range(150 * dimension + 100):
        points = draws.draw()
        draws.learn((((points - centre) * scales) ** 2).sum(axis=1))
    assert np.abs(draws.draw() - centre).max() < 1e-4


def test_only_the_order_of_losses_matters():
    ends = []
    for change in (lambda losses: losses, np.sqrt):
        draws = Draws(np.ones(4), 0.3, np.random.default_rng(7))
        for _ in range(20):
            draws.learn(change((draws.draw() ** 2).sum(axis=1)))
        ends.append(draws.draw())
    assert (ends[0] == ends[1]).all()


class _Shown(Clock):
    """Keeps what it is shown."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, 2000)
        self.shown: list[tuple[np.ndarray, float]] = []

    def keep(self, weights, loss):
        self.shown.append((weights, loss))
        return loss


REGIONS = {
    "orthant": Region(nonnegative=True),
    "bounds": Region(nonnegative=True, fixed={"feature1": 1.0}, bounds={"feature2": (0.0, 0.5)}),
    "cap": Region(around=[1.0, 0.5, 0.25, 0.1, 0.1, 0.1], cosine=0.95),
}


@pytest.mark.parametrize("name", REGIONS)
def test_weights_shown_lie_within_the_region_and_cost_what_decoding_says(name):
    problem = Problem(random_nbest(3, lists=15, size=8, dimension=6), region=REGIONS[name])
    clock = _Shown(problem)
    evolution = Evolution(problem, None, np.random.default_rng(1))
    while not clock.expired(0):
        evolution.run(clock)
    assert evolution.runs >= 1
    assert len(clock.shown) > 100
    for weights, loss in clock.shown[::20]:
        given = problem.to_caller(weights)
        assert problem.inside(given)
        assert problem.evaluate(given).loss == pytest.approx(loss)
    assert evolution.loss == min(loss for _, loss in clock.shown)
