"""Where in a text weights are, in the forms that decoders and tuners write: numbers, names, sections of settings.

words: numbers, `name= v v ...` as Moses shows weights, `name=v` of travatar, `name v` of cdec and Joshua. moses.ini has
such lines in its section [weight], or, if it is old, numbers in sections like [weight-l]; travatar.ini has them in
[weight_vals]; joshua.config has lines `name v` among its settings; the parameters of Z-MERT are lines
`name ||| v Opt ...`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lpmert.formats.moses_features import groups_of, label_of, names_of_group

WORDS, MOSES, OLD_MOSES, TRAVATAR, JOSHUA, ZMERT = (
    "words",
    "moses.ini",
    "old moses.ini",
    "travatar.ini",
    "joshua.config",
    "zmert",
)
SETTINGS = (MOSES, OLD_MOSES, TRAVATAR, JOSHUA)
"""Forms of files that may have weights of other features, and hold more than weights."""

_WORD = re.compile(r"[^ \t\n\r\v\f]+")
_HEADING = re.compile(r"\[(.+)\][ \t]*")
_OLD_LABELS = {
    "weight-d": "d",
    "weight-l": "lm",
    "weight-t": "tm",
    "weight-w": "w",
    "weight-generation": "g",
    "weight-lex": "lex",
    "weight-i": "I",
    "weight-lr": "lr",
    "weight-u": "u",
    "weight-bl": "bl",
    "weight-slm": "slm",
    "weight-dlm": "dlm",
    "weight-glm": "glm",
    "weight-wt": "wt",
    "weight-pp": "pp",
    "weight-pb": "pb",
}
"""Sections of an old moses.ini, and what its n-best lists call their features: the long and short names of parameters
in moses/Parameter.cpp, of which scripts/training/mert-moses.pl before 2013 used the first seven.
"""

_OF_JOSHUA = re.compile(r"\s*(feature[-_]function|lm|tm)\s*=\s*[A-Za-z].*")
_OF_ZMERT = re.compile(r"\s*(\S+)\s+\|\|\|\s+(\S+)\s+(?:Opt|Fix)\b.*")


class Slot(NamedTuple):
    """Where in a text a weight is, which line that is, and the name of the weight; empty for mere numbers."""

    start: int
    end: int
    line: int
    name: str


def form_of(content: str) -> str:
    """Return the form of a file of weights that is no JSON."""
    lines = content.split("\n")
    headings = {match[1] for line in lines if (match := _HEADING.fullmatch(line))}
    if "weight" in headings:
        return MOSES
    if "weight_vals" in headings:
        return TRAVATAR
    if headings & set(_OLD_LABELS):
        return OLD_MOSES
    if any(map(_OF_ZMERT.fullmatch, lines)):
        return ZMERT
    return JOSHUA if any(map(_OF_JOSHUA.fullmatch, lines)) else WORDS


def slots(content: str, path: str | Path, form: str) -> Iterator[Slot]:
    """Yield where the weights are in a text of this form; raises `DataError` for what is none in a line of weights."""
    start, section, counts = 0, "", Counter[str]()
    for number, line in enumerate(content.split("\n"), start=1):
        heading = _HEADING.fullmatch(line) if form in (MOSES, OLD_MOSES, TRAVATAR) else None
        if heading:
            section = heading[1]
        elif line.lstrip().startswith("#"):
            pass
        elif form == ZMERT:
            match = _OF_ZMERT.fullmatch(line)
            if match:
                yield Slot(start + match.start(2), start + match.end(2), number, match[1])
        elif form == JOSHUA:
            words = list(_WORD.finditer(line))
            if len(words) == 2 and _is_name(words[0].group()) and "=" not in line:
                yield Slot(start + words[1].start(), start + words[1].end(), number, words[0].group())
        elif form == OLD_MOSES:
            label = _OLD_LABELS.get(section)
            for word in _WORD.finditer(line) if label else ():
                yield Slot(start + word.start(), start + word.end(), number, f"{label}_{counts[section]}")
                counts[section] += 1
        elif form == WORDS or section in ("weight", "weight_vals"):
            yield from _slots_of_line(line, start, path, number)
        start += len(line) + 1


def _slots_of_line(line: str, start: int, path: str | Path, number: int) -> Iterator[Slot]:
    matches = list(_WORD.finditer(line))
    words = [match.group() for match in matches]
    name, tab, rest = line.partition("\t")
    if tab and len(rest.split()) == 1 and _is_name(name.strip()):
        yield Slot(start + matches[-1].start(), start + matches[-1].end(), number, name.strip())
        return
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
    for (begin, end), found in zip(spans, names, strict=True):
        yield Slot(begin, end, number, found)


def _is_name(word: str) -> bool:
    """Whether a word can be a name before its number, rather than a number or a label."""
    try:
        float(word.rpartition("=")[2] or word)
    except ValueError:
        return word[-1:] not in ("", "=", ":")
    return False
