"""Cones that cover a region."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lpmert.methods.lattice.roots import cones_of_region


@pytest.mark.parametrize("seed", range(40))
def test_cones_cover_what_is_inside_the_limits_and_little_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    shape = int(rng.integers(0, 5)), width
    limits = rng.normal(size=shape) if seed % 2 else rng.integers(-9, 10, size=shape).astype(float)
    limits = limits[limits.any(axis=1)]
    cones = cones_of_region(limits)
    weights = rng.normal(size=(300, width))
    for w in weights[(limits @ weights.T > 0).all(axis=0)]:
        assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in cones)
    within = [(limits @ (rays.T @ rng.random((width, 20))) >= -1e-9).all(axis=0) for rays in cones]
    assert not within or np.mean(within) > 0.9


def test_a_box_becomes_cones_with_its_corners_as_rays() -> None:
    # w1 = 1, w2 in 3..20, w3 in -12..12
    limits = np.array([[1, 0, 0], [-3, 1, 0], [20, -1, 0], [12, 0, 1], [12, 0, -1]], dtype=float)
    cones = cones_of_region(limits)
    corners = {(1, a, b) for a in (3, 20) for b in (-12, 0, 12)}
    assert {tuple((ray / ray[0]).tolist()) for rays in cones for ray in rays} == corners
    areas = [abs(np.linalg.det(rays / rays[:, :1])) / 2 for rays in cones]
    assert sum(areas) == pytest.approx(17 * 24)


def test_limits_that_contradict_each_other_leave_no_cone() -> None:
    assert not len(cones_of_region(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])))


def test_rays_have_few_bits_so_that_midpoints_stay_exact() -> None:
    rng = np.random.default_rng(7)
    for rays in cones_of_region(rng.normal(size=(4, 3))).reshape(-1, 3):
        assert all(Fraction(value).denominator <= 2**44 for value in rays.tolist())
