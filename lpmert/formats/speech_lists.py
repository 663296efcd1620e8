"""N-best lists of speech toolkits: a file for each score (Kaldi, icefall, ESPnet), or utterance (SRILM).

Sources for SRILM: the third format in its manual page nbest-format(5), lm/src/NBest.cc, and LatticeNBest.cc, which
writes the tags of sentences and does not count them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.format import Format, Pool
from lpmert.formats.references import Keyed, read_keyed, utterance_files
from lpmert.formats.text import placed_lines, words_of
from lpmert.model.arrays import checked_sequence
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted, repeated

Files = Mapping[str, str | Path]

TEXT, WORDS = "text", "words"
_TAGS = ("<s>", "</s>")
_RECOG = re.compile(r"([1-9][0-9]*)best_recog")
_TENSOR = re.compile(r"tensor\(([^,()]*)(, [^()]*)?\)")  # how torch prints a number


def read_scores(
    scores: Files,
    *,
    text_file: str | Path | None = None,
    losses: Files | None = None,
    separator: str = "-",
    counted: bool | None = False,
) -> NBest:
    """Read N-best lists from one file of lines `key number` for each feature.

    A key is the id of a list and the number of a hypothesis, which the last `separator` in it divides. `text_file` has
    lines `key word word ...`. The statistics are in the files of `losses`, by name, unless they are `counted` from the
    texts. Lists and hypotheses have the order of the first file.
    """
    if not isinstance(scores, Mapping):
        raise DataError("one file a score: give NAME=FILE for each (in Python, files by name)", path=scores)
    if not separator:
        raise DataError("separator must not be empty; it stands between the id of a list and the rest of a key")
    if (counted is False) == (losses is None):
        raise DataError("give either references and text_file (--references, --text-file), or losses (--losses)")
    if counted and text_file is None:
        raise DataError("word errors need texts: give the file of lines `key word word ...`")
    for what, named in (("scores", scores), ("losses", losses)):
        if named is not None and not named:
            raise DataError(f"{what} names no file; give at least one")
    files = [*scores.values(), *(losses or {}).values(), *([] if text_file is None else [text_file])]
    read = {path: read_keyed(path) for path in files}
    first, *others = read.values()
    for keyed in others:
        _check_same_keys(first, keyed)
    columns = [_numbers(read[path], first) for path in scores.values()]
    sums = [_numbers(read[path], first) for path in (losses or {}).values()] or [[0.0] * len(first)]
    pool, names = Pool(), tuple(scores)
    rows = zip(zip(*columns, strict=True), zip(*sums, strict=True), strict=True)
    for (key, (place, _)), (row, statistics) in zip(first.items(), rows, strict=True):
        list_id, found, rest = key.rpartition(separator)
        if not (list_id and found and rest):
            trouble = f"key {quoted(key)} is not list id, {quoted(separator)}, number of the hypothesis; set separator"
            raise place.error(trouble)
        pool.add_row(list_id, names, row, statistics, None if text_file is None else read[text_file][key][1])
    return pool.nbest(list(losses) if losses else None, texts=text_file is not None)


def read_espnet(folder: str | Path, *, scores: Sequence[str] = ("score",)) -> NBest:
    """Read N-best lists that ESPnet wrote: folders `1best_recog`, `2best_recog`, ... with `text` and score files.

    They lie in `folder` or, a set for each job, in its folders `output.*`. `scores` are the files to take as features;
    the number of words becomes a feature too. The ranks of each utterance must be consecutive.
    """
    files, place = checked_sequence(scores, "scores"), Path(folder)
    if not files:
        raise DataError("scores names no file; give at least one")
    names = (*files, WORDS)
    if (twice := repeated(names)) is not None:
        trouble = f"two features would be called {quoted(twice)}"
        raise DataError(f"{trouble}; name each file of scores once, and none {WORDS}, which are counted", path=place)
    pool, counts = Pool(), Counter[str]()
    for job in [place, *sorted(place.glob("output.*"))]:
        ranked = sorted((int(match.group(1)), path) for path in job.glob("*") if (match := _RECOG.fullmatch(path.name)))
        for expected, (rank, path) in enumerate(ranked, start=1):
            if rank != expected:
                raise DataError(f"no folder {expected}best_recog, but one for {rank}", path=job)
            _add_rank(pool, counts, rank, path, names)
    if not counts:
        raise DataError("no folders 1best_recog, 2best_recog, ... here or in output.*", path=place)
    return pool.nbest(texts=True)


def _add_rank(pool: Pool, counts: Counter[str], rank: int, folder: Path, names: tuple[str, ...]) -> None:
    """Add the hypotheses of one rank; names: the files of scores and, last, the number of words."""
    texts = read_keyed(folder / TEXT)
    files = [read_keyed(folder / name) for name in names[:-1]]
    for keyed in files:
        _check_same_keys(texts, keyed)
    columns = [_numbers(keyed, texts) for keyed in files]
    for (utterance, (place, text)), *row in zip(texts.items(), *columns, strict=True):
        counts[utterance] += 1
        if counts[utterance] != rank:
            trouble = f"utterance {quoted(utterance)} has hypothesis {rank} but {counts[utterance] - 1} before it"
            raise place.error(trouble)
        pool.add_row(utterance, names, [*row, len(words_of(text))], text=text)


def _check_same_keys(first: Keyed, other: Keyed) -> None:
    for file, second in ((first, other), (other, first)):
        for key, (place, _) in file.items():
            if key not in second:
                path = next(iter(second.values()))[0].path
                raise place.error(f"key {quoted(key)} is missing in {path}; add it there")


def _numbers(keyed: Keyed, keys: Iterable[str]) -> list[float]:
    numbers = []
    for key in keys:
        place, text = keyed[key]
        tensor = _TENSOR.fullmatch(text.strip(" \t"))
        word = tensor.group(1) if tensor else text.strip(" \t")
        numbers.append(place.number(word, f"score of {quoted(key)}"))
    return numbers


SCORES = Format("one file a score", read_scores)
ESPNET = Format("folders that ESPnet wrote", read_espnet, spoken=True)


def read_srilm(source: str | Path) -> NBest:
    """Read N-best lists of SRILM, one file an utterance.

    Lines are `acoustic lm nwords word word ...`, in logarithms to base 10; <s>, </s> and lines that begin with `#` are
    ignored. The feature words is the number in the file, from which SRILM may have left out pauses.
    """
    pool = Pool()
    for utterance, path in utterance_files(source):
        for place, line in placed_lines(path):
            if line.startswith("#"):
                continue
            cells = words_of(line)
            if len(cells) < 3:
                needed = "too short; a line needs: acoustic lm nwords word word ..."
                raise place.error(needed if cells else "empty line; delete it")
            acoustic, lm = place.number(cells[0], "acoustic score"), place.number(cells[1], "lm score")
            count, words = place.whole(cells[2], "number of words"), cells[3:]
            if count > sum(1 + word.count("_") for word in words):  # SRILM may count each part of a multiword
                raise place.error(f"{count} words announced, but only {len(words)} found")
            text = " ".join(word for word in words if word not in _TAGS)
            pool.add_row(utterance, ("acoustic", "lm", WORDS), [acoustic, lm, count], text=text)
        if utterance not in pool.numbers:
            raise DataError("no hypotheses; omit the utterance, or give it a list", path=path)
    return pool.nbest(texts=True)


SRILM = Format("SRILM lists, one utterance a file", read_srilm, spoken=True)
