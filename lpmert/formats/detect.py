"""Reading and writing N-best lists in all formats, named by the caller or detected."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lpmert.errors import DataError, OptionError
from lpmert.files import EMPTY, STDIN, archive_members, buffered_pipes, head_of, is_archive
from lpmert.formats.columns import Wanted, losses_of_gains, matched
from lpmert.formats.format import COUNTED, COUNTING, Format, Paths
from lpmert.formats.graphs import kind_of_graph
from lpmert.formats.tables import format_of_name, json_kind, read_table
from lpmert.formats.utterances import utterance_files, with_references
from lpmert.model.arrays import one_or_more
from lpmert.model.nbest import NBest, checked_lists
from lpmert.quoting import listed, quoted
from lpmert.registry import FORMATS, PROBLEM

Source = Paths | Mapping[str, str | Path]
"""A file or folder, several files (runs), or for scores a file for each feature, by name."""

logger = logging.getLogger("lpmert")

_HEAD = 1 << 16
_ZIP = b"PK\x03\x04"  # the name of the first member begins at byte 30, and its length is at byte 26
_MAGIC = {b"PAR1": "parquet", _ZIP: "npz"}
_SRILM = re.compile(r"(-?[0-9.]+(e[-+]?[0-9]+)?[ \t]+){2}[0-9]+([ \t]|$)")
_BEST_OF_N = re.compile(r'(?<!\\)"candidates"\s*:\s*\[\s*(\]|.*?(?<!\\)"scores"\s*:\s*\{)', re.DOTALL)
_SCORE = re.compile(r"[^ \t\n]+[ \t]+[-+]?[0-9][-+.0-9eE]*[ \t]*\r?(\n|$)")
_SELECTING = ("features", "loss", "gain", "statistics")


def read(source: Source, format: str | Format | None = None, **options: Any) -> NBest:
    """Read N-best lists in any format.

    Parameters
    ----------
    source : str, Path, sequence or mapping of these, or data frame
        A file or folder, or `-` for standard input; several, whose lists with equal ids are pooled; for scores, a file
        for each feature, by name; or a data frame of pandas or polars, a table of pyarrow, or columns by name.
    format : str or Format, optional
        A name (`lpmert convert --help` lists them), `module:Name`, or a `lpmert.formats.Format`; detected by default.
    **options
        Options of the format's reader. For tables these name columns: `segment`, the list of a row; `features`; `loss`,
        or `gain`, of which more is better (the loss is 1 - gain where all gains lie between 0 and 1, otherwise minus
        the gain), or `statistics`, which the metric sums; `text`, the hypothesis itself. Columns that are not named are
        recognised if `write` wrote the table; otherwise an error asks for them. `group=True` gathers scattered rows of
        a list.

        For all formats, `features` (a sequence, or joined by commas: names, patterns such as `LM*`, `all`) and `loss`,
        `gain` or `statistics` select from the file. `references` makes `read` count the statistics from the texts: the
        words by utterance, or one or more files (Kaldi's `text`, trn, lines `id<tab>text`, or one sentence a line where
        the ids of lists are line numbers). `metric` says how, by default word errors, for Moses BLEU; `partial` allows
        references without a list; `by_position` reads lines as sentences whatever they look like. `references=False`
        reads lists without losses, for `lpmert.rerank`.

    Returns
    -------
    NBest
        The lists.

    Raises
    ------
    DataError
        For missing or unknown options, and for data that cannot be used.

    Examples
    --------
    >>> import lpmert
    >>> lpmert.read("examples/best_of_n/candidates.jsonl").n_lists  # one a line
    16
    >>> lists = lpmert.read(
    ...     "examples/asr/nbest.tsv.gz", segment="utterance", features="am,lm,words", loss="errors"
    ... )
    >>> lists.n_lists, lists.n_hypotheses
    (250, 25000)
    """
    is_files = not isinstance(source, Mapping) or all(isinstance(file, str | Path) for file in source.values())
    if format is None and (not is_files or hasattr(source, "columns")):
        return _read(source, Format("a data frame", read_table), options)
    source = source if isinstance(source, Mapping) else one_or_more(source, "source")
    source = source[0] if isinstance(source, list) and len(source) == 1 else source
    with buffered_pipes():
        return _read(source, detect(source) if format is None else format, options)


def _read(source: Source, format: str | Format, options: dict[str, Any]) -> NBest:
    name, kind = _resolved(format)
    known = kind.reader_options
    selection = {option: options.pop(option) for option in _SELECTING if option in options and option not in known}
    path = source if isinstance(source, str | Path) else None
    options = {option: value for option, value in options.items() if option != "references" or value is not None}
    _check_options(known, options, f"reading {name}", path)
    references = options.pop("references", None)
    counting = {option: options.pop(option) for option in COUNTING if option in options}
    if counting and references is None:
        raise DataError(f"{next(iter(counting))} is for texts; give references, too", path=path)
    options |= kind.fixed
    if COUNTED in inspect.signature(kind.reader).parameters:
        options[COUNTED] = None if references is False else references is not None
    if isinstance(source, list) and not kind.pooled:
        nbest = merged([kind.reader(file, **options) for file in source], source)
    else:
        nbest = kind.reader(source, **options)
    if references is not None and references is not False:
        nbest = with_references(nbest, references, **{"metric": kind.metric, **counting})
    if not selection:
        return nbest
    wanted, gain = Wanted.of(**selection), selection.get("gain")
    if wanted.features is not None:
        nbest = nbest.select_features(matched(wanted.features, nbest.names, nbest.names))
    if gain is not None and gain not in nbest.statistic_names == ("loss",):
        remedy = "in best-of-n 1 - correct: leave gain (--gain) out"
        raise DataError(f"no statistic {quoted(gain)}; the lists have a loss already, {remedy}")
    if wanted.sums is not None:
        nbest = nbest.select_statistics(wanted.sums)
    return nbest if gain is None else losses_of_gains(nbest)


def merged(parts: Sequence[NBest], places: Sequence[object]) -> NBest:
    """Return the lists of all parts, with equal ids pooled; an error names the place of the part that differs."""
    nbest = parts[0]
    for part, place in zip(parts[1:], places[1:], strict=True):
        try:
            nbest = nbest.merge(part)
        except DataError as error:
            raise DataError(f"{error}; so does {places[0]}", path=str(place)) from error
    return nbest


def write(nbest: NBest, path: str | Path, format: str | Format | None = None, **options: Any) -> None:
    """Write N-best lists in any format that can be written.

    Parameters
    ----------
    nbest : NBest
        The lists.
    path : str or Path
        The file or folder to write.
    format : str or Format, optional
        As for `read`; by default that of the path's ending.
    **options
        Options of the format's writer.

    Raises
    ------
    DataError
        As by `read`, and where the format cannot hold the lists.

    Examples
    --------
    >>> import lpmert, tempfile
    >>> lists = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]])
    >>> path = tempfile.mkdtemp() + "/lists.npz"
    >>> lpmert.write(lists, path)
    >>> lpmert.read(path).fingerprint == lists.fingerprint
    True
    """
    name, kind = _resolved(format_of_target(path) if format is None else format)
    writer = writer_of(kind, name)
    _check_options(kind.writer_options, options, f"writing {name}", path)
    writer(checked_lists(nbest), path, **options, **kind.fixed)


def writer_of(format: Format, name: str) -> Callable[..., None]:
    if format.writer is None:
        raise DataError(f"format {name} is only read; choose one of {_writable()}")
    return format.writer


def _writable() -> str:
    return listed(name for name in FORMATS.own if FORMATS.find(name).writer)


def format_by_name(name: str) -> Format:
    found = FORMATS.build(name)
    if not isinstance(found, Format):
        raise DataError(f"{quoted(name)} is not a format; register an object of lpmert.formats.Format")
    return found


def format_of_target(path: str | Path) -> str:
    kind = format_of_name(path) or ("npz" if Path(path).suffix == ".npz" else _by_ending(path))
    if kind is None:
        remedy = f"give the format (--to, format), one of {_writable()}"
        raise DataError(f"cannot tell from the ending in which format to write; {remedy}", path=path)
    return kind


def detect(source: Source) -> str:
    """Return the name of the format of a source, detected from its first bytes, then from its ending.

    An ending that another package's format claims takes precedence over text that looks like one of our formats. The
    first file of a folder or of several files decides.
    """
    if isinstance(source, Mapping):
        return "scores"
    if not isinstance(source, str | Path):
        if not source:
            raise DataError("give at least one file")
        source = source[0]
    if str(source) != STDIN and Path(source).is_dir():
        if any(any(Path(source).glob(pattern)) for pattern in ("1best_recog", "output.*/1best_recog")):
            return "espnet"
        text = head_of(utterance_files(source)[0][1], _HEAD).decode(errors="replace").removeprefix("\ufeff")
        kind = _by_utterance(text)
    else:
        head = head_of(source, _HEAD)
        if not head:
            raise DataError(EMPTY, path=source)
        text = head.decode(errors="replace")
        if head.startswith(_ZIP) and not head[30 : 30 + int.from_bytes(head[26:28], "little")].endswith(b".npy"):
            remedy = "unpack it, or save a spreadsheet as CSV"
            raise DataError(f"a zip archive, but not of numpy arrays; {remedy}", path=source)
        if is_archive(source):
            text = next((member for _, member in archive_members(source)), "")
            if kind_of_graph(text) is None:
                raise DataError("an archive, in which only lattices are read; unpack it", path=source)
        kind = _MAGIC.get(head[:4]) or (None if format_of_name(source) else _by_ending(source))
        kind = kind or _by_first_line(text.removeprefix("\ufeff"), source)
    if kind is not None:
        return kind
    trouble = f"cannot tell the format; give the format (--from, format), one of {listed(FORMATS.own)}, or module:Name"
    if Path(source).suffix == PROBLEM:
        remedy = "give it to a command, alone; in Python, its lists to lpmert.read and its region to lpmert.minimize"
        trouble = f"a problem, which is more than lists: {remedy}"
    elif _SCORE.match(text):
        remedy = "lines of a key and a number are scores: give NAME=FILE for each (in Python, files by name)"
        trouble = f"cannot tell the format; {remedy}"
    raise DataError(trouble, path=source)


def _resolved(format: str | Format) -> tuple[str, Format]:
    return (format.description, format) if isinstance(format, Format) else (format, format_by_name(format))


def _check_options(known: Mapping[str, bool], options: Mapping[str, Any], what: str, path: str | Path | None) -> None:
    for name in options:
        if name not in known:
            there = listed(known) or "none"
            raise OptionError(f"{what} takes no option {quoted(name)}; its options are {there}", path=path)
    for name, needed in known.items():
        if needed and name not in options:
            raise OptionError(f"{what} needs the option {quoted(name)}", path=path)


def _by_ending(path: str | Path) -> str | None:
    """Return the format of another package that claims the ending of a path, `None` if there is none."""
    for name in FORMATS.names():
        if name not in FORMATS.own:
            try:
                if str(path).endswith(format_by_name(name).endings):
                    return name
            except DataError as error:  # one broken package must not hide the others
                logger.warning("%s", error)
    return None


def _by_first_line(text: str, path: str | Path) -> str | None:
    first = next((line for line in text.split("\n") if line.strip()), "")
    named = format_of_name(path)
    if named in ("tsv", "csv"):
        return named
    if first.startswith("SCORES_"):
        remedy = "give the file of features, and this one as scores"
        raise DataError(f"these are the scores of mert data; {remedy}", path=path)
    if first.startswith("FEATURES_"):
        return "mert"
    in_json = json_kind(text)
    if in_json is not None:
        return "best-of-n" if _BEST_OF_N.search(text) else in_json
    if "|||" in first:
        return "moses"
    separated = (kind for separator, kind in (("\t", "tsv"), (",", "csv"), (";", "csv")) if separator in first)
    return _by_utterance(text) or named or next(separated, None)


def _by_utterance(text: str) -> str | None:
    """Return the format (of lattices, or srilm) of a file with one utterance, by its beginning; `None` for others."""
    first = next((line for line in text.split("\n") if line.strip() and not line.startswith("#")), "")
    return kind_of_graph(text) or ("srilm" if _SRILM.match(first) else None)
