"""What is published: a source archive and a wheel, which install with all dependencies that they declare."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

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


def build(place: Path, *more: str) -> Path:
    """Build from a copy of the sources; return the folder with what was built."""
    shutil.copytree(ROOT, place / "checkout", ignore=NOT_SOURCES)
    run(sys.executable, "-m", "build", "--no-isolation", *more, "--outdir", place / "dist", place / "checkout")
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


def build_sources() -> set[str]:
    """What it takes to build the core."""
    core = ROOT / "lpmert" / "core"
    return {file.relative_to(ROOT).as_posix() for end in ("*.[ch]pp", "*.txt", "*.py") for file in core.glob(end)}


def pages() -> set[str]:
    """The manual pages and completions, which are installed beside the package."""
    return {file.relative_to(ROOT).as_posix() for file in (ROOT / "share").rglob("*") if file.is_file()}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(published: Path) -> None:
    wheel = one(published, "*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    (core,) = (name for name in names if name.startswith("lpmert/core/_core."))
    described = {name for name in names if name.startswith(f"lpmert-{lpmert.__version__}.dist-info/")}
    beside = {f"lpmert-{lpmert.__version__}.data/data/{page}" for page in pages()}
    assert names - described == sources() | beside | {core}
    assert {"lpmert/py.typed", "lpmert/__init__.pyi"} <= names
    assert {"lpmert/reporting/page.css", "lpmert/reporting/page.html.jinja"} <= names
    with zipfile.ZipFile(wheel) as files:
        described = f"lpmert-{lpmert.__version__}.dist-info"
        assert "lpmert = lpmert.cli.main:main" in files.read(f"{described}/entry_points.txt").decode()
        assert files.read(f"{described}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_archive_holds_what_it_takes_to_build(archived: Path) -> None:
    with tarfile.open(one(archived, "*.tar.gz")) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {name for name in names if name.startswith("lpmert/")} == sources() | build_sources()
    assert {name for name in names if not name.startswith("lpmert/")} == {
        *("pyproject.toml", "PKG-INFO"),
        *("README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"),
        *pages(),
    }


def test_its_metadata_say_what_the_project_does(archived: Path) -> None:
    top = f"lpmert-{lpmert.__version__}"
    with tarfile.open(one(archived, "*.tar.gz")) as archive:
        metadata, licence = (archive.extractfile(f"{top}/{name}") for name in ("PKG-INFO", "LICENSE"))
        assert licence.read() == (ROOT / "LICENSE").read_bytes()
        metadata = Parser().parsestr(metadata.read().decode())
    assert (metadata["Name"], metadata["Version"]) == ("lpmert", lpmert.__version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", f">={PYTHONS[0]}")
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    needed = metadata.get_all("Requires-Dist") or []
    assert sorted(one for one in needed if "extra ==" not in one) == sorted(PROJECT["dependencies"])
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])


@pytest.mark.slow
def test_twine_accepts_both(published: Path) -> None:
    files = sorted(published.iterdir())
    assert len(files) == 2
    assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2


def test_every_dependency_names_the_least_version_that_will_do() -> None:
    extras = [one for name, some in PROJECT["optional-dependencies"].items() if name != "test" for one in some]
    for requirement in [*PROJECT["dependencies"], *extras]:
        assert re.fullmatch(r"[A-Za-z0-9-]+(\[\w+\])?(!=[0-9.]+,)*>=[0-9.]+", requirement), requirement


def test_who_cites_it_finds_the_version_and_the_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert (citation["version"], citation["license"]) == (lpmert.__version__, PROJECT["license"])
    assert citation["authors"]
    assert citation["message"]
    assert citation["title"].startswith("lpmert")


def test_the_changelog_has_the_form_that_it_names() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version) for version in versions[1:])
    assert versions[1:] == sorted(versions[1:], key=lambda one: [*map(int, re.findall(r"\d+", one)[:3])], reverse=True)
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert kinds
        assert len(set(kinds)) == len(kinds)
        assert set(kinds) <= set(CHANGES)


COLUMNS = ["--segment", "utterance", "--features", "am,lm,words", "--loss", "errors", "--scale", "am=1"]
"""Of the example of the README."""
LISTS = "list\ta\tb\terrors\n1\t1\t0\t0\n1\t0\t1\t1\n2\t2\t1\t1\n2\t1\t3\t0\n"

USE = """
import lpmert
lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
for method in ("auto", "mip", "och"):
    print(lpmert.minimize(lists, method=method).loss)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize("python", PYTHONS)
def test_both_install_where_there_is_nothing(python: str, resolution: str, published: Path, tmp_path: Path) -> None:
    """With the lowest and the newest versions that the dependencies allow; it fetches them from the package index.

    The archive on every Python, the wheel on that which built it.
    """
    uv = [sys.executable, "-m", "uv"]
    found = subprocess.run([*uv, "python", "find", "--no-python-downloads", "--no-project", python], check=False)
    if found.returncode != 0:
        pytest.skip(f"this machine has no Python {python}")
    run(*uv, "venv", "-q", "--no-python-downloads", "--python", python, tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    install = [*uv, "pip", "install", "-q", "--python", programs / "python", "--resolution", resolution]
    (tmp_path / "lists.tsv").write_text(LISTS)
    files = [one(published, "*.tar.gz")]
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        files.append(one(published, "*.whl"))
    for file in files:
        run(*install, "--reinstall-package", "lpmert", file)
        assert run(programs / "lpmert", "--version") == f"lpmert, version {lpmert.__version__}\n"
        solved = run(programs / "lpmert", "solve", "lists.tsv", "--loss", "errors", "--segment", "list", cwd=tmp_path)
        assert solved.splitlines()[-1].startswith("proved optimal")
    whole = json.loads(run(programs / "lpmert", "solve", ROOT / "examples/asr/nbest.tsv.gz", *COLUMNS, "--json"))
    assert (whole["status"], whole["loss"], whole["lower_bound"]) == ("optimal", 912.0, 912.0)
    tried = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["test-command"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    printed = run("bash", "-c", tried.format(project=ROOT), cwd=tmp_path, env={**os.environ, "PATH": path})
    assert printed.splitlines()[-1].startswith("proved optimal")
    assert run(programs / "python", "-c", USE, cwd=tmp_path).split() == ["0.0", "0.0", "0.0"]
