"""Parsers of option values: functions from text on the command line to a value, which raise `click.BadParameter`.

In TOML files, keys are the long names of options, and values are the same texts; an array stands for an option that is
given several times. Paths are relative to the file.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

import lpmert
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import METHODS, METRICS, TEXT_METRICS, Registry

if TYPE_CHECKING:
    from lpmert.formats.weights import WeightsFile

    NameType = click.ParamType[str]
else:
    NameType = click.ParamType  # cannot be subscripted before click 8.4

Value = TypeVar("Value")
Range = tuple[float | None, float | None]


PATH = click.Path()
POSITIVE, NATURAL, PARTS = click.IntRange(min=1), click.IntRange(min=0), click.IntRange(min=2)


class Registered(NameType):
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


def column_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(f"{quoted(text)} has an empty name; separate names by single commas.")
    twice = repeated(names)
    if twice is not None:
        raise click.BadParameter(f"{quoted(twice)} is given twice.")
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


def by_name(pairs: Iterable[tuple[str, Value]], what: str) -> dict[str, Value]:
    """Return values by name; raises `click.UsageError` if a name is given twice. what: the option, for messages."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{what} names {quoted(name)} twice.")
        found[name] = value
    return found


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
    """Return a parser of items separated by commas to a dictionary; one: the parser of an item."""

    def parse(text: str) -> dict[str, Value]:
        found = [one(part) for part in text.split(",")]
        twice = repeated(name for name, _ in found)
        if twice is not None:
            raise click.BadParameter(f"{quoted(twice)} is given twice.")
        return dict(found)

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


def parse_weights(text: str, features: Sequence[str], option: str) -> WeightsFile:
    """Return weights from a text or a file (`formats.weights.given_weights`); a malformed text is a usage error."""
    from lpmert.formats.weights import given_weights

    with _as_usage(option, features):
        found: WeightsFile = given_weights(text, option)
        found.of_features(features)
        return found


def scores_by_name(text: str) -> dict[str, float]:
    from lpmert.formats.weights import given_weights

    with _as_usage("--scales"):
        return dict(given_weights(text, "--scales").by_name)


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


@contextmanager
def _as_usage(option: str, features: Sequence[str] = ()) -> Iterator[None]:
    """Turn a `DataError` about the text of an option, but not one about a file, into a usage error."""
    try:
        yield
    except lpmert.DataError as error:
        if error.path != option:
            raise
        message = re.sub(rf"^{re.escape(option)}(:\d+)?: ", "", str(error))
        there = f"; the features are {listed(features)}" if features and listed(features) not in message else ""
        raise click.BadParameter(f"{message}{there}.", param_hint=option) from error


OF_FORM: Mapping[str, Any] = {
    **dict.fromkeys(("FILE", "DIR"), PATH),
    **dict.fromkeys(("N", "K"), POSITIVE),
    **dict.fromkeys(("W", "C", "LOSS"), finite),
    **dict.fromkeys(("A,B,C", "WORD,WORD"), column_names),
    **dict.fromkeys(("SECONDS", "X"), seconds),
    "FILE,...": lambda text: text.split(","),
    **{"SHARE": share, "SIZE": size, "REGEX": pattern},
    **{"A=1,B=0.5": pairs, "A=1,B=-2:0..": linear, "AM=1,LM=12": scores_by_name, "NAME=FILE": file_by_name},
    "A:0..,B:0..1": _several(_named(_range, "a feature with its limits, such as lm:0.. or ctc:0..1", ":")),
    "ROLE=FEATURE,...": _several(_named(str.strip, "a role with a feature, such as acoustic=am")),
    "NAME=W": _named(_not_0, "a feature with a weight other than 0: am=1"),
    "COLUMN=MOST": _named(finite, "a column with the largest sum that it may have: words=900"),
    "NAME=VALUE": _named(str.strip, "NAME=VALUE, such as restarts=20", in_value=True),
    "NAME=WEIGHTS": _named(str, "NAME=WEIGHTS", in_value=True),
    "NAME=WORD,WORD": _named(column_names, "NAME=WORD,WORD", in_value=True),
}
"""Types of values, by their form in the help."""


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
