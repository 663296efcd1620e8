"""Options of commands: their values, their statements, and the help.

Each option is stated once: as a parameter of a command, or as a field of a dataclass that several commands share.
Parsing, help and completions are derived from these statements.

In TOML files, keys are the long names of options, and values are the same texts; an array stands for an option that is
given several times. Paths are relative to the file.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import Field, field, fields
from inspect import getdoc, signature
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import click
from click.shell_completion import CompletionItem

import lpmert
from lpmert.quoting import quoted, repeated
from lpmert.registry import METHODS, METRICS, TEXT_METRICS, Registry

Value = TypeVar("Value")
Range = tuple[float | None, float | None]


PATH = click.Path()
POSITIVE, NATURAL, PARTS = click.IntRange(min=1), click.IntRange(min=0), click.IntRange(min=2)


class Registered(click.ParamType):  # type: ignore[type-arg]  # it has arguments from click 8.4 on
    """A registered name, `module:Name` (also of a module in the current folder), or one of `others`."""

    def __init__(self, registry: Registry, others: Collection[str] = ()) -> None:
        self.registry, self.name, self.others = registry, registry.kind, others

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ":" in value:
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
        elif value not in self.others and value not in self.registry.own and value not in self.registry.names():
            self.fail(f"{self.registry.unknown(value, self.others)}.", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        return [CompletionItem(name) for name in self.registry.names() if name.startswith(incomplete)]


METRIC = Registered(METRICS, TEXT_METRICS)  # a metric on statistics or on texts


def _once(names: Sequence[str]) -> None:
    twice = repeated(names)
    if twice is not None:
        raise click.BadParameter(f"{quoted(twice)} is given twice.")


def column_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(f"{quoted(text)} has an empty name; separate names by single commas.")
    _once(names)
    return names


def method_names(text: str) -> tuple[str, ...]:
    return tuple(Registered(METHODS).convert(name, None, None) for name in column_names(text))


def finite(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise click.BadParameter(f"{quoted(text)} is not a finite number.")


def seconds(text: str) -> float:
    value = finite(text)
    if value < 0:
        raise click.BadParameter(f"{quoted(text)} is below 0.")
    return value


def share(text: str) -> float:
    number = text.strip()
    value = seconds(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    if value > 1:
        raise click.BadParameter(f"{quoted(text)} is more than the whole; for 5 % give 0.05 or 5%.")
    return value


def size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower(), re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise click.BadParameter(f"{quoted(text)} is not a size; give bytes, or for example 500MB or 2GiB.")
    value = int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))
    if value == 0:
        raise click.BadParameter(f"{quoted(text)} is less than a byte; give at least one byte.")
    return value


def pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}.") from error


def backend(text: str) -> str:
    from lpmert.workers import checked_backend

    with refusing():
        return checked_backend(text)


def by_name(pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    _once([name for name, _ in pairs])
    return dict(pairs)


def _range(text: str) -> Range:
    low, dots, high = text.partition("..")
    if not dots or not (low.strip() or high.strip()):
        raise click.BadParameter(f"{quoted(text)} is not a range.")
    return finite(low) if low.strip() else None, finite(high) if high.strip() else None


def _named(
    convert: Callable[[str], Value], what: str, mark: str = "=", *, in_value: bool = False
) -> Callable[[str], tuple[str, Value]]:
    """Return a parser of NAME=VALUE to name and value, neither of which is empty.

    what: a valid text, for messages. in_value: whether the value, rather than the name, may contain the mark.
    """

    def parse(text: str) -> tuple[str, Value]:
        name, _, value = text.partition(mark) if in_value else text.rpartition(mark)
        with suppress(click.BadParameter):
            if name.strip() and value.strip():
                return name.strip(), convert(value)
        raise click.BadParameter(f"{quoted(text)} is not {what}.")

    return parse


def _several(one: Callable[[str], tuple[str, Value]]) -> Callable[[str], dict[str, Value]]:
    def parse(text: str) -> dict[str, Value]:
        return by_name([one(part) for part in text.split(",")])

    return parse


file_by_name = _named(str, "NAME=FILE", in_value=True)
pairs = _several(_named(finite, "a name with a number, such as ac=1,lm=0.5"))
_linear = _named(_range, "a limit on a sum; lm=1,ctc=-2:0.. means lm - 2 ctc >= 0", ":")


def linear(text: str) -> lpmert.Linear:
    coefficients, limits = _linear(text)
    return lpmert.Linear(pairs(coefficients), *limits)


def _not_0(text: str) -> float:
    value = finite(text)
    if value == 0:
        raise click.BadParameter(f"{quoted(text)} is 0.")
    return value


def weights_of(text: str | None, option: str = "--weights") -> Any:
    """Return weights from a text or a file (`formats.weights.given_weights`); `None` without a text."""
    from lpmert.formats.weights import given_weights

    return given_weights(text, option)


@contextmanager
def refusing(option: str | None = None, see: str = "") -> Iterator[None]:
    """Turn an error about the value of an option into a usage error.

    option: its flag, or `None` while click converts the value and adds the flag itself. see: the command that lists
    valid values.
    """
    try:
        yield
    except lpmert.LpmertError as error:
        raise click.BadParameter(f"{error}.{see and f' See `{see}`.'}", param_hint=option) from error


OF_FORM: Mapping[str, Any] = {
    **dict.fromkeys(("FILE", "DIR"), PATH),
    **dict.fromkeys(("N", "K"), POSITIVE),
    **dict.fromkeys(("W", "C", "LOSS"), finite),
    **dict.fromkeys(("A,B,C", "WORD,WORD"), column_names),
    **dict.fromkeys(("SECONDS", "X"), seconds),
    "FILE,...": lambda text: text.split(","),
    **{"SHARE": share, "SIZE": size, "REGEX": pattern},
    **{"A=1,B=0.5": pairs, "A=1,B=-2:0..": linear, "NAME=FILE": file_by_name},
    "AM=1,LM=12": lambda text: dict(weights_of(text, "--scales").by_name),
    "A:0..,B:0..1": _several(_named(_range, "a feature with its limits, such as lm:0.. or ctc:0..1", ":")),
    "ROLE=FEATURE,...": _several(_named(str.strip, "a role with a feature, such as acoustic=am")),
    "NAME=W": _named(_not_0, "a feature with a weight other than 0: am=1"),
    "COLUMN=MOST": _named(finite, "a column with the largest sum that it may have: words=900"),
    "NAME=VALUE": _named(str.strip, "NAME=VALUE, such as restarts=20", in_value=True),
    "NAME=WEIGHTS": _named(str, "NAME=WEIGHTS", in_value=True),
    "NAME=WORD,WORD": _named(column_names, "NAME=WORD,WORD", in_value=True),
}
"""Types of values, by their form in the help."""


_STATED = "lpmert"  # key of an option or argument in the metadata of its field
_LAST = "Output"  # options under this heading come last
_EVERYTHING = "lpmert.everything"  # key in the `meta` of click's context if --help-all is given


def option(spec: str, help: str, type: Any = None, *, default: Any = None, rare: bool = False, **settings: Any) -> Any:
    """Return the default of a parameter or field that states an option.

    The default decides the kind of option: `False` makes a flag; () makes an option that may be repeated, which gives
    a dictionary if its form is NAME=VALUE.

    spec: the flags, unless they follow from the parameter's name, and the form of the value: `-o --output FILE`. type:
    converts the value; it defaults to the type of that form (`OF_FORM`). rare: only in `--help-all`. group: the heading
    in the help; it defaults to that of the class or command. All other settings are click's.
    """
    words = spec.split()
    flags = tuple(word for word in words if word.startswith("-"))
    form = " ".join(words[len(flags) :])
    settings |= {"help": help, "default": default, "metavar": form or None, "type": type or OF_FORM.get(form)}
    if default is False:
        settings["is_flag"] = True
    if default == () and isinstance(default, tuple):
        settings |= {"multiple": True, "help": f"{help}  [repeatable]"}
        if form.startswith("NAME="):
            settings["callback"] = lambda _context, _option, pairs: by_name(pairs)
    if settings.get("required"):
        del settings["default"]
    return field(default=default, kw_only=True, metadata={_STATED: (flags, rare, settings)})


def argument(metavar: str, type: Any = PATH, **settings: Any) -> Any:
    settings = {"metavar": metavar, "required": True, "type": type, **settings}
    return field(default=None, kw_only=True, metadata={_STATED: ((), False, settings)})


def parameters(of: Any) -> list[click.Parameter]:
    """Return what a dataclass states; in the help, options are under the `heading` of the class that declares them."""
    found: list[click.Parameter] = []
    for one in fields(of):
        if _STATED in one.metadata:
            owner = next(kind for kind in of.__mro__ if one.name in vars(kind).get("__annotations__", {}))
            found.append(_parameter(one.name, one, getattr(owner, "heading", _LAST)))
    return found


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _parameter(name: str, stated: Field[Any], heading: str) -> click.Parameter:
    flags, rare, settings = stated.metadata[_STATED]
    if "help" not in settings:
        return click.Argument([name], **settings)
    settings = dict(settings)
    group = settings.pop("group", heading)
    found = click.Option([name, *(flags or (flag(name),))], **settings)
    vars(found).update(group=group, rare=rare)  # for the help
    return found


class Command(click.Command):
    """A command whose help shows options in groups: --help the usual ones, --help-all every option and the full text.

    lists_once: whether an option that takes a list, such as A,B,C, may be given only once.
    """

    def __init__(self, *arguments: Any, example: str = "", lists_once: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.example, self.lists_once = example, lists_once
        shown: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
        help = "Show all options and the full description."
        self.params.append(click.Option(["--help-all"], help=help, **shown))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; refuse a list that is given twice, as click would drop the first one."""
        arguments = list(args)
        rest = super().parse_args(ctx, args)
        order = self.make_parser(ctx).parse_args(arguments)[2] if self.lists_once else []
        for one in order:
            takes_list = isinstance(one, click.Option) and not one.multiple and "," in (one.metavar or "")
            if takes_list and order.count(one) > 1:
                raise click.UsageError(f"{one.opts[-1]} is given twice; name all at once, with commas.", ctx)
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first paragraph of the description, or all of it with --help-all, and an example."""
        text = self.help or ""
        self.help = text if _EVERYTHING in ctx.meta else text.partition("\n\n")[0]
        super().format_help_text(ctx, formatter)
        self.help = text
        if self.example:
            formatter.write(f"\n    lpmert {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        shown = [one for one in options if _EVERYTHING in ctx.meta or not getattr(one, "rare", False)]
        for one in shown:
            first, text = one.get_help_record(ctx) or ("", "")
            groups.setdefault(getattr(one, "group", _LAST), []).append((first, text))
        for group in sorted(groups, key=_LAST.__eq__):
            with formatter.section(group):
                formatter.write_dl(groups[group])
        if len(options) > len(shown):
            formatter.write_paragraph()
            more = len(options) - len(shown)
            formatter.write_text(f"{more} more option{'s' if more > 1 else ''}: lpmert {self.name} --help-all")


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_EVERYTHING] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def command(
    example: str = "", cls: type[Command] = Command, heading: str = _LAST, **settings: Any
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command of a function.

    Each parameter of the function is an option, an argument, or a dataclass that states several. The function returns
    the exit code, or `None` for 0. heading: that of the options which are parameters.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        kinds: dict[str, Any] = get_type_hints(function)
        by_class: dict[str, list[click.Parameter]] = {}
        every: list[click.Parameter] = []
        for name, one in signature(function).parameters.items():
            if isinstance(one.default, Field):
                every.append(_parameter(name, one.default, heading))
            else:
                by_class[name] = parameters(kinds[name])
                every += by_class[name]

        def run(**arguments: Any) -> None:
            for name, stated in by_class.items():
                arguments[name] = kinds[name](**{one.name or "": arguments.pop(one.name or "") for one in stated})
            code = function(**arguments)
            if code:
                raise click.exceptions.Exit(code)

        settings["params"] = every
        text = getdoc(function) or ""
        short = " ".join(text.partition("\n\n")[0].split())
        name = function.__name__.replace("_", "-")
        return cls(name, callback=run, help=text, short_help=short, example=example, **settings)

    return decorate


def time_limit(default: str = "none") -> Any:
    return option("SECONDS", f"Time limit.  [default: {default}]")


def seed() -> Any:
    return option("N", "Random seed.", NATURAL, default=0, rare=True)


def given_weights() -> Any:
    return option("WEIGHTS", "Numbers, pairs am=1,lm=0.6, or a file.", required=True, group="Data")


def initial_weights() -> Any:
    return option("WEIGHTS", "Start here; same syntax as `lpmert check --weights`.", rare=True, group="Search")


def memory_limit() -> Any:
    default = "[default: current use plus 0.9 of free memory]"
    return option("SIZE", f"Memory limit of the process, such as 500MB.  {default}", rare=True)


def read_toml(path: str | Path) -> dict[str, Any]:
    import tomllib

    from lpmert.files import read_text

    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # also for numbers too long and tables too deep for Python
        raise lpmert.DataError(f"not TOML: {error}", path=path) from error


def check_keys(table: Any, known: Collection[str], path: str | Path, where: str = "") -> None:
    """Raise `DataError` unless a value is a table with known keys only; where: the name of the table, with a dot."""
    if not isinstance(table, dict):
        raise lpmert.DataError(f"{where.removesuffix('.')} must be a table, not {quoted(table)}", path=path)
    for key in table:
        if key not in known:
            raise lpmert.DataError(f"no key {quoted(where + key)}; there are {', '.join(known)}", path=path)


def values_of(
    table: Mapping[str, Any], known: Mapping[str, click.Parameter], path: str | Path, where: str = ""
) -> dict[str, Any]:
    """Return the values of options by parameter; known: the options by key. An error names the file and the key."""
    check_keys(table, known, path, where)
    found = dict[str, Any]()
    ctx = cast(click.Context, click.get_current_context(silent=True))  # for messages only
    for key, value in table.items():
        one = known[key]
        try:
            found[one.name or ""] = one.process_value(ctx, _as_on_command_line(key, value, one, Path(path).parent))
        except (click.UsageError, lpmert.LpmertError, ValueError) as error:  # ValueError: a null character in a path
            reason = error.message or "must not be empty" if isinstance(error, click.UsageError) else str(error)
            raise lpmert.DataError(f"{where}{key}: {reason}", path=path) from error
    return found


def _as_on_command_line(key: str, value: Any, option: click.Parameter, folder: Path) -> Any:
    """Return a value of the file as click gets it from the command line: a text, several texts, or a flag."""
    if isinstance(option, click.Option) and option.is_flag:
        if not isinstance(value, bool):
            raise click.UsageError(f"must be true or false, not {quoted(value)}")
        return value
    several, form = option.multiple or option.nargs < 0, option.metavar or ""
    texts = []
    for one in value if several and isinstance(value, list) else [value]:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            array = "; several of them are an array" if several else ""
            trouble = f"must be a text as on the command line, or a number, not {quoted(value)}"
            raise click.UsageError(f"{trouble}{array}")
        if key == "set" and not str(one).startswith("metric."):
            trouble = f"{quoted(one)} is not an option of the metric"
            raise click.UsageError(f"{trouble}; give those of the method on the command line (--set)")
        name, mark, file = str(one).rpartition("=") if form in ("DATA...", "NAME=FILE") else ("", "", str(one))
        perhaps = key in ("scores", "scales", "around")  # which also take names or numbers
        is_path = form in ("FILE", "DATA...", "NAME=FILE") or (perhaps and (folder / file).exists())
        texts.append(f"{name}{mark}{folder / file}" if is_path and file != "-" else str(one))
    return texts if several else texts[0]
