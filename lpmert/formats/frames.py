"""Tables in memory: data frames of pandas and polars, tables of pyarrow, columns by name; none of them is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.roles import SEGMENT, TEXT, Columns, Head
from lpmert.formats.rows import Block, Choose, checked_columns
from lpmert.formats.unique import repeated
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted


def frame_blocks(frame: Any, choose: Choose) -> Iterator[Block]:
    """Yield the wanted columns of a table in memory; rows are numbered from 1.

    Anything will do that has names of columns (`column_names`, `columns`, or the keys of a mapping) and gives a column
    by its name. Raises `DataError` for anything else.
    """
    path = f"{type(frame).__name__} given"
    names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or not hasattr(frame, "__getitem__"):
        raise DataError(f"neither a path nor a table with named columns: {quoted(frame)}")
    cells = {name: _column(frame, name) for name in list(names)}
    sizes = {len(column) for column in cells.values()}
    if len(sizes) > 1 or any(not isinstance(name, str) for name in cells):
        raise DataError("columns must have strings for names, and all the same number of rows", path=path)
    first = {name: _cells(column[:1])[0] if column.shape[0] else "" for name, column in cells.items()}
    wanted = checked_columns(choose, Head(list(cells), None, first), path)
    if sizes != {0}:
        columns = [cells[name] if cells[name].dtype.kind in "iuf" else _cells(cells[name]) for name in wanted.all]
        yield Block(range(1, 1 + sizes.pop()), columns)


def to_columns(nbest: NBest, *, segment: str = SEGMENT, text: str = TEXT) -> dict[str, Any]:
    """Return lists as columns by name, which `pandas.DataFrame` and `polars.DataFrame` take; `read_table` reads them.

    Parameters
    ----------
    nbest : NBest
        The lists.
    segment : str
        What the column with the id of the list is called.
    text : str
        What the column of the texts is called, if there are any.

    Returns
    -------
    dict
        The ids, each feature and each statistic as arrays [M], and the texts as a list.

    Raises
    ------
    DataError
        If two columns would have the same name.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]], names=["a", "b"])
    >>> list(lpmert.to_columns(lists))
    ['list', 'a', 'b', 'loss']
    >>> lpmert.read_table(lpmert.to_columns(lists)).fingerprint == lists.fingerprint
    True
    """
    columns = Columns(segment, nbest.names, nbest.statistic_names, None if nbest.texts is None else text)
    twice = repeated(columns.all)
    if twice is not None:
        raise DataError(f"two columns would be called {quoted(twice)}; set segment or text, or rename a feature")
    arrays = [np.array(nbest.list_ids, dtype=object)[nbest.list_index]]
    arrays += [*nbest.dense_features().T.copy(), *nbest.statistics.T.copy()]
    return dict(zip(columns.all, [*arrays, *([] if nbest.texts is None else [list(nbest.texts)])], strict=True))


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column; dates and times stay such, where `tolist` makes numbers of some."""
    return list(column) if column.dtype.kind in "mM" else list(column.tolist())


def _column(frame: Any, name: Any) -> Any:
    column = frame[name]
    array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.dtype.kind in "US":  # numpy makes strings of numbers beside strings
        array = np.asarray(column, dtype=object)
    if array.ndim != 1:
        raise DataError(f"column {quoted(name)} is no row of values", path=f"{type(frame).__name__} given")
    return array
