"""What the writer leaves in a box is what the checker leaves there, in exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Lists
from problems import KINDS
from test_proof_cones import EXPONENTS, claimed, lists_and_cone

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.regions import Shape, cover
from lpmert.certificates.check.tree import Part, narrowed, whole_part
from lpmert.certificates.format import BOXES
from lpmert.certificates.write import cones
from lpmert.certificates.write.cones import left_inside


def same(first: Part, second: Part) -> bool:
    """Whether two parts leave the same."""
    return all(np.array_equal(a, b) for a, b in zip(first[1:4], second[1:4], strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(40, 46))
def test_the_writer_leaves_what_the_checker_leaves(kind: str, seed: int) -> None:
    _, proof, part = lists_and_cone(kind, seed, BOXES, 10)
    for splits in range(6):
        n, boxed = len(part.shape.rays), part.shape.boxed
        parts = [part.shape] if n < 2 else part.shape.parts({"split": [1] if boxed else [0, 1]})
        for shape in parts:
            assert same(left_inside(proof, part, shape), narrowed(proof, part, shape))
        part = narrowed(proof, part, parts[splits % len(parts)])


def tied(spread: int) -> tuple[ProofLists, Shape]:
    """Hypotheses (x, y) and a box x = 1, |y| <= 1: the first is beaten at one end by none, at the other in a tie.

    spread: between two hypotheses of the third list, so that features take many bits.
    """
    rows = [[0, 0], [1, 1], [1, -1], [0.5, 0.5], [2, 1], [2, 0], [0, 0], [1 + spread, 0]]
    rows += [[0, 0], [0.5, 0.25], [1, 5]]
    lists = Lists(
        np.array(rows, dtype=float), np.array([0, 4, 6, 8, 11]), np.array([0.0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2])
    )
    proof = claimed(lists.nbest, EXPONENTS)
    return proof, next(iter(cover(2, {"split": BOXES})))


@pytest.mark.parametrize("spread", [0, 2**40, 2**48, 2**50, 2**51, 2**52])
def test_ties_at_the_edge_of_a_box_fall_whether_doubles_are_exact_or_not(
    spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof, box = tied(spread)
    asked = []
    exactly = cones.narrowed
    monkeypatch.setattr(cones, "narrowed", lambda *given: asked.append(1) or exactly(*given))
    found = left_inside(proof, whole_part(proof), box)
    assert same(found, narrowed(proof, whole_part(proof), box))
    # 1 + y and (1 + y) / 2 are at least 0: the first and the fourth fall to the second, but not the third. In the other
    # list neither is as good as the other one everywhere, the third is settled, and the first of the last one falls to
    # the second, though not to the third, which is the best at the centre.
    assert found.rows.tolist() == [1, 2, 4, 5, 9, 10]
    assert bool(asked) == bool(proof.errors(box.points).any())


def test_both_ways_are_taken() -> None:
    errors = [tied(spread)[0].errors(tied(spread)[1].points).any() for spread in (0, 2**52)]
    assert errors == [False, True]
