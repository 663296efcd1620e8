"""Options on the lists or lattices that a command reads, and how they are read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import click

import lpmert
from lpmert.cli import values
from lpmert.cli.options import argument, option
from lpmert.cli.running import naming
from lpmert.quoting import LOSS, Unit, counted, listed, quoted
from lpmert.registry import FORMATS, METRICS

if TYPE_CHECKING:
    from lpmert.formats.format import Format
    from lpmert.model.graphs import WordGraphs

    Data = lpmert.NBest | WordGraphs

TIES = ("first", "best", "worst")
COUNTED = ("loss", "gain", "statistics")  # options that say what hypotheses cost; each excludes the others
ARGUMENTS = "lpmert.arguments"  # key of the command line's arguments in click's `Context.meta`

_of_texts = partial(option, group="Texts", rare=True)
_of_format = partial(option, group="Formats of lists", rare=True)
_of_lattices = partial(option, group="Lattices", rare=True)

_METRIC = "metric"
_OF_ALL = ("features", "loss", "gain", "statistics", "references", "metric", "partial", "by_position")
"""Options that `lpmert.read` takes for every format."""


@dataclass(frozen=True)
class Reading:
    heading = "Data"

    data: tuple[str, ...] = argument("DATA...", nargs=-1)
    format: str | None = option(
        "--from NAME", "Format of DATA.  [default: recognised by content]", values.Registered(FORMATS)
    )
    segment: str | None = option("COLUMN", "Column that names the list of each row.")
    features: tuple[str, ...] | None = option("A,B,C", "Names, patterns such as 'LM*', or all.")
    loss: str | None = option("COLUMN", "Column to minimise, such as word errors.")
    gain: str | None = option("COLUMN", "Column to maximise: numbers, or true and false.")
    statistics: tuple[str, ...] | None = option("A,B,C", "Columns that the metric sums.")
    references: tuple[str, ...] = option("FILE", "References to compare the texts with.", default=())
    metric: Any = option("NAME", "bleu, wer, f1, ...  [default: chosen by the columns]", values.METRIC)
    options: Mapping[str, str] = option(
        "--set NAME=VALUE", "Set an option of the method, or of the metric (metric.NAME=VALUE); see `lpmert methods`.",
        default=(), rare=True
    )  # fmt: skip
    deduplicate: bool = option("", "Drop hypotheses that repeat an earlier one.", default=False, rare=True)
    group: bool = option("", "Tables, Moses: the rows of a list need not be adjacent.", default=False, rare=True)

    text: str | None = _of_texts("COLUMN", "Tables: column with the text.")
    partial: bool = _of_texts("", "Allow references without a list.", default=False)
    by_position: bool = _of_texts("", "Match references by position: line 1 to list 0, and so on.", default=False)

    statistics_file: tuple[str, ...] = _of_format("FILE", "Moses: file with statistics, one per list file.", default=())
    drop_texts: bool = _of_format("", "Moses: drop the texts.", default=False)
    last_field: bool = _of_format("", "Moses: the last field holds the statistics.", default=False)
    scores: tuple[str, ...] = _of_format(
        "FILE", "Mert: file with scores, one per data file. ESPnet: scores to read.", default=()
    )
    text_file: str | None = _of_format("FILE", "Scores: file with the texts.")
    losses: Mapping[str, str] = _of_format("NAME=FILE", "Scores: files with statistics.", default=())
    separator: str | None = _of_format("TEXT", "Scores: separator of list and number in a key.  [default: -]")

    n_best: int | None = _of_lattices("N", "Use the N best paths of each.  [default: all; 100 where lists are needed]")
    scales: dict[str, float] | None = _of_lattices(  # noqa: RUF009
        "AM=1,LM=12", "Weights by which --n-best ranks paths, or a file with them."
    )
    counts: Mapping[str, tuple[str, ...]] = _of_lattices(
        "NAME=WORD,WORD", "Add a feature that counts these words, and drop them from the text.", default=()
    )
    silent: tuple[str, ...] | None = _of_lattices("WORD,WORD", "More words to drop from the text.")
    variants: bool = _of_lattices("", "Read word(2) as another pronunciation of word.", default=False)
    symbols: str | None = _of_lattices("FILE", "Kaldi, OpenFst: symbol table of the words.")

    def __post_init__(self) -> None:
        if sum(name in self.flags for name in COUNTED) > 1:
            ways = "--loss (one column, lower is better), --gain (one column, higher is better)"
            raise click.UsageError(f"Pass one of {ways} and --statistics (the columns of the metric).")
        if self.method_settings and not hasattr(self, "method"):
            trouble = f"--set {quoted(next(iter(self.method_settings)))}: no method searches here"
            raise click.UsageError(f"{trouble}; an option of the metric is metric.NAME=VALUE.")
        _refuse_twice_stdin(self.inputs)

    @cached_property
    def flags(self) -> Mapping[str, Any]:
        """The options for readers that are set; with references, also the metric on texts and its settings."""
        every = {one.name: getattr(self, one.name) for one in fields(Reading)}
        for name in ("data", "format", "metric", "options", "deduplicate"):  # readers do not take them as they are
            del every[name]
        found = {name: value for name, value in every.items() if value not in (None, False, (), {})}
        if "references" in found:
            if isinstance(self.metric, str):
                found["metric"] = self.metric
            if self.settings_for(_METRIC):
                found["settings"] = self.settings_for(_METRIC)
        return found

    def settings_for(self, name: str) -> dict[str, str]:
        """Return the options of one method, or of the metric, from `--set NAME.OPTION=VALUE`."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): text for key, text in self.options.items() if key.startswith(prefix)}

    @property
    def method_settings(self) -> dict[str, str]:
        return {key: text for key, text in self.options.items() if not key.startswith(f"{_METRIC}.")}

    def held_out(self, file: str, references: Sequence[str]) -> Self:
        """Return the same options for held-out lists; raises `click.UsageError` if one names a file of DATA."""
        aside = replace(self, data=(file,))
        _refuse_twice_stdin([*self.inputs, file, *references])
        for name in ("statistics_file", "text_file", "losses", *(("scores",) if aside.kind == "mert" else ())):
            if name in self.flags:
                remedy = "make one file of each with `lpmert convert`."
                raise click.UsageError(f"{flag(name)} belongs to DATA alone, so --held-out cannot be read: {remedy}")
        if "references" not in self.flags:
            if references:
                raise click.UsageError("--held-out-references needs --references.")
            return aside
        if not references:
            trouble = "--held-out needs --held-out-references, as --references belong to DATA"
            raise click.UsageError(f"{trouble}; if they have both, name them again.")
        return replace(aside, references=tuple(references))

    @property
    def inputs(self) -> list[str]:
        """All files that are read: DATA, and those that options name."""
        found = [*self.data]
        for name in ("references", "statistics_file", "text_file", "losses", "symbols"):
            value = self.flags.get(name) or ()  # `references` is `False` for lists without statistics
            found += [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value
        return found

    @property
    def name(self) -> str:
        return listed(self.data)

    @property
    def source(self) -> Any:
        """The files to read; a dictionary by feature if they are given as NAME=FILE."""
        named = ["=" in file and not os.path.exists(file) for file in self.data]
        if self.format == "scores" or (self.format is None and all(named)):
            return values.by_name(map(values.file_by_name, self.data), "DATA")
        return self.data[0] if len(self.data) == 1 else self.data

    def read(self) -> lpmert.NBest:
        """Return the lists; raises `click.UsageError` if an option does not apply, `DataError` for unreadable data."""
        from lpmert.formats.columns import COLUMN, ColumnsNeeded

        options, rest = self.plan
        for name in rest:
            raise click.UsageError(f"{flag(name)} does not apply to reading {self.kind}.")
        try:
            nbest = lpmert.read(self.source, self.kind, **options)
        except ColumnsNeeded as error:
            no_features = [f"{name} ({why})" for name, why in error.no_features.items()]
            hint = f" Likely no features: {listed(no_features)}." if no_features else ""
            if error.suggestion.get("loss") == COLUMN:
                hint += " Where no column is a loss, --references FILE counts errors."
            hint += error.trouble and f" Only the names were looked at, as of {error.trouble}."
            suggestion = dict(error.suggestion)
            if "metric" in suggestion and self.metric is not None:  # --metric may not take these statistics
                del suggestion["metric"]
                suggestion["loss"] = suggestion.pop("statistics").partition(",")[0]
            with_example = lpmert.DataError(f"{error}.{hint} For example:\n{_command(suggestion)}")
            with_example.path = error.path  # set afterwards, as the message already names it
            raise with_example from error
        return nbest.deduplicate() if self.deduplicate else nbest

    @cached_property
    def kind(self) -> str:
        from lpmert.formats.detect import detect

        return self.format or detect(self.source)

    @cached_property
    def in_format(self) -> Format:
        from lpmert.formats.detect import format_by_name

        return format_by_name(self.kind)

    @property
    def whole(self) -> bool:
        """Whether these are lattices, used with all their paths."""
        return "n_best" not in self.flags and self.in_format.graphs is not None

    def read_whole(self) -> Data:
        """Return the lists, or whole lattices unless --n-best is given; raises the same errors as `read`."""
        if not self.whole:
            return self.read()
        options, rest = self.plan
        options = {name: value for name, value in options.items() if name != "metric"}
        for name in (*rest, *(name for name in ("scales", "loss", "statistics") if name in options)):
            raise click.UsageError(f"{flag(name)} does not apply to whole lattices ({self.kind}).")
        if self.deduplicate:
            raise click.UsageError("--deduplicate does not apply to whole lattices.")
        return lpmert.load_lattices(self.source, format=self.format, **options)

    def summed_metric(self, data: Data) -> Any:
        """Return the metric of lists or lattices: that of --metric, or the one that statistics or texts imply."""
        from lpmert.metrics.base import metric_of

        on_texts = "references" in self.flags
        if isinstance(data, lpmert.NBest) and (on_texts or self.metric is None):
            metric: Any = "loss" if len(data.statistic_names) == 1 else metric_of(None, data.statistic_names)
        else:
            metric = self.metric if isinstance(data, lpmert.NBest) else self.plan[0].get("metric", "wer")
        settings = self.settings_for(_METRIC)
        if on_texts or not settings:
            return metric
        if self.metric is None:
            raise click.BadParameter("options of a metric need its name; give --metric.", param_hint="--set")
        return _configured(METRICS.find(self.metric), self.metric, settings)

    def described(self, data: Data) -> str:
        if not isinstance(data, lpmert.NBest):
            costs = ""
        elif "references" in self.flags:
            costs = f"; {self.metric or self.in_format.metric} counted against the references"
        else:
            what = "loss" if len(data.statistic_names) == 1 else "statistics"
            costs = f"; {what} {listed(data.statistic_names)}"
        return f"features {listed(data.names)}{costs}"

    def rates(self, unit: Unit, loss: float) -> dict[str, float]:
        """Return the error rate of a loss that was counted against references, if their length is known."""
        from lpmert.metrics.base import ERROR_RATE

        return {ERROR_RATE: unit.of(loss)} if "references" in self.flags and unit.counts else {}

    def unit(self, data: Data) -> Unit:
        from lpmert.formats.utterances import references_by_list
        from lpmert.metrics.base import check_statistics, metric_of, rates_of, unit_of
        from lpmert.metrics.text import EditTexts, TerTexts, reference_length, text_unit

        if "references" in self.flags and (not isinstance(data, lpmert.NBest) or self.summed_metric(data) == "loss"):
            options = self.plan[0]
            metric = options.get("metric") or self.in_format.metric
            metric = _text_metric(metric) if isinstance(metric, str) else metric
            length = None
            if isinstance(metric, EditTexts | TerTexts):  # others need no length, so do not read references again
                how = {name: options.get(name, False) for name in ("partial", "by_position")}
                length = reference_length(
                    metric,
                    references_by_list(data.list_ids, options["references"], **how)
                    if isinstance(data, lpmert.NBest)
                    else data.references,
                )
            return text_unit(metric, data.n_lists, None if length is None else 1 / length)
        if not isinstance(data, lpmert.NBest):
            return LOSS
        with naming(self.name):
            summed = metric_of(self.summed_metric(data), data.statistic_names)
            check_statistics(summed, data.statistics, data.offsets)
        rates = rates_of(summed, data.statistics, data.offsets, 1.0)
        return unit_of(summed, data.statistic_names, rates, data.n_lists)

    def for_format(self) -> dict[str, Any]:
        """Return the options for the reader of the format; subclasses add defaults."""
        return dict(self.flags)

    @cached_property
    def plan(self) -> tuple[dict[str, Any], list[str]]:
        """The arguments of the format's reader, and the names of options that it does not take."""
        known, flags = self.in_format.reader_options, self.for_format()
        settings = flags.pop("settings", {})
        if settings:
            name = flags.get("metric") or self.in_format.metric
            flags["metric"] = _configured(_text_metric(name), name, settings)
        arguments = {name: value for name, value in flags.items() if name in {*known, *_OF_ALL}}
        for name, needed in known.items():
            if needed and name not in arguments:
                raise click.UsageError(f"{flag(name)} is needed for reading {self.kind}.")
        return arguments, [name for name in flags if name not in arguments]


@dataclass(frozen=True)
class ReadingWithTies(Reading):
    heading = "Data"

    ties: str = option(
        "NAME", f"Which of several hypotheses with equal features counts: {', '.join(TIES)}.", click.Choice(TIES),
        default=TIES[0], rare=True
    )  # fmt: skip


def _refuse_twice_stdin(inputs: Sequence[str]) -> None:
    if inputs.count("-") > 1:
        raise click.UsageError("Standard input (-) can be only one of the files that are read; name the others.")


def sizes(data: Data) -> str:
    if isinstance(data, lpmert.NBest):
        return f"{counted(data.n_lists, 'list')}, {counted(data.n_hypotheses, 'hypothesis', 'hypotheses')}"
    paths = f"up to 10^{float(data.log10_paths.max()):.0f} paths each"
    return f"{data.n_lists:,} {type(data).__name__.lower()}, {data.n_links:,} links, {paths}"


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _text_metric(name: str) -> Any:
    from lpmert.metrics.text import TEXT_METRICS

    if name not in TEXT_METRICS:
        raise click.UsageError(f"--metric {name} is none of {', '.join(TEXT_METRICS)}.")
    return TEXT_METRICS[name]


def _configured(metric: Any, name: str, settings: Mapping[str, str]) -> Any:
    from lpmert.configurable import with_parameters

    with values.refusing("--set", f"lpmert methods --metric {name}"):
        return with_parameters(metric, settings, f"metric {quoted(name)}")


def _command(suggestion: Mapping[str, str]) -> str:
    words = click.get_current_context().find_root().meta.get(ARGUMENTS, [])
    more = [part for name, value in suggestion.items() for part in (flag(name), value) if part]
    return "  lpmert " + " ".join(map(shlex.quote, [*words, *more]))
