"""The canonical form as a value of its own: what is derived from it, and that it is all that a method takes."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpmert.methods.choices.choices import Choices, ChoicesSearch
from lpmert.metrics.base import Metric
from lpmert.metrics.ratio import f_beta
from lpmert.model.canonical import Canonical, CanonicalWeights, Totals
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.search.method import Incumbent, Task

NO_LIMITS = np.empty((0, 3))


def form_of(seed, *, lists=5, size=3, factor=3, limits=NO_LIMITS):
    rng = np.random.default_rng(seed)
    costs = factor * rng.integers(0, 9, (lists, size))
    costs -= costs.min(axis=1, keepdims=True)
    offsets = np.arange(0, lists * size + 1, size)
    return Canonical(rng.normal(size=(lists * size, 3)), offsets, costs.ravel(), limits)


def least_cost(form, normals=NO_LIMITS):
    """By brute force; the normals are lists of two, to break one costs more than all others."""
    rows, ends, costs = form.features.tolist(), form.offsets.tolist(), form.costs.tolist()
    for normal in normals.tolist():
        rows, ends, costs = [*rows, normal, [0.0] * 3], [*ends, ends[-1] + 2], [*costs, 0, 10**6]
    return oracle.least_total(rows, ends, costs)


def run(search):
    while not search.finished:
        search.advance()
    assert search.unsettled is None
    return search.incumbent.cost


def worst(form):
    return Incumbent(form.dearest + form.granularity, np.ones(3), "")


def task(form):
    """Without the caller's problem: no proving search looks at it."""
    return Task(None, form, lambda: worst(form))


@pytest.mark.parametrize("seed", range(6))
def test_selections_within_half_spaces_cost_what_brute_force_finds(seed):
    form, normals = form_of(seed), np.random.default_rng(seed).normal(size=(2, 3))
    inside = form.within(normals)
    assert (inside.n_lists, inside.granularity) == (form.n_lists + 2, form.granularity)
    assert run(ChoicesSearch(Choices(), form.within(normals), worst(form), len(normals))) == least_cost(form, normals)


def test_costs_in_place_of_totals_make_the_limits_lists_and_drop_what_says_nothing():
    form = form_of(2, limits=np.eye(3)[:1])
    totals = Totals(f_beta(), np.ones((15, 3)), np.zeros(3), lambda _: Fraction(1))
    ratio = Canonical(form.features, form.offsets, totals, form.limits)
    costs = form.costs.copy()
    costs[3:6] = 0
    sums = ratio.with_costs(costs)
    assert sums.n_lists == 5  # of five one goes and a limit comes
    assert sums.features[-2:].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert sums.costs[-2] == 0
    assert sums.costs[-1] > np.add.reduce(np.maximum.reduceat(costs, form.offsets[:-1]))
    assert run(Choices().start(task(sums))) == least_cost(
        Canonical(form.features, form.offsets, costs, NO_LIMITS), form.limits
    )


@given(st.floats(0.0, 1.0), st.sampled_from([2.0**-56, 0.1, 3.0, 1e-300]), st.integers(-9, 9))
def test_losses_in_fixed_point_are_rounded_down_exactly(loss: float, unit: float, constant: int) -> None:
    form = replace(form_of(0).bare(), unit=unit, constant=constant)
    for given_loss in (loss, Fraction(loss) / 3, int(loss)):
        assert form.cost_of_loss(given_loss) == math.floor(Fraction(given_loss) / Fraction(unit)) - constant


@pytest.mark.parametrize("metric", ["loss", f_beta()])
@pytest.mark.parametrize(("first", "inside"), [(-1.0, False), (-1e-9, False), (0.0, False), (1e-9, True)])
def test_a_cost_is_attained_inside_of_the_limits_alone(metric: str | Metric, first: float, *, inside: bool) -> None:
    rng = np.random.default_rng(3)
    statistics = np.repeat(rng.integers(0, 2, (40, 1)), 1 if metric == "loss" else 3, axis=1)
    lists = NBest(rng.normal(size=(40, 3)), range(0, 41, 4), statistics, names=list("abc"))
    form = Problem(lists, metric, region=Region(bounds={"a": (0.0, None)})).canonical
    assert (form.attained_cost(CanonicalWeights(np.array([first, 1.0, 1.0]))) is not None) is inside
