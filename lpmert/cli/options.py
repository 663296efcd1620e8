"""Options of commands, each stated once, as a field of a frozen dataclass, and what their values mean.

What is parsed, the help, manual pages and completions come from there; a command takes objects of these classes.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from inspect import getdoc
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import click
from click.shell_completion import CompletionItem

from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import METHODS, METRICS, TEXT_METRICS, Registry

_STATED = "lpmert"
_LAST = "Output"
"""Options under this heading come last."""
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+|x>=\d+; ")
"""Bounds of whole numbers, left out of the help."""
_FIRST_COLUMN = 25
"""Widest first column of the help."""


@dataclass(frozen=True)
class _Stated:
    """An option or argument as its field states it."""

    flags: tuple[str, ...]
    rare: bool
    settings: dict[str, Any]


def option(spec: str, help: str, type: Any = None, *, default: Any = None, rare: bool = False, **settings: Any) -> Any:
    """Return the field of a dataclass that is an option: a flag where its default is `False`, repeated where it is ().

    spec: how it is written, if not as the field, and what stands for its value: `-o --output FILE`. rare: shown by
    `--help-all` and in manual pages alone, as are all options of a class that is `rare`. The rest is click's.
    """
    words = spec.split()
    flags = tuple(word for word in words if word.startswith("-"))
    settings = {"help": help, "default": default, "type": type, **settings}
    settings["metavar"] = " ".join(words[len(flags) :]) or None
    if default is False:
        settings["is_flag"] = True
    if default == () and isinstance(default, tuple):
        settings |= {"multiple": True, "help": f"{help}  [repeatable]"}
    if settings.get("required"):
        del settings["default"]
    return field(default=default, kw_only=True, metadata={_STATED: _Stated(flags, rare, settings)})


def argument(metavar: str, type: Any = None, **settings: Any) -> Any:
    """Return the field of a dataclass that is an argument of a command."""
    settings = {"metavar": metavar, "required": True, "type": type, **settings}
    return field(default=None, kw_only=True, metadata={_STATED: _Stated((), False, settings)})


class Option(click.Option):
    """An option with its place in the help."""

    def __init__(self, *arguments: Any, group: str, rare: bool, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group, self.rare = group, rare


def parameters(of: Any) -> list[click.Parameter]:
    """Return what a dataclass states, as click takes it.

    The `heading` of the class that has the field is the group of an option, "Output" by default.
    """
    found: list[click.Parameter] = []
    for one in fields(of):
        stated: _Stated | None = one.metadata.get(_STATED)
        if stated is None:
            continue
        if "help" not in stated.settings:
            found.append(click.Argument([one.name], **stated.settings))
            continue
        flags = stated.flags or (f"--{one.name.replace('_', '-')}",)
        owner = next(kind for kind in of.__mro__ if one.name in vars(kind).get("__annotations__", {}))
        rare = stated.rare or vars(owner).get("rare", False)
        found.append(Option([one.name, *flags], group=getattr(owner, "heading", _LAST), rare=rare, **stated.settings))
    return found


class Command(click.Command):
    """A command whose help has its options in groups: the usual ones, or with --help-all every one, and all it says.

    lists_once: whether an option with a list, such as A,B,C, must not be given again.
    """

    lists_once = True

    def __init__(self, *arguments: Any, example: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.example, self.everything = example, False
        self.params.append(
            Option(
                ["--help-all"],
                group="Output", rare=False, is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
                help="Show all options, and details.",
            )
        )  # fmt: skip

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line; refuse a list given twice, whose first half would be lost."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        order = self.make_parser(ctx).parse_args(given)[2] if self.lists_once else []
        for one in order:
            listed = isinstance(one, click.Option) and not one.multiple and "," in (one.metavar or "")
            if listed and order.count(one) > 1:
                raise click.UsageError(f"{one.opts[-1]} is given twice; name all at once, with commas.", ctx)
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does: its first paragraph, or everything; and an example."""
        whole, self.help = self.help, self.help if self.everything else (self.help or "").partition("\n\n")[0]
        super().format_help_text(ctx, formatter)
        self.help = whole
        if self.example:
            formatter.write(f"\n    lpmert {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group and all in one pair of columns, and how many are left out."""
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        shown = [one for one in options if self.everything or not getattr(one, "rare", False)]
        for one in shown:
            first, text = one.get_help_record(ctx) or ("", "")
            groups.setdefault(getattr(one, "group", _LAST), []).append((first, _RANGE.sub("", text)))
        width = min(_FIRST_COLUMN, max(len(first) for records in groups.values() for first, _ in records))
        for group in sorted(groups, key=_LAST.__eq__):
            with formatter.section(group):
                formatter.write_dl([(first.ljust(width), text) for first, text in groups[group]], col_max=width)
        if len(options) > len(shown):
            formatter.write_paragraph()
            more = len(options) - len(shown)
            formatter.write_text(f"{more} more option{'s' if more > 1 else ''}: lpmert {self.name} --help-all")


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        vars(ctx.command)["everything"] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def command(example: str = "", cls: type[Command] = Command) -> Callable[[Callable[..., Any]], Command]:
    """Return what makes a command of a function whose parameters are dataclasses that state options."""

    def made(function: Callable[..., Any]) -> Command:
        kinds: dict[str, Any] = {name: kind for name, kind in get_type_hints(function).items() if name != "return"}
        stated = {name: parameters(kind) for name, kind in kinds.items()}

        def run(**values: Any) -> Any:
            taken = {name: {one.name: values[one.name] for one in own} for name, own in stated.items()}
            return function(**{name: kinds[name](**own) for name, own in taken.items()})

        params = [one for own in stated.values() for one in own]
        return cls(function.__name__, callback=run, params=params, help=getdoc(function), example=example)

    return made


if TYPE_CHECKING:
    from lpmert.formats.weights import WeightsFile
    from lpmert.model.region import Linear

    NameType = click.ParamType[str]
else:
    NameType = click.ParamType  # which takes no brackets before click 8.4

Value = TypeVar("Value")
Range = tuple[float | None, float | None]

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class WholeNumber(click.IntRange):
    """A whole number, called an integer rather than an integer range in messages."""

    name = "integer"


PATH = click.Path()
POSITIVE, NATURAL, PARTS = WholeNumber(min=1), WholeNumber(min=0), WholeNumber(min=2)


class Registered(NameType):
    """A registered name; module:Name, also from the current folder; or one of the others."""

    def __init__(self, registry: Registry, others: Collection[str] = ()) -> None:
        self.registry, self.name, self.others = registry, registry.kind, others

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Return what stands for the value in the help: there are too many names to list them."""
        return "NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ":" in value:
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
        elif value not in self.others and value not in self.registry.own and value not in self.registry.names():
            self.fail(f"{self.registry.unknown(value, self.others)}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the typed text."""
        del ctx, param
        return [CompletionItem(name) for name in self.registry.names() if name.startswith(incomplete)]


METRIC = Registered(METRICS, TEXT_METRICS)
"""The name of a metric, on statistics or on texts."""


def column_names(text: str) -> tuple[str, ...]:
    """Return names separated by commas; raises `click.BadParameter` for an empty name and for one that occurs twice."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(f"{quoted(text)} has an empty name; give names with a comma between any two.")
    twice = repeated(names)
    if twice is not None:
        raise click.BadParameter(f"{quoted(twice)} is given twice.")
    return names


def method_names(text: str) -> tuple[str, ...]:
    """Return names of methods, separated by commas; raises `click.BadParameter` for others."""
    return tuple(Registered(METHODS).convert(name, None, None) for name in column_names(text))


def pair(text: str) -> tuple[str, str]:
    """Return two names separated by a comma; raises `click.BadParameter` for anything else."""
    match column_names(text):
        case first, second:
            return first, second
    raise click.BadParameter(f"{text} is not two features, such as am,lm.")


def finite(text: str) -> float:
    """Return a finite number; raises `click.BadParameter` for anything else."""
    value = _finite_number(text)
    if value is None:
        raise click.BadParameter(f"{quoted(text)} is not a finite number.")
    return value


def seconds(text: str) -> float:
    """Return a finite number that is at least 0; raises `click.BadParameter` for anything else."""
    value = finite(text)
    if value < 0:
        raise click.BadParameter(f"{quoted(text)} is below 0.")
    return value


def share(text: str) -> float:
    """Return a share from 0 to 1, also written as 5%; raises `click.BadParameter` for anything else."""
    number = text.strip()
    value = seconds(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    if value > 1:
        raise click.BadParameter(f"{quoted(text)} is more than the whole; for 5 % give 0.05 or 5%.")
    return value


def size(text: str) -> int:
    """Return the bytes of a size such as 500MB, 2GiB or 1000000; raises `click.BadParameter` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower(), re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise click.BadParameter(f"{quoted(text)} is not a size; give bytes, or for example 500MB or 2GiB.")
    value = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2]])
    if value == 0:
        raise click.BadParameter(f"{quoted(text)} is less than a byte; give at least one byte.")
    return value


def time_limit(default: str = "none") -> Any:
    """Return the field of a dataclass that is the time limit of a command."""
    return option("SECONDS", f"Stop after this time.  [default: {default}]", seconds)


def memory_limit(of: str) -> Any:
    """Return the field of a dataclass that is the memory limit of a command; of: whose memory."""
    default = "[default: what it holds and 0.9 of what is free]"
    return option("SIZE", f"Most memory of {of}, such as 500MB.  {default}", size, rare=True)


def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression; raises `click.BadParameter` if it is malformed."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}.") from error


def backend(text: str) -> str:
    """Return the name of workers; raises `click.BadParameter` for anything else."""
    from lpmert.errors import MethodError
    from lpmert.workers import checked_backend

    try:
        return checked_backend(text)
    except MethodError as error:
        raise click.BadParameter(f"{error}.") from error


def named(convert: Callable[[str], Value], kind: str) -> Callable[[str], tuple[str, Value]]:
    """Return a function from NAME=VALUE to name and value, which raises `click.BadParameter` for anything else."""

    def parse(text: str) -> tuple[str, Value]:
        name, equals, value = text.partition("=")
        if not (name.strip() and equals and value):
            raise click.BadParameter(f"{quoted(text)} is not NAME={kind}.")
        return name.strip(), convert(value)

    parse.__name__ = f"NAME={kind}"
    return parse


FILE_BY_NAME = named(str, "FILE")
"""A file for a feature or a statistic: NAME=FILE."""

assignment = named(str.strip, "VALUE, such as restarts=20")
"""The value of an option of a method: NAME=VALUE."""


def by_name(pairs: Iterable[tuple[str, Value]], what: str) -> dict[str, Value]:
    """Return values by name; raises `click.UsageError` where a name comes twice."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{what} names {name} twice.")
        found[name] = value
    return found


def _listed_by_name(
    text: str, mark: str, convert: Callable[[str], Value | None], what: str, example: str
) -> dict[str, Value]:
    """Return values by name from pairs with a mark in each and a comma between any two.

    convert: returns `None` for no such value. Raises `click.BadParameter` for anything else.
    """
    found: dict[str, Value] = {}
    for part in text.split(","):
        name, _, given = part.rpartition(mark)
        value = convert(given)
        if not name.strip() or value is None:
            raise click.BadParameter(f"{quoted(part)} is not {what}, such as {example}.")
        if name.strip() in found:
            raise click.BadParameter(f"{quoted(name.strip())} is given twice.")
        found[name.strip()] = value
    return found


def pairs(text: str) -> dict[str, float]:
    """Return numbers by name from ac=1,lm=0.5; raises `click.BadParameter` for anything else."""
    return _listed_by_name(text, "=", _finite_number, "a name with a number", "ac=1,lm=0.5")


def roles(text: str) -> dict[str, str]:
    """Return features by what they are, from acoustic=ac_cost,lm=lm_cost; raises as `pairs`."""
    return _listed_by_name(text, "=", lambda name: name.strip() or None, "a role with a feature", "acoustic=am")


def bounds(text: str) -> dict[str, Range]:
    """Return ranges by name from lm:0..,ctc:0..1,am:..2; raises as `pairs`."""
    return _listed_by_name(text, ":", _range, "a feature with its limits", "lm:0.. or ctc:0..1")


def scale(text: str) -> tuple[str, float]:
    """Return a feature and the weight it shall have, from am=1; raises `click.BadParameter` for anything else."""
    return _named_number(text, "a feature with a weight other than 0, such as am=1", nonzero=True)


def budget(text: str) -> tuple[str, float]:
    """Return a column and the most that it may sum up to, from words=900; raises `click.BadParameter` otherwise."""
    return _named_number(text, "a column with the largest sum that it may have: words=900")


def _named_number(text: str, what: str, *, nonzero: bool = False) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    value = _finite_number(number)
    if not name.strip() or value is None or (nonzero and not value):
        raise click.BadParameter(f"{quoted(text)} is not {what}.")
    return name.strip(), value


def linear(text: str) -> Linear:
    """Return a limit on a sum from lm=1,ctc=-2:0..; raises `click.BadParameter` for anything else."""
    from lpmert.model.region import Linear

    coefficients, _, ends = text.rpartition(":")
    limits = _range(ends)
    if not coefficients or limits is None:
        raise click.BadParameter(f"{quoted(text)} is not a limit on a sum; lm=1,ctc=-2:0.. means lm - 2 ctc >= 0.")
    return Linear(pairs(coefficients), *limits)


def _range(text: str) -> Range | None:
    low, dots, high = text.partition("..")
    ends = [None if not end.strip() else _finite_number(end) for end in (low, high)]
    wrong = any(end.strip() and value is None for end, value in zip((low, high), ends, strict=True))
    return None if not dots or wrong or ends == [None, None] else (ends[0], ends[1])


def _finite_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parse_weights(text: str, features: Sequence[str], option: str) -> WeightsFile:
    """Return weights from a file or from numbers, name=value pairs or JSON, see `given_weights`.

    Raises `click.BadParameter` for this option where a text is no weights, or not those of the features, `DataError`
    where that is so of a file.
    """
    from lpmert.formats.weights import given_weights

    with _as_usage(option, features):
        found: WeightsFile = given_weights(text, option)
        found.of_features(features)
        return found


def scores_by_name(text: str) -> dict[str, float]:
    """Return weights of scores by name, from pairs, JSON or a file; raises as `parse_weights`."""
    from lpmert.formats.weights import given_weights

    with _as_usage("--scales"):
        return dict(given_weights(text, "--scales").by_name)


@contextmanager
def _as_usage(option: str, features: Sequence[str] = ()) -> Iterator[None]:
    """Turn a `DataError` about the text of an option, rather than a file, into wrong usage."""
    from lpmert.errors import DataError

    try:
        yield
    except DataError as error:
        if error.path != option:
            raise
        message = re.sub(rf"^{re.escape(option)}(:\d+)?: ", "", str(error))
        there = f"; the features are {listed(features)}" if features and listed(features) not in message else ""
        raise click.BadParameter(f"{message}{there}.", param_hint=option) from error
