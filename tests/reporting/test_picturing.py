"""Surfaces and profiles have the loss that decoding gives, at every point that they claim to show exactly."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from drawn_lattices import Drawn

import lpmert
from lpmert.errors import FloatArray
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.picturing.decisions import changes, closest, edits
from lpmert.picturing.profile import profile
from lpmert.picturing.rows import lines_of
from lpmert.picturing.surface import Surface, surface
from lpmert.picturing.windows import interval, shown_features, windows


def lists(seed: int, width: int, n_lists: int = 6, size: int = 5, statistics: int = 1) -> lpmert.NBest:
    """Lists of whole features and counts."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-9, 10, (n_lists * size, width)).astype(float)
    counts = rng.integers(0, 5, (n_lists * size, statistics)).astype(float)
    if statistics == 3:  # matches are no more than predicted and wanted
        counts[:, 1:] += counts[:, :1]
        counts[:, 2] = np.repeat(counts[::size, 0] + 9, size)
    return lpmert.NBest(features, np.arange(n_lists + 1) * size, counts)


def brute(nbest: lpmert.NBest, weights: FloatArray, f1: bool = False) -> float | None:
    """The loss of decoding by plain arithmetic; `None` where two scores nearly tie."""
    total = np.zeros(nbest.statistics.shape[1])
    for begin, end in itertools.pairwise(nbest.offsets.tolist()):
        scores = np.asarray(nbest.features)[begin:end] @ weights
        first = int(np.argmax(scores))
        near = scores > scores[first] - 1e-7 * max(1.0, float(np.abs(scores).max()))
        if len(np.unique(np.asarray(nbest.features)[begin:end][near], axis=0)) > 1:
            return None
        total += nbest.statistics[begin + first]
    if f1:
        return float(1 - 2 * total[0] / (total[1] + total[2]))
    return float(total[0])


def exact_points(found: Surface, seed: int, count: int = 60) -> list[tuple[float, float]]:
    """Points in strips of which every cell is drawn, and on the middle lines of the others."""
    rng = np.random.default_rng(seed)
    points = []
    for x, y in rng.uniform(-1, 1, (count, 2)).tolist():
        strip = int(np.searchsorted(found.tops, y))
        part = slice(*found.offsets[strip : strip + 2].tolist())
        slanted = not np.array_equal(found.lower[part], found.upper[part])
        middle = float(found.bottoms[strip] + found.tops[strip]) / 2
        points.append((x, y if slanted else middle))
    return points


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("f1", [False, True])
def test_a_surface_has_the_loss_of_decoding(seed: int, f1: bool) -> None:
    nbest = lists(seed, 2 + seed % 3, statistics=3 if f1 else 1)
    lines = lines_of(lpmert.Problem(nbest, "f1" if f1 else "loss"))
    weights = np.random.default_rng(seed).normal(size=nbest.n_features)
    checked = 0
    for window in windows(lines, weights):
        found = surface(lines, weights, (0, 1), (float(window.halves[0]), float(window.halves[1])))
        assert found.bottoms[0] == -1.0
        assert found.tops[-1] == 1.0
        assert np.array_equal(found.bottoms[1:], found.tops[:-1])
        for x, y in exact_points(found, seed):
            expected = brute(nbest, found.weights_at(x, y), f1)
            if expected is not None:
                assert found.loss_at(x, y) == pytest.approx(expected, abs=1e-12)
                checked += 1
    assert checked > 120


def test_a_surface_of_few_cells_is_drawn_by_its_cells() -> None:
    # one list, the second hypothesis wins where x > y: one border, which is a straight line through the window
    nbest = lpmert.NBest([[0.0, 1.0], [1.0, 0.0]], [0, 2], [0, 1])
    found = surface(lines_of(lpmert.Problem(nbest)), np.array([0.0, 0.0]), (0, 1), (2.0, 1.0))
    assert len(found.tops) == 1
    assert found.exact == 1.0
    assert found.losses.tolist() == [0.0, 1.0]
    assert (found.lower[0], found.upper[0]) == (-0.5, 0.5)


def test_the_border_that_is_parallel_to_the_strips_is_seen() -> None:
    # the choice changes at y = 0.3 only: no line along x has an event, yet the lines differ
    nbest = lpmert.NBest([[0.0, 10.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]], [0, 2, 3], [0, 1, 0])
    found = surface(lines_of(lpmert.Problem(nbest)), np.array([1.0, 0.0, 1.0]), (0, 1), (1.0, 1.0))
    assert [found.loss_at(0.1, y) for y in (-0.9, 0.0, 0.29, 0.31, 0.9)] == [1, 1, 1, 0, 0]


@pytest.mark.parametrize("seed", range(8))
def test_a_profile_has_the_loss_of_decoding_and_its_best_interval(seed: int) -> None:
    nbest = lists(seed + 50, 3)
    result = lpmert.minimize(nbest)
    lines = lines_of(lpmert.Problem(nbest))
    around = windows(lines, result.weights)
    rng = np.random.default_rng(seed)
    for feature, window in itertools.product(range(3), around):
        found = profile(lines, result.weights, feature, window, around[0])
        assert len(found.losses) == len(found.ends) - 1
        for value in rng.uniform(found.ends[0], found.ends[-1], 20):
            weights = result.weights.copy()
            weights[feature] = value
            expected = brute(nbest, weights)
            if expected is not None:
                assert found.losses[np.searchsorted(found.ends, value) - 1] == expected
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
    around = windows(lines, np.array([0.3, 0.7]))
    found = profile(lines, np.array([0.3, 0.7]), 0, around[0], around[0])
    assert not found.whole
    assert 1000 < len(found.losses) <= 2000
    assert (found.ends[0], found.ends[-1]) == pytest.approx((0.3 - around[0].halves[0], 0.3 + around[0].halves[0]))


def test_the_middle_of_every_window_has_the_loss_of_the_weights_in_it() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "asr" / "nbest.tsv.gz"
    nbest = lpmert.read_table(example, segment="utterance", features=["am", "lm", "words"], loss="errors")
    lines, weights = lines_of(lpmert.Problem(nbest)), np.array([1.0, 7.5, -10.8])
    for window, pair in itertools.product(windows(lines, weights), itertools.combinations(range(3), 2)):
        found = surface(lines, weights, pair, (float(window.halves[pair[0]]), float(window.halves[pair[1]])))
        assert found.loss_at(0.0, 0.0) == brute(nbest, weights)


def test_features_that_do_not_vary_are_not_shown() -> None:
    nbest = lpmert.NBest([[1.0, 5, 0], [0, 5, 1], [3, 2, 1], [4, 2, 1]], [0, 2, 4], [0, 1, 1, 0])
    lines = lines_of(lpmert.Problem(nbest))
    assert shown_features(lines, np.array([0.1, 0.8, 0.1]), 4).tolist() == [0, 2]
    assert windows(lines, np.array([0.1, 0.8, 0.1]))[0].halves[1] == 0.0
    assert interval(lines, np.array([1.0, 0.0, 0.0]), 2, 0.5) == (-0.5, 0.5)  # loss 1 for all c < 1


@pytest.mark.parametrize("seed", range(6))
def test_a_surface_over_lattices_has_the_loss_of_all_paths(seed: int) -> None:
    drawn = Drawn(seed, "integers", 3, 2 + seed % 2)
    problem = LatticeProblem(drawn.lattices())
    features, offsets, losses = drawn.listed()
    paths = lpmert.NBest(np.array(features, dtype=float), offsets, np.array(losses, dtype=float))
    lines = lines_of(problem)
    weights = np.random.default_rng(seed).normal(size=paths.n_features)
    window = windows(lines, weights)[0]
    found = surface(lines, weights, (0, 1), (float(window.halves[0]), float(window.halves[1])))
    checked = 0
    for x, y in exact_points(found, seed):
        expected = brute(paths, found.weights_at(x, y))
        if expected is not None:
            assert found.loss_at(x, y) == expected
            checked += 1
    assert checked > 20


class TestDecisions:
    LISTS = lpmert.NBest(
        [[1, 0], [0, 1], [2, 1], [1, 3], [1, 1], [1, 1]],
        [0, 2, 4, 6],
        [[0], [1], [1], [0], [5], [7]],
        list_ids=["u", "v", "w"],
        texts=["the cat sat", "a cat sat down", "x", "x y", "same", "same"],
    )

    def test_lists_that_choose_otherwise_are_found(self) -> None:
        # a picks hypotheses 0, 0; b picks 1, 1; the third list has one feature vector only
        found = changes(lpmert.Problem(self.LISTS), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
        assert [(one.list_id, one.before.number, one.after.number, one.difference) for one in found] == [
            ("v", 0, 1, -1.0),
            ("u", 0, 1, 1.0),
        ]
        assert found[1].pieces() == (
            [(True, "the"), (False, "cat sat")],
            [(True, "a"), (False, "cat sat"), (True, "down")],
        )

    def test_the_closest_decisions_come_first(self) -> None:
        # at (3, 1) the leads are 3 - 1 = 2 and 7 - 6 = 1, divided by the length of the weights
        found = closest(lpmert.Problem(self.LISTS), np.array([3.0, 1.0]), 5)
        assert [(one.list_id, one.chosen.number, one.next.number) for one in found] == [("v", 0, 1), ("u", 0, 1)]
        assert [one.lead for one in found] == pytest.approx([1 / 10**0.5, 2 / 10**0.5])

    @pytest.mark.parametrize("seed", range(20))
    def test_edits_keep_both_texts_and_agree_on_what_is_the_same(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        first, second = (" ".join(rng.choice(list("abc"), rng.integers(0, 9))) for _ in range(2))
        left, right = edits(first, second)
        assert " ".join(words for _, words in left) == first
        assert " ".join(words for _, words in right) == second
        kept = [" ".join(words for changed, words in side if not changed) for side in (left, right)]
        assert kept[0] == kept[1]

    def test_very_long_texts_are_not_compared_word_by_word(self) -> None:
        left, right = edits("a " * 3000, "a " * 3000 + "b")
        assert [changed for changed, _ in (*left, *right)] == [True, True]
