"""The documentation becomes a site: every link leads somewhere, every public name is described, nothing is fetched."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shared import ROOT

import lpmert
import lpmert.methods
import lpmert.metrics


def built(folder: Path, *options: str) -> tuple[int, str]:
    """Build the site; return the exit code and what was said. Not --quiet: strictness counts only warnings it shows."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *options]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, env=environment, check=False)
    return run.returncode, run.stdout + run.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    code, said = built(folder)
    assert code == 0, said
    assert "Documentation built" in said
    assert "WARNING" not in said
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix("").as_posix().removesuffix("index")
        if page:
            place = f"{page.removesuffix('/')}/"
            assert f'href="{place}"' in home, path.name
            assert (site / place / "index.html").exists()


def test_no_page_is_in_the_navigation_twice(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    pages = re.findall(r'<a href="([^"#]+/)" class="md-nav__link"', home)
    assert len(pages) >= 20
    assert len(set(pages)) == len(pages)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "reference").rglob("index.html")]
    described = {name for page in pages for name in re.findall(r'id="(lpmert[\w.]*)"', page)}
    errors = {name for name in lpmert.__all__ if name.endswith("Error")}
    faces = {"formats", "methods", "metrics", "__version__"}
    expected = {f"lpmert.errors.{name}" for name in errors}
    expected |= {f"lpmert.{name}" for name in set(lpmert.__all__) - errors - faces}
    expected |= {f"lpmert.methods.{name}" for name in lpmert.methods.__all__}
    expected |= {f"lpmert.metrics.{name}" for name in lpmert.metrics.__all__}
    assert expected - described == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for path in site.rglob("*.html"):
        assert not fetched.findall(path.read_text(encoding="utf-8")), path.name
