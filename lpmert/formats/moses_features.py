"""The features of a line of an n-best list of Moses, cdec, Joshua or travatar: words to named numbers, and back.

`name= v v ...` and the older `name: v v ...` are groups: they give name_0, name_1, ..., and every line has them. One
number after a name with an underscore, and `name=v`, are a sparse feature: 0 where a line lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.named import NamedRows, number_text, numbers_of_words
from lpmert.formats.unique import repeated
from lpmert.formats.utterances import words_of
from lpmert.quoting import quoted

_OF_GROUP = re.compile(r"([^_]+)_(0|[1-9][0-9]{0,17})")
_SINGLE = " "
"""Ends the label of name=v."""
_KEPT_LAYOUTS = 1000


def label_of(word: str) -> str | None:
    """Return what a word says of the number in or after it: `name=` or `name:`, `name ` for name=v, `None` for none."""
    if word[-1] in "=:":
        return word
    name, equals, _ = word.rpartition("=")
    return name + _SINGLE if equals else None


class FeatureReader:
    """Gathers the features of all lines."""

    def __init__(self) -> None:
        self.rows = NamedRows()
        self._layouts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        self._required: set[str] | None = None

    def add(self, field: str, path: str | Path, line: int) -> None:
        """Add the features of one line; raises `DataError` if they cannot be told apart, or lack those of a group."""
        words = words_of(field)
        labels = tuple(map(label_of, words))
        names = self._layouts.get(labels)
        if names is None:
            if len(self._layouts) == _KEPT_LAYOUTS:
                self._layouts.clear()  # sparse features make nearly every line a layout of its own
            names = self._layouts[labels] = self._new_layout(labels, path, line)
        numbers = [
            word[len(label) :] if label else word
            for word, label in zip(words, labels, strict=True)
            if label is None or label[-1] == _SINGLE
        ]
        self.rows.add(names, numbers_of_words(numbers, "a feature", path, line))

    def _new_layout(self, labels: Sequence[str | None], path: str | Path, line: int) -> tuple[str, ...]:
        groups = groups_of(labels)
        names: list[str] = []
        required: set[str] = set()
        for label, count in groups:
            if groups == [("", count)]:
                found, everywhere = [f"feature{number}" for number in range(1, count + 1)], True
            else:
                found, everywhere = names_of_group(label, count, path, line)
            names += found
            required.update(found if everywhere else ())
        twice = repeated(names)
        if twice is not None:
            raise DataError(f"feature {quoted(twice)} comes twice", path=path, line=line)
        if not names:
            raise DataError("no features", path=path, line=line)
        if self._required is None:
            self._required = required
        for name in sorted(required ^ self._required):
            trouble = "is new here" if name in required else "is missing"
            raise DataError(f"feature {quoted(name)} {trouble}; every line needs the same ones", path=path, line=line)
        return tuple(names)


def groups_of(labels: Sequence[str | None]) -> list[tuple[str, int]]:
    """Return each label and how many numbers follow it; the label is empty for those before the first one."""
    found, counts = [""], [0]
    for label in labels:
        if label is None:
            counts[-1] += 1
        else:
            found.append(label)
            counts.append(0)
    return [group for group in zip(found, counts, strict=True) if group != ("", 0)]


def names_of_group(label: str, count: int, path: str | Path, line: int) -> tuple[list[str], bool]:
    """Return the names of the numbers with a label, and whether every line must have them."""
    name, single = label[:-1], label[-1:] == _SINGLE
    if not name:
        raise DataError("a number without the name of its feature", path=path, line=line)
    if single == bool(count):
        trouble = f"two numbers for feature {quoted(name)}" if single else f"no number after {quoted(label)}"
        raise DataError(trouble, path=path, line=line)
    if single or (count == 1 and "_" in name):
        return [name], False
    return [f"{name}_{number}" for number in range(count)], True


class FeatureWriter:
    """Writes the features of lines so that `FeatureReader` gives back exactly these names and numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._groups: dict[str, list[int]] = {}
        """Columns by label, of features that every line has."""
        self._sparse: dict[int, str] = {}
        """Label by column, of the others."""
        base = ""
        for column, name in enumerate(names):
            match = _OF_GROUP.fullmatch(name)
            if match and match[1] == base and int(match[2]) == len(self._groups[f"{base}= "]):
                self._groups[f"{base}= "].append(column)
            elif match and match[2] == "0":
                base = match[1]
                self._groups[f"{base}= "] = [column]
            else:
                base = ""
                self._sparse[column] = f"{name}= " if "_" in name else f"{name}="

    def field(self, row: Mapping[int, float]) -> str:
        """Return the field of one hypothesis from its numbers by column; columns that are left out hold 0."""
        words = [
            label + " ".join(number_text(row.get(column, 0.0)) for column in columns)
            for label, columns in self._groups.items()
        ]
        words += [
            self._sparse[column] + number_text(number) for column, number in row.items() if column in self._sparse
        ]
        return " ".join(words or [f"{self._sparse[0]}0"])

    def whole(self, row: Mapping[int, float]) -> str:
        """Return the same with all features in the order of their names."""
        labels = {columns[0]: label for label, columns in self._groups.items()} | self._sparse
        n_features = len(self._sparse) + sum(map(len, self._groups.values()))
        words = (labels.get(column, "") + number_text(row.get(column, 0.0)) for column in range(n_features))
        return " ".join(words)
