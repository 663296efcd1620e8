"""N-best lists as arrays, checked once: the data of every metric and method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model import arrays
from lpmert.model.arrays import checked_labels, is_sparse, numbered, places_of, real_matrix, real_numbers
from lpmert.numeric.lists import blocks_of_lists, from_sizes, list_numbers, rows_of_lists
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False, init=False, repr=False)
class NBest:
    """S lists of M hypotheses in all, each with D features and K statistics; immutable.

    The arrays are read-only; negative zeros become zeros. Comparison is by identity.

    Parameters
    ----------
    features : array or scipy.sparse matrix [M, D]
        float64, dense or sparse (kept as `csr_array`).
    offsets : array [S + 1]
        List s holds the hypotheses offsets[s] to offsets[s + 1] - 1.
    statistics : array [M, K]
        What the metric sums; one dimension is taken as [M, 1].
    names : sequence of str, optional
        Of the features; feature1, ... by default.
    list_ids : sequence of str or int, optional
        Of the lists; counted from 0 by default.
    statistic_names : sequence of str, optional
        loss (K = 1) or statistic1, ... by default.
    texts : sequence of str [M], optional
        Of the hypotheses.
    copy : bool
        Whether to copy the arrays. Otherwise those of float64 in C order are taken over and made read-only.

    Raises
    ------
    DataError
        If shapes disagree, a list is empty, a name or id occurs twice, or a number is not finite or beyond 1e150.

    Examples
    --------
    >>> import lpmert
    >>> lpmert.NBest([[1, 0], [0, 1], [2, 1]], offsets=[0, 2, 3], statistics=[0, 1, 1], names=["a", "b"])
    NBest(2 lists, 3 hypotheses, 2 features, 1 statistics)
    """

    features: FloatArray | csr_array
    offsets: IntArray
    statistics: FloatArray
    names: tuple[str, ...]
    list_ids: tuple[str, ...]
    statistic_names: tuple[str, ...]
    texts: tuple[str, ...] | None

    def __init__(
        self,
        features: ArrayLike | csr_array,
        offsets: ArrayLike,
        statistics: ArrayLike,
        names: Sequence[str] | None = None,
        list_ids: Sequence[str | int] | None = None,
        statistic_names: Sequence[str] | None = None,
        texts: Sequence[str] | None = None,
        *,
        copy: bool = True,
    ) -> None:
        feature_rows: Any = features
        feature_rows = _csr(features) if is_sparse(features) else real_matrix(feature_rows, "features", copy=copy)
        statistic_rows = real_numbers(statistics, "statistics")
        statistic_rows = real_matrix(
            statistic_rows[:, None] if statistic_rows.ndim == 1 else statistic_rows, "statistics", copy=copy
        )
        n_hypotheses, n_features = feature_rows.shape
        if len(statistic_rows) != n_hypotheses:
            sizes = f"features has {n_hypotheses} rows, statistics has {len(statistic_rows)}"
            raise DataError(f"{sizes}; give one row per hypothesis")
        bounds = arrays.checked_offsets(offsets, n_hypotheses)
        n_lists, n_statistics = len(bounds) - 1, statistic_rows.shape[1]

        if statistic_names is None:
            statistic_names = ["loss"] if n_statistics == 1 else numbered("statistic", n_statistics)
        vars(self).update(
            features=feature_rows,
            offsets=bounds,
            statistics=statistic_rows,
            names=checked_labels(numbered("feature", n_features) if names is None else names, n_features, "names"),
            statistic_names=checked_labels(statistic_names, n_statistics, "statistic_names"),
            list_ids=checked_labels(range(n_lists) if list_ids is None else list_ids, n_lists, "list_ids"),
            texts=None if texts is None else arrays.checked_texts(texts, n_hypotheses),
        )
        for rows, columns, what in (
            (feature_rows, self.names, "feature"),
            (statistic_rows, self.statistic_names, "statistic"),
        ):
            arrays.check_magnitudes(rows, bounds, self.list_ids, columns, what)
        for array in (bounds, statistic_rows, *_arrays(feature_rows)):
            array.flags.writeable = False

    def __repr__(self) -> str:
        sizes = f"{self.n_lists} lists, {self.n_hypotheses} hypotheses, {self.n_features} features"
        return f"NBest({sizes}, {self.statistics.shape[1]} statistics)"

    @property
    def n_lists(self) -> int:
        """Number of lists, S."""
        return len(self.offsets) - 1

    @property
    def n_hypotheses(self) -> int:
        """Number of hypotheses of all lists together, M."""
        return len(self.statistics)

    @property
    def n_features(self) -> int:
        """Number of features, D."""
        return len(self.names)

    @property
    def list_index(self) -> IntArray:
        """For each hypothesis [M] the number of its list, from 0."""
        return list_numbers(self.offsets)

    def rows_of(self, selection: IntArray) -> IntArray:
        """Return the rows [S] of the hypotheses that a selection [S] counts from 0 within their lists."""
        return np.asarray(self.offsets[:-1] + selection)

    def dense_features(self, rows: IntArray | slice = slice(None)) -> FloatArray:
        """Return the features [m, D] of all hypotheses, or of these rows, as a dense array, read-only."""
        chosen: Any = self.features[rows]
        dense: FloatArray = chosen.toarray() if is_sparse(chosen) else chosen
        dense.flags.writeable = False
        return dense

    def blocks(self) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yield the dense features [m, D] of one block of lists after another, and their offsets from 0."""
        for _, rows, offsets in blocks_of_lists(self.offsets):
            yield self.dense_features(rows), offsets

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum or its report; texts are left out."""
        labels = [self.names, self.statistic_names, self.list_ids, self.features.shape, self.statistics.shape]
        values = self.offsets, self.statistics, *_arrays(self.features)
        return arrays.fingerprint_of("lpmert nbest 1", [*labels, is_sparse(self.features)], values)

    def restrict(self, lists: ArrayLike | slice) -> NBest:
        """Return the lists chosen by indices, a mask [S] or a slice, in the order given.

        Negative indices count from the end. Raises `DataError` if an index is out of range or comes twice.
        """
        chosen = arrays.chosen_of(lists, self.n_lists, "list")
        rows, offsets = rows_of_lists(self.offsets, chosen)
        return self._take(rows, offsets, [self.list_ids[number] for number in chosen.tolist()])

    def select_features(self, names: Sequence[str]) -> NBest:
        """Return the same lists with only these features, in the order given; an unknown name raises `DataError`."""
        return self._with_columns(places_of(names, self.names, "feature"), range(len(self.statistic_names)))

    def select_statistics(self, names: Sequence[str]) -> NBest:
        """Return the same lists with only these statistics, in the order given; an unknown name raises `DataError`."""
        return self._with_columns(range(self.n_features), places_of(names, self.statistic_names, "statistic"))

    def _with_columns(self, features: Sequence[int], statistics: Sequence[int]) -> NBest:
        return self.changed(
            features=self.features[:, list(features)],
            statistics=self.statistics[:, list(statistics)],
            names=[self.names[column] for column in features],
            statistic_names=[self.statistic_names[column] for column in statistics],
        )

    def changed(self, **changes: Any) -> NBest:
        """Return the lists with some fields replaced; arrays are taken over, not copied."""
        current = {field.name: getattr(self, field.name) for field in fields(self)}
        return NBest(**(current | changes), copy=False)

    def merge(self, other: NBest) -> NBest:
        """Return the lists of both; lists with equal ids are pooled, own hypotheses first, and new ids are appended.

        Nothing is dropped; `deduplicate` does that. Raises `DataError` unless feature and statistic names agree, and
        both or neither have texts.
        """
        for ours, theirs, what in (
            (self.names, other.names, "feature names"),
            (self.statistic_names, other.statistic_names, "statistic names"),
        ):
            if ours != theirs:
                differ = f"{what} differ ({listed(ours)} against {listed(theirs)})"
                raise DataError(f"cannot merge: {differ}; use select_features")
        if (self.texts is None) != (other.texts is None):
            raise DataError("cannot merge: one has texts, the other none; read both with or both without texts")
        ids = tuple(dict.fromkeys((*self.list_ids, *other.list_ids)))
        number_of = {list_id: number for number, list_id in enumerate(ids)}
        numbers = np.array([number_of[list_id] for list_id in other.list_ids])
        order, offsets = gathered(np.concatenate([self.list_index, numbers[other.list_index]]))
        both = None if self.texts is None or other.texts is None else self.texts + other.texts
        return self.changed(
            features=_stack(self.features, other.features)[order],
            offsets=offsets,
            statistics=np.concatenate([self.statistics, other.statistics])[order],
            list_ids=ids,
            texts=None if both is None else [both[hypothesis] for hypothesis in order.tolist()],
        )

    def deduplicate(self) -> NBest:
        """Drop each hypothesis with the features, statistics and text (if any) of an earlier one of its list."""
        texts = self.texts or [""] * self.n_hypotheses
        keys = zip(self.list_index.tolist(), _row_keys(self.features), _row_keys(self.statistics), texts, strict=True)
        first: dict[tuple[object, ...], int] = {}
        for hypothesis, key in enumerate(keys):
            first.setdefault(key, hypothesis)
        rows = np.array(list(first.values()))
        sizes = np.bincount(self.list_index[rows], minlength=self.n_lists)
        return self._take(rows, from_sizes(sizes), self.list_ids)

    def _take(self, hypotheses: IntArray, offsets: IntArray, list_ids: Sequence[str]) -> NBest:
        texts = self.texts
        return self.changed(
            features=self.features[hypotheses],
            offsets=offsets,
            statistics=self.statistics[hypotheses],
            list_ids=list_ids,
            texts=None if texts is None else [texts[hypothesis] for hypothesis in hypotheses.tolist()],
        )


def _csr(values: Any) -> csr_array:
    from scipy.sparse import csr_array

    arrays.check_shape(values.shape, "features")
    real_numbers(values.tocoo().data, "features")
    rows = csr_array(values, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _arrays(features: Any) -> tuple[Any, ...]:
    return (features.data, features.indices, features.indptr) if is_sparse(features) else (features,)


def _stack(first: Any, second: Any) -> Any:
    if not is_sparse(first) and not is_sparse(second):
        return np.concatenate([first, second])
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(first), csr_array(second)], format="csr")


def _row_keys(rows: Any) -> list[bytes]:
    """Return bytes for each row that are equal exactly if the rows are."""
    if is_sparse(rows):
        ends = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        return [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in ends]
    buffer, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [buffer[start : start + width] for start in range(0, len(buffer), width)]


def gathered(owners: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows list by list, and the offsets; owners [M]: the list of each row, and no list is empty."""
    return np.argsort(owners, kind="stable"), from_sizes(np.bincount(owners))


def checked_lists(lists: object) -> NBest:
    if not isinstance(lists, NBest):
        made = "lpmert.read(...) of files and data frames, lpmert.NBest(...) of arrays, lpmert.n_best(...) of lattices"
        raise DataError(f"the first argument must be an NBest, not {type(lists).__name__}; make one with {made}")
    return lists


def aligned_with(held_out: NBest, nbest: NBest) -> NBest:
    """Return held-out lists with features in the order of the training lists; raises `DataError` if they lack one."""
    if held_out.statistic_names != nbest.statistic_names:
        both = f"{listed(held_out.statistic_names)}, the others {listed(nbest.statistic_names)}"
        raise DataError(f"the held-out lists have statistics {both}; read both with the same columns")
    return held_out if held_out.names == nbest.names else held_out.select_features(nbest.names)


def column_of(nbest: NBest, second: str | ArrayLike, name: str) -> tuple[str, FloatArray]:
    """Return the name and the numbers [M] of a second sum.

    second: the name of a feature or statistic, or numbers [M], which get this `name`. Raises `DataError` for others.
    """
    if isinstance(second, str):
        if second in nbest.names:
            values: Any = nbest.features[:, [nbest.names.index(second)]]
            return second, np.asarray(values if isinstance(values, np.ndarray) else values.toarray()).ravel() + 0.0
        if second in nbest.statistic_names:
            return second, nbest.statistics[:, nbest.statistic_names.index(second)] + 0.0
        names = listed([*nbest.names, *nbest.statistic_names])
        raise DataError(f"no feature or statistic {quoted(second)} for the second sum; there are {names}")
    values = arrays.as_array(second, "second")
    if values.shape != (nbest.n_hypotheses,) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise DataError(f"second must be one finite number for each of the {nbest.n_hypotheses} hypotheses")
    return name, values.astype(np.float64)
