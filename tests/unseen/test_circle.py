"""The pieces of a great circle: what decoding gives at any angle, and nothing outside of the region."""

from itertools import pairwise

import numpy as np
import pytest
from oracle import decoded
from slow_reference import random_lists

from lpmert import core
from lpmert.lines.line_search import lists_with_costs, loss_of_form
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem


def pieces_of(form, w, v, low, high):
    search = core.LineSearch(np.ascontiguousarray(form.features.T), form.offsets, loss_of_form(form))
    return core.find_pieces(search, w, v, low, high).T


@pytest.mark.parametrize("kind", ["loss", "f1", "bleu"])
@pytest.mark.parametrize(
    ("seed", "low", "high"), [(0, -np.pi, np.pi), (1, -0.7, 2.9), (2, -3.0, 0.1), (3, -1.0, 1.0), (4, -np.pi, np.pi)]
)
def test_every_angle_lies_in_one_piece_with_the_level_of_decoding(kind, seed, low, high):
    features, offsets, statistics = random_lists(seed, dimension=3, kind=kind, size=9)
    problem = Problem(NBest(features, offsets, statistics), kind)
    form = problem.canonical
    rng = np.random.default_rng(seed)
    w, v = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    begins, ends, levels = pieces_of(form, w.copy(), v.copy(), low, high)
    assert np.sum(ends - begins) == pytest.approx(high - low)
    assert begins.min() >= low
    assert ends.max() <= high
    for t in rng.uniform(low, high, 200):
        (piece,) = np.flatnonzero((begins < t) & (t < ends))
        rows = decoded(form.features, form.offsets, np.cos(t) * w + np.sin(t) * v)
        if form.additive:
            assert levels[piece] == form.costs[rows].sum()
        else:
            total = form.totals.constant + form.totals.statistics[rows].sum(axis=0)
            assert levels[piece] == pytest.approx(problem.metric.loss(total), rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_points_that_tie_in_one_coordinate_or_in_both_win_where_decoding_says(seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 6))])
    # few values, both zeros, points on one line and equal ones: corners have to be told from what lies on a side
    features = rng.integers(-2, 3, (offsets[-1], 2)) * rng.choice([-1.0, 1.0], (offsets[-1], 2))
    features[offsets[1] : offsets[2]] *= [1.0, 0.0]
    search = lists_with_costs(features, offsets, 1 << np.arange(offsets[-1]))
    begins, ends, levels = core.find_pieces(search, *np.eye(2), -np.pi, np.pi).T
    assert np.sum(ends - begins) == pytest.approx(2 * np.pi)
    for t in rng.uniform(-np.pi, np.pi, 200):
        (piece,) = np.flatnonzero((begins < t) & (t < ends))
        scores = features @ [np.cos(t), np.sin(t)]
        chosen = {int(row) for row in np.flatnonzero([int(levels[piece]) >> k & 1 for k in range(len(scores))])}
        for begin, end in pairwise(offsets):
            own = [row for row in chosen if begin <= row < end]
            assert len(own) == 1
            assert scores[own[0]] == scores[begin:end].max()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("capped", [False, True])
def test_an_arc_holds_exactly_the_angles_within_limits_and_cap(seed, capped):
    rng = np.random.default_rng(seed)
    w, v = np.linalg.qr(rng.normal(size=(4, 2)))[0].T.copy()
    basis = rng.normal(size=(4, 4))
    limits = rng.normal(size=(3, 4))
    limits *= np.sign(limits @ w)[:, None]
    middle = basis @ w + 0.3 * rng.normal(size=4)
    middle /= np.linalg.norm(middle)
    cosine = 0.6 * float(middle @ (basis @ w)) / float(np.linalg.norm(basis @ w))
    if cosine <= 0:
        middle, cosine = -middle, -cosine
    unit = middle if capped else np.empty(0)
    low, high = core.arc_within((limits, basis, unit, cosine), w, v)
    for t in np.linspace(-np.pi, np.pi, 2001):
        if min(abs(t - low), abs(t - high)) < 1e-6:
            continue
        x = np.cos(t) * w + np.sin(t) * v
        given = basis @ x
        within = bool((limits @ x > 0).all())
        if capped:
            within = within and float(middle @ given) >= cosine * float(np.linalg.norm(given))
        assert within == (low < t < high)
