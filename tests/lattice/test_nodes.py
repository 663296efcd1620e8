"""Nodes of lattice searches: no path that wins in a cone is lost, and bounds of ratios are below every choice."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import oracle
import pytest
from graph_problems import Drawn

import lpmert
from lpmert import Lattices, Status
from lpmert.errors import FloatArray
from lpmert.methods.auto import Auto
from lpmert.methods.lattice.nodes import Expander, Findings, Ideals, all_mixes
from lpmert.metrics.text import BleuTexts, ChrfTexts, tokens_of_words
from lpmert.model.catalogue import Lists, no_lists
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.result import Limits
from lpmert.search.driver import solve

KINDS = ("integers", "ternary", "dyadic", "large", "steep")


def inside(rays: FloatArray) -> list[list[Fraction]]:
    """The sides of a cone, as limits."""
    exact = [[Fraction(value) for value in ray] for ray in rays.tolist()]
    n = len(exact)
    if n == 1:
        return exact
    if n == 2:
        (a, b), (c, d) = exact
        sign = 1 if a * d - b * c > 0 else -1
        return [[sign * d, sign * -c], [sign * -b, sign * a]]
    sides = []
    for k in range(3):
        p, q = exact[(k + 1) % 3], exact[(k + 2) % 3]
        cross = [p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]]
        sign = 1 if sum(x * y for x, y in zip(cross, exact[k], strict=True)) > 0 else -1
        sides.append([sign * value for value in cross])
    return sides


def winners(rows: list[list[Fraction]], offsets: list[int], rays: FloatArray) -> set[tuple[float, ...]]:
    """The features of the paths that some weights inside a cone make strictly best."""
    found = oracle.attainable(rows, offsets, inside(rays))
    return {tuple(float(value) for value in rows[row]) for (row,) in found}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_all_that_win_somewhere_in_the_cone(kind: str) -> None:
    """No path that some weights of the cone make strictly best is missing; without ties at its rays, no other stays."""
    left_over = listed = 0
    for seed in range(60):
        rng = np.random.default_rng(3000 + seed)
        width = int(rng.integers(1, 4))
        drawn = Drawn(seed, kind, 1, width)
        if not drawn.searchable:
            continue
        problem = LatticeProblem(drawn.lattices())
        rays = rng.integers(-8, 9, size=(width, width)).astype(float)
        if abs(np.linalg.det(rays)) < 0.5:
            continue
        expander = Expander(problem, 1000)
        view = expander.view(0, expander.whole(0), {}, rays, all_mixes(width), 10**6)
        assert view.part is None
        findings = Findings(problem, expander)
        ids, _ = findings.take(0, view)
        kept = {tuple(row) for row in findings.catalogue.features[ids].tolist()}
        factors = [Fraction(factor) for factor in problem.coordinates.scales.tolist()]
        features, offsets, _ = drawn.listed()
        rows = [[x * factor for x, factor in zip(row, factors, strict=True)] for row in features]
        must = winners(rows, offsets, rays)
        assert must <= kept
        left_over += len(kept - must)
        listed += len(kept)
        # The same of lists, in a smaller cone.
        narrower = rays.copy()
        narrower[0] = rays.sum(axis=0)
        lists, _, _, scores = findings.narrowed(no_lists().joined({0: ids}), narrower)
        assert isinstance(lists, Lists)
        assert len(scores) == len(lists.ids)
        still = {tuple(row) for row in findings.catalogue.features[lists.ids].tolist()}
        assert winners(rows, offsets, narrower) <= still <= kept
    assert listed > 50
    assert left_over <= 0.25 * listed


@pytest.mark.parametrize("labels", [1, 10])
def test_whole_paths_find_room_where_few_labels_do(labels: int) -> None:
    """However many paths are compared with each other, those that no others beat are the same as with much room."""
    compared = 0
    for seed in range(8):
        drawn = Drawn(seed, "dyadic", 2, 5)
        if drawn.searchable:
            problem = LatticeProblem(drawn.lattices())
            for number in range(2):
                few, many = (
                    expander.view(number, expander.whole(number), {}, np.eye(5), all_mixes(5), 1)
                    for expander in (Expander(problem, labels), Expander(problem, 1000))
                )
                assert np.array_equal(few.leading, many.leading)
                assert few.best.keys() == many.best.keys()
                compared += 1
    assert compared > 4


METRICS: tuple[Any, ...] = (
    BleuTexts(),
    BleuTexts(tokenize="none", lowercase=True, reference_length="shortest"),
    ChrfTexts(),
    ChrfTexts(char_order=3, word_order=2, lowercase=True),
)
WORDS = ["aa", "Ab", "b.", "1,5-a", "aa", "b"]


def drawn(seed: int, n_lattices: int) -> tuple[Lattices, list[list[str]]]:
    """Lattices of words that are several tokens, and the texts of all their paths."""
    found = Drawn(seed, "integers", n_lattices, 2)
    while not found.searchable:
        seed += 1000
        found = Drawn(seed, "integers", n_lattices, 2)
    rng = np.random.default_rng(seed)
    names = {"a": WORDS[seed % 6], "b": WORDS[(seed + 2) % 6], "c": WORDS[(seed + 3) % 6]}
    found.words = [None if word is None else names[word] for word in found.words]
    found.references = [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(n_lattices)]
    texts = [
        [" ".join(word for link in reversed(way) if (word := found.words[link])) for way in found.paths(s)]
        for s in range(n_lattices)
    ]
    return found.lattices(), texts


@pytest.mark.parametrize("settings", METRICS)
def test_the_bound_is_below_every_choice_of_paths(settings: Any) -> None:
    near = 0
    for seed in range(60, 85):
        lattices, texts = drawn(seed, 3)
        problem = LatticeProblem(lattices, settings)
        ideals = Ideals(problem)
        rows = [ideals.rows(number) for number in range(3)]
        kept = [{tuple(settings.counter(lattices.references[s])(text)) for text in texts[s]} for s in range(3)]
        if np.prod([len(own) for own in kept]) > 5000:
            continue
        least = min(problem.metric.loss(np.sum(chosen, axis=0)) for chosen in product(*kept))
        for middle in (None, np.array([next(iter(own)) for own in kept]).sum(axis=0)):
            known = [own for own in rows if own is not None]
            assert len(known) == 3
            bound = ideals.bound(known, middle) * problem.canonical.unit
            assert bound <= least + 1e-12
            near += bound > 0 and bound > 0.5 * least
    assert near > 4


@pytest.mark.parametrize("settings", METRICS)
def test_tokens_of_a_text_are_those_of_its_words(settings: Any) -> None:
    split = tokens_of_words(settings)
    assert split is not None
    rng = np.random.default_rng(5)
    letters = [*"aB3.,-&;$'\"ΣσИ<>/[]`~!%_ßİ", "<skipped>", "&quot;", "&amp;", "&lt;", "1.5", "a."]
    for _ in range(3000):
        words = ["".join(rng.choice(letters, rng.integers(1, 6))) for _ in range(rng.integers(1, 6))]
        assert list(split(" ".join(words))) == [token for word in words for token in split(word)]


def test_metrics_whose_tokens_are_not_those_of_words_have_no_bound_but_the_optimum() -> None:
    assert tokens_of_words(BleuTexts(tokenize="intl")) is None
    assert tokens_of_words(ChrfTexts(whitespace=True)) is None
    for settings in (BleuTexts(tokenize="intl"), ChrfTexts(whitespace=True)):
        lattices, _ = drawn(12, 2)
        result = lpmert.minimize(lattices, metric=settings)
        assert result.status is Status.OPTIMAL
        stopped = solve(Auto(), LatticeProblem(lattices, settings), Limits(node_limit=1))
        assert stopped.lower_bound <= result.loss
