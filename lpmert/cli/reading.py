"""What commands read: the lists or lattices that their options ask for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lpmert.cli.reading_options import FILE_BY_NAME, FLAGS
from lpmert.quoting import listed, quoted

if TYPE_CHECKING:
    from lpmert.model.graphs import WordGraphs
    from lpmert.model.nbest import NBest

    Data = NBest | WordGraphs

Value = TypeVar("Value")

ARGUMENTS = "lpmert.arguments"
"""Key, in what click keeps of a run, of the words of the command line."""

_READER_NAMES: Mapping[str, Mapping[str, str]] = {
    "moses": {"statistics": "statistic_names", "statistics_file": "statistics", "drop_texts": "texts"},
    "scores": {"text_file": "texts"},
}
"""What the reader of a format calls a flag, where the names differ."""

_NAMED_FILES = 4
"""Of more than these, only the first is named."""

_OF_METRICS = ("tokenize", "lowercase")
_OF_ALL = ("features", "loss", "gain", "statistics", "references", "metric", "partial", "by_position")
"""What `read` looks after where a reader does not."""


@dataclass(frozen=True)
class Reading:
    """Where lists come from: files or folders, the format if it is given, and the flags that are set."""

    files: tuple[str, ...]
    format: str | None
    deduplicate: bool
    flags: Mapping[str, Any]

    @classmethod
    def taken(
        cls,
        files: Iterable[str],
        options: dict[str, Any],
        metric: str | None = None,
        settings: Iterable[tuple[str, str]] = (),
    ) -> Reading:
        """Return the reading that options ask for, which are taken out of `options`.

        metric is that of texts, and settings are its options; both count only with references.
        """
        given = {name: options.pop(name) for name in FLAGS}
        format, deduplicate = given.pop("format"), given.pop("deduplicate")
        flags = {name: _value(name, value) for name, value in given.items() if value not in (None, False, ())}
        if sum(name in flags for name in ("loss", "gain", "statistics")) > 1:
            raise click.UsageError(
                "Pass either --loss with one column, or --gain with one of which more is better, or --statistics with "
                "the columns of the metric."
            )
        if metric is not None and "references" in flags:
            flags["metric"] = metric
        if settings and "references" in flags:
            flags["settings"] = by_names(settings, "--set")
        reading = cls(tuple(files), format, deduplicate, flags)
        _refuse_twice_stdin(reading.inputs)
        return reading

    def held_out(self, file: str, references: Sequence[str]) -> Reading:
        """Return the same for another file with references of its own.

        Raises `click.UsageError` for flags that name files of these lists alone.
        """
        own = replace(self, files=(file,))
        _refuse_twice_stdin([*self.inputs, file, *references])
        for name in ("statistics_file", "text_file", "losses", *(("scores",) if own.plan[0] == "mert" else ())):
            if name in self.flags:
                raise click.UsageError(
                    f"{flag(name)} belongs to DATA alone, so --held-out cannot be read: make one file of each with "
                    "`lpmert convert`."
                )
        if "references" not in self.flags:
            if references:
                raise click.UsageError("--held-out-references needs --references.")
            return own
        if not references:
            raise click.UsageError(
                "--held-out needs --held-out-references, as --references belong to DATA; if they have both, name "
                "them again."
            )
        return replace(own, flags={**self.flags, "references": _value("references", tuple(references))})

    @property
    def inputs(self) -> list[str]:
        """All that is read: the files, and those that flags name."""
        found = [*self.files]
        for name in ("references", "statistics_file", "text_file", "losses", "symbols"):
            value = self.flags.get(name, ())
            found += [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value
        return found

    @property
    def name(self) -> str:
        """What messages call the lists."""
        more = len(self.files) - _NAMED_FILES
        return ", ".join(self.files) if more <= 0 else f"{self.files[0]} and {more + _NAMED_FILES - 1} more files"

    @property
    def source(self) -> Any:
        """What to read: files, or files by name of the feature where they are given as NAME=FILE."""
        by_name = ["=" in file and not os.path.exists(file) for file in self.files]
        if self.format == "scores" and not (len(self.files) == 1 and os.path.isdir(self.files[0])):
            return by_names(map(FILE_BY_NAME, self.files), "DATA")
        if self.format is None and all(by_name):
            return by_names(map(FILE_BY_NAME, self.files), "DATA")
        return self.files[0] if len(self.files) == 1 else self.files

    def read(self, unused: Collection[str] = ()) -> NBest:
        """Return the lists; flags in `unused` may be left over.

        Raises `click.UsageError` for flags that do not apply, `DataError` for what cannot be read.
        """
        from lpmert.errors import DataError
        from lpmert.formats.columns import ColumnsNeeded
        from lpmert.formats.detect import read

        kind, options, rest = self.plan
        for name in rest:
            if name not in unused:
                raise click.UsageError(f"{flag(name)} does not apply to reading {kind}.")
        try:
            nbest = read(self.source, kind, **options)
        except ColumnsNeeded as error:
            told = DataError(f"{error}. For example:\n{_command(error.suggestion)}")
            told.path = error.path  # which the message names already
            raise told from error
        return nbest.deduplicate() if self.deduplicate else nbest

    @cached_property
    def whole(self) -> bool:
        """Whether these are lattices of which all paths are asked for."""
        from lpmert.formats.detect import format_by_name

        return "n_best" not in self.flags and format_by_name(self.plan[0]).graphs is not None

    def read_whole(self) -> Data:
        """Return the lists, or lattices with all their paths unless N-best lists are asked for; raises as `read`."""
        if not self.whole:
            return self.read()
        from lpmert.formats.lattices import load_lattices

        kind, options, rest = self.plan
        options = {name: value for name, value in options.items() if name != "metric"}
        for name in (*rest, *(name for name in ("scales", "loss", "statistics") if name in options)):
            raise click.UsageError(f"{flag(name)} does not apply to whole lattices ({kind}).")
        if self.deduplicate:
            raise click.UsageError("--deduplicate does not apply to whole lattices.")
        return load_lattices(self.source, format=self.format, **options)

    @property
    def text_metric(self) -> Any:
        """The metric on texts that the flags ask for, by name or with settings."""
        return self.plan[1].get("metric", "wer")

    def rates(self, data: Data, *losses: float) -> list[dict[str, float]]:
        """Return losses that were counted against references as rates, where their length is known."""
        if "references" not in self.flags:
            return [{} for _ in losses]
        from lpmert.formats.utterances import references_by_list
        from lpmert.metrics.rates import error_rates
        from lpmert.metrics.text import TEXT_METRICS, EditTexts
        from lpmert.model.graphs import WordGraphs

        kind, options, _ = self.plan
        metric: Any = options.get("metric")
        if metric is None or isinstance(metric, str):
            metric = TEXT_METRICS[metric or _default_metric(kind)]
        if not isinstance(metric, EditTexts):
            return [{} for _ in losses]  # of others, references are not read again
        if isinstance(data, WordGraphs):
            return error_rates(metric, data.references, *losses)
        settings = {name: options.get(name, False) for name in ("partial", "by_position")}
        by_list = references_by_list(data.list_ids, options["references"], **settings)
        return error_rates(metric, by_list, *losses)

    @cached_property
    def plan(self) -> tuple[str, dict[str, Any], list[str]]:
        """The format, the arguments of its reader, and the flags that it does not take."""
        from lpmert.formats.detect import detect, format_by_name

        kind = self.format or detect(self.source)
        known = format_by_name(kind).reader_options
        names = _READER_NAMES.get(kind, {})
        given = dict(self.flags)
        settings = {name: given.pop(name) for name in _OF_METRICS if name in given}
        settings |= given.pop("settings", {})
        if settings and "references" not in given:
            raise click.UsageError(f"{flag(next(iter(settings)))} applies to texts, with --references.")
        if settings:
            given["metric"] = _metric(kind, given.get("metric"), settings)
        takes = {name: names.get(name, name) for name in given if names.get(name, name) in {*known, *_OF_ALL}}
        options = {takes[name]: value for name, value in given.items() if name in takes}
        for name, needed in known.items():
            if needed and name not in options:
                flags = [flag for flag, argument in names.items() if argument == name] or [name]
                raise click.UsageError(f"{flag(flags[0])} is needed for reading {kind}.")
        return kind, options, [name for name in given if name not in takes]


def _refuse_twice_stdin(inputs: Sequence[str]) -> None:
    """Raise `click.UsageError` where standard input is to be read as two things."""
    if inputs.count("-") > 1:
        raise click.UsageError("Standard input (-) can be only one of the files that are read; name the others.")


def by_names(pairs: Iterable[tuple[str, Value]], what: str) -> dict[str, Value]:
    """Return values by name; raises `click.UsageError` where a name comes twice."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{what} names {name} twice.")
        found[name] = value
    return found


def sizes(data: Data) -> str:
    """Return how many lists and hypotheses there are, or how many lattices, links and paths."""
    from lpmert.model.nbest import NBest

    if isinstance(data, NBest):
        hypotheses = "hypothesis" if data.n_hypotheses == 1 else "hypotheses"
        return f"{data.n_lists:,} list{'s' * (data.n_lists != 1)}, {data.n_hypotheses:,} {hypotheses}"
    return f"{data.n_lists:,} {type(data).__name__.lower()}, {paths_of(data)}"


def paths_of(lattices: WordGraphs) -> str:
    """Return how many links lattices have, and how many paths the one with the most."""
    return f"{lattices.n_links:,} links, up to 10^{float(lattices.log10_paths.max()):.0f} paths each"


def described(data: Data) -> str:
    """Return the names of the features and, of lists, of the statistics."""
    from lpmert.model.nbest import NBest

    features = f"features {listed(data.names)}"
    return f"{features}; statistics {listed(data.statistic_names)}" if isinstance(data, NBest) else features


def flag(name: str) -> str:
    """Return how a flag is written."""
    return f"--{name.replace('_', '-')}"


def _metric(kind: str, name: str | None, settings: Mapping[str, Any]) -> Any:
    """Return the metric on texts of this name, or that which a reader takes by default, with other settings."""
    from lpmert.configurable import with_parameters
    from lpmert.errors import LpmertError
    from lpmert.metrics.text import TEXT_METRICS

    chosen = name or _default_metric(kind)
    metric: Any = TEXT_METRICS.get(chosen)
    if metric is None:
        raise click.UsageError(f"--metric {chosen} is none of {', '.join(TEXT_METRICS)}.")
    texts = {name: "yes" if value is True else value for name, value in settings.items()}
    try:
        return with_parameters(metric, texts, f"metric {quoted(chosen)}")
    except LpmertError as error:
        raise click.UsageError(f"{error}.") from error


def _default_metric(kind: str) -> str:
    """Return the name of the metric that the reader of a format takes for texts."""
    from lpmert.formats.detect import format_by_name

    parameter = signature(format_by_name(kind).reader).parameters.get("metric")
    return "wer" if parameter is None else str(parameter.default)


def _value(name: str, value: Any) -> Any:
    if name in ("losses", "scales", "counts"):
        return by_names(value, flag(name))
    if name == "references" and len(value) == 1:
        return value[0]
    return not value if name == "drop_texts" else value


def _command(suggestion: Mapping[str, str]) -> str:
    """Return the command as it was given, and with it the columns that may be meant."""
    words = click.get_current_context().find_root().meta.get(ARGUMENTS, [])
    more = [part for name, value in suggestion.items() for part in _suggested(name, value)]
    return "  lpmert " + " ".join(map(shlex.quote, [*words, *more]))


def _suggested(name: str, value: str) -> tuple[str, str]:
    return (flag("statistics" if name == "loss" and "," in value else name), value)
