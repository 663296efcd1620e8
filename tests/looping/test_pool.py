"""Pools: what is the same hypothesis, what is new, and what counts of equal words."""

import numpy as np
import pytest

import lpmert


def lists(rows: list[tuple[str, str, float, float]]) -> lpmert.NBest:
    """Return lists of (list, words, feature, errors), lists in the order of their first rows."""
    ids = list(dict.fromkeys(row[0] for row in rows))
    ordered = [row for one in ids for row in rows if row[0] == one]
    sizes = [sum(row[0] == one for row in rows) for one in ids]
    return lpmert.NBest(
        [[row[2]] for row in ordered],
        np.cumsum([0, *sizes]),
        [row[3] for row in ordered],
        ["f"],
        ids,
        texts=[row[1] for row in ordered],
    )


FIRST = lists([("a", "x y", 1.0, 0), ("a", "x z", 0.5, 1), ("b", "u", 3.0, 0)])
SECOND = lists([("a", "x y", 1.25, 0), ("a", "x w", 0.0, 2), ("b", "u", 3.0, 0), ("c", "v", 1.0, 0)])

REST = [("a", "x y", 1.25), ("a", "x z", 0.5), ("a", "x w", 0.0), ("b", "u", 3.0), ("c", "v", 1.0)]


@pytest.mark.parametrize(("policy", "expected"), [("all", [("a", "x y", 1.0), *REST]), ("latest", REST)])
def test_equal_words_count_as_the_policy_says(policy: str, expected: list[tuple[str, str, float]]) -> None:
    pool = lpmert.Pool(policy)
    assert pool.add(FIRST) == (3, 3, 2)
    assert pool.add(SECOND) == (3, 2, 2)
    assert pool.add(SECOND) == (0, 0, 0)
    found = pool.lists()
    ids = [found.list_ids[k] for k in found.list_index]
    assert list(zip(ids, found.texts or (), found.features[:, 0].tolist(), strict=True)) == expected
    assert found.statistics[:, 0].tolist() == [{"x z": 1.0, "x w": 2.0}.get(words, 0.0) for _, words, _ in expected]
    assert pool.n_words == 5
    assert pool.spread == (1, 0.25, "f")


def test_features_that_differ_by_less_than_a_millionth_are_equal() -> None:
    pool = lpmert.Pool()
    assert pool.add(FIRST).hypotheses == 3
    assert pool.add(lists([("a", "x y", 1.0 + 4e-7, 0)])).hypotheses == 0
    assert pool.add(lists([("a", "x y", 1.0 + 6e-7, 0)])).hypotheses == 1
    assert pool.lists().features[0, 0] == 1.0


def test_the_same_words_twice_in_one_decoding_both_count_as_the_latest() -> None:
    pool = lpmert.Pool("latest")
    pool.add(lists([("a", "x", 1.0, 0), ("a", "x", 2.0, 0)]))
    assert pool.lists().n_hypotheses == 2
    pool.add(lists([("a", "x", 2.0, 0)]))
    assert pool.lists().features[:, 0].tolist() == [2.0]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(lpmert.DataError, match="equal_words must be one of all, latest"):
        lpmert.Pool("newest")
    pool = lpmert.Pool()
    with pytest.raises(lpmert.DataError, match="the pool is empty"):
        pool.lists()
    pool.add(FIRST)
    with pytest.raises(lpmert.DataError, match="other features"):
        pool.add(lpmert.NBest([[1.0]], [0, 1], [0.0], ["g"], texts=["x"]))
