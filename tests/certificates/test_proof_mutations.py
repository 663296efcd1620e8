"""Proofs that were changed at random never show what is false: a bound above the least loss, or one of other lists."""

import json
import random
from copy import deepcopy
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Document, document, layout
from test_certificate_fuzz import certificate, exact_losses

import lpmert
from lpmert import CertificateError, verify
from lpmert.model.nbest import NBest

ADDITIVE = ("boxes", "few boxes", "small boxes", "selections", "pairs")
"""Bases whose loss is a sum, so that a certificate has one number more to be wrong."""

TRIED = 100


@cache
def claims(name: str) -> tuple[Document, ...]:
    """Headers that claim for weights that are not the best that nothing undercuts them: false, and nothing else is."""
    nbest, text = certificate(name)
    header: Document = {key: value for key, value in json.loads(text).items() if key != "tree"}
    rng = np.random.default_rng(5)
    found: dict[Fraction, Document] = {}
    for weights in rng.normal(size=(200, nbest.n_features)).tolist():
        loss = exact_losses(nbest, weights)
        if loss > Fraction(header["bound"]):
            named = dict(zip(nbest.names, (weight.hex() for weight in weights), strict=True))
            found.setdefault(loss, {**header, "loss": str(loss), "bound": str(loss), "weights": named})
    return tuple(found[loss] for loss in sorted(found)[:6])


def numbers(value: Any) -> list[tuple[Any, Any]]:
    """The places of whole numbers inside a record."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    inner = [place for key in keys for place in numbers(value[key])]
    return inner + [(value, key) for key in keys if type(value[key]) is int]


def changed(rng: random.Random, tree: list[Any]) -> list[Any]:
    """A tree with some records dropped, doubled or exchanged, cores of others added, or numbers changed."""
    tree = deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        at, other = rng.randrange(len(tree)), rng.randrange(len(tree))
        match rng.randrange(7):
            case 0 if len(tree) > 1:
                del tree[at]
            case 1:
                tree.insert(at, deepcopy(tree[other]))
            case 2:
                tree[at] = deepcopy(tree[other])
            case 3 | 4:
                if places := numbers(tree[at]):
                    owner, key = rng.choice(places)
                    owner[key] = rng.choice((owner[key] + 1, owner[key] - 1, -owner[key], 0, 1, 2, 3, 7, 1000))
            case 5:
                if "cores" in tree[other]:
                    tree[at].setdefault("cores", []).extend(deepcopy(tree[other]["cores"]))
            case 6:
                rng.shuffle(tree[at].get("cores", []))
                tree[at].get("cores", [])[:] = tree[at].get("cores", []) * 2
    return tree


@pytest.mark.parametrize("name", ADDITIVE)
def test_no_change_of_a_proof_shows_a_bound_above_the_least_loss(tmp_path: Path, name: str) -> None:
    nbest, text = certificate(name)
    path = tmp_path / "certificate.json"
    tree = json.loads(text)["tree"]
    assert len(claims(name)) >= 3
    reached = set()
    for seed in range(TRIED):
        rng = random.Random(f"{name} {seed}")
        path.write_text(layout({**rng.choice(claims(name)), "tree": changed(rng, tree)}))
        with pytest.raises(CertificateError) as caught:
            verify(path, nbest)
        reached.add(str(caught.value).split(":")[1])
    assert len(reached) > 1 or len(tree) < 5  # the claims are refused for their proof, not for their first line


@pytest.mark.parametrize("name", ADDITIVE)
def test_a_changed_proof_that_is_accepted_proves_the_least_loss(tmp_path: Path, name: str) -> None:
    nbest, text = certificate(name)
    found: Document = json.loads(text)
    path = tmp_path / "certificate.json"
    refused = 0
    for seed in range(TRIED):
        rng = random.Random(f"{name} {seed} true")
        path.write_text(layout({**found, "tree": changed(rng, found["tree"])}))
        try:
            assert verify(path, nbest).bound == Fraction(found["bound"])
        except CertificateError:
            refused += 1
    assert refused > TRIED / 2


@pytest.mark.parametrize("name", ADDITIVE)
def test_what_a_proof_shows_of_other_lists_is_true_of_these(tmp_path: Path, name: str) -> None:
    """The lists change in a few numbers, and the certificate names them: what is accepted, no weights undercut."""
    nbest, text = certificate(name)
    found: Document = json.loads(text)
    path = tmp_path / "certificate.json"
    accepted = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, *name.encode()])
        other = altered(nbest, rng)
        weights = [float.fromhex(weight) for weight in found["weights"].values()]
        try:
            loss = exact_losses(other, weights)
        except AssertionError:
            continue  # the weights tie hypotheses there
        claim = {"fingerprint": other.fingerprint, "loss": str(loss), "bound": str(loss)}
        path.write_text(layout({**found, **claim}))
        try:
            proved = verify(path, other)
        except CertificateError:
            continue
        accepted += 1
        best = lpmert.minimize(other).weights.tolist()
        for tried in (best, *rng.normal(size=(30, nbest.n_features)).tolist()):
            assert exact_losses(other, tried) >= proved.bound
    assert accepted >= 1


def altered(nbest: NBest, rng: np.random.Generator) -> NBest:
    """Lists with one to three losses or features changed, those of equal features alike."""
    features, losses = nbest.dense_features().copy(), nbest.statistics.copy()
    for _ in range(int(rng.integers(1, 4))):
        row = int(rng.integers(len(losses)))
        if rng.random() < 0.5:
            losses[row, 0] += float(rng.choice([-0.25, 0.25, 1.0]))
        else:
            same = (features == features[row]).all(axis=1)
            features[same, int(rng.integers(features.shape[1]))] += float(rng.normal())
    return NBest(features, nbest.offsets, losses, nbest.names)


def test_a_leaf_of_another_box_is_no_leaf_here(tmp_path: Path) -> None:
    """The cores of every leaf are put into the one before: what closes a box closes no other one by accident."""
    nbest, _ = certificate("boxes")
    found = document("boxes")
    leaves = [k for k, record in enumerate(found["tree"]) if "cores" in record]
    path = tmp_path / "certificate.json"
    lines = []
    for at, other in zip(leaves, [*leaves[1:], leaves[0]], strict=True):
        tree = deepcopy(found["tree"])
        tree[at] = {"cores": found["tree"][other]["cores"]}
        path.write_text(layout({**found, "tree": tree}))
        try:
            assert verify(path, nbest).proved
        except CertificateError as error:
            lines.append(int(str(error).split(":")[1]) - at - 2)
    assert set(lines) == {0}
    assert len(lines) > len(leaves) / 2
