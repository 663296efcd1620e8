"""Labels of nodes of lattices: none that wins in a cone is lost."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from graph_problems import Drawn

from lpmert.errors import FloatArray
from lpmert.methods.lattice.nodes import Expander, Findings, all_mixes
from lpmert.model.catalogue import Lists, no_lists
from lpmert.model.lattice_problem import LatticeProblem

KINDS = ("integers", "ternary", "dyadic", "large", "steep")


def inside(rays: FloatArray) -> list[list[Fraction]]:
    """The sides of a cone, as limits."""
    exact = [[Fraction(value) for value in ray] for ray in rays.tolist()]
    n = len(exact)
    if n == 1:
        return exact
    if n == 2:
        (a, b), (c, d) = exact
        sign = 1 if a * d - b * c > 0 else -1
        return [[sign * d, sign * -c], [sign * -b, sign * a]]
    sides = []
    for k in range(3):
        p, q = exact[(k + 1) % 3], exact[(k + 2) % 3]
        cross = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]]
        sign = 1 if sum(x * y for x, y in zip(cross, exact[k], strict=True)) > 0 else -1
        sides.append([sign * value for value in cross])
    return sides


def winners(rows: list[list[Fraction]], offsets: list[int], rays: FloatArray) -> set[tuple[float, ...]]:
    """The features of the paths that some weights inside a cone make strictly best."""
    found = oracle.attainable(rows, offsets, inside(rays))
    return {tuple(float(value) for value in rows[row]) for (row,) in found}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_all_that_win_somewhere_in_the_cone(kind: str) -> None:
    """No path that some weights of the cone make strictly best is missing; without ties at its rays, no other stays."""
    left_over = listed = 0
    for seed in range(60):
        rng = np.random.default_rng(3000 + seed)
        width = int(rng.integers(1, 4))
        drawn = Drawn(seed, kind, 1, width)
        if not drawn.searchable:
            continue
        problem = LatticeProblem(drawn.lattices())
        rays = rng.integers(-8, 9, size=(width, width)).astype(float)
        if abs(np.linalg.det(rays)) < 0.5:
            continue
        expander = Expander(problem, 1000)
        view = expander.view(0, expander.whole(0), {}, rays, all_mixes(width), 10**6)
        assert view.part is None
        findings = Findings(problem, expander)
        ids, _ = findings.take(0, view)
        kept = {tuple(row) for row in findings.catalogue.features[ids].tolist()}
        factors = [Fraction(factor) for factor in problem.coordinates.scales.tolist()]
        features, offsets, _ = drawn.listed()
        rows = [[x * factor for x, factor in zip(row, factors, strict=True)] for row in features]
        must = winners(rows, offsets, rays)
        assert must <= kept
        left_over += len(kept - must)
        listed += len(kept)
        # The same of lists, in a smaller cone.
        narrower = rays.copy()
        narrower[0] = rays.sum(axis=0)
        lists, _, _, scores = findings.narrowed(no_lists().joined({0: ids}), narrower)
        assert isinstance(lists, Lists)
        assert len(scores) == len(lists.ids)
        still = {tuple(row) for row in findings.catalogue.features[lists.ids].tolist()}
        assert winners(rows, offsets, narrower) <= still <= kept
    assert listed > 50
    assert left_over <= 0.25 * listed


@pytest.mark.parametrize("labels", [1, 10])
def test_whole_paths_find_room_where_few_labels_do(labels: int) -> None:
    """However many paths are compared with each other, those that no others beat are the same as with much room."""
    compared = 0
    for seed in range(8):
        drawn = Drawn(seed, "dyadic", 2, 5)
        if drawn.searchable:
            problem = LatticeProblem(drawn.lattices())
            for number in range(2):
                few, many = (
                    expander.view(number, expander.whole(number), {}, np.eye(5), all_mixes(5), 1)
                    for expander in (Expander(problem, labels), Expander(problem, 1000))
                )
                assert np.array_equal(few.leading, many.leading)
                assert few.best.keys() == many.best.keys()
                compared += 1
    assert compared > 4
