"""The pictures of matplotlib show the numbers that decoding gives, and are written in all forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pages import hostile_lists
from test_picturing import brute, lists

import lpmert

pytest.importorskip("matplotlib", reason="needs matplotlib, of lpmert[plots]")

NBEST = lists(7, 3)
RESULT = lpmert.minimize(NBEST, initial_weights=[1.0, 0.0, 0.0])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_every_picture_is_written(tmp_path: Path, ending: str) -> None:
    pictures = {
        "progress": lpmert.plots.progress(RESULT),
        "profile": lpmert.plots.profile(RESULT, NBEST, "feature2"),
        "surface": lpmert.plots.surface(RESULT, NBEST, ("feature1", "feature3"), window="near"),
        "changes": lpmert.plots.changes(NBEST, [1.0, 0, 0], RESULT),
    }
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    for name, figure in pictures.items():
        lpmert.plots.save(figure, tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"{name}.{ending}").read_bytes().startswith(start)
    with pytest.raises(lpmert.DataError, match="must end in"):
        lpmert.plots.save(pictures["progress"], tmp_path / "x.gif")


@pytest.mark.parametrize("window", ["wide", "medium", "near"])
def test_the_cells_of_a_surface_have_the_loss_of_decoding(window: str) -> None:
    axes = lpmert.plots.surface(RESULT, NBEST, ("feature1", "feature2"), window=window).axes[0]
    (cells,) = axes.collections
    losses, checked = cells.get_array(), 0
    rng = np.random.default_rng(0)
    for k in rng.integers(len(losses), size=60).tolist():
        corners = cells.get_paths()[k].vertices[:4]
        middle = corners.mean(axis=0)
        weights = RESULT.weights.copy()
        weights[:2] = middle
        # of a strip that is not drawn cell by cell only the line through its middle is exact; that is where this is
        if np.ptp(corners[:, 0]) > 1e-6:
            expected = brute(NBEST, weights)
            if expected is not None:
                assert losses[k] == expected
                checked += 1
    assert checked > 20


def test_paths_are_drawn_in_the_plane() -> None:
    nbest = lists(3, 2)
    result = lpmert.minimize(nbest)
    path = [[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]]
    axes = lpmert.plots.surface(result, nbest, paths={"way": path}).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "way"]
    length = float(np.linalg.norm(result.weights))  # with two weights only their direction counts
    expected = [np.array(one) * length / np.linalg.norm(one) for one in path]
    assert np.allclose(np.column_stack(line.get_data()), expected)


def test_the_profile_goes_through_the_optimum() -> None:
    axes = lpmert.plots.profile(RESULT, NBEST, "feature1", window="near").axes[0]
    (dot,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert dot.get_data()[0][0] == RESULT.weights[0]
    assert dot.get_data()[1][0] == RESULT.loss == brute(NBEST, RESULT.weights)


def test_changes_count_lists_that_get_better_and_worse() -> None:
    nbest = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [2], [0]])
    axes = lpmert.plots.changes(nbest, [1.0, 0.0], [0.0, 1.0]).axes[0]
    assert axes.get_title() == "2 lists change: 1 better, 1 worse"
    assert [bar.get_width() for bar in axes.patches] == [-2.0, 1.0]


def test_what_cannot_be_drawn_is_refused_by_name() -> None:
    with pytest.raises(lpmert.DataError, match="no feature 'x'"):
        lpmert.plots.profile(RESULT, NBEST, "x")
    with pytest.raises(lpmert.DataError, match="window='far' is none of wide, medium, near"):
        lpmert.plots.profile(RESULT, NBEST, "feature1", window="far")
    with pytest.raises(lpmert.DataError, match="other lists than those of"):
        lpmert.plots.surface(RESULT, hostile_lists())
