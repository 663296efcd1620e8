"""Where the weights of a comparison come from: a method of this package, another tool, or any function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lpmert.errors import DataError, MethodError
from lpmert.formats.weights import given_weights
from lpmert.model.canonical import CallerWeights
from lpmert.quoting import quoted
from lpmert.result import Limits, Status
from lpmert.search.method import Method
from lpmert.unseen.material import AnyProblem, data_of, searched
from lpmert.values import Weights

if TYPE_CHECKING:
    from lpmert.unseen.material import Material

Function = Callable[["Material", int], Weights]
"""Returns weights for lists or lattices and a seed."""


class Given(NamedTuple):
    """Weights [D] of the caller's features, and how the run ended that gave them, if that is known."""

    weights: CallerWeights
    status: Status | None


@dataclass(frozen=True)
class Source:
    """A name in a comparison and how its weights are found from a problem, limits, initial weights [D] and a seed.

    random: whether the seed matters. foreign: whether it is a function of the caller. fixed: whether the weights are
    there already. remembers: whether they hang on earlier runs.
    """

    name: str
    settings: str
    random: bool
    find: Callable[[AnyProblem, Limits, CallerWeights | None, int], Given]
    foreign: bool = False
    fixed: bool = False
    remembers: bool = False


def sources(
    methods: Iterable[tuple[str | None, Method]],
    weights: Mapping[str, Weights | str | Path],
    functions: Mapping[str, Function],
    problem: AnyProblem,
) -> list[Source]:
    """Return what is compared, methods first, under the names given or those that methods have.

    Raises `MethodError` for names that occur twice, `DataError` for weights that do not fit.
    """
    found = [of_method(method, name) for name, method in methods]
    found += [of_weights(name, given, problem) for name, given in weights.items()]
    found += [of_function(name, function) for name, function in functions.items()]
    names = [source.name for source in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise MethodError(f"{quoted(twice[0])} is compared twice; give each its own name")
    if not found:
        raise MethodError("nothing to compare; give at least one method")
    return found


def of_method(method: Method, name: str | None = None) -> Source:
    """Return a method as a source, by default under its name and changed settings."""

    def find(problem: AnyProblem, limits: Limits, initial: CallerWeights | None, seed: int) -> Given:
        result = searched(method, problem, limits, None, seed, initial)
        return Given(CallerWeights(result.weights), result.status)

    return Source(name or method.settings(), method.settings(), method.random, find, remembers=method.remembers)


def of_weights(name: str, weights: Weights | str | Path, problem: AnyProblem) -> Source:
    """Return weights [D] that are there already; raises `DataError` unless they fit."""
    try:
        given = Given(problem.checked_weights(given_weights(weights, name)), None)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    return Source(name, "weights", False, lambda *_: given, fixed=True)


def of_function(name: str, function: Function) -> Source:
    """Return a function of lists and seed as a source."""

    def find(problem: AnyProblem, _limits: Limits, _initial: CallerWeights | None, seed: int) -> Given:
        return Given(problem.checked_weights(given_weights(function(data_of(problem), seed), name)), None)

    return Source(name, "function", True, find, foreign=True)
