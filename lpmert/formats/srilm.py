"""N-best lists in the three forms of SRILM, one file an utterance, and back.

Source: the manual page nbest-format(5) of SRILM and its source, lm/src/NBest.cc and Prob.h.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.references import MANIFEST, References, made_folder, measured, utterance_files
from lpmert.formats.text import Place, is_word, number_text, placed_lines, words_of
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.system.files import write_text

NAMES = {1: ("score", "words"), 2: ("acoustic", "lm", "words"), 3: ("acoustic", "lm", "words")}
"""Features by form. Scores are logarithms to base 10, in all forms."""

_MAGIC = {"NBestList1.0": 1, "NBestList2.0": 2}
_BYTELOG = 1024.0 / 10000.5 / math.log(10)  # in logarithms to base 10
_TOKEN = (None, "(", "st:", None, "et:", None, "g:", None, "a:", None, ")")

Hypothesis = tuple[list[float], str]
"""Features and words."""


def read_srilm(
    source: str | Path,
    references: References,
    *,
    metric: str = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read N-best lists of SRILM, one file an utterance.

    `source` is a folder or a manifest, as for `utterance_files`; `references` a Kaldi `text` or trn file, or words by
    utterance; with `partial` there may be more references than lists, and `by_position` is that of
    `lpmert.formats.references.with_references`. The losses are the errors of `metric`, a name in
    `lpmert.metrics.text`, by default of words. The form of a file is that of its first line:

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
    return measured(features, names, texts, references, metric, partial, by_position)


def write_srilm(nbest: NBest, folder: str | Path, *, form: int = 3) -> None:
    """Write lists as files `<list id>.nbest.gz` of a folder and a manifest that gives their order.

    `read_srilm` reads them back to exactly the same features and words; losses are not written. Form 3 needs the
    features acoustic, lm, words; form 1 needs score and words, scores that come from bytelogs, and the number of
    words of the texts. Raises `DataError` where that is not so, before anything is written.
    """
    place = Path(folder)
    if form not in (1, 3):
        raise DataError(f"form {form} cannot be written, which needs times; choose 1 or 3", path=place)
    if nbest.names != NAMES[form] or nbest.texts is None:
        trouble = f"form {form} holds the features {listed(NAMES[form])} and texts; use select_features"
        raise DataError(trouble, path=place)
    files = {}
    features = nbest.dense_features().tolist()
    for number, list_id in enumerate(nbest.list_ids):
        if not is_word(list_id) or not {"/", "\0"}.isdisjoint(list_id) or list_id.startswith("."):
            raise DataError(f"list id {quoted(list_id)} cannot be a file name; rename it", path=place)
        start, end = nbest.offsets[number : number + 2].tolist()
        rows = [_line(form, features[row], nbest.texts[row], list_id, place) for row in range(start, end)]
        files[f"{list_id}.nbest.gz"] = "".join(rows if form == 3 else ["NBestList1.0\n", *rows])
    made_folder(place)
    for name, body in files.items():
        write_text(place / name, body)
    manifest = zip(nbest.list_ids, files, strict=True)
    write_text(place / MANIFEST, "".join(f"{list_id} {name}\n" for list_id, name in manifest))


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


def _line(form: int, features: list[float], text: str, list_id: str, folder: Path) -> str:
    """Return the line of a hypothesis; raises `DataError` unless it reads back as the same."""
    head = [f"({round(features[0] / _BYTELOG)})"] if form == 1 else list(map(number_text, features))
    line = " ".join([*head, text] if text else head)
    try:
        same = _PARSERS[form](words_of(line), Place(folder)) == (features, text)
    except DataError:
        same = False
    if not same:
        numbers = ", ".join(f"{name} {number_text(value)}" for name, value in zip(NAMES[form], features, strict=True))
        needs = "a score from a whole bytelog, the number of words" if form == 1 else "a number of words that is there"
        shown = f"list {quoted(list_id)}: {quoted(text)} with {numbers}"
        trouble = f"{shown}; form {form} needs {needs}, and words with single spaces"
        raise DataError(trouble, path=folder)
    return line + "\n"


SRILM = Format("SRILM lists, one utterance a file", read_srilm, write_srilm)
