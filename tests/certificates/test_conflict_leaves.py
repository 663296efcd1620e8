"""Cones of a certificate closed by conflicts: what is charged is there, and every change of it is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Document, layout, random_nbest
from strategies import KINDS
from test_proof_cones import lists_and_cone

import lpmert
from lpmert import CertificateError, NBest, verify
from lpmert.certificates.check.selections import SelectionRules
from lpmert.certificates.write.certify import write_certificate
from lpmert.certificates.write.conflicts import conflicts_of


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[NBest, str]:
    """Lists whose certificate has cones that are closed by conflicts, and its text."""
    nbest = random_nbest(3, n_lists=40, n_features=3, longest=6)
    path = tmp_path_factory.mktemp("conflicts") / "c.json"
    write_certificate(path, nbest, lpmert.minimize(nbest), kind="cones")
    return nbest, path.read_text()


def leaves(found: Document) -> list[Any]:
    """The records that close a cone by conflicts alone: pairs of lists, one comparison each."""
    tree = found["tree"]
    return [
        after
        for before, after in pairwise(tree)
        if before == {"leaf": "selections"}
        and set(after) == {"cores"}
        and all(len(core) == 2 for core in after["cores"])
    ]


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
    line = record["cores"][0][0]
    line[1], line[2] = line[2], line[1]


def one_sided(record: Any) -> None:
    record["cores"][0].pop()


def multiplied(record: Any) -> None:
    line = record["cores"][0][0]
    line[3] = f"{int(line[3], 16) << 80:x}"


def of_another_list(record: Any) -> None:
    record["cores"][0][0][0] = (record["cores"][0][0][0] + 1) % 40


def repeated_instead_of_others(record: Any) -> None:
    record["cores"] = [record["cores"][0]] * len(record["cores"])


@pytest.mark.parametrize(
    "change", [dropped, turned_round, one_sided, multiplied, of_another_list, repeated_instead_of_others]
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


@pytest.mark.parametrize("kind", KINDS)
def test_no_choice_inside_a_cone_costs_less_than_its_conflicts_say(kind: str) -> None:
    rng = np.random.default_rng(0)
    for seed in range(700, 720):
        _, proof, cone = lists_and_cone(kind, seed, 8)
        target = cone.bound
        while target < cone.bound + 50 and (record := conflicts_of(proof, cone, target + 1)) is not None:
            target += 1
            rules = SelectionRules(proof, cone, target)
            bound, children = rules.check(rules.root, record)
            assert not children
            assert bound is None or bound >= target
        for _ in range(10):
            shares = rng.integers(1, 1000, len(cone.rays)).tolist()
            point = [sum(x * ray[d] for x, ray in zip(shares, cone.rays, strict=True)) for d in range(len(cone.rays))]
            cost = 0
            for a, b in pairwise(proof.offsets.tolist()):
                values = [
                    sum(Fraction(x) * y for x, y in zip(row, point, strict=True))
                    for row in proof.features[a:b].tolist()
                ]
                best = [proof.cost[a + k] for k, value in enumerate(values) if value == max(values)]
                cost += max(best)  # where hypotheses tie, the lemma speaks of none of them
            assert target <= cost
