"""What commands that search have in common: the region, the method, its limits, and lists to judge by besides."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import click

from lpmert.cli.arguments import (
    Registered,
    Scale,
    WholeNumber,
    backend,
    bounds,
    finite,
    linear,
    pairs,
    parse_weights,
    pattern,
    scale,
    seconds,
    share,
    size,
)
from lpmert.cli.options import option
from lpmert.cli.progress import ProgressLog, Stages
from lpmert.cli.reading import Question, described, sizes
from lpmert.cli.running import Output, Quiet, naming, say
from lpmert.quoting import listed, quoted
from lpmert.registry import METHODS
from lpmert.system.memory import Allowance

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.findings import Unit
    from lpmert.formats.weights import WeightsFile
    from lpmert.model.region import Linear, Region
    from lpmert.search.method import Method
    from lpmert.system.interrupts import Interrupts

_REGION, _METHOD = "Where the weights may lie", "Search"

MEMORY = "Most memory of process and workers, such as 500MB.  [default: what they have and 0.9 of what is free]"


@dataclass(frozen=True)
class Search(Question):
    """Lists or lattices, and how to search for weights."""

    fix: dict[str, float] | None = option("Fixed weights.", type=pairs, metavar="A=1,B=0.5", group=_REGION)
    bounds: dict[str, Any] | None = option(
        "Limits on single weights.", type=bounds, metavar="A:0..,B:0..1", group=_REGION
    )
    nonnegative: bool = option("No weight below 0.", default=False, group=_REGION)
    linear: tuple[Linear, ...] = option(
        "Limits on a sum: A - 2 B >= 0.", default=(), type=linear, metavar="A=1,B=-2:0..", group=_REGION, rare=True
    )
    total: float | None = option("Sum of all weights.", type=finite, metavar="W", group=_REGION, rare=True)
    cosine: float | None = option(
        "Least cosine with the weights of --around.", type=finite, metavar="C", group=_REGION, rare=True
    )
    around: str | None = option("Same syntax as `lpmert check --weights`.", metavar="WEIGHTS", group=_REGION, rare=True)
    method: str = option("See `lpmert methods`.", default="auto", type=Registered(METHODS), group=_METHOD)
    time_limit: float | None = option(
        "Stop after this time.  [default: 60; of solve and check none]", type=seconds, metavar="SECONDS", group=_METHOD
    )
    gap: float | None = option("Stop at this relative gap, such as 1%.", type=share, metavar="SHARE", group=_METHOD)
    target: float | None = option(
        "Stop at this loss or a lower one.", type=finite, metavar="LOSS", group=_METHOD, rare=True
    )
    node_limit: int | None = option(
        "Stop after this many search nodes.", type=WholeNumber(min=0), metavar="N", group=_METHOD, rare=True
    )
    memory_limit: int | None = option(MEMORY, type=size, metavar="SIZE", group=_METHOD, rare=True)
    jobs: int = option(
        "Workers, which affect only the time.", default=1, type=WholeNumber(min=1), metavar="N", group=_METHOD
    )
    backend: str | None = option(
        "What they are: threads, processes, or dask://HOST:PORT; affects only the time.  [default: threads; of "
        "compare processes]",
        type=backend, metavar="NAME", group=_METHOD, rare=True,
    )  # fmt: skip
    seed: int = option(
        "Seed for everything random.", default=0, type=WholeNumber(min=0), metavar="N", group=_METHOD, rare=True
    )
    scale: Scale | None = option(
        "Scale the weights so that this one is W.", type=scale, metavar="NAME=W", group="Output"
    )

    def __post_init__(self) -> None:
        """Check what one option says against another, before anything is read."""
        super().__post_init__()
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    def load(self, out: Quiet) -> tuple[Data, float]:
        """Return the lists or lattices, and the seconds it took."""
        start = time.perf_counter()
        with naming(self.name), Allowance(self.memory_limit).kept():
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
        if self.scale is not None and self.scale.name not in data.names:
            features = listed(data.names)
            raise click.BadParameter(
                f"no feature {quoted(self.scale.name)}; the features are {features}.", param_hint="--scale"
            )
        with naming(self.name):
            metric = self.summed_metric(data)
        limits = ("ties", "time_limit", "node_limit", "gap", "target", "memory_limit", "jobs", "seed")
        return {
            "metric": metric,
            "method": configured(self.method, self.method_settings),
            "region": self.region(data.names),
            "backend": self.backend or "threads",
            **{name: getattr(self, name) for name in limits},
        }


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


def progress_of(out: Quiet, time_limit: float | None) -> AbstractContextManager[Any]:
    """Return what shows the progress of a search and is its callback; nothing where the command is quiet."""
    return nullcontext() if out.quiet else ProgressLog(time_limit=time_limit)


@dataclass(frozen=True)
class Start:
    """Where searches start."""

    heading = _METHOD

    initial_weights: str | None = option(
        "Weights to start from; same syntax as `lpmert check --weights`.", metavar="WEIGHTS", rare=True
    )

    def weights(self, names: Sequence[str]) -> WeightsFile | None:
        """Return the weights, if there are any."""
        text = self.initial_weights
        return None if text is None else parse_weights(text, names, "--initial-weights")


@dataclass(frozen=True)
class Sources:
    """Which lists belong together."""

    heading = "Unseen lists"

    source: re.Pattern[str] | None = option(
        "Lists in whose ids this matches the same share a source and stay together in cross-validation.",
        type=pattern, metavar="REGEX", rare=True,
    )  # fmt: skip

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
class Unseen(Sources):
    """An estimate of the loss on unseen lists that a search makes beside its result."""

    cv: int | None = option("Cross-validate in N parts.", type=WholeNumber(min=2), metavar="N")

    def __post_init__(self) -> None:
        """Check that one option has the other that it needs."""
        if self.source is not None and self.cv is None:
            raise click.UsageError("--source needs --cv.")

    def estimate(
        self, data: Data, search: Search, arguments: Mapping[str, Any], stop: Interrupts, out: Output
    ) -> tuple[Mapping[str, float], Search]:
        """Return what is to be expected, nothing unless --cv is set, and the search with the time left.

        Ctrl-C ends the estimate alone, as the search is still to come.
        """
        if self.cv is None:
            return {}, search
        from lpmert.system.deadline import Deadline
        from lpmert.unseen.estimate import expected_of
        from lpmert.unseen.material import divisible

        deadline = Deadline(search.time_limit)
        found = expected_of(
            divisible(data),
            arguments["method"],
            folds=self.cv,
            groups=self.of(data),
            on_stage=None if out.quiet else Stages(),
            **{name: arguments[name] for name in ("metric", "ties", "region", "seed", "time_limit", "jobs", "backend")},
        )
        if not found and not out.quiet:
            why = "was interrupted, and the search goes on" if stop.forgiven() else "did not end in time"
            say(f"warning: cross-validation {why}: nothing is known of unseen lists")
        return found, replace(search, time_limit=deadline.left)


@dataclass(frozen=True)
class HeldOut:
    """More lists, on which weights are compared and to which nothing is fitted."""

    heading = "Unseen lists"

    held_out: str | None = option(
        "Lists on which weights are compared only.",
        type=click.Path(), metavar="FILE",
    )  # fmt: skip
    held_out_references: tuple[str, ...] = option(
        "The references of the lists held out.", default=(), metavar="FILE", rare=True
    )

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
