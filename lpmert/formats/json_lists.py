"""JSON as people have it: rows in lines, in an array or an object, nested or with arrays as columns; best-of-N sets."""

from __future__ import annotations

import io
import json
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.alike import Cell, Style, Template, first_of
from lpmert.formats.columns import SEGMENT, Columns, Head
from lpmert.formats.format import Format, Owners
from lpmert.formats.references import References, with_references
from lpmert.formats.rows import Block, Choose, json_kind
from lpmert.formats.text import Place, unique_keys
from lpmert.metrics.text import TextMetric
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.system.files import EMPTY, Bytes, atomic_writer, blocks_of_bytes, decoded, lines_of, open_bytes, whole

Record = dict[str, Any]

_ROWS = 1 << 14
_WHITE = re.compile(r"[ \t\n\r]*")
_TYPES = {Cell.NUMBER: (int, float), Cell.WORD: (int, str), Cell.TEXT: (str,)}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[ \t\r]+|[^{}\[\]:," \t\r]+')


def json_blocks(stream: io.BufferedReader, path: str | Path, format: str, choose: Choose) -> Iterator[Block]:
    """Yield the wanted columns of all rows of JSON lines ("jsonl") or of one document ("json").

    Names of columns are keys, or paths of keys joined by dots, such as `candidates.scores.lm`. Where all values but the
    list's are arrays of equal length, a record stands for that many rows. Without a column for the list, the number of
    the record, from 0, stands for it. One record alone may have an array of hypotheses for each list; these keys are
    then the column `list`. Raises `DataError` with the line, on which the record begins, for whatever is malformed.
    """
    if format == "json":
        yield from _row_blocks(_of_document(stream, path), choose)
        return
    blocks = blocks_of_bytes(stream, path)
    first = next(blocks, None)
    if first is None:
        raise DataError(EMPTY, path=path)
    place, record = next(_of_lines([first_of(first)], path))
    blocks = chain([first], blocks)
    if any(isinstance(value, list) for value in record.values()):
        yield from _row_blocks(_of_lines(blocks, path), choose)
        return
    columns = choose(_head(place, record))
    for block in blocks:
        found = _alike(block, columns, path) if columns.segment is not None else None
        if found is not None:
            yield found
        elif columns.segment is not None:
            yield from _row_blocks(_of_lines([block], path), lambda _: columns)
        else:  # records are numbered
            yield from _row_blocks(_of_lines(chain([block], blocks), path), lambda _: columns)


def _row_blocks(records: Iterator[tuple[Place, Record]], choose: Choose) -> Iterator[Block]:
    """Yield the rows of records that are looked at one by one."""
    place, record = next(records)
    if _is_of_lists(record):
        second = next(records, None)
        records = _by_list(place, record) if second is None else chain([(place, record), second], records)
        place, record = next(records)
    columns = choose(_head(place, record))
    rows = _rows(chain([(place, record)], records), columns)
    while block := list(islice(rows, _ROWS)):
        yield Block([line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True)))


def _head(place: Place, record: Record) -> Head:
    cells = {}
    for name in (names := leaves(record)):
        with suppress(KeyError):  # of an array of objects that differ
            cells[name] = at_path(record, name)
    return Head(names, place.line, cells, spread=any(isinstance(cell, list) for cell in cells.values()))


def _alike(block: Bytes, columns: Columns, path: str | Path) -> Block | None:
    """Return the rows of lines that are like the first one, with other numbers and strings; `None` for others."""
    _, record = next(_of_lines([first_of(block)], path))
    (line,) = lines_of(first_of(block), path).texts
    names = columns.all
    kinds = dict.fromkeys(columns.numbers, Cell.NUMBER) | {names[0]: Cell.WORD}
    kinds |= {} if columns.text is None else {columns.text: Cell.TEXT}
    if len({*names}) < len(names) or any(match.group() == "[" for match in _TOKEN.finditer(line)):
        return None
    template, found = Template(Style.JSON), list[str]()
    for literal, name, value in _scalars(line):
        kind = kinds.get(name, Cell.SKIPPED) if name is not None else None
        if kind in _TYPES and type(value) not in _TYPES[kind]:
            return None
        template.add(literal, kind)
        found += [name] if name in kinds else []
    rows = template.read(block) if sorted(found) == sorted(names) else None
    if rows is None:
        return None
    order = [name for name in found if name != columns.text]
    words: list[Any] = rows.words
    if isinstance(at_path(record, names[0]), int):
        if not all(word.isascii() and word.isdigit() and str(int(word)) == word for word in words):
            return None
        words = list(map(int, words))
    elif any("\\" in word for word in words):
        return None
    texts = [json.loads(f'"{text}"') if "\\" in text else text for text in rows.texts]
    numbers = [rows.numbers[:, order.index(name)] for name in columns.numbers]
    cells = [rows.runs(order.index(names[0]), words), *numbers, *([] if columns.text is None else [texts])]
    return Block(range(block.first, block.first + len(rows.numbers)), cells)


def _scalars(line: str) -> Iterator[tuple[str, str | None, Any]]:
    """Yield what stands before each number, string or name of an object in one line, its path and its value.

    At last what stands after them all.
    """
    keys: list[str] = []
    literal, is_key = "", False
    for match in _TOKEN.finditer(line):
        token = match.group()
        if token == "{":
            keys.append("")
            is_key = True
        elif token == "}":
            keys.pop()
        elif token == ",":
            is_key = True
        elif token == ":":
            is_key = False
        elif is_key and token.strip():
            keys[-1] = json.loads(token)
        elif token.strip():
            value = json.loads(token)
            quote = '"' if isinstance(value, str) else ""
            yield literal + quote, ".".join(keys), value
            literal, token = "", quote
        literal += token
    yield literal, None, None


def json_records(stream: io.BufferedReader, path: str | Path, format: str) -> Iterator[tuple[Place, Record]]:
    """Yield objects, and where they begin, of JSON lines ("jsonl") or of a document ("json").

    A document is an array of objects, or one object. Raises `DataError` for anything else, for none at all, and for an
    object in which a key occurs twice.
    """
    if format == "json":
        return _of_document(stream, path)
    return _of_lines(blocks_of_bytes(stream, path), path)


def _is_of_lists(record: Record) -> bool:
    """Whether the values are lists of hypotheses that have the same keys: the keys of the record are their names."""
    lists = list(record.values())
    if len(lists) < 2 or not all(isinstance(one, list) and one for one in lists):
        return False
    hypotheses = list(chain.from_iterable(lists))
    if not all(isinstance(one, dict) for one in hypotheses):
        return False
    return len({frozenset(one) for one in hypotheses}) == 1 and SEGMENT not in hypotheses[0]


def _by_list(place: Place, record: Record) -> Iterator[tuple[Place, Record]]:
    for name, hypotheses in record.items():
        yield from ((place, {SEGMENT: name, **hypothesis}) for hypothesis in hypotheses)


def _rows(records: Iterable[tuple[Place, Record]], columns: Columns) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the line and the wanted cells of each row."""
    number, place, names = 0, Place(None), columns.all
    for number, (place, record) in enumerate(records):
        try:
            cells = tuple([record[name] for name in names])
        except KeyError:
            cells = tuple(_deep(record, names, place))
        if columns.segment is None:
            cells = number, *cells
        if any(isinstance(cell, list) for cell in cells):
            try:
                yield from ((place.line, row) for row in list(_spread(cells)))
            except ValueError as error:
                raise place.error(str(error)) from error
        else:
            yield place.line, cells
    if columns.segment is None and number == 0:
        raise place.error("only one record; name the column that tells which list a row belongs to (segment)")


def _deep(record: Record, wanted: Iterable[str], place: Place) -> Iterator[Any]:
    for name in wanted:
        try:
            yield at_path(record, name)
        except KeyError as error:
            raise place.error(f"no key {quoted(name)}; the keys are {listed(leaves(record))}") from error


def leaves(record: Record) -> list[str]:
    """Return the paths of all values that are neither objects nor arrays of objects."""
    found: dict[str, None] = {}
    for key, value in record.items():
        inner = next((one for one in value if isinstance(one, dict)), None) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            found |= dict.fromkeys(f"{key}.{path}" for path in leaves(inner))
        else:
            found[key] = None
    return list(found)


def at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys joined by dots, an array of values where the path goes through an array.

    Raises `KeyError` where there is none. A key that holds dots itself counts before a path.
    """
    if isinstance(value, list):
        return [at_path(one, path) for one in value]
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
    place = Place(path)
    for block in blocks:
        for number, line in enumerate(lines_of(block, path).texts, block.first):
            place = Place(path, number)
            if not line.strip():
                raise place.error("empty line; delete it")
            try:
                record = _DECODER.decode(line)
            except (ValueError, RecursionError) as error:
                raise place.error(f"not one JSON object ({error})") from error
            yield place, _checked(record, place)
    if place.line is None:
        raise place.error(EMPTY)


def _of_document(stream: io.BufferedReader, path: str | Path) -> Iterator[tuple[Place, Record]]:
    text = decoded(whole(stream, path), path)
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


def _spread(cells: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that cells stand for; raises `ValueError` for arrays of different lengths.

    The first cell is an array of the same length as the others, or stands for all rows.
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


LOSS = "loss"


def read_best_of_n(
    path: str | Path,
    *,
    references: References | Sequence[str | Path] | Literal[False] | None = None,
    metric: str | TextMetric = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read lines `{"id": ..., "candidates": [{"text": ..., "scores": {name: number, ...}, "loss": number}, ...]}`.

    One array of such objects will do, too. Every candidate has the same scores, in any order, and one of `loss` (a
    number), `correct` (true or false, or a share from 0 to 1; the loss is 1 less that) or `statistics` (numbers by
    name, for metrics of several). `text` is a string that all candidates have or none. Other keys are not looked at.
    With `references` these are not looked at: the statistics are counted from the texts, as by `with_references`, whose
    `metric`, `partial` and `by_position` these are. Raises `DataError` with file and line.
    """
    reader = _Reader(measured=references is None)
    with open_bytes(path) as stream:
        kind = json_kind(stream.peek()) or "jsonl"
        for place, record in json_records(stream, path, kind):
            for key in ("id", "candidates"):
                if key not in record:
                    raise place.error(f"no key {quoted(key)}; the keys are {listed(record)}")
            reader.add(place, record["id"], record["candidates"])
    nbest = reader.nbest()
    return nbest if references is None else with_references(nbest, references, metric, partial, by_position)


def write_best_of_n(nbest: NBest, path: str | Path) -> None:
    """Write lists as JSON lines that `read_best_of_n` reads back to exactly the same lists.

    The file appears whole or not at all and is compressed if its name ends in .gz, .xz or .zst.
    """
    features, statistics = nbest.dense_features().tolist(), nbest.statistics.tolist()
    with atomic_writer(path) as stream:
        for number, list_id in enumerate(nbest.list_ids):
            candidates = []
            for row in range(*nbest.offsets[number : number + 2].tolist()):
                candidate: dict[str, Any] = {} if nbest.texts is None else {"text": nbest.texts[row]}
                candidate["scores"] = dict(zip(nbest.names, features[row], strict=True))
                if nbest.statistic_names == (LOSS,):
                    candidate[LOSS] = statistics[row][0]
                else:
                    candidate["statistics"] = dict(zip(nbest.statistic_names, statistics[row], strict=True))
                candidates.append(candidate)
            stream.write(json.dumps({"id": list_id, "candidates": candidates}, allow_nan=False) + "\n")


class _Reader:
    """Gathers the lists of one file."""

    def __init__(self, *, measured: bool) -> None:
        self.measured = measured
        self.names: tuple[str, ...] = ()
        self.statistic_names: tuple[str, ...] = ()
        self.features: list[list[float]] = []
        self.statistics: list[list[float]] = []
        self.texts: list[str] = []
        self.owners = Owners()
        self.begun: dict[str, int | None] = {}

    def add(self, place: Place, list_id: Any, candidates: Any) -> None:
        """Add a list."""
        if type(list_id) not in (str, int) or list_id == "":
            raise place.error(f'"id" is {reprlib.repr(list_id)}, not a string or an integer')
        name = str(list_id)
        _check_unicode('"id"', name, place)
        first = self.begun.setdefault(name, place.line)
        if first != place.line:
            raise place.error(f"id {quoted(name)} comes twice, first on line {first}")
        if not isinstance(candidates, list) or not candidates:
            raise place.error('"candidates" must be an array of at least one candidate')
        for number, candidate in enumerate(candidates, start=1):
            if not isinstance(candidate, dict):
                raise place.error(f"candidate {number} is not an object but {reprlib.repr(candidate)}")
            self._add_candidate(f"candidate {number}", candidate, place)
        self.owners.add(name, len(candidates))

    def nbest(self) -> NBest:
        """Return the lists."""
        return self.owners.nbest(
            np.array(self.features),
            np.array(self.statistics),
            names=self.names,
            statistic_names=self.statistic_names,
            texts=self.texts or None,
        )

    def _add_candidate(self, what: str, candidate: dict[str, Any], place: Place) -> None:
        names, features = _named(what, "scores", candidate.get("scores"), self.names, place)
        statistic_names, statistics = self._outcome(what, candidate, place)
        if self.features:
            if ("text" in candidate) != bool(self.texts):
                raise place.error(f'{what}: some candidates have "text", others not; give it to all or none')
            if statistic_names != self.statistic_names:
                trouble = f"{what} has {listed(statistic_names)}, others have {listed(self.statistic_names)}"
                raise place.error(f"{trouble}; give all the same")
        if "text" in candidate:
            if not isinstance(candidate["text"], str):
                raise place.error(f'{what}: "text" is {reprlib.repr(candidate["text"])}, not a string')
            self.texts.append(candidate["text"])
        self.names, self.statistic_names = names, statistic_names
        self.features.append(features)
        self.statistics.append(statistics)

    def _outcome(self, what: str, candidate: dict[str, Any], place: Place) -> tuple[tuple[str, ...], list[float]]:
        given = [key for key in (LOSS, "correct", "statistics") if key in candidate]
        if not self.measured:
            return (LOSS,), [0.0]
        if len(given) != 1:
            raise place.error(f'{what} must have one of "loss", "correct" and "statistics"; it has {len(given)}')
        key, value = given[0], candidate[given[0]]
        if key == "statistics":
            return _named(what, key, value, self.statistic_names, place)
        if key == LOSS:
            return (LOSS,), [place.json_number(value, f'{what}: "loss"')]
        share = value if isinstance(value, bool) else place.json_number(value, f'{what}: "correct"')
        if not 0 <= share <= 1:
            raise place.error(f'{what}: "correct" is {value}, not true, false, or a share from 0 to 1')
        return (LOSS,), [1.0 - share]


def _named(
    what: str, key: str, value: Any, names: tuple[str, ...], place: Place
) -> tuple[tuple[str, ...], list[float]]:
    """Return names and numbers of an object, in the order of names, if there are any yet."""
    if not isinstance(value, dict) or not value or "" in value:
        raise place.error(f'{what}: "{key}" must be an object of numbers by name, not {reprlib.repr(value)}')
    if not names:
        for name in value:
            _check_unicode(f"{what}: the name", name, place)
    names = names or tuple(value)
    if set(names) != set(value):
        raise place.error(f'{what}: "{key}" has {listed(value)}; the candidates before have {listed(names)}')
    return names, [place.json_number(value[name], f"{what}: {key} {quoted(name)}") for name in names]


def _check_unicode(what: str, text: str, place: Place) -> None:
    """Refuse lone surrogates, which JSON can hold, in what has to be printed."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise place.error(f"{what} {quoted(text)} is no text; replace the surrogates in it")


BEST_OF_N = Format("JSON lines, one list a line", read_best_of_n, write_best_of_n)
