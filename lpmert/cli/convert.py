"""`lpmert convert`: from one format of N-best lists to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, TypeVar

import click

from lpmert.cli.arguments import assignment, column_names, finite
from lpmert.cli.console import say
from lpmert.cli.shared import Registered, line_length_option
from lpmert.configurable import with_parameters
from lpmert.errors import MethodError
from lpmert.formats.detect import detect, format_by_name, format_of_target, read, write, writer_of
from lpmert.quoting import listed, quoted
from lpmert.registry import FORMATS
from lpmert.system.files import check_not_read, noting_reads

Value = TypeVar("Value")

_READER_NAMES: Mapping[str, Mapping[str, str]] = {
    "moses": {"statistics": "statistic_names", "statistics_file": "statistics", "drop_texts": "texts"},
    "scores": {"text_file": "texts"},
}
_WRITER_NAMES = {"scores_out": "scores"}
"""What the reader or writer of a format calls a flag, where the names differ."""

_OF_METRICS = ("tokenize", "lowercase")
_OF_WRITERS = ("scores_out", "score_type", "form")
_OF_BOTH = ("segment", "text", "separator")


def _named(convert: Callable[[str], Value], kind: str) -> Callable[[str], tuple[str, Value]]:
    """Return a function from NAME=VALUE to name and value, which raises `click.BadParameter` for anything else."""

    def parse(text: str) -> tuple[str, Value]:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{quoted(text)} is not NAME={kind}.")
        return name, convert(value)

    parse.__name__ = f"NAME={kind}"
    return parse


_FILE_BY_NAME = _named(str, "FILE")


@click.command()
@click.argument("source", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT", type=click.Path())
@click.option("--from", "from_format", type=Registered(FORMATS), help="Format of IN. [default: told by its content]")
@click.option("--to", "to_format", type=Registered(FORMATS), help="Format of OUT. [default: told by its ending]")
@click.option("--deduplicate", is_flag=True, help="Drop hypotheses that repeat an earlier one in their list.")
@click.option("--segment", metavar="COLUMN", help="Tables: column that tells which list a row belongs to.")
@click.option("--features", type=column_names, metavar="A,B,C", help="Tables: columns of the features.")
@click.option("--loss", metavar="COLUMN", help="Tables: column of the loss.")
@click.option("--gain", metavar="COLUMN", help="Tables: column of what is better if higher; or true and false.")
@click.option("--statistics", type=column_names, metavar="A,B,C", help="Tables: columns of statistics. Moses: names.")
@click.option("--text", metavar="COLUMN", help="Tables: column of the text.")
@click.option("--group", is_flag=True, help="Tables, moses: allow the rows of a list to lie apart.")
@click.option("--references", multiple=True, metavar="FILE", help="Texts: references for the hypotheses.")
@click.option(
    "--metric",
    metavar="NAME",
    help="Texts: the metric: bleu, ter, wer, ... [default: bleu for moses, else wer]",
)
@click.option(
    "--set",
    "options",
    type=assignment,
    multiple=True,
    metavar="NAME=VALUE",
    help="Texts: option of the metric; may be repeated. `lpmert methods --metric NAME` lists them.",
)
@click.option("--tokenize", metavar="NAME", help="Texts: tokenizer of sacrebleu, for bleu. none: split at white space.")
@click.option("--lowercase", is_flag=True, help="Texts: ignore case.")
@click.option("--partial", is_flag=True, help="Texts: allow references without a list.")
@click.option("--statistics-file", multiple=True, metavar="FILE", help="Moses: file of statistics, one per IN.")
@click.option("--last-field", is_flag=True, help="Moses: the last field has the statistics.")
@click.option("--drop-texts", is_flag=True, help="Moses: do not keep the texts.")
@click.option("--scores", multiple=True, metavar="FILE", help="Mert: file of scores, one per IN. ESPnet: which scores.")
@click.option("--text-file", metavar="FILE", help="Scores: file of the texts.")
@click.option("--losses", multiple=True, type=_FILE_BY_NAME, metavar="NAME=FILE", help="Scores: files of statistics.")
@click.option(
    "--separator", metavar="TEXT", help="Scores: separates the id of the list from the number in a key. [default: -]"
)
@click.option("--n-best", type=click.IntRange(min=1), metavar="N", help="SLF: hypotheses per list. [default: 100]")
@click.option(
    "--scales", multiple=True, type=_named(finite, "NUMBER"), metavar="NAME=NUMBER", help="SLF: weight of a score."
)
@click.option(
    "--counts",
    multiple=True,
    type=_named(column_names, "WORD,WORD"),
    metavar="NAME=WORD,WORD",
    help="SLF: words to count as a feature.",
)
@click.option("--scores-out", metavar="FILE", help="To mert: the file of scores; OUT has the features.")
@click.option("--score-type", metavar="TYPE", help="To mert: type of the scores, such as BLEU.")
@click.option("--form", type=click.IntRange(1, 3), help="To SRILM: form of the lists. [default: 3]")
@line_length_option
@click.option("-q", "--quiet", is_flag=True, help="Do not report what was converted.")
def convert(
    source: tuple[str, ...],
    target: str,
    from_format: str | None,
    to_format: str | None,
    deduplicate: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Convert the N-best lists in IN to another format, exactly: reading OUT gives the same numbers.

    Several IN, runs of moses or mert, are pooled by list. For --from scores, IN are NAME=FILE, one for each feature.
    The help of a flag says to which formats it belongs. docs/formats.md describes all of them.
    """
    files: Any = _by_name(map(_FILE_BY_NAME, source), "IN") if from_format == "scores" else source
    kind = from_format or detect(files)
    to_kind = to_format or format_of_target(target)
    given = {name: _value(name, value) for name, value in flags.items() if value not in (None, False, ())}
    if "references" in given and kind != "moses":
        if len(given["references"]) > 1:
            raise click.UsageError(f"--references is one file for {kind}.")
        given["references"] = given["references"][0]
    settings = {name: given.pop(name) for name in _OF_METRICS if name in given}
    settings.update(given.pop("options", ()))
    if settings:
        given["metric"] = _metric(kind, given.get("metric"), settings)
    options = format_by_name(kind).reader_options
    reading = _arguments(options, given, _READER_NAMES.get(kind, {}), f"reading {kind}", _OF_WRITERS)
    of_readers = [name for name in given if name not in (*_OF_WRITERS, *_OF_BOTH)]
    target_format = format_by_name(to_kind)
    writer_of(target_format, to_kind)
    writing = _arguments(target_format.writer_options, given, _WRITER_NAMES, f"writing {to_kind}", of_readers)
    for name in given:
        if name not in (*reading, *writing):
            raise click.UsageError(f"{_flag(name)} does not apply to reading {kind} or writing {to_kind}.")
    with noting_reads() as sources:
        nbest = read(files, kind, **dict(reading.values()))
    for output in filter(None, (target, flags["scores_out"])):
        check_not_read(output, sources)
    if deduplicate:
        nbest = nbest.deduplicate()
    write(nbest, target, to_kind, **dict(writing.values()))
    if not quiet:
        say(
            f"{target}: {nbest.n_lists:,} lists, {nbest.n_hypotheses:,} hypotheses; features {listed(nbest.names)}; "
            f"statistics {listed(nbest.statistic_names)}"
        )


def _metric(kind: str, name: str | None, settings: Mapping[str, Any]) -> Any:
    """Return the metric on texts of this name, or that which a reader takes by default, with other settings."""
    from lpmert.metrics.text import TEXT_METRICS

    parameter = signature(format_by_name(kind).reader).parameters.get("metric")
    if parameter is None:
        raise click.UsageError(f"{_flag(next(iter(settings)))} does not apply to reading {kind}.")
    chosen = name or parameter.default
    metric: Any = TEXT_METRICS.get(chosen)
    if metric is None:
        raise click.UsageError(f"--metric {chosen} is none of {', '.join(TEXT_METRICS)}.")
    texts = {name: "yes" if value is True else value for name, value in settings.items()}
    try:
        return with_parameters(metric, texts, f"metric {quoted(chosen)}")
    except MethodError as error:
        raise click.UsageError(f"{error}.") from error


def _by_name(pairs: Iterable[tuple[str, Value]], what: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{what} names {name} twice.")
        found[name] = value
    return found


def _value(name: str, value: Any) -> Any:
    if name in ("losses", "scales", "counts"):
        return _by_name(value, _flag(name))
    return not value if name == "drop_texts" else value


def _arguments(
    known: Mapping[str, bool], given: Mapping[str, Any], names: Mapping[str, str], what: str, others: Any
) -> dict[str, tuple[str, Any]]:
    """Return for each flag that a reader or writer takes the name and value of its argument."""
    found = {
        flag: (names.get(flag, flag), value)
        for flag, value in given.items()
        if flag not in others and names.get(flag, flag) in known
    }
    missing = [name for name, needed in known.items() if needed and name not in dict(found.values())]
    if missing:
        flags = [flag for flag, name in names.items() if name == missing[0]] or missing
        raise click.UsageError(f"{_flag(flags[0])} is needed for {what}.")
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
