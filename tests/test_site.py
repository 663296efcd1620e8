"""The documentation becomes a site: every link leads somewhere, every public name is described, nothing is fetched."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert run.returncode == 0, run.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        if path.stem != "index":
            assert f'href="{path.stem}/"' in home, path.name
            assert (site / path.stem / "index.html").exists()


def test_pages_find_what_lies_outside_of_them(site: Path) -> None:
    measured = (site / "measured" / "index.html").read_text(encoding="utf-8")
    assert 'href="../repository/benchmarks/results/growth/"' in measured
    assert (site / "repository" / "benchmarks" / "results" / "growth" / "index.html").exists()


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "index.html").read_text(encoding="utf-8")
    described = set(re.findall(r'id="(lpmert[\w.]*)"', page))
    errors = {name for name in lpmert.__all__ if name.endswith("Error")}
    faces = {"formats", "methods", "metrics", "__version__"}
    expected = {f"lpmert.errors.{name}" for name in errors}
    expected |= {f"lpmert.{name}" for name in set(lpmert.__all__) - errors - faces}
    expected |= {f"lpmert.methods.{name}" for name in lpmert.methods.__all__ if name != "Run"}
    expected |= {f"lpmert.metrics.{name}" for name in lpmert.metrics.__all__}
    assert expected - described == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for path in site.rglob("*.html"):
        assert not fetched.findall(path.read_text(encoding="utf-8")), path.name
