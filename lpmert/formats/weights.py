"""Weights as users give them, in files or in words, and files of weights, written in the form and scale of others.

The forms are those of `lpmert.formats.weight_forms`, and JSON: an object of numbers by name, an array of numbers, or a
result of lpmert.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import DataError, FloatArray, RegionError
from lpmert.formats.numbers import number_of_json, number_of_text
from lpmert.formats.unique import repeated, unique_keys
from lpmert.formats.weight_forms import SETTINGS, form_of, slots
from lpmert.quoting import listed, quoted
from lpmert.system.files import read_text
from lpmert.values import in_order

if TYPE_CHECKING:
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.model.problem import Problem
    from lpmert.model.region import Region

DECIMALS = 6
"""Decimals that weights have at least: those that Moses' scripts hand to the decoder."""

Keeps = Callable[[FloatArray], bool]
"""Whether weights [D] decode as well as others do."""

Shorten = Callable[[FloatArray, int], FloatArray]
"""From weights [D] and a number of decimals to others that decode as well, with so many decimals if there are any."""

_FULL_DIGITS = 17
_JSON = "json"
_ENDINGS = (".json", ".ini", ".txt", ".opt", ".config", ".weights")
"""Of what is meant to be a file, whether it is there or not."""


@dataclass(frozen=True)
class WeightsFile:
    """The weights in a file: `names` is empty where it has only numbers; `values` [n] are in the order of the file."""

    path: str | Path
    names: tuple[str, ...]
    values: FloatArray
    form: str
    content: str

    @staticmethod
    def of_lines(names: Sequence[str]) -> WeightsFile:
        """Return a file with a line `name 0` for each feature, in the form of cdec and Joshua."""
        return _parse("".join(f"{name} 0\n" for name in names), "weights")

    @property
    def by_name(self) -> Mapping[str, float]:
        """The weights by name; raises `DataError` if the file has only numbers."""
        if not self.names:
            raise DataError("numbers without names; write lines `name value`", path=self.path)
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def of_features(self, names: Sequence[str]) -> FloatArray:
        """Return the weights [D] of these features, in their order.

        Of three lines with a number for each feature, as in init.opt, the first counts. moses.ini and other files
        of settings may have weights of other features. Raises `DataError` where a weight is missing, or there are
        others.
        """
        if not self.names:
            if len(self.values) not in (len(names), 3 * len(names) if self._has_three_lines else 0):
                count = "1 number" if len(self.values) == 1 else f"{len(self.values)} numbers"
                raise DataError(f"{count} for {len(names)} features ({listed(names)})", path=self.path)
            return self.values[: len(names)].copy()
        try:
            return np.array(in_order(self.by_name, names, "the weights", more=self.form in SETTINGS), dtype=np.float64)
        except DataError as error:
            raise DataError(str(error), path=self.path) from error

    @property
    def _has_three_lines(self) -> bool:
        return self.form != _JSON and len({slot.line for slot in slots(self.content, self.path, self.form)}) == 3

    def with_weights(self, names: Sequence[str], texts: Sequence[str]) -> str:
        """Return the content with these weights in the places of those it has for these features."""
        new = dict(zip(names, texts, strict=True))
        if self.form == _JSON:
            document = json.loads(self.content)
            inner = isinstance(document, dict) and isinstance(document.get("weights"), dict | list)
            weights = document["weights"] if inner else document
            if isinstance(weights, dict):
                weights |= {name: float(text) for name, text in new.items()}
            else:
                weights[: len(texts)] = map(float, texts)
            return json.dumps({"weights": weights} if inner else weights, indent=2) + "\n"
        by_place = dict(enumerate(texts))
        parts, end = [], 0
        for number, slot in enumerate(slots(self.content, self.path, self.form)):
            text = new.get(slot.name) if self.names else by_place.get(number)
            if text is not None:
                parts += [self.content[end : slot.start], text]
                end = slot.end
        return "".join(parts) + self.content[end:]


def read_weights(path: str | Path) -> WeightsFile:
    """Read a file of weights, whose form its content tells; raises `DataError` with file and line."""
    return _parse(read_text(path), path)


def given_weights(weights: Any, what: str = "weights") -> Any:
    """Return weights as searches take them: what a text stands for, everything else as it is.

    A text is a file, or else numbers or `name=value` pairs separated by commas, or JSON. `what` names it in the
    `DataError` if it is none of these, or the file has no weights.
    """
    if not isinstance(weights, str | os.PathLike):
        return weights
    text = os.fspath(weights)
    if isinstance(weights, str):
        parts = [part.strip() for part in text.split(",")]
        if all(map(_is_number, parts)):
            return _parse(" ".join(parts), what)
        if not os.path.exists(text):
            if text.lstrip().startswith(("{", "[")):
                return _parse_json(text, what)
            pairs = [part.rpartition("=") for part in parts]
            if all(name.strip() and _is_number(number.strip()) for name, _, number in pairs):
                return _parse("\n".join(f"{name.strip()}\t{number.strip()}" for name, _, number in pairs), what)
            if not text.endswith(_ENDINGS):
                raise DataError(
                    f"{quoted(text)} is neither a file that is there, nor finite numbers (1,0.5), nor name=value pairs "
                    '(am=1,lm=0.5), nor JSON ({"am": 1, "lm": 0.5})',
                    path=what,
                )
    return read_weights(text)


def checked_region(region: Region | None) -> Region | None:
    """Return a region, around weights that may be a text, see `given_weights`, as searches take it.

    Raises `RegionError` for what is no region.
    """
    from lpmert.model.region import Region

    if region is not None and not isinstance(region, Region):
        raise RegionError(f"region must be a Region or None, not {type(region).__name__}; build one with lpmert.Region")
    if region is None or not isinstance(region.around, str | os.PathLike):
        return region
    return replace(region, around=given_weights(region.around, "around"))


def weights_text(
    names: Sequence[str],
    weights: FloatArray,
    keeps: Keeps,
    *,
    like: WeightsFile | None = None,
    scaled: bool = False,
    shorten: Shorten | None = None,
    path: str | Path | None = None,
) -> tuple[str, FloatArray]:
    """Return a text with weights [D] of the features `names`, with as few digits as `keeps` allows, and what it says.

    The form is that of `like`, whose other content stays, or numbers on one line, as Moses writes weights.txt. With
    `scaled`, a positive factor gives them the L1 norm that those in `like` have. At least six decimals are written, and
    as many more as it takes until the text, read again, is such that `keeps` is true of its weights; `shorten` may find
    other weights that need no more. Raises `DataError` if that is not so for all 17 digits.
    """
    place = path if path is not None else "weights" if like is None else like.path
    template = _parse(" ".join(["0"] * len(names)) + " \n", place) if like is None else like
    old = template.of_features(names)
    norm = np.abs(old).sum()
    factor = norm / np.abs(weights).sum() if scaled and norm else 1.0
    weights = weights * factor if shorten is None else shorten(weights * factor, DECIMALS)
    for texts in _texts(weights):
        content = template.with_weights(names, texts)
        written = _parse(content, place).of_features(names)
        if written.any() and keeps(written):
            return content, written
    raise DataError("not even 17 digits keep the loss of these weights; write them without scaling", path=place)


def keeps_loss(problem: Problem | LatticeProblem, weights: FloatArray) -> Keeps:
    """Return what tells whether other weights [D] have the loss of these, tie no more lists, and stay in the region."""
    exact = problem.evaluate(weights)
    inside = problem.inside(problem.checked_weights(weights))

    def keeps(others: FloatArray) -> bool:
        found = problem.evaluate(others)
        stay = not inside or problem.inside(problem.checked_weights(others))
        return stay and found.loss == exact.loss and found.tied_lists <= exact.tied_lists

    return keeps


def _is_number(text: str) -> bool:
    try:
        return text.isascii() and "_" not in text and bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _texts(weights: FloatArray) -> Iterator[list[str]]:
    """Yield the weights with more and more digits."""
    yield [f"{weight:z.{DECIMALS}f}" for weight in weights.tolist()]
    for digits in range(DECIMALS + 1, _FULL_DIGITS + 1):
        yield [f"{weight:z.{digits}g}" for weight in weights.tolist()]


def _parse(content: str, path: str | Path) -> WeightsFile:
    if content.lstrip().startswith(("{", "[")) and form_of(content) not in SETTINGS:
        return _parse_json(content, path)
    form = form_of(content)
    found = list(slots(content, path, form))
    if not found:
        raise DataError("no weights; write a line NAME VALUE for each feature, or name another file", path=path)
    names = tuple(slot.name for slot in found)
    nameless = [slot for slot in found if not slot.name]
    if nameless and (form in SETTINGS or len(nameless) < len(found)):
        raise DataError("a weight without the name of its feature", path=path, line=nameless[0].line)
    twice = None if nameless else repeated(names)
    if twice is not None:
        line = [slot.line for slot in found if slot.name == twice][1]
        raise DataError(f"a second weight for {quoted(twice)}", path=path, line=line)
    values = [number_of_text(content[slot.start : slot.end], "a weight", path, slot.line) for slot in found]
    return WeightsFile(path, () if nameless else names, np.array(values), form, content)


def _parse_json(content: str, path: str | Path) -> WeightsFile:
    try:
        document: Any = json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})", path=path) from error
    inner = isinstance(document, dict) and not isinstance(document.get("weights", 0), int | float)
    weights = document["weights"] if inner else document
    if not isinstance(weights, dict | list) or not weights:
        raise DataError("weights must be an object of numbers by name, or an array of numbers", path=path)
    if isinstance(weights, list):
        values = [number_of_json(value, f"weight {place}", path, 1) for place, value in enumerate(weights, 1)]
        return WeightsFile(path, (), np.array(values), _JSON, content)
    values = [number_of_json(value, f"the weight of {quoted(name)}", path, 1) for name, value in weights.items()]
    return WeightsFile(path, tuple(weights), np.array(values), _JSON, content)
