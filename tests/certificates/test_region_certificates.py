"""Certificates within a cosine and equations: they prove the least loss inside, and nothing false is accepted."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import layout
from oracle import Lists, best_within
from problems import around, lists_in_a_cap, problem

import lpmert
from lpmert import CertificateError, Linear, Region, verify
from lpmert.certificates.check.lists import rows_with_limits
from lpmert.certificates.check.regions import basis_of, near
from lpmert.certificates.write.certify import write_certificate
from lpmert.errors import FloatArray

KINDS = ("boxes", "selections")


def certified(path: Path, lists: Lists, centre: FloatArray, cosine: float, kind: str | None) -> lpmert.Verified:
    region = Region(cosine=cosine, around=around(lists, centre))
    write_certificate(path, lists.nbest, lpmert.minimize(lists.nbest, region=region), region=region, kind=kind)
    return verify(path, lists.nbest)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, 48, 12))
def test_the_least_loss_within_the_cosine_is_proved(path: Path, first: int, kind: str) -> None:
    for seed in range(first, first + 12):
        lists, centre, cosine = lists_in_a_cap(seed)
        found = certified(path, lists, centre, cosine, kind)
        assert found.loss == found.bound == best_within(lists, centre, cosine)
        assert found.cosine == Fraction(cosine)
        assert found.around == list(around(lists, centre).values())
        assert "a cosine of" in str(found)


def test_better_weights_outside_are_cut_off_by_facets(path: Path) -> None:
    """The whole space has a lower loss, and a tree of boxes needs more than the half-space around the centre."""
    counts = []
    for seed in range(48):
        lists, centre, cosine = lists_in_a_cap(seed)
        if best_within(lists, centre, cosine) > lpmert.minimize(lists.nbest).loss:
            certified(path, lists, centre, cosine, "boxes")
            counts.append(len(json.loads(path.read_text())["facets"]))
    assert len(counts) > 10
    assert max(counts) > 2


def test_a_cosine_and_limits_are_certified_together(path: Path) -> None:
    proved = 0
    for seed in range(24):
        lists, centre, cosine = lists_in_a_cap(seed)
        region = Region(
            cosine=cosine,
            around=around(lists, centre),
            linear=[Linear({lists.nbest.names[0]: float(np.sign(centre[0]))}, lower=0)],
        )
        write_certificate(path, lists.nbest, lpmert.minimize(lists.nbest, region=region), region=region)
        found = verify(path, lists.nbest)
        proved += found.proved
        assert found.bound >= best_within(lists, centre, cosine)
        assert len(found.limits) == 1
    assert proved == 24


@pytest.mark.parametrize("equation", ["zero", "equal"])
def test_a_cosine_and_equations_are_certified_together(path: Path, equation: str) -> None:
    """The least loss is that of lists with one feature less, in coordinates of which the cosine is taken alike."""
    proved, higher = 0, 0
    for seed in range(60):
        lists, centre, _ = lists_in_a_cap(seed)
        width = len(centre)
        if width < 2:
            continue
        first, second = lists.nbest.names[:2]
        terms = {first: 1.0} if equation == "zero" else {first: 1.0, second: -1.0}
        turned = np.eye(width)[:, 1:]
        if equation == "equal":
            turned[:2, 0] = np.sqrt(0.5)
        left = centre @ turned
        cosine = round(0.9 * float(np.linalg.norm(left) / np.linalg.norm(centre)), 3)
        region = Region(cosine=cosine, around=around(lists, centre), linear=[Linear(terms, lower=0, upper=0)])
        write_certificate(path, lists.nbest, lpmert.minimize(lists.nbest, region=region), region=region)
        found = verify(path, lists.nbest)
        other = Lists(lists.features @ turned, lists.offsets, lists.losses)
        least = best_within(other, left, cosine * float(np.linalg.norm(centre) / np.linalg.norm(left)))
        assert found.loss == found.bound == least
        assert (len(found.equations), found.cosine) == (1, Fraction(cosine))
        proved += 1
        higher += least > lpmert.minimize(other.nbest).loss
    assert proved > 20
    assert higher > 5


def test_being_near_is_decided_exactly() -> None:
    """(3, 4) and (1, 0) have the cosine 3/5."""
    first, second = [Fraction(3), Fraction(4)], [Fraction(1), Fraction(0)]
    step = Fraction(1, 10**30)
    assert near(first, second, Fraction(9, 25))
    assert not near(first, second, Fraction(9, 25), strictly=True)
    assert near(first, second, Fraction(9, 25) - step, strictly=True)
    assert not near(first, second, Fraction(9, 25) + step)
    assert not near(first, [Fraction(-1), Fraction(0)], Fraction(0))
    assert not near(first, [Fraction(4), Fraction(-3)], Fraction(0))


@pytest.mark.parametrize("kind", ["boxes", "selections"])
def test_no_change_of_facets_shows_a_bound_above_the_least_loss(path: Path, kind: str) -> None:
    """Certificates of a smaller region, rewritten to claim a wider one with a lower optimum, are all refused."""
    tried = 0
    for seed in range(48):
        lists, centre, cosine = lists_in_a_cap(seed)
        wider = 0.5 * cosine
        if best_within(lists, centre, wider) == best_within(lists, centre, cosine):
            continue
        certified(path, lists, centre, cosine, kind)
        found = json.loads(path.read_text())
        own: list[Any] = found.pop("facets", [])
        tree = {"tree": found.pop("tree")}
        for facets in (own, own[:1], [], own[::-1]):
            named = {"facets": facets} if facets else {}
            path.write_text(layout({**found, "cosine": str(Fraction(wider)), **named, **tree}))
            with pytest.raises(CertificateError):
                verify(path, lists.nbest)
            tried += 1
    assert tried > 8


def fixed_to_zero(path: Path) -> tuple[lpmert.NBest, dict[str, object]]:
    """Lists and the certificate of the least loss where one weight is 0 and another twice a third."""
    for seed in range(100):
        given = problem("floats", "small", seed)
        if given.nbest.n_features < 4 or given.nbest.n_hypotheses < 12:
            continue
        names = given.nbest.names
        region = lpmert.Region(
            fixed={names[1]: 0.0}, linear=[lpmert.Linear({names[2]: 1.0, names[3]: -2.0}, lower=0.0, upper=0.0)]
        )
        result = lpmert.minimize(given.nbest, metric=given.metric, region=region)
        write_certificate(path, given.nbest, result, metric=given.metric, region=region, kind="boxes")
        return given.nbest, json.loads(path.read_text())
    raise AssertionError("no problem of four features")


def test_changed_equations_are_refused(path: Path) -> None:
    nbest, found = fixed_to_zero(path)
    assert verify(path, nbest, metric=None if nbest.statistics.shape[1] == 1 else "loss").equations
    equations = found["equations"]
    assert isinstance(equations, list)
    for changed in ([], equations[:1], [equations[0][:-1], equations[1]], [[1.0] * 4], ["1"], None, [["1/0"] * 4]):
        path.write_text(layout({**found, "equations": changed}))
        with pytest.raises(CertificateError):
            verify(path, nbest)


def test_weights_off_the_equations_are_refused(path: Path) -> None:
    nbest, found = fixed_to_zero(path)
    weights = found["weights"]
    assert isinstance(weights, dict)
    weights[nbest.names[1]] = (1.0).hex()
    path.write_text(layout(found))
    with pytest.raises(CertificateError, match="do not fulfil equation 0"):
        verify(path, nbest)


def test_each_equation_sets_the_last_weight_that_it_can() -> None:
    one = Fraction(1)
    basis, free = basis_of([[one, one, one, one], [one, -one, one, one], [2 * one, 0 * one, 2 * one, 2 * one]], 4)
    # The second less the first is 2 w1 = 0, and w3 = -w0 - w2 is left.
    assert free == [0, 2]
    assert basis.T.tolist() == [[1, 0, 0, -1], [0, 0, 1, -1]]


def test_limits_are_counted_beside_equations(path: Path) -> None:
    nbest, found = fixed_to_zero(path)
    assert "within 2 equations" in str(verify(path, nbest))
    assert found["limits"] == []


def test_what_equations_leave_is_exact_where_doubles_are_not() -> None:
    """The second weight is -1e-400 times the first: hypotheses that doubles cannot tell apart stay two."""
    nbest = lpmert.NBest([[1.0, 2.0], [1.0, 5.0]], [0, 2], [0.0, 1.0])
    rows, _, _ = rows_with_limits(nbest, [], [[Fraction(1, 10**400), Fraction(1)]])
    assert [row[0] - 10**400 for row in rows.tolist()] == [-2, -5]
