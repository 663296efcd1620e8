"""Files of weights: read, and written in the form, order and scale of one, with digits enough to keep the loss.

The forms are numbers (weights.txt, init.opt), names (`name= v v ...` as Moses shows weights, `name=v` of travatar,
`name v` of cdec), the section [weight] of moses.ini, and JSON (an object of numbers by name, or a result of lpmert).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.formats.moses_features import groups_of, label_of, names_of_group
from lpmert.formats.numbers import number_of_json, number_of_text
from lpmert.formats.rows import repeated, unique_keys
from lpmert.quoting import listed, quoted
from lpmert.system.files import read_text, write_text

if TYPE_CHECKING:
    from lpmert.model.problem import Problem

DECIMALS = 6
"""Decimals that weights have at least: those that Moses' scripts hand to the decoder."""

Keeps = Callable[[FloatArray], bool]
"""Whether weights [D] decode as well as others do."""

_WORD = re.compile(r"[^ \t\n\r\v\f]+")
_SECTION = re.compile(r"\[(.+)\][ \t]*")
_FULL_DIGITS = 17


class Slot(NamedTuple):
    """Where in a text a weight is, which line that is, and the name of the weight; empty for mere numbers."""

    start: int
    end: int
    line: int
    name: str


@dataclass(frozen=True)
class WeightsFile:
    """The weights in a file: `names` is empty where it has only numbers; `values` [n] are in the order of the file."""

    path: str | Path
    names: tuple[str, ...]
    values: FloatArray
    form: str
    content: str

    @property
    def by_name(self) -> Mapping[str, float]:
        """The weights by name; raises `DataError` if the file has only numbers."""
        if not self.names:
            raise DataError("numbers without names; write lines `name value`", path=self.path)
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def of_features(self, names: Sequence[str]) -> FloatArray:
        """Return the weights [D] of these features, in their order.

        Of three times as many numbers as features, as in init.opt, the first third counts. moses.ini may have weights
        of other features. Raises `DataError` where a weight is missing, or there are others.
        """
        if not self.names:
            if len(self.values) not in (len(names), 3 * len(names)):
                trouble = f"{len(self.values)} numbers for {len(names)} features ({listed(names)})"
                raise DataError(trouble, path=self.path)
            return self.values[: len(names)].copy()
        missing = [name for name in names if name not in self.names]
        others = [] if self.form == "moses.ini" else [name for name in self.names if name not in names]
        if missing or others:
            trouble = (
                f"no weight for {quoted(missing[0])}"
                if missing
                else f"a weight for {quoted(others[0])}, which is not a feature"
            )
            raise DataError(f"{trouble}; the features are {listed(names)}", path=self.path)
        weights = self.by_name
        return np.array([weights[name] for name in names])

    def with_weights(self, names: Sequence[str], texts: Sequence[str]) -> str:
        """Return the content with these weights in the places of those it has for these features."""
        new = dict(zip(names, texts, strict=True))
        if self.form == "json":
            document = json.loads(self.content)
            weights = document.get("weights", document) | {name: float(text) for name, text in new.items()}
            return json.dumps({"weights": weights} if "weights" in document else weights, indent=2) + "\n"
        in_order = dict(enumerate(texts))
        parts, end = [], 0
        for number, slot in enumerate(_slots(self.content, self.path, self.form)):
            text = new.get(slot.name) if self.names else in_order.get(number)
            if text is not None:
                parts += [self.content[end : slot.start], text]
                end = slot.end
        return "".join(parts) + self.content[end:]


def read_weights(path: str | Path) -> WeightsFile:
    """Read a file of weights, whose form its content tells; raises `DataError` with file and line."""
    return _parse(read_text(path), path)


def write_weights(
    path: str | Path,
    names: Sequence[str],
    weights: FloatArray,
    keeps: Keeps,
    *,
    like: WeightsFile | None = None,
    scaled: bool = False,
) -> FloatArray:
    """Write weights [D] of the features `names` with as few digits as `keeps` allows, and return them as written.

    The form is that of `like`, whose other content stays, or numbers on one line, as Moses writes weights.txt. With
    `scaled`, a positive factor gives them the L1 norm that those in `like` have. At least six decimals are written, and
    as many more as it takes until the file, read again, is such that `keeps` is true of its weights. Raises `DataError`
    if that is not so for all 17 digits.
    """
    template = _parse(" ".join(["0"] * len(names)) + " \n", path) if like is None else like
    old = template.of_features(names)
    norm = np.abs(old).sum()
    factor = norm / np.abs(weights).sum() if scaled and norm else 1.0
    for texts in _texts(weights * factor):
        content = template.with_weights(names, texts)
        written = _parse(content, path).of_features(names)
        if written.any() and keeps(written):
            write_text(path, content)
            return written
    raise DataError("not even 17 digits keep the loss of these weights; write them without scaling", path=path)


def keeps_loss(problem: Problem, weights: FloatArray) -> Keeps:
    """Return what tells whether other weights have the same loss as weights [D], and tie no more lists."""
    exact = problem.evaluate(weights)

    def keeps(others: FloatArray) -> bool:
        found = problem.evaluate(others)
        return found.loss == exact.loss and found.tied_lists <= exact.tied_lists

    return keeps


def _texts(weights: FloatArray) -> Iterator[list[str]]:
    """Yield the weights with more and more digits."""
    yield [f"{weight:z.{DECIMALS}f}" for weight in weights.tolist()]
    for digits in range(DECIMALS + 1, _FULL_DIGITS + 1):
        yield [f"{weight:z.{digits}g}" for weight in weights.tolist()]


def _parse(content: str, path: str | Path) -> WeightsFile:
    if content.lstrip().startswith("{"):
        return _parse_json(content, path)
    sections = (_SECTION.fullmatch(line) for line in content.split("\n"))
    form = "moses.ini" if any(match and match[1] == "weight" for match in sections) else "words"
    slots = list(_slots(content, path, form))
    if not slots:
        raise DataError("no weights", path=path)
    names = tuple(slot.name for slot in slots)
    nameless = [slot for slot in slots if not slot.name]
    if nameless and (form == "moses.ini" or len(nameless) < len(slots)):
        raise DataError("a weight without the name of its feature", path=path, line=nameless[0].line)
    twice = None if nameless else repeated(names)
    if twice is not None:
        line = [slot.line for slot in slots if slot.name == twice][1]
        raise DataError(f"a second weight for {quoted(twice)}", path=path, line=line)
    values = [number_of_text(content[slot.start : slot.end], "a weight", path, slot.line) for slot in slots]
    return WeightsFile(path, () if nameless else names, np.array(values), form, content)


def _parse_json(content: str, path: str | Path) -> WeightsFile:
    try:
        document: Any = json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})", path=path) from error
    weights = document.get("weights", document)
    if not isinstance(weights, dict) or not weights:
        raise DataError("weights must be an object of numbers by name", path=path)
    values = [number_of_json(value, f"the weight of {quoted(name)}", path, 1) for name, value in weights.items()]
    return WeightsFile(path, tuple(weights), np.array(values), "json", content)


def _slots(content: str, path: str | Path, form: str) -> Iterator[Slot]:
    start, inside = 0, form != "moses.ini"
    for number, line in enumerate(content.split("\n"), start=1):
        section = _SECTION.fullmatch(line) if form == "moses.ini" else None
        if section:
            inside = section[1] == "weight"
        elif inside and not line.lstrip().startswith("#"):
            yield from _slots_of_line(line, start, path, number)
        start += len(line) + 1


def _slots_of_line(line: str, start: int, path: str | Path, number: int) -> Iterator[Slot]:
    matches = list(_WORD.finditer(line))
    words = [match.group() for match in matches]
    if len(words) == 2 and _is_name(words[0]):
        yield Slot(start + matches[1].start(), start + matches[1].end(), number, words[0])
        return
    labels = [label_of(word) for word in words]
    names: list[str] = []
    for label, count in groups_of(labels):
        names += names_of_group(label, count, path, number)[0] if any(labels) else [""] * count
    spans = [
        (start + match.start() + len(label or ""), start + match.end())
        for match, label in zip(matches, labels, strict=True)
        if label is None or label[-1] == " "
    ]
    for (begin, end), name in zip(spans, names, strict=True):
        yield Slot(begin, end, number, name)


def _is_name(word: str) -> bool:
    """Whether a word can be a name before its number, rather than a number or a label."""
    try:
        float(word.rpartition("=")[2] or word)
    except ValueError:
        return word[-1] not in "=:"
    return False
