"""Every test asserts something, and those that look at the clock run alone."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

FILES = sorted(Path(__file__).resolve().parent.rglob("*.py"))
RAISING = {"raises", "warns", "fail"}
CLOCKS = {"perf_counter", "time.time"}  # time.monotonic is for patience with what may hang


class Place(NamedTuple):
    """A function, and the file that defines it."""

    path: Path
    function: ast.FunctionDef


@cache
def functions(path: Path) -> dict[str, list[Place]]:
    """The functions of a file by name, of whatever class, and those that it imports from our other files."""
    found: dict[str, list[Place]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(Place(path, node))
        elif isinstance(node, ast.ImportFrom) and (source := path.with_name(f"{node.module}.py")) in FILES:
            for name in node.names:
                found.setdefault(name.asname or name.name, []).extend(functions(source).get(name.name, []))
    return found


@cache
def named(function: ast.FunctionDef) -> set[str]:
    """Every name in a function, with those of attributes also together with what they are attributes of."""
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            names |= {node.attr, ast.unparse(node)}
    return names


@cache
def reached(test: Place) -> list[ast.FunctionDef]:
    """The function and all helpers that it names, and those that they name."""
    found = [test]
    for place in found:
        known = functions(place.path)
        helpers = [helper for name in sorted(named(place.function) & known.keys()) for helper in known[name]]
        found += [one for one in helpers if one not in found and not one.function.name.startswith("test")]
    return [place.function for place in found]


@cache
def asserts(function: ast.FunctionDef) -> bool:
    names = {name for name in named(function) if name in RAISING or name.startswith("assert_")}
    return bool(names) or any(isinstance(node, ast.Assert) for node in ast.walk(function))


def marks(function: ast.FunctionDef) -> set[str]:
    texts = (ast.unparse(decorator).split("(")[0] for decorator in function.decorator_list)
    return {text.removeprefix("pytest.mark.") for text in texts if text.startswith("pytest.mark.")}


@cache
def every_test() -> list[Place]:
    found = ((path, name, place) for path in FILES for name, same in functions(path).items() for place in same)
    return [place for path, name, place in found if name.startswith("test_") and place.path == path]


def test_every_test_asserts_something() -> None:
    assert len(every_test()) > 900
    assert [test.function.name for test in every_test() if not any(map(asserts, reached(test)))] == []


def test_tests_that_look_at_the_clock_run_alone() -> None:
    """Beside others they fail for want of a processor."""
    timed = [test for test in every_test() if any(named(one) & CLOCKS for one in reached(test))]
    assert timed
    assert [test.function.name for test in timed if "serial" not in marks(test.function)] == []
