"""Lists in JSON: records of hypotheses in lines, in an array or in one object, nested or with arrays for columns; and
sets of answers, one list a record.
"""

from __future__ import annotations

import io
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.files import EMPTY, Bytes, atomic_writer, decoded, lines_of, open_bytes, read_all, unique_keys
from lpmert.formats.columns import TEXT, Block, Columns, Rows, Table
from lpmert.formats.format import Format, Place, blocks_of
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted

Record = dict[str, Any]

_WHITE = re.compile(r"[ \t\n\r]*")
_LOSS = "loss"


def json_kind(beginning: str) -> str | None:
    """Return "jsonl" or "json" if a file that begins so has JSON lines or one document, `None` for others."""
    text = beginning.lstrip("\ufeff \t\n\r\v\f")
    if not text.startswith(("{", "[")):
        return None
    line, end, _ = text.partition("\n")
    # in a document, the first line may end before its object
    return "jsonl" if line.startswith("{") and (not end or line.rstrip().endswith("}")) else "json"


def json_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
    """Return the table in a stream of JSON lines ("jsonl") or of one document ("json").

    A record stands for several rows if all its values, except that of the list, are arrays of equal length. Without a
    column for the list, the number of the record, from 0, is its id.
    """
    records = _records(stream, path, format)
    place, record = first = next(records)
    names, spread = _leaves(record), list[str]()
    for name in names:
        with suppress(KeyError):  # objects in an array may differ
            spread += [name] if isinstance(_at_path(record, name), list) else []
    return Table(names, place, lambda columns: _in_blocks(_rows(chain([first], records), columns)), spread)


def _in_blocks(rows: Iterator[tuple[Any, Sequence[Any]]]) -> Iterator[Block]:
    while block := list(islice(rows, 1 << 14)):
        yield Block([line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True)))


def _rows(records: Iterable[tuple[Place, Record]], columns: Columns) -> Iterator[tuple[Any, Sequence[Any]]]:
    number, place, names = 0, Place(None), columns.all
    for number, (place, record) in enumerate(records):
        cells: list[Any] = [number] if columns.segment is None else []
        for name in names:
            try:
                cells.append(record[name] if name in record else _at_path(record, name))
            except KeyError as error:
                known = _leaves(record)
                where = " in one of its objects" if name in known else ""
                raise place.error(f"no key {quoted(name)}{where}; the keys are {listed(known)}") from error
        if list in map(type, cells):
            yield from ((place.line, row) for row in _spread(cells, place))
        else:
            yield place.line, cells
    if columns.segment is None and number == 0:
        raise place.error("only one record; name the column that says which list a row belongs to (segment)")


def _leaves(record: Record) -> list[str]:
    """Return the paths of all values that are neither objects nor arrays of objects."""
    found: dict[str, None] = {}
    for key, value in record.items():
        inner = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            found |= dict.fromkeys(f"{key}.{path}" for path in _leaves(inner))
        else:
            found[key] = None
    return list(found)


def _at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys joined by dots, or an array of values if the path goes through an array.

    A key that contains dots takes precedence. Raises `KeyError` where there is no value.
    """
    if isinstance(value, list):
        return [_at_path(item, path) for item in value]
    if not isinstance(value, dict):
        raise KeyError(path)
    if path in value:
        return value[path]
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:end])
        if key in value:
            return _at_path(value[key], ".".join(parts[end:]))
    raise KeyError(path)


def _spread(cells: Sequence[Any], place: Place) -> Iterator[Sequence[Any]]:
    """Yield the rows of a record, several if all its cells but the first, the list's, are arrays."""
    key, *others = cells
    if not others or not all(isinstance(cell, list) for cell in others):
        yield cells
        return
    sizes = {len(cell) for cell in cells if isinstance(cell, list)}
    if len(sizes) > 1:
        raise place.error(f"arrays of {' and '.join(map(str, sorted(sizes)))} values; give all the same number")
    if sizes == {0}:
        raise place.error("no hypotheses, only empty arrays; leave the list out, or give it some")
    for row in zip(key if isinstance(key, list) else [key] * len(others[0]), *others, strict=True):
        yield from _spread(row, place)


# Records and their places in files


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number; correct it, or leave out the hypothesis")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)


def _records(stream: io.BufferedReader, path: str | Path, format: str) -> Iterator[tuple[Place, Record]]:
    for place, record in _of_document(stream, path) if format == "json" else _of_lines(blocks_of(stream, path), path):
        if not isinstance(record, dict):
            raise place.error(f"not a JSON object but {reprlib.repr(record)}")
        yield place, record


def _of_lines(blocks: Iterable[Bytes], path: str | Path) -> Iterator[tuple[Place, Any]]:
    for block in blocks:
        for number, line in enumerate(lines_of(block, path), block.first):
            place = Place(path, number)
            if not line.strip():
                raise place.error("empty line; delete it")
            try:
                yield place, _DECODER.decode(line)
            except (ValueError, RecursionError) as error:
                raise place.error(f"not one JSON object ({error})") from error


def _of_document(stream: io.BufferedReader, path: str | Path) -> Iterator[tuple[Place, Any]]:
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
        yield place, record
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


def _after_white(text: str, place: int) -> int:
    found = _WHITE.match(text, place)
    return place if found is None else found.end()


# Sets of answers


def read_best_of_n(path: str | Path, *, counted: bool | None = False) -> NBest:
    """Read lines `{"id": ..., "candidates": [{"text": ..., "scores": {name: number, ...}, "loss": number}, ...]}`.

    In the place of `loss` is `correct` (true or false, or a share from 0 to 1; the loss is 1 - `correct`) or
    `statistics` (numbers by name). They are ignored where statistics are `counted`. Other keys are always ignored.
    """
    with open_bytes(path) as stream:
        records = _records(stream, path, json_kind(stream.peek().decode(errors="replace")) or "jsonl")
        rows = _candidates(records, with_outcomes=counted is False)
        columns, first = next(rows)
        return Rows(path, "jsonl", columns).collected(_in_blocks(chain([first], (row for _, row in rows))))


def _candidates(
    records: Iterator[tuple[Place, Record]], *, with_outcomes: bool
) -> Iterator[tuple[Columns, tuple[Any, tuple[Any, ...]]]]:
    """Yield for each candidate the columns, which the first one settles, and its row: line and number, and cells."""
    begun: dict[str, int | None] = {}
    columns: Columns | None = None
    for place, record in records:
        list_id, candidates = (record.get(key) for key in ("id", "candidates"))
        if "id" not in record or not isinstance(candidates, list) or not candidates:
            raise place.error('a record needs "id", and "candidates", an array of at least one candidate')
        _check_unicode('"id"', str(list_id), place)
        first = begun.setdefault(str(list_id), place.line)
        if first != place.line:
            raise place.error(f"id {quoted(str(list_id))} comes twice, first on line {first}")
        for number, candidate in enumerate(candidates, start=1):
            what = f"candidate {number}"
            if not isinstance(candidate, dict):
                raise place.error(f"{what} is not an object but {reprlib.repr(candidate)}")
            scores = _named(what, "scores", candidate.get("scores"), place)
            outcome = _outcome(what, candidate, place) if with_outcomes else {}
            found = Columns("id", tuple(scores), tuple(outcome), TEXT if TEXT in candidate else None)
            if columns is None:
                columns = found
                for name in (*scores, *outcome):
                    _check_unicode(f"{what}: the name", name, place)
            keys = [(sorted(own.features), sorted(own.statistics), own.text) for own in (found, columns)]
            if keys[0] != keys[1]:
                shown = f"has {listed(found.all[1:])}; the candidates before have {listed(columns.all[1:])}"
                raise place.error(f"{what} {shown}; give all the same")
            numbers = [*map(scores.get, columns.features), *map(outcome.get, columns.statistics)]
            yield columns, ((place.line, number), (list_id, *numbers, *([candidate[TEXT]] if found.text else [])))


def _outcome(what: str, candidate: Record, place: Place) -> Record:
    keys = [key for key in (_LOSS, "correct", "statistics") if key in candidate]
    if len(keys) != 1:
        raise place.error(f'{what} must have one of "loss", "correct" and "statistics"; it has {len(keys)}')
    value = candidate[keys[0]]
    if keys[0] == "statistics":
        return _named(what, keys[0], value, place)
    if keys[0] == _LOSS:
        if isinstance(value, bool):
            raise place.error(f'{what}: "loss" is {value}, not a number; if true is better, call it "correct"')
        return {_LOSS: value}
    share = value if isinstance(value, bool) else place.number(value, f'{what}: "correct"', textual=False)
    if not 0 <= share <= 1:
        raise place.error(f'{what}: "correct" is {value}, not true, false, or a share from 0 to 1')
    return {_LOSS: 1.0 - share}


def _named(what: str, key: str, value: Any, place: Place) -> Record:
    if not isinstance(value, dict) or not value or "" in value:
        raise place.error(f'{what}: "{key}" must be an object of numbers by name, not {reprlib.repr(value)}')
    flag = next((name for name, number in value.items() if isinstance(number, bool)), None)
    if flag is not None:
        trouble = f"is {value[flag]}, not a number; write 1 for true and 0 for false"
        raise place.error(f"{what}: column {quoted(flag)} {trouble}")
    return value


def _check_unicode(what: str, text: str, place: Place) -> None:
    """Refuse lone surrogates, which JSON can hold but which cannot be printed."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise place.error(f"{what} {quoted(text)} is no text; replace the surrogates in it")


def write_best_of_n(nbest: NBest, path: str | Path) -> None:
    features, statistics = nbest.dense_features().tolist(), nbest.statistics.tolist()
    with atomic_writer(path) as stream:
        for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
            candidates = []
            for row in range(start, end):
                candidate: Record = {} if nbest.texts is None else {TEXT: nbest.texts[row]}
                candidate["scores"] = dict(zip(nbest.names, features[row], strict=True))
                if nbest.statistic_names == (_LOSS,):
                    candidate[_LOSS] = statistics[row][0]
                else:
                    candidate["statistics"] = dict(zip(nbest.statistic_names, statistics[row], strict=True))
                candidates.append(candidate)
            stream.write(json.dumps({"id": list_id, "candidates": candidates}, allow_nan=False) + "\n")


BEST_OF_N = Format("JSON lines, one list a line", read_best_of_n, write_best_of_n)
