"""Surfaces and profiles have the loss that decoding gives, at every point that they claim to show exactly."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from graph_problems import Drawn
from pages import assert_decoded, brute
from problems import random_nbest

import lpmert
from lpmert.errors import FloatArray
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.reporting.material import (
    Surface,
    changes,
    closest,
    edits,
    interval,
    lines_of,
    profile,
    shown_features,
    surface,
    windows,
)


def shown(found: Surface, seed: int, count: int = 60) -> Iterator[tuple[FloatArray, float]]:
    """Yield weights in the middle of a surface and at random centres of its cells, and the loss that it shows there."""
    rows, columns = found.losses.shape
    places = np.random.default_rng(seed).integers([rows, columns], size=(count, 2))
    for row, column in [(rows // 2, columns // 2), *places.tolist()]:
        weights = found.weights.copy()
        weights[found.features[0]] += ((2 * column + 1) / columns - 1) * found.halves[0]
        weights[found.features[1]] += ((2 * row + 1) / rows - 1) * found.halves[1]
        yield weights, float(found.losses[row, column])


@pytest.mark.parametrize(("seed", "f1"), [(seed, seed % 2 == 1) for seed in range(12)])
def test_a_surface_has_the_loss_of_decoding(seed: int, f1: bool) -> None:
    nbest = random_nbest(seed, dimension=2 + seed % 3, kind="f1" if f1 else "loss", integers=seed % 4 > 1)
    lines = lines_of(lpmert.Problem(nbest, "f1" if f1 else "loss"))
    weights = np.random.default_rng(seed).normal(size=nbest.n_features)
    found = [surface(lines, weights, (0, 1), window) for window in windows(lines, weights).values()]
    assert sum(assert_decoded(nbest, shown(one, seed), f1) for one in found) > 80


def test_the_border_between_two_cells_is_straight_and_seen_if_it_is_parallel_to_the_lines() -> None:
    # one list, the second hypothesis wins where x > y: with halves 2 and 1, where twice the place across exceeds the
    # height
    nbest = lpmert.NBest([[0.0, 1.0], [1.0, 0.0]], [0, 2], [0, 1])
    losses = surface(lines_of(lpmert.Problem(nbest)), np.array([0.0, 0.0]), (0, 1), np.array([2.0, 1.0])).losses
    height, across = ((2 * np.arange(n) + 1) / n - 1 for n in losses.shape)
    clear = np.abs(2 * across[None, :] - height[:, None]) > 1e-9
    assert np.array_equal(losses[clear], (2 * across[None, :] > height[:, None])[clear].astype(float))
    # the choice changes at y = 0.3 only: no line along x has an event, yet the lines differ
    nbest = lpmert.NBest([[0.0, 10.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]], [0, 2, 3], [0, 1, 0])
    losses = surface(lines_of(lpmert.Problem(nbest)), np.array([1.0, 0.0, 1.0]), (0, 1), np.ones(3)).losses
    height = (2 * np.arange(len(losses)) + 1) / len(losses) - 1
    assert np.array_equal(losses, np.repeat((height < 0.3)[:, None], losses.shape[1], axis=1))


@pytest.mark.parametrize("seed", range(8))
def test_a_profile_has_the_loss_of_decoding_and_its_best_interval(seed: int) -> None:
    nbest = random_nbest(seed + 50)
    result = lpmert.minimize(nbest)
    lines = lines_of(lpmert.Problem(nbest))
    around = windows(lines, result.weights)
    rng = np.random.default_rng(seed)
    for feature, window in itertools.product(range(3), around.values()):
        found = profile(lines, result.weights, feature, window, around["wide"])
        assert len(found.losses) == len(found.ends) - 1
        values = rng.uniform(found.ends[0], found.ends[-1], 20)
        losses = found.losses[np.searchsorted(found.ends, values) - 1].tolist()
        along = [np.where(np.arange(3) == feature, value, result.weights) for value in values]
        assert assert_decoded(nbest, zip(along, losses, strict=True))
        for end, way in zip(found.best, (-1, 1), strict=True):
            if end is not None:
                inside, outside = result.weights.copy(), result.weights.copy()
                inside[feature], outside[feature] = end - way * 1e-9, end + way * 1e-6
                assert brute(nbest, inside) in (None, result.loss)
                assert brute(nbest, outside) != result.loss


def test_a_long_profile_is_cut_down_and_says_so() -> None:
    rng = np.random.default_rng(1)
    angles = rng.uniform(0, 2 * np.pi, 20_000)  # every hypothesis wins somewhere
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    nbest = lpmert.NBest(corners, np.arange(201) * 100, rng.integers(0, 99, 20_000))
    lines = lines_of(lpmert.Problem(nbest))
    wide = windows(lines, np.array([0.3, 0.7]))["wide"]
    found = profile(lines, np.array([0.3, 0.7]), 0, wide, wide)
    assert not found.whole
    assert 500 < len(found.losses) <= 1000
    assert (found.ends[0], found.ends[-1]) == pytest.approx((0.3 - wide[0], 0.3 + wide[0]))


def test_features_that_do_not_vary_are_not_shown() -> None:
    nbest = lpmert.NBest([[1.0, 5, 0], [0, 5, 1], [3, 2, 1], [4, 2, 1]], [0, 2, 4], [0, 1, 1, 0])
    lines = lines_of(lpmert.Problem(nbest))
    assert shown_features(lines, np.array([0.1, 0.8, 0.1]), 4).tolist() == [0, 2]
    assert windows(lines, np.array([0.1, 0.8, 0.1]))["wide"][1] == 0.0
    assert interval(lines, np.array([1.0, 0.0, 0.0]), 2, 0.5) == (-0.5, 0.5)  # loss 1 for all c < 1


@pytest.mark.parametrize("seed", range(6))
def test_a_surface_over_lattices_has_the_loss_of_all_paths(seed: int) -> None:
    drawn = Drawn(seed, "integers", 3, 2 + seed % 2)
    problem = LatticeProblem(drawn.lattices())
    features, offsets, losses = drawn.listed()
    paths = lpmert.NBest(np.array(features, dtype=float), offsets, np.array(losses, dtype=float))
    lines = lines_of(problem)
    weights = np.random.default_rng(seed).normal(size=paths.n_features)
    found = surface(lines, weights, (0, 1), windows(lines, weights)["wide"])
    assert assert_decoded(paths, shown(found, seed)) > 20


LISTS = lpmert.NBest(
    [[1, 0], [0, 1], [2, 1], [1, 3], [1, 1], [1, 1]],
    [0, 2, 4, 6],
    [[0], [1], [1], [0], [5], [7]],
    list_ids=["u", "v", "w"],
    texts=["the cat sat", "a cat sat down", "x", "x y", "same", "same"],
)


def test_lists_that_choose_otherwise_and_the_closest_decisions_are_found() -> None:
    # a picks hypotheses 0, 0; b picks 1, 1; the third list has one feature vector only
    found = changes(lpmert.Problem(LISTS), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    told = [(one.list_id, one.before.number, one.after.number, one.difference) for one in found]
    assert told == [("v", 0, 1, -1.0), ("u", 0, 1, 1.0)]
    before, after = [(True, "the"), (False, "cat sat")], [(True, "a"), (False, "cat sat"), (True, "down")]
    assert found[1].pieces() == (before, after)
    # at (3, 1) the leads are 3 - 1 = 2 and 7 - 6 = 1, divided by the length of the weights
    found = closest(lpmert.Problem(LISTS), np.array([3.0, 1.0]), 5)
    assert [(one.list_id, one.before.number, one.after.number) for one in found] == [("v", 0, 1), ("u", 0, 1)]
    assert [one.lead for one in found] == pytest.approx([1 / 10**0.5, 2 / 10**0.5])


@pytest.mark.parametrize("seed", range(20))
def test_edits_keep_both_texts_and_agree_on_what_is_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(2)]
    sides = edits(*texts)
    assert [" ".join(words for _, words in side) for side in sides] == texts
    first, second = (" ".join(words for changed, words in side if not changed) for side in sides)
    assert first == second
    left, right = edits("a " * 3000, "a " * 3000 + "b")
    assert [changed for changed, _ in (*left, *right)] == [True, True], "too long to be compared word by word"
