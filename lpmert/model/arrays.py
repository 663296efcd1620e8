"""Checks of the arrays and labels that callers pass."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import ItemsView, Iterable, KeysView, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import listed, quoted

MAGNITUDE_LIMIT = 1e150
"""Largest feature or statistic accepted: products of two, and sums of many, stay finite in double precision."""

BEYOND_DOUBLES = "integers beyond 2**53 that float64 would round; rescale them, or subtract what they have in common"


def real_matrix(values: ArrayLike, what: str, *, copy: bool = True) -> FloatArray:
    """Return a float64 array [M, columns], C-contiguous and without negative zeros; with `copy`, a fresh one.

    Raises `DataError`, naming the argument `what`, unless the values are real numbers in rows of equal length.
    """
    array = real_numbers(values, what)
    check_shape(array.shape, what)
    make = np.array if copy else np.asarray
    matrix: FloatArray = make(array, dtype=np.float64, order="C")
    matrix = matrix if matrix.flags.writeable else matrix.copy()
    matrix += 0.0  # turns -0.0 into 0.0, so that equal rows have equal bytes
    return matrix


def as_array(values: Any, what: str, dtype: Any = None) -> Any:
    """Return values as an array; raises `DataError` where numpy would drop a mask, or round an integer among floats."""
    if is_masked(values):
        raise DataError(f"{what} has masked entries; fill them or leave their hypotheses out")
    try:
        array = np.asarray(values, dtype=dtype)
    except ValueError as error:
        raise DataError(f"{what} must be a rectangular array of numbers: {error}") from error
    of_python = array.dtype.kind == "f" and not hasattr(values, "dtype") and array.size
    large = of_python and max(float(array.max()), -float(array.min())) >= EXACT_INTEGERS
    if large and is_rounded(np.asarray(values, dtype=object)):
        raise DataError(f"{what} has {BEYOND_DOUBLES}")
    return array


def as_ids(values: Any) -> Any:
    """Return ids as an array; in a mix with strings, numbers stay numbers, which numpy would turn into strings."""
    kind = getattr(values, "dtype", None)  # data frames have dtypes of their own
    return as_array(values, "groups", kind if isinstance(kind, np.dtype) else object)


def is_masked(values: Any) -> bool:
    masked = sys.modules.get("numpy.ma")  # a caller with a masked array has imported it
    return masked is not None and isinstance(values, masked.MaskedArray) and bool(masked.is_masked(values))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or NA of pandas, which is neither true nor false."""
    try:
        return value is None or not bool(value == value)
    except TypeError:
        return True


def frame_names(features: Any, names: Sequence[str] | None = None) -> Sequence[str] | None:
    """Return `names`, or else the columns of a data frame; `None` for features of other types."""
    columns = getattr(features, "columns", None)
    return names if names is not None or columns is None else [str(name) for name in columns]


def real_numbers(values: Any, what: str) -> Any:
    """Return values as an array of real numbers, of any type and shape; raises `DataError` for others."""
    array = as_array(values, what)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be real numbers, not {array.dtype}")
    if is_rounded(array):
        raise DataError(f"{what} has {BEYOND_DOUBLES}")
    return array


def is_rounded(array: Any) -> bool:
    """Whether an array has integers that float64 would round."""
    if array.dtype.kind in "iu":
        if not array.size or max(int(array.max()), -int(array.min())) <= EXACT_INTEGERS:
            return False
    elif array.dtype.kind != "O":
        return False
    return any(map(rounds, array.ravel().tolist()))


def rounds(cell: object) -> bool:
    """Whether a value is an integer, or spells one, that float64 would round."""
    try:
        whole = int(cell) if isinstance(cell, str) else cell
        return isinstance(whole, int) and int(float(whole)) != whole
    except (ValueError, OverflowError):  # no integer; beyond all doubles
        return False


def check_shape(shape: tuple[int, ...], what: str) -> None:
    """Raise `DataError` unless a shape has rows and columns, and none are 0."""
    if len(shape) != 2 or 0 in shape:
        raise DataError(f"{what} must have one row per hypothesis and at least one column, not shape {shape}")


def fingerprint_of(tag: str, labels: Sequence[Any], arrays: Iterable[Any]) -> str:
    """Return the SHA-256 (hexadecimal) of a tag, labels that JSON can hold, and arrays of numbers."""
    digest = hashlib.sha256(tag.encode("ascii"))
    digest.update(json.dumps(labels).encode("ascii"))
    for array in arrays:
        plain = array.astype("<f8" if array.dtype.kind == "f" else "<i8", order="C", copy=False)
        digest.update(plain.reshape(-1).view(np.uint8))
    return digest.hexdigest()


def is_sparse(values: object) -> bool:
    # scipy.sparse is slow to load, and whoever has a sparse matrix has loaded it
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(values))


def check_magnitudes(
    rows: Any,
    offsets: IntArray,
    ids: Sequence[str],
    names: Sequence[str],
    what: str = "feature",
    *,
    of: tuple[str, str] = ("list", "hypothesis"),
) -> None:
    """Raise `DataError`, naming the first wrong number, unless all of rows [M, D] are finite and not too large.

    rows: an array or a `csr_array`; offsets and ids: of the lists; names: of the columns; of: words for list and row.
    """
    values = rows.data if is_sparse(rows) else rows.reshape(-1)
    if -MAGNITUDE_LIMIT <= values.min(initial=0.0) <= values.max(initial=0.0) <= MAGNITUDE_LIMIT:  # false for NaN
        return
    entry = int(np.argmin(np.abs(values) <= MAGNITUDE_LIMIT))
    if is_sparse(rows):
        row, column = int(np.searchsorted(rows.indptr, entry, side="right")) - 1, int(rows.indices[entry])
    else:
        row, column = divmod(entry, len(names))
    number, value = int(np.searchsorted(offsets, row, side="right")) - 1, float(values[entry])
    trouble = f"beyond {MAGNITUDE_LIMIT:g}: rescale the {what}" if np.isfinite(value) else "not a finite number"
    place = f"{of[0]} {quoted(ids[number])}, {of[1]} {row - int(offsets[number])} (from 0)"
    raise DataError(f"{place}, {what} {quoted(names[column])}: {value} is {trouble}")


def checked_offsets(values: ArrayLike, count: int, what: str = "hypotheses") -> IntArray:
    """Return offsets [S + 1]; raises `DataError` unless they cut `count` rows into lists that are not empty."""
    array = real_numbers(values, "offsets")
    if array.dtype.kind not in "iu" or array.ndim != 1 or len(array) < 2:
        raise DataError(f"offsets must be one-dimensional, with at least two integers: 0, ..., number of {what}")
    offsets: IntArray = np.array(array, dtype=np.int64)
    if offsets[0] != 0 or offsets[-1] != count:
        found = f"{offsets[0]} to {offsets[-1]}"
        raise DataError(f"offsets must run from 0 to {count}, the number of {what}; these run from {found}")
    steps = np.diff(offsets)
    if (steps <= 0).any():
        number = int(np.argmax(steps <= 0))
        trouble = "is empty; leave it out" if steps[number] == 0 else "ends before it begins"
        raise DataError(f"offsets must increase: list {number} (from 0) {trouble}")
    return offsets


def checked_sequence(values: Iterable[Any], what: str) -> list[Any]:
    """Return ordered values as a list; raises `DataError` for sets, mappings and strings."""
    if isinstance(values, Set) and not isinstance(values, KeysView | ItemsView):  # views of mappings have an order
        raise DataError(f"{what} must be a sequence, not a set, which has no order; give a list")
    if isinstance(values, Mapping):
        raise DataError(f"{what} must be a sequence, not a mapping; give a list of its values, or of its keys")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(f"{what} must be a sequence, not {quoted(values)}; give a list")
    return list(values)


def one_or_more(files: str | Path | Iterable[str | Path], what: str) -> list[str | Path]:
    found = [files] if isinstance(files, str | Path) else checked_sequence(files, what)
    for file in found:
        if not isinstance(file, str | Path):
            raise DataError(f"{what} must be paths of files, not {quoted(file)}")
    return found


def numbered(word: str, count: int) -> tuple[str, ...]:
    """Return the default names word1, word2, ..."""
    return tuple(f"{word}{number}" for number in range(1, count + 1))


def checked_labels(values: Sequence[str | int], count: int, what: str) -> tuple[str, ...]:
    """Return labels as strings; raises `DataError`, naming the argument `what`, unless all `count` are different."""
    labels = checked_sequence(values, what)
    if len(labels) != count:
        raise DataError(f"{what} has {len(labels)} entries; {count} are needed")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int | np.integer) or label == "":
            raise DataError(f"{what} must be strings that are not empty, not {quoted(label)}")
    strings = tuple(map(str, labels))
    if len(set(strings)) != count:
        raise DataError(f"{what} has {quoted(Counter(strings).most_common(1)[0][0])} twice; all must differ")
    return strings


def places_of(names: Sequence[str], known: Sequence[str], what: str) -> list[int]:
    """Return the places of names among known ones; raises `DataError` for unknown names."""
    for name in checked_sequence(names, "names"):
        if name not in known:
            raise DataError(f"no {what} {quoted(name)}; the {what}s are {listed(known)}")
    return [known.index(name) for name in names]


def checked_texts(values: Sequence[str], count: int) -> tuple[str, ...]:
    texts = checked_sequence(values, "texts")
    if len(texts) != count:
        raise DataError(f"texts has {len(texts)} entries; {count} are needed, one per hypothesis")
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise DataError(f"texts must be strings, not {quoted(wrong[0])}")
    return tuple(map(str, texts))


def whole_numbers(values: ArrayLike, count: int, what: str) -> IntArray:
    """Return nodes [count]; raises `DataError` unless they are `count` whole numbers of at least 0."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise DataError(f"{what} must be a one-dimensional array of {count} whole numbers, not {quoted(values)}")
    if (array < 0).any() or (array > np.iinfo(np.int32).max).any():
        raise DataError(f"{what} has numbers below 0 or beyond 2**31; number nodes from 0")
    return array.astype(np.int64)


def checked_losses(losses: ArrayLike | None, count: int) -> FloatArray | None:
    """Return losses [count] of links; raises `DataError` unless they are `count` whole numbers of at least 0."""
    if losses is None:
        return None
    found = np.asarray(losses, dtype=np.float64)
    if found.shape != (count,) or not ((found >= 0) & (found <= 2**31) & (found == np.rint(found))).all():
        raise DataError(f"losses must be {count} whole numbers from 0 to 2**31, one per link")
    return found


def checked_references(
    references: Sequence[str | Sequence[str]], ids: Sequence[str], what: str
) -> list[tuple[str, ...]]:
    """Return the references of each list or lattice; raises `DataError` unless each has at least one."""
    references = checked_sequence(references, "references")
    if len(references) != len(ids):
        raise DataError(f"references needs one entry for each of the {len(ids)} {what}s; got {len(references)}")
    found = [(one,) if isinstance(one, str) else tuple(checked_sequence(one, "references")) for one in references]
    for list_id, texts in zip(ids, found, strict=True):
        if not texts or not all(isinstance(text, str) for text in texts):
            needs = "needs at least one reference, all of them strings"
            raise DataError(f"{what} {quoted(list_id)} {needs}; got {quoted(texts)}")
    return found


def chosen_of(wanted: ArrayLike | slice, count: int, what: str) -> IntArray:
    """Return the numbers of the lists or lattices that indices, a mask or a slice choose; raises `DataError`."""
    try:
        chosen = np.arange(count)[wanted if isinstance(wanted, slice) else np.asarray(wanted)]
    except IndexError as error:
        raise DataError(f"cannot choose these of {count} {what}s: {error}") from error
    if chosen.ndim != 1 or not len(chosen):
        raise DataError(f"choose at least one {what}, with a one-dimensional array of indices")
    return chosen
