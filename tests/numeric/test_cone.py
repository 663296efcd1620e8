"""Cones that are too thin for double precision are called so; nothing is raised."""

import numpy as np

from lpmert.numeric.cone import outer_normals


def test_normals_of_a_cone_without_an_inside_are_not_certain() -> None:
    flat = np.array([[1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert not outer_normals(flat)[1]
    assert not outer_normals(np.array([[1.0, 1.0], [1.0, 1.0]]))[1]
    normals, certain = outer_normals(np.eye(3))
    assert certain
    assert (normals @ np.eye(3) + 1e-6 > 0).all()
