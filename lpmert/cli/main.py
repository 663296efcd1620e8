"""The command line: parses options, calls the library, prints results and sets the exit code.

Heavy modules are imported where they are first used, so that help and usage errors appear at once.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

import lpmert
from lpmert.cli import options, values
from lpmert.cli.options import argument, command, option
from lpmert.cli.reading import ARGUMENTS
from lpmert.cli.running import ExitCode, open_streams, put, say, silence
from lpmert.files import buffered_pipes
from lpmert.quoting import LONGEST_MESSAGE, shortened
from lpmert.registry import METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.configurable import Option


_GROUPS: Mapping[str, Mapping[str, str]] = {
    "Find weights": {"solve": "solve", "tune": "compare", "rank": "rank", "train": "solve"},
    "Judge and use weights": {"check": "solve", "evaluate": "lists", "compare": "compare", "rerank": "lists"},
    "Questions beyond one answer": dict.fromkeys(("subsets", "ranges", "leave-one-out", "pareto"), "sensitivity"),
    "With a decoder": dict.fromkeys(("loop", "mert"), "decoder"),
    "Proofs, files, methods": {"verify": "lists", "convert": "lists", "methods": "main"},
}


class _Commands(UserDict[str, Any]):
    """Commands by name; the module of a command is imported when the command is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"lpmert.cli.{self.data[name]}"), name.replace("-", "_"))
        return command


COMMANDS = _Commands({name: module for group in _GROUPS.values() for name, module in group.items()})


class Program(options.Command, click.Group):
    """The group of commands; turns errors that a user can cause into one line on stderr and an exit code."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, group in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, COMMANDS[name].get_short_help_str()) for name in group])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them for messages that repeat the command line."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        open_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:  # while printing help or a usage error; `invoke` handles all others
            say(f"lpmert: error: standard streams: {error.strerror}")
            silence(sys.stdout)
            silence(sys.stderr)
            sys.exit(ExitCode.FAILED)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with _short_messages():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _short_messages(), buffered_pipes():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            _end(ctx, "interrupted", ExitCode.INTERRUPTED)
        except OSError as error:
            from lpmert.errors import reason_of

            _end(ctx, f"error: {f'{error.filename}: ' if error.filename else ''}{reason_of(error)}")
        except UnicodeEncodeError as error:
            from lpmert.files import half_pair

            _end(ctx, f"error: {half_pair(error)}")
        except MemoryError:
            remedy = "raise the limit of the process (`ulimit -v` shows it), or pass fewer features (--features)"
            _end(ctx, f"error: out of memory; {remedy} or hypotheses")
        except lpmert.CertificateError as error:
            _end(ctx, f"certificate refused: {error}", ExitCode.REFUSED)
        except lpmert.LimitError as error:
            _end(ctx, f"stopped by a limit: {error}", ExitCode.STOPPED)
        except lpmert.LpmertError as error:
            _end(ctx, f"error: {error}")


@contextmanager
def _short_messages() -> Iterator[None]:
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = shortened(error.message, LONGEST_MESSAGE)
        raise


def _end(ctx: click.Context, message: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    say(f"lpmert: {message}")
    ctx.exit(code)


@click.group(
    cls=Program,
    commands=COMMANDS,
    example="solve dev.tsv --segment utterance --features am,lm --loss errors",
    lists_once=False,
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


@command("methods cells")
def methods(
    method: str | None = argument("[METHOD]", values.Registered(METHODS), required=False),
    metric: str | None = option("NAME", "Describe a metric and its options instead.", values.METRIC),
) -> None:
    """List all methods, or describe METHOD and its options.

    Other commands set an option of the method with `--set NAME=VALUE`, and one of the metric with `--set
    metric.NAME=VALUE`. In Python, options are arguments of the class.
    """
    from lpmert.api import method_of

    if method is not None and metric is not None:
        raise click.UsageError("Name a method, or a metric with --metric, not both.")
    formatter = click.HelpFormatter(max_width=100)
    if metric is not None:
        from lpmert.configurable import parameters
        from lpmert.metrics.text import TEXT_METRICS

        on_statistics = METRICS.find(metric) if metric in METRICS.own or metric not in TEXT_METRICS else None
        for one in (on_statistics, TEXT_METRICS.get(metric)):
            if one is not None:
                _describe(metric, one, parameters(one), formatter)
    elif method is not None:
        chosen = method_of(method)
        _describe(chosen.name, chosen, chosen.options(), formatter)
    else:
        summaries = {name: _description(method_of(name)).partition("\n\n")[0] for name in METHODS.names()}
        formatter.write_dl([(name, " ".join(text.split())) for name, text in summaries.items()])
    put(formatter.getvalue().rstrip())


def _describe(name: str, item: Any, options: Iterable[Option], formatter: click.HelpFormatter) -> None:
    maker = item if inspect.isclass(item) or inspect.isroutine(item) else type(item)
    formatter.write(f"{name} ({maker.__module__}:{maker.__qualname__})\n\n{_description(item)}\n\n")
    texts = [(one, f"{one.help} ({one.allowed})" if one.help else one.allowed) for one in options]
    rows = [(f"{one.name}={_text(one.default)}", text) for one, text in texts]
    if rows:
        formatter.write_dl(rows)
    formatter.write("\n")


def _description(item: Any) -> str:
    return (inspect.getdoc(item) or "").partition("\n\nParameters\n")[0].rstrip()


def _text(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default is None or default == ():
        return "none"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
