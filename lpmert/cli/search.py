"""What commands that read lists share: options of reading and searching, problem files, and the course to an answer.

A problem file is a TOML file given as DATA, whose keys are the names of options.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, cast

import click
from click.core import ParameterSource

import lpmert
from lpmert.cli import options, running
from lpmert.cli.options import argument, flag, memory_limit, option, refusing, seed, time_limit, weights_of
from lpmert.cli.running import Output, Quiet, Text, WeightsOutput, naming
from lpmert.limits import Allowance, Interrupts, limited
from lpmert.quoting import LOSS, Unit, counted, listed, quoted
from lpmert.registry import FORMATS, METHODS, METRICS, PROBLEM

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


@dataclass(frozen=True)
class Reading:
    heading = "Data"

    data: tuple[str, ...] = argument("DATA...", nargs=-1)
    format: str | None = option(
        "--from NAME", "Format of DATA.  [default: recognised by content]", options.Registered(FORMATS)
    )
    segment: str | None = option("COLUMN", "Column that names the list of each row.")
    features: tuple[str, ...] | None = option("A,B,C", "Names, patterns such as 'LM*', or all.")
    loss: str | None = option("COLUMN", "Column to minimise, such as word errors.")
    gain: str | None = option("COLUMN", "Column to maximise: numbers, or true and false.")
    statistics: tuple[str, ...] | None = option("A,B,C", "Columns that the metric sums.")
    references: tuple[str, ...] = option("FILE", "References to compare the texts with.", default=())
    metric: Any = option("NAME", "bleu, wer, f1, ...  [default: chosen by the columns]", options.METRIC)
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
        if sum(bool(getattr(self, name)) for name in COUNTED) > 1:
            ways = "--loss (one column, lower is better), --gain (one column, higher is better)"
            raise click.UsageError(f"Pass one of {ways} and --statistics (the columns of the metric).")
        if self.method_settings and not hasattr(self, "method"):
            trouble = f"--set {quoted(next(iter(self.method_settings)))}: no method searches here"
            raise click.UsageError(f"{trouble}; an option of the metric is metric.NAME=VALUE.")
        _refuse_twice_stdin(self.inputs)

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
            if getattr(self, name):
                remedy = "make one file of each with `lpmert convert`."
                raise click.UsageError(f"{flag(name)} belongs to DATA alone, so --held-out cannot be read: {remedy}")
        if not self.references:
            if references:
                raise click.UsageError("--held-out-references needs --references.")
            return aside
        if not references:
            trouble = "--held-out needs --held-out-references, as --references belong to DATA"
            raise click.UsageError(f"{trouble}; if they have both, name them again.")
        return replace(aside, references=tuple(references))

    @property
    def inputs(self) -> list[str]:
        files = (self.data, self.references, self.statistics_file, self.losses.values())
        return [*(file for some in files for file in some), *filter(None, (self.text_file, self.symbols))]

    @property
    def name(self) -> str:
        return listed(self.data)

    @property
    def source(self) -> Any:
        """The files to read; a dictionary by feature if they are given as NAME=FILE."""
        named = ["=" in file and not os.path.exists(file) for file in self.data]
        if self.format == "scores" or (self.format is None and all(named)):
            return options.by_name(list(map(options.file_by_name, self.data)))
        return self.data[0] if len(self.data) == 1 else self.data

    def read(self) -> lpmert.NBest:
        """Return the lists; raises `DataError` if an option does not apply, or for unreadable data."""
        from lpmert.formats.columns import COLUMN, ColumnsNeeded

        try:
            nbest = lpmert.read(self.source, self.kind, **self.arguments)
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
            with_example = lpmert.DataError(f"{error}.{hint} For example:\n{_command_with(suggestion)}")
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
        return self.n_best is None and self.in_format.graphs is not None

    def read_whole(self) -> Data:
        """Return the lists, or whole lattices unless --n-best is given; raises the same errors as `read`."""
        if not self.whole:
            return self.read()
        known = signature(lpmert.load_lattices).parameters
        arguments = {name: value for name, value in self.arguments.items() if name != _METRIC}
        for name in (*arguments, *(("deduplicate",) if self.deduplicate else ())):
            if name not in known:
                raise click.UsageError(f"{flag(name)} does not apply to whole lattices ({self.kind}).")
        if "references" not in arguments:
            raise click.UsageError(f"--references is needed for reading {self.kind}.")
        return lpmert.load_lattices(self.source, format=self.format, **arguments)

    def summed_metric(self, data: Data) -> Any:
        """Return the metric of lists or lattices: that of --metric, or the one that statistics or texts imply."""
        from lpmert.metrics.contract import metric_of

        if not isinstance(data, lpmert.NBest):
            return self.arguments.get(_METRIC, "wer")
        settings = self.settings_for(_METRIC)
        if self.references or (self.metric is None and not settings):
            return "loss" if len(data.statistic_names) == 1 else metric_of(None, data.statistic_names)
        if self.metric is None:
            raise click.BadParameter("options of a metric need its name; give --metric.", param_hint="--set")
        return _configured(METRICS.find(self.metric), self.metric, settings) if settings else self.metric

    def described(self, data: Data) -> str:
        costs = ""
        if isinstance(data, lpmert.NBest):
            what = "loss" if len(data.statistic_names) == 1 else "statistics"
            costs = f"; {what} {listed(data.statistic_names)}"
            if self.references:
                costs = f"; {self.metric or self.in_format.metric} counted against the references"
        return f"features {listed(data.names)}{costs}"

    def rates(self, unit: Unit, loss: float) -> dict[str, float]:
        """Return the error rate of a loss that was counted against references, if their length is known."""
        from lpmert.metrics.contract import ERROR_RATE

        return {ERROR_RATE: unit.of(loss)} if self.references and unit.counts else {}

    def unit(self, data: Data) -> Unit:
        from lpmert.formats.utterances import references_by_list
        from lpmert.metrics.contract import check_statistics, metric_of, rates_of, unit_of
        from lpmert.metrics.text import EditTexts, TerTexts, reference_length, text_unit

        arguments = self.arguments
        if self.references and (not isinstance(data, lpmert.NBest) or self.summed_metric(data) == "loss"):
            metric = arguments.get(_METRIC) or self.in_format.metric
            metric = _text_metric(metric) if isinstance(metric, str) else metric
            length = None
            if isinstance(metric, EditTexts | TerTexts):  # others need no length, so do not read references again
                how = {name: arguments.get(name, False) for name in ("partial", "by_position")}
                given = getattr(data, "references", None) or references_by_list(data.list_ids, self.references, **how)
                length = reference_length(metric, given)
            return text_unit(metric, data.n_lists, None if length is None else 1 / length)
        if not isinstance(data, lpmert.NBest):
            return LOSS
        with naming(self.name):
            summed = metric_of(self.summed_metric(data), data.statistic_names)
            check_statistics(summed, data.statistics, data.offsets)
        rates = rates_of(summed, data.statistics, data.offsets, 1.0)
        return unit_of(summed, data.statistic_names, rates, data.n_lists)

    def for_format(self) -> dict[str, Any]:
        """Return the options for the reader that are set; subclasses add defaults."""
        others = ("data", "format", "options", "deduplicate", *(() if self.references else (_METRIC,)))
        every = {one.name: getattr(self, one.name) for one in fields(Reading) if one.name not in others}
        return {name: value for name, value in every.items() if value not in (None, False, (), {})}

    @cached_property
    def arguments(self) -> dict[str, Any]:
        found, settings = self.for_format(), self.settings_for(_METRIC)
        if self.references and settings:
            name = found.get(_METRIC) or self.in_format.metric
            found[_METRIC] = _configured(_text_metric(name), name, settings)
        return found


@dataclass(frozen=True)
class ReadingWithTies(Reading):
    heading = "Data"

    ties: str = option(
        "NAME", f"Which of several hypotheses with equal features counts: {', '.join(TIES)}.", click.Choice(TIES),
        default=TIES[0], rare=True
    )  # fmt: skip

    @property
    def counted_ties(self) -> str | None:
        """The rule for ties that `best_subsets` takes; for --ties first, it chooses one itself."""
        return None if self.ties == "first" else self.ties

    def second_sum(self, data: Data, column: str) -> Any:
        """Return a second sum: the name of a feature or statistic, or numbers in another column, read like a loss."""
        if self.ties != "first":
            raise click.UsageError("--ties is for one sum: with two of them the first of identical hypotheses counts.")
        if column in (*data.names, *getattr(data, "statistic_names", ())):
            return column
        unset: dict[str, Any] = {"gain": None, "statistics": None, "metric": None, "references": (), "options": {}}
        return replace(self, loss=column, **unset).read().statistics[:, 0]


def _refuse_twice_stdin(inputs: Sequence[str]) -> None:
    if inputs.count("-") > 1:
        raise click.UsageError("Standard input (-) can be only one of the files that are read; name the others.")


def sizes(data: Data) -> str:
    if isinstance(data, lpmert.NBest):
        return f"{counted(data.n_lists, 'list')}, {counted(data.n_hypotheses, 'hypothesis', 'hypotheses')}"
    paths = f"up to 10^{float(data.log10_paths.max()):.0f} paths each"
    return f"{data.n_lists:,} {type(data).__name__.lower()}, {data.n_links:,} links, {paths}"


def _text_metric(name: str) -> Any:
    from lpmert.metrics.text import TEXT_METRICS

    if name not in TEXT_METRICS:
        raise click.UsageError(f"--metric {name} is none of {', '.join(TEXT_METRICS)}.")
    return TEXT_METRICS[name]


def _configured(metric: Any, name: str, settings: Mapping[str, str]) -> Any:
    from lpmert.configurable import with_parameters

    with refusing("--set", f"lpmert methods --metric {name}"):
        return with_parameters(metric, settings, f"metric {quoted(name)}")


def _command_with(suggestion: Mapping[str, str]) -> str:
    words = click.get_current_context().find_root().meta.get(ARGUMENTS, [])
    more = [part for name, value in suggestion.items() for part in (flag(name), value) if part]
    return "  lpmert " + " ".join(map(shlex.quote, [*words, *more]))


@dataclass(frozen=True)
class RegionOptions:
    heading = "Where the weights may lie"

    fix: dict[str, float] | None = option("A=1,B=0.5", "Fixed weights.")
    bounds: dict[str, Any] | None = option("A:0..,B:0..1", "Limits on single weights.")
    nonnegative: bool = option("", "No weight below 0.", default=False)
    linear: tuple[lpmert.Linear, ...] = option("A=1,B=-2:0..", "Limits on a sum: A - 2 B >= 0.", default=(), rare=True)
    total: float | None = option("W", "Sum of all weights.", rare=True)
    cosine: float | None = option("C", "Minimum cosine, from 0 on, to the weights of --around.", rare=True)
    around: str | None = option("WEIGHTS", "Weights for --cosine; same syntax as `lpmert check --weights`.", rare=True)

    def region(self, names: Sequence[str]) -> lpmert.Region | None:
        if not any((self.bounds, self.fix, self.nonnegative, self.linear, self.total is not None, self.around)):
            return None
        limits = {name: getattr(self, name) for name in ("nonnegative", "linear", "total", "cosine")}
        if self.around is not None:
            around = weights_of(self.around, "--around").of_features(names)
            limits["around"] = dict(zip(names, around.tolist(), strict=True))
        return lpmert.Region(bounds=self.bounds or {}, fixed=self.fix or {}, **limits)


@dataclass(frozen=True)
class Search(RegionOptions, ReadingWithTies):
    heading = "Search"

    method: str = option("NAME", "See `lpmert methods`.", options.Registered(METHODS), default="auto")
    time_limit: float | None = time_limit()
    jobs: int = option("N", "Number of workers; affects only the time.", default=1)
    memory_limit: int | None = memory_limit()
    backend: str = option(
        "NAME", "threads, or dask://HOST:PORT; affects only the time.", options.backend, default="threads", rare=True
    )
    seed: int = seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    def load(self, out: Quiet) -> Data:
        start = time.perf_counter()
        limits: AbstractContextManager[Allowance] = nullcontext(Allowance(self.memory_limit))
        if self.n_best is not None:  # extracting lists from lattices can take any time
            limits = limited(self.time_limit, self.memory_limit, "nothing read: {}".format)
        with naming(self.name), limits as allowance, allowance.enforced():
            data = self.read_whole()
        features, seconds = counted(data.n_features, "feature"), time.perf_counter() - start
        out.say(f"{self.name}: {sizes(data)}, {features}, read in {seconds:.2f}s; seed {self.seed}")
        out.say(self.described(data))
        return data

    def for_method(self, name: str) -> tuple[lpmert.methods.Method, Self]:
        """Return a method with its options from `--set METHOD.NAME=VALUE`, and this search without them."""
        others = {key: text for key, text in self.options.items() if not key.startswith(f"{name}.")}
        return configured(name, self.settings_for(name)), replace(self, options=others)


@dataclass(frozen=True)
class OneSearch(Search):
    """A single search, which may stop before its proof; commands with many searches have only a time limit."""

    gap: float | None = option("SHARE", "Stop at this relative gap, such as 1%.", rare=True)
    target: float | None = option("LOSS", "Stop at this loss or a lower one.", rare=True)
    node_limit: int | None = option("N", "Stop after this many search nodes.", options.NATURAL, rare=True)

    @property
    def stops(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("gap", "target", "node_limit")}


@dataclass(frozen=True)
class ScaledSearch(OneSearch):
    heading = "Output"

    scale: tuple[str, float] | None = option("NAME=W", "Scale all weights so that NAME has weight W.")

    def load(self, out: Quiet) -> Data:
        data = super().load(out)
        if self.scale is not None and self.scale[0] not in data.names:
            trouble = f"no feature {quoted(self.scale[0])}; the features are {listed(data.names)}."
            raise click.BadParameter(trouble, param_hint="--scale")
        return data


def configured(method: str, settings: Mapping[str, str]) -> lpmert.methods.Method:
    from lpmert.api import method_of

    found = method_of(method)
    with refusing("--set", f"lpmert methods {method}"):
        return found.configured(settings)


@dataclass(frozen=True)
class Unseen:
    heading = "Unseen lists"

    source: re.Pattern[str] | None = option(
        "REGEX", "In cross-validation, keep lists together if this matches the same text in their ids.", rare=True
    )
    held_out: str | None = option("FILE", "Lists for comparison only; nothing is fitted to them.")
    held_out_references: tuple[str, ...] = option("FILE", "References of --held-out.", default=(), rare=True)

    def __post_init__(self) -> None:
        if self.held_out_references and self.held_out is None:
            raise click.UsageError("--held-out-references needs --held-out.")

    def sources(self, data: Data) -> list[str] | None:
        """Return the source of each list; raises `click.BadParameter` if the pattern does not match an id."""
        if self.source is None:
            return None
        found = [self.source.search(name) for name in data.list_ids]
        if None in found:
            name = quoted(data.list_ids[found.index(None)])
            raise click.BadParameter(f"does not match the list id {name}.", param_hint="--source")
        return [match.group() for match in found if match]


@dataclass
class Question:
    """What a command asks about its data, and the delivery of the answer."""

    search: Search
    out: Output
    data: Data
    unit: Unit
    held_out: Any
    held_out_unit: Unit | None
    read_seconds: float
    deliverer: running.Deliver
    searching: ExitStack
    stop: Interrupts = field(default_factory=Interrupts)
    answer: Any = None

    @property
    def seconds_left(self) -> float | None:
        """The time limit without what reading the data took, `None` if there is no limit."""
        return None if self.search.time_limit is None else max(0.0, self.search.time_limit - self.read_seconds)

    @property
    def weights(self) -> str:
        """The noun for the weights that an answer is about."""
        return "weights" if self.search.region(self.data.names) is None else "weights of the region"

    def ask(self, function: Callable[..., Any], *arguments: Any, **wanted: Any) -> Any:
        """Call a function of the library about the data, with what options set; show its progress in the unit."""
        search = self.search
        found: dict[str, Any] = {one.name: getattr(search, one.name) for one in fields(search)}
        found |= {"metric": search.summed_metric(self.data), "region": search.region(self.data.names)}
        found |= {"method": configured(search.method, search.method_settings)}
        found |= {"time_limit": self.seconds_left, "on_stage": running.Stages(self.out)}
        names = signature(function).parameters
        silent = self.out.quiet or "callback" not in names
        with nullcontext() if silent else running.progress_shown(self.seconds_left, self.unit) as found["callback"]:
            wanted = {name: found[name] for name in names if name in found} | wanted
            return function(self.data, *arguments, **wanted)

    def deliver(self, answer: Any, report: Text, told: str = "") -> None:
        """Print or write the answer; afterwards a signal aborts what else is done. told: the answer in a line."""

        def weights() -> str:
            from lpmert.api import problem_of

            search, names = self.search, self.data.names
            problem = problem_of(self.data, search.summed_metric(self.data), search.ties, search.region(names))
            return cast(WeightsOutput, self.out).text(answer.names, answer.weights, problem)

        self.answer = answer
        self.deliverer(answer.to_json, report, told, weights)
        self.searching.close()

    @property
    def exit_code(self) -> running.ExitCode:
        found = self.answer
        results = [one.result for one in getattr(found, "subsets", ())] or [getattr(found, "optimum", found)]
        statuses = (getattr(one, "status", None) for one in results)
        status = next((one for one in statuses if one is not None and not one.proved), None)
        return running.exit_code(status, self.stop, getattr(found, "complete", True))


@contextmanager
def asking(
    search: Search, out: Output, *files: str | None, unseen: Unseen | None = None, renews: Sequence[str | None] = ()
) -> Iterator[Question]:
    """Read the data, and let the block ask about them and deliver the answer; a signal ends the search, not the block.

    files: those that will be written, of which those in `renews` may be read before.
    """
    with out.opened(*files, renews=renews) as deliver, ExitStack() as searching:
        aside = None
        if unseen is not None and unseen.held_out is not None:
            aside = search.held_out(unseen.held_out, unseen.held_out_references)
        start = time.perf_counter()
        data, others, others_unit = search.load(out), None, None
        if aside is not None:
            from lpmert.comparing.cross_validation import held_out_like

            others = aside.load(out)
            with naming(aside.name):
                others, others_unit = held_out_like(others, data), aside.unit(others)
        seconds = time.perf_counter() - start
        question = Question(search, out, data, search.unit(data), others, others_unit, seconds, deliver, searching)
        if isinstance(out, WeightsOutput):
            out.check(data.names)
        with Allowance(search.memory_limit).enforced(), naming(search.name):
            question.stop = searching.enter_context(running.interruptible())
            yield question


_TOGETHER = ({*COUNTED}, {"held_out", "held_out_references"})
"""Groups of options: one of them on the command line overrides all of its group in the file."""


class _Command(options.Command):
    """A command whose DATA may be a problem file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and add the options of a problem file; those on the command line override it."""
        rest = super().parse_args(ctx, args)
        data = ctx.params.get("data") or ()
        problem_files = [file for file in data if file.endswith(PROBLEM)]
        if problem_files and not ctx.resilient_parsing:
            path = problem_files[0]
            if len(data) > 1:
                raise click.UsageError(f"{quoted(path)} says what to read; give no other DATA beside it.", ctx)
            overridden = {name for name in ctx.params if stated(name, ctx)} - {"data"}
            for together in _TOGETHER:
                overridden |= together if overridden & together else set()
            taken = ctx.params.keys() - overridden
            ctx.params |= {name: value for name, value in _problem(path).items() if name in taken}
        return rest


command: Callable[..., Callable[[Callable[..., Any]], options.Command]] = partial(options.command, cls=_Command)
"""The decorator `options.command` for commands that read lists."""


def stated(name: str, ctx: click.Context | None = None) -> bool:
    return (ctx or click.get_current_context()).get_parameter_source(name) is ParameterSource.COMMANDLINE


def options_by_key(*classes: type) -> dict[str, click.Parameter]:
    every = [one for of in classes for one in options.parameters(of)]
    return {one.opts[-1].removeprefix("--"): one for one in every}


def _problem(path: str) -> dict[str, Any]:
    """Return the options in a problem file by parameter; raises `DataError`, which names file and key."""
    document = options.read_toml(path)
    found = options.values_of(document, options_by_key(ReadingWithTies, RegionOptions, Unseen), path)
    if "data" not in document:
        raise lpmert.DataError('data is missing; name the files of the lists, data = "lists.tsv"', path=path)
    both = [name for name in COUNTED if name in document]
    if len(both) > 1:
        raise lpmert.DataError(f"{both[1]}: {both[0]} is there, too; give one of {listed(COUNTED)}", path=path)
    return found
