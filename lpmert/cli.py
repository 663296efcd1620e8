"""The command line: reads options, calls the library, prints what it gives, and sets the exit code.

Everything heavy is imported where it is first used, so that help and usage errors come at once.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import click

import lpmert
from lpmert.console import LogHandler, ProgressLog, Scale, check_report, result_report, say, summary
from lpmert.options import bounds, column_names, finite, linear, nonnegative, pairs, parse_weights, scale, size

if TYPE_CHECKING:
    from lpmert.exact.solve import ExactMethod
    from lpmert.minimize import Check
    from lpmert.nbest import NBest
    from lpmert.region import Linear, Region
    from lpmert.result import Callback, Result, Status

METHODS = ("auto", "cells", "choices", "sweep", "lp-mert", "exhaustive", "mip", "groups", "subspace", "beam")
FORMATS = ("tsv", "csv", "jsonl", "parquet")
TIES = ("first", "best", "worst")

logger = logging.getLogger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])


class ExitCode(IntEnum):
    """What the process tells its caller; click itself exits with 2 on wrong usage."""

    FINISHED = 0
    FAILED = 1
    STOPPED = 3
    INTERRUPTED = 130


COMMANDS: Mapping[str, str] = {
    "convert": "lpmert.commands.convert:convert",
    "mert": "lpmert.commands.mert:mert",
}
"""Commands with a module of their own, and where they are: what one of them needs is not imported for another."""


class Program(click.Group):
    """The group of commands; turns the errors that a user can cause into one line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it has a module of its own."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            say("lpmert: interrupted")
            ctx.exit(ExitCode.INTERRUPTED)
        except OSError as error:
            _fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except MemoryError:
            _fail(ctx, "out of memory")
        except lpmert.LpmertError as error:
            _fail(ctx, str(error))


def _fail(ctx: click.Context, message: str) -> NoReturn:
    say(f"lpmert: error: {message}")
    ctx.exit(ExitCode.FAILED)


@dataclass(frozen=True)
class Shared:
    """The values of the options that all searching commands have."""

    data: str
    segment: str
    features: tuple[str, ...]
    loss: str | None
    statistics: tuple[str, ...] | None
    metric: str
    format: str | None
    group: bool
    method: str
    beam: int | None
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
        if (self.loss is None) == (self.statistics is None):
            raise click.UsageError(
                "Give either --loss with one column, or --statistics with the columns of the metric."
            )
        if self.scale is not None and self.scale.name not in self.features:
            features = ", ".join(self.features)
            raise click.BadParameter(
                f"no feature {self.scale.name}; the features are {features}.", param_hint="--scale"
            )
        if self.beam is not None and self.method not in ("auto", "beam"):
            raise click.UsageError(f"--beam is a method of its own; leave out --method {self.method}.")
        if (self.cosine is None) != (self.around is None):
            raise click.UsageError("--cosine and --around go together.")

    def _method(self) -> str | ExactMethod:
        if self.beam is None:
            return self.method
        from lpmert.approximate.beam import Beam

        return Beam(beam=self.beam)

    def region(self) -> Region | None:
        """Return where the weights may lie; `None` for everywhere."""
        limits = (self.bounds, self.fix, self.nonnegative, self.linear, self.total is not None, self.around)
        if not any(limits):
            return None
        from lpmert.region import Region

        around = None if self.around is None else self.weights(self.around, "--around")
        return Region(
            bounds=self.bounds or {},
            fixed=self.fix or {},
            nonnegative=self.nonnegative,
            linear=self.linear,
            total=self.total,
            cosine=self.cosine,
            around=None if around is None else dict(zip(self.features, around, strict=True)),
        )

    def weights(self, text: str, option: str) -> list[float]:
        """Return one weight for each feature from what the user gave for this option."""
        return parse_weights(text, self.features, option)

    def search_arguments(self) -> dict[str, Any]:
        """Return what `minimize` and `check` both take, apart from the callback."""
        return {
            "metric": self.metric,
            "method": self._method(),
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


_SHARED_OPTIONS = (
    click.argument("data", type=click.Path()),
    click.option("--segment", required=True, metavar="COLUMN", help="Column that says which list a row belongs to."),
    click.option("--features", required=True, type=column_names, metavar="A,B,C", help="Columns of the features."),
    click.option("--loss", metavar="COLUMN", help="Column of the loss of a hypothesis, such as its word errors."),
    click.option(
        "--statistics", type=column_names, metavar="A,B,C", help="Columns that the metric sums, instead of --loss."
    ),
    click.option("--metric", default="loss", metavar="NAME", help="What turns summed statistics into a loss."),
    click.option(
        "--format", type=click.Choice(FORMATS), help="Format of DATA; if not given, its ending or content says."
    ),
    click.option("--group", is_flag=True, help="Gather the rows of a list that lie apart in DATA."),
    click.option("--method", type=click.Choice(METHODS), default="auto", help="How to search."),
    click.option("--beam", type=click.IntRange(min=1), metavar="N", help="LP-MERT with so many combinations a node."),
    click.option(
        "--ties", type=click.Choice(TIES), default="first", help="Which of hypotheses with equal features counts."
    ),
    click.option("--bounds", type=bounds, metavar="A:0..,B:0..1", help="Limits of single weights."),
    click.option("--fix", type=pairs, metavar="A=1,B=0.5", help="Weights that are given."),
    click.option("--nonnegative", is_flag=True, help="No weight below 0."),
    click.option("--linear", type=linear, multiple=True, metavar="A=1,B=-2:0..", help="Limits of a sum: A - 2 B >= 0."),
    click.option("--total", type=finite, metavar="W", help="What all weights add up to."),
    click.option("--cosine", type=finite, metavar="C", help="Only weights with this cosine or more with --around."),
    click.option("--around", metavar="WEIGHTS", help="Written as for `lpmert check --weights`."),
    click.option("--time-limit", type=nonnegative, metavar="SECONDS", help="Stop after this time."),
    click.option("--node-limit", type=click.IntRange(min=0), metavar="N", help="Stop after this many search nodes."),
    click.option("--gap", type=nonnegative, metavar="SHARE", help="Stop at this relative gap, such as 0.01."),
    click.option("--target", type=finite, metavar="LOSS", help="Stop at weights with this loss or a lower one."),
    click.option("--memory-limit", type=size, default="1GiB", metavar="SIZE", help="Memory for the open search nodes."),
    click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed of all that is random."),
    click.option("--jobs", type=click.IntRange(min=1), default=1, metavar="N", help="Processes that may be used."),
    click.option("--scale", type=scale, metavar="NAME=W", help="Show the weights also so that this one is W."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the report."),
    click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write JSON to FILE and print nothing."),
    click.option("-q", "--quiet", is_flag=True, help="No progress and no log on stderr."),
    click.option("-v", "--verbose", count=True, show_default=False, help="Log more; twice for everything."),
)


def shared_options(command: Command) -> Command:
    """Add the argument and the options that all searching commands have."""
    for option in reversed(_SHARED_OPTIONS):
        command = option(command)
    return command


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
)
@click.version_option(lpmert.__version__, prog_name="lpmert")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Find the weights of a linear model with the least error on N-best lists, and prove that no weights do better.

    Exit codes: 0 proved or finished, 1 bad data or failure, 2 wrong usage, 3 stopped by a limit, 130 interrupted.
    The first Ctrl-C ends a search with its best weights and their bound; a second one aborts at once.
    """
    if "NO_COLOR" in os.environ:
        ctx.color = False


@main.command()
@shared_options
@click.option("--initial-weights", metavar="WEIGHTS", help="Where to start; written as for `lpmert check --weights`.")
def solve(initial_weights: str | None, **options: Any) -> None:
    """Find the weights with the least loss on the lists in DATA.

    DATA is a table with one hypothesis a row: TSV, CSV, JSON lines or Parquet, plain or compressed; - is stdin.

    The column Src of the progress says what found the best weights so far: I they were given, L line searches,
    C a cell of the weight space, S a selection, X exact arithmetic, W the sweep, E the enumeration of everything.
    """
    shared = Shared(**options)
    arguments = shared.search_arguments()
    start = None if initial_weights is None else shared.weights(initial_weights, "--initial-weights")

    def search(nbest: NBest, callback: Callback | None) -> Result:
        from lpmert.minimize import minimize

        return minimize(nbest, initial_weights=start, callback=callback, **arguments)

    _run(shared, search)


@main.command()
@shared_options
@click.option("--weights", required=True, metavar="WEIGHTS", help="The weights to check.")
def check(weights: str, **options: Any) -> None:
    """Tell how far given weights are from the least loss on the lists in DATA.

    WEIGHTS are numbers in the order of --features (--weights=-1,2), pairs (--weights am=1,lm=0.6), or a JSON file that
    `lpmert solve -o` wrote. DATA is a table with one hypothesis a row; see `lpmert solve --help`.
    """
    shared = Shared(**options)
    arguments = shared.search_arguments()
    given = shared.weights(weights, "--weights")

    def search(nbest: NBest, callback: Callback | None) -> Check:
        from lpmert.minimize import check as check_weights

        return check_weights(nbest, given, callback=callback, **arguments)

    _run(shared, search)


def _run(shared: Shared, search: Callable[[NBest, Callback | None], Result | Check]) -> NoReturn:
    """Read the data, search, show the outcome, and exit with the code of its status."""
    with _logging_to_stderr(shared), _destination(shared.output) as file, _uninterrupted_cleanup():
        nbest, seconds = _read(shared)
        with nullcontext() if shared.quiet else ProgressLog(time_limit=shared.time_limit) as callback:
            outcome = search(nbest, callback)
        result = outcome if isinstance(outcome, lpmert.Result) else outcome.optimum
        result = replace(result, seconds={"read": seconds, **result.seconds})
        outcome = result if isinstance(outcome, lpmert.Result) else replace(outcome, optimum=result)
        _show(outcome, shared, file)
        if not shared.quiet and (file is not None or shared.as_json):
            say(summary(result))
    raise click.exceptions.Exit(_exit_code(result.status))


@contextmanager
def _logging_to_stderr(shared: Shared) -> Iterator[None]:
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(shared.verbose, 2)]
    package_logger = logging.getLogger("lpmert")
    handler = LogHandler(logging.ERROR if shared.quiet else level)
    package_logger.addHandler(handler)
    package_logger.setLevel(handler.level)
    try:
        yield
    finally:
        package_logger.removeHandler(handler)
        package_logger.setLevel(logging.NOTSET)


@contextmanager
def _destination(output: str | None) -> Iterator[TextIO | None]:
    """Open the file for the outcome before the search, so that a place that cannot be written is told at once."""
    if output is None:
        yield None
        return
    from lpmert.formats.files import atomic_writer

    with atomic_writer(output) as file:
        yield file


@contextmanager
def _uninterrupted_cleanup() -> Iterator[None]:
    """Let no second Ctrl-C cut short the cleaning up after one that aborts, which takes no time."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def _read(shared: Shared) -> tuple[NBest, float]:
    start = time.perf_counter()
    nbest = lpmert.read_table(
        shared.data,
        segment=shared.segment,
        features=shared.features,
        loss=shared.loss,
        statistics=shared.statistics,
        group=shared.group,
        format=shared.format,
    )
    seconds = time.perf_counter() - start
    if not shared.quiet:
        say(
            f"{shared.data}: {nbest.n_lists:,} lists, {nbest.n_hypotheses:,} hypotheses, {nbest.n_features} features, "
            f"read in {seconds:.2f}s; seed {shared.seed}"
        )
    if shared.jobs > 1:
        logger.info("jobs=%d: this version searches in one process", shared.jobs)
    return nbest, seconds


def _show(outcome: Result | Check, shared: Shared, file: TextIO | None) -> None:
    if file is not None:
        file.write(outcome.to_json() + "\n")
    elif shared.as_json:
        click.echo(outcome.to_json())
    else:
        if not shared.quiet:
            say("")
        if isinstance(outcome, lpmert.Result):
            click.echo(result_report(outcome, shared.scale))
        else:
            click.echo(check_report(outcome, shared.scale))


def _exit_code(status: Status) -> ExitCode:
    if status is lpmert.Status.INTERRUPTED:
        return ExitCode.INTERRUPTED
    return ExitCode.FINISHED if status.finished else ExitCode.STOPPED
