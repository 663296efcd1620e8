"""Best-of-N sets of language models as JSON lines, one prompt a line with all its candidates, and back."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.json_rows import json_records
from lpmert.formats.numbers import number_of_json
from lpmert.formats.rows import json_kind
from lpmert.formats.utterances import References, with_references
from lpmert.metrics.text import TextMetric
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.system.files import atomic_writer, open_bytes

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
    reader = _Reader(path, measured=references is None)
    with open_bytes(path) as stream:
        kind = json_kind(stream.peek()) or "jsonl"
        for line, record in json_records(stream, path, kind):
            for key in ("id", "candidates"):
                if key not in record:
                    raise DataError(f"no key {quoted(key)}; the keys are {listed(record)}", path=path, line=line)
            reader.add(line, record["id"], record["candidates"])
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

    def __init__(self, path: str | Path, *, measured: bool) -> None:
        self.path, self.measured = path, measured
        self.line = 0
        self.names: tuple[str, ...] = ()
        self.statistic_names: tuple[str, ...] = ()
        self.features: list[list[float]] = []
        self.statistics: list[list[float]] = []
        self.texts: list[str] = []
        self.begun: dict[str, int] = {}
        self.sizes: list[int] = []

    def add(self, line: int, list_id: Any, candidates: Any) -> None:
        self.line = line
        self._begin(list_id)
        if not isinstance(candidates, list) or not candidates:
            raise self._error('"candidates" must be an array of at least one candidate')
        for place, candidate in enumerate(candidates, start=1):
            if not isinstance(candidate, dict):
                raise self._error(f"candidate {place} is not an object but {reprlib.repr(candidate)}")
            self._add_candidate(f"candidate {place}", candidate)
        self.sizes.append(len(candidates))

    def nbest(self) -> NBest:
        return NBest(
            features=self.features,
            offsets=np.cumsum([0, *self.sizes]),
            statistics=self.statistics,
            names=self.names,
            list_ids=list(self.begun),
            statistic_names=self.statistic_names,
            texts=self.texts or None,
        )

    def _begin(self, key: Any) -> None:
        if type(key) not in (str, int) or key == "":
            raise self._error(f'"id" is {reprlib.repr(key)}, not a string or an integer')
        self._check_unicode('"id"', str(key))
        first = self.begun.setdefault(str(key), self.line)
        if first != self.line:
            raise self._error(f"id {quoted(str(key))} comes twice, first on line {first}")

    def _add_candidate(self, what: str, candidate: dict[str, Any]) -> None:
        names, features = self._named(what, "scores", candidate.get("scores"), self.names)
        statistic_names, statistics = self._outcome(what, candidate)
        if self.features:
            if ("text" in candidate) != bool(self.texts):
                raise self._error(f'{what}: some candidates have "text", others not; give it to all or none')
            if statistic_names != self.statistic_names:
                trouble = f"{what} has {listed(statistic_names)}, others have {listed(self.statistic_names)}"
                raise self._error(f"{trouble}; give all the same")
        if "text" in candidate:
            if not isinstance(candidate["text"], str):
                raise self._error(f'{what}: "text" is {reprlib.repr(candidate["text"])}, not a string')
            self.texts.append(candidate["text"])
        self.names, self.statistic_names = names, statistic_names
        self.features.append(features)
        self.statistics.append(statistics)

    def _outcome(self, what: str, candidate: dict[str, Any]) -> tuple[tuple[str, ...], list[float]]:
        given = [key for key in (LOSS, "correct", "statistics") if key in candidate]
        if not self.measured:
            return (LOSS,), [0.0]
        if len(given) != 1:
            raise self._error(f'{what} must have one of "loss", "correct" and "statistics"; it has {len(given)}')
        value = candidate[given[0]]
        if given[0] == "statistics":
            return self._named(what, "statistics", value, self.statistic_names)
        if given[0] == LOSS:
            return (LOSS,), [number_of_json(value, f'{what}: "loss"', self.path, self.line)]
        share = value if isinstance(value, bool) else number_of_json(value, f'{what}: "correct"', self.path, self.line)
        if not 0 <= share <= 1:
            raise self._error(f'{what}: "correct" is {value}, not true, false, or a share from 0 to 1')
        return (LOSS,), [1.0 - share]

    def _named(self, what: str, key: str, value: Any, names: tuple[str, ...]) -> tuple[tuple[str, ...], list[float]]:
        """Return names and numbers of an object, in the order of names, if there are any yet."""
        if not isinstance(value, dict) or not value or "" in value:
            raise self._error(f'{what}: "{key}" must be an object of numbers by name, not {reprlib.repr(value)}')
        if not names:
            for name in value:
                self._check_unicode(f"{what}: the name", name)
        names = names or tuple(value)
        if set(names) != set(value):
            raise self._error(f'{what}: "{key}" has {listed(value)}; the candidates before have {listed(names)}')
        return names, [
            number_of_json(value[name], f"{what}: {key} {quoted(name)}", self.path, self.line) for name in names
        ]

    def _check_unicode(self, what: str, text: str) -> None:
        """Refuse lone surrogates, which JSON can hold, in what has to be printed."""
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise self._error(f"{what} {quoted(text)} is no text; replace the surrogates in it")

    def _error(self, message: str) -> DataError:
        return DataError(message, path=self.path, line=self.line)


BEST_OF_N = Format("JSON lines, one list a line", read_best_of_n, write_best_of_n)
