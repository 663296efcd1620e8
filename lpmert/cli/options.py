"""Options of commands, each stated once: as a parameter of a command, or as a field of a dataclass that several share.

Parsing, help and completions are derived from these statements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field, fields
from inspect import getdoc, signature
from typing import Any, get_type_hints

import click

from lpmert.cli import values

_STATED = "lpmert"  # key of an option or argument in the metadata of its field
_LAST = "Output"  # options under this heading come last


def option(spec: str, help: str, type: Any = None, *, default: Any = None, rare: bool = False, **settings: Any) -> Any:
    """Return the default of a parameter or field that states an option.

    The default decides the kind of option: `False` makes a flag; () makes an option that may be repeated, which gives
    a dictionary if its form is NAME=VALUE.

    spec: the flags, unless they follow from the parameter's name, and the form of the value: `-o --output FILE`. type:
    converts the value; it defaults to the type of that form (`values.OF_FORM`). rare: only in `--help-all`. group:
    the heading in the help; it defaults to that of the class or command. All other settings are click's.
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
    """Return the default of a parameter or field that states an argument, by default a file."""
    settings = {"metavar": metavar, "required": True, "type": type, **settings}
    return field(default=None, kw_only=True, metadata={_STATED: ((), False, settings)})


class Option(click.Option):
    def __init__(self, *arguments: Any, group: str, rare: bool, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group, self.rare = group, rare


def parameters(of: Any) -> list[click.Parameter]:
    """Return what a dataclass states; in the help, options are under the `heading` of the class that declares them."""
    found: list[click.Parameter] = []
    for one in fields(of):
        if _STATED in one.metadata:
            owner = next(kind for kind in of.__mro__ if one.name in vars(kind).get("__annotations__", {}))
            found.append(_parameter(one.name, one, getattr(owner, "heading", _LAST)))
    return found


def _parameter(name: str, stated: Field[Any], heading: str) -> click.Parameter:
    flags, rare, settings = stated.metadata[_STATED]
    if "help" not in settings:
        return click.Argument([name], **settings)
    names = [name, *(flags or (f"--{name.replace('_', '-')}",))]
    return Option(names, **{"group": heading, "rare": rare, **settings})


class Command(click.Command):
    """A command whose help shows options in groups: --help the usual ones, --help-all every option and the full text.

    lists_once: whether an option that takes a list, such as A,B,C, may be given only once.
    """

    def __init__(self, *arguments: Any, example: str = "", lists_once: bool = True, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.example, self.lists_once, self.everything = example, lists_once, False
        shown: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_all}
        help = "Show all options and the full description."
        self.params.append(Option(["--help-all"], group=_LAST, rare=False, help=help, **shown))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; refuse a list that is given twice, as click would drop the first one."""
        arguments, self.everything = list(args), False
        rest = super().parse_args(ctx, args)
        order = self.make_parser(ctx).parse_args(arguments)[2] if self.lists_once else []
        for one in order:
            takes_list = isinstance(one, click.Option) and not one.multiple and "," in (one.metavar or "")
            if takes_list and order.count(one) > 1:
                raise click.UsageError(f"{one.opts[-1]} is given twice; name all at once, with commas.", ctx)
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first paragraph of the description, or all of it with --help-all, and an example."""
        whole, self.help = self.help, self.help if self.everything else (self.help or "").partition("\n\n")[0]
        super().format_help_text(ctx, formatter)
        self.help = whole
        if self.example:
            formatter.write(f"\n    lpmert {self.example}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        shown = [one for one in options if self.everything or not getattr(one, "rare", False)]
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
        vars(ctx.command)["everything"] = True
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
    return option("N", "Random seed.", values.NATURAL, default=0, rare=True)


def given_weights() -> Any:
    return option("WEIGHTS", "Numbers, pairs am=1,lm=0.6, or a file.", required=True, group="Data")


def memory_limit() -> Any:
    default = "[default: current use plus 0.9 of free memory]"
    return option("SIZE", f"Memory limit of the process, such as 500MB.  {default}", rare=True)
