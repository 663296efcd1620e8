"""N-best lists from score files with a line `key score` each, as Kaldi, icefall and ESPnet lay them out, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.numbers import number_of_text, number_text
from lpmert.formats.utterances import References, made_folder, measured, read_keyed, words_of
from lpmert.model.arrays import checked_sequence
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted
from lpmert.system.files import read_text, write_text
from lpmert.system.packing import COMPRESSED_ENDINGS

Keyed = dict[str, tuple[int, str]]
Files = Mapping[str, str | Path]

TEXT = "text"
ROLES = "lists.json"
"""Says in a folder that `write_scores` wrote which file is what."""
_RECOG = re.compile(r"([1-9][0-9]*)best_recog")
_TENSOR = re.compile(r"tensor\(([^,()]*)(, [^()]*)?\)")  # how torch prints a number


def read_scores(
    scores: Files | str | Path,
    *,
    texts: str | Path | None = None,
    references: References | None = None,
    losses: Files | None = None,
    separator: str = "-",
    metric: str = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read N-best lists from one file of lines `key number` for each feature.

    `scores` are the files by feature, or a folder that `write_scores` wrote, which needs nothing else. A key is the id
    of its list, the last `separator` in it, and what tells the hypotheses of the list apart. `texts` is a file of lines
    `key word word ...`. The losses are either in the files of `losses`, by name of the statistic, or the errors of the
    texts against `references`, which are, as `metric`, `partial` and `by_position`, those of `read_srilm`. Lists and
    hypotheses keep the order of the first file; the others may have any. Raises `DataError` with file and line where a
    key is missing or comes twice, or a number is none.
    """
    place = Path(scores) / ROLES if isinstance(scores, str | Path) else None
    if isinstance(scores, str | Path):
        scores, written_texts, written_losses, separator = _roles(Path(scores))
        texts = written_texts if texts is None else texts
        losses = written_losses if losses is None and references is None else losses
    if not separator:
        raise DataError(
            "separator must not be empty; it stands between the id of a list and the rest of a key", path=place
        )
    if (references is None) == (losses is None):
        raise DataError("give either references (and texts) or losses", path=place)
    if references is not None and texts is None:
        raise DataError("word errors need texts: give the file of lines `key word word ...`", path=place)
    for what, named in (("scores", scores), ("losses", losses)):
        if named is not None and not named:
            raise DataError(f"{what} names no file; give at least one", path=place)
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
            raise DataError(trouble, path=first_path, line=line)
        lists.setdefault(list_id, []).append(key)
    keys = [key for members in lists.values() for key in members]
    columns = {path: _numbers(keyed, keys, path) for path, keyed in read.items()}
    features = np.column_stack([columns[path] for path in scores.values()])
    by_list = {name: [words[key][1] for key in members] for name, members in lists.items()} if words else {}
    if references is not None:
        return measured(features, list(scores), by_list, references, metric, partial, by_position)
    return NBest(
        features,
        offsets=np.cumsum([0, *map(len, lists.values())]),
        statistics=np.column_stack([columns[path] for path in (losses or {}).values()]),
        names=list(scores),
        list_ids=list(lists),
        statistic_names=list(losses or {}),
        texts=[text for members in by_list.values() for text in members] if words else None,
    )


def write_scores(nbest: NBest, folder: str | Path, *, separator: str = "-") -> None:
    """Write a file for each feature and statistic, called like it, and `text` where there are texts.

    Keys are list id, separator and the number of the hypothesis, from 1; a file `lists.json` says which file is what.
    `read_scores` reads the folder back to exactly the same numbers and texts. Raises `DataError` where a name cannot be
    a file name, two are equal, an id has white space, or a text a line end.
    """
    place = Path(folder)
    files = [*nbest.names, *nbest.statistic_names, *([] if nbest.texts is None else [TEXT])]
    for name in files:
        hidden = name.startswith(".") or Path(name).suffix in COMPRESSED_ENDINGS or name == ROLES
        if hidden or not {"/", "\0"}.isdisjoint(name) or files.count(name) > 1:
            raise DataError(f"{quoted(name)} cannot be the name of a file here; rename the feature", path=place)
    for cell in nbest.list_ids:
        if words_of(cell) != [cell]:
            raise DataError(f"list id {quoted(cell)} has white space, which a key cannot; rename it", path=place)
    if words_of(f"a{separator}") != [f"a{separator}"] or not separator or separator[-1].isdigit():
        raise DataError(
            f"separator {quoted(separator)} cannot stand before a number in a key; choose another", path=place
        )
    for text in nbest.texts or ():
        if "\n" in text or "\r" in text:
            raise DataError(f"{quoted(text)} holds a line end; replace it", path=place)
    keys = [
        f"{list_id}{separator}{number}"
        for list_id, size in zip(nbest.list_ids, np.diff(nbest.offsets).tolist(), strict=True)
        for number in range(1, size + 1)
    ]
    made_folder(place)
    columns: list[Sequence[str]] = [
        [number_text(number) for number in column]
        for table in (nbest.dense_features(), nbest.statistics)
        for column in table.T.tolist()
    ]
    if nbest.texts is not None:
        columns.append(nbest.texts)
    for name, cells in zip(files, columns, strict=True):
        write_text(place / name, "".join(f"{key} {cell}\n" for key, cell in zip(keys, cells, strict=True)))
    roles = {
        "features": nbest.names,
        "statistics": nbest.statistic_names,
        "texts": None if nbest.texts is None else TEXT,
        "separator": separator,
    }
    write_text(place / ROLES, json.dumps(roles, indent=2) + "\n")


def _roles(folder: Path) -> tuple[Files, Path | None, Files, str]:
    """Return the files of features by name, of texts, of statistics by name, and the separator of a folder."""
    try:
        roles = json.loads(read_text(folder / ROLES))
        files = [{name: folder / name for name in roles[what]} for what in ("features", "statistics")]
        texts = None if roles["texts"] is None else folder / roles["texts"]
        return files[0], texts, files[1], str(roles["separator"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("does not say which file is what; give the files as NAME=FILE", path=folder / ROLES) from error


def read_espnet(
    folder: str | Path,
    references: References,
    *,
    scores: Sequence[str] = ("score",),
    metric: str = "wer",
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read N-best lists that ESPnet wrote: folders `1best_recog`, `2best_recog`, ... with `text` and score files.

    They lie in `folder` or, one set a job, in its folders `output.*`. `scores` are the files to take as features;
    the number of words becomes a feature too. An utterance may have fewer hypotheses than others, but none left out in
    the middle. `references`, `metric`, `partial` and `by_position` are those of `read_srilm`. Raises `DataError` with
    file and line.
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
    return measured(features, [*scores, "words"], texts, references, metric, partial, by_position)


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
            raise DataError(trouble, path=folder / TEXT, line=line)
        members.append(([*row, float(len(words_of(text)))], text))


def _check_same_keys(first: Keyed, first_path: str | Path, other: Keyed, path: str | Path) -> None:
    for key, (line, _) in first.items():
        if key not in other:
            raise DataError(f"key {quoted(key)} is missing in {path}; add it there", path=first_path, line=line)
    for key, (line, _) in other.items():
        if key not in first:
            raise DataError(f"key {quoted(key)} is missing in {first_path}; add it there", path=path, line=line)


def _numbers(keyed: Keyed, keys: Sequence[str], path: str | Path) -> list[float]:
    numbers = []
    for key in keys:
        line, text = keyed[key]
        tensor = _TENSOR.fullmatch(text.strip(" \t"))
        numbers.append(
            number_of_text(tensor.group(1) if tensor else text.strip(" \t"), f"score of {quoted(key)}", path, line)
        )
    return numbers


SCORES = Format("one file a score", read_scores, write_scores)
ESPNET = Format("folders that ESPnet wrote", read_espnet)
