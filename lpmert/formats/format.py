"""Formats, and how their readers collect N-best lists: named numbers, and the list of each hypothesis."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.model.nbest import NBest, gathered
from lpmert.numeric.lists import from_sizes
from lpmert.quoting import quoted
from lpmert.system.memory import room_for

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Paths = str | Path | Sequence[str | Path]  # a file, or several

COUNTED = "counted"
COUNTING = ("metric", "partial", "by_position")  # options of `read` that go with `references`, for all formats


@dataclass(frozen=True)
class Format:
    """A format, as it is registered.

    reader(source, **options) returns the lists; writer(lists, path, **options) writes them, `None` where the format is
    only read. pooled: the reader takes several files at once and pools their lists. endings: of the names of such
    files, such as ".lists". fixed: options of reader and writer that the caller cannot set. spoken: the files hold
    texts without statistics, so `read` needs references. metric: the default one for counting from texts. graphs: for
    a format of lattices, a function that yields every lattice in a `lpmert.formats.graphs.GraphText`, after its
    utterance or `None` where the text does not name it.

    The option `counted` of a reader says where statistics come from: false, the file; true, `read` counts them from the
    texts; `None`, there are none.
    """

    description: str
    reader: Callable[..., NBest]
    writer: Callable[..., None] | None = None
    pooled: bool = False
    endings: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    spoken: bool = False
    metric: str = "wer"
    graphs: Callable[..., Iterable[tuple[str | None, Any]]] | None = None

    @property
    def reader_options(self) -> dict[str, bool]:
        """The options of the reader and of counting, and whether each is needed."""
        return self._options(self.reader, 1) | {"references": self.spoken} | dict.fromkeys(COUNTING, False)

    @property
    def writer_options(self) -> dict[str, bool]:
        """The options of the writer, and whether each is needed."""
        return {} if self.writer is None else self._options(self.writer, 2)

    def _options(self, function: Callable[..., Any], skipped: int) -> dict[str, bool]:
        options = list(inspect.signature(function).parameters.values())[skipped:]
        hidden = {*self.fixed, COUNTED}
        return {one.name: one.default is inspect.Parameter.empty for one in options if one.name not in hidden}


class Growing:
    """A table of numbers that grows by rows."""

    def __init__(self) -> None:
        self._numbers, self._rows = array("d"), 0

    def add(self, numbers: Iterable[float] | FloatArray, rows: int = 1) -> None:
        """Append the numbers of `rows` rows."""
        if isinstance(numbers, np.ndarray):
            self._numbers.frombytes(np.ascontiguousarray(numbers, dtype=np.float64).data.cast("B"))
        else:
            self._numbers.extend(numbers)
        self._rows += rows

    def whole(self) -> FloatArray:
        """Return all numbers as a flat array, which shares their memory."""
        return np.frombuffer(self._numbers) if self._numbers else np.empty(0)

    def rows(self) -> FloatArray:
        """Return the rows [M, ...]."""
        return self.whole().reshape(self._rows, -1)


class NamedRows:
    """Rows of named numbers, collected into one matrix; names may differ between rows."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._values = Growing()
        self._run_names: tuple[str, ...] = ()
        self._run_columns: list[array[int]] = []  # of each run of rows with the same names
        self._run_lengths = array("q")

    def add(self, names: tuple[str, ...], values: Sequence[float] | FloatArray, rows: int = 1) -> None:
        """Append `rows` rows with these names, each of which occurs once, and these values."""
        # rows mostly share one tuple
        if not self._run_lengths or (names is not self._run_names and names != self._run_names):
            self._run_names = names
            self._run_columns.append(array("q", [self._columns.setdefault(name, len(self._columns)) for name in names]))
            self._run_lengths.append(0)
        self._run_lengths[-1] += rows
        self._values.add(values, rows)

    def matrix(self) -> tuple[tuple[str, ...], FloatArray | csr_array]:
        """Return the names [D] in order of first appearance, and the rows [M, D], sparse if some lack a name."""
        names, values = tuple(self._columns), self._values.whole()
        shape = sum(self._run_lengths), len(names)
        if len(self._run_columns) <= 1:
            return names, values.reshape(shape)
        indices, sizes = array("q"), np.repeat([len(columns) for columns in self._run_columns], self._run_lengths)
        for columns, length in zip(self._run_columns, self._run_lengths, strict=True):
            indices.extend(columns * length)
        from scipy.sparse import csr_array

        found = csr_array((values, np.array(indices), from_sizes(sizes)), shape=shape)
        return names, found.toarray() if len(values) == shape[0] * shape[1] else found


class Pool:
    """Collects hypotheses, with the list of each, as a reader finds them; lists keep the order of first appearance."""

    def __init__(self) -> None:
        self.features, self.statistics, self.texts = NamedRows(), Growing(), list[str]()
        self.numbers: dict[str, int] = {}
        """The number of each list, from 0, by id."""
        self._owners = array("i")  # the list of each hypothesis
        self.begin_file()

    def __len__(self) -> int:
        return len(self._owners)

    def begin_file(self) -> None:
        """Note that another file follows, which may have the same lists."""
        self._begun, self._last = set[str](), ""

    def add(self, list_id: str, size: int = 1, refuse: Callable[[str], DataError] | None = None) -> None:
        """Note that the next `size` hypotheses belong to this list; refuse: makes the error if it returns."""
        if list_id != self._last:
            if refuse is not None and list_id in self._begun:
                raise refuse(
                    f"list {quoted(list_id)} comes back here, after list {quoted(self._last)}; sort the lines, or "
                    "gather them with group=True (--group)"
                )
            self._begun.add(list_id)
            self._last = list_id
        self._owners += array("i", [self.numbers.setdefault(list_id, len(self.numbers))]) * size

    def add_row(
        self,
        list_id: str,
        names: tuple[str, ...],
        numbers: Sequence[float] | FloatArray,
        statistics: Sequence[float] = (0.0,),
        text: str | None = None,
        refuse: Callable[[str], DataError] | None = None,
    ) -> None:
        """Append a hypothesis of a list; the default statistics are for those that are counted later."""
        self.add(list_id, 1, refuse)
        self.features.add(names, numbers)
        self.statistics.add(statistics)
        if text is not None:
            self.texts.append(text)

    def nbest(self, statistic_names: Sequence[str] | None = None, *, texts: bool = False) -> NBest:
        """Return the lists with gathered rows, and with their texts if `texts`; call it once, at the end."""
        names, features = self.features.matrix()
        statistics, row_texts = self.statistics.rows(), self.texts if texts else None
        owners = np.array(self._owners)
        if (np.diff(owners) < 0).any():
            order, _ = gathered(owners)
            room_for(8 * features.size + statistics.nbytes, "gathering the rows of lists")
            features, statistics = features[order], statistics[order]
            row_texts = None if row_texts is None else [row_texts[row] for row in order.tolist()]
        offsets = from_sizes(np.bincount(owners))
        return NBest(features, offsets, statistics, names, list(self.numbers), statistic_names, row_texts, copy=False)


def rows_by_column(features: FloatArray | csr_array) -> Iterator[dict[int, float]]:
    """Yield each row [M, D] as numbers by column; sparse rows leave out their zeros."""
    if isinstance(features, np.ndarray):
        for row in features:
            yield dict(enumerate(row.tolist()))
        return
    for start, end in pairwise(features.indptr.tolist()):
        yield dict(zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True))
