"""What commands that search have in common: the region, the method, its limits, and lists to judge by besides."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import click

from lpmert.cli.arguments import (
    NATURAL,
    PATH,
    POSITIVE,
    Registered,
    Scale,
    backend,
    bounds,
    finite,
    linear,
    memory_limit,
    pairs,
    parse_weights,
    pattern,
    scale,
    share,
    time_limit,
)
from lpmert.cli.options import option
from lpmert.cli.progress import ProgressLog
from lpmert.cli.reading import Question, described, sizes
from lpmert.cli.running import Output, Quiet, naming, say
from lpmert.quoting import listed, quoted
from lpmert.registry import METHODS
from lpmert.system.deadline import limited
from lpmert.system.memory import Allowance

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.findings import Unit
    from lpmert.formats.weights import WeightsFile
    from lpmert.model.region import Linear, Region
    from lpmert.search.method import Method


@dataclass(frozen=True)
class Where:
    """Where the weights may lie."""

    heading = "Where the weights may lie"

    fix: dict[str, float] | None = option("A=1,B=0.5", "Fixed weights.", pairs)
    bounds: dict[str, Any] | None = option("A:0..,B:0..1", "Limits on single weights.", bounds)
    nonnegative: bool = option("", "No weight below 0.", default=False)
    linear: tuple[Linear, ...] = option("A=1,B=-2:0..", "Limits on a sum: A - 2 B >= 0.", linear, default=(), rare=True)
    total: float | None = option("W", "Sum of all weights.", finite, rare=True)
    cosine: float | None = option("C", "Least cosine with the weights of --around.", finite, rare=True)
    around: str | None = option("WEIGHTS", "Same syntax as `lpmert check --weights`.", rare=True)


@dataclass(frozen=True)
class _How:
    """How to search, and for how long."""

    heading = "Search"

    method: str = option("NAME", "See `lpmert methods`.", Registered(METHODS), default="auto")
    time_limit: float | None = time_limit("none; in compare and tune 60 for the optimum")
    gap: float | None = option("SHARE", "Stop at this relative gap, such as 1%.", share)
    jobs: int = option("N", "Workers, which affect only the time.", POSITIVE, default=1)
    target: float | None = option("LOSS", "Stop at this loss or a lower one.", finite, rare=True)
    node_limit: int | None = option("N", "Stop after this many search nodes.", NATURAL, rare=True)
    memory_limit: int | None = memory_limit("the process")
    backend: str = option(
        "NAME", "threads, or dask://HOST:PORT; affects only the time.", backend, default="threads", rare=True
    )
    seed: int = option("N", "Seed for everything random.", NATURAL, default=0, rare=True)


@dataclass(frozen=True)
class Search(_How, Where, Question):
    """Lists or lattices, and how to search for weights."""

    def __post_init__(self) -> None:
        """Check what one option says against another, before anything is read."""
        super().__post_init__()
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    def load(self, out: Quiet) -> tuple[Data, float]:
        """Return the lists or lattices, and the seconds it took."""
        start = time.perf_counter()
        limits: AbstractContextManager[Allowance] = nullcontext(Allowance(self.memory_limit))
        if self.n_best is not None:  # lists that are made can take any time
            limits = limited(self.time_limit, self.memory_limit, "nothing read: {}".format)
        with naming(self.name), limits as allowance, allowance.enforced():
            data = self.read_whole()
        took = time.perf_counter() - start
        if not out.quiet:
            say(f"{self.name}: {sizes(data)}, {data.n_features} features, read in {took:.2f}s; seed {self.seed}")
            say(described(data))
        return data, took

    def region(self, names: Sequence[str]) -> Region | None:
        """Return where the weights of these features may lie; `None` for everywhere."""
        limits = (self.bounds, self.fix, self.nonnegative, self.linear, self.total is not None, self.around)
        if not any(limits):
            return None
        from lpmert.model.region import Region

        around = None if self.around is None else parse_weights(self.around, names, "--around").of_features(names)
        return Region(
            bounds=self.bounds or {},
            fixed=self.fix or {},
            nonnegative=self.nonnegative,
            linear=self.linear,
            total=self.total,
            cosine=self.cosine,
            around=None if around is None else dict(zip(names, around.tolist(), strict=True)),
        )

    def for_method(self, name: str) -> tuple[Method, Self]:
        """Return a method with the options meant for it, NAME.OPTION=VALUE, and the same without these."""
        own = [one for one in self.options if one[0].startswith(f"{name}.")]
        texts = [(option.removeprefix(f"{name}."), value) for option, value in own]
        return configured(name, texts), replace(self, options=tuple(one for one in self.options if one not in own))

    def arguments(self, data: Data) -> dict[str, Any]:
        """Return what `minimize` and `check` both take of lists, apart from the callback."""
        with naming(self.name):
            metric = self.summed_metric(data)
        limits = ("ties", "time_limit", "node_limit", "gap", "target", "memory_limit", "jobs", "seed")
        return {
            "metric": metric,
            "method": configured(self.method, self.method_settings),
            "region": self.region(data.names),
            "backend": self.backend,
            **{name: getattr(self, name) for name in limits},
        }


@dataclass(frozen=True)
class ScaledSearch(Search):
    """A search whose weights are wanted in a scale."""

    heading = "Output"

    scale: Scale | None = option("NAME=W", "Scale the weights so that this one is W.", scale)

    def arguments(self, data: Data) -> dict[str, Any]:
        """Return what `Search.arguments` does; raises `click.BadParameter` where there is no such feature."""
        if self.scale is not None and self.scale.name not in data.names:
            features = listed(data.names)
            raise click.BadParameter(
                f"no feature {quoted(self.scale.name)}; the features are {features}.", param_hint="--scale"
            )
        return super().arguments(data)


def configured(method: str, settings: Sequence[tuple[str, str]]) -> Method:
    """Return a method with options; raises `click.BadParameter` for those that it has not, or has not so."""
    from lpmert.api import method_of
    from lpmert.errors import MethodError

    if not settings:
        return method_of(method)
    names = [name for name, _ in settings]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"{quoted(twice[0])} is given twice.", param_hint="--set")
    try:
        return method_of(method).configured(dict(settings))
    except MethodError as error:
        raise click.BadParameter(f"{error}. See `lpmert methods {method}`.", param_hint="--set") from error


def progress_of(out: Quiet, time_limit: float | None, before: str = "first weights") -> AbstractContextManager[Any]:
    """Return what shows the progress of a search and is its callback; nothing where the command is quiet.

    before: what is done before its first report.
    """
    return nullcontext() if out.quiet else ProgressLog(time_limit=time_limit, before=before)


@dataclass(frozen=True)
class Start:
    """Where searches start."""

    heading = "Search"

    initial_weights: str | None = option("WEIGHTS", "Start here; same syntax as `lpmert check --weights`.", rare=True)

    def weights(self, names: Sequence[str]) -> WeightsFile | None:
        """Return the weights, if there are any."""
        text = self.initial_weights
        return None if text is None else parse_weights(text, names, "--initial-weights")


@dataclass(frozen=True)
class Sources:
    """Which lists belong together."""

    heading = "Unseen lists"

    source: re.Pattern[str] | None = option(
        "REGEX", "Keep lists together in cross-validation whose ids agree in what this matches.", pattern, rare=True
    )

    def of(self, data: Data) -> list[str] | None:
        """Return the source of each list; raises `click.BadParameter` where the pattern matches nothing."""
        if self.source is None:
            return None
        found = [self.source.search(name) for name in data.list_ids]
        without = [name for name, match in zip(data.list_ids, found, strict=True) if match is None]
        if without:
            raise click.BadParameter(f"does not match the list id {quoted(without[0])}.", param_hint="--source")
        return [match.group() for match in found if match is not None]


@dataclass(frozen=True)
class HeldOut:
    """More lists, on which weights are compared and to which nothing is fitted."""

    heading = "Unseen lists"

    held_out: str | None = option("FILE", "Lists for comparison only; nothing is fitted to them.", PATH)
    held_out_references: tuple[str, ...] = option("FILE", "References of --held-out.", default=(), rare=True)

    def read(self, search: Search, out: Output) -> tuple[Any, Any, Unit | None]:
        """Return the lists of a search, and those held out with the unit of their losses, `None` where there are none.

        Raises `click.UsageError`, before anything is read, for what belongs to DATA alone, and `DataError`, which names
        the file held out, where its features are others.
        """
        if self.held_out is None and self.held_out_references:
            raise click.UsageError("--held-out-references needs --held-out.")
        aside = None if self.held_out is None else search.held_out(self.held_out, self.held_out_references)
        data = search.load(out)[0]
        if aside is None:
            return data, None, None
        others = aside.load(out)[0]
        from lpmert.unseen.material import held_out_like

        with naming(aside.name):
            return data, held_out_like(others, data), aside.unit(others)
