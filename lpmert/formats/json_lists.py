"""Tables in JSON: records in lines, in an array or an object, nested or with arrays for columns."""

from __future__ import annotations

import io
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.columns import Columns, Head
from lpmert.formats.rows import Block, Cell, Piece, Style, Table, alike_block, blocks_of, first_of, kinds_of, read_block
from lpmert.formats.text import Place, unique_keys
from lpmert.quoting import listed, quoted
from lpmert.system.files import EMPTY, Bytes, decoded, lines_of, read_all

Record = dict[str, Any]

_ROWS = 1 << 14
_WHITE = re.compile(r"[ \t\n\r]*")
_TYPES = {Cell.NUMBER: (int, float), Cell.WORD: (int, str), Cell.TEXT: (str,)}
_SCALARS = (int, float, str, bool, type(None))
_STRING = r'"(?:[^"\\]|\\.)*"'
_PART = re.compile(rf'{_STRING}[ \t\r]*:|({_STRING}|[^{{}}\[\]:," \t\r]+)')
"""A key, or a value that is no object or array; values are in the group."""


def json_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
    """Return the table in a stream of JSON lines ("jsonl") or of one document ("json").

    Columns are named by keys, or by paths of keys joined by dots, such as `candidates.scores.lm`. A record stands for
    several rows if all its values, except that of the list, are arrays of equal length. Without a column for the list,
    the number of the record, from 0, is its id. Raises `DataError`, with the line on which the record begins, for
    malformed data.
    """
    if format == "json":
        records = _of_document(stream, path)
        first = next(records)
        return Table(_head(*first), lambda columns: blocks_of_rows(_rows(chain([first], records), columns)))
    blocks = blocks_of(stream, path)
    beginning = next(blocks)
    head = _head(*next(_of_lines([first_of(beginning)], path)))
    blocks = chain([beginning], blocks)

    def rows(columns: Columns) -> Iterator[Block]:
        if columns.segment is None or head.spread:  # records are numbered, or lists in themselves
            yield from blocks_of_rows(_rows(_of_lines(blocks, path), columns))
        for block in blocks:
            found = _alike(block, columns, path)
            yield from blocks_of_rows(_rows(_of_lines([block], path), columns)) if found is None else [found]

    return Table(head, rows)


def blocks_of_rows(rows: Iterator[tuple[Any, Sequence[Any]]]) -> Iterator[Block]:
    """Yield blocks of rows, which come with their lines."""
    while block := list(islice(rows, _ROWS)):
        yield Block([line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True)))


def _head(place: Place, record: Record) -> Head:
    spread, names = [], leaves(record)
    for name in names:
        with suppress(KeyError):  # objects in an array may differ
            spread += [name] if isinstance(at_path(record, name), list) else []
    return Head(names, place, spread)


def _alike(block: Bytes, columns: Columns, path: str | Path) -> Block | None:
    """Return the rows of lines that only differ from the first one in numbers and strings; `None` for others."""
    _, record = next(_of_lines([first_of(block)], path))
    (line,) = lines_of(first_of(block), path)
    kinds = kinds_of(columns)
    cells = [(name, at_path(record, name), kinds.get(name, Cell.SKIPPED)) for name in leaves(record)]
    places = list(filter(itemgetter(1), _PART.finditer(line)))
    if (
        len(places) != len(cells)  # a path may also be a key
        or not kinds.keys() <= {name for name, _, _ in cells}
        or not kinds
        or not all(type(value) in _TYPES.get(kind, _SCALARS) for _, value, kind in cells)
    ):
        return None
    pieces, end = list[Piece](), 0
    for match, (name, value, kind) in zip(places, cells, strict=True):
        quote = isinstance(value, str)
        pieces.append((line[end : match.start(1) + quote], kind, name))
        end = match.end(1) - quote
    found = read_block(block, Style.JSON, [*pieces, (line[end:], None, None)])
    if found is None:
        return None
    words = found.words
    if isinstance(at_path(record, columns.all[0]), int):
        if not all(word.isascii() and word.isdigit() and str(int(word)) == word for word in words):
            return None
        words = list(map(int, words))
    elif any("\\" in word for word in words):
        return None
    texts = [json.loads(f'"{text}"') if "\\" in text else text for text in found.texts]
    return alike_block(block.first, found._replace(words=words, texts=texts), columns)


def json_records(stream: io.BufferedReader, path: str | Path, format: str) -> Iterator[tuple[Place, Record]]:
    """Yield the place and the content of each object in JSON lines ("jsonl") or in a document ("json").

    A document is an array of objects, or one object. Raises `DataError` for anything else, for an empty file, and for
    an object in which a key occurs twice.
    """
    if format == "json":
        return _of_document(stream, path)
    return _of_lines(blocks_of(stream, path), path)


def _rows(records: Iterable[tuple[Place, Record]], columns: Columns) -> Iterator[tuple[Any, Sequence[Any]]]:
    number, place, names = 0, Place(None), columns.all
    for number, (place, record) in enumerate(records):
        cells: list[Any] = [number] if columns.segment is None else []
        for name in names:
            try:
                cells.append(record[name] if name in record else at_path(record, name))
            except KeyError as error:
                raise place.error(f"no key {quoted(name)}; the keys are {listed(leaves(record))}") from error
        if any(isinstance(cell, list) for cell in cells):
            try:
                yield from ((place.line, row) for row in list(_spread(cells)))
            except ValueError as error:
                raise place.error(str(error)) from error
        else:
            yield place.line, cells
    if columns.segment is None and number == 0:
        raise place.error("only one record; name the column that says which list a row belongs to (segment)")


def leaves(record: Record) -> list[str]:
    """Return the paths of all values that are neither objects nor arrays of objects."""
    found: dict[str, None] = {}
    for key, value in record.items():
        inner = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            found |= dict.fromkeys(f"{key}.{path}" for path in leaves(inner))
        else:
            found[key] = None
    return list(found)


def at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys joined by dots, or an array of values if the path goes through an array.

    A key that contains dots takes precedence over a path. Raises `KeyError` where there is no value.
    """
    if isinstance(value, list):
        return [at_path(item, path) for item in value]
    if not isinstance(value, dict):
        raise KeyError(path)
    if path in value:
        return value[path]
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:end])
        if key in value:
            return at_path(value[key], ".".join(parts[end:]))
    raise KeyError(path)


def _of_lines(blocks: Iterable[Bytes], path: str | Path) -> Iterator[tuple[Place, Record]]:
    for block in blocks:
        for number, line in enumerate(lines_of(block, path), block.first):
            place = Place(path, number)
            if not line.strip():
                raise place.error("empty line; delete it")
            try:
                record = _DECODER.decode(line)
            except (ValueError, RecursionError) as error:
                raise place.error(f"not one JSON object ({error})") from error
            yield place, _checked(record, place)


def _of_document(stream: io.BufferedReader, path: str | Path) -> Iterator[tuple[Place, Record]]:
    text = decoded(read_all(stream, path), path)
    at = _after_white(text, 0)
    if at == len(text):
        raise DataError(EMPTY, path=path)
    is_array = text.startswith("[", at)
    at = _after_white(text, at + is_array)
    line = 1 + text.count("\n", 0, at)
    while True:
        place = Place(path, line)
        try:
            record, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise place.error(f"not JSON ({error})") from error
        yield place, _checked(record, place)
        end = _after_white(text, end)
        if not (is_array and text.startswith(",", end)):
            break
        line += text.count("\n", at, at := _after_white(text, end + 1))
    if not is_array or text.startswith("]", end):
        end = _after_white(text, end + is_array)
        if end == len(text):
            return
    line += text.count("\n", at, end)
    raise Place(path, line).error(f"not JSON: {quoted(text[end : end + 20])} after a record")


def _checked(record: Any, place: Place) -> Record:
    if not isinstance(record, dict):
        raise place.error(f"not a JSON object but {reprlib.repr(record)}")
    return record


def _after_white(text: str, place: int) -> int:
    found = _WHITE.match(text, place)
    return place if found is None else found.end()


def _spread(cells: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a record, several if all its cells but the first, the list's, are arrays.

    The first cell is an array, too, or belongs to all rows. Raises `ValueError` for arrays of different lengths.
    """
    key, *others = cells
    if not others or not all(isinstance(cell, list) for cell in others):
        yield cells
        return
    sizes = {len(cell) for cell in cells if isinstance(cell, list)}
    if len(sizes) > 1:
        raise ValueError(f"arrays of {' and '.join(map(str, sorted(sizes)))} values; give all the same number")
    for row in zip(key if isinstance(key, list) else [key] * len(others[0]), *others, strict=True):
        yield from _spread(row)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number; correct it, or leave out the hypothesis")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
