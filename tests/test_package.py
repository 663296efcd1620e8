"""What the package offers by name: everything in its stubs is there, found where it is first used."""

import ast
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


def test_the_public_names_are_those_that_users_need() -> None:
    assert {
        *("minimize", "check", "evaluate", "compare", "certify", "verify", "read", "write", "NBest", "Problem"),
        *("Region", "Linear", "Limits", "Result", "Status", "LpmertError", "RegionError", "methods", "metrics"),
    } <= set(lpmert.__all__)


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
