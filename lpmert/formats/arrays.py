"""N-best lists as numpy archives (npz): plain arrays and strings, never pickled objects."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import DataError, IntArray
from lpmert.files import atomic_writer, open_bytes
from lpmert.formats.format import Format
from lpmert.formats.rows import seekable
from lpmert.limits import room_for
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_SPARSE = ("feature_values", "feature_columns", "feature_starts", "n_features")
_LABELS = ("names", "list_ids", "statistic_names")
_TEXTS = ("texts", "text_bytes", "text_ends")
_NEEDED = ("features", "offsets", "statistics")

_LONGEST_END = 0xFFFF + 22
_END, _OVERFLOW = b"PK\x05\x06", 0xFFFF
"""The signature of the end record of a zip archive, and the count that stands for any that exceeds 16 bits."""
_BROKEN = (
    *(struct.error, ValueError, TypeError, OSError, EOFError, RuntimeError, MemoryError),
    *(zlib.error, zipfile.BadZipFile),
)
"""Errors of zipfile and numpy for archives that are damaged, encrypted, compressed in unknown ways, or hold objects."""


def read_npz(path: str | Path) -> NBest:
    """Read lists from an archive with the arrays `features` [M, D], `offsets` [S + 1] and `statistics` [M, K].

    Arrays of strings `names`, `list_ids`, `statistic_names` and `texts` are optional. `write_npz` writes texts as
    `text_bytes` in UTF-8 with `text_ends` [M], and sparse features as the parts of a csr_array.
    """
    with open_bytes(path) as stream:
        arrays = _arrays(seekable(stream, path), path)
    try:
        return _lists(arrays)
    except DataError as error:
        raise DataError(str(error), path=path) from error


def write_npz(nbest: NBest, path: str | Path) -> None:
    """Write lists as a compressed archive; no name or id may end in a null character, which numpy would drop."""
    arrays: dict[str, Any] = {"offsets": nbest.offsets, "statistics": nbest.statistics}
    features = nbest.features
    if isinstance(features, np.ndarray):
        arrays["features"] = features
    else:
        parts = features.data, features.indices, features.indptr, np.array(nbest.n_features)
        arrays.update(zip(_SPARSE, parts, strict=True))
    for what in _LABELS:
        labels = getattr(nbest, what)
        if any(label.endswith("\0") for label in labels):
            raise DataError(f"{what} has a string that ends in a null character, which numpy drops", path=path)
        arrays[what] = np.array(labels, dtype=str)
    with atomic_writer(path) as stream:
        if nbest.texts is not None:
            # an array of strings would take the longest one's memory for each
            encoded = [text.encode() for text in nbest.texts]
            arrays["text_bytes"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
            arrays["text_ends"] = np.cumsum([len(text) for text in encoded])
        archive = io.BytesIO()  # writing an archive needs to seek, which compressed files cannot
        np.savez_compressed(archive, **arrays)
        stream.buffer.write(archive.getbuffer())


def _arrays(stream: Any, path: str | Path) -> dict[str, Any]:
    """Return the arrays of an archive by name; zipfile checks the checksum of a member that is read whole."""
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(stream) as archive:
            _check_directory(stream, len(archive.infolist()))
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in found:
                    raise ValueError(f"two arrays are called {quoted(name)}")
                room_for(member.file_size, "reading")
                with archive.open(member) as data:
                    found[name] = np.lib.format.read_array(data, allow_pickle=False)
                    if data.read(1):
                        raise ValueError(f"the array {quoted(name)} is longer than its shape")
    except _BROKEN as error:
        reason = str(error) or "there is not enough memory for them"
        raise DataError(f"not an archive of plain arrays ({reason}); write it with numpy.savez", path=path) from error
    return found


def _check_directory(stream: Any, members: int) -> None:
    """Refuse an archive with fewer members than its end record says: a damaged length hides those after it."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - _LONGEST_END))
    content = stream.read()
    (count,) = struct.unpack_from("<H", content, content.rindex(_END) + 10)
    if count not in (members, _OVERFLOW):
        raise ValueError(f"its directory should have {count} members, and has {members}")


def _lists(arrays: Mapping[str, Any]) -> NBest:
    found = listed(arrays)
    unknown = [name for name in arrays if name not in (*_NEEDED, *_SPARSE, *_LABELS, *_TEXTS)]
    if unknown:
        raise DataError(f"an array {quoted(unknown[0])}, which lists do not have; the arrays are {found}")
    for name in _NEEDED if "features" in arrays else (*_SPARSE, *_NEEDED[1:]):
        if name not in arrays:
            raise DataError(f"no array {quoted(name)}; the arrays are {found}")
    labels: dict[str, Any] = {what: arrays[what].tolist() for what in _LABELS if what in arrays}
    features = arrays["features"] if "features" in arrays else _csr(*(arrays[name] for name in _SPARSE))
    if "names" not in arrays and len(features.shape) > 1 and features.shape[1] > 1 << 22:  # it could claim any number
        raise DataError(f"{features.shape[1]:,} features without names; give the array names")
    return NBest(features, arrays["offsets"], arrays["statistics"], texts=_texts(arrays), copy=False, **labels)


def _texts(arrays: Mapping[str, Any]) -> list[str] | None:
    if "texts" in arrays:
        texts: list[str] = arrays["texts"].tolist()  # or one text, which `NBest` refuses
        return texts
    if not {"text_bytes", "text_ends"} & arrays.keys():
        return None
    if not {"text_bytes", "text_ends"} <= arrays.keys() or arrays["text_bytes"].dtype != np.uint8:
        raise DataError("texts need text_bytes, of type uint8, and text_ends")
    data: bytes = arrays["text_bytes"].tobytes()
    ends = _integers(arrays["text_ends"], "text_ends").tolist()
    starts = [0, *ends[:-1]]
    if not ends or ends[-1] != len(data) or any(start > end for start, end in zip(starts, ends, strict=True)):
        raise DataError("text_ends does not go up to the number of text_bytes")
    try:
        return [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    except UnicodeDecodeError as error:
        raise DataError(f"text_bytes is not UTF-8: {error}") from error


def _csr(values: Any, columns: Any, starts: Any, n_features: Any) -> csr_array:
    from scipy.sparse import csr_array

    width = _integers(n_features.reshape(-1), "n_features")
    if len(width) != 1 or values.ndim != 1 or values.dtype.kind not in "iuf":
        raise DataError("feature_values must be a row of numbers, and n_features one number")
    parts = values, _integers(columns, "feature_columns"), _integers(starts, "feature_starts")
    try:
        rows = csr_array(parts, shape=(len(starts) - 1, int(width[0])))
        rows.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"the sparse features are no csr_array: {error}") from error
    return rows


def _integers(array: Any, what: str) -> IntArray:
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(f"{what} must be a row of integers, not {array.dtype} of shape {array.shape}")
    return np.asarray(array, dtype=np.int64)


NPZ = Format("numpy archive", read_npz, write_npz)
