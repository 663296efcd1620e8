"""Cones that cover a region, and normals of cones, which are called uncertain where these are too thin."""

from fractions import Fraction

import numpy as np
import pytest

from lpmert.errors import FloatArray
from lpmert.numeric import cone as cones
from lpmert.numeric.cone import cones_of_region, covering_cones, outer_normals
from lpmert.system.deadline import Deadline, OutOfTime, heeding


def test_cones_cover_what_is_inside_the_limits_and_little_else() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        width = int(rng.integers(1, 5))
        shape = int(rng.integers(0, 5)), width
        limits = rng.normal(size=shape) if seed % 2 else rng.integers(-9, 10, size=shape).astype(float)
        limits = limits[limits.any(axis=1)]
        cones = list(cones_of_region(limits))
        weights = rng.normal(size=(300, width))
        for w in weights[(limits @ weights.T > 0).all(axis=0)]:
            assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in cones)
        within = [(limits @ (rays.T @ rng.random((width, 20))) >= -1e-9).all(axis=0) for rays in cones]
        assert not within or np.mean(within) > 0.9


def test_a_box_becomes_cones_with_its_corners_as_rays() -> None:
    # w1 = 1, w2 in 3..20, w3 in -12..12
    limits = np.array([[1, 0, 0], [-3, 1, 0], [20, -1, 0], [12, 0, 1], [12, 0, -1]], dtype=float)
    cones = list(cones_of_region(limits))
    corners = {(1, a, b) for a in (3, 20) for b in (-12, 0, 12)}
    assert {tuple((ray / ray[0]).tolist()) for rays in cones for ray in rays} == corners
    areas = [abs(np.linalg.det(rays / rays[:, :1])) / 2 for rays in cones]
    assert sum(areas) == pytest.approx(17 * 24)


def test_limits_that_contradict_each_other_leave_no_cone() -> None:
    assert not list(cones_of_region(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])))


def test_rays_have_few_bits_so_that_midpoints_stay_exact() -> None:
    rng = np.random.default_rng(7)
    for ray in (ray for rays in cones_of_region(rng.normal(size=(4, 3))) for ray in rays.tolist()):
        assert all(Fraction(value).denominator <= 2**44 for value in ray)


def test_many_limits_lose_nothing_inside_and_are_cut_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between 70 limits on five weights most parts of what is cut lie outside of another limit."""
    rng = np.random.default_rng(3)
    middle, limits = rng.normal(size=5), rng.integers(-9, 10, (70, 5)).astype(float)
    limits *= np.sign(limits @ middle)[:, None]
    cut, asked = cones._cut, []
    monkeypatch.setattr(cones, "_cut", lambda *given: asked.append(given) or cut(*given))
    found = list(cones_of_region(limits))
    assert len(found) <= 256
    assert 256 < len(asked) <= 4 * 256
    inside = middle + 1e-3 * rng.normal(size=(100, 5))
    inside = inside[(limits @ inside.T > 0).all(axis=0)]
    assert len(inside) > 10
    for w in inside:
        assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in found)


def test_the_signs_of_many_weights_leave_one_cone() -> None:
    (rays,) = cones_of_region(np.eye(60))
    assert rays.tolist() == np.eye(60).tolist()


@pytest.mark.parametrize("limits", [np.empty((0, 60)), np.vstack([np.eye(30), np.tile([1.0, -0.7, 0.3], 10)])])
def test_cones_are_given_up_when_the_time_is_over(limits: FloatArray) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 40

    with Deadline(stop=stop).running(), heeding(), pytest.raises(OutOfTime):
        list(cones_of_region(limits))
    assert asked == 41


def test_cones_that_no_limit_cuts_are_looked_at_for_no_longer_than_there_is_time() -> None:
    """All cones share their rays: that these are known makes none of 1,280 cones times 640 limits cheap."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return False

    limits = np.eye(12)
    whole = len(list(covering_cones(12)))
    with Deadline(stop=stop).running(), heeding():
        list(cones_of_region(limits))
    assert asked >= whole * 12


def test_normals_of_a_cone_without_an_inside_are_not_certain() -> None:
    flat = np.array([[1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert not outer_normals(flat)[1]
    assert not outer_normals(np.array([[1.0, 1.0], [1.0, 1.0]]))[1]
    normals, certain = outer_normals(np.eye(3))
    assert certain
    assert (normals @ np.eye(3) + 1e-6 > 0).all()
