"""Names of a module that are imported where they are first used; its stub, for type checkers, is the one list of them.

Source: Scientific Python's SPEC 1, Lazy Loading of Submodules and Functions.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Any


def attach(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a module from the imports of the stub beside its file."""
    places: dict[str, tuple[str, str | None]] = {}
    own = []
    package = module if Path(file).stem == "__init__" else module.rpartition(".")[0]
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            source = resolve_name("." * node.level + (node.module or ""), package)
            for one in node.names:
                found = (source, one.name) if node.module else (f"{source}.{one.name}", None)
                places[one.asname or one.name] = found
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own.append(node.target.id)
    names = sorted([*own, *places])

    def getattribute(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        source, attribute = places[name]
        imported = import_module(source)
        value = imported if attribute is None else getattr(imported, attribute)
        setattr(sys.modules[module], name, value)
        return value

    return getattribute, lambda: list(names), names
