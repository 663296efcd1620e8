"""What the values on the command line mean: names, numbers, sizes, and weights as people write them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from lpmert.cli.console import Scale
from lpmert.quoting import quoted

if TYPE_CHECKING:
    from lpmert.model.region import Linear

Range = tuple[float | None, float | None]

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def column_names(text: str) -> tuple[str, ...]:
    """Return names separated by commas; raises `click.BadParameter` for an empty name and for one that occurs twice."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise click.BadParameter(
            f"{quoted(text)} has an empty name; give names separated by commas, such as decoder,lm."
        )
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise click.BadParameter(f"{quoted(twice[0])} is given twice.")
    return names


def finite(text: str) -> float:
    """Return a finite number; raises `click.BadParameter` for anything else."""
    value = _finite_number(text)
    if value is None:
        raise click.BadParameter(f"{quoted(text)} is not a finite number.")
    return value


def nonnegative(text: str) -> float:
    """Return a finite number that is at least 0; raises `click.BadParameter` for anything else."""
    value = finite(text)
    if value < 0:
        raise click.BadParameter(f"{text} is below 0.")
    return value


def assignment(text: str) -> tuple[str, str]:
    """Return name and value from restarts=20; raises `click.BadParameter` for anything else."""
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{quoted(text)} is not of the form NAME=VALUE, such as restarts=20.")
    return name.strip(), value.strip()


def size(text: str) -> int:
    """Return the bytes of a size such as 500MB, 2GiB or 1000000; raises `click.BadParameter` for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower(), re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise click.BadParameter(f"{quoted(text)} is not a size; give bytes, or for example 500MB or 2GiB.")
    value = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2]])
    if value == 0:
        raise click.BadParameter(f"{quoted(text)} is less than a byte; give at least one byte.")
    return value


def scale(text: str) -> Scale:
    """Return a feature and the weight it shall have, from am=1; raises `click.BadParameter` for anything else."""
    name, _, number = text.rpartition("=")
    value = _finite_number(number)
    if not name.strip() or not value:
        raise click.BadParameter(f"{quoted(text)} is not a feature with a weight other than 0, such as am=1.")
    return Scale(name.strip(), value)


def bounds(text: str) -> dict[str, Range]:
    """Return ranges by name from lm:0..,ctc:0..1,am:..2; raises `click.BadParameter` for anything else."""
    found: dict[str, Range] = {}
    for part in text.split(","):
        name, _, ends = part.rpartition(":")
        limits = _range(ends)
        if not name.strip() or limits is None:
            raise click.BadParameter(f"{quoted(part)} is not a feature with its limits, such as lm:0.. or ctc:0..1.")
        if name.strip() in found:
            raise click.BadParameter(f"{quoted(name.strip())} is given twice.")
        found[name.strip()] = limits
    return found


def pairs(text: str) -> dict[str, float]:
    """Return numbers by name from ac=1,lm=0.5; raises `click.BadParameter` for anything else."""
    named = _named_weights([part.strip() for part in text.split(",")])
    if named is None:
        raise click.BadParameter(f"{quoted(text)} is not a list of features with a number each, such as ac=1,lm=0.5.")
    return named


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


def parse_weights(text: str, features: Sequence[str], option: str) -> list[float]:
    """Return one weight for each feature from numbers, from name=value pairs, or from a JSON file that `solve` wrote.

    Raises `click.BadParameter` for this option where the weights do not fit the features, `DataError` for a bad file.
    """
    parts = [part.strip() for part in text.split(",")]
    plain = [_finite_number(part) for part in parts]
    if None not in plain:
        weights = [weight for weight in plain if weight is not None]
        if len(weights) != len(features):
            count = "1 number" if len(weights) == 1 else f"{len(weights)} numbers"
            raise click.BadParameter(
                f"{count} for {len(features)} features ({', '.join(features)}).", param_hint=option
            )
        return weights
    named = _named_weights(parts)
    if text.endswith(".json") or os.path.exists(text):
        named = _weights_of_file(text)
    if named is None:
        raise click.BadParameter(
            f"{quoted(text)} is neither finite numbers, nor name=value pairs with each name once, nor a JSON file; "
            f"the features are {', '.join(features)}.",
            param_hint=option,
        )
    return _in_order(named, features, option)


def _in_order(named: Mapping[str, float], features: Sequence[str], option: str) -> list[float]:
    missing = [name for name in features if name not in named]
    unknown = [name for name in named if name not in features]
    if missing or unknown:
        faults = [
            f"{what} {', '.join(names)}"
            for what, names in (("no weight for", missing), ("no feature", unknown))
            if names
        ]
        raise click.BadParameter(f"{' and '.join(faults)}; the features are {', '.join(features)}.", param_hint=option)
    return [named[name] for name in features]


def _named_weights(parts: Sequence[str]) -> dict[str, float] | None:
    named = {}
    for part in parts:
        name, _, text = part.rpartition("=")
        weight = _finite_number(text)
        if weight is None or not name.strip() or name.strip() in named:
            return None
        named[name.strip()] = weight
    return named


def _weights_of_file(path: str) -> dict[str, float]:
    from lpmert.errors import DataError
    from lpmert.system.files import read_text

    try:
        return {name: float(weight) for name, weight in json.loads(read_text(path))["weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError("contains no weights by name; give a file written by `lpmert solve -o`", path=path) from error


def _finite_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
