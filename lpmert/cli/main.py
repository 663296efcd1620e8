"""The command line: reads options, calls the library, prints what it gives, and sets the exit code.

Everything heavy is imported where it is first used, so that help and usage errors come at once.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

import lpmert
from lpmert.cli.arguments import names_by_name
from lpmert.cli.console import LogHandler, open_streams, say, silence
from lpmert.cli.delivery import ExitCode, Talk, delivering, exit_code
from lpmert.cli.progress import ProgressLog
from lpmert.cli.reading import ARGUMENTS, described, sizes
from lpmert.cli.reports import check_report, result_report, summary, warning_lines
from lpmert.cli.shared import Shared, checkpoint_options, shared_options
from lpmert.cli.stages import Stages
from lpmert.cli.unseen import Asked, asking, with_optimism
from lpmert.cli.weights_out import FORMS, JSON, Target
from lpmert.quoting import LONGEST_MESSAGE, WARNINGS, shortened
from lpmert.system.deadline import limited
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance
from lpmert.system.pipes import pipes_kept

if TYPE_CHECKING:
    import re

    from lpmert.checked import Check
    from lpmert.cli.reading import Data
    from lpmert.result import Callback, Result


COMMANDS: Mapping[str, tuple[str, str]] = {
    "compare": ("lpmert.cli.compare:compare", "Compare methods, or weights of other tools, on the same lists."),
    "evaluate": ("lpmert.cli.evaluate:evaluate", "Show what given weights cost; nothing is searched."),
    "report": ("lpmert.cli.report:report", "Write a page about results, with pictures of the error surface."),
    "schema": ("lpmert.cli.schema:schema", "Print the JSON Schema of what other commands write."),
    "convert": ("lpmert.cli.convert:convert", "Convert N-best lists from one format to another."),
    "nbest": ("lpmert.cli.nbest:nbest", "Write the best hypotheses of lattices as N-best lists."),
    "methods": ("lpmert.cli.methods:methods", "List the methods, or the options of one of them."),
    "loop": ("lpmert.cli.loop:loop", "Tune a decoder's weights with the decoder in the loop."),
    "mert": ("lpmert.cli.mert:mert", "Tune weights, as a replacement for Moses' mert."),
    "tune": ("lpmert.cli.tune:tune", "Find weights for unseen lists, and tell what they will cost there."),
    "train": ("lpmert.cli.train:train", "Train weights for huge numbers of features."),
    "verify": ("lpmert.cli.verify:verify", "Check a certificate without trusting any search."),
}
"""Commands with a module of their own, where they are, and what they do: help and other commands import none."""


_OUT_OF_MEMORY = (
    "out of memory; allow the process more (ulimit -v tells its limit), or give it fewer features (--features) or "
    "hypotheses"
)


class Program(click.Group):
    """The group of commands; turns the errors that a user can cause into one line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it has a module of its own."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands."""
        own = {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([*own.items(), *((name, text) for name, (_, text) in COMMANDS.items())])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line, and keep them for messages that repeat it."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        """Read the command line and do what it says."""
        open_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:  # of help and wrong usage; all else is looked after below
            say(f"lpmert: error: standard streams: {error.strerror}")
            silence(sys.stdout)
            silence(sys.stderr)
            sys.exit(ExitCode.FAILED)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Read the options before the name of the command."""
        with _short_messages():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command."""
        try:
            with _short_messages(), pipes_kept():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            say("lpmert: interrupted")
            ctx.exit(ExitCode.INTERRUPTED)
        except OSError as error:
            from lpmert.errors import reason_of

            reason = reason_of(error)
            _fail(ctx, f"{error.filename}: {reason}" if error.filename else reason)
        except MemoryError:
            _fail(ctx, _OUT_OF_MEMORY)
        except lpmert.CertificateError as error:
            say(f"lpmert: certificate refused: {error}")
            ctx.exit(ExitCode.REFUSED)
        except lpmert.LimitError as error:
            say(f"lpmert: stopped by a limit: {error}")
            ctx.exit(ExitCode.STOPPED)
        except lpmert.LpmertError as error:
            _fail(ctx, str(error))


@contextmanager
def _short_messages() -> Iterator[None]:
    """Take the middle out of what click says of wrong usage where it quotes too much."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = shortened(error.message, LONGEST_MESSAGE)
        raise


def _fail(ctx: click.Context, message: str) -> NoReturn:
    say(f"lpmert: error: {shortened(message, LONGEST_MESSAGE)}")
    ctx.exit(ExitCode.FAILED)


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
)
@click.version_option(lpmert.__version__, prog_name="lpmert")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Find the weights of a linear model with the least error on N-best lists, and prove that no weights do better.

    Exit codes: 0 proved or finished, 1 bad data or failure, 2 wrong usage, 3 stopped by a limit, 5 certificate
    refused, 130 interrupted, 143 stopped by SIGTERM, 129 by SIGHUP.

    The first Ctrl-C or SIGTERM ends a search with its best weights and their bound. A second one, or one before the
    search has begun, aborts at once. If a result cannot be written to its file, it goes to stdout.
    """
    if "NO_COLOR" in os.environ:
        ctx.color = False


@main.command()
@shared_options
@click.option(
    "--initial-weights", metavar="WEIGHTS", help="Weights to start from; same syntax as `lpmert check --weights`."
)
@checkpoint_options
@click.option("--certificate", type=click.Path(), metavar="FILE", help="Write a proof for `lpmert verify`.")
@click.option(
    "--write",
    type=click.Choice(FORMS),
    help="Form of the weights, on stdout or in -o. [default: numbers for .txt, update for .ini and .config, else json]",
)
@click.option(
    "--roles",
    type=names_by_name,
    default="",
    show_default=False,
    metavar="ROLE=FEATURE,...",
    help="What features are to a toolkit named by --write, such as acoustic=am.",
)
@asking
def solve(
    initial_weights: str | None,
    checkpoint: str | None,
    resume: bool,
    certificate: str | None,
    write: str | None,
    roles: dict[str, str],
    cv: int | None,
    source: re.Pattern[str] | None,
    **options: Any,
) -> None:
    """Find the weights with the least loss on the lists or lattices in DATA.

    DATA are files or folders in any format that `lpmert convert` reads or writes, plain or compressed; several are
    pooled by list, - is stdin. What a file does not tell (in a table, which columns are what), options say; the help of
    `lpmert convert` and docs/formats.md describe them. Of lattices all paths count, or with --n-best the best ones.

    The progress column Src says what found the best weights so far: I given weights, L line searches, C a cell of the
    weight space, S a selection, X exact arithmetic, W the sweep, E full enumeration, G parts solved separately.

    --cv N tells what the weights found are likely to cost on other lists from the same source, and how much of that
    their loss here hides: N times all but one part of the lists is searched, by line searches where --method proves
    its optimum, and that part decoded. `lpmert tune` finds weights for unseen lists.

    --write says what becomes of the weights: `numbers` as in Moses' weights.txt, `names` with a line `NAME VALUE` each,
    `update` to bring the weights in moses.ini, travatar.ini or joshua.config up to date, or the settings of a speech
    toolkit (docs/speech.md). They have six digits after the point, or more where that would change the loss.
    """
    target = Target.of(write, options["output"], roles)

    def search(data: Data, callback: Callback | None, shared: Shared) -> Result:
        from lpmert._doors import minimize

        target.check(data.names)
        start = None if initial_weights is None else shared.weights(initial_weights, "--initial-weights")
        keeping: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
        return minimize(data, initial_weights=start, callback=callback, **keeping, **shared.search_arguments())

    def text(data: Data, result: Result, shared: Shared) -> str:
        from lpmert.asked import problem_of

        arguments, scale = shared.search_arguments(), shared.scale
        problem = problem_of(data, arguments["metric"], arguments["ties"], arguments["region"])
        weights = result.weights if scale is None else result.scaled_to(scale.name, scale.value)
        return target.text(problem, result, weights).removesuffix("\n")

    def certify(data: Data, result: Result, stop: Interrupts, shared: Shared) -> None:
        if certificate is None:
            return
        if stop.pressed:
            say("no certificate written: interrupted")
        elif result.status not in (lpmert.Status.OPTIMAL, lpmert.Status.OPTIMAL_TO_TOLERANCE):
            say(f"no certificate written: {result.message}")
        else:
            arguments = shared.search_arguments()
            settings = {name: arguments[name] for name in ("metric", "ties", "region", "memory_limit")}
            left = None
            if shared.time_limit is not None:
                left = max(0.0, shared.time_limit - result.seconds["total"])
            on_stage = None if shared.quiet else Stages(slower=True)
            lpmert.certify(data, result, certificate, time_limit=left, on_stage=on_stage, **settings)

    _run(
        Shared.of(**options),
        Asked(cv, source),
        search,
        certify,
        writes=(certificate, checkpoint),
        renews=target.like is not None or initial_weights == options["output"],
        text=None if target.form == JSON else text,
    )


@main.command()
@shared_options
@click.option("--weights", required=True, metavar="WEIGHTS", help="The weights to check.")
@asking
def check(weights: str, cv: int | None, source: re.Pattern[str] | None, **options: Any) -> None:
    """Show how far given weights are from the least loss on the lists in DATA.

    WEIGHTS are numbers in the order of --features (--weights=-1,2), pairs (--weights am=1,lm=0.6), or a file: one that
    `lpmert solve -o` wrote, other JSON, lines NAME VALUE, or the weights of Moses, cdec, Joshua or travatar. DATA is as
    for `lpmert solve`.
    """

    def search(data: Data, callback: Callback | None, shared: Shared) -> Check:
        from lpmert._doors import check as check_weights

        given = shared.weights(weights, "--weights")
        return check_weights(data, given, callback=callback, **shared.search_arguments())

    _run(Shared.of(**options), Asked(cv, source), search)


def _run(
    shared: Shared,
    asked: Asked,
    search: Callable[[Data, Callback | None, Shared], Result | Check],
    finish: Callable[[Data, Result, Interrupts, Shared], None] = lambda *_: None,
    writes: tuple[str | None, ...] = (),
    renews: bool = False,
    text: Callable[[Data, Result, Shared], str] | None = None,
) -> NoReturn:
    """Read the data, search, deliver the outcome, do what is left, and exit with the code of the status."""
    with _logging_to_stderr(shared):
        with delivering(shared, *writes, renews=renews) as deliver:
            data, seconds = _read(shared, whole=True)
            with naming(shared.reading.name):
                shared = shared.on(data)
            shared.search_arguments()  # wrong usage is told before the table of progress begins
            with Interrupts() as stop:
                with naming(shared.reading.name):
                    expected, shared = asked.estimate(data, shared, stop, None if shared.quiet else Stages())
                progress = nullcontext() if shared.quiet else ProgressLog(time_limit=shared.time_limit)
                with naming(shared.reading.name), Allowance(shared.memory_limit).kept(), progress as callback:
                    outcome = search(data, callback, shared)
                result = outcome if isinstance(outcome, lpmert.Result) else outcome.optimum
                rates = shared.reading.rates(data, result.loss, outcome.loss)
                result = replace(
                    result, seconds={"read": seconds, **result.seconds}, rates={**result.rates, **rates[0]}
                )
                result = with_optimism(result, expected)
                if isinstance(outcome, lpmert.Result):
                    outcome = result
                else:
                    outcome = replace(outcome, optimum=result, rates={**outcome.rates, **rates[1]})
                if not shared.quiet:
                    say_outcome(outcome, shown=text is None and not shared.as_json and shared.output is None)
                if text is None:
                    deliver(outcome.to_json, partial(_report, outcome, shared))
                else:
                    deliver(*2 * (partial(text, data, result, shared),))
        finish(data, result, stop, shared)
    raise click.exceptions.Exit(exit_code(result.status, stop))


@contextmanager
def naming(data: str) -> Iterator[None]:
    """Let errors about lists say which file they come from, where they do not name another."""
    try:
        yield
    except lpmert.DataError as error:
        if error.path is not None:
            raise
        raise lpmert.DataError(str(error), path=data) from error
    except lpmert.MetricError as error:
        raise lpmert.MetricError(f"{data}: {error}") from error


def say_outcome(outcome: Result | Check, *, shown: bool) -> None:
    """Write the outcome to the log in a line, with its warnings; an empty one if a report shows it."""
    result = outcome if isinstance(outcome, lpmert.Result) else outcome.optimum
    for line in [""] if shown else [summary(result), *warning_lines(outcome)]:
        say(line)


def _report(outcome: Result | Check, shared: Shared) -> str:
    if isinstance(outcome, lpmert.Result):
        return result_report(outcome, shared.scale, shared.paths)
    return check_report(outcome, shared.scale, shared.paths)


@contextmanager
def _logging_to_stderr(shared: Talk) -> Iterator[None]:
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(shared.verbose, 2)]
    package_logger = logging.getLogger("lpmert")
    handler = LogHandler(logging.ERROR if shared.quiet else level)
    handler.addFilter(lambda record: record.name != WARNINGS)  # the report shows them
    package_logger.addHandler(handler)
    package_logger.setLevel(handler.level)
    try:
        yield
    finally:
        package_logger.removeHandler(handler)
        package_logger.setLevel(logging.NOTSET)


def _read(shared: Shared, *, whole: bool = False) -> tuple[Any, float]:
    """Return the lists, and the seconds it took; whole: lattices as such, unless N-best lists of them are asked for."""
    reading = shared.reading
    start = time.perf_counter()
    limit = shared.time_limit if "n_best" in reading.flags else None  # lists that are made can take any time
    with (
        naming(reading.name),
        limited(limit, shared.memory_limit, "nothing read: {}".format) as allowance,
        allowance.kept(),
    ):
        data = reading.read_whole() if whole else reading.read()
    seconds = time.perf_counter() - start
    if not shared.quiet:
        say(f"{reading.name}: {sizes(data)}, {data.n_features} features, read in {seconds:.2f}s; seed {shared.seed}")
        say(described(data))
    return data, seconds
