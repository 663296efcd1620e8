"""The errors that lpmert raises, and the types of its arrays."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.quoting import LONGEST_MESSAGE, shortened, visible

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]
else:
    FloatArray = IntArray = BoolArray = Any  # errors load no numpy, so that help and usage errors appear at once


def reason_of(error: OSError) -> str:
    """Return what the system says, and the remedy where too many files, pipes and sockets are open."""
    text = error.strerror or str(error)
    if error.errno not in (errno.EMFILE, errno.ENFILE):
        return text
    return f"{text}; allow more with ulimit -n, or take fewer workers (--jobs)"


class LpmertError(Exception):
    """Base of all errors raised on purpose; long messages lose their middle, and data in them are escaped."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(visible(message, "\n"), LONGEST_MESSAGE))


class DataError(LpmertError):
    """The data cannot be used; names file, line and remedy where they are known. reason: without file and line."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else str(path)
        self.line = line
        self.reason = message
        place = ":".join(visible(str(part)) for part in (self.path, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class OptionError(DataError):
    """An option that reading or writing a format does not take, or lacks."""


class MetricError(LpmertError):
    """The metric is unknown or does not fit the statistics."""


class MethodError(LpmertError):
    """The method is unknown, or cannot work on this problem."""


class RegionError(LpmertError):
    """The region is empty, contradicts itself, or does not fit the features."""


class CertificateError(LpmertError):
    """The certificate does not prove its claim; says where it breaks."""


class LimitError(LpmertError):
    """A limit ended work that has no partial result."""


class DecoderError(LpmertError):
    """The decoder failed, was too slow, or wrote unusable output; ends with its last messages, if any."""
