"""The options of commands that read lists: one set for all formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lpmert.cli.arguments import Registered, WholeNumber, column_names, finite, size
from lpmert.quoting import quoted
from lpmert.registry import FORMATS

Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])


def named(convert: Callable[[str], Value], kind: str) -> Callable[[str], tuple[str, Value]]:
    """Return a function from NAME=VALUE to name and value, which raises `click.BadParameter` for anything else."""

    def parse(text: str) -> tuple[str, Value]:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{quoted(text)} is not NAME={kind}.")
        return name, convert(value)

    parse.__name__ = f"NAME={kind}"
    return parse


FILE_BY_NAME = named(str, "FILE")
"""A file for a feature or a statistic: NAME=FILE."""

_OPTIONS = (
    click.option("--from", "format", type=Registered(FORMATS), help="Format of DATA. [default: told by its content]"),
    click.option("--deduplicate", is_flag=True, help="Drop hypotheses that repeat an earlier one in their list."),
    click.option("--segment", metavar="COLUMN", help="Tables: column that tells which list a row belongs to."),
    click.option(
        "--features", type=column_names, metavar="A,B,C", help="Features: names, patterns such as 'LM*', or all."
    ),
    click.option("--gain", metavar="COLUMN", help="Column of what is better if higher, or in tables true and false."),
    click.option("--loss", metavar="COLUMN", help="Column of the loss of a hypothesis, such as its word errors."),
    click.option(
        "--statistics",
        type=column_names,
        metavar="A,B,C",
        help="What the metric sums, instead of --loss. Moses: names.",
    ),
    click.option("--text", metavar="COLUMN", help="Tables: column of the text."),
    click.option("--group", is_flag=True, help="Tables, moses: allow the rows of a list to lie apart."),
    click.option(
        "--references", multiple=True, metavar="FILE", help="Count the loss from the texts: what they should be."
    ),
    click.option(
        "--tokenize", metavar="NAME", help="Texts: tokenizer of sacrebleu, for bleu. none: split at white space."
    ),
    click.option("--lowercase", is_flag=True, help="Texts: ignore case."),
    click.option("--partial", is_flag=True, help="Texts: allow references without a list."),
    click.option("--by-position", is_flag=True, help="Texts: line 1 of references belongs to list 0, and so on."),
    click.option("--statistics-file", multiple=True, metavar="FILE", help="Moses: file of statistics, one per file."),
    click.option("--last-field", is_flag=True, help="Moses: the last field has the statistics."),
    click.option("--drop-texts", is_flag=True, help="Moses: do not keep the texts."),
    click.option(
        "--scores", multiple=True, metavar="FILE", help="Mert: file of scores, one per file. ESPnet: which scores."
    ),
    click.option("--text-file", metavar="FILE", help="Scores: file of the texts."),
    click.option(
        "--losses", multiple=True, type=FILE_BY_NAME, metavar="NAME=FILE", help="Scores: files of statistics."
    ),
    click.option(
        "--separator",
        metavar="TEXT",
        help="Scores: separates the id of the list from the number in a key. [default: -]",
    ),
    click.option(
        "--n-best",
        type=WholeNumber(min=1),
        metavar="N",
        help="Lattices: the N best hypotheses of each.  [default: all; 100 where only lists will do]",
    ),
    click.option(
        "--scales",
        multiple=True,
        type=named(finite, "NUMBER"),
        metavar="NAME=NUMBER",
        help="Lattices, with N best hypotheses: weight of a score.",
    ),
    click.option(
        "--counts",
        multiple=True,
        type=named(column_names, "WORD,WORD"),
        metavar="NAME=WORD,WORD",
        help="Lattices: words to count as a feature, which are no words of the text.",
    ),
    click.option("--silent", type=column_names, metavar="WORD,WORD", help="Lattices: more words that are not spoken."),
    click.option("--variants", is_flag=True, help="Lattices: word(2) is another pronunciation of word."),
    click.option("--symbols", metavar="FILE", help="Lattices of Kaldi and OpenFst: words by number."),
)


def _limit_lines(ctx: click.Context, _: click.Parameter, value: int | None) -> None:
    if value is not None:
        from lpmert.system.files import line_limit

        ctx.with_resource(line_limit(value))


line_length_option = click.option(
    "--max-line-length",
    type=size,
    metavar="SIZE",
    callback=_limit_lines,
    expose_value=False,
    help="Reject files with a longer line.  [default: 64MiB]",
)
"""For all commands that read data."""


FLAGS = (
    *("format", "deduplicate", "segment", "features", "loss", "gain", "statistics", "text", "group"),
    *("references", "tokenize", "lowercase", "partial", "by_position"),
    *("statistics_file", "last_field", "drop_texts", "scores", "text_file", "losses", "separator"),
    *("n_best", "scales", "counts", "silent", "variants", "symbols"),
)


def reading_options(command: Command) -> Command:
    """Add the options that all commands have which read lists."""
    for option in reversed((*_OPTIONS, line_length_option)):
        command = option(command)
    return command
