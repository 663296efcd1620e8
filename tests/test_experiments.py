"""The benchmarks that repeat papers' experiments do what the papers describe, on small lists."""

import pytest
from oracle import least_total

import lpmert
from benchmarks import datasets
from benchmarks.harness import Task, measure
from benchmarks.lists import Loss
from benchmarks.simulated import Loop, Sentences
from benchmarks.suites import annealing, beam, published, stability, whole
from lpmert.methods import Stabilised
from lpmert.model.nbest import NBest

pytestmark = pytest.mark.slow


def counted(n_lists: int = 30, size: int = 25) -> NBest:
    return datasets.generated_counts(n_lists, size, 3).load()


def test_a_tuning_counts_with_the_best_iteration_of_its_decoder_and_is_judged_on_all_that_it_knows() -> None:
    whole = counted()
    data = Sentences(whole.restrict(slice(0, 20)), (whole.restrict(slice(20, 25)), whole.restrict(slice(25, 30))))
    method = Stabilised(stopping="fixed", restarts=2)
    answer = Loop("any", method, stability.ITERATIONS, stability.told).solve(data, stability.Decodes(), 0, 60.0)
    judged = stability.Decodes().judge(data, answer)
    scores = answer.details["scores"]
    assert judged.score == pytest.approx(max(scores))
    assert answer.counters["best"] == scores.index(max(scores)) + 1
    expected = [lpmert.Problem(one, "bleu").evaluate(answer.weights).score for one in data.tests]
    assert judged.details["test_scores"] == expected

    by_iteration = Loop("any", method, annealing.ITERATIONS, annealing.told).solve(
        data, annealing.ByIteration(), 0, 60.0
    )
    judged = annealing.ByIteration().judge(data, by_iteration)
    assert max(judged.details["tuned"]) == pytest.approx(judged.score)
    place = judged.details["tuned"].index(max(judged.details["tuned"]))
    assert judged.details["test_score"] == judged.details["test"][place]


@pytest.mark.parametrize("name", ["lp-mert", "auto"])
def test_a_tuning_ends_at_the_optimum_where_the_decoder_gives_all_that_it_knows_at_once(name: str) -> None:
    lists, counts = datasets.generated(5, 7, 3).load(), counted(4)
    data = Sentences(lists, (counts, counts))
    answer = whole.Tuning(name, whole.METHODS[name], whole.ITERATIONS, whole.told, "loss", whole.SEARCH_SECONDS).solve(
        data, whole.Sums(), 0, 60.0
    )
    judged = whole.Sums().judge(data, answer)
    least = least_total(lists.features.tolist(), lists.offsets.tolist(), lists.statistics[:, 0].tolist())
    assert judged.loss == pytest.approx(float(least))
    assert 0 < answer.counters["proved"] == answer.counters["searches"]


@pytest.mark.parametrize("solver", published.SOLVERS[:2], ids=lambda solver: solver.name)
def test_lp_mert_as_published_needs_no_first_weights(solver: published.Alone) -> None:
    data = datasets.generated(4, 6, 2)
    row = measure(Task(data, Loss(), solver, time_limit=60.0))
    lists = data.load()
    assert row.status == "optimal"
    assert row.loss == least_total(lists.features.tolist(), lists.offsets.tolist(), lists.statistics[:, 0].tolist())
    assert row.counters["tested_1"] > 0
    assert row.counters["lps"] == row.counters["nodes"] > row.counters["tested_1"]  # nothing is saved
    late = solver.solve(lists, Loss(), 0, 0.0)
    assert (late.weights, late.status, late.lower_bound) == (None, "time_limit", None)


@pytest.mark.parametrize("weak", [True, False])
def test_beams_end_no_worse_than_they_began(weak: bool) -> None:
    data = datasets.generated(6, 8, 3)
    small, large = (measure(Task(data, Loss(), beam.FromStart(size, weak), time_limit=60.0)) for size in (3, 1000))
    assert small.status == large.status == "heuristic"
    begin = small.details["trace"][0][2]
    assert large.details["trace"][0][2] == begin
    assert max(small.loss, large.loss) <= begin
    assert large.loss == lpmert.minimize(data.load(), method="exhaustive").loss  # 48 rows fit into this beam
