"""Utterances: their files, their reference words, statistics against these, and N-best lists of speech toolkits.

Sources for SRILM: the third format in its manual page nbest-format(5), lm/src/NBest.cc, and LatticeNBest.cc, which
writes the tags of sentences and does not count them.
"""

from __future__ import annotations

import logging
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lpmert.errors import DataError, reason_of
from lpmert.files import EMPTY, writing_to
from lpmert.formats.format import (
    WHITE,
    WORD,
    Format,
    Place,
    Pool,
    is_count,
    placed_lines,
    unpacked,
    warn_of_quotes,
    words_of,
)
from lpmert.model.arrays import checked_sequence, one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted, repeated

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric


logger = logging.getLogger(__name__)

_PARTLY = "allow a part with partial=True (--partial)"
_TABS = "put the id of the list and a tab before each line"

References = str | Path | Mapping[str, str]  # words by utterance, or the file that holds them
Keyed = Mapping[str, tuple[Place, str]]  # the place and the text of each key in a file

Rows = list[tuple[Place, str]]

_ENDINGS = (".nbest", ".score", ".scores", ".txt", ".lat", ".lattice", ".slf", ".htk", ".fst")
_HEADER = ["utterance", "reference"]
_MARKED = re.compile(r"[^ \t\n\r\v\f]*[0-9]")  # a first word with a digit may be an id
_CTM = re.compile(r"[^ \t]+[ \t]+[^ \t]+([ \t]+[0-9.]+){2}[ \t]+[^ \t]+([ \t]+[0-9.]+)?[ \t]*")
_STM = re.compile(r"([^ \t]+[ \t]+){3}[0-9]+\.[0-9]+[ \t]+[0-9]+\.[0-9]+([ \t].*)?")
_TRN = re.compile(r"(.*?)\(([^ \t\n\r\v\f()]+)\)[ \t]*")


def utterance_files(source: str | Path) -> list[tuple[str, Path]]:
    """Return utterance and path of a file, or of each file of a folder but hidden ones, in order of names."""
    folder = Path(source)
    if not folder.is_dir():
        return [(utterance_of(folder), folder)]
    found: dict[str, Path] = {}
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"cannot be read: {reason_of(error)}", path=folder) from error
    for path in paths:
        other = path if path.name.startswith(".") else found.setdefault(utterance_of(path), path)
        if other != path:
            raise DataError(f"{other.name} and {path.name} would be the same utterance; rename one", path=folder)
    if not found:
        raise DataError("the folder is empty; it must contain one file per utterance", path=folder)
    return list(found.items())


def utterance_of(path: Path) -> str:
    """Return the utterance that a file stands for: its name without endings of compression and format."""
    path = unpacked(path)
    return path.stem if path.suffix in _ENDINGS else path.name


def made_folder(path: str | Path) -> Path:
    with writing_to(path):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


def read_keyed(path: str | Path) -> Keyed:
    """Return place and text by key of lines `key text`, in which one space or tab ends the key."""
    return _keyed(_by_key(placed_lines(path)), path)


def read_transcripts(references: References) -> dict[str, str]:
    """Return the words of each utterance from a Kaldi `text` file or a trn file; a mapping is taken as it is."""
    if isinstance(references, Mapping):
        return dict(references)
    return {name: text for name, (_, text) in _transcripts(list(placed_lines(references)), references).items()}


def _by_key(rows: Iterable[tuple[Place, str]]) -> Iterator[tuple[Place, str, str]]:
    for place, line in rows:
        match = WORD.match(line)
        if match is None:
            raise place.error("white space before the key; delete it" if line.strip() else "empty line; delete it")
        yield place, match.group(), line[match.end() + 1 :]


def _keyed(cells: Iterable[tuple[Place, str, str]], path: str | Path) -> Keyed:
    found: dict[str, tuple[Place, str]] = {}
    for place, key, text in cells:
        if key in found:
            raise place.error(f"{reprlib.repr(key)} comes twice, first on line {found[key][0].line}; delete one")
        found[key] = place, text
    if not found:
        raise DataError(EMPTY, path=path)
    return found


def _transcripts(rows: Rows, path: str | Path) -> Keyed:
    if rows and rows[0][1].split("\t")[:2] == _HEADER:
        rows = [(place, "\t".join(line.split("\t")[:2])) for place, line in rows[1:]]
    spoken = [line for _, line in rows if not line.startswith(";;")]
    for form, what in ((_CTM, "CTM has a line for each word"), (_STM, "STM has times in place of ids")):
        if len(spoken) > 1 and all(map(form.fullmatch, spoken)):
            raise DataError(f"{what}; give a line for each utterance: its id and all words", path=path)
    matches = [_TRN.fullmatch(line) for _, line in rows]
    if all(matches):
        pairs = zip(rows, matches, strict=True)
        return _keyed(((place, match[2], match[1]) for (place, _), match in pairs if match), path)
    return _keyed(_by_key(rows), path)


def with_references(
    nbest: NBest,
    references: References | Sequence[str | Path],
    metric: str | TextMetric = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Return lists with statistics counted from their texts, by a metric of `lpmert.metrics.text`.

    by_position: lines of files are sentences, the first for list 0, whatever they look like. Raises `DataError` if a
    list has no reference, or, unless `partial`, a reference no list.
    """
    from lpmert.model.judgments import measure_texts

    by_list = references_by_list(nbest.list_ids, references, partial, by_position)
    found, summed = measure_texts(nbest, by_list, metric)
    warn_of_quotes(chain.from_iterable(by_list), "references")
    logger.info("statistics: %s", summed.signature)
    return found


def references_by_list(
    list_ids: Sequence[str],
    references: References | Sequence[str | Path] | Literal[False],
    partial: bool = False,
    by_position: bool = False,
    *,
    options: bool = True,
) -> list[tuple[str, ...]]:
    """Return the references of each list; options: whether messages may name `partial` and `by_position`."""
    if references is False:
        return [("",) for _ in list_ids]
    otherwise = None if partial else _PARTLY if options else "leave the reference out"
    if isinstance(references, Mapping):
        found = {name: (Place(None), text) for name, text in references.items()}
        return [(text,) for text in _of_ids(list_ids, found, otherwise, None)]
    files = one_or_more(references, "references")
    rows = {path: list(placed_lines(path)) for path in files}
    numbered = [path for path in files if _by_number(rows[path], list_ids, path, by_position)]
    for path in numbered:
        if len(rows[path]) != len(rows[numbered[0]]):
            raise DataError(f"{len(rows[path])} lines, but {numbered[0]} has {len(rows[numbered[0]])}", path=path)
    columns = []
    for path in files:
        if path in numbered:
            sentences = {str(number): (place, text.strip(WHITE)) for number, (place, text) in enumerate(rows[path])}
            columns.append(_of_ids([str(int(list_id)) for list_id in list_ids], sentences, otherwise, path))
            continue
        try:
            columns.append(_of_ids(list_ids, _transcripts(rows[path], path), otherwise, path))
        except DataError as error:
            if not rows[path] or not all(map(is_count, list_ids)):
                raise
            flag = ", or pass by_position=True (--by-position)" if options else ""
            remedy = f"if line 1 is the sentence of list 0, line 2 that of list 1, ..., {_TABS}{flag}"
            raise DataError(f"{error.reason}; {remedy}", path=path, line=error.line) from error
    return list(zip(*columns, strict=True))


def _of_ids(list_ids: Sequence[str], texts: Keyed, otherwise: str | None, path: str | Path | None) -> list[str]:
    """Return the text of each list by its id; otherwise: the remedy for a text without a list, which `None` allows."""
    known = {*list_ids}
    other = next((utterance for utterance in texts if utterance not in known), None)
    place = Place(path) if other is None else texts[other][0]
    for utterance in list_ids:
        if utterance not in texts:
            beside = "" if other is None else f", but one for {quoted(other)}, which is no list"
            raise place.error(f"no reference for utterance {quoted(utterance)}{beside}; add it, or omit the list")
    if other is not None and otherwise is not None:
        raise place.error(f"no list for the reference of {quoted(other)}; add it, or {otherwise}")
    return [texts[utterance][1] for utterance in list_ids]


def _by_number(rows: Rows, list_ids: Sequence[str], path: str | Path, by_position: bool) -> bool:
    """Whether lines are sentences by number: no line has a tab, and fewer than half of them may have an id."""
    other = next((list_id for list_id in list_ids if not is_count(list_id)), None)
    if other is not None:
        if by_position:
            trouble = f"no line is number {quoted(other)}, which is the id of a list"
            raise DataError(f"{trouble}; leave by_position out (--by-position), and {_TABS}", path=path)
        return False
    if by_position:
        return True
    marked = sum(_MARKED.match(text) is not None or _TRN.fullmatch(text) is not None for _, text in rows)
    if 2 * marked >= len(rows) or any("\t" in text for _, text in rows):
        return False
    logger.info("references: %s has a sentence a line, the first for list 0", path)
    return True


Files = Mapping[str, str | Path]

TEXT, WORDS = "text", "words"
_TAGS = ("<s>", "</s>")
_RECOG = re.compile(r"([1-9][0-9]*)best_recog")
_TENSOR = re.compile(r"^tensor\(([^,()]*)(, [^()]*)?\)$")  # how torch prints a number


def read_scores(
    scores: Files,
    *,
    text_file: str | Path | None = None,
    losses: Files | None = None,
    separator: str = "-",
    counted: bool | None = False,
) -> NBest:
    """Read N-best lists from one file of lines `key number` for each feature, in the order of the first file.

    A key is the id of a list and the number of a hypothesis, which the last `separator` in it divides. `text_file` has
    lines `key word word ...`. Statistics are in the files of `losses`, by name, unless `counted` from the texts.
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
    files = dict.fromkeys([*scores.values(), *(losses or {}).values(), *([] if text_file is None else [text_file])])
    read = dict(zip(files, _with_same_keys(files), strict=True))
    first = next(iter(read.values()))
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
    """Read N-best lists that ESPnet wrote: folders `1best_recog`, ..., or a set of these in `output.*` for each job.

    `scores` are the files to take as features; the number of words becomes a feature too.
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
            texts, *keyed = _with_same_keys(path / name for name in (TEXT, *files))
            columns = [_numbers(own, texts) for own in keyed]
            for (utterance, (at, text)), *row in zip(texts.items(), *columns, strict=True):
                counts[utterance] += 1
                if counts[utterance] != rank:
                    found = f"hypothesis {rank} but {counts[utterance] - 1} before it"
                    raise at.error(f"utterance {quoted(utterance)} has {found}")
                pool.add_row(utterance, names, [*row, len(words_of(text))], text=text)
    if not counts:
        raise DataError("no folders 1best_recog, 2best_recog, ... here or in output.*", path=place)
    return pool.nbest(texts=True)


def _with_same_keys(paths: Iterable[str | Path]) -> list[Keyed]:
    first, *others = found = [read_keyed(path) for path in paths]
    for file, second in chain(product([first], others), product(others, [first])):
        for key, (place, _) in file.items():
            if key not in second:
                path = next(iter(second.values()))[0].path
                raise place.error(f"key {quoted(key)} is missing in {path}; add it there")
    return found


def _numbers(keyed: Keyed, keys: Iterable[str]) -> list[float]:
    numbers = []
    for place, text, key in ((*keyed[key], key) for key in keys):
        word = _TENSOR.sub(r"\1", text.strip(" \t"))
        numbers.append(place.number(word, f"score of {quoted(key)}"))
    return numbers


SCORES = Format("one file a score", read_scores)
ESPNET = Format("folders that ESPnet wrote", read_espnet, spoken=True)


def read_srilm(source: str | Path) -> NBest:
    """Read lines `acoustic lm nwords word word ...` of SRILM, one file an utterance; `nwords` may leave out pauses."""
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
