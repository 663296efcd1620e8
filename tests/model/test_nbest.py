import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from commands import python
from hypothesis import given, strategies as st
from late import Late
from oracle import decoded_loss
from refusals import refused
from scipy import sparse

from lpmert.errors import DataError
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.judgments import from_choices, from_classification, from_groups
from lpmert.model.nbest import NBest

FEATURES = np.array([[1.0, 0.0], [0.5, 2.0], [3.0, 1.0], [0.0, -1.0], [4.0, 4.0]])
OFFSETS = np.array([0, 2, 5])
LOSS = np.array([0.0, 1.0, 2.0, 0.0, 1.0])


def small(**changes: object) -> NBest:
    given = {"features": FEATURES, "offsets": OFFSETS, "statistics": LOSS}
    return NBest(**{**given, "names": ["am", "lm"], "list_ids": ["a", "b"], **changes})


def contents(nbest: NBest) -> dict[str, list[tuple[object, ...]]]:
    """Return the hypotheses of each list as plain tuples, in order."""
    texts = nbest.texts or [""] * nbest.n_hypotheses
    rows = zip(nbest.dense_features().tolist(), nbest.statistics.tolist(), texts, strict=True)
    found: dict[str, list[tuple[object, ...]]] = {name: [] for name in nbest.list_ids}
    for number, (features, statistics, text) in zip(nbest.list_index.tolist(), rows, strict=True):
        found[nbest.list_ids[number]].append((tuple(features), tuple(statistics), text))
    return found


@st.composite
def nbests(draw: st.DrawFn, ids: st.SearchStrategy[list[str]]) -> NBest:
    list_ids = draw(ids)
    sizes = [draw(st.integers(1, 4)) for _ in list_ids]
    numbers = st.integers(-1, 1)
    features = [[draw(numbers), draw(numbers)] for _ in range(sum(sizes))]
    statistics = [draw(st.integers(0, 1)) for _ in features]
    texts = [draw(st.sampled_from(["x", "y"])) for _ in features]
    offsets = np.cumsum([0, *sizes])
    return NBest(np.array(features, dtype=float), offsets, statistics, list_ids=list_ids, texts=texts)


some_lists = nbests(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True))


def test_sizes_types_and_default_names() -> None:
    nbest = NBest(FEATURES.tolist(), OFFSETS.tolist(), [True, False, True, False, True])
    assert (nbest.n_lists, nbest.n_hypotheses, nbest.n_features, nbest.statistics.shape) == (2, 5, 2, (5, 1))
    assert (nbest.features.dtype, nbest.statistics.dtype, nbest.offsets.dtype) == (float, float, np.int64)
    assert (nbest.names, nbest.list_ids) == (("feature1", "feature2"), ("0", "1"))
    assert nbest.statistic_names == ("loss",)
    assert NBest(FEATURES.astype(int), OFFSETS, FEATURES).features.dtype == float
    assert NBest(FEATURES, OFFSETS, FEATURES).statistic_names == ("statistic1", "statistic2")
    assert nbest.list_index.tolist() == [0, 0, 1, 1, 1]
    assert nbest == nbest != NBest(FEATURES, OFFSETS, LOSS)
    assert repr(nbest) == "NBest(2 lists, 5 hypotheses, 2 features, 1 statistics)"


def test_arrays_are_copied_and_read_only() -> None:
    features = np.asfortranarray(FEATURES)
    loss = LOSS.copy()
    nbest = small(features=features, statistics=loss)
    features[0, 0] = loss[0] = 99
    assert features.flags.writeable
    assert (nbest.dense_features()[0, 0], nbest.statistics[0, 0]) == (1, 0)
    assert nbest.dense_features().flags.c_contiguous
    for array in (nbest.features, nbest.statistics, nbest.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        nbest.names = ()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2 * MAGNITUDE_LIMIT, -2 * MAGNITUDE_LIMIT])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_first_bad_feature_is_named(value: float, as_sparse: bool) -> None:
    features = FEATURES.copy()
    features[3, 1] = features[4, 0] = value
    with pytest.raises(DataError, match=r"list 'b', hypothesis 1 \(from 0\), feature 'lm'"):
        small(features=sparse.csr_matrix(features) if as_sparse else features)
    features[3, 1] = features[4, 0] = np.copysign(MAGNITUDE_LIMIT, value)
    assert (small(features=features).features == features).all()


def test_rows_of_selections_lists_and_features_are_taken_in_the_order_asked_for() -> None:
    assert NBest(np.eye(6), [0, 2, 5, 6], np.arange(6)).rows_of(np.array([1, 2, 0])).tolist() == [1, 4, 5]
    nbest = small(texts=list("vwxyz"))
    expected = contents(nbest)
    for lists in ([1], np.array([False, True]), slice(1, None), [-1]):
        assert contents(nbest.restrict(lists)) == {"b": expected["b"]}
    with pytest.raises(DataError, match="cannot choose these of 2 lists"):
        nbest.restrict([2])
    swapped, chosen = nbest.restrict([1, 0]), nbest.select_features(["lm", "am"])
    assert (swapped.list_ids, contents(swapped)) == (("b", "a"), expected)
    assert chosen.names == ("lm", "am")
    assert (chosen.features == FEATURES[:, ::-1]).all()


@given(some_lists, some_lists)
def test_merge_pools_lists_with_equal_ids(one: NBest, other: NBest) -> None:
    merged = one.merge(other)
    mine, others = contents(one), contents(other)
    assert merged.list_ids == (*one.list_ids, *(name for name in other.list_ids if name not in mine))
    assert contents(merged) == {name: mine.get(name, []) + others.get(name, []) for name in merged.list_ids}


@given(some_lists)
def test_deduplicate_keeps_the_first_of_each(nbest: NBest) -> None:
    expected = {name: list(dict.fromkeys(rows)) for name, rows in contents(nbest).items()}
    deduplicated = nbest.deduplicate()
    assert contents(deduplicated) == expected
    assert deduplicated.list_ids == nbest.list_ids
    assert nbest.merge(nbest).deduplicate().fingerprint == deduplicated.fingerprint


@given(some_lists)
def test_sparse_features_do_as_dense_ones(nbest: NBest) -> None:
    def as_sparse(dense: NBest) -> NBest:
        return dataclasses.replace(dense, features=sparse.csr_matrix(dense.features))

    thin = as_sparse(nbest)
    assert contents(thin) == contents(nbest)
    assert contents(thin.deduplicate()) == contents(nbest.deduplicate())
    assert contents(thin.merge(nbest)) == contents(nbest.merge(thin)) == contents(nbest.merge(nbest))
    assert contents(thin.restrict([-1])) == contents(nbest.restrict([-1]))
    assert contents(thin.select_features(["feature2"])) == contents(nbest.select_features(["feature2"]))
    assert not thin.features.data.flags.writeable
    assert not thin.dense_features().flags.writeable


def test_the_fingerprint_tells_apart_all_but_texts_the_layout_of_sparse_features_and_the_sign_of_0() -> None:
    data, rows, columns = [1.0, 2.0, 0.0, 3.0], [4, 0, 1, 0], [1, 1, 0, 1]
    layout = sparse.coo_array((data, (rows, columns)), shape=(5, 2))
    plain = sparse.csc_matrix(layout.toarray())
    assert small(features=layout).fingerprint == small(features=plain).fingerprint
    assert layout.nnz == 4  # the caller's matrix is as it was
    features = FEATURES.copy()
    features[0, 1] = -0.0
    base = small()
    assert len(base.fingerprint) == 64
    same = small(texts=list("vwxyz")), small(features=features), small()
    assert {one.fingerprint for one in same} == {base.fingerprint}
    features[4, 1] = np.nextafter(4.0, 5.0)
    changes: list[dict[str, object]] = [
        {"features": features}, {"offsets": [0, 3, 5]}, {"statistics": LOSS[::-1]}, {"names": ["am", "ctc"]},
        {"list_ids": ["a", "c"]}, {"statistic_names": ["errors"]}, {"list_ids": ["a", 'b", "c']},
    ]  # fmt: skip
    assert len({base.fingerprint, *(small(**one).fingerprint for one in changes)}) == 1 + len(changes)


def test_dense_data_does_not_load_scipy() -> None:
    code = (
        "import sys; from lpmert.model.nbest import NBest; nbest = NBest([[1.0], [2.0]], [0, 2], [0, 1]); "
        "nbest.merge(nbest).deduplicate().fingerprint; sys.exit('scipy' in sys.modules)"
    )
    assert python("-c", code).returncode == 0


@given(st.data())
def test_classification_loss_counts_wrong_signs_with_ties_negative(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    numbers = st.integers(-2, 2)
    features = np.array(data.draw(st.lists(st.tuples(numbers, numbers), min_size=n, max_size=n)), dtype=float)
    labels = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    weights = np.array(data.draw(st.tuples(numbers, numbers, numbers)), dtype=float)
    for own, intercept in ((weights, True), (weights[:2], False)):
        said_positive = features @ weights[:2] + intercept * weights[2] > 0
        nbest = from_classification(features, labels, intercept=intercept)
        assert decoded_loss(nbest, own) == (said_positive != labels).sum()


def test_classification_names_the_intercept_last() -> None:
    frame = Late("pandas").DataFrame({"price": [1, 2], "km": [3, 4]})
    assert from_classification(frame, [1, 0]).names == ("price", "km", "intercept")
    assert from_choices(frame, cases=["Ann", "Ann"], chosen=[0, 1]).names == ("price", "km")
    assert from_classification([[1, 2]], [1]).names == ("feature1", "feature2", "intercept")
    assert from_classification([[1, 2]], [1], names=["a", "b"]).names == ("a", "b", "intercept")
    assert from_classification([[1, 2]], [1], names=["a", "b"], intercept=False).names == ("a", "b")


@pytest.mark.parametrize(
    ("labels", "losses"),
    [
        *((labels, [1, 0, 0, 1, 1, 0]) for labels in ([True, False, True], [1, 0, 1], [1, -1, 1], [1.0, -1.0, 1.0])),
        *((labels, [1, 0, 0, 1, 1, 0]) for labels in ([7, 3, 7], ["yes", "no", "yes"], np.array([2, 1, 2], np.uint8))),
        *(([label], [1, 0]) for label in (True, 1)),  # one usual label is enough
        *(([label], [0, 1]) for label in (0, -1)),
    ],
)
def test_larger_label_is_positive(labels: list[object], losses: list[int]) -> None:
    nbest = from_classification([[1.0], [2.0], [3.0]][: len(labels)], labels)
    assert nbest.statistics[:, 0].tolist() == losses
    assert nbest.dense_features()[::2].tolist() == [[0, 0]] * len(labels)


def test_choices_keep_alternatives_in_order() -> None:
    features = [[1, 0], [2, 0], [0, 1], [5, 5], [6, 6]]
    nbest = from_choices(features, ["x", "x", "x", "y", "y"], [False, True, False, True, False], names=["a", "b"])
    assert (nbest.names, nbest.list_ids, nbest.offsets.tolist()) == (("a", "b"), ("x", "y"), [0, 3, 5])
    assert nbest.dense_features().tolist() == features
    assert nbest.statistics[:, 0].tolist() == [1, 0, 1, 0, 1]
    assert decoded_loss(nbest, [1.0, 0.0]) == decoded_loss(nbest, [0.0, 0.0]) == 1


CLASSES: Any = (from_classification, [[1.0], [2.0]])
CHOICES: Any = (from_choices, [[1.0], [2.0], [3.0], [4.0]])
WITH_MISSING: Any = ([0, np.nan], [0, None], ["a", np.nan], ["a", None])
MIXED = "groups has '1' as a string and as a number; write all ids alike"


# fmt: off
test_what_cannot_become_lists_is_refused = refused((DataError, *row) for row in [
    *((message, partial(small, **changes)) for changes, message in [
        ({"statistics": [0, np.nan, 0, np.nan, 0], "statistic_names": ["errors"]},
         r"list 'a', hypothesis 1 \(from 0\), statistic 'errors': nan"),
        ({"features": FEATURES[:4]}, "features has 4 rows, statistics has 5"),
        ({"features": FEATURES[:, 0]}, r"features .* not shape \(5,\)"),
        ({"features": np.zeros((5, 0))}, r"at least one column"),
        ({"features": np.zeros((0, 2)), "statistics": []}, r"at least one column|one row"),
        ({"features": [[1], [1, 2]]}, "features must be a rectangular array"),
        ({"features": FEATURES.astype(str)}, "features must be real numbers"),
        ({"features": FEATURES * 1j}, "features must be real numbers"),
        ({"features": np.ma.masked_less(FEATURES, 0)}, "features has masked entries"),
        ({"features": [[0.5, 2**53 + 1]] * 5}, r"features has integers beyond 2\*\*53"),
        ({"statistics": np.ma.masked_less(LOSS, 1)}, "statistics has masked entries"),
        ({"features": np.full((5, 2), 2**53 + 1)}, r"features has integers beyond 2\*\*53"),
        ({"features": np.full((5, 2), -(2**63) + 1)}, r"features has integers beyond 2\*\*53"),
        ({"features": np.full((5, 2), 2**64 - 1, dtype=np.uint64)}, r"features has integers beyond 2\*\*53"),
        ({"features": np.full((5, 2), "2020-01-01", dtype="datetime64[ns]")}, "features must be real numbers"),
        ({"statistics": np.zeros((5, 1, 1))}, "statistics"),
        ({"statistics": [[1], [1, 2]]}, "statistics must be a rectangular array"),
        ({"statistics": sparse.csr_array(LOSS[:, None])}, "statistics must be real numbers"),
        ({"offsets": [0.0, 2.0, 5.0]}, "offsets must be one-dimensional"),
        ({"offsets": [5]}, "offsets must be one-dimensional"),
        ({"offsets": [1, 2, 5]}, "offsets must run from 0 to 5"),
        ({"offsets": [0, 2, 4]}, "offsets must run from 0 to 5"),
        ({"offsets": [0, 0, 5]}, r"list 0 \(from 0\) is empty"),
        ({"offsets": [0, 6, 5]}, r"list 1 \(from 0\) ends before it begins"),
        ({"names": ["am"]}, "names has 1 entries; 2 are needed"),
        ({"names": ["am", "am"]}, "names has 'am' twice"),
        ({"names": "ab"}, "names must be a sequence, not 'ab'"),
        ({"names": {"am", "lm"}}, "names must be a sequence, not a set, which has no order"),
        ({"names": 2}, "names must be a sequence, not 2"),
        ({"list_ids": frozenset(["a", "b"])}, "list_ids must be a sequence, not a set"),
        ({"statistic_names": {"loss"}}, "statistic_names must be a sequence, not a set"),
        ({"texts": {"x", "y"}}, "texts must be a sequence, not a set"),
        ({"names": ["am", ""]}, "names must be strings that are not empty"),
        ({"names": ["am", None]}, "names must be strings"),
        ({"list_ids": ["a"]}, "list_ids has 1 entries; 2 are needed"),
        ({"list_ids": ["1", 1]}, "list_ids has '1' twice"),
        ({"statistic_names": ["loss", "more"]}, "statistic_names has 2 entries; 1 are needed"),
        ({"texts": ["x"] * 4}, "texts has 4 entries; 5 are needed"),
        ({"texts": ["x", "y", "z", "x", 3]}, "texts must be strings, not 3"),
    ]),
    *((message, partial(getattr(small(), what), argument)) for what, argument, message in [
        ("restrict", [2], "of 2 lists"),
        ("restrict", [0, 0], "'a' twice"),
        ("restrict", [], "of 2 lists|at least one"),
        ("restrict", slice(0, 0), "at least one"),
        ("restrict", [0.5], "of 2 lists"),
        ("restrict", 1, "one-dimensional"),
        ("restrict", np.array([True]), "of 2 lists"),
        ("select_features", ["ctc"], "no feature 'ctc'; the features are am, lm"),
        ("select_features", ["am", "am"], "'am' twice"),
        ("select_features", [], "at least one column"),
        ("merge", small(names=["lm", "am"]), r"feature names differ \(am, lm against lm, am\)"),
        ("merge", small(statistic_names=["errors"]), "statistic names differ"),
        ("merge", small(texts=list("vwxyz")), "one has texts"),
    ]),
    *((message, partial(*arguments)) for arguments, message in [
        ((from_classification, [[1.0], [2.0], [3.0]], [0, 1, 2]), "labels must have two values, not 3"),
        ((*CLASSES, [5, 5]), "labels must have two values, not 1"),
        ((*CLASSES, ["a", "a"]), "labels must have two values, not 1"),
        *(((*CLASSES, own), "labels has an entry that is missing or not finite: row 1") for own in WITH_MISSING),
        ((*CLASSES, [0]), r"labels must have shape \(2,\)"),
        ((*CLASSES, [[0], [1]]), r"labels must have shape \(2,\)"),
        ((from_classification, [1.0, 2.0], [0, 1]), "features"),
        ((from_classification, np.zeros((0, 2)), []), "features"),
        ((from_classification, [["a"], ["b"]], [0, 1]), "features must be real numbers"),
        ((from_classification, [[1.0], [np.inf]], [0, 1]), "list '1', hypothesis 1 .*, feature 'feature1': inf"),
        ((partial(from_classification, names=["a"]), [[1, 2]], [1]), "names has 1 entries; 2 are needed"),
        ((partial(from_classification, names="ab"), [[1, 2]], [1]), "names must be a sequence, not 'ab'"),
        ((partial(from_classification, names={"a", "b"}), [[1, 2]], [1]), "names must be a sequence, not a set"),
        ((partial(from_classification, names=["a", "intercept"]), [[1, 2]], [1]), "'intercept' twice"),
        ((*CHOICES, [1, 1, 2, 2], [1, 0, 0, 0]), "case '2' has 0 chosen alternatives"),
        ((*CHOICES, [1, 1, 2, 2], [1, 1, 0, 1]), "case '1' has 2 chosen alternatives"),
        ((*CHOICES, [1, 2, 1, 2], [1, 1, 0, 0]), r"case '1' comes back in row 2 \(from 0\) after it began in row 0"),
        ((*CHOICES, [1, 1, 2], [1, 0, 1]), r"cases must have shape \(4,\)"),
        ((*CHOICES, [1, 1, 2, 2], [1, 0, 1]), r"chosen must have shape \(4,\)"),
        ((*CHOICES, [1, 1, 2, 2], [1, 0, 2, 0]), "chosen must hold only true and false"),
        ((*CHOICES, [1, 1, 2, 2], ["1", "0", "1", "0"]), "chosen must hold only true and false"),
        *(((*CHOICES, [*own, 2, 2], [1, 0, 1, 0]), "cases has an entry that is.*: row 1") for own in WITH_MISSING),
        ((from_groups, [[1], [2]], [0, 1], ["1", 1]), MIXED),
        ((from_groups, [[1], [2]], [0, 1], np.array(["1", 1], dtype=object)), MIXED),
        ((from_groups, [[1], [2]], np.ma.array([0, 9], mask=[0, 1]), [1, 1]), "statistics has masked entries"),
        ((from_groups, [[1], [2]], [0, 1], np.ma.array([1, 9], mask=[0, 1])), "groups has masked entries"),
        ((from_classification, [[1], [2]], np.ma.array([1, 0], mask=[0, 1])), "labels has masked entries"),
    ]),
])
# fmt: on
