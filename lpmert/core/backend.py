"""The build backend: scikit-build-core builds wheels; in a checkout, the core is compiled into this folder.

If there is no C++ compiler, a build requires `ziglang`, which contains one. An editable installation compiles into this
folder; importing the core from the checkout compiles it again if its sources have changed. That needs cmake, ninja and
nanobind, which the extra `test` installs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CORE = Path(__file__).resolve().parent
BUILDS = CORE.parent.parent / "build"
COMPILERS = ("c++", "g++", "clang++", "cl", "clang-cl")
EXTENSION = CORE / f"_core{EXTENSION_SUFFIXES[0]}"
"""The extension module of a checkout. It is for this version of Python; only wheels use the stable interface."""


def __getattr__(name: str) -> Any:
    """Return scikit-build-core's hook of this name; imported here because only builds have that package."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(import_module("scikit_build_core.build"), name)


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """Return the requirements of building a wheel, with a compiler if there is none."""
    needed: list[str] = __getattr__("get_requires_for_build_wheel")(settings)
    return [*needed, "ziglang"] if _lacks_compiler() else needed


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build a wheel in a folder; return its name."""
    return _build_wheel(lambda: os.environ.update(_toolchain()), folder, settings, metadata)


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    """Compile in place, and build a wheel that refers to the checkout; return its name.

    The wheel has a `.pth` file: the import hook of scikit-build-core would take precedence over PYTHONPATH.
    """
    del metadata  # of scikit-build-core's editable wheel, which is not built

    def prepare() -> None:
        compile_in_place()
        (BUILDS / "lpmert.pth").write_text(f"{CORE.parent.parent}\n")
        os.environ["LPMERT_IN_PLACE"] = "1"

    return _build_wheel(prepare, folder, settings)


def _build_wheel(prepare: Callable[[], object], folder: str, settings: Any, metadata: str | None = None) -> str:
    """Build a wheel; an `ImportError` of `prepare` ends the build with its message, without a traceback."""
    try:
        prepare()
    except ImportError as error:
        raise SystemExit(str(error)) from None
    return str(__getattr__("build_wheel")(folder, settings, metadata))


def refresh() -> None:
    """Compile in place if a source is newer than the extension module."""
    if not _is_compiled():
        compile_in_place()


def compile_in_place() -> None:
    """Compile the extension module into this folder; raises `ImportError` with the remedy if that fails."""
    import subprocess  # not at the top: importing an unchanged core must be fast

    build = BUILDS / f"core{EXTENSION_SUFFIXES[0].removesuffix('.so').removesuffix('.pyd')}"
    try:
        build.mkdir(parents=True, exist_ok=True)
        with open(build / "lock", "w") as lock:
            if os.name == "posix":  # one process at a time
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_compiled():
                return  # another process has compiled it meanwhile
            newest = _newest_source()
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
            fresh = EXTENSION.with_suffix(".new")
            shutil.copy(build / EXTENSION.name, fresh)
            os.utime(fresh, ns=(newest, newest))
            os.replace(fresh, EXTENSION)  # others may be importing it
    except OSError as error:
        raise ImportError(
            f"lpmert's core has to be compiled again, into a folder that can be written: {error}"
        ) from error


def _newest_source() -> int:
    """Return when a source was last changed, in nanoseconds."""
    with os.scandir(CORE) as files:
        return max(file.stat().st_mtime_ns for file in files if file.name.endswith((".cpp", ".hpp", "CMakeLists.txt")))


def _is_compiled() -> bool:
    return EXTENSION.exists() and EXTENSION.stat().st_mtime_ns >= _newest_source()


def _program(name: str) -> str | None:
    """Return the path of a program in this environment or on the PATH."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def _lacks_compiler() -> bool:
    """Return whether there is no C++ compiler. On Windows, CMake finds compilers that are not on the PATH."""
    return os.name == "posix" and "CXX" not in os.environ and not any(map(shutil.which, COMPILERS))


def _toolchain() -> dict[str, str]:
    """Return environment variables that make CMake use ziglang if there is no compiler."""
    if not _lacks_compiler():
        return {}
    if find_spec("ziglang") is None:
        raise ImportError("lpmert needs a C++ compiler: install g++ or clang++, or `pip install ziglang`, which is one")
    folder = BUILDS / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    tools = {"CMAKE_CXX_COMPILER": "c++", "CMAKE_AR": "ar", "CMAKE_RANLIB": "ranlib"}
    for tool in tools.values():
        # by default, zig compiles for the processor of this machine only
        target = " -mcpu=baseline" if tool == "c++" else ""
        (folder / tool).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ziglang {tool}{target} "$@"\n')
        (folder / tool).chmod(0o755)
    paths = [shlex.quote(f"-D{variable}={folder / tool}") for variable, tool in tools.items()]
    return {"CMAKE_ARGS": " ".join([os.environ.get("CMAKE_ARGS", ""), *paths])}
