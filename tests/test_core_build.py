"""How the core is compiled: with either compiler, with ziglang, again when it has changed, and with all checks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared import ROOT
from test_release import NOT_SOURCES

FUZZ_SECONDS = 600
IMPORT = "import lpmert.core; print(lpmert.core.__file__)"


def start(checkout: Path, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start Python in a checkout, of which it imports the package."""
    path = os.pathsep.join([str(checkout), str(checkout / "tests")])
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(checkout: Path, *arguments: object, **environment: str) -> tuple[int, str]:
    """Return the code with which Python ends in a checkout, and what it prints."""
    with start(checkout, *arguments, **environment) as process:
        printed, _ = process.communicate()  # read on the way: a full pipe would stop the program
        return process.returncode, printed


def copy(place: Path) -> Path:
    """Return a copy of this checkout with nothing compiled."""
    shutil.copytree(ROOT, place / "checkout", ignore=NOT_SOURCES)
    return place / "checkout"


def extension(checkout: Path) -> Path:
    (found,) = (checkout / "lpmert" / "core").glob("_core.*.so")
    return found


def need(program: str) -> str:
    """Return the path of a program, without which a test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"this machine has no {program}")
    return found


def no_programs(place: Path) -> str:
    """Return a PATH with a shell, and no compiler."""
    place.mkdir()
    for name in ("sh", "uname"):
        (place / name).symlink_to(str(shutil.which(name)))
    return str(place)


def test_without_a_compiler_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    build = "import sys; sys.modules['ziglang'] = None; import backend; backend.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, tmp_path / "dist"],
        cwd=ROOT / "lpmert" / "core",
        env={name: value for name, value in os.environ.items() if name not in ("CXX", "PYTHONPATH")}
        | {"PATH": no_programs(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    wanted = "lpmert needs a C++ compiler: install g++ or clang++, or `pip install ziglang`, which is one\n"
    assert (done.returncode, done.stderr) == (1, wanted)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ziglang_compiles_it_where_there_is_no_compiler(tmp_path: Path) -> None:
    """pip gets ziglang, as the build asks for it; this fetches it from the package index."""
    checkout, wheels, place = copy(tmp_path), tmp_path / "wheels", tmp_path / "installed"
    path = no_programs(tmp_path / "bin")
    code, printed = run(tmp_path, "-m", "pip", "wheel", "--no-deps", "-w", wheels, checkout, PATH=path, PYTHONPATH="")
    assert code == 0, printed
    (wheel,) = wheels.iterdir()
    shutil.unpack_archive(wheel, place, "zip")
    lists = ROOT / "examples" / "asr" / "nbest.tsv.gz"
    use = "import lpmert, sys; print(lpmert.minimize(lpmert.read(sys.argv[1], segment='utterance', "
    use += "features=['am', 'lm', 'words', 'silences', 'fillers'], loss='errors')).loss, lpmert.__file__)"
    code, printed = run(tmp_path, "-c", use, lists, PYTHONPATH=str(place))
    assert (code, printed.splitlines()[-1]) == (0, f"883.0 {place / 'lpmert' / '__init__.py'}"), printed


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compilers_have_nothing_to_warn_of(compiler: str, tmp_path: Path) -> None:
    found = need(compiler)
    checkout = copy(tmp_path)
    code, printed = run(checkout, "-c", IMPORT, CXX=found, CMAKE_ARGS="-DCMAKE_COMPILE_WARNING_AS_ERROR=ON")
    assert code == 0, printed


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_checkout_is_compiled_again_when_a_source_has_changed(tmp_path: Path) -> None:
    """Even if that is a header, and by one of two processes that both import it; where that fails, it says so."""
    checkout = copy(tmp_path)
    code, printed = run(checkout, "-c", IMPORT)
    assert code == 0, printed
    before = extension(checkout).read_bytes()
    header = checkout / "lpmert" / "core" / "line_search.hpp"
    text = header.read_text()
    assert text.count("namespace lpmert::lines {\n") == 1
    broken = text.replace("namespace lpmert::lines {\n", "namespace lpmert::lines {\n#error on purpose\n")
    changed = text.replace(
        "namespace lpmert::lines {\n", "namespace lpmert::lines {\ninline int added() { return 1; }\n"
    )
    header.write_text(broken)
    code, printed = run(checkout, "-c", IMPORT)
    assert code == 1
    assert "lpmert's core does not compile" in printed
    assert "on purpose" in printed
    assert extension(checkout).read_bytes() == before
    header.write_text(changed)
    later = header.stat().st_mtime_ns
    both = [start(checkout, "-c", IMPORT) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0], [process.communicate()[0] for process in both]
    assert extension(checkout).stat().st_mtime_ns == later
    shutil.rmtree(checkout / "build")
    (checkout / "build").write_text("no folder")  # nothing can be written there, not even by root
    assert run(checkout, "-c", IMPORT)[0] == 0  # nor has to be
    os.utime(header, ns=(later + 1, later + 1))
    code, printed = run(checkout, "-c", IMPORT)
    assert code == 1
    assert "ImportError: lpmert's core has to be compiled again, into a folder that can be written: " in printed


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_problems_of_every_kind_with_each_index_checked(tmp_path: Path) -> None:
    """No index is out of range, no memory misused, no number overflows: ten minutes of `fuzz.py`."""
    compiler = need("g++")
    checkout = copy(tmp_path)
    compiled = "from lpmert.core.backend import compile_in_place; compile_in_place()"
    code, printed = run(checkout, "-c", compiled, CXX=compiler, CMAKE_ARGS="-DLPMERT_CHECKED=ON")
    # with libstdc++, which Python does not load: ASan intercepts exceptions only if they are known when it starts
    flags = [f"-print-file-name={name}" for name in ("libasan.so", "libstdc++.so")]
    found = [subprocess.run([compiler, flag], capture_output=True, text=True, check=True).stdout for flag in flags]
    options = {"LD_PRELOAD": " ".join(found).replace("\n", ""), "ASAN_OPTIONS": "detect_leaks=0"}
    assert b"__asan_report_load8" in extension(checkout).read_bytes(), printed
    code, printed = run(checkout, "tests/fuzz.py", "--seconds", FUZZ_SECONDS, "--seed", 1, **options)
    assert code == 0, printed[-20_000:]
