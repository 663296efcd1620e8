"""N-best lists as arrays, checked once: the data that every metric and method works on."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.model.arrays import (
    MAGNITUDE_LIMIT,
    check_shape,
    checked_labels,
    checked_offsets,
    checked_sequence,
    checked_texts,
    chosen_of,
    real_matrix,
    real_numbers,
)
from lpmert.numeric.lists import blocks_of_lists
from lpmert.quoting import listed, quoted
from lpmert.system.mapped import pieces, released, taken

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_FINGERPRINT_TAG = b"lpmert nbest 1"


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
        feature_rows = _csr(features) if _is_sparse(features) else real_matrix(feature_rows, "features", copy=copy)
        statistic_rows = real_numbers(statistics, "statistics")
        statistic_rows = real_matrix(
            statistic_rows[:, None] if statistic_rows.ndim == 1 else statistic_rows, "statistics", copy=copy
        )
        n_hypotheses, n_features = feature_rows.shape
        if len(statistic_rows) != n_hypotheses:
            raise DataError(
                f"features has {n_hypotheses} rows, statistics has {len(statistic_rows)}; give one row per hypothesis"
            )
        bounds = checked_offsets(offsets, n_hypotheses)
        n_lists, n_statistics = len(bounds) - 1, statistic_rows.shape[1]

        def hold(attribute: str, value: object) -> None:
            object.__setattr__(self, attribute, value)

        if names is None:
            names = [f"feature{number}" for number in range(1, n_features + 1)]
        if statistic_names is None:
            numbered = [f"statistic{number}" for number in range(1, n_statistics + 1)]
            statistic_names = ["loss"] if n_statistics == 1 else numbered
        hold("names", checked_labels(names, n_features, "names"))
        hold("statistic_names", checked_labels(statistic_names, n_statistics, "statistic_names"))
        hold("list_ids", checked_labels(range(n_lists) if list_ids is None else list_ids, n_lists, "list_ids"))
        hold("texts", None if texts is None else checked_texts(texts, n_hypotheses))
        hold("offsets", bounds)
        hold("features", feature_rows)
        hold("statistics", statistic_rows)
        self._check_magnitudes()
        for array in (bounds, statistic_rows, *_arrays(feature_rows)):
            array.flags.writeable = False

    def __repr__(self) -> str:
        """Return the sizes, not the numbers."""
        return (
            f"NBest({self.n_lists} lists, {self.n_hypotheses} hypotheses, {self.n_features} features, "
            f"{self.statistics.shape[1]} statistics)"
        )

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
        return np.repeat(np.arange(self.n_lists), np.diff(self.offsets))

    def dense_features(self) -> FloatArray:
        """Return the features [M, D] as a dense array, read-only."""
        rows: Any = self.features
        dense: FloatArray = rows.toarray() if _is_sparse(rows) else rows
        dense.flags.writeable = False
        return dense

    def blocks(self) -> Iterator[tuple[FloatArray, IntArray]]:
        """Yield dense features [m, D] of some lists after those of others, and their offsets, from 0."""
        rows: Any = self.features
        for first, end in blocks_of_lists(self.offsets):
            own = self.offsets[first : end + 1]
            some = rows[own[0] : own[-1]]
            yield some.toarray() if _is_sparse(rows) else some, own - own[0]
            released(rows)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of everything that can change an optimum or its report; texts are left out."""
        digest = hashlib.sha256(_FINGERPRINT_TAG)
        labels = [self.names, self.statistic_names, self.list_ids, self.features.shape, self.statistics.shape]
        digest.update(json.dumps([*labels, _is_sparse(self.features)]).encode("ascii"))
        for array in (self.offsets, self.statistics, *_arrays(self.features)):
            plain = array.astype("<f8" if array.dtype.kind == "f" else "<i8", order="C", copy=False)
            for piece in pieces(plain):
                digest.update(piece.view(np.uint8))
        return digest.hexdigest()

    def restrict(self, lists: ArrayLike | slice) -> NBest:
        """Return the lists chosen by indices, a mask [S] or a slice, in the order given.

        Negative indices count from the end. Raises `DataError` if an index is out of range or comes twice.
        """
        chosen = chosen_of(lists, self.n_lists, "list")
        starts, ends = self.offsets[chosen], self.offsets[chosen + 1]
        return self._take(_ranges(starts, ends), chosen, ends - starts)

    def select_features(self, names: Sequence[str]) -> NBest:
        """Return the same lists with only these features, in the order given; an unknown name raises `DataError`."""
        return self._with_columns(_places(names, self.names, "feature"), range(len(self.statistic_names)))

    def select_statistics(self, names: Sequence[str]) -> NBest:
        """Return the same lists with only these statistics, in the order given; an unknown name raises `DataError`."""
        return self._with_columns(range(self.n_features), _places(names, self.statistic_names, "statistic"))

    def _with_columns(self, features: Sequence[int], statistics: Sequence[int]) -> NBest:
        return NBest(
            self.features[:, list(features)],
            self.offsets,
            self.statistics[:, list(statistics)],
            [self.names[column] for column in features],
            self.list_ids,
            [self.statistic_names[column] for column in statistics],
            self.texts,
        )

    def merge(self, other: NBest) -> NBest:
        """Return the lists of both; lists with equal ids are pooled, own hypotheses first, and new ids are appended.

        Nothing is dropped; `deduplicate` does that. Raises `DataError` unless feature and statistic names agree, and
        both or neither have texts.
        """
        for mine, others, what in (
            (self.names, other.names, "feature names"),
            (self.statistic_names, other.statistic_names, "statistic names"),
        ):
            if mine != others:
                raise DataError(
                    f"cannot merge: {what} differ ({listed(mine)} against {listed(others)}); use select_features"
                )
        if (self.texts is None) != (other.texts is None):
            raise DataError("cannot merge: one has texts, the other none; read both with or both without texts")
        ids = tuple(dict.fromkeys((*self.list_ids, *other.list_ids)))
        place = {list_id: number for number, list_id in enumerate(ids)}
        places = np.array([place[list_id] for list_id in other.list_ids])
        owner = np.concatenate([self.list_index, places[other.list_index]])
        order = np.argsort(owner, kind="stable")
        rows = _stack(self.features, other.features)[order]
        texts = None
        if self.texts is not None and other.texts is not None:
            both = self.texts + other.texts
            texts = [both[hypothesis] for hypothesis in order.tolist()]
        return NBest(
            rows,
            _from_sizes(np.bincount(owner, minlength=len(ids))),
            np.concatenate([self.statistics, other.statistics])[order],
            self.names,
            ids,
            self.statistic_names,
            texts,
        )

    def deduplicate(self) -> NBest:
        """Drop each hypothesis that repeats features, statistics and text (if any) of an earlier one of its list."""
        seen: set[tuple[object, ...]] = set()
        kept = []
        texts = self.texts or [""] * self.n_hypotheses
        rows = zip(self.list_index.tolist(), _row_keys(self.features), _row_keys(self.statistics), texts, strict=True)
        for hypothesis, key in enumerate(rows):
            if key not in seen:
                seen.add(key)
                kept.append(hypothesis)
        sizes = np.bincount(self.list_index[kept], minlength=self.n_lists)
        return self._take(np.array(kept), np.arange(self.n_lists), sizes)

    def _take(self, hypotheses: IntArray, lists: IntArray, sizes: IntArray) -> NBest:
        """Return these hypotheses, of which so many in a row belong to each of these lists."""
        texts = self.texts
        return NBest(
            _taken(self.features, hypotheses),
            _from_sizes(sizes),
            _taken(self.statistics, hypotheses),
            self.names,
            [self.list_ids[number] for number in lists.tolist()],
            self.statistic_names,
            None if texts is None else [texts[hypothesis] for hypothesis in hypotheses.tolist()],
            copy=False,
        )

    def _check_magnitudes(self) -> None:
        rows: Any = self.features
        sparse = _is_sparse(rows)
        for what, values, names in (
            ("feature", rows.data if sparse else rows.ravel(), self.names),
            ("statistic", self.statistics.ravel(), self.statistic_names),
        ):
            # no array as large as the values; comparisons with NaN are false
            if all(-MAGNITUDE_LIMIT <= piece.min() <= piece.max() <= MAGNITUDE_LIMIT for piece in pieces(values)):
                continue
            fits = np.abs(values) <= MAGNITUDE_LIMIT
            entry = int(np.argmin(fits))
            if sparse and what == "feature":
                row, column = int(np.searchsorted(rows.indptr, entry, side="right")) - 1, int(rows.indices[entry])
            else:
                row, column = divmod(entry, len(names))
            number = int(np.searchsorted(self.offsets, row, side="right")) - 1
            value = float(values[entry])
            trouble = f"beyond {MAGNITUDE_LIMIT:g}: rescale the {what}" if np.isfinite(value) else "not a finite number"
            raise DataError(
                f"list {quoted(self.list_ids[number])}, hypothesis {row - int(self.offsets[number])} (from 0), "
                f"{what} {quoted(names[column])}: {value} is {trouble}"
            )


def _is_sparse(values: object) -> bool:
    # a sparse matrix can only exist once scipy.sparse is loaded, which takes too long to load for nothing
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(values))


def _csr(values: Any) -> csr_array:
    from scipy.sparse import csr_array

    check_shape(values.shape, "features")
    real_numbers(values.tocoo().data, "features")
    rows = csr_array(values, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def _arrays(features: Any) -> tuple[Any, ...]:
    return (features.data, features.indices, features.indptr) if _is_sparse(features) else (features,)


def _stack(first: Any, second: Any) -> Any:
    if not _is_sparse(first) and not _is_sparse(second):
        return np.concatenate([first, second])
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(first), csr_array(second)], format="csr")


def _row_keys(rows: Any) -> list[bytes]:
    """Return for each row bytes that are equal exactly where rows are."""
    if _is_sparse(rows):
        ends = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
        return [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in ends]
    buffer, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [buffer[start : start + width] for start in range(0, len(buffer), width)]


def _taken(rows: Any, chosen: IntArray) -> Any:
    return rows[chosen] if _is_sparse(rows) else taken(rows, chosen)


def _from_sizes(sizes: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


def _ranges(starts: IntArray, ends: IntArray) -> IntArray:
    """Return start, ..., end - 1 of each pair, one after the other."""
    sizes = ends - starts
    return np.asarray(np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes))


def _places(names: Sequence[str], there: Sequence[str], what: str) -> list[int]:
    for name in checked_sequence(names, "names"):
        if name not in there:
            raise DataError(f"no {what} {quoted(name)}; the {what}s are {listed(there)}")
    return [there.index(name) for name in names]


def checked_lists(lists: object) -> NBest:
    """Return the first argument of a function that takes N-best lists; raises `DataError` if it is anything else."""
    if not isinstance(lists, NBest):
        raise DataError(
            f"the first argument must be an NBest, not {type(lists).__name__}; make one with lpmert.read(...) of files "
            "and data frames, lpmert.NBest(...) of arrays, lpmert.n_best(...) of lattices"
        )
    return lists


def aligned_with(held_out: NBest, nbest: NBest) -> NBest:
    """Return held-out lists with the features in the order of the others; raises `DataError` if they lack one."""
    if held_out.statistic_names != nbest.statistic_names:
        raise DataError(
            f"the held-out lists have statistics {listed(held_out.statistic_names)}, the others "
            f"{listed(nbest.statistic_names)}; read both with the same columns"
        )
    return held_out if held_out.names == nbest.names else held_out.select_features(nbest.names)


def column_of(nbest: NBest, second: str | ArrayLike, name: str) -> tuple[str, FloatArray]:
    """Return the name of a second sum and its numbers [M]: a feature, a statistic, or numbers with this name.

    Raises `DataError` where there are none.
    """
    if isinstance(second, str):
        if second in nbest.names:
            values: Any = nbest.features[:, [nbest.names.index(second)]]
            return second, np.asarray(values if isinstance(values, np.ndarray) else values.toarray()).ravel() + 0.0
        if second in nbest.statistic_names:
            return second, nbest.statistics[:, nbest.statistic_names.index(second)] + 0.0
        names = listed([*nbest.names, *nbest.statistic_names])
        raise DataError(f"no feature or statistic {quoted(second)} for the second sum; there are {names}")
    values = np.asarray(second)
    if values.shape != (nbest.n_hypotheses,) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise DataError(f"second must be one finite number for each of the {nbest.n_hypotheses} hypotheses")
    return name, values.astype(np.float64)
