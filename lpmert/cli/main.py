"""The command line: reads options, calls the library, prints what it gives, and sets the exit code.

Everything heavy is imported where it is first used, so that help and usage errors come at once.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

import lpmert
from lpmert.cli import options, values
from lpmert.cli.options import argument, command, option
from lpmert.cli.reading import ARGUMENTS
from lpmert.cli.running import ExitCode, open_streams, put, say, silence
from lpmert.quoting import LONGEST_MESSAGE, shortened
from lpmert.registry import DOCUMENTS, METHODS, METRICS
from lpmert.system.streams import buffered_pipes

if TYPE_CHECKING:
    from lpmert.configurable import Option


_GROUPS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Find weights": {
        "solve": ("solve", "Find the weights with the least loss, and prove it."),
        "tune": ("compare", "Find weights for unseen lists, and estimate their loss there."),
        "rank": ("rank", "Find the weights that rank judged documents best, and prove it."),
        "train": ("solve", "Train weights for huge numbers of features."),
    },
    "Judge and use weights": {
        "check": ("solve", "Show how far given weights are from the least loss."),
        "evaluate": ("solve", "Show what given weights cost, without a search."),
        "compare": ("compare", "Compare methods, or weights of other tools, on the same lists."),
        "rerank": ("lists", "Print the best hypothesis of each list; no losses are needed."),
    },
    "Questions beyond one answer": {
        "subsets": ("sensitivity", "Find the best 1, 2, ... features, each set proved."),
        "ranges": ("sensitivity", "Show the range of each weight among near-optimal weights."),
        "leave-one-out": ("sensitivity", "Find what each list costs at the optimum of all others."),
        "pareto": ("sensitivity", "Find all best pairs of the loss and a second sum."),
    },
    "With a decoder": {
        "loop": ("decoder", "Tune a decoder's weights with the decoder in the loop."),
        "mert": ("decoder", "Tune weights, as a replacement for Moses' mert."),
    },
    "Proofs, pages, files": {
        "verify": ("solve", "Check a certificate without trusting any search."),
        "report": ("report", "Write a page about results, with pictures of the error surface."),
        "convert": ("lists", "Convert lists between formats, or lattices to lists."),
        "methods": ("main", "List the methods, or the options of one of them."),
        "schema": ("main", "Print the JSON Schema of what other commands write."),
    },
}
COMMANDS = {name: told for group in _GROUPS.values() for name, told in group.items()}
"""In which modules commands are, and what they do: help and other commands import none of these."""


_OUT_OF_MEMORY = (
    "out of memory; allow the process more (ulimit -v tells its limit), or give it fewer features (--features) or "
    "hypotheses"
)


class Program(options.Command, click.Group):
    """The group of commands; turns the errors that a user can cause into one line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"lpmert.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, group in _GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in group.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the command that the first word names; an error suggests those that are spelt alike."""
        alike = get_close_matches(args[0], COMMANDS)
        if alike and args[0] not in COMMANDS and not ctx.resilient_parsing:  # of completion, words may be unfinished
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(alike)}?")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line, and keep them for messages that repeat it."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        open_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:  # of help and wrong usage; all else is looked after below
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


@dataclass(frozen=True)
class _What:
    method: str | None = argument("[METHOD]", values.Registered(METHODS), required=False)
    metric: str | None = option("NAME", "Describe a metric and its options instead.", values.METRIC)
    as_json: bool = option("--json", "Print JSON instead of the report.", default=False)


@command("methods cells")
def methods(what: _What) -> None:
    """List all methods, or describe METHOD and its options.

    `--set NAME=VALUE` of other commands sets an option, `--set metric.NAME=VALUE` one of the metric; in Python options
    are arguments of the class.
    """
    from lpmert.api import method_of

    if what.method is not None and what.metric is not None:
        raise click.UsageError("Name a method, or a metric with --metric, not both.")
    content: dict[str, Any]
    formatter = click.HelpFormatter(max_width=100)
    if what.metric is not None:
        content = _metric(what.metric)
        _write(formatter, what.metric, content)
        if "texts" in content:
            formatter.write("\n")
            _write(formatter, what.metric, content["texts"])
    elif what.method is not None:
        chosen = method_of(what.method)
        content = _described("method", chosen.name, chosen, chosen.options())
        _write(formatter, what.method, content)
    else:
        known = {name: _description(method_of(name)).partition("\n\n")[0] for name in METHODS.names()}
        content = {name: " ".join(text.split()) for name, text in known.items()}
        formatter.write_dl(list(content.items()))
    put(json.dumps(content, indent=2) if what.as_json else formatter.getvalue().rstrip())


def _metric(name: str) -> dict[str, Any]:
    """Return what a name stands for: a metric of counts, of texts, or the first and as `texts` the second."""
    from lpmert.configurable import parameters
    from lpmert.metrics.text import TEXT_METRICS

    made = [METRICS.find(name)] if name in METRICS.own or name not in TEXT_METRICS else []
    made += [TEXT_METRICS[name]] if name in TEXT_METRICS else []
    first, *others = (_described("metric", name, one, parameters(one)) for one in made)
    return {**first, "texts": others[0]} if others else first


def _described(kind: str, name: str, of: Any, options: Iterable[Option]) -> dict[str, Any]:
    made = of if inspect.isclass(of) or inspect.isroutine(of) else type(of)
    stated = {
        one.name: {"default": one.default, "value": one.allowed, "choices": list(one.choices), "help": one.help}
        for one in options
    }
    place = f"{made.__module__}:{made.__qualname__}"
    return {kind: name, "class": place, "description": _description(of), "options": stated}


def _write(formatter: click.HelpFormatter, name: str, content: dict[str, Any]) -> None:
    formatter.write(f"{name} ({content['class']})\n\n{content['description']}\n\n")
    rows = [
        (f"{option}={_text(one['default'])}", f"{one['help']} ({one['value']})" if one["help"] else one["value"])
        for option, one in content["options"].items()
    ]
    if rows:
        formatter.write_dl(rows)


def _description(of: Any) -> str:
    return (inspect.getdoc(of) or "").partition("\n\nParameters\n")[0].rstrip()


def _text(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default is None or default == ():
        return "none"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


@dataclass(frozen=True)
class _Document:
    kind: str = argument("[KIND]", click.Choice(DOCUMENTS), default="result", required=False)


@command("schema check")
def schema(document: _Document) -> None:
    """Print the JSON Schema of a result (`solve`, `Result.save`), check, evaluation, comparison, tuning or ranking."""
    from lpmert.result_schema import schema_of

    put(json.dumps(schema_of(document.kind), indent=2))
