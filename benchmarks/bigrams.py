"""Bigram models, with another model as a prior."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

Probability = Callable[[str, str], float]  # returns the probability of a word after another
WORDS = 50_000  # size of the vocabulary
_MASS = 10.0  # mass of the unigram model as a prior, in words


class Bigrams:
    """Probabilities of words after others, with a Dirichlet prior: `mass` times another model joins the counts."""

    def __init__(self, sentences: Sequence[Sequence[str]], prior: Probability, mass: float) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._firsts: Counter[str] = Counter()
        for words in sentences:
            whole = ["<s>", *words, "</s>"]
            self._pairs.update(pairwise(whole))
            self._firsts.update(whole[:-1])
        self._prior, self._mass = prior, mass

    def __call__(self, first: str, second: str) -> float:
        """Return the probability of a word after another."""
        count = self._pairs[first, second] + self._mass * self._prior(first, second)
        return count / (self._firsts[first] + self._mass)


def background_model(sentences: Sequence[Sequence[str]]) -> Probability:
    """Return a bigram model with a unigram model as its prior."""
    counts = Counter(word for words in sentences for word in [*words, "</s>"])
    total = counts.total()

    def single(_: str, word: str) -> float:
        return (counts[word] + _MASS / WORDS) / (total + _MASS)

    return Bigrams(sentences, single, _MASS)
