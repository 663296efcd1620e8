"""Imports go down the layers that CONTRIBUTING.md draws, without a circle; every test asserts something."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

from shared import ROOT

PACKAGE = ROOT / "lpmert"
FACES = ("lpmert", "lpmert.__main__", "lpmert.methods", "lpmert.metrics", "lpmert.formats")
"""What users import: they show names of all floors, each imported where it is first used."""


_NAMES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
MODULES = {name.removesuffix(".__init__"): path for path, name in _NAMES.items()}


def _imported(module: str, path: Path, *, types: bool) -> Iterator[str]:
    """Yield the package's modules that one imports, at its top or later; types: also those that only name types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            for one in node.names:
                yield f"{source}.{one.name}" if f"{source}.{one.name}" in MODULES else source
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def _circles(arrows: Iterable[tuple[str, str]]) -> list[set[str]]:
    """What reaches itself by way of others."""
    import networkx as nx

    return [found for found in nx.strongly_connected_components(nx.DiGraph(arrows)) if len(found) > 1]


@cache
def _arrows(*, types: bool = False) -> list[tuple[str, str]]:
    found = [(name, other) for name, path in MODULES.items() for other in _imported(name, path, types=types)]
    return [(name, other) for name, other in found if other in MODULES and name not in FACES and name != other]


def _folder(module: str) -> str:
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


PICTURE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Structure")[2].partition("```text\n")[2]
FLOORS = re.findall(r"^([a-z_]+)(?:/|\.py)\s", PICTURE.partition("```")[0], flags=re.MULTILINE)
"""The names on the floors of the picture, from the top down."""


def _floor(module: str) -> int:
    return FLOORS.index(module.split(".")[1])


def test_the_arrows_are_seen() -> None:
    assert len(_arrows()) > 300
    assert ("lpmert.model.nbest", "lpmert.errors") in _arrows()


def test_no_circle_of_files_even_of_types() -> None:
    arrows = _arrows(types=True)
    assert len(arrows) > len(_arrows()) + 50
    assert not _circles(arrows)


def test_no_circle_of_folders() -> None:
    folders = ((_folder(one), _folder(other)) for one, other in _arrows())
    assert not _circles((one, other) for one, other in folders if one != other and "lpmert" not in (one, other))


def test_every_file_is_on_a_floor_of_the_picture() -> None:
    names = {name.split(".")[1] for name in MODULES if name not in ("lpmert", "lpmert.__main__")}
    assert names == set(FLOORS)


def test_imports_go_down() -> None:
    """Only the top floor uses what users see."""
    for one, other in _arrows():
        assert one == "lpmert.__main__" or _floor(one) <= (0 if other == "lpmert" else _floor(other)), (one, other)


def test_the_checker_imports_no_search() -> None:
    import networkx as nx

    reached = nx.descendants(nx.DiGraph(_arrows()), "lpmert.certificates.verify")
    assert not [name for name in reached if name.split(".")[1] in ("search", "lines", "methods")]


def test_no_file_is_too_long() -> None:
    long = {name: lines for name, path in MODULES.items() if (lines := len(path.read_text().splitlines())) > 700}
    assert not long


# Tests


def test_every_test_asserts_something_and_those_that_look_at_the_clock_run_alone() -> None:
    """Either itself, or by a helper whose name says so; beside others, the clock fails for want of a processor."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))]
    functions = [one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    tests = [(one.name, ast.unparse(one)) for one in functions if one.name.startswith("test_")]
    asserts = re.compile(r"^ +.*\b(assert|pytest\.(raises|warns|fail)|check|succeeded|ended|same|timed)", re.MULTILINE)
    assert len(tests) > 900
    assert [name for name, text in tests if not asserts.search(text)] == []
    timed = [(name, text) for name, text in tests if re.search(r"(?<!')perf_counter|time\.time\(", text)]
    assert [name for name, text in timed if "pytest.mark.serial" not in text] == []
