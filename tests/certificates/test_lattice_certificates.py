"""Certificates of lattices and hypergraphs: what they prove, and that they break where lattices or claims change."""

import json
import random
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from graph_problems import Drawn, least_loss
from oracle import Lists, best_within
from test_certificate_fuzz import CHANGES

import lpmert
from lpmert import CertificateError, Lattices, Linear, MethodError, Region
from lpmert.certificates.check.lattices import lists_of, midpoint, orthants


def test_a_cosine_over_lattices_is_certified(tmp_path: Path) -> None:
    """The least loss is that of the lists of all paths, by enumeration."""
    proved, higher = 0, 0
    for seed in range(40):
        drawn = Drawn(seed, ("integers", "dyadic")[seed % 2], 2, 2 + seed % 2)
        if not drawn.searchable or len(drawn.paths(0)) * len(drawn.paths(1)) > 60:
            continue
        centre, cosine = np.random.default_rng(seed).normal(size=2 + seed % 2), 0.95
        region = Region(cosine=cosine, around=centre.tolist())
        lattices, path = drawn.lattices(), tmp_path / f"{seed}.json"
        lpmert.certify(lattices, lpmert.minimize(lattices, region=region), path, region=region)
        checked = lpmert.verify(path, lattices)
        features, offsets, losses = drawn.listed()
        lists = Lists(np.array(features, dtype=float), np.array(offsets), np.array(losses, dtype=float).reshape(-1))
        assert checked.loss == checked.bound == best_within(lists, centre, cosine)
        proved += 1
        higher += checked.loss > least_loss(drawn, [])
    assert proved > 5
    assert higher > 1


def test_changed_certificates_of_lattices_are_refused_or_still_true(tmp_path: Path) -> None:
    """Whatever is changed, nothing but `CertificateError` comes of it, and no bound above the optimum is accepted."""
    fixed = Linear({"feature1": 2.0, "feature3": -3.0}, 0, 0)
    regions = [None, Region(fixed={"feature1": 0.0}), Region(linear=[fixed]), Region(nonnegative=True)]
    outcomes: Counter[str] = Counter()
    for number, region in enumerate(regions):
        metric, path = ("wer", "chrf")[number % 2], tmp_path / f"{number}.json"
        drawn = next(
            one
            for one in (Drawn(seed, "integers", 2, 3) for seed in range(number, 80, 4))
            if one.searchable and 4 < len(one.paths(0)) * len(one.paths(1)) < 100
        )
        lattices = drawn.lattices()
        lpmert.certify(
            lattices, lpmert.minimize(lattices, metric=metric, region=region), path, metric=metric, region=region
        )
        proved, text = lpmert.verify(path, lattices, metric=metric), path.read_text(encoding="utf-8")
        for seed in range(60):
            rng = random.Random(f"{number} {seed}")
            path.write_bytes(rng.choice(CHANGES)(rng, json.loads(text)))
            try:
                found = lpmert.verify(path, lattices, metric=metric)
            except CertificateError:
                outcomes["refused"] += 1
            else:
                outcomes["true"] += 1
                assert found.bound <= proved.bound <= found.loss
    assert outcomes["refused"] > 150
    assert outcomes["true"] > 5


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"limits": [[]]}, "must have 2 numbers"),
        ({"limits": [["0x1p+0"]]}, "must have 2 numbers"),
        ({"limits": [["0x0p+0", "0x0p+0"]]}, "must have 2 numbers"),
        ({"equations": [["1", "0"], ["0", "1"]]}, "leave no weights"),
        ({"limits": [["0x1p+0", "0x0p+0"], ["-0x1p+0", "0x0p+0"]]}, "leave no weights"),
        ({"limits": [["0x1p+0", "0x0p+0"]], "equations": [["1", "0"]]}, "leave no weights"),
        ({"loss": "1" + 400 * "0"}, "weights lose 2, not 1"),
        ({"loss": "1"}, "weights lose 2, not 1"),
        ({"bound": "1"}, "is above|bound|loss"),
    ],
)
def test_claims_that_cannot_be_are_refused(changes: dict[str, object], why: str, proof: tuple[Lattices, Path]) -> None:
    lattices, path = proof
    path.write_text(_changed(path, changes), encoding="utf-8")
    with pytest.raises(CertificateError, match=why):
        lpmert.verify(path, lattices)


@pytest.mark.parametrize("ties", ["best", "worst"])
def test_another_rule_for_ties_proves_nothing_over_lattices(ties: str, tmp_path: Path) -> None:
    """Of the two paths the later one loses nothing: no proof may say that 1 is the least with the best of them."""
    lattices = Lattices([[1.0, 0.0], [1.0, 0.0]], [0, 2], [0, 0], [1, 1], ["b", "a"], ["a"])
    path = tmp_path / "proof.json"
    found = lpmert.minimize(lattices)
    assert found.loss == 1
    lpmert.certify(lattices, found, path)
    path.write_text(_changed(path, {"ties": ties}), encoding="utf-8")
    with pytest.raises(CertificateError, match="rule for ties"):
        lpmert.verify(path, lattices, ties=ties)


def _changed(path: Path, changes: dict[str, object]) -> str:
    """The text of a certificate whose header says something else."""
    first, *rest = path.read_text(encoding="utf-8").split("\n", 1)
    return "\n".join([json.dumps(_header(first) | changes)[:-1] + ', "tree": [', *rest])


def _header(text: str) -> dict[str, Any]:
    return dict(json.loads(text.partition("\n")[0].removesuffix(', "tree": [') + "}"))


def test_the_lists_of_a_certificate_hold_every_path_that_wins_somewhere() -> None:
    for seed in range(30):
        drawn = Drawn(seed, "dyadic", 1, 1 + seed % 3)
        if not any(drawn.paths(0)):
            continue
        features, offsets, _ = drawn.listed()
        winners = {tuple(float(x) for x in features[row]) for (row,) in oracle.attainable(features, offsets, [])}
        lists = lists_of(drawn.lattices(), "wer", [])
        assert winners <= {tuple(row) for row in lists.dense_features().tolist()}


@pytest.fixture
def proof(tmp_path: Path) -> tuple[Lattices, Path]:
    drawn = Drawn(3, "integers", 2, 2)
    lattices, path = drawn.lattices(), tmp_path / "proof.json"
    lpmert.certify(lattices, lpmert.minimize(lattices), path)
    return lattices, path


def test_a_certificate_does_not_hold_for_other_lattices(proof: tuple[Lattices, Path]) -> None:
    _, path = proof
    with pytest.raises(CertificateError, match="at the weights, paths of '0' tie"):
        lpmert.verify(path, Drawn(4, "integers", 2, 2).lattices())
    for metric in ("cer", "chrf"):
        with pytest.raises(CertificateError, match="weights lose"):
            lpmert.verify(path, proof[0], metric=metric)


def test_what_cannot_be_certified_is_said(proof: tuple[Lattices, Path], tmp_path: Path) -> None:
    lattices, _ = proof
    found = lpmert.minimize(lattices)
    with pytest.raises(MethodError, match="other lists"):
        lpmert.certify(Drawn(4, "integers", 2, 2).lattices(), found, tmp_path / "no.json")
    assert not (tmp_path / "no.json").exists()


def test_a_lattice_too_large_for_exact_arithmetic_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from lpmert.certificates.check import lattices as check

    monkeypatch.setattr(check, "_MOST_LABELS", 1)
    monkeypatch.setattr(check, "_MOST_CONES", 50)
    with pytest.raises(CertificateError, match="too large for a certificate"):
        lists_of(Drawn(3, "dyadic", 2, 2).lattices(), "wer", [])


def test_the_parts_of_a_cone_cover_it() -> None:
    """A point of the cone has non-negative shares in one of the two halves, whatever the edge."""
    rng = np.random.default_rng(0)
    rays = np.array([[3, 1, 0], [0, 5, -2], [1, 0, 4]], dtype=object)
    for p, q in combinations(range(3), 2):
        ray = midpoint(rays[p], rays[q])
        halves = []
        for replaced in (p, q):
            half = rays.copy()
            half[replaced] = ray
            halves.append(half.astype(float))
        for shares in rng.random((200, 3)):
            point = shares @ rays.astype(float)
            assert any((np.linalg.solve(half.T, point) >= -1e-9).all() for half in halves)


def test_orthants_are_all_there_and_their_rays_independent() -> None:
    found = list(orthants(3))
    assert len(found) == len({str(rays) for rays in found}) == 8
    assert all(abs(round(np.linalg.det(rays.astype(float)))) == 1 for rays in found)
