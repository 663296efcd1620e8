"""What all searching commands have: the data, the metric, the region, the method and its limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from lpmert.cli.arguments import (
    assignment,
    bounds,
    column_names,
    finite,
    linear,
    nonnegative,
    pairs,
    parse_weights,
    scale,
    share,
    size,
)
from lpmert.cli.console import Scale
from lpmert.quoting import quoted
from lpmert.registry import METHODS, METRICS, TABLES, Registry

if TYPE_CHECKING:
    from lpmert.formats.weights import WeightsFile
    from lpmert.metrics.base import Metric
    from lpmert.model.region import Linear, Region
    from lpmert.search.method import Method

TIES = ("first", "best", "worst")
_OF_METRIC = "metric."

Command = TypeVar("Command", bound=Callable[..., Any])


class Registered(click.ParamType[str]):
    """The name of what is registered, or module:Name, looked for in the current folder too."""

    def __init__(self, registry: Registry) -> None:
        self.registry, self.name = registry, registry.kind

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Return what stands for the value in the help."""
        return f"[{'|'.join(self.registry.own)}|...]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if there is such a thing."""
        if ":" in value:
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
        elif value not in self.registry.own and value not in self.registry.names():
            self.fail(f"{self.registry.unknown(value)}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with what is typed."""
        del ctx, param
        return [CompletionItem(name) for name in self.registry.names() if name.startswith(incomplete)]


@dataclass(frozen=True)
class Shared:
    """The values of the options that all searching commands have."""

    data: str
    segment: str
    features: tuple[str, ...]
    loss: str | None
    statistics: tuple[str, ...] | None
    gain: str | None
    metric: str
    format: str | None
    group: bool
    method: str
    options: tuple[tuple[str, str], ...]
    ties: str
    bounds: dict[str, Any] | None
    fix: dict[str, float] | None
    nonnegative: bool
    linear: tuple[Linear, ...]
    total: float | None
    cosine: float | None
    around: str | None
    time_limit: float | None
    node_limit: int | None
    gap: float | None
    target: float | None
    memory_limit: int
    seed: int
    jobs: int
    scale: Scale | None
    as_json: bool
    output: str | None
    quiet: bool
    verbose: int

    def __post_init__(self) -> None:
        """Check what one option says against another, before anything is read."""
        if sum(given is not None for given in (self.loss, self.gain, self.statistics)) != 1:
            raise click.UsageError(
                "Pass either --loss with one column, or --gain with one of which more is better, or --statistics with "
                "the columns of the metric."
            )
        if self.scale is not None and self.scale.name not in self.features:
            features = ", ".join(self.features)
            raise click.BadParameter(
                f"no feature {self.scale.name}; the features are {features}.", param_hint="--scale"
            )
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    def region(self) -> Region | None:
        """Return where the weights may lie; `None` for everywhere."""
        limits = (self.bounds, self.fix, self.nonnegative, self.linear, self.total is not None, self.around)
        if not any(limits):
            return None
        from lpmert.model.region import Region

        around = None if self.around is None else self.weights(self.around, "--around").of_features(self.features)
        return Region(
            bounds=self.bounds or {},
            fixed=self.fix or {},
            nonnegative=self.nonnegative,
            linear=self.linear,
            total=self.total,
            cosine=self.cosine,
            around=None if around is None else dict(zip(self.features, around.tolist(), strict=True)),
        )

    def weights(self, text: str, option: str) -> WeightsFile:
        """Return the weights that the user gave for this option."""
        return parse_weights(text, self.features, option)

    def search_arguments(self) -> dict[str, Any]:
        """Return what `minimize` and `check` both take, apart from the callback."""
        return {
            "metric": metric_with(self.metric, [one for one in self.options if of_metric(one)]),
            "method": configured(self.method, [one for one in self.options if not of_metric(one)]),
            "ties": self.ties,
            "region": self.region(),
            "time_limit": self.time_limit,
            "node_limit": self.node_limit,
            "gap": self.gap,
            "target": self.target,
            "memory_limit": self.memory_limit,
            "jobs": self.jobs,
            "seed": self.seed,
        }


def configured(method: str, options: Sequence[tuple[str, str]]) -> str | Method:
    """Return a method with options; raises `click.BadParameter` for those that it has not, or has not so."""
    if not options:
        return method
    from lpmert._doors import _method
    from lpmert.errors import MethodError

    names = [name for name, _ in options]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"{quoted(twice[0])} is given twice.", param_hint="--set")
    try:
        return _method(method).configured(dict(options))
    except MethodError as error:
        raise click.BadParameter(f"{error}. See `lpmert methods {method}`.", param_hint="--set") from error


def of_metric(option: tuple[str, str]) -> bool:
    """Whether an option is meant for the metric: metric.NAME=VALUE."""
    return option[0].startswith(_OF_METRIC)


def metric_with(metric: str, options: Sequence[tuple[str, str]]) -> str | Metric:
    """Return a metric with options; raises `click.BadParameter` for those that it has not, or has not so."""
    if not options:
        return metric
    from lpmert.configurable import with_parameters
    from lpmert.errors import LpmertError
    from lpmert.registry import METRICS

    texts = {name.removeprefix(_OF_METRIC): value for name, value in options}
    try:
        if len(texts) < len(options):
            raise click.BadParameter("an option of the metric is given twice.", param_hint="--set")
        found: Metric = with_parameters(METRICS.find(metric), texts, f"metric {quoted(metric)}")
    except LpmertError as error:
        raise click.BadParameter(f"{error}. See `lpmert methods --metric {metric}`.", param_hint="--set") from error
    return found


_SHARED_OPTIONS = (
    click.argument("data", type=click.Path()),
    click.option("--segment", required=True, metavar="COLUMN", help="Column that tells which list a row belongs to."),
    click.option("--features", required=True, type=column_names, metavar="A,B,C", help="Columns of the features."),
    click.option("--loss", metavar="COLUMN", help="Column of the loss of a hypothesis, such as its word errors."),
    click.option("--gain", metavar="COLUMN", help="Column of what is better if higher; numbers, or true and false."),
    click.option(
        "--statistics", type=column_names, metavar="A,B,C", help="Columns that the metric sums, instead of --loss."
    ),
    click.option("--metric", type=Registered(METRICS), default="loss", help="Turns summed statistics into a loss."),
    click.option(
        "--format", type=click.Choice(TABLES), help="Format of DATA. [default: told by its ending or content]"
    ),
    click.option("--group", is_flag=True, help="Allow the rows of a list to lie apart in DATA."),
    click.option("--method", type=Registered(METHODS), default="auto", help="How to search."),
    click.option(
        "--set",
        "options",
        type=assignment,
        multiple=True,
        metavar="NAME=VALUE",
        help="Option of the method, or with metric.NAME of the metric; may be repeated. `lpmert methods` lists them.",
    ),
    click.option(
        "--ties",
        type=click.Choice(TIES),
        default="first",
        help="Which of several hypotheses with equal features counts.",
    ),
    click.option("--bounds", type=bounds, metavar="A:0..,B:0..1", help="Limits on single weights."),
    click.option("--fix", type=pairs, metavar="A=1,B=0.5", help="Fixed weights."),
    click.option("--nonnegative", is_flag=True, help="No weight below 0."),
    click.option("--linear", type=linear, multiple=True, metavar="A=1,B=-2:0..", help="Limits on a sum: A - 2 B >= 0."),
    click.option("--total", type=finite, metavar="W", help="Sum of all weights."),
    click.option("--cosine", type=finite, metavar="C", help="Least cosine with the weights of --around."),
    click.option("--around", metavar="WEIGHTS", help="Same syntax as `lpmert check --weights`."),
    click.option("--time-limit", type=nonnegative, metavar="SECONDS", help="Stop after this time."),
    click.option("--node-limit", type=click.IntRange(min=0), metavar="N", help="Stop after this many search nodes."),
    click.option("--gap", type=share, metavar="SHARE", help="Stop at this relative gap, such as 0.01 or 1%."),
    click.option("--target", type=finite, metavar="LOSS", help="Stop at this loss or a lower one."),
    click.option("--memory-limit", type=size, default="1GiB", metavar="SIZE", help="Memory for the open search nodes."),
    click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed for everything random."),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Number of threads (compare: processes); affects only the time.",
    ),
    click.option("--scale", type=scale, metavar="NAME=W", help="Also show the weights scaled so that this one is W."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report."),
    click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE; print no report."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no log on stderr."),
    click.option("-v", "--verbose", count=True, show_default=False, help="Log more; twice for everything."),
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


def shared_options(command: Command) -> Command:
    """Add the argument and the options that all searching commands have."""
    for option in reversed((*_SHARED_OPTIONS, line_length_option)):
        command = option(command)
    return command
