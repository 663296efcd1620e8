from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from late import Late

from lpmert.errors import DataError
from lpmert.model.converters import from_choices, from_classification, from_groups
from lpmert.model.nbest import NBest


def loss_of(nbest: NBest, weights: np.ndarray) -> float:
    """Return the loss of decoding each list with the first hypothesis of the highest score."""
    scores = nbest.dense_features() @ weights
    lists = zip(nbest.offsets[:-1].tolist(), nbest.offsets[1:].tolist(), strict=True)
    return float(sum(nbest.statistics[start + scores[start:end].argmax(), 0] for start, end in lists))


@given(st.data())
def test_classification_loss_counts_wrong_signs_with_ties_negative(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    numbers = st.integers(-2, 2)
    features = np.array(data.draw(st.lists(st.tuples(numbers, numbers), min_size=n, max_size=n)), dtype=float)
    labels = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    weights = np.array(data.draw(st.tuples(numbers, numbers, numbers)), dtype=float)
    said_positive = features @ weights[:2] + weights[2] > 0
    assert loss_of(from_classification(features, labels), weights) == (said_positive != labels).sum()
    said_positive = features @ weights[:2] > 0
    nbest = from_classification(features, labels, intercept=False)
    assert loss_of(nbest, weights[:2]) == (said_positive != labels).sum()


def test_classification_names_the_intercept_last() -> None:
    frame = Late("pandas").DataFrame({"price": [1, 2], "km": [3, 4]})
    assert from_classification(frame, [1, 0]).names == ("price", "km", "intercept")
    assert from_choices(frame, cases=["Ann", "Ann"], chosen=[0, 1]).names == ("price", "km")
    assert from_classification([[1, 2]], [1]).names == ("feature1", "feature2", "intercept")
    assert from_classification([[1, 2]], [1], names=["a", "b"]).names == ("a", "b", "intercept")
    assert from_classification([[1, 2]], [1], names=["a", "b"], intercept=False).names == ("a", "b")


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1, 0, 1],
        [1, -1, 1],
        [1.0, -1.0, 1.0],
        [7, 3, 7],
        ["yes", "no", "yes"],
        np.array([2, 1, 2], dtype=np.uint8),
    ],
)
def test_larger_label_is_positive(labels: object) -> None:
    nbest = from_classification([[1.0], [2.0], [3.0]], labels)
    assert nbest.statistics[:, 0].tolist() == [1, 0, 0, 1, 1, 0]
    assert nbest.dense_features()[::2].tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(("label", "losses"), [(True, [1, 0]), (0, [0, 1]), (1, [1, 0]), (-1, [0, 1])])
def test_one_usual_label_is_enough(label: int, losses: list[int]) -> None:
    assert from_classification([[1.0]], [label]).statistics[:, 0].tolist() == losses


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([[1.0], [2.0], [3.0]], [0, 1, 2], "labels must have two values, not 3"),
        ([[1.0], [2.0]], [5, 5], "labels must have two values, not 1"),
        ([[1.0], [2.0]], ["a", "a"], "labels must have two values, not 1"),
        ([[1.0], [2.0]], [0, np.nan], r"labels has an entry that is not finite: row 1"),
        ([[1.0], [2.0]], [0], r"labels must have shape \(2,\)"),
        ([[1.0], [2.0]], [[0], [1]], r"labels must have shape \(2,\)"),
        ([1.0, 2.0], [0, 1], "features"),
        (np.zeros((0, 2)), [], "features"),
        ([["a"], ["b"]], [0, 1], "features must be real numbers"),
        ([[1.0], [np.inf]], [0, 1], r"list '1', hypothesis 1 \(from 0\), feature 'feature1': inf"),
    ],
)
def test_unusable_classification_data_are_refused(features: object, labels: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_classification(features, labels)


def test_names_must_fit_the_features() -> None:
    for names, message in (
        (["a"], "names has 1 entries; 2 are needed"),
        ("ab", "names must be a sequence, not 'ab'"),
        ({"a", "b"}, "names must be a sequence, not a set"),
    ):
        with pytest.raises(DataError, match=message):
            from_classification([[1, 2]], [1], names=names)
    with pytest.raises(DataError, match="'intercept' twice"):
        from_classification([[1, 2]], [1], names=["a", "intercept"])


def test_choices_keep_alternatives_in_order() -> None:
    features = [[1, 0], [2, 0], [0, 1], [5, 5], [6, 6]]
    nbest = from_choices(features, ["x", "x", "x", "y", "y"], [False, True, False, True, False], names=["a", "b"])
    assert nbest.names == ("a", "b")
    assert nbest.list_ids == ("x", "y")
    assert nbest.offsets.tolist() == [0, 3, 5]
    assert nbest.dense_features().tolist() == features
    assert nbest.statistics[:, 0].tolist() == [1, 0, 1, 0, 1]
    assert loss_of(nbest, np.array([1.0, 0.0])) == 1
    assert loss_of(nbest, np.array([0.0, 0.0])) == 1


@pytest.mark.parametrize(
    ("cases", "chosen", "message"),
    [
        ([1, 1, 2, 2], [1, 0, 0, 0], "case '2' has 0 chosen alternatives"),
        ([1, 1, 2, 2], [1, 1, 0, 1], "case '1' has 2 chosen alternatives"),
        ([1, 2, 1, 2], [1, 1, 0, 0], r"case '1' comes back in row 2 \(from 0\) after it began in row 0"),
        ([1, 1, 2], [1, 0, 1], r"cases must have shape \(4,\)"),
        ([1, 1, 2, 2], [1, 0, 1], r"chosen must have shape \(4,\)"),
        ([1, 1, 2, 2], [1, 0, 2, 0], "chosen must hold only true and false"),
        ([1, 1, 2, 2], ["1", "0", "1", "0"], "chosen must hold only true and false"),
        ([1, 1, np.nan, 2], [1, 0, 1, 0], "cases has an entry that is not finite: row 2"),
    ],
)
def test_unusable_choices_are_refused(cases: object, chosen: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_choices([[1.0], [2.0], [3.0], [4.0]], cases, chosen)


@pytest.mark.parametrize("groups", [["1", 1], np.array(["1", 1], dtype=object)])
def test_an_id_is_a_string_or_a_number_not_both(groups: Any) -> None:
    with pytest.raises(DataError, match="groups has '1' as a string and as a number; write all ids alike"):
        from_groups([[1], [2]], [0, 1], groups)
