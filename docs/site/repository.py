"""Hook of mkdocs: pages that link to files of the repository outside of `docs` find them on the site, too."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=(#[^)\s]*)?\))")
OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "SECURITY.md",
    "benchmarks/*.py",
    "benchmarks/suites/*.py",
    "benchmarks/results/*.json",
    "benchmarks/results/*.md",
    "benchmarks/results/*.png",
    "examples/*/*",
    "proofs/*.md",
    "proofs/coq/*",
)


def on_files(files: Files, config: Any) -> Files:
    """Add what pages may link to: files, and for each folder without a README a page that lists them."""
    folders: dict[Path, list[str]] = {}
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                place = _place(path.relative_to(ROOT).as_posix())
                files.append(File.generated(config, place, abs_src_path=str(path)))
                folders.setdefault(path.parent.relative_to(ROOT), []).append(path.name)
    for folder, names in folders.items():
        if "README.md" not in names:
            links = "\n".join(f"- [{name}]({name})" for name in names)
            place = _place(f"{folder.as_posix()}/index.md")
            files.append(File.generated(config, place, content=f"# {folder.as_posix()}\n\n{links}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to the places that files have on the site."""
    del config, files
    place = page.file.src_uri
    source = place.removeprefix("repository/") if place.startswith("repository/") else f"docs/{place}"

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if not (ROOT / target).exists() or target.startswith(".."):
            return match[1]
        if (ROOT / target).is_dir():
            target = posixpath.join(target, "README.md" if (ROOT / target / "README.md").exists() else "index.md")
        return posixpath.relpath(_place(target), posixpath.dirname(place) or ".")

    return LINK.sub(moved, markdown)


def _place(path: str) -> str:
    """Return where a file of the repository is among the pages."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"
