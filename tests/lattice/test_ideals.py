"""Bounds of ratio metrics on lattices that have too many hypotheses: held to all paths, one by one."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from graph_problems import Drawn

import lpmert
from lpmert import Lattices, Status
from lpmert.methods.auto import Auto
from lpmert.methods.lattice.nodes import Ideals
from lpmert.metrics.text import BleuTexts, ChrfTexts, tokens_of_words
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.result import Limits
from lpmert.search.driver import solve

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
