"""Numbers of numpy are taken like those of Python, booleans nowhere; weights by name like those in order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lpmert
from lpmert import DataError, LpmertError, MethodError, NBest, Region, RegionError

LISTS = NBest(
    features=[[1, 0], [0, 1], [2, 1], [1, 3], [0, 0], [1, -1]],
    offsets=[0, 2, 4, 6],
    statistics=[[0], [1], [1], [0], [2], [1]],
    names=["am", "lm"],
)
WEIGHTS = {"lm": -2.0, "am": 0.5}
IN_ORDER = [0.5, -2.0]

NUMPY = {
    "seed": np.int64(3),
    "jobs": np.int32(1),
    "node_limit": np.uint8(200),
    "memory_limit": np.int64(1 << 20),
    "time_limit": np.float32(60),
    "gap": np.float64(0.0),
    "target": np.int64(-1),
}


@pytest.mark.parametrize("name", NUMPY)
def test_a_number_of_numpy_is_that_of_python(name: str) -> None:
    given = NUMPY[name]
    result = lpmert.minimize(LISTS, **{name: given})
    same = lpmert.minimize(LISTS, **{name: given.item()})
    assert (result.loss, result.signature) == (same.loss, same.signature)
    assert type(result.seed) is int
    assert lpmert.check(LISTS, IN_ORDER, **{name: given}).optimum.loss == result.loss
    assert result.to_json()


@pytest.mark.parametrize("boolean", [True, np.True_], ids=["bool", "numpy"])
@pytest.mark.parametrize("name", NUMPY)
def test_a_boolean_is_no_number(name: str, boolean: object) -> None:
    with pytest.raises(MethodError, match=name):
        lpmert.minimize(LISTS, **{name: boolean})


@pytest.mark.parametrize("name", [name for name in NUMPY if name not in ("seed", "jobs")])
def test_none_is_no_limit(name: str) -> None:
    assert lpmert.minimize(LISTS, **{name: None}).status.proved


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("target", [float("nan")]),
        ("gap", [1j, -0.1]),
        ("time_limit", ["1", -1, float("nan")]),
        ("node_limit", [1.5, -1]),
        ("memory_limit", [0]),
        ("jobs", [0]),
        ("seed", [1.0, -1]),
    ],
)
def test_what_is_no_such_number_is_named(name: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(MethodError, match=f"{name} must be a"):
            lpmert.minimize(LISTS, **{name: value})


def test_a_comparison_takes_numbers_of_numpy() -> None:
    numbers = {"seeds": np.int64(2), "seed": np.int8(1), "replications": np.int64(10), "jobs": np.int64(1)}
    found = lpmert.compare(LISTS, ["random"], **numbers)
    same = lpmert.compare(LISTS, ["random"], **{name: int(value) for name, value in numbers.items()})
    assert found.signature == same.signature
    assert [run.loss for run in found["random"].runs] == [run.loss for run in same["random"].runs]
    for name in numbers:
        with pytest.raises(MethodError, match=name):
            lpmert.compare(LISTS, ["random"], **{name: True})


@dataclass(frozen=True)
class EntryPoint:
    """A function that takes weights, and what of its answer hangs on them."""

    call: Callable[[Any], Any]
    error: type[LpmertError] = DataError


ENTRY_POINTS = {
    "check": EntryPoint(lambda weights: lpmert.check(LISTS, weights).weights.tolist()),
    "minimize": EntryPoint(lambda weights: lpmert.minimize(LISTS, initial_weights=weights).weights.tolist()),
    "evaluate": EntryPoint(lambda weights: lpmert.Problem(LISTS).evaluate(weights).margin),
    "compare": EntryPoint(lambda weights: lpmert.compare(LISTS, [], weights={"x": weights})["x"].best.weights.tolist()),
    "callable": EntryPoint(
        lambda weights: lpmert.compare(LISTS, [], callables={"x": lambda *_: weights})["x"].best.weights.tolist()
    ),
    "start of a comparison": EntryPoint(
        lambda weights: lpmert.compare(LISTS, ["och"], initial_weights=weights)["och"].best.weights.tolist()
    ),
    "around": EntryPoint(
        lambda weights: lpmert.minimize(LISTS, region=Region(cosine=0.9, around=weights)).signature, RegionError
    ),
}


@pytest.mark.parametrize("entry", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_weights_are_taken_by_name_in_order_and_from_a_result(entry: EntryPoint) -> None:
    expected = entry.call(WEIGHTS)
    result = lpmert.minimize(LISTS)
    assert result.by_name == dict(zip(LISTS.names, result.weights.tolist(), strict=True))
    for given in (IN_ORDER, tuple(IN_ORDER), np.array(IN_ORDER), np.array(IN_ORDER, np.float32), [np.float64(0.5), -2]):
        assert entry.call(given) == expected
    assert entry.call(result) == entry.call(result.by_name) == entry.call(result.weights)


UNFIT: list[tuple[Any, str]] = [
    ({"am": 1.0}, "none for lm"),
    ({"am": 1.0, "lm": 1.0, "xx": 2.0}, "unknown features: xx"),
    ({"am": 1.0, "lm": "1"}, "'lm' has '1'"),
    ([1.0, True], "'lm' has True"),
    (np.array([True, False]), "'am' has"),
    ([1.0, float("nan")], "'lm' has nan"),
    ([1.0, 10**400], "'lm' has 1000"),
    ([1.0, 2.0, 3.0], "got shape"),
    (np.ones((2, 2)), "got shape"),
    (b"12", "by name; got b'12'"),
    (1.0, "by name; got 1.0"),
]


@pytest.mark.parametrize("entry", ENTRY_POINTS.values(), ids=ENTRY_POINTS)
def test_weights_that_do_not_fit_are_refused_with_what_is_wrong(entry: EntryPoint, subtests: pytest.Subtests) -> None:
    for weights, words in UNFIT:
        with subtests.test(words):
            with pytest.raises(entry.error, match="weights") as error:
                entry.call(weights)
            assert words in str(error.value)


def test_a_region_of_numpy_numbers_has_the_signature_of_pythons() -> None:
    regions = [
        Region(
            bounds={"am": (kind(0), kind(4))}, fixed={"lm": kind(2)}, linear=[lpmert.Linear({"am": kind(1)}, kind(-8))]
        )
        for kind in (int, float, np.float64, np.int32)
    ]
    (signature,) = {lpmert.Problem(LISTS, region=region).signature for region in regions}
    assert "numpy" not in signature
    assert "np." not in signature


def test_regions_around_weights_that_differ_in_their_last_digit_have_different_signatures() -> None:
    first, second = (
        lpmert.Problem(LISTS, region=Region(cosine=0.9, around=[one, 1.0])).signature
        for one in (0.1, np.nextafter(0.1, 1))
    )
    assert first != second
