"""Options of methods and metrics. An option of a method is declared once, as a field of the method's class.

The signature and docstring in Python, the checks of values, `--set` and `lpmert methods` all come from that field. The
options of a metric are the parameters of the class or function that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from inspect import signature
from numbers import Integral
from operator import ge, gt, index, le, lt
from textwrap import fill
from typing import Any, ClassVar, Self, TypeVar

from lpmert.errors import MethodError
from lpmert.quoting import listed, quoted
from lpmert.values import real_number

Value = TypeVar("Value")

_METADATA = "lpmert"
_KINDS: Mapping[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_WORDS: Mapping[type, str] = {bool: "yes or no", int: "a whole number", float: "a number", str: "a text"}
_CONVERTED: Mapping[type, Callable[[Any], Any]] = {
    bool: lambda value: bool(value) if type(value).__name__ in ("bool", "bool_") else None,
    int: lambda value: None if isinstance(value, bool) or not isinstance(value, Integral) else index(value),
    float: real_number,
    str: lambda value: value if isinstance(value, str) else None,
}
"""Values of Python and numpy as those of a type; `None` for all others."""
_TRUTH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


@dataclass(frozen=True)
class Option:
    """An option of a method or metric.

    kind: the type of its values; `None` unless they are numbers, truth values or texts. For such values form tells how
    they are written on the command line, and parse reads them, or raises `ValueError`. choices: the texts allowed.
    """

    name: str = ""
    default: Any = None
    kind: type | None = None
    optional: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    form: str = ""
    parse: Callable[[str], Any] | None = None

    @property
    def allowed(self) -> str:
        ends = [f"{word} {end:g}" for word, end, _ in self._ends]
        what = self.form if self.kind is None else _WORDS[self.kind]
        words = f"one of {', '.join(self.choices)}" if self.choices else " ".join([what, " and ".join(ends)]).rstrip()
        return f"{words}, or none" if self.optional else words

    def checked(self, value: Any, owner: str) -> Any:
        """Convert a value of Python or numpy to this option's type; raises `MethodError`, which names its owner."""
        if (value is None and self.optional) or self.kind is None:
            return value
        found = _CONVERTED[self.kind](value)
        allowed = found is not None and found == found and (not self.choices or found in self.choices)
        if not allowed or not all(holds(found, end) for _, end, holds in self._ends):
            raise self._refused(value, owner)
        return found

    def of_text(self, text: str, owner: str) -> Any:
        """Return the value that a text of the command line stands for; raises `MethodError` if it is not allowed."""
        value: Any = text
        if self.optional and text.lower() == "none":
            return None
        try:
            if self.parse is not None:
                value = self.parse(text)
            elif self.kind is None:
                raise MethodError(f"option {self.name} of {owner} is set from Python only")
            elif self.kind is bool:
                value = _TRUTH.get(text.lower(), text)
            elif self.kind in (int, float):
                value = self.kind(text)
        except ValueError as error:
            raise self._refused(text, owner) from error
        return self.checked(value, owner)

    @property
    def _ends(self) -> list[tuple[str, float, Callable[[Any, Any], bool]]]:
        """The ends of the range of a number: in words, as a number, and the comparison that holds within."""
        ends = (self.least, self.above, self.most, self.below)
        every = zip(("of at least", "above", "at most", "below"), ends, (ge, gt, le, lt), strict=True)
        return [(word, end, holds) for word, end, holds in every if end is not None]

    def _refused(self, value: Any, owner: str) -> MethodError:
        return MethodError(f"option {self.name} of {owner} must be {self.allowed}; got {quoted(value)}")


def option(default: Value, help: str, **settings: Any) -> Value:
    """Return a dataclass field that declares an option; settings: the other fields of `Option`."""
    found: Value = field(default=default, metadata={_METADATA: Option(help=help, **settings)})
    return found


class Configurable:
    """Base of methods: a frozen dataclass whose fields are the options of the method."""

    name: ClassVar[str]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = {name: one for name, one in vars(cls).items() if isinstance(one, Field) and _METADATA in one.metadata}
        if cls.__doc__ and own:
            lines = ["", "    Parameters", "    ----------"]
            for name, one in own.items():
                one.name = name  # as `dataclass` will do
                described = _option_of(one, cls.__annotations__[name])
                lines.append(f"    {name} : {described.allowed}, default {described.default!r}")
                lines.append(fill(described.help, 112, initial_indent=8 * " ", subsequent_indent=8 * " "))
            cls.__doc__ = cls.__doc__.rstrip() + "\n".join(["", *lines, "    "])

    def __post_init__(self) -> None:
        """Check the options, and convert numbers of numpy to numbers of Python."""
        for one in _own_options(type(self)):
            object.__setattr__(self, one.name, one.checked(getattr(self, one.name), self._owner))

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """Return the options; an option of a method that is itself an option is named `method.option`."""
        found: list[Option] = []
        for one in _own_options(cls):
            inner = one.default.options() if isinstance(one.default, Configurable) else None
            found += [one] if inner is None else [replace(own, name=f"{one.name}.{own.name}") for own in inner]
        return tuple(found)

    def configured(self, texts: Mapping[str, str]) -> Self:
        """Return the method with changed options, given by name as texts of the command line; raises `MethodError`."""
        known = _known(self.options(), texts, self._owner)
        changes: dict[str, Any] = {}
        for name, text in texts.items():
            first, _, rest = name.partition(".")
            if rest:
                changes[first] = changes.get(first, getattr(self, first)).configured({rest: text})
            else:
                changes[name] = known[name].of_text(text, self._owner)
        return replace(self, **changes)  # type: ignore[type-var]

    @property
    def _owner(self) -> str:
        return f"method {quoted(self.name)}"

    def settings(self) -> str:
        """Return the method's name and its options that differ from their defaults, for the signature of results."""
        values = [(one.name, getattr(self, one.name), one.default) for one in _own_options(type(self))]
        changed = ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)
        return f"{self.name}({changed})" if changed else self.name


def parameters(of: Any) -> tuple[Option, ...]:
    """Return the parameters of a class, function or dataclass whose defaults are numbers, truth values or texts."""
    made = not callable(of)
    found = []
    for one in signature(type(of) if made else of).parameters.values():
        option = _option(one.name, one.annotation, getattr(of, one.name, None) if made else one.default)
        if one.default is not one.empty and option.kind is not None:
            found.append(option)
    return tuple(found)


def with_parameters(of: Any, texts: Mapping[str, str], owner: str) -> Any:
    """Call a class or function with options as texts, or change these in an object; raises `MethodError`."""
    known = _known(parameters(of), texts, owner)
    values = {name: known[name].of_text(text, owner) for name, text in texts.items()}
    return of(**values) if callable(of) else replace(of, **values)


def _known(options: Iterable[Option], texts: Iterable[str], owner: str) -> dict[str, Option]:
    known = {one.name: one for one in options}
    for name in texts:
        if name not in known:
            there = f"its options are {listed(known)}" if known else "it has none"
            raise MethodError(f"{owner} has no option {quoted(name)}; {there}")
    return known


def _declared_options(cls: Any) -> tuple[Option, ...]:
    own = (one for one in fields(cls) if one.compare or _METADATA in one.metadata)
    return tuple(_option_of(one, one.type) for one in own)


_own_options: Callable[[Any], tuple[Option, ...]] = cache(_declared_options)


def _option_of(declared: Field[Any], annotation: Any) -> Option:
    default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
    return _option(declared.name, annotation, default, declared.metadata.get(_METADATA, Option()))


def _option(name: str, annotation: Any, default: Any, declared: Option = Option()) -> Option:
    kinds = {word.strip() for word in str(getattr(annotation, "__name__", annotation)).split("|")}
    kind = _KINDS.get(", ".join(kinds - {"None"}))
    return replace(declared, name=name, default=default, kind=kind, optional="None" in kinds)
