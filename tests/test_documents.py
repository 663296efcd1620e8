"""What documents, notebooks and examples show is what runs, and they become a site that describes every public name."""

import ast
import gzip
import json
import math
import os
import pkgutil
import re
import shlex
import shutil
from contextlib import chdir, suppress
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from commands import assert_examples_run, python, succeeded
from reporting.pages import parts
from searches import many_more
from shared import ROOT

import lpmert
from lpmert.cli.running import ExitCode
from lpmert.registry import METHODS

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "proofs" / "README.md"]
DIGITS = 2e-3
TIME = re.compile(r"[0-9.]+s")
LONG = ("compare", "leave-one-out", "subsets")  # commands that take several seconds on the examples
PAPERS = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
PAGE = re.compile(r"\(\.\./benchmarks/results/(\w+)\.md\)")
NOTEBOOKS = ROOT / "examples" / "notebooks"
PRINTED = {
    "speech": "OPTIMAL 912.0",
    "translation": "OPTIMAL BLEU 78.37",
    "best_of_n": "optimum 135 right",
    "unseen": "'optimum'",
    "lattices": "OPTIMAL 42.0 errors over all paths",
}
"""Figures that the pages of these examples state, each held by a test of its own there."""
BEST_OF_N = ROOT / "examples" / "best_of_n"
PUZZLES = BEST_OF_N / "puzzles.jsonl.gz"
BEST_OF_N_PAGE = (BEST_OF_N / "README.md").read_text(encoding="utf-8").partition("## On unseen puzzles")[2]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, list[str]]]:
    """Return every `$ lpmert` command of the documents with the lines of output under it."""
    shown = [block for path in DOCUMENTS for block in blocks(path, "console")]
    parts = [part for block in shown for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, *output in (part.rstrip("\n").split("\n") for part in parts)]


def number_or(word: str) -> str | float:
    with suppress(ValueError):
        return float(word.strip("(),%").replace(",", ""))
    return word


def words_of(line: str) -> list[str | float]:
    """Return the words of a line but for times; numbers as numbers."""
    return [number_or(word) for word in line.split() if not TIME.fullmatch(word)]


def same(shown: str, printed: str) -> bool:
    """Whether two lines say the same, numbers to three digits."""
    first, second = words_of(shown), words_of(printed)
    return len(first) == len(second) and all(
        math.isclose(a, b, rel_tol=DIGITS, abs_tol=DIGITS) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(first, second, strict=True)
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that shows what is in the repository; commands leave their own files there."""
    folder = tmp_path_factory.mktemp("checkout")
    for entry in ROOT.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


@cache
def printed_by(command: str, folder: Path) -> list[str]:
    """The lines that a command prints in a folder; several pages show the same command."""
    program, *arguments = shlex.split(command)
    assert program == "lpmert"
    with chdir(folder):
        outcome = succeeded(*arguments)
    return [*outcome.stdout.split("\n"), *outcome.stderr.split("\n")]


@pytest.mark.parametrize(
    ("command", "output"),
    [many_more(*shown) if shown[0].split()[1] in LONG else shown for shown in sessions()],
    ids=[command[:60] for command, _ in sessions()],
)
def test_a_command_prints_what_the_document_shows(command: str, output: list[str], checkout: Path) -> None:
    printed = printed_by(command, checkout)
    shown = [line for line in output if words_of(line) and line != "..."]
    assert shown, "the document shows no output"
    missing = [line for line in shown if not any(same(line, other) for other in printed)]
    assert not missing, "\n".join(printed)


@pytest.mark.parametrize("path", DOCUMENTS, ids=[path.name for path in DOCUMENTS])
def test_python_examples_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert_examples_run("\n".join(blocks(path, "python")), path.name)


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    (shown,) = [block for block in blocks(ROOT / "README.md", "bash") if "pytest" in block]
    in_readme = [step.strip() for step in shown.split("&&")]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").split("\n")
    in_script = [line.strip() for line in script if line.strip() and not line.startswith(("#", "set ", "cd "))]
    assert in_script == in_readme


def test_what_texts_call_a_part_of_the_package_exists() -> None:
    pages = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "lpmert").rglob("*.py"))]
    names = {name for page in pages for name in re.findall(r"`(lpmert(?:\.\w+)+)", page.read_text(encoding="utf-8"))}
    assert "lpmert.metrics.Metric" in names
    assert all(pkgutil.resolve_name(name) is not None for name in sorted(names))  # or raises, with the name


def test_the_documents_name_every_method_and_exit_code() -> None:
    methods = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8")
    for name in METHODS.own:
        assert f"| `{name}` |" in methods
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"[{len(METHODS.own) - 1} methods]" in readme, "all but auto"
    codes = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for code in [*ExitCode, 2]:
        assert f"| {int(code)} |" in codes


def table_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|") and not set(line) <= set("|-: ")]


@pytest.mark.parametrize("page", ["README.md", "docs/measured.md", "docs/unseen.md"])
def test_measured_tables_are_those_of_the_benchmarks(page: str) -> None:
    section = (ROOT / page).read_text(encoding="utf-8")
    if page != "docs/measured.md":
        section = section.partition("\n## Measured\n")[2].partition("\n## ")[0]
    results = [page.read_text(encoding="utf-8") for page in (ROOT / "benchmarks" / "results").glob("*.md")]
    measured = {line for text in results for line in table_lines(text)}
    shown = table_lines(section)
    assert shown
    assert [line for line in shown if line not in measured] == []


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def holds_in_order(line: str, shown: list[str]) -> bool:
    """Whether a line has all these cells, others between them."""
    cells = iter(cells_of(line))
    return all(cell in cells for cell in shown)


def test_every_step_from_the_paper_to_the_default_is_a_row_of_its_page() -> None:
    section = PAPERS.partition("### From the paper to today's default")[2].partition("\n## ")[0]
    steps = [line for line in table_lines(section) if PAGE.search(line)]
    assert len(steps) >= 12
    for line in steps:
        (name,) = PAGE.findall(line)
        step, *shown = cells_of(line)[:-1]
        page = (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")
        if f": {step}**" in page:
            page = page.partition(f": {step}**")[2].partition("\n**")[0]
        if name == "switches":
            shown.remove("-")  # it counts no combinations
        assert any(holds_in_order(row, shown) for row in table_lines(page)), line


def commands_of_the_page_run(page: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the shell commands of a page on the example files in this folder; return what the last of them prints."""
    (here / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(here)
    for command in "".join(blocks(ROOT / f"docs/{page}.md", "sh")).splitlines():
        program, *arguments = shlex.split(command)
        if program == "cp":
            shutil.copy(*arguments)
        elif program == "python3":
            output = python(*arguments, cwd=here).stdout
        else:
            assert program == "lpmert"
            output = succeeded(*[name for word in arguments for name in sorted(glob(word)) or [word]]).output
    return output


@pytest.mark.parametrize(
    ("page", "left"), [("speech", "dev.tsv"), ("lattices", "best.tsv"), ("translation", "moses.ini")]
)
def test_shell_commands_of_the_page_run(page: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "proved optimal" in commands_of_the_page_run(page, tmp_path, monkeypatch)
    assert (tmp_path / left).exists()


@pytest.mark.slow
def test_reports_are_made_by_their_page_and_say_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib, of lpmert[report]")
    (tmp_path / "docs").mkdir()
    output = commands_of_the_page_run("report", tmp_path, monkeypatch)
    page = parts(tmp_path / "check.html")
    assert parts(tmp_path / "compare.html").texts["h1"] == page.texts["h1"]
    assert page.texts["h1"] == ["Proved: no weights do better than errors 912."]
    assert "The weights checked have errors 983: there are better weights: errors 912 instead of 983." in page.all_text
    for picture in ("surface.png", "proof.png"):
        assert (tmp_path / "docs" / picture).read_bytes().startswith(b"\x89PNG")
    assert output == "883 errors, OPTIMAL; 98 of 100 line searches stop above\n"
    shown = "best weights and bound meet at 883 errors. Right: of 100 line searches, 98 stop above the optimum"
    assert all(shown in (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/index.md"))


@pytest.mark.parametrize(
    "name", [many_more(path.stem) if path.stem == "best_of_n" else path.stem for path in sorted(NOTEBOOKS.glob("*.py"))]
)
def test_a_notebook_runs_and_draws(name: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = NOTEBOOKS / f"{name}.py"
    assert PRINTED[name] in python(path, cwd=tmp_path, MPLBACKEND="agg").stdout
    pictures = re.findall(r'"([\w-]+\.png)"', path.read_text(encoding="utf-8"))
    assert pictures
    for picture in pictures:
        data = (tmp_path / picture).read_bytes()
        assert (data[:4], len(data) > 5_000) == (b"\x89PNG", True)
    assert sorted(os.listdir(tmp_path)) == sorted([*pictures, "examples"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site, whose links all lead somewhere; not --quiet: only warnings that it shows count."""
    folder = tmp_path_factory.mktemp("site")
    run = python("-m", "mkdocs", "build", "--strict", "--site-dir", folder, NO_MKDOCS_2_WARNING="1")
    said = run.stdout + run.stderr
    assert "Documentation built" in said
    assert "WARNING" not in said
    return folder


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix("").as_posix().removesuffix("index")
        if page:
            place = f"{page.removesuffix('/')}/"
            assert f'href="{place}"' in home, path.name
            assert (site / place / "index.html").exists()
    pages = re.findall(r'<a href="([^"#]+/)" class="md-nav__link"', home)
    assert len(set(pages)) == len(pages) >= 20


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "reference").rglob("index.html")]
    described = {name for page in pages for name in re.findall(r'id="(lpmert[\w.]*)"', page)}
    errors = {name for name in lpmert.__all__ if name.endswith("Error")}
    faces = {"formats", "methods", "metrics", "__version__"}
    expected = {"": set(lpmert.__all__) - errors - faces, "errors.": errors}
    expected |= {"methods.": lpmert.methods.__all__, "metrics.": lpmert.metrics.__all__}
    assert {f"lpmert.{face}{name}" for face, names in expected.items() for name in names} - described == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for path in site.rglob("*.html"):
        assert not fetched.findall(path.read_text(encoding="utf-8")), path.name


def puzzles(path: Path = PUZZLES) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_the_shipped_puzzles_are_those_that_the_program_makes(tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl.gz"
    python(BEST_OF_N / "puzzles.py", path, 2)
    assert puzzles(path) == puzzles()[:2]


def result_of(program: str, given: list[int]) -> Any:
    try:
        return eval(program, {"x": given})  # ours, and shipped
    except (TypeError, ValueError, IndexError):
        return None


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_examples_votes_and_right_answers_are_counted_from_what_the_programs_do() -> None:
    found = puzzles()
    assert len(found) == 240
    assert sum(one["correct"] for puzzle in found for one in puzzle["candidates"]) == 531
    assert sum(any(one["correct"] for one in puzzle["candidates"]) for puzzle in found) == 156
    others = [[3, 3, -4, 8, 0], [7, -2, -2, 5, 1, 6], [-9, 4, 2], [1, 1, 2, 8, -5]]
    for puzzle in found[::6]:
        examples = [[ast.literal_eval(part) for part in one.split(" -> ")] for one in puzzle["prompt"].split("; ")]
        texts = [puzzle["solution"], *(one["text"] for one in puzzle["candidates"])]
        right, *shown = [[repr(result_of(text, given)) for given in others] for text in texts]
        for one, own in zip(puzzle["candidates"], shown, strict=True):
            met = sum(result_of(one["text"], given) == wanted for given, wanted in examples)
            assert met == one["scores"]["examples"], one["text"]
            assert not one["correct"] or own == right
            assert one["scores"]["votes"] <= shown.count(own) - 1  # on more inputs than these four


def test_the_comparison_counts_right_answers_of_puzzles_that_have_one() -> None:
    settings = ("--puzzles", 40, "--folds", 2, "--repeat", 1, "--seconds", 5)
    done = python(BEST_OF_N / "rerank.py", PUZZLES, *settings)
    shown = {cells[1].strip(): cells for line in table_lines(done.stdout) if (cells := line.split("|"))}
    assert {*shown} == {line.split("|")[1].strip() for line in table_lines(BEST_OF_N_PAGE)}
    first = [max(puzzle["candidates"], key=lambda one: one["scores"]["examples"]) for puzzle in puzzles()[:40]]
    there = sum(any(one["correct"] for one in puzzle["candidates"]) for puzzle in puzzles()[:40])
    share = f"{100 * sum(one['correct'] for one in first) / there:.1f} %"
    assert shown["examples alone"][2].strip() == shown["examples alone"][3].strip() == share


@pytest.mark.slow
def test_the_page_shows_what_the_comparison_prints() -> None:
    done = python(BEST_OF_N / "rerank.py", PUZZLES, "--seconds", 300)
    assert table_lines(done.stdout)[:-1] == table_lines(BEST_OF_N_PAGE)[:-1]  # the last one is as good as its time


def test_the_commands_of_the_page_run() -> None:
    (block,) = blocks(BEST_OF_N / "README.md", "sh")
    solve, tune, _ = (line.replace("examples/", f"{ROOT}/examples/").split()[1:] for line in block.splitlines())
    for command in (solve, ["solve", PUZZLES, "--node-limit", 6000]):  # auto proves soon what choices alone proves
        found = succeeded(*command)
        assert "proved optimal" in found.stdout
        assert "105" in found.stdout
    succeeded(*tune, "--quick")
