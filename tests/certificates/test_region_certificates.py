"""Certificates within equations and limits: what changes them is refused, and a cosine is."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from certificates import layout
from problems import problem

import lpmert
from lpmert import CertificateError, MethodError, Region, verify
from lpmert.certificates.check.lists import rows_with_limits
from lpmert.certificates.check.regions import basis_of
from lpmert.certificates.write.certify import write_certificate


def test_a_cosine_is_refused_before_anything_else(path: Path) -> None:
    """There is no result, even."""
    nbest = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]], names=["a", "b"])
    for cosine in (0.5, -0.5):
        with pytest.raises(MethodError, match="cover no cosine; search a region of bounds or linear limits instead"):
            lpmert.certify(nbest, None, path, region=Region(cosine=cosine, around={"a": 1, "b": 0}))  # type: ignore[arg-type]
    assert not path.exists()


def test_a_cosine_of_0_is_a_limit(path: Path) -> None:
    """The second hypothesis is best where b is above a, which the half-space leaves out."""
    nbest = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[1], [0]], names=["a", "b"])
    region = Region(cosine=0.0, around={"a": 1, "b": -1})
    lpmert.certify(nbest, lpmert.minimize(nbest, region=region), path, region=region)
    found = verify(path, nbest)
    (limit,) = found.limits
    assert (found.loss, found.bound, limit[0]) == (1, 1, -limit[1])
    assert lpmert.minimize(nbest).loss == 0


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
