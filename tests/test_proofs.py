"""The proofs name functions, tests and theorems that exist, and Coq accepts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
PAGES = sorted(path for path in PROOFS.glob("*.md") if path.name != "README.md")
NOTHING = "written only"


class Lemma(NamedTuple):
    """What a page says about one lemma: number, title, and the names behind "Coq", "Used by" and "Tested by"."""

    number: str
    title: str
    coq: tuple[str, ...]
    used: tuple[str, ...]
    tested: tuple[str, ...]
    text: str


def names(line: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", line))


def lemmas() -> list[Lemma]:
    found = []
    for page in PAGES:
        for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            number, title = part.split("\n", 1)[0].split(". ", 1)
            used, tested, coq = (
                re.findall(rf"^- {what}: (.*)$", part, re.MULTILINE) for what in ("Used by", "Tested by", "Coq")
            )
            assert len(used) == len(tested) == len(coq) == 1, f"{number}: name functions, tests and theorems once"
            found.append(Lemma(number, title, names(coq[0]), names(used[0]), names(tested[0]), part))
    return found


LEMMAS = lemmas()


# What the pages say


@pytest.mark.parametrize("lemma", LEMMAS, ids=[lemma.number for lemma in LEMMAS])
def test_every_lemma_has_a_proof_and_what_it_names_exists(lemma: Lemma) -> None:
    assert lemma.text.index("**Lemma.**") < lemma.text.index("**Proof.**") < lemma.text.index("∎")
    assert lemma.used
    assert lemma.tested
    for name in lemma.used + lemma.tested:
        path, _, function = name.partition("::")
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(def|class) {function}\b", source, re.MULTILINE), f"{path} has no {function}"
    for name in lemma.coq:
        module, theorem = name.split(".")
        assert theorem in theorems(PROOFS / "coq" / f"{module}.v"), f"no theorem {name}"
    assert lemma.coq or f"- Coq: {NOTHING}" in lemma.text


def theorems(path: Path) -> list[str]:
    return re.findall(r"^ *(?:Theorem|Corollary) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_theorem_belongs_to_a_lemma() -> None:
    stated = [f"{path.stem}.{name}" for path in (PROOFS / "coq").glob("*.v") for name in theorems(path)]
    assert sorted(stated) == sorted(name for lemma in LEMMAS for name in lemma.coq)


def test_the_table_says_what_the_pages_say() -> None:
    row = r"^\| \[(\w\d+)\]\((\w+\.md)#[^)]*\) ([^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$"
    rows = re.findall(row, (PROOFS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    table = {row[0]: (row[2], names(row[3]), names(row[4]), names(row[5])) for row in rows}
    assert table == {one.number: (one.title, one.coq, one.used, one.tested) for one in LEMMAS}
    assert all((row[3] == NOTHING) == (not names(row[3])) for row in rows)


# What Coq says

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq: run proofs/coq/install.sh")


@needs_coq
def test_coq_accepts_the_proofs_without_axioms_of_our_own() -> None:
    run = subprocess.run(PROOFS / "coq" / "check.sh", capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    count = sum(len(theorems(path)) for path in (PROOFS / "coq").glob("*.v"))
    assert run.stdout.splitlines()[-1].startswith(f"{count} theorems rest on nothing but")


@needs_coq
@pytest.mark.slow
def test_the_independent_checker_accepts_them_too() -> None:
    subprocess.run([PROOFS / "coq" / "check.sh", "--independent"], timeout=1200, check=True, capture_output=True)


@needs_coq
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Axiom wrong : False.\nTheorem any : 1 = 2.\nProof. destruct wrong. Qed.\n", "Bad.wrong"),
        ("Theorem any : 1 = 2.\nProof. Admitted.\n", "Bad.any"),
        ("Theorem any : 1 = 2.\nProof. auto. Qed.\n", "incomplete proof"),
    ],
    ids=["axiom", "admitted", "wrong"],
)
def test_the_check_refuses_what_is_not_proved(tmp_path: Path, text: str, complaint: str) -> None:
    shutil.copy(PROOFS / "coq" / "check.sh", tmp_path)
    (tmp_path / "Bad.v").write_text(text)
    run = subprocess.run(tmp_path / "check.sh", capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode != 0
    assert complaint in run.stderr
