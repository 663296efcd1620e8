"""What a format is, and N-best lists as readers find them: named numbers, and the list of each hypothesis."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.model.nbest import NBest, gathered, taken_rows
from lpmert.numeric.lists import from_sizes
from lpmert.system.mapped import Growing, is_mapped
from lpmert.system.memory import room_for

if TYPE_CHECKING:
    from scipy.sparse import csr_array


COUNTED = "counted"
COUNTING = ("metric", "partial", "by_position")
"""Options of `read` for all formats, beside `references`."""


@dataclass(frozen=True)
class Format:
    """A format, as it is registered.

    reader(source, **options) returns the lists; writer(lists, path, **options) writes them, `None` where the format is
    only read. pooled: several files are one set of lists. endings: of the names of such files, such as ".lists". fixed:
    options of both that are not the caller's to set. spoken: whether it holds texts without statistics, so that `read`
    needs references. metric: on texts, by default. graphs: for a format of lattices, what yields each one of a
    `lpmert.formats.graphs.GraphText`, whole, and its utterance if the text says it.

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
    def takes_counted(self) -> bool:
        return COUNTED in inspect.signature(self.reader).parameters

    @property
    def writer_options(self) -> dict[str, bool]:
        """The options of the writer, and whether each is needed."""
        return {} if self.writer is None else self._options(self.writer, 2)

    def _options(self, function: Callable[..., Any], skipped: int) -> dict[str, bool]:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
        inner = {*self.fixed, COUNTED}
        return {one.name: one.default is inspect.Parameter.empty for one in parameters if one.name not in inner}


class NamedRows:
    """Rows of numbers by name, each with names of its own, gathered into one matrix."""

    def __init__(self, expected: int | None = None) -> None:
        self._columns: dict[str, int] = {}
        self._values = Growing(expected)
        self._names: tuple[str, ...] = ()
        self._places: list[array[int]] = []
        self._sizes = array("q")  # of runs of rows with the same names

    def add(self, names: tuple[str, ...], values: Sequence[float] | FloatArray, rows: int = 1) -> None:
        """Append rows that have these values under these names, each of which occurs once."""
        if not self._sizes or (names is not self._names and names != self._names):  # rows mostly share one tuple
            self._names = names
            self._places.append(array("q", [self._columns.setdefault(name, len(self._columns)) for name in names]))
            self._sizes.append(0)
        self._sizes[-1] += rows
        self._values.add(values, rows)

    def matrix(self) -> tuple[tuple[str, ...], FloatArray | csr_array]:
        """Return the names [D] in order of first appearance, and the rows [M, D]; call it once, at the end.

        The rows are dense if every row has all names, else sparse, with 0 for a missing name.
        """
        names, shape, values = tuple(self._columns), (sum(self._sizes), len(self._columns)), self._values.whole()
        if len(self._places) <= 1:
            return names, values.reshape(shape)
        indices, sizes = array("q"), np.repeat([len(places) for places in self._places], self._sizes)
        for places, size in zip(self._places, self._sizes, strict=True):
            indices.extend(places * size)
        if len(values) == shape[0] * shape[1]:
            rows = np.empty(shape)
            rows[np.repeat(np.arange(shape[0]), sizes), indices] = values
            return names, rows
        from scipy.sparse import csr_array

        return names, csr_array((values, np.array(indices), from_sizes(sizes)), shape=shape)


class Pool:
    """Hypotheses as a reader finds them, and which list each belongs to; lists are in order of first appearance.

    expected: the number of hypotheses, if it is known.
    """

    def __init__(self, expected: int | None = None) -> None:
        self.features, self.statistics, self.texts = NamedRows(expected), Growing(expected), list[str]()
        self.numbers: dict[str, int] = {}
        """Of the lists, from 0, by id."""
        self._runs, self._sizes = array("q"), array("q")

    def __len__(self) -> int:
        return sum(self._sizes)

    def add(self, list_id: str, size: int = 1) -> None:
        number = self.numbers.setdefault(list_id, len(self.numbers))
        if self._runs and number == self._runs[-1]:
            self._sizes[-1] += size
        else:
            self._runs.append(number)
            self._sizes.append(size)

    def add_row(
        self,
        list_id: str,
        names: tuple[str, ...],
        numbers: Sequence[float] | FloatArray,
        statistics: Sequence[float] = (0.0,),
        text: str | None = None,
    ) -> None:
        """Append a hypothesis of a list; its statistics are 0 where they are still to be counted."""
        self.add(list_id)
        self.features.add(names, numbers)
        self.statistics.add(statistics)
        if text is not None:
            self.texts.append(text)

    def nbest(self, statistic_names: Sequence[str] | None = None, *, texts: bool = False) -> NBest:
        """Return the lists, the rows of each gathered, with their texts or without; call it once, at the end."""
        names, features = self.features.matrix()
        statistics, own = self.statistics.rows(), self.texts if texts else None
        owners, sizes = np.array(self._runs), np.array(self._sizes)
        if (np.diff(owners) < 0).any():
            order, _ = gathered(np.repeat(owners, sizes))
            in_memory = 0 if is_mapped(features) or not isinstance(features, np.ndarray) else features.nbytes
            room_for(in_memory and in_memory + statistics.nbytes, "gathering the rows of lists")
            features, statistics = taken_rows(features, order), taken_rows(statistics, order)
            own = None if own is None else [own[row] for row in order.tolist()]
        offsets = from_sizes(np.bincount(owners, weights=sizes).astype(np.int64))
        return NBest(features, offsets, statistics, names, list(self.numbers), statistic_names, own, copy=False)


def rows_by_column(features: FloatArray | csr_array) -> Iterator[dict[int, float]]:
    """Yield the numbers of each row [M, D] by column; sparse rows without their zeros."""
    if isinstance(features, np.ndarray):
        for row in features:
            yield dict(enumerate(row.tolist()))
        return
    for start, end in pairwise(features.indptr.tolist()):
        yield dict(zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True))
