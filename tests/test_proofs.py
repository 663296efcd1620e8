"""The proofs name what exists, Coq accepts them, and their lemmas and counterexamples hold in numbers."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from oracle import dot, strictly_feasible
from shared import ROOT

import lpmert
from lpmert import Problem, Region
from lpmert.core import lay_minorant
from lpmert.interpretable import _narrowed, _relaxed
from lpmert.methods import LpMert
from lpmert.methods.lp_mert import AttainabilityOracle
from lpmert.metrics.ratio import Budget
from lpmert.model.presolve import fixed_point
from lpmert.model.region import limits_of
from lpmert.numeric import rational
from lpmert.numeric.cone import covering_cones, enclosing_cone, project
from lpmert.numeric.lists import Cap, rounding_bound

PROOFS = ROOT / "proofs"
PAGES = sorted(path for path in PROOFS.glob("*.md") if path.name != "README.md")


class Lemma(NamedTuple):
    """What a page says about one lemma: its number, and the names behind "Coq", "Used by" and "Tested by"."""

    number: str
    coq: tuple[str, ...]
    used: tuple[str, ...]
    tested: tuple[str, ...]
    text: str


def lemmas() -> list[Lemma]:
    found = []
    for page in PAGES:
        for part in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            number = part.partition(". ")[0]
            stated = [re.findall(rf"^- {what}: (.*)$", part, re.MULTILINE) for what in ("Coq", "Used by", "Tested by")]
            assert [*map(len, stated)] == [1, 1, 1], f"{number}: name functions, tests and theorems once"
            found.append(Lemma(number, *(tuple(re.findall(r"`([^`]+)`", line)) for (line,) in stated), part))
    return found


LEMMAS = lemmas()


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
    assert lemma.coq or "- Coq: written only" in lemma.text


def theorems(path: Path) -> list[str]:
    return re.findall(r"^ *(?:Theorem|Corollary) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_theorem_belongs_to_a_lemma() -> None:
    stated = [f"{path.stem}.{name}" for path in (PROOFS / "coq").glob("*.v") for name in theorems(path)]
    assert sorted(stated) == sorted(name for lemma in LEMMAS for name in lemma.coq)


# What Coq says

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="needs Coq: run proofs/coq/install.sh")


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200, check=False, **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of the compiled proofs, and what the check said."""
    folder = tmp_path_factory.mktemp("coq")
    return folder, run(PROOFS / "coq" / "check.sh", env={**os.environ, "BUILD": str(folder)})


@needs_coq
@pytest.mark.slow
def test_coq_and_its_independent_checker_accept_the_proofs_without_axioms_of_our_own(built) -> None:
    _, done = built
    assert done.returncode == 0, done.stdout + done.stderr
    count = sum(len(theorems(path)) for path in (PROOFS / "coq").glob("*.v"))
    assert done.stdout.splitlines()[-1].startswith(f"{count} theorems rest on nothing but")
    done = run(PROOFS / "coq" / "check.sh", "--independent")
    assert done.returncode == 0, done.stdout + done.stderr


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
    done = run(tmp_path / "check.sh")
    assert done.returncode != 0
    assert complaint in done.stderr


# The checker that is proved, on problems solved by the package

Vector = Sequence[int]


class Small(NamedTuple):
    """Lists of different integer vectors, and their costs."""

    lists: list[list[Vector]]
    costs: list[list[int]]

    @property
    def nbest(self) -> lpmert.NBest:
        offsets = np.cumsum([0, *map(len, self.lists)])
        return lpmert.NBest(np.vstack(self.lists).astype(float), offsets, np.concatenate(self.costs).astype(float))

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
    lists = [np.unique(rng.integers(-3, 4, size=(4, width)), axis=0).tolist() for _ in range(n_lists)]
    return Small(lists, [rng.integers(0, 9, len(one)).tolist() for one in lists])


def by_choices(
    problem: Small, target: int, chosen: list[int], gone: set[tuple[int, int]], normals: Sequence[Vector] = ()
) -> str:
    """Return a tree over the choices of one list after the other; normals: of the cone that the weights lie in."""
    rows = problem.rows(chosen)
    _, multipliers = rational.decide([row for _, row in rows] + [list(normal) for normal in normals])
    if multipliers:
        triples = zip(multipliers, rows, strict=False)
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
        scores = [[dot(vector, ray) for ray in rays] for vector in one]
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
    lists = []
    for one, costs in zip(problem.lists, problem.costs, strict=True):
        pairs = [("; ".join(map(str, vector)), cost) for vector, cost in zip(one, costs, strict=True)]
        lists.append("; ".join(f"{{| features := [{vector}]; price := {cost} |}}" for vector, cost in pairs))
    goal = f"check {width} [[{']; ['.join(lists)}]]%Z {target}%Z ({tree}) start = {answer}"
    return f"Goal {goal}.\nProof. (* {number} *) vm_compute. reflexivity. Qed.\n"


@needs_coq
@pytest.mark.slow
def test_the_proved_checker_accepts_optima_and_nothing_higher(built) -> None:
    folder, _ = built
    rng = np.random.default_rng(0)
    text = "From Coq Require Import List ZArith.\nFrom Lpmert Require Import Checker.\nImport ListNotations.\n"
    quadrants = [[[a, 0], [0, b]] for b in (1, -1) for a in (1, -1)]
    for number in range(16):
        width = 2 if number % 2 else int(rng.integers(1, 4))
        problem = random_problem(rng, width, int(rng.integers(2, 5)))
        result = lpmert.minimize(problem.nbest)
        assert result.status.proved
        optimum = int(result.loss)
        tree = by_choices(problem, optimum, [], set())
        text += statement(number, width, problem, optimum, tree, "true")
        text += statement(number, width, problem, optimum + 1, tree, "false")
        if width == 2:
            cones = [by_cones(problem, optimum, rays, 3) for rays in quadrants]
            text += statement(number, 2, problem, optimum, f"Orthants [{'; '.join(cones)}]", "true")
    assert "Split" in text
    assert "Core" in text
    (folder / "Optima.v").write_text(text)
    done = run("coqc", "-q", "-Q", ".", "Lpmert", "Optima.v", cwd=folder)
    assert done.returncode == 0, done.stderr


# Lemmas in numbers, and the functions that rely on them: the problem, selections, cones, ratio metrics, regions

pytestmark = pytest.mark.usefixtures("poor_start")


def test_half_a_unit_for_each_list_is_reached() -> None:
    # One loss of 1 sets the unit to 2^-58; the others are half a unit, and rounded to even, that is to 0.
    n_lists = 8
    losses = np.zeros(2 * n_lists + 2)
    losses[1], losses[3::2] = 1.0, 2.0**-59
    offsets = np.arange(0, len(losses) + 1, 2)
    rounded = fixed_point(losses, offsets)
    assert (rounded.unit, rounded.rounded) == (2.0**-58, True)
    exact = sum(Fraction(one) for one in losses[1::2].tolist())
    found = Fraction(rounded.unit) * (rounded.constant + sum(rounded.costs[1::2].tolist()))
    assert exact - found == n_lists * Fraction(rounded.unit) / 2


@pytest.mark.parametrize("seed", range(5))
def test_differences_of_scores_are_off_by_less_than_their_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(2, 20))
    features = rng.normal(size=(40, width)) * 10.0 ** rng.integers(-3, 4, size=(40, width))
    form = Problem(lpmert.NBest(features, [0, 40], np.arange(40.0))).canonical
    weights = rng.normal(size=form.n_features)
    bound = rounding_bound(weights, form.reach)
    scores = form.features @ weights
    exact = [dot(row, weights.tolist()) for row in form.features.tolist()]
    for i, j in combinations(range(40), 2):
        assert abs(Fraction(scores[i] - scores[j]) - (exact[i] - exact[j])) < Fraction(bound)


# The examples of S3: lists in the plane, and the positions chosen.
CROSS: list[Vector] = [[0, 0], [1, 0], [-1, 0]]
STEP: list[Vector] = [[0, 0], [0, 1]]
EDGE: list[Vector] = [[0, 0], [1, 0], [2, 0], [0, -1]]
RIGHT: list[Vector] = [[0, 0], [1, 0], [2, 0]]
LEFT: list[Vector] = [[0, 0], [-1, 0], [-2, 0]]


@pytest.mark.parametrize(
    ("lists", "chosen", "passes", "attainable"),
    [
        ([CROSS], (0,), False, False),  # E1: interior in a part, extreme in the whole
        ([CROSS, STEP], (0, 1), True, False),
        ([RIGHT, LEFT], (0, 0), False, False),  # E2: the same three lists, combined in two orders
        ([RIGHT, STEP], (0, 0), True, True),
        ([RIGHT, LEFT, STEP], (0, 0, 0), True, False),
        ([EDGE], (1,), True, False),  # E4: a point inside an edge
    ],
)
def test_the_published_test_on_the_examples(
    lists: list[list[Vector]], chosen: tuple[int, ...], passes: bool, attainable: bool
) -> None:
    small = Small(lists, [[*range(len(one))] for one in lists])
    form = Problem(small.nbest).canonical
    assert form.n_lists == len(lists)
    weights = AttainabilityOracle(form.by_cost).published_weights(np.arange(len(lists)), np.array(chosen))
    assert (weights is not None) == passes
    assert strictly_feasible([row for _, row in small.rows(chosen)]) == attainable


@pytest.mark.parametrize(("lists", "proved"), [([RIGHT, STEP, LEFT], False), ([RIGHT, LEFT, STEP], True)])
def test_the_published_result_depends_on_the_order_of_the_lists(lists: list[list[Vector]], proved: bool) -> None:
    nbest = Small(lists, [[min(k, 1) for k in range(len(one))] for one in lists]).nbest
    assert lpmert.minimize(nbest, method="lp-mert").loss == 1.0
    result = lpmert.minimize(nbest, method=LpMert(published=True))
    assert result.status.proved is proved
    assert (result.loss == 1.0) is proved


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 14])
def test_every_vector_lies_in_a_starting_cone(width: int) -> None:
    rng = np.random.default_rng(width)
    inverses = np.linalg.inv(list(covering_cones(width)))
    vectors = np.vstack([rng.normal(size=(200, width)), rng.integers(-1, 2, size=(200, width))])
    coordinates = vectors @ inverses
    assert (coordinates >= -1e-12).all(axis=2).any(axis=0).all()


def test_bounds_of_budgets_lie_below_the_loss() -> None:
    """In fractions; units are such that losses or excess come up to 1/2 and beyond, where f is cut off."""
    rng = np.random.default_rng(11)
    seen = dict.fromkeys(("within", "beyond", "priced"), 0)
    for _ in range(1500):
        lists = [rng.integers(0, 9, (int(rng.integers(1, 4)), 2)) for _ in range(int(rng.integers(1, 4)))]
        lists = [one * int(rng.choice([1, 10**5])) for one in lists]
        low, high = (sum(end(one, axis=0) for one in lists).astype(float) for end in (np.min, np.max))
        most = float(max(0, int(rng.integers(low[1] - 2, high[1] + 3))))
        unit, beyond = (2.0 ** float(rng.integers(-26, -2)) for _ in range(2))
        metric, at = Budget(most, unit, beyond), rng.uniform(low, high)
        constant, slopes = lay_minorant(metric.kind, metric.parameters, low, high, at)
        for picks in product(*(range(len(one)) for one in lists)):
            loss, second = (int(sum(one[pick][k] for one, pick in zip(lists, picks, strict=True))) for k in range(2))
            exact = min(Fraction(1, 2), Fraction(unit) * loss)
            if second > most:
                exact = min(Fraction(1), Fraction(1, 2) + Fraction(beyond) * (second - int(most)))
            assert exact == Fraction(metric.loss(np.array([loss, second], dtype=float)))
            below = Fraction(constant) + Fraction(float(slopes[0])) * loss + Fraction(float(slopes[1])) * second
            assert below <= exact
            if high[1] <= most and unit * high[0] <= 0.5:
                seen["within"] += 1
                assert exact - below < 1e-12
            if low[1] > most and beyond * (high[1] + most) <= 0.5:
                seen["beyond"] += 1
                assert exact - below < 1e-12
        seen["priced"] += bool(slopes[0] and slopes[1])
    assert min(seen.values()) > 100


def test_a_cell_that_only_touches_the_cap_is_not_in_it() -> None:
    # The cell {w1 > 0, 4 w1 < 3 w2} and w0 = (1, 0): the closed cell reaches the cosine 3/5 at (3, 4) only.
    rows, centre = np.array([[1.0, 0.0], [-4.0, 3.0]]), np.array([1.0, 0.0])
    nearest, multipliers = project(rows, centre)
    assert nearest == pytest.approx([0.36, 0.48])
    assert (multipliers >= 0).all()
    edge = np.array([3.0, 4.0])
    assert Cap(centre, 0.6).contains(edge) == (Fraction(0.6) <= Fraction(3, 5))
    rng = np.random.default_rng(0)
    inside = rng.normal(size=(20000, 2))
    inside = inside[(inside @ rows.T > 0).all(axis=1)]
    assert len(inside) > 1000
    assert (inside @ centre < 0.6 * np.linalg.norm(inside, axis=1)).all()
    nbest = lpmert.NBest([[0, 0], [-1, 0], [4, -3]], [0, 3], [0, 1, 1])
    for cosine, least in ((0.61, 1.0), (0.59, 0.0)):
        region = Region(cosine=cosine, around=[1.0, 0.0])
        assert lpmert.minimize(nbest, method="choices", region=region).loss == least


@pytest.mark.parametrize("value", [1.0, -1.0, 0.5, -4.0])
@pytest.mark.parametrize("limit", [0.25, -0.25, 3.0])
def test_limits_with_a_reference_hold_exactly_where_the_scaled_weights_keep_them(value: float, limit: float) -> None:
    region = Region(fixed={"a": value}, bounds={"b": (limit, None)})
    limits = limits_of(region, ["a", "b", "c"])
    rng = np.random.default_rng(0)
    for w in rng.integers(-8, 9, size=(200, 3)).astype(float):
        if w[0] * value <= 0:
            continue
        scaled = [Fraction(value) / Fraction(w[0]) * Fraction(one) for one in w.tolist()]
        assert all(dot(row, w.tolist()) >= 0 for row in limits.rows.tolist()) == (scaled[1] >= Fraction(limit))


@pytest.mark.parametrize("width", range(2, 9))
def test_a_cone_encloses_rays_however_flat(width: int) -> None:
    rng = np.random.default_rng(width)
    flat = 0
    for k in range(60):
        rays = rng.normal(size=width) + 10.0 ** -rng.integers(1, 9) * rng.normal(size=(width, width))
        if k % 2:  # all but in one plane
            rays -= (1 - 1e-13) * np.outer(rays @ np.eye(width)[0], np.eye(width)[0])
        enclosing = enclosing_cone(rays)
        if enclosing is None:
            continue
        normals, wider = enclosing
        flat += int(np.linalg.cond(rays) > 1e8)
        for ray, normal in product(rays, normals):  # in exact arithmetic
            assert dot(ray, normal) > 0
        assert (np.linalg.inv(normals).T @ np.linalg.inv(wider) > 0).all()
    assert flat > 10
    for second in ([-1.0, 1e-14], [0.0, 0.0]):  # rays that lead everywhere
        assert enclosing_cone(np.array([[1.0, 0.0], second])) is None


def test_limits_in_whole_numbers_rule_out_no_weights_of_the_cone() -> None:
    """All whole weights of small cones, with features whose digits are cut off."""
    rng = np.random.default_rng(5)
    kept = 0
    for _ in range(40):
        width, size = int(rng.integers(1, 4)), 4
        centre = rng.normal(size=width)
        limits = rng.normal(size=(5, width)) * 10.0 ** rng.integers(-8, 9)
        limits *= np.sign(limits @ centre)[:, None]
        whole = _relaxed(limits)
        box = _narrowed(whole, np.full(width, -size), np.full(width, size), size * width)
        for weights in product(range(-size, size + 1), repeat=width):
            if min(dot(row, weights) for row in limits.tolist()) > 0:
                kept += 1
                assert (box[0] <= weights).all()
                assert (weights <= box[1]).all()
                assert (whole @ np.array(weights) > -size * width).all()
    assert kept > 50
