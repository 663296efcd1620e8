"""The program `lpmert`: its groups of commands, its errors, and the commands on proofs, files and methods.

Heavy modules are imported where they are first used, so that help and usage errors appear at once.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

import lpmert
from lpmert.cli import options
from lpmert.cli.options import argument, memory_limit, option, time_limit
from lpmert.cli.reports import verdict_line, verified_json, weights_table
from lpmert.cli.running import ExitCode, Output, Quiet, Stages, naming, open_streams, put, say, silence
from lpmert.cli.search import ARGUMENTS, Reading, ReadingWithTies, command, sizes, stated
from lpmert.files import buffered_pipes
from lpmert.limits import Allowance, Deadline
from lpmert.quoting import LONGEST_MESSAGE, SHOWN_DECIMALS, listed, shortened, visible
from lpmert.registry import FORMATS, METHODS, METRICS

if TYPE_CHECKING:
    from lpmert.cli.search import Data
    from lpmert.configurable import Option


_GROUPS: Mapping[str, Mapping[str, str]] = {
    "Find weights": {"solve": "solve", "tune": "solve", "rank": "rank", "train": "solve"},
    "Judge and use weights": dict.fromkeys(("check", "evaluate", "compare", "rerank"), "solve"),
    "Questions beyond one answer": dict.fromkeys(("subsets", "ranges", "leave-one-out", "pareto"), "sensitivity"),
    "With a decoder": dict.fromkeys(("loop", "mert"), "decoder"),
    "Proofs, files, methods": dict.fromkeys(("verify", "convert", "methods"), "main"),
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
            from lpmert.errors import OptionError

            of_option = isinstance(error, OptionError) or (getattr(error, "path", None) or "").startswith("--")
            _end(ctx, f"error: {error}", ExitCode.WRONG_USAGE if of_option else ExitCode.FAILED)


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


@options.command("methods cells")
def methods(
    method: str | None = argument("[METHOD]", options.Registered(METHODS), required=False),
    metric: str | None = option("NAME", "Describe a metric and its options instead.", options.METRIC),
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


@command("verify proof.json.gz dev.tsv --segment utterance --features am,lm --loss errors", heading="Limits")
def verify(
    *,
    certificate: str = argument("CERTIFICATE"),
    lists: ReadingWithTies,
    time_limit: float | None = time_limit(),
    memory_limit: int | None = memory_limit(),
    out: Output,
) -> None:
    """Check that CERTIFICATE, written by `lpmert solve --certificate`, proves its claim about DATA.

    DATA are lists or lattices; pass the same options as to `lpmert solve`. This runs no search and trusts no solver:
    every step is decided in exact arithmetic. If the certificate does not hold, the exit code is 5 and the message says
    where it fails. If a limit ends the check first, the exit code is 3 and nothing is known about the claim.
    """
    clock = Deadline(time_limit)
    with naming(lists.name), out.opened() as deliver:
        with Allowance(memory_limit).enforced():
            data = lists.read_whole()
            of_data = {"metric": lists.summed_metric(data), "second": _second_sum(certificate, data, lists)}
        found = lpmert.verify(
            certificate,
            data,
            **of_data,
            ties=lists.ties,
            time_limit=clock.left,
            memory_limit=memory_limit,
            on_line=partial(Stages(out), "lines checked", parts=None),
        )
        deliver(partial(verified_json, found), partial(_verified_report, found))


def _second_sum(certificate: str, data: Data, lists: ReadingWithTies) -> Any:
    """Return the numbers of the second sum that a certificate names, `None` if they are a feature or statistic."""
    from lpmert.certificates.format import CertificateReader

    with suppress(lpmert.CertificateError):  # `lpmert.verify` raises it again and says where
        for column in CertificateReader(certificate).header().budget:
            numbers = lists.second_sum(data, column)
            return None if isinstance(numbers, str) else numbers
    return None


def _verified_report(found: lpmert.Verified) -> str:
    parts = [weights_table(found.weights, {"weight": [*found.weights.values()]}, SHOWN_DECIMALS), ""]
    rows: list[Sequence[Any]] = [*found.limits, *found.equations]
    for k, row in enumerate(rows):
        most = Fraction(max(map(abs, row)))
        shares = [(name, Fraction(x) / most) for name, x in zip(found.weights, row, strict=True) if x]
        terms = " ".join(f"{_signed(share)} {visible(name)}" for name, share in shares)
        sign = "=" if k >= len(found.limits) else ">=" if found.at_most else ">"
        parts.append(f"where {terms} {sign} 0")
    return "\n".join([*parts, verdict_line(str(found), found.proved)])


def _signed(share: Fraction) -> str:
    """Return a number with its sign, in full: as a decimal if it is a double, otherwise as a fraction."""
    text = repr(float(share)).removesuffix(".0") if float(share) == share else str(share)
    return text if share < 0 else f"+{text}"


@command("convert nbest.moses lists.tsv --references dev.en")
def convert(
    source: Reading,
    out: Quiet,
    target: str = argument("OUT"),
    to: str | None = option("NAME", "Format of OUT.  [default: chosen by its ending]", options.Registered(FORMATS)),
) -> None:
    """Convert the N-best lists in DATA to another format, exactly: reading OUT gives the same numbers.

    Lattices become lists of their N best hypotheses with different words (--n-best N --scales am=1,lm=12). The scores
    are those of the best of all paths with the same words. Sums and comparisons are exact.

    Several files are pooled by list. Files with one score each (--from scores) are given as NAME=FILE, one per feature.
    The help of an option names the formats it applies to; docs/formats.md describes all formats.
    """
    from lpmert.files import writing_later
    from lpmert.formats.detect import format_by_name, format_of_target, writer_of

    for name, option_name in (("metric", "--metric"), ("options", "--set")):
        if stated(name) and not source.references:
            raise click.UsageError(f"{option_name} applies to texts, with --references.")
    kind = to or format_of_target(target)
    writer_of(format_by_name(kind), kind)
    with writing_later(target):
        nbest = source.read()
    lpmert.write(nbest, target, kind)
    out.say(f"{target}: {sizes(nbest)}; features {listed(nbest.names)}; statistics {listed(nbest.statistic_names)}")
