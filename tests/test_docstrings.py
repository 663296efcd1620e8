"""The docstrings of the public functions and classes: complete, in numpydoc's sections, with examples that run."""

import doctest
import inspect
import re
from typing import Any

import pytest
from shared import ROOT

import lpmert

FUNCTIONS = [name for name in lpmert.__all__ if inspect.isfunction(getattr(lpmert, name))]
CLASSES = ["NBest", "Region", "Linear", "Result"]
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def sections(thing: Any) -> dict[str, str]:
    """Return the sections of a docstring by their headings."""
    _, *parts = SECTION.split(inspect.getdoc(thing) or "")
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_every_argument_is_described_in_order(name: str) -> None:
    described = re.findall(r"^([*\w, ]+?)(?: :.*)?$", sections(getattr(lpmert, name))["Parameters"], re.MULTILINE)
    names = [one.strip("*") for line in described if not line.startswith(" ") for one in line.split(", ")]
    assert sorted(names) == sorted(inspect.signature(getattr(lpmert, name)).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_and_raises_is_described(name: str) -> None:
    function = getattr(lpmert, name)
    found = sections(function)
    assert ("Returns" in found) == (inspect.signature(function).return_annotation != "None")
    for error in re.findall(r"\w+", found["Raises"].split("\n")[0]):
        assert issubclass(getattr(lpmert, error), lpmert.LpmertError)


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    thing = getattr(lpmert, name)
    assert ">>> " in sections(thing)["Examples"]
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(thing) or "", {}, name, None, 0)
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(example, out=report.append)
    assert outcome.failed == 0, "".join(report)
