"""N-best lists of speech toolkits: a file for each score (Kaldi, icefall, ESPnet), or utterance (SRILM).

Source of the forms of SRILM: its manual page nbest-format(5) and its source, lm/src/NBest.cc and Prob.h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.references import (
    Keyed,
    read_keyed,
    spoken_lists,
    utterance_files,
)
from lpmert.formats.text import Place, placed_lines, words_of
from lpmert.model.arrays import checked_sequence
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted

Files = Mapping[str, str | Path]

TEXT = "text"
_RECOG = re.compile(r"([1-9][0-9]*)best_recog")
_TENSOR = re.compile(r"tensor\(([^,()]*)(, [^()]*)?\)")  # how torch prints a number


def read_scores(
    scores: Files,
    *,
    texts: str | Path | None = None,
    losses: Files | None = None,
    separator: str = "-",
    counted: bool | None = False,
) -> NBest:
    """Read N-best lists from one file of lines `key number` for each feature.

    `scores` are the files by feature. A key is the id of its list, the last `separator` in it, and what tells the
    hypotheses of the list apart. `texts` is a file of lines `key word word ...`. The statistics are in the files of
    `losses`, by name, unless they are `counted` from the texts. Lists and hypotheses keep the order of the first file;
    the others may have any. Raises `DataError` with file and line where a key is missing or comes twice, or a number is
    none.
    """
    if not isinstance(scores, Mapping):
        raise DataError("one file a score: give NAME=FILE for each (in Python, files by name)", path=scores)
    if not separator:
        raise DataError("separator must not be empty; it stands between the id of a list and the rest of a key")
    if (counted is False) == (losses is None):
        raise DataError("give either references (and texts) or losses")
    if counted and texts is None:
        raise DataError("word errors need texts: give the file of lines `key word word ...`")
    for what, named in (("scores", scores), ("losses", losses)):
        if named is not None and not named:
            raise DataError(f"{what} names no file; give at least one")
    read = {path: read_keyed(path) for path in [*scores.values(), *(losses or {}).values()]}
    words = None if texts is None else read_keyed(texts)
    first_path, first = next(iter(read.items()))
    everything = [*read.items(), *([] if texts is None or words is None else [(texts, words)])]
    for path, keyed in everything[1:]:
        _check_same_keys(first, first_path, keyed, path)
    lists: dict[str, list[str]] = {}
    for key, (line, _) in first.items():
        list_id, found, rest = key.rpartition(separator)
        if not (list_id and found and rest):
            trouble = f"key {quoted(key)} is not list id, {quoted(separator)}, number of the hypothesis; set separator"
            raise Place(first_path, line).error(trouble)
        lists.setdefault(list_id, []).append(key)
    keys = [key for members in lists.values() for key in members]
    columns = {path: _numbers(keyed, keys, path) for path, keyed in read.items()}
    features = np.column_stack([columns[path] for path in scores.values()])
    return NBest(
        features,
        offsets=np.cumsum([0, *map(len, lists.values())]),
        statistics=np.column_stack([columns[path] for path in losses.values()]) if losses else np.zeros(len(keys)),
        names=list(scores),
        list_ids=list(lists),
        statistic_names=list(losses) if losses else None,
        texts=[words[key][1] for key in keys] if words else None,
    )


def read_espnet(folder: str | Path, *, scores: Sequence[str] = ("score",)) -> NBest:
    """Read N-best lists that ESPnet wrote: folders `1best_recog`, `2best_recog`, ... with `text` and score files.

    They lie in `folder` or, one set a job, in its folders `output.*`. `scores` are the files to take as features;
    the number of words becomes a feature too. An utterance may have fewer hypotheses than others, but none left out in
    the middle. Raises `DataError` with file and line.
    """
    if not checked_sequence(scores, "scores"):
        raise DataError("scores names no file; give at least one")
    place = Path(folder)
    found: dict[str, list[tuple[list[float], str]]] = {}
    for job in [place, *sorted(place.glob("output.*"))]:
        ranked = sorted((int(match.group(1)), path) for path in job.glob("*") if (match := _RECOG.fullmatch(path.name)))
        for expected, (rank, path) in enumerate(ranked, start=1):
            if rank != expected:
                raise DataError(f"no folder {expected}best_recog, but one for {rank}", path=job)
            _add_rank(found, rank, path, scores)
    if not found:
        raise DataError("no folders 1best_recog, 2best_recog, ... here or in output.*", path=place)
    texts = {utterance: [text for _, text in members] for utterance, members in found.items()}
    features = [row for members in found.values() for row, _ in members]
    return spoken_lists(features, [*scores, "words"], texts)


def _add_rank(found: dict[str, list[tuple[list[float], str]]], rank: int, folder: Path, scores: Sequence[str]) -> None:
    texts = read_keyed(folder / TEXT)
    columns = []
    for name in scores:
        keyed = read_keyed(folder / name)
        _check_same_keys(texts, folder / TEXT, keyed, folder / name)
        columns.append(_numbers(keyed, list(texts), folder / name))
    rows = np.column_stack(columns).tolist()
    for (utterance, (line, text)), row in zip(texts.items(), rows, strict=True):
        members = found.setdefault(utterance, [])
        if len(members) != rank - 1:
            trouble = f"utterance {quoted(utterance)} has hypothesis {rank} but {len(members)} before it"
            raise Place(folder / TEXT, line).error(trouble)
        members.append(([*row, float(len(words_of(text)))], text))


def _check_same_keys(first: Keyed, first_path: str | Path, other: Keyed, path: str | Path) -> None:
    for mine, here, others, there in ((first, first_path, other, path), (other, path, first, first_path)):
        for key, (line, _) in mine.items():
            if key not in others:
                raise Place(here, line).error(f"key {quoted(key)} is missing in {there}; add it there")


def _numbers(keyed: Keyed, keys: Sequence[str], path: str | Path) -> list[float]:
    numbers = []
    for key in keys:
        line, text = keyed[key]
        tensor = _TENSOR.fullmatch(text.strip(" \t"))
        word = tensor.group(1) if tensor else text.strip(" \t")
        numbers.append(Place(path, line).number(word, f"score of {quoted(key)}"))
    return numbers


SCORES = Format("one file a score", read_scores)
ESPNET = Format("folders that ESPnet wrote", read_espnet, spoken=True)


NAMES = {1: ("score", "words"), 2: ("acoustic", "lm", "words"), 3: ("acoustic", "lm", "words")}
"""Features by form. Scores are logarithms to base 10, in all forms."""

_MAGIC = {"NBestList1.0": 1, "NBestList2.0": 2}
_BYTELOG = 1024.0 / 10000.5 / math.log(10)  # in logarithms to base 10
_TOKEN = (None, "(", "st:", None, "et:", None, "g:", None, "a:", None, ")")

Hypothesis = tuple[list[float], str]
"""Features and words."""


def read_srilm(source: str | Path) -> NBest:
    """Read N-best lists of SRILM, one file an utterance.

    `source` is a folder or a manifest, as for `utterance_files`. The form of a file is that of its first line:

    - `NBestList1.0`, or a score in parentheses: lines `(score) word word ...`. Features: score, words.
    - `NBestList2.0`: lines `(score) word ( st: start et: end g: lm a: acoustic ) word ...`; phones and states, which
      lie within the time of the word before them, are left out. Features: acoustic, lm, words. The score before the
      words, which SRILM does not use either, is not kept.
    - otherwise: lines `acoustic lm nwords word word ...`, after lines with `#`. Features: acoustic, lm, words (as the
      file counts them, so without pauses where SRILM left them out).

    Bytelogs (forms 1 and 2) become logarithms to base 10, those of form 3. Raises `DataError` with file and line.
    """
    names: tuple[str, ...] = ()
    features: list[list[float]] = []
    texts: dict[str, list[str]] = {}
    for utterance, path in utterance_files(source):
        form, hypotheses = read_list(path)
        if names and NAMES[form] != names:
            trouble = f"form {form}, but the files before have the features {listed(names)}; read them apart"
            raise DataError(trouble, path=path)
        names = NAMES[form]
        features += [numbers for numbers, _ in hypotheses]
        texts[utterance] = [words for _, words in hypotheses]
    return spoken_lists(features, names, texts)


def read_list(path: str | Path) -> tuple[int, list[Hypothesis]]:
    """Return the form of a file, and features (in the order of `NAMES`) and words of each of its hypotheses."""
    rows = list(_without_comments(path))
    first = rows[0][1] if rows else ""
    form = _MAGIC.get(first.rstrip(), 1 if first.startswith("(") else 3)
    rows = rows[first.rstrip() in _MAGIC :]
    if not rows:
        raise DataError("no hypotheses; omit the utterance, or give it a list", path=path)
    return form, [_PARSERS[form](words_of(text), place) for place, text in rows]


def _without_comments(path: str | Path) -> Iterator[tuple[Place, str]]:
    for place, line in placed_lines(path):
        if not line.strip():
            raise place.error("empty line; delete it")
        if not line.startswith("#"):
            yield place, line


def _form_1(cells: Sequence[str], place: Place) -> Hypothesis:
    words = cells[1:]
    return [_score(cells[0], place), float(len(words))], " ".join(words)


def _form_2(cells: Sequence[str], place: Place) -> Hypothesis:
    _score(cells[0], place)
    acoustic, lm, words = 0.0, 0.0, []
    previous_end = -math.inf
    for first in range(1, len(cells), len(_TOKEN)):
        token = cells[first : first + len(_TOKEN)]
        if len(token) < len(_TOKEN) or any(want not in (None, cell) for want, cell in zip(_TOKEN, token, strict=True)):
            raise place.error(f"{quoted(' '.join(token))} should be: word ( st: start et: end g: lm a: acoustic )")
        start, end, g, a = (
            place.number(cell, f"{what} of {quoted(token[0])}")
            for what, cell in zip(("start", "end", "lm score", "acoustic score"), token[3::2], strict=False)
        )
        if start > previous_end:
            words.append(token[0])
            acoustic, lm, previous_end = acoustic + a, lm + g, end
    return [acoustic * _BYTELOG, lm * _BYTELOG, float(len(words))], " ".join(words)


def _form_3(cells: Sequence[str], place: Place) -> Hypothesis:
    if len(cells) < 3:
        raise place.error("too short; a line needs: acoustic lm nwords word word ...")
    acoustic, lm = place.number(cells[0], "acoustic score"), place.number(cells[1], "lm score")
    count, words = place.whole(cells[2], "number of words"), cells[3:]
    if count > sum(1 + word.count("_") for word in words):  # SRILM may count the parts of a multiword
        raise place.error(f"{count} words announced, but only {len(words)} found")
    return [acoustic, lm, float(count)], " ".join(words)


_PARSERS = {1: _form_1, 2: _form_2, 3: _form_3}


def _score(cell: str, place: Place) -> float:
    if not (cell.startswith("(") and cell.endswith(")")):
        raise place.error(f"{quoted(cell)} should be a score in parentheses")
    return place.number(cell[1:-1], "score") * _BYTELOG


SRILM = Format("SRILM lists, one utterance a file", read_srilm, spoken=True)
