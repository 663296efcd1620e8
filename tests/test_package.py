"""What the package offers by name: everything in its stubs is there, and public docstrings are complete and run."""

import ast
import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from shared import ROOT

import lpmert
from lpmert import DataError, MethodError, NBest, core

LISTS = NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
STUBS = [stub.relative_to(ROOT).with_suffix("") for stub in sorted((ROOT / "lpmert").rglob("*.pyi"))]
MODULES = [".".join(stub.parts).removesuffix(".__init__") for stub in STUBS]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_stub_is_found_and_nothing_else(module: str) -> None:
    imported = import_module(module)
    assert imported.__all__, module
    for name in imported.__all__:
        assert getattr(imported, name) is not None
        assert name in dir(imported)
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nothing'"):
        _ = imported.nothing


def test_the_stub_of_the_core_has_what_is_compiled_and_nothing_else() -> None:
    stub = ast.parse((ROOT / "lpmert" / "core" / "__init__.pyi").read_text(encoding="utf-8"))
    stated = {one.name for one in stub.body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    stated |= {ast.unparse(one.target) for one in stub.body if isinstance(one, ast.AnnAssign)}
    assert {name for name in stated if not name.startswith("_")} == set(core.__all__)
    for one in stub.body:
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
            methods = {method.name for method in ast.walk(one) if isinstance(method, ast.FunctionDef)}
            assert methods <= set(dir(getattr(core, one.name)))


def test_no_module_has_the_name_of_a_public_function() -> None:
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "lpmert").rglob("*.py")}
    functions = {name for name in lpmert.__all__ if callable(getattr(lpmert, name))}
    assert {"minimize", "compare", "verify"} <= functions
    assert not {f"lpmert.{name}" for name in functions} & modules


@pytest.mark.parametrize("given", [5, lpmert.Lattices([[1.0]], [0, 1], [0], [1], ["a"], ["a"])], ids=["5", "lattices"])
def test_what_is_no_lists_is_told_with_the_remedy(given: Any, tmp_path: Path) -> None:
    remedy = r"must be an NBest, not \w+; make one with lpmert.read\(...\) of files and data frames"
    for call in (
        lambda: lpmert.rerank(given, [1.0]),
        lambda: lpmert.rerank(given, [1.0], vote=True),
        lambda: lpmert.vote(given),
        lambda: lpmert.write(given, tmp_path / "x.npz"),
        *([lambda: lpmert.tune(given), lambda: lpmert.minimize(given)] if given == 5 else []),
    ):
        with pytest.raises(DataError, match=remedy):
            call()
    with pytest.raises(MethodError, match=r"averaging must be an lpmert\.methods\.Averaging, or None; got 'average'"):
        lpmert.tune(LISTS, averaging="average")
    with pytest.raises(DataError, match="results must be a sequence, not 5"):
        lpmert.report(5, tmp_path / "x.html")


FUNCTIONS = [name for name in lpmert.__all__ if inspect.isfunction(getattr(lpmert, name))]
CLASSES = ["NBest", "Region", "Linear", "Result"]
SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)


def sections(thing: Any) -> dict[str, str]:
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
