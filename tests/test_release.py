"""How the core is compiled, and what is published: a source archive and a wheel, which install with what they need."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email.parser import Parser
from pathlib import Path

import commands
import pytest
import yaml
from shared import ROOT

import lpmert

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [kind.rpartition(" ")[2] for kind in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", kind)]
CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
NOT_SOURCES = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "_core*", "*.loop")


def run(*arguments: object, **options: object) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    settings: dict[str, object] = {"cwd": ROOT.parent, "env": environment, "timeout": 1200} | options
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def copy(place: Path) -> Path:
    """Return a copy of this checkout with nothing compiled."""
    shutil.copytree(ROOT, place / "checkout", ignore=NOT_SOURCES)
    return place / "checkout"


def build(place: Path, *more: str) -> Path:
    """Build from a copy of the sources; return the folder with what was built."""
    run(sys.executable, "-m", "build", "--no-isolation", *more, "--outdir", place / "dist", copy(place))
    return place / "dist"


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive alone: the wheel takes a minute to compile."""
    return build(tmp_path_factory.mktemp("archive"), "--sdist")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive, and the wheel that was built from what is in it."""
    return build(tmp_path_factory.mktemp("release"))


def one(place: Path, pattern: str) -> Path:
    (found,) = place.glob(pattern)
    return found


def sources() -> set[str]:
    """What there is of the package in this checkout, but for what only builds need."""
    ends = (".py", ".pyi", ".json", ".css", ".jinja", "py.typed")
    files = (file for file in (ROOT / "lpmert").rglob("*") if file.is_file() and file.name.endswith(ends))
    return {file.relative_to(ROOT).as_posix() for file in files if file.name != "backend.py"}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else_and_twine_accepts_both(published: Path) -> None:
    files = sorted(published.iterdir())
    assert len(files) == 2
    assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2
    wheel = one(published, "*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    (core,) = (name for name in names if name.startswith("lpmert/core/_core."))
    described = f"lpmert-{lpmert.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(described)} == sources() | {core}
    assert {"lpmert/py.typed", "lpmert/reporting/page.css", "lpmert/reporting/page.html.jinja"} <= names
    with zipfile.ZipFile(wheel) as packed:
        assert "lpmert = lpmert.cli.main:main" in packed.read(f"{described}entry_points.txt").decode()
        assert packed.read(f"{described}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_archive_holds_what_it_takes_to_build_and_says_what_the_project_does(archived: Path) -> None:
    with tarfile.open(one(archived, "*.tar.gz")) as archive:
        files = {member.name.partition("/")[2]: member for member in archive.getmembers() if member.isfile()}
        described, licence = (archive.extractfile(files[name]).read() for name in ("PKG-INFO", "LICENSE"))
    core = ROOT / "lpmert" / "core"
    built = {file.relative_to(ROOT).as_posix() for end in ("*.[ch]pp", "*.txt", "*.py") for file in core.glob(end)}
    more = {"pyproject.toml", "PKG-INFO", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"}
    assert set(files) == sources() | built | more
    assert licence == (ROOT / "LICENSE").read_bytes()
    metadata = Parser().parsestr(described.decode())
    assert (metadata["Name"], metadata["Version"]) == ("lpmert", lpmert.__version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", f">={PYTHONS[0]}")
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    needed = metadata.get_all("Requires-Dist") or []
    assert sorted(one for one in needed if "extra ==" not in one) == sorted(PROJECT["dependencies"])
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])


def test_every_dependency_names_the_least_version_that_will_do() -> None:
    extras = [one for name, some in PROJECT["optional-dependencies"].items() if name != "test" for one in some]
    for requirement in [*PROJECT["dependencies"], *extras]:
        assert re.fullmatch(r"[A-Za-z0-9-]+(\[\w+\])?(!=[0-9.]+,)*>=[0-9.]+", requirement), requirement


def test_who_cites_it_finds_the_version_and_the_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    wanted = {"cff-version": "1.2.0", "version": lpmert.__version__, "license": PROJECT["license"]}
    assert {name: citation[name] for name in wanted} == wanted
    assert all(citation[name] for name in ("authors", "message", "title"))


def test_the_changelog_has_the_form_that_it_names() -> None:
    first, *parts = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert first.startswith("[Unreleased]\n")
    versions = [re.match(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d\n", part).groups() for part in parts]
    assert versions == sorted(versions, key=lambda one: [*map(int, one)], reverse=True)
    for part in (first, *parts):
        kinds = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert kinds
        assert len(set(kinds)) == len(kinds)
        assert set(kinds) <= set(CHANGES)


COLUMNS = ["--segment", "utterance", "--features", "am,lm,words", "--loss", "errors", "--scale", "am=1"]
"""Of the example of the README."""
USE = """
import lpmert
lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
print(*(lpmert.minimize(lists, method=method).loss for method in ("auto", "mip", "och")))
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize("python", PYTHONS)
def test_both_install_where_there_is_nothing(python: str, resolution: str, published: Path, table: Path) -> None:
    """With the lowest and the newest versions that the dependencies allow; it fetches them from the package index.

    The archive on every Python, the wheel on that which built it.
    """
    uv = [sys.executable, "-m", "uv"]
    found = subprocess.run([*uv, "python", "find", "--no-python-downloads", "--no-project", python], check=False)
    if found.returncode != 0:
        pytest.skip(f"this machine has no Python {python}")
    tmp_path = table.parent
    run(*uv, "venv", "-q", "--no-python-downloads", "--python", python, tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    install = [*uv, "pip", "install", "-q", "--python", programs / "python", "--resolution", resolution]
    files = [one(published, "*.tar.gz")]
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        files.append(one(published, "*.whl"))
    for file in files:
        run(*install, "--reinstall-package", "lpmert", file)
        assert run(programs / "lpmert", "--version") == f"lpmert, version {lpmert.__version__}\n"
        solved = run(programs / "lpmert", "solve", table, "--loss", "errors", "--segment", "list")
        assert solved.splitlines()[-1].startswith("proved optimal")
    whole = json.loads(run(programs / "lpmert", "solve", ROOT / "examples/asr/nbest.tsv.gz", *COLUMNS, "--json"))
    assert (whole["status"], whole["loss"], whole["lower_bound"]) == ("optimal", 912.0, 912.0)
    tried = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-command"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    printed = run("bash", "-c", tried.format(project=ROOT), cwd=tmp_path, env={**os.environ, "PATH": path})
    assert printed.splitlines()[-1].startswith("proved optimal")
    assert run(programs / "python", "-c", USE, cwd=tmp_path).split() == ["0.0", "0.0", "0.0"]


# The core

IMPORT = "import lpmert.core; print(lpmert.core.__file__)"


def python(checkout: Path, *arguments: object, code: int | None = 0, **environment: str) -> str:
    """Return what Python prints in a checkout, of which it imports the package."""
    path = os.pathsep.join([str(checkout), str(checkout / "tests")])
    done = commands.python(*arguments, code=code, cwd=checkout, **{"PYTHONPATH": path, **environment})
    return done.stdout + done.stderr


def extension(checkout: Path) -> Path:
    return one(checkout / "lpmert" / "core", "_core.*.so")


def need(program: str) -> str:
    """Return the path of a program, without which a test is skipped."""
    return shutil.which(program) or pytest.skip(f"this machine has no {program}")


def no_programs(place: Path) -> str:
    """Return a PATH with a shell, and no compiler."""
    place.mkdir()
    for name in ("sh", "uname"):
        (place / name).symlink_to(str(shutil.which(name)))
    return str(place)


def test_without_a_compiler_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    build = "import sys; sys.modules['ziglang'] = None; import backend; backend.build_wheel(sys.argv[1])"
    core, path = ROOT / "lpmert" / "core", no_programs(tmp_path / "bin")
    done = commands.python("-c", build, tmp_path / "dist", code=1, cwd=core, PATH=path)
    wanted = "lpmert needs a C++ compiler: install g++ or clang++, or `pip install ziglang`, which is one\n"
    assert done.stderr == wanted


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ziglang_compiles_it_where_there_is_no_compiler(tmp_path: Path) -> None:
    """pip gets ziglang, as the build asks for it; this fetches it from the package index."""
    checkout, wheels, place = copy(tmp_path), tmp_path / "wheels", tmp_path / "installed"
    path = no_programs(tmp_path / "bin")
    python(tmp_path, "-m", "pip", "wheel", "--no-deps", "-w", wheels, checkout, PATH=path, PYTHONPATH="")
    (wheel,) = wheels.iterdir()
    shutil.unpack_archive(wheel, place, "zip")
    lists = ROOT / "examples" / "asr" / "nbest.tsv.gz"
    use = "import lpmert, sys; print(lpmert.minimize(lpmert.read(sys.argv[1], segment='utterance', "
    use += "features=['am', 'lm', 'words', 'silences', 'fillers'], loss='errors')).loss, lpmert.__file__)"
    printed = python(tmp_path, "-c", use, lists, PYTHONPATH=str(place))
    assert printed.splitlines()[-1] == f"883.0 {place / 'lpmert' / '__init__.py'}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compilers_have_nothing_to_warn_of(compiler: str, tmp_path: Path) -> None:
    found = need(compiler)
    assert python(copy(tmp_path), "-c", IMPORT, CXX=found, CMAKE_ARGS="-DCMAKE_COMPILE_WARNING_AS_ERROR=ON")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_checkout_is_compiled_again_when_a_source_has_changed(tmp_path: Path) -> None:
    """Even if that is a header, and by one of two processes that both import it; where that fails, it says so."""
    checkout = copy(tmp_path)
    python(checkout, "-c", IMPORT)
    before = extension(checkout).read_bytes()
    header = checkout / "lpmert" / "core" / "line_search.hpp"
    text, begin = header.read_text(), "namespace lpmert {\n"
    assert text.count(begin) == 1
    header.write_text(text.replace(begin, f"{begin}#error on purpose\n"))
    printed = python(checkout, "-c", IMPORT, code=1)
    assert "lpmert's core does not compile" in printed
    assert "on purpose" in printed
    assert extension(checkout).read_bytes() == before
    header.write_text(text.replace(begin, f"{begin}inline int added() {{ return 1; }}\n"))
    later = header.stat().st_mtime_ns
    with ThreadPoolExecutor() as threads:  # one of two processes compiles it
        assert len({*threads.map(lambda _: python(checkout, "-c", IMPORT), range(2))}) == 1
    assert extension(checkout).stat().st_mtime_ns == later
    shutil.rmtree(checkout / "build")
    (checkout / "build").write_text("no folder")  # nothing can be written there, not even by root
    python(checkout, "-c", IMPORT)  # nor has to be
    os.utime(header, ns=(later + 1, later + 1))
    printed = python(checkout, "-c", IMPORT, code=1)
    assert "ImportError: lpmert's core has to be compiled again, into a folder that can be written: " in printed


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_problems_of_every_kind_with_each_index_checked(tmp_path: Path) -> None:
    """No index is out of range, no memory misused, no number overflows: ten minutes of `fuzz.py`."""
    compiler = need("g++")
    checkout = copy(tmp_path)
    compiled = "from lpmert.core.backend import compile_in_place; compile_in_place()"
    printed = python(checkout, "-c", compiled, code=None, CXX=compiler, CMAKE_ARGS="-DLPMERT_CHECKED=ON")
    # with libstdc++, which Python does not load: ASan intercepts exceptions only if they are known when it starts
    flags = [f"-print-file-name={name}" for name in ("libasan.so", "libstdc++.so")]
    found = [subprocess.run([compiler, flag], capture_output=True, text=True, check=True).stdout for flag in flags]
    options = {"LD_PRELOAD": " ".join(found).replace("\n", ""), "ASAN_OPTIONS": "detect_leaks=0"}
    assert b"__asan_report_load8" in extension(checkout).read_bytes(), printed
    assert python(checkout, "tests/fuzz.py", "--seconds", 600, "--seed", 1, **options)
