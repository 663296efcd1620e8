"""The contract of methods: what a search from elsewhere has to have, and what the driver makes of it."""

from dataclasses import dataclass

import numpy as np

import lpmert
from lpmert import NBest, Region, Status
from lpmert.methods import Incumbent, LpMert, Method, Run, Search, Task

RNG = np.random.default_rng(0)
COUNTS = np.column_stack([RNG.integers(0, 4, 60), RNG.integers(4, 9, (60, 2))])
COUNTED = NBest(RNG.normal(size=(60, 3)), np.arange(0, 61, 6), COUNTS)
NBEST = NBest(COUNTED.dense_features(), COUNTED.offsets, COUNTS[:, 1])


class Guesses(Search):
    """One random guess a slice."""

    nodes = 0

    def __init__(self, task: Task, most: int) -> None:
        self.incumbent, self._canonical, self._most = task.incumbent, task.canonical, most
        self._rng = np.random.default_rng(task.seed)

    @property
    def finished(self) -> bool:
        return self.nodes >= self._most

    def advance(self) -> None:
        weights = Incumbent(0, self._rng.normal(size=self._canonical.n_features), "").weights
        cost, clear = self._canonical.clear_cost(weights)
        self.nodes += 1
        if clear:
            self.incumbent.improve(cost, weights, "G")


@dataclass(frozen=True)
class Guessing(Method):
    """Random guesses."""

    most: int = 20
    name = "guessing"
    proves = False

    def start(self, task: Task) -> Search:
        return Guesses(task, self.most)


def test_a_search_without_a_bound_is_driven_like_any_other_and_proves_nothing() -> None:
    result = lpmert.minimize(NBEST, method=Guessing())
    assert (result.status, result.lower_bound, result.counters["nodes"]) == (Status.HEURISTIC, None, 20)
    assert all(bound is None for _, bound, _ in result.trace)
    assert result.loss == lpmert.evaluate(NBEST, result.weights).loss >= lpmert.minimize(NBEST).loss
    stopped = lpmert.minimize(NBEST, method=Guessing(), callback=lambda progress: progress.nodes == 3)
    assert (stopped.status, stopped.counters["nodes"]) == (Status.CALLBACK, 3)
    assert lpmert.minimize(NBEST, method=Guessing(), node_limit=3).status is Status.NODE_LIMIT
    assert result.seconds["total"] >= sum(result.seconds[part] for part in ("prepare", "incumbent", "search", "report"))


def test_ctrl_c_in_a_function_leaves_the_best_weights_that_it_has_shown() -> None:
    shown = np.array([0.3, -1.0, 0.2])

    @dataclass(frozen=True)
    class Pressed(Guessing):
        def start(self, task: Task) -> Search:
            def run(*arguments: object) -> None:
                arguments[-1].keep(shown)
                raise KeyboardInterrupt

            return Run(task, run)

    result = lpmert.minimize(NBEST, method=Pressed())
    problem = lpmert.Problem(NBEST)
    expected = problem.evaluate(problem.coordinates.to_caller(shown))
    assert (result.status, result.loss) == (Status.INTERRUPTED, expected.loss)
    assert [point[1:] for point in result.trace] == [(None, expected.loss)]


def test_a_fraction_is_not_proved_by_additive_searches_that_prove_nothing() -> None:
    region = Region(cosine=0.9, around={"feature1": 1.0, "feature2": 0.0, "feature3": 0.0})
    exact, published = (
        lpmert.minimize(COUNTED, metric="f1", region=region, method=LpMert(cosine_test=test))
        for test in ("exact", "published")
    )
    assert exact.status is Status.OPTIMAL
    assert (published.status, published.lower_bound) == (Status.HEURISTIC, None)
    assert published.loss >= exact.loss
