"""How the core is built: by scikit-build-core for wheels, and in this folder for a checkout.

A build asks for `ziglang`, which is a compiler, where there is no other. An editable installation compiles into this
folder. Whoever imports the core from a checkout has it compiled again if its sources have changed, for which cmake,
ninja and nanobind must be installed, as the extra `test` does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CORE = Path(__file__).resolve().parent
BUILDS = CORE.parent.parent / "build"
COMPILERS = ("c++", "g++", "clang++", "cl", "clang-cl")
EXTENSION = CORE / f"_core{EXTENSION_SUFFIXES[0]}"
"""Compiled in place it is for one version of Python; the stable interface is for wheels."""


def __getattr__(name: str) -> Any:
    """Return all that is not below as scikit-build-core has it; only builds import that."""
    if name.startswith("_"):
        raise AttributeError(name)
    import scikit_build_core.build

    return getattr(scikit_build_core.build, name)


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """Return what building a wheel needs, a compiler included."""
    import scikit_build_core.build

    needed: list[str] = scikit_build_core.build.get_requires_for_build_wheel(settings)
    return [*needed, "ziglang"] if _lacks_compiler() else needed


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel in a folder; return its name."""
    import scikit_build_core.build

    with _one_sentence():
        os.environ.update(_toolchain())
    return str(scikit_build_core.build.build_wheel(folder, settings, metadata))


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """Compile in place, and build a wheel that refers to the checkout; return its name.

    A file of paths does: scikit-build-core's own would come before PYTHONPATH.
    """
    import scikit_build_core.build

    del metadata  # they are those of another wheel
    with _one_sentence():
        compile_in_place()
    (BUILDS / "lpmert.pth").write_text(f"{CORE.parent.parent}\n")
    os.environ["LPMERT_IN_PLACE"] = "1"
    return str(scikit_build_core.build.build_wheel(folder, settings))


def refresh() -> None:
    """Compile in place if a source is newer than the extension module."""
    if EXTENSION.exists():
        compiled = EXTENSION.stat().st_mtime_ns
        with os.scandir(CORE) as files:
            if all(file.stat().st_mtime_ns <= compiled for file in files if _is_source(file.name)):
                return
    compile_in_place()


def compile_in_place() -> None:
    """Compile the extension module into this folder; raises `ImportError` where that fails, and says what to do."""
    try:
        _compile_in_place()
    except OSError as error:
        raise ImportError(
            f"lpmert's core has to be compiled again, into a folder that can be written: {error}"
        ) from error


def _compile_in_place() -> None:
    import subprocess  # here: to find that nothing has changed must be cheap

    build = BUILDS / f"core{EXTENSION_SUFFIXES[0].removesuffix('.so').removesuffix('.pyd')}"
    build.mkdir(parents=True, exist_ok=True)
    with _alone(build):
        newest = max(file.stat().st_mtime_ns for file in CORE.iterdir() if _is_source(file.name))
        if EXTENSION.exists() and EXTENSION.stat().st_mtime_ns >= newest:
            return  # another process did it meanwhile
        cmake = _program("cmake")
        if cmake is None or find_spec("nanobind") is None:
            raise ImportError("lpmert's core has to be compiled again: run `pip install -e .` in the checkout")
        generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if (ninja := _program("ninja")) else []
        environment = {**os.environ, **_toolchain()}
        options = [f"-DPython_EXECUTABLE={sys.executable}", *shlex.split(environment.get("CMAKE_ARGS", ""))]
        for command in (
            [cmake, "-S", str(CORE), "-B", str(build), *generator, *options],
            [cmake, "--build", str(build), "--config", "Release"],
        ):
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if done.returncode:
                raise ImportError(f"lpmert's core does not compile:\n{done.stdout}")
        fresh = build / EXTENSION.name
        shutil.copy(fresh, EXTENSION.with_suffix(".new"))
        os.utime(EXTENSION.with_suffix(".new"), ns=(newest, newest))
        os.replace(EXTENSION.with_suffix(".new"), EXTENSION)  # others may be importing it


def _is_source(name: str) -> bool:
    return name.endswith((".cpp", ".hpp")) or name == "CMakeLists.txt"


def _program(name: str) -> str | None:
    """Return the path of a program of this environment or of the PATH."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


@contextmanager
def _one_sentence() -> Iterator[None]:
    """End a build with what is wrong, and with no traceback."""
    try:
        yield
    except ImportError as error:
        raise SystemExit(str(error)) from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from compiling in a folder at the same time, where the system has locks for files."""
    with open(folder / "lock", "w") as lock:
        if os.name == "posix":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lacks_compiler() -> bool:
    """Return whether there is no C++ compiler; those of Windows are not on the PATH, and CMake finds them."""
    return os.name == "posix" and "CXX" not in os.environ and not any(map(shutil.which, COMPILERS))


def _toolchain() -> dict[str, str]:
    """Return the environment that has CMake use ziglang where there is no compiler."""
    if not _lacks_compiler():
        return {}
    if find_spec("ziglang") is None:
        raise ImportError("lpmert needs a C++ compiler: install g++ or clang++, or `pip install ziglang`, which is one")
    folder = BUILDS / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    tools = {"CMAKE_CXX_COMPILER": "c++", "CMAKE_AR": "ar", "CMAKE_RANLIB": "ranlib"}
    for tool in tools.values():
        # without a processor named, zig compiles for the one that it runs on
        own = " -mcpu=baseline" if tool == "c++" else ""
        (folder / tool).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ziglang {tool}{own} "$@"\n')
        (folder / tool).chmod(0o755)
    paths = [shlex.quote(f"-D{variable}={folder / tool}") for variable, tool in tools.items()]
    return {"CMAKE_ARGS": " ".join([os.environ.get("CMAKE_ARGS", ""), *paths])}
