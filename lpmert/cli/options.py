"""Options of commands, each stated once: as a parameter of the command, or as a field of a dataclass that several take.

What is parsed, the help, manual pages and completions come from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import Field, field, fields
from inspect import getdoc, signature
from typing import Any, get_type_hints

import click

from lpmert.cli import values

_STATED = "lpmert"
_LAST = "Output"
"""Options under this heading come last."""
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+|x>=\d+; ")
"""Bounds of whole numbers, left out of the help."""
_FIRST_COLUMN = 25
"""Widest first column of the help."""


def option(spec: str, help: str, type: Any = None, *, default: Any = None, rare: bool = False, **settings: Any) -> Any:
    """Return the default of what is an option: a flag where its default is `False`, repeated where it is (), and then
    values by name where they are NAME=VALUE.

    spec: how it is written, if not by its name, and what stands for its value: `-o --output FILE`; type: by default
    what that stands for. rare: shown by `--help-all` and in manual pages alone, as are all options of a class that is
    `rare`; group: its heading in the help, by default that of the class or command. The rest is click's.
    """
    words = spec.split()
    flags = tuple(word for word in words if word.startswith("-"))
    form = " ".join(words[len(flags) :])
    settings |= {"help": help, "default": default, "metavar": form or None, "type": type or values.OF_FORM.get(form)}
    if default is False:
        settings["is_flag"] = True
    if default == () and isinstance(default, tuple):
        settings |= {"multiple": True, "help": f"{help}  [repeatable]"}
        if form.startswith("NAME="):
            settings["callback"] = lambda _, option, pairs: values.by_name(pairs, option.opts[-1])
    if settings.get("required"):
        del settings["default"]
    return field(default=default, kw_only=True, metadata={_STATED: (flags, rare, settings)})


def argument(metavar: str, type: Any = values.PATH, **settings: Any) -> Any:
    """Return the default of what is an argument of a command, by default a file."""
    settings = {"metavar": metavar, "required": True, "type": type, **settings}
    return field(default=None, kw_only=True, metadata={_STATED: ((), False, settings)})


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
        if _STATED in one.metadata:
            owner = next(kind for kind in of.__mro__ if one.name in vars(kind).get("__annotations__", {}))
            heading, rare = getattr(owner, "heading", _LAST), vars(owner).get("rare", False)
            found.append(_parameter(one.name, one, heading, rare=rare))
    return found


def _parameter(name: str, stated: Field[Any], heading: str, *, rare: bool = False) -> click.Parameter:
    flags, own_rare, settings = stated.metadata[_STATED]
    if "help" not in settings:
        return click.Argument([name], **settings)
    names = [name, *(flags or (f"--{name.replace('_', '-')}",))]
    return Option(names, **{"group": heading, "rare": rare or own_rare, **settings})


class Command(click.Command):
    """A command whose help has its options in groups: the usual ones, or with --help-all every one, and all it says.

    lists_once: whether an option with a list, such as A,B,C, must not be given again.
    """

    def __init__(self, *arguments: Any, example: str = "", lists_once: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.example, self.lists_once, self.everything = example, lists_once, False
        shown: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
        help = "Show all options, and details."
        self.params.append(Option(["--help-all"], group=_LAST, rare=False, help=help, **shown))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of the command line; refuse a list given twice, whose first half would be lost."""
        given, self.everything = list(args), False
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


def command(
    example: str = "", cls: type[Command] = Command, heading: str = _LAST, **settings: Any
) -> Callable[[Callable[..., Any]], Command]:
    """Return what makes a command of a function whose parameters are options, or dataclasses that state several.

    heading: of its own options. The exit code is what the function returns, 0 where that is `None`.
    """

    def made(function: Callable[..., Any]) -> Command:
        kinds: dict[str, Any] = get_type_hints(function)
        several: dict[str, list[click.Parameter]] = {}
        every: list[click.Parameter] = []
        for name, one in signature(function).parameters.items():
            if isinstance(one.default, Field):
                every.append(_parameter(name, one.default, heading))
            else:
                several[name] = parameters(kinds[name])
                every += several[name]

        def run(**given: Any) -> None:
            for name, stated in several.items():
                given[name] = kinds[name](**{one.name or "": given.pop(one.name or "") for one in stated})
            code = function(**given)
            if code:
                raise click.exceptions.Exit(code)

        settings["params"] = every
        text = getdoc(function) or ""
        short = " ".join(text.partition("\n\n")[0].split())
        return cls(function.__name__, callback=run, help=text, short_help=short, example=example, **settings)

    return made


def time_limit(default: str = "none") -> Any:
    return option("SECONDS", f"Maximum time.  [default: {default}]")


def given_weights() -> Any:
    return option("WEIGHTS", "Numbers, pairs am=1,lm=0.6, or a file.", required=True, group="Data")


def scale() -> Any:
    return option("NAME=W", "Scale the weights so that this one is W.")


def memory_limit(of: str) -> Any:
    """Return the default of what is the memory limit of a command; of: whose memory."""
    default = "[default: what it holds and 0.9 of what is free]"
    return option("SIZE", f"Most memory of {of}, such as 500MB.  {default}", rare=True)
