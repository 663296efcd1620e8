"""Best-of-N sets of language models as JSON lines, one prompt a line with all its candidates, and back."""

from __future__ import annotations

import json
import reprlib
from pathlib import Path
from typing import Any

import numpy as np

from lpmert.formats.format import Format
from lpmert.formats.json_rows import json_records
from lpmert.formats.lists import Owners
from lpmert.formats.rows import json_kind
from lpmert.formats.text import Place
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.system.files import atomic_writer, open_bytes

LOSS = "loss"


def read_best_of_n(path: str | Path) -> NBest:
    """Read lines `{"id": ..., "candidates": [{"text": ..., "scores": {name: number, ...}, "loss": number}, ...]}`.

    One array of such objects will do, too. Every candidate has the same scores, in any order, and one of `loss` (a
    number), `correct` (true or false, or a share from 0 to 1; the loss is 1 less that) or `statistics` (numbers by
    name, for metrics of several). `text` is a string that all candidates have or none. Other keys are not looked at.
    Raises `DataError` with file and line.
    """
    reader = _Reader()
    with open_bytes(path) as stream:
        kind = json_kind(stream.peek()) or "jsonl"
        for place, record in json_records(stream, path, kind):
            for key in ("id", "candidates"):
                if key not in record:
                    raise place.error(f"no key {quoted(key)}; the keys are {listed(record)}")
            reader.add(place, record["id"], record["candidates"])
    return reader.nbest()


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

    def __init__(self) -> None:
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
