"""The benchmarks that repeat papers' experiments do what the papers describe, on small lists."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from oracle import least_total

import lpmert
from benchmarks import bigrams, datasets
from benchmarks.halves import Halves
from benchmarks.harness import Answer, Task, measure
from benchmarks.lists import Loss, Near
from benchmarks.simulated import Loop, Sentences, Simulated
from benchmarks.suites import adaptation, annealing, beam, published, stability, whole
from lpmert.methods import MinimumSampleRisk, Stabilised
from lpmert.model.nbest import NBest

pytestmark = pytest.mark.slow


def counted(n_lists: int = 30, size: int = 25) -> NBest:
    return datasets.generated_counts(n_lists, size, 3).load()


def test_the_simulated_decoder_gives_the_best_of_each_list_in_their_order() -> None:
    everything = counted(5, 9)
    weights = {"feature1": 0.5, "feature2": -1.0, "feature3": 0.25}
    decoded = Simulated(everything).decode(weights, 4)
    for number, (start, end) in enumerate(pairwise(everything.offsets.tolist())):
        scores = [
            sum(w * x for w, x in zip(weights.values(), row, strict=True)) for row in everything.features[start:end]
        ]
        best = sorted(range(end - start), key=lambda k: -scores[k])[:4]
        assert np.array_equal(decoded.lists.features[4 * number : 4 * number + 4], everything.features[start:end][best])
        assert np.array_equal(decoded.lists.statistics[4 * number], everything.statistics[start + best[0]])


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
    assert small.loss is not None
    assert large.loss is not None
    assert large.details["trace"][0][2] == begin
    assert max(small.loss, large.loss) <= begin
    assert large.loss == lpmert.minimize(data.load(), method="exhaustive").loss  # 48 rows fit into this beam


def test_a_cosine_of_minus_one_is_that_of_all_weights() -> None:
    data = datasets.generated(5, 6, 3).load()
    losses = [
        lpmert.minimize(data, region=Near(cosine=cosine).problem(data).region).loss for cosine in (0.99, 0.0, -1.0)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == lpmert.minimize(data, method="exhaustive").loss


def test_map_estimates_are_probabilities_between_the_background_and_the_sentences_adapted_to() -> None:
    background = bigrams.background_model([["a", "b"], ["a", "c", "a"]])
    words = ["a", "b", "c", "d", "</s>"]
    known = sum(background("a", word) for word in words[:3] + words[4:])
    assert known + (bigrams.WORDS - 4) * background("a", "d") == pytest.approx(1.0)
    own = [["a", "d"], ["a", "d"], ["a", "b"]]
    for mass in (0.5, 40.0):
        model = bigrams.Bigrams(own, background, mass)
        for word, count in (("d", 2), ("b", 1), ("c", 0)):
            assert model("a", word) == pytest.approx((count + mass * background("a", word)) / (3 + mass))
    assert bigrams.Bigrams(own, background, 1e12)("a", "d") == pytest.approx(background("a", "d"))


def test_conversions_are_scored_by_converter_and_model_and_judged_by_what_they_cost() -> None:
    from scipy.sparse import csr_array

    lists = NBest(
        csr_array(np.array([[2.0, 1.0], [1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])), [0, 2, 4], [1.0, 0.0, 0.0, 5.0]
    )
    words = [["x"], ["y"], ["x"], ["y"]]
    texts = adaptation.Texts(lists, words, [["y"], ["x"]], 2)

    def model(_: str, word: str) -> float:
        return {"x": 0.01, "y": 0.1, "</s>": 0.1}[word]

    scores = adaptation.scored(texts, model, 2.0)
    assert scores.tolist() == pytest.approx([2 - 6, 1 - 4, 0 - 6, 3 - 4])
    assert adaptation.errors(texts, scores) == 0.0 + 5.0
    data = adaptation.Adaptation(texts, texts, texts)
    judged = adaptation.Adapted().judge(data, Answer(np.concatenate([scores, -scores]), "heuristic"))
    assert (judged.loss, judged.details["held_out_loss"]) == (5.0, 1.0)
    assert math.isfinite(adaptation.background_share(texts))


def test_learning_curves_begin_with_the_base_feature_and_end_where_training_does() -> None:
    rng = np.random.default_rng(3)
    lists = NBest(rng.normal(size=(60, 6)), np.arange(0, 61, 6), rng.integers(0, 5, 60))
    halves = Halves(lists.restrict(slice(0, 6)), lists.restrict(slice(6, 10)))
    curve = adaptation.Curve(3)
    answer = curve.solve(halves, adaptation.BySearch(), 0, 60.0)
    trained = MinimumSampleRisk(kept=3).train(halves.train)
    judged = adaptation.BySearch().judge(halves, answer)
    assert answer.weights[0].tolist() == [1.0, 0, 0, 0, 0, 0]
    assert answer.weights[-1].tolist() == trained.weights.tolist()
    assert judged.details["training"][0] == trained.loss_before
    assert judged.loss == trained.loss
    assert all(np.diff(answer.details["searches"]) > 0)
    row = measure(Task(datasets.generated(2, 3, 2), Loss(), published.SOLVERS[1]))
    row = replace(row, details={"searches": [0, 4, 9], "training": [7.0, 5.0, 3.0]})
    assert adaptation.by_search(row, "training", [1, 3, 4, 8, 9, 20]).tolist() == [7.0, 7.0, 5.0, 5.0, 3.0, 3.0]
