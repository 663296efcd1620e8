"""The proofs name functions, tests and theorems that exist, and Coq accepts them."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from shared import ROOT

import lpmert
from lpmert.numeric import rational

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
        stated = rf"^\s*(def|class|struct) {function}\b" if path.endswith(".py") else rf"^[\w ].*\b{function}\(.*[{{,]$"
        assert re.search(stated, source, re.MULTILINE), f"{path} has no {function}"
    for name in lemma.coq:
        module, theorem = name.split(".")
        assert theorem in theorems(PROOFS / "coq" / f"{module}.v"), f"no theorem {name}"
    assert lemma.coq or f"- Coq: {NOTHING}" in lemma.text


def theorems(path: Path) -> list[str]:
    return re.findall(r"^ *(?:Theorem|Corollary) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_theorem_belongs_to_a_lemma() -> None:
    stated = [f"{path.stem}.{name}" for path in (PROOFS / "coq").glob("*.v") for name in theorems(path)]
    assert sorted(stated) == sorted(name for lemma in LEMMAS for name in lemma.coq)


# What Coq says

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq: run proofs/coq/install.sh")


class Built(NamedTuple):
    """The folder of the compiled proofs, and what the check said."""

    folder: Path
    run: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("coq")
    environment = {**os.environ, "BUILD": str(folder)}
    command = PROOFS / "coq" / "check.sh"
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return Built(folder, run)


@needs_coq
@pytest.mark.slow
def test_coq_accepts_the_proofs_without_axioms_of_our_own(built: Built) -> None:
    assert built.run.returncode == 0, built.run.stdout + built.run.stderr
    count = sum(len(theorems(path)) for path in (PROOFS / "coq").glob("*.v"))
    assert built.run.stdout.splitlines()[-1].startswith(f"{count} theorems rest on nothing but")


@needs_coq
@pytest.mark.slow
def test_the_independent_checker_accepts_them_too() -> None:
    command = [PROOFS / "coq" / "check.sh", "--independent"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


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


# The checker that is proved, on problems solved by the package

Vector = Sequence[int]


class Small(NamedTuple):
    """Lists of different integer vectors, and their costs."""

    lists: list[list[Vector]]
    costs: list[list[int]]

    @property
    def optimum(self) -> int:
        offsets = np.cumsum([0, *map(len, self.lists)])
        losses = np.concatenate([np.array(one, dtype=float) for one in self.costs])
        nbest = lpmert.NBest(features=np.vstack(self.lists).astype(float), offsets=offsets, statistics=losses)
        result = lpmert.minimize(nbest)
        assert result.status.proved
        return int(result.loss)

    def rows(self, chosen: Sequence[int]) -> list[tuple[tuple[int, int], list[int]]]:
        """((list, other hypothesis), difference) for the choices of the first lists."""
        return [
            ((s, other), [a - b for a, b in zip(self.lists[s][pick], vector, strict=True)])
            for s, pick in enumerate(chosen)
            for other, vector in enumerate(self.lists[s])
            if other != pick
        ]

    def bound(self, chosen: Sequence[int], gone: set[tuple[int, int]]) -> int:
        rest = range(len(chosen), len(self.lists))
        left = sum(min((c for j, c in enumerate(self.costs[s]) if (s, j) not in gone), default=10**6) for s in rest)
        return left + sum(self.costs[s][pick] for s, pick in enumerate(chosen))


def random_problem(rng: np.random.Generator, width: int, n_lists: int) -> Small:
    lists, costs = [], []
    for _ in range(n_lists):
        vectors = np.unique(rng.integers(-3, 4, size=(4, width)), axis=0)
        lists.append(vectors.tolist())
        costs.append(rng.integers(0, 9, len(vectors)).tolist())
    return Small(lists, costs)


def by_choices(
    problem: Small, target: int, chosen: list[int], gone: set[tuple[int, int]], normals: Sequence[Vector] = ()
) -> str:
    """Return a tree over the choices of one list after the other; normals: of the cone that the weights lie in."""
    rows = problem.rows(chosen)
    answer = rational.decide([row for _, row in rows] + [list(normal) for normal in normals])
    if isinstance(answer, rational.Infeasible):
        triples = zip(answer.multipliers, rows, strict=False)
        return f"Core [{'; '.join(f'({m}%Z, ({s}, {other}))' for m, ((s, other), _) in triples if m)}]"
    if problem.bound(chosen, gone) >= target:
        return "Bounded []"
    s = len(chosen)
    picks = range(len(problem.lists[s]))
    children = [by_choices(problem, target, [*chosen, pick], gone, normals) for pick in picks]
    return f"Branch {s} [{'; '.join(children)}]"


def by_cones(problem: Small, target: int, rays: list[Vector], depth: int) -> str:
    """Return a tree over cones of the plane, closed by choices where it gets deep."""
    beaten: dict[tuple[int, int], int] = {}
    for s, one in enumerate(problem.lists):
        scores = [[sum(a * b for a, b in zip(vector, ray, strict=True)) for ray in rays] for vector in one]
        for h, own in enumerate(scores):
            for j, other in enumerate(scores):
                if j != h and (s, j) not in beaten and all(a <= b for a, b in zip(own, other, strict=True)):
                    beaten[s, h] = j
    opening = "".join(f"Beaten {s} {h} {j} (" for (s, h), j in beaten.items())
    if problem.bound([], set(beaten)) >= target:
        inner = "Bounded []"
    elif depth:
        a, b = (1, 1) if depth % 2 else (1, 2)
        between = [a * x + b * y for x, y in zip(*rays, strict=True)]
        parts = [by_cones(problem, target, pair, depth - 1) for pair in ([between, rays[1]], [rays[0], between])]
        inner = f"Split 0 1 {a}%Z {b}%Z ({parts[0]}) ({parts[1]})"
    else:
        (x, y), (u, v) = rays
        sign = 1 if x * v - y * u > 0 else -1
        normals = [[sign * v, -sign * u], [-sign * y, sign * x]]
        inner = by_choices(problem, target, [], set(beaten), normals)
    return opening + inner + ")" * len(beaten)


def statement(number: int, width: int, problem: Small, target: int, tree: str, answer: str) -> str:
    hypotheses = [
        "; ".join(
            f"{{| features := [{'; '.join(map(str, v))}]; price := {c} |}}" for v, c in zip(one, cost, strict=True)
        )
        for one, cost in zip(problem.lists, problem.costs, strict=True)
    ]
    return (
        f"Goal check {width} [{'; '.join(f'[{one}]' for one in hypotheses)}]%Z {target}%Z ({tree}) start = {answer}.\n"
        f"Proof. (* {number} *) vm_compute. reflexivity. Qed.\n"
    )


@needs_coq
@pytest.mark.slow
def test_the_proved_checker_accepts_optima_and_nothing_higher(built: Built) -> None:
    rng = np.random.default_rng(0)
    text = "From Coq Require Import List ZArith.\nFrom Lpmert Require Import Checker.\nImport ListNotations.\n"
    quadrants = [[[a, 0], [0, b]] for b in (1, -1) for a in (1, -1)]
    for number in range(16):
        width = 2 if number % 2 else int(rng.integers(1, 4))
        problem = random_problem(rng, width, int(rng.integers(2, 5)))
        optimum = problem.optimum
        tree = by_choices(problem, optimum, [], set())
        text += statement(number, width, problem, optimum, tree, "true")
        text += statement(number, width, problem, optimum + 1, tree, "false")
        if width == 2:
            cones = [by_cones(problem, optimum, rays, 3) for rays in quadrants]
            text += statement(number, 2, problem, optimum, f"Orthants [{'; '.join(cones)}]", "true")
    assert "Split" in text
    assert "Core" in text
    (built.folder / "Optima.v").write_text(text)
    command = ["coqc", "-q", "-Q", ".", "Lpmert", "Optima.v"]
    run = subprocess.run(command, cwd=built.folder, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
