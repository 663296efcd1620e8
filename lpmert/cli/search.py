"""What commands that search share: their options, their course from the data to the exit code, and problem files.

A problem file is a TOML file given as DATA, whose keys are the names of options.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

import lpmert
from lpmert.cli import options, progress, values
from lpmert.cli.options import memory_limit, option, seed, time_limit
from lpmert.cli.reading import COUNTED, ReadingWithTies, sizes
from lpmert.cli.running import Output, Quiet, Text, delivering, exit_code, interruptible, naming, put
from lpmert.limits import Allowance, limited
from lpmert.quoting import Unit, counted, listed, quoted
from lpmert.registry import METHODS, PROBLEM

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.errors import FloatArray
    from lpmert.formats.weights import WeightsFile
    from lpmert.limits import Interrupts
    from lpmert.model.lattice_problem import LatticeProblem

    AnyProblem = lpmert.Problem | LatticeProblem


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
        """Return the region of the weights of these features, `None` if it is not limited."""
        if not any((self.bounds, self.fix, self.nonnegative, self.linear, self.total is not None, self.around)):
            return None
        limits = {name: getattr(self, name) for name in ("nonnegative", "linear", "total", "cosine")}
        if self.around is not None:
            around = values.parse_weights(self.around, names, "--around").of_features(names)
            limits["around"] = dict(zip(names, around.tolist(), strict=True))
        return lpmert.Region(bounds=self.bounds or {}, fixed=self.fix or {}, **limits)


@dataclass(frozen=True)
class Search(RegionOptions, ReadingWithTies):
    heading = "Search"

    method: str = option("NAME", "See `lpmert methods`.", values.Registered(METHODS), default="auto")
    time_limit: float | None = time_limit()
    jobs: int = option("N", "Number of workers; affects only the time.", default=1)
    memory_limit: int | None = memory_limit()
    backend: str = option(
        "NAME", "threads, or dask://HOST:PORT; affects only the time.", values.backend, default="threads", rare=True
    )
    seed: int = seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    read_seconds = 0.0
    """What reading the data took; it counts towards the time limit."""

    @property
    def seconds_left(self) -> float | None:
        """The time limit without what reading the data took, `None` if there is no limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self.read_seconds)

    def load(self, out: Quiet) -> Data:
        start = time.perf_counter()
        limits: AbstractContextManager[Allowance] = nullcontext(Allowance(self.memory_limit))
        if self.n_best is not None:  # extracting lists from lattices can take any time
            limits = limited(self.time_limit, self.memory_limit, "nothing read: {}".format)
        with naming(self.name), limits as allowance, allowance.enforced():
            data = self.read_whole()
        vars(self)["read_seconds"] = time.perf_counter() - start
        features = counted(data.n_features, "feature")
        out.say(f"{self.name}: {sizes(data)}, {features}, read in {self.read_seconds:.2f}s; seed {self.seed}")
        out.say(self.described(data))
        return data

    def for_method(self, name: str) -> tuple[lpmert.methods.Method, Self]:
        """Return a method with its options from `--set METHOD.NAME=VALUE`, and this search without them."""
        others = {key: text for key, text in self.options.items() if not key.startswith(f"{name}.")}
        return configured(name, self.settings_for(name)), replace(self, options=others)

    def ask(self, out: Quiet, unit: Unit, function: Callable[..., Any], *arguments: Any, **wanted: Any) -> Any:
        """Call a function of the library with arguments and what options set; show its progress in the unit."""
        data = arguments[0]
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        method = configured(self.method, self.method_settings)
        found |= {"metric": self.summed_metric(data), "method": method, "region": self.region(data.names)}
        found |= {"time_limit": self.seconds_left, "on_stage": progress.Stages(out)}
        names = signature(function).parameters
        silent = out.quiet or "callback" not in names
        with nullcontext() if silent else progress.shown(self.seconds_left, unit) as found["callback"]:
            return function(*arguments, **{name: found[name] for name in names if name in found} | wanted)


@dataclass(frozen=True)
class OneSearch(Search):
    """A single search, which may stop before its proof; commands with many searches have only a time limit."""

    gap: float | None = option("SHARE", "Stop at this relative gap, such as 1%.", rare=True)
    target: float | None = option("LOSS", "Stop at this loss or a lower one.", rare=True)
    node_limit: int | None = option("N", "Stop after this many search nodes.", values.NATURAL, rare=True)

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
    with values.refusing("--set", f"lpmert methods {method}"):
        return found.configured(settings)


@dataclass(frozen=True)
class StartOptions:
    heading = "Search"

    initial_weights: str | None = option("WEIGHTS", "Start here; same syntax as `lpmert check --weights`.", rare=True)

    def weights(self, names: Sequence[str]) -> WeightsFile | None:
        text = self.initial_weights
        return None if text is None else values.parse_weights(text, names, "--initial-weights")


@dataclass(frozen=True)
class Sources:
    heading = "Unseen lists"

    source: re.Pattern[str] | None = option(
        "REGEX", "In cross-validation, keep lists together if this matches the same text in their ids.", rare=True
    )

    def of(self, data: Data) -> list[str] | None:
        """Return the source of each list; raises `click.BadParameter` if the pattern does not match an id."""
        if self.source is None:
            return None
        found = [self.source.search(name) for name in data.list_ids]
        if None in found:
            name = quoted(data.list_ids[found.index(None)])
            raise click.BadParameter(f"does not match the list id {name}.", param_hint="--source")
        return [match.group() for match in found if match]


@dataclass(frozen=True)
class HeldOut:
    heading = "Unseen lists"

    held_out: str | None = option("FILE", "Lists for comparison only; nothing is fitted to them.")
    held_out_references: tuple[str, ...] = option("FILE", "References of --held-out.", default=(), rare=True)

    def read(self, search: Search, out: Output) -> tuple[Any, Any, Unit | None]:
        """Return the lists of a search, the held-out lists, and the unit of their losses; `None` if there are none."""
        if self.held_out is None:
            if self.held_out_references:
                raise click.UsageError("--held-out-references needs --held-out.")
            return search.load(out), None, None
        aside = search.held_out(self.held_out, self.held_out_references)
        data, others = search.load(out), aside.load(out)
        from lpmert.comparing.cross_validation import held_out_like

        with naming(aside.name):
            return data, held_out_like(others, data), aside.unit(others)


JSON, NUMBERS, NAMES, UPDATE = "json", "numbers", "names", "update"
FORMS = (NAMES, NUMBERS, JSON, UPDATE, "kaldi", "icefall", "espnet")
_OF_ENDING = {".ini": UPDATE, ".txt": NUMBERS, ".json": JSON}
_BY_ENDING = ", ".join(f"{form} for {ending}" for ending, form in _OF_ENDING.items())


@dataclass(frozen=True)
class WeightsOut:
    """The output of weights: to a file beside the outcome, or to stdout instead of the report."""

    weights_out: str | None = option("FILE", "Write the weights to FILE, for a decoder.")
    write: str | None = option(
        "FORM", f"Form of the weights: {', '.join(FORMS)}; on stdout without --weights-out.  [default: {_BY_ENDING}, "
        f"else {NAMES}]", click.Choice(FORMS), rare=True
    )  # fmt: skip
    roles: dict[str, str] | None = option(
        "ROLE=FEATURE,...", "Roles of features in the toolkit of --write, such as acoustic=am.", rare=True
    )

    def __post_init__(self) -> None:
        if self.form == UPDATE and self.weights_out is None:
            raise click.UsageError("--write update needs --weights-out with the file to update.")
        if self.updated is not None and not Path(self.updated).exists():
            remedy = "copy the decoder's file there, or pass --write names."
            raise click.UsageError(f"{self.updated} does not exist, and `update` only changes files: {remedy}")

    @property
    def form(self) -> str:
        return self.write or _OF_ENDING.get(Path(self.weights_out or "").suffix, NAMES)

    @property
    def to_stdout(self) -> bool:
        return self.write is not None and self.weights_out is None

    @property
    def updated(self) -> str | None:
        return self.weights_out if self.form == UPDATE else None

    @cached_property
    def like(self) -> WeightsFile | None:
        """The content of `updated`; raises `DataError` if it has no weights."""
        from lpmert.formats.weights import read_weights

        return None if self.updated is None else read_weights(self.updated)

    @contextmanager
    def delivering(
        self, out: Output, *others: str | None, renews: Sequence[str | None] = ()
    ) -> Iterator[Callable[[Text, Text, Text, str], None]]:
        """Do as `running.delivering`, and deliver the weights as well, which the third function returns as text."""
        if self.to_stdout and out.as_json and out.output is None:
            raise click.UsageError("--json and --write need one of --output and --weights-out: both go to stdout.")
        with delivering(out, self.weights_out, *others, renews=[self.updated, *renews]) as deliver:

            def deliver_both(json: Text, report: Text, text: Text, told: str) -> None:
                from lpmert.files import write_text

                if not self.to_stdout:
                    deliver(json, report, told)
                    if self.weights_out is not None:
                        write_text(self.weights_out, text())
                    return
                if told:
                    out.say(told)
                deliver(json, lambda: text().removesuffix("\n"))
                if out.output is not None:
                    put(text().removesuffix("\n"))

            yield deliver_both

    def check(self, names: Sequence[str]) -> None:
        """Raise `DataError` if the weights of these features cannot be written in this form, before a long search."""
        from lpmert.formats.weights import TOOLKITS

        if self.form in TOOLKITS:
            TOOLKITS[self.form].roles(names, self.roles or {})
        elif self.roles:
            raise click.UsageError("--roles is for the settings of toolkits, such as --write kaldi.")
        if self.like is not None:
            self.like.of_features(names)

    def text(self, names: Sequence[str], weights: FloatArray, problem: AnyProblem | None) -> str:
        """Return weights [D] as text.

        JSON has all digits. Other forms have six decimals, or more if six would change the loss of the problem (without
        a problem: the weights).
        """
        import numpy as np

        from lpmert.formats.weights import TOOLKITS, WeightsFile, keeps_loss, settings_text, weights_text

        keeps = partial(np.array_equal, weights) if problem is None else keeps_loss(problem, weights)
        if self.form == JSON:
            return json.dumps(dict(zip(names, weights.tolist(), strict=True)), indent=2) + "\n"
        if self.form in TOOLKITS:
            return settings_text(self.form, names, weights, keeps, self.roles or {})
        like = WeightsFile.of_lines(names) if self.form == NAMES else self.like
        scaled = self.form == UPDATE
        return weights_text(names, weights, keeps, like=like, scaled=scaled, path=self.weights_out)[0]


def answer(
    search: Search,
    out: Output,
    find: Callable[..., tuple[Any, Text, str]],
    *files: str | None,
    weights: WeightsOut | None = None,
    held_out: HeldOut | None = None,
    renews: Sequence[str | None] = (),
    draw: Callable[[Any, Data, Unit], None] = lambda *_: None,
    finish: Callable[[Any, Data, Interrupts], None] = lambda *_: None,
) -> int:
    """Read the data, find the outcome, deliver and draw it, and return the exit code.

    find: gets `Search.ask` for this output and unit, the data, their unit, held-out data and their unit; returns an
    outcome, a function that returns its report, and the outcome in a line. files: those that will be written, of which
    those in `renews` may be read before. finish: is called after the delivery.
    """
    weights = weights or WeightsOut()
    with weights.delivering(out, *files, renews=renews) as deliver:
        data, *others = (held_out or HeldOut()).read(search, out)
        unit = search.unit(data)
        weights.check(data.names)
        with Allowance(search.memory_limit).enforced(), interruptible() as stop:
            with naming(search.name):
                found, report, told = find(partial(search.ask, out, unit), data, unit, *others)

            def text() -> str:
                from lpmert.api import problem_of

                problem = problem_of(data, search.summed_metric(data), search.ties, search.region(data.names))
                return weights.text(found.names, found.weights, problem)

            deliver(found.to_json, report, text, told)
        finish(found, data, stop)
        with Allowance(search.memory_limit).enforced():
            draw(found, data, unit)
    results = [one.result for one in found.subsets] if isinstance(found, lpmert.Subsets) else [found]
    statuses = [getattr(getattr(one, "optimum", one), "status", None) for one in results]
    unproved = [status for status in statuses if status is not None and not status.proved]
    return exit_code(unproved[0] if unproved else None, stop, getattr(found, "complete", True))


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
            ctx.params |= {name: value for name, value in _read(path).items() if name in taken}
        return rest


command: Callable[..., Callable[[Callable[..., Any]], options.Command]] = partial(options.command, cls=_Command)
"""The decorator `options.command` for commands that read lists."""


def stated(name: str, ctx: click.Context | None = None) -> bool:
    return (ctx or click.get_current_context()).get_parameter_source(name) is ParameterSource.COMMANDLINE


def options_by_key(*classes: type) -> dict[str, click.Parameter]:
    every = [one for of in classes for one in options.parameters(of)]
    return {one.opts[-1].removeprefix("--"): one for one in every}


def _read(path: str) -> dict[str, Any]:
    """Return the options in a problem file by parameter; raises `DataError`, which names file and key."""
    document = values.read_toml(path)
    found = values.values_of(document, options_by_key(ReadingWithTies, RegionOptions, HeldOut), path)
    if "data" not in document:
        raise lpmert.DataError('data is missing; name the files of the lists, data = "lists.tsv"', path=path)
    both = [name for name in COUNTED if name in document]
    if len(both) > 1:
        raise lpmert.DataError(f"{both[1]}: {both[0]} is there, too; give one of {listed(COUNTED)}", path=path)
    return found
