"""Options of commands, each stated once, as a field of a frozen dataclass.

What is parsed, the help, manual pages and completions come from there; a command takes objects of these classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from inspect import getdoc
from typing import Any, get_type_hints

import click

_STATED = "lpmert"
_LAST = "Output"
"""Options under this heading come last."""
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+|x>=\d+; ")
"""That a number is positive goes without saying."""
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

    `heading` of the class that has the field is the group of an option.
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
        found.append(Option([one.name, *flags], group=owner.heading, rare=rare, **stated.settings))
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
        """Take the words of the command line; a list that is given twice would lose its first half."""
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
            formatter.write_text(f"{len(options) - len(shown)} more options: lpmert {self.name} --help-all")


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
