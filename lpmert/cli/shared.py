"""What all searching commands have: the data, the metric, the region, the method and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lpmert.cli.arguments import (
    Registered,
    Scale,
    WholeNumber,
    assignment,
    backend,
    bounds,
    finite,
    linear,
    nonnegative,
    pairs,
    parse_weights,
    scale,
    share,
    size,
)
from lpmert.cli.reading import Reading, paths_of
from lpmert.cli.reading_options import reading_options
from lpmert.metrics.columns import TEXT_METRICS
from lpmert.quoting import listed, quoted
from lpmert.registry import METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.cli.reading import Data
    from lpmert.formats.weights import WeightsFile
    from lpmert.metrics.base import Metric
    from lpmert.model.nbest import NBest
    from lpmert.model.region import Linear, Region
    from lpmert.search.method import Method

TIES = ("first", "best", "worst")
_OF_METRIC = "metric."

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Shared:
    """The values of the options that all searching commands have."""

    reading: Reading
    metric: str | Metric | None
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
    memory_limit: int | None
    seed: int
    jobs: int
    backend: str | None
    scale: Scale | None
    as_json: bool
    output: str | None
    quiet: bool
    verbose: int

    features: tuple[str, ...] = ()
    """Those of the lists, as soon as these are read."""

    paths: str = ""
    """How many those of lattices are, as soon as these are read."""

    @classmethod
    def of(cls, data: Sequence[str], **options: Any) -> Shared:
        """Return the values of options; checks what one says against another, before anything is read."""
        settings = [
            (name.removeprefix(_OF_METRIC), value) for name, value in options["options"] if of_metric((name, value))
        ]
        reading = Reading.taken(data, options, options["metric"], settings)
        if "references" in reading.flags:  # that of the texts says which it is
            options["metric"] = None
            options["options"] = tuple(one for one in options["options"] if not of_metric(one))
        if (options["cosine"] is None) != (options["around"] is None):
            raise click.UsageError("--cosine and --around go together.")
        return cls(reading=reading, **options)

    def held_out(self, file: str, references: Sequence[str]) -> Shared:
        """Return the same for lists held out; raises `click.UsageError` for what is known of DATA alone."""
        return replace(self, reading=self.reading.held_out(file, references))

    def on(self, data: Data) -> Shared:
        """Return the same for these lists, with their features and, where it is not given, the metric."""
        from lpmert.model.nbest import NBest

        if self.scale is not None and self.scale.name not in data.names:
            features = listed(data.names)
            raise click.BadParameter(
                f"no feature {quoted(self.scale.name)}; the features are {features}.", param_hint="--scale"
            )
        if isinstance(data, NBest):
            return replace(self, features=data.names, metric=self.metric or metric_for(data))
        return replace(self, features=data.names, metric=self.reading.text_metric, paths=paths_of(data))

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

    def for_method(self, name: str) -> tuple[Method, Shared]:
        """Return a method with the options meant for it, NAME.OPTION=VALUE, and the same without these."""
        own = [one for one in self.options if one[0].startswith(f"{name}.")]
        texts = [(option.removeprefix(f"{name}."), value) for option, value in own]
        return configured(name, texts), replace(self, options=tuple(one for one in self.options if one not in own))

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
            "backend": self.backend or "threads",
            "seed": self.seed,
        }


def configured(method: str, options: Sequence[tuple[str, str]]) -> Method:
    """Return a method with options; raises `click.BadParameter` for those that it has not, or has not so."""
    from lpmert.asked import method_of
    from lpmert.errors import MethodError

    if not options:
        return method_of(method)
    names = [name for name, _ in options]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"{quoted(twice[0])} is given twice.", param_hint="--set")
    try:
        return method_of(method).configured(dict(options))
    except MethodError as error:
        raise click.BadParameter(f"{error}. See `lpmert methods {method}`.", param_hint="--set") from error


def of_metric(option: tuple[str, str]) -> bool:
    """Whether an option is meant for the metric: metric.NAME=VALUE."""
    return option[0].startswith(_OF_METRIC)


def metric_with(metric: str | Metric | None, options: Sequence[tuple[str, str]]) -> str | Metric:
    """Return a metric with options; raises `click.BadParameter` for those that it has not, or has not so."""
    if not options or not isinstance(metric, str):
        if options or metric is None:
            raise click.BadParameter("options of a metric need its name; give --metric.", param_hint="--set")
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


def metric_for(nbest: NBest) -> str | Metric:
    """Return the metric that the names of the statistics tell; raises `MetricError` where they do not."""
    from lpmert.metrics.contract import metric_of

    return "loss" if len(nbest.statistic_names) == 1 else metric_of(None, nbest.statistic_names)


def metric_given(metric: str | None, reading: Reading, data: Data) -> Any:
    """Return the metric of lists or lattices: what is given, or what the statistics or the texts tell."""
    from lpmert.model.nbest import NBest

    if not isinstance(data, NBest):
        return reading.text_metric
    return metric_for(data) if metric is None or "references" in reading.flags else metric


class _Metric(Registered):
    """A registered metric, or one on texts."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if there is such a thing."""
        if value in TEXT_METRICS:
            return value
        return super().convert(value, param, ctx)


metric_option = click.option(
    "--metric",
    type=_Metric(METRICS),
    help="Turns summed statistics into a loss; with --references also sentence-bleu, ter, wer, cer, ...  "
    "[default: told by the names of the statistics]",
)

_SHARED_OPTIONS = (
    metric_option,
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
    click.option("--node-limit", type=WholeNumber(min=0), metavar="N", help="Stop after this many search nodes."),
    click.option("--gap", type=share, metavar="SHARE", help="Stop at this relative gap, such as 0.01 or 1%."),
    click.option("--target", type=finite, metavar="LOSS", help="Stop at this loss or a lower one."),
    click.option(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="Most memory of process and workers, such as 500MB.  [default: what they have and 0.9 of what is free]",
    ),
    click.option("--seed", type=WholeNumber(min=0), default=0, metavar="N", help="Seed for everything random."),
    click.option(
        "--jobs",
        type=WholeNumber(min=1),
        default=1,
        metavar="N",
        help="Number of workers; affects only the time.",
    ),
    click.option(
        "--backend",
        type=backend,
        metavar="NAME",
        help="What they are: threads, processes, or dask://HOST:PORT; affects only the time.  [default: threads; of "
        "compare processes]",
    ),
    click.option("--scale", type=scale, metavar="NAME=W", help="Also show the weights scaled so that this one is W."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report."),
    click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE; print no report."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no log on stderr."),
    click.option("-v", "--verbose", count=True, show_default=False, help="Log more; twice for everything."),
)


def checkpoint_options(command: Command) -> Command:
    """Add the options of a file of checkpoints."""
    command = click.option("--resume", is_flag=True, callback=_with_checkpoint, help="Go on from --checkpoint FILE.")(
        command
    )
    text = "Keep what is open, every minute and at the end, in FILE, to go on from there."
    return click.option("--checkpoint", type=click.Path(), metavar="FILE", is_eager=True, help=text)(command)


def _with_checkpoint(context: click.Context, _: click.Parameter, resume: bool) -> bool:
    if resume and context.params.get("checkpoint") is None:
        raise click.UsageError("--resume needs --checkpoint.")
    return resume


data_argument = click.argument("data", nargs=-1, required=True, type=click.Path(), metavar="DATA...")


def shared_options(command: Command) -> Command:
    """Add the argument and the options that all searching commands have."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return data_argument(reading_options(command))
