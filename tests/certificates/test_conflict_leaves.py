"""Cones of a certificate closed by conflicts: what is charged is there, and every change of it is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Document, base, layout, random_nbest
from problems import KINDS
from test_proof_cones import TREES, inside, lists_and_cone

import lpmert
from lpmert import CertificateError, NBest, verify
from lpmert.certificates.check.lists import Price, ProofLists
from lpmert.certificates.check.tree import Part, closed
from lpmert.certificates.format import CONES
from lpmert.certificates.write.certify import write_certificate


@pytest.fixture(scope="module", params=TREES)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, str]:
    """Lists whose certificate has parts that are closed by conflicts, and its text; for cones, one that was kept."""
    if request.param == CONES:
        return base("cones")
    nbest = random_nbest(3, n_lists=40, n_features=3, longest=6)
    path = tmp_path_factory.mktemp("cores") / "c.json"
    write_certificate(path, nbest, lpmert.minimize(nbest), kind=request.param)
    return nbest, path.read_text()


def leaves(found: Document) -> list[Any]:
    """The records that close a cone by conflicts alone."""
    return [record for record in found["tree"] if record.keys() == {"cores"}]


def test_conflicts_close_cones_and_the_checker_takes_them(tmp_path: Path, written: tuple[NBest, str]) -> None:
    nbest, text = written
    path = tmp_path / "c.json"
    path.write_text(text)
    assert verify(path, nbest).proved
    found = leaves(json.loads(text))
    assert len(found) > 10
    assert max(len(record["cores"]) for record in found) > 3


def dropped(record: Any) -> None:
    record["cores"].pop()


def turned_round(record: Any) -> None:
    record["cores"][0][2] *= -1


def one_sided(record: Any) -> None:
    record["cores"][0] = record["cores"][0][:3]


def multiplied(record: Any) -> None:
    record["cores"][0][2] <<= 80


def of_another_list(record: Any) -> None:
    record["cores"][0][0] = (record["cores"][0][0] + 1) % 14


def repeated_instead_of_others(record: Any) -> None:
    record["cores"] = [record["cores"][0]] * len(record["cores"])


def with_itself(record: Any) -> None:
    record["cores"][0][3:] = record["cores"][0][:3]


@pytest.mark.parametrize(
    "change", [dropped, turned_round, one_sided, multiplied, of_another_list, repeated_instead_of_others, with_itself]
)
def test_a_changed_conflict_is_refused(tmp_path: Path, written: tuple[NBest, str], change: Any) -> None:
    nbest, text = written
    refused = 0
    for at in range(5):
        found: Document = json.loads(text)
        records = [record for record in leaves(found) if len(record["cores"]) > 2]
        change(records[at])
        path = tmp_path / "c.json"
        path.write_text(layout(found))
        try:
            verify(path, nbest)
        except CertificateError:
            refused += 1
    # A multiplier or a list may be changed so that what is said is true nevertheless, and closes the cone.
    assert refused == 5 or (change in (multiplied, of_another_list) and refused >= 3)


def test_a_cone_without_its_conflicts_is_refused(tmp_path: Path, written: tuple[NBest, str]) -> None:
    nbest, text = written
    found: Document = json.loads(text)
    leaves(found)[0]["cores"] = []
    path = tmp_path / "c.json"
    path.write_text(layout(found))
    with pytest.raises(CertificateError, match="the bound of this part is"):
        verify(path, nbest)


def any_pair(proof: ProofLists, cone: Part, rng: np.random.Generator) -> list[int]:
    """Two lists, another hypothesis of each than its cheapest, and small multipliers: a conflict if they balance."""
    entry: list[int] = []
    several = np.flatnonzero(cone.sizes > 1)
    for a in rng.choice(several, 2, replace=False):
        row = cone.rows[cone.starts[a] + rng.integers(1, cone.sizes[a])]
        entry += [*proof.places[row], int(rng.integers(1, 5))]
    return entry


def accepted(proof: ProofLists, cone: Part, cores: list[list[int]]) -> float | None:
    """The bound that the checker gives a cone with these cores, `None` if it refuses them."""
    target = cone.box(proof)[0][0]
    try:
        return target + closed(proof, cone._replace(price=Price([1], target)), {"cores": cores})[0]
    except CertificateError:
        return None


@pytest.mark.parametrize("tree", TREES)
def test_no_choice_inside_a_cone_costs_less_than_its_conflicts_say(tree: str) -> None:
    """Of pairs drawn at random the checker takes those that balance, from whoever they come."""
    rng = np.random.default_rng(0)
    taken = refused = 0
    for kind, seed in ((kind, seed) for kind in KINDS for seed in range(700, 720)):
        _, proof, cone = lists_and_cone(kind, seed, tree, 8)
        cores: list[list[int]] = []
        bound = cone.box(proof)[0][0]
        for _ in range(60 if np.count_nonzero(cone.sizes > 1) > 1 else 0):
            pair = any_pair(proof, cone, rng)
            found = accepted(proof, cone, [*cores, pair])
            if found is None or found == float("inf"):
                refused += 1
                continue
            taken += 1
            cores.append(pair)
            bound = max(bound, found)
        for _ in range(10):
            point = inside(cone.shape, rng)
            cost = 0
            for a, b in pairwise(proof.offsets.tolist()):
                own = [sum(x * y for x, y in zip(row, point, strict=True)) for row in proof.whole[a:b]]
                best = [proof.worth[0][a + k] for k, value in enumerate(own) if value == max(own)]
                cost += max(best)  # where hypotheses tie, the lemma speaks of none of them
            assert bound <= cost
    assert min(taken, refused) > 100


@pytest.mark.parametrize("scale", [1.0, 2.0**40, 0.3])
def test_conflicts_are_found_whatever_losses_are_worth(tmp_path: Path, scale: float) -> None:
    """Steps beyond the core's whole numbers are divided first: 0.3 times a loss has no small common unit."""
    nbest = random_nbest(3, n_lists=40, n_features=3, longest=6)
    nbest = NBest(nbest.features, nbest.offsets, np.round(nbest.statistics * 10) * scale)
    path = tmp_path / "c.json"
    write_certificate(path, nbest, lpmert.minimize(nbest))
    assert verify(path, nbest).proved
    assert len(leaves(json.loads(path.read_text()))) > 10
