"""Whatever a certificate's file holds, it is refused as such, or what it is found to prove is true."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import Document, assert_refused, base, document, layout
from problems import METRICS, Case
from searches import many_more

import lpmert
from lpmert import CertificateError, verify
from lpmert.cli.reports import verified_json
from lpmert.model.nbest import NBest

BASES = ("small boxes", "boxes", "selections", "pairs", "bleu boxes", "bleu selections", "f1")
LONGEST = 5.0  # seconds of processor time that no certificate of a few kilobytes may take

VALUES: tuple[Any, ...] = (
    *(True, False, None, 0, 1, -1, 2, 3.5, -0.0, 1e300, float("inf"), float("nan"), 10**18, 2**63, -(2**64), 10**400),
    *("", "0", "1", "-1", "7/2", "1/0", "0x1p+5", "0x1p+9999", "-0x1p-1080", "nan", "inf", "1e999999", "ff", "\x00"),
    *("9" * 999, "9" * 1000, "-" + "9" * 1000, "1/" + "9" * 1000, "9" * 1001, "f" * 5000, "\ud800", "\u0661"),
    *([], {}, [[]], [0, 1], [0, 0, 1, "1"], [0, 1, 1], {"cores": [[0, 1, 1]]}, {"branch": 0}, {"split": [0, 1]}),
    {"split": [1]},
)
PIECES = (
    *(b"1e999999", b"-1e999999", b"NaN", b"-Infinity", b"9" * 4301, b"-" + b"9" * 5000, b"[" * 100_000, b"01"),
    *(b'{"a":' * 50_000, b'"\\ud800"', b"]}", b"\n]}\n", b",", b"{},", b', "tree": [', b"//", b"'", b"1_000", b"0x1"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\x00", b"\x1f\x8b\x08", b"(\xb5/\xfd"),
    b" ",
)
ADDITIVE = ("boxes", "few boxes", "small boxes", "selections", "pairs")
"""Bases whose loss is a sum, so that a certificate has one number more to be wrong."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All containers inside a value, each with one of its keys."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def change_values(rng: random.Random, document: Document) -> bytes:
    """Values are replaced, moved, doubled, dropped, or become other numbers."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        owner, key = rng.choice(list(places(document)))
        other, its = rng.choice(list(places(document)))
        match rng.randrange(6):
            case 0:
                owner[key] = rng.choice(VALUES)
            case 1:
                owner[key], other[its] = deepcopy([other[its], owner[key]])
            case 2 if isinstance(owner, list):
                owner.insert(key, deepcopy(owner[key]))
            case 3 if len(owner) > 1:
                del owner[key]
            case 4 if type(owner[key]) is int:
                owner[key] += rng.choice((-1, 1, 2, 1 << 31, 1 << 64))
            case 5 if isinstance(text := owner[key], str):
                at = rng.randrange(len(text) + 1)
                owner[key] = text[:at] + rng.choice(("", *"019-/f.px")) + text[at + rng.randrange(2) :]
        if not isinstance(document.get("tree"), list):
            break
    tree = document.get("tree")
    return layout({**document, "tree": tree if isinstance(tree, list) else [tree]}).encode("utf-8", "surrogatepass")


def change_text(rng: random.Random, document: Document) -> bytes:
    """Pieces come in, for a digit or anywhere; bits flip; lines and keys come twice or elsewhere; or the end is cut."""
    data = bytearray(layout(document).encode())
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(7):
        case 0:
            del data[rng.randrange(len(data)) :]
        case 1:
            place = rng.choice([place for place, byte in enumerate(data) if chr(byte).isdigit()])
            data[place : place + 1] = rng.choice(PIECES)
        case 2:
            for _ in range(rng.choice((1, 1, 2, 8))):
                place = rng.randrange(len(data))
                data[place : place + rng.choice((0, 1, 3, 20))] = rng.choice((b"", *PIECES))
        case 3:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 4:
            lines[at], lines[other] = lines[other], lines[at]
            return b"\n".join(lines)
        case 5:
            return b"\n".join([*lines[:at], lines[other], *lines[at:]])
        case 6:
            entries = lines[at].split(b", ")
            entries.insert(rng.randrange(len(entries) + 1), rng.choice(entries))  # among others, keys come twice
            return b"\n".join([*lines[:at], b", ".join(entries), *lines[at + 1 :]])
    return bytes(data)


def change_tree(rng: random.Random, document: Document) -> bytes:
    """Records are dropped, doubled or exchanged, get cores of others, or have other numbers."""
    tree = document["tree"]
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
                if numbers := [(owner, key) for owner, key in places(tree[at]) if type(owner[key]) is int]:
                    owner, key = rng.choice(numbers)
                    number = owner[key]
                    owner[key] = rng.choice((number + 1, number - 1, -number, number << 80, 0, 1, 2, 3, 7, 1000))
            case 5:
                if "cores" in tree[other]:
                    tree[at].setdefault("cores", []).extend(deepcopy(tree[other]["cores"]))
            case 6:
                rng.shuffle(tree[at].get("cores", []))
                tree[at].get("cores", [])[:] = tree[at].get("cores", []) * 2
    return layout(document).encode()


def invent(rng: random.Random, document: Document) -> bytes:
    """A certificate that keeps of a true one at most its header, with a tree out of nothing."""
    words = ("split", "take", "out", "known", "cores", "branch", "faith")

    def value(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.4:
            return rng.choice(VALUES) if rng.random() < 0.2 else rng.choice((0, 1, 2, "1", "costs"))
        if rng.random() < 0.3:
            return {rng.choice(words): value(depth - 1) for _ in range(rng.randrange(3))}
        return [value(depth - 1) for _ in range(rng.randrange(4))]

    likely = ({}, {"cores": [[0, 1, 1, 1, 1, 1]]}, {"split": [0, 1]}, {"split": [1, 0]}, {"branch": 0})
    document["tree"] = [
        rng.choice(likely) if rng.random() < 0.7 else {rng.choice(words): value(3)} for _ in range(rng.randrange(12))
    ]
    for key in rng.sample(sorted(document), rng.randrange(3)):
        if key != "tree":
            document[key] = value(3)
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(200))
    return layout(document).encode("utf-8", "surrogatepass")


Change = Callable[[random.Random, Document], bytes]
CHANGES: tuple[Change, ...] = (change_values, change_text, change_tree)


def exact_losses(nbest: NBest, weights: list[float]) -> Fraction:
    """What weights lose, in fractions but for BLEU; of hypotheses that tie all must have the same statistics."""
    counts = nbest.statistics.tolist()
    loss = {1: None, 9: METRICS["bleu"][1]}.get(len(counts[0]), METRICS["f1"][1])
    values = [tuple(map(Fraction, row)) for row in counts]
    case = Case("", nbest.dense_features(), nbest.offsets.tolist(), nbest.statistics, values, loss=loss)
    found, clear = case.attained(weights)
    assert clear
    return Fraction(found)


def check_claims(nbest: NBest, name: str, found: lpmert.Verified) -> None:
    """Hold accepted claims to what is known of the lists: the intact certificate's loss is their least."""
    least = Fraction(document(name)["bound"])
    rounded = 1e-14 if nbest.statistics.shape[1] == 9 else 0.0
    assert abs(found.loss - exact_losses(nbest, list(found.weights.values()))) <= rounded
    assert found.bound <= found.loss
    if not found.limits:
        assert found.bound == least
        return
    rng = np.random.default_rng(0)
    limits = np.array(found.limits)
    tried = rng.normal(size=(2000, nbest.n_features)) * rng.choice([1e-3, 1.0, 1e3], size=(2000, nbest.n_features))
    for weights in tried[(tried @ limits.T > 1e-6).all(axis=1)][:100]:
        assert exact_losses(nbest, weights.tolist()) >= found.bound - Fraction(rounded)


def fuzz(path: Path, count: int, seed: int, changes: tuple[Change, ...]) -> Counter[str]:
    """Change certificates and check them; return how many were refused and accepted. Reruns give the same files."""
    outcomes: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")
        name = rng.choice(BASES)
        nbest = base(name)[0]
        data = rng.choice(changes)(rng, document(name))
        path.write_bytes(data)
        started = time.process_time()
        try:
            found = verify(path, nbest)
        except CertificateError as error:
            outcomes["refused"] += 1
            outcomes["told at length"] += len(str(error)) > 1000 + len(str(path))
        except Exception as error:
            raise AssertionError(f"{seed}:{number} of {name} raised {error!r}; the file is {data[:2000]!r}") from error
        else:
            outcomes["accepted"] += 1
            check_claims(nbest, name, found)
            assert json.loads(verified_json(found))["proved"] == found.proved
        assert time.process_time() - started < LONGEST, f"{seed}:{number} of {name}"
    assert not outcomes["told at length"]
    return outcomes


@pytest.mark.parametrize(("count", "seed"), [(800, 1), *(many_more(10_000, seed) for seed in range(10, 20))])
def test_changed_certificates_are_mostly_refused_and_the_others_true(path: Path, count: int, seed: int) -> None:
    outcomes = fuzz(path, count, seed, CHANGES)
    assert outcomes["refused"] > 0.75 * count
    assert outcomes["accepted"] > 5  # blanks, digits of weights, parts that nothing rests on


@pytest.mark.parametrize(("count", "seed"), [(500, 2), many_more(10_000, 3)])
def test_invented_certificates_are_refused(path: Path, count: int, seed: int) -> None:
    assert fuzz(path, count, seed, (invent,))["refused"] > 0.9 * count


@cache
def claims(name: str) -> tuple[Document, ...]:
    """Headers that claim for weights that are not the best that nothing undercuts them: false, and nothing else is."""
    nbest, found = base(name)[0], document(name)
    losses: dict[Fraction, Document] = {}
    for weights in np.random.default_rng(5).normal(size=(200, nbest.n_features)).tolist():
        loss = exact_losses(nbest, weights)
        if loss > Fraction(found["bound"]):
            named = dict(zip(nbest.names, (weight.hex() for weight in weights), strict=True))
            losses.setdefault(loss, {**found, "loss": str(loss), "bound": str(loss), "weights": named})
    return tuple(losses[loss] for loss in sorted(losses)[:6])


@pytest.mark.parametrize("name", ADDITIVE)
def test_no_change_of_a_proof_shows_a_bound_above_the_least_loss(path: Path, name: str) -> None:
    assert len(claims(name)) >= 3
    reached = set()
    for seed in range(100):
        rng = random.Random(f"{name} {seed}")
        content = change_tree(rng, deepcopy(rng.choice(claims(name))))
        reached.add(assert_refused(path, base(name)[0], content=content).split(":")[1])
    assert len(reached) > 1 or len(document(name)["tree"]) < 5  # they are refused for their proof, not their first line


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


@pytest.mark.parametrize("name", ADDITIVE)
def test_what_a_proof_shows_of_other_lists_is_true_of_these(path: Path, name: str) -> None:
    """The lists change in a few numbers, and the certificate names them: what is accepted, no weights undercut."""
    nbest, found = base(name)[0], document(name)
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
