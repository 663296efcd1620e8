"""Changes of the data that leave decoding alone leave the optimum alone, whatever the method."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from strategies import RATIOS, Lists, gaussian_lists, random_lists

import lpmert
from lpmert import Result, Status
from lpmert.model.problem import Problem

pytestmark = pytest.mark.usefixtures("poor_start")

everywhere = pytest.mark.parametrize(("seed", "method"), list(product(range(8), RATIOS)))


def lists_of(seed: int) -> Lists:
    return gaussian_lists(seed, lists=10, hypotheses=4, features=2 + seed % 3)


def solved(lists: Lists, method: str) -> Result:
    result = lpmert.minimize(lists.nbest, method=method)
    assert result.status is Status.OPTIMAL
    return result


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("factor", [1e-9, 0.3, 2.0, 7e11])
def test_a_positive_factor_on_the_weights_changes_nothing(seed: int, factor: float) -> None:
    lists = random_lists("integers", seed)
    w = np.random.default_rng(seed).normal(size=lists.features.shape[1])
    problem = Problem(lists.nbest)
    first, second = problem.evaluate(w), problem.evaluate(w * factor)
    assert first.selection.tolist() == second.selection.tolist()
    assert first.loss == second.loss
    if first.margin is not None:
        assert second.margin == pytest.approx(first.margin * factor, rel=1e-9)


@everywhere
def test_units_of_features_do_not_matter(seed: int, method: str) -> None:
    lists = lists_of(seed)
    units = 10.0 ** np.random.default_rng(seed).uniform(-9, 9, lists.features.shape[1])
    other = Lists(lists.features * units, lists.offsets, lists.losses)
    assert solved(other, method).loss == solved(lists, method).loss


@everywhere
def test_a_vector_added_to_a_whole_list_does_not_matter(seed: int, method: str) -> None:
    lists = lists_of(seed)
    rng = np.random.default_rng(seed)
    whole = np.rint(lists.features * 64)  # so that the sums are exact
    shifts = np.repeat(rng.integers(-1000, 1000, (10, lists.features.shape[1])), 4, axis=0)
    plain, shifted = (Lists(f, lists.offsets, lists.losses) for f in (whole, whole + shifts))
    assert solved(shifted, method).loss == solved(plain, method).loss


@everywhere
def test_a_loss_added_to_a_whole_list_is_added_to_the_optimum(seed: int, method: str) -> None:
    lists = lists_of(seed)
    extra = np.random.default_rng(seed).integers(-50, 50, 10).astype(float)
    other = Lists(lists.features, lists.offsets, lists.losses + np.repeat(extra, 4))
    assert solved(other, method).loss == solved(lists, method).loss + extra.sum()


@everywhere
def test_losses_times_a_factor_multiply_the_optimum(seed: int, method: str) -> None:
    lists = lists_of(seed)
    for factor in (3.0, 2.0**-300, 1e-100, 1e100):
        other = Lists(lists.features, lists.offsets, lists.losses * factor)
        assert solved(other, method).loss == pytest.approx(solved(lists, method).loss * factor, rel=1e-14)


@everywhere
def test_the_order_of_lists_and_hypotheses_does_not_matter(seed: int, method: str) -> None:
    lists = lists_of(seed)
    rng = np.random.default_rng(seed)
    rows = np.concatenate([4 * s + rng.permutation(4) for s in rng.permutation(10)])
    other = Lists(lists.features[rows], lists.offsets, lists.losses[rows])
    assert solved(other, method).loss == solved(lists, method).loss


@everywhere
def test_twice_the_lists_have_twice_the_loss(seed: int, method: str) -> None:
    lists = lists_of(seed)
    twice = Lists(
        np.tile(lists.features, (2, 1)),
        np.concatenate([lists.offsets, lists.offsets[1:] + 40]),
        np.tile(lists.losses, 2),
    )
    assert solved(twice, method).loss == 2 * solved(lists, method).loss


@everywhere
def test_a_negated_feature_negates_its_weight(seed: int, method: str) -> None:
    lists = lists_of(seed)
    flip = np.ones(lists.features.shape[1])
    flip[seed % len(flip)] = -1.0
    first = solved(lists, method)
    second = solved(Lists(lists.features * flip, lists.offsets, lists.losses), method)
    assert second.loss == first.loss
    evaluated = Problem(lists.nbest).evaluate(second.weights * flip)
    assert evaluated.loss == first.loss
    assert evaluated.selection.tolist() == second.selection.tolist()


@everywhere
def test_a_rotation_of_the_features_does_not_matter(seed: int, method: str) -> None:
    lists = lists_of(seed)
    width = lists.features.shape[1]
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(width, width)))[0]
    other = Lists(lists.features @ rotation, lists.offsets, lists.losses)
    assert solved(other, method).loss == solved(lists, method).loss


@everywhere
def test_a_feature_that_is_useless_never_makes_the_optimum_worse(seed: int, method: str) -> None:
    lists = lists_of(seed)
    extra = np.random.default_rng(seed).normal(size=(40, 1))
    other = Lists(np.hstack([lists.features, extra]), lists.offsets, lists.losses)
    assert solved(other, method).loss <= solved(lists, method).loss


@everywhere
def test_parts_bound_the_whole_from_below(seed: int, method: str) -> None:
    lists = lists_of(seed)
    parts = [lpmert.minimize(lists.nbest.restrict(slice(a, a + 5)), method=method).loss for a in (0, 5)]
    assert sum(parts) <= solved(lists, method).loss
