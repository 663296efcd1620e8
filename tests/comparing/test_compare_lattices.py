"""Comparisons over all paths of lattices: judged by decoding these, by hypotheses that lists of all paths hold too."""

from typing import Any

import numpy as np
import pytest
from graph_problems import Drawn, DrawnHypergraphs

import lpmert
from lpmert import DataError, Lattices, MethodError, Status
from lpmert.comparing.runs import permutation_test
from lpmert.methods import NelderMead, Och, RandomSearch
from lpmert.metrics.text import TEXT_METRICS
from lpmert.unseen.averaging import Averaging

FAST: dict[str, Any] = {
    "och": Och(restarts=1),
    "random": RandomSearch(draws=15),
    "nelder-mead": NelderMead(restarts=0, evaluations=15),
    "average": Averaging(),
}


def drawn(seed: int, n_lattices: int = 6) -> Lattices:
    return in_general_position(seed, n_lattices).lattices()


def in_general_position(seed: int, n_lattices: int) -> Drawn:
    """Small lattices with features in general position, so that no two paths tie."""
    found = Drawn(seed, "integers", n_lattices, 3)
    while not found.searchable:
        seed += 1000
        found = Drawn(seed, "integers", n_lattices, 3)
    found.features = np.random.default_rng(seed).normal(size=found.features.shape)
    found.references = [reference or "a b" for reference in found.references]
    return found


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_runs_on_lattices_are_judged_over_all_paths(metric: str) -> None:
    here, there = drawn(1), drawn(2)
    found = lpmert.compare(
        here, FAST, metric=metric, seeds=2, held_out=there, weights={"mine": [1, -1, 2]}, optimum_limits=None
    )
    assert [(entry.name, len(entry.runs)) for entry in found.methods] == [*((name, 2) for name in FAST), ("mine", 1)]
    assert found.optimum.status is Status.OPTIMAL
    assert found.optimum.loss == lpmert.minimize(here, metric=metric).loss
    settings = TEXT_METRICS[metric]
    summed = settings.metric("")
    rows = {}
    for entry in found.methods:
        for run in entry.runs:
            assert run.loss == lpmert.evaluate(here, run.weights, metric=metric).loss >= found.optimum.loss
            assert run.held_out_loss == lpmert.evaluate(there, run.weights, metric=metric).loss
            best = lpmert.n_best(here, run.weights, n=1)  # the texts chosen, found by another search
            counted = [settings.counter(own)(text) for own, text in zip(here.references, best.texts or (), strict=True)]
            assert run.chosen.tolist() == counted
        rows[entry.name] = entry.best.held_out_chosen
    for entry in found.methods[1:]:
        assert entry.p_value == permutation_test(summed, rows["och"], rows[entry.name])


def test_a_comparison_of_lattices_is_that_of_lists_of_all_their_paths() -> None:
    few = in_general_position(3, 8)
    features, offsets, losses = few.listed()
    lists = lpmert.NBest(np.array(features, dtype=float), offsets, losses)
    given = {"one": [1.0, 0.0, 0.0], "two": [0.0, -1.0, 0.5], "three": [-1.0, 2.0, 3.0]}
    on_lattices = lpmert.compare(few.lattices(), [], weights=given)
    on_lists = lpmert.compare(lists, [], weights=given)
    assert on_lattices.lower_bound == on_lists.lower_bound
    for name in given:
        assert on_lattices[name].best.chosen.tolist() == on_lists[name].best.chosen.tolist()
        assert on_lattices[name].p_value == on_lists[name].p_value


def test_lattices_are_cross_validated() -> None:
    lattices = drawn(4, 8)
    found = lpmert.compare(lattices, {"och": Och(restarts=0)}, seeds=1, cv=4, repeat=1)
    assert [entry.name for entry in found.cross_validation.methods] == ["och", "optimum"]
    for entry in found.cross_validation.methods:
        losses = [run.held_out_loss for run in entry.fits]
        assert entry.loss.value == sum(losses)  # the folds hold each lattice once
        assert all(run.loss >= 0 for run in entry.fits)


def test_hypergraphs_are_compared_but_not_divided() -> None:
    graphs = DrawnHypergraphs(5, 3, 2, 40).graphs()
    found = lpmert.compare(graphs, {"och": Och(restarts=0)}, metric="wer", seeds=1)
    assert found["och"].best.loss >= found.lower_bound == lpmert.minimize(graphs, metric="wer").loss
    with pytest.raises(DataError, match="hypergraphs are not divided; make N-best lists"):
        lpmert.compare(graphs, ["och"], metric="wer", seeds=1, cv=2)


def test_methods_that_need_lists_are_refused_before_any_run() -> None:
    seen: list[str] = []
    with pytest.raises(MethodError, match=r"'grid' needs N-best lists: .* by auto, cells, och, .*nelder-mead"):
        lpmert.compare(drawn(6), ["och", "grid"], seeds=1, on_run=lambda name, _: seen.append(name))
    with pytest.raises(MethodError, match="'mip' needs N-best lists"):
        lpmert.compare(drawn(6), ["och"], seeds=1, optimum="mip", on_run=lambda name, _: seen.append(name))
    assert not seen
